"""Widgets of the demo page: the fields and results of each head, as components of gradio.

The program of a Space (see `hf_localattn.serving.space`) has the code of `Answer`, `Widget`, one of its subclasses and
`add_widget`. They may use only the standard library, torch and transformers; gradio only in `add_widget`.
"""

import html
from itertools import groupby
from typing import Any, NamedTuple

import torch


class Answer(NamedTuple):
    """Result of a widget."""

    result: str | dict[str, float]  # text, or probabilities by class
    highlights: Any = ()  # for each row or for all, the parts of a text: each with a label, a weight or None
    rows: Any = ()  # rows of the table, with the widget's `columns`
    found: Any = ()  # finding of the pipeline for each row, or one for all


class Widget:
    """Fields and results of a head.

    Args:
        model: Model with the head.
        tokenizer: Fast tokenizer of the model.
        pipe (*optional*): Pipeline of the model. None for heads without a pipeline.
    """

    fields: tuple[tuple[str, str, int], ...] = (("Text", "The baker Mira grows white roses.", 3),)
    required = 1  # number of fields that must not be empty
    flag = ""  # label of a check box
    columns: tuple[str, ...] = ()

    def __init__(self, model: Any, tokenizer: Any, pipe: Any = None):
        self.model, self.tokenizer, self.pipe = model, tokenizer, pipe

    def encode(self, *texts: Any) -> Any:
        """Tokenize texts. Raise `ValueError` if they have too many tokens for the model."""
        encoded = self.tokenizer(*texts, padding=True, return_tensors="pt", verbose=False)
        if encoded["input_ids"].shape[-1] > (limit := self.tokenizer.model_max_length):
            raise ValueError(f"The text is too long: the model takes at most {limit} tokens.")
        return encoded.to(self.model.device)

    @staticmethod
    def cut(text: str, spans: Any) -> list[tuple[str, Any]]:
        """Cut a text into parts with and without labels. `spans` are starts, ends and labels; the last one wins."""
        labels: list[Any] = [None] * len(text)
        for start, end, label in spans:
            labels[start:end] = [label] * (end - start)
        parts = groupby(zip(text, labels, strict=True), key=lambda pair: pair[1])
        return [("".join(letter for letter, _ in part), label) for label, part in parts]


class QuestionAnswering(Widget):
    """A question and a passage, with the best answers in the passage."""

    fields = (
        ("Question", "Who is the baker?", 1),
        ("Passage", "Hugo is the smith. The baker Mira grows white roses.", 6),
    )
    required = 2
    flag = "The passage may have no answer"
    columns = ("Answer", "Score", "Characters")

    def answer(self, texts: list[str], flag: bool) -> Answer:
        question, passage = texts
        found = self.pipe(question=question, context=passage, top_k=5, handle_impossible_answer=flag)
        answers = [found] if isinstance(found, dict) else found
        rows = [
            [one["answer"] or "(no answer)", f"{one['score']:.4f}", f"{one['start']} to {one['end']}"]
            for one in answers
        ]
        marked = [self.cut(passage, [(one["start"], one["end"], "answer")]) for one in answers]
        return Answer(rows[0][0] if rows else "The passage has no answer.", marked, rows, answers)


class Negation(Widget):
    """A raw text, with cues of negation or speculation and their scopes."""

    fields = (("Text", "He neither spoke nor moved. That is impossible.", 4),)
    columns = ("Cue", "Scope", "Kind", "Scores of cue and scope")

    def answer(self, texts: list[str], flag: bool) -> Answer:
        found, rows, marked = self.pipe(texts[0]), [], []
        for one in found:
            cue, scope = (" … ".join(span["text"] for span in one[name]) for name in ("cue", "scope"))
            scores = f"{one['score']:.4f}, {one['scope_score']:.4f}"
            rows.append([cue, scope or "(empty)", f"{one['kind']}, {one['type']}", scores])
            spans = [(span["start"], span["end"], name) for name in ("scope", "cue") for span in one[name]]
            marked.append(self.cut(texts[0], spans))
        number = f"{len(found)} cue{'s' if len(found) > 1 else ''}"
        return Answer(number if found else "The model found no cue.", marked, rows, found)


