"""Widgets show for each head what its users look for, and the attention that belongs to it."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from hf_localattn.serving.attention import attended_texts, attention_html, attention_kinds
from hf_localattn.serving.demo import create_widget
from hf_localattn.serving.widgets import QuestionAnswering, Widget
from tests.serving.models import loaded, negation_widget, widget

ANSWERS = [
    {"answer": "Mira", "score": 0.91, "start": 29, "end": 33},
    {"answer": "", "score": 0.05, "start": 0, "end": 0},
]


def examples(shown):
    return [example for _, example, _ in shown.fields]


def joined(pieces):
    return "".join(text for text, _ in pieces)


def marked(pieces):
    return [piece for piece in pieces if piece[1] is not None]


@pytest.mark.parametrize(("name", "task"), [(name, task) for name, one in FAMILIES.items() for task in one.heads])
def test_every_head_of_every_family_has_a_widget_and_attention(name, task):
    shown, family = widget(name, task), FAMILIES[name]
    texts = [family.example] if task == "token-classification" else examples(shown)
    answer = shown.answer(texts, False)
    assert answer.result
    assert bool(answer.rows) == bool(shown.columns)
    assert all(len(row) == len(shown.columns) for row in answer.rows)
    assert all(joined(pieces) in (texts[-1], texts[0]) for pieces in answer.highlights) or task in (
        *("fill-mask", "text-classification"),
    )
    if not (family.query and task in ("text-classification", "fill-mask")):  # these texts have no query
        given = attended_texts(texts, answer.found[0] if answer.found else {})
        kinds = attention_kinds(shown.model.config)
        assert all("iframe" in attention_html(shown.model, shown.tokenizer, given, kind) for kind in kinds)


def test_answers_are_marked_and_attention_is_that_around_them():
    passage, calls = "Hugo is the smith. The baker Mira grows white roses.", []

    def pipe(**inputs):
        calls.append(inputs)
        return ANSWERS

    shown = QuestionAnswering(*loaded("cool", "question-answering"), pipe)
    answer = shown.answer(["Who?", passage], True)
    assert calls == [{"question": "Who?", "context": passage, "top_k": 5, "handle_impossible_answer": True}]
    assert answer.result == "Mira"
    assert answer.rows == [["Mira", "0.9100", "29 to 33"], ["(no answer)", "0.0500", "0 to 0"]]
    assert [marked(pieces) for pieces in answer.highlights] == [[("Mira", "answer")], []]
    assert attended_texts(["Who?", passage], answer.found[0]) == ("Who?", passage)
    shown.pipe = lambda **_: []
    assert shown.answer(["Who?", passage], False).result == "The passage has no answer."
    question, part = attended_texts(
        ["Who?", "word " * 500 + "Mira" + " word" * 500], {"answer": "Mira", "start": 2500, "end": 2504}
    )
    assert question == "Who?"
    assert part.startswith("word")
    assert "Mira" in part
    assert len(part) < 410


def test_cues_and_scopes_are_marked_cue_by_cue():
    shown = negation_widget()
    texts = examples(shown)
    answer = shown.answer(texts, False)
    assert answer.result == "2 cues"
    assert [marked(pieces) for pieces in answer.highlights] == [
        [("He", "scope"), ("neither", "cue"), ("spoke", "scope"), ("nor", "cue"), ("moved", "scope")],
        [("That is", "scope"), ("im", "cue"), ("possible", "scope")],
    ]
    assert answer.rows[1] == ["im", "That is … possible", "negation, affix", "0.8800, 0.5000"]
    assert [attended_texts(texts, found) for found in answer.found] == [
        ("He [CUE] neither spoke [CUE] nor moved.",),
        ("That is [CUE] impossible.",),
    ]
    assert shown.answer(["He spoke."], False).result == "The model found no cue."


def test_classes_have_probabilities_and_tokens_their_weights():
    shown = widget("sam-roberta", "text-classification")
    texts = ["Mira grows\nroses.", "A second text."]
    answer = shown.answer(texts, False)
    assert sum(answer.result.values()) == pytest.approx(1.0)
    encoded = shown.tokenizer(*texts, return_tensors="pt")
    with torch.no_grad():
        found = shown.model.base_model(**encoded, output_attentions=True).token_attention[0]
    expected = found[[one is not None for one in encoded.encodings[0].sequence_ids]]
    (pieces,) = answer.highlights
    weights = [weight for _, weight in marked(pieces)]
    torch.testing.assert_close(torch.tensor(weights), expected / expected.max())
    assert joined(pieces) == "\n".join(texts)
    assert not widget("cool", "text-classification").answer(["A text.", ""], False).highlights
    float(widget("sam-roberta", "text-classification", num_labels=1).answer(["A text.", ""], False).result)


def test_labeled_parts_are_the_rows():
    answer = widget("sla-bert", "token-classification").answer(["Mira grows white roses."], False)
    (pieces,) = answer.highlights
    assert {label for _, label in marked(pieces)} <= {"PER", "LOC"}
    assert [row[:2] for row in answer.rows] == [list(piece) for piece in marked(pieces)]


def test_choices_do_not_depend_on_each_other():
    shown = widget("cool", "multiple-choice")
    answer = shown.answer(["Mira bakes.", "She shoes horses.\n\n She bakes bread, and is tired. \nNo."], False)
    assert list(answer.result) == ["1. She shoes horses.", "2. She bakes bread, and is tired.", "3. No."]
    pair = shown.answer(["Mira bakes.", "She shoes horses.\nNo."], False).result
    first, _, third = answer.result.values()
    assert pair["1. She shoes horses."] == pytest.approx(first / (first + third), rel=1e-4)
    best = max(answer.result, key=answer.result.get).partition(" ")[2]
    assert attended_texts(["Mira bakes.", ""], answer.found[0]) == ("Mira bakes.", best)


@pytest.mark.parametrize(
    ("task", "texts", "reason"),
    [
        ("text-classification", ["the " * 600, ""], "at most 512"),
        ("token-classification", ["the " * 600], "at most 512"),
        ("multiple-choice", ["the " * 600, "a\nb"], "at most 512"),
        ("text2text-generation", ["the " * 600, ""], "at most"),
        ("fill-mask", ["the " * 600 + "[MASK]"], "at most 512"),
        ("fill-mask", ["The baker."], r"\[MASK\] once"),
        ("fill-mask", ["[MASK] [MASK]"], r"\[MASK\] once"),
        ("multiple-choice", ["Mira", "No."], "1 choices"),
        ("multiple-choice", ["Mira", "No.\n" * 101], "101 choices"),
    ],
)
def test_unsuitable_texts_are_refused(task, texts, reason):
    with pytest.raises(ValueError, match=reason):
        widget("cool", task).answer(texts, False)


def test_attention_follows_the_family_and_maps_have_a_limit():
    kinds = {name: attention_kinds(loaded(name, "text-classification")[0].config) for name in FAMILIES}
    assert kinds["cool"] == ["local attention", "self-attention"]
    assert kinds["sla-bert"] == ["self-attention", "local attention", "gates by layer"]
    assert kinds["sam-roberta"] == ["token weights", "self-attention"]
    with pytest.raises(ValueError, match="at most 128"):
        attention_html(*loaded("sla-bert", "text-classification"), ("the " * 129,), "self-attention")


def test_a_stock_model_has_a_widget_too():
    model = AutoModelForSequenceClassification.from_pretrained(tiny_backbone(), attn_implementation="eager")
    shown = create_widget("text-classification", model, AutoTokenizer.from_pretrained(tiny_backbone()))
    assert len(shown.answer(["A text.", ""], False).result) == 2
    assert attention_kinds(model.config) == ["self-attention"]


def test_later_spans_win():
    assert Widget.cut("abcdef", [(1, 4, "x"), (3, 5, "y"), (2, 2, "z")]) == [
        *(("a", None), ("bc", "x"), ("de", "y"), ("f", None))
    ]
    assert Widget.cut("", []) == []
