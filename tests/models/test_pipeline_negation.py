"""The pipeline "negation": sentences, words, cues and scopes in raw text, and that it travels with checkpoints."""

import json

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertConfig,
    BertForTokenClassification,
    pipeline,
)
from transformers.pipelines.pt_utils import KeyDataset

from hf_localattn.hub.verify import verify_checkpoint
from hf_localattn.models.negation_finder import CUE_LABELS, MARKER_ROOM, SCOPE_LABELS, NegationFinder, group_cues
from hf_localattn.models.pipeline_negation import affix_offsets, split_sentences, split_words
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone, tiny_parser
from hf_localattn.tasks.negation import add_cue_marker
from tests.fresh_process import run_fresh
from tests.models.tiny import one_or_every_family
from tests.negation_helpers import RuleModel, tokenizer_of_words
from tests.tiny_parser import install_pipeline

TOKENIZER = tokenizer_of_words()
MODEL = RuleModel(TOKENIZER)
TEXT = "He neither spoke nor moved. That is impossible!\n\nShe may not know, I say."


def finder_of(model=MODEL, tokenizer=TOKENIZER, **settings):
    return pipeline("negation", model=model, tokenizer=tokenizer, device="cpu", **settings)


# --- sentences and words


def texts_of(offsets, text):
    return [text[start:end] for start, end in offsets]


@pytest.mark.parametrize(
    "sentences",
    [
        ["He left.", "She stayed."],
        ["Dr. Moran saw Mr. Holmes.", "No one else came."],
        ["Was it you?", "No.", "It was J. Smith."],
        ["He took no. 5 of No. 7 there.", "Then he left."],
        ['"Not I!" he said.', '"You?"'],
        ["The rate was 3.5 in the U.S. army."],
        ["Fever: no\nCough: yes"],
        [],
    ],
)
def test_sentences(sentences):
    for text in (" ".join(sentences), f" \n\t{'  '.join(sentences)}\n", "\n\n".join(sentences)):
        assert texts_of(split_sentences(text), text) == sentences
    assert texts_of(split_sentences("他不来。她来。"), "他不来。她来。") == ["他不来。", "她来。"]
    lines = texts_of(split_sentences("Fever: no\nCough: yes\n", lines=True), "Fever: no\nCough: yes\n")
    assert lines == ["Fever: no", "Cough: yes"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("She didn't go.", "She did n't go ."),
        ("He won\u2019t; I cannot, can't!", "He wo n\u2019t ; I can not , ca n't !"),
        ("Mrs. Hudson's well-known no. 5", "Mrs. Hudson 's well-known no. 5"),
        ("3.5mg at 2.5x", "3.5mg at 2.5x"),
        ("at 3.5 mg, 1,000 times -- or ...", "at 3.5 mg , 1,000 times -- or ..."),
        ("two o'clock (e.g. now)", "two o'clock ( e.g. now )"),
        ("Ne\u0301e, cafe\u0301. \u0939\u093f\u0928!", "Ne\u0301e , cafe\u0301 . \u0939\u093f\u0928 !"),
        ("I'll say they've gone", "I 'll say they 've gone"),
    ],
)
def test_words(text, words):
    assert texts_of(split_words(text), text) == words.split(" ")


@given(st.text())
def test_words_and_sentences_cover_all_but_white_space(text):
    for offsets in (split_words(text), split_sentences(text), split_sentences(text, lines=True)):
        end = 0
        for start, stop in offsets:
            assert start < stop
            assert not text[end:start].strip()
            end = stop
        assert not text[end:].strip()


# --- cues

SHORT = {"s": "negation:single", "a": "negation:affix", "m": "negation:multi", "M": "speculation:multi", "-": "O"}


@pytest.mark.parametrize(
    ("labels", "cues"),
    [
        ("---", ""),
        ("s-s", "single 0, single 2"),
        ("ss", "single 0, single 1"),
        ("-a", "affix 1"),
        ("mm-", "multi 0 1"),
        ("m-m-m", "multi 0 2 4"),
        ("mm-m-m", "multi 0 1, multi 3 5"),
        ("-m-", "single 1"),
        ("mMM", "single 0, speculation multi 1 2"),
    ],
)
def test_labels_become_cues(labels, cues):
    found = group_cues([SHORT[one] for one in labels])
    written = (" ".join([one.kind, one.type, *map(str, one.words)]).removeprefix("negation ") for one in found)
    assert ", ".join(written) == cues


AFFIXES = "(in)frequent (Un)happy care(less)ness hope(less)ly (il)legal (non)-smoker (ir)regular (a)typical (never) ()"


