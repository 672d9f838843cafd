"""Each script from its options to scores, predictions, messages and a folder that gives the same predictions."""

import json
import math

import numpy as np
import pytest
from transformers import AutoConfig, pipeline

from hf_localattn.names import RIVAL_SCORES, SAMPLES
from hf_localattn.tasks.negation import OFFICIAL_SCORES
from tests.qa_helpers import question, write_jsonl
from tests.scripts.conftest import NAMES, ROWS, SENTENCES, TEXTS, json_lines, lines_of, state_of

COOL = {"family": "cool", "backbone": "tiny", "local_config": ["num_local_layers=1", "conv_filters=4"]}
OA = {"family": "oa-xlnet", "backbone": "tiny", "task_name": "negation"}
DETECT = {**OA, "detect_cues": True}
STARSEM = str(SAMPLES / "negation" / "starsem.txt")
MRPC, MATTHEWS = {"task_name": "MRPC"}, "matthews_correlation"
CLASSES, STSB, REGRESSION = "loss accuracy macro_f1", "loss pearson spearmanr", "loss pearson spearmanr mse rmse"
PRF = ("f1", "precision", "recall")
DIAGNOSIS = " ".join(f"{level}_{name}" for level in ("detection", "identification", "position") for name in PRF)
SCOPES = "loss f1 precision recall scope_exact_match"
CUES = f"{SCOPES} " + " ".join(f"{task}_{name}" for task in ("cue", "end_to_end") for name in PRF)
GENERATED = "loss bleu rouge_l METEOR gen_len num_beams"
OFFICIAL = " ".join(OFFICIAL_SCORES)
FILES = {"ner": "predictions.txt", "qa": "predict_predictions.json", "qg": "generated_predictions.txt"}

JOURNEYS = {
    "classes": ("glue", "classes.jsonl", CLASSES, {}),
    "a family": ("glue", "classes.jsonl", CLASSES, {**COOL, "local_learning_rate": 1e-3}),
    "two classes": ("glue", "two.jsonl", f"{CLASSES} f1", {}),
    "a further score": ("glue", "classes.jsonl", f"{CLASSES} {MATTHEWS}", {"metric_name": MATTHEWS}),
    "sets": ("glue", "several.jsonl", "loss micro_f1 macro_f1 subset_accuracy", {}),
    "scores": ("glue", "scores.jsonl", REGRESSION, {"metric_name": "mse"}),
    "digits as scores": ("glue", "digits.jsonl", REGRESSION, {"do_regression": True}),
    "cola": ("glue", "cola.jsonl", "loss matthews_correlation", {"task_name": "cola"}, "predict_results_cola.txt"),
    "mrpc": ("glue", "mrpc.jsonl", "loss accuracy f1 combined_score", MRPC, "predict_results_mrpc.txt"),
    "stsb": ("glue", "stsb.jsonl", f"{STSB} combined_score", {"task_name": "stsb"}, "predict_results_stsb.txt"),
    "a table": ("glue", "sst5.tsv", CLASSES, {}),
    "a column": ("glue", "jokes.csv", f"{CLASSES} f1", {"label_column_name": "is_humor"}),
    "entities": ("ner", "names.jsonl", "loss f1 precision recall accuracy", {"label_all_tokens": True}),
    "FCE": ("ner", "fce.tsv", "loss f0_5 precision recall accuracy macro_f1", COOL),
    "CGED": ("ner", "cged.xml", f"loss accuracy false_positive_rate {DIAGNOSIS}", {}),
    "scopes": ("ner", "negated.jsonl", SCOPES, OA, "predictions.jsonl"),
    "*SEM": ("ner", STARSEM, f"{SCOPES} {OFFICIAL}", OA, "starsem_predicted.txt"),
    "cues": ("ner", "detected.jsonl", CUES, DETECT, "predictions.jsonl"),
    "cues of *SEM": ("ner", STARSEM, f"{CUES} {OFFICIAL}", DETECT, "starsem_gold.txt"),
    "SWAG": ("swag", "swag.csv", "loss accuracy", {}),
    "letters": ("swag", "letters.jsonl", "loss accuracy", COOL),
    "answers": ("qa", "answered.jsonl", "exact_match f1", {}),
    "questions": ("qg", "answered.jsonl", GENERATED, {}),
    "questions of ProphetNet": ("qg", "answered.jsonl", GENERATED, {"backbone": "prophetnet"}),
    "questions of a family": ("qg", "answered.jsonl", GENERATED, {**COOL, "backbone": "bart"}),
}
"""Script, file for training, validation and test, scores of an evaluation, options, and the file of predictions."""


