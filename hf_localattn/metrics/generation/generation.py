"""BLEU, ROUGE-L and METEOR of generated texts and their references, without a download."""

from typing import Any

import datasets
import evaluate
from nltk.corpus import wordnet
from nltk.tokenize import word_tokenize
from nltk.translate.meteor_score import single_meteor_score
from sacrebleu.metrics import BLEU
from torchmetrics.functional.text.rouge import rouge_score

DESCRIPTION = "BLEU-4 of the corpus and mean ROUGE-L and METEOR of generated texts, in percent, case ignored."

INPUTS_DESCRIPTION = """
Args:
    predictions: list of texts, as they would be read (not split into tokens).
    references: list of as many texts, likewise.
Returns:
    bleu: sacrebleu's corpus BLEU-4.
    bleu_signature: how it was computed; two values with different signatures cannot be compared.
    rouge_l: mean F1 of the longest common subsequence; words are what is left of [a-z0-9]+.
    meteor: mean METEOR of 2007 (nltk) with exact, stem and WordNet matches; words are nltk's. Where WordNet is not
        installed (`nltk.download("wordnet")`), synonyms do not match and the name is meteor_no_synonyms instead.
Published values for question generation often come from other tools (multi-bleu.perl, METEOR 1.5), which weigh and
split words differently: compare with values of this metric alone.
"""

CITATION = """
BLEU: Papineni et al. 2002, ACL; Post 2018, A Call for Clarity in Reporting BLEU Scores, WMT
ROUGE-L: Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries
METEOR: Lavie and Agarwal 2007, METEOR: An Automatic Metric for MT Evaluation with High Levels of Correlation with
Human Judgments, WMT
"""


class WithoutSynonyms:
    """Stands in for WordNet: knows no word."""

    def synsets(self, word: str) -> list[Any]:
        """None of any word."""
        return []


def synonyms() -> Any:
    """WordNet where it is installed, else `WithoutSynonyms`."""
    try:
        wordnet.ensure_loaded()
    except LookupError:
        return WithoutSynonyms()
    return wordnet


def meteor_name() -> str:
    """The name under which METEOR is reported on this machine."""
    return "meteor_no_synonyms" if isinstance(synonyms(), WithoutSynonyms) else "meteor"


class Generation(evaluate.Metric):
    """BLEU-4, ROUGE-L and METEOR with the interface of the evaluate library."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS_DESCRIPTION,
            features=datasets.Features({"predictions": text, "references": text}),
        )

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        bleu = BLEU(lowercase=True)
        score = bleu.corpus_score(predictions, [references]).score
        rouge = rouge_score(predictions, references, rouge_keys="rougeL")
        known, name = synonyms(), meteor_name()
        pairs = zip(references, predictions, strict=True)
        meteor = [single_meteor_score(_words(gold), _words(text), wordnet=known) for gold, text in pairs]
        return {
            "bleu": score,
            "bleu_signature": str(bleu.get_signature()),
            "rouge_l": 100 * float(rouge["rougeL_fmeasure"]),
            name: 100 * sum(meteor) / len(meteor),
        }


def _words(text: str) -> list[str]:
    # Not into sentences first: that would need a download. METEOR lower-cases by itself.
    return word_tokenize(text, preserve_line=True)
