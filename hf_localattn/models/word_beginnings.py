"""Check of tokenizers for lists of words: a word in a list keeps the mark of its beginning.

Many tokenizers mark the beginning of a word by the space before it (`Ġbaker`, `▁baker`). A word of a list has no space
before it. Some tokenizers add the mark, others split `baker` like the end of a word (`b`, `ak`, `er`).
"""

from typing import Any

from transformers import PreTrainedTokenizerBase

# One word each of several alphabets, since a tokenizer may know only some of them.
_WORDS = ("baker", "don't", "42", "größer", "хлеб", "ψωμί", "خبز", "לחם", "रोटी", "빵집", "パン", "面包")


def keeps_word_beginnings(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return True if words have the same pieces in a list of words as in a text."""
    for word in _WORDS:
        listed = _last_pieces(tokenizer, [word], [word, word], is_split_into_words=True)
        in_text = _last_pieces(tokenizer, word, f"{word} {word}")
        if tokenizer.unk_token not in listed and listed != in_text:
            return False
    return True


def check_word_beginnings(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise `ValueError` if words have other pieces in a list of words than in a text."""
    if not keeps_word_beginnings(tokenizer):
        raise ValueError(
            f"{type(tokenizer).__name__} loses the mark of a word's beginning in lists of words: load the tokenizer"
            " that was saved with the trained model."
        )


def _last_pieces(tokenizer: PreTrainedTokenizerBase, once: Any, twice: Any, **kwargs: Any) -> list[str]:
    """Return the pieces of a word that follows the same word."""
    first = tokenizer.tokenize(once, **kwargs)
    both = tokenizer.tokenize(twice, **kwargs)
    return both[len(first) :]
