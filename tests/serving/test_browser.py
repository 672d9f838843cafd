"""The page in a browser: text is typed, the button pressed, and the result read (`make test-browser`)."""

import os
import shutil
import socket

import pytest

from hf_localattn.serving.demo import build_page
from hf_localattn.serving.page import WIDGETS, launch
from tests.serving.conftest import pipe

gradio = pytest.importorskip("gradio", reason="the extra `demo` is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, without a window. `CHROMIUM` names another program."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.fail("Chromium is not installed: run `apt-get install chromium`, or name its program in CHROMIUM.")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """A function that opens the page of a task. The page may load nothing from elsewhere, nor report an error."""
    opened, problems = [], []

    def visit(name, task, width=1280):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        served = build_page(task, pipe(name, task), "a model")
        url = launch(served, server_port=port, prevent_thread_lock=True, quiet=True)[1]
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(60_000)
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        own = (url, "data:", "blob:", "about:")
        page.on("request", lambda asked: None if asked.url.startswith(own) else problems.append(asked.url))
        page.goto(url)
        page.get_by_role("button", name="Run").wait_for()
        opened.append((page, served))
        return page

    yield visit
    for page, served in opened:
        page.close()
        served.close(verbose=False)
    assert not problems


def ask(page, **texts):
    for label, text in texts.items():
        page.get_by_role("textbox", name=label, exact=True).fill(text)
    page.get_by_role("button", name="Run").click()


def expect_marks(page, label, *expected):
    """Wait until these texts, in order, are highlighted with a label."""
    tokens = page.locator(".textfield .token.highlighted", has=page.get_by_text(label, exact=True)).locator(".text")
    playwright.expect(tokens).to_have_text([*expected])


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("task", WIDGETS)
def test_every_head_answers_and_fits_the_window(task, width, visit):
    page = visit(
        {"token-classification": "sla-bert", "text-classification": "sam-roberta"}.get(task, "cool"), task, width
    )
    ask(page)
    frame = page.frame_locator("#attention iframe")
    frame.get_by_role("heading").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if task == "token-classification":
        page.get_by_label("local attention").click()
        frame.get_by_text("local attention").first.wait_for()
    if task == "text-classification":
        assert "LABEL_0" in page.inner_text("body")
        assert page.locator(".textfield .token").count() > 4  # weights of tokens


def test_the_selected_row_is_highlighted(visit):
    page = visit(None, "negation")
    ask(page)
    expect_marks(page, "cue", "neither", "nor")
    expect_marks(page, "scope", "spoke", "moved.")
    page.get_by_role("gridcell", name="im", exact=True).click()
    expect_marks(page, "cue", "im")
    expect_marks(page, "scope", ".")
    ask(page, Text="He spoke.")
    expect_marks(page, "cue")
    assert page.get_by_role("textbox", name="Result").input_value() == "The model found no cue."


def test_bad_texts_are_answered_by_a_message(visit):
    page = visit("cool", "token-classification", 420)
    ask(page, Text="  ")
    page.get_by_text("The field 'Text' is empty: write a text.").wait_for()
    ask(page, Text="the " * 600)
    page.get_by_text("too long").wait_for()
    ask(page, Text="<b>Mira</b> <img src=x onerror=alert(1)>")
    page.locator(".textfield .token").first.wait_for()
    assert not page.locator(".textfield :is(b, img)").count()
