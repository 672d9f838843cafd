"""Divide small corpora as parts f and g of the studies' plan do.

Each corpus gets a folder with the rows of the studies, and one in `rates` with rows to choose rates and numbers of
steps: there the evaluation data are training rows that the training of `rates` does not see, and no study scores. The
folder `draws` has a few rows of four corpora, drawn several times.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

HELD_OUT = 500
"""Number of the last training rows that choose rates."""

SCORED = 400
"""Number of questions that are scored."""

EWT = {"train": (0, 1400), "validation": (1400, 1600), "test": (1600, 2001)}
"""Sentences of each part of the development set of UD English EWT."""

CHAPTERS = ("baskervilles13", "baskervilles14")
"""Chapters of Sherlock that choose rates."""


DRAWS = 3
"""Number of draws of each corpus."""


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file with their ends."""
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def read_blocks(path: Path) -> list[str]:
    """Return the sentences of a column file."""
    text = path.read_text(encoding="utf-8").strip("\n")
    return [f"{block}\n\n" for block in text.split("\n\n")]


def write(path: Path, parts: Iterable[str]) -> None:
    """Write parts of a text to a new file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(parts), encoding="utf-8")


def divide_lines(source: Path, target: Path, scored: str) -> None:
    """Divide a corpus with a row a line. `scored` is its split for scores, "validation" or "test"."""
    name = target.name
    for split in ("train", scored):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / f"{split}.jsonl", target / f"{split}.jsonl")
    rows = read_lines(source / "train.jsonl")
    write(target.parent / "rates" / name / "train.jsonl", rows[:-HELD_OUT])
    write(target.parent / "rates" / name / f"{scored}.jsonl", rows[-HELD_OUT:])


def divide_questions(source: Path, target: Path) -> None:
    """Divide questions: a sample is scored, and the last article of the training data chooses rates."""
    rows = read_lines(source / "train.jsonl")
    write(target / "train.jsonl", rows)
    others = read_lines(source / "validation.jsonl")
    indices = sorted(random.Random(0).sample(range(len(others)), SCORED))
    write(target / "validation.jsonl", [others[index] for index in indices])
    titles = [json.loads(row)["title"] for row in rows]
    first = titles.index(titles[-1])
    write(target.parent / "rates" / target.name / "train.jsonl", rows[:first])
    write(target.parent / "rates" / target.name / "validation.jsonl", rows[first:])


def read_names(source: Path, split: str) -> list[str]:
    """Return the sentences of WNUT-17 as words and labels."""
    names = json.loads((source / "label_names.json").read_text(encoding="utf-8"))["ner_tags"]
    sentences = []
    for line in read_lines(source / f"{split}.jsonl"):
        row = json.loads(line)
        pairs = zip(row["tokens"], row["ner_tags"], strict=True)
        sentences.append("".join(f"{word}\t{names[tag]}\n" for word, tag in pairs) + "\n")
    return sentences


def divide_names(source: Path, target: Path) -> None:
    """Write WNUT-17 as words and labels. Its validation sentences choose rates."""
    rates = target.parent / "rates" / target.name
    for split in ("train", "validation", "test"):
        sentences = read_names(source, split)
        if split == "validation":
            write(rates / "validation.txt", sentences[:HELD_OUT])
            write(rates / "test.txt", sentences[:HELD_OUT])
            sentences = sentences[-HELD_OUT:]  # not scored by the studies, but evaluated
        write(target / f"{split}.txt", sentences)
    shutil.copy(target / "train.txt", rates / "train.txt")


def divide_parts_of_speech(source: Path, target: Path) -> None:
    """Divide the development set of UD English EWT."""
    sentences = read_blocks(source / "en_ewt-ud-dev.conllu")
    rates = target.parent / "rates" / target.name
    for split, (start, stop) in EWT.items():
        write(target / f"{split}.conllu", sentences[start:stop])
        scored = EWT["validation" if split == "test" else split]
        write(rates / f"{split}.conllu", sentences[slice(*scored)])


def divide_scopes(source: Path, target: Path) -> None:
    """Divide Sherlock: two chapters of the training data choose rates."""
    for path in source.glob("SEM-2012-SharedTask-CD-SCO-*.txt"):
        split = "train" if "training" in path.name else "validation"
        write(target / f"{split}.txt", read_blocks(path))
    rates = target.parent / "rates" / target.name
    sentences = read_blocks(target / "train.txt")
    held_out = [sentence.startswith(CHAPTERS) for sentence in sentences]
    write(rates / "train.txt", [sentence for sentence, is_out in zip(sentences, held_out, strict=True) if not is_out])
    write(rates / "validation.txt", [sentence for sentence, is_out in zip(sentences, held_out, strict=True) if is_out])


def columns_of(lines: Iterable[str], **columns: str) -> list[str]:
    """Return rows of a JSON lines file with some of their columns alone, by their new names."""
    rows = map(json.loads, lines)
    return [json.dumps({new: row[old] for new, old in columns.items()}, ensure_ascii=False) + "\n" for row in rows]


def draw_two(rows: Sequence[str], first: tuple[int, int], second: tuple[int, int]) -> tuple[list[str], list[str]]:
    """Draw rows, and others from the rest. Each pair is a seed and a number of rows."""
    indices = random.Random(first[0]).sample(range(len(rows)), first[1])
    rest = [row for index, row in enumerate(rows) if index not in {*indices}]
    return [rows[index] for index in indices], random.Random(second[0]).sample(rest, second[1])


def draw_articles(rows: Sequence[str], seed: int, count: int) -> list[str]:
    """Draw questions of whole articles."""
    by_title: dict[str, list[str]] = {}
    for row in rows:
        by_title.setdefault(json.loads(row)["title"], []).append(row)
    titles = list(by_title)
    random.Random(seed).shuffle(titles)
    return [row for title in titles for row in by_title[title]][:count]


def choices_of(rows: Iterable[str], seed: int) -> list[str]:
    """Turn questions into choices between four sentences of the passage. One of them has the answer."""
    generator = random.Random(seed)
    chosen = []
    for row in map(json.loads, rows):
        answer = row["answers"]["text"][0]
        sentences = dict.fromkeys(re.split(r"(?<=[.!?])\s+(?=[A-Z])", row["context"]))
        right = [sentence for sentence in sentences if answer in sentence]
        wrong = [sentence for sentence in sentences if answer not in sentence]
        if len(right) != 1 or len(wrong) < 3:
            continue
        choices = [*right, *generator.sample(wrong, 3)]
        generator.shuffle(choices)
        chosen.append({"question": row["question"], "choices": choices, "label": choices.index(right[0])})
    return [json.dumps(row, ensure_ascii=False) + "\n" for row in chosen]


def write_draws(source: Path, target: Path, scored_questions: Path) -> None:
    """Write few training rows of four corpora, and the rows that are scored."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("squad", "squad-all"):
        shutil.copy(scored_questions, target / f"{name}-scored.jsonl")
    texts = {"text": "text", "label": "coarse_label"}
    pairs = {name: name for name in ("sentence1", "sentence2", "label")}
    write(target / "trec-test.jsonl", columns_of(read_lines(source / "trec" / "test.jsonl"), **texts))
    write(target / "stsb-scored.jsonl", columns_of(read_lines(source / "glue_stsb" / "validation.jsonl"), **pairs))
    write(target / "wnut-test.txt", read_names(source / "wnut17", "test"))
    questions = read_lines(source / "squad" / "train.jsonl")
    choices = choices_of(questions, 5000)
    write(target / "choices-scored.jsonl", choices_of(read_lines(scored_questions), 5000))
    classified = read_lines(source / "trec" / "train.jsonl")
    tagged = read_names(source / "wnut17", "train")
    sentence_pairs = read_lines(source / "glue_stsb" / "train.jsonl")
    for draw in range(DRAWS):
        rows, others = draw_two(classified, (1000 + draw, 500), (1100 + draw, 300))
        write(target / f"trec-{draw}.jsonl", columns_of(rows, **texts))
        write(target / f"trec-{draw}-validation.jsonl", columns_of(others, **texts))
        rows, others = draw_two(tagged, (2000 + draw, 600), (2100 + draw, 1300))
        write(target / f"wnut-{draw}.txt", rows)
        write(target / f"wnut-{draw}-validation.txt", others[1000:])
        write(target / f"wnut-{draw}-held-out.txt", others[:1000])
        write(target / f"squad-{draw}.jsonl", draw_articles(questions, 3000 + draw, 300))
        write(target / f"squad-all-{draw}.jsonl", random.Random(6000 + draw).sample(questions, 300))
        write(target / f"choices-{draw}.jsonl", random.Random(5000 + draw).sample(choices, 1000))
        rows = random.Random(4000 + draw).sample(sentence_pairs, 600)
        write(target / f"stsb-{draw}.jsonl", columns_of(rows, **pairs))


def main(words: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m reproduction.study_data", description=__doc__, allow_abbrev=False)
    parser.add_argument("source", metavar="DATA", type=Path, help="folder with the corpora")
    parser.add_argument("target", metavar="FOLDER", type=Path, help="folder of the divided corpora")
    options = parser.parse_args(words)
    source, target = options.source, options.target
    divide_lines(source / "trec", target / "trec", "test")
    for name in ("glue_sst2", "glue_cola", "glue_stsb", "glue_rte"):
        divide_lines(source / name, target / name, "validation")
    for name in ("squad", "squad_v2"):
        divide_questions(source / name, target / name)
    divide_names(source / "wnut17", target / "wnut17")
    divide_parts_of_speech(source / "ud_ewt", target / "ud_ewt")
    divide_scopes(source / "negation" / "cdsco", target / "sherlock")
    write_draws(source, target / "draws", target / "squad" / "validation.jsonl")


if __name__ == "__main__":
    main()
