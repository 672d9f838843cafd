"""Programs of a page of the documentation, with the output that the page shows."""

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def programs(page):
    """Return each Python program of a page, with the output that the page shows below it."""
    return re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", (ROOT / page).read_text(), flags=re.DOTALL)


def run_program(program, expected, page, namespace):
    """Run a program, and check the end of its output; `Trainer` prints above it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, page, "exec"), namespace)
    assert printed.getvalue().endswith(expected), printed.getvalue()
