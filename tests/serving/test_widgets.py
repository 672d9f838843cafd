"""Widgets show for each head what its users look for."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hf_localattn.models.forward_inputs import longest_input
from hf_localattn.models.pipeline_negation import join_over_blanks
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from hf_localattn.serving.attention import AttentionView
from hf_localattn.serving.widgets import (
    MOST_CHARACTERS,
    WIDGETS,
    QuestionAnswering,
    create_widget,
    cut,
)
from tests.serving.models import loaded, negation_widget, widget

CASES = [(name, task) for name, family in FAMILIES.items() for task in family.heads]
ANSWERS = [
    {"answer": "Mira", "score": 0.91, "start": 29, "end": 33},
    {"answer": "Hugo", "score": 0.05, "start": 0, "end": 4},
]


def examples(widget):
    return [one.example for one in widget.inputs]


def joined(pieces):
    return "".join(text for text, _ in pieces)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_every_head_of_every_family_has_a_widget_and_attention(name, task):
    shown = widget(name, task)
    texts = examples(shown)
    if task == "token-classification":
        texts = [FAMILIES[name].example]
    result = shown.answer(*texts)
    assert result.text or result.scores or result.rows
    assert all(len(row) == len(shown.columns) for row in result.rows)
    attention = AttentionView(*loaded(name, task))
    without_query = FAMILIES[name].query and task in ("text-classification", "fill-mask")
    kinds = ["self-attention"] if without_query else attention.kinds[:1]
    for kind in kinds:
        assert attention(result.views[0].attended, kind).startswith("<iframe")


def test_an_answer_is_highlighted_and_the_others_can_be_chosen():
    asked = {}
    model, tokenizer = loaded("cool", "question-answering")
    shown = QuestionAnswering(model, tokenizer, lambda **given: asked.update(given) or ANSWERS)
    question, passage = examples(shown)
    result = shown.answer(question, passage, flag=True)
    assert asked == {"question": question, "context": passage, "top_k": 5, "handle_impossible_answer": True}
    assert result.text == "Mira"
    assert result.rows == [["Mira", "0.9100", "29 to 33"], ["Hugo", "0.0500", "0 to 4"]]
    assert [view.name for view in result.views] == ["1. Mira", "2. Hugo"]
    assert ("Mira", "answer") in result.views[0].pieces
    assert result.views[1].pieces[0] == ("Hugo", "answer")
    assert all(joined(view.pieces) == passage for view in result.views)
    assert result.views[0].attended == (question, passage)


def test_attention_of_a_long_passage_is_that_around_the_answer():
    passage = "word " * 500 + "Mira" + " word" * 500
    model, tokenizer = loaded("cool", "question-answering")
    found = {"answer": "Mira", "score": 1.0, "start": 2500, "end": 2504}
    result = QuestionAnswering(model, tokenizer, lambda **_: found).answer("Who?", passage)
    _, part = result.views[0].attended
    assert part.startswith("word")
    assert "Mira" in part
    assert len(part) < 410


def test_no_answer_is_said():
    model, tokenizer = loaded("cool", "question-answering")
    result = QuestionAnswering(model, tokenizer, lambda **_: []).answer("Who?", "Nobody.")
    assert (result.text, result.rows) == ("The passage has no answer.", [])


def test_cues_and_scopes_are_highlighted_cue_by_cue():
    shown = negation_widget()
    (text,) = examples(shown)
    result = shown.answer(text)
    assert result.text == "2 cues"
    assert [view.name for view in result.views] == ["1. neither … nor (negation)", "2. im (negation)"]
    first, second = (view.pieces for view in result.views)
    assert joined(first) == joined(second) == text
    assert [piece for piece in first if piece[1]] == [
        *(("He", "scope"), ("neither", "cue"), ("spoke", "scope"), ("nor", "cue"), ("moved", "scope"))
    ]
    assert [piece for piece in second if piece[1]] == [("That is", "scope"), ("im", "cue"), ("possible", "scope")]
    assert result.rows[1] == ["im", "That … is … possible", "negation, affix", "0.8800", "0.5000"]
    assert result.views[0].attended == ("He [CUE] neither spoke [CUE] nor moved.",)
    assert result.views[1].attended == ("That is [CUE] impossible.",)
    assert negation_widget().answer("He spoke.").text == "The model found no cue."


def test_classes_have_probabilities_and_tokens_their_weights():
    shown = widget("sam-roberta", "text-classification")
    text = "Mira grows\nroses."
    result = shown.answer(text, "A second text.")
    assert sum(result.scores.values()) == pytest.approx(1.0)
    model, tokenizer = loaded("sam-roberta", "text-classification")
    encoded = tokenizer(text, "A second text.", return_tensors="pt")
    with torch.no_grad():
        found = model.base_model(**encoded, output_attentions=True).token_attention[0]
    expected = found[[one is not None for one in encoded.encodings[0].sequence_ids]]
    weights = [weight for _, weight in result.views[0].pieces if weight is not None]
    torch.testing.assert_close(torch.tensor(weights), expected / expected.max())
    assert joined(result.views[0].pieces) == f"{text}\nA second text."
    assert not widget("cool", "text-classification").answer(text, "").views[0].pieces


def test_regression_is_a_number():
    result = widget("sam-roberta", "text-classification", num_labels=1).answer("A text.", "")
    assert not result.scores
    float(result.text)


def test_labels_of_words_are_highlighted():
    shown = widget("sla-bert", "token-classification")
    (text,) = examples(shown)
    result = shown.answer(text)
    assert {label for _, label in result.views[0].pieces} <= {"PER", "LOC", None}
    assert joined(result.views[0].pieces) == text
    assert [row[0] for row in result.rows] == [piece for piece, label in result.views[0].pieces if label]


def test_choices_are_ranked():
    shown = widget("cool", "multiple-choice")
    result = shown.answer("Mira bakes.", "She shoes horses.\n\n She bakes bread. \nNo.")
    assert list(result.scores) == ["1. She shoes horses.", "2. She bakes bread.", "3. No."]
    assert sum(result.scores.values()) == pytest.approx(1.0)
    many = "\n".join([f"She bakes bread number {number}." for number in range(20)])
    several = shown.answer("Mira bakes.", many).scores  # in more than one batch
    logits = torch.tensor(list(several.values())).log()
    pair = shown.answer("Mira bakes.", "\n".join(many.split("\n")[15:17])).scores
    assert logits[15:17].softmax(0).tolist() == pytest.approx(list(pair.values()), rel=1e-4)
    with pytest.raises(ValueError, match="There is only one choice"):
        shown.answer("Mira bakes.", "No.")
    with pytest.raises(ValueError, match="at most 100"):
        shown.answer("Mira bakes.", "No.\n" * 50_000)


def test_a_stock_model_has_a_widget_too():
    model = AutoModelForSequenceClassification.from_pretrained(tiny_backbone(), attn_implementation="eager")
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone())
    assert len(create_widget("text-classification", model, tokenizer).answer("A text.", "").scores) == 2
    assert AttentionView(model, tokenizer).kinds == ["self-attention"]


@pytest.mark.parametrize("task", WIDGETS)
def test_bad_texts_are_refused_with_the_name_of_the_field(task):
    shown = negation_widget() if task == "negation" else widget("cool", task)
    others = examples(shown)[1:]
    with pytest.raises(ValueError, match=f"The field '{shown.inputs[0].label}' is empty"):
        shown.answer(" \n", *others)
    with pytest.raises(ValueError, match="100001 characters; give at most 100000"):
        shown.answer("a" * (MOST_CHARACTERS + 1), *others)


@pytest.mark.parametrize("task", [task for task in FAMILIES["cool"].heads if task != "question-answering"])
def test_a_text_longer_than_the_model_is_refused(task):
    shown = widget("cool", task)
    limit = longest_input(shown.model, shown.tokenizer)
    texts = ["the " * limit, *examples(shown)[1:]]
    with pytest.raises(ValueError, match=f"tokens, but the model takes at most {limit}"):
        shown.answer(*texts)


def test_a_masked_word_is_filled_in():
    shown = widget("cool", "fill-mask")
    result = shown.answer("The baker Mira grows [MASK] roses.")
    assert result.text == result.rows[0][0]
    assert len(result.rows) == 5
    assert joined(result.views[0].pieces) == f"The baker Mira grows {result.text} roses."
    with pytest.raises(ValueError, match=r"Write \[MASK\] once, in the place of the word to find"):
        shown.answer("The baker.")


def test_a_passage_longer_than_the_model_is_read():
    shown = widget("cool", "question-answering")
    assert shown.answer("Who is the baker?", "The baker is Mira. " * 400).text


def test_attention_kinds_follow_the_family_and_maps_have_a_limit():
    kinds = {name: AttentionView(*loaded(name, "text-classification")).kinds for name in FAMILIES}
    assert kinds["cool"] == ["local attention", "self-attention"]
    assert kinds["sla-bert"] == ["self-attention", "local attention", "gates by layer"]
    assert kinds["sam-roberta"] == ["token weights", "self-attention"]
    attention = AttentionView(*loaded("sla-bert", "text-classification"))
    assert all("iframe" in attention(("Mira grows roses.",), kind) for kind in attention.kinds)
    with pytest.raises(ValueError, match="the page shows attention for at most 128"):
        attention(("the " * 129,), "self-attention")


def test_spans_are_cut_and_joined():
    assert cut("abcdef", [(3, 5, "y"), (1, 4, "x"), (2, 2, "z")]) == [
        *(("a", None), ("bcd", "x"), ("e", "y"), ("f", None))
    ]
    assert cut("", []) == []
    assert join_over_blanks("ab cd,e", [(0, 2), (3, 5), (6, 7)]) == [(0, 5), (6, 7)]
