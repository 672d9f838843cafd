"""Train the model of negation that the package ships, and score it on each domain.

Repeat the command to resume it. docs/negation.md has the results, and the conventions of the annotation.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from benchmarks.negation import SHIPPED, checkpoint_predictions, evaluate, read_traps
from hf_localattn.bundled import WEIGHTS, negation_model
from hf_localattn.data import load_negation
from hf_localattn.data.negation import group_sentences
from hf_localattn.files import atomic_write
from hf_localattn.models.negation_conventions import CONVENTIONS
from hf_localattn.models.negation_labels import CUE_KINDS
from hf_localattn.names import find_files, resolve_backbone
from hf_localattn.parsing import parse_assignments
from hf_localattn.resources import NEGATION
from hf_localattn.studies.comparison_files import markdown_table
from hf_localattn.studies.processes import RunFailed, ScriptRun, run_all
from hf_localattn.studies.results import finished
from reproduction.shipped_model import write_shipped_card, write_shipped_model
from reproduction.small_encoder import cut_vocabulary

HELD_OUT = 0.2
"""Papers and reviews with this share of the negations are held out for testing. *SEM 2012 has a development set."""

PUBLISHED = "encoder"
"""The model that `--publish` writes. It needs least time, and is as good as the others."""

MODELS: dict[str, dict[str, Any]] = {
    PUBLISHED: {"family": "oa-xlnet", "local_config": ["local_attention=none"]},
    "oa-emb": {"family": "oa-xlnet"},
    "cool-conv": {"family": "cool", "local_config": ["local_attention=conv"]},
}

TASK = {"task_name": "negation", "detect_cues": True, "cues": "both"}
"""Options of the training and of all tests."""

TRAINING = {
    "learning_rate": 2e-4,
    "local_learning_rate": 5e-4,
    "warmup_steps": 0.1,
    "num_train_epochs": 3,
    "per_device_train_batch_size": 32,
    "train_sampling_strategy": "group_by_length",
    "bf16": True,
    "use_cpu": True,
    "save_strategy": "epoch",
    "save_total_limit": 1,
}

WRITTEN = "sample:negation/written.yaml"

WORDS_IN_COMMON = 4
"""Written sentences that share so many words in a row with a sentence that tests models are left out."""

NEGATORS = ("not", "n't", "n\u2019t")
"""Words that are the whole cue, also where a corpus marks the auxiliary before them."""

RAW = CONVENTIONS[0]
"""Convention that returns what the model predicts."""

PARTS = ("sherlock", "bioscope", "written", "sfu")
SCORES = ("cue_f1", "f1", "end_to_end_f1", "starsem_scope_tokens_f1")

TESTS = {
    "stories": ("sherlock-test", RAW),
    "papers": ("bioscope-test", RAW),
    "papers, by convention": ("bioscope-test", "papers"),
    "papers, speculation": ("speculation-test", RAW),
    "papers, speculation, by convention": ("speculation-test", "papers"),
    "reviews": ("sfu-test", RAW),
    "reviews, by convention": ("sfu-test", "reviews"),
}
"""Test file and convention of each set of scores. On stories the model's own convention is theirs."""

