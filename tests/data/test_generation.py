import logging
import re

import pytest
from transformers import ProphetNetTokenizer

from hf_localattn.data.generation import generation_features, source
from tests.qa_helpers import ALPHABET, SPECIAL, WORDS, byte_pieces, question, word_pieces


@pytest.fixture
def prophetnet_pieces(tmp_path):
    """The paper's tokenizer, which has no character offsets, with a small vocabulary."""
    pieces = [*SPECIAL, "[X_SEP]", "[MASK]", *WORDS, *ALPHABET, *(f"##{letter}" for letter in ALPHABET)]
    (tmp_path / "vocabulary.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return ProphetNetTokenizer(str(tmp_path / "vocabulary.txt"))


def test_answer_separator_passage_and_the_question_as_labels():
    tokenizer = word_pieces()
    examples = {key: [value] for key, value in question().items()}
    features = generation_features(examples, tokenizer, 40, 20)
    assert set(features) == {"input_ids", "attention_mask", "labels", "reference"}
    decoded = tokenizer.decode(features["input_ids"][0])
    assert decoded == "[CLS] on the mat [SEP] the cats sat on the mat. the dog sat. [SEP]"
    assert tokenizer.decode(features["labels"][0]) == "[CLS] where sat the cat? [SEP]"
    cut = generation_features(examples, tokenizer, 40, 4)["labels"][0]
    assert tokenizer.decode(cut) == "[CLS] where sat [SEP]"  # a cut question still has its end


def test_padding_to_the_full_lengths():
    tokenizer = word_pieces()
    examples = {key: [value] for key, value in question().items()}
    features = generation_features(examples, tokenizer, 40, 20, pad_to_max_length=True)
    ids, mask, labels = (features[name][0] for name in ("input_ids", "attention_mask", "labels"))
    assert (len(ids), len(mask), len(labels)) == (40, 40, 20)
    assert ids[sum(mask) :] == [tokenizer.pad_token_id] * (40 - sum(mask))
    assert labels[-1] == -100


# The word "dog" marks the answer, red words are far from it.
FILLER = "red " * 40


@pytest.mark.parametrize("kind", ["fast", "bytes", "no offsets"])
@pytest.mark.parametrize(
    ("before", "after"),
    [(FILLER + "who sat on ", " the mat. " + FILLER), ("", " the mat. " + FILLER), (FILLER + "who sat on ", "")],
)
def test_of_a_long_passage_the_answers_surroundings_are_used(kind, before, after, prophetnet_pieces):
    tokenizer = {"fast": word_pieces(), "bytes": byte_pieces(), "no offsets": prophetnet_pieces}[kind]
    length = 80 if kind == "bytes" else 20
    ids = source(before + "dog" + after, "dog", len(before), tokenizer, length)
    decoded = tokenizer.decode(ids)
    if kind == "bytes":
        decoded = decoded.replace(" ", "").replace("Ġ", " ")
    passage = re.split(r"</s>|\[SEP\]", decoded)[1]
    assert length - 2 * len(" red") < len(ids) <= length  # the room is used: not a word more fits on either side
    assert passage.count("dog") == 1
    assert ("on dog" in passage) == bool(before)
    assert ("dog the mat." in passage) == bool(after)


def test_which_of_equal_words_is_the_answer_counts():
    tokenizer = word_pieces()
    context = "the dog sat. " + FILLER + "on the dog sat who?"
    ids = source(context, "dog", context.rindex("dog"), tokenizer, 20)
    assert tokenizer.decode(ids).endswith("on the dog sat who? [SEP]")


def test_the_least_that_is_used_is_the_answer(caplog):
    tokenizer = word_pieces()
    assert tokenizer.decode(source("red dog red", "dog", 4, tokenizer, 5)) == "[CLS] dog [SEP] dog [SEP]"
    assert tokenizer.decode(source("red dog red", "dog", 4, tokenizer, 7)) == "[CLS] dog [SEP] red dog red [SEP]"
    assert not caplog.text


def test_a_passage_without_spaces_is_cut_within():
    tokenizer = word_pieces()
    context = "a" * 40 + "dog" + "b" * 40
    ids = source(context, "dog", 40, tokenizer, 20)
    assert 17 < len(ids) <= 20
    passage = tokenizer.decode(ids).split("[SEP]")[1]
    assert "aadogbb" in passage


def test_an_answer_that_is_itself_too_long_is_cut(caplog):
    tokenizer = word_pieces()
    answer = "cat " * 30 + "dog"
    with caplog.at_level(logging.WARNING):
        ids = source("the " + answer + " sat", answer, 4, tokenizer, 21)
    assert tokenizer.decode(ids) == f"[CLS] {'cat ' * 9}[SEP] {'cat ' * 9}[SEP]"
    assert "does not fit into 21 tokens" in caplog.text
