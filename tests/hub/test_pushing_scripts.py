"""`--push_to_hub` of all scripts: checkpoints during training, and at the end the model with a card of the run."""

import json
import re

import pytest
from huggingface_hub import ModelCard

from hf_localattn import CoolForSequenceClassification
from hf_localattn.hub import TrainingRecord
from hf_localattn.resources import reading_comprehension
from tests.hub.loopback import Fault
from tests.script_helpers import load_main

NAME = "somebody/trained"
ROWS = {
    "run_glue": [{"text": text, "label": label} for text, label in (("red", "a"), ("a dog", "b"))] * 3,
    "run_ner": [{"tokens": ["Mira", "bakes"], "ner_tags": ["B-PER", "O"]}] * 6,
    "run_swag": [{"context": "the cat", "choices": ["mat", "dog", "red"], "label": label} for label in "ABCABC"],
}


def options(script, folder, *more):
    """A training of three steps with a checkpoint after the second."""
    if script in ROWS:
        file = folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in ROWS[script]))
    else:
        file = reading_comprehension()["validation"]
    stride = ["--doc_stride", "32"] if script == "run_qa" else []
    lengths = (
        ["--max_source_length", "64", "--max_target_length", "12"]
        if script == "run_qg"
        else ["--max_seq_length", "96"]
    )
    return [
        *("--family", "cool", "--backbone", "tiny-bart" if script == "run_qg" else "tiny"),
        *("--local_config", "conv_filters=4"),
        *("--train_file", str(file), "--validation_file", str(file), *lengths, *stride, "--max_eval_samples", "2"),
        *("--do_train", "--do_eval", "--max_steps", "3", "--save_steps", "2", "--per_device_train_batch_size", "2"),
        *("--use_cpu", "--report_to", "none", "--disable_tqdm", "true", "--output_dir", str(folder / "out")),
        *("--push_to_hub", "--hub_model_id", NAME, "--hub_token", "hf_writer", "--hub_private_repo", "true", *more),
    ]


@pytest.mark.parametrize(
    "script",
    [
        "run_glue",
        "run_qg",
        *(
            pytest.param(script, marks=pytest.mark.slow(reason="as the others, which all share one way to end a run"))
            for script in ("run_qa", "run_ner", "run_swag")
        ),
    ],
)
def test_a_run_is_on_the_hub_when_it_ends_and_before(script, hub, tmp_path, monkeypatch, caplog):
    monkeypatch.delenv("HF_TOKEN")  # the option alone says who we are
    metrics = load_main(script)(options(script, tmp_path))
    repository = hub.repositories[NAME]
    assert repository.private
    assert repository.messages[:2] == ["initial commit", "Training in progress, step 2"]
    assert repository.messages[-2:] == ["End of training", "Model card"]  # maybe with the last step's between
    _, during, *_, final, card = repository.commits.values()
    code = {name for name in final if name.endswith(".py")}
    assert code
    assert code < during.keys()  # what was pushed first can be used too
    assert during["model.safetensors"] != final["model.safetensors"]
    pushed = {name for files in repository.commits.values() for name in files}
    assert not [name for name in pushed if name.endswith((".bin", ".pt", ".pth", ".log")) or "state" in name]

    record = TrainingRecord.load(tmp_path / "out")
    scores = {score.metric: score.value for score in record.scores}
    assert scores
    assert all(metrics[f"eval_{name}"] == value for name, value in scores.items())
    assert record.hyperparameters["max_steps"] == 3
    # Settings and lengths of generation are no scores.
    assert not scores.keys() & {"gen_len", "num_beams"}
    assert ("generation_num_beams" in record.hyperparameters) == (script == "run_qg")
    assert (record.base_model, record.dataset) == (None, None)
    written = card["README.md"].decode()
    shown = ModelCard(written).data.eval_results
    assert {one.metric_type for one in shown} == scores.keys() - {"loss"}
    assert re.search(rf'"{NAME}", revision="{list(repository.commits)[-2]}"', written)
    everything = b"".join(content for files in repository.commits.values() for content in files.values())
    assert b"hf_writer" not in everything
    assert str(tmp_path).encode() not in everything
    assert not list((tmp_path / "out").glob("_*"))
    here = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"hf_writer" not in here
    assert "hf_writer" not in caplog.text


def test_every_checkpoint_can_be_kept_on_the_hub(hub, tmp_path):
    load_main("run_glue")(options("run_glue", tmp_path, "--hub_strategy", "checkpoint"))
    files = hub.files(NAME)
    assert "last-checkpoint/trainer_state.json" in files
    assert "last-checkpoint/optimizer.pt" in files  # to go on from


def test_a_hub_that_fails_at_the_end_leaves_a_complete_folder(hub, tmp_path, capsys):
    hub.faults = [Fault("PUT /lfs", 500)]
    with pytest.raises(SystemExit) as ended:
        load_main("run_glue")(options("run_glue", tmp_path, "--save_strategy", "no"))
    assert ended.value.code == 2
    last = capsys.readouterr().err.rstrip("\n").rsplit("\n", 1)[-1]
    out = tmp_path / "out"
    assert f"error: Cannot upload '{out}' to '{NAME}': " in last  # behind a progress bar
    assert "500" in last
    assert f"`hf-localattn push {out} {NAME}`" in last
    assert CoolForSequenceClassification.from_pretrained(out)
    assert TrainingRecord.load(out).scores


@pytest.mark.parametrize(
    ("fault", "backbone", "word"),
    [
        (Fault("repos/create", 401), "tiny", "401"),
        (Fault("repos/create", 403), "tiny", "403"),
        (Fault("repos/create", "break"), "tiny", "connect"),
        (Fault("GET|HEAD", 401), "somebody/encoder", "hf auth login"),
        (Fault("GET|HEAD", 404), "somebody/encoder", "hf auth login"),
        (Fault("GET|HEAD", 500), "somebody/encoder", "Cannot load"),
        (Fault("GET|HEAD", "break"), "somebody/encoder", "Cannot load"),
    ],
    ids=["no token", "no rights", "down", "401", "404", "500", "broken off"],
)
def test_a_hub_that_refuses_is_told_before_training(hub, tmp_path, capsys, fault, backbone, word):
    hub.faults = [fault]
    given = options("run_glue", tmp_path)
    given[given.index("tiny")] = backbone
    with pytest.raises(SystemExit) as ended:
        load_main("run_glue")(given if backbone == "tiny" else given[: given.index("--push_to_hub")])
    assert ended.value.code == 2
    last = capsys.readouterr().err.rstrip("\n").rsplit("\n", 1)[-1]
    assert last.startswith("error: ")
    assert word in last
    assert not list((tmp_path / "out").glob("*.safetensors"))
