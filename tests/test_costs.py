"""Tables of costs in the documentation."""

import json

import pytest

from scripts import costs


def test_every_result_is_in_a_table():
    text = "".join(page.read_text(encoding="utf-8") for page in costs.PAGES)
    shown = {name for block in costs.BLOCK.finditer(text) for name in block[2].split()}
    assert {path.stem.partition("--")[0] for path in costs.RESULTS.glob("*.json")} <= shown


def test_a_table_has_the_ratios_of_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "RESULTS", tmp_path)
    ratios = {"time_ratio": 1.5, "median_time_ratio": 1.25, "memory_ratio": 0.0}
    place = {"device": "a CPU", "threads": 2, "torch": "2.13", "date": "2026-11-22"}
    result = {"what": "A case", "environment": place, "variants": {"peer": {}, "slow": ratios}}
    (tmp_path / "mini--cpu-2-threads.json").write_text(json.dumps(result))
    page = "Before.\n<!-- written by scripts/costs.py: mini -->\nold\n<!-- end -->\nAfter.\n"
    written = costs.render(page)
    assert "| relative to `peer` | time | median time | peak memory |" in written
    assert "| `slow` | 1.50 | 1.25 | - |" in written
    assert written.startswith("Before.\n")
    assert written.endswith("<!-- end -->\nAfter.\n")
    assert "old" not in written
    assert costs.render(written) == written
    with pytest.raises(FileNotFoundError, match="'mini-2' has no result"):
        costs.render(page.replace("mini", "mini-2"))


@pytest.mark.parametrize(("task", "score"), [("text-classification", 0.966), ("question-answering", 96.6)])
def test_a_table_of_serving_has_scores_where_they_were_measured(task, score, tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "RESULTS", tmp_path)
    (tmp_path / "serving").mkdir()
    variants = {
        "PyTorch": {"scores": {"accuracy": score}, "speed_ratio": 1.0, "megabytes": 100.4},
        "torch.compile": {"scores": None, "speed_ratio": 1.6, "megabytes": 100.4},
    }
    place = {"device": "a CPU", "threads": 2, "torch": "2.13", "date": "2026-11-22", "vnni": False}
    result = {"name": "A, B", "task": task, "rows": 500, "metric": "accuracy"}
    result |= {"environment": place, "variants": variants}
    (tmp_path / "serving" / "a-b.json").write_text(json.dumps(result))
    written = costs.render("<!-- written by scripts/costs.py: serving -->\n<!-- end -->\n")
    assert "| A, B (500 rows, accuracy) | PyTorch | 96.6 | 1.00 | 100 MB |" in written
    assert "|  | torch.compile |  | 1.60 | 100 MB |" in written
    assert "without VNNI" in written
