"""Write the sentences that train negation beside the corpora: `python -m reproduction.written_negation FILE`.

The corpora are stories, papers and reviews. They lack the constructions of clinical notes, news and talk ("denies",
"was ruled out", "no longer"), and words that look like negation ("not only", "no change in", "rule out"). Patterns
with vocabularies, in written_negation.yaml, make sentences with cues and scopes. Conventions, also in
docs/negation.md:

* A scope has what does not hold, without the cue. In talk the subject is inside, as in *SEM 2012. In notes, reviews,
  news and papers it is outside, as in BioScope and SFU, except for the subject of a passive verb.
* Two negations that cancel each other are no cues ("does not deny"), nor are negations in questions and conditions.
* "No change in the effusion" negates the change, and "has not resolved" the resolution, not what they speak of.

No sentence shares four words in a row with a sentence of `benchmarks/negation_traps.jsonl`, which tests models.
"""

import argparse
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hf_localattn.files import atomic_write
from hf_localattn.models.negation_text import split_words

PATTERNS = Path(__file__).with_suffix(".yaml")
TRAPS = Path(__file__).parent.parent / "benchmarks" / "negation_traps.jsonl"

SENTENCES_PER_PATTERN = 12
"""Largest number of sentences made from a pattern. Patterns with few words make fewer, since none is repeated."""

WORDS_IN_COMMON = 4

_CHOICE = re.compile(r"<(?P<name>[A-Za-z-]+)>|\((?P<texts>[^()]*\|[^()]*)\)")
_MARK = re.compile(r"[\[{](?:(?P<number>\d):)?|[\]}]")


def write_sentences() -> list[dict[str, Any]]:
    """Return all rows, for `load_negation`: one for each cue, and one for each sentence without a cue."""
    content = yaml.safe_load(PATTERNS.read_text(encoding="utf-8"))
    known = {
        gram for line in TRAPS.read_text(encoding="utf-8").splitlines() for gram in grams(json.loads(line)["text"])
    }
    draw, rows, seen = random.Random(0), list[dict[str, Any]](), set[str]()
    for domain, patterns in content["patterns"].items():
        for pattern in patterns:
            for _ in range(SENTENCES_PER_PATTERN):
                text, marks = read_marks(tidy(fill(pattern, content["words"], draw)))
                if text not in seen and known.isdisjoint(grams(text)):
                    seen.add(text)
                    names = {"document_id": f"written-{domain}", "sentence_id": f"{domain}-{len(seen)}"}
                    rows += [{**names, **row} for row in annotate(text, marks)]
    return rows


def fill(pattern: str, words: Mapping[str, Sequence[str]], draw: random.Random) -> str:
    """Replace the vocabularies and alternatives of a pattern by texts that are drawn."""

    def one(match: re.Match[str]) -> str:
        if match["texts"] is not None:
            return draw.choice(match["texts"].split("|"))
        name = match["name"]
        text = fill(draw.choice(words[name.lower()]), words, draw)
        return text[:1].upper() + text[1:] if name[0].isupper() else text

    while _CHOICE.search(pattern):
        pattern = _CHOICE.sub(one, pattern)
    return pattern


def tidy(text: str) -> str:
    """Remove blanks that empty texts have left, and write "an" and the first letter as they should be."""
    text = re.sub(r" {2,}| (?=[]},.?;])", lambda blanks: " " if len(blanks[0]) > 1 else "", text)
    text = re.sub(r"\b([Aa]) (?=[{\[]?[aeiouAEIOU])", r"\1n ", text)
    return re.sub(r"^([\[{\d:]*)([a-z])(?!/)", lambda first: first[1] + first[2].upper(), text)


def read_marks(marked: str) -> tuple[str, dict[str, dict[str, set[int]]]]:
    """Return the text of a sentence with marks, and for each negation the characters of its cue and its scope."""
    text, marks, end, where = "", dict[str, dict[str, set[int]]](), 0, ("", "")
    for match in _MARK.finditer(marked):
        part, end = marked[end : match.start()], match.end()
        if where[0]:
            marks.setdefault(where[1], {"cue": set(), "scope": set()})[where[0]] |= {
                *range(len(text), len(text) + len(part))
            }
        text += part
        opens = {"[": "cue", "{": "scope"}.get(match[0][0], "")
        where = (opens, match["number"] or "1")
    return text + marked[end:], marks


def annotate(text: str, marks: Mapping[str, Mapping[str, set[int]]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a sentence."""
    places = [range(start, end) for start, end in split_words(text)]
    tokens = [text[place.start : place.stop] for place in places]
    if not marks:
        yield {"tokens": tokens, "cue": [0] * len(tokens), "scope": [0] * len(tokens)}
    for own in marks.values():
        cue_text = ["".join(text[i] for i in place if i in own["cue"]) for place in places]
        cue = [int(bool(part)) for part in cue_text]
        is_affix = any(part not in ("", token) for part, token in zip(cue_text, tokens, strict=True))
        yield {
            "tokens": tokens,
            "cue": cue,
            "cue_type": "affix" if is_affix else "multi" if sum(cue) > 1 else "single",
            "cue_kind": "negation",
            "cue_text": cue_text,
            "scope": [int(not own["scope"].isdisjoint(place)) for place in places],
        }


def grams(text: str) -> set[tuple[str, ...]]:
    """Return all sequences of `WORDS_IN_COMMON` words of a text, in lower case and without punctuation."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[start : start + WORDS_IN_COMMON]) for start in range(len(words) - WORDS_IN_COMMON + 1)}


def write_file(path: Path) -> None:
    """Write the sentences as rows, one in each line."""
    rows = write_sentences()
    atomic_write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    negated = sum(any(row["cue"]) for row in rows)
    print(f"{path}: {len({row['sentence_id'] for row in rows})} sentences, {negated} negations.")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m reproduction.written_negation", description=__doc__)
    parser.add_argument("file", type=Path, help="the .jsonl file to write")
    write_file(parser.parse_args().file)


if __name__ == "__main__":
    main()
