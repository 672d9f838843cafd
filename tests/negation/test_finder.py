"""The finder without torch: the model of the package, its settings, copies and processes, and what it refuses."""

import copy
import math
import multiprocessing
import pickle
import tracemalloc

import pandas as pd
import pytest
from datasets import Dataset

from hf_localattn.models.negation_labels import SCOPE_LABELS, WordLabeler, WordLabels
from hf_localattn.models.negation_reading import Reading
from hf_localattn.negation import decide, finder
from hf_localattn.negation.decisions import Calibration
from hf_localattn.negation.texts import Finder
from hf_localattn.resources import NEGATION

pytest.importorskip("onnxruntime")

NOTES = [
    "No fever, chills, or cough.",
    "Smoker: no\nHe denies pain,\nchills and cough",
    "",
    "Pneumonia was ruled out.",
]


@pytest.fixture(scope="module")
def find():
    return finder(convention="notes", threads=2)


def test_texts_lists_columns_and_iterators(find):
    found = find(NOTES)
    assert [[cue["cue"][0]["text"] for cue in note] for note in found] == [["No"], ["no", "denies"], [], ["ruled"]]
    assert find(pd.Series(NOTES, index=list("abcd"))) == find(iter(NOTES)) == found
    assert find(NOTES[0]) == found[0]
    assert list(find.pipe(iter(NOTES), batch_size=1)) == found
    assert find([]) == []


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda find: pickle.loads(pickle.dumps(find))])
def test_copies_find_the_same(find, clone):
    assert clone(find)(NOTES) == find(NOTES)


def send(connection, find):
    connection.send(find(NOTES))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_find_the_same(find, method):
    """A forked process has none of the threads of its parent, and must not wait for them."""
    context = multiprocessing.get_context(method)
    expected = find(NOTES)
    here, there = context.Pipe()
    process = context.Process(target=send, args=(there, find))
    process.start()
    assert here.poll(100)
    assert here.recv() == expected
    process.join(20)
    assert process.exitcode == 0


TERMS = {"negation": ["\u00d8", "negative study", "nil"], "ignore": ["Triple-negative", "no further workup"]}
WITH_TERMS = {
    "\u00d8 fever": ["\u00d8"],
    "This is a Negative Study for stones.": ["Negative Study"],
    "Triple-negative cancer; no further workup.": [],
    "No fever.": ["No"],
    "Allergies nil": ["nil"],  # shorter than the longest term
}


@pytest.mark.parametrize("text", WITH_TERMS)
def test_a_users_terms(text):
    found = finder(convention="notes", terms=TERMS)(text)
    assert [" ".join(part["text"] for part in one["cue"]) for one in found] == WITH_TERMS[text]


def test_a_threshold_leaves_out_cues():
    text = "Nor afebrile."
    scores = [one["score"] for one in finder()(text)]
    assert [one["score"] for one in finder(threshold=1)(text)] == [score for score in scores if score >= 1]


def test_scores_are_calibrated():
    calibration = Calibration(temperature=2.0, unmarked=0.2)
    values = [calibration.probability(value) for value in (0, 0.5, 0.9, 1)]
    assert values == pytest.approx([0.5, 0.5, 0.75, 0.969], abs=1e-3)
    text = "No fever. He has cough."
    found = finder(convention="notes")(text)
    fever, cough = (decide(text, start, start + 5, found, calibration=calibration) for start in (3, 17))
    assert fever.negated
    assert fever.score > 0.5
    assert fever.cue["cue"][0]["text"] == "No"
    assert (cough.negated, cough.score, cough.cue) == (False, 0.2, None)


