"""Tables of predictions, reports by class, calibrated probabilities, weights of classes, and recorded columns."""

import csv
import json

import numpy as np
import pytest
from transformers import pipeline

from tests.qa_helpers import write_jsonl
from tests.scripts.conftest import ROWS, TEXTS, labeled

CALIBRATED = {"temperature_scaling": True, "max_steps": 12, "learning_rate": 5e-3}


def table_of(folder):
    with (folder / "predictions.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def probabilities_of(row):
    return {name.removeprefix("probability_"): float(value) for name, value in row.items() if name.startswith("prob")}


@pytest.mark.parametrize(
    ("script", "data", "columns", "total"),
    [
        ("glue", "classes.jsonl", {"text", "label"}, 1),
        ("glue", "pairs.jsonl", {"sentence1", "sentence2", "label"}, 1),
        ("glue", "several.jsonl", {"text", "label"}, None),
        ("glue", "scores.jsonl", {"text", "label"}, 0),
        ("swag", "letters.jsonl", {"context", "choices", "label"}, 1),
    ],
)
def test_a_table_has_the_input_and_the_probabilities(script, data, columns, total, run, files, tmp_path):
    run(script, data, "train predict", test_file=data)
    table = table_of(tmp_path / "out")
    inputs = [json.loads(line) for line in (files / data).read_text().splitlines()]
    assert [row["row_index"] for row in table] == [str(index) for index in range(len(inputs))]
    for row, record in zip(table, inputs, strict=True):
        probabilities = probabilities_of(row)
        assert row.keys() - {"row_index", "prediction", *(f"probability_{name}" for name in probabilities)} == columns
        cells = {name: value if isinstance(value, str) else json.dumps(value) for name, value in record.items()}
        assert {name: row[name] for name in columns} == cells
        if total is None:
            assert set(json.loads(row["prediction"])) == {name for name, value in probabilities.items() if value > 0.5}
        else:
            assert sum(probabilities.values()) == pytest.approx(total, abs=1e-5)
            assert not total or row["prediction"] == max(probabilities, key=probabilities.get)


def test_rows_of_folds_keep_their_index(run, tmp_path):
    run("glue", "classes.jsonl", num_folds=2, validation_file=None)
    tables = [table_of(tmp_path / "out" / f"fold-{fold}") for fold in (1, 2)]
    assert sorted(int(row["row_index"]) for table in tables for row in table) == list(range(6))
    assert all(row["text"] == TEXTS[int(row["row_index"])] for table in tables for row in table)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("classes", {}),
        (
            "classes",
            {"family": "sam-roberta", "backbone": "tiny", "local_config": ["pooling=rb", "bilstm_hidden_size=8"]},
        ),
        ("classes", {"family": "sla-bert", "backbone": "tiny", "local_config": ["local_attention=window"]}),
        ("several", {"family": "cool", "backbone": "tiny", "local_config": ["conv_filters=4"]}),
        ("pairs", {}),
    ],
)
def test_calibrated_probabilities_are_those_of_a_stock_pipeline(data, options, run, tmp_path):
    """Two training rows contradict each other, so that not all rows can be predicted rightly."""
    names = {"pairs": {"sentence1": TEXTS, "sentence2": TEXTS[::-1]}}.get(data, {"text": TEXTS})
    labels = [["bee"], ["ant", "bee"], [], ["cat"]] if data == "several" else ["bee", "ant", "cat", "ant"]
    rows = [*labeled(*labels, **names), {**labeled(*labels, **names)[0], "label": labels[1]}]
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    metrics = run("glue", path, test_file=path, **CALIBRATED, **options)
    out = tmp_path / "out"
    assert metrics["temperature"] != 1
    assert metrics["eval_calibration_error"] != metrics["eval_calibration_error_before"]
    record = json.loads((out / "training_record.json").read_text())
    assert record["hyperparameters"]["temperature"] == metrics["temperature"]
    classify = pipeline("text-classification", model=str(out), top_k=None, device="cpu")
    first, *second = names
    texts = [{"text": row[first], **({"text_pair": row[second[0]]} if second else {})} for row in rows]
    for row, scores in zip(table_of(out), classify(texts), strict=True):
        assert probabilities_of(row) == pytest.approx({one["label"]: one["score"] for one in scores}, abs=1e-5)


@pytest.mark.parametrize(("script", "data"), [("glue", "classes"), ("swag", "letters"), ("qg", "answered")])
def test_missing_labels_are_told_once(script, data, run, tmp_path, caplog):
    """Also if plain rivals of the model are scored on the same rows."""
    label = "question" if script == "qg" else "label"
    rows = [dict(row) for row in ROWS[data][:3]]
    rows[1][label] = None
    metrics = run(script, f"{data}.jsonl", "train predict", test_file=str(write_jsonl(tmp_path / "test.jsonl", rows)))
    assert metrics["predict_labeled_samples"] == 2
    assert caplog.text.count("1 of 3 test rows have no label: the scores are those of the other 2.") == 1


def test_a_report_is_in_the_results_the_log_and_the_card(run, tmp_path, caplog):
    run("glue", "classes.jsonl", "train eval", class_weights=["ant=2.5"])
    report = json.loads((tmp_path / "out" / "all_results.json").read_text())["eval_report"]
    assert [report["classes"][name]["support"] for name in ("ant", "bee", "cat")] == [2, 2, 2]
    assert [sum(row) for row in report["confusion_matrix"]] == [2, 2, 2]
    assert "True classes in rows" in caplog.text
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| ant |" in card
    assert "| class_weights | ant=2.5 |" in card
    assert "(constant: 0.333333)" in card


def test_weights_of_classes_and_smoothing_change_the_loss_of_the_training_alone(run):
    losses = {}
    changes = {name: {"class_weights": [f"{name}=2"]} for name in ("ant", "bee")}
    changes |= {"none": {}, "balanced": {"class_weights": ["balanced"]}, "smooth": {"label_smoothing_factor": 0.5}}
    fixed = {"learning_rate": 1e-30, "max_steps": 3}  # all rows
    for name, change in changes.items():
        losses[name] = run("glue", "classes.jsonl", "train eval", name, **change, **fixed)
    values = {name: metrics["train_loss"] for name, metrics in losses.items()}
    assert values["balanced"] == pytest.approx(values["none"], rel=1e-3)
    assert values["ant"] > values["none"] < values["bee"]
    assert values["smooth"] != pytest.approx(values["none"], rel=1e-4)
    assert len({metrics["eval_loss"] for metrics in losses.values()}) == 1


def test_columns_need_not_be_named_again(run, tmp_path, caplog):
    rows = [{"title": text, "text": "-", "kind": kind} for text, kind in zip(TEXTS, "abcabc", strict=True)]
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    named = {"text_column_names": "title", "label_column_name": "kind"}
    trained = run("glue", path, test_file=path, **named)
    model = str(tmp_path / "out")
    again = run("glue", None, "predict", "again", model=model, test_file=path)
    assert again["predict_loss"] == trained["predict_loss"]
    assert "--text_column_names is title, as in the training" in caplog.text
    other = run("glue", None, "predict", "other", model=model, test_file=path, text_column_names="text")
    assert "--text_column_names is text, not title" in caplog.text
    assert np.ptp([float(row["probability_a"]) for row in table_of(tmp_path / "other")]) == 0
    assert other["predict_loss"] != trained["predict_loss"]
    further = str(write_jsonl(tmp_path / "further.jsonl", labeled("a", "b", "c")))
    run("glue", further, "train", "further", model=model)  # other data, in usual columns
