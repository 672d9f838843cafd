"""The benchmark of exported checkpoints: it compares scores before it reports a speed."""

import argparse
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import serving
from tests.serving.test_export import COPIED, checkpoint_of

ROWS = [{"text": f"Mira is {word} the baker.", "label": label} for word, label in (("not", "no"), ("now", "yes"))] * 4


def test_no_speed_is_reported_if_scores_differ(monkeypatch):
    scores = iter([{"accuracy": 0.9}, {"accuracy": 0.8}, {"accuracy": 0.9}])
    monkeypatch.setattr(serving, "scores_of", lambda run: next(scores))
    monkeypatch.setattr(serving, "times_of", lambda *_: pytest.fail("a speed was measured"))
    monkeypatch.setattr(serving.OnnxModel, "from_pretrained", lambda folder: None)
    run = SimpleNamespace(trainer=SimpleNamespace(model=torch.nn.Identity()))
    folders = dict.fromkeys((serving.FP32, serving.INT8), Path())
    with pytest.raises(ValueError, match=r"other scores than the model \(accuracy\), so no speed is reported"):
        serving.compare(run, folders, argparse.Namespace(tolerance=1e-3))


def test_only_scores_are_compared():
    metrics = {"eval_accuracy": 0.5, "eval_loss": 1.0, "eval_runtime": 2.0, "eval_samples": 3, "epoch": 0.0}
    run = SimpleNamespace(evaluate_split=lambda *_: metrics)
    assert serving.scores_of(run) == {"accuracy": 0.5}


@pytest.mark.parametrize("labels", [{}, {"labels": 1}, {"start_positions": 1, "end_positions": 2}])
def test_a_graph_has_a_loss_only_with_labels(labels):
    answer = serving.answering(torch.nn.Identity(), lambda **inputs: {"logits": torch.ones(2)})
    assert list(answer(input_ids=0, **labels)) == [*["loss"][: len(labels)], "logits"]


@pytest.mark.slow(reason="an export takes ten seconds and more, and a compilation, too")
@COPIED
def test_a_result_has_all_forms_of_a_checkpoint(tmp_path, monkeypatch):
    checkpoint = checkpoint_of("cool", "text-classification", tmp_path, id2label={0: "no", 1: "yes"})
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    words = [checkpoint, "text-classification", "--validation_file", tmp_path / "rows.jsonl", "--text_column_names"]
    words += ["text", "--label_column_name", "label", "--batches", 1, "--batch_size", 4, "--repeats", 1]
    words += ["--result", tmp_path / "result.json"]
    monkeypatch.setattr("sys.argv", ["serving", *map(str, words)])
    serving.main()
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["metric"], result["rows"], result["name"]) == ("accuracy", 8, "head")
    assert list(result["variants"]) == [serving.PEER, "torch.compile", serving.FP32, serving.INT8]
    assert result["variants"][serving.FP32]["scores"] == result["variants"][serving.PEER]["scores"]
    assert result["variants"][serving.INT8]["megabytes"] < result["variants"][serving.FP32]["megabytes"]
