"""Page that asks a model: fields, an answer, and rows whose parts of the text are highlighted.

`hf-localattn push --space` copies this file as the program of a Space, whose settings are in `page.json` beside it. It
may import only the standard library, torch, transformers, and gradio in a function.
"""

import html
import itertools
import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForMultipleChoice, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

WITHOUT_PIPELINE = {"multiple-choice": AutoModelForMultipleChoice, "text2text-generation": AutoModelForSeq2SeqLM}
TEXT = ("Text", "The baker Mira grows white roses.", 3)


SESSION_SECONDS = 600
"""Seconds after which the page forgets a visitor's texts and answers."""

MOST_SESSIONS = 100
"""Number of visitors whose texts and answers are kept at the same time."""

WORDS_OF_SCOPES = 2
"""Words that are read for the scopes of cues, for each character that a request may have."""

_model = threading.Lock()
"""Answers are computed one after the other: tokenizers are changed by their calls."""


class Answer(NamedTuple):
    """An answer on the page."""

    result: str | dict[str, float]  # text, or probabilities by class
    rows: Any = ()  # of the table
    marked: Any = ()  # for each row or for all, the parts of a text, each with a label, a weight or None
    findings: Any = ()  # of the model, for each row or for all


class Widget(NamedTuple):
    """The form of a task."""

    answer: Callable[[Any, list[str]], Answer]  # from a pipeline and the texts
    fields: tuple[tuple[str, str, int], ...]  # label, example and lines
    columns: tuple[str, ...] = ()  # of the table
    required: int = 1  # number of fields that must not be empty


WIDGETS: dict[str, Widget] = {}


def answers(task: str, *fields: Any, **settings: Any) -> Any:
    """Register the function below for a task."""
    return lambda answer: WIDGETS.setdefault(task, Widget(answer, fields, **settings)).answer


def encode(pipe: Any, *texts: Any) -> Any:
    """Tokenize texts that are not too long for the model."""
    encoded = pipe.tokenizer(*texts, padding=True, return_tensors="pt", verbose=False)
    limit = pipe.tokenizer.model_max_length
    if encoded["input_ids"].shape[-1] > limit:
        raise ValueError(f"The text is too long: the model takes at most {limit} tokens.")
    return encoded.to(pipe.model.device)


def mark(text: str, spans: Any) -> list[Any]:
    """Divide a text into parts, each with the label of the last span that has it, or None."""
    spans = list(spans)
    ends = sorted({0, len(text), *(end for start, end, _ in spans), *(start for start, _, _ in spans)})
    parts: list[Any] = []
    for start, end in itertools.pairwise(ends):
        labels = [label for first, last, label in spans if first <= start and end <= last]
        parts.append((text[start:end], labels[-1] if labels else None))
    return parts


@answers(
    "question-answering",
    ("Question", "Who is the baker?", 1),
    ("Passage", "Hugo is the smith. The baker Mira grows white roses.", 6),
    columns=("Answer", "Score", "Characters"),
    required=2,
)
def answer_question(pipe: Any, texts: list[str]) -> Answer:
    """Find answers in a passage."""
    question, passage = texts
    spans = pipe(question=question, context=passage, top_k=5, handle_impossible_answer=True)
    if isinstance(spans, dict):
        spans = [spans]
    rows = []
    marked = []
    for span in spans:
        start = span["start"]
        end = span["end"]
        rows.append([span["answer"] or "(no answer)", f"{span['score']:.4f}", f"{start} to {end}"])
        marked.append(mark(passage, [(start, end, "answer")]))
    return Answer(rows[0][0] if rows else "The passage has no answer.", rows, marked, spans)


@answers(
    "negation",
    ("Text", "He neither spoke nor moved. That is impossible.", 4),
    columns=("Cue", "Scope", "Kind", "Scores of cue and scope"),
)
def find_negation(pipe: Any, texts: list[str]) -> Answer:
    """Find cues of negation or speculation, and their scopes."""
    negations = pipe(texts[0])
    rows = []
    marked = []
    for negation in negations:
        cue = " … ".join(span["text"] for span in negation["cue"])
        scope = " … ".join(span["text"] for span in negation["scope"])
        kind = f"{negation['kind']}, {negation['type']}"
        rows.append([cue, scope or "(empty)", kind, f"{negation['score']:.4f}, {negation['scope_score']:.4f}"])
        spans = [(span["start"], span["end"], name) for name in ("scope", "cue") for span in negation[name]]
        marked.append(mark(texts[0], spans))
    result = f"{len(rows)} cue{'s' if len(rows) > 1 else ''}" if rows else "The model found no cue."
    return Answer(result, rows, marked, negations)


