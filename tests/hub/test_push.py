"""Uploading a checkpoint folder: what arrives, what stays here, and what goes wrong."""

import shutil

import pytest
from huggingface_hub import ModelCard

from hf_localattn import SamRobertaModel
from hf_localattn.hub import TrainingRecord, init_checkpoint, push_checkpoint, write_card
from hf_localattn.resources import tiny_backbone

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
        (folder / left).write_text('{"of": "this machine"}')
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "model")


def card_on(hub):
    return hub.files(NAME)["README.md"].decode()


def test_all_of_a_model_arrives_then_what_has_changed_then_nothing(hub, folder):
    first = push_checkpoint(folder, NAME, license="apache-2.0")
    repository, pin = hub.repositories[NAME], f'"{NAME}", revision="{first.oid}"'
    assert [*repository.messages.values()] == ["initial commit", "Upload sam-roberta model", "Model card"]
    names = {path.name for path in folder.iterdir() if path.suffix in (".json", ".py", ".safetensors", ".md")} - {
        *LEFT
    }
    assert hub.files(NAME) == {name: (folder / name).read_bytes() for name in names}
    assert "README.md" not in hub.files(NAME, first.oid)
    assert card_on(hub).count(f"{pin}, trust_remote_code=True") == 2
    assert "license: apache-2.0" in card_on(hub)
    write_card(folder, license="mit")  # keeps where the model is
    assert pin in (folder / "README.md").read_text()

    TrainingRecord(task="text-classification", seed=1).save(folder)
    model = SamRobertaModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="200KB")
    hub.faults = [("validate-yaml", 500)]  # the card does not arrive
    with pytest.raises(OSError, match="500"):
        push_checkpoint(folder, NAME)
    hub.faults = []
    second = push_checkpoint(folder, NAME)
    weights = {name for name in hub.files(NAME, second.oid) if "safetensors" in name}
    assert weights == {path.name for path in folder.glob("*safetensors*")} != {"model.safetensors"}
    assert second.oid in card_on(hub)
    assert first.oid not in card_on(hub)
    assert "| seed | 1 |" in card_on(hub)
    before = list(repository.commits)
    assert push_checkpoint(folder, NAME).oid == second.oid
    assert list(repository.commits) == before


def test_a_folder_that_went_to_several_places_is_pinned_to_each(hub, folder):
    first = push_checkpoint(folder, NAME, private=True)
    assert hub.repositories[NAME].private
    other = push_checkpoint(folder, "somebody/other")
    TrainingRecord(task="text-classification", seed=1).save(folder)
    on_branch = push_checkpoint(folder, NAME, branch="small")
    (folder / "training_record.json").unlink()
    assert hub.files(NAME, "small").keys() - hub.files(NAME).keys() == {"training_record.json"}
    assert len({first.oid, other.oid, on_branch.oid}) == 3
    assert push_checkpoint(folder, NAME).oid == first.oid
    assert first.oid in card_on(hub)
    assert on_branch.oid not in card_on(hub)
    hub.add(NAME, {})
    with pytest.raises(ValueError, match="is public"):
        push_checkpoint(folder, NAME, private=True)
    assert not hub.files(NAME)


@pytest.mark.parametrize(("here", "there"), [("# Mine\n", None), (None, "# Theirs\n")], ids=["mine", "theirs"])
def test_a_card_that_people_wrote_stays(here, there, hub, folder, caplog):
    if here is not None:
        (folder / "README.md").write_text(here)
    if there is not None:
        hub.add(NAME, {"README.md": there.encode()})
    push_checkpoint(folder, NAME)
    assert "model.safetensors" in hub.files(NAME)
    assert card_on(hub) == (here or there)
    assert "is kept" in caplog.text


def test_a_card_that_was_edited_on_the_hub_stays_until_it_is_deleted_there(hub, folder, caplog):
    push_checkpoint(folder, NAME)
    (folder / "README.md").write_text(card_on(hub) + "\n## Mine\n")
    assert push_checkpoint(folder, NAME).oid in card_on(hub)
    assert card_on(hub).endswith("\n\n## Mine\n")
    assert "edited" not in caplog.text
    edited = card_on(hub).replace("## Mine", "## Theirs")
    hub.repositories[NAME].commit("main", {**hub.files(NAME), "README.md": edited.encode()}, "Update README.md")
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    push_checkpoint(folder, NAME)
    assert card_on(hub) == edited
    assert f"The card of {NAME} was edited" in caplog.text
    left = {name: data for name, data in hub.files(NAME).items() if name != "README.md"}
    hub.repositories[NAME].commit("main", left, "Delete README.md")
    assert push_checkpoint(folder, NAME).oid in card_on(hub)
    assert card_on(hub).endswith("\n\n## Mine\n")


@pytest.mark.parametrize(
    ("fault", "word"),
    [(("POST", 401), "401"), (("preupload", 403), "403"), (("/commit/", "break"), "")],
    ids=["no token", "no rights", "broken off at the commit"],
)
def test_a_failed_upload_says_why_and_is_completed_by_another(hub, folder, monkeypatch, caplog, capfd, fault, word):
    def files():
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "README.md"}

    monkeypatch.delenv("HF_TOKEN")
    caplog.set_level(0)
    hub.faults, before = [fault], files()
    settings = {"private": True, "license": "mit", "token": "hf_writer"}
    command = f"hf-localattn push {folder} {NAME} --private"
    with pytest.raises(OSError, match=f"(?s)Cannot upload.*{word}.*{command}") as failure:
        push_checkpoint(folder, NAME, **settings)
    assert files() == before
    hub.faults = []
    commit = push_checkpoint(folder, NAME, **settings)
    assert hub.files(NAME, commit.oid)["model.safetensors"] == (folder / "model.safetensors").read_bytes()
    assert commit.oid in card_on(hub)
    written = [data.decode(errors="ignore") for data in files().values()]
    assert "hf_writer" not in "".join([*written, card_on(hub), str(failure.value), caplog.text, *capfd.readouterr()])


@pytest.mark.parametrize(("missing", "error"), [("model.safetensors", ValueError), ("config.json", OSError)])
def test_what_is_no_checkpoint_is_refused(hub, folder, missing, error):
    (folder / missing).unlink()
    with pytest.raises(error, match=missing[-11:]):
        push_checkpoint(folder, NAME)
    assert not hub.requests


def test_the_base_model_is_in_the_card(hub, tmp_path):
    hub.add("somebody/encoder", tiny_backbone())
    model = SamRobertaModel.from_backbone("somebody/encoder")
    assert model.config._name_or_path == "somebody/encoder"  # for the card of a plain Trainer
    model.save_pretrained(tmp_path / "model")
    SamRobertaModel.from_pretrained(tmp_path / "model").save_pretrained(tmp_path / "second")
    assert ModelCard.load(write_card(tmp_path / "second")).data.base_model == "somebody/encoder"
    SamRobertaModel.from_backbone(tiny_backbone()).save_pretrained(tmp_path / "of a folder")
    assert "base_model" not in write_card(tmp_path / "of a folder").read_text()
    assert str(tiny_backbone()) not in (tmp_path / "of a folder" / "config.json").read_text()