TRAP_CONVENTIONS = (RAW, "papers", "notes")
"""The convention of reviews is that of papers."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Recipe:
    """The data, the models and the folder of one call.

    Args:
        folder: Folder of the results.
        sherlock: Folder with the columns of *SEM 2012, training and dev.
        bioscope: File with the full papers of BioScope.
        backbone: Hub id or folder of an encoder.
        sfu: Folder of the SFU reviews. Without it no reviews are scored.
        trains_on_reviews: Train on the other SFU reviews, too.
        training: Options of the training that replace those of `TRAINING`.
    """

    folder: Path
    sherlock: Path
    bioscope: Path
    backbone: str
    sfu: Path | None = None
    trains_on_reviews: bool = False
    training: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def data(self) -> dict[str, Path]:
        """Training files by corpus, and test files by the corpus with "-test". They are written at the first use."""
        files = {"sherlock": self._stories("train"), "sherlock-test": self._stories("dev")}
        written = load_negation(find_files(WRITTEN), "both", all_sentences=True)
        files["written"] = self._write("written", without_near(written, [trap.text for trap in read_traps()]))
        papers = read_corpus(self.bioscope, "negation")
        held = held_out(papers)
        files["bioscope"] = self._write("bioscope", of_others(held, read_corpus(self.bioscope, "both")))
        files["bioscope-test"] = self._write("bioscope-test", of_documents(held, papers))
        speculation = of_documents(held, read_corpus(self.bioscope, "speculation"))
        files["speculation-test"] = self._write("speculation-test", speculation)
        if self.sfu is not None:
            reviews = read_corpus(self.sfu, "negation")
            held = held_out(reviews)
            files["sfu-test"] = self._write("sfu-test", of_documents(held, reviews))
            if self.trains_on_reviews:
                files["sfu"] = self._write("sfu", of_others(held, reviews))
        return files

    def _stories(self, part: str) -> Path:
        files = sorted(self.sherlock.glob(f"*{part}*.txt"))
        if len(files) != 1:
            raise ValueError(f"{self.sherlock}: needs one *{part}*.txt in the columns of *SEM 2012.")
        return files[0]

    def _write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        path = self.folder / f"{name}.jsonl"
        atomic_write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return path

    @cached_property
    def encoder(self) -> str:
        """Folder of the encoder. The vocabulary of BERT is cut to the pieces of all training texts, and others."""
        backbone = resolve_backbone(self.backbone)
        if AutoConfig.from_pretrained(backbone).model_type != "bert":
            return backbone
        folder = self.folder / "encoder"
        if not folder.exists():
            corpora = [load_negation(self.data[part], all_sentences=True) for part in PARTS if part in self.data]
            texts = [" ".join(tokens) for rows in corpora for tokens in rows["tokens"]]
            cut_vocabulary(backbone, texts, folder)
        return str(folder)

    def run(self, model: str, seed: int, without: str | None = None) -> ScriptRun:
        """Return the training of a model, followed by its tests."""
        name = f"{model}-{seed}" if without is None else f"{model}-without-{without}-{seed}"
        folder = self.folder / name
        parts = [part for part in PARTS if part in self.data and part != without]
        options = {
            **TASK,
            **TRAINING,
            **MODELS[model],
            **self.training,
            "backbone": self.encoder,
            "seed": seed,
            "train_file": ",".join(str(self.data[part]) for part in parts),
            "do_train": True,
            "output_dir": str(folder),
        }
        return ScriptRun("ner", options, folder, tuple(self.tests(folder).values()))

    def tests(self, checkpoint: Path) -> dict[str, ScriptRun]:
        """Return the tests of a checkpoint by the names of `TESTS`, as far as there are data."""
        runs = {}
        for name, (part, convention) in TESTS.items():
            if part not in self.data:
                continue
            folder = checkpoint.with_name(f"{checkpoint.name}-on-{name.replace(', ', '-').replace(' ', '-')}")
            options = {
                **TASK,
                "convention": convention,
                "do_eval": True,
                "model_name_or_path": str(checkpoint),
                "validation_file": str(self.data[part]),
                "output_dir": str(folder),
            }
            runs[name] = ScriptRun("ner", options, folder)
        return runs

    def shipped(self) -> Path:
        """Write the model of the package as a checkpoint, whose name has a digest of the weights."""
        digest = sha256((NEGATION / WEIGHTS).read_bytes()).hexdigest()
        folder = self.folder / f"{SHIPPED}-{digest[:8]}"
        for part in negation_model():
            part.save_pretrained(folder)
        return folder

    def scores(self, checkpoint: Path) -> dict[str, Any]:
        """Return the scores of a tested model, and those on the sentences that mislead rules by convention."""
        path = checkpoint.with_name(f"{checkpoint.name}.scores.json")
        if not path.is_file():
            scores: dict[str, Any] = {}
            for name, test in self.tests(checkpoint).items():
                metrics = finished(test.folder) or {}
                scores[name] = {score: metrics[f"eval_{score}"] for score in SCORES if f"eval_{score}" in metrics}
            traps = read_traps()
            scores["traps"] = {}
            for convention in TRAP_CONVENTIONS:
                predict = partial(checkpoint_predictions, str(checkpoint), convention)
                scores["traps"][convention] = evaluate(predict, traps)
            atomic_write(path, json.dumps(scores, indent=2) + "\n")
        scores = json.loads(path.read_text(encoding="utf-8"))
        return scores


def read_corpus(path: Path, cues: str) -> Rows:
    """Return the rows of a corpus with its cues in the convention of *SEM 2012."""
    rows = load_negation(path, cues, unmatched_scopes="skip", all_sentences=True)
    return [row for sentence in group_sentences(rows) for row in convert(sentence)]


def of_documents(documents: set[str], rows: Rows) -> Rows:
    """Return the rows of some documents."""
    return [row for row in rows if row["document_id"] in documents]


def of_others(documents: set[str], rows: Rows) -> Rows:
    """Return the rows of all other documents."""
    return [row for row in rows if row["document_id"] not in documents]


def without_near(rows: Iterable[dict[str, Any]], texts: Iterable[str]) -> Rows:
    """Return the rows that share fewer than `WORDS_IN_COMMON` words in a row with each text."""
    tested = set().union(*(word_sequences(text) for text in texts))
    return [row for row in rows if tested.isdisjoint(word_sequences(" ".join(row["tokens"])))]


def word_sequences(text: str) -> set[tuple[str, ...]]:
    """Return all sequences of `WORDS_IN_COMMON` words of a text, in lower case and without punctuation."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[start : start + WORDS_IN_COMMON]) for start in range(len(words) - WORDS_IN_COMMON + 1)}


