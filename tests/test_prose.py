"""The part of the rules for prose that a program can hold (see CONTRIBUTING.md)."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST_WORDS = ("What", "Which", "Whether", "How", "Of", "Where", "Whatever", "Who")
"""With these a reader has to wait for the end of a sentence to know what it is about."""

FILES = [
    path
    for folder in ("hf_localattn", "benchmarks", "examples", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
] + sorted(ROOT.glob("run_*.py"))


def test_docstrings_begin_with_a_verb_or_with_what_the_thing_is():
    assert len(FILES) > 100
    first = {path: re.findall(r'"""(\w+)', path.read_text(encoding="utf-8")) for path in FILES}
    assert not {str(path): word for path, words in first.items() for word in words if word in FIRST_WORDS}
