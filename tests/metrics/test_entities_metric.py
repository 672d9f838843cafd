"""Expected numbers are counted by hand; conlleval counts the same."""

import pytest

from hf_localattn.metrics import load_metric


def scores(predictions, references):
    return load_metric("entities").compute(
        predictions=[labels.split() for labels in predictions], references=[labels.split() for labels in references]
    )


def overall(result):
    return [result[f"overall_{name}"] for name in ("precision", "recall", "f1", "accuracy")]


def test_an_entity_counts_as_a_whole():
    result = scores(
        ["B-person I-person O B-place", "B-creative-work O O"],
        ["B-person I-person I-person B-place", "B-creative-work O B-person"],
    )
    assert overall(result) == pytest.approx([2 / 3, 2 / 4, 4 / 7, 5 / 7])
    assert result["person"] == {"precision": 0, "recall": 0, "f1": 0, "number": 2}
    assert result["place"] == result["creative-work"] == {"precision": 1, "recall": 1, "f1": 1, "number": 1}


def test_a_type_that_is_only_predicted_has_no_entities():
    result = scores(["B-place O"], ["O B-person"])
    assert result["place"] == {"precision": 0, "recall": 0, "f1": 0, "number": 0}
    assert overall(result) == [0, 0, 0, 0]


def test_an_entity_ends_with_its_sentence():
    assert scores(["B-x", "I-x"], ["B-x", "I-x"])["x"]["number"] == 2


@pytest.mark.parametrize(
    "labels",
    [
        "I-x I-x O I-y I-x",  # IO, and IOB1
        "B-x I-x O B-y B-x",
        "I-x E-x O E-y E-x",  # IOE2
        "B-x E-x O S-y S-x",
        "B-x L-x O U-y U-x",  # BILOU
    ],
)
def test_all_schemes_tell_the_same_entities(labels):
    result = scores([labels], [labels])
    assert (result["x"]["number"], result["y"]["number"]) == (2, 1)
    assert overall(result) == [1, 1, 1, 1]


def test_middles_by_another_letter():
    assert scores(["B-x M-x M-x E-x"], ["B-x I-x I-x E-x"])["overall_f1"] == 1


@pytest.mark.parametrize("labels", ["O O O", ""])
def test_nothing_to_find_and_nothing_found(labels):
    result = scores([labels], [labels])
    assert set(result) == {"overall_precision", "overall_recall", "overall_f1", "overall_accuracy"}
    assert result["overall_f1"] == 0


def test_ragged_labels():
    with pytest.raises(ValueError, match="sentence 2: 1 predicted labels, but 2 true ones"):
        scores(["O", "O"], ["O", "O O"])
