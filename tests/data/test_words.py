"""Token classification: column files, CoNLL-U, CGED, label sets and model inputs."""

import json
from functools import partial
from types import SimpleNamespace
from xml.sax.saxutils import escape

import hypothesis.strategies as st
import pytest
from datasets import Dataset
from hypothesis import given, settings
from transformers import AutoTokenizer, RobertaTokenizer

from hf_localattn.data.words import (
    TokenColumns,
    check_labels,
    load_label_names,
    load_sentences,
    prepare_tokenizer,
    sorted_labels,
    word_features,
)
from tests.data.notation import shown
from tests.qa_helpers import byte_pieces, word_pieces

CONLL = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n-DOCSTART- -X- O\n\n\x85 NN  B-NP\tO\n"
FCE = "I\tc\nam\tc\nan\ti\n\nNew York\tc\n"
CONLLU = """# text = don't go
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tever\tever\tADV\tRB\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_

# sent_id = 2
1\t#\t#\tSYM\tNFP\t_\t0\troot\t_\t_
"""
UNTAGGED = "1\tgo\t" + "\t".join("_" * 8) + "\n"


def document(text, *errors, identifier="7"):
    listed = "".join(f'<ERROR start_off="{a}" end_off="{b}" type="{kind}"></ERROR>' for a, b, kind in errors)
    return f'<DOC>\n<TEXT id="{identifier}">{text}</TEXT><CORRECTION>x</CORRECTION>{listed}</DOC>'


