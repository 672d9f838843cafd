"""Cross-validation and early stopping through the scripts, on models that learn nothing in a few steps."""

import json
import math

import pytest

from hf_localattn.studies import command
from hf_localattn.studies.processes import RunFailed
from hf_localattn.training.run_record import scores_of
from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.qa_helpers import question, write_jsonl
from tests.script_helpers import assert_one_line_error, load_main
from tests.scripts.conftest import state_of

ROWS = "sample:reviews.csv"
STEPS = ("--max_steps", "2", "--save_strategy", "steps", "--save_steps", "1", "--learning_rate", "1e-2")
ONE_STEP = ("--max_steps", "1", "--save_strategy", "no")
STOPPING = ("--early_stopping_patience", "2", "--num_train_epochs", "9", "--learning_rate", "0")


COMMON = "--family baseline --backbone tiny --max_seq_length 24 --per_device_train_batch_size 2 --use_cpu"
main = load_main("run_glue")


def options(output_dir, *more, data=ROWS, folds=3):
    own = ["--train_file", str(data), "--num_folds", str(folds), "--output_dir", str(output_dir)]
    return [*COMMON.split(), *own, "--disable_tqdm", "true", *more]


def without(option, given):
    where = given.index(option)
    return given[:where] + given[where + 2 :]


