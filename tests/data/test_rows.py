"""Rows of all tasks but negation: what is read from files, data sets and streams, and what is refused where."""

import json
from functools import partial

import pyarrow
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from hf_localattn import data
from hf_localattn.data import Source
from hf_localattn.data.labels import SINGLE_LABEL
from hf_localattn.data.rows import INDEX, check_special_tokens, row_indices
from hf_localattn.data.words import check_labels, load_label_names
from hf_localattn.settings.columns import GLUE_TASKS, ChoiceColumns, TextColumns, TokenColumns
from tests.data.notation import columns, shown, write
from tests.qa_helpers import word_pieces

ASKED = {"id": "q", "context": "the mat sat", "question": "who?"}
CHOICE = {"context": "the cat.", "question": "where?", "choices": ["mat", "dog"], "label": 1}
SWAG = {"video-id": "v", "startphrase": "it sat. the dog", "sent1": "it sat.", "sent2": "the dog", "gold-source": "g"}
SWAG |= {"ending0": "sat.", "ending1": 'sat "on" the, cat.', "ending2": "on.", "label": "2"}
ENDINGS = {"sent1": "a", **{f"ending{i}": f"{i}" for i in range(11)}, "label": 10}
WORDS = {"id": "0", "tokens": ["the", "cat"], "ner_tags": ["O", "B-x"], "pos_tags": ["DET", "NOUN"]}
CUE = columns("I [never] DID")
QQP = {"question1": "cat", "question2": "", "label": 0}
PAIR = {"text": "a", "text_pair": "b", "label": "x"}
CLASSES = ClassLabel(names=["z", "a"])


def texts(*labels, **columns):
    return [{"text": "abcd"[i], "label": label, **columns} for i, label in enumerate(labels)]


def asked(*answers, **changes):
    """Return a question with its answers, written as `text@start`."""
    pairs = [answer.split("@") for answer in answers]
    return {**ASKED, "answers": {"text": [a for a, _ in pairs], "answer_start": [int(b) for _, b in pairs]}, **changes}


def typed(kind, values, label="label"):
    features = Features({"text": Value("string"), "tokens": List(Value("string")), label: kind})
    return Dataset.from_dict({"text": [*"ab"], "tokens": [["the"], ["cat"]], label: values}, features=features)


def conllu(number, word, upos="_", xpos="_"):
    return f"{number}\t{word}\tlemma\t{upos}\t{xpos}" + "\t_" * 5 + "\n"


def cged(text, *errors, name="7"):
    """Return a text of CGED with errors, written as `3-4 R`."""
    listed = ""
    for error in errors:
        places, kind = error.split()
        first, last = places.rsplit("-", 1)
        listed += f'<ERROR start_off="{first}" end_off="{last}" type="{kind}"></ERROR>'
    return f'<DOC>\n<TEXT id="{name}">{text}</TEXT><CORRECTION>x</CORRECTION>{listed}</DOC>'


UNASKED_ROW = {name: value for name, value in asked("mat@4").items() if name != "question"}
MAT, TWO = "q: the mat sat who? mat@4", TokenColumns(names="OA")
ONE, OTHER = "the cat.: [where? mat] | where? dog", "the cat.: where? mat | [where? dog]"
NEITHER = "the cat.: where? mat | where? dog"
NAMED = {"context": "a", "choices": {"text": ["m", "d"], "label": ["1", "0"]}, "label": "0"}
SETS_IN_CELLS = 'text,label\na,"[""x"", ""y""]"\nb,[]\nc,\n'
CELLS = 'context,choices,label\nthe cat,"[""runs"", ""flies""]",flies\n'
PARAGRAPHS = [
    {"context": "the mat sat", "qas": [asked("mat@4")]},
    {"context": "it", "qas": [{"id": 7, "question": "why?", "answers": [], "is_impossible": True}]},
]
UNASKED = [PARAGRAPHS[0], {"context": "a", "qas": [{"id": "r"}]}]
LISTED = asked(answers=[{"text": "mat", "answer_start": 4}])
SENTIMENTS = [{"sentence": text, "label": label} for text, label in zip("abc", ("positive", "0", 1), strict=True)]
BARE = [{"tokens": ["a"]}, {"tokens": ["b"], "ner_tags": None}, {"tokens": ["c"], "ner_tags": [-1]}]
OPTIONAL, SKIPPING, RATED = {"require_labels": False}, {"skip_empty": True}, TextColumns(names=("a", "b"))
NAMED_CLASS = TextColumns(names=("a",), problem_type=SINGLE_LABEL)

