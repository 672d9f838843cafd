"""Corpora and rows of negation, sentences with all their negations, and rows that ask for cues."""

import re

import pytest

from hf_localattn.data import Source, load_negation, negation
from hf_localattn.data.negation_corpora import format_starsem
from hf_localattn.resources import FOLDER
from tests.data.notation import columns, notation, write

SAMPLES = FOLDER / "samples" / "negation"
DOCTYPE = '<!DOCTYPE Annotation PUBLIC "-//BIOSCOPE//DTD" "BioScope.dtd">'
KINDS = {"-": "negation", "?": "speculation"}


def bioscope(*sentences, head=DOCTYPE, document="D1"):
    text = "\n".join(["<DocumentPart>", *sentences, "</DocumentPart>"])
    document = f"<Document><DocID>{document}</DocID>\n{text}</Document>"
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}\n<Annotation>{document}</Annotation>\n'


def s(text, number=1):
    """Return a sentence of BioScope: `{1 it [1- not]}` is a scope with its cue, `[1? may]` a cue of speculation."""
    text = re.sub(r"\{(\d+) ", r'<xcope id="X\1">', text).replace("}", "</xcope>").replace("]", "</cue>")
    text = re.sub(r"\[(\d+)([-?]) ", lambda m: f'<cue type="{KINDS[m[2]]}" ref="X{m[1]}">', text)
    return f'<sentence id="S{number}">{text}</sentence>'


def sfu(*sentences):
    """Return sentences of SFU: `{3=1 it} [1- not]` is the scope 3 of the cue 1."""
    text = "".join(f"\n<SENTENCE>{sentence}</SENTENCE>" for sentence in sentences)
    text = re.sub(r"\{(\d+)=([\d,]+) ", lambda m: f'<xcope ID="{m[1]}"><ref SRC="{m[2].replace(",", " ")}"/>', text)
    text = re.sub(r"\[(\d*)([-?]) ", lambda m: f'<C><cue ID="{m[1]}" type="{KINDS[m[2]]}">', text)
    text = text.replace("}", "</xcope>").replace("]", "</cue></C>")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<DOCUMENT><TIME>12</TIME><P>{text}\n</P></DOCUMENT>'


def starsem(number, *lines):
    """Return a sentence of *SEM 2012 by lines of `word cue scope event cue scope event ...`, or of words alone."""
    rows = []
    for place, line in enumerate(lines):
        word, *cells = line.split(" ")
        rows.append("\t".join(["tale", str(number), str(place), word, word, "X", "*", *(cells or ["***"])]))
    return "\n".join(rows) + "\n\n"


def row(**changes):
    return {**columns("I [never] DID"), **changes}


NESTED = s("it {1 [1? may] be, but {2 [2- neither] old [2- nor] new}}.")
JOINED = s("{1 {2 it [1- can] [1- not] be}}")
DEEP = bioscope(s("{1 a [1- no] <i>b</i> {2 [2? may] {3 [3- not] c} &lt;&amp; [2? or]} é}."))
SPLIT = bioscope(s("({1 un[1- not\n ed] \u00a0<b>x</b>y}). n\x92t"))
LONE = s("\n{9 all gone}", 3)
PLAIN = s("nothing <!-- yet --> to <?php x?>see.", 2)
SHARED = sfu("{5=6,7 old} [6? or] {8=6 new} [7? or]")
INSIDE = sfu("{2=1 <W>he</W><W>can</W> [1- not] go}")
REVIEWS = sfu("{3=1 it} [1- did n't] {4=1 help}<W></W><W>.</W>", "[2- not] {5=2 this}", "{6=2 nor that}")
RARE = starsem(1, "not not _ _ _ not _", "infrequent _ infrequent _ in frequent _", "visits _ visits _ _ visits _")
BOTH = starsem(1, "not not not _", "unkind un kind _", "no no _ _")
NO = starsem(2, "no no _ _", "! _ _ _")
BARE = starsem(0, "well", ".")
CRLF = (BARE + NO + NO).replace("\n", "\r\n")
CUT = starsem(1, "dr. _ dr _", "carelessly less care _", "unkind un unkind _", "no no _ _", "a\u00a0b _ _ _")
FOUR = [columns("I [NEVER] DID"), columns("I [never] [did]"), row(cue_type="affix"), row(id="1", cue=[0, 1, 1])]
UNABLE = [columns("[NEITHER] I [UNABLE]", cue_text=["neither", "", "un"], cue_kind="speculation")]

