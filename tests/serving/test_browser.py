"""The page in a browser: text is typed, the button pressed, and the result read (`make test-browser`)."""

import os
import shutil
import socket
import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from hf_localattn.serving.attention import AttentionView
from hf_localattn.serving.demo import create_page
from hf_localattn.serving.space import space_files
from tests.serving.models import loaded, negation_widget, widget

gradio = pytest.importorskip("gradio", reason="the extra `demo` is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
pytestmark = pytest.mark.browser

NARROW = {"width": 400, "height": 900}


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, without a window. `CHROMIUM` names another program."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.fail("Chromium is not installed: run `apt-get install chromium`, or name its program in CHROMIUM.")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """A function that opens a URL. The page may load nothing from elsewhere, nor report an error."""
    opened = []

    def visit(url, **settings):
        page = browser.new_page(**settings)
        page.set_default_timeout(60_000)
        problems, asked = [], []
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        page.wait_for_selector("#run")
        opened.append((page, url, problems, asked))
        return page

    yield visit
    for page, url, problems, asked in opened:
        page.close()
        assert not problems
        assert not [one for one in asked if not one.startswith((url, "data:", "blob:", "about:"))]


@pytest.fixture
def serve():
    """A function that serves a page on a port of its own and returns its URL."""
    from hf_localattn.serving.page import build_page, launch_page

    pages = []

    def serve(shown, model=None, tokenizer=None):
        if model is not None:
            attention = AttentionView(model, tokenizer)
            shown = build_page(shown, "a model", attention=attention, kinds=attention.kinds)
        pages.append(shown)
        return launch_page(shown, server_port=free_port(), prevent_thread_lock=True, quiet=True)[1]

    yield serve
    for page in pages:
        page.close(verbose=False)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def ask(page, *texts):
    for number, text in enumerate(texts):
        page.fill(f"#input-{number} textarea, #input-{number} input", text)
    page.click("#run")


def fits(page):
    """Return True if nothing is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def marked(page, label):
    """Return the highlighted texts with a label, in order."""
    tokens = page.locator("#highlight .token.highlighted", has=page.get_by_text(label, exact=True))
    return tokens.locator(".text").all_inner_texts()


def test_a_question_is_answered(demo_output, serve, visit):
    page = visit(serve(create_page(str(demo_output))))
    ask(page, "Who is the baker?", "Hugo is the smith. The baker Mira grows white roses.")
    page.wait_for_selector("#table td")
    assert page.input_value("#text textarea, #text input") == "Mira"
    assert marked(page, "answer") == ["Mira"]
    assert page.locator("#table tr").nth(1).inner_text().split("\t")[0] == "Mira"
    page.wait_for_selector("#attention iframe")
    frame = page.frame_locator("#attention iframe")
    assert "mira" in frame.locator("thead th").all_inner_texts()
    page.get_by_label("self-attention").click()
    frame.get_by_text("self-attention, mean of layers").wait_for()
    second = page.locator("#table tr").nth(2).inner_text().split("\t")[0]
    page.click("#selector input")
    page.get_by_role("option", name=f"2. {second}").click()
    page.wait_for_function(
        "text => document.querySelector('#highlight .token.highlighted .text').innerText.trim() === text", arg=second
    )


def test_cues_and_scopes_are_shown_one_by_one(serve, visit):
    page = visit(serve(negation_widget(), *loaded("oa-xlnet", "token-classification")))
    page.click("#run")
    page.wait_for_selector("#highlight .token.highlighted")
    assert marked(page, "cue") == ["neither", "nor"]
    assert marked(page, "scope") == ["He", "spoke", "moved"]
    page.click("#selector input")
    page.get_by_role("option", name="2. im (negation)").click()
    page.get_by_text("possible", exact=True).wait_for()
    assert marked(page, "cue") == ["im"]
    assert marked(page, "scope") == ["That is", "possible"]
    ask(page, "He spoke.")
    page.wait_for_function("!document.querySelector('#selector')")
    assert page.input_value("#text textarea, #text input") == "The model found no cue."


def test_classes_and_weights_of_tokens_are_shown(serve, visit):
    shown = widget("sam-roberta", "text-classification")
    page = visit(serve(shown, *loaded("sam-roberta", "text-classification")), viewport=NARROW)
    ask(page, "Mira grows roses.")
    page.wait_for_selector("#highlight .token")
    assert "%" in page.inner_text("#scores")
    assert "LABEL_0" in page.inner_text("#scores")
    colored = page.evaluate(
        "[...document.querySelectorAll('#highlight .token')].filter(one => one.style.backgroundColor).length"
    )
    assert colored == 4
    page.frame_locator("#attention iframe").get_by_text("weight of a token").wait_for()
    assert fits(page)


def test_labels_are_shown_in_a_narrow_window_too(serve, visit):
    shown = widget("sla-bert", "token-classification")
    page = visit(serve(shown, *loaded("sla-bert", "token-classification")), viewport=NARROW)
    ask(page, "Mira grows roses.")
    page.wait_for_selector("#table td")
    assert fits(page)
    page.get_by_label("gates by layer").click()
    page.frame_locator("#attention iframe").get_by_text("layer 1").wait_for()


def test_bad_texts_are_answered_by_a_message_that_goes_away(serve, visit):
    shown = widget("cool", "token-classification")
    page = visit(serve(shown, *loaded("cool", "token-classification")), viewport=NARROW)
    ask(page, "  ")
    page.get_by_role("alert").get_by_text("The field 'Text' is empty: write a text.").wait_for()
    ask(page, "the " * 600)
    page.get_by_role("alert").get_by_text("give a shorter one").wait_for()
    assert fits(page)
    ask(page, "<b>Mira</b> <img src=x onerror=alert(1)>")
    page.wait_for_selector("#highlight .token")
    assert not page.get_by_role("alert").count()
    assert not page.locator("#highlight :is(b, img)").count()


@pytest.fixture
def space(demo_output, tmp_path):
    """URL of a Space's program, which runs in a process that cannot import this package."""
    for name, text in space_files(demo_output, str(demo_output), "main").items():
        (tmp_path / name).write_text(text)
    program = (
        "import sys, runpy; sys.modules['hf_localattn'] = None; sys.path.insert(0, '.'); runpy.run_path('app.py')"
    )
    port = free_port()
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(port), "HF_HOME": str(tmp_path / "home"), "PYTHONPATH": ""}
    command = [sys.executable, "-c", program]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            while not answers(f"http://127.0.0.1:{port}/"):
                assert process.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.3)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.kill()
            process.wait()


def test_the_program_of_a_space_answers_without_the_package(space, visit):
    page = visit(space)
    ask(page, "Who is the baker?", "Hugo is the smith. The baker Mira grows white roses.")
    page.wait_for_selector("#table td")
    assert marked(page, "answer") == ["Mira"]


def answers(url):
    try:
        return urlopen(url, timeout=5).status == 200
    except (URLError, OSError):
        return False