CONLL = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n-DOCSTART- -X- O\n\n\x85 NN  B-NP\tO\n"
COMMENTS = "# sent_id = 1\n#doc\n\n# text = EU rejects\nEU  B\nrejects O\n\n# O\n#sad B\n \n# newdoc\tid 7\nend O\n"
FCE, FCE_SHOWN = "I\tc\nam\tc\nan\ti\n\nNew York\tc\n", "I/c am/c an/i; New York/c"
CONLLU = f"# text = do\n{conllu('1-2', 'dont')}{conllu(1, 'do', 'AUX', 'VB')}{conllu('2.1', 'ever', 'ADV')}"
CONLLU += f"{conllu(3, 'go', 'VERB')}\n# sent_id = 2\n{conllu(1, '#', 'SYM', 'NFP')}"
CGED, READ = cged("\n我在看看。\n", "3-4 R", "5-5 M"), "我/O 在/O 看/B-R 看/I-R 。/B-M"
CORRECT, FIRST_COUNTS = "<DOC><TEXT id='b2'>你好</TEXT></DOC>", cged("你们好吗", "2-2 S", "1-3 R", "2-4 M")

# of each loader: rows, or a file's name and content; the rows in the notation of `shown`; options
GOOD = {
    "texts": [
        (texts("b", "a"), "a = b; b = a"),
        (texts(-1, 1), "a = -1; b = 1"),
        (("a.csv", 'text,label\n"a, b",1\nc,0\n'), "a, b = 1; c = 0"),
        (("a.tsv", 'text\tlabel\n"a\t1\n\nb\t0\n'), '"a = 1; b = 0'),
        (("a.csv", 'text,label\r\n"a\rb",1\r\n"c\r\nd",0\r\r\n'), "a\rb = 1; c\r\nd = 0"),
        (("a.json", json.dumps(texts(True, False))), "a = true; b = false"),
        (("a.json", texts(" two  words ", "x")), "a = two words; b = x"),
        (texts("1", "2.5"), "a = 1.0; b = 2.5"),
        (texts("1.5"), "a = 1.5", {"columns": TextColumns(problem_type=SINGLE_LABEL)}),
        (texts(["b", "a"], []), "a = ['a', 'b']; b = []"),
        (("a.csv", SETS_IN_CELLS), "a = ['x', 'y']; b = []; c = None", OPTIONAL),
        (SENTIMENTS, "a = positive; b = negative; c = positive", {"columns": GLUE_TASKS["sst2"]}),
        (texts("x", None, -1), "a = x; b = None; c = -1", OPTIONAL),
        ([{"label": "x", "sentence2": "b", "sentence1": "a"}], "a + b = x"),
        ([{"text": "a", "title": "b", "label": "x"}], "a = x"),
        ([{"text": "a", "t": "b", "c": "x"}], "b = x", {"columns": TextColumns(("t",), "c")}),
        ([QQP], "cat +  = not_duplicate", {"columns": GLUE_TASKS["qqp"]}),
        (typed(CLASSES, [0, 1]), "a = z; b = a"),
        (typed(CLASSES, [-1, None]), "a = None; b = None", OPTIONAL),
        (typed(List(CLASSES), [[0], [0, 1]]), "a = ['z']; b = ['a', 'z']"),
        (typed(Value("bool"), [True, False]), "a = true; b = false"),
    ],
    "squad": [
        ([asked("the@0"), asked(id=8)], "q: the mat sat who? the@0; 8: the mat sat who?"),
        (("a.json", json.dumps({"data": [{"paragraphs": PARAGRAPHS}]})), "q: the mat sat who? mat@4; 7: it why?"),
        (("a.json", json.dumps({"data": [asked("mat@4")]})), "q: the mat sat who? mat@4"),
        (("a.json", [asked("mat@4"), asked(id=1)]), "q: the mat sat who? mat@4; 1: the mat sat who?"),
        ([LISTED], "q: the mat sat who? mat@4"),
        (("a.jsonl", json.dumps(asked(question="\u2028?"), ensure_ascii=False)), "q: the mat sat \u2028?"),
        ([ASKED], "q: the mat sat who?", {"require_answers": False}),
    ],
    "answered": [
        ([asked(id="p"), asked("mat@4"), asked("sat@8", id="r")], f"{MAT}; r: the mat sat who? sat@8"),
        ([UNASKED_ROW], "q: the mat sat - mat@4", {"require_questions": False}),
    ],
    "choices": [
        ([SWAG], 'it sat.: the dog sat. | the dog sat "on" the, cat. | [the dog on.]'),
        ([ENDINGS], "a: 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | [10]"),
        ([CHOICE, {**CHOICE, "label": 0}], f"{OTHER}; {ONE}"),
        ([{**CHOICE, "label": " b "}], OTHER),
        ([{**CHOICE, "label": "mat"}], ONE),
        ([{**CHOICE, "a": "B"}], "where?: mat | [dog]", {"columns": ChoiceColumns(context="none", label="a")}),
        ([{**CHOICE, "stem": "who?"}], "who?: mat | [dog]", {"columns": ChoiceColumns("stem", "none")}),
        ([NAMED], "a: m | [d]"),
        (("a.csv", CELLS), "the cat: runs | [flies]"),
        ([{**CHOICE, "label": own} for own in (None, "", -1)], "; ".join([NEITHER] * 3), OPTIONAL),
    ],
    "sentences": [
        ([WORDS, {**WORDS, "tokens": [], "ner_tags": []}], "the/O cat/B-x; "),
        ([{**WORDS, "labels": ["1", "2"]}], "the/DET cat/NOUN", {"columns": TokenColumns(task="pos")}),
        ([{**WORDS, "w": ["a", "b"], "l": ["1", "2"]}], "a/1 b/2", {"columns": TokenColumns("w", "l")}),
        ([{**WORDS, "ner_tags": [0, 2]}], "the/O cat/B", {"columns": TokenColumns(names=["O", "A", "B"])}),
        (BARE, "a; b; c", OPTIONAL),
        (typed(List(CLASSES), [[0], [1]], "labels"), "the/z; cat/a"),
        (("a.conll", CONLL), "EU/B-ORG rejects/O; \x85/O"),
        (("a.txt", CONLL), "EU/NNP rejects/VBZ; \x85/NN", {"columns": TokenColumns(conll=1)}),
        (("a.tsv", FCE), FCE_SHOWN),
        (("a.txt", "the\ncat\n\nsat"), "the cat; sat", OPTIONAL),
        (("a.tsv", "\ufeffI \tc \r\n am\t c\r\n\u00a0\tc\u00a0\r\n"), "I/c am/c \u00a0/c"),
        (("a.tsv", FCE.replace("\n\n", "\n \t\n# id 7\n#doc\n#\tc\n")), "I/c am/c an/i; #/c New York/c"),
        (("a.conll", COMMENTS), "EU/B rejects/O; #/O #sad/B; end/O"),
        (("a.conll", COMMENTS.replace("\n", "\r\n")), "EU/B rejects/O; #/O #sad/B; end/O"),
        (("a.conll", CONLL.replace("\n", "\r\r\n")), "EU/B-ORG rejects/O; \x85/O"),
        (("a.txt", "# id 7\n#\n#sad\nthe"), "# #sad the", OPTIONAL),
        (("a.conll", "-DOCSTART- -X- O\na N O\n-DOCSTART- -X- O\nb N O\n-DOCSTART-\n"), "a/O; b/O"),
        ([{**WORDS, "ner_tags": ["O ", "\tB-x"]}], "the/O cat/B-x"),
        ([{**WORDS, "ner_tags": [0, 1]}], "the/O cat/B", {"columns": TokenColumns(names=["O", "B"])}),
        ([{**WORDS, "ner_tags": [-1, -1]}, {**WORDS, "ner_tags": [1, -1]}], "the/-1 cat/-1; the/1 cat/-1", OPTIONAL),
        ([{**WORDS, "ner_tags": [-1, -1]}], "the cat", {"columns": TWO, **OPTIONAL}),
        (typed(List(ClassLabel(names=["z ", "a"])), [[0], [1]], "labels"), "the/z; cat/a"),
        (("a.conllu", CONLLU), "do/AUX go/VERB; #/SYM"),
        (("a.conllu", conllu(1, "do ", " AUX")), "do/AUX"),
        (("a.conllu", CONLLU), "do/VB go/_; #/NFP", {"columns": TokenColumns(conllu="xpos")}),
        (("a.xml", CGED + CORRECT), f"{READ}; 你/O 好/O"),
        (("a.xml", f"\ufeff<?xml version='1.0'\n encoding='UTF-8'?>\n<ROOT>{CGED}</ROOT>\n"), READ),
        (("a.xml", CGED.replace("看看", "看\n看")), READ),
        (("a.xml", CGED.replace("\n我", "\n\t  我").replace("。\n", "。\n\t")), READ),
        (("a.xml", cged("\n 我 不\u3000\n", "4-4 S")), " /O 我/O  /O 不/B-S \u3000/O"),
        (("a.xml", cged("&amp;&#x4f60;\x1d&lt;", "4-4 S")), "&/O 你/O \ufffd/O </B-S"),
        (("a.xml", cged("你好", "3-3 M")), "你/O 好/B-M"),
        (("a.xml", FIRST_COUNTS), "你/B-R 们/B-S 好/B-R 吗/B-M"),
        (("a.xml", CORRECT), "你 好", OPTIONAL),
        (("a.xml", cged("", name="e") + CGED), READ, SKIPPING),
    ],
}


