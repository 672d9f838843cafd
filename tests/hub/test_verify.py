"""`hf-localattn verify`: a checkpoint is accepted only if all code that it has or names is the package's."""

import json
import os
import re
import shutil

import pytest
from transformers import AutoModel

from hf_localattn import __version__
from hf_localattn.cli import main
from hf_localattn.errors import CheckpointError
from hf_localattn.families import FAMILIES
from hf_localattn.files import A_LINK
from hf_localattn.hub import init_checkpoint, push_checkpoint, verify_checkpoint, write_card
from hf_localattn.hub.push import upload_in_background
from hf_localattn.names import default_settings
from tests.models.tiny import TINY_FIELDS

NAME = "somebody/verified"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of each family, as `init` writes it."""
    folder = tmp_path_factory.mktemp("made")
    return {name: init_checkpoint(name, "tiny", folder / name, **TINY_FIELDS[name]) for name in FAMILIES}


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
    verification = verify_checkpoint(made[family])
    assert verification.is_equal
    code = {path.name: path.stat().st_size for path in made[family].glob("*.py")}
    assert {file.name: file.size for file in verification.files} == code
    assert verification.compared_with == f"hf_localattn {__version__}"
    assert (verification.named, verification.unread) == ((), ())
    AutoModel.from_pretrained(made[family]).save_pretrained(tmp_path / "again")
    assert main(["verify", "--list", str(tmp_path / "again")]) == 0
    told = capsys.readouterr().out
    assert all(f"{path.name}: {code[path.name] / 1000:.1f} kB" in told for path in (tmp_path / "again").glob("*.py"))
    assert f"Equal to hf_localattn {__version__}: " in told
    assert "not judged" in told


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
    assert out.splitlines()[:8] == [
        "differs  checkpoint-7/masking.py",
        "missing  checkpoint-7/oa_attention.py",
        "extra    custom_generate/generate.py",
        "extra    evil\\x1b[2J.so",
        "missing  masking.py",
        "differs  modeling_oa_xlnet.py",
        f"refused  pipe.json: {A_LINK}",
        "extra    sam_attention.py",
    ]
    assert out.splitlines()[8].startswith(f"Not equal to hf_localattn {__version__}: 8 files or entries.")


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_defaults_of_settings_are_those_of_the_tokenizer(family):
    defaults = {name: getattr(family.tokenizer, name) for name in family.tokenizer_settings}
    assert default_settings(family.name) == defaults


def test_settings_that_change_what_a_model_reads_are_named(folder, capsys):
    write(folder / "tokenizer_config.json", {"random_query": True, "query_segment": "auto", "cue_marker": "drop"})
    verification = verify_checkpoint(folder)
    assert verification.is_equal
    changed = [re.search(r"`(\w+)` is (\S+), by default (\S+)", file.note).groups() for file in verification.named]
    assert sorted(changed) == [("cue_marker", "'drop'", "'keep'"), ("random_query", "True", "False")]
    assert main(["verify", str(folder)]) == 0
    assert f"named    tokenizer_config.json: {verification.named[0].note}" in capsys.readouterr().out


OTHER_FILES = {
    "pytorch_model.bin": None,  # a load reads the safetensors
    "sub/pytorch_model-00001-of-00002.bin": "refused",
    ".metadata": "refused",
    "sub/adapter_config.json": "refused",
    "__pycache__/masking.cpython-311.pyc": "extra",
    "checkpoint-1/optimizer.pt": None,
    "checkpoint-1/training_args.bin": None,
    "sub/x.pth": None,
    "model.pkl": None,
    "tf_model.h5": None,
    "run.sh": None,
    "README.md": None,
    "\x1b.txt": None,
}


@pytest.mark.parametrize("name", OTHER_FILES, ids=repr)
def test_other_files_are_refused_or_said_not_to_be_read(name, folder):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"\x80")
    verification, shown = verify_checkpoint(folder), name.replace("\x1b", "\\x1b")
    assert {file.name: file.verdict for file in verification.others}.get(name) == OTHER_FILES[name]
    assert (name in verification.unread) == (OTHER_FILES[name] is None)
    assert shown in verification.report()


@pytest.mark.parametrize(
    ("change", "note", "diff"),
    [
        (lambda code: code + b"# \x1b[2J\n", "", ["+# \\x1b[2J"]),
        (lambda code: code.replace(b"import torch\n", b"import evil\n", 1), "", ["-import torch", "+import evil"]),
        (lambda code: code.replace(b"\n", b"\r\n"), "only line endings", []),
        (lambda code: code.rstrip(b"\n"), "only line endings", []),
        (lambda code: code.replace(b"\n", b"\r\n") + b"# evil\r\n", "line endings .* too", ["+# evil"]),
    ],
    ids=["a line at the end", "another line", "carriage returns", "no last line ending", "both"],
)
def test_differences_are_shown_as_lines(change, note, diff, folder, capsys):
    path = folder / "masking.py"
    path.write_bytes(change(path.read_bytes()))
    (file,) = verify_checkpoint(folder).others
    assert re.match(note, file.note)
    assert [line for line in file.diff if line[0] in "+-"] == diff
    assert main(["verify", "--diff", str(folder)]) == 1
    assert all(line in capsys.readouterr().out.splitlines() for line in diff[-1:])


NAMED = {
    "another repository": ("config.json", {"auto_map": {"AutoModel": "evil/code--modeling_oa_xlnet.OaXLNetModel"}}),
    "the backbone": ("config.json", {"backbone_config": {"auto_map": {"AutoConfig": "x.Y"}}}),
    "a pipeline": ("config.json", {"custom_pipelines": {"a": {"impl": "evil.P"}}}),
    "a pipeline's model": ("config.json", {"custom_pipelines": {"a": {"default": {"model": ["evil/model", "main"]}}}}),
    "code named as weights": ("config.json", {"custom_pipelines": {"weight_map": {"impl": "x.safetensors"}}}),
    "a class of transformers": ("tokenizer_config.json", {"tokenizer_class": "BertModel"}),
    "a backbone that asks for another": ("config.json", {"backbone_config": {"model_type": "maskformer"}}),
    "flash attention": ("config.json", {"attn_implementation": "flash_attention_2"}),
    "what nobody knows": ("config.json", {"of_tomorrow": {"a": [None]}}),
    "a tokenizer": ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": [None, "x.Y"]}}),
    "a kernel": ("config.json", {"attn_implementation": "evil/kernel"}),
    "kernels by part": ("config.json", {"attn_implementation": {"backbone_config": "evil/kernel"}}),
    "kernels": ("config.json", {"use_kernels": True}),
    "another configuration": ("config.json", {"configuration_files": ["config.5.0.0.json"]}),
    "weights elsewhere": ("model.safetensors.index.json", {"weight_map": {"a": "../other/model.safetensors"}}),
    "pickled weights": ("model.safetensors.index.json", {"weight_map": {"a": "x.bin"}}),
    "weights of another name": ("config.json", {"transformers_weights": "model.pkl"}),
    "an adapter": ("checkpoint-1/adapter_config.json", {"base_model_name_or_path": "evil/base"}),
    "a label of no number": ("config.json", {"id2label": {"x": "a"}}),
    "a token of no number": ("tokenizer_config.json", {"added_tokens_decoder": {"x": {"content": "a"}}}),
    "a length of no number": ("tokenizer_config.json", {"model_max_length": "abc"}),
    "a side": ("tokenizer_config.json", {"padding_side": "middle"}),
    "a subfolder": ("checkpoint-1/config.json", {"model_type": "oa-xlnet", "auto_map": {"AutoModel": "x.Y"}}),
}


@pytest.mark.parametrize(("file", "content"), NAMED.values(), ids=NAMED)
def test_code_that_a_file_names_is_found(file, content, folder, hub):
    write(folder / file, content)
    assert verdicts(folder)[file] == "refused"
    if "/" not in file:
        with pytest.raises(CheckpointError, match=file):
            push_checkpoint(folder, NAME)


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "tokenizer.json", "masking.py"])
def test_links_are_refused(name, folder, tmp_path, hub):
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "elsewhere")
    assert verdicts(folder)[name] == "refused"
    with pytest.raises(CheckpointError, match=rf"{name}: it is a link"):
        push_checkpoint(folder, NAME)


@pytest.mark.parametrize("content", [b"\x80\x02}.", None], ids=["pickle", "folder"])
def test_weights_that_are_no_safetensors_are_refused_and_not_pushed(content, folder, hub):
    path = folder / "model.safetensors"
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)
    (file,) = verify_checkpoint(folder).others
    assert (file.name, file.verdict) == (path.name, "refused")
    assert file.note.endswith("Remove it." if content is None else "`save_pretrained`.")
    with pytest.raises(CheckpointError, match=r"model\.safetensors: it is (no safetensors|a folder)"):
        push_checkpoint(folder, NAME)
    assert not hub.requests


def test_a_byte_order_mark_is_refused_as_loading_does(folder):
    path = folder / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert verdicts(folder) == {"config.json": "refused"}
    with pytest.raises(CheckpointError, match=r"config\.json: it begins with a byte-order mark"):
        FAMILIES["oa-xlnet"].config.from_pretrained(folder)


def test_templates_are_named_once(folder, capsys):
    write(folder / "tokenizer_config.json", {"chat_template": "{{ x }}"})
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "x.jinja").write_text("{{ x }}")
    verification = verify_checkpoint(folder)
    assert verification.is_equal
    assert [file.name for file in verification.named] == ["additional_chat_templates/x.jinja", "tokenizer_config.json"]
    (folder / "x.so").write_bytes(b"")
    assert ": 1 file or entry. " in verify_checkpoint(folder).report()


def test_a_record_of_other_types_is_one_sentence_before_the_upload(folder, hub):
    (folder / "training_record.json").write_text('{"task": ["x\\u001b"], "scores": "x"}')
    for action in (write_card, lambda path: push_checkpoint(path, NAME)):
        with pytest.raises(ValueError, match=r"training_record\.json is .*: `task` is \['x\\x1b'\]\. Train .*\.$"):
            action(folder)
    assert not hub.requests


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
    (folder / "masking.py").write_bytes(b"# changed\r\n")
    second = push_checkpoint(folder, NAME)
    assert "masking.py (differs)" in caplog.text
    card = hub.files(NAME)["README.md"].decode()
    assert f"Some code files differ from those of hf_localattn {__version__}: `masking.py` (differs)." in card
    assert f"`hf-localattn verify {NAME}@{second.oid}`" in card
    assert "The code (" not in write_card(folder).read_text()
    for revision, code in ((f"@{first.oid}", 0), (f"@{second.oid}", 1), ("", 1)):
        assert main(["verify", f"{NAME}{revision}"]) == code
    assert "LICENSE" not in verify_checkpoint(NAME).unread
    without_weights = {name: file for name, file in hub.files(NAME).items() if not name.endswith(".safetensors")}
    hub.add("somebody/odd", without_weights | {"run.sh": b"", "pytorch_model.bin": b""})
    odd = verify_checkpoint("somebody/odd")
    assert ("run.sh" in odd.unread, "pytorch_model.bin" in [file.name for file in odd.others]) == (True, True)
    (snapshot,) = (tmp_path / "cache").glob(f"*/snapshots/{first.oid}")  # all of it are links into the cache
    (snapshot / "LICENSE").symlink_to(tmp_path / "elsewhere")
    assert verdicts(snapshot) == {"LICENSE": "refused"}
    with pytest.raises(SystemExit):
        main(["verify", "somebody/nothing"])
    assert "Cannot load the checkpoint 'somebody/nothing'" in capsys.readouterr().err


def test_what_is_uploaded_is_what_was_judged(hub, folder, tmp_path):
    """By the same names, of which one with signs of a pattern stands for itself alone. Extra code is not uploaded."""
    (folder / "a\nb.py").write_text("x = 1\n")
    (folder / "[a-z]*.py").write_text("x = 1\n")
    (folder / "notes.txt").write_text("private")
    assert verdicts(folder) == {"a\nb.py": "extra", "[a-z]*.py": "extra"}
    push_checkpoint(folder, NAME)
    uploaded = set(hub.files(NAME)) - {"README.md", ".gitattributes"}
    assert uploaded == {path.name for path in folder.iterdir()} - {"README.md", "notes.txt", "a\nb.py", "[a-z]*.py"}
    before = hub.files(NAME)
    upload_in_background(folder, repo_id=NAME).result()  # as a training does
    assert hub.files(NAME) == before
    (folder / "LICENSE").symlink_to("/etc/passwd")
    assert isinstance(upload_in_background(folder, repo_id=NAME).exception(), CheckpointError)


@pytest.mark.parametrize("link", ["blobs", "blobs/key", "snapshots"])
def test_links_lead_to_blobs_of_the_cache_alone(link, folder, tmp_path, hub):
    """An archive can have a folder `blobs`, or files in it, that lead elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "key").write_text("private")
    cache = tmp_path / "cache"
    for name in ("blobs", "snapshots"):
        (cache / name).mkdir(parents=True)
    (cache / "blobs" / "key").write_text("license")
    snapshot = shutil.copytree(folder, cache / "snapshots" / "abc")
    (snapshot / "LICENSE").symlink_to("../../blobs/key")
    assert not verdicts(snapshot)
    moved = (cache / link).rename(tmp_path / "moved")
    (cache / link).symlink_to(
        moved if link == "snapshots" else tmp_path / "elsewhere" / link.removeprefix("blobs").strip("/")
    )
    assert verdicts(snapshot)["LICENSE"] == "refused"
    with pytest.raises(CheckpointError, match="LICENSE"):
        push_checkpoint(snapshot, NAME)