def scores_of(metrics, prefix):
    """Scores of a split by name; METEOR's name depends on WordNet."""
    no_scores = ("runtime", "per_second", "samples", "preparation_time", *RIVAL_SCORES)
    found = {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}
    return {
        "METEOR" if name.startswith("meteor") else name: value
        for name, value in found.items()
        if not name.endswith(no_scores) and isinstance(value, int | float)
    }


@pytest.mark.parametrize("name", JOURNEYS)
def test_files_and_scores(name, run, tmp_path):
    script, data, scores, options, *file = JOURNEYS[name]
    metrics, out = run(script, data, test_file=data, **options), tmp_path / "out"
    assert math.isfinite(metrics["train_loss"])
    found = scores_of(metrics, "eval_")
    assert set(found) == set(scores.split())
    assert scores_of(metrics, "predict_") == found  # the same rows
    if "combined_score" in found:
        assert found["combined_score"] == np.mean([found[name] for name in scores.split()[1:-1]])
    written = json.loads((out / "all_results.json").read_text())
    assert {key: written[key] for key in metrics} == metrics
    assert (out / (file[0] if file else FILES.get(script, "predict_results.txt"))).is_file()
    assert not list(out.glob("_*")), "a temporary file is left"


OF_EVALUATION = {
    "dataloader_drop_last": True,
    "eval_do_concat_batches": False,
    "batch_eval_metrics": True,
    "include_for_metrics": ["inputs", "loss"],
    "remove_unused_columns": False,
    "train_sampling_strategy": "group_by_length",
}


@pytest.mark.parametrize(
    "name", ["classes", "sets", "scores", "entities", "scopes", "cues", "letters", "answers", "questions"]
)
def test_all_rows_are_scored_whatever_the_options(name, run, tmp_path):
    """A batch of 5 rows leaves a last, smaller batch."""
    script, data, _, options, *file = JOURNEYS[name]
    unusual = {
        key: value for key, value in OF_EVALUATION.items() if script != "swag" or key != "train_sampling_strategy"
    }
    given = {"data": data, "do": "eval predict", "test_file": data, "per_device_eval_batch_size": 5, **options}
    metrics = [scores_of(run(script, out=out, **given, **more), "") for out, more in (("a", {}), ("b", unusual))]
    assert metrics[0] == metrics[1]
    name = file[0] if file else FILES.get(script, "predict_results.txt")
    assert (tmp_path / "a" / name).read_text() == (tmp_path / "b" / name).read_text()


def right_labels(out):
    return [line.split() for line in lines_of(out / "predictions.txt")] == [row["ner_tags"] for row in SENTENCES]


def right_choices(out):
    return lines_of(out / "predict_results.txt") == ["index\tprediction", "0\t0", "1\t2", "2\t1"]


def right_scopes(out):
    return all(row["predicted_scope"] == row["scope"] for row in json_lines(out / "predictions.jsonl"))


def right_negations(out):
    (found,) = pipeline("negation", model=str(out), device="cpu")(" ".join(ROWS["detected"][1]["tokens"]))
    assert [part["text"] for part in found["cue"]] == ["not"]
    assert [span["text"] for span in found["scope"]] == [" ".join(ROWS["detected"][1]["tokens"][2:4])]
    lines = json_lines(out / "predictions.jsonl")
    return len(lines) == 6 and all(line["predicted_negations"] == line["negations"] for line in lines)


