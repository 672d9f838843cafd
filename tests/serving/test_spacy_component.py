"""The spaCy component `hf_localattn_negation`: extensions, batches, saving, and bad input."""

import ast
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Span

import hf_localattn.serving.spacy_component as component
import hf_localattn_spacy
from tests.models.test_pipeline_negation import TOKENIZER, RuleModel

FACTORY = "hf_localattn_negation"
TEXT = "There is no fever. It may be asthma, she says. Asthma never was."


@pytest.fixture(autouse=True)
def checkpoint(monkeypatch):
    """Any checkpoint has known predictions."""
    model = RuleModel.of(TOKENIZER)
    monkeypatch.setattr(component.AutoModelForTokenClassification, "from_pretrained", lambda name, revision: model)
    monkeypatch.setattr(component.AutoTokenizer, "from_pretrained", lambda name, revision: TOKENIZER)


def pipeline_of(sentences=True, **config):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": "PROBLEM", "pattern": [{"LOWER": word}]} for word in ("fever", "asthma")]
    )
    if sentences:
        nlp.add_pipe("sentencizer")
    nlp.add_pipe(FACTORY, config={"model": "owner/rules", **config})
    return nlp


@pytest.mark.parametrize("sentences", [True, False])
def test_entities_spans_and_tokens_know_if_they_are_negated(sentences):
    doc = pipeline_of(sentences)(TEXT)
    found = [(one["kind"], *(doc[i].text for i in one["cue"])) for one in doc._.negations]
    assert found == [("negation", "no"), ("speculation", "may"), ("negation", "never")]
    assert [doc[i].text for i in doc._.negations[0]["scope"]] == ["fever", "."]
    assert [(one.text, one._.negex) for one in doc.ents] == [("fever", True), ("asthma", False), ("Asthma", False)]
    assert {token.text for token in doc if token._.negation_scope} == {"fever", ".", "was"}
    assert {token.text for token in doc if token._.speculation_scope} == {"be", "asthma", ",", "she", "says", "."}
    assert doc[3:5]._.negated
    assert doc[2:4]._.negated is False  # the cue "no" is in the span
    assert not doc[:4]._.negated
    assert not Span(doc, 0, 0)._.negated


def test_batches_of_documents_give_the_same():
    nlp = pipeline_of(ent_attribute="is_negated")
    texts = [TEXT, "", "None. ", "No asthma", " \n "]
    together = list(nlp.pipe(texts, batch_size=3))
    assert [doc._.negations for doc in together] == [nlp(text)._.negations for text in texts]
    assert [len(doc._.negations) for doc in together] == [3, 0, 1, 1, 0]
    assert together[3].ents[0]._.is_negated


def test_sentences_may_end_inside_tokens_and_a_second_run_marks_anew():
    nlp = pipeline_of(sentences=False)
    doc = nlp("\u4ed6\u4e0d\u6765\u3002\u5979\u6765\u3002\u4ed6\u4e0d\u53bb\u3002 There is no fever.")
    assert [token.text for token in doc if token._.negation_scope] == ["fever", "."]
    nlp.get_pipe(FACTORY).finder.find = lambda sentences: [[] for _ in sentences]
    assert not any(token._.negation_scope for token in nlp.get_pipe(FACTORY)(doc))


def test_a_pipeline_is_saved_and_loaded_and_needs_a_checkpoint(tmp_path):
    nlp = pipeline_of()
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded(TEXT)._.negations == nlp(TEXT)._.negations
    assert loaded.get_pipe(FACTORY).ent_attribute == "negex"
    with pytest.raises(ValueError, match="Give the checkpoint"):
        spacy.blank("en").add_pipe(FACTORY)


def test_loading_a_spacy_pipeline_does_not_import_transformers():
    """spaCy imports the modules of all entry points."""
    nodes = ast.parse(Path(hf_localattn_spacy.__file__).read_text()).body
    imported = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imported == ["from typing import TYPE_CHECKING", "from spacy.language import Language"]
