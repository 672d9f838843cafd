import torch

from hf_localattn.data.choices import MultipleChoiceCollator, choice_features
from tests.qa_helpers import word_pieces


def test_features_and_their_batch():
    tokenizer = word_pieces()
    rows = {"context": ["the", "on"], "choices": [["cat", "red mat"], ["dog", "cats"]], "label": [1, 0]}
    features = choice_features(rows, tokenizer, 40)
    assert [tokenizer.decode(ids) for ids in features["input_ids"][1]] == [
        "[CLS] on [SEP] dog [SEP]",
        "[CLS] on [SEP] cats [SEP]",
    ]
    examples = [{name: features[name][i] for name in features} for i in range(2)]
    batch = MultipleChoiceCollator(tokenizer)(examples)
    assert batch["labels"].equal(torch.tensor([1, 0]))
    assert batch["input_ids"].shape == (2, 2, 6)
    assert batch["attention_mask"].sum(-1).tolist() == [[5, 6], [5, 6]]
    del rows["label"]
    bare = choice_features(rows, tokenizer, 40)
    batch = MultipleChoiceCollator(tokenizer)([{name: bare[name][0] for name in bare}])
    assert "labels" not in batch
    assert batch["input_ids"].shape[:2] == (1, 2)


def test_too_long_a_pair_is_cut():
    rows = {"context": ["the " * 30], "choices": [["cat " * 30, "dog"]], "label": [0]}
    features = choice_features(rows, word_pieces(), 12)
    assert [len(ids) for ids in features["input_ids"][0]] == [12, 12]