CGED = document("\n我在看看。\n", (3, 4, "R"), (5, 5, "M"))
READ = "我/O 在/O 看/B-R 看/I-R 。/B-M"
CORRECT = "<DOC><TEXT id='b2'>你好</TEXT></DOC>"
GOOD = [
    # name of the file, content, options, sentences
    ("a.conll", CONLL, {}, ["EU/B-ORG rejects/O", "\x85/O"]),
    ("a.txt", CONLL, {"columns": TokenColumns(conll=1)}, ["EU/NNP rejects/VBZ", "\x85/NN"]),
    ("a.bio", CONLL, {"columns": TokenColumns(conll=-2)}, ["EU/B-NP rejects/B-VP", "\x85/B-NP"]),
    ("a.tsv", FCE, {}, ["I/c am/c an/i", "New York/c"]),
    ("a.iob2", FCE.replace("\n", "\r\n"), {}, ["I/c am/c an/i", "New York/c"]),
    ("a.txt", "the\ncat\n\nsat", {"require_labels": False}, ["the cat", "sat"]),
    ("a.conllu", CONLLU, {}, ["do/AUX n't/PART go/VERB", "#/SYM"]),
    ("a.conllu", CONLLU, {"columns": TokenColumns(conllu="xpos")}, ["do/VB n't/RB go/_", "#/NFP"]),
    ("a.conllu", UNTAGGED, {"require_labels": False}, ["go"]),
    ("a.xml", CGED + CORRECT, {}, [READ, "你/O 好/O"]),
    ("a.xml", f"\ufeff<?xml version='1.0'\n encoding='UTF-8'?>\n<ROOT>{CGED}</ROOT>\n", {}, [READ]),
    ("a.xml", CGED.replace("\n", "\r\n"), {}, [READ]),
    ("a.xml", CGED.replace("看看", "看\n看"), {}, [READ]),
    ("a.xml", CGED.replace("\n我", "\n\t  我").replace("。\n", "。\n\t"), {}, [READ]),
    ("a.xml", document("\n 我 不\u3000\n", (4, 4, "S")), {}, [" /O 我/O  /O 不/B-S \u3000/O"]),
    ("a.xml", document("&amp;&#x4f60;\x1d&lt;", (4, 4, "S")), {}, ["&/O 你/O \ufffd/O </B-S"]),
    ("a.xml", document("你好", (3, 3, "M")), {}, ["你/O 好/B-M"]),
    ("a.xml", document("abcd", (1, 2, "S"), (3, 4, "S")), {}, ["a/B-S b/I-S c/B-S d/I-S"]),
    ("a.xml", document("abcd", (2, 2, "M"), (1, 4, "W")), {}, ["a/B-W b/B-M c/B-W d/I-W"]),
    ("a.xml", document("abcd", (1, 4, "W"), (2, 2, "M")), {}, ["a/B-W b/I-W c/I-W d/I-W"]),
    ("a.xml", CORRECT, {"require_labels": False}, ["你 好"]),
    ("a.xml", document("", identifier="e") + CGED, {"skip_empty": True}, [READ]),
]
REFUSED = [
    # name of the file, content, column, place, word
    ("a.conll", "a O\n\nb x O\n", -1, "line 3", "3 columns, but 2"),
    ("a.conll", "a\tO\nb O\n", -1, "line 2", "1 columns, but 2"),
    ("a.conll", "a\tO\n\tO\n", -1, "line 2", "word"),
    ("a.conll", "a\tO\nb\t\n", -1, "line 2", "label of 'b'"),
    ("a.conll", "a x O\n", 3, "line 1", "column 3.* 1 to 2"),
    ("a.conll", "a x O\n", -3, "line 1", "column -3"),
    ("a.conll", "a x O\n", 0, "line 1", "column 0"),
    ("a.conll", "the\ncat\n", -1, "line 1", "no labels"),
    ("a.conll", "-DOCSTART- O\n", -1, "", "no sentences"),
    ("a.conll", "\n", -1, "", "empty"),
    ("a.conllu", "1 do VERB\n", -1, "line 1", "1 columns, but CoNLL-U has 10"),
    ("a.conllu", UNTAGGED + "x" + "\t_" * 9, -1, "line 2", "number.* found 'x'"),
    ("a.conllu", "# nothing\n", -1, "", "no sentences"),
    ("a.conllu", UNTAGGED, -1, "", "no labels"),
    ("a.xml", CGED + "\n<DOC>\n<TEXT>你 & 我</TEXT></DOC>", -1, "line 6", "malformed"),
    ("a.xml", CGED.replace("</DOC>", ""), -1, "line 4", "malformed"),
    ("a.xml", "<!DOCTYPE a [<!ENTITY b 'c'>]>\n" + CORRECT, -1, "line 1", "DOCTYPE"),
    ("a.xml", "<!DOCTYPE _>\n" + CORRECT, -1, "line 1", "DOCTYPE"),
    ("a.xml", CGED.replace("我在", "&b;"), -1, "line 3", "malformed"),
    ("a.xml", "<a/>", -1, "", "no DOC"),
    ("a.xml", "<DOC><SENTENCE id='1'>你</SENTENCE><MISTAKE/></DOC>", -1, "", "2014 and 2015"),
    ("a.xml", "<ESSAY title='t'><TEXT/></ESSAY>", -1, "", "2014 and 2015"),
    ("a.xml", "<DOC><CORRECTION/></DOC>", -1, "DOC 1", "0 TEXT"),
    ("a.xml", CORRECT.replace("</TEXT>", "</TEXT><TEXT/>"), -1, "DOC 1", "2 TEXT"),
    ("a.xml", CORRECT + document("\n \n", identifier="c3"), -1, r"DOC 2 \(id c3\)", "empty.*--skip_empty"),
    ("a.xml", document("你好", (0, 1, "S")), -1, r"DOC 1 \(id 7\)", "from 0 to 1"),
    ("a.xml", document("你好", (2, 1, "S")), -1, "DOC 1", "from 2 to 1"),
    ("a.xml", document("你好", (1, 3, "S")), -1, "DOC 1", "from 1 to 3"),
    ("a.xml", document("你好", (3, 3, "S")), -1, "DOC 1", "from 3 to 3"),
    ("a.xml", document("你好", (4, 4, "M")), -1, "DOC 1", "from 4 to 4"),
    ("a.xml", document("你好", (1, 1, "D")), -1, "DOC 1", "'D'"),
    ("a.xml", document("你好", ("x", 1, "S")), -1, "DOC 1", "start_off.* 'x'"),
    ("a.xml", "<DOC><TEXT>你</TEXT><ERROR start_off='1' type='R'/></DOC>", -1, "DOC 1", "end_off.* ''"),
    ("a.xml", CORRECT, -1, "", "no labels.* in 1 texts"),
]


@pytest.mark.parametrize(("name", "content", "options", "expected"), GOOD)
def test_what_is_read(tmp_path, name, content, options, expected):
    (tmp_path / name).write_bytes(content.encode())
    assert shown(load_sentences(tmp_path / name, **options)) == expected


@pytest.mark.parametrize(("name", "content", "column", "place", "word"), REFUSED)
def test_what_is_refused(tmp_path, name, content, column, place, word):
    (tmp_path / name).write_bytes(content.encode())
    with pytest.raises(ValueError, match=rf"{name}(, |: ){place}.*{word}"):
        load_sentences(tmp_path / name, TokenColumns(conll=column))


def test_options_and_paths_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match="'feats'"):
        load_sentences("nowhere", TokenColumns(conllu="feats"))
    for name in ("b.xml", "b.conll", "b.conllu", "b.html"):
        with pytest.raises(FileNotFoundError, match=rf"{name}: no such file"):
            load_sentences(tmp_path / name)


