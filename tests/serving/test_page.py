"""The page shows for each head what its users look for, and the attention that belongs to it."""

import socket
from itertools import groupby

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from hf_localattn.cli import main, model_commands
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from hf_localattn.serving import demo
from hf_localattn.serving.attention import attended_texts, attention_html, attention_kinds
from hf_localattn.serving.page import TASKS, load_pipe
from tests.serving.models import Cues, loaded, pipe

PASSAGE = "Hugo is the smith. The baker Mira grows white roses."


def answer(task, asked, *texts, flag=False):
    return TASKS[task].answer(asked, list(texts) or [example for _, example, _ in TASKS[task].fields], flag)


def marked(characters):
    """The parts of a text that have a label, with their labels."""
    parts = ((label, "".join(one for one, _ in part)) for label, part in groupby(characters, lambda pair: pair[1]))
    return [(text, label) for label, text in parts if label is not None]


@pytest.mark.parametrize(("name", "task"), [(name, task) for name, one in FAMILIES.items() for task in one.heads])
def test_every_head_of_every_family_answers_and_shows_attention(name, task):
    asked, family = pipe(name, task), FAMILIES[name]
    texts = [family.example] if task == "token-classification" else [text for _, text, _ in TASKS[task].fields]
    shown = answer(task, asked, *texts)
    assert shown.result
    assert bool(shown.rows) == bool(TASKS[task].columns)
    assert all(len(row) == len(TASKS[task].columns) for row in shown.rows)
    if not (family.query and task in ("text-classification", "fill-mask")):  # these texts have no query
        given = attended_texts(texts, shown.found[0] if shown.found else {})
        for kind in attention_kinds(asked.model.config):
            assert "iframe" in attention_html(asked.model, asked.tokenizer, given, kind)


def test_answers_are_marked_and_attention_is_that_around_them():
    found = [
        {"answer": "Mira", "score": 0.91, "start": 29, "end": 33},
        {"answer": "", "score": 0.05, "start": 0, "end": 0},
    ]
    calls = []
    shown = answer("question-answering", lambda **inputs: calls.append(inputs) or found, "Who?", PASSAGE, flag=True)
    assert calls == [{"question": "Who?", "context": PASSAGE, "top_k": 5, "handle_impossible_answer": True}]
    assert (shown.result, [marked(one) for one in shown.marked]) == ("Mira", [[("Mira", "answer")], []])
    assert shown.rows == [["Mira", "0.9100", "29 to 33"], ["(no answer)", "0.0500", "0 to 0"]]
    assert attended_texts(["Who?", PASSAGE], shown.found[0]) == ("Who?", PASSAGE)
    assert answer("question-answering", lambda **_: [], "Who?", PASSAGE).result == "The passage has no answer."
    long = "word " * 500 + "Mira" + " word" * 500
    _, part = attended_texts(["Who?", long], {"answer": "Mira", "start": 2500, "end": 2504})
    assert part.startswith("word")
    assert "Mira" in part
    assert len(part) < 410


def test_cues_and_scopes_are_marked_cue_by_cue():
    shown = answer("negation", Cues())
    assert [marked(one) for one in shown.marked] == [
        [("He ", "scope"), ("neither", "cue"), (" spoke", "scope"), ("nor", "cue"), ("moved", "scope")],
        [("That is", "scope"), ("im", "cue"), ("possible", "scope")],
    ]
    assert shown.result == "2 cues"
    assert shown.rows[1] == ["im", "That is … possible", "negation, affix", "0.8800, 0.5000"]
    attended = [attended_texts([f"{Cues.FIRST} {Cues.SECOND}"], found) for found in shown.found]
    assert attended == [("He [CUE] neither spoke [CUE] nor moved.",), ("That is [CUE] impossible.",)]
    assert answer("negation", Cues(), "He spoke.").result == "The model found no cue."


def test_classes_have_probabilities_and_tokens_their_weights():
    asked, texts = pipe("sam-roberta", "text-classification"), ["Mira grows\nroses.", "A second text."]
    shown = answer("text-classification", asked, *texts)
    assert sum(shown.result.values()) == pytest.approx(1.0)
    encoded = asked.tokenizer(*texts, return_tensors="pt")
    with torch.no_grad():
        found = asked.model.base_model(**encoded, output_attentions=True).token_attention[0]
    expected = found[[one is not None for one in encoded.encodings[0].sequence_ids]]
    (characters,) = shown.marked
    weights = torch.tensor([weight for _, weight in marked(characters)])
    torch.testing.assert_close(weights, expected / expected.max())
    assert "".join(one for one, _ in characters) == "\n".join(texts)
    assert not answer("text-classification", pipe("cool", "text-classification"), "A text.", "").marked
    number = pipe("sam-roberta", "text-classification", num_labels=1)
    float(answer("text-classification", number, "A text.", "").result)


