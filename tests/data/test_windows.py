from types import SimpleNamespace

import datasets
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_localattn.data.questions import (
    QuestionAnsweringCollator,
    check_window_settings,
    evaluation_features,
    token_span,
    train_features,
)
from hf_localattn.training.trainer import unpad_left
from tests.qa_helpers import ALPHABET, byte_pieces, question, unanswerable, word_pieces

RIGHT = word_pieces()
LEFT = word_pieces("left", cls_last=True)
TOKENIZERS = pytest.mark.parametrize("tokenizer", [RIGHT, LEFT], ids=["right", "left"])


def batch(*rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


contexts = st.lists(st.text(ALPHABET, min_size=1, max_size=6), min_size=1, max_size=40).map(" ".join)


@TOKENIZERS
@settings(max_examples=60, deadline=None)
@given(context=contexts, data=st.data())
def test_an_answer_is_where_it_is_in_every_window_that_holds_it(tokenizer, context, data):
    start = data.draw(st.integers(0, len(context) - 1).filter(lambda i: context[i] != " "))
    end = data.draw(st.integers(start + 1, min(len(context), start + 12)).filter(lambda i: context[i - 1] != " "))
    row = question(context=context, answers={"text": [context[start:end]], "answer_start": [start]})
    train = train_features(batch(row), tokenizer, max_length=48, doc_stride=16)
    windows = evaluation_features(batch(row), tokenizer, max_length=48, doc_stride=16)
    assert train["input_ids"] == windows["input_ids"]
    found = 0
    for first, last, offsets, cls in zip(
        train["start_positions"],
        train["end_positions"],
        windows["offset_mapping"],
        windows["cls_position"],
        strict=True,
    ):
        if (first, last) == (cls, cls):
            assert token_span(offsets, start, end) is None
            continue
        found += 1
        assert offsets[first][0] <= start < offsets[first][1]
        assert offsets[last][0] < end <= offsets[last][1]
    assert found  # 12 characters are at most 12 tokens, fewer than neighbors overlap by


@TOKENIZERS
@settings(max_examples=40, deadline=None)
@given(context=contexts)
def test_windows_cover_the_context_overlap_and_fit(tokenizer, context):
    windows = evaluation_features(batch(question(context=context)), tokenizer, max_length=32, doc_stride=8)
    inside = [[offset for offset in offsets if offset is not None] for offsets in windows["offset_mapping"]]
    alone = tokenizer(context, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert all(len(ids) <= 32 for ids in windows["input_ids"])
    assert inside[0] == alone[: len(inside[0])]
    joined = inside[0]
    for own in inside[1:]:
        assert joined[-8:] == own[:8]
        joined = joined + own[8:]
    assert joined == alone
    for ids, cls in zip(windows["input_ids"], windows["cls_position"], strict=True):
        assert ids[cls] == tokenizer.cls_token_id
        assert cls == (len(ids) - 1 if tokenizer is LEFT else 0)


@TOKENIZERS
def test_no_answer_and_an_answer_elsewhere_are_the_classification_token(tokenizer):
    long = question(context="the dog sat. " * 10 + "on the mat", answers={"text": ["mat"], "answer_start": [137]})
    for row, hits in ((unanswerable(), 0), (long, 1)):
        train = train_features(batch(row), tokenizer, max_length=32, doc_stride=8)
        cls = [ids.index(tokenizer.cls_token_id) for ids in train["input_ids"]]
        different = [start != c for start, c in zip(train["start_positions"], cls, strict=True)]
        assert sum(different) == hits
        assert train["start_positions"] == train["end_positions"]


def test_the_tokens_of_an_answer():
    plain = train_features(batch(question()), RIGHT, 48, 8)
    padded = question(answers={"text": [" on the mat"], "answer_start": [12]})
    assert train_features(batch(padded), RIGHT, 48, 8)["start_positions"] == plain["start_positions"]
    row = question(context="a é€ b", answers={"text": ["é€"], "answer_start": [2]})
    train = train_features(batch(row), byte_pieces(), 64, 8)  # all bytes of a character belong to the answer
    assert train["end_positions"][0] - train["start_positions"][0] + 1 == len("é€".encode())


def test_the_space_before_a_question_is_dropped_and_a_long_question_is_cut(caplog):
    spaced = train_features(batch(question(question=" " * 300 + "who sat?")), RIGHT, 40, 8)
    assert spaced["input_ids"] == train_features(batch(question(question="who sat?")), RIGHT, 40, 8)["input_ids"]
    assert not caplog.records
    windows = evaluation_features(batch(question(question="who " * 50)), RIGHT, max_length=40, doc_stride=8)
    assert windows["input_ids"][0].count(RIGHT.convert_tokens_to_ids("who")) == 40 - 3 - 8 - 14
    assert "A question of 50 tokens is cut to 15" in caplog.text


def test_settings_that_do_not_fit():
    assert check_window_settings(RIGHT, 40, 0) == 37 - 16
    assert check_window_settings(RIGHT, 40, 35) == 1
    for stride, word in ((37, r"doc_stride 37 .* 40 tokens .* 37 .* most 35"), (36, "most 35"), (-1, "negative")):
        with pytest.raises(ValueError, match=word):
            check_window_settings(RIGHT, 40, stride)
    with pytest.raises(ValueError, match="SimpleNamespace is not a fast tokenizer"):
        check_window_settings(SimpleNamespace(is_fast=False), 40, 8)


@TOKENIZERS
@pytest.mark.parametrize("max_length", [None, 60])
def test_a_batch_is_padded_and_positions_move_with_the_padding(tokenizer, max_length):
    rows = [question(0), question(1, context="red dog. " + question()["context"][:24])]
    rows[1]["answers"] = {"text": ["on the mat"], "answer_start": [22]}
    train = train_features(batch(*rows), tokenizer, 64, 8)
    features = [dict(zip(train, values, strict=True)) for values in zip(*train.values(), strict=True)]
    tensors = QuestionAnsweringCollator(tokenizer, max_length)(features)
    assert tensors["input_ids"].shape == (2, max_length or max(map(len, train["input_ids"])))
    for ids, start, end in zip(
        tensors["input_ids"], tensors["start_positions"], tensors["end_positions"], strict=True
    ):
        assert tokenizer.convert_ids_to_tokens(ids[start : end + 1]) == ["on", "the", "mat"]


def test_unpadding_undoes_left_padding():
    logits = torch.tensor([[-1.0, -2.0, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
    assert unpad_left(logits, torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])).tolist() == [[1, 2, -1, -2], [1, 2, 3, 4]]


def test_map_finds_its_cache_again(tmp_path):
    datasets.Dataset.from_list([question(0), question(1)]).save_to_disk(tmp_path / "data")
    settings = {"tokenizer": word_pieces(), "max_length": 32, "doc_stride": 8}
    check_window_settings(**settings)

    def prepared():
        rows = datasets.load_from_disk(tmp_path / "data")
        return rows.map(train_features, fn_kwargs=settings, batched=True, remove_columns=rows.column_names)

    prepared()
    assert prepared()._fingerprint == prepared()._fingerprint