LEARN = {"max_steps": 60, "learning_rate": 0.02, "lr_scheduler_type": "constant"}
ENTITIES = {**LEARN, "backbone": "left", "return_entity_level_metrics": True}
ENTITIES |= {"train_sampling_strategy": "group_by_length"}  # which must not sort the rows of an evaluation
CHOICES = {**LEARN, "max_steps": 40, "learning_rate": 0.01, "pad_to_max_length": True, "backbone": "left"}
QUESTIONS = {**LEARN, "max_steps": 120, "learning_rate": 1e-2, "per_device_train_batch_size": 16}
OF_SCOPES = {**OA, **LEARN, "max_steps": 50, "learning_rate": 2e-3, "per_device_train_batch_size": 8}
OF_CUES = {**LEARN, "learning_rate": 3e-3, "per_device_train_batch_size": 16, "detect_cues": True}
PLAIN = {"task_name": "negation", "backbone": "tiny"}
FIELDS = {
    "query": {"local_config": ["local_attention=emb", "cue_marker=drop", "oa_dropout=0", "classifier_dropout=0"]},
    "markers": {"local_config": ["local_attention=none", "cue_marker=keep", "classifier_dropout=0"]},
    "both": {"local_config": ["oa_dropout=0", "classifier_dropout=0"]},
}
ALL, DIAGNOSES = {"f1": 1, "scope_exact_match": 1}, dict.fromkeys(DIAGNOSIS.split()[::3], 1)
ALL_CUES = dict.fromkeys(("cue_f1", "f1", "end_to_end_f1"), 1)
ALL_ENTITIES = {"f1": 1, "accuracy": 1, "pet_f1": 1, "pet_number": 2, "place_number": 2}
LEARNED = {
    "entities": ("ner", "names.jsonl", ENTITIES, ALL_ENTITIES, right_labels),
    "diagnosis": ("ner", "cged.xml", LEARN, DIAGNOSES),
    "detection": ("ner", "fce.tsv", LEARN, {"f0_5": 1}),
    "choices": ("swag", "swag.csv", CHOICES, {"accuracy": 1}, right_choices),
    "questions": ("qg", "asked.jsonl", QUESTIONS, {"bleu": pytest.approx(100), "rouge_l": pytest.approx(100)}),
    "scopes, from the query": ("ner", "negated.jsonl", {**OF_SCOPES, **FIELDS["query"]}, ALL, right_scopes),
    "scopes, from the markers": ("ner", "negated.jsonl", {**OF_SCOPES, **FIELDS["markers"]}, ALL, right_scopes),
    "cues": ("ner", "detected.jsonl", {**OA, **OF_CUES, **FIELDS["both"]}, ALL_CUES, right_negations),
    "cues, of the encoder alone": ("ner", "detected.jsonl", {**PLAIN, **OF_CUES}, ALL_CUES, right_negations),
}
"""Script, file, options, expected scores, and whether the predictions are right."""


@pytest.mark.parametrize("name", LEARNED)
def test_it_learns(name, run, tmp_path):
    script, data, options, expected, *is_right = LEARNED[name]
    metrics = run(script, data, test_file=data, **options)
    for prefix in ("eval", "predict"):
        assert {score: metrics[f"{prefix}_{score}"] for score in expected} == expected
    assert all(right(tmp_path / "out") for right in is_right)


@pytest.mark.parametrize(
    ("script", "data", "test", "options"),
    [
        ("glue", "classes.jsonl", "texts.jsonl", {}),
        ("ner", "names.jsonl", "tokens.jsonl", {}),
        ("swag", "swag.csv", "bare.csv", {}),
        ("qa", "answered.jsonl", "questions.jsonl", {}),
        ("qg", "answered.jsonl", "unasked.jsonl", {}),
        ("qg", "answered.jsonl", "unasked.jsonl", {**COOL, "backbone": "prophetnet"}),
        ("ner", "negated.jsonl", "cues.jsonl", OA),
        ("ner", "detected.jsonl", "cues.jsonl", DETECT),
    ],
)
def test_the_saved_folder_gives_the_predictions_of_rows_without_labels(script, data, test, options, run, tmp_path):
    metrics = run(script, data, test_file=test, **options)
    of_cues = {f"cue_{name}" for name in PRF} if options is DETECT else set()
    assert set(scores_of(metrics, "predict_")) - {"gen_len", "num_beams"} == of_cues
    task = {name: value for name, value in options.items() if name in ("task_name", "detect_cues")}
    run(script, None, "predict", "again", model=str(tmp_path / "out"), test_file=test, **task)
    name = "predictions.jsonl" if options in (OA, DETECT) else FILES.get(script, "predict_results.txt")
    assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


@pytest.mark.parametrize(
    ("script", "row", "empty"),
    [
        ("glue", {"text": "the cat", "label": "a"}, {"text": " ", "label": "b"}),
        ("ner", SENTENCES[0], {"tokens": [" "], "ner_tags": ["O"]}),
        ("swag", *({"context": "the cat", "choices": ["mat", end], "label": 0} for end in ("dog", ""))),
        ("qa", *(question(1, question=text) for text in ("who?", " "))),
        ("qg", question(1), question(1, context="")),
    ],
)
def test_rows_without_text_are_left_out_and_others_keep_their_number(script, row, empty, run, tmp_path, caplog):
    rows = [{**one, "id": f"q{number}"} for number, one in enumerate((row, empty, row))]
    rows[2] |= {"label": "b"} if script == "glue" else {}
    path = str(write_jsonl(tmp_path / "data.jsonl", rows))
    metrics = run(script, path, test_file=path, skip_empty=True)
    assert {metrics[f"{part}_samples"] for part in ("train", "eval", "predict")} == {2}
    assert "leaving out 1 of 3 rows, which have an empty text, the first one in line 2." in caplog.text
    text = (tmp_path / "out" / FILES.get(script, "predict_results.txt")).read_text()
    if script in ("glue", "swag"):
        assert [line.split("\t")[0] for line in text.splitlines()] == ["index", "0", "2"]
    assert script != "ner" or [len(line.split()) for line in text.splitlines()] == [6, 0, 6]
    assert script != "qa" or set(json.loads(text)) == {"q0", "q2"}


