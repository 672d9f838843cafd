"""The demo, in this process."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo.py"

PASSAGE = "The smith Greta keeps two goats. Anton is the shepherd. The teacher is Felix, who keeps two goats."
QUESTIONS = [
    ("Who is the baker?", "Hugo is the smith. The baker Mira grows white roses.", "Mira"),
    ("Who is the smith?", PASSAGE, "Greta"),
    ("What is the shepherd called?", PASSAGE, "Anton"),
    ("Who is the teacher?", PASSAGE, "Felix"),
]
"""Questions of docs/question_answering.md, and the answers that it prints."""


def load_demo() -> dict[str, Any]:
    """Return the names that the script defines."""
    return runpy.run_path(str(DEMO), run_name="demo")


def demo_by_heart(folder: Path) -> dict[str, Any]:
    """Return the names that the script defines, with the page's four questions in place of its thousands."""
    rows = [
        {"id": answer, "question": question, "context": text, "answers": {"text": [answer], "answer_start": [start]}}
        for question, text, answer in QUESTIONS
        for start in [text.index(answer)]
    ]
    path = folder / "questions.json"
    path.write_text(json.dumps({"data": rows}))
    demo = load_demo()
    demo["train"].__globals__["reading_comprehension"] = lambda: {"train": path, "validation": path}
    return demo
