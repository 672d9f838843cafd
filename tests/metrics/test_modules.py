"""Metrics as modules of `evaluate`: those of the package and any other, also with `--metric` of the scripts."""

import pytest

from hf_localattn.metrics import METRICS, load_metric
from tests.qa_helpers import tiny_bert, word_pieces, write_jsonl
from tests.script_helpers import load_main

MODULE = """
import datasets
import evaluate

class Share(evaluate.Metric):
    def _info(self):
        features = datasets.Features({{name: {kind} for name in ("predictions", "references")}})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        equal = [one == other for one, other in zip(predictions, references)]
        return {{"share": sum(equal) / len(equal), "of": len(equal), "each": equal, "note": "text"}}
"""


@pytest.fixture
def share(tmp_path):
    def write(kind="datasets.Value('int64')"):
        (tmp_path / "share").mkdir(exist_ok=True)
        (tmp_path / "share" / "share.py").write_text(MODULE.format(kind=kind))
        return str(tmp_path / "share")

    return write


def test_batches_and_features():
    metric = load_metric("glue", "stsb")
    metric.add_batch(predictions=[1.0, 2.0], references=[0.0, 1.0])
    metric.add_batch(predictions=[4.0], references=[2.0])
    assert metric.compute() == load_metric("glue", "stsb").compute(predictions=[1.0, 2, 4], references=[0.0, 1, 2])
    assert all(load_metric(name).features["references"] for name in METRICS if name != "glue")
    with pytest.raises(ValueError, match="predictions"):
        load_metric("entities").compute(predictions=[3], references=[["O"]])


def test_modules_of_others(share, tmp_path):
    scores = load_metric(share()).compute(predictions=[1, 0], references=[1, 1])
    assert (scores["share"], scores["of"]) == (0.5, 2)
    with pytest.raises(OSError, match=r"metric '.*nothing'"):
        load_metric(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("script", "kind", "row"),
    [
        ("run_glue", "datasets.Value('int64')", {"text": "the cat sat", "label": "a"}),
        ("run_ner", "datasets.List(datasets.Value('string'))", {"tokens": ["the", "cat"], "labels": ["O", "B-x"]}),
        ("run_swag", "datasets.Value('int64')", {"context": "the", "choices": ["cat", "mat"], "label": 1}),
    ],
)
def test_a_further_metric_of_a_script(share, tmp_path, script, kind, row):
    tokenizer = word_pieces()
    tiny_bert(tokenizer).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    data = str(write_jsonl(tmp_path / "rows.jsonl", [row, row if script != "run_glue" else {**row, "label": "b"}]))
    arguments = ["--model_name_or_path", str(tmp_path / "model"), "--output_dir", str(tmp_path / "out")]
    arguments += ["--train_file", data, "--validation_file", data, "--do_train", "--do_eval", "--max_steps", "1"]
    arguments += ["--metric", share(kind), "--metric_for_best_model", "share", "--use_cpu"]
    metrics = load_main(script)(arguments)
    assert metrics["eval_of"] == 2
    assert metrics["eval_share"] in (0, 0.5, 1)
    assert "eval_each" not in metrics
    with pytest.raises(SystemExit):  # before the training
        load_main(script)([*arguments, "--metric", str(tmp_path / "nothing"), "--output_dir", str(tmp_path / "other")])
    assert not list((tmp_path / "other").glob("*.safetensors"))
