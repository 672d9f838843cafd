"""Each script from its options to scores, predictions and a folder that gives the same predictions."""

import json
import math
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoTokenizer, pipeline

from hf_localattn import OaXLNetTokenizer
from hf_localattn.data.generation import source
from hf_localattn.models.negation_finder import FoundCue, NegationFinder
from hf_localattn.registry import AUTO_CLASSES
from hf_localattn.tasks.negation import OFFICIAL_SCORES
from tests.qa_helpers import question
from tests.scripts.conftest import SAMPLES, SENTENCES, TEXTS, json_lines, lines_of

COOL = {"family": "cool", "backbone": "tiny", "local_config": ["num_local_layers=1"]}
OA = {"family": "oa-xlnet", "backbone": "tiny", "task_name": "negation"}
SCOPES = "loss f1 precision recall scope_exact_match"
CUES = " ".join(f"{task}_{name}" for task in ("cue", "end_to_end") for name in ("f1", "precision", "recall"))
LEVELS = ("detection", "identification", "position")
OFFICIAL = " ".join(OFFICIAL_SCORES)


@dataclass
class Journey:
    """A run on one file for training, validation and test.

    Args:
        script: name of the script without `run_`.
        data: the file.
        scores: the scores of an evaluation, separated by blanks.
        options: options of the script.
        predictions: the file of predictions.
    """

    script: str
    data: str
    scores: str
    options: dict = field(default_factory=dict)
    predictions: str = ""

    def __post_init__(self):
        usual = {"ner": "predictions.txt", "qa": "predict_predictions.json", "qg": "generated_predictions.txt"}
        self.predictions = self.predictions or usual.get(self.script, "predict_results.txt")


REGRESSION = "loss pearson spearmanr mse rmse"
JOURNEYS = {
    "classes": Journey("glue", "classes.jsonl", "loss accuracy macro_f1"),
    "a family": Journey("glue", "classes.jsonl", "loss accuracy macro_f1", {**COOL, "local_learning_rate": 1e-3}),
    "two classes": Journey("glue", "two.jsonl", "loss accuracy macro_f1 f1"),
    "a further score": Journey(
        "glue", "classes.jsonl", "loss accuracy macro_f1 matthews_correlation", {"metric_name": "matthews_correlation"}
    ),
    "sets": Journey("glue", "several.jsonl", "loss micro_f1 macro_f1 subset_accuracy"),
    "scores": Journey("glue", "scores.jsonl", REGRESSION, {"metric_name": "mse"}),
    "digits as scores": Journey("glue", "digits.jsonl", REGRESSION, {"do_regression": True}),
    "cola": Journey(
        "glue", "cola.jsonl", "loss matthews_correlation", {"task_name": "cola"}, "predict_results_cola.txt"
    ),
    "mrpc": Journey(
        "glue", "mrpc.jsonl", "loss accuracy f1 combined_score", {"task_name": "MRPC"}, "predict_results_mrpc.txt"
    ),
    "stsb": Journey(
        "glue",
        "stsb.jsonl",
        "loss pearson spearmanr combined_score",
        {"task_name": "stsb"},
        "predict_results_stsb.txt",
    ),
    "a table": Journey("glue", "sst5.tsv", "loss accuracy macro_f1"),
    "a column": Journey("glue", "jokes.csv", "loss accuracy macro_f1 f1", {"label_column_name": "is_humor"}),
    "entities": Journey("ner", "names.jsonl", "loss f1 precision recall accuracy", {"label_all_tokens": True}),
    "FCE": Journey(
        "ner", "fce.tsv", "loss f0_5 precision recall accuracy macro_f1", {**COOL, "metric_for_best_model": "f0_5"}
    ),
    "CGED": Journey(
        "ner",
        "cged.xml",
        "loss accuracy false_positive_rate "
        + " ".join(f"{level}_{name}" for level in LEVELS for name in ("f1", "precision", "recall")),
    ),
    "scopes": Journey("ner", "negated.jsonl", SCOPES, OA, "predictions.jsonl"),
    "*SEM": Journey("ner", str(SAMPLES / "negation/starsem.txt"), f"{SCOPES} {OFFICIAL}", OA, "starsem_predicted.txt"),
    "cues": Journey("ner", "detected.jsonl", f"{SCOPES} {CUES}", {**OA, "detect_cues": True}, "predictions.jsonl"),
    "cues of *SEM": Journey(
        "ner",
        str(SAMPLES / "negation/starsem.txt"),
        f"{SCOPES} {CUES} {OFFICIAL}",
        {**OA, "detect_cues": True},
        "starsem_gold.txt",
    ),
    "SWAG": Journey("swag", "swag.csv", "loss accuracy"),
    "letters": Journey("swag", "letters.jsonl", "loss accuracy", COOL),
    "answers": Journey("qa", "answered.jsonl", "exact_match f1"),
    "questions": Journey("qg", "answered.jsonl", "loss bleu rouge_l METEOR gen_len num_beams"),
    "questions of ProphetNet": Journey(
        "qg", "answered.jsonl", "loss bleu rouge_l METEOR gen_len num_beams", {"backbone": "prophetnet"}
    ),
    "questions of a family": Journey(
        "qg", "answered.jsonl", "loss bleu rouge_l METEOR gen_len num_beams", {**COOL, "backbone": "bart"}
    ),
}
NO_SCORES = {"runtime", "samples_per_second", "steps_per_second", "samples", "model_preparation_time"}


