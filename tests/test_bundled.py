"""The model of negation in the wheel: what it finds, how large it is, and the two ways of computing it."""

import copy
import pickle

import pytest
import torch
from transformers import pipeline

from hf_localattn import negation
from hf_localattn.bundled import WEIGHTS, join_scales, negation_model, split_scales
from hf_localattn.resources import NEGATION


@pytest.fixture(scope="module")
def finder():
    model, tokenizer = negation_model()
    return pipeline("negation", model=model, tokenizer=tokenizer)


def describe(results):
    return [
        (
            " ".join(part["text"] for part in found["cue"]),
            " ".join(part["text"] for part in found["scope"]),
            found["kind"],
        )
        for found in results
    ]


NOTES = {
    "No fever, chills, or cough.": [("No", "fever, chills, or cough", "negation")],
    "Denies chest pain; reports nausea.": [("Denies", "chest pain", "negation")],
    "MRSA screen negative.": [("negative", "MRSA screen", "negation")],
    "Afib not on anticoagulation.": [("not", "on anticoagulation", "negation")],
    "Cardiac: no palpitations.": [("no", "palpitations", "negation")],
    "She has not only asthma but also eczema.": [],
    "The patient does not deny headache.": [],
    "Pneumonia cannot be ruled out.": [("can not be ruled out", "Pneumonia", "speculation")],
}
"""Sentences that every clinician tries, and what is found."""


TERMS = {
    "Ø fever": [("Ø", "fever", "negation")],
    "Pertinent negatives: fever, rash": [("Pertinent negatives", "fever, rash", "negation")],
    "Low suspicion for appendicitis.": [("Low suspicion", "for appendicitis", "speculation")],
    "It is not true that he has no pain.": [],
    "Resolved pneumonia.": [],
}
"""Signs, headings and terms of notes."""


@pytest.mark.parametrize("text", TERMS)
def test_terms_of_notes_are_read_by_their_convention(finder, text):
    assert describe(finder(text, convention="notes")) == TERMS[text]


@pytest.mark.parametrize("text", NOTES)
def test_the_first_sentences_that_a_user_tries_are_right(finder, text):
    assert describe(finder(text)) == NOTES[text]


def test_onnx_runtime_finds_the_same(finder):
    pytest.importorskip("onnxruntime")
    model, tokenizer = negation_model(onnx=True)
    graph = pipeline("negation", model=model, tokenizer=tokenizer)
    texts = list(NOTES)
    assert [describe(found) for found in graph(texts)] == [describe(found) for found in finder(texts)]


def test_the_pipeline_is_copied_pickled_and_saved_where_it_is_a_graph(tmp_path):
    pytest.importorskip("onnxruntime")
    graph = pipeline("negation")
    expected = graph(list(NOTES))
    for clone in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert clone(list(NOTES)) == expected
    assert [graph(text) for text in NOTES] == expected  # alone and in a batch
    graph.save_pretrained(tmp_path)
    assert describe(pipeline("negation", model=str(tmp_path))("No fever.")) == [("No", "fever", "negation")]
    with pytest.raises(ValueError, match="copy its folder"):
        graph.model.save_pretrained(tmp_path)


def test_the_pipeline_and_the_finder_agree():
    pytest.importorskip("onnxruntime")
    found = negation.finder(convention="notes")([*NOTES, "Smoker: no\nFever"])
    graph = pipeline("negation", convention="notes")([*NOTES, "Smoker: no\nFever"])
    for one, other in zip(found, graph, strict=True):
        assert describe(one) == describe(other)
        assert [cue["score"] for cue in one] == pytest.approx([cue["score"] for cue in other])


def test_the_folder_is_small_and_the_graph_has_no_weights_of_its_own():
    sizes = {path.name: path.stat().st_size for path in NEGATION.iterdir()}
    assert sum(sizes.values()) < 20e6
    assert sizes["model.onnx"] < 100_000 < sizes[WEIGHTS]
    assert {"README.md", "NOTICE"} <= sizes.keys()


def test_a_checkpoint_is_written_from_the_model(finder, tmp_path):
    finder.save_pretrained(tmp_path)
    again = pipeline("negation", model=str(tmp_path))
    assert describe(again("No fever.")) == [("No", "fever", "negation")]


@pytest.mark.parametrize("word", ["palpitations", "hepatosplenomegaly", "2.5mg", "na\u00efve", "\u00b0C", "x-ray"])
def test_words_that_the_vocabulary_lacks_are_split(finder, word):
    assert finder.tokenizer.unk_token_id not in finder.tokenizer(word).input_ids


def test_weights_become_integers_with_a_scale_for_each_row():
    weights = {"large": torch.randn(5, 7) * torch.logspace(-2, 2, 5)[:, None], "zero": torch.zeros(2, 3)}
    weights["bias"] = torch.randn(5)
    integers = split_scales(weights, {"large": 8, "zero": 7})
    assert integers["large"].dtype == torch.int8
    again = join_scales(integers)
    assert again.keys() == weights.keys()
    for name, weight in weights.items():
        half = integers.get(f"{name}.scale", torch.zeros(len(weight))) / 2
        difference = (again[name] - weight).abs().reshape(len(weight), -1)
        assert (difference <= half[:, None] * 1.001).all(), name
