"""`hf-localattn verify`: no byte of a checkpoint's code differs from the package's unseen."""

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModel

from hf_localattn import __version__
from hf_localattn.cli import main
from hf_localattn.hub import init_checkpoint, push_checkpoint, verify_checkpoint, write_card
from hf_localattn.registry import FAMILIES
from tests.models.tiny import tiny_model

NAME = "somebody/verified"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of each family, as `init` writes it."""
    folder = tmp_path_factory.mktemp("made")
    return {family: init_checkpoint(family, "tiny", folder / family) for family in FAMILIES}


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made["oa-xlnet"], tmp_path / "model")


def verdicts(checkpoint):
    return {file.name: file.verdict for file in verify_checkpoint(checkpoint).files if file.verdict != "equal"}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_saved_is_equal(family, made, tmp_path, capsys):
    found = verify_checkpoint(made[family])
    assert found.is_equal
    assert {file.name for file in found.files} == {path.name for path in made[family].glob("*.py")}
    assert found.saved_by == found.compared_with == __version__
    AutoModel.from_pretrained(made[family]).save_pretrained(tmp_path / "again")
    assert main(["verify", str(tmp_path / "again")]) == 0
    assert f"Compared with hf_localattn {__version__}: " in capsys.readouterr().out


@settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_every_flipped_byte_is_found(folder, data):
    path = data.draw(st.sampled_from(sorted(folder.glob("*.py"))))
    content = path.read_bytes()
    place, bits = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(1, 255))
    path.write_bytes(content[:place] + bytes([content[place] ^ bits]) + content[place + 1 :])
    try:
        assert verdicts(folder) == {path.name: "differs"}
    finally:
        path.write_bytes(content)


def test_each_difference_is_shown(folder, capsys):
    path = folder / "modeling_oa_xlnet.py"
    path.write_text(path.read_text() + "import os  # \x1b[2J and more\n")
    (folder / "cool_convolution.py").write_text("")
    (folder / "masking.py").unlink()
    (folder / "custom_generate").mkdir()
    shutil.copytree(folder, folder / "checkpoint-7")  # a checkpoint by itself
    (folder / "custom_generate" / "generate.py").write_text("print('hello')\n")
    (folder / "evil\x1b[2J.so").write_bytes(b"\x7fELF")
    assert main(["verify", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "+import os  # \\x1b[2J and more" in out
    assert "\x1b" not in out
    assert "differs  cool_convolution.py" in out  # of another family, so not needed, but not the package's either
    assert "missing  masking.py" in out
    assert "extra    custom_generate/generate.py" in out
    assert "extra    evil\\x1b[2J.so" in out
    assert "2 different, 1 missing, 2 extra." in out


def test_a_large_file_takes_no_time(folder):
    (folder / "masking.py").write_bytes(b"a\nb\n" * 1_000_000)
    (difference,) = [file.difference for file in verify_checkpoint(folder).files if file.name == "masking.py"]
    assert difference.startswith("  4,000,000 bytes, not ")


@pytest.mark.parametrize(
    ("file", "content", "entry"),
    [
        (
            "config.json",
            {"auto_map": {"AutoModel": "evil/code--modeling_oa_xlnet.OaXLNetModel"}},
            "auto_map.AutoModel",
        ),
        ("config.json", {"auto_map": {"AutoModel": "../x.Model"}}, "auto_map.AutoModel"),
        (
            "config.json",
            {"backbone_config": {"auto_map": {"AutoConfig": "x.Y"}}},
            "backbone_config.auto_map.AutoConfig",
        ),
        ("config.json", {"custom_pipelines": {"a": {"impl": "evil.P"}}}, "custom_pipelines.a.impl"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": [None, "x.Y"]}}, "auto_map.AutoTokenizer.1"),
    ],
)
def test_code_that_a_configuration_names_is_found(file, content, entry, folder):
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | content))
    assert verdicts(folder)[f"{file}: {entry}"] == "extra"


def test_the_version_that_is_named_is_told(folder, capsys):
    path = folder / "config.json"
    content = json.loads(path.read_text())
    assert content["hf_localattn_version"] == __version__
    path.write_text(json.dumps(content | {"hf_localattn_version": "9.9.9"}))
    assert main(["verify", str(folder)]) == 0
    assert "Install hf_localattn==9.9.9 in another environment" in capsys.readouterr().out
    del content["hf_localattn_version"]
    path.write_text(json.dumps(content))
    assert main(["verify", str(folder)]) == 0
    assert "does not say which version" in capsys.readouterr().out


def test_loading_and_saving_names_the_version_anew(tmp_path):
    model = tiny_model("cool")
    model.config.hf_localattn_version = "0.0.1"
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["hf_localattn_version"] == __version__
    assert AutoModel.from_pretrained(tmp_path).config.hf_localattn_version == __version__


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not a checkpoint folder: it has no config.json"),
        ("{", "config.json cannot be read"),
        ('{"model_type": "bert"}', "There is no family 'bert'"),
    ],
)
def test_what_is_no_checkpoint_is_one_line(content, message, tmp_path, capsys):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(tmp_path)])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_repository_is_verified_at_a_revision(hub, folder, capsys):
    first = push_checkpoint(folder, NAME)
    (folder / "masking.py").write_text("# changed\n")
    second = push_checkpoint(folder, NAME)
    for revision, code in ((f"@{first.oid}", 0), (f"@{second.oid}", 1), ("", 1)):
        assert main(["verify", f"{NAME}{revision}"]) == code
    with pytest.raises(SystemExit):
        main(["verify", "somebody/nothing"])
    assert "Cannot load the checkpoint 'somebody/nothing'" in capsys.readouterr().err


def test_pushing_other_code_warns_and_the_card_tells(hub, folder, caplog):
    push_checkpoint(folder, NAME)
    assert not [record for record in caplog.records if "differs from hf_localattn" in record.message]
    assert f"The code files equal those of hf_localattn {__version__}." in hub.files(NAME)["README.md"].decode()
    (folder / "masking.py").write_text("# changed\n")
    commit = push_checkpoint(folder, NAME)
    assert f"differs from hf_localattn {__version__}: masking.py (differs)" in caplog.text
    card = hub.files(NAME)["README.md"].decode()
    assert f"Some code files differ from those of hf_localattn {__version__}: `masking.py` (differs)." in card
    assert (
        f"`hf-localattn verify {NAME}@{commit.oid}` compares the code files with those of the package, byte for byte."
        in card
    )
    assert "Its files equal" not in write_card(folder).read_text()
