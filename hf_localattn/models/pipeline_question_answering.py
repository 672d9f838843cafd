"""The pipeline "question-answering", with the inputs, arguments and outputs of transformers 4.57.

transformers 5 removed this pipeline.
"""

import inspect
import logging
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase
from transformers.pipelines.base import ChunkPipeline

from .forward_inputs import accepted_inputs, longest_input, without_pads

logger = logging.getLogger(__name__)

USUAL_LENGTH = 384
USUAL_STRIDE = 128

MIN_NEW_TOKENS = 16
"""Fewest new tokens of a window: a very long question would split a passage into hundreds of windows."""

LEAST = {"doc_stride": 0, "max_seq_len": 1, "max_question_len": 1, "top_k": 1, "max_answer_len": 1}
"""Smallest values of the settings that are numbers."""

PIPELINE_SETTINGS = (*LEAST, "padding", "handle_impossible_answer", "align_to_words")

Offsets = tuple[int, int] | None
"""Characters [start, end) of a token in the passage, None outside of it."""


@dataclass(frozen=True)
class Window:
    """One input of a model: the question and a part of the passage."""

    inputs: dict[str, list[int]]
    encoding: Any  # with the words of the tokens
    offsets: list[Offsets]
    no_answer: int | None  # position of the token that stands for it
    context: str  # the whole passage


