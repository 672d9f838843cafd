"""Every reader of files, on files that are nearly right or hardly anything: rows, or an error that names the file."""

import json
from collections import namedtuple

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
from tests.fuzz.mutation import json_changes, nearly, table_changes, xml_changes
from tests.fuzz.properties import check, outcome, sizes
from tests.fuzz.values import often

SAMPLES = FOLDER / "samples"

Format = namedtuple("Format", "load check options files")
"""A reader, the check of its rows, its options as a strategy, and files as strategies of bytes, by their endings."""

COLUMN_INDICES = st.integers(-4, 4).map(lambda number: TokenColumns(conll=number))
COLUMN_NAMES = st.sampled_from(["upos", "xpos"]).map(lambda name: TokenColumns(conllu=name))


@pytest.fixture(autouse=True)
def _quiet():
    disable_progress_bars()
    yield
    enable_progress_bars()


def few(path, lines=8):
    """The beginning of a sample: what is wrong with a long file is wrong with a short one."""
    return b"\n".join((SAMPLES / path).read_bytes().split(b"\n")[:lines])


def rows_of(path):
    header, *rows = (line.split(",") for line in few(path).decode().split("\n") if '"' not in line)
    return [dict(zip(header, row, strict=False)) for row in rows]


def json_files(rows):
    """Rows, or what else a .json file holds, changed in values or bytes; also one a line."""
    lines = "\n".join(map(json.dumps, rows)).encode()
    return {
        ".json": nearly(json.dumps(rows).encode(), json_changes(rows)),
        ".jsonl": nearly(lines, json_changes(rows, lines=True)),
    }


def tables(valid):
    """A table with commas, also with tabs."""
    tabs = valid.replace(b",", b"\t")
    return {
        ".csv": nearly(valid, table_changes(valid, ",")),
        ".tsv": nearly(tabs, table_changes(tabs, "\t")),
    }


def columns(valid, separator):
    return nearly(valid, table_changes(valid, separator))


def xml(valid, root=None):
    return nearly(valid, xml_changes(valid, root))


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


