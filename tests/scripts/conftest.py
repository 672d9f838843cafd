"""Models and data small enough for the scripts, and fixtures that run them with options by name."""

import json
import re

import pytest
import torch
from transformers import BertForSequenceClassification, BertForTokenClassification

from tests.data.notation import columns
from tests.qa_helpers import question, tiny_bert, tiny_writer, unanswerable, word_pieces, write_jsonl
from tests.script_helpers import assert_one_line_error, load_main

TEXTS = ["the cat sat", "on the mat", "who sat?", "the red dog", "where cats sat", "the mat"]
PAIRS = {"sentence1": TEXTS, "sentence2": TEXTS[::-1]}
SENTENCES = [
    {"tokens": ["the", "cats", "sat", "on", "red", "mat"], "ner_tags": ["O", "B-pet", "O", "O", "B-place", "I-place"]},
    {"tokens": ["dog", "\u200b", "sat"], "ner_tags": ["B-pet", "O", "O"]},
    {"tokens": ["on", "the", "mat"], "ner_tags": ["O", "O", "B-place"]},
]
NAMES = ["B-pet", "B-place", "I-place", "O"]
CGED = """<DOC><TEXT id="1">a cat sat</TEXT><ERROR start_off="3" end_off="5" type="S"/></DOC>
<DOC><TEXT id="2">a dog</TEXT></DOC>
"""
SWAG = """,video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label
0,v,1,the cat sat. the dog,the cat sat.,the dog,gold,sat on the mat.,red.,"on, on.",where?,0
1,v,1,the mat. the cat,the mat.,the cat,gold,red.,"on, on.",sat on the mat.,where?,2
2,v,1,the dog. the cat,the dog.,the cat,gold,red.,sat on the mat.,where?,"on, on.",1
"""
JOKES = """id,text,is_humor,humor_rating,offense_rating
1,"the cat, red",1,2.4,0.2
2,who sat,0,,0.0
3,the dog,1,3.25,1.0
"""
TEXT_FILES = {
    "sst5.tsv": 'label\ttext\n4\tthe cat\n0\ta "red mat\n3\ton the mat\n2\tdog\n1\twho sat\n',
    "jokes.csv": JOKES,
    "fce.tsv": "the\tc\ncat\ti\n\nsat\tc\non\tc\n",
    "cged.xml": CGED,
    "bare.xml": CGED.replace('<ERROR start_off="3" end_off="5" type="S"/>', ""),
    "swag.csv": SWAG,
    "bare.csv": "".join(line.rsplit(",", 1)[0] + "\n" for line in SWAG.splitlines()),
    "predicted.csv": SWAG.replace("video-id", "text")
    .replace("fold-ind", "prediction")
    .replace("gold-source", "probability_3"),
    "labels.json": json.dumps(NAMES),
    "space.json": '{"learning_rate": [1e-3]}',
}
WORDS = ["he", "saw", "the", "old", "house", "and", "she", "never", "left", "it"]


def labeled(*labels, **columns):
    """Rows with texts in turn, one for each label."""
    columns = columns or {"text": TEXTS}
    return [
        {**{name: texts[i % len(texts)] for name, texts in columns.items()}, "label": label}
        for i, label in enumerate(labels)
    ]


def negated(cue, number, length=6):
    """A row in which all that follows the cue is negated; the words alone do not tell which "not" is the cue."""
    tokens = [WORDS[(number + place) % len(WORDS)] for place in range(length)]
    for place in (1, 4, cue):
        tokens[place] = "not"
    found = {
        "cue": [int(place == cue) for place in range(length)],
        "scope": [int(place > cue) for place in range(length)],
    }
    return {"id": f"r{number}-{cue}", "sentence_id": f"s{number}", "tokens": tokens, **found}


DETECTED = {
    "he saw the old house and she": 0,
    "old [not] AND SHE he saw the": 1,
    "she he saw the [not] HOUSE AND": 2,
    "[not] OLD HOUSE and not he saw": 3,
    "not old house and [not] HE SAW": 3,
    "and she [not] SAW THE old house": 4,
    "saw the old house and she he": 5,
}
"""Sentences with their numbers; two words after each "not" that is a cue are its scope."""

