"""Warnings about the features of a split before training."""

import pytest
from datasets import Dataset

from hf_localattn.tasks.splits import warn_of_no_query


@pytest.mark.parametrize("masks", [[[0, 0], [0]], [[[0, 0], [0]]], [[]]])
def test_rows_without_any_query_are_told(masks, caplog):
    """A row of multiple choice has a mask for each of its texts."""
    warn_of_no_query("train", Dataset.from_dict({"query_mask": masks}))
    assert "No train row" in caplog.text
    assert "local_attention=none" in caplog.text


@pytest.mark.parametrize("columns", [{"query_mask": [[0, 0], [1]]}, {"query_mask": [[[0, 1], [0]]]}, {"labels": [1]}])
def test_nothing_is_said_of_others(columns, caplog):
    warn_of_no_query("train", Dataset.from_dict(columns))
    assert not caplog.text
