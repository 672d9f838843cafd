import pytest

from hf_localattn.data.texts import REGRESSION, SINGLE_LABEL, infer_problem_type


def test_no_label_at_all_is_a_class():
    assert infer_problem_type([None, None]) == SINGLE_LABEL


@pytest.mark.parametrize(
    ("labels", "warns"),
    [
        (["1.0", "", "0.0", None], True),
        ([2.0, 1, 0.0], True),
        (["1.0", "0.5"], False),
        ([f"{number}.0" for number in range(30)], False),
        (["1", "0"], False),
    ],
)
def test_whole_scores_may_be_classes(labels, warns, caplog):
    problem = infer_problem_type(labels)
    assert problem == (SINGLE_LABEL if labels == ["1", "0"] else REGRESSION)
    assert ("pass --do_regression false if they are classes" in caplog.text) is warns
