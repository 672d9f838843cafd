import pytest

from hf_localattn.metrics.word_scores import (
    GREATER_IS_BETTER,
    detection_scores,
    diagnosis_scores,
    entity_scores,
    mark_entities,
    select_metrics,
    word_scores,
)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["O", "B-x", "I-x"], True),
        (["O", "B-x-y", "S-x", "E-x"], True),
        (["B", "I", "E", "S"], True),
        (["U-x", "L-x", "O"], True),
        (["NOUN", "VERB"], False),
        (["c", "i"], False),
        (["O", "person"], False),
        (["O", "B-x", "X"], False),
        (["O"], False),
        ([], False),
    ],
)
def test_labels_that_mark_entities(names, expected):
    assert mark_entities(names) is expected


def test_entities():
    pair = [["B-x", "I-x", "O"]], [["B-x", "O", "O"]]
    assert entity_scores(*pair) == {"f1": 0, "precision": 0, "recall": 0, "accuracy": pytest.approx(2 / 3)}
    own = entity_scores(*pair, each=True)
    assert {name: own[name] for name in own if name.startswith("x_")} == {
        "x_precision": 0,
        "x_recall": 0,
        "x_f1": 0,
        "x_number": 1,
    }


def test_words():
    pair = [["c", "i"], ["i", "c"]], [["c", "i"], ["c", "c"]]
    # F1 of c is 4/5, of i 2/3
    assert word_scores(*pair) == {"accuracy": 3 / 4, "macro_f1": pytest.approx((4 / 5 + 2 / 3) / 2)}
    own = word_scores(*pair, each=True)
    assert [own[f"i_{name}"] for name in ("precision", "recall", "f1", "number")] == pytest.approx(
        [1 / 2, 1, 2 / 3, 1]
    )
    assert own["c_number"] == 3
    assert word_scores([[]], [[]]) == {"accuracy": 0, "macro_f1": 0}


@pytest.mark.parametrize(
    ("names", "score"),
    [
        ("O B-x I-x", entity_scores),
        ("O B-R I-R", diagnosis_scores),
        ("B-W O B-M B-S", diagnosis_scores),
        ("O B-R B-x", entity_scores),
        ("O B M E S", entity_scores),  # words of a text, marked by BMES: no types
        ("c i", detection_scores),
        ("i c", detection_scores),
        ("c i x", word_scores),
        ("c", word_scores),
        ("NOUN VERB", word_scores),
    ],
)
def test_labels_say_how_they_are_scored(names, score):
    scoring = select_metrics(names.split())
    assert scoring.score is score
    labels = [names.split()]
    assert set(scoring.score(labels, labels)) == set(scoring.reported) <= set(GREATER_IS_BETTER)
    assert set(scoring.score(labels, labels, each=True)) > set(scoring.reported)


def test_what_is_better_when_less():
    assert [name for name, greater in GREATER_IS_BETTER.items() if not greater] == ["false_positive_rate"]
