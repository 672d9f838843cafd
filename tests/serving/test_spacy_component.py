"""The spaCy component `hf_localattn_negation`: extensions, batches, saving, and bad input."""

import subprocess

import pytest
import spacy
from spacy.tokens import Span

import hf_localattn.serving.spacy_component as component
import hf_localattn_spacy
from tests.fresh_process import bare_python
from tests.models.test_pipeline_negation import RuleModel, tokenizer_of_words
from tests.script_helpers import ROOT

TEXT = "There is no fever. It may be asthma, she says. Asthma never was."


@pytest.fixture
def checkpoint(monkeypatch):
    """A checkpoint whose predictions are known."""
    tokenizer = tokenizer_of_words()
    model = RuleModel.of(tokenizer)
    monkeypatch.setattr(component.AutoModelForTokenClassification, "from_pretrained", lambda name, revision: model)
    monkeypatch.setattr(component.AutoTokenizer, "from_pretrained", lambda name, revision: tokenizer)
    return {"model": "owner/rules"}


def pipeline_of(config, sentences=True):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": "PROBLEM", "pattern": [{"LOWER": word}]} for word in ("fever", "asthma")]
    )
    if sentences:
        nlp.add_pipe("sentencizer")
    nlp.add_pipe("hf_localattn_negation", config=config)
    return nlp


@pytest.mark.parametrize("sentences", [True, False])
def test_entities_spans_and_tokens_know_if_they_are_negated(checkpoint, sentences):
    doc = pipeline_of(checkpoint, sentences)(TEXT)
    assert [(one["kind"], [doc[i].text for i in one["cue"]]) for one in doc._.negations] == [
        ("negation", ["no"]),
        ("speculation", ["may"]),
        ("negation", ["never"]),
    ]
    assert [doc[i].text for i in doc._.negations[0]["scope"]] == ["fever", "."]
    assert [(entity.text, entity._.negex) for entity in doc.ents] == [
        ("fever", True),
        ("asthma", False),
        ("Asthma", False),
    ]
    assert {token.text for token in doc if token._.negation_scope} == {"fever", ".", "was"}
    assert {token.text for token in doc if token._.speculation_scope} == {"be", "asthma", ",", "she", "says", "."}
    assert doc[3:5]._.negated
    assert doc[2:4]._.negated is False  # the cue "no" is in the span
    assert not doc[:4]._.negated
    assert not Span(doc, 0, 0)._.negated


def test_batches_of_documents_give_the_same(checkpoint):
    nlp = pipeline_of({**checkpoint, "batch_size": 2, "ent_attribute": "is_negated"})
    texts = [TEXT, "", "None. ", "No asthma", " \n "]
    alone = [nlp(text) for text in texts]
    together = list(nlp.pipe(texts, batch_size=3))
    assert [doc._.negations for doc in together] == [doc._.negations for doc in alone]
    assert [len(doc._.negations) for doc in together] == [3, 0, 1, 1, 0]
    assert together[3].ents[0]._.is_negated


def test_sentences_may_end_inside_tokens_and_a_second_run_marks_anew(checkpoint):
    nlp = pipeline_of(checkpoint, sentences=False)
    doc = nlp("\u4ed6\u4e0d\u6765\u3002\u5979\u6765\u3002\u4ed6\u4e0d\u53bb\u3002 There is no fever.")
    assert [token.text for token in doc if token._.negation_scope] == ["fever", "."]
    nlp.get_pipe("hf_localattn_negation").finder.find = lambda sentences: [[] for _ in sentences]
    doc = nlp.get_pipe("hf_localattn_negation")(doc)
    assert not any(token._.negation_scope for token in doc)


def test_a_pipeline_is_saved_and_loaded(checkpoint, tmp_path):
    nlp = pipeline_of(checkpoint)
    nlp.to_disk(tmp_path / "saved")
    loaded = spacy.load(tmp_path / "saved")
    assert loaded(TEXT)._.negations == nlp(TEXT)._.negations
    assert loaded.get_pipe("hf_localattn_negation").ent_attribute == "negex"
    assert spacy.blank("en").from_bytes(spacy.blank("en").to_bytes()).pipe_names == []


def test_the_checkpoint_must_be_given():
    with pytest.raises(ValueError, match=r'Give the checkpoint: nlp.add_pipe\("hf_localattn_negation", config='):
        spacy.blank("en").add_pipe("hf_localattn_negation")


def test_loading_a_spacy_pipeline_does_not_import_transformers():
    """spaCy imports the modules of all entry points."""
    assert hf_localattn_spacy.FACTORY == "hf_localattn_negation"
    program = "import sys, hf_localattn_spacy; print(*{'hf_localattn', 'transformers'} & {*sys.modules})"
    done = subprocess.run([*bare_python(), "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