@pytest.mark.parametrize(
    ("script", "data", "metric", "options"),
    [
        ("glue", "scores.jsonl", "mse", {"metric_name": "mse"}),
        ("glue", "mrpc.jsonl", "combined_score", {**MRPC, "metric_for_best_model": "eval_combined_score"}),
        ("qa", "answered.jsonl", "f1", {}),  # has no loss
        ("qg", "answered.jsonl", "bleu", {}),
        ("ner", "negated.jsonl", "f1", {**OA, "early_stopping_patience": 1}),
    ],
)
def test_the_best_model_is_told_by_the_score(script, data, metric, options, run, tmp_path):
    often = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    run(script, data, do="train eval", load_best_model_at_end=True, **often, **options)
    state = state_of(tmp_path / "out")
    values = [log[f"eval_{metric}"] for log in state["log_history"] if f"eval_{metric}" in log]
    assert len(values) >= 2
    assert state["best_metric"] == (min if metric in ("loss", "mse") else max)(values)


def names_of(folder):
    config = AutoConfig.from_pretrained(folder)
    return [config.id2label[number] for number in range(config.num_labels)]


@pytest.mark.parametrize(
    ("script", "data", "options", "expected"),
    [
        ("glue", "classes.jsonl", {"max_train_samples": 2}, ["ant", "bee", "cat"]),  # of all rows
        ("glue", "two.jsonl", {"model": "classifier", "ignore_mismatched_sizes": True}, ["no", "yes"]),
        ("ner", "names.jsonl", {"max_train_samples": 1}, NAMES),
        ("ner", "names.jsonl", {"model": "tagger"}, ["B-car", *NAMES[::-1]]),
        ("ner", "cged.xml", {}, sorted(["O", *(f"{letter}-{kind}" for letter in "BI" for kind in "RMSW")])),
    ],
)
def test_labels_of_a_trained_model(script, data, options, expected, run, tmp_path):
    run(script, data, "train", **options)
    assert names_of(tmp_path / "out") == expected


STOPPED = {"early_stopping_patience": 1, "eval_strategy": "steps", "eval_steps": 1, "max_steps": 9, "learning_rate": 0}
STOPPED |= {"save_strategy": "steps", "save_steps": 1}


@pytest.mark.parametrize(
    ("script", "word", "options"),
    [
        ("glue", "one of 2 classes ('no', 'yes') of texts", {"data": "two.jsonl"}),
        ("glue", "4 of 4 validation rows fill the 4 tokens", {"data": "two.jsonl", "max_seq_length": 4}),
        ("glue", "the classes dog", {"data": "classes.jsonl", "train_file": "four.jsonl"}),
        ("glue", "has a query", {"family": "oa-xlnet", "backbone": "tiny", "data": "two.jsonl"}),
        ("swag", "Training", {"family": "oa-xlnet", "backbone": "tiny", "data": "swag.csv"}),
        ("ner", "1 of 4 train rows are left out", {**OA, "data": "long.jsonl", "max_seq_length": 24}),
        ("glue", "stopped early: of 9, those after 1 were not better", {**STOPPED, "data": "two.jsonl"}),
        ("ner", "2 of 4 train rows fill the 24 tokens", {**OA, "data": "long.jsonl", "max_seq_length": 24}),
    ],
)
def test_log_and_warnings(script, word, options, run, caplog):
    with caplog.at_level("INFO", logger="hf_localattn"):
        run(script, do="train eval", **options)
    assert word in caplog.text
    assert ("has a query" in caplog.text) is (word == "has a query")


CUT = {"max_seq_length": 4, "label_names_file": "labels.json"}