def test_names_of_labels(tmp_path):
    path = tmp_path / "names.json"
    for content in (["O", "B-x"], {"ner_tags": ["O", "B-x"], "pos_tags": ["N"]}):
        path.write_text(json.dumps(content))
        assert load_label_names(path, TokenColumns()) == ["O", "B-x"]
    for content, word in (
        *((["O", "O"], "'O' occurs twice"), ([], "list of names"), (["O", 1], "list of names")),
        *(({"a": ["O"]}, "ner_tags"), ({"labels": "O"}, "list of names")),
    ):
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=rf"names\.json: .*{word}"):
            load_label_names(path, TokenColumns())
    assert sorted_labels({"10", "9", "0"}) == ["0", "9", "10"]
    assert sorted_labels({"10", "9", "x"}) == ["10", "9", "x"]


def test_labels_that_the_model_does_not_have():
    rows = Dataset.from_list([{"tokens": ["a"], "labels": ["O"]}, {"tokens": ["b", "c"], "labels": ["O", "B-x"]}])
    check_labels(rows, "a.conll", ["O", "B-x"])
    with pytest.raises(ValueError, match=r"a\.conll, sentence 2, word 2 \('c'\): .*'B-x'.*--label_names_file"):
        check_labels(rows, "a.conll", ["O"])


@st.composite
def annotated_texts(draw):
    text = draw(st.text("我们好。ab <&𠀀", min_size=1, max_size=8).filter(str.strip))
    places = st.integers(1, len(text))
    errors = draw(st.lists(st.tuples(places, places, st.sampled_from("RMSW")), max_size=4))
    return text, [(min(a, b), max(a, b), kind) for a, b, kind in errors]


@settings(max_examples=50)
@given(st.lists(annotated_texts(), min_size=1, max_size=3))
def test_each_character_has_the_type_of_the_first_error_that_covers_it(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "drawn.xml"
    path.write_text("\n".join(document(escape(text), *errors) for text, errors in texts), encoding="utf-8")
    rows = load_sentences(path, require_labels=False)
    labeled = any(errors for _, errors in texts)
    for (text, errors), row in zip(texts, rows, strict=True):
        assert "".join(row["tokens"]) == text
        expected, previous = [], None
        for place in range(1, len(text) + 1):
            number = next((n for n, (first, last, _) in enumerate(errors) if first <= place <= last), None)
            letter = "I" if number == previous else "B"
            expected.append("O" if number is None else f"{letter}-{errors[number][2]}")
            previous = number
        assert row["labels"] == (expected if labeled else [])


LABELS = {"O": 0, "B-x": 1, "I-x": 2, "B-y": 3}


@pytest.mark.parametrize(
    ("words", "labels", "options", "expected", "seen"),
    [
        ("the cats sating", "O B-x B-y", {}, [-100, 0, 1, -100, 3, -100, -100], [0, 1, 2]),
        # B-y has no I-y among the labels
        ("the cats sating", "O B-x B-y", {"label_all_tokens": True}, [-100, 0, 1, 2, 3, 3, -100], [0, 1, 2]),
        ("cats cats", "B-x B-y", {}, [-100, 1, -100, 3, -100, -100], [0, 1]),
        ("\u200b the \x01  cats \x02", "B-y O B-y B-y B-x B-y", {}, [-100, 0, 1, -100, -100], [1, 4]),
        ("the cats the", "O B-x O", {"max_length": 4}, [-100, 0, 1, -100], [0, 1]),
        ("the cats", "", {}, [-100, 0, 0, -100, -100], [0, 1]),
    ],
)
def test_the_first_token_of_a_word_has_its_label(words, labels, options, expected, seen):
    rows = {"tokens": [words.split(" ")], "labels": [labels.split()]}
    encoded = word_features(rows, word_pieces(), **{"max_length": 40, "label_ids": LABELS, **options})
    assert encoded["labels"] == [expected]
    assert encoded["visible_word_ids"] == [seen]


@pytest.mark.parametrize("kind", [byte_pieces, partial(RobertaTokenizer, merges=[], unk_token="<pad>")])
def test_a_byte_level_tokenizer_sees_where_words_begin(tmp_path, kind):
    tokenizer = kind() if kind is byte_pieces else kind(vocab=byte_pieces().get_vocab())
    prepare_tokenizer(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    for own in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        encoded = word_features({"tokens": [["a", "bc"]], "labels": [["O", "B-x"]]}, own, 40, LABELS)
        assert encoded.tokens(0) == ["<s>", "Ġ", "a", "Ġ", "b", "c", "</s>"]
        assert encoded["labels"] == [[-100, 0, -100, 1, -100, -100, -100]]


def test_a_slow_tokenizer():
    with pytest.raises(ValueError, match="SimpleNamespace is not a fast tokenizer"):
        prepare_tokenizer(SimpleNamespace(is_fast=False))