@pytest.mark.parametrize("marked", AFFIXES.split())
def test_affixes(marked):
    word, affix = marked.replace("(", "").replace(")", ""), marked[marked.index("(") + 1 : marked.index(")")]
    start, end = affix_offsets(word)
    assert word[start:end] == affix


def test_names_of_labels():
    assert CUE_LABELS[3:] == ("speculation:affix", "speculation:single", "speculation:multi")


# --- the pipeline


def notation(text, found):
    """Return the text with [cues] and {scopes} of one finding."""
    marks = []
    for spans, (opening, closing) in ((found["cue"], "[]"), (found["scope"], "{}")):
        assert all(text[span["start"] : span["end"]] == span["text"] for span in spans)
        marks += [(span["start"], True, opening) for span in spans] + [(span["end"], False, closing) for span in spans]
    for place, _, mark in sorted(marks, reverse=True):
        text = text[:place] + mark + text[place:]
    return text


def found_in(text, *, model=MODEL, tokenizer=TOKENIZER, **settings):
    return [(notation(text, one), one["kind"], one["type"]) for one in finder_of(model, tokenizer, **settings)(text)]


def test_cues_scopes_and_offsets():
    first, second, third = "He neither spoke nor moved.", "That is impossible!", "She may not know, I say."
    assert f"{first} {second}\n\n{third}" == TEXT
    assert found_in(TEXT) == [
        (f"He [neither] {{spoke [nor] moved.}} {second}\n\n{third}", "negation", "multi"),
        (f"{first} That is [im]possible{{!}}\n\n{third}", "negation", "affix"),
        (f"{first} {second}\n\nShe [may] {{not know, I say.}}", "speculation", "single"),
        (f"{first} {second}\n\nShe may [not] {{know, I say.}}", "negation", "single"),
    ]
    for one in finder_of()(TEXT):
        assert 0.5 < one["score"] <= 1
        assert 0.5 < one["scope_score"] <= 1
    assert finder_of()(TEXT)[0]["sentence"] == {"start": 0, "end": 27}


class AllButFirst(RuleModel):
    """Marks all but the first word as scope, also before the cue."""

    def forward(self, input_ids, **inputs):
        output = super().forward(input_ids, **inputs)
        if (input_ids == self.marker).any():
            output.logits[:] = output.logits.new_tensor([0, 4, *[0] * 6])
            output.logits[:, 1] = output.logits.new_tensor([4, *[0] * 7])
        return output


def test_scopes_have_gaps_and_the_rest_of_an_affix_word():
    found = found_in("He is unhappy , none", model=AllButFirst(TOKENIZER))
    assert [one for one, *_ in found] == ["He {is} [un]{happy , none}", "He {is unhappy , [none]}"]


@pytest.mark.parametrize("padding_side", ["right", "left"])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_batches_change_nothing(padding_side, batch_size):
    texts = [TEXT, "", "No. He is not it, nor may he be.", " \n", "none", "Yes"]
    alone = [finder_of()(text) for text in texts]
    assert [len(found) for found in alone] == [4, 0, 4, 0, 1, 0]
    tokenizer = tokenizer_of_words(padding_side)
    model = RuleModel(tokenizer)
    finder, rows = finder_of(model, tokenizer), Dataset.from_dict({"text": texts})
    for some in (texts, tuple(texts), iter(texts), map(str, texts), rows["text"], KeyDataset(rows, "text")):
        assert list(finder(some, batch_size=batch_size)) == alone
    assert max(model.batches) <= batch_size
    assert finder([]) == []


def test_ten_thousand_texts_are_read_one_by_one():
    read = []
    results = finder_of()((read.append(number) or "Not one." for number in range(10_000)), batch_size=4)
    assert len(next(iter(results))) == 1
    assert len(read) < 20


MARKED = {
    "He did [CUE] not go .": [("not", "single", "go .")],
    "[CUE]never was he here": [("never", "single", "was he here")],
    "it may be [CUE] neither old [CUE] nor new .": [("neither nor", "multi", "old nor new .")],
    "An [CUE:affix] unhappy man": [("un", "affix", "man")],
    "It is old. He may [CUE] not go.": [("not", "single", "go.")],
    "he left [CUE]": [],
}


@pytest.mark.parametrize(("text", "expected"), MARKED.items(), ids=MARKED)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_scope_of_a_marked_cue(text, expected, batch_size):
    def written(spans):
        assert all(text[span["start"] : span["end"]] == span["text"] for span in spans)
        return " ".join(span["text"] for span in spans).replace("[CUE] ", "")

    found = finder_of()([text, TEXT], batch_size=batch_size)[0]
    assert [(written(one["cue"]), one["type"], written(one["scope"])) for one in found] == expected
    assert all(one["kind"] == "negation" and one["score"] == 1 for one in found)


