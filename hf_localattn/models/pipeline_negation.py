"""The pipeline "negation": cues and their scopes in raw text."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset
from transformers.pipelines.base import ChunkPipeline

from .cue_markers import ANY_MARKER
from .negation_finder import Finding, FoundCue, NegationFinder

Offsets = tuple[int, int]
"""Characters [start, end) of a text."""

BATCH = 128
"""Sentences whose cues are found together. Forward passes have fewer, of like lengths."""

_APOSTROPHE = "['\u2019]"
_WORD = re.compile(
    rf"""
    \w+?(?=n{_APOSTROPHE}t\b) | n{_APOSTROPHE}t\b     # do n't
    | o{_APOSTROPHE}clock
    | can(?=not\b) | (?<=can)not\b                    # can not
    | {_APOSTROPHE}(?:s|m|d|ll|re|ve)\b               # she 'll
    | (?:[^\W\d_]\.){{2,}}                            # U.S. and e.g.
    | (?:Mr|Mrs|Ms|Dr|Prof|St|vs|Fig)\.(?=\s*[\w(]) | No\.(?=\s*\d)
    | \d+(?:[.,:/]\d+)+\w*                            # 1,000 and 3.5mg
    | \w+(?:[-\u2010\u2011]\w+)*
    | (?P<repeated>[^\w\s])(?P=repeated)*             # ... and --
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ABBREVIATION = re.compile(
    r"(?:\b(?i:mr|mrs|ms|dr|prof|st|vs|fig|figs|e\.g|i\.e|cf|al|approx|inc|ltd|jr|sr)|\b[A-Z])\.$"
)
_NUMBER = re.compile(r"\bno\.\s*\d", re.IGNORECASE)
# The end of a sentence: its marks with closing quotes and brackets, before a capital, a digit or an opening mark.
_END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\]]*+(?=\s+[\"'\u201c\u2018(\[]*[^\W_a-z])"
    r"|[\u3002\uff01\uff1f]+|\n\s*\n"
)
_LESS = re.compile(r"\w\w(?P<affix>less)(?:ly|ness)?$", re.IGNORECASE)
_PREFIX = re.compile(r"(?P<affix>non|un|in|im|il|ir|dis|a)-?\w\w", re.IGNORECASE)


@dataclass(frozen=True)
class Piece:
    """A sentence, or a part of a sentence that is too long for the model."""

    words: list[str]
    offsets: list[Offsets]
    sentence: Offsets  # the whole sentence
    cue: FoundCue | None = None  # the cue that the text marks; None if the cues are to be found


class NegationPipeline(ChunkPipeline):
    """Cues of negation or speculation in raw text, and the words in the scope of each.

    The cues of a batch of sentences are found first, then their scopes. Sentences of like lengths run together.

    Raises:
        ValueError: the model does not predict scopes, or the tokenizer has no cue markers.

    Example:
        >>> from transformers import AutoTokenizer, pipeline
        >>> from hf_localattn import OaXLNetForTokenClassification, OaXLNetTokenizer
        >>> from hf_localattn.resources import tiny_backbone
        >>> tokenizer = OaXLNetTokenizer.from_backbone(AutoTokenizer.from_pretrained(tiny_backbone()))
        >>> labels = dict(enumerate(["O", "SCOPE", "negation:affix", "negation:single", "negation:multi"]))
        >>> model = OaXLNetForTokenClassification.from_backbone(tiny_backbone(), id2label=labels)  # untrained
        >>> _ = model.resize_token_embeddings(len(tokenizer))
        >>> finder = pipeline("negation", model=model, tokenizer=tokenizer)
        >>> for found in finder("He neither spoke nor moved."):
        ...     assert set(found) == {"cue", "kind", "type", "score", "scope", "scope_score", "sentence"}
    """

    _load_tokenizer = True
    _load_feature_extractor = False
    _load_image_processor = False
    _load_processor = False
    default_input_names = "text"

    def __init__(self, model: Any, tokenizer: Any, **kwargs: Any):
        self.finder = NegationFinder(model, tokenizer)
        super().__init__(model=model, tokenizer=tokenizer, **{"batch_size": BATCH, **kwargs})

    def __call__(self, inputs: Any, **settings: Any) -> Any:
        """Find the cues in one or more texts, and their scopes; or the scopes of cues that the texts mark.

        In a text with cue markers, such as `He did [CUE] not go.`, the word after each marker belongs to the cue of
        its sentence. Its score is 1, and sentences without a marker have no result.

        Args:
            inputs (str, list or iterator): a text; a list of texts; or an iterator, which is read lazily.
            **settings: the following settings.
            split_lines (bool, *optional*, defaults to False): if True, a sentence also ends at each line break, as in
                clinical notes and lists.
            batch_size (int, *optional*, defaults to 128): sentences per batch.
            num_workers (int, *optional*, defaults to 0): processes that split and tokenize.

        Returns:
            For each text a list of dicts, one for each cue, in the order of the text:

            * `cue`: the parts of the cue, a list of dicts with `text`, `start` and `end` (characters of the text). An
              affix is a part of its word.
            * `kind`: "negation" or "speculation"; `type`: "affix", "single" or "multi".
            * `score`: mean probability of the labels of the cue's words.
            * `scope`: the spans of the scope, in the same form as the cue. A scope may be empty or have gaps.
            * `scope_score`: mean probability of the predicted labels of the sentence's words.
            * `sentence`: dict with `start` and `end`.

        Raises:
            ValueError: an input is not a text, or has no marked cue and the model finds none.
            TypeError: a setting is unknown.
        """
        if isinstance(inputs, Dataset):  # such as transformers' `KeyDataset`
            return super().__call__(inputs, **settings)
        if not isinstance(inputs, str | Iterable) or isinstance(inputs, bytes | dict):
            raise ValueError(f"The input is {inputs!r}; give a text, a list of texts or an iterator over texts.")
        if isinstance(inputs, Sequence) and not isinstance(inputs, str):
            inputs = list(inputs)  # tuples, and columns of data sets
            if not inputs:
                return []
        elif not isinstance(inputs, str):
            inputs = (text for text in inputs)  # the base class reads only generators one by one
        return super().__call__(inputs, **settings)

    def _sanitize_parameters(
        self,
        *,
        split_lines: bool | None = None,
        local_files_only: bool | None = None,  # `pipeline(...)` passes it on
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        return ({} if split_lines is None else {"split_lines": split_lines}), {}, {}

    def preprocess(self, text: Any, split_lines: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the sentences of a text, in pieces that the model can take."""
        if not isinstance(text, str):
            raise ValueError(f"The input is {text!r}; it must be a text.")
        markers = list(re.finditer(ANY_MARKER, text))
        blank = re.sub(ANY_MARKER, lambda marker: " " * len(marker[0]), text)  # of the same length
        pieces: list[Piece] = []
        for start, end in split_sentences(blank, split_lines):
            own = [marker for marker in markers if start <= marker.end() < end]
            if own or not markers:
                pieces += self._pieces(blank, (min([start, *(marker.start() for marker in own)]), end), own)
        pieces = pieces or [Piece([], [], (0, 0))]  # the base class needs one
        for number, piece in enumerate(pieces, start=1):
            yield {"text": text, "piece": piece, "is_last": number == len(pieces)}

    def _pieces(self, text: str, sentence: Offsets, markers: Sequence[re.Match[str]]) -> Iterator[Piece]:
        start, end = sentence
        offsets = [(start + begin, start + stop) for begin, stop in split_words(text[start:end])]
        words = [text[begin:stop] for begin, stop in offsets]
        cue = {next((i for i, (begin, _) in enumerate(offsets) if begin >= marker.end()), -1) for marker in markers}
        named = re.findall(r"affix|single|multi", "".join(marker[0] for marker in markers))
        for place in self.finder.pieces(words):
            within = slice(place.start, place.stop)
            own = tuple(i - place.start for i in sorted(cue) if i in place)
            kind = named[0] if named else "multi" if len(own) > 1 else "single"
            if own or not markers:
                marked = FoundCue(self.finder.kinds[0], kind, own) if own else None
                yield Piece(words[within], offsets[within], sentence, marked)

    def _forward(self, inputs: dict[str, Any]) -> dict[str, Any]:
        # The base class makes lists of the inputs of a batch, but not of a single piece.
        batched = isinstance(inputs["is_last"], list)
        pieces: list[Piece] = inputs["piece"] if batched else [inputs["piece"]]
        free = [piece for piece in pieces if piece.cue is None]
        marked = [(piece.words, piece.cue) for piece in pieces if piece.cue is not None]
        found = iter(self.finder.find([piece.words for piece in free]))
        scopes = iter(self.finder.find_scopes(*map(list, zip(*marked, strict=True))) if marked else ())
        results = [next(found) if piece.cue is None else [Finding(piece.cue, 1.0, *next(scopes))] for piece in pieces]
        return {**inputs, "found": results if batched else results[0]}

    def postprocess(self, outputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the cues of a text, in its order."""
        return [_describe(output["text"], output["piece"], one) for output in outputs for one in output["found"]]


def _describe(text: str, piece: Piece, found: Finding) -> dict[str, Any]:
    cue = found.cue
    parts = [piece.offsets[word] for word in cue.words]
    inside = [offsets for offsets, is_inside in zip(piece.offsets, found.scope, strict=True) if is_inside]
    if cue.type == "affix":
        (start, end), (word,) = affix_offsets(piece.words[cue.words[0]]), parts
        parts = [(word[0] + start, word[0] + end)]
        # the rest of the word may be in the scope of its affix
        rests = [(word[0], parts[0][0]), (parts[0][1], word[1])]
        inside = [rest for one in inside for rest in (rests if one == word else [one]) if rest[0] < rest[1]]
    return {
        "cue": [_span(text, *part) for part in parts],
        "kind": cue.kind,
        "type": cue.type,
        "score": found.score,
        "scope": [_span(text, *span) for span in join_over_blanks(text, inside)],
        "scope_score": found.scope_score,
        "sentence": dict(zip(("start", "end"), piece.sentence, strict=True)),
    }


def _span(text: str, start: int, end: int) -> dict[str, Any]:
    return {"text": text[start:end], "start": start, "end": end}


def affix_offsets(word: str) -> Offsets:
    """Return the offsets of the negative affix of an English word, or those of the whole word if it has none."""
    match = _LESS.search(word) or _PREFIX.match(word)
    return match.span("affix") if match else (0, len(word))


def split_sentences(text: str, lines: bool = False) -> list[Offsets]:
    """Return the characters [start, end) of each sentence, without the white space around it.

    With `lines` a sentence also ends at each line break.
    """
    ends = {match.end() for match in _END.finditer(text) if not _is_abbreviation(text, match)}
    if lines:
        ends.update(match.end() for match in re.finditer("\n", text))
    sentences, start = [], 0
    for end in (*sorted(ends), len(text)):
        sentence = text[start:end]
        begin = start + len(sentence) - len(sentence.lstrip())
        if stripped := sentence.strip():
            sentences.append((begin, begin + len(stripped)))
        start = end
    return sentences


def split_words(text: str) -> list[Offsets]:
    """Return the characters [start, end) of each word and punctuation mark."""
    words: list[Offsets] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        # A combining mark, such as an accent, is not in `\w`. It does not end a word.
        joins = words and words[-1][1] == start and (_is_mark(text[start]) or _is_mark(text[start - 1]))
        if joins and (text[end - 1].isalnum() or _is_mark(text[start])):
            start = words.pop()[0]
        words.append((start, end))
    return words


def join_over_blanks(text: str, spans: Iterable[Offsets]) -> list[Offsets]:
    """Join neighboring spans of a text that have only white space between them."""
    joined: list[Offsets] = []
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip():
            start, _ = joined.pop()
        joined.append((start, end))
    return joined


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _is_abbreviation(text: str, match: re.Match[str]) -> bool:
    if match.group() != ".":
        return False
    before = text[max(0, match.start() - 8) : match.end()]
    return bool(_ABBREVIATION.search(before) or _NUMBER.match(text, match.start() - 2))