def cases(table):
    pairs = [(name, case) for name in table for case in table[name]]
    return [pytest.param(getattr(data, f"load_{name}"), case, id=f"{name} {case[1:3]}"[:60]) for name, case in pairs]


def data_set(rows):
    """Return a data set of rows; None if they have values of several types, which only files have."""
    try:
        return Dataset.from_list(rows)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, AttributeError):
        return None


@pytest.mark.parametrize(("load", "case"), cases(GOOD))
def test_files_data_sets_and_streams_are_read_the_same_way(tmp_path, load, case):
    content, expected, *options = case
    rows = [content if isinstance(content, Dataset) else write(tmp_path, content)]
    if isinstance(content, list):
        rows += [Source("s", [(f"line {i}", row) for i, row in enumerate(content, 6)], first=5), data_set(content)]
    for one in filter(None, rows):
        assert shown(load(one, **dict(*options))) == expected


# of each loader: rows, or a file's name and content; place; word; options
REFUSED = {
    "texts": [
        ([{"words": "a", "label": 1}], "", "words, label"),
        (texts(1), "line 1", "--text_column_names", {"columns": TextColumns(("words",))}),
        ([*texts(1), {"text": 3, "label": 1}], "line 2", "found 3"),
        (texts(1), "line 1", "'class'", {"columns": TextColumns(label="class")}),
        (texts(1, None), "line 2", "no label; found None", SKIPPING),
        ([{"sentence": "a", "label": -1}], "line 1", "no label", {"columns": GLUE_TASKS["sst2"]}),
        (texts(["a"], "b"), "line 2", "list"),
        (texts("a", {"b": 1}), "line 2", "object with b"),
        (texts(["a", ["b"]]), "line 1", "name or a whole number"),
        *((("a.jsonl", texts(1.5, label)), "line 2", repr(label)) for label in ("many", True, float("inf"))),
        (texts(0, 2), "line 2", "label 2", {"columns": RATED}),
        (texts(0, -1), "line 2", "no label; found -1", {"columns": NAMED_CLASS}),
        (texts(None, ""), "", "no row has a label", {"columns": TextColumns(skip_unlabeled=True)}),
        ([{**QQP, "question1": " "}], "line 1", "empty", {"columns": GLUE_TASKS["qqp"]}),
        ([{"sentence1": "a", "sentence2": " ", "label": 1}], "line 1", "skip_empty", {"columns": GLUE_TASKS["rte"]}),
        (("a.json", "[]"), "", "no texts"),
        (("a.csv", "text,label,text\na,b,c\n"), "line 1", "'text' is there twice"),
        (("a.csv", 'text,label\n"a\nb",c\nd\n'), "line 4", "1 fields"),
        (("a.csv", "text,label\na\rb,c\n"), "line 2", "carriage return"),
        (("a.csv", "text,label\na,c\n\ntext,label\n"), "line 4", "header"),
        (("a.csv", "text,label\na,c\nText,LABEL\n"), "line 3", "header"),
        (("a.csv", "text\na\n\nb\n"), "line 3", "empty", OPTIONAL),
        (("a.jsonl", '{"text": "a", "label": 1, "label": 2}'), "line 1", "'label' twice"),
        (texts("a\nb"), "line 1", "line break"),
        (texts("a\tb"), "line 1", "control"),
        (texts(0.5, "1e39"), "line 2", "too large"),
        (texts(["a", "b\x1b[0m"]), "line 1", "control"),
        (("a.csv", 'text,label\n"a"b,c\n'), "line 2", "expected"),
        (("a.csv", 'text,label\n"a,b\nc,d\n'), "line 3", "begins in line 2"),
        (("a.csv", 'text,label\n"a,b\n' + "c" * 200_000), "line 3", "131,072 characters"),
    ],
    "squad": [
        ([asked(), asked(context=3)], r"line 2 \(id q\)", "found 3"),
        ([ASKED], r"line 1 \(id q\)", "'answers'"),
        ([asked(id=True)], "line 1", "'id'"),
        ([asked(answers="")], "line 1", "'answers'"),
        ([asked(answers={"text": ["a", "b"], "answer_start": [1]})], "line 1", "equal length"),
        ([asked(answers={"text": ["mat"], "answer_start": [True]})], "line 1", "and True"),
        ([asked(" @3")], "line 1", "non-empty"),
        ([asked("the@4")], "line 1", "first occurs at 0"),
        ([asked("mat@-7")], "line 1", "answer_start -7"),
        *(([{**LISTED, "is_impossible": value}], "line 1", "is_impossible") for value in (True, "true", 1)),
        ([asked("cow@0")], "line 1", "nowhere"),
        ([asked(), asked()], "questions 1 and 2", "'q'"),
        (("a.json", json.dumps([{"paragraphs": UNASKED}])), "article 1, paragraph 2, question 1", "'question'"),
        (("a.json", '[{"paragraphs": [{"context": "a"}]}]'), "article 1, paragraph 1", "'qas'"),
        (("a.json", '[{"paragraphs": [{"qas": []}]}]'), "", "no questions"),
        ("", "", "empty"),
        (("a.json", '{"rows": []}'), "", "expected a list of rows.* object with rows"),
        (("a.json", '[\n{"id": }]'), "line 2, column 8", "JSON"),
        (json.dumps(asked()) + "\n\n{oops\n", "line 3, column 2", "JSON"),
        ([asked(), asked(context=""), asked()], "questions 1 and 3", "same id", SKIPPING),
        (("a.csv", "id,question"), "", ".json, .jsonl"),
    ],
    "answered": [
        ([asked()], "", "none of the 1 questions"),
        ([UNASKED_ROW], "line 1", "'question'"),
    ],
    "choices": [
        ([CHOICE, {**CHOICE, "choices": ["a", "b", "c"]}], "line 2", "3 choices, but 2"),
        ([{**CHOICE, "choices": ["mat"]}], "line 1", "1 choices"),
        ([{**CHOICE, "choices": ["mat", 3]}], "line 1", "choice 1.* found 3"),
        ([{**CHOICE, "choices": "x" * 59}], "line 1", f"found '{'x' * 56}[.]{{4}}$"),
        ([CHOICE, {**CHOICE, "context": ""}, {**CHOICE, "choices": [*"abc"]}], "line 3", "3 choices", SKIPPING),
        *(([{**CHOICE, "label": label}], "line 1", f"label {label!r}") for label in (2, "C", True, 0.5)),
        ([{**NAMED, "label": "Z"}], "line 1", "1, 0"),
        ([{**CHOICE, "label": -1}], "line 1", "no label"),
        ([{**CHOICE, "question": None}], "line 1", "--question_column_name"),
        ([{"sent1": "a", "label": 0}], "line 1", "'choices'.*sent1, label.*SWAG's"),
    ],
    "sentences": [
        ([WORDS, {**WORDS, "ner_tags": ["O"]}], r"line 2 \(id 0\)", "2 words.* 1 labels"),
        ([{**WORDS, "tokens": ["the", 1]}], "line 1", "'tokens'"),
        ([{**WORDS, "ner_tags": "O O"}], "line 1", "'ner_tags'"),
        *(([{**WORDS, "ner_tags": ["O", label]}], "line 1", "label") for label in (0.5, True, "")),
        *(([{**WORDS, "ner_tags": [0, n]}], "line 1", "0 to 1", {"columns": TWO}) for n in (2, -1)),
        ([WORDS], "line 1", "'words'.*--text_column_name", {"columns": TokenColumns(text="words")}),
        ([WORDS], "line 1", "'chunk_tags or labels'", {"columns": TokenColumns(task="chunk")}),
        ([WORDS, {"tokens": []}, {"tokens": ["a"]}], "line 3", "no labels", SKIPPING | OPTIONAL),
        (("a.html", "<a/>"), "", r"\.jsonl, \.conllu, \.xml"),
        (("a.conll", "a O\n\nb x O\n"), "line 3", "3 columns, but 2"),
        (("a.conll", "a\tO\rb\tO\n"), "line 1", "carriage return"),
        (("a.conll", "a\tB-first name\n"), "sentence in line 1", "blank"),
        ([{**WORDS, "ner_tags": ["O", "B-first\nname"]}], "line 1", "blank"),
        (("a.conll", "a\tO\n\nb\tO\u200b\n"), "sentence in line 3, word 1", "looks like 'O'"),
        (("a.conll", "a\tO\nb O\n"), "line 2", "1 columns, but 2"),
        (("a.conll", "a\tO\n\tO\n"), "line 2", "word is empty"),
        (("a.conll", "a\tO\t\nb\tO\t\n"), "line 1", "label is empty"),
        (("a.conll", "a\tO\nb\t\u00a0\n"), "line 2", "label is empty"),
        (("a.conll", "a\tO\nb\tO\t\n"), "line 2", "3 columns, but 2 in line 1"),
        (("a.conll", "# id 7\nEU NNP B\n"), "line 1", "comment, or a word .*'7'"),
        (("a.conll", "EU B\n#sent 2\nEU B\n"), "line 2", "comment, or a word .*'2'"),
        (("a.conll", "EU B\n# id 7\nEU B\n"), "line 2", "3 columns, but 2 .*comments"),
        (("a.conll", "# id = 7\n#doc\n"), "", "no sentences"),
        *((("a.conll", "a x O\n"), "line 1", f"column {n}", {"columns": TokenColumns(conll=n)}) for n in (3, -3, 0)),
        (("a.conll", "-DOCSTART- O\n"), "", "no sentences"),
        (("a.conllu", "1 do VERB\n"), "line 1", "10 columns"),
        (("a.conllu", conllu(1, "go") + conllu("x", "go")), "line 2", "number"),
        (("a.conllu", conllu(1, "go")), "", "no labels"),
        (("a.conllu", conllu(1, "go", "VERB") + "# sent_id = 2\n" + conllu(1, "go", "VERB")), "line 2", "comment"),
        (("a.conllu", conllu(2, "go", "VERB") + conllu(1, "go", "VERB")), "line 2", "word 1 after word 2"),
        (("a.conllu", conllu(1, "go", " ")), "line 1", "empty"),
        (("a.xml", CGED + "\n<DOC>\n<TEXT>你 & 我</TEXT></DOC>"), "line 6", "malformed"),
        (("a.xml", "<!DOCTYPE a [<!ENTITY b 'c'>]>\n" + CORRECT), "line 1", "DOCTYPE"),
        (("a.xml", "<ESSAY title='t'><TEXT/></ESSAY>"), "", "no DOC"),
        (("a.xml", "<DOC><CORRECTION/></DOC>"), "line 1", "0 TEXT"),
        (("a.xml", CORRECT + cged("\n \n", name="c3")), r"line 1 \(id c3\)", "empty.*--skip_empty"),
        *((("a.xml", cged("你好", f"{own} S")), r"line 1 \(id 7\)", "from") for own in ("0-1", "2-1", "1-3", "3-3")),
        (("a.xml", cged("你好", "4-4 M")), "line 1", "from 4 to 4"),
        *((("a.xml", cged("你好", own)), "line 1", "the type R, M") for own in ("1-1 D", "x-1 S", "1- S")),
        (("a.xml", CORRECT), "", "no labels.* in 1 texts"),
    ],
}


