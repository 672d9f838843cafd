"""Checks of a tokenizer that was loaded from files, whoever wrote them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

MOST_GROWTH = 100
"""Largest allowed growth of a text by normalizing."""

LONGEST_PATTERN = 2000
PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")

_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
KNOWN_PATTERNS = {
    # GPT-2, Llama 3 (also OpenAI's cl100k_base) and Qwen, which many others have taken over.
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORDS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORDS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
}
"""Patterns with two repetitions in a row that cannot take each other's characters."""

_TOKEN = re.compile(
    r"\\[pPx]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^]\\])*\]|\{\d*,?\d*\}|\(\?[a-zA-Z-]*[:)]|\(\?.|.", re.DOTALL
)
"""An escape, a set of characters, a count, the beginning of a group, or a single character."""

_BACKWARDS = re.compile(r"\\[1-9kgKXR]|\(\?[<>~&(|R0-9P#]|\(\?[a-wyzA-Z-]*x")
"""References to what was read before, groups in another order than from left to right, and comments."""


def check_settings(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` for a `tokenizer_config.json` that names files, or objects of a program."""
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
        # Many published files still name where their special tokens were read from; it is not read again.
        if names_a_file and value not in (None, []) and entry != "special_tokens_map_file":
            raise ValueError(
                f"{name}: `{entry}` is {str(value)[:80]!r}; a tokenizer is read from the files beside it: remove it."
            )


def check_file(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` for a `tokenizer.json` that a text could keep busy; reading it normalizes its own tokens."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{os.path.basename(path)} cannot be read: {error}.") from None
    if isinstance(content, dict):
        _check_parts({part: content.get(part) for part in PARTS})


def check_tokenizer(backend: Any) -> None:
    """Raise `ValueError` for a backend (`tokenizers.Tokenizer`) that a text could keep busy, or that reads none."""
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
    """Return True for an error of the backend: plain exceptions, and panics of the Rust library, which are none."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _check_parts(parts: Mapping[str, Any]) -> None:
    for part, content in parts.items():
        if content is None:
            continue
        for pattern in _patterns(content):
            if problem := slow(pattern):
                raise ValueError(
                    f"tokenizer.json: the {part} has the pattern {pattern[:80]!r}, {problem}: a text could keep it "
                    "busy for hours. Rewrite it, or take the tokenizer of the backbone."
                )
        if part == "normalizer" and (growth := _growth(content)) > MOST_GROWTH:
            raise ValueError(
                f"tokenizer.json: the {part} makes texts up to {growth:.0f} times longer, and {MOST_GROWTH} times is "
                "the most. Shorten what it writes."
            )


def slow(pattern: str) -> str:
    """Say why a regular expression may take more than the square of a text's length; nothing if it does not.

    It errs on the safe side: what is not among `KNOWN_PATTERNS` may repeat once in each alternative, and no group that
    can be read in several ways.
    """
    if pattern in KNOWN_PATTERNS:
        return ""
    if len(pattern) > LONGEST_PATTERN:
        return f"of {len(pattern)} characters"
    # For each open group: repetitions and options in this alternative, the most in any, and if it is read in one way.
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
                return "which repeats what can be read in several ways"
            group[1 if token == "?" or 0 < _most(token) <= 10 else 0] += 1
            group[4] = False
        if groups[-1][0] > 1 or groups[-1][1] > 5:
            return "with too many repetitions in a row"
    return ""


def _most(count: str) -> int:
    """The most repetitions that a count such as {2,5} allows; 0 if there is no end of them."""
    numbers = re.findall(r"\d+", count)
    return 0 if not numbers or count.endswith(",}") else int(numbers[-1])


def _patterns(content: Any) -> Iterator[str]:
    """The regular expressions of a component."""
    if isinstance(content, Mapping):
        pattern = content.get("pattern")
        if isinstance(pattern, Mapping) and isinstance(pattern.get("Regex"), str):
            yield pattern["Regex"]
        content = list(content.values())
    for one in content if isinstance(content, list) else ():
        yield from _patterns(one)


def _growth(content: Any) -> float:
    """Return by how many times a normalizer's replacements make a text longer, at most."""
    growth = 1.0
    for one in content.get("normalizers", [content]):
        pattern = one.get("pattern") or {}
        if "content" in one:
            growth *= max(1.0, len(one["content"]) / max(1, len(pattern.get("String", ""))))
        if "normalizers" in one:
            growth *= _growth(one)
    return growth