SQUAD = {
    "data": [
        {
            "title": "Ashby",
            "paragraphs": [
                {
                    "context": "Greta keeps two goats. Anton is the shepherd.",
                    "qas": [
                        {"id": "1", "question": "Who?", "answers": [{"text": "Greta", "answer_start": 0}]},
                        {"id": 2, "question": "Which?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ]
}
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
CONLLU = (
    b"# text\n1-2\tdon't" + b"\t_" * 8 + b"\n1\tdo\tdo\tAUX\tVB" + b"\t_" * 5 + b"\n\n1\tgo\tgo\tVERB\tVB" + b"\t_" * 5
)

SPLITS = st.fixed_dictionaries({"require_labels": st.booleans(), "skip_empty": st.booleans()})
NEGATION = st.fixed_dictionaries(
    {
        "cues": st.sampled_from(["negation", "speculation"]),
        "cue_in_scope": st.sampled_from(["never", "corpus"]),
        "unmatched_scopes": st.sampled_from(["error", "skip"]),
    }
)
LAYOUTS = st.builds(
    TextColumns,
    texts=st.sampled_from([(), (), (), ("text",), ("text", "other")]),
    label=st.sampled_from(["label", "label", "label", "rating"]),
    names=st.sampled_from([None, None, None, ("bad", "good")]),
    problem_type=st.sampled_from([None, None, None, SINGLE_LABEL, MULTI_LABEL, REGRESSION]),
    may_be_empty=st.booleans(),
    skip_unlabeled=st.booleans(),
)
CLASSES = [{"text": "Good.", "label": "good"}, {"text": "Bad.", "label": 0}, {"text": "x", "label": True}]
SCORES = [{"sentence": "z", "label": 0.5}, {"sentence": "y", "label": "2"}]
SETS = [{"text": "x", "text_pair": "y", "label": ["a", "b"]}, {"text": "x", "text_pair": "y", "label": []}]
ERRORS = b"</DOC>".join((SAMPLES / "errors.xml").read_bytes().split(b"</DOC>")[:2]) + b"</DOC>"
BIOSCOPE, SFU = ((SAMPLES / "negation" / name).read_bytes() for name in ("bioscope.xml", "sfu/garden.xml"))
STARSEM = few("negation/starsem.txt", 20)
ANY_TABLE = b"text,label\nGood.,good\nBad.,bad\nx,1.0\ny,2.5"

FORMATS = {
    "squad": Format(
        load_squad,
        check_answers,
        st.fixed_dictionaries({name: st.booleans() for name in ("require_answers", "require_question", "skip_empty")}),
        {**json_files(FLAT), ".json": nearly(json.dumps(SQUAD).encode(), json_changes(SQUAD))},
    ),
    "answered": Format(
        load_answered,
        check_answers,
        st.fixed_dictionaries({"require_questions": st.booleans(), "skip_empty": st.booleans()}),
        json_files(FLAT),
    ),
    "texts": Format(
        load_texts,
        check_texts,
        st.fixed_dictionaries({"layout": LAYOUTS, "require_labels": st.booleans(), "skip_empty": st.booleans()}),
        {".json": often(*(json_files(rows)[".json"] for rows in (CLASSES, SCORES, SETS))), **tables(ANY_TABLE)},
    ),
    "glue": Format(
        load_texts,
        check_texts,
        st.fixed_dictionaries(
            {"layout": st.sampled_from([GLUE_TASKS[name] for name in ("rte", "stsb", "mrpc")])},
            optional={"require_labels": st.booleans()},
        ),
        {**json_files(rows_of("glue/pairs.csv")[:3]), **tables(few("glue/pairs.csv", 5))},
    ),
    "choices": Format(
        load_choices,
        check_choices,
        st.fixed_dictionaries(
            {"require_labels": st.booleans(), "skip_empty": st.booleans()},
            optional={"columns": st.just(ChoiceColumns(choices="label"))},
        ),
        {**json_files(ENDINGS), **tables(few("endings.csv", 4))},
    ),
    "sentences": Format(
        load_sentences,
        check_words,
        st.fixed_dictionaries(
            {"require_labels": st.booleans(), "skip_empty": st.booleans()},
            optional={"columns": st.sampled_from([TokenColumns(names=("O", "I")), TokenColumns(task="pos", conll=1)])},
        ),
        json_files(TOKENS),
    ),
    "columns": Format(
        load_sentences,
        check_words,
        st.fixed_dictionaries(
            {"require_labels": st.booleans()},
            optional={"columns": COLUMN_INDICES},
        ),
        {
            ".conll": columns(few("columns.conll"), " "),
            ".tsv": columns(few("errors.tsv"), "\t"),
            ".txt": columns(few("names.conll"), " "),
        },
    ),
    "conllu": Format(
        load_sentences,
        check_words,
        st.fixed_dictionaries(
            {
                "columns": COLUMN_NAMES,
                "require_labels": st.booleans(),
            }
        ),
        {".conllu": columns(CONLLU, "\t")},
    ),
    "cged": Format(load_sentences, check_words, SPLITS, {".xml": xml(ERRORS, "ROOT")}),
    "bioscope": Format(load_negation, check_cues, NEGATION, {".xml": xml(BIOSCOPE)}),
    "sfu": Format(load_negation, check_cues, NEGATION, {".xml": xml(SFU)}),
    "starsem": Format(
        load_negation,
        check_cues,
        st.fixed_dictionaries({"unmatched_scopes": st.sampled_from(["error", "skip"])}),
        {".txt": columns(STARSEM, "\t")},
    ),
    "negation": Format(
        load_negation,
        check_cues,
        st.fixed_dictionaries(
            {"cue_in_scope": st.just("corpus"), "skip_empty": st.booleans()},
            optional={"require_scopes": st.booleans()},
        ),
        {**json_files(CUES), ".xml": xml(BIOSCOPE), ".txt": columns(STARSEM, "\t")},
    ),
    "names": Format(
        load_label_names,
        len,
        st.fixed_dictionaries({"columns": st.sampled_from([TokenColumns(), TokenColumns(label="labels")])}),
        {".json": st.one_of(json_files([NAMES])[".json"], json_changes(NAMES), json_changes(NAMES["labels"]))},
    ),
}


@sizes
@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_is_read_or_refused(kind, examples, tmp_path):
    reader = FORMATS[kind]

    def holds(drawn):
        ending, content, options = drawn
        path = tmp_path / f"fuzzed{ending}"
        path.write_bytes(content)
        rows = outcome(lambda: reader.load(path, **options), path.name, "the column of a CoNLL-U file")
        if rows is not None:
            reader.check(rows)

    nothing = st.sampled_from(
        [b"", b" \n", b"\xef\xbb\xbf", b"\0", b"\xff\xfe", b"[]", b"{}", b"[[]]", b"null", b"<a/>"]
    )
    anything = st.one_of(nothing, st.binary(max_size=30), st.text(max_size=30).map(lambda text: text.encode()))
    files = st.sampled_from(sorted(reader.files)).flatmap(
        lambda ending: st.tuples(st.just(ending), often(*[reader.files[ending]] * 15, anything), reader.options)
    )
    check(holds, files, examples)