def held_out(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the documents to test on: the last ones by name that have a share `HELD_OUT` of the negations."""
    counts = Counter({row["document_id"]: 0 for row in rows})
    counts.update(row["document_id"] for row in rows if any(row["cue"]))
    held: set[str] = set()
    negations = 0
    for document in sorted(counts, reverse=True):
        if negations >= HELD_OUT * counts.total():
            break
        held.add(document)
        negations += counts[document]
    return held


def convert(sentence: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert the cues of a sentence to the convention of *SEM 2012.

    There "neither ... nor" is one cue, two in SFU; and the cue of "does n't" is "n't", both words in SFU.
    """
    rows = [_without_auxiliary(row) for row in sentence]
    cues = {" ".join(filter(None, row["cue_text"])).lower(): row for row in rows}
    if not {"neither", "nor"} <= cues.keys():
        return rows
    neither = cues["neither"]
    nor = cues["nor"]
    cue = [int(any(pair)) for pair in zip(neither["cue"], nor["cue"], strict=True)]
    scopes = zip(neither["scope"], nor["scope"], cue, strict=True)
    scope = [int((of_neither or of_nor) and not is_cue) for of_neither, of_nor, is_cue in scopes]
    return [_annotated(neither, cue, scope), *(row for row in rows if row not in (neither, nor))]


def _without_auxiliary(row: dict[str, Any]) -> dict[str, Any]:
    if row["cue_kind"] != CUE_KINDS[0]:
        return row
    words = [text.lower() for text in row["cue_text"]]
    negators = [int(word in NEGATORS) for word in words]
    if sum(map(bool, words)) < 2 or not any(negators):
        return row
    scope = [inside or int(word.isalpha()) for inside, word in zip(row["scope"], words, strict=True)]
    return _annotated(row, negators, [inside * (1 - is_cue) for inside, is_cue in zip(scope, negators, strict=True)])


def _annotated(row: dict[str, Any], cue: list[int], scope: list[int]) -> dict[str, Any]:
    """Return a row with another cue and scope, which are whole words."""
    texts = {
        f"{name}_text": [token if marked else "" for token, marked in zip(row["tokens"], mask, strict=True)]
        for name, mask in (("cue", cue), ("scope", scope))
    }
    return {**row, **texts, "cue": cue, "scope": scope, "cue_type": "multi" if sum(cue) > 1 else "single"}


def table(scores: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the means over seeds as a Markdown table, with the range of several seeds."""
    rows = []
    for model, seeds in scores.items():
        for name, first in seeds[0].items():
            if name == "traps":
                continue
            cells = [_cell([seed[name][score] for seed in seeds]) if score in first else "" for score in SCORES]
            rows.append([model, name, *cells])
        for convention in seeds[0]["traps"]:
            traps = [seed["traps"][convention] for seed in seeds]
            parts = [f"accuracy {_cell([trap['all']['accuracy']['value'] for trap in traps])}"]
            for domain in traps[0]["domain"]:
                accuracies = [trap["domain"][domain]["accuracy"]["value"] for trap in traps]
                parts.append(f"{domain} {_cell(accuracies)}")
            rows.append([model, f"traps, {convention}", ", ".join(parts), "", "", ""])
    return markdown_table(["model", "set", "cues", "words in scope", "with found cues", "official"], rows)


def _cell(values: Sequence[float]) -> str:
    mean = f"{100 * statistics.mean(values):.1f}"
    return f"{mean} ({100 * min(values):.1f} to {100 * max(values):.1f})" if len(values) > 1 else mean


def main(words: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m reproduction negation", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--sherlock", type=Path, required=True, help="folder of *SEM 2012, with training and dev files")
    add("--bioscope", type=Path, required=True, help="file full_papers.xml of BioScope")
    add("--sfu", type=Path, help="folder of the SFU reviews, to test on")
    add("--train-on-reviews", action="store_true", help="train on a part of the SFU reviews (GPL), too")
    add("--backbone", default="sentence-transformers/all-MiniLM-L6-v2", help="Hub id or folder of an encoder")
    add("--training", nargs="*", default=[], metavar="NAME=VALUE", help="other options of the training")
    models = (*MODELS, SHIPPED)
    help = f"{SHIPPED} is only tested; others are trained"
    add("--models", nargs="+", choices=models, default=[PUBLISHED], help=help)
    add("--seeds", nargs="+", type=int, default=[1], metavar="SEED")
    add("--without", nargs="*", choices=PARTS, default=[], help="ablations: train the first model without these")
    add("--workers", type=int, default=1, metavar="N", help="runs at a time")
    add("--publish", action="store_true", help=f"write {PUBLISHED!r} with the first seed as the model of the package")
    add("-o", "--output-dir", type=Path, default=Path("negation"), metavar="FOLDER", help="default: negation")
    options = parser.parse_args(words)
    if options.train_on_reviews and options.sfu is None:
        raise ValueError("--train-on-reviews needs the reviews: give their folder as --sfu.")
    if options.train_on_reviews and options.publish:
        raise ValueError(
            "--publish writes a model under Apache-2.0; the reviews are under GPL. Leave one of them out."
        )
    recipe = Recipe(
        options.output_dir.absolute(),
        options.sherlock,
        options.bioscope,
        options.backbone,
        options.sfu,
        options.train_on_reviews,
        parse_assignments(options.training),
    )
    trained = [model for model in options.models if model != SHIPPED]
    if options.publish and PUBLISHED not in trained:
        trained.append(PUBLISHED)
    runs = {model: [recipe.run(model, seed) for seed in options.seeds] for model in trained}
    for part in options.without:
        runs[f"{trained[0]} without {part}"] = [recipe.run(trained[0], options.seeds[0], part)]
    _finish([run for group in runs.values() for run in group], options.workers)
    checkpoints = {name: [run.folder for run in group] for name, group in runs.items()}
    if options.publish:
        write_shipped_model(checkpoints[PUBLISHED][0], NEGATION)
    if options.publish or SHIPPED in options.models:
        shipped = recipe.shipped()
        _finish(recipe.tests(shipped).values(), options.workers)
        checkpoints[SHIPPED] = [shipped]
    scores = {name: list(map(recipe.scores, folders)) for name, folders in checkpoints.items()}
    report = table(scores)
    atomic_write(recipe.folder / "report.md", report + "\n")
    print(report)
    if options.publish:
        write_shipped_card(scores[SHIPPED][0], NEGATION)
        print(f"{NEGATION}: weights, graph, tokenizer and card are written.")


def _finish(runs: Iterable[ScriptRun], workers: int) -> None:
    """Execute runs, and raise `RunFailed` for the first one that fails."""
    for run, result in run_all(list(runs), workers):
        if isinstance(result, RunFailed):
            raise RunFailed(f"{run.folder.name}: {result}")