@answers("text-classification", TEXT, ("Second text", "", 2))
def classify(pipe: Any, texts: list[str]) -> Answer:
    """Return the classes of a text or a pair, or the number of a regression, and weights of tokens."""
    texts = [text for text in texts if text]
    inputs = encode(pipe, *texts)
    classes = pipe(dict(zip(("text", "text_pair"), texts, strict=False)), top_k=None)
    result: Any = {entry["label"]: entry["score"] for entry in classes}
    if len(classes) == 1:
        result = f"{classes[0]['score']:.4g}"
    with torch.inference_mode():
        weights = pipe.model(**inputs, output_attentions=True).get("token_attention")
    if weights is None:
        return Answer(result)
    text_starts = (0, len(texts[0]) + 1)  # with a line break between the texts
    encoding = inputs.encodings[0]
    spans = []
    tokens = zip(encoding.sequence_ids, encoding.offsets, weights[0].tolist(), strict=True)
    for text, (start, end), weight in tokens:
        if text is not None:
            spans.append((text_starts[text] + start, text_starts[text] + end, weight))
    largest = max((weight for _, _, weight in spans), default=1.0)
    shares = [(start, end, weight / largest) for start, end, weight in spans]
    return Answer(result, marked=[mark("\n".join(texts), shares)])


@answers("token-classification", TEXT, columns=("Text", "Label", "Score"))
def label_words(pipe: Any, texts: list[str]) -> Answer:
    """Label the words of a text."""
    text = texts[0]
    encode(pipe, text)  # the pipeline would cut a long text
    rows = []
    spans = []
    for group in pipe(text, aggregation_strategy="first"):
        label = group["entity_group"]
        spans.append((group["start"], group["end"], label))
        rows.append([text[group["start"] : group["end"]], label, f"{group['score']:.4f}"])
    return Answer(f"{len(rows) or 'no'} labeled parts", rows, [mark(text, spans)])


@answers("fill-mask", ("Text with one [MASK]", "The baker Mira grows [MASK].", 3), columns=("Token", "Score"))
def fill_mask(pipe: Any, texts: list[str]) -> Answer:
    """Find words for the gap of a text."""
    mask = pipe.tokenizer.mask_token
    text = texts[0].replace("[MASK]", mask)
    if text.count(mask) != 1:
        raise ValueError(f"Write {mask} once, in the place of the word to find.")
    encode(pipe, text)
    before, after = text.split(mask)
    rows = [[token["token_str"].strip(), f"{token['score']:.4f}"] for token in pipe(text, top_k=5)]
    marked = [[(before, None), (word, "word"), (after, None)] for word, _ in rows]
    return Answer(rows[0][0], rows, marked)


@answers(
    "multiple-choice",
    ("Beginning or question", "Mira is the baker.", 3),
    ("Choices, one per line", "She bakes bread.\nShe shoes horses.", 4),
    required=2,
)
def choose(pipe: Any, texts: list[str]) -> Answer:
    """Weigh the choices against each other."""
    choices = [line.strip() for line in texts[1].splitlines() if line.strip()]
    if not 2 <= len(choices) <= 100:
        raise ValueError(f"There are {len(choices)} choices: write 2 to 100, each on its own line.")
    inputs = encode(pipe, [texts[0]] * len(choices), choices)
    with torch.inference_mode():
        logits = pipe.model(**{name: value[None] for name, value in inputs.items()}).logits[0]
    names = [f"{count}. {choice}" for count, choice in enumerate(choices, start=1)]
    scores = dict(zip(names, logits.float().softmax(-1).tolist(), strict=True))
    return Answer(scores, findings=[{"choice": choices[int(logits.argmax())]}])


@answers(
    "text2text-generation",
    ("Text, or the answer to ask for", "Mira", 2),
    ("Passage of the answer", "Hugo is the smith. The baker Mira grows white roses.", 4),
    columns=("Text", "Score"),
)
def generate(pipe: Any, texts: list[str]) -> Answer:
    """Generate texts."""
    inputs = encode(pipe, *filter(None, texts))
    inputs.pop("token_type_ids", None)
    best = {"num_beams": 5, "num_return_sequences": 5, "max_new_tokens": 64, "output_scores": True}
    with torch.inference_mode():
        output = pipe.model.generate(**inputs, **best, return_dict_in_generate=True)
    written = pipe.tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
    scores = output.sequences_scores.exp().tolist()
    rows = [[text.strip(), f"{score:.4f}"] for text, score in zip(written, scores, strict=True)]
    return Answer(rows[0][0] or "(empty text)", rows)


def check_texts(texts: list[str], most_characters: int | None) -> None:
    """Refuse texts that are too long together, or that no encoding can hold."""
    count = sum(map(len, texts))
    if most_characters is not None and count > most_characters:
        raise ValueError(f"The texts have {count:,} characters; this page takes at most {most_characters:,}.")
    if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
        raise ValueError("A text has half of a character, a surrogate: write it again.")


def of_row(entries: Any, row: int) -> Any:
    """Return the entry of a row, the last one if it is for all rows, or None."""
    return entries[min(row, len(entries) - 1)] if entries else None


