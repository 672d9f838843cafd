"""Cross-validation and early stopping through the scripts, on models that learn nothing in a few steps."""

import json
from functools import partial

import pytest

from hf_localattn.studies import command
from hf_localattn.studies.processes import RunFailed, run_all
from hf_localattn.training.run_record import scores_of
from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.qa_helpers import question, tiny_bert, word_pieces, write_jsonl
from tests.script_helpers import assert_one_line_error, load_main

TEXTS = ["the cat sat", "on the mat", "who sat?", "the red dog", "where cats sat", "the mat"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folds")
    tokenizer = word_pieces()
    tiny_bert(tokenizer).save_pretrained(folder / "backbone")
    tokenizer.save_pretrained(folder / "backbone")
    rows = [{"text": text, "label": label} for label in ("ant", "bee") for text in TEXTS]
    words = [{"tokens": text.split(), "ner_tags": ["c"] * len(text.split())} for text in TEXTS]
    words[3]["ner_tags"][0] = "i"
    contexts = [f"the cats sat on the mat. the dog sat {number}." for number in range(4)]
    data = {
        "classes": rows,
        "unlabeled": [{"text": text} for text in TEXTS],
        "words": words,
        "questions": [question(number, context=contexts[number % 4]) for number in range(8)],
    }
    for name, own in data.items():
        write_jsonl(folder / f"{name}.jsonl", own)
    return folder


def options(files, output_dir, *more, data="classes", folds=3):
    given = [option.format(files=files) for option in more]
    common = ["--family", "baseline", "--backbone", f"{files}/backbone", "--train_file", f"{files}/{data}.jsonl"]
    common += ["--num_folds", str(folds), "--max_seq_length", "24", "--per_device_train_batch_size", "2", "--use_cpu"]
    return [*common, "--disable_tqdm", "true", "--output_dir", str(output_dir), *given]


STEPS = ("--max_steps", "2", "--save_strategy", "steps", "--save_steps", "1", "--learning_rate", "1e-2")
STOPPING = ("--early_stopping_patience", "2", "--num_train_epochs", "9", "--learning_rate", "0")


def without(option, given):
    where = given.index(option)
    return given[:where] + given[where + 2 :]


def results(output_dir):
    return json.loads((output_dir / "folds.json").read_text())


def state(folder):
    return json.loads((folder / "trainer_state.json").read_text())


def scores(output_dir):
    return [scores_of(metrics) for metrics in results(output_dir)["folds"]]


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory):
    """The folder and the metrics of a run in one go."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, load_main("run_glue")(options(files, folder, *STEPS))


def test_every_row_is_tested_once(whole):
    folder, metrics = whole
    assert {"eval_accuracy_mean", "eval_accuracy_std", "predict_macro_f1_mean", "predict_loss_std"} <= set(metrics)
    folds = results(folder)["folds"]
    for prefix in ("train", "eval", "predict"):
        assert [fold[f"{prefix}_samples"] for fold in folds] == [4, 4, 4]
    mean = sum(fold["predict_accuracy"] for fold in folds) / 3
    assert metrics["predict_accuracy_mean"] == pytest.approx(mean)
    assert len({fold["predict_loss"] for fold in folds}) == 3
    assert all((folder / f"fold-{k}" / "predict_results.txt").is_file() for k in (1, 2, 3))


def interrupted(runs, *machine, count, **options):
    """Stand for `run_all`: Ctrl-C after some runs."""
    for number, one in enumerate(run_all(runs, *machine, **options), start=1):
        yield one
        if number == count:
            raise KeyboardInterrupt


def killed_when(monkeypatch, is_time):
    """End the training of this process after the first checkpoint at which it is time."""
    original = LocalAttentionTrainer._save_checkpoint

    def save(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if is_time(self.state):
            raise KeyboardInterrupt

    monkeypatch.setattr(LocalAttentionTrainer, "_save_checkpoint", save)


def test_a_killed_command_goes_on_and_ends_as_if_it_had_not_been(whole, files, tmp_path, monkeypatch):
    """Killed after the first fold, and in the second one."""
    main, out = load_main("run_glue"), tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(command, "run_all", partial(interrupted, count=1))
        with pytest.raises(KeyboardInterrupt):
            main(options(files, out, *STEPS))
        killed_when(patched, lambda state: True)
        with pytest.raises(KeyboardInterrupt):
            main(options(files, out, *STEPS, "--fold", "2"))
    assert len(results(out)["folds"]) == 1
    assert (out / "fold-2" / "checkpoint-1").is_dir()
    before = (out / "fold-1" / "model.safetensors").stat().st_mtime_ns
    assert main(options(files, out, *STEPS)) == whole[1]
    assert (out / "fold-1" / "model.safetensors").stat().st_mtime_ns == before
    assert scores(out) == scores(whole[0])


def test_folds_by_themselves_are_those_of_the_whole(whole, files, tmp_path):
    main = load_main("run_glue")
    own = [main(options(files, tmp_path, *STEPS, "--fold", str(number))) for number in (3, 1, 2)]
    assert main(options(files, tmp_path, *STEPS, "--fold", "2"))["predict_loss"] == own[2]["predict_loss"]
    assert main(options(files, tmp_path, *STEPS)) == whole[1]


def test_another_command_is_refused(whole, files, capsys):
    for more in (["--learning_rate", "1e-3"], ["--fold", "1", "--seed", "3"]):
        with pytest.raises(SystemExit):
            load_main("run_glue")(options(files, whole[0], *STEPS, *more))
        assert "holds another run" in capsys.readouterr().err


def test_a_fold_that_fails_ends_the_command_with_its_error(files, tmp_path, monkeypatch, capsys):
    def fail(runs, *machine, **options):
        yield next(iter(runs)), RunFailed("no room")

    monkeypatch.setattr(command, "run_all", fail)
    with pytest.raises(SystemExit):
        load_main("run_glue")(options(files, tmp_path / "out", *STEPS))
    assert capsys.readouterr().err.strip().endswith("error: Fold 1 failed: no room")


def test_training_stops_early_and_the_best_model_is_left(files, tmp_path):
    out = tmp_path / "out"
    load_main("run_glue")(options(files, out, *STOPPING, "--workers", "2", folds=2))
    for fold in ("fold-1", "fold-2"):
        after = state(out / fold)
        assert after["epoch"] == 3  # the best one, and two that are not better
        assert after["best_model_checkpoint"] == str(out / fold / f"checkpoint-{after['global_step'] // 3}")
        best = (out / fold / f"checkpoint-{after['best_global_step']}" / "model.safetensors").read_bytes()
        assert (out / fold / "model.safetensors").read_bytes() == best


@pytest.mark.parametrize(
    ("values", "mean", "deviation"), [([1.0, 3.0], 2.0, 2**0.5), ([1.0], 1.0, None), ([1.0, float("nan")], None, None)]
)
def test_means_and_deviations(values, mean, deviation):
    means, deviations = command.summary_of([{"eval_f1": value, "eval_runtime": 3.0} for value in values])
    assert means.keys() == {"eval_f1"}
    assert means["eval_f1"] == mean or mean is None
    assert deviations.get("eval_f1") == pytest.approx(deviation) or deviation is None


def test_patience_is_not_renewed_when_a_run_is_resumed(files, tmp_path, monkeypatch):
    """Without folds, and killed after the second epoch, when half of the patience is left."""
    main = load_main("run_glue")
    given = without("--num_folds", options(files, tmp_path / "out", *STOPPING, "--do_train"))
    given += ["--validation_file", f"{files}/classes.jsonl"]
    with monkeypatch.context() as patched:
        killed_when(patched, lambda state: state.epoch == 2)
        with pytest.raises(KeyboardInterrupt):
            main(given)
    main(given)
    assert state(tmp_path / "out")["epoch"] == 3


def test_questions_about_one_passage_stay_together(files, tmp_path):
    given = options(files, tmp_path, "--max_steps", "1", "--save_strategy", "no", data="questions", folds=2)
    metrics = load_main("run_qa")([*given, "--doc_stride", "4"])
    assert {"eval_f1_mean", "predict_f1_mean", "predict_exact_match_std"} <= set(metrics)
    tested = [
        [int(name.removeprefix("q")) for name in json.loads((path / "predict_predictions.json").read_text())]
        for path in (tmp_path / "fold-1", tmp_path / "fold-2")
    ]
    assert sorted(tested[0] + tested[1]) == list(range(8))
    assert not {number % 4 for number in tested[0]} & {number % 4 for number in tested[1]}


def test_files_that_are_given_are_used_by_all_runs(files, tmp_path):
    given = ["--validation_file", "{files}/classes.jsonl", "--test_file", "{files}/classes.jsonl"]
    load_main("run_glue")(options(files, tmp_path, *STEPS[:2], "--save_strategy", "no", *given, folds=2))
    folds = results(tmp_path)["folds"]
    assert [[fold[f"{p}_samples"] for p in ("train", "eval", "predict")] for fold in folds] == [[12, 12, 12]] * 2
    assert folds[0]["eval_loss"] != folds[1]["eval_loss"]  # another seed


def test_labels_of_words_that_a_fold_does_not_train_on(files, tmp_path):
    """From the Hub, where labels are text: "i" is in one sentence alone, and tested or validated in some fold."""
    (tmp_path / "set").mkdir()
    rows = (files / "words.jsonl").read_text()
    (tmp_path / "set" / "train.jsonl").write_text(rows)
    given = options(
        files, tmp_path / "out", "--max_steps", "1", "--save_strategy", "no", "--cache_dir", f"{tmp_path}/c"
    )
    del given[given.index("--train_file") : given.index("--train_file") + 2]
    metrics = load_main("run_ner")([*given, "--dataset_name", str(tmp_path / "set")])
    assert "predict_f0_5_mean" in metrics


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--num_folds", "1"], "--num_folds must be at least 2; got 1"),
        (["--num_folds", "13"], "--num_folds 13 needs at least 13 rows; the training data have 12"),
        (["--test_file", "{files}/unlabeled.jsonl"], "unlabeled.jsonl"),
        (["--resume_from_checkpoint", "x"], "--resume_from_checkpoint x cannot be used with --num_folds"),
        (["--early_stopping_patience", "2", "--eval_strategy", "no"], "--eval_strategy no contradicts it"),
    ],
)
def test_what_the_user_can_mend_is_one_line(files, tmp_path, capsys, changes, message):
    out = tmp_path / "out"
    assert_one_line_error(load_main("run_glue"), options(files, out, *changes), message, out, capsys)


def test_early_stopping_needs_validation_data(files, tmp_path, capsys):
    given = without("--num_folds", options(files, tmp_path / "out", "--do_train", "--early_stopping_patience", "2"))
    message = "--early_stopping_patience needs validation data: give --validation_file"
    assert_one_line_error(load_main("run_glue"), given, message, tmp_path / "out", capsys)
