"""BLEU, ROUGE-L and METEOR of generated texts, without downloads."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any


def meteor_name() -> str:
    """Return the key of METEOR: "meteor", or "meteor_no_synonyms" if WordNet is not installed."""
    from nltk import corpus

    try:
        corpus.wordnet.ensure_loaded()
    except LookupError:
        return "meteor_no_synonyms"
    return "meteor"


def generation(predictions: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Return BLEU-4 of the corpus and mean ROUGE-L and METEOR of generated texts, in percent, case ignored.

    Args:
        predictions: List of generated texts, not tokenized.
        references: List of reference texts, one per prediction, not tokenized.

    Returns:
        bleu: Corpus BLEU-4 of sacrebleu.
        bleu_signature: Settings of sacrebleu; only values with the same signature are comparable.
        rouge_l: Mean F1 of the longest common subsequence of words, which are matches of [a-z0-9]+.
        meteor: Mean METEOR (2007 version, nltk) with exact, stem and WordNet matches, and nltk's tokenizer. Without
            WordNet (`nltk.download("wordnet")`) synonyms do not match, and the key is meteor_no_synonyms.

    Published values for question generation often come from other tools (multi-bleu.perl, METEOR 1.5): do not compare.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> metric = load_metric("generation")
        >>> scores = metric.compute(predictions=["who baked the bread ?"], references=["who sold the bread ?"])
        >>> round(scores["bleu"], 1), round(scores["rouge_l"], 1)
        (42.7, 75.0)
    """
    from nltk import corpus  # libraries that take seconds
    from nltk.translate.meteor_score import single_meteor_score
    from sacrebleu.metrics import BLEU
    from torchmetrics.functional.text.rouge import rouge_score

    of_corpus = BLEU(lowercase=True)
    score = of_corpus.corpus_score(predictions, [references]).score
    rouge_l = rouge_score(predictions, references, rouge_keys="rougeL")["rougeL_fmeasure"]
    name = meteor_name()
    wordnet = corpus.wordnet if name == "meteor" else SimpleNamespace(synsets=lambda word: [])
    by_text = []
    for gold, text in zip(references, predictions, strict=True):
        by_text.append(single_meteor_score(_words(gold), _words(text), wordnet=wordnet))
    return {
        "bleu": score,
        "bleu_signature": str(of_corpus.get_signature()),
        "rouge_l": 100 * float(rouge_l),
        name: 100 * sum(by_text) / len(by_text),
    }


def _words(text: str) -> list[str]:
    from nltk.tokenize import word_tokenize

    # Do not split into sentences: the splitter needs a download. METEOR converts to lower case.
    return word_tokenize(text, preserve_line=True)
