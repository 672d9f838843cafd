"""Labels of the data against those of the checkpoint."""

import pytest
from transformers import BertConfig

from hf_localattn.data.texts import REGRESSION, SINGLE_LABEL, Labels
from hf_localattn.tasks.labels import checkpoint_labels, choose_labels, label_fields
from hf_localattn.training.arguments import ModelArguments


def labels(text):
    """Names separated by blanks; "score" is regression, "" is unknown."""
    if text == "score":
        return Labels(REGRESSION)
    return Labels(SINGLE_LABEL, tuple(text.split())) if text else None


def chosen(of_data, of_model, **options):
    config = None
    if of_model:
        config = BertConfig(**label_fields(labels(of_model).names), problem_type=labels(of_model).problem_type)
    model_args = ModelArguments("it", ignore_mismatched_sizes=options.pop("may_be_fresh", False))
    return choose_labels(labels(of_data), model_args, config, **{"trained": True, **options})


@pytest.mark.parametrize(
    ("of_data", "of_model", "options", "expected"),
    [
        ("b a", "", {}, "b a"),
        ("", "b a", {}, "b a"),
        ("b a", "a b", {}, "a b"),
        ("B A", "a b", {}, "A B"),
        ("a", "b a", {}, "b a"),
        ("us US", "US us", {}, "US us"),
        ("a b", "LABEL_0 LABEL_1", {"trained": False}, "a b"),
        ("0 1", "LABEL_0 LABEL_1 LABEL_2", {"trained": False}, "0 1 2"),
        ("0", "b a", {"trained": False}, "0 1"),
        ("a x", "b a", {"trained": False}, "b a"),  # the row with x is told later
        ("a x", "b c", {"trained": False, "fixed": True}, "a x"),
        ("0 1 2", "score", {"trained": False}, "score"),
        ("a b", "c d", {}, "a b"),
        ("a b c", "d e", {"may_be_fresh": True}, "a b c"),
    ],
)
def test_the_labels_of_data_and_model(of_data, of_model, options, expected):
    assert chosen(of_data, of_model, **options) == labels(expected)


@pytest.mark.parametrize(
    ("of_data", "of_model", "word"),
    [("", "", "No labels"), ("a b c", "d e", "--ignore_mismatched_sizes"), ("a b", "score", "predicts scores")],
)
def test_labels_that_do_not_go_together(of_data, of_model, word):
    with pytest.raises(ValueError, match=word):
        chosen(of_data, of_model)


def test_other_names_are_taken_with_a_warning(caplog):
    chosen("a b", "c d")
    assert "(c, d)" in caplog.text
    caplog.clear()
    chosen("a b", "LABEL_0 LABEL_1")
    assert not caplog.text


def test_a_head_of_one_output_predicts_scores():
    assert checkpoint_labels(BertConfig(num_labels=1)) == labels("score")