@pytest.mark.parametrize(("load", "case"), cases(REFUSED))
def test_what_files_and_data_sets_are_refused(tmp_path, load, case):
    content, place, word, *options = case
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=rf"{path.name}(, |: ){place}.*{word}"):
        load(path, **dict(*options))
    if isinstance(content, list) and (rows := data_set(content)):
        with pytest.raises(ValueError, match=rf"^hub(, {place.replace('line', 'row')}|: ).*{word}"):
            load(Source("hub", rows), **dict(*options))
        with pytest.raises(ValueError, match="hub: holds no"):
            load(Source("hub", rows.select([])), **dict(*options))


@pytest.mark.parametrize(
    ("load", "row", "token"),
    [
        (data.load_texts, {"text": "a [SEP] b", "label": "x"}, "[SEP]"),
        (data.load_texts, {"text": "a", "text_pair": "b[PAD]", "label": "x"}, "[PAD]"),
        (data.load_squad, asked(question="who [CLS]?"), "[CLS]"),
        (data.load_answered, asked("mat@4", context="the mat[SEP]"), "[SEP]"),
        (partial(data.load_answered, require_questions=False), {**asked("mat@4"), "question": "[SEP]?"}, "[SEP]"),
        (data.load_choices, {**CHOICE, "choices": ["mat", "a [SEP]"]}, "[SEP]"),
        (data.load_sentences, {**WORDS, "tokens": ["the", "c[SEP]"]}, "[SEP]"),
    ],
)
def test_special_tokens_in_texts(load, row, token):
    tokenizer = word_pieces()
    column, value = next((name, value) for name, value in row.items() if token in str(value))
    known = json.loads(json.dumps({column: value}).replace(token, "[UNK] [CUE]"))
    unasked = {"question": None} if column == "question" and isinstance(load, partial) else {}
    good = [{**row, **known, "id": "g"}, {**row, **known, **unasked, "id": "h"}]
    check_special_tokens(load(Source("hub", Dataset.from_list(good))), [*row], "a.jsonl", tokenizer)
    rows = load(Source("hub", Dataset.from_list([*good, row])))
    with pytest.raises(ValueError, match=rf"row 3: .*'\[{token[1:-1]}\]'"):
        check_special_tokens(rows, [*row], "a.jsonl", tokenizer)


