"""Every reader of files, on files that are nearly right or hardly anything: rows, or an error that names the file."""

import json

import hypothesis.strategies as st
import pytest
from datasets import disable_progress_bars, enable_progress_bars

from hf_localattn.data import load_squad
from hf_localattn.data.choices import ChoiceColumns, load_choices
from hf_localattn.data.negation import load_negation
from hf_localattn.data.questions import load_answered
from hf_localattn.data.texts import GLUE_TASKS, MULTI_LABEL, REGRESSION, SINGLE_LABEL, TextColumns, load_texts
from hf_localattn.data.words import TokenColumns, load_label_names, load_sentences
from hf_localattn.resources import FOLDER
from tests.fuzz.strategies import changed, check, often, outcome, sizes

SAMPLES = FOLDER / "samples"


@pytest.fixture(autouse=True)
def _quiet():
    disable_progress_bars()
    yield
    enable_progress_bars()


def sample(path, lines=8, end="\n"):
    """The beginning of a sample: what is wrong with a long file is wrong with a short one."""
    return end.join((SAMPLES / path).read_text(encoding="utf-8").split(end)[:lines])


def json_files(rows):
    return {".json": changed(json.dumps(rows)), ".jsonl": changed("\n".join(map(json.dumps, rows)))}


def tables(valid):
    return {".csv": changed(valid), ".tsv": changed(valid.replace(",", "\t"))}


def booleans(*names):
    return st.fixed_dictionaries({name: st.booleans() for name in names})


def also(options, name, *values):
    """Options of which a further one may be given."""
    return st.builds(lambda own, value: own | value, options, st.sampled_from([{}, *({name: one} for one in values)]))


def layouts(options, layout):
    return st.builds(lambda own, layout: {**own, "layout": layout}, options, layout)


def check_words(rows):
    for row in rows:
        assert len(row["labels"]) in (0, len(row["tokens"]))


def check_cues(rows):
    assert len(rows)
    for row in rows:
        assert any(row["cue"])
        assert len(row["cue"]) == len(row["tokens"])
        assert len(row["scope"]) in (0, len(row["tokens"]))
    assert len(set(rows["id"])) == len(rows)


def check_answers(rows):
    for row in rows:
        for text, start in zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True):
            assert row["context"][start : start + len(text)] == text


def check_choices(rows):
    assert len({len(row["choices"]) for row in rows}) == 1
    assert all(0 <= row.get("label", 0) < len(row["choices"]) for row in rows)


def check_texts(rows):
    assert len(rows)
    assert rows.features["text"].dtype == "string"
    assert len(set(rows["place"])) == len(rows)


