"""The benchmark of negation: its rows are well-formed, and its scores are right."""

import json
import sys
from collections import Counter

import pytest

from benchmarks import negation
from benchmarks.negation import Trap, evaluate, is_negated, read_traps, scores


def trap(text, target, negated=True):
    return Trap("x-1", "x", "general", text, target, text.index(target), negated)


def cue(text, part, scope=(), kind="negation", type="single"):
    spans = [{"text": one, "start": text.index(one), "end": text.index(one) + len(one)} for one in (part, *scope)]
    return {"cue": spans[:1], "kind": kind, "type": type, "scope": spans[1:]}


def test_rows_are_well_formed():
    traps = read_traps()
    assert len(traps) == len({row.id for row in traps}) == len({row.text for row in traps}) == 200
    for row in traps:
        assert row.text[row.start : row.end] == row.target, row.id
        assert (row.target, row.text) == (row.target.strip(), row.text.strip()), row.id
        assert row.target, row.id
        assert row.id.rpartition("-")[0] == row.category
    assert 0.4 <= sum(row.negated for row in traps) / 200 <= 0.6
    assert len({row.category for row in traps}) >= 15
    domains = Counter(row.domain for row in traps)
    assert domains.keys() == {"clinical", "general"}
    assert min(domains.values()) >= 80


def test_half_of_the_target_in_scope_negates_it():
    text = "He saw no red fox, but a wolf."
    found = [cue(text, "no", ["red"]), cue(text, "but", ["wolf"], kind="speculation")]
    assert is_negated(trap(text, "red fox"), found)  # 3 of 6 characters
    assert not is_negated(trap(text, "saw no red fox"), found)
    assert not is_negated(trap(text, "wolf"), found)
    assert not is_negated(trap(text, "red fox"), [])


@pytest.mark.parametrize(
    ("text", "affix", "target", "expected"),
    [
        ("an infrequent cough", "in", "frequent", True),
        ("a non-smoker", "non", "smoker", True),
        ("a harmless snake", "less", "harm", True),
        ("an infrequent cough", "in", "cough", False),
        ("a harmless snake", "less", "snake", False),
    ],
)
def test_an_affix_negates_the_rest_of_its_word(text, affix, target, expected):
    assert is_negated(trap(text, target), [cue(text, affix, type="affix")]) == expected


def test_scores_of_three_rows():
    result = scores([True, True, False], [True, False, False])
    assert (result["count"], result["negated"]) == (3, 2)
    values = {name: result[name]["value"] for name in negation.MEASURES}
    assert values == {"accuracy": 0.6667, "precision": 1.0, "recall": 0.5, "f1": 0.6667}
    assert result["accuracy"]["interval"] == [0.0, 1.0]
    assert result["precision"]["interval"] == [1.0, 1.0]


def test_a_measure_without_positives_is_undefined():
    result = scores([True, False], [False, False])
    assert result["precision"] == {"value": None, "interval": None}
    assert result["f1"]["value"] == result["recall"]["value"] == 0.0
    assert scores([False], [False])["f1"] == {"value": None, "interval": None}


def test_constant_answers():
    result = evaluate(lambda rows: [True] * len(rows), read_traps())
    assert result["all"]["recall"]["value"] == 1.0
    assert result["all"]["accuracy"]["value"] == result["all"]["negated"] / 200
    assert len(result["wrong"]) == 200 - result["all"]["negated"]


def test_results_without_negspacy(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "negspacy", None)
    monkeypatch.setattr(negation, "checkpoint_predictions", lambda name, rows: [row.negated for row in rows])
    monkeypatch.setattr("sys.argv", ["negation", "perfect", "--output", str(tmp_path / "result.json")])
    negation.main()
    systems = json.loads((tmp_path / "result.json").read_text())["systems"]
    assert systems["perfect"]["all"]["f1"] == {"value": 1.0, "interval": [1.0, 1.0]}
    assert "negspacy" in systems["negspacy en"]["skipped"]
    printed = capsys.readouterr().out
    assert "perfect" in printed
    assert "negspacy en_clinical: skipped" in printed