@pytest.mark.parametrize("load", [getattr(data, name) for name in data.__all__ if name.startswith("load_")])
def test_what_holds_no_rows(load, tmp_path):
    with pytest.raises(TypeError, match="Dataset or a Source"):
        load([{"text": "a"}])
    (tmp_path / "a.json").mkdir()
    with pytest.raises(ValueError, match=r"a\.json: is a folder"):
        load(tmp_path / "a.json")


def test_names_of_labels(tmp_path):
    assert data.load_texts(typed(CLASSES, [0, 1])).features["label"].names == ["z", "a"]
    for content in (["O", "B-x"], {"ner_tags": ["O", "B-x"], "pos_tags": ["N"]}):
        path = write(tmp_path, ("names.json", json.dumps(content)))
        assert load_label_names(path, TokenColumns()) == ["O", "B-x"]
    for content, word in (
        (["O", "O "], "twice"),
        (["O", " "], "label 1 is empty"),
        ([], "list"),
        (["O", 1], "list"),
        ({"a": ["O"]}, "ner_tags"),
    ):
        write(tmp_path, ("names.json", json.dumps(content)))
        with pytest.raises(ValueError, match=rf"names\.json: .*{word}"):
            load_label_names(path, TokenColumns())
    sentences = data.load_sentences(write(tmp_path, ("a.conll", "a O\n\n\nb O\nc x-y\n")))
    with pytest.raises(ValueError, match=r"a\.conll, sentence in line 4, word 2 \('c'\): the label 'x-y'"):
        check_labels(sentences, ["O"])
    with pytest.raises(ValueError, match="'feats'"):
        data.load_sentences("nowhere", TokenColumns(conllu="feats"))


