"""Columns and annotations of data: what a loader of `hf_localattn.data` takes are the options of its task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from hf_localattn.settings.option import check_values, declared, option

SINGLE_LABEL = "single_label_classification"
REGRESSION = "regression"


def _split_names(names: Any) -> Any:
    return tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names


Names = Annotated[tuple[str, ...] | None, BeforeValidator(_split_names)]
"""Names of columns, which commas separate in an option."""


def column(help: str, name: str, unset: Any = None) -> Any:
    """Declare an option that names a column of the data, by default `unset`."""
    return option(None, help, name=name, unset=unset, column=True)


class Columns:
    """Base class of frozen dataclasses of columns."""

    def __post_init__(self) -> None:
        check_values(self)

    def name_of(self, attribute: str) -> Any:
        """Return the name of a column, by default the usual one."""
        columns: Any = self
        name = getattr(columns, attribute)
        return columns.__dataclass_fields__[attribute].metadata["option"].unset if name is None else name


@declared
@dataclass(frozen=True)
class TextColumns(Columns):
    """Columns of texts and labels, and the kind of labels.

    `names` are class names in order, of which numbers are indices, by default those of the data. `problem_type` is
    transformers', by default inferred. `unlabeled` is True if -1 means "no label", as in a `ClassLabel`.
    `may_be_empty` accepts pairs with one empty text. `vector_length` is the length of lists with a 0 or 1 for each
    class, and 0 for lists of classes; by default inferred.
    """

    texts: Names = column(
        "Column of the texts, or two columns separated by a comma; by default common names are tried.",
        "text_column_names",
    )
    label: str | None = column("Column of the labels.", "label_column_name", "label")
    names: tuple[str, ...] | None = None
    problem_type: str | None = None
    unlabeled: bool = False
    may_be_empty: bool = False
    skip_unlabeled: bool = option(
        False,
        "Leave out training and evaluation rows without a label instead of raising an error.",
        aliases=("--skip_unlabelled",),
    )
    vector_length: int | None = None


def _glue(*texts: str, names: tuple[str, ...] | None = None, may_be_empty: bool = False) -> TextColumns:
    problem_type = SINGLE_LABEL if names else REGRESSION
    return TextColumns(texts, names=names, problem_type=problem_type, unlabeled=True, may_be_empty=may_be_empty)


GLUE_TASKS: dict[str, TextColumns] = {
    "cola": _glue("sentence", names=("unacceptable", "acceptable")),
    "mnli": _glue("premise", "hypothesis", names=("entailment", "neutral", "contradiction")),
    "mrpc": _glue("sentence1", "sentence2", names=("not_equivalent", "equivalent")),
    "qnli": _glue("question", "sentence", names=("entailment", "not_entailment")),
    # a few questions of QQP are empty
    "qqp": _glue("question1", "question2", names=("not_duplicate", "duplicate"), may_be_empty=True),
    "rte": _glue("sentence1", "sentence2", names=("entailment", "not_entailment")),
    "sst2": _glue("sentence", names=("negative", "positive")),
    "stsb": _glue("sentence1", "sentence2"),
    "wnli": _glue("sentence1", "sentence2", names=("not_entailment", "entailment")),
}
"""Columns and classes of GLUE's tasks (Wang et al. 2019), in the Hub's order; test rows have the label -1."""


@declared
@dataclass(frozen=True)
class TokenColumns(Columns):
    """Columns of words and labels. `names` are label names, if the labels in the data are numbers from 0."""

    text: str | None = column("Column with the lists of words.", "text_column_name", "tokens")
    label: str | None = column(
        "Column with the lists of labels; default: <task_name>_tags, or labels.", "label_column_name"
    )
    task: str = option(
        "ner",
        "Labels are in the column <task_name>_tags, such as ner, pos or chunk. With negation, the words in the scope"
        " of a given cue are found; data with part-of-speech tags also get the scores of *SEM 2012.",
        name="task_name",
        aliases=("--task",),
    )
    conll: int | None = column(
        "Index of the labels' column in a column file; default: the last one.", "label_column_index", -1
    )
    conllu: Literal["upos", "xpos"] | None = column(
        "Column with the labels in a CoNLL-U file: upos or xpos.", "conllu_column", "upos"
    )
    names: Any = None


@declared
@dataclass(frozen=True)
class ChoiceColumns(Columns):
    """Columns of rows that do not have SWAG's columns.

    SWAG's columns (Zellers et al. 2018) are always recognized: `sent1` is the context, `sent2` is the beginning of
    all choices, and `ending0`, `ending1` and so on are their ends. A row needs a context or a question. Choices are a
    list of texts, or an object with two lists, "text" (the choices) and "label" (a name for each choice). A text as
    label is compared with the choices first.
    """

    context: str | None = column(
        "Column with the text that the choices refer to or continue.", "context_column_name", "context"
    )
    question: str | None = column("Column with the question, if there is one.", "question_column_name", "question")
    choices: str | None = column(
        "Column with the lists of choices, not needed for SWAG.", "choices_column_name", "choices"
    )
    label: str | None = column(
        "Column with the right choice, its index, counted from 0, its letter, its name or its text.",
        "label_column_name",
        "label",
    )


@declared
@dataclass(frozen=True)
class NegationCorpus(Columns):
    """Cues and scopes of a corpus, as arguments of `hf_localattn.data.load_negation`."""

    cues: Literal["negation", "speculation", "both"] = option(
        "negation", "With --task negation: kind of cues, negation or speculation or both."
    )
    cue_in_scope: Literal["never", "corpus"] = option(
        "never", "With --task negation: never removes the cue's words from its scope; corpus keeps the scope."
    )
    unmatched_scopes: Literal["error", "skip"] = option(
        "error",
        "With --task negation: scopes without a cue raise an error, or are dropped with a warning (skip).",
    )
    all_sentences: bool = option(
        False,
        "With --task negation: train one model that finds the cues of a sentence, too, not only their scopes.",
        name="detect_cues",
    )
