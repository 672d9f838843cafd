"""Widgets of the demo page: inputs and results for each head, without a user interface.

A Space gets a copy of this file (see `hf_localattn.serving.space`). It may import only the standard library, torch,
transformers and files that a Space gets, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
from transformers import AutoModelForMultipleChoice, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_localattn.models.forward_inputs import accepted_inputs, longest_input
from hf_localattn.models.pipeline_negation import join_over_blanks

MOST_CHARACTERS = 100_000
"""Largest length of a text. Longer texts would block the page."""

MOST_CHOICES, BATCH_SIZE = 100, 16
"""Largest number of choices, and number of choices that the model reads at once."""

NUM_BEST = 5
"""Number of answers in the table."""

EXCERPT = 200
"""Number of characters around an answer for which attention is shown."""

MASK = "[MASK]"
"""Gap in a text of the page. It becomes the mask token of the tokenizer."""

CUE_MARKER = "[CUE]"
CUE, SCOPE = "cue", "scope"

Pieces = list[tuple[str, str | float | None]]
"""Parts of a text in order, each with a label or a weight from 0 to 1, or None."""


@dataclass(frozen=True)
class Input:
    """A text field of the page.

    Attributes:
        label: Label of the field.
        example: Initial text.
        lines: Height of the field.
        optional: If True, the text may be empty.
    """

    label: str
    example: str = ""
    lines: int = 3
    optional: bool = False


@dataclass(frozen=True)
class View:
    """A highlighted text.

    Attributes:
        name: Name of the view in the selector.
        pieces: Parts of the text. Empty if there is nothing to highlight.
        attended: Text or pair of texts for which attention is shown.
    """

    name: str
    pieces: Pieces
    attended: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """Results for an input.

    Attributes:
        views: Views to select from; at least one.
        text: Main result as text.
        rows: Rows of the table, with the widget's `columns`.
        scores: Probabilities of classes.
    """

    views: list[View]
    text: str = ""
    rows: list[list[str]] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)


class Widget:
    """Inputs and results of a head.

    Args:
        model: Model with the head.
        tokenizer: Tokenizer of the model.
        pipe (*optional*): Pipeline of the model. None for heads without a pipeline.

    Attributes:
        task: Name of the task, also of its pipeline.
        inputs: Text fields.
        columns: Columns of the table; none without a table.
        flag: Label of a check box, or "".
        auto_class: Class that loads the model, for heads without a pipeline.
        has_own_pipeline: True if transformers has no such pipeline, so that it comes with the checkpoint.
    """

    task: str
    inputs: tuple[Input, ...] = (Input("Text", "The baker Mira grows white roses."),)
    columns: tuple[str, ...] = ()
    flag: str = ""
    auto_class: Any = None
    has_own_pipeline = False

    def __init__(self, model: Any, tokenizer: Any, pipe: Any = None):
        self.model, self.tokenizer, self.pipe = model, tokenizer, pipe

    def answer(self, *texts: str, flag: bool = False) -> Result:
        """Run the model on the texts of the fields.

        Args:
            *texts: One text for each of `inputs`.
            flag (*optional*, defaults to False): Value of the check box.

        Raises:
            ValueError: A text is empty or too long.
        """
        texts = tuple((text or "").strip() for text in texts)
        for one, text in zip(self.inputs, texts, strict=True):
            if not text and not one.optional:
                raise ValueError(f"The field {one.label!r} is empty: write a text.")
            if len(text) > MOST_CHARACTERS:
                raise ValueError(
                    f"The field {one.label!r} has {len(text)} characters; give at most {MOST_CHARACTERS}."
                )
        return self.run(texts, flag)

    def run(self, texts: Sequence[str], flag: bool) -> Result:
        """Return the results for checked texts."""
        raise NotImplementedError

    def encode(self, *texts: str) -> dict[str, torch.Tensor]:
        """Tokenize a text or a pair of texts as a batch of one.

        Raises:
            ValueError: The texts have too many tokens for the model.
        """
        encoded = self.tokenizer(*texts, return_tensors="pt", verbose=False)
        length, limit = encoded["input_ids"].shape[-1], longest_input(self.model, self.tokenizer)
        if limit is not None and length > limit:
            raise ValueError(f"The text has {length} tokens, but the model takes at most {limit}: give a shorter one.")
        return dict(accepted_inputs(self.model, encoded.to(self.model.device)))


class QuestionAnswering(Widget):
    """A question and a passage, with the best answers in the passage."""

    task = "question-answering"
    inputs = (
        Input("Question", "Who is the baker?", lines=1),
        Input("Passage", "Hugo is the smith. The baker Mira grows white roses.", lines=6),
    )
    columns = ("Answer", "Score", "Characters")
    flag = "The passage may have no answer"
    has_own_pipeline = True

    def run(self, texts: Sequence[str], flag: bool) -> Result:
        question, passage = texts
        found = self.pipe(question=question, context=passage, top_k=NUM_BEST, handle_impossible_answer=flag)
        answers = [found] if isinstance(found, Mapping) else found
        views = [self._view(number, question, passage, answer) for number, answer in enumerate(answers, 1)]
        rows = [
            [answer["answer"] or "(no answer)", _shown(answer["score"]), f"{answer['start']} to {answer['end']}"]
            for answer in answers
        ]
        if not answers:
            return Result([View("", [(passage, None)], (question, passage[:EXCERPT]))], "The passage has no answer.")
        return Result(views, rows[0][0], rows)

    def _view(self, number: int, question: str, passage: str, answer: Mapping[str, Any]) -> View:
        start, end = answer["start"], answer["end"]
        name = f"{number}. {answer['answer'][:60] or '(no answer)'}"
        left, right = max(start - EXCERPT, 0), end + EXCERPT
        if left:  # begin with a whole word
            left = passage.find(" ", left, start) + 1 or left
        return View(name, cut(passage, [(start, end, "answer")]), (question, passage[left:right]))


class Negation(Widget):
    """A raw text, with cues of negation or speculation and their scopes."""

    task = "negation"
    inputs = (Input("Text", "He neither spoke nor moved. That is impossible.", lines=4),)
    columns = ("Cue", "Scope", "Kind", "Cue score", "Scope score")
    has_own_pipeline = True

    def run(self, texts: Sequence[str], flag: bool) -> Result:
        (text,) = texts
        found = self.pipe(text)
        if not found:
            return Result([View("", [(text, None)], (text,))], "The model found no cue.")
        views = [self._view(number, text, one) for number, one in enumerate(found, 1)]
        rows = [
            [
                _words(one["cue"]),
                _words(one["scope"]) or "(empty)",
                f"{one['kind']}, {one['type']}",
                _shown(one["score"]),
                _shown(one["scope_score"]),
            ]
            for one in found
        ]
        return Result(views, f"{len(found)} cue{'s' if len(found) > 1 else ''}", rows)

    def _view(self, number: int, text: str, found: Mapping[str, Any]) -> View:
        labels: list[str | None] = [None] * len(text)
        for label in (SCOPE, CUE):  # an affix is in the word that is in scope
            for start, end in join_over_blanks(text, ((span["start"], span["end"]) for span in found[label])):
                labels[start:end] = [label] * (end - start)
        pieces: Pieces = []
        for label, group in groupby(zip(text, labels, strict=True), key=lambda pair: pair[1]):
            pieces.append(("".join(letter for letter, _ in group), label))
        sentence = found["sentence"]
        marked, at = "", sentence["start"]
        for part in found["cue"]:
            word = max(text.rfind(" ", 0, part["start"]) + 1, at)
            marked += text[at:word] + f"{CUE_MARKER} "
            at = word
        name = f"{number}. {_words(found['cue'])} ({found['kind']})"
        return View(name, pieces, (marked + text[at : sentence["end"]],))


class TextClassification(Widget):
    """A text or a pair of texts, with probabilities of classes, or with a number for regression."""

    task = "text-classification"
    inputs = (*Widget.inputs, Input("Second text, only for models of pairs", lines=2, optional=True))

    def run(self, texts: Sequence[str], flag: bool) -> Result:
        text, second = texts
        given = (text, second) if second else (text,)
        weights = self._weights(given)
        found = self.pipe({"text": text, "text_pair": second} if second else {"text": text}, top_k=None)
        pieces: Pieces = []
        if weights:
            pieces = cut(text, weights[0])
            pieces += [("\n", None), *cut(second, weights[1])] if second else []
        views = [View("", pieces, given)]
        if self.model.config.num_labels == 1:
            return Result(views, f"{found[0]['score']:.4g}")
        return Result(views, scores={one["label"]: float(one["score"]) for one in found})

    def _weights(self, texts: tuple[str, ...]) -> list[list[tuple[int, int, float]]]:
        """Return the weight of each token as a share of the largest one, by text; [] if the model has no weights."""
        inputs = self.encode(*texts)
        body = self.model.base_model
        with torch.inference_mode():
            output = body(**accepted_inputs(body, inputs), output_attentions=True, return_dict=True)
        weights = output.get("token_attention")
        if weights is None:
            return []
        encoding = self.tokenizer(*texts).encodings[0]
        found: list[list[tuple[int, int, float]]] = [[] for _ in texts]
        for number, (start, end), weight in zip(
            encoding.sequence_ids, encoding.offsets, weights[0].float().tolist(), strict=True
        ):
            if number is not None and start < end:
                found[number].append((start, end, weight))
        most = max((weight for own in found for *_, weight in own), default=0.0) or 1.0
        return [[(start, end, weight / most) for start, end, weight in own] for own in found]


class TokenClassification(Widget):
    """A text, with the labels of its words."""

    task = "token-classification"
    columns = ("Text", "Label", "Score")

    def run(self, texts: Sequence[str], flag: bool) -> Result:
        (text,) = texts
        self.encode(text)  # the pipeline would cut or fail
        found = self.pipe(text, aggregation_strategy="first")
        spans = [(one["start"], one["end"], one["entity_group"]) for one in found]
        rows = [[text[one["start"] : one["end"]], one["entity_group"], _shown(one["score"])] for one in found]
        return Result([View("", cut(text, spans), (text,))], "" if found else "The model labels no word.", rows)


class FillMask(Widget):
    """A text with a gap, with the most probable words for it."""

    task = "fill-mask"
    inputs = (Input("Text with one mask", "The baker Mira grows white [MASK]."),)
    columns = ("Token", "Score")

    def run(self, texts: Sequence[str], flag: bool) -> Result:
        text = texts[0].replace(MASK, self.tokenizer.mask_token)
        self.encode(text)  # raises an error for a long text
        if text.count(self.tokenizer.mask_token) != 1:
            raise ValueError(f"Write {MASK} once, in the place of the word to find.")
        found = self.pipe(text, top_k=NUM_BEST)
        best = found[0]["token_str"].strip()
        start = text.index(self.tokenizer.mask_token)
        before, after = text[:start], text[start + len(self.tokenizer.mask_token) :]
        rows = [[one["token_str"].strip(), _shown(one["score"])] for one in found]
        return Result([View("", [(before, None), (best, "best"), (after, None)], (text,))], best, rows)


class MultipleChoice(Widget):
    """A beginning and its possible endings, with their probabilities."""

    task = "multiple-choice"
    inputs = (
        Input("Beginning or question", "Mira is the baker.", lines=3),
        Input("Choices, one per line", "She bakes bread.\nShe shoes horses.", lines=4),
    )
    auto_class = AutoModelForMultipleChoice

    def run(self, texts: Sequence[str], flag: bool) -> Result:
        beginning, endings = texts
        choices = [line.strip() for line in endings.split("\n") if line.strip()]
        if len(choices) < 2:
            raise ValueError(f"There is only one choice, {choices[0]!r}: write two or more, each on its own line.")
        if len(choices) > MOST_CHOICES:
            raise ValueError(f"There are {len(choices)} choices: write at most {MOST_CHOICES}.")
        for choice in choices:
            self.encode(beginning, choice)  # raises an error for a long text
        logits = torch.cat(
            [self._logits(beginning, choices[at : at + BATCH_SIZE]) for at in range(0, len(choices), BATCH_SIZE)]
        )
        scores = logits.float().softmax(-1).tolist()
        best = choices[scores.index(max(scores))]
        names = [f"{number}. {choice}" for number, choice in enumerate(choices, 1)]
        return Result([View("", [], (beginning, best))], best, scores=dict(zip(names, scores, strict=True)))

    def _logits(self, beginning: str, choices: Sequence[str]) -> torch.Tensor:
        """Return a logit for each choice. It does not depend on the other choices."""
        batch = self.tokenizer([beginning] * len(choices), choices, padding=True, return_tensors="pt")
        inputs = {name: value[None] for name, value in batch.to(self.model.device).items()}
        with torch.inference_mode():
            return self.model(**accepted_inputs(self.model, inputs)).logits[0]


class Generation(Widget):
    """A text or a pair of texts, with a generated text."""

    task = "text2text-generation"
    inputs = (
        Input("Text, or the answer to ask for", "Mira", lines=2),
        Input("Passage of the answer", "Hugo is the smith. The baker Mira grows white roses.", optional=True, lines=4),
    )
    columns = ("Text", "Score")
    auto_class = AutoModelForSeq2SeqLM

    def run(self, texts: Sequence[str], flag: bool) -> Result:
        text, passage = texts
        given = (text, passage) if passage else (text,)
        inputs = self.encode(*given)
        inputs.pop("token_type_ids", None)
        with torch.inference_mode():
            output = self.model.generate(
                **inputs,
                num_beams=NUM_BEST,
                num_return_sequences=NUM_BEST,
                max_new_tokens=64,
                return_dict_in_generate=True,
                output_scores=True,
            )
        written = self.tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
        scores = output.sequences_scores.exp().tolist()
        rows = [[one.strip(), _shown(score)] for one, score in zip(written, scores, strict=True)]
        return Result([View("", [], given)], rows[0][0] or "(empty text)", rows)


WIDGETS: dict[str, type[Widget]] = {
    one.task: one
    for one in (
        QuestionAnswering,
        Negation,
        TextClassification,
        TokenClassification,
        FillMask,
        MultipleChoice,
        Generation,
    )
}
"""Widget of each task."""


def create_widget(task: str, model: Any, tokenizer: Any) -> Widget:
    """Create the widget of a loaded model.

    Args:
        task: A key of `WIDGETS`.
        model: Model with a head for the task.
        tokenizer: Fast tokenizer of the model.
    """
    kind = WIDGETS[task]
    return kind(model, tokenizer, None if kind.auto_class else pipeline(task, model=model, tokenizer=tokenizer))


def load_widget(task: str, name: str, **settings: Any) -> Widget:
    """Load a checkpoint by transformers alone, and create its widget.

    Args:
        task: A key of `WIDGETS`.
        name: Hub id or folder of the checkpoint.
        **settings: Settings such as `revision` and `trust_remote_code`.
    """
    kind = WIDGETS[task]
    if kind.auto_class:
        model = kind.auto_class.from_pretrained(name, **settings)
        return kind(model.eval(), AutoTokenizer.from_pretrained(name, **settings))
    pipe = pipeline(task, model=name, **settings)
    return kind(pipe.model, pipe.tokenizer, pipe)


def cut(text: str, spans: Iterable[tuple[int, int, str | float]]) -> Pieces:
    """Cut a text at the ends of labeled spans. Empty spans, and parts that overlap an earlier span, are left out."""
    pieces: Pieces = []
    at = 0
    for start, end, label in sorted(spans, key=lambda span: span[:2]):
        start = max(start, at)
        if start >= end:
            continue
        if start > at:
            pieces.append((text[at:start], None))
        pieces.append((text[start:end], label))
        at = end
    return [*pieces, (text[at:], None)] if at < len(text) else pieces


def _words(spans: Iterable[Mapping[str, Any]]) -> str:
    return " … ".join(span["text"] for span in spans)


def _shown(score: float) -> str:
    return f"{float(score):.4f}"