TAGGED = {"tokens": ["a"], "labels": ["O"]}
EMPTY = [
    # loader, a row, what makes it empty, True if such rows are kept unless skip_empty is set
    ("squad", asked(), {"context": None}, False),
    ("answered", asked("mat@4"), {"question": "\n"}, False),
    *(("texts", PAIR, {name: own}, False) for name in ("text", "text_pair") for own in ("", "\u00a0", None)),
    *(("choices", CHOICE, {"choices": ["mat", own]}, False) for own in (" ", None)),
    *(("choices", CHOICE, {name: "\t"}, True) for name in ("context", "question")),
    *(("sentences", TAGGED, own, True) for own in ({"tokens": [], "labels": []}, {"tokens": [" "]})),
    *(("negation", CUE, {"tokens": own, "cue": [], "scope": []}, False) for own in ([], [" "])),
]


@pytest.mark.parametrize(
    ("name", "row", "change", "kept", "kind"),
    [*((*case, "file") for case in EMPTY), *((*case, "data set") for case in EMPTY[::4])],
)
def test_rows_with_an_empty_text(tmp_path, caplog, name, row, change, kept, kind):
    load, rows = getattr(data, f"load_{name}"), [{**row, "id": f"q{i}"} for i in range(3)]
    rows[1] |= change
    given, place = write(tmp_path, rows), "line 2"
    if kind == "data set":
        given, place = Source("hub", Dataset.from_list(rows)), "row 2"
    if kept:
        assert len(load(given)) == 3
    else:
        with pytest.raises(ValueError, match=rf"{place} \(id q1\): .*--skip_empty"):
            load(given)
    some, whole = load(given, skip_empty=True), Dataset.from_list([rows[0], rows[2]])
    assert some[INDEX][:] == [0, 2] == list(row_indices(some))
    assert f"leaving out 1 of 3 rows, which have an empty text, the first one in {place}." in caplog.text
    assert load(whole, skip_empty=True).to_list() == load(whole).to_list()
    assert row_indices(load(whole)) == range(2)
    if None not in change.values():  # a column without any text is not found
        with pytest.raises(ValueError, match="all 1 rows"):
            load(Dataset.from_list([rows[1]]), skip_empty=True)
        assert len(load(Source("s", [("line 8", rows[1])], first=7), skip_empty=True)) == 0