NEGATED = [negated(cue, number) for number in range(4) for cue in (1, 4)]
ROWS = {
    "classes": labeled("bee", "ant", "cat", "ant", "bee", "cat"),
    "two": labeled("no", "yes", "no", "yes"),
    "digits": labeled(0, 1),
    "one": labeled("ant", "ant"),
    "four": labeled("bee", "ant", "cat", "dog"),
    "none": labeled(None, None),
    "ended": labeled("bee", "ant", text=["the cat", "the [SEP] cat"]),
    "other": labeled("bee", "dog"),
    "scores": labeled(0.5, 1, 2.5, 3),
    "one_class": labeled(*["ant"] * 4),
    "one_label": [{"tokens": ["the", "cat"], "ner_tags": ["O", "O"]}] * 2,
    "several": labeled(["ant", "bee"], [], ["cat"], ["bee"]),
    "texts": [{"text": text} for text in TEXTS],
    "pairs": labeled("bee", "ant", **PAIRS),
    "cola": labeled(0, 1, 1, 0, sentence=TEXTS),
    "mrpc": labeled(0, 1, 1, 0, **PAIRS),
    "stsb": labeled(0.5, 5.0, 2.0, 1.0, **PAIRS),
    "names": SENTENCES,
    "tokens": [{"tokens": row["tokens"]} for row in SENTENCES],
    "hidden": [{"tokens": ["\u200b", "\u200b"], "ner_tags": ["O", "B-PER"]}],
    "gaps": [{"tokens": [], "ner_tags": []}, SENTENCES[0], {"tokens": ["\u200b"], "ner_tags": ["O"]}, SENTENCES[2]],
    "cars": [{"tokens": ["the"], "ner_tags": ["B-car"]}],
    "letters": [{"context": "the cat", "choices": ["mat", "dog", "red"], "label": letter} for letter in "ABC"],
    "answered": [question(i) for i in range(6)],
    "mixed": [question(i) if i % 2 else unanswerable(i) for i in range(6)],
    "asked": [
        question(
            number,
            context="the cat sat on the red mat. the dog sat.",
            question=f"who sat on the {word}?",
            answers={"text": [word], "answer_start": [start]},
        )
        for number, (word, start) in enumerate([("cat", 4), ("mat", 23), ("dog", 32), ("red", 19)] * 4)
    ],
    "questions": [{k: v for k, v in question(i).items() if k != "answers"} for i in range(2)],
    "unasked": [{k: v for k, v in question(i).items() if k != "question"} for i in range(2)],
    "negated": NEGATED,
    "cues": [{name: row[name] for name in ("tokens", "cue")} for row in NEGATED[:3]],
    "out_of_scope": [{**row, "scope": [0] * 6} for row in NEGATED],
    "long": [*NEGATED[:2], negated(1, 20, length=30), {**negated(25, 30, length=30), "id": "late"}],
    "detected": [
        columns(text, sentence_id=f"s{number}", id=f"{number}-{text.find('[')}") for text, number in DETECTED.items()
    ],
}
"""Rows of the .jsonl files."""


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder of data files, and of models with their tokenizers."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, rows in ROWS.items():
        write_jsonl(folder / f"{name}.jsonl", rows)
    for name, text in TEXT_FILES.items():
        (folder / name).write_text(text)
    pieces = word_pieces()
    left, bart, prophetnet = word_pieces("left"), tiny_writer("bart", pieces), tiny_writer("prophetnet", pieces)
    for name, model, tokenizer in (
        ("plain", tiny_bert(pieces), pieces),
        ("left", tiny_bert(pieces), word_pieces("left", cls_last=True)),
        ("classifier", with_labels(BertForSequenceClassification, pieces, ("cat", "ant", "bee")), pieces),
        ("tagger", with_labels(BertForTokenClassification, pieces, ["B-car", *NAMES[::-1]]), pieces),
        ("bart", bart, pieces),
        ("left_bart", bart, left),
        ("prophetnet", prophetnet, pieces),
    ):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def with_labels(model_class, tokenizer, names):
    config = tiny_bert(tokenizer).config
    config.id2label, config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    torch.manual_seed(1)
    return model_class(config)


LENGTHS = {
    "glue": {"max_seq_length": 24},
    "ner": {"max_seq_length": 40},
    "swag": {"max_seq_length": 40},
    "qa": {"max_seq_length": 40, "doc_stride": 8},
    "qg": {"max_source_length": 40, "max_target_length": 12, "generation_num_beams": 2},
}
COMMON = {"per_device_train_batch_size": 2, "max_steps": 2, "save_strategy": "no", "report_to": "none"}
COMMON |= {"use_cpu": True, "disable_tqdm": True}


@pytest.fixture
def run(files, tmp_path):
    """A function that runs a script and returns its metrics. Options that name an entry of `files` are paths."""

    def call(script, data=None, do="train eval predict", out="out", model=None, **options):
        given = {**COMMON, **LENGTHS[script], "output_dir": str(tmp_path / out)}
        given |= {f"do_{part}": True for part in do.split()}
        given |= {"train_file": data, "validation_file": data} if data else {}
        backbone = "bart" if script == "qg" else "plain"
        given |= {"model_name_or_path": model} if model else {"family": "baseline", "backbone": backbone}
        given = {name: value for name, value in (given | options).items() if value is not None}
        for name, value in given.items():
            if isinstance(value, str) and name != "output_dir" and (files / value).exists():
                given[name] = str(files / value)
        path = tmp_path / "options.json"
        path.write_text(json.dumps(given))
        return load_main(f"run_{script}")([str(path)])

    return call


@pytest.fixture
def refused(run, tmp_path, capsys):
    """A function that runs a script and checks that it ends with one line with a word, before anything is written."""

    def call(word, *arguments, **options):
        folder = tmp_path / options.get("out", "out")
        assert_one_line_error(lambda: run(*arguments, **options), re.escape(word), folder, capsys)

    return call


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def json_lines(path):
    return [json.loads(line) for line in lines_of(path)]


def state_of(folder):
    return json.loads((folder / "trainer_state.json").read_text())
