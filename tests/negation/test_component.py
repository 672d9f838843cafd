"""The spaCy component `hf_localattn_negation`: extensions, batches, saving, and bad input."""

import ast
import os
import pickle
import subprocess
from functools import partial
from pathlib import Path

import pytest
import spacy
from spacy.lang.en import English
from spacy.tokens import Doc, Span

import hf_localattn.negation.component as component
import hf_localattn_spacy
from hf_localattn.bundled import negation_model
from hf_localattn.models.negation_model import ModelLabeler
from hf_localattn.models.negation_reading import Reading
from hf_localattn.negation import decide
from hf_localattn.negation.component import displacy_spans
from hf_localattn.negation.texts import Finder
from tests.fresh_process import bare_python
from tests.models.test_pipeline_negation import TOKENIZER, RuleModel

FACTORY = "hf_localattn_negation"
TEXT = "There is no fever. It may be asthma, she says. Asthma never was."


@pytest.fixture(autouse=True)
def checkpoint(monkeypatch):
    """Any checkpoint has known predictions."""
    load = component.load_labeler
    known = {"owner/rules": lambda **settings: ModelLabeler(RuleModel.of(TOKENIZER), TOKENIZER)}
    monkeypatch.setattr(component, "load_labeler", lambda name, **rest: known.get(name, partial(load, name))(**rest))


BLANK = spacy.blank("en")


def pipeline_of(sentences=True, **config):
    nlp = English(BLANK.vocab, create_tokenizer=lambda nlp: BLANK.tokenizer)  # making a tokenizer takes long
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": "PROBLEM", "pattern": [{"LOWER": word}]} for word in ("fever", "asthma")]
    )
    if sentences:
        nlp.add_pipe("sentencizer")
    nlp.add_pipe(FACTORY, config={"model": "owner/rules", "convention": "stories", **config})
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


def test_overlapping_spans_of_a_group_have_answers_of_their_own():
    doc = pipeline_of()(TEXT)
    doc.spans["all"] = [doc[3:4], doc[3:5], doc[2:5], doc[3:8], doc[3:4]]
    assert [span._.negated for span in doc.spans["all"]] == [True, True, False, False, True]


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
    nlp.get_pipe(FACTORY).finder.finder.find = lambda sentences, reading, marked: [[] for _ in sentences]
    assert not any(token._.negation_scope for token in nlp.get_pipe(FACTORY)(doc))


@pytest.fixture
def of_entities():
    """A function that makes a document whose entities are in <>, and returns them by their text."""

    def entities(marked, **config):
        nlp = pipeline_of(**config)
        words = marked.replace("<", "").replace(">", "").split()
        doc = Doc(nlp.vocab, words)
        starts = [index for index, word in enumerate(marked.split()) if word.startswith("<")]
        ends = [index + 1 for index, word in enumerate(marked.split()) if word.endswith(">")]
        doc.ents = [Span(doc, start, end, "PROBLEM") for start, end in zip(starts, ends, strict=True)]
        for name in ("sentencizer", FACTORY):
            doc = nlp.get_pipe(name)(doc)
        return doc.ents

    return entities


CUES = {
    "no <fever>": ["no"],
    "<no fever>": ["no"],
    "<fever> no": [None],
    "<none>": [None],
    "<unhappy> face": [None],
    "neither <fever> nor <chronic asthma>": ["neither", "nor"],
    "he may have <fever> . no <asthma> may go": [None, "no"],
}


@pytest.mark.parametrize("marked", CUES)
def test_an_entity_knows_the_cue_that_negates_it(marked, of_entities):
    entities = of_entities(marked)
    assert [cue and cue.text for cue in (one._.negation_cue for one in entities)] == CUES[marked]
    assert [one._.negex for one in entities] == [cue is not None for cue in CUES[marked]]
    assert [one._.uncertain for one in entities] == ["may have" in marked, False][: len(entities)]


def test_an_entity_that_holds_its_cue_is_negated_unless_the_prefix_is_off(of_entities):
    (entity,) = of_entities("<no fever>", chunk_prefix=False)
    assert not entity._.negex
    assert entity._.negation_cue is None


