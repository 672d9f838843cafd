"""The page shows for each head what its users look for, and the attention that belongs to it."""

import socket
import sys
import threading
from contextlib import nullcontext
from itertools import groupby
from unittest.mock import MagicMock

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from hf_localattn.bundled import negation_model
from hf_localattn.families import FAMILIES
from hf_localattn.resources import tiny_backbone
from hf_localattn.serving.demo import attended_texts, attention_html, attention_kinds, build_page, page_task, run
from hf_localattn.serving.page import WIDGETS, add_widget, load_pipe, mark
from tests.serving.conftest import loaded, pipe

WHO, PASSAGE = (example for _, example, _ in WIDGETS["question-answering"].fields)


def marked(characters):
    """The parts of a text that have a label, with their labels."""
    parts = ((label, "".join(one for one, _ in part)) for label, part in groupby(characters, lambda pair: pair[1]))
    return [(text, label) for label, text in parts if label is not None]


@pytest.mark.parametrize(("name", "task"), [(name, task) for name, one in FAMILIES.items() for task in one.heads])
def test_every_head_of_every_family_answers_and_shows_attention(name, task):
    asked, family = pipe(name, task), FAMILIES[name]
    texts = [family.example] if task == "token-classification" else [text for _, text, _ in WIDGETS[task].fields]
    shown = WIDGETS[task].answer(asked, texts)
    assert shown.result
    assert bool(shown.rows) == bool(WIDGETS[task].columns)
    assert all(len(row) == len(WIDGETS[task].columns) for row in shown.rows)
    if not (family.query and task in ("text-classification", "fill-mask")):  # these texts have no query
        given = attended_texts(texts, shown.findings[0] if shown.findings else {})
        for kind in attention_kinds(asked.model):
            assert "iframe" in attention_html(asked.model, asked.tokenizer, given, kind)


def test_answers_are_marked_and_attention_is_that_around_them():
    answer = WIDGETS["question-answering"].answer
    places = {"Mira": 29, "": 0}
    found = [{"answer": text, "score": 0.91, "start": at, "end": at + len(text)} for text, at in places.items()]
    shown = answer(lambda question, context, **_: found, [WHO, PASSAGE])
    assert shown.result == "Mira"
    assert shown.rows == [["Mira", "0.9100", "29 to 33"], ["(no answer)", "0.9100", "0 to 0"]]
    assert [marked(one) for one in shown.marked] == [[("Mira", "answer")], []]
    assert attended_texts([WHO, PASSAGE], shown.findings[0]) == (WHO, PASSAGE)
    assert answer(lambda **_: [], [WHO, PASSAGE]).result == "The passage has no answer."
    long = "word " * 100 + "Mira" + " word" * 100
    assert attended_texts([WHO, long], {"answer": "Mira", "start": 500, "end": 504}) == (WHO, long[300:704])


def test_cues_and_scopes_are_marked_cue_by_cue():
    asked, text = pipe(None, "negation"), "He neither spoke nor moved. That is impossible."
    shown = WIDGETS["negation"].answer(asked, [text])
    assert [marked(one) for one in shown.marked] == [
        [("neither", "cue"), ("spoke", "scope"), ("nor", "cue"), ("moved.", "scope")],
        [("im", "cue"), (".", "scope")],
    ]
    assert (shown.result, shown.rows[0]) == (
        "2 cues",
        ["neither … nor", "spoke … moved.", "negation, multi", "0.9010, 0.9820"],
    )
    attended = [attended_texts([text], found) for found in shown.findings]
    assert attended == [("He [CUE] neither spoke [CUE] nor moved.",), ("That is [CUE] impossible.",)]
    assert WIDGETS["negation"].answer(asked, ["He spoke."]).result == "The model found no cue."


