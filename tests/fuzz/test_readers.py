"""Every reader of files, on files that are nearly right or hardly anything: rows, or an error that names the file."""

import json

import hypothesis.strategies as st
import pytest

from hf_localattn.data import load_choices, load_negation, load_sentences, load_squad, load_texts
from hf_localattn.data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from hf_localattn.resources import FOLDER
from hf_localattn.settings.columns import GLUE_TASKS, ChoiceColumns, TextColumns, TokenColumns
from tests.fuzz.strategies import changed, check, often, outcome, sizes


def sample(path, lines=None, end="\n"):
    """Return the beginning of a sample: what is wrong with a long file is wrong with a short one."""
    return end.join((FOLDER / "samples" / path).read_text(encoding="utf-8").split(end)[:lines])


def check_rows(rows):
    """Each row is the only one of its id and place, and its columns agree with each other."""
    assert len(rows)
    for name in {"id", "place"} & {*rows.column_names}:
        assert len(set(rows[name])) == len(rows)
    for row in rows:
        words, answers = len(row.get("tokens", ())), row.get("answers", {"text": [], "answer_start": []})
        assert all(len(row.get(name, ())) in (0, words) for name in ("labels", "cue", "scope"))
        assert any(row.get("cue", [1]))
        for text, start in zip(answers["text"], answers["answer_start"], strict=True):
            assert row["context"][start : start + len(text)] == text
        if "choices" in row:
            assert 0 <= row.get("label", 0) < len(row["choices"]) == len(rows[0]["choices"])


FLAT = [
    {"id": "1", "context": "a b", "question": "Who?", "answers": {"text": ["b"], "answer_start": [2]}},
    {"id": 2, "context": "a b", "question": "", "answers": [{"text": "a", "answer_start": 0}]},
]
SQUAD = json.dumps({"data": [{"title": "Ashby", "paragraphs": [{"context": "a b", "qas": FLAT}]}]})
TOKENS = [{"tokens": ["a", "b"], "ner_tags": ["O", "B-x"]}, {"tokens": ["c"], "labels": [1], "pos_tags": [2]}]
CUES = [{"id": "1", "tokens": ["not", "so"], "cue": [1, 0], "scope": [0, 1], "cue_type": "single"}]
ENDINGS = [
    {"sent1": "A.", "sent2": "She", "ending0": "x", "ending1": "y", "label": 0},
    {"context": "A.", "choices": ["x", "y"], "label": "B"},
    {"question": "A?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "label": "2"},
]
CONLLU = "# text\n1-2\tdon't" + "\t_" * 8 + "\n1\tdo\tdo\tAUX\tVB" + "\t_" * 5 + "\n\n1\tgo\tgo\tVERB\tVB" + "\t_" * 5
CLASSES = [{"text": "Good.", "label": "good"}, {"text": "Bad.", "label": 0}, {"text": "x", "label": True}]
SCORES = [{"sentence": "z", "label": 0.5}, {"sentence": "y", "label": "2"}]
SETS = [{"text": "x", "text_pair": "y", "label": ["a", "b"]}, {"text": "x", "text_pair": "y", "label": []}]
TABLE = "text,label\nGood.,good\nBad.,bad\nx,1.0\ny,2.5"
TEXTS = [json.dumps(rows) for rows in (CLASSES, SCORES, SETS)]

EITHER = [False, True]
LABELED, SKIPPING = {"require_labels": EITHER, "skip_empty": EITHER}, {"skip_empty": EITHER}
LAYOUTS = [TextColumns(problem_type=kind, skip_unlabeled=True) for kind in (SINGLE_LABEL, MULTI_LABEL, REGRESSION)]
LAYOUTS += [TextColumns(("text", "other"), "rating"), TextColumns(names=("bad", "good"), may_be_empty=True)]
LAYOUTS += [GLUE_TASKS[name] for name in ("rte", "stsb", "mrpc")]
COLUMNS = [TokenColumns(names=("O", "I")), TokenColumns(task="pos"), TokenColumns(conllu="xpos")]
COLUMNS += [TokenColumns(conll=number) for number in range(-4, 5)]
SQUAD_OPTIONS = {"require_answers": EITHER, "require_question": EITHER, **SKIPPING}
TEXT_OPTIONS, WORDS = LABELED | {"columns": LAYOUTS}, LABELED | {"columns": COLUMNS}
CHOICE_OPTIONS = LABELED | {"columns": [None, ChoiceColumns(choices="label")]}
NEGATION = {"unmatched_scopes": ["error", "skip"], "cue_in_scope": ["never", "corpus"], **SKIPPING}
NEGATION |= {"cues": ["negation", "speculation"], "require_scopes": EITHER}


def json_files(rows):
    return {".json": [json.dumps(rows)], ".jsonl": ["\n".join(map(json.dumps, rows))]}


def tables(*valid):
    return {".csv": [*valid], ".tsv": [one.replace(",", "\t") for one in valid]}


FORMATS = {
    # a reader, values of its options, and valid files by their endings
    "squad": (load_squad, SQUAD_OPTIONS, json_files(FLAT) | {".json": [SQUAD]}),
    "texts": (load_texts, TEXT_OPTIONS, tables(TABLE, sample("glue/pairs.csv", 5)) | {".json": TEXTS}),
    "choices": (load_choices, CHOICE_OPTIONS, json_files(ENDINGS) | tables(sample("endings.csv", 4))),
    "sentences": (load_sentences, WORDS, json_files(TOKENS)),
    "columns": (load_sentences, WORDS, {".conll": [sample("columns.conll", 8)], ".tsv": [sample("errors.tsv", 8)]}),
    "conllu": (load_sentences, WORDS, {".conllu": [CONLLU]}),
    "cged": (load_sentences, LABELED, {".xml": [sample("errors.xml", 2, "</DOC>") + "</DOC>"]}),
    "bioscope": (load_negation, NEGATION, {".xml": [sample("negation/bioscope.xml")]}),
    "sfu": (load_negation, NEGATION, {".xml": [sample("negation/sfu/garden.xml")]}),
    "starsem": (load_negation, NEGATION, {".txt": [sample("negation/starsem.txt", 20)]}),
    "negation": (load_negation, NEGATION, json_files(CUES)),
}
NOTHING = [b"", b" \n", b"\xef\xbb\xbf", b"\0", b"\xff\xfe", b"[]", b"{}", b"[[]]", b"null", b"<a/>"]


@sizes
@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_is_read_or_refused(kind, examples, tmp_path):
    load, options, files = FORMATS[kind]

    def holds(drawn):
        (ending, content), given = drawn
        path = tmp_path / f"fuzzed{ending}"
        path.write_bytes(content)
        rows = outcome(lambda: load(path, **given), path.name)
        if rows is not None:
            check_rows(rows)

    anything = st.one_of(st.sampled_from(NOTHING), st.binary(max_size=30), st.text(max_size=30).map(str.encode))
    contents = [st.tuples(st.just(end), often(*[changed(*files[end])] * 15, anything)) for end in sorted(files)]
    given = {name: st.sampled_from(values) for name, values in options.items()}
    check(holds, st.tuples(st.one_of(*contents), st.fixed_dictionaries(given)), examples)
