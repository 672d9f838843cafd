"""The pipeline "negation": cues and scopes in raw text, and that it travels with every checkpoint."""

import json

import pytest
from datasets import Dataset
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertConfig,
    BertForTokenClassification,
    pipeline,
)
from transformers.pipelines.pt_utils import KeyDataset

from hf_localattn.hub.verify import verify_checkpoint
from hf_localattn.models.negation_finder import CUE_LABELS, MARKER_ROOM, SCOPE_LABELS, NegationFinder
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone, tiny_parser
from hf_localattn.tasks.negation import add_cue_marker
from tests.fresh_process import run_fresh
from tests.models.tiny import one_or_every_family
from tests.negation_helpers import RuleModel, tokenizer_of_words
from tests.parsers import install_pipeline

TOKENIZER = tokenizer_of_words()
MODEL = RuleModel(TOKENIZER)
TEXT = "He neither spoke nor moved. That is impossible!\n\nShe may not know, I say."


def finder_of(model=MODEL, tokenizer=TOKENIZER, **settings):
    return pipeline("negation", model=model, tokenizer=tokenizer, device="cpu", **settings)


def words(text, *parts):
    """The spans of words in a text, in order."""
    spans, end = [], 0
    for part in parts:
        start = text.index(part, end)
        end = start + len(part)
        spans.append({"text": part, "start": start, "end": end})
    return spans


def test_cues_scopes_and_offsets():
    neither, impossible, may, no = finder_of()(TEXT)
    assert neither["cue"] == words(TEXT, "neither", "nor")
    assert (neither["kind"], neither["type"]) == ("negation", "multi")
    assert neither["scope"] == words(TEXT, "spoke nor moved.")
    assert neither["sentence"] == {"start": 0, "end": 27}
    assert impossible["cue"] == words(TEXT, "im")
    assert (impossible["type"], impossible["scope"]) == ("affix", words(TEXT, "!"))
    assert (may["kind"], may["type"], may["cue"]) == ("speculation", "single", words(TEXT, "may"))
    assert no["cue"] == words(TEXT, "not")
    assert no["scope"] == words(TEXT, "know, I say.")
    for one in (neither, impossible, may, no):
        assert 0.5 < one["score"] <= 1
        assert 0.5 < one["scope_score"] <= 1


def test_scopes_have_gaps_and_the_rest_of_an_affix_word():
    """The scope of a cue that is not in the first place, by a model that marks all but the first word."""

    class AllButFirst(RuleModel):
        def forward(self, input_ids, **inputs):
            output = super().forward(input_ids, **inputs)
            if (input_ids == self.marker).any():
                output.logits[:] = output.logits.new_tensor([0, 4, *[0] * 6])
                output.logits[:, 1] = output.logits.new_tensor([4, *[0] * 7])
            return output

    text = "He is unhappy , none"
    unhappy, none = finder_of(AllButFirst(TOKENIZER))(text)
    assert unhappy["cue"] == words(text, "un")
    assert unhappy["scope"] == words(text, "is", "happy , none")
    assert none["scope"] == words(text, "is unhappy , none")


@pytest.mark.parametrize("padding_side", ["right", "left"])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_batches_change_nothing(padding_side, batch_size):
    texts = [TEXT, "", "No. He is not it, nor may he be.", " \n", "none", "Yes"]
    finder = finder_of()
    alone = [finder(text) for text in texts]
    assert [len(found) for found in alone] == [4, 0, 4, 0, 1, 0]
    tokenizer = tokenizer_of_words(padding_side)
    model = RuleModel(tokenizer)
    assert finder_of(model, tokenizer)(texts, batch_size=batch_size) == alone
    assert max(model.batches) <= batch_size
    assert list(finder_of(model, tokenizer)((text for text in texts), batch_size=batch_size)) == alone
    assert finder([]) == []
    for given in (tuple(texts), iter(texts), map(str, texts), Dataset.from_dict({"text": texts})["text"]):
        assert list(finder_of(model, tokenizer)(given, batch_size=batch_size)) == alone
    rows = KeyDataset(Dataset.from_dict({"text": texts}), "text")
    assert list(finder_of(model, tokenizer)(rows, batch_size=batch_size)) == alone


