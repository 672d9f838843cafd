"""Labels of the words of a sentence: what a model of negation predicts, whatever computes it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

OUTSIDE = "O"
INSIDE = "SCOPE"
SCOPE_LABELS = (OUTSIDE, INSIDE)
"""Labels of words outside the scope, and of words in it."""

CUE_KINDS = ("negation", "speculation")

CUE_TYPES = ("affix", "single", "multi")
"""Types of cues: part of a word (`in` of `infrequent`), one word, several words."""

CUE_LABELS = tuple(f"{kind}:{cue_type}" for kind in CUE_KINDS for cue_type in CUE_TYPES)
"""Labels of the words of cues, such as "negation:affix"."""

NO_WORD = -1
"""Word index of tokens that belong to no word of the sentence: special tokens and cue markers."""

UNSEEN = ""
"""Label of words without a token: they are cut off, or the tokenizer drops them."""

MARKER_ROOM = 8
"""Number of tokens of an input that are reserved for cue markers."""


@dataclass(frozen=True, slots=True)
class FoundCue:
    """A cue that was predicted, that the text marks, or that is a term."""

    kind: str  # one of `CUE_KINDS`
    type: str  # one of `CUE_TYPES`
    words: tuple[int, ...]  # their indices in the sentence
    is_term: bool = False


@dataclass(frozen=True, slots=True)
class WordLabels:
    """The predicted labels of a sentence's words, with their probabilities."""

    labels: list[str]
    probabilities: list[float]

    def score(self, words: Sequence[int]) -> float:
        """Return the mean probability of some words that have a label; 0 without any."""
        values = [self.probabilities[word] for word in words if self.labels[word] != UNSEEN]
        return sum(values) / max(len(values), 1)


class WordLabeler:
    """Base class of models that label the words of sentences.

    Args:
        names: Labels of the model, in the order of its outputs.
        limit: Maximum number of tokens of an input; None without a limit.
        special_tokens: Number of tokens that the tokenizer adds to a sentence.

    Raises:
        ValueError: The labels are those of another task.
    """

    def __init__(self, names: Sequence[str], limit: int | None, special_tokens: int):
        self.label_ids = {str(name): index for index, name in enumerate(names)}
        self.limit = limit
        self.special_tokens = special_tokens
        self.cue_names = [OUTSIDE, *(name for name in self.label_ids if name in CUE_LABELS)]
        self.kinds = list(dict.fromkeys(name.partition(":")[0] for name in self.cue_names[1:])) or [CUE_KINDS[0]]
        if not self.label_ids.keys() >= set(SCOPE_LABELS):
            raise ValueError(
                f"The model does not predict scopes: its labels are {', '.join(self.label_ids)}. Train it with"
                " `run_ner.py --task negation --detect_cues`."
            )

    def token_counts(self, words: Sequence[str]) -> list[int]:
        """Return the number of tokens of each word of a sentence."""
        raise NotImplementedError

    def label(
        self,
        names: Sequence[str],
        sentences: Sequence[Sequence[str]],
        cues: Sequence[Sequence[int]],
        cue_types: Sequence[str | None],
    ) -> list[WordLabels]:
        """Return the most probable one of some labels for each word of each sentence.

        Args:
            names: Labels to choose from.
            sentences: Words of each sentence.
            cues: 1 for each word of a sentence's cue, 0 for other words. All zeros ask for the cues of the sentence.
            cue_types: Types of the cues, for tokenizers with typed markers.
        """
        raise NotImplementedError

    def pieces(self, words: Sequence[str], most: int) -> list[range]:
        """Return the ranges of at most `most` words that the model can take, the whole sentence if possible.

        A longer sentence is cut after punctuation, if there is any in the second half of a piece.
        """
        room = None
        if self.limit is not None:
            room = self.limit - self.special_tokens
            room = max(room - MARKER_ROOM, room // 2, 1)
            # tokens have a character, or begin a word
            if "".join(words).isascii() and sum(map(len, words)) + 2 * len(words) <= room:
                room = None
        if room is None and len(words) <= most:
            return [range(len(words))]
        sizes = [0] * len(words) if room is None else self.token_counts(words)
        pieces = []
        start = 0
        size = 0
        for end in range(len(words)):
            while end > start and (end - start >= most or (room is not None and size + sizes[end] > room)):
                middle = (start + end) // 2
                stops = (stop for stop in range(end, middle, -1) if not any(map(str.isalnum, words[stop - 1])))
                stop = next(stops, end)
                pieces.append(range(start, stop))
                start = stop
                size = sum(sizes[stop:end])
            size += sizes[end]
        return [*pieces, range(start, len(words))]


def group_cues(labels: Sequence[str]) -> list[FoundCue]:
    """Return the cues in the predicted labels of a sentence's words, in the order of their first words.

    A word with the label of an affix or a single word is a cue. Adjacent words of a `multi` label are one cue (`no
    longer`). Isolated words of a `multi` label are parts of one cue (`neither ... nor`), or a single word if there is
    only one.
    """
    cues: list[FoundCue] = []
    isolated: dict[str, list[int]] = {}
    for label, run in groupby(range(len(labels)), key=labels.__getitem__):
        if label not in CUE_LABELS:
            continue
        kind, _, cue_type = label.partition(":")
        words = tuple(run)
        if cue_type != "multi":
            cues += [FoundCue(kind, cue_type, (word,)) for word in words]
        elif len(words) > 1:
            cues.append(FoundCue(kind, cue_type, words))
        else:
            isolated.setdefault(kind, []).extend(words)
    for kind, parts in isolated.items():
        cues.append(FoundCue(kind, "multi" if len(parts) > 1 else "single", tuple(parts)))
    return sorted(cues, key=lambda cue: cue.words)


def word_indices(marked_words: Sequence[int | None], cue: Sequence[int]) -> list[int]:
    """Return the index of each token's word in the sentence, or `NO_WORD`, from that among words and cue markers.

    Args:
        marked_words: Index of each token's word, counted with a marker before each word of the cue; None for none.
        cue: 1 for each word of the cue, 0 for other words.
    """
    indices: list[int] = []
    for word, is_marked in enumerate(cue):
        indices += [NO_WORD, word] if is_marked else [word]
    return [NO_WORD if index is None else indices[index] for index in marked_words]


def batches_of_like_lengths(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield batches of rows with little padding: at most `most` tokens with it, or one row."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
