"""Uploading a checkpoint folder: what arrives, what stays here, and what goes wrong."""

import dataclasses
import hashlib
import json
import shutil

import pytest
import torch
from huggingface_hub import ModelCard

from hf_localattn import SamRobertaModel
from hf_localattn.hub import Score, TrainingRecord, init_checkpoint, push_checkpoint, write_card
from hf_localattn.hub.model_card import EVAL_RESULTS
from hf_localattn.resources import tiny_backbone
from tests.hub.loopback import Fault, Repository

NAME = "somebody/weighing"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A checkpoint folder with what a training leaves in it."""
    folder = init_checkpoint("sam-roberta", "tiny", tmp_path_factory.mktemp("sam") / "model", bilstm_hidden_size=8)
    (folder / "checkpoint-3").mkdir()
    (folder / "runs").mkdir()
    for left in (
        *("training_args.bin", "checkpoint-3/optimizer.pt", "checkpoint-3/config.json", "_saving-x", "a.log", ".env"),
        *(
            "token",
            "search.db",
            "rows.jsonl",
            "eval_predictions.json",
            "trainer_state.json",
            "runs/events.out",
            "a.npy",
        ),
    ):
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
    suffixes = (".json", ".py", ".safetensors", ".md")
    expected = {path.name for path in folder.iterdir() if path.suffix in suffixes}
    expected -= {"eval_predictions.json", "trainer_state.json"}
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


def test_scores_go_with_the_card_and_are_removed_with_them(hub, folder):
    first = push_checkpoint(folder, NAME)
    record = TrainingRecord(task="text-classification", dataset="nyu-mll/glue", dataset_config="cola")
    dataclasses.replace(record, scores=(Score("validation", "accuracy", 0.5),)).save(folder)
    second = push_checkpoint(folder, NAME)
    assert second.oid != first.oid
    assert hub.files(NAME)[EVAL_RESULTS] == (folder / EVAL_RESULTS).read_bytes()
    assert EVAL_RESULTS not in hub.files(NAME, second.oid)
    before = list(hub.repositories[NAME].commits)
    assert push_checkpoint(folder, NAME).oid == second.oid
    assert list(hub.repositories[NAME].commits) == before
    record.save(folder)
    push_checkpoint(folder, NAME)
    assert EVAL_RESULTS not in hub.files(NAME)


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


def test_a_branch_of_a_private_repository(hub, folder):
    push_checkpoint(folder, NAME, private=True, branch="small")
    assert hub.repositories[NAME].private
    assert "model.safetensors" in hub.files(NAME, "small")
    assert "model.safetensors" not in hub.files(NAME, "main")


def test_what_people_wrote_is_uploaded_as_it_is(hub, folder, caplog):
    (folder / "README.md").write_text("---\nlicense: mit\n---\n\n# Mine\n")
    push_checkpoint(folder, NAME)
    assert hub.files(NAME)["README.md"] == (folder / "README.md").read_bytes()
    assert "was not written by hf-localattn and is kept" in caplog.text


def test_what_was_written_on_the_hub_stays(hub, folder):
    push_checkpoint(folder, NAME, language="en")
    repository = hub.repositories[NAME]
    files = hub.files(NAME)
    edited = (
        files["README.md"].decode().replace("language: en", "language: en\nlicense: mit").rstrip() + "\n\n## Mine\n"
    )
    repository.commit("main", {**files, "README.md": edited.encode()}, "Update README.md")
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    commit = push_checkpoint(folder, NAME)
    card = hub.files(NAME)["README.md"].decode()
    assert "license: mit" in card
    assert card.endswith("\n\n## Mine\n")
    assert commit.oid in card


def test_a_card_of_others_on_the_hub_stays(hub, folder, caplog):
    hub.repositories[NAME] = Repository(name=NAME)
    hub.repositories[NAME].commit("main", {"README.md": b"# Theirs\n"}, "by hand")
    push_checkpoint(folder, NAME)
    assert hub.files(NAME)["README.md"] == b"# Theirs\n"
    assert "model.safetensors" in hub.files(NAME)
    assert f"The card of {NAME} was not written by hf-localattn and is kept" in caplog.text


def test_metadata_that_the_site_asked_for_go_into_the_card(hub, folder):
    hub.repositories[NAME] = Repository(name=NAME)
    hub.repositories[NAME].commit("main", {"README.md": b"---\nlicense: mit\n---\n"}, "initial commit")
    commit = push_checkpoint(folder, NAME)
    card = hub.files(NAME)["README.md"].decode()
    assert "license: mit" in card
    assert commit.oid in card


def test_old_weights_do_not_stay_beside_new_ones(hub, folder):
    push_checkpoint(folder, NAME)
    model = SamRobertaModel.from_pretrained(folder)
    with torch.no_grad():
        model.get_input_embeddings().weight.add_(1)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="200KB")
    commit = push_checkpoint(folder, NAME)
    weights = {name for name in hub.files(NAME, commit.oid) if "safetensors" in name}
    assert weights == {path.name for path in folder.glob("*safetensors*")}
    assert len(weights) > 2


def test_a_folder_that_went_to_several_places_is_pinned_to_each(hub, folder):
    first = push_checkpoint(folder, NAME)
    second = push_checkpoint(folder, "somebody/other")
    assert push_checkpoint(folder, NAME).oid == first.oid != second.oid
    assert first.oid in hub.files(NAME)["README.md"].decode()
    (folder / "training_record.json").write_text('{"task": "text-classification", "seed": 1}')
    on_branch = push_checkpoint(folder, NAME, branch="small")
    (folder / "training_record.json").unlink()
    assert on_branch.oid != first.oid
    assert push_checkpoint(folder, NAME).oid == first.oid
    card = hub.files(NAME)["README.md"].decode()
    assert first.oid in card
    assert on_branch.oid not in card
    before = list(hub.repositories[NAME].commits)
    assert push_checkpoint(folder, NAME).oid == first.oid
    assert list(hub.repositories[NAME].commits) == before


def test_the_card_by_itself_keeps_where_the_model_is(hub, folder):
    commit = push_checkpoint(folder, NAME)
    write_card(folder, license="mit")
    assert f'"{NAME}", revision="{commit.oid}"' in (folder / "README.md").read_text()


def test_what_should_be_private_is_not_uploaded_to_a_public_repository(hub, folder):
    hub.repositories[NAME] = Repository(name=NAME)
    with pytest.raises(ValueError, match=f"{NAME} exists already and is public"):
        push_checkpoint(folder, NAME, private=True)
    assert not hub.files(NAME)


def test_bad_metadata_are_named(hub, folder):
    with pytest.raises(ValueError, match="license must not be empty"):
        push_checkpoint(folder, NAME, license="")


def test_a_parser_that_others_lack_is_warned_of(hub, folder, caplog):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "parser": "/home/me/parser"}))
    push_checkpoint(folder, NAME)
    assert "parses with the pipeline in the folder /home/me/parser. Before sharing" in caplog.text


FAULTS = {
    "no token": (Fault("POST", 401), "401"),
    "no rights": (Fault("preupload", 403), "403"),
    "trouble at first": (Fault("repos/create", 500), "500"),
    "trouble at last": (Fault("/commit/", 500), "500"),
    "broken off at the commit": (Fault("/commit/", "break"), ""),
}


@pytest.mark.parametrize(("fault", "word"), FAULTS.values(), ids=FAULTS)
def test_a_failed_upload_says_why_and_is_completed_by_another(hub, folder, fault, word):
    hub.faults, before = [fault], digests(folder)
    with pytest.raises(OSError, match=f"(?s)Cannot upload.*{word}.*hf-localattn push {folder} {NAME} --private"):
        push_checkpoint(folder, NAME, private=True, license="mit")
    left = digests(folder)
    assert {name: digest for name, digest in left.items() if name != "README.md"} == before
    hub.faults = []
    commit = push_checkpoint(folder, NAME, private=True, license="mit")
    assert hub.files(NAME, commit.oid)["model.safetensors"] == (folder / "model.safetensors").read_bytes()
    assert commit.oid.encode() in hub.files(NAME)["README.md"]


def test_a_hub_that_is_down(hub, folder, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OSError, match="Cannot upload"):
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
        ("config.json", FileNotFoundError, "is not a checkpoint folder: it has no config.json"),
    ],
)
def test_what_is_no_checkpoint_is_refused(hub, folder, remove, error, message):
    (folder / "training_args.bin").unlink()
    (folder / remove).unlink()
    with pytest.raises(error, match=message):
        push_checkpoint(folder, NAME)
    assert not hub.requests


def test_base_model_and_its_languages_are_in_the_card(hub, tmp_path):
    encoder = shutil.copytree(tiny_backbone(), tmp_path / "encoder")
    (encoder / "README.md").write_text("---\nlanguage: [en, de]\n---\n")
    hub.add("somebody/encoder", encoder)
    model = SamRobertaModel.from_backbone("somebody/encoder")
    assert model.config._name_or_path == "somebody/encoder"  # for the card of a plain Trainer
    model.save_pretrained(tmp_path / "model")
    SamRobertaModel.from_pretrained(tmp_path / "model").save_pretrained(tmp_path / "second")
    push_checkpoint(tmp_path / "second", NAME)
    data = ModelCard(hub.files(NAME)["README.md"].decode()).data
    assert (data.base_model, data.language) == ("somebody/encoder", ["en", "de"])


def test_a_folder_is_no_base_model(tmp_path):
    shutil.copytree(tiny_backbone(), tmp_path / "private")
    model = SamRobertaModel.from_backbone(tmp_path / "private")
    model.save_pretrained(tmp_path / "model")
    assert "private" not in (tmp_path / "model" / "config.json").read_text()
    assert "base_model" not in write_card(tmp_path / "model").read_text()
