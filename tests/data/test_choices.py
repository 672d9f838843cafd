import torch

from hf_localattn.data.choices import MultipleChoiceCollator, choice_features
from tests.qa_helpers import word_pieces


def test_features_and_their_batch():
    tokenizer = word_pieces()
    rows = {"context": ["the", "on"], "choices": [["cat", "red mat"], ["dog", "cats"]], "label": [1, 0]}
    features = choice_features(rows, tokenizer, 40)
    decoded = [[tokenizer.decode(ids) for ids in own] for own in features["input_ids"]]
    assert decoded[1] == ["[CLS] on [SEP] dog [SEP]", "[CLS] on [SEP] cats [SEP]"]
    batch = MultipleChoiceCollator(tokenizer)([{name: features[name][i] for name in features} for i in range(2)])
    assert batch["labels"].equal(torch.tensor([1, 0]))
    assert batch["input_ids"].shape == (2, 2, 6)
    assert batch["attention_mask"].sum(-1).tolist() == [[5, 6], [5, 6]]
    bare = choice_features({name: rows[name] for name in ("context", "choices")}, tokenizer, 40)
    batch = MultipleChoiceCollator(tokenizer)([{name: bare[name][0] for name in bare}])
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids"} & set(bare)
    long = {"context": ["the " * 30], "choices": [["cat " * 30, "dog"]], "label": [0]}
    assert [len(ids) for ids in choice_features(long, tokenizer, 12)["input_ids"][0]] == [12, 12]
