"""BLEU, ROUGE-L and METEOR of generated texts, without downloads."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

WITHOUT_BLANKS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""Scripts without blanks between words, as the names of their characters begin."""


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
        bleu: Corpus BLEU-4 of sacrebleu, with the tokenization that suits the script of the references
            (`tokenization_of`).
        bleu_signature: Settings of sacrebleu; only values with the same signature are comparable.
        rouge_l: Mean F1 of the longest common subsequence of words. They are matches of [a-z0-9]+ if all letters of
            the references are ASCII, otherwise, and in a text without a match, the tokens of BLEU.
        meteor: Mean METEOR (2007 version, nltk) with exact, stem and WordNet matches. Words are those of nltk's
            tokenizer if all letters of the references are ASCII, otherwise the tokens of BLEU. Without WordNet
            (`nltk.download("wordnet")`) synonyms do not match, and the key is meteor_no_synonyms.

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

    tokenization = tokenization_of(references)
    of_corpus = BLEU(lowercase=True, tokenize=tokenization)
    score = of_corpus.corpus_score(predictions, [references]).score

    def split(text: str) -> list[str]:
        words: list[str] = of_corpus.tokenizer(text).split()
        return words

    def words_or_signs(text: str) -> list[str]:
        return re.findall("[a-z0-9]+", text) or split(text)

    is_ascii = tokenization == "13a"
    tokenizer = words_or_signs if is_ascii else split
    rouge = rouge_score(predictions, references, rouge_keys="rougeL", normalizer=str.lower, tokenizer=tokenizer)
    words_of = _words if is_ascii else split
    name = meteor_name()
    wordnet = corpus.wordnet if name == "meteor" else SimpleNamespace(synsets=lambda word: [])
    by_text = []
    for gold, text in zip(references, predictions, strict=True):
        by_text.append(single_meteor_score(words_of(gold), words_of(text), wordnet=wordnet))
    return {
        "bleu": score,
        "bleu_signature": str(of_corpus.get_signature()),
        "rouge_l": 100 * float(rouge["rougeL_fmeasure"]),
        name: 100 * sum(by_text) / len(by_text),
    }


def tokenization_of(texts: Iterable[str]) -> str:
    """Return the tokenization of sacrebleu that suits texts.

    Returns:
        "13a", the default, for letters of ASCII; "zh", each ideograph a word, for Chinese; "char", each character a
        word, for other scripts without blanks; "intl", words between the punctuation of Unicode, for the rest.
    """
    letters = {character for text in texts for character in set(text) if not character.isascii()}
    scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in letters if letter.isalpha()}
    unspaced = scripts.intersection(WITHOUT_BLANKS)
    if unspaced:
        return "zh" if unspaced == {"CJK"} else "char"
    return "intl" if scripts else "13a"


def _words(text: str) -> list[str]:
    from nltk.tokenize import word_tokenize

    # Do not split into sentences: the splitter needs a download. METEOR converts to lower case.
    return word_tokenize(text, preserve_line=True)