NEITHER = "negation:multi it may be, but [neither] OLD [nor] NEW ."
KEPT = NEITHER.replace("[neither]", "[NEITHER]").replace("[nor]", "[NOR]")
MAY, OR = "speculation:single it [MAY] BE, BUT NEITHER OLD NOR NEW .", "speculation:single"
NO_B, NOT_C = "negation:single A [no] B MAY NOT C <& OR É .", "negation:single a no b may [not] C <& or é ."
MAY_OR = "speculation:multi a no b [may] NOT C <& [or] é ."
NEVER, DID, IS_NO = "negation:single I [never] DID", "negation:multi I [never] [did]", "negation:single [no] !"
NOT_IN = "tale/1/1 negation:single [not] INFREQUENT VISITS; tale/1/2 negation:affix NOT [in]FREQUENT VISITS"
CORPUS, EVERY, BOTH_KINDS = {"cue_in_scope": "corpus"}, {"all_sentences": True}, {"cues": "both"}

# ending and content, rows, options
GOOD = [
    ("xml", bioscope(NESTED, PLAIN), f"D1/S1/2 {NEITHER}"),
    ("xml", bioscope(NESTED), f"D1/S1/1 {MAY}; D1/S1/2 {KEPT}", BOTH_KINDS | CORPUS),
    ("xml", SPLIT, "D1/S1/1 negation:multi ( UN [not] [ed] X Y ). n\u2019t"),
    ("xml", DEEP, f"D1/S1/1 {NO_B}; D1/S1/2 {MAY_OR}; D1/S1/3 {NOT_C}", BOTH_KINDS),
    ("xml", bioscope(JOINED), "D1/S1/1 negation:multi IT [can] [not] BE"),
    ("xml", bioscope(NESTED, NESTED, document=""), f"document 1/S1/2 {NEITHER}; document 1/S1~2/2 {NEITHER}"),
    ("xml", REVIEWS, "a.xml/1/1 negation:multi IT [did] [n't] HELP .; a.xml/2/1 negation:single [not] THIS"),
    ("xml", SHARED, f"a.xml/1/1 {OR} OLD [or] NEW or; a.xml/1/2 {OR} OLD or new [or]", {"cues": "speculation"}),
    ("xml", INSIDE, "a.xml/1/1 negation:single HE CAN [not] GO"),
    ("txt", BARE + RARE + BOTH + NO, f"{NOT_IN}; tale/1~2/1 negation:multi [not] [un]KIND [no]; tale/2/1 {IS_NO}"),
    ("txt", CUT, "tale/1/1 negation:multi DR. CARE[less]ly [UN]KIND [no] a\u00a0b"),
    ("txt", BOTH, "tale/1/1 negation:multi [NOT] [un]KIND [no]", CORPUS),
    ("txt", CRLF, f"tale/0/0 None:none well .; tale/2/1 {IS_NO}; tale/2~2/1 {IS_NO}", EVERY | BOTH_KINDS),
    ("jsonl", FOUR, f"1 {NEVER}; 2 {DID}; 3 negation:affix I [never] DID; 1~2 {DID}"),
    ("jsonl", [row(cue=[False, True, False], scope=[0.0, 0.0, 1.0])], "1 negation:single i [never] DID"),
    ("jsonl", UNABLE, "1 speculation:multi [neither] I [un]ABLE", BOTH_KINDS),
    ("jsonl", [row(), columns("i did")], f"1 {OR} I [never] DID; 2 None:none i did", EVERY | {"cues": "speculation"}),
]


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case[2][:60])
def test_what_is_read(tmp_path, case):
    ending, content, expected, *options = case
    rows = load_negation(write(tmp_path, (f"a.{ending}", content)), **dict(*options))
    found = (f"{own['id']} {own['cue_kind']}:{own['cue_type']} {notation(own)}" for own in rows)
    assert "; ".join(found) == expected
    again = load_negation(Source("hub", rows), **{**dict(*options), **CORPUS})
    assert again.to_list() == rows.to_list()