def test_classes_have_probabilities_and_tokens_their_weights():
    asked, answer, texts = (
        pipe("sam-roberta", "text-classification"),
        WIDGETS["text-classification"].answer,
        ["A\nb.", "C"],
    )
    shown = answer(asked, texts)
    assert sum(shown.result.values()) == pytest.approx(1.0)
    encoded = asked.tokenizer(*texts, return_tensors="pt")
    with torch.no_grad():
        found = asked.model.base_model(**encoded, output_attentions=True).token_attention[0]
    expected = found[[one is not None for one in encoded.encodings[0].sequence_ids]]
    (characters,) = shown.marked
    torch.testing.assert_close(torch.tensor([weight for _, weight in marked(characters)]), expected / expected.max())
    assert "".join(one for one, _ in characters) == "\n".join(texts)
    assert not answer(pipe("cool", "text-classification"), ["A text.", ""]).marked
    float(answer(pipe("sam-roberta", "text-classification", num_labels=1), ["A text.", ""]).result)


def test_labeled_parts_are_the_rows():
    shown = WIDGETS["token-classification"].answer(pipe("sla-bert", "token-classification"), [PASSAGE])
    (characters,) = shown.marked
    assert {row[1] for row in shown.rows} == {label for _, label in marked(characters)} <= {"PER", "LOC"}
    assert shown.result == f"{len(shown.rows)} labeled parts"
    assert "".join(one for one, _ in characters) == PASSAGE


def test_choices_do_not_depend_on_each_other():
    asked, answer = pipe("cool", "multiple-choice"), WIDGETS["multiple-choice"].answer
    shown = answer(asked, ["Mira bakes.", "She shoes horses.\n\n She bakes, and is tired. \nNo."])
    assert list(shown.result) == ["1. She shoes horses.", "2. She bakes, and is tired.", "3. No."]
    first, _, third = shown.result.values()
    pair = answer(asked, ["Mira bakes.", "She shoes horses.\nNo."]).result
    assert pair["1. She shoes horses."] == pytest.approx(first / (first + third), rel=1e-4)
    best = max(shown.result, key=shown.result.get).partition(" ")[2]
    assert attended_texts(["Mira bakes.", ""], shown.findings[0]) == ("Mira bakes.", best)


CUT = ("question-answering", "negation")
"""Tasks whose pipelines cut long texts into pieces."""


@pytest.mark.parametrize(
    ("task", "texts", "reason"),
    [
        *((task, ["the " * 600 + "[MASK]", "a\nb"], "at most") for task in WIDGETS if task not in CUT),
        ("fill-mask", ["The baker."], "once"),
        ("fill-mask", ["[MASK] [MASK]"], "once"),
        ("multiple-choice", ["Mira", "No."], "1 choices"),
        ("multiple-choice", ["Mira", "No.\n" * 101], "101 choices"),
    ],
)
def test_unsuitable_texts_are_refused(task, texts, reason):
    with pytest.raises(ValueError, match=reason):
        WIDGETS[task].answer(pipe("cool", task), texts)


def test_attention_follows_the_family_and_maps_have_a_limit():
    model = AutoModelForSequenceClassification.from_pretrained(tiny_backbone(), attn_implementation="eager")
    stock = load_pipe("text-classification", model, tokenizer=AutoTokenizer.from_pretrained(tiny_backbone()))
    assert len(WIDGETS["text-classification"].answer(stock, ["A text.", ""]).result) == 2
    assert attention_kinds(model) == ["self-attention"]
    kinds = {name: attention_kinds(loaded(name, "text-classification")[0]) for name in FAMILIES}
    assert kinds["cool"] == ["local attention", "self-attention"]
    assert kinds["sla-bert"] == ["self-attention", "local attention"]
    assert kinds["sam-roberta"] == ["self-attention"]
    plain = loaded("sam-roberta", "text-classification", pooling="rb")
    assert attention_kinds(plain[0]) == ["influence of tokens", "self-attention"]
    assert "influence on" in attention_html(*plain, ("Mira bakes.",), "influence of tokens")
    with pytest.raises(ValueError, match="at most 128"):
        attention_html(model, stock.tokenizer, ("the " * 129,), "self-attention")


