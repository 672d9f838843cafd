"""`--push_to_hub` of the scripts, and the programs of the README: what a training brings to the Hub."""

import json
import re

import pytest
from huggingface_hub import ModelCard

from hf_localattn import CoolForSequenceClassification
from hf_localattn.hub import TrainingRecord
from hf_localattn.resources import reading_comprehension
from tests.hub.conftest import TOKEN
from tests.programs import programs, run_program
from tests.script_helpers import load_main

NAME = "somebody/trained"


def options(script, folder, *more, saving=("--save_steps", "2")):
    """A training of three steps with a checkpoint after the second."""
    file = reading_comprehension()["validation"]
    own = ["--backbone", "tiny-bart", "--max_source_length", "64", "--max_target_length", "12"]
    if script == "run_glue":
        own, file = ["--backbone", "tiny", "--max_seq_length", "96"], folder / "rows.jsonl"
        rows = [{"text": text, "label": label} for text, label in (("red", "a"), ("a dog", "b"))] * 3
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [
        *("--family", "cool", "--local_config", "conv_filters=4", *own),
        *("--train_file", str(file), "--validation_file", str(file), "--max_eval_samples", "2"),
        *("--do_train", "--do_eval", "--max_steps", "3", *saving, "--per_device_train_batch_size", "2"),
        *("--use_cpu", "--report_to", "none", "--disable_tqdm", "true", "--output_dir", str(folder / "out")),
        *("--push_to_hub", "--hub_model_id", NAME, "--hub_token", TOKEN, "--hub_private_repo", "true", *more),
    ]


@pytest.mark.parametrize("script", ["run_glue", "run_qg"])
def test_a_run_is_on_the_hub_when_it_ends_and_before(script, hub, tmp_path, monkeypatch, caplog):
    monkeypatch.delenv("HF_TOKEN")  # the option alone says who we are
    metrics = load_main(script)(options(script, tmp_path))
    repository = hub.repositories[NAME]
    messages = [*repository.messages.values()]
    assert repository.private
    assert messages[:2] == ["initial commit", "Training in progress, step 2"]
    assert messages[-2:] == ["End of training", "Model card"]  # maybe with the last step's between
    _, during, *_, final, card = repository.commits.values()
    code = {name for name in final if name.endswith(".py")}
    assert set() < code < during.keys()  # what was pushed first can be used too
    assert during["model.safetensors"] != final["model.safetensors"]
    pushed = {name for files in repository.commits.values() for name in files}
    assert not [name for name in pushed if name.endswith((".bin", ".pt", ".pth", ".log")) or "state" in name]

    record = TrainingRecord.load(tmp_path / "out")
    scores = {score.metric: score.value for score in record.scores}
    assert {} != scores == {name: metrics[f"eval_{name}"] for name in scores}
    assert record.hyperparameters["max_steps"] == 3
    # Settings and lengths of generation are no scores.
    assert not scores.keys() & {"gen_len", "num_beams"}
    assert ("generation_num_beams" in record.hyperparameters) == (script == "run_qg")
    assert (record.base_model, record.dataset) == (None, None)
    written = card["README.md"].decode()
    of_model = {name for name in scores if name != "loss" and "_of_" not in name}  # not of its rivals
    assert {one.metric_type for one in ModelCard(written).data.eval_results} == of_model
    assert f'"{NAME}", revision="{list(repository.commits)[-2]}"' in written
    everything = b"".join(content for files in repository.commits.values() for content in files.values())
    assert str(tmp_path).encode() not in everything
    assert not list((tmp_path / "out").glob("_*"))
    here = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert TOKEN.encode() not in everything + here + caplog.text.encode()


def test_every_checkpoint_can_be_kept_on_the_hub(hub, tmp_path):
    load_main("run_glue")(options("run_glue", tmp_path, "--hub_strategy", "checkpoint"))
    kept = {name.removeprefix("last-checkpoint/") for name in hub.files(NAME) if name.startswith("last-checkpoint/")}
    assert {"trainer_state.json", "optimizer.pt"} <= kept  # to go on from
    assert "training_args.bin" not in kept


@pytest.mark.parametrize(
    ("fault", "word", "is_trained"),
    [
        (("create", 401), "401", False),
        (("create", 403), "403", False),
        (("create", "break"), "connect", False),
        (("/commit/", 500), "500", True),
    ],
    ids=["no token", "no rights", "hangs up", "fails at the end"],
)
def test_a_hub_that_refuses_is_told_before_training_and_else_a_complete_folder_left(
    fault, word, is_trained, hub, tmp_path, capsys
):
    hub.faults, out = [fault], tmp_path / "out"
    with pytest.raises(SystemExit, match=r"^2$"):
        load_main("run_glue")(options("run_glue", tmp_path, saving=("--save_strategy", "no")))
    last = capsys.readouterr().err.rstrip("\n").rsplit("\n", 1)[-1]
    assert re.match(f"error: .*{word}", last)
    assert bool(list(out.glob("*.safetensors"))) == is_trained
    if is_trained:
        assert re.search(f"Cannot upload '{out}' to '{NAME}': .*`hf-localattn push {out} {NAME}`", last)
        assert CoolForSequenceClassification.from_pretrained(out)
        assert TrainingRecord.load(out).scores


def test_what_the_readme_trains_arrives_on_the_hub_and_answers(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    (train, _), (use, _) = programs("README.md")
    steps, folder = "max_steps=60", '"my-classifier"'
    assert steps in train
    assert folder in use
    train = train.replace(steps, f'max_steps=2, hub_model_id="{NAME}", report_to="none", use_cpu=True')
    run_program(f"{train}trainer.push_to_hub()", "", "README.md", namespace)
    assert {"model.safetensors", "modeling_sam_roberta.py", "tokenizer.json"} <= {*hub.files(NAME)}
    run_program(use.replace(folder, f'"{NAME}"'), "", "README.md", namespace)
    assert namespace["classify"]("Dull.")[0]["label"] in ("bad", "good")
