"""The command `negation`: cues and scopes of texts, in color on a terminal or as JSON lines."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from hf_localattn.errors import loading

# The command imports the finder when it runs, because that would slow down `--help`.

STANDARD_INPUT = "-"

LARGE = 1_000_000
"""Characters of a text that takes minutes."""

_FILE_NAME = re.compile(
    r"\S*[/\\]\S*|\S+\.(?:txt|text|md|csv|tsv|jsonl?|html?|xml|pdf|docx?|rtf|log|gz|zip)", re.IGNORECASE
)

CUE: dict[str, dict[str, Any]] = {
    "negation": {"fg": "red", "bold": True},
    "speculation": {"fg": "magenta", "bold": True},
}
SCOPE: dict[str, Any] = {"fg": "yellow"}
MARKS = {"cue": ("[", "]"), "scope": ("{", "}")}


def negation(
    inputs: Annotated[
        list[str],
        Argument(
            metavar="TEXT|FILE|-", help="Texts in quotes, text files, or - for standard input. A file is a text."
        ),
    ],
    as_json: Annotated[
        bool, Option("--json", help="Write a JSON line for each text, with all offsets and scores.")
    ] = False,
    convention: Annotated[
        Literal["stories", "papers", "reviews", "notes"],
        Option(help="What counts as a cue and as its scope; by default all that the model predicts."),
    ] = "stories",
    split_lines: Annotated[
        bool, Option("--split-lines", help="End a sentence at each line break, too, as in clinical notes.")
    ] = False,
    model: Annotated[
        str | None, Option(metavar="CHECKPOINT", help="Another model than the package's own English one.")
    ] = None,
) -> None:
    """Find cues of negation in texts, and the scope of each.

    On a terminal cues and scopes have colors; elsewhere they are written as [cue] and {scope}, a line for each cue.

    Example: `hf-localattn negation "No fever, chills or cough."`
    """
    texts = [read_text(name) for name in inputs]
    from hf_localattn.negation import finder

    with loading("model", model or "negation"):
        find = finder(model, convention=convention, split_lines=True if split_lines else None)
    try:
        for text in texts:
            findings = find(text)
            if as_json:
                print(json.dumps({"text": text, "negations": findings}, ensure_ascii=False), flush=True)
            else:
                lines = [show(text, finding, is_colored()) for finding in findings]
                print("\n".join(lines) or "No cue was found.", flush=True)
    except BrokenPipeError:  # `head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def read_text(name: str) -> str:
    """Return the text that an argument gives: itself, that of a file, or that of standard input.

    Raises:
        FileNotFoundError: The argument is the name of a file that does not exist.
        ValueError: The text is empty, or the file is no text.
    """
    if name == STANDARD_INPUT:
        text = decode(sys.stdin.buffer.read(), "standard input")
    elif is_file(name):
        text = decode(Path(name).read_bytes(), name)
    elif _FILE_NAME.fullmatch(name):
        raise FileNotFoundError(
            f"There is no file {name!r}: give an existing one, or its words by `{STANDARD_INPUT}`."
        )
    else:
        text = name
    if not text.strip():
        raise ValueError(f"The text of {name!r} is empty: give at least a word.")
    if len(text) > LARGE:
        print(f"{name}: {len(text):,} characters take minutes; Ctrl+C ends them.", file=sys.stderr)
    return text


def is_file(name: str) -> bool:
    """Return True for the path of a file; `ValueError` for that of a folder."""
    try:
        path = Path(name)
        if path.is_dir() and name.strip():
            raise ValueError(f"{name!r} is a folder: give its files, such as {name.rstrip('/')}/*.txt.")
        return path.is_file() or path.is_fifo()
    except OSError:  # too long for a path, so it is a text
        return False


def decode(content: bytes, name: str) -> str:
    """Return the UTF-8 text of a file; `ValueError` for other content."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: is no UTF-8 text ({error.reason} at byte {error.start}); convert it.") from None
    if "\0" in text:
        raise ValueError(f"{name}: is no text (a zero at character {text.index(chr(0))}); convert it.")
    return text


def is_colored() -> bool:
    """Return True if standard output is a terminal that shows colors."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def show(text: str, finding: Mapping[str, Any], colored: bool) -> str:
    """Return the sentence of a cue on one line, with the cue and its scope marked."""
    parts: list[str] = []
    place = finding["sentence"]["start"]
    for start, end, name in marked_spans(text, finding):
        parts.append(text[place:start])
        if colored:
            style = CUE[finding["kind"]] if name == "cue" else SCOPE
            parts.append(typer.style(text[start:end], **style))
        else:
            opening, closing = MARKS[name]
            parts.append(f"{opening}{text[start:end]}{closing}")
        place = end
    parts.append(text[place : finding["sentence"]["end"]])
    line = " ".join("".join(parts).split())
    return line if finding["kind"] == "negation" or colored else f"{finding['kind']}: {line}"


def marked_spans(text: str, finding: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Yield the spans of a cue and its scope in their order, without white space around them and apart."""
    cues = [(span["start"], span["end"]) for span in finding["cue"]]
    names = {place: "scope" for span in finding["scope"] for place in range(span["start"], span["end"])}
    names |= {place: "cue" for start, end in cues for place in range(start, end)}
    starts = {start for start, _ in cues} | {end for _, end in cues}
    run: list[int] = []
    for place in [*sorted(names), -1]:
        if run and (place != run[-1] + 1 or place in starts):
            part = text[run[0] : run[-1] + 1]
            start = run[0] + len(part) - len(part.lstrip())
            if part.strip():
                yield start, start + len(part.strip()), names[run[0]]
            run = []
        run.append(place)