def test_the_convention_is_that_of_notes(of_entities):
    (indeed,) = of_entities("<indeed> it never was", convention="notes")
    assert not indeed._.negex


def test_the_packages_own_model_is_the_default(caplog):
    nlp = pipeline_of(model=None)
    doc = nlp(TEXT)
    assert doc.ents[0]._.negex
    assert not caplog.records
    assert all(not doc.ents for doc in nlp.pipe(["Kein Husten und keine Schmerzen."] * 2))
    assert ["English" in record.message for record in caplog.records] == [True]


@pytest.mark.parametrize("name", ["my-negatoin", "models/my-negatoin/", "models/new/my-negatoin", "./my-negatoin"])
def test_a_mistyped_folder_is_refused_before_any_request(name):
    with pytest.raises(FileNotFoundError, match="my-negatoin"):
        component.NegationComponent(name)


def test_a_pipeline_and_its_documents_are_saved_and_loaded(tmp_path):
    nlp = pipeline_of()
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded(TEXT)._.negations == nlp(TEXT)._.negations
    assert loaded.get_pipe(FACTORY).ent_attribute == "negex"
    doc = Doc(nlp.vocab).from_bytes(nlp(TEXT).to_bytes())
    assert [str(one._.negation_cue) for one in doc.ents] == ["no", "None", "None"]


def entities_of(doc):
    return [(one.text, one._.negex, one._.uncertain, one._.negation_cue_tokens) for one in doc.ents]


def merged(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[2:4])
    return doc


REST = [("asthma", False, True, None), ("Asthma", False, False, None)]
CHANGED = {
    "merged": (
        merged,
        [("no fever", True, False, [2]), ("asthma", False, True, None), ("Asthma", False, False, None)],
    ),
    "sliced": (lambda doc: doc[5:9].as_doc(copy_user_data=True), [("asthma", False, True, None)]),
    "cut": (lambda doc: doc[3:5].as_doc(copy_user_data=True), [("fever", True, False, [])]),
    "without data": (lambda doc: doc[5:9].as_doc(), [("asthma", None, None, None)]),
    "joined": (lambda doc: Doc.from_docs([doc[5:9].as_doc(), doc])[4:].as_doc(copy_user_data=True), None),
    "bytes": (lambda doc: Doc(doc.vocab).from_bytes(doc.to_bytes()), None),
    "pickled": (lambda doc: pickle.loads(pickle.dumps(doc)), None),
}


def test_a_cue_that_was_cut_off_is_none_in_a_joined_document():
    doc = pipeline_of()(TEXT)
    joined = Doc.from_docs([doc[5:9].as_doc(copy_user_data=True), doc[3:5].as_doc(copy_user_data=True)])
    fever = joined.ents[-1]
    assert (fever.text, fever._.negex, fever._.negation_cue, fever._.negation_cue_tokens) == ("fever", True, None, [])


@pytest.mark.parametrize(("change", "expected"), CHANGED.values(), ids=CHANGED)
def test_what_spacy_does_to_documents_changes_no_answer(change, expected):
    doc = pipeline_of()(TEXT)
    if expected is not None and expected[0][0] == "no fever":
        doc.ents = [Span(doc, 2, 4, "PROBLEM"), *doc.ents[1:]]
        pipeline_of(convention="stories").get_pipe(FACTORY)(doc)
    before = entities_of(doc)
    changed = change(doc)
    assert entities_of(changed) == (before if expected is None else expected)
    in_scope = {token.text for token in changed if token._.negation_scope}
    assert in_scope <= {"fever", ".", "was", "no fever"}
    assert all(max(one["cue"] + one["scope"]) < len(changed) for one in changed._.negations)


def test_spans_for_displacy():
    shown = displacy_spans(pipeline_of()("There is no fever."))
    assert shown["spans"] == [
        {"start_token": 2, "end_token": 3, "label": "NEGATION"},
        {"start_token": 3, "end_token": 5, "label": "SCOPE"},
    ]
    assert "SCOPE" in spacy.displacy.render(shown, style="span", manual=True, jupyter=False)


