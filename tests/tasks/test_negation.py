"""Scores of cues that are found beside the cues of a corpus."""

import numpy as np
import pytest
from datasets import Dataset

from hf_localattn.data import load_negation
from hf_localattn.data.labels import SINGLE_LABEL, Labels
from hf_localattn.data.negation import add_questions
from hf_localattn.data.scopes import ScopeExamples
from hf_localattn.models.negation_finder import Finding
from hf_localattn.models.negation_labels import SCOPE_LABELS, FoundCue
from hf_localattn.tasks import NegationDetection, Split, Target

NO_FEVER = {"tokens": ["No", "fever"], "cue": [1, 0], "scope": [0, 1], "cue_kind": "negation"}
POSSIBLE_GOUT = {"tokens": ["Possible", "gout"], "cue": [1, 0], "scope": [0, 1], "cue_kind": "speculation"}


@pytest.mark.parametrize(("rows", "precision"), [([NO_FEVER], 0.5), ([NO_FEVER, POSSIBLE_GOUT], 2 / 4)])
def test_found_cues_count_only_if_the_corpus_annotates_their_kind(rows, precision):
    found = [
        Finding(FoundCue("negation", "single", (0,)), 1.0, [False, True], 1.0),
        Finding(FoundCue("negation", "single", (1,)), 1.0, [False, False], 1.0),
    ]
    guessed = Finding(FoundCue("speculation", "single", (0,)), 1.0, [False, True], 1.0)
    wrong = Finding(FoundCue("speculation", "single", (1,)), 1.0, [False, True], 1.0)
    by_sentence = {"No": [*found, wrong], "Possible": [guessed]}
    negations = [[(each.cue, each.scope) for each in by_sentence[row["tokens"][0]]] for row in rows]
    rows = add_questions(load_negation(Dataset.from_list(rows), "both", all_sentences=True))
    task = NegationDetection(NegationDetection.DataArguments(validation_file="x.txt", cues="both", detect_cues=True))
    logits = np.zeros((len(rows), 2, len(SCOPE_LABELS)))
    split = Split("validation", rows, rows, range(len(rows)), [[0, 1]] * len(rows))
    result = task.score(split, (logits, negations), Target({}, Labels(SINGLE_LABEL, SCOPE_LABELS)))
    assert result.scores["cue_precision"] == precision
    assert len(result.predictions[0]) == 3


def test_files_of_starsem_have_the_cues_that_are_scored():
    """Its columns have no place for the kind of a cue: speculation would count as negation."""
    tagged = {**NO_FEVER, "pos": ["DT", "NN"]}
    rows = add_questions(load_negation(Dataset.from_list([tagged]), "both", all_sentences=True))
    task = NegationDetection(NegationDetection.DataArguments(test_file="x.txt", cues="both", detect_cues=True))
    found = [(FoundCue(kind, "single", (0,)), [0, 1]) for kind in ("negation", "speculation")]
    split = Split("test", rows, rows, range(len(rows)), [[0, 1]] * len(rows))
    files = task.files(split, [found], Target({}))
    assert files["starsem_predicted.txt"] == files["starsem_gold.txt"]
    assert "speculation" in files["predictions.jsonl"]


def test_scopes_of_given_cues_follow_the_convention():
    row = {"tokens": ["He", "did", "not", "go"], "cue": [0, 0, 1, 0], "scope": [1, 1, 0, 1]}
    rows = load_negation(Dataset.from_list([row]))
    logits = np.array([[[0, 1], [0, 1], [1, 0], [0, 1]]], dtype=float)
    examples = ScopeExamples(rows, [0], [[0, 1, 2, 3]])
    assert examples.scopes(logits, SCOPE_LABELS, "stories") == [[1, 1, 0, 1]]
    assert examples.scopes(logits, SCOPE_LABELS, "papers") == [[0, 0, 0, 1]]