def test_labeled_parts_are_the_rows():
    shown = answer("token-classification", pipe("sla-bert", "token-classification"), PASSAGE)
    (characters,) = shown.marked
    assert {row[1] for row in shown.rows} == {label for _, label in marked(characters)} <= {"PER", "LOC"}
    assert "".join(one for one, _ in characters) == PASSAGE


def test_choices_do_not_depend_on_each_other():
    asked = pipe("cool", "multiple-choice")
    shown = answer("multiple-choice", asked, "Mira bakes.", "She shoes horses.\n\n She bakes, and is tired. \nNo.")
    assert list(shown.result) == ["1. She shoes horses.", "2. She bakes, and is tired.", "3. No."]
    pair = answer("multiple-choice", asked, "Mira bakes.", "She shoes horses.\nNo.").result
    first, _, third = shown.result.values()
    assert pair["1. She shoes horses."] == pytest.approx(first / (first + third), rel=1e-4)
    best = max(shown.result, key=shown.result.get).partition(" ")[2]
    assert attended_texts(["Mira bakes.", ""], shown.found[0]) == ("Mira bakes.", best)


@pytest.mark.parametrize(
    ("task", "texts", "reason"),
    [
        ("text-classification", ["the " * 600, ""], "at most 512"),
        ("token-classification", ["the " * 600], "at most 512"),
        ("multiple-choice", ["the " * 600, "a\nb"], "at most 512"),
        ("text2text-generation", ["the " * 600, ""], "at most"),
        ("fill-mask", ["the " * 600 + "[MASK]"], "at most 512"),
        ("fill-mask", ["The baker."], "once"),
        ("fill-mask", ["[MASK] [MASK]"], "once"),
        ("multiple-choice", ["Mira", "No."], "1 choices"),
        ("multiple-choice", ["Mira", "No.\n" * 101], "101 choices"),
    ],
)
def test_unsuitable_texts_are_refused(task, texts, reason):
    with pytest.raises(ValueError, match=reason):
        answer(task, pipe("cool", task), *texts)


def test_attention_follows_the_family_and_maps_have_a_limit():
    kinds = {name: attention_kinds(loaded(name, "text-classification")[0].config) for name in FAMILIES}
    assert kinds["cool"] == ["local attention", "self-attention"]
    assert kinds["sla-bert"] == ["self-attention", "local attention"]
    assert kinds["sam-roberta"] == ["self-attention"]
    with pytest.raises(ValueError, match="at most 128"):
        attention_html(*loaded("sla-bert", "text-classification"), ("the " * 129,), "self-attention")


def test_a_stock_model_has_a_page_too():
    model = AutoModelForSequenceClassification.from_pretrained(tiny_backbone(), attn_implementation="eager")
    asked = load_pipe("text-classification", model, tokenizer=AutoTokenizer.from_pretrained(tiny_backbone()))
    assert len(answer("text-classification", asked, "A text.", "").result) == 2
    assert attention_kinds(model.config) == ["self-attention"]


def test_what_no_page_can_be_opened_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(model_commands, "require", lambda *_: None)
    for words, reason in (([], "config.json"), (["--port", "70000"], "--port")):
        with pytest.raises(SystemExit):
            main(["demo", str(tmp_path), *words])
        assert reason in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use"):
            demo.run(str(tmp_path), port=port)


@pytest.mark.parametrize(
    ("head", "labels", "task"),
    [
        ("CoolForTokenClassification", ["O", "SCOPE", "negation:single"], "negation"),
        ("CoolForTokenClassification", ["O", "SCOPE"], "token-classification"),  # such a model finds no cues
        ("CoolForTokenClassification", ["O", "B-PER"], "token-classification"),
        ("CoolModel", ["O", "SCOPE"], None),
        ("unknown", ["O", "SCOPE"], None),
    ],
)
def test_head_and_labels_make_a_page(head, labels, task):
    config = AutoConfig.from_pretrained(tiny_backbone(), architectures=[head], id2label=dict(enumerate(labels)))
    if task is not None:
        assert demo.page_task("x", config) == task
    else:
        with pytest.raises(ValueError, match=head):
            demo.page_task("x", config)