def test_a_score_says_how_sure_the_answer_is():
    doc = pipeline_of()(TEXT)
    fever, _, asthma = (one._.negation_score for one in doc.ents)
    assert asthma < 0.5 < fever < 1


def test_a_users_terms_are_cues_or_none():
    nlp = pipeline_of(terms={"negation": ["rid of"], "ignore": ["not only"]})
    doc = nlp("She is rid of fever. He has not only asthma.")
    assert [one._.negex for one in doc.ents] == [True, False]


@pytest.mark.parametrize("batch_size", [1, 2])
def test_notes_in_lines_are_read_as_by_the_finder(batch_size):
    notes = ["Fever: no\nAsthma: yes", "She is not well.\nAsthma", "[ ] fever [x] asthma", "no fever,\nasthma"]
    nlp = pipeline_of(convention="notes")
    find = Finder(ModelLabeler(RuleModel.of(TOKENIZER), TOKENIZER), Reading("notes"))
    for doc, found in zip(nlp.pipe(notes, batch_size=batch_size), find(notes), strict=True):
        cues = [[(doc[i].idx, doc[i].text) for i in one["cue"]] for one in doc._.negations]
        assert [one[0][0] for one in cues] == [one["cue"][0]["start"] for one in found]
        expected = [decide(doc.text, one.start_char, one.end_char, found).negated for one in doc.ents]
        assert [one._.negex for one in doc.ents] == expected


def test_a_name_that_is_taken_is_refused():
    Span.set_extension("is_taken", default=False)
    try:
        with pytest.raises(ValueError, match="is_taken"):
            pipeline_of(ent_attribute="is_taken")
    finally:
        Span.remove_extension("is_taken")


REFUSED = {"convention": "note", "chunk_prefix": ["no"], "terms": {"cues": ["no"]}, "threshold": 2, "max_words": 0}


@pytest.mark.parametrize("setting", REFUSED)
def test_wrong_settings_are_refused(setting):
    with pytest.raises(ValueError, match=setting):  # spaCy's errors of settings are ValueErrors, too
        pipeline_of(**{setting: REFUSED[setting]})


def test_a_document_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="max_characters"):
        pipeline_of(max_characters=10)(TEXT)


PROCESSES = """
import multiprocessing, sys
import spacy, torch

def pipeline(model):
    nlp = spacy.blank("en")
    nlp.add_pipe("hf_localattn_negation", config={"model": model})
    return nlp

if __name__ == "__main__":
    method, *models = sys.argv[1:]
    torch.set_num_threads(2)
    multiprocessing.set_start_method(method, force=True)
    multiprocessing.set_forkserver_preload(["hf_localattn.negation.component"])
    texts = ["No fever.", "Smoker: no\\nRash", "", "She denies pain."] * 3
    for model in models:
        nlp = pipeline(model or None)
        expected = [doc._.negations for doc in nlp.pipe(texts)]  # the parent has threads now
        assert sum(map(len, expected)) == 9
        assert [doc._.negations for doc in nlp.pipe(texts, n_process=2, batch_size=2)] == expected
"""


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_several_processes_do_not_wait_for_threads_of_their_parent(method, tmp_path):
    """ONNX Runtime with two threads, and PyTorch with two where processes are forked. A server sends pickles."""
    pytest.importorskip("onnxruntime")
    models = [""]
    if method == "fork":
        for part in negation_model():
            part.save_pretrained(tmp_path / "model")
        models.append(str(tmp_path / "model"))
    command = [*bare_python("tests.warm_runs"), "-c", PROCESSES, method, *models]
    threads = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=threads)
    assert done.returncode == 0, done.stderr


def test_loading_a_spacy_pipeline_does_not_import_transformers():
    """spaCy imports the modules of all entry points."""
    nodes = ast.parse(Path(hf_localattn_spacy.__file__).read_text()).body
    imported = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imported == ["from typing import TYPE_CHECKING", "from spacy.language import Language"]
