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
    whole = generation_features(examples, tokenizer, 40, 20)
    assert set(whole) == {"input_ids", "attention_mask", "labels", "reference"}
    decoded = tokenizer.decode(whole["input_ids"][0])
    assert decoded == "[CLS] on the mat [SEP] the cats sat on the mat. the dog sat. [SEP]"
    assert tokenizer.decode(whole["labels"][0]) == "[CLS] where sat the cat? [SEP]"
    cut = generation_features(examples, tokenizer, 40, 4)["labels"][0]
    assert tokenizer.decode(cut) == "[CLS] where sat [SEP]"  # a cut question still has its end
    padded = generation_features(examples, tokenizer, 40, 20, pad_to_max_length=True)
    for name, length, pad in (
        ("input_ids", 40, tokenizer.pad_token_id),
        ("attention_mask", 40, 0),
        ("labels", 20, -100),
    ):
        ids = whole[name][0]
        assert padded[name] == [ids + [pad] * (length - len(ids))]


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


CATS = "cat " * 30 + "dog"
LONG = "the dog sat. " + FILLER + "on the dog sat who?"


@pytest.mark.parametrize(
    ("context", "answer", "start", "length", "passage"),
    [
        (LONG, "dog", LONG.rindex("dog"), 20, "red " * 10 + "on the dog sat who?"),
        ("red dog red", "dog", 4, 5, "dog"),
        ("red dog red", "dog", 4, 7, "red dog red"),
        ("a" * 40 + "dog" + "b" * 40, "dog", 40, 20, "aaaaaadogbbbbbb"),  # cut within the word
        (f"the {CATS} sat", CATS, 4, 21, ("cat " * 9).strip()),  # the answer itself is cut
    ],
)
def test_a_passage_that_is_cut(context, answer, start, length, passage, caplog):
    tokenizer = word_pieces()
    with caplog.at_level(logging.WARNING):
        ids = source(context, answer, start, tokenizer, length)
    assert len(ids) <= length
    assert tokenizer.decode(ids).split("[SEP]")[1].strip() == passage
    assert ("does not fit into 21 tokens" in caplog.text) is (answer == CATS)
