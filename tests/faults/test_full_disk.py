"""Without room to write a command ends with one line, keeps what was whole, and goes on when there is room."""

import re
import subprocess

import pytest

from hf_localattn.training.output_folder import missing_parts
from tests.faults.commands import COMMANDS, OUT, Warm, assert_same, case, last_line, log_of, outcome

ERROR = re.compile(
    r"error: Cannot write \S*out\S*: .+\."
    r" (Make room \(\d+\.\d GB are free there\)|Raise the limit on the size of files)"
    r".*, and repeat the command\."
)


def assert_told(folder):
    assert ERROR.match(last_line(folder)), log_of(folder)
    assert "Traceback" not in log_of(folder)


def test_the_last_checkpoint_stays_whole(warm, undisturbed, tmp_path):
    """Weights may be as long as they are, and the optimizer's state may not."""
    expected, _ = undisturbed("qa")
    folder = case(tmp_path / "qa")
    warm.run("qa", folder, before="os.mkdir checkpoint-4")
    for limit in (7_000_000, 3_000_000):
        assert warm.run("qa", folder, limit=limit) == 2
        assert_told(folder)
        assert [path.name for path in (folder / OUT).glob("*checkpoint*")] == ["checkpoint-2"]
        assert not missing_parts(folder / OUT / "checkpoint-2")
    assert warm.run("qa", folder) == 0
    assert_same(outcome(folder), expected)


def test_init_leaves_nothing(warm, tmp_path):
    folder = case(tmp_path / "init")
    assert warm.run("init", folder, limit=500_000) == 2
    assert_told(folder)
    assert not (folder / OUT).exists()


@pytest.mark.slow(reason="commands that fail at a dozen sizes each: ten minutes")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_whatever_does_not_fit(warm, undisturbed, tmp_path, name):
    """No file may be longer than any size that one has."""
    expected, _ = undisturbed(name)
    folder = case(tmp_path / name)
    told = 0
    for limit in (1 << power for power in range(12, 25)):  # smaller ones would not even hold the log
        code = warm.run(name, folder, limit=limit)
        if code == 0:
            break
        assert code == 2, log_of(folder)
        assert_told(folder)
        told += 1
    print(f"\n{name}: {told} sizes that did not fit")
    if code:
        assert warm.run(name, folder) == 0
    assert_same(outcome(folder), expected)


@pytest.mark.slow(reason="a disk of its own that fills up: some minutes")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_is_full(undisturbed, tmp_path, name):
    """A small tmpfs, which gets larger until the command ends."""
    expected, _ = undisturbed(name)
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("this user may not mount")
    told = 0
    try:
        with Warm(tmp_path) as warm:
            folder = case(tmp_path / name)
            (folder / OUT).symlink_to(disk)
            for megabytes in (1, 4, 9, 14, 24, 40, 200):
                subprocess.run(["mount", "-o", f"remount,size={megabytes}m", str(disk)], check=True)
                code = warm.run(name, folder)
                if code == 0:
                    break
                assert code == 2, log_of(folder)
                assert_told(folder)
                told += 1
        print(f"\n{name}: {told} disks were full; {megabytes} MB were enough")
        assert_same(outcome(folder), expected)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert told >= 2