def test_ten_thousand_texts_are_read_one_by_one():
    read = []

    def texts():
        for number in range(10_000):
            read.append(number)
            yield "Not one."

    results = finder_of()(texts(), batch_size=4)
    assert len(next(iter(results))) == 1
    assert len(read) < 20


MARKED = {
    "He did [CUE] not go .": [(("not", "single"), "go .")],
    "[CUE]never was he here": [(("never", "single"), "was he here")],
    "it may be [CUE] neither old [CUE] nor new .": [(("neither nor", "multi"), "old nor new .")],
    "An [CUE:affix] unhappy man": [(("un", "affix"), "man")],
    "It is old. He may [CUE] not go.": [(("not", "single"), "go.")],
    "he left [CUE]": [],
}


@pytest.mark.parametrize(("text", "expected"), MARKED.items(), ids=MARKED)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_scope_of_a_marked_cue(text, expected, batch_size):
    def one_by_one(spans):
        assert all(text[span["start"] : span["end"]] == span["text"] for span in spans)
        return " ".join(span["text"] for span in spans).replace("[CUE] ", "")

    found = finder_of()([text, TEXT], batch_size=batch_size)[0]
    assert [((one_by_one(one["cue"]), one["type"]), one_by_one(one["scope"])) for one in found] == expected
    assert all(one["kind"] == "negation" and one["score"] == 1 for one in found)


def test_a_long_sentence_is_cut_after_punctuation():
    tokenizer = tokenizer_of_words()
    model = RuleModel(tokenizer, positions=20)
    text = "one two three four , five six not seven , eight nine ten eleven twelve not last ."
    finder = NegationFinder(model, tokenizer)
    pieces = finder.pieces(text.split())
    assert [len(piece) for piece in pieces] == [10, 8]
    assert all(len(piece) <= 20 - 2 - MARKER_ROOM for piece in pieces)
    first, second = finder_of(model, tokenizer)(text)
    assert first["scope"] == words(text, "seven ,")
    assert second["cue"] == [{"text": "not", "start": 71, "end": 74}]
    assert second["scope"] == words(text, "last .")
    assert second["sentence"] == {"start": 0, "end": len(text)}


def test_lines_are_sentences_if_it_is_asked_for():
    text = "Fever: no\nCough: yes"
    assert finder_of()(text)[0]["scope"] == words(text, "Cough: yes")
    assert finder_of(split_lines=True)(text)[0]["scope"] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "The input is None; give a text"),
        ([3], "The input is 3; it must be a text"),
        ({"text": "a"}, "give a text, a list of texts or an iterator"),
    ],
)
def test_inputs_that_are_no_raw_text(text, message):
    with pytest.raises(ValueError, match=message):
        finder_of()(text)


def test_models_and_tokenizers_for_other_tasks():
    def labeled(*names):
        config = BertConfig(vocab_size=8, hidden_size=4, num_attention_heads=1, id2label=dict(enumerate(names)))
        return BertForTokenClassification(config)

    with pytest.raises(ValueError, match=r"does not predict scopes: its labels are O, B\. Train it with"):
        finder_of(labeled("O", "B"))
    with pytest.raises(ValueError, match=r"finds no cues: mark the cue in the text with \[CUE\]"):
        finder_of(labeled(*SCOPE_LABELS))("He did not go.")
    with pytest.raises(ValueError, match="no fast tokenizer with cue markers"):
        finder_of(MODEL, AutoTokenizer.from_pretrained(tiny_backbone()))
    with pytest.raises(TypeError, match="split_words"):
        finder_of()("No.", split_words=True)


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
    for one, other in zip(found, expected.values(), strict=True):
        assert [[negation["cue"] for negation in text] for text in one] == [
            [negation["cue"] for negation in text] for text in other
        ]
    assert any(text for one in found for text in one)


def test_other_token_classifiers_do_not_name_the_pipeline(tmp_path):
    model = FAMILIES["cool"].heads["token-classification"].from_backbone(tiny_backbone(), num_labels=3)
    model.save_pretrained(tmp_path)
    assert "custom_pipelines" not in json.loads((tmp_path / "config.json").read_text())
    assert AutoModelForTokenClassification.from_pretrained(tmp_path).config.num_labels == 3
