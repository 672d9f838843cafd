"""Tables of predictions: what is written is read again."""

import numpy as np
import pytest

from hf_localattn.data import load_texts
from hf_localattn.data.prediction_table import prediction_table
from hf_localattn.data.rows import Source, open_source
from tests.data.notation import write


@pytest.mark.parametrize("text", ["a\rb", "a\r\nb", 'a "b", c', "a\nb", "\r"])
def test_a_table_of_predictions_is_read_as_it_was_written(tmp_path, text):
    rows = [("line 1", {"text": f"x{text}", "label": "y"}), ("line 2", {"text": "z", "label": "y"})]
    loaded = load_texts(Source("s", rows, keeps_input=True))
    table = prediction_table(loaded, ["y"], ["y", "y"], np.ones((2, 1)))
    read = open_source(write(tmp_path, ("predictions.csv", table)), "rows").rows
    assert [(record["row_index"], record["text"], record["prediction"]) for _, record in read] == [
        ("0", f"x{text}", "y"),
        ("1", "z", "y"),
    ]
