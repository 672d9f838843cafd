"""Validation of tokenizers that were loaded from untrusted files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

MOST_GROWTH = 100
"""Largest factor by which a normalizer may make a text longer."""

LONGEST_PATTERN = 2000
PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")

_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
KNOWN_PATTERNS = {
    # GPT-2, Llama 3 (also OpenAI's cl100k_base) and Qwen, which many other tokenizers use.
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORDS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORDS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
}
"""Patterns with two repetitions in a row that are safe, because these cannot match the same characters."""

_TOKEN = re.compile(
    r"\\[pPx]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^]\\])*\]|\{\d*,?\d*\}|\(\?[a-zA-Z-]*[:)]|\(\?.|.", re.DOTALL
)
"""One token of a pattern: an escape, a set of characters, a count, the start of a group, or a single character."""

_BACKWARDS = re.compile(r"\\[1-9kgKXR]|\(\?[<>~&(|R0-9P#]|\(\?[a-wyzA-Z-]*x")
"""Backreferences, groups that are not matched from left to right, and comments."""


def check_settings(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` if a `tokenizer_config.json` names files or Python objects."""
    name = os.path.basename(path)
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} cannot be read: {error}.") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{name} is {str(settings)[:80]!r}; it must be an object of names and values.")
    for entry, value in settings.items():
        names_a_file = entry.endswith(("_file", "_files")) or entry in ("init_inputs", "tokenizer_object")
        # Many published files still name the source of their special tokens. This entry is not read.
        if names_a_file and value not in (None, []) and entry != "special_tokens_map_file":
            raise ValueError(
                f"{name}: `{entry}` is {str(value)[:80]!r}; a tokenizer is read from the files next to it: remove it."
            )


def check_file(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` if some text could take forever with a `tokenizer.json`.

    The file is checked before it is loaded, since loading normalizes the tokens in it.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{os.path.basename(path)} cannot be read: {error}.") from None
    if isinstance(content, dict):
        _check_parts({part: content.get(part) for part in PARTS})


def check_tokenizer(backend: Any) -> None:
    """Raise `ValueError` if some text could take forever with a `tokenizers.Tokenizer`, or if it cannot encode."""
    parts = {part: getattr(backend, part) for part in PARTS}
    _check_parts({name: part and json.loads(part.__getstate__()) for name, part in parts.items()})
    try:
        backend.encode("a")
        backend.encode("a", "b")
    except BaseException as error:
        if not is_backends(error):
            raise
        raise ValueError(f"tokenizer.json: it cannot encode a text: {error}.") from None


def is_backends(error: BaseException) -> bool:
    """Return True for an error of the backend: an `Exception`, or a panic of the Rust library."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _check_parts(parts: Mapping[str, Any]) -> None:
    for part, content in parts.items():
        if content is None:
            continue
        for pattern in _patterns(content):
            if problem := slow(pattern):
                raise ValueError(
                    f"tokenizer.json: the {part} has the pattern {pattern[:80]!r}, {problem}: some texts could take "
                    "hours. Rewrite it, or use the tokenizer of the backbone."
                )
        if part == "normalizer" and (growth := _growth(content)) > MOST_GROWTH:
            raise ValueError(
                f"tokenizer.json: the {part} makes texts up to {growth:.0f} times longer; {MOST_GROWTH} times is the "
                "most. Shorten its replacements."
            )


def slow(pattern: str) -> str:
    """Return the reason why a regular expression may be slower than quadratic in a text's length, or "".

    The check is conservative. A pattern that is not in `KNOWN_PATTERNS` may have one repetition per alternative, and
    must not repeat a group that can match in several ways.
    """
    if pattern in KNOWN_PATTERNS:
        return ""
    if len(pattern) > LONGEST_PATTERN:
        return f"of {len(pattern)} characters"
    # For each open group: repetitions and options in this alternative, their maxima over alternatives, and True if the
    # group can match in only one way.
    groups: list[list[int]] = [[0, 0, 0, 0, True]]
    closed: list[int] | None = None
    for token in _TOKEN.findall(pattern):
        group, before, closed = groups[-1], closed, None
        if _BACKWARDS.match(token):
            return f"which looks back ({token})"
        if token.startswith("(") and not token.endswith(")"):
            groups.append([0, 0, 0, 0, True])
        elif token == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1][0] += max(closed[0], closed[2])
            groups[-1][1] += max(closed[1], closed[3])
            groups[-1][4] &= closed[4]
        elif token == "|":
            groups[-1] = [0, 0, max(group[0], group[2]), max(group[1], group[3]), False]
        elif token in "*+?" or token.startswith("{"):
            if token != "?" and before is not None and not before[4]:
                return "which repeats a group that can match in several ways"
            group[1 if token == "?" or 0 < _most(token) <= 10 else 0] += 1
            group[4] = False
        if groups[-1][0] > 1 or groups[-1][1] > 5:
            return "with too many repetitions in a row"
    return ""


def _most(count: str) -> int:
    """Return the largest number of repetitions that a count such as {2,5} allows, or 0 if it is unlimited."""
    numbers = re.findall(r"\d+", count)
    return 0 if not numbers or count.endswith(",}") else int(numbers[-1])


def _patterns(content: Any) -> Iterator[str]:
    """Yield the regular expressions in a component."""
    if isinstance(content, Mapping):
        pattern = content.get("pattern")
        if isinstance(pattern, Mapping) and isinstance(pattern.get("Regex"), str):
            yield pattern["Regex"]
        content = list(content.values())
    for one in content if isinstance(content, list) else ():
        yield from _patterns(one)


def _growth(content: Any) -> float:
    """Return the largest factor by which a normalizer's replacements make a text longer."""
    growth = 1.0
    for one in content.get("normalizers", [content]):
        pattern = one.get("pattern") or {}
        if "content" in one:
            growth *= max(1.0, len(one["content"]) / max(1, len(pattern.get("String", ""))))
        if "normalizers" in one:
            growth *= _growth(one)
    return growth