def add_widget(
    task: str,
    pipe: Any,
    example: str | None = None,
    has_pairs: bool | None = None,
    most_characters: int | None = None,
) -> Any:
    """Add fields and results to the page that gradio is building; return a state of the texts and the findings.

    `has_pairs` is True for models of pairs of texts, False for models of single texts, and None if that is unknown.
    A request whose texts have more than `most_characters` is refused at once, while others are answered.
    """
    import gradio as gr

    widget = WIDGETS[task]
    fields = widget.fields
    if task == "negation" and most_characters is not None:
        pipe = partial(pipe, max_scope_words=most_characters * WORDS_OF_SCOPES)
    if task == "text-classification" and has_pairs is not None:
        widget = widget._replace(required=2 if has_pairs else 1)
        fields = fields[: widget.required]
    with gr.Row(equal_height=False):
        with gr.Column():
            texts = [gr.Textbox(text, label=label, lines=lines, max_lines=20) for label, text, lines in fields]
            if most_characters is not None:
                gr.Markdown(
                    f"At most {most_characters:,} characters. Texts are kept for {SESSION_SECONDS // 60} minutes."
                )
            texts[0].value = example or texts[0].value
            button = gr.Button("Run", variant="primary")
        with gr.Column():
            result = gr.Textbox(label="Result", interactive=False) if widget.columns else gr.Label(label="Result")
            widths = [f"{100 // len(widget.columns)}%" for _ in widget.columns]  # all are seen on a phone
            table = gr.Dataframe(headers=[*widget.columns] or None, column_widths=widths, wrap=True, visible=False)
            marked = gr.HighlightedText(label="Text", combine_adjacent=True, visible=False)
    answers = gr.State(time_to_live=SESSION_SECONDS)
    shown = gr.State(time_to_live=SESSION_SECONDS)

    def show(texts: list[str], answer: Answer, row: int) -> list[Any]:
        parts = of_row(answer.marked, row)
        findings = of_row(answer.findings, row) or {}
        return [gr.HighlightedText(parts, visible=bool(parts)), (texts, findings)]

    def run(*values: str) -> list[Any]:
        texts = [(value or "").strip() for value in values]
        try:
            check_texts(texts, most_characters)
            if not all(texts[: widget.required]):
                raise ValueError(f"The field {fields[texts.index('')][0]!r} is empty: write a text.")
            with _model:
                answer = widget.answer(pipe, texts)
        except Exception as error:  # the page says it and goes on
            is_bug = not isinstance(error, ValueError)  # the console gets its traceback
            message = html.escape(str(error), quote=False)
            raise gr.Error(message, duration=None, print_exception=is_bug) from error
        title = "Select a row to highlight it" if len(answer.marked) > 1 else "All results"
        rows = gr.Dataframe(list(answer.rows), label=title, visible=bool(answer.rows))
        return [(texts, answer), answer.result, rows, *show(texts, answer, 0)]

    def select(last: Any, event: gr.SelectData) -> list[Any]:
        if last is None:
            raise gr.Error("The answer is no longer kept: run it again.", print_exception=False)
        texts, answer = last
        return show(texts, answer, event.index[0])

    def clear() -> list[Any]:
        return [None, None, gr.Dataframe(visible=False), gr.HighlightedText(None, visible=False), None]

    outputs = [answers, result, table, marked, shown]
    # What was shown goes first: after an error nothing of the former answer is left.
    cleared = button.click(clear, None, outputs, api_name=False, concurrency_limit=None)
    cleared.then(run, texts, outputs, api_name="ask", concurrency_limit=None)  # one waits for another in `run`
    table.select(select, [answers], [marked, shown], api_name=False)
    return shown


def launch(page: Any, **settings: Any) -> Any:
    """Start the server of a page, with fonts of the browser's system, so that nothing else is loaded."""
    import gradio as gr

    fonts = ["system-ui", "sans-serif"]
    theme = gr.themes.Default(font=fonts, font_mono=fonts)
    css = ".textfield {display: block; word-break: normal; white-space: pre-line} .token-container {display: inline}"
    return page.launch(theme=theme, css=css, footer_links=[], state_session_capacity=MOST_SESSIONS, **settings)


def load_pipe(task: str, model: Any, **settings: Any) -> Any:
    """Return a pipeline of a model or its name; for a task without one, an object with the model and the tokenizer."""
    if task not in WITHOUT_PIPELINE:
        return pipeline(task=task, model=model, **settings)
    if isinstance(model, str):
        tokenizer = AutoTokenizer.from_pretrained(model, **settings)
        model = WITHOUT_PIPELINE[task].from_pretrained(model, **settings).eval()
        settings = {"tokenizer": tokenizer}
    return SimpleNamespace(task=task, model=model, **settings)


if __name__ == "__main__":
    import gradio

    settings = json.loads(Path(__file__).with_name("page.json").read_text(encoding="utf-8"))
    with gradio.Blocks(title=settings["title"]) as page:
        gradio.Markdown(f"# {settings['title']}")
        pipe = load_pipe(settings["task"], settings["model"], **settings["trust"])
        limit = settings["most_characters"]
        add_widget(settings["task"], pipe, settings["example"], settings["has_pairs"], limit)
    launch(page)