GOATS = {"context": "Greta keeps two goats. Anton is the shepherd.", "qas": []}
GOATS["qas"] += [{"id": "1", "question": "Who?", "answers": [{"text": "Greta", "answer_start": 0}]}]
GOATS["qas"] += [{"id": 2, "question": "Which?", "answers": [], "is_impossible": True}]
SQUAD = {"data": [{"title": "Ashby", "paragraphs": [GOATS]}]}
FLAT = [
    {"id": "1", "context": "a b", "question": "Who?", "answers": {"text": ["b"], "answer_start": [2]}},
    {"id": "2", "context": "a b", "question": "", "answers": [{"text": "a", "answer_start": 0}]},
]
TOKENS = [{"tokens": ["a", "b"], "ner_tags": ["O", "B-x"]}, {"tokens": ["c"], "labels": [1], "pos_tags": [2]}]
CUES = [{"id": "1", "tokens": ["not", "so"], "cue": [1, 0], "scope": [0, 1], "cue_type": "single"}]
ENDINGS = [
    {"sent1": "A.", "sent2": "She", "ending0": "x", "ending1": "y", "label": 0},
    {"context": "A.", "choices": ["x", "y"], "label": "B"},
    {"question": "A?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "label": "2"},
]
NAMES = {"labels": ["O", "B-x"], "ner_tags": ["O"]}
CONLLU = "# text\n1-2\tdon't" + "\t_" * 8 + "\n1\tdo\tdo\tAUX\tVB" + "\t_" * 5 + "\n\n1\tgo\tgo\tVERB\tVB" + "\t_" * 5
LAYOUTS = st.builds(
    TextColumns,
    texts=st.sampled_from([(), (), (), ("text",), ("text", "other")]),
    label=st.sampled_from(["label", "label", "label", "rating"]),
    names=st.sampled_from([None, None, None, ("bad", "good")]),
    problem_type=st.sampled_from([None, None, None, SINGLE_LABEL, MULTI_LABEL, REGRESSION]),
    may_be_empty=st.booleans(),
    skip_unlabeled=st.booleans(),
)
GLUE = st.sampled_from([GLUE_TASKS[name] for name in ("rte", "stsb", "mrpc")])
CLASSES = [{"text": "Good.", "label": "good"}, {"text": "Bad.", "label": 0}, {"text": "x", "label": True}]
SCORES = [{"sentence": "z", "label": 0.5}, {"sentence": "y", "label": "2"}]
SETS = [{"text": "x", "text_pair": "y", "label": ["a", "b"]}, {"text": "x", "text_pair": "y", "label": []}]
LABELED, CUES_IN = booleans("require_labels", "skip_empty"), ("never", "corpus")
STRAYS = also(st.just({}), "unmatched_scopes", "error", "skip")
NEGATION = also(also(STRAYS, "cue_in_scope", *CUES_IN), "cues", "negation", "speculation")
XML = {name: (SAMPLES / "negation" / f"{name}.xml").read_text(encoding="utf-8") for name in ("bioscope", "sfu/garden")}
STARSEM = {".txt": changed(sample("negation/starsem.txt", 20))}
TEXTS = {
    ".json": changed(*map(json.dumps, (CLASSES, SCORES, SETS))),
    **tables("text,label\nGood.,good\nBad.,bad\nx,1.0\ny,2.5"),
}
COLUMNS = {
    ".conll": changed(sample("columns.conll")),
    ".tsv": changed(sample("errors.tsv")),
    ".txt": changed(sample("names.conll")),
}
LABELS = [NAMES, NAMES["labels"]]

FORMATS = {
    # a reader, the check of its rows, its options, and files by their endings
    "squad": (
        load_squad,
        check_answers,
        booleans("require_answers", "require_question", "skip_empty"),
        {**json_files(FLAT), ".json": changed(json.dumps(SQUAD))},
    ),
    "answered": (load_answered, check_answers, booleans("require_questions", "skip_empty"), json_files(FLAT)),
    "texts": (
        load_texts,
        check_texts,
        st.builds(lambda own, layout: {**own, "layout": layout}, LABELED, LAYOUTS),
        TEXTS,
    ),
    "glue": (
        load_texts,
        check_texts,
        layouts(booleans("require_labels"), GLUE),
        tables(sample("glue/pairs.csv", 5)),
    ),
    "choices": (
        load_choices,
        check_choices,
        also(LABELED, "columns", ChoiceColumns(choices="label")),
        {**json_files(ENDINGS), **tables(sample("endings.csv", 4))},
    ),
    "sentences": (
        load_sentences,
        check_words,
        also(LABELED, "columns", TokenColumns(names=("O", "I")), TokenColumns(task="pos", conll=1)),
        json_files(TOKENS),
    ),
    "columns": (
        load_sentences,
        check_words,
        also(booleans("require_labels"), "columns", *(TokenColumns(conll=number) for number in range(-4, 5))),
        COLUMNS,
    ),
    "conllu": (
        load_sentences,
        check_words,
        also(booleans("require_labels"), "columns", TokenColumns(conllu="xpos")),
        {".conllu": changed(CONLLU)},
    ),
    "cged": (load_sentences, check_words, LABELED, {".xml": changed(sample("errors.xml", 2, "</DOC>") + "</DOC>")}),
    "bioscope": (load_negation, check_cues, NEGATION, {".xml": changed(XML["bioscope"])}),
    "sfu": (load_negation, check_cues, NEGATION, {".xml": changed(XML["sfu/garden"])}),
    "starsem": (load_negation, check_cues, STRAYS, STARSEM),
    "negation": (load_negation, check_cues, booleans("require_scopes", "skip_empty"), json_files(CUES)),
    "names": (
        load_label_names,
        len,
        also(st.just({"columns": TokenColumns()}), "columns", TokenColumns(label="labels")),
        {".json": changed(*map(json.dumps, LABELS))},
    ),
}
NOTHING = [b"", b" \n", b"\xef\xbb\xbf", b"\0", b"\xff\xfe", b"[]", b"{}", b"[[]]", b"null", b"<a/>"]


@sizes
@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_is_read_or_refused(kind, examples, tmp_path):
    load, check_rows, options, files = FORMATS[kind]

    def holds(drawn):
        ending, content, given = drawn
        path = tmp_path / f"fuzzed{ending}"
        path.write_bytes(content)
        rows = outcome(lambda: load(path, **given), path.name)
        if rows is not None:
            check_rows(rows)

    anything = st.one_of(st.sampled_from(NOTHING), st.binary(max_size=30), st.text(max_size=30).map(str.encode))
    contents = (st.tuples(st.just(end), often(*[files[end]] * 15, anything), options) for end in sorted(files))
    check(holds, st.one_of(*contents), examples)
