"""`hf-localattn demo` from the command line: what is refused, and what the page does with results and errors."""

import socket
import sys

import pytest
from transformers import AutoConfig

from hf_localattn import CoolForTokenClassification, CoolModel
from hf_localattn.cli import main
from hf_localattn.resources import tiny_backbone
from hf_localattn.serving.demo import Demo, run, widget_task
from tests.script_helpers import assert_only_one_line
from tests.serving.models import loaded, negation_widget, widget

NO_GRADIO = "the extra `demo` is not installed"


@pytest.fixture
def headless(tmp_path):
    folder = tmp_path / "headless"
    CoolModel.from_backbone(tiny_backbone()).save_pretrained(folder)
    loaded("cool", "token-classification")[1].save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagger")
    for one in loaded("cool", "token-classification"):
        one.save_pretrained(folder)
    return folder


def refused(words, message, tmp_path, capsys):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert_only_one_line(lambda: main(["demo", *map(str, words)]), message, empty, capsys)


def test_gradio_that_is_missing_is_named_with_its_extra(tagger, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    refused([tagger], "needs gradio: run `pip install 'hf_localattn[demo]'`", tmp_path, capsys)


def test_a_folder_that_is_no_checkpoint_is_named_before_gradio_is_asked_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    refused([tmp_path], f"'{tmp_path}' is not a folder with a `config.json`", tmp_path, capsys)


def test_an_impossible_port_is_refused(tagger, tmp_path, capsys):
    refused([tagger, "--port", "70000"], "--port 70000: give a number from 1 to 65535", tmp_path, capsys)


def test_a_checkpoint_without_a_head_is_refused_with_those_that_have_a_widget(headless, tmp_path, capsys):
    pytest.importorskip("gradio", reason=NO_GRADIO)
    with pytest.raises(ValueError, match="CoolModel, whose head has no widget") as error:
        run(Demo(str(headless)))
    for task in ("question-answering", "negation", "text-classification", "token-classification"):
        assert task in str(error.value)


def test_a_port_in_use_is_said(tagger):
    pytest.importorskip("gradio", reason=NO_GRADIO)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"Cannot listen on 127.0.0.1:{port}: Address already in use"):
            run(Demo(str(tagger), port=port))


def test_a_host_of_another_machine_is_said(tagger):
    pytest.importorskip("gradio", reason=NO_GRADIO)
    with pytest.raises(OSError, match=r"Cannot listen on 192\.0\.2\.1"):
        run(Demo(str(tagger), host="192.0.2.1"))


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        (["O", "SCOPE", "negation:single"], "negation"),
        (["O", "SCOPE"], "token-classification"),  # such a model finds no cues
        (["O", "B-PER"], "token-classification"),
    ],
)
def test_labels_of_cues_make_a_negation_widget(labels, task):
    config = AutoConfig.from_pretrained(tiny_backbone(), id2label=dict(enumerate(labels)))
    assert widget_task("x", config, CoolForTokenClassification.__name__) == task


def page_functions():
    pytest.importorskip("gradio", reason=NO_GRADIO)
    from hf_localattn.serving import page

    return page


def test_results_fill_the_page():
    page = page_functions()
    shown = negation_widget()
    views, message, text, scores, table, selector, highlight = page._answer(shown, shown.inputs[0].example, False)
    assert not message["visible"]
    assert not scores["visible"]
    assert text["value"] == "2 cues"
    assert "<td>neither … nor</td>" in table["value"]
    assert selector["choices"] == [view.name for view in views]
    assert highlight["value"] == views[0].pieces
    assert page._highlight(views, 1)["value"] == views[1].pieces


def test_errors_are_messages_and_texts_are_no_html(caplog):
    page = page_functions()
    assert page._table(["<b>"], [["<script>"]]) == (
        "<table><tr><th>&lt;b&gt;</th></tr><tr><td>&lt;script&gt;</td></tr></table>"
    )
    shown = widget("cool", "token-classification")
    views, message, *others = page._answer(shown, "", False)
    assert views == []
    assert "The field &#x27;Text&#x27; is empty" in message["value"]
    assert not caplog.records
    assert not any(other["visible"] for other in others)
    broken = negation_widget()
    broken.pipe = lambda text: 1 / 0
    assert "division by zero" in page._answer(broken, "A text.", False)[1]["value"]
    assert "The model failed." in caplog.text


def test_attention_that_cannot_be_shown_is_explained():
    page = page_functions()
    show = page._attention_of(lambda texts, kind: (_ for _ in ()).throw(ValueError(f"no <{kind}>")))
    views = negation_widget().answer("He spoke.").views
    assert show(views, None, "map") == "<p>no &lt;map&gt;</p>"
    assert show([], None, "map") == ""