ENTITY = '<!DOCTYPE Annotation [<!ENTITY b "c">]>'
NEXT_TO = JOINED.replace('<xcope id="X2">', "").replace("be</xcope>", 'be <xcope id="X2">so</xcope>')
REFUSED = [
    # ending, content, place, word, options
    ("xml", bioscope(NESTED, "<sentence id='S2'><xcope></sentence>"), "line 6", "malformed"),
    ("xml", bioscope(NESTED, head=ENTITY), "line 2", "DOCTYPE"),
    ("xml", bioscope(NESTED, head='<!DOCTYPE html SYSTEM "a">'), "line 2", "DOCTYPE"),
    ("xml", bioscope(NESTED, head=f"\n{ENTITY}"), "line 3", "DOCTYPE"),
    ("txt", "<!-- <Annotation> -->\n<html/>", "line 2", "root"),
    *(("xml", empty, "", "no cues of negation; there are none") for empty in (bioscope(), sfu(), bioscope(PLAIN))),
    ("xml", bioscope(NESTED.replace("negation", "speculation")), "", "2 of speculation"),
    ("xml", bioscope("<sentence>a</sentence>"), "line 5", "'id'"),
    ("xml", bioscope(NESTED.replace('"negation"', '"doubt"')), "line 5", "doubt"),
    ("xml", bioscope(NESTED.replace(">neither<", "> <").replace(">nor<", "><")), "line 5", "no words"),
    ("xml", bioscope(JOINED.replace("</sentence>", '<xcope id="X3">so</xcope></sentence>')), "line 5", "X3"),
    ("xml", bioscope(NEXT_TO), "line 5", "X2"),
    ("xml", sfu("[- not]"), "line 3", "'ID'"),
    # scopes without a cue
    ("xml", bioscope(NESTED, LONE), "line 7, sentence S3", "X9.*--unmatched_scopes skip"),
    ("xml", sfu("[1- not]", "{3=9 gone}"), "line 4, sentence 2", "cue 9"),
    ("xml", sfu("[1- not]<xcope ID='3'>a</xcope>"), "line 3, sentence 1", "scope 3"),
    ("txt", NO + starsem(4, "he _ he _"), "line 4, sentence tale 4", "negation 1"),
    ("txt", NO.replace("*\t_\t_\t_", "*\t_\t_"), "line 2", "tale 2, which begins in line 1 and has 10 columns"),
    ("txt", BARE.replace("\t***", ""), "line 1", "7 columns"),
    ("txt", starsem(1, "not not _ _ _"), "line 1", "11 columns"),
    ("txt", BARE + NO.replace("\t", " "), "line 4", "1 columns"),
    ("txt", BARE.strip() + "\n" + BARE.replace("\t0\t", "\t7\t"), "line 3", "tale 0, which begins in line 1"),
    ("txt", starsem(1, "kind un _ _"), "line 1", "'un' is not a part"),
    ("txt", starsem(1, "not  _ _"), "line 1", "'' is not a part"),
    ("txt", starsem(1, " not _ _"), "line 1", "word"),
    ("txt", NO, "", "no cues of speculation", {"cues": "speculation", **EVERY}),
    ("txt", "\n \n", "", "empty"),
    ("jsonl", [row(tokens=["I", " ", "x"])], "line 1", "blank"),
    ("jsonl", [row(cue=[0, 1])], "line 1", "'cue'.* 3 words; found a list of 2"),
    ("jsonl", [row(cue=[0, 2, 0])], "line 1", "'cue'.* found 2"),
    *(("jsonl", [row(scope=[0, 0, mark])], "line 1", f"'scope'.* found {mark!r}") for mark in ("1", 2, -1, 0.5, None)),
    ("jsonl", [row(scope=[0, 1])], "line 1", "'scope'.* 3 words; found a list of 2"),
    ("jsonl", [row(), row(cue=[0, 0, 0])], "line 2", "'scope', but no word is a cue", EVERY),
    ("jsonl", [row(), row(cue=[0, 0, 0], id=7)], r"line 2 \(id 7\)", "no word"),
    ("jsonl", [row(cue_kind="doubt")], "line 1", "'cue_kind'"),
    ("jsonl", [row(pos=["X", "Y", 1])], "line 1", "'pos'"),
    ("jsonl", [row(cue_text=["", "nay", ""])], "line 1", "'nay'"),
    ("jsonl", [row(cue_text=["", "", ""])], "line 1", "'cue_text'"),
    ("jsonl", [row(), row(scope=None)], "line 2", "'scope'"),
    ("jsonl", [row(), row(scope=None)], "line 2", "no scope, but", {"require_scopes": False}),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]} {case[2]} {case[3]}")
