"""Commands and programs of a page of the documentation, with the output that the page shows."""

import contextlib
import io
import json
import re
import runpy
import shlex
from pathlib import Path

from hf_localattn.resources import tiny_backbone
from tests.tiny_parser import tiny_parser

ROOT = Path(__file__).parent.parent
DEMO = str(ROOT / "examples" / "demo.py")

PASSAGE = "The smith Greta keeps two goats. Anton is the shepherd. The teacher is Felix, who keeps two goats."
QUESTIONS = [
    ("Who is the baker?", "Hugo is the smith. The baker Mira grows white roses.", "Mira"),
    ("Who is the smith?", PASSAGE, "Greta"),
    ("What is the shepherd called?", PASSAGE, "Anton"),
    ("Who is the teacher?", PASSAGE, "Felix"),
]
"""Questions of docs/question_answering.md, and the answers that it prints."""


def demo_by_heart(folder):
    """Return the names that the demo defines, with the page's four questions in place of its thousands."""
    rows = [
        {"id": answer, "question": question, "context": text, "answers": {"text": [answer], "answer_start": [start]}}
        for question, text, answer in QUESTIONS
        for start in [text.index(answer)]
    ]
    path = folder / "questions.json"
    path.write_text(json.dumps({"data": rows}))
    demo = runpy.run_path(DEMO, run_name="demo")
    demo["train"].__globals__["reading_comprehension"] = lambda: {"train": path, "validation": path}
    return demo


def commands(page):
    """Return the commands that a page shows, as lists of words."""
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


def training_command(page):
    """Return the words after `hf-localattn train` in the first such command of a page that needs no network."""
    trainings = [command[2:] for command in commands(page) if command[:2] == ["hf-localattn", "train"]]
    return next(words for words in trainings if not any(word.startswith("sentence-transformers/") for word in words))


def programs(page):
    """Return each Python program of a page, with the output that the page shows below it."""
    return re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", (ROOT / page).read_text(), flags=re.DOTALL)


def run_program(program, expected, page, namespace):
    """Run a program, and check the end of its output; `Trainer` prints above it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, page, "exec"), namespace)
    assert printed.getvalue().endswith(expected), printed.getvalue()


def run_page(page, least=1):
    """Run the programs of a page in order and in one namespace, as a reader would type them."""
    namespace = {}
    assert len(programs(page)) >= least
    for program, expected in programs(page):
        run_program(offline(program), expected, page, namespace)


def offline(text):
    """Names on the Hub become the tiny encoder that ships, the parser's name that of one of a few sentences."""
    names = {'"bert-base-cased"': str(tiny_backbone()), '"en_core_web_sm"': tiny_parser()}
    for name, folder in names.items():
        text = text.replace(name, repr(folder))
    return text
