"""`hf-localattn verify`: a checkpoint is accepted only if all code that it has or names is the package's."""

import json
import os
import shutil

import pytest
from transformers import AutoModel

from hf_localattn import __version__
from hf_localattn.cli import main
from hf_localattn.hub import init_checkpoint, push_checkpoint, verify_checkpoint, write_card
from hf_localattn.registry import FAMILIES

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
    return {file.name: file.verdict for file in verify_checkpoint(checkpoint).others}


def write(path, content):
    """Write a JSON file, with the entries that it has already."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps((json.loads(path.read_text()) if path.is_file() else {}) | content))


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_saved_is_equal(family, made, tmp_path, capsys):
    found = verify_checkpoint(made[family])
    assert found.is_equal
    code = {path.name: path.read_text().count("\n") for path in made[family].glob("*.py")}
    assert {file.name: file.lines for file in found.files} == code
    assert found.compared_with == __version__
    AutoModel.from_pretrained(made[family]).save_pretrained(tmp_path / "again")
    assert main(["verify", "--list", str(tmp_path / "again")]) == 0
    told = capsys.readouterr().out
    assert all(f"{path.name}: {code[path.name]} lines" in told for path in (tmp_path / "again").glob("*.py"))
    assert f"Equal to hf_localattn {__version__}: " in told


def test_all_files_that_are_not_equal_are_told(folder, capsys):
    shutil.copytree(folder, folder / "checkpoint-7")  # a checkpoint by itself
    (folder / "modeling_oa_xlnet.py").write_text("import os\n")
    (folder / "sam_attention.py").write_text("")  # of another family: this one does not carry it
    (folder / "masking.py").unlink()
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text("print('hello')\n")
    (folder / "checkpoint-7" / "masking.py").write_text("")
    (folder / "checkpoint-7" / "oa_attention.py").unlink()
    (folder / "evil\x1b[2J.so").write_bytes(b"\x7fELF")
    os.mkfifo(folder / "pipe.json")
    assert main(["verify", str(folder)]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[:-1] == [
        "differs  checkpoint-7/masking.py",
        "missing  checkpoint-7/oa_attention.py",
        "extra    custom_generate/generate.py",
        "extra    evil\\x1b[2J.so",
        "missing  masking.py",
        "differs  modeling_oa_xlnet.py",
        "extra    pipe.json: no regular file",
        "extra    sam_attention.py",
    ]
    assert out.splitlines()[-1].startswith("Not equal: 8 files or entries")


NAMED = {
    "another repository": ("config.json", {"auto_map": {"AutoModel": "evil/code--modeling_oa_xlnet.OaXLNetModel"}}),
    "the backbone": ("config.json", {"backbone_config": {"auto_map": {"AutoConfig": "x.Y"}}}),
    "a pipeline": ("config.json", {"custom_pipelines": {"a": {"impl": "evil.P"}}}),
    "a pipeline's model": ("config.json", {"custom_pipelines": {"a": {"default": {"model": ["evil/model", "main"]}}}}),
    "code named as weights": ("config.json", {"custom_pipelines": {"weight_map": {"impl": "x.safetensors"}}}),
    "a tokenizer": ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": [None, "x.Y"]}}),
    "a kernel": ("config.json", {"attn_implementation": "evil/kernel"}),
    "kernels by part": ("config.json", {"attn_implementation": {"backbone_config": "evil/kernel"}}),
    "kernels": ("config.json", {"use_kernels": True}),
    "another configuration": ("config.json", {"configuration_files": ["config.5.0.0.json"]}),
    "weights elsewhere": ("model.safetensors.index.json", {"weight_map": {"a": "../other/model.safetensors"}}),
    "pickled weights": ("model.safetensors.index.json", {"weight_map": {"a": "x.bin"}}),
    "an adapter": ("checkpoint-1/adapter_config.json", {"base_model_name_or_path": "evil/base"}),
    "an unknown file": ("some/where.json", {"deep": [{"auto_map": {"AutoModel": "x.Y"}}]}),
}


@pytest.mark.parametrize(("file", "content"), NAMED.values(), ids=NAMED)
def test_code_that_a_file_names_is_found(file, content, folder, hub):
    write(folder / file, content)
    assert verdicts(folder)[file] == "extra"
    if "/" not in file:
        with pytest.raises(ValueError, match="no code of this folder"):
            push_checkpoint(folder, NAME)


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "tokenizer.json", "masking.py"])
def test_links_are_refused(name, folder, tmp_path, hub):
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "elsewhere")
    assert verdicts(folder)[name] == "extra"
    with pytest.raises(ValueError, match=rf"{name} is a link"):
        push_checkpoint(folder, NAME)


def test_another_version_is_no_code_and_is_saved_anew(folder, tmp_path):
    write(folder / "config.json", {"hf_localattn_version": "9.9.9"})
    write(folder / "model.safetensors.index.json", {"weight_map": {"weight": "model-1.safetensors"}})
    assert verify_checkpoint(folder).is_equal
    AutoModel.from_pretrained(folder).save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["hf_localattn_version"] == __version__


def test_a_model_of_no_family_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["verify", str(tmp_path)])
    assert "no family 'bert'" in capsys.readouterr().err


def test_other_code_is_warned_of_and_the_card_tells_and_revisions_are_verified(hub, folder, tmp_path, caplog, capsys):
    first = push_checkpoint(folder, NAME)
    assert "differs from hf_localattn" not in caplog.text
    size = verify_checkpoint(folder).size
    assert f"The code ({size}) equals that of hf_localattn {__version__}." in hub.files(NAME)["README.md"].decode()
    (folder / "masking.py").write_text("# changed\n")
    second = push_checkpoint(folder, NAME)
    assert "masking.py (differs)" in caplog.text
    card = hub.files(NAME)["README.md"].decode()
    assert f"Some code files differ from those of hf_localattn {__version__}: `masking.py` (differs)." in card
    assert f"`hf-localattn verify {NAME}@{second.oid}`" in card
    assert "The code (" not in write_card(folder).read_text()
    for revision, code in ((f"@{first.oid}", 0), (f"@{second.oid}", 1), ("", 1)):
        assert main(["verify", f"{NAME}{revision}"]) == code
    (snapshot,) = (tmp_path / "cache").glob(f"*/snapshots/{first.oid}")  # all of it are links into the cache
    (snapshot / "LICENSE").symlink_to(tmp_path / "elsewhere")
    assert verdicts(snapshot) == {"LICENSE": "extra"}
    with pytest.raises(SystemExit):
        main(["verify", "somebody/nothing"])
    assert "Cannot load the checkpoint 'somebody/nothing'" in capsys.readouterr().err