def test_what_is_refused(tmp_path, case):
    ending, content, place, word, *options = case
    with pytest.raises(ValueError, match=rf"a\.{ending}(, |: ){place}.*{word}"):
        load_negation(write(tmp_path, (f"a.{ending}", content)), **dict(*options))


def test_scopes_without_a_cue_are_left_out(tmp_path, caplog):
    path = write(tmp_path, ("a.xml", bioscope(LONE, NESTED)))
    assert list(map(notation, load_negation(path, unmatched_scopes="skip"))) == [NEITHER.partition(" ")[2]]
    assert "left out: 1; the first one" in caplog.text


def test_paths_and_options_that_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"b\.txt"):
        load_negation(tmp_path / "b.txt")
    with pytest.raises(ValueError, match=r"there is no \.xml file"):
        load_negation(tmp_path)
    for name in ("cues", "cue_in_scope", "unmatched_scopes"):
        with pytest.raises(ValueError, match=f"{name} .*'doubt'"):
            load_negation("nowhere", **{name: "doubt"})


def test_all_columns(tmp_path):
    names = ("lemma", "pos", "parse")
    given = {
        **{"id": "x", "document_id": "7", "sentence_id": "s", "tokens": ["I", "unable", "Mr."], "cue": [0, 1, 0]},
        **{"cue_type": "affix", "cue_kind": "speculation", "cue_text": ["", "un", ""]},
        **{"scope": [1, 1, 1], "scope_text": ["I", "able", "Mr"], **{name: ["X", "Y", "Z"] for name in names}},
    }
    rows = load_negation(write(tmp_path, [{**given, "document_id": 7}, row(), row()]))
    assert rows.features == negation.NEGATION_FEATURES
    assert rows[0] == given
    assert [rows[1][name] for name in ("document_id", "sentence_id", *names)] == ["a.jsonl", "a.jsonl/2", [], [], []]
    assert rows["sentence_id"][2] == "a.jsonl/2"
    own = load_negation(write(tmp_path, ("a.txt", RARE)))[1]
    assert [own[name] for name in names] == [["not", "infrequent", "visits"], ["X"] * 3, ["*"] * 3]


def test_unknown_scopes(tmp_path):
    bare = {name: value for name, value in row().items() if name != "scope"}
    given = {"require_scopes": False, "all_sentences": True}
    rows = load_negation(write(tmp_path, [bare, row(scope=[]), {**bare, "cue": [0, 0, 0]}]), **given)
    assert [(own["scope"], own["scope_text"]) for own in rows] == [([], [])] * 3
    question, *_ = negation.add_questions(rows).to_list()
    assert (question["scope"], question["cue_labels"]) == ([], ["O", "negation:single", "O"])


