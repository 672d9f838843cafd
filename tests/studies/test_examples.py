"""`hf-localattn compare A B --examples FILE`: the rows on which two readers or two classifiers differ."""

import csv
import json

import pytest

from hf_localattn.cli import main
from hf_localattn.files import atomic_write
from hf_localattn.studies.examples import compare_examples
from hf_localattn.tasks import TextClassification
from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.output_folder import digest_of
from hf_localattn.training.splits import load_splits
from tests.script_helpers import assert_one_line_error

PASSAGE = "The UCLA Bruins & the USC Trojans both field teams."
GOLD = {"usc": ["Trojans", "USC Trojans both"], "ucla": ["Bruins"], "both": ["teams"], "none": [], "known": ["USC"]}
ANSWERS = {  # the articles and the case do not count
    "cool": {"usc": "The trojans", "ucla": "UCLA", "both": "USC", "none": "", "known": "USC"},
    "bert": {"usc": "USC Trojans", "ucla": "Bruins", "both": "field", "none": "teams", "known": "the USC"},
}
CLASSES = {"sam": ["good", "bad", "bad", "good"], "rba": ["bad", "bad", "good", "bad"]}
LABELS = ["good", "bad", "good", "good"]


@pytest.fixture
def folder(tmp_path):
    """Output folders of two readers and two classifiers, and their data."""
    questions = []
    for name, texts in GOLD.items():
        answers = {"text": texts, "answer_start": [PASSAGE.index(text) for text in texts]}
        questions.append({"id": name, "question": f"Which {name}?", "context": PASSAGE, "answers": answers})
    atomic_write(tmp_path / "squad.jsonl", "".join(f"{json.dumps(row)}\n" for row in questions))
    for name, answers in ANSWERS.items():
        atomic_write(tmp_path / name / "eval_predictions.json", json.dumps(answers))
        atomic_write(tmp_path / name / "run.json", json.dumps({"version_2_with_negative": True}))
    with open(tmp_path / "texts.csv", "w", newline="") as file:
        csv.writer(file).writerows([["review", "kind"], *((f"Text {n}.", kind) for n, kind in enumerate(LABELS))])
    for name, classes in CLASSES.items():
        lines = "".join(f"{index}\t{label}\n" for index, label in enumerate(classes))
        atomic_write(tmp_path / name / "predict_results.txt", f"index\tprediction\n{lines}")
        columns = {"text_column_names": "review", "label_column_name": "kind"}
        args = TextClassification.DataArguments(test_file=str(tmp_path / "texts.csv"), **columns)
        predicting = TrainingArguments(output_dir="unused", do_predict=True)
        splits = load_splits(TextClassification(args), predicting).rows
        arguments = columns | {"test data": digest_of(splits["test"])}
        atomic_write(tmp_path / name / "run.json", json.dumps(arguments))
    return tmp_path


def sections(text):
    """The keys of the examples by their kind."""
    found = {}
    for line in text.splitlines():
        if " of " in line and line.endswith(("4", "5")) and ":" in line:
            kind = line.partition(" (")[0]
            found[kind] = []
        elif line.startswith("["):
            found[kind].append(line[1:].partition("]")[0])
    return found


def test_readers_differ(folder, capsys):
    page = folder / "page.html"
    words = [str(folder / name) for name in ("cool", "bert")]
    assert main(["compare", *words, "--examples", str(folder / "squad.jsonl"), "-o", str(page)]) == 0
    text = capsys.readouterr().out
    assert sections(text) == {"won": ["usc", "none"], "lost": ["ucla"], "both wrong": ["both"]}
    assert "gold: Trojans | USC Trojans both" in text
    assert "A: (no answer)" in text
    assert PASSAGE in text
    html = page.read_text()
    assert "Bruins &amp; the" in html
    assert html.count("<section>") == 4


def test_of_a_long_passage_the_words_around_the_answers_are_shown(folder):
    sentence = "It rained all day in the city and nobody went to see any game. "
    passage = 3 * sentence + PASSAGE + 3 * f" {sentence}" + "Field hockey, too."
    start = passage.index("Bruins")
    row = {"id": "ucla", "question": "?", "context": passage, "answers": {"text": ["Bruins"], "answer_start": [start]}}
    (folder / "squad.jsonl").write_text(json.dumps(row))
    for name, answer in {"cool": "Field hockey", "bert": ""}.items():
        atomic_write(folder / name / "eval_predictions.json", json.dumps({"ucla": answer}))
    words = [str(folder / name) for name in ("cool", "bert")]
    text = compare_examples(*words, str(folder / "squad.jsonl"), folder / "page.html")
    shown = " ".join(text.partition("(no answer)")[2].split())
    assert shown.startswith("… city and nobody went to see any game. The UCLA Bruins & the")
    assert shown.endswith("see any game. Field hockey, too.")
    assert shown.count("…") == 2
    assert passage.replace("&", "&amp;") in (folder / "page.html").read_text()


def test_classifiers_differ(folder):
    text = compare_examples(str(folder / "sam"), str(folder / "rba"), str(folder / "texts.csv"))
    assert sections(text) == {"won": ["0", "3"], "lost": ["2"], "both wrong": []}
    assert "Text 0." in text


REFUSED = {
    "cool sam squad.jsonl": "question-answering.*text-classification",
    "cool nowhere squad.jsonl": "nowhere has no predictions",
    "seeds cool squad.jsonl": "such as seeds/seed-1",
    "sam rba squad.jsonl": "squad.jsonl",
    "sam rba few.csv": "predict_results.txt",
    "sam rba others.csv": "predict_results.txt has others",
    "plain plain others.csv": "blue.*red",
    "sam topics texts.csv": "bad.*topics",
    "cool bert few.jsonl": "eval_predictions.json",
    "cool changed squad.jsonl": "changed has not predicted",
    "cool bert squad.jsonl -o page.json": ".html",
    "cool bert squad.jsonl --metric eval_f1": "--metric",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_compared_is_refused(words, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "seeds" / "seed-1").mkdir(parents=True)
    lines = (folder / "texts.csv").read_text()
    (folder / "few.csv").write_text("".join(lines.splitlines(keepends=True)[:3]))
    (folder / "others.csv").write_text(lines.replace("good", "red").replace("bad", "blue"))
    atomic_write(folder / "plain" / "predict_results.txt", (folder / "sam" / "predict_results.txt").read_text())
    atomic_write(
        folder / "plain" / "run.json", json.dumps({"label_column_name": "kind", "text_column_names": "review"})
    )
    atomic_write(folder / "topics" / "run.json", (folder / "sam" / "run.json").read_text())
    classes = "".join(f"{index}\t{topic}\n" for index, topic in enumerate(["LOC", "HUM", "NUM", "LOC"]))
    atomic_write(folder / "topics" / "predict_results.txt", f"index\tprediction\n{classes}")
    (folder / "few.jsonl").write_text("".join((folder / "squad.jsonl").read_text().splitlines(keepends=True)[:2]))
    atomic_write(folder / "changed" / "eval_predictions.json", json.dumps(ANSWERS["bert"]))
    atomic_write(folder / "changed" / "run.json", json.dumps({"validation data": "5 rows, sha256 0"}))
    first, second, file, *more = words.split()
    words_of = ["compare", first, second, "--examples", file, *more]
    assert_one_line_error(lambda: main(words_of), REFUSED[words], folder / "none", capsys)