@pytest.mark.parametrize(("has_pairs", "count", "required"), [(None, 2, 1), (False, 1, 1), (True, 2, 2)])
def test_a_second_text_is_asked_of_models_of_pairs(has_pairs, count, required, monkeypatch):
    gradio = MagicMock()
    monkeypatch.setitem(sys.modules, "gradio", gradio)
    gradio.Error = lambda message, **settings: RuntimeError(message)
    add_widget("text-classification", pipe("cool", "text-classification"), has_pairs=has_pairs)
    fields = [call for call in gradio.Textbox.call_args_list if call.kwargs["label"] != "Result"]
    assert len(fields) == count
    clicked = gradio.Button.return_value.click
    clear, _, shown = clicked.call_args.args
    run, _, answered = clicked.return_value.then.call_args.args
    assert shown == answered
    assert len(clear()) == len(shown)  # all of the former answer, before the next one
    texts = ["Mira bakes."] * required + [""] * (count - required)
    assert len(run(*texts)) == len(answered)
    with pytest.raises(RuntimeError, match="empty"):
        run("", *texts[1:])


def test_texts_that_the_own_model_does_not_read_have_a_warning(monkeypatch):
    gradio = MagicMock()
    monkeypatch.setitem(sys.modules, "gradio", gradio)
    model, tokenizer = negation_model()
    own_pipe = load_pipe("negation", model, tokenizer=tokenizer)
    for asked, warnings in ((own_pipe, 1), (pipe(None, "negation"), 0)):
        gradio.reset_mock()
        build_page("negation", asked, "Negation")
        run, *_ = gradio.Button.return_value.click.return_value.then.call_args.args
        for text in ("Er hat kein Fieber und keine Schmerzen.", "He has no fever."):
            run(text)
        assert gradio.Warning.call_count == warnings


def test_texts_beyond_the_limit_are_refused_while_another_is_answered(monkeypatch):
    gradio = MagicMock()
    monkeypatch.setitem(sys.modules, "gradio", gradio)
    gradio.Error = lambda message, **settings: RuntimeError(message)
    started, ends = threading.Event(), threading.Event()

    def answer(text, max_scope_words):
        assert max_scope_words == 200
        started.set()
        assert ends.wait(60)
        return []

    add_widget("negation", answer, most_characters=100)
    assert "At most 100 characters" in gradio.Markdown.call_args.args[0]
    assert all(call.kwargs["time_to_live"] for call in gradio.State.call_args_list)
    run, *_ = gradio.Button.return_value.click.return_value.then.call_args.args
    first = threading.Thread(target=run, args=["No fever."])
    first.start()
    assert started.wait(60)
    for text, word in (("a" * 101, "101 characters"), ("half \ud83d", "surrogate")):
        with pytest.raises(RuntimeError, match=word):
            run(text)
    assert first.is_alive()
    ends.set()
    first.join()


def test_parts_of_a_text_are_few_whatever_its_length():
    text = "a" * 10_000
    assert [(len(part), label) for part, label in mark(text, [(5, 9, "scope"), (6, 7, "cue")])] == [
        (5, None),
        (1, "scope"),
        (1, "cue"),
        (2, "scope"),
        (9991, None),
    ]


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use"):
            run(str(tmp_path), port=port)


@pytest.mark.parametrize(
    ("head", "label", "task"),
    [
        ("CoolForTokenClassification", "negation:single", "negation"),
        ("CoolForTokenClassification", "B-PER", "token-classification"),  # such a model finds no cues
        ("CoolModel", "B-PER", None),
        ("unknown", "B-PER", None),
    ],
)
def test_head_and_labels_make_a_page(head, label, task):
    labels = dict(enumerate(["O", "SCOPE", label]))
    config = AutoConfig.from_pretrained(tiny_backbone(), architectures=[head], id2label=labels)
    with nullcontext() if task else pytest.raises(ValueError, match=head):
        assert page_task("x", config) == task