def test_several_corpora(tmp_path):
    (tmp_path / "no.xml").write_text(INSIDE)
    paths = [SAMPLES / "bioscope.xml", tmp_path, SAMPLES / "starsem.txt", write(tmp_path, [row(), row()])]
    rows, parts = load_negation(paths), [load_negation(path) for path in paths]
    assert negation.describe_cues(parts[2]) == "cues: 5 affix, 23 single, 4 multi; sentences: 28"
    assert [notation(own) for own in rows] == [notation(own) for part in parts for own in part]
    assert len(set(rows["id"])) == len(rows) == sum(map(len, parts))
    for name, marked in (("a", "he did [not] GO home today"), ("b", "he did not go [home] today"), ("c", "[No] .")):
        write(tmp_path, (f"{name}.jsonl", [columns(marked), columns("[no] .")]))
    agreeing = [tmp_path / "a.jsonl", tmp_path / "c.jsonl"]
    assert len(load_negation(agreeing)) == 4
    with pytest.raises(ValueError, match=r"a\.jsonl and .*b\.jsonl contradict .* not and home"):
        load_negation([*agreeing, tmp_path / "b.jsonl"])
    samples = [load_negation(SAMPLES / name) for name in ("sfu", "sfu/garden.xml", "bioscope.xml")]
    negation.check_apart(samples[0], samples[2])
    negation.check_apart(*(rows.map(lambda row: {"document_id": "a.jsonl"}) for rows in samples[:2]))
    with pytest.raises(ValueError, match=r"'garden\.xml'"):
        negation.check_apart(samples[0], samples[1])


def test_predicted_negations_and_their_columns():
    own = {"id": "x", **columns("no unhappy man breathlessly"), "cue_text": ["", "", "", "less"]}
    affix = negation.with_negation(own, {1}, [0, 1, 1, 0], affix=True)
    assert (affix["cue_text"], affix["scope_text"]) == (["", "un", "", ""], ["", "happy", "man", ""])
    whole = negation.with_negation(own, [0, 1], [0, 0, 1, 0])
    assert (whole["cue_text"], whole["scope_text"]) == (["no", "unhappy", "", ""], ["", "", "man", ""])
    other = negation.with_scope(own, [1, 0, 0, 1])
    assert (other["scope"], other["scope_text"], other["id"]) == ([1, 0, 0, 1], ["no", "", "", "breath"], "x")
    sentences = negation.group_sentences(load_negation(SAMPLES / "starsem.txt", all_sentences=True))
    assert format_starsem(sentences).split() == (SAMPLES / "starsem.txt").read_text(encoding="utf-8").split()
    rows = [{**own, "tokens": ["x\ty", *own["tokens"][1:]]} for own in load_negation(SAMPLES / "sfu")]
    assert format_starsem(negation.group_sentences(rows)).split("\n")[0].split("\t")[3:7] == ["x y", "_", "_", "_"]


def test_each_sentence_asks_for_its_cues_before_the_rows_of_the_cues(tmp_path):
    rows = load_negation(write(tmp_path, ("a.xml", bioscope(NESTED, PLAIN))), "both", all_sentences=True)
    (first, *cues), (second,) = negation.group_sentences(negation.add_questions(rows))
    assert [(own["id"], own["cue_labels"]) for own in cues] == [("D1/S1/1", []), ("D1/S1/2", [])]
    of_may, of_nor = "speculation:single", "negation:multi"
    assert (first["id"], first["cue_labels"]) == ("D1/S1", ["O", of_may, *"OO", of_nor, "O", of_nor, *"OO"])
    assert {*first["cue"], *first["scope"], *second["cue"]} == {0}
    assert second["tokens"] == ["nothing", "to", "see."]
    rows = load_negation(write(tmp_path, ("a.txt", starsem(1, "no no _ _ no _ _", "nor _ _ _ nor _ _"))))
    (question, *_) = negation.add_questions(rows)
    assert question["cue_labels"] == ["negation:single", of_nor]  # the first one's
