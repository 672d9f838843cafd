import numpy as np

from hf_localattn.data.texts import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Labels, format_predictions, tokenize_texts
from tests.qa_helpers import word_pieces


def test_inputs_are_cut_and_keep_their_labels():
    tokenizer = word_pieces()
    rows = {"text": ["the cat sat", "on"], "text_pair": ["on the mat", "the"], "label": [1, 0]}
    features = tokenize_texts(rows, tokenizer, max_length=7)
    assert [len(ids) for ids in features["input_ids"]] == [7, 5]
    assert tokenizer.decode(features["input_ids"][0]) == "[CLS] the cat [SEP] on the [SEP]"
    assert features["label"] == [1, 0]
    single = tokenize_texts({"text": ["the cat"]}, tokenizer, max_length=7)
    assert tokenizer.decode(single["input_ids"][0]) == "[CLS] the cat [SEP]"
    assert "label" not in single


def test_predictions_as_text():
    logits = np.array([[0.5, -1.0], [-1.0, 2.0]])
    assert format_predictions(logits, Labels(SINGLE_LABEL, ("b", "a"))) == ["b", "a"]
    assert format_predictions((logits, "states"), Labels(MULTI_LABEL, ("b", "é"))) == ['["b"]', '["é"]']
    assert format_predictions(np.array([[1.23456], [-2.0]]), Labels(REGRESSION)) == ["1.235", "-2.000"]