class QuestionAnsweringPipeline(ChunkPipeline):
    """Extractive question answering over passages of any length.

    A passage that is too long for the model is split into windows. A batch has `batch_size` windows, of one or more
    questions. `pipeline(...)` takes the arguments of a call as defaults.

    Raises:
        ValueError: The model has no question-answering head, or the tokenizer is not a fast one.

    Example:
        >>> from transformers import AutoTokenizer, pipeline
        >>> from hf_localattn import CoolForQuestionAnswering
        >>> from hf_localattn.resources import tiny_backbone
        >>> model = CoolForQuestionAnswering.from_backbone(tiny_backbone())  # untrained
        >>> tokenizer = AutoTokenizer.from_pretrained(tiny_backbone())
        >>> reader = pipeline("question-answering", model=model, tokenizer=tokenizer)
        >>> answer = reader(question="Who is the baker?", context="The baker Mira grows white roses.")
        >>> sorted(answer)
        ['answer', 'end', 'score', 'start']
    """

    _load_tokenizer = True
    _load_feature_extractor = False
    _load_image_processor = False
    _load_processor = False
    default_input_names = "question,context"

    def __init__(self, model: Any, tokenizer: Any, **kwargs: Any):
        if "start_positions" not in inspect.signature(model.forward).parameters:
            raise ValueError(f"{type(model).__name__} has no question-answering head: load one with this head.")
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(f"{type(tokenizer).__name__} is not a fast tokenizer: load one with AutoTokenizer.")
        self.longest = longest_input(model, tokenizer)
        super().__init__(model=model, tokenizer=tokenizer, **kwargs)

    def __call__(self, *inputs: Any, question: Any = None, context: Any = None, **settings: Any) -> Any:
        """Answer one or more questions.

        Args:
            *inputs: Mappings with "question" and "context", such as rows of SQuAD (other keys are ignored); a list of
                mappings; an iterator, which is read lazily; or a question and a context.
            question: A text, or a list of texts.
            context: A text for all questions, or a list with one for each.
            **settings: The following settings.
            top_k (int, *optional*, defaults to 1): Largest number of answers. `topk` is the same setting.
            doc_stride (int, *optional*): Overlap of windows in tokens. Defaults to the smaller of 128 and half of
                `max_seq_len`.
            max_answer_len (int, *optional*, defaults to 15): Largest number of tokens of an answer.
            max_seq_len (int, *optional*): Length of a window in tokens. Defaults to the smaller of 384 and the model's
                limit.
            max_question_len (int, *optional*, defaults to 64): Largest number of tokens of a question; the rest is cut
                off.
            handle_impossible_answer (bool, *optional*, defaults to False): If True, "" is a possible answer.
            align_to_words (bool, *optional*, defaults to True): If True, answers are extended to whole words.
            padding (bool or str, *optional*): Padding of each window, as in calls of the tokenizer.
            batch_size (int, *optional*, defaults to 1): Windows per batch.
            num_workers (int, *optional*, defaults to 0): Processes that tokenize.

        Returns:
            A dict with `score`, `start`, `end` and `answer`, where `answer` is `context[start:end]`, or a list of
            dicts if there are several answers. A list of questions gives a list of results, and an iterator an
            iterator. Scores of answers with the same text are added, also across windows.

        Raises:
            ValueError: A question or context is empty, or a setting is impossible.
            TypeError: A setting is unknown.
        """
        examples = read_inputs(inputs, question, context)
        if isinstance(examples, list) and len(examples) < 2:
            return super().__call__(examples[0], **settings) if examples else []
        return super().__call__(examples, **settings)

    def _sanitize_parameters(
        self,
        *,
        local_files_only: bool | None = None,  # `pipeline(...)` passes it on
        **settings: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        settings = {name: value for name, value in settings.items() if value is not None}
        if "topk" in settings:  # the former name of `top_k`, which transformers 4.57 still takes
            top_k = settings.pop("topk")
            if settings.setdefault("top_k", top_k) != top_k:
                raise ValueError(f"`topk` is {top_k} and `top_k` is {settings['top_k']}: give one of them.")
        for name, value in settings.items():
            if name not in PIPELINE_SETTINGS:
                raise TypeError(f"{name!r} is not a setting of this pipeline; it has {', '.join(PIPELINE_SETTINGS)}.")
            if name in LEAST and (not isinstance(value, int) or value < LEAST[name]):
                raise ValueError(f"`{name}` is {value!r}; it must be a whole number of at least {LEAST[name]}.")
        return settings, {}, settings

    def preprocess(
        self,
        example: Any,
        padding: bool | str = False,
        doc_stride: int | None = None,
        max_question_len: int = 64,
        max_seq_len: int | None = None,
        **of_answers: Any,
    ) -> Iterator[dict[str, Any]]:
        """Yield the windows of a question and its context."""
        question, context = read_example(example).values()
        if max_seq_len is not None and self.longest is not None and max_seq_len > self.longest:
            raise ValueError(f"`max_seq_len` is {max_seq_len}, but the model takes {self.longest} tokens at most.")
        max_seq_len = max_seq_len or min(USUAL_LENGTH, self.longest or USUAL_LENGTH)
        room = max_seq_len - self.tokenizer.num_special_tokens_to_add(pair=True)
        if room < 2:
            raise ValueError(f"`max_seq_len` is {max_seq_len}, which leaves no room for a question and its context.")
        most = min(max_question_len, room - min(MIN_NEW_TOKENS, room // 2))
        question, length = cut_question(question, self.tokenizer, most)
        room -= length
        if doc_stride is None:
            usual = min(max_seq_len // 2, USUAL_STRIDE)
            doc_stride = usual if usual < room else room // 2
        if doc_stride >= room:
            raise ValueError(
                f"`doc_stride` is {doc_stride}, but beside the question a window of {max_seq_len} tokens has room for"
                f" {room} of the context: choose less than these, or a larger `max_seq_len`."
            )
        encoded, _, offsets = encode_windows([question], [context], self.tokenizer, max_seq_len, doc_stride, padding)
        if all(offset is None for window_offsets in offsets for offset in window_offsets):
            raise ValueError(f"The context {context[:60]!r} has no token that the model knows: give it some text.")
        for index, window_offsets in enumerate(offsets):
            window = Window(
                {name: values[index] for name, values in encoded.items()},
                encoded[index],
                window_offsets,
                no_answer_position(encoded, index, self.tokenizer),
                context,
            )
            yield {"window": window, "is_last": index == len(offsets) - 1}

    def _forward(self, inputs: dict[str, Any]) -> dict[str, Any]:
        windows = inputs["window"] if isinstance(inputs["window"], list) else [inputs["window"]]
        batch = {name: torch.tensor([values]) for name, values in windows[0].inputs.items()}
        if len(windows) > 1:  # pad here, because the base class would pad the families' inputs with 0
            batch = self.tokenizer.pad([window.inputs for window in windows], return_tensors="pt", verbose=False)
        batch = {name: values.to(self.device) for name, values in batch.items()}
        output = self.model(**accepted_inputs(self.model, batch), return_dict=True)
        return {**inputs, "starts": output["start_logits"].float(), "ends": output["end_logits"].float()}

    def postprocess(
        self,
        outputs: list[dict[str, Any]],
        top_k: int = 1,
        max_answer_len: int = 15,
        handle_impossible_answer: bool = False,
        align_to_words: bool = True,
        **of_windows: Any,
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the best answers by the logits of all windows of a passage."""
        answers: dict[str, dict[str, Any]] = {}
        no_answer = 1.0
        for output in outputs:
            window = output["window"]
            length = len(window.offsets)
            starts = without_pads(output["starts"][0], length, self.tokenizer)
            ends = without_pads(output["ends"][0], length, self.tokenizer)
            if starts.isnan().any() or ends.isnan().any():
                raise ValueError(f"The logits of {type(self.model).__name__} are not numbers: its training diverged.")
            inside = torch.tensor([offset is not None for offset in window.offsets])
            first, last = possible_spans(starts, ends, inside, max_answer_len)
            of_start, of_end, of_none = span_probabilities(starts, ends, inside, window.no_answer)
            no_answer = min(no_answer, of_none)
            scores = of_start[first] * of_end[last]
            # Spans of the same words become one answer: go on until there are `top_k` answers.
            fewest = 2 * top_k + 10 if align_to_words else top_k
            of_window: set[str] = set()
            for rank, pair in enumerate(scores.argsort(descending=True, stable=True).tolist()):
                if rank >= fewest and len(of_window) >= top_k:
                    break
                start, end = self._characters(window, int(first[pair]), int(last[pair]), align_to_words)
                text = window.context[start:end]
                if text:
                    answer = {"score": 0.0, "start": start, "end": end, "answer": text}
                    answers.setdefault(text.lower(), answer)["score"] += float(scores[pair])
                    of_window.add(text.lower())
        if handle_impossible_answer:
            answers[""] = {"score": no_answer, "start": 0, "end": 0, "answer": ""}
        best = sorted(answers.values(), key=lambda answer: -answer["score"])[:top_k]
        return best[0] if len(best) == 1 else best

    def _characters(self, window: Window, first: int, last: int, align_to_words: bool) -> tuple[int, int]:
        """Return the characters [start, end) of a span of tokens, without blanks around it."""
        if align_to_words:
            encoding = window.encoding
            passage = int(question_is_first(self.tokenizer))
            words = [encoding.token_to_word(token) for token in (first, last)]
            if None not in words:
                first, _ = encoding.word_to_tokens(words[0], passage)
                last = encoding.word_to_tokens(words[1], passage)[1] - 1
        begin = window.offsets[first]
        stop = window.offsets[last]
        assert begin is not None  # both are tokens of the passage
        assert stop is not None
        start = begin[0]
        end = stop[1]
        text = window.context[start:end]
        return start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())


def read_inputs(inputs: tuple[Any, ...], question: Any, context: Any) -> Any:
    """Return the inputs of a call as a list of checked examples, or as a generator or data set."""
    if inputs and (question is not None or context is not None):
        raise ValueError("Give examples, or `question=` and `context=`, but not both.")
    if len(inputs) == 2 and all(isinstance(text, str) for text in inputs):
        question, context = inputs
        inputs = ()
    if not inputs:
        if question is None or context is None:
            raise ValueError("Give `question=` and `context=`, or a mapping with both.")
        if isinstance(question, str):
            return [_checked(question, context)]
        questions = list(question)
        contexts = [context] * len(questions) if isinstance(context, str) else list(context)
        if len(questions) != len(contexts):
            raise ValueError(f"{len(questions)} questions, but {len(contexts)} contexts: give as many, or one.")
        pairs = zip(questions, contexts, strict=True)
        return [_checked(*pair, f" {index}") for index, pair in enumerate(pairs)]
    examples = inputs[0] if len(inputs) == 1 else inputs
    if isinstance(examples, torch.utils.data.Dataset):
        return examples
    if isinstance(examples, str | Mapping) or not isinstance(examples, Iterable):
        examples = [examples]
    if isinstance(examples, Sized):
        return [read_example(example) for example in examples]
    return (example for example in examples)  # the base class reads generators batch by batch


def read_example(example: Any) -> dict[str, str]:
    """Return the question and the context of an example."""
    if not isinstance(example, Mapping) or not {"question", "context"} <= set(example):
        raise ValueError(f"An example is {str(example)[:60]}: give mappings with 'question' and 'context'.")
    return _checked(example["question"], example["context"])


def _checked(question: Any, context: Any, place: str = "") -> dict[str, str]:
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"`{name}`{place} is {str(text)[:20]!r}: give a text.")
    return {"question": question, "context": context}


def encode_windows(
    questions: Sequence[str],
    contexts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    doc_stride: int,
    padding: bool | str = False,
) -> tuple[BatchEncoding, list[int], list[list[Offsets]]]:
    """Return the inputs of all windows of `max_length` tokens, their rows, and the tokens' offsets in the passage."""
    is_first = question_is_first(tokenizer)
    first, second = (questions, contexts) if is_first else (contexts, questions)
    encoded = tokenizer(
        list(first),
        list(second),
        truncation="only_second" if is_first else "only_first",
        max_length=max_length,
        stride=doc_stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=padding,
    )
    row_of = encoded.pop("overflow_to_sample_mapping")
    offsets = []
    for window, of_all in enumerate(encoded.pop("offset_mapping")):
        context = contexts[row_of[window]]
        in_passage = [sequence == int(is_first) for sequence in encoded.sequence_ids(window)]
        tokens = zip(of_all, in_passage, strict=True)
        offsets.append([with_marks(offset, context) if is_inside else None for offset, is_inside in tokens])
    return encoded, row_of, offsets


def with_marks(offset: tuple[int, int], text: str) -> tuple[int, int]:
    """Return the characters [start, end) of a token together with the combining marks that follow.

    Uncased tokenizers drop marks: without them an answer would end inside a character.
    """
    start, end = offset
    while start < end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end += 1
    return start, end


def question_is_first(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return True if the question comes before the passage.

    Tokenizers that pad on the left (XLNet) put the classification token last and the passage first.
    """
    return tokenizer.padding_side == "right"


def cut_question(question: str, tokenizer: PreTrainedTokenizerBase, length: int) -> tuple[str, int]:
    """Return a question, cut to `length` tokens with a warning, and the number of its tokens."""
    encoded = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    offsets = encoded.offset_mapping
    if len(offsets) <= length:
        return question, len(offsets)
    cut = "A question of %d tokens is cut to %d, the room that the settings leave: %.60s..."
    logger.warning(cut, len(offsets), length, question)
    return question[: offsets[length - 1][1]], length


def no_answer_position(encoded: BatchEncoding, window: int, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the position of the classification token, which stands for "no answer here", or None if missing.

    The beginning-of-text token is used if the tokenizer has no classification token.
    """
    tokens = zip(encoded["input_ids"][window], encoded.sequence_ids(window), strict=True)
    first: dict[int, int] = {}
    for position, (token, sequence) in enumerate(tokens):
        if sequence is None:
            first.setdefault(token, position)
    return first.get(tokenizer.cls_token_id, first.get(tokenizer.bos_token_id))


def possible_spans(
    starts: torch.Tensor, ends: torch.Tensor, inside: torch.Tensor, max_tokens: int, most: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first and the last tokens (P,) of spans of at most `max_tokens` tokens, True in `inside` (L,).

    The first and last tokens with the `most` best logits `starts` and `ends` (L,) are combined, by default all.
    """
    tokens = inside.nonzero().flatten()
    first = tokens[starts[tokens].argsort(descending=True, stable=True)[:most]]
    last = tokens[ends[tokens].argsort(descending=True, stable=True)[:most]]
    length = last[None, :] - first[:, None] + 1
    row, column = ((length >= 1) & (length <= max_tokens)).nonzero(as_tuple=True)
    return first[row], last[column]


def span_probabilities(
    starts: torch.Tensor, ends: torch.Tensor, inside: torch.Tensor, no_answer: int | None
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Return the probabilities (L,) of first and of last tokens, and that of "no answer", from logits (L,).

    The softmax is over the tokens `inside` the passage, and the one that stands for "no answer".
    """
    competing = inside.clone()
    if no_answer is not None:
        competing[no_answer] = True
    first, last = (logits.double().masked_fill(~competing, -torch.inf).softmax(-1) for logits in (starts, ends))
    return first, last, 0.0 if no_answer is None else float(first[no_answer] * last[no_answer])