class TextClassification(Widget):
    """A text or a pair of texts, with probabilities of classes, or with a number for regression."""

    fields = (*Widget.fields, ("Second text, only for models of pairs", "", 2))

    def answer(self, texts: list[str], flag: bool) -> Answer:
        given = [text for text in texts if text]
        inputs = self.encode(*given)
        with torch.inference_mode():
            weights = self.model(**inputs, output_attentions=True).get("token_attention")
        found = self.pipe(dict(zip(("text", "text_pair"), given, strict=False)), top_k=None)
        scores = {one["label"]: float(one["score"]) for one in found}
        result = f"{found[0]['score']:.4g}" if self.model.config.num_labels == 1 else scores
        return Answer(result, [] if weights is None else [self.weighed(given, inputs.encodings[0], weights[0])])

    def weighed(self, texts: list[str], encoding: Any, weights: Any) -> list[tuple[str, Any]]:
        """Return the texts with the weight of each token, as a share of the largest one."""
        tokens = list(zip(encoding.sequence_ids, encoding.offsets, weights.tolist(), strict=True))
        most = max((weight for number, _, weight in tokens if number is not None), default=1.0)
        parts: list[tuple[str, Any]] = []
        for number, text in enumerate(texts):
            parts += [("\n", None)] if parts else []
            parts += self.cut(text, [(*span, weight / most) for of, span, weight in tokens if of == number])
        return parts


class TokenClassification(Widget):
    """A text, with the labels of its words."""

    columns = ("Text", "Label", "Score")

    def answer(self, texts: list[str], flag: bool) -> Answer:
        (text,) = texts
        self.encode(text)  # the pipeline would cut a long text
        found = self.pipe(text, aggregation_strategy="first")
        spans = [(one["start"], one["end"], one["entity_group"]) for one in found]
        scores = [f"{one['score']:.4f}" for one in found]
        rows = [[text[start:end], label, score] for (start, end, label), score in zip(spans, scores, strict=True)]
        return Answer(f"{len(found) or 'no'} labeled parts", [self.cut(text, spans)], rows)


class FillMask(Widget):
    """A text with a gap, with the most probable words for it."""

    columns = ("Token", "Score")

    def __init__(self, model: Any, tokenizer: Any, pipe: Any = None):
        super().__init__(model, tokenizer, pipe)
        self.fields = ((f"Text with one {tokenizer.mask_token}", f"The baker Mira grows {tokenizer.mask_token}.", 3),)

    def answer(self, texts: list[str], flag: bool) -> Answer:
        mask = self.tokenizer.mask_token
        before, found, after = texts[0].partition(mask)
        if not found or mask in after:
            raise ValueError(f"Write {mask} once, in the place of the word to find.")
        self.encode(texts[0])
        rows = [[one["token_str"].strip(), f"{one['score']:.4f}"] for one in self.pipe(texts[0], top_k=5)]
        return Answer(rows[0][0], [[(before, None), (word, "word"), (after, None)] for word, _ in rows], rows)


class MultipleChoice(Widget):
    """A beginning and its possible endings, with their probabilities."""

    fields = (
        ("Beginning or question", "Mira is the baker.", 3),
        ("Choices, one per line", "She bakes bread.\nShe shoes horses.", 4),
    )
    required = 2

    def answer(self, texts: list[str], flag: bool) -> Answer:
        choices = [line.strip() for line in texts[1].splitlines() if line.strip()]
        if not 2 <= len(choices) <= 100:
            raise ValueError(f"There are {len(choices)} choices: write 2 to 100, each on its own line.")
        inputs = self.encode([texts[0]] * len(choices), choices)
        with torch.inference_mode():
            logits = self.model(**{name: value[None] for name, value in inputs.items()}).logits[0]
        scores = logits.float().softmax(-1).tolist()
        names = [f"{number}. {choice}" for number, choice in enumerate(choices, 1)]
        found = [{"choice": choices[scores.index(max(scores))]}]
        return Answer(dict(zip(names, scores, strict=True)), found=found)


