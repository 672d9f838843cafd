"""Train `pipeline("negation")` on stories, papers, reviews and written sentences, and score it on each domain.

Repeat the command to resume it. docs/negation.md has the results, and the conventions of the annotation.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from benchmarks.negation import checkpoint_predictions, evaluate, read_traps
from hf_localattn.data import load_negation
from hf_localattn.data.negation import group_sentences
from hf_localattn.files import atomic_directory, atomic_write
from hf_localattn.hub import write_card
from hf_localattn.hub.model_card import BOUNDARY
from hf_localattn.serving.export import export_checkpoint
from hf_localattn.studies.processes import RunFailed, ScriptRun, finished, run_all
from hf_localattn.models.negation_finder import CUE_KINDS

HELD_OUT = 0.2
"""Papers and reviews with this share of the negations are held out for testing. *SEM 2012 has a development set."""

MODELS: dict[str, dict[str, Any]] = {
    "oa-emb": {"family": "oa-xlnet"},
    "cool-conv": {"family": "cool", "local_config": ["local_attention=conv"]},
    "encoder": {"family": "oa-xlnet", "local_config": ["local_attention=none"]},
}

TRAINING = {
    "task_name": "negation",
    "detect_cues": True,
    "learning_rate": 1e-4,
    "local_learning_rate": 5e-4,
    "warmup_steps": 0.1,
    "num_train_epochs": 5,
    "per_device_train_batch_size": 16,
    "train_sampling_strategy": "group_by_length",
    "save_strategy": "epoch",
    "save_total_limit": 1,
}

NEGATORS = ("not", "n't", "n\u2019t")
"""Words that are the whole cue, also where a corpus marks the auxiliary before them."""

PARTS = ("sherlock", "bioscope", "sfu", "written")
SCORES = ("cue_f1", "f1", "end_to_end_f1", "starsem_scope_tokens_f1")

NOTES = """
## Scores by domain

| | cues, F1 | words in scope, F1 | with found cues, F1 |
|---|---|---|---|
{rows}

On 200 sentences that mislead rules, half of them clinical, {accuracy:.1%} are right (95 % interval {low:.1%} to
{high:.1%}).

## What it is not for

Decisions about a patient without a reader, texts in other languages than English, and speculation ("may",
"possible"), which it does not mark. Scopes follow the style of the text: the subject is inside in stories and talk,
and outside elsewhere.

## Data

*SEM 2012 (stories by Arthur Conan Doyle), BioScope full papers (CC BY 2.0), SFU reviews (GPL v3), and sentences
written for hf_localattn (its license). The card's license has to respect them all.
"""


@dataclass(frozen=True)
class Recipe:
    """The data, the models and the folder of one call.

    Args:
        folder: folder of the results.
        sherlock: folder with the columns of *SEM 2012, training and dev.
        bioscope: file with the full papers of BioScope.
        sfu: folder of the SFU reviews.
        backbone: Hub id or folder of the encoder.
    """

    folder: Path
    sherlock: Path
    bioscope: Path
    sfu: Path
    backbone: str

    @cached_property
    def data(self) -> dict[str, Path]:
        """Training files by corpus, and test files by the corpus with "-test". They are written at the first use."""
        stories = {part: sorted(self.sherlock.glob(f"*{part}*.txt")) for part in ("train", "dev")}
        if any(len(found) != 1 for found in stories.values()):
            raise ValueError(f"{self.sherlock}: needs one *train*.txt and one *dev*.txt in the columns of *SEM 2012.")
        (train,), (dev,) = stories.values()
        files = {"sherlock": train, "sherlock-test": dev, "written": self.folder / "written.jsonl"}
        write_file(files["written"])
        for name, path in (("bioscope", self.bioscope), ("sfu", self.sfu)):
            rows = load_negation(path, unmatched_scopes="skip", all_sentences=True)
            converted = [row for sentence in group_sentences(rows) for row in convert(sentence)]
            held = held_out(converted)
            for part, is_held in ((name, False), (f"{name}-test", True)):
                files[part] = self.folder / f"{part}.jsonl"
                chosen = [row for row in converted if (row["document_id"] in held) == is_held]
                atomic_write(files[part], "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in chosen))
        return files

    def run(self, model: str, seed: int, without: str | None = None) -> ScriptRun:
        """Return the training of a model, followed by its tests."""
        name = f"{model}{f'-without-{without}' if without else ''}-{seed}"
        files = ",".join(str(self.data[part]) for part in PARTS if part != without)
        own = {**MODELS[model], "backbone": self.backbone, "seed": seed, "train_file": files, "do_train": True}
        tests = [
            ScriptRun(
                "ner",
                {
                    **{"task_name": "negation", "detect_cues": True, "do_eval": True},
                    **{"model_name_or_path": str(self.folder / name), "validation_file": str(path)},
                    "output_dir": str(self.folder / f"{name}-on-{part}"),
                },
                self.folder / f"{name}-on-{part}",
            )
            for part, path in self.data.items()
            if part.endswith("-test")
        ]
        folder = self.folder / name
        return ScriptRun("ner", {**TRAINING, **own, "output_dir": str(folder)}, folder, tuple(tests))

    def scores(self, run: ScriptRun) -> dict[str, Any]:
        """Return the scores of a trained model on each test set, and on the sentences that mislead rules."""
        path = run.folder.with_name(f"{run.folder.name}.scores.json")
        if not path.is_file():
            found: dict[str, Any] = {}
            for test in run.then:
                metrics = finished(test.folder) or {}
                own = {name: metrics[f"eval_{name}"] for name in SCORES if f"eval_{name}" in metrics}
                found[test.folder.name.rpartition("-on-")[2].removesuffix("-test")] = own
            found["traps"] = evaluate(partial(checkpoint_predictions, str(run.folder)), read_traps())
            atomic_write(path, json.dumps(found, indent=2) + "\n")
        scores: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return scores


def held_out(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the documents to test on: the last ones by name that have a share `HELD_OUT` of the negations."""
    counts = Counter({row["document_id"]: 0 for row in rows})
    counts.update(row["document_id"] for row in rows if any(row["cue"]))
    held: set[str] = set()
    for document in sorted(counts, reverse=True):
        if sum(counts[one] for one in held) >= HELD_OUT * counts.total():
            break
        held.add(document)
    return held


