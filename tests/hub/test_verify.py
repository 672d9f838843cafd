"""`hf-localattn verify`: a checkpoint is accepted only if all code that it has or names is the package's."""

import json
import os
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
    assert found.saved_by == found.compared_with == __version__
    AutoModel.from_pretrained(made[family]).save_pretrained(tmp_path / "again")
    assert main(["verify", "--list", str(tmp_path / "again")]) == 0
    told = capsys.readouterr().out
    assert all(f"{path.name}: {code[path.name]} lines" in told for path in (tmp_path / "again").glob("*.py"))
    assert f"Equal to hf_localattn {__version__}: " in told


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


@pytest.mark.parametrize(
    ("shard", "verdict"),
    [
        ("model-1.safetensors", None),
        ("../other/model.safetensors", "extra"),
        ("/model.safetensors", "extra"),
        ("x.bin", "extra"),
    ],
)
def test_weights_are_safetensors_of_the_folder(folder, shard, verdict):
    write(folder / "model.safetensors.index.json", {"weight_map": {"weight": shard}})
    assert verdicts(folder).get("model.safetensors.index.json") == verdict


def test_all_files_that_are_not_equal_are_told(folder, capsys):
    shutil.copytree(folder, folder / "checkpoint-7")  # a checkpoint by itself
    (folder / "modeling_oa_xlnet.py").write_text("import os\n")
    (folder / "sam_attention.py").write_text("")  # of another family: this one does not carry it
    (folder / "masking.py").unlink()
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text("print('hello')\n")
    (folder / "checkpoint-7" / "masking.py").write_text("")
    (folder / "evil\x1b[2J.so").write_bytes(b"\x7fELF")
    assert main(["verify", str(folder)]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[:-1] == [
        "differs  checkpoint-7/masking.py",
        "extra    custom_generate/generate.py",
        "extra    evil\\x1b[2J.so",
        "missing  masking.py",
        "differs  modeling_oa_xlnet.py",
        "extra    sam_attention.py",
    ]
    assert out.endswith("6 others.\n")


NAMED = {
    "another repository": ("config.json", {"auto_map": {"AutoModel": "evil/code--modeling_oa_xlnet.OaXLNetModel"}}),
    "a path": ("config.json", {"auto_map": {"AutoModel": "../x.Model"}}),
    "the backbone": ("config.json", {"backbone_config": {"auto_map": {"AutoConfig": "x.Y"}}}),
    "a pipeline": ("config.json", {"custom_pipelines": {"a": {"impl": "evil.P"}}}),
    "a pipeline's model": ("config.json", {"custom_pipelines": {"a": {"default": {"model": ["evil/model", "main"]}}}}),
    "a tokenizer": ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": [None, "x.Y"]}}),
    "a kernel": ("config.json", {"attn_implementation": "evil/kernel"}),
    "kernels": ("config.json", {"use_kernels": True}),
    "another configuration": ("config.json", {"configuration_files": ["config.5.0.0.json"]}),
    "that configuration": ("config.5.0.0.json", {"auto_map": {"AutoModel": "evil/code--x.Y"}}),
    "an adapter": ("adapter_config.json", {"base_model_name_or_path": "evil/base"}),
    "a subfolder": ("checkpoint-1/config.json", {"auto_map": {"AutoModel": "evil/code--x.Y"}}),
    "an adapter below": ("checkpoint-1/adapter_config.json", {"base_model_name_or_path": "evil/base"}),
    "a processor": ("processor_config.json", {"auto_map": {"AutoProcessor": "x.Y"}}),
    "an unknown file": ("some/where.json", {"deep": [{"auto_map": {"AutoModel": "x.Y"}}]}),
}


@pytest.mark.parametrize(("file", "content"), NAMED.values(), ids=NAMED)
def test_code_that_a_file_names_is_found(file, content, folder, hub):
    write(folder / file, content)
    assert verdicts(folder)[file] == "extra"
    if "/" not in file and file.split(".")[0] in ("config", "tokenizer_config") and file != "config.5.0.0.json":
        with pytest.raises(ValueError, match="no code of this folder"):
            push_checkpoint(folder, NAME)


def test_code_in_a_subfolder_has_to_be_there(folder):
    (folder / "checkpoint-1").mkdir()
    shutil.copy(folder / "config.json", folder / "checkpoint-1")
    assert verdicts(folder)["checkpoint-1/modeling_oa_xlnet.py"] == "missing"


@pytest.mark.parametrize("name", ["chat_template.jinja", "generation_config.json", "tokenizer.json", "masking.py"])
@pytest.mark.parametrize("command", ["verify", "push"])
def test_links_are_refused(name, command, folder, tmp_path, hub):
    (tmp_path / "elsewhere").write_bytes((folder / name).read_bytes() if (folder / name).exists() else b"{}")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "elsewhere")
    if command == "verify":
        assert verdicts(folder)[name] == "extra"
    else:
        with pytest.raises(ValueError, match=rf"{name} is a link"):
            push_checkpoint(folder, NAME)


def test_links_of_the_hub_s_cache_are_files(folder, tmp_path):
    (tmp_path / "models--a--b" / "blobs").mkdir(parents=True)
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    for path in folder.iterdir():
        shutil.move(path, tmp_path / "models--a--b" / "blobs")
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    assert verify_checkpoint(snapshot).is_equal
    (snapshot / "chat_template.jinja").symlink_to(tmp_path / "elsewhere")
    assert verdicts(snapshot) == {"chat_template.jinja": "extra"}


def test_only_regular_files_are_accepted(folder):
    os.mkfifo(folder / "pipe.json")
    assert verdicts(folder) == {"pipe.json": "extra"}


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
    ("content", "word"),
    [(None, "no config.json"), ("{", "config.json cannot be read"), ('{"model_type": "bert"}', "no family 'bert'")],
)
def test_what_is_no_checkpoint_is_one_line(content, word, tmp_path, capsys):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(tmp_path)])
    assert ended.value.code == 2
    assert word in capsys.readouterr().err


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
    size = verify_checkpoint(folder).size
    assert f"The code ({size}) equals that of hf_localattn {__version__}." in hub.files(NAME)["README.md"].decode()
    (folder / "masking.py").write_text("# changed\n")
    commit = push_checkpoint(folder, NAME)
    assert f"differs from hf_localattn {__version__}: masking.py (differs)" in caplog.text
    card = hub.files(NAME)["README.md"].decode()
    assert f"Some code files differ from those of hf_localattn {__version__}: `masking.py` (differs)." in card
    assert f"`hf-localattn verify {NAME}@{commit.oid}`" in card
    assert "The code (" not in write_card(folder).read_text()