class Generation(Widget):
    """A text or a pair of texts, with a generated text."""

    fields = (
        ("Text, or the answer to ask for", "Mira", 2),
        ("Passage of the answer", "Hugo is the smith. The baker Mira grows white roses.", 4),
    )
    columns = ("Text", "Score")

    def answer(self, texts: list[str], flag: bool) -> Answer:
        inputs = self.encode(*filter(None, texts))
        inputs.pop("token_type_ids", None)
        best = {"num_beams": 5, "num_return_sequences": 5, "max_new_tokens": 64}
        with torch.inference_mode():
            output = self.model.generate(**inputs, **best, return_dict_in_generate=True, output_scores=True)
        written = self.tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
        scores = output.sequences_scores.exp().tolist()
        rows = [[text.strip(), f"{score:.4f}"] for text, score in zip(written, scores, strict=True)]
        return Answer(rows[0][0] or "(empty text)", rows=rows)


def add_widget(widget: Any, example: str | None = None) -> Any:
    """Add the components of a widget to the page that is being built with gradio.

    Args:
        widget: Widget of the model's head.
        example (*optional*): Initial text of the first field. Defaults to the widget's.

    Returns:
        A `gradio.State` with the texts of the fields and the finding that is shown; None before the first answer.
    """
    import gradio as gr

    with gr.Row(equal_height=False):
        with gr.Column():
            initial = [example or widget.fields[0][1], *(text for _, text, _ in widget.fields[1:])]
            texts = [
                gr.Textbox(text, label=label, lines=lines, max_lines=20)
                for text, (label, _, lines) in zip(initial, widget.fields, strict=True)
            ]
            flag = gr.Checkbox(label=widget.flag, visible=bool(widget.flag))
            button = gr.Button("Run", variant="primary")
        with gr.Column():
            result = gr.Textbox(label="Result", interactive=False) if widget.columns else gr.Label(label="Result")
            columns = list(widget.columns or ["Class"])
            shape: Any = {"column_count": len(columns), "column_widths": [f"{100 // len(columns)}%"] * len(columns)}
            table = gr.Dataframe(headers=columns, **shape, wrap=True, visible=False)
            marked = gr.HighlightedText(label="Text", show_legend=False, show_inline_category=True, visible=False)
    answers, shown = gr.State(), gr.State()

    def show(given: Any, answer: Any, row: int) -> list[Any]:
        pieces, finding = ([*found[row:], *found[-1:], None][0] for found in (answer.highlights, answer.found))
        return [gr.HighlightedText(pieces, visible=bool(pieces)), (given, finding or {})]

    def run(*inputs: Any) -> list[Any]:
        given = [(text or "").strip() for text in inputs[:-1]]
        try:
            if not all(given[: widget.required]):
                raise ValueError(f"The field {widget.fields[given.index('')][0]!r} is empty: write a text.")
            answer = widget.answer(given, inputs[-1])
        except Exception as error:  # whatever it is, the page says it and goes on
            raise gr.Error(html.escape(str(error)), duration=None) from error
        label = "Select a row to highlight it" if len(answer.highlights) > 1 else "All results"
        rows = gr.Dataframe(list(answer.rows), label=label, visible=bool(answer.rows))
        return [(given, answer), answer.result, rows, *show(given, answer, 0)]

    def select(chosen: Any, event: gr.SelectData) -> list[Any]:
        return show(chosen[0], chosen[1], event.index[0])

    button.click(run, [*texts, flag], [answers, result, table, marked, shown], api_name="ask")
    table.select(select, [answers], [marked, shown], api_name=False)
    return shown


def launch(page: Any, **settings: Any) -> Any:
    """Start the server of a page, with fonts of the browser's system, so that nothing else is loaded."""
    import gradio as gr

    theme = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["system-ui", "sans-serif"])
    css = ".textfield {display: block; word-break: normal; white-space: pre-line} .token-container {display: inline}"
    return page.launch(theme=theme, css=css, footer_links=[], **settings)


WIDGETS: dict[str, type[Widget]] = {
    "question-answering": QuestionAnswering,
    "negation": Negation,
    "text-classification": TextClassification,
    "token-classification": TokenClassification,
    "fill-mask": FillMask,
    "multiple-choice": MultipleChoice,
    "text2text-generation": Generation,
}
"""Widget of each task."""
