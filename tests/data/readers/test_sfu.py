import pytest

from hf_localattn.data import load_negation


def words(text):
    return "".join(f"<W>{word}</W>" for word in text.split())


def cue(number, text, kind="negation"):
    return f'<C><cue ID="{number}" type="{kind}">{words(text)}</cue></C>'


def scope(number, content, source):
    return f'<xcope ID="{number}"><ref COMMENTS="" ID="0{number}" SRC="{source}"></ref>{content}</xcope>'


def document(*sentences):
    listed = "\n".join(f"<SENTENCE>{sentence}</SENTENCE>" for sentence in sentences)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<DOCUMENT><TIME>12</TIME><P>\n{listed}\n</P></DOCUMENT>'


DISCONTINUOUS = scope(3, words("It"), 1) + cue(1, "did n't") + scope(4, words("help me"), 1) + "<W></W><W>.</W>"
BARE = words("Why ?") + cue(2, "Not") + words(".")
SHARED = (
    scope(5, words("old"), "6 7")
    + cue(6, "or", "speculation")
    + scope(8, words("new"), 6)
    + cue(7, "or", "speculation")
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "B").mkdir()
    (tmp_path / "B" / "no1.xml").write_text(document(DISCONTINUOUS, words("Well .")))
    (tmp_path / "A.xml").write_text(document(BARE + SHARED))
    (tmp_path / "README.txt").write_text("not read")
    return tmp_path


def test_a_folder(folder):
    assert load_negation(folder).to_list() == [
        {
            "id": "A.xml/1/1",
            "document_id": "A.xml",
            "sentence_id": "A.xml/1",
            "tokens": ["Why", "?", "Not", ".", "old", "or", "new", "or"],
            "cue": [0, 0, 1, 0, 0, 0, 0, 0],
            "cue_type": "single",
            "cue_kind": "negation",
            "cue_text": ["", "", "Not", "", "", "", "", ""],
            "scope": [0] * 8,
            "scope_text": [""] * 8,
            **{"lemma": [], "pos": [], "parse": []},
        },
        {
            "id": "B/no1.xml/1/1",
            "document_id": "B/no1.xml",
            "sentence_id": "B/no1.xml/1",
            "tokens": ["It", "did", "n't", "help", "me", "."],
            "cue": [0, 1, 1, 0, 0, 0],
            "cue_type": "multi",
            "cue_kind": "negation",
            "cue_text": ["", "did", "n't", "", "", ""],
            "scope": [1, 0, 0, 1, 1, 0],
            "scope_text": ["It", "", "", "help", "me", ""],
            **{"lemma": [], "pos": [], "parse": []},
        },
    ]


def test_cues_that_share_a_scope_are_two(folder):
    rows = load_negation(folder, "speculation").to_list()
    assert [row["id"] for row in rows] == ["A.xml/1/2", "A.xml/1/3"]
    assert [row["cue"].index(1) for row in rows] == [5, 7]
    assert [row["scope"][4:] for row in rows] == [[1, 0, 1, 0], [1, 0, 0, 0]]


def load(tmp_path, *sentences, **options):
    path = tmp_path / "a.xml"
    path.write_text(document(*sentences))
    return load_negation(path, **options).to_list()


def test_a_cue_inside_its_own_scope(tmp_path):
    sentence = scope(2, words("he can") + cue(1, "not") + words("go"), 1)
    assert load(tmp_path, sentence)[0]["scope"] == [1, 1, 0, 1]
    assert load(tmp_path, sentence, cue_in_scope="corpus")[0]["scope"] == [1, 1, 1, 1]


def test_a_scope_that_holds_another_with_its_cue(tmp_path):
    inner = words("see") + cue(2, "nothing") + scope(4, words("here"), 2)
    rows = load(tmp_path, cue(1, "Never") + scope(3, inner, 1))
    assert [row["scope"] for row in rows] == [[0, 1, 1, 1], [0, 0, 0, 1]]


def test_a_scope_that_goes_on_in_the_next_sentence(tmp_path):
    (row,) = load(tmp_path, cue(1, "Not") + scope(2, words("this"), 1), scope(3, words("nor that"), 1))
    assert (row["tokens"], row["scope"]) == (["Not", "this"], [0, 1])


@pytest.mark.parametrize(
    ("stray", "message"),
    [
        (scope(3, words("gone"), 9), "the scope 3 refers to the cue 9, which is not in the document"),
        (f'<xcope ID="3">{words("gone")}</xcope>', "the scope 3 refers to no cue"),
    ],
)
def test_a_scope_without_its_cue(tmp_path, stray, message, caplog):
    with pytest.raises(ValueError, match=rf"a\.xml, line 4, sentence 2: {message}: .* unmatched_scopes='skip'"):
        load(tmp_path, cue(1, "Not"), stray)
    assert len(load(tmp_path, cue(1, "Not"), stray, unmatched_scopes="skip")) == 1
    assert "Scopes without a cue, left out: 1" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (document("<W>a"), "line 3: malformed XML"),
        ("<Annotation/>", "holds no sentences"),
        (document(), "holds no sentences"),
        (document(words("a")), "has no cues of negation in 1 sentences"),
        (document(cue("", "not")), "line 3: 'cue' needs a value of 'ID'"),
        (document(cue(1, "not", "x")), "line 3: the type of a cue must be negation or speculation; found 'x'"),
        (document(cue(1, "")), "line 3: a cue has no words"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, text, message):
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(ValueError, match=rf"a\.xml.*{message}"):
        load_negation(tmp_path / "a.xml")


def test_a_folder_without_files(tmp_path):
    with pytest.raises(ValueError, match=r"there is no \.xml file in this folder"):
        load_negation(tmp_path)