@pytest.mark.parametrize(
    ("data", "test", "options", "expected"),
    [
        ("names.jsonl", "tokens.jsonl", CUT, [6, 3, 3]),  # some words are cut off
        ("gaps.jsonl", "gaps.jsonl", {"per_device_train_batch_size": 1}, [0, 6, 1, 3]),  # no words, no visible word
        ("cged.xml", "bare.xml", {}, [9, 5]),  # characters, of which blanks have no token
    ],
)
def test_every_word_of_a_sentence_has_a_label_in_its_line(data, test, options, expected, run, tmp_path):
    metrics = run("ner", data, test_file=test, **options)
    assert metrics["train_loss"] > 0  # and not NaN, as the loss of no word is
    lines = [line.split() for line in lines_of(tmp_path / "out" / "predictions.txt")]
    assert [len(line) for line in lines] == expected
    assert data == "gaps.jsonl" or "O" in lines[0]


@pytest.mark.parametrize("backbone", ["plain", "left"])
@pytest.mark.parametrize("threshold", [-5.0, 0.0, 5.0])
def test_unanswerable_questions_are_decided_by_the_threshold(backbone, threshold, run, tmp_path):
    options = {"version_2_with_negative": True, "pad_to_max_length": backbone == "plain", "backbone": backbone}
    metrics = run("qa", "mixed.jsonl", "eval", null_score_diff_threshold=threshold, **options)
    assert {"eval_exact", "eval_HasAns_f1", "eval_best_f1_thresh"} <= set(metrics)
    odds, predictions = (
        json.loads((tmp_path / "out" / f"eval_{name}.json").read_text()) for name in ("null_odds", "predictions")
    )
    silent = {key: text == "" for key, text in predictions.items()}
    assert silent == {key: value > threshold for key, value in odds.items()}
    assert metrics["eval_NoAns_f1"] == pytest.approx(100 / 3 * sum(silent[key] for key in ("q0", "q2", "q4")))


def test_rows_are_scored_against_their_own_questions(run, tmp_path):
    data = str(write_jsonl(tmp_path / "two.jsonl", [question(0), question(1, question="who?")]))
    before = run("qg", None, "predict", test_file=data, num_beams=1)
    first, second = lines_of(tmp_path / "out" / "generated_predictions.txt")
    assert first == second  # the same passage and answer
    write_jsonl(tmp_path / "two.jsonl", [question(number, question=f"{first} x") for number in range(2)])
    after = run("qg", None, "predict", out="again", test_file=data, num_beams=1)
    assert before["predict_rouge_l"] < 50 < after["predict_rouge_l"]
    assert (before["predict_num_beams"], before["predict_gen_len"]) == (1, after["predict_gen_len"])


def test_questions_are_padded_on_the_right(run):
    left = run("qg", "answered.jsonl", "eval", backbone="left_bart")
    right = run("qg", "answered.jsonl", "eval", out="right", pad_to_max_length=True)
    assert left["eval_loss"] == pytest.approx(right["eval_loss"], rel=1e-4)
    assert left["eval_bleu"] == right["eval_bleu"]


def test_the_loss_alone_of_questions_that_have_an_answer(run):
    metrics = run("qg", "mixed.jsonl", "eval", predict_with_generate=False)
    assert metrics["eval_loss"] > 0
    assert metrics["eval_samples"] == 3
    assert "eval_bleu" not in metrics


def test_mnli_is_evaluated_on_both_of_its_sets(run, tmp_path):
    (tmp_path / "mnli" / "data").mkdir(parents=True)
    labels = {"train": (0, 1, 2), "validation_matched": (0, 1), "validation_mismatched": (2, 1, 0)}
    for split, own in {**labels, "test_matched": (-1,), "test_mismatched": (-1, -1)}.items():
        rows = [{"premise": TEXTS[i], "hypothesis": TEXTS[-i], "label": label} for i, label in enumerate(own)]
        write_jsonl(tmp_path / "mnli" / "data" / f"{split}-00000-of-00001.jsonl", rows)
    metrics = run("glue", task_name="mnli", dataset_name=str(tmp_path / "mnli"), cache_dir=str(tmp_path / "cache"))
    assert (metrics["eval_samples"], metrics["eval_mismatched_samples"]) == (2, 3)
    assert {"eval_accuracy", "eval_mismatched_accuracy"} <= set(metrics)
    assert "predict_loss" not in metrics
    written = [lines_of(tmp_path / "out" / f"predict_results_{name}.txt")[1:] for name in ("mnli", "mnli-mm")]
    assert list(map(len, written)) == [1, 2]
    assert names_of(tmp_path / "out")[1] == "neutral"
