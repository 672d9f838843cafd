"""Uploading a checkpoint folder: what arrives, what stays here, and what goes wrong."""

import hashlib
import shutil

import pytest

import hf_localattn.errors
from hf_localattn.hub import init_checkpoint, push_checkpoint
from tests.hub.loopback import Fault

NAME = "somebody/weighing"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A checkpoint folder with what a training leaves in it."""
    folder = init_checkpoint("sam-roberta", "tiny", tmp_path_factory.mktemp("sam") / "model", bilstm_hidden_size=8)
    (folder / "checkpoint-3").mkdir()
    for left in ("training_args.bin", "checkpoint-3/optimizer.pt", "checkpoint-3/config.json", "_saving-x", "a.log"):
        (folder / left).write_bytes(b"of this machine")
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "model")


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def test_model_code_and_tokenizer_arrive_with_a_card_that_pins_them(hub, folder):
    commit = push_checkpoint(folder, NAME, license="apache-2.0")
    repository, files = hub.repositories[NAME], hub.files(NAME)
    assert repository.messages == ["initial commit", "Upload sam-roberta model", "Model card"]
    expected = {path.name for path in folder.iterdir() if path.suffix in (".json", ".py", ".safetensors", ".md")}
    assert files.keys() - {".gitattributes"} == expected
    assert all(files[name] == (folder / name).read_bytes() for name in expected)
    assert "README.md" not in hub.files(NAME, commit.oid)
    card = files["README.md"].decode()
    assert card.count(f'"{NAME}", revision="{commit.oid}", trust_remote_code=True') == 2
    assert "license: apache-2.0" in card


def test_again_it_changes_nothing(hub, folder):
    push_checkpoint(folder, NAME)
    before = list(hub.repositories[NAME].commits)
    push_checkpoint(folder, NAME)
    assert list(hub.repositories[NAME].commits) == before


def test_what_has_changed_is_added_and_pinned(hub, folder):
    first = push_checkpoint(folder, NAME)
    (folder / "training_record.json").write_text('{"task": "text-classification", "seed": 1}')
    second = push_checkpoint(folder, NAME)
    assert second.oid != first.oid
    card = hub.files(NAME)["README.md"].decode()
    assert second.oid in card
    assert first.oid not in card
    assert "| seed | 1 |" in card


def test_a_card_that_did_not_arrive_does_with_the_next_attempt(hub, folder):
    push_checkpoint(folder, NAME)
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    hub.faults = [Fault("validate-yaml", 500)]
    with pytest.raises(OSError, match="500"):
        push_checkpoint(folder, NAME)
    hub.faults = []
    changed = list(hub.repositories[NAME].commits)[-1]
    push_checkpoint(folder, NAME)
    assert f'revision="{changed}"' in hub.files(NAME)["README.md"].decode()


def test_a_branch_of_a_private_repository(hub, folder, monkeypatch):
    push_checkpoint(folder, NAME, private=True, branch="small")
    assert hub.repositories[NAME].private
    assert "model.safetensors" in hub.files(NAME, "small")
    assert "model.safetensors" not in hub.files(NAME, "main")


def test_what_people_wrote_is_uploaded_as_it_is(hub, folder, caplog):
    (folder / "README.md").write_text("---\nlicense: mit\n---\n\n# Mine\n")
    push_checkpoint(folder, NAME)
    assert hub.files(NAME)["README.md"] == (folder / "README.md").read_bytes()
    assert "is not from hf-localattn and stays as it is" in caplog.text


FAULTS = {
    "no token": (Fault("POST", 401), "the Hub answered 401, as there is no valid token: run `hf auth login`"),
    "no rights": (Fault("preupload", 403), "the Hub answered 403, as the token may not write there"),
    "no repository": (Fault("preupload", 404), "the Hub answered 404, as there is no such repository or branch"),
    "trouble at first": (Fault("repos/create", 500), "the Hub answered 500, which it should not: try again later"),
    "trouble at last": (Fault("/commit/", 500), "the Hub answered 500, which it should not: try again later"),
    "trouble with a large file": (Fault("PUT /lfs", 500), "the Hub answered 500, which it should not"),
    "broken off": (Fault("PUT /lfs", "break"), "no connection to the Hub, or none that lasted"),
    "broken off at the commit": (Fault("/commit/", "break"), "no connection to the Hub, or none that lasted"),
    "slow": (Fault("/commit/", "stall"), "no connection to the Hub, or none that lasted"),
    "no card": (Fault("validate-yaml", 500), "the Hub answered 500"),
}


@pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS)
def test_a_failed_upload_says_why_and_is_completed_by_another(hub, folder, fault, message, monkeypatch):
    monkeypatch.setattr(hf_localattn.errors, "PATIENCE", 0.5)
    hub.faults, before = [fault], digests(folder)
    with pytest.raises(OSError, match="Cannot upload") as failure:
        push_checkpoint(folder, NAME)
    assert message in str(failure.value)
    assert f"`hf-localattn push {folder} {NAME}` uploads what is missing" in str(failure.value)
    left = digests(folder)
    assert {name: digest for name, digest in left.items() if name != "README.md"} == before
    hub.faults = []
    commit = push_checkpoint(folder, NAME)
    assert hub.files(NAME, commit.oid)["model.safetensors"] == (folder / "model.safetensors").read_bytes()
    assert commit.oid.encode() in hub.files(NAME)["README.md"]


def test_a_hub_that_is_down(hub, folder, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OSError, match="no connection to the Hub, or none that lasted"):
        push_checkpoint(folder, NAME)


def test_the_token_is_nowhere(hub, folder, monkeypatch, caplog, capfd):
    monkeypatch.delenv("HF_TOKEN")
    caplog.set_level(0)
    push_checkpoint(folder, NAME, token="hf_writer")
    hub.faults = [Fault("/commit/", 500)]
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    with pytest.raises(OSError, match="500") as failure:
        push_checkpoint(folder, NAME, token="hf_writer")
    written = [path.read_bytes().decode(errors="ignore") for path in folder.rglob("*") if path.is_file()]
    assert not any("hf_writer" in text for text in [*written, str(failure.value), caplog.text, *capfd.readouterr()])


def test_pickled_weights_are_refused(hub, folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"weights in pytorch_model.bin. A .bin file is a pickle.*convert it"):
        push_checkpoint(folder, NAME)
    assert not hub.requests


@pytest.mark.parametrize(
    ("remove", "error", "message"),
    [
        ("model.safetensors", ValueError, "has no weights: there is no .safetensors file"),
        ("config.json", FileNotFoundError, "is no checkpoint folder: it has no config.json"),
    ],
)
def test_what_is_no_checkpoint_is_refused(hub, folder, remove, error, message):
    (folder / "training_args.bin").unlink()
    (folder / remove).unlink()
    with pytest.raises(error, match=message):
        push_checkpoint(folder, NAME)
    assert not hub.requests