def test_rows_that_are_left_out_for_several_reasons(tmp_path, caplog):
    rows = [{"text": text, "label": label} for text, label in (("a", "x"), ("", "x"), ("b", None), ("c", "y"))]
    kept = data.load_texts(write(tmp_path, rows), TextColumns(skip_unlabeled=True), skip_empty=True)
    assert (kept["text"][:], kept[INDEX][:]) == (["a", "c"], [0, 3])
    assert "leaving out 1 of 3 rows, which have no label." in caplog.text
    kept = data.load_texts(write(tmp_path, [QQP, {**QQP, "question2": "dog"}]), GLUE_TASKS["qqp"], skip_empty=True)
    assert kept[INDEX][:] == [1]
    rows = [asked("mat@4", question=""), asked("mat@4", context=" ")]
    assert len(data.load_answered(write(tmp_path, rows), require_questions=False, skip_empty=True)) == 1


def test_rows_to_predict_on_may_have_no_question(tmp_path):
    for questions, column, values in ((["", "Who?"], "known_label", [None, "Who?"]), (["A?", "B?"], "question", None)):
        rows = [asked("mat@4", question=question, id=question or "x") for question in questions]
        loaded = data.load_answered(write(tmp_path, rows), require_questions=False)
        assert loaded[column][:] == (values or questions)
    loaded = data.load_answered(write(tmp_path, [asked("mat@4", question="")]), require_questions=False)
    assert not {"question", "known_label"} & {*loaded.column_names}
