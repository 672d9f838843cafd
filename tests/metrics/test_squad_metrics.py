"""Expected numbers are those of the official scripts (evaluate-v1.1.py, evaluate-v2.0.py) on the same input."""

import pytest

from hf_localattn.metrics import load_metric


def inputs(texts, golds, no_answer=None):
    """Return the arguments of a metric; a question has the number of its text as its id."""
    rows = [{"id": str(i), "prediction_text": text} for i, text in enumerate(texts)]
    for row, probability in zip(rows, no_answer or [], strict=False):
        row["no_answer_probability"] = probability
    answers = [{"id": str(i), "answers": {"text": own, "answer_start": [0] * len(own)}} for i, own in enumerate(golds)]
    return {"predictions": rows, "references": answers}


@pytest.mark.parametrize(
    ("text", "golds", "exact", "f1"),
    [
        ("The Mat!", ["mat"], 100, 100),
        ("on the red mat", ["red mat", "dog"], 0, 80),
        ("mat", ["dog", "mat"], 100, 100),
        ("", ["mat"], 0, 0),
        ("the", ["an"], 100, 0),
        ("mat", ["the"], 0, 0),
        ("É€", ["é€"], 100, 100),
        ("“mat”", ["mat"], 0, 0),  # only ASCII punctuation is dropped
        ("U.S.", ["US"], 100, 100),
    ],
)
def test_version_1(text, golds, exact, f1):
    result = load_metric("squad").compute(**inputs([text], [golds]))
    assert result == {"exact_match": pytest.approx(exact), "f1": pytest.approx(f1)}


def test_version_1_is_a_mean_and_a_missing_prediction_scores_nothing(caplog):
    given = inputs(["mat", "a dog"], [["mat"], ["red dog"], ["the"]])
    given["predictions"].append({"id": "other", "prediction_text": "mat"})
    result = load_metric("squad").compute(**given)
    assert result == {"exact_match": pytest.approx(100 / 3), "f1": pytest.approx(100 * (1 + 2 / 3) / 3)}
    assert "Question 2 has no prediction" in caplog.text
    with pytest.raises(ValueError, match=r"question '0' .*squad_v2"):
        load_metric("squad").compute(**inputs(["x"], [[]]))


def test_version_2_counts_answerable_and_unanswerable_questions_apart():
    given = inputs(["mat", "red mat", "", "dog"], [["the mat"], ["mat", "the"], [], []], no_answer=[0.0] * 4)
    assert load_metric("squad_v2").compute(**given) == {
        **{"exact": 50, "f1": pytest.approx(100 * (1 + 2 / 3 + 1) / 4), "total": 4},
        **{"HasAns_exact": 50, "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 2), "HasAns_total": 2},
        **{"NoAns_exact": 50, "NoAns_f1": 50, "NoAns_total": 2},
    }
    alone = load_metric("squad_v2").compute(**inputs(["x"], [["x"]], no_answer=[0.0]))
    assert set(alone) == {"exact", "f1", "total", "HasAns_exact", "HasAns_f1", "HasAns_total"}


def test_version_2_finds_the_best_threshold():
    given = inputs(["mat", "x", "y", "dog"], [["mat"], ["x z"], [], ["dog"]], no_answer=[-2.0, -1.0, 0.5, 3.0])
    result = load_metric("squad_v2").compute(**given, no_answer_threshold=0.0)
    assert result["exact"] == 50  # "mat", and no answer to y
    assert (result["best_exact"], result["best_exact_thresh"]) == (50, -2)
    assert (result["best_f1"], result["best_f1_thresh"]) == (pytest.approx(100 * (1 + 1 + 2 / 3) / 4), -1)
    at_best = load_metric("squad_v2").compute(**given, no_answer_threshold=result["best_f1_thresh"])
    assert at_best["f1"] == pytest.approx(result["best_f1"])
    nothing = inputs(["x", "y"], [["a"], []], no_answer=[1.0, 2.0])
    assert load_metric("squad_v2").compute(**nothing)["best_f1_thresh"] == 0


def test_version_2_with_blank_answers_and_missing_predictions(caplog):
    given = inputs(["", "the"], [["the"], ["the"], ["mat"]], no_answer=[0.0, 0.0])
    given["predictions"].append({"id": "other", "prediction_text": "mat", "no_answer_probability": 0.0})
    result = load_metric("squad_v2").compute(**given)
    # a blank gold answer counts as no answer, and so does a blank prediction
    assert (result["exact"], result["f1"]) == (pytest.approx(200 / 3), pytest.approx(200 / 3))
    assert "best_f1" not in result
    assert "Question 2 has no prediction" in caplog.text
