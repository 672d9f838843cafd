"""Rows that two models answer differently, with what each of them says by itself."""

import pytest
import torch
from datasets import ClassLabel, Dataset
from transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification

from hf_localattn import answer_question, find_scope
from hf_localattn.inspection import differing_answers
from hf_localattn.inspection.differences import NO_ANSWER, excerpt
from hf_localattn.metrics.squad_scores import is_blank
from tests.inspection.models import TEXT, loaded
from tests.qa_helpers import question, tiny_bert, unanswerable, word_pieces

TOKENIZER = word_pieces()
SENTENCES = ["the cat sat", "a red dog on the mat", "who?", "the mat is red, the cat is not", "where sat the cats?"]


def classifiers(kind, names, number=2):
    for seed in range(number):
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(TOKENIZER),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            initializer_range=0.5,
            id2label=dict(enumerate(names)),
            label2id={name: number for number, name in enumerate(names)},
        )
        yield kind(config).eval()


def test_answers_to_questions():
    first, second = tiny_bert(TOKENIZER, 0), tiny_bert(TOKENIZER, 3)
    context = question()["context"]
    asked = ["where sat the cat?", "who sat?", "what is red?"]
    said = [[answer_question(model, TOKENIZER, one, context) for one in asked] for model in (first, second)]
    assert all(one.text != other.text for one, other in zip(*said, strict=True))
    rows = []
    for number, one in enumerate(asked):
        gold = said[number % 2][number]  # the first model is right on even rows, the second on odd ones
        answers = {"text": [f"The {gold.text.upper()}", gold.text], "answer_start": [gold.start, gold.start]}
        rows.append(question(number, question=one, answers=answers))
    rows.append(question(9, question=asked[0], context="mat"))  # there is but one thing to say
    found = differing_answers(first, TOKENIZER, second, TOKENIZER, Dataset.from_list(rows))
    assert [one.name for one in found] == ["q0", "q1", "q2"]
    for number, one in enumerate(found):
        assert one.answers == (said[0][number].text, said[1][number].text)
        assert one.right == (number % 2 == 0, number % 2 == 1)
        assert one.answers[number % 2] in one.gold
        assert one.context == context


def test_no_answer_may_be_right():
    first, second = tiny_bert(TOKENIZER, 0), tiny_bert(TOKENIZER, 3)
    rows = Dataset.from_list([{**unanswerable(number), "question": one} for number, one in enumerate(["who?", "on?"])])
    with torch.no_grad():
        second.qa_outputs.bias[:] = 0.0
        first.qa_outputs.weight[:] = 0.0  # as sure of anything as of nothing
    found = differing_answers(first, TOKENIZER, second, TOKENIZER, rows)
    assert found
    for one in found:
        assert one.gold == (NO_ANSWER,)
        # SQuAD's normalization leaves nothing of "." either
        assert one.right == tuple(answer == NO_ANSWER or is_blank(answer) for answer in one.answers)


def test_classes_of_texts():
    first, second = classifiers(BertForSequenceClassification, ["bad", "good"])
    rows = Dataset.from_dict({"text": SENTENCES, "label": [0, 1, 0, 1, None]})
    rows = rows.cast_column("label", ClassLabel(names=["bad", "good"]))
    found = differing_answers(first, TOKENIZER, second, TOKENIZER, rows, batch_size=2)
    said = []
    for model in (first, second):
        with torch.no_grad():
            logits = [model(**TOKENIZER(text, return_tensors="pt")).logits[0] for text in SENTENCES]
        said.append([model.config.id2label[int(one.argmax())] for one in logits])
    different = [row for row in range(5) if said[0][row] != said[1][row]]
    assert different
    assert [one.name for one in found] == [str(row + 1) for row in different]
    for row, one in zip(different, found, strict=True):
        assert one.answers == (said[0][row], said[1][row])
        gold = ["bad", "good", "bad", "good", None][row]
        assert one.gold == (() if gold is None else (gold,))
        assert one.right == (() if gold is None else tuple(answer == gold for answer in one.answers))


def test_labels_of_words_are_told_where_they_differ():
    first, second = classifiers(BertForTokenClassification, ["O", "X"])
    words = [sentence.split() for sentence in SENTENCES]
    said = []
    for model in (first, second):
        said.append([])
        for own in words:
            encoded = TOKENIZER(own, is_split_into_words=True, return_tensors="pt")
            with torch.no_grad():
                labels = model(**encoded).logits[0].argmax(-1).tolist()
            starts = [encoded.word_ids().index(word) for word in range(len(own))]
            said[-1].append([model.config.id2label[labels[start]] for start in starts])
    rows = Dataset.from_dict({"tokens": words, "labels": said[1]})
    found = {one.name: one for one in differing_answers(first, TOKENIZER, second, TOKENIZER, rows, batch_size=2)}
    different = [str(row + 1) for row in range(5) if said[0][row] != said[1][row]]
    assert different
    assert list(found) == different
    row = int(different[0]) - 1
    one = found[different[0]]
    word = next(place for place, (a, b) in enumerate(zip(said[0][row], said[1][row], strict=True)) if a != b)
    assert words[row][word] in one.answers[0]
    assert f"{said[0][row][word]}: " in one.answers[0]
    assert one.gold == one.answers[1:]
    assert one.right == (False, True)


def test_scopes_of_cues():
    (first, tokenizer), (second, _) = (
        loaded("oa-xlnet", "token-classification", backbone="bert", local_attention=variant)
        for variant in ("emb", "em")
    )
    for model in (first, second):
        model.config.id2label = {0: "O", 1: "SCOPE"}
    row = {"tokens": TEXT.split(), "cue": [0, 1, 0, 0, 0, 0, 0], "cue_type": "single"}
    said = [find_scope(model, tokenizer, **row) for model in (first, second)]
    assert said[0] != said[1]
    rows = Dataset.from_list([{**row, "scope": said[0]}])
    (found,) = differing_answers(first, tokenizer, second, tokenizer, rows)
    assert found.question == "the [cats] sat on the red mat."
    assert found.right == (True, False)


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        ("one two three four five", [(8, 13)], "… two three …"),
        ("one two", [(0, 3)], "one two"),
        ("0123456789", [(4, 6)], "… 12345678 …"),
    ],
)
def test_an_excerpt_is_cut_between_words_where_there_are_blanks(text, spans, expected):
    assert excerpt(text, spans, around=4 if " " in text else 3) == expected


def test_models_and_rows_have_to_fit():
    (classifier,) = classifiers(BertForSequenceClassification, ["bad", "good"], 1)
    answering = tiny_bert(TOKENIZER)
    rows = Dataset.from_dict({"text": ["the"]})
    with pytest.raises(ValueError, match="first model is for text-classification, the second for question-answering"):
        differing_answers(classifier, TOKENIZER, answering, TOKENIZER, rows)
    with pytest.raises(ValueError, match="rows for text-classification need text, label; these have no label"):
        differing_answers(classifier, TOKENIZER, classifier, TOKENIZER, rows)
    with pytest.raises(ValueError, match="BertModel gives no answers that can be compared"):
        differing_answers(*loaded("stock"), *loaded("stock"), rows)
    scores = Dataset.from_dict({"text": ["the"], "label": [0.5]})
    with pytest.raises(ValueError, match="the labels are no classes"):
        differing_answers(classifier, TOKENIZER, classifier, TOKENIZER, scores)