def scores_of(metrics, prefix):
    """Scores of a split by name; METEOR's name depends on WordNet."""
    found = {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}
    return {
        "METEOR" if name.startswith("meteor") else name: value
        for name, value in found.items()
        if name not in NO_SCORES and not isinstance(value, str)
    }


@pytest.mark.parametrize("name", JOURNEYS)
def test_a_journey(name, run, tmp_path):
    journey, out = JOURNEYS[name], tmp_path / "out"
    metrics = run(journey.script, journey.data, test_file=journey.data, **journey.options)
    assert math.isfinite(metrics["train_loss"])
    found = scores_of(metrics, "eval_")
    assert set(found) == set(journey.scores.split())
    assert scores_of(metrics, "predict_") == found  # the same rows
    written = json.loads((out / "all_results.json").read_text())
    assert {key: written[key] for key in metrics} == metrics
    assert (out / journey.predictions).is_file()
    assert not list(out.glob("_*")), "a temporary file is left"


def classes(out):
    found = [answer["label"] for answer in pipeline("text-classification", str(out), device="cpu")(TEXTS)]
    return lines_of(out / "predict_results.txt")[1:], [f"{i}\t{label}" for i, label in enumerate(found)]


def labels(out):
    found = pipeline("token-classification", str(out), device="cpu")("on the mat", ignore_labels=[])
    names = {entity["start"]: entity["entity"] for entity in found}
    return lines_of(out / "predictions.txt")[2], " ".join(names[start] for start in (0, 3, 7))


def choices(out):
    model, tokenizer = loaded(out, "multiple-choice")
    endings = ["the dog sat on the mat.", "the dog red.", "the dog on, on.", "the dog where?"]
    inputs = tokenizer(["the cat sat."] * 4, endings, padding=True, return_tensors="pt")
    logits = model(**{name: tensor[None] for name, tensor in inputs.items()}).logits
    return lines_of(out / "predict_results.txt")[1], f"0\t{logits.argmax().item()}"


def answers(out):
    reader = pipeline("question-answering", str(out), device="cpu", max_seq_len=40, doc_stride=8)
    row = question()
    found = reader(question=row["question"], context=row["context"])["answer"]
    return json.loads((out / "predict_predictions.json").read_text())["q0"], found


def questions(out):
    model, tokenizer = loaded(out, "text2text-generation")
    ids = source(question()["context"], "on the mat", 13, tokenizer, 40)
    output = model.generate(torch.tensor([ids]), num_beams=2, max_length=12)
    return lines_of(out / "generated_predictions.txt")[0], tokenizer.decode(output[0], skip_special_tokens=True)


def scopes(out):
    model, tokenizer = loaded(out, "token-classification")
    assert type(tokenizer) is OaXLNetTokenizer
    rows = json_lines(out / "predictions.jsonl")
    cues = [FoundCue("negation", "single", tuple(np.flatnonzero(row["cue"]).tolist())) for row in rows]
    found = NegationFinder(model, tokenizer).find_scopes([row["tokens"] for row in rows], cues)
    return [row["predicted_scope"] for row in rows], [list(map(int, scope)) for scope, _ in found]


def loaded(out, task):
    return AUTO_CLASSES[task].from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)