def folds_of(output_dir):
    return json.loads((output_dir / "folds.json").read_text())["folds"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder and the metrics of a run in one go."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, main(options(folder, *STEPS))


def test_every_row_is_tested_once(whole):
    folder, metrics = whole
    assert {"eval_accuracy_mean", "eval_accuracy_std", "predict_macro_f1_mean", "predict_loss_std"} <= set(metrics)
    folds = folds_of(folder)
    for prefix in ("train", "eval", "predict"):
        assert [fold[f"{prefix}_samples"] for fold in folds] == [4, 4, 4]
    assert metrics["predict_accuracy_mean"] == pytest.approx(sum(fold["predict_accuracy"] for fold in folds) / 3)
    assert len({fold["predict_loss"] for fold in folds}) == 3
    assert all((folder / f"fold-{k}" / "predict_results.txt").is_file() for k in (1, 2, 3))


def test_folds_by_themselves_are_those_of_the_whole_run(whole, tmp_path):
    third = main(options(tmp_path, *STEPS, "--fold", "3"))
    assert main(options(tmp_path, *STEPS, "--fold", "3"))["predict_loss"] == third["predict_loss"]
    before = (tmp_path / "fold-3" / "model.safetensors").stat().st_mtime_ns
    assert main(options(tmp_path, *STEPS)) == whole[1]
    assert (tmp_path / "fold-3" / "model.safetensors").stat().st_mtime_ns == before
    assert list(map(scores_of, folds_of(tmp_path))) == list(map(scores_of, folds_of(whole[0])))


def test_a_fold_that_fails_ends_the_command_with_its_error(tmp_path, monkeypatch, capsys):
    def failing(runs, *_, **__):
        yield runs[0], RunFailed("no room")

    monkeypatch.setattr(command, "run_all", failing)
    with pytest.raises(SystemExit):
        main(options(tmp_path / "out", *STEPS))
    assert capsys.readouterr().err.strip().endswith("error: Fold 1 failed: no room")


def test_training_stops_early_and_the_best_model_is_left(tmp_path):
    main(options(tmp_path, *STOPPING, "--workers", "2", "--keep_checkpoints", folds=2))
    for fold in (tmp_path / "fold-1", tmp_path / "fold-2"):
        after = state_of(fold)
        assert after["epoch"] == 3  # the best one, and two that are not better
        best = fold / f"checkpoint-{after['global_step'] // 3}"
        assert after["best_model_checkpoint"] == str(best)
        assert (fold / "model.safetensors").read_bytes() == (best / "model.safetensors").read_bytes()


def test_patience_is_not_renewed_when_a_run_is_resumed(tmp_path, monkeypatch):
    """Without folds, and killed after the second epoch, when half of the patience is left."""
    save = LocalAttentionTrainer._save_checkpoint

    def save_and_end(self, *args, **kwargs):
        save(self, *args, **kwargs)
        if self.state.epoch == 2:
            raise KeyboardInterrupt

    given = without("--num_folds", options(tmp_path, *STOPPING, "--do_train", "--validation_file", ROWS))
    with monkeypatch.context() as patched:
        patched.setattr(LocalAttentionTrainer, "_save_checkpoint", save_and_end)
        with pytest.raises(KeyboardInterrupt):
            main(given)
    main(given)
    assert state_of(tmp_path)["epoch"] == 3
    assert not list(tmp_path.glob("checkpoint-*"))  # nobody has asked for them


@pytest.mark.parametrize(
    ("values", "mean", "deviation"),
    [([1.0, 3.0], 2.0, 2**0.5), ([1.0], 1.0, None), ([1.0, math.nan], math.nan, math.nan)],
    ids=["two", "one", "nan"],
)
def test_means_and_deviations(values, mean, deviation):
    summary = command.summary_of([{"eval_f1": value, "eval_runtime": 3.0} for value in values])
    assert summary["mean"] == {"eval_f1": pytest.approx(mean, nan_ok=True)}
    assert summary["std"].get("eval_f1") == (None if deviation is None else pytest.approx(deviation, nan_ok=True))
    assert (len(summary["interval"]) == 1) == (values == [1.0, 3.0])


def test_questions_about_one_passage_stay_together(tmp_path):
    contexts = [f"the cats sat on the mat. the dog sat {number}." for number in range(4)]
    data = tmp_path / "questions.jsonl"
    write_jsonl(data, [question(number, context=contexts[number % 4]) for number in range(8)])
    load_main("run_qa")([*options(tmp_path / "out", *ONE_STEP, data=data, folds=2), "--doc_stride", "4"])
    files = sorted((tmp_path / "out").glob("fold-*/predict_predictions.json"))
    tested = [[int(name.removeprefix("q")) for name in json.loads(path.read_text())] for path in files]
    assert sorted(tested[0] + tested[1]) == list(range(8))
    assert not {number % 4 for number in tested[0]} & {number % 4 for number in tested[1]}


def test_files_that_are_given_are_used_by_all_runs(tmp_path):
    main(options(tmp_path, *ONE_STEP, "--validation_file", ROWS, "--test_file", ROWS, folds=2))
    folds = folds_of(tmp_path)
    assert [[fold[f"{p}_samples"] for p in ("train", "eval", "predict")] for fold in folds] == [[12, 12, 12]] * 2
    assert folds[0]["eval_loss"] != folds[1]["eval_loss"]  # another seed


def test_labels_of_words_that_a_fold_does_not_train_on(tmp_path):
    """From the Hub, where labels are text: "i" is in one sentence alone, and tested or validated in some fold."""
    (tmp_path / "set").mkdir()
    rows = [{"tokens": ["the", f"cat{number}"], "ner_tags": ["i" if number == 3 else "c", "c"]} for number in range(6)]
    write_jsonl(tmp_path / "set" / "train.jsonl", rows)
    given = without("--train_file", options(tmp_path / "out", *ONE_STEP, "--cache_dir", str(tmp_path / "cache")))
    assert "predict_f0_5_mean" in load_main("run_ner")([*given, "--dataset_name", str(tmp_path / "set")])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--num_folds", "1"], "--num_folds is '1'.* 2"),
        (["--num_folds", "13"], "--num_folds 13.* 12"),
        (["--test_file", "unlabeled.jsonl"], "unlabeled.jsonl"),
        (["--resume_from_checkpoint", "x"], "--num_folds .*--resume_from_checkpoint x"),
        (["--early_stopping_patience", "2", "--do_train"], "--early_stopping_patience .* --validation_file"),
        (["--workers", "2", "--do_train"], "--workers .*--num_folds"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_the_user_can_mend_is_one_line(changes, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "unlabeled.jsonl", [{"text": "the cat sat"}])
    given = options(tmp_path / "out", *changes)
    given = without("--num_folds", given) if "--do_train" in changes else given
    assert_one_line_error(lambda: main(given), message, tmp_path / "out", capsys)


@pytest.mark.parametrize("more", [["--learning_rate", "1e-3"], ["--fold", "1", "--seed", "3"]], ids=" ".join)
def test_another_command_is_refused(whole, more, capsys):
    with pytest.raises(SystemExit):
        main(options(whole[0], *STEPS, *more))
    assert "holds another run" in capsys.readouterr().err
