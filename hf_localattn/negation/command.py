"""The command `negation`: cues and scopes of texts, in color on a terminal or as JSON lines."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from hf_localattn.errors import loading, shorten
from hf_localattn.negation.files import ROWS, Source, decode, read_rows, read_text, standard_input
from hf_localattn.parsing import format_csv, parse_yaml, read_utf8

# The command imports the finder when it runs, because that would slow down `--help`.

STANDARD_INPUT = "-"
TEXT_COLUMN = "text"

CELLS = ("cue", "kind", "type", "score", "scope", "start", "end", "scope_start", "scope_end")
"""Columns of a table for a cue. Offsets are those of the first and the last part."""

_FILE_NAME = re.compile(
    r"\S*[/\\]\S*|\S+\.(?:txt|text|md|csv|tsv|jsonl?|html?|xml|pdf|docx?|rtf|log|gz|zip)", re.IGNORECASE
)

# Those that are no white space, and those that change the direction of what follows.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

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
            metavar="TEXT|FILE|-",
            help="Texts in quotes, files, or - for standard input; -- before a text that begins with a hyphen.",
        ),
    ],
    as_json: Annotated[
        bool, Option("--json", help="Write a JSON line for each text or row, with all offsets and scores.")
    ] = False,
    as_table: Annotated[
        bool, Option("--table", help="Write CSV: a line for each cue, and for a text without.")
    ] = False,
    text_column: Annotated[
        str | None,
        Option(
            "--text_column",
            metavar="NAME",
            help="Column with the texts of .jsonl, .csv and .tsv files.",
            show_default=TEXT_COLUMN,
        ),
    ] = None,
    lines: Annotated[bool, Option("--lines", help="Read each line of other files as a text.")] = False,
    convention: Annotated[
        Literal["stories", "papers", "reviews", "notes"],
        Option(help="What counts as a cue and as its scope; by default all that the model predicts."),
    ] = "stories",
    split_lines: Annotated[bool, Option("--split-lines", help="End a sentence at each line break.")] = False,
    terms: Annotated[
        Path | None,
        Option(metavar="FILE", help="JSON or YAML: lists of phrases by `negation`, `speculation` and `ignore`."),
    ] = None,
    threshold: Annotated[float, Option(help="Leave out cues with a lower score.")] = 0.0,
    max_characters: Annotated[int, Option("--max_characters", help="Longest text.")] = 1_000_000,
    model: Annotated[
        str | None, Option(metavar="CHECKPOINT", help="Another model than the package's own English one.")
    ] = None,
) -> None:
    """Find cues of negation in texts, and the scope of each.

    On a terminal cues and scopes have colors; elsewhere they are written as [cue] and {scope}, a line for each cue.
    Rows of files are written as JSON lines by default, with all their columns.

    Example: `hf-localattn negation "No fever, chills or cough."`
    """
    if as_json and as_table:
        raise ValueError("--json and --table are both set: choose one.")
    sources = [source for name in inputs for source in read_sources(name, text_column or TEXT_COLUMN, lines)]
    if text_column is not None and all(source.column is None for source in sources):
        raise ValueError("--text_column is set, and no input is a .jsonl, .csv or .tsv file: give one, or no column.")
    if lines and not any("line" in source.row and source.column is None for source in sources):
        raise ValueError("--lines is set, and no input is a file without columns, or standard input: leave it out.")
    settings: dict[str, Any] = {"convention": convention, "threshold": threshold, "max_characters": max_characters}
    settings |= {"split_lines": True if split_lines else None, "terms": read_terms(terms)}
    from hf_localattn.negation import finder

    with loading("model", model or "negation"):
        find = finder(model, **settings)
    columns = [*kept(sources[0])]
    for source in sources:
        find.reading.check_text(source.text, source.name)
        if "negations" in source.row and not as_table:
            raise ValueError(f"{source.name}: has a column 'negations' already: rename it, or write a --table.")
        if as_table and (taken := [name for name in CELLS if name in source.row and name != source.column]):
            raise ValueError(f"{source.name}: has a column {taken[0]!r} already: rename it, or write --json.")
        if as_table and {*kept(source)} != {*columns}:
            raise ValueError(
                f"{source.name}: has the columns {[*kept(source)]}, not {columns}: write a table for each."
            )
    try:
        if as_table:
            print(table_lines([[*columns, *CELLS]]), flush=True)
        for source, findings in zip(sources, find.pipe(source.text for source in sources), strict=True):
            if as_table:
                row = [source.row[name] for name in columns]
                written = table_lines([*row, *cells(finding)] for finding in findings or [{}])
            elif as_json or source.column is not None:
                written = visible(json.dumps({**source.row, "negations": findings}, ensure_ascii=False))
            else:
                shown = [show(source.text, finding, is_colored()) for finding in findings]
                written = "\n".join(shown) or "No cue was found."
            print(written, flush=True)
    except BrokenPipeError:  # `head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def read_sources(name: str, text_column: str, lines: bool) -> Iterator[Source]:
    """Yield the texts that an argument gives: itself, those of a file, or that of standard input.

    Raises:
        FileNotFoundError: The argument is the name of a file that does not exist.
        ValueError: A text is empty, or the file is no text.
    """
    if name == STANDARD_INPUT:
        yield from read_text(standard_input(), "standard input", text_column, lines=lines)
    elif is_file(name):
        if Path(name).suffix.lower() in ROWS:
            yield from read_rows(Path(name), text_column)
        else:
            yield from read_text(decode(Path(name).read_bytes(), name), name, text_column, lines=lines)
    elif _FILE_NAME.fullmatch(name):
        raise FileNotFoundError(
            f"There is no file {name!r}: give an existing one, or its words by `{STANDARD_INPUT}`."
        )
    else:
        yield from read_text(name, f"The text {shorten(name)}", text_column, lines=False)


def read_terms(path: Path | None) -> Any:
    """Return a user's terms, from a file."""
    return {} if path is None else parse_yaml(read_utf8(path), str(path))


