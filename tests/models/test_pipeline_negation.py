"""The pipeline "negation": sentences, words, cues and scopes in raw text. That it travels is in test_pipelines.py."""

import re

import pandas as pd
import pytest
import torch
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForTokenClassification,
    PreTrainedTokenizerFast,
    pipeline,
)
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.pipelines.pt_utils import KeyDataset

from hf_localattn.models import negation_finder, negation_model
from hf_localattn.models.negation_conventions import is_cue, limit_scope, whole_cue
from hf_localattn.models.negation_labels import CUE_LABELS, SCOPE_LABELS, group_cues
from hf_localattn.models.negation_model import ModelLabeler
from hf_localattn.models.negation_text import affix_offsets, split_sentences, split_words
from hf_localattn.resources import tiny_backbone

NAMES = [*SCOPE_LABELS, *CUE_LABELS]
CUES = {
    **dict.fromkeys(["not", "no", "never", "n't", "none"], "negation:single"),
    **dict.fromkeys(["neither", "nor"], "negation:multi"),
    **dict.fromkeys(["unhappy", "impossible", "careless", "unable"], "negation:affix"),
    **dict.fromkeys(["may", "perhaps"], "speculation:single"),
}

INSIDE = ["indeed", "unhappy", "careless", "unable"]


def tokenizer_of_words(padding_side="right"):
    """A tokenizer that knows the words of `CUES`; each word is a token."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[CUE]", *CUES, INSIDE[0]]
    tokenizer = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {f"{token[1:-1].lower()}_token": token for token in pieces[:4]}
    options = {"padding_side": padding_side, "extra_special_tokens": ["[CUE]"], **special}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)


def config_of(*names, **fields):
    """The configuration of a random model of least size with these labels."""
    sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
    return BertConfig(**sizes, id2label=dict(enumerate(names)), **fields)


class RuleModel(BertForTokenClassification):
    """Labels the words of `CUES`. In an input with markers, those of `INSIDE` and all after the first marked one.

    Padding has the label of a cue, so a test fails if it is read.
    """

    @classmethod
    def of(cls, tokenizer, positions=512):
        model = cls(config_of(*NAMES, vocab_size=len(tokenizer), max_position_embeddings=positions))
        tokens, labels = tokenizer.convert_ids_to_tokens(range(len(tokenizer))), {**CUES, "[PAD]": "negation:single"}
        model.labels_of_tokens = torch.tensor([NAMES.index(labels.get(token, "O")) for token in tokens])
        model.marker, model.inside = tokens.index("[CUE]"), torch.tensor([tokens.index(word) for word in INSIDE])
        model.batches = []
        return model

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, return_dict=True):
        """Return logits (B, L, labels)."""
        self.batches.append(len(input_ids))
        markers = (input_ids == self.marker).int()
        after = markers.cumsum(dim=1).roll(2, dims=1).clamp(max=1)  # the marker and its word are outside
        after[:, :2] = 0
        scope = after.bool() | torch.isin(input_ids, self.inside)
        labels = torch.where(markers.any(dim=1, keepdim=True), scope.long(), self.labels_of_tokens[input_ids])
        return TokenClassifierOutput(logits=4.0 * torch.nn.functional.one_hot(labels, len(NAMES)))


TOKENIZER = tokenizer_of_words()
MODEL = RuleModel.of(TOKENIZER)
TEXT = "He neither spoke nor moved. That is impossible!\n\nShe may not know, I say."


def finder_of(model=MODEL, tokenizer=TOKENIZER, **settings):
    return pipeline("negation", model=model, tokenizer=tokenizer, device="cpu", **settings)


# --- sentences and words


SPLIT = {
    "Dr. Moran saw Mr. Holmes. No one else came.": "Dr. Moran saw Mr. Holmes . | No one else came .",
    "Was it you? No. It was J. Smith.": "Was it you ? | No . | It was J . Smith .",
    "He took no. 5 of No. 7 there. Then he left.": "He took no. 5 of No. 7 there . | Then he left .",
    '"Not I!" he said. "You?"': '" Not I ! " he said . | " You ? "',
    "At 3.5mg, or 1,000 times -- or ... in the U.S. army": "At 3.5mg , or 1,000 times -- or ... in the U.S. army",
    "Fever: no\nCough: yes": "Fever : no Cough : yes",
    "他不来。她来。": "他不来 。 | 她来 。",
    "She didn't go. He won\u2019t; I cannot, can't!": "She did n't go . | He wo n\u2019t ; I can not , ca n't !",
    "Mrs. Hudson's well-known no. 5": "Mrs. Hudson 's well-known no. 5",
    "two o'clock (e.g. now)": "two o'clock ( e.g. now )",
    "Ne\u0301e, cafe\u0301. \u0939\u093f\u0928!": "Ne\u0301e , cafe\u0301 . | \u0939\u093f\u0928 !",
    "I'll say they've gone": "I 'll say they 've gone",
    "Has hepatitis B. No fever.": "Has hepatitis B . | No fever .",
    "Low vitamin D. Denies pain.": "Low vitamin D . | Denies pain .",
    "Seen by J. No pain.": "Seen by J . | No pain .",
    "In the U.S. Army and the U.S. The end.": "In the U.S. Army and the U.S. | The end .",
    "Temp. 38.5. Pt. Moran slept. No chills.": "Temp . 38.5 . | Pt . Moran slept . | No chills .",
    "Abd. Soft. Resp. Clear.": "Abd . Soft . | Resp . Clear .",
    "1. No fever. 2. Age is 41. No pain.": "1 . No fever . | 2 . Age is 41 . | No pain .",
    "Diagnoses: 1. Gout.\n2. Not asthma.": "Diagnoses : 1 . Gout . | 2 . Not asthma .",
    "GCS: 15. No deficit. Given to pt. No pain.": "GCS : 15 . | No deficit . | Given to pt . | No pain .",
    "\n He left.  \n\nshe stayed \n": "He left . | she stayed",
    "": "",
}


@pytest.mark.parametrize("text", SPLIT)
def test_sentences_and_words(text):
    sentences = [text[start:end] for start, end in split_sentences(text)]
    words = [" ".join(one[start:end] for start, end in split_words(one)) for one in sentences]
    assert " | ".join(words) == SPLIT[text]


@given(st.text())
def test_words_and_sentences_cover_all_but_white_space(text):
    for offsets in (split_words(text), split_sentences(text), split_sentences(text, lines=True)):
        ends = [0, *(end for _, end in offsets)]
        starts = [*(start for start, _ in offsets), len(text)]
        assert all(start < end for start, end in offsets)
        assert not any(text[end:start].strip() or start < end for end, start in zip(ends, starts, strict=True))


# --- cues

SHORT = {"s": "negation:single", "a": "negation:affix", "m": "negation:multi", "M": "speculation:multi", "-": "O"}
GROUPS = {
    "---": "",
    "ss-s": "single 0, single 1, single 3",
    "-a": "affix 1",
    "mm-": "multi 0 1",
    "m-m-m": "multi 0 2 4",
    "mm-m-m": "multi 0 1, multi 3 5",
    "-m-": "single 1",
    "mMM": "single 0, speculation multi 1 2",
}


@pytest.mark.parametrize("labels", GROUPS)
def test_labels_become_cues(labels):
    found = group_cues([SHORT[one] for one in labels])
    written = (" ".join([one.kind, one.type, *map(str, one.words)]).removeprefix("negation ") for one in found)
    assert ", ".join(written) == GROUPS[labels]


AFFIXES = "(in)frequent (Un)happy care(less)ness hope(less)ly (il)legal (non)-smoker (ir)regular (a)typical (never) ()"


@pytest.mark.parametrize("marked", AFFIXES.split())
def test_affixes(marked):
    start, end = affix_offsets(marked.replace("(", "").replace(")", ""))
    assert (start, end) == (marked.index("("), marked.index(")") - 1)


# --- conventions

KEPT = {
    "papers": "",
    "reviews": "",
    "notes": "afebrile Non-tender",
    "stories": "afebrile Non-tender unhappy careless",
}


@pytest.mark.parametrize("convention", KEPT)
def test_affixes_count_by_convention(convention):
    words = KEPT["stories"].split()
    assert [word for word in words if is_cue(convention, "affix", word)] == KEPT[convention].split()
    assert is_cue(convention, "single", "not")


WHOLE = {  # cue of the model: cue of papers and notes
    "It could [not] grow": "It [could not] grow",
    "It can [not] grow": "It [can not] grow",
    "It did [not] grow": "It did [not] grow",
    "[Not] now": "[Not] now",
    "could [not only] grow": "could [not only] grow",
}


@pytest.mark.parametrize("marked", WHOLE)
def test_cannot_and_could_not_are_whole_by_convention(marked):
    words = re.sub(r"[\[\]]", "", marked).split()
    cue, whole = (
        tuple(range(*(len(part.split()) for part in (before, before + inside))))
        for before, inside, _ in (re.split(r"[\[\]]", text) for text in (marked, WHOLE[marked]))
    )
    cue_types = ["single" if len(places) == 1 else "multi" for places in (cue, whole)]
    for convention in ("stories", "reviews"):
        assert whole_cue(convention, cue_types[0], words, cue) == (cue_types[0], cue)
    for convention in ("papers", "notes"):
        assert whole_cue(convention, cue_types[0], words, cue) == (cue_types[1], whole)


def test_unable_is_a_word_by_convention_and_not_in_its_scope():
    assert found_in("She is unable to go .") == ["affix: She is [un]{able to go .}"]
    for convention in ("papers", "reviews", "notes"):
        assert found_in("She is unable to go .", convention=convention) == ["single: She is [unable] {to go .}"]


LIMITED = {  # (words) stay in scope only by the convention "stories"
    "(he did) [not] {go home}": "active",
    "(it) {does} [n't] {even work}": "the auxiliary of n't",
    "(the film is) [not] {good}": "predicate",
    "{the gene was} [not] {found in flies}": "passive",
    "{they have} [never] {been clearly shown}": "passive, later",
    "{data} [not] {shown}": "passive, short",
    "{appendicitis was} [ruled out] {by CT}": "the cue is the predicate",
    "{fever} [absent] {overnight}": "the cue is the predicate, without a verb",
    "{syphilis} [excluded] {by RPR}": "passive, without an auxiliary",
    "(she) [denies] {any pain}": "active verb",
    "{fever :} [none] .": "nothing to the right",
    "{MRSA screen} [negative] {.}": "only punctuation to the right",
    "(Afib) [not] {on anticoagulation}": "no verb",
}


@pytest.mark.parametrize("marked", LIMITED, ids=LIMITED.values())
def test_the_subject_is_outside_by_convention(marked):
    words, cue, scope, kept = [], [], [], []
    for part in re.findall(r"[\[{(].*?[\]})]|\S+", marked):
        for word in part.strip("[]{}()").split():
            words.append(word)
            cue += [len(words) - 1] if part[0] == "[" else []
            scope.append(part[0] in "{(")
            kept.append(part[0] == "{")
    for convention in ("papers", "reviews", "notes"):
        assert limit_scope(convention, words, cue, scope) == kept
    assert limit_scope("stories", words, cue, scope) == scope


def test_a_convention_is_a_setting_of_the_pipeline_and_of_a_call():
    text = "He indeed may go , unhappy ."
    subject, affix = (
        "speculation single: He {indeed} [may] {go , unhappy .}",
        "affix: He {indeed} may go , [un]{happy .}",
    )
    assert found_in(text) == found_in(text, convention="stories") == [subject, affix]
    for convention in ("papers", "notes"):
        limited = [subject.replace("{indeed}", "indeed")]
        assert found_in(text, convention=convention) == limited
        assert [written(text, one) for one in finder_of()(text, convention=convention)] == limited


# --- the pipeline


def written(text, found):
    """Return the sentence of a finding with its [cues] and {scopes}, and what kind of cue it is."""
    marks, (begin, stop) = [], found["sentence"].values()
    for name, (opening, closing) in (("cue", "[]"), ("scope", "{}")):  # a cue at the border of a scope is inside
        for span in found[name]:
            assert text[span["start"] : span["end"]] == span["text"]
            marks += [(span["start"], True, name == "cue", opening), (span["end"], False, name == "scope", closing)]
    sentence = text[:stop]
    for place, *_, mark in sorted(marks, reverse=True):
        sentence = sentence[:place] + mark + sentence[place:]
    return f"{found['kind']} {found['type']}: {sentence[begin:]}".replace("negation ", "")


def found_in(text, *, model=MODEL, tokenizer=TOKENIZER, **settings):
    return [written(text, one) for one in finder_of(model, tokenizer, **settings)(text)]


FOUND = {
    TEXT: [
        "multi: He [neither] {spoke} [nor] {moved.}",
        "affix: That is [im]possible{!}",
        "speculation single: She [may] {not know, I say.}",
        "single: She may [not] {know, I say.}",
    ],
    "He did [CUE] not go .": ["single: He did [CUE] [not] {go .}"],
    "[CUE]never was he here": ["single: [CUE][never] {was he here}"],
    "[CUE] not now": ["single: [CUE] [not] {now}"],
    "It is old. [CUE:single]\n Not now.": ["single: [CUE:single]\n [Not] {now.}"],
    "[CUE] [CUE] no pain. It is old.": ["single: [CUE] [CUE] [no] {pain.}"],
    "It is old. [CUE] \n\n[CUE]": [],
    "it may be [CUE] neither old [CUE] nor new .": ["multi: it may be [CUE] [neither] {old} [CUE] [nor] {new .}"],
    "An [CUE:affix] unhappy man": ["affix: An [CUE:affix] [un]{happy man}"],
    "He is careless .": ["affix: He is {care}[less] {.}"],
    "It is old. He may [CUE] not go.": ["single: He may [CUE] [not] {go.}"],
    "he left [CUE]": [],
    "He indeed is unhappy , none": [
        "affix: He {indeed} is [un]{happy , none}",
        "single: He {indeed} is {unhappy} , [none]",
    ],
}


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize(("text", "expected"), FOUND.items(), ids=FOUND)
def test_cues_and_scopes(text, expected, batch_size):
    """Cues that are found, or that the text marks."""
    found = finder_of()([text, TEXT], batch_size=batch_size)[0]
    assert [written(text, one) for one in found] == expected
    for one in found:
        assert one["score"] == 1 if "[CUE" in text else 0.5 < one["score"] < 1
        assert 0.5 < one["scope_score"] <= 1


@pytest.mark.parametrize(
    ("words", "sizes"), [("a b c d", [4]), ("a b c d e f g h i", [4, 4, 1]), ("a b , d e", [3, 2])]
)
def test_a_sentence_is_cut_where_its_piece_is_full_or_after_punctuation(words, sizes):
    assert [*map(len, ModelLabeler(MODEL, TOKENIZER, max_length=10).pieces(words.split(), 160))] == sizes


@pytest.mark.parametrize("padding_side", ["right", "left"])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_batches_change_nothing(padding_side, batch_size):
    texts = [TEXT, "", "No. He is not it, nor may he be.", " \n", "none", "Yes"]
    alone = [finder_of()(text) for text in texts]
    assert [len(found) for found in alone] == [4, 0, 4, 0, 1, 0]
    tokenizer = tokenizer_of_words(padding_side)
    model = RuleModel.of(tokenizer)
    finder, rows = finder_of(model, tokenizer), Dataset.from_dict({"text": texts})
    for some in (texts, tuple(texts), map(str, texts), rows["text"], KeyDataset(rows, "text")):
        assert list(finder(some, batch_size=batch_size)) == alone
    assert finder([]) == []


def test_forward_passes_are_small(monkeypatch):
    """Sentences of many texts run together, with a bound on their tokens and padding."""
    monkeypatch.setattr(negation_model, "TOKENS_ON_CPU", 16)
    monkeypatch.setattr(negation_finder, "SENTENCES_AT_A_TIME", 5)
    model = RuleModel.of(TOKENIZER)
    assert [*map(len, finder_of(model)(["Yes", "He came to the house"] * 4))] == [0] * 8
    assert model.batches == [3, 2, 2, 1]  # windows of 3 + 2 and of 2 + 1 sentences, by length


def test_a_long_sentence_is_cut_after_punctuation():
    """The model has 20 positions, of which 2 are for special tokens and 8 for markers."""
    model = RuleModel.of(TOKENIZER, positions=20)
    start, *cut = "one two three four , five six ", "not seven , ", "eight nine ten eleven twelve ", "not last ."
    marked = start + "seven , " + cut[1] + "[CUE] " + cut[2]
    assert found_in(start + "".join(cut), model=model) == [
        f"single: {start}[not] {{seven ,}} {cut[1]}not last .",
        f"single: {start}{cut[0]}{cut[1]}[not] {{last .}}",
    ]
    assert found_in(marked, model=model) == [f"single: {marked.replace('not last .', '[not] {last .}')}"]


def test_lines_are_sentences_if_it_is_asked_for():
    text = "Fever: no\nCough: yes"
    assert found_in(text) == ["single: Fever: [no]\n{Cough: yes}"]
    assert found_in(text, split_lines=True) == ["single: Fever: [no]"]


def labeled(*names):
    return BertForTokenClassification(config_of(*names))


OTHER = AutoTokenizer.from_pretrained(tiny_backbone())
REFUSED = {
    "none": (lambda: finder_of()(None), ValueError, "None"),
    "number": (lambda: finder_of()([3]), ValueError, "3.* text"),
    "dict": (lambda: finder_of()({"text": "a"}), ValueError, "list"),
    "a table": (lambda: finder_of()(pd.DataFrame({"note": ["No."]})), ValueError, "DataFrame.*column"),
    "convention": (lambda: finder_of(convention="note"), ValueError, "note"),
    "convention of a call": (lambda: finder_of()("No.", convention=3), ValueError, "convention"),
    "setting": (lambda: finder_of()("No.", split_words=True), TypeError, "split_words"),
    "other labels": (lambda: finder_of(labeled("O", "B")), ValueError, "labels are O, B"),
    "no labels of cues": (lambda: finder_of(labeled(*SCOPE_LABELS))("No."), ValueError, r"no cues.*\[CUE\]"),
    "other tokenizer": (lambda: finder_of(MODEL, OTHER), ValueError, "cue markers"),
}


@pytest.mark.parametrize(("run", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_searched_is_refused(run, error, message):
    with pytest.raises(error, match=message):
        run()
