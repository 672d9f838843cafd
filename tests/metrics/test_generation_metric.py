"""Expected numbers are computed by hand from the metrics' definitions."""

from types import SimpleNamespace

import pytest
from nltk.corpus import wordnet

from hf_localattn.metrics import load_metric

MEAN = (2 / 3) / (0.9 * 2 / 3 + 0.1)
CASES = {
    # predictions, references, BLEU, ROUGE-L, METEOR; None where it does not matter
    # nltk matches the later "the" to the reference's only one: chunks are "cat sat on", "the" and "mat"
    "one word is wrong": (
        ["the cat sat on the mat"],
        ["the cat sat on a mat"],
        (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25,
        5 / 6,
        5 / 6 * (1 - 0.5 * (3 / 5) ** 3),
    ),
    "case": (["Where's the U.S. Capitol?"], ["where's the u.s. capitol?"], 1, 1, 1 - 0.5 * (1 / 6) ** 3),
    # two matches, two chunks
    "stems count for METEOR": (["who was running"], ["who runs"], None, 2 * (1 / 3) * (1 / 2) / (5 / 6), MEAN * 0.5),
    # BLEU is of the corpus, the others are means: all n-grams right, 6 tokens for 12
    "two texts": (
        ["the cat sat on the mat", ""],
        ["the cat sat on the mat", "who sat on the red mat"],
        2.718281828**-1,
        0.5,
        0.5 * (1 - 0.5 / 6**3),
    ),
}


@pytest.fixture(autouse=True)
def _without_wordnet(monkeypatch):
    """Whatever is installed on this machine."""

    def missing():
        raise LookupError("wordnet")

    monkeypatch.setitem(vars(wordnet), "ensure_loaded", missing)


def compute(predictions, references):
    return load_metric("generation").compute(predictions=predictions, references=references)


@pytest.mark.parametrize("name", CASES)
def test_scores_by_hand(name):
    predictions, references, *expected = CASES[name]
    scores = compute(predictions, references)
    for key, value in zip(("bleu", "rouge_l", "meteor_no_synonyms"), expected, strict=True):
        assert value is None or scores[key] == pytest.approx(100 * value)
    assert scores["bleu_signature"].startswith("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:")


def test_synonyms_count_where_wordnet_is_installed(monkeypatch):
    class Cat:
        def lemmas(self):
            return [SimpleNamespace(name=lambda: "tom"), SimpleNamespace(name=lambda: "true_cat")]

    assert compute(["cat"], ["tom"])["meteor_no_synonyms"] == 0
    monkeypatch.setitem(vars(wordnet), "ensure_loaded", lambda: None)
    monkeypatch.setitem(vars(wordnet), "synsets", lambda word: [Cat()] if word == "cat" else [])
    scores = compute(["cat"], ["tom"])
    assert scores["meteor"] == pytest.approx(50)  # one match is one chunk: half of it is penalty
    assert "meteor_no_synonyms" not in scores