@pytest.mark.parametrize(
    ("script", "data", "test", "again", "options"),
    [
        ("glue", "classes.jsonl", "texts.jsonl", classes, {}),
        ("ner", "names.jsonl", "tokens.jsonl", labels, {}),
        ("swag", "swag.csv", "bare.csv", choices, {}),
        ("qa", "answered.jsonl", "questions.jsonl", answers, {}),
        ("qg", "answered.jsonl", "unasked.jsonl", questions, {}),
        ("qg", "answered.jsonl", "unasked.jsonl", questions, {**COOL, "backbone": "prophetnet"}),
        ("ner", "negated.jsonl", "cues.jsonl", scopes, OA),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_saved_folder_gives_the_predictions_of_rows_without_labels(
    script, data, test, again, options, run, tmp_path
):
    metrics = run(script, data, test_file=test, **options)
    assert set(scores_of(metrics, "predict_")) <= {"gen_len", "num_beams"}
    with torch.inference_mode():
        written, found = again(tmp_path / "out")
    assert written == found


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
    numbers = count()
    rows = [{**one, "id": f"q{next(numbers)}"} for one in (row, empty, row)]
    rows[2] |= {"label": "b"} if script == "glue" else {}
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    metrics = run(script, str(path), test_file=str(path), skip_empty=True)
    assert {metrics[f"{part}_samples"] for part in ("train", "eval", "predict")} == {2}
    assert "leaving out 1 of 3 rows, which have an empty text, the first one in line 2." in caplog.text
    if script in ("glue", "swag"):
        lines = lines_of(tmp_path / "out" / "predict_results.txt")
        assert [line.split("\t")[0] for line in lines] == ["index", "0", "2"]
    if script == "ner":
        assert [len(line.split()) for line in lines_of(tmp_path / "out" / "predictions.txt")] == [6, 0, 6]
    if script == "qa":
        assert set(json.loads((tmp_path / "out" / "predict_predictions.json").read_text())) == {"q0", "q2"}


@pytest.mark.parametrize(
    ("script", "data", "metric", "options"),
    [
        ("glue", "classes.jsonl", "loss", {}),
        ("glue", "classes.jsonl", "macro_f1", {"metric_name": "macro_f1"}),
        ("glue", "scores.jsonl", "mse", {"metric_name": "mse"}),
        ("glue", "scores.jsonl", "rmse", {"metric_for_best_model": "rmse"}),
        ("glue", "mrpc.jsonl", "combined_score", {"task_name": "mrpc", "metric_for_best_model": "combined_score"}),
        ("ner", "names.jsonl", "f1", {"metric_for_best_model": "f1"}),
        ("qa", "answered.jsonl", "f1", {}),
        ("qg", "answered.jsonl", "bleu", {}),
        ("ner", "negated.jsonl", "f1", {**OA, "early_stopping_patience": 1}),
    ],
)
def test_the_best_model_is_told_by_the_score(script, data, metric, options, run, tmp_path):
    often = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    run(script, data, do="train eval", load_best_model_at_end=True, **often, **options)
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    values = [log[f"eval_{metric}"] for log in state["log_history"] if f"eval_{metric}" in log]
    assert len(values) >= 2
    assert state["best_metric"] == (min if metric in ("loss", "mse", "rmse") else max)(values)


def test_mnli_is_evaluated_on_both_of_its_sets(run, tmp_path):
    (tmp_path / "mnli" / "data").mkdir(parents=True)
    labels = {"train": (0, 1, 2), "validation_matched": (0, 1), "validation_mismatched": (2, 1, 0)}
    for split, own in {**labels, "test_matched": (-1,), "test_mismatched": (-1, -1)}.items():
        rows = [{"premise": TEXTS[i], "hypothesis": TEXTS[-i], "label": label} for i, label in enumerate(own)]
        path = tmp_path / "mnli" / "data" / f"{split}-00000-of-00001.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    metrics = run("glue", task_name="mnli", dataset_name=str(tmp_path / "mnli"), cache_dir=str(tmp_path / "cache"))
    assert (metrics["eval_samples"], metrics["eval_mismatched_samples"]) == (2, 3)
    assert {"eval_accuracy", "eval_mismatched_accuracy"} <= set(metrics)
    assert "predict_loss" not in metrics
    written = [lines_of(tmp_path / "out" / f"predict_results_{name}.txt")[1:] for name in ("mnli", "mnli-mm")]
    assert list(map(len, written)) == [1, 2]
    assert AutoConfig.from_pretrained(tmp_path / "out").id2label[1] == "neutral"
