"""Uploading a checkpoint folder: what arrives, what stays here, and what goes wrong."""

import hashlib
import shutil

import pytest
import torch
from huggingface_hub import ModelCard, constants

from hf_localattn import SamRobertaModel
from hf_localattn.hub import TrainingRecord, init_checkpoint, push_checkpoint, write_card
from hf_localattn.resources import tiny_backbone
from tests.hub.loopback import Repository

NAME = "somebody/weighing"
LEFT = (
    *("training_args.bin", "checkpoint-3/optimizer.pt", "checkpoint-3/config.json", "_saving-x", "a.log", ".env"),
    *("token", "search.db", "rows.jsonl", "eval_predictions.json", "trainer_state.json", "runs/events.out", "a.npy"),
)
"""What a training leaves in a folder."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = init_checkpoint("sam-roberta", "tiny", tmp_path_factory.mktemp("sam") / "model", bilstm_hidden_size=8)
    for left in LEFT:
        (folder / left).parent.mkdir(exist_ok=True)
        (folder / left).write_bytes(b"of this machine")
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "model")


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def card_on(hub):
    return hub.files(NAME)["README.md"].decode()


def change(folder):
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")


def test_model_code_and_tokenizer_arrive_with_a_card_that_pins_them(hub, folder):
    commit = push_checkpoint(folder, NAME, license="apache-2.0")
    repository, files = hub.repositories[NAME], hub.files(NAME)
    assert repository.messages == ["initial commit", "Upload sam-roberta model", "Model card"]
    suffixes = (".json", ".py", ".safetensors", ".md")
    expected = {path.name for path in folder.iterdir() if path.suffix in suffixes} - {*LEFT}
    assert files.keys() - {".gitattributes"} == expected
    assert all(files[name] == (folder / name).read_bytes() for name in expected)
    assert "README.md" not in hub.files(NAME, commit.oid)
    assert card_on(hub).count(f'"{NAME}", revision="{commit.oid}", trust_remote_code=True') == 2
    assert "license: apache-2.0" in card_on(hub)
    write_card(folder, license="mit")  # keeps where the model is
    assert f'"{NAME}", revision="{commit.oid}"' in (folder / "README.md").read_text()


def test_what_has_changed_is_added_and_pinned_and_nothing_else(hub, folder):
    first = push_checkpoint(folder, NAME)
    TrainingRecord(task="text-classification", seed=1).save(folder)
    hub.faults = [("validate-yaml", 500)]  # the card does not arrive
    with pytest.raises(OSError, match="500"):
        push_checkpoint(folder, NAME)
    hub.faults = []
    second = push_checkpoint(folder, NAME)
    assert second.oid != first.oid
    assert second.oid in card_on(hub)
    assert first.oid not in card_on(hub)
    assert "| seed | 1 |" in card_on(hub)
    before = list(hub.repositories[NAME].commits)
    assert push_checkpoint(folder, NAME).oid == second.oid
    assert list(hub.repositories[NAME].commits) == before


def test_a_branch_of_a_private_repository_and_none_of_a_public_one(hub, folder):
    push_checkpoint(folder, NAME, private=True, branch="small")
    assert hub.repositories[NAME].private
    assert "model.safetensors" in hub.files(NAME, "small")
    assert "model.safetensors" not in hub.files(NAME, "main")
    hub.repositories[NAME] = Repository(name=NAME)
    with pytest.raises(ValueError, match="is public"):
        push_checkpoint(folder, NAME, private=True)
    assert not hub.files(NAME)


@pytest.mark.parametrize(
    ("here", "there", "arrives"),
    [
        (b"---\nlicense: mit\n---\n\n# Mine\n", None, b"---\nlicense: mit\n---\n\n# Mine\n"),
        (None, b"# Theirs\n", b"# Theirs\n"),
    ],
    ids=["mine", "theirs"],
)
def test_a_card_that_people_wrote_stays(here, there, arrives, hub, folder, caplog):
    if here is not None:
        (folder / "README.md").write_bytes(here)
    if there is not None:
        hub.repositories[NAME] = Repository(name=NAME)
        hub.repositories[NAME].commit("main", {"README.md": there}, "by hand")
    push_checkpoint(folder, NAME)
    assert "model.safetensors" in hub.files(NAME)
    assert hub.files(NAME)["README.md"] == arrives
    assert "is kept" in caplog.text


def test_a_card_that_was_edited_on_the_hub_stays_until_it_is_deleted_there(hub, folder, caplog):
    push_checkpoint(folder, NAME)
    (folder / "README.md").write_text(card_on(hub) + "\n## Mine\n")
    assert push_checkpoint(folder, NAME).oid in card_on(hub)
    assert card_on(hub).endswith("\n\n## Mine\n")
    assert "edited" not in caplog.text
    edited = card_on(hub).replace("## Mine", "## Theirs")
    hub.repositories[NAME].commit("main", {**hub.files(NAME), "README.md": edited.encode()}, "Update README.md")
    change(folder)
    push_checkpoint(folder, NAME)
    assert card_on(hub) == edited
    assert f"The card of {NAME} was edited" in caplog.text
    left = {name: data for name, data in hub.files(NAME).items() if name != "README.md"}
    hub.repositories[NAME].commit("main", left, "Delete README.md")
    assert push_checkpoint(folder, NAME).oid in card_on(hub)
    assert card_on(hub).endswith("\n\n## Mine\n")


def test_old_weights_do_not_stay_beside_new_ones(hub, folder):
    push_checkpoint(folder, NAME)
    model = SamRobertaModel.from_pretrained(folder)
    torch.nn.init.zeros_(model.get_input_embeddings().weight)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="200KB")
    commit = push_checkpoint(folder, NAME)
    weights = {name for name in hub.files(NAME, commit.oid) if "safetensors" in name}
    assert weights == {path.name for path in folder.glob("*safetensors*")}
    assert len(weights) > 2


def test_a_folder_that_went_to_several_places_is_pinned_to_each(hub, folder):
    first = push_checkpoint(folder, NAME)
    assert push_checkpoint(folder, "somebody/other").oid != first.oid
    (folder / "training_record.json").write_text('{"task": "text-classification", "seed": 1}')
    on_branch = push_checkpoint(folder, NAME, branch="small")
    (folder / "training_record.json").unlink()
    assert on_branch.oid != first.oid
    assert push_checkpoint(folder, NAME).oid == first.oid
    assert first.oid in card_on(hub)
    assert on_branch.oid not in card_on(hub)


def test_bad_metadata_are_named(hub, folder):
    with pytest.raises(ValueError, match="license must not be empty"):
        push_checkpoint(folder, NAME, license="")


@pytest.mark.parametrize(
    ("fault", "word"),
    [(("POST", 401), "401"), (("preupload", 403), "403"), (("/commit/", "break"), "")],
    ids=["no token", "no rights", "broken off at the commit"],
)
def test_a_failed_upload_says_why_and_is_completed_by_another(hub, folder, monkeypatch, caplog, capfd, fault, word):
    monkeypatch.delenv("HF_TOKEN")
    caplog.set_level(0)
    hub.faults, before = [fault], digests(folder)
    settings = {"private": True, "license": "mit", "token": "hf_writer"}
    command = f"hf-localattn push {folder} {NAME} --private"
    with pytest.raises(OSError, match=f"(?s)Cannot upload.*{word}.*{command}") as failure:
        push_checkpoint(folder, NAME, **settings)
    assert {name: digest for name, digest in digests(folder).items() if name != "README.md"} == before
    hub.faults = []
    commit = push_checkpoint(folder, NAME, **settings)
    assert hub.files(NAME, commit.oid)["model.safetensors"] == (folder / "model.safetensors").read_bytes()
    assert commit.oid in card_on(hub)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OSError, match="Cannot upload"):
        push_checkpoint(folder, NAME, **settings)
    written = [path.read_bytes().decode(errors="ignore") for path in folder.rglob("*") if path.is_file()]
    assert "hf_writer" not in "".join([*written, str(failure.value), caplog.text, *capfd.readouterr()])


@pytest.mark.parametrize(
    ("missing", "error"), [("model.safetensors", ValueError), ("config.json", OSError)], ids=["weights", "config"]
)
def test_what_is_no_checkpoint_is_refused(hub, folder, missing, error):
    (folder / missing).unlink()
    with pytest.raises(error, match=missing[-11:]):
        push_checkpoint(folder, NAME)
    assert not hub.requests


def test_the_base_model_is_in_the_card(hub, tmp_path):
    encoder = tiny_backbone()
    hub.add("somebody/encoder", encoder)
    model = SamRobertaModel.from_backbone("somebody/encoder")
    assert model.config._name_or_path == "somebody/encoder"  # for the card of a plain Trainer
    model.save_pretrained(tmp_path / "model")
    SamRobertaModel.from_pretrained(tmp_path / "model").save_pretrained(tmp_path / "second")
    assert ModelCard.load(write_card(tmp_path / "second")).data.base_model == "somebody/encoder"
    SamRobertaModel.from_backbone(encoder).save_pretrained(tmp_path / "of a folder")
    assert "base_model" not in write_card(tmp_path / "of a folder").read_text()
    assert str(encoder) not in (tmp_path / "of a folder" / "config.json").read_text()
