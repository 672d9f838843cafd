"""Scores of negation cues and scopes as in the *SEM 2012 shared task, and as means over negations."""

import evaluate
from datasets import Features, List, Value

from hf_localattn.metrics.starsem_scores import Negations, check_negations, instance_scores, starsem_scores

DESCRIPTION = (
    "Precision, recall and F1 of cues, scopes and words in scope, equal to those of the program of the *SEM 2012"
    " shared task (eval.cd-sco.pl, version 2.2) to its rounding, without its measures of negated events; and"
    " precision, recall and F1 of scopes as means over negations."
)

INPUTS_DESCRIPTION = """
Args:
    predictions: predicted negations, a list per sentence. A negation has two lists with a text per word, "" for words
        outside: `cue_text` and `scope_text`, the characters of the word in the cue and in the scope.
    references: true negations, in the same form.
    pos: part-of-speech tags, a list per sentence.
Returns:
    starsem_cues_f1, starsem_scopes_cue_match_f1, starsem_scopes_no_cue_match_f1, starsem_scope_tokens_f1, each also
    with precision and recall: the measures of the shared task, from 0 to 1 (see `starsem_scores`).
    starsem_cues_b_f1, starsem_scopes_cue_match_b_f1, starsem_scopes_no_cue_match_b_f1, each also with precision: the
    B variants, in which partly right predictions lower the precision. The recall is the same.
    starsem_correct_sentences, starsem_correct_negation_sentences: shares of sentences without a wrong cue or scope, of
    all sentences and of those with a negation.
    instance_f1, instance_precision, instance_recall: means over negations (see `instance_scores`).
Example:
    >>> from hf_localattn.metrics import load_metric
    >>> true = {"cue_text": ["", "never", "", ""], "scope_text": ["He", "", "left", ""]}
    >>> found = {"cue_text": ["", "never", "", ""], "scope_text": ["", "", "left", "."]}
    >>> scores = load_metric("starsem").compute(
    ...     predictions=[[found]], references=[[true]], pos=[["PRP", "RB", "VBD", "."]]
    ... )
    >>> {name: scores[name] for name in ("starsem_cues_f1", "starsem_scope_tokens_f1", "instance_f1")}
    {'starsem_cues_f1': 1.0, 'starsem_scope_tokens_f1': 0.6667, 'instance_f1': 0.6666666666666666}
"""

NEGATIONS = List({"cue_text": List(Value("string")), "scope_text": List(Value("string"))})


class StarSem(evaluate.Metric):
    """Scores of the negations of sentences."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Morante and Blanco 2012, *SEM 2012 Shared Task: Resolving the Scope and Focus of Negation, *SEM;"
            " Sineva et al. 2021, Negation-Instance Based Evaluation of End-to-End Negation Resolution, CoNLL",
            inputs_description=INPUTS_DESCRIPTION,
            features=Features({"predictions": NEGATIONS, "references": NEGATIONS, "pos": List(Value("string"))}),
        )

    def _compute(
        self, predictions: list[Negations], references: list[Negations], pos: list[list[str]]
    ) -> dict[str, float]:
        check_negations(predictions, references, pos)
        return {**starsem_scores(predictions, references, pos), **instance_scores(predictions, references)}