def convert(sentence: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert the cues of a sentence to the convention of *SEM 2012.

    There "neither ... nor" is one cue, two in SFU; and the cue of "does n't" is "n't", both words in SFU.
    """
    rows = [_without_auxiliary(row) for row in sentence]
    cues = {" ".join(filter(None, row["cue_text"])).lower(): row for row in rows}
    if not {"neither", "nor"} <= cues.keys():
        return rows
    first, second = cues["neither"], cues["nor"]
    cue, scope = ([max(pair) for pair in zip(first[name], second[name], strict=True)] for name in ("cue", "scope"))
    scope = [inside - inside * is_cue for inside, is_cue in zip(scope, cue, strict=True)]
    return [_annotated(first, cue, scope), *(row for row in rows if row not in (first, second))]


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

    def cell(values: Sequence[float]) -> str:
        spread = f" ({100 * min(values):.1f} to {100 * max(values):.1f})" if len(values) > 1 else ""
        return f"{100 * statistics.mean(values):.1f}{spread}"

    lines = ["| model | set | cues | words in scope | with found cues | official |", "|---|---|---|---|---|---|"]
    for model, own in scores.items():
        for part in (name for name in own[0] if name != "traps"):
            cells = [cell([one[part][name] for one in own]) if name in own[0][part] else "" for name in SCORES]
            lines.append(f"| {model} | {part} | {' | '.join(cells)} |")
        domains = [
            f"{name} {cell([one['traps']['domain'][name]['accuracy']['value'] for one in own])}"
            for name in own[0]["traps"]["domain"]
        ]
        whole = cell([one["traps"]["all"]["accuracy"]["value"] for one in own])
        lines.append(f"| {model} | traps | accuracy {whole}, {', '.join(domains)} | | | |")
    return "\n".join(lines)


def publish(run: ScriptRun, scores: Mapping[str, Any]) -> None:
    """Write the card of a trained model, and its graph beside it."""
    rows = (
        f"| {part} | {100 * own['cue_f1']:.1f} | {100 * own['f1']:.1f} | {100 * own['end_to_end_f1']:.1f} |"
        for part, own in scores.items()
        if part != "traps"
    )
    accuracy = scores["traps"]["all"]["accuracy"]
    low, high = accuracy["interval"]
    notes = NOTES.format(rows="\n".join(rows), accuracy=accuracy["value"], low=low, high=high)
    card = write_card(run.folder, language="en", license="other")
    text = card.read_text(encoding="utf-8").partition(BOUNDARY)[0]
    atomic_write(card, f"{text}{BOUNDARY}\n{notes}")
    graph = run.folder.with_name(f"{run.folder.name}-onnx")
    if not graph.exists():
        with atomic_directory(graph) as folder:
            export_checkpoint(run.folder, folder, quantize="int8-weights")


def main(words: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m reproduction negation", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--sherlock", type=Path, required=True, help="folder of *SEM 2012, with training and dev files")
    add("--bioscope", type=Path, required=True, help="file full_papers.xml of BioScope")
    add("--sfu", type=Path, required=True, help="folder of the SFU reviews")
    add("--backbone", default="sentence-transformers/all-MiniLM-L6-v2", help="Hub id or folder of the encoder")
    add("--models", nargs="+", choices=MODELS, default=list(MODELS), help="models to compare")
    add("--seeds", nargs="+", type=int, default=[1, 2, 3], metavar="SEED")
    add("--without", nargs="*", choices=PARTS, default=[], help="ablations: train the first model without these")
    add("--workers", type=int, default=1, metavar="N", help="runs at a time")
    add("--publish", choices=MODELS, help="write card and graph of this model with the first seed")
    add("-o", "--output-dir", type=Path, default=Path("negation"), metavar="FOLDER", help="default: negation")
    own = parser.parse_args(words)
    recipe = Recipe(own.output_dir.absolute(), own.sherlock, own.bioscope, own.sfu, own.backbone)
    runs = {model: [recipe.run(model, seed) for seed in own.seeds] for model in own.models}
    runs |= {
        f"{own.models[0]} without {part}": [recipe.run(own.models[0], own.seeds[0], part)] for part in own.without
    }
    for run, result in run_all([one for some in runs.values() for one in some], own.workers):
        if isinstance(result, RunFailed):
            raise RunFailed(f"{run.folder.name}: {result}")
    scores = {name: [recipe.scores(one) for one in some] for name, some in runs.items()}
    report = table(scores)
    atomic_write(recipe.folder / "report.md", report + "\n")
    print(report)
    if own.publish:
        run = recipe.run(own.publish, own.seeds[0])
        publish(run, recipe.scores(run))
        print(f"{run.folder}: card and graph are written. RELEASING.md says how to upload them.")