def table_lines(rows: Iterable[Sequence[Any]]) -> str:
    """Return the lines of CSV."""
    return visible(format_csv(rows)).removesuffix("\n")


def kept(source: Source) -> dict[str, Any]:
    """Return the columns of a row without its text."""
    return {name: value for name, value in source.row.items() if name != source.column}


def cells(finding: Mapping[str, Any]) -> list[Any]:
    """Return the cells of a cue; empty ones without a cue."""
    if not finding:
        return [""] * len(CELLS)
    parts = [finding[name] for name in ("cue", "scope")]
    cue, scope = (" ... ".join(span["text"] for span in spans) for spans in parts)
    places = [place for spans in parts for place in ((spans[0]["start"], spans[-1]["end"]) if spans else ("", ""))]
    return [cue, finding["kind"], finding["type"], round(finding["score"], 4), scope, *places]


def is_file(name: str) -> bool:
    """Return True for the path of a file; `ValueError` for that of a folder."""
    try:
        path = Path(name)
        if path.is_dir() and name.strip():
            raise ValueError(f"{name!r} is a folder: give its files, such as {name.rstrip('/')}/*.txt.")
        return path.is_file() or path.is_fifo()
    except OSError:  # too long for a path, so it is a text
        return False


def visible(text: str) -> str:
    """Return a text with control characters as escapes: they could change what a terminal shows."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def is_colored() -> bool:
    """Return True if standard output is a terminal that shows colors."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def show(text: str, finding: Mapping[str, Any], colored: bool) -> str:
    """Return the sentence of a cue on one line, with the cue and its scope marked."""
    parts: list[str] = []
    place = finding["sentence"]["start"]
    for start, end, name in marked_spans(text, finding):
        parts.append(visible(text[place:start]))
        if colored:
            style = CUE[finding["kind"]] if name == "cue" else SCOPE
            parts.append(typer.style(visible(text[start:end]), **style))
        else:
            opening, closing = MARKS[name]
            parts.append(f"{opening}{visible(text[start:end])}{closing}")
        place = end
    parts.append(visible(text[place : finding["sentence"]["end"]]))
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
