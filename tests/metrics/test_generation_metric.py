"""Expected numbers are computed by hand from the metrics' definitions."""

from types import SimpleNamespace

import pytest
from nltk.corpus import wordnet

from hf_localattn.metrics import load_metric
from hf_localattn.metrics.generation_scores import meteor_name


@pytest.fixture(autouse=True)
def _without_wordnet(monkeypatch):
    """Whatever is installed on this machine."""

    def missing():
        raise LookupError("wordnet")

    monkeypatch.setitem(vars(wordnet), "ensure_loaded", missing)


def scores(prediction, reference):
    return load_metric("generation").compute(predictions=[prediction], references=[reference])


def test_all_three_by_hand():
    result = scores("the cat sat on the mat", "the cat sat on a mat")
    assert result["bleu"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    assert result["rouge_l"] == pytest.approx(100 * 5 / 6)
    # nltk matches the later "the" to the reference's only one: chunks are "cat sat on", "the" and "mat"
    assert result["meteor_no_synonyms"] == pytest.approx(100 * 5 / 6 * (1 - 0.5 * (3 / 5) ** 3))


def test_an_answer_that_is_right_but_for_case_is_right():
    result = scores("Where's the U.S. Capitol?", "where's the u.s. capitol?")
    assert (result["bleu"], result["rouge_l"]) == (pytest.approx(100), pytest.approx(100))
    assert result["meteor_no_synonyms"] == pytest.approx(100 * (1 - 0.5 * (1 / 6) ** 3))


def test_stems_count_for_meteor_alone():
    result = scores("who was running", "who runs")
    precision, recall = 2 / 3, 1
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    assert result["meteor_no_synonyms"] == pytest.approx(100 * mean * 0.5)  # two matches, two chunks
    assert result["rouge_l"] == pytest.approx(100 * 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))


def test_synonyms_count_where_wordnet_is_installed(monkeypatch):
    class Cat:
        def lemmas(self):
            return [SimpleNamespace(name=lambda: "tom"), SimpleNamespace(name=lambda: "true_cat")]

    assert scores("cat", "tom")["meteor_no_synonyms"] == 0
    monkeypatch.setitem(vars(wordnet), "ensure_loaded", lambda: None)
    monkeypatch.setitem(vars(wordnet), "synsets", lambda word: [Cat()] if word == "cat" else [])
    result = scores("cat", "tom")
    assert result["meteor"] == pytest.approx(50)  # one match is one chunk: half of it is penalty
    assert "meteor_no_synonyms" not in result
    assert meteor_name() == "meteor"


def test_bleu_is_of_the_corpus_and_the_others_are_means():
    pairs = [("the cat sat on the mat", "the cat sat on the mat"), ("", "who sat on the red mat")]
    predictions, references = zip(*pairs, strict=True)
    result = load_metric("generation").compute(predictions=list(predictions), references=list(references))
    assert result["bleu"] == pytest.approx(100 * 2.718281828**-1)  # all n-grams right, 6 tokens for 12
    assert result["rouge_l"] == pytest.approx(50)
    assert result["meteor_no_synonyms"] == pytest.approx(50 * (1 - 0.5 / 6**3))


def test_the_signature_says_how_bleu_was_computed():
    signature = scores("a", "a")["bleu_signature"]
    assert signature.startswith("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:")
