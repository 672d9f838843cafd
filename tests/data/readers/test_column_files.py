import pytest

from hf_localattn.data.words import TokenColumns, load_sentences

CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

-DOCSTART- -X- O

\x85 NN  B-NP\tO
"""

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


def write(path, text):
    path.write_bytes(text.encode())
    return path


def test_columns_separated_by_blanks(tmp_path):
    rows = load_sentences(write(tmp_path / "a.conll", CONLL))
    assert rows.to_list() == [
        {"tokens": ["EU", "rejects"], "labels": ["B-ORG", "O"]},
        {"tokens": ["\x85"], "labels": ["O"]},
    ]
    assert load_sentences(tmp_path / "a.conll", TokenColumns(conll=1))["labels"][0] == ["NNP", "VBZ"]
    assert load_sentences(tmp_path / "a.conll", TokenColumns(conll=-2))["labels"][0] == ["B-NP", "B-VP"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_separated_by_tabs(tmp_path, end):
    rows = load_sentences(write(tmp_path / "fce.tsv", FCE.replace("\n", end)))
    assert rows.to_list() == [
        {"tokens": ["I", "am", "an"], "labels": ["c", "c", "i"]},
        {"tokens": ["New York"], "labels": ["c"]},
    ]


def test_words_alone_are_for_prediction(tmp_path):
    path = write(tmp_path / "a.txt", "the\ncat\n\nsat")
    rows = load_sentences(path, require_labels=False)
    assert rows.to_list() == [{"tokens": ["the", "cat"], "labels": []}, {"tokens": ["sat"], "labels": []}]
    with pytest.raises(ValueError, match=r"a\.txt, line 1: one column, so there are no labels"):
        load_sentences(path)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a O\n\nb x O\n", -1, "line 3: 3 columns, but 2 in the first line"),
        ("a\tO\nb O\n", -1, "line 2: 1 columns, but 2 in the first line"),
        ("a\tO\n\tO\n", -1, "line 2: the word is empty"),
        ("a\tO\nb\t\n", -1, "line 2: the label of 'b' is empty"),
        ("a x O\n", 3, "line 1: there is no label column 3 in 3 columns: .* choose 1 to 2"),
        ("a x O\n", -3, "there is no label column -3"),
        ("a x O\n", 0, "there is no label column 0 in 3 columns: column 0 has the words"),
        ("-DOCSTART- O\n", -1, "holds no sentences"),
        ("\n", -1, "is empty"),
    ],
)
def test_columns_that_cannot_be_used(tmp_path, text, column, message):
    with pytest.raises(ValueError, match=rf"a\.conll.*{message}"):
        load_sentences(write(tmp_path / "a.conll", text), TokenColumns(conll=column))


def test_conllu_has_syntactic_words(tmp_path):
    path = write(tmp_path / "a.conllu", CONLLU)
    assert load_sentences(path).to_list() == [
        {"tokens": ["do", "n't", "go"], "labels": ["AUX", "PART", "VERB"]},
        {"tokens": ["#"], "labels": ["SYM"]},
    ]
    assert load_sentences(path, TokenColumns(conllu="xpos"))["labels"][0] == ["VB", "RB", "_"]


def test_conllu_without_labels(tmp_path):
    path = write(tmp_path / "a.conllu", "1\tgo\t" + "\t".join("_" * 8) + "\n")
    with pytest.raises(ValueError, match=r"a\.conllu: has no labels: its column upos is '_' everywhere"):
        load_sentences(path)
    assert load_sentences(path, require_labels=False).to_list() == [{"tokens": ["go"], "labels": []}]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("1 do VERB\n", "upos", r"line 1: 1 columns, but CoNLL-U has 10, separated by tabs"),
        ("x" + "\t_" * 9, "upos", "line 1: the first column must be a word's number, .* found 'x'"),
        ("# nothing\n", "upos", "holds no sentences"),
        (CONLLU, "feats", "must be upos or xpos; got 'feats'"),
    ],
)
def test_conllu_that_cannot_be_used(tmp_path, text, column, message):
    with pytest.raises(ValueError, match=message):
        load_sentences(write(tmp_path / "a.conllu", text), TokenColumns(conllu=column))