ODD = {
    "nothing": "",
    "blanks": " " * 10_000,
    "empty lines": "\r\n\n\r \n",
    "control characters": "no\x00 fever\x1b[31m\x07, no\u200b rash",
    "one long word": "a" * 20_000 + " no fever",
    "mixed line ends": "No fever\rno rash\r\nno cough\nno pain\u2028no edema",
    "another language": "\u0646\u0641\u06cc \u062a\u0628. \u6ca1\u6709\u53d1\u70e7\u3002 Kein Fieber.",
    "combining marks": "no e\u0301de\u0300me, no fie\u0300vre",
    "many cues": "no fever or chills or cough and " * 24,
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_odd_texts_have_right_offsets(text, find):
    for one in find(text):
        for span in (*one["cue"], *one["scope"]):
            assert text[span["start"] : span["end"]] == span["text"]
            assert one["sentence"]["start"] <= span["start"] < span["end"] <= one["sentence"]["end"]


class Nots(WordLabeler):
    """Labels the word "not" as a cue, and the word behind it as its scope."""

    def __init__(self):
        super().__init__([*SCOPE_LABELS, "negation:single"], 64, 2)

    def token_counts(self, words):
        return [1] * len(words)

    def label(self, names, sentences, cues, cue_types):
        labels = []
        for words, cue in zip(sentences, cues, strict=True):
            if any(cue):
                chosen = ["SCOPE" if before else "O" for before in [0, *cue[:-1]]]
            else:
                chosen = ["negation:single" if word == "not" else "O" for word in words]
            labels.append(WordLabels(chosen, [0.9] * len(words)))
        return labels


def test_a_long_text_takes_little_memory_beside_its_results():
    """Its words, masks and labels are never all in memory."""
    find = Finder(Nots(), Reading("notes"))
    beside = []
    for unit in (1000, 2000):
        text = "He did not go.\n" * unit
        tracemalloc.start()
        found = find(text)
        results, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(found) == unit
        beside.append(peak - results)
    assert beside[1] < 1.5 * beside[0]


LONG = {
    "words": "He did not go, as they say who know him well; ",
    "blanks": "not  it" + " " * 9_993,
    "rows": "a: no, ",
}


@pytest.mark.parametrize("unit", LONG.values(), ids=LONG)
def test_a_long_line_is_read_in_linear_time(unit):
    """A quadratic reading would take minutes."""
    text = unit * (200_000 // len(unit))
    found = Finder(Nots(), Reading("notes"))(text)
    assert len(found) == text.count("not") + text.count(": no")
    for one in (found[0], found[-1]):
        assert text[one["cue"][0]["start"] :].startswith(("not", "no"))
        assert one["scope"][0]["text"] in ("go", "it", "a")


REFUSED = {
    "missing": (lambda: finder()(pd.Series(["No.", None], index=["a", "b7"])), ValueError, "b7"),
    "not a number": (lambda: finder()(["No.", math.nan]), ValueError, "Row 1.*nan"),
    "too long": (lambda: finder(max_characters=3)(["No.", "None."]), ValueError, "Row 1.*max_characters"),
    "many cues": (
        lambda: finder(max_scope_words=30)("No a, no b, no c, no d."),
        ValueError,
        "words.*max_scope_words",
    ),
    "half a character": (lambda: finder()("No \ud800."), ValueError, "ud800.* at 3"),
    "no texts": (lambda: finder()(3), ValueError, "3"),
    "a text alone": (lambda: finder(max_characters=3)("None."), ValueError, "The text has"),
    "a long value": (lambda: finder()([["No fever."] * 99]), ValueError, "^.{,90}$"),
    "a table": (lambda: finder()(pd.DataFrame({"note": NOTES})), ValueError, "DataFrame.*column"),
    "a data set": (lambda: finder()(Dataset.from_dict({"note": NOTES})), ValueError, "Dataset.*column"),
    "no order": (lambda: finder()({"No.", "None."}), ValueError, "order"),
    "a text's characters": (lambda: list(finder().pipe("No.")), ValueError, "No."),
    "empty batches": (lambda: list(finder().pipe(["No."], batch_size=0)), ValueError, "batch_size"),
    "device": (lambda: finder(device="abacus"), ValueError, "abacus"),
    "no data on a device": (lambda: finder(device="meta"), ValueError, "meta"),
    "a graph's device": (lambda: finder(NEGATION, device="cuda"), ValueError, "cuda.*CPU"),
    "threads": (lambda: finder(threads=-1), ValueError, "threads"),
    "unknown setting": (lambda: finder(split_words=True), TypeError, "split_words'.*max_words"),
    "convention": (lambda: finder(convention="note"), ValueError, "note"),
    "terms": (lambda: finder(terms={"negation": "no"}), ValueError, "terms"),
    "empty term": (lambda: finder(terms={"negation": [" "]}), ValueError, "terms"),
    "twice": (lambda: finder(terms={"negation": ["nil"], "ignore": ["Nil"]}), ValueError, "Nil"),
    "words": (lambda: finder(max_words="many"), ValueError, "max_words"),
    "no folder": (lambda: finder("./none"), FileNotFoundError, "none"),
}


@pytest.mark.parametrize(("run", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused(run, error, message):
    with pytest.raises(error, match=message):
        run()
