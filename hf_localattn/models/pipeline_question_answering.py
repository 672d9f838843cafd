"""The pipeline "question-answering", with the inputs, arguments and outputs of transformers 4.57.

transformers 5 removed this pipeline.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any

import torch
from transformers.pipelines.base import ChunkPipeline

from .answer_spans import possible_spans, span_probabilities
from .forward_inputs import longest_input
from .question_windows import (
    MIN_NEW_TOKENS,
    Offsets,
    cut_question,
    encode_windows,
    no_answer_position,
    question_is_first,
)
from .window_logits import window_logits, without_pads

USUAL_LENGTH = 384
USUAL_STRIDE = 128


@dataclass(frozen=True)
class Window:
    """One input of a model: the question and a part of the passage.

    Attributes:
        inputs: model inputs, one value for each token.
        encoding: encoding of the window, to find words.
        offsets: characters of each token in the passage; None for all other tokens.
        no_answer: position of the token that stands for "no answer".
        context: the whole passage.
    """

    inputs: dict[str, list[int]]
    encoding: Any
    offsets: list[Offsets]
    no_answer: int | None
    context: str


class QuestionAnsweringPipeline(ChunkPipeline):
    """Extractive question answering over passages of any length.

    A passage that is too long for the model is split into windows. A batch has `batch_size` windows, of one or more
    questions. `pipeline(...)` takes the arguments of a call as defaults.

    Raises:
        ValueError: the model has no question-answering head, or the tokenizer is not a fast one.

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
            raise ValueError(
                f"{type(model).__name__} has no question-answering head: load a checkpoint that was trained on"
                " questions, with AutoModelForQuestionAnswering."
            )
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(
                f"{type(tokenizer).__name__} is not a fast tokenizer, which alone says where in the passage a token"
                " is: load it with AutoTokenizer, from a checkpoint that has a tokenizer.json."
            )
        self.longest = longest_input(model, tokenizer)
        super().__init__(model=model, tokenizer=tokenizer, **kwargs)

    def __call__(self, *inputs: Any, question: Any = None, context: Any = None, **settings: Any) -> Any:
        """Answer one or more questions.

        Args:
            *inputs: mappings with "question" and "context", such as rows of SQuAD (other keys are ignored); a list of
                mappings; an iterator, which is read lazily; or a question and a context.
            question: a text, or a list of texts.
            context: a text for all questions, or a list with one for each.
            **settings: the following settings.
            top_k (int, *optional*, defaults to 1): largest number of answers.
            doc_stride (int, *optional*): overlap of windows in tokens. Defaults to the smaller of 128 and half of
                `max_seq_len`.
            max_answer_len (int, *optional*, defaults to 15): largest number of tokens of an answer.
            max_seq_len (int, *optional*): length of a window in tokens. Defaults to the smaller of 384 and the model's
                limit.
            max_question_len (int, *optional*, defaults to 64): largest number of tokens of a question; the rest is cut
                off.
            handle_impossible_answer (bool, *optional*, defaults to False): if True, "" is a possible answer.
            align_to_words (bool, *optional*, defaults to True): if True, answers are extended to whole words.
            padding (bool or str, *optional*): padding of each window, as in calls of the tokenizer.
            batch_size (int, *optional*, defaults to 1): windows per batch.
            num_workers (int, *optional*, defaults to 0): processes that tokenize.

        Returns:
            A dict with `score`, `start`, `end` and `answer`, where `answer` is `context[start:end]`, or a list of
            dicts if there are several answers. A list of questions gives a list of results, and an iterator an
            iterator. Scores of answers with the same text are added, also across windows.

        Raises:
            ValueError: a question or context is empty, or a setting is impossible.
            TypeError: a setting is unknown.
        """
        examples = read_inputs(inputs, question, context)
        if isinstance(examples, list) and len(examples) < 2:
            return super().__call__(examples[0], **settings) if examples else []
        return super().__call__(examples, **settings)

    def _sanitize_parameters(
        self,
        *,
        padding: bool | str | None = None,
        top_k: int | None = None,
        doc_stride: int | None = None,
        max_answer_len: int | None = None,
        max_seq_len: int | None = None,
        max_question_len: int | None = None,
        handle_impossible_answer: bool | None = None,
        align_to_words: bool | None = None,
        local_files_only: bool | None = None,  # `pipeline(...)` passes it on
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        least = {"top_k": 1, "max_answer_len": 1, "max_question_len": 1, "max_seq_len": 1, "doc_stride": 0}
        given = locals()
        for name, smallest in least.items():
            value = given[name]
            if value is not None and (not isinstance(value, int) or value < smallest):
                raise ValueError(f"`{name}` is {value!r}; it must be a whole number of at least {smallest}.")
        of_windows = ("padding", "doc_stride", "max_seq_len", "max_question_len")
        of_answers = ("top_k", "max_answer_len", "handle_impossible_answer", "align_to_words")
        before, after = (
            {name: given[name] for name in names if given[name] is not None} for names in (of_windows, of_answers)
        )
        return before, {}, after

    def preprocess(
        self,
        example: Any,
        padding: bool | str = False,
        doc_stride: int | None = None,
        max_question_len: int = 64,
        max_seq_len: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the windows of a question and its context."""
        question, context = read_example(example)
        max_seq_len = self._window_length(max_seq_len)
        room = max_seq_len - self.tokenizer.num_special_tokens_to_add(pair=True)
        if room < 2:
            raise ValueError(f"`max_seq_len` is {max_seq_len}, which leaves no room for a question and its context.")
        question = cut_question(question, self.tokenizer, min(max_question_len, room - min(MIN_NEW_TOKENS, room // 2)))
        doc_stride = self._overlap(question, context, doc_stride, max_seq_len, room)
        encoded, _, offsets = encode_windows([question], [context], self.tokenizer, max_seq_len, doc_stride, padding)
        if not any(offset is not None for own in offsets for offset in own):
            raise ValueError(f"The context {context[:60]!r} has no token that the model knows: give it some text.")
        for number, own in enumerate(offsets):
            window = Window(
                {name: values[number] for name, values in encoded.items()},
                encoded[number],
                own,
                no_answer_position(encoded, number, self.tokenizer),
                context,
            )
            yield {"window": window, "is_last": number == len(offsets) - 1}

    def _window_length(self, asked_for: int | None) -> int:
        if asked_for is None:
            return min(USUAL_LENGTH, self.longest or USUAL_LENGTH)
        if self.longest is not None and asked_for > self.longest:
            raise ValueError(f"`max_seq_len` is {asked_for}, but the model takes {self.longest} tokens at most.")
        return asked_for

    def _overlap(self, question: str, context: str, asked_for: int | None, max_seq_len: int, room: int) -> int:
        """Return the number of tokens that two windows share. It is less than the room for the passage."""
        stride = min(max_seq_len // 2, USUAL_STRIDE) if asked_for is None else asked_for
        if stride + max_seq_len // 2 < room and len(question.encode()) <= max_seq_len // 2:
            return stride  # the usual case: no long question or overlap
        room -= len(self.tokenizer.tokenize(question))
        if stride < room:
            return stride
        if asked_for is not None and len(self.tokenizer.tokenize(context)) > room:
            raise ValueError(
                f"`doc_stride` is {asked_for}, but beside the question a window of {max_seq_len} tokens has room for"
                f" {room} of the context: choose less than these, or a larger `max_seq_len`."
            )
        return room // 2

    def _forward(self, inputs: dict[str, Any]) -> dict[str, Any]:
        windows = inputs["window"] if isinstance(inputs["window"], list) else [inputs["window"]]
        rows = [window.inputs for window in windows]
        # Pad here, because the base class would pad the families' inputs with 0.
        starts, ends = window_logits(self.model, self.tokenizer, rows, self.device)
        return {**inputs, "starts": starts, "ends": ends}

    def postprocess(
        self,
        outputs: list[dict[str, Any]],
        top_k: int = 1,
        max_answer_len: int = 15,
        handle_impossible_answer: bool = False,
        align_to_words: bool = True,
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the best answers by the logits of all windows of a passage."""
        answers: dict[str, dict[str, Any]] = {}
        no_answer = 1.0
        for output in outputs:
            window = output["window"]
            starts, ends = (self._unpadded(output[name][0], window) for name in ("starts", "ends"))
            inside = torch.tensor([offset is not None for offset in window.offsets])
            first, last = possible_spans(starts, ends, inside, max_answer_len)
            of_start, of_end, of_none = span_probabilities(starts, ends, inside, window.no_answer)
            no_answer = min(no_answer, of_none)
            scores = of_start[first] * of_end[last]
            # More than `top_k`, since spans of the same words become one answer.
            most = 2 * top_k + 10 if align_to_words else top_k
            for pair in scores.argsort(descending=True, stable=True)[:most].tolist():
                start, end = self._characters(window, int(first[pair]), int(last[pair]), align_to_words)
                text = window.context[start:end]
                if known := answers.get(text.lower()):
                    known["score"] += float(scores[pair])
                elif text:
                    answers[text.lower()] = {"score": float(scores[pair]), "start": start, "end": end, "answer": text}
        found = list(answers.values())
        if handle_impossible_answer:
            found.append({"score": no_answer, "start": 0, "end": 0, "answer": ""})
        found = sorted(found, key=lambda answer: -answer["score"])[:top_k]
        return found[0] if len(found) == 1 else found

    def _unpadded(self, logits: torch.Tensor, window: Window) -> torch.Tensor:
        """Return the logits of a window without padding."""
        if logits.isnan().any():
            raise ValueError(f"The logits of {type(self.model).__name__} are not numbers: its training has diverged.")
        return without_pads(logits, len(window.offsets), self.tokenizer)

    def _characters(self, window: Window, first: int, last: int, align_to_words: bool) -> tuple[int, int]:
        """Return the characters [start, end) of a span of tokens, without blanks around it."""
        spans = [window.offsets[place] for place in (first, last)]
        if align_to_words:
            encoding, sequence = window.encoding, int(question_is_first(self.tokenizer))
            words = [encoding.token_to_word(place) for place in (first, last)]
            wider = [None if word is None else encoding.word_to_chars(word, sequence) for word in words]
            spans = spans if None in wider else wider
        (start, _), (_, end) = (span for span in spans if span is not None)
        text = window.context[start:end]
        return start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())


def read_inputs(inputs: tuple[Any, ...], question: Any, context: Any) -> Any:
    """Return the inputs of a call as a list of checked examples, or as a generator or data set.

    Raises:
        ValueError: the inputs have another form, or an example in a list is empty.
    """
    if inputs and (question is not None or context is not None):
        raise ValueError("Give examples, or `question=` and `context=`, but not both.")
    if not inputs:
        return read_pairs(question, context)
    if len(inputs) == 2 and all(isinstance(text, str) for text in inputs):
        return [_checked(*inputs)]
    given = inputs[0] if len(inputs) == 1 else inputs
    if isinstance(given, torch.utils.data.Dataset):
        return given
    if isinstance(given, str) or not isinstance(given, Iterable) or isinstance(given, Mapping):
        given = [given]
    if isinstance(given, Sized):
        return [_checked(*read_example(example)) for example in given]
    return (example for example in given)  # the base class reads generators batch by batch


def read_pairs(question: Any, context: Any) -> list[dict[str, str]]:
    """Return a checked example for each question.

    Args:
        question: A text, or a list of texts.
        context: A text for all questions, or a list with one for each.

    Raises:
        ValueError: A text is missing or empty, or the lists have different lengths.
    """
    missing = [name for name, value in (("question", question), ("context", context)) if value is None]
    if missing:
        names = " and ".join(f"`{name}`" for name in missing)
        raise ValueError(f"No {names} is given: pass `question=` and `context=`, or a mapping with both.")
    if not _is_list(question):
        if _is_list(context):
            raise ValueError("One question needs one context: pass the question once for each of several contexts.")
        return [_checked(question, context)]
    questions = list(question)
    contexts = list(context) if _is_list(context) else [context] * len(questions)
    if len(questions) != len(contexts):
        raise ValueError(f"{len(questions)} questions, but {len(contexts)} contexts: pass as many, or one context.")
    return [_checked(*pair, f" {number}") for number, pair in enumerate(zip(questions, contexts, strict=True))]


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def read_example(example: Any) -> tuple[str, str]:
    """Return the question and the context of an example.

    Args:
        example: a mapping with "question" and "context"; or an object with `question_text` and `context_text`.

    Raises:
        ValueError: the example is neither, or one of the texts is empty.
    """
    if isinstance(example, Mapping):
        missing = [name for name in ("question", "context") if name not in example]
        if missing:
            raise ValueError(f"An example has no {missing[0]!r}, but {', '.join(map(repr, example)) or 'nothing'}.")
        texts = example["question"], example["context"]
    elif hasattr(example, "question_text") and hasattr(example, "context_text"):
        texts = example.question_text, example.context_text
    else:
        raise ValueError(f"An example is {str(example)[:60]!r}; it must be a mapping with 'question' and 'context'.")
    checked = _checked(*texts)
    return checked["question"], checked["context"]


def _checked(question: Any, context: Any, number: str = "") -> dict[str, str]:
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str):
            raise ValueError(f"`{name}`{number} is a {type(text).__name__}; it must be a text.")
        if not text.strip():
            raise ValueError(f"`{name}`{number} is empty ({text[:20]!r}): give a text.")
    return {"question": question, "context": context}