def test_a_long_sentence_is_cut_after_punctuation():
    tokenizer = tokenizer_of_words()
    model = RuleModel(tokenizer, positions=20)
    text = "one two three four , five six not seven , eight nine ten eleven twelve not last ."
    pieces = NegationFinder(model, tokenizer).pieces(text.split())
    assert [len(piece) for piece in pieces] == [10, 8]
    assert all(len(piece) <= 20 - 2 - MARKER_ROOM for piece in pieces)
    assert [one for one, *_ in found_in(text, model=model, tokenizer=tokenizer)] == [
        text.replace("not seven ,", "[not] {seven ,}"),
        text.replace("not last .", "[not] {last .}"),
    ]
    assert finder_of(model, tokenizer)(text)[1]["sentence"] == {"start": 0, "end": len(text)}


def test_lines_are_sentences_if_it_is_asked_for():
    text = "Fever: no\nCough: yes"
    assert found_in(text)[0][0] == "Fever: [no]\n{Cough: yes}"
    assert found_in(text, split_lines=True)[0][0] == "Fever: [no]\nCough: yes"


def labeled(*names):
    config = BertConfig(vocab_size=8, hidden_size=4, num_attention_heads=1, id2label=dict(enumerate(names)))
    return BertForTokenClassification(config)


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: finder_of()(None), ValueError, "None"),
        (lambda: finder_of()([3]), ValueError, "3.* text"),
        (lambda: finder_of()({"text": "a"}), ValueError, "list of texts"),
        (lambda: finder_of()("No.", split_words=True), TypeError, "split_words"),
        (lambda: finder_of(labeled("O", "B")), ValueError, "labels are O, B"),
        (lambda: finder_of(labeled(*SCOPE_LABELS))("He did not go."), ValueError, r"no cues.*\[CUE\]"),
        (lambda: finder_of(MODEL, AutoTokenizer.from_pretrained(tiny_backbone())), ValueError, "cue markers"),
    ],
    ids=["none", "number", "dict", "setting", "other labels", "no labels of cues", "other tokenizer"],
)
def test_what_cannot_be_searched_is_refused(run, error, message):
    with pytest.raises(error, match=message):
        run()


IN_ANOTHER_PROCESS = """
import json, sys
sys.path.insert(0, sys.argv[1])
from transformers import pipeline
for folder, text in zip(sys.argv[3:], [sys.argv[2]] * 4):
    finder = pipeline("negation", model=folder, trust_remote_code=True, device="cpu")
    print("found:", json.dumps(finder([text, "", "No."], batch_size=2)))
assert "hf_localattn" not in sys.modules
"""


@one_or_every_family
def test_a_model_finds_negations_with_and_without_the_package(names, tmp_path, monkeypatch):
    install_pipeline(tmp_path / "site", "en_tiny_for_negation", str(tiny_parser()))
    monkeypatch.syspath_prepend(tmp_path / "site")
    labels = dict(enumerate([*SCOPE_LABELS, *CUE_LABELS[:3]]))
    expected = {}
    for name in names:
        family, folder = FAMILIES[name], tmp_path / name
        model = family.heads["token-classification"].from_backbone(tiny_backbone(), id2label=labels)
        settings = {"parser": "en_tiny_for_negation"} if name == "sla-bert" else {}
        tokenizer = family.adapt_tokenizer(AutoTokenizer.from_pretrained(tiny_backbone()), model, **settings)
        add_cue_marker(tokenizer, model)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        assert "negation" in json.loads((folder / "config.json").read_text())["custom_pipelines"]
        assert verify_checkpoint(folder).is_equal
        expected[folder] = finder_of(str(folder), None)([TEXT, "", "No."], batch_size=2)
    done = run_fresh(IN_ANOTHER_PROCESS, tmp_path, tmp_path / "site", TEXT, *expected)
    found = [json.loads(line.removeprefix("found: ")) for line in done.stdout.splitlines() if line.startswith("found")]
    assert len(found) == len(names), done.stderr
    cues = lambda texts: [[negation["cue"] for negation in text] for text in texts]  # noqa: E731
    assert list(map(cues, found)) == list(map(cues, expected.values()))
    assert any(text for one in found for text in one)


def test_other_token_classifiers_do_not_name_the_pipeline(tmp_path):
    model = FAMILIES["cool"].heads["token-classification"].from_backbone(tiny_backbone(), num_labels=3)
    model.save_pretrained(tmp_path)
    assert "custom_pipelines" not in json.loads((tmp_path / "config.json").read_text())
    assert AutoModelForTokenClassification.from_pretrained(tmp_path).config.num_labels == 3
