"""Fine-tuning and evaluating the classification of words: named entities, parts of speech, chunks, errors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import datasets
from transformers import DataCollatorForTokenClassification, EvalPrediction
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.features.scopes import SCOPE_LABELS
from hf_localattn.data.features.words import IGNORED, prepare_tokenizer, subword_features, word_features
from hf_localattn.data.readers.column_files import CONLLU_COLUMNS, UNSPECIFIED
from hf_localattn.data.readers.negation.rows import CUE_IN_SCOPE, CUE_KINDS, STRAY_SCOPES
from hf_localattn.data.rows.sentences import TokenColumns, load_label_names
from hf_localattn.data.schema import row_numbers
from hf_localattn.files import write_whole
from hf_localattn.metrics.word_scores import GREATER_IS_BETTER, scoring_of
from hf_localattn.training.arguments import DataArguments, ModelArguments, TrainingArguments, option
from hf_localattn.training.models import batch_padding, input_length, load_model_and_tokenizer
from hf_localattn.training.run import Run, begin, check_best_metric
from hf_localattn.training.splits import make_features
from hf_localattn.training.trainer import LocalAttentionTrainer
from hf_localattn.training.word_labels import checkpoint_names, load_labelled

logger = logging.getLogger(__name__)

PREDICTIONS = "predictions.txt"
NEGATION = "negation"
"""The task whose runs are made by `hf_localattn.training.negation`."""


@dataclass
class TokenClassificationDataArguments(DataArguments):
    """Which sentences the model is trained and evaluated on, and where their words and labels are.

    Files are `.json` or `.jsonl` (rows with lists), `.conllu`, `.xml` (CGED), or columns (`.conll`, `.txt`, `.tsv`,
    `.bio`, `.iob`).
    """

    task_name: str = field(
        default="ner",
        metadata={
            "aliases": ["--task"],
            "help": "Labels are in the column <task_name>_tags: ner, pos, chunk or the like. Or negation: which words "
            "are in the scope of a cue, which is given.",
        },
    )
    text_column_name: str | None = option(None, "The column with the lists of words, by default tokens.")
    label_column_name: str | None = option(
        None, "The column with the lists of labels, by default <task_name>_tags, or labels."
    )
    label_column_index: int = option(-1, "The column with the labels in a file of columns, counted from 0; -1: last.")
    conllu_column: str = option(
        "upos", f"The column with the labels in a CoNLL-U file: {' or '.join(CONLLU_COLUMNS)}."
    )
    label_names_file: str | None = option(
        None,
        "A .json list of all labels, or an object with such a list by column; numbers in files count from 0 in it.",
    )
    label_all_tokens: bool = option(
        False, "Train on all tokens of a word, those after the first with I- instead of B-; else on the first alone."
    )
    return_entity_level_metrics: bool = option(
        False, "Report precision, recall and F1 of each type of entity, or of each label, besides the overall ones."
    )
    cues: str = option("negation", f"With --task negation: whose scopes are found, {' or '.join(CUE_KINDS)}.")
    cue_in_scope: str = option(
        "never", "With --task negation: whether a cue's own words are in its scope, never or as the corpus has it."
    )
    stray_scopes: str = option(
        "error", "With --task negation: whether a scope without a cue is an error, or skipped with a warning (skip)."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.conllu_column not in CONLLU_COLUMNS:
            raise ValueError(f"--conllu_column must be {' or '.join(CONLLU_COLUMNS)}; got {self.conllu_column!r}.")
        for name, choices in (("cues", CUE_KINDS), ("cue_in_scope", CUE_IN_SCOPE), ("stray_scopes", STRAY_SCOPES)):
            if getattr(self, name) not in choices:
                raise ValueError(f"--{name} must be {' or '.join(choices)}; got {getattr(self, name)!r}.")
            self._check_task(name, for_negation=True)
        for name in ("text_column_name", "label_column_name", "label_names_file", "return_entity_level_metrics"):
            self._check_task(name, for_negation=False)

    def _check_task(self, name: str, *, for_negation: bool) -> None:
        """Raise `ValueError` if an option is given that says nothing to the task."""
        given = getattr(self, name) != type(self).__dataclass_fields__[name].default
        if given and for_negation != (self.task_name == NEGATION):
            what = "goes with" if for_negation else "says nothing to"
            raise ValueError(f"--{name} {what} --task {NEGATION}: leave it out, or check --task.")


@dataclass(frozen=True)
class LabelScores:
    """Trainer's `compute_metrics`, of the words whose first token has a label.

    Args:
        names: the labels by number.
        each: whether to score each type or label besides.
    """

    names: Sequence[str]
    each: bool = False

    @property
    def reported(self) -> tuple[str, ...]:
        """The names of the overall scores."""
        return scoring_of(self.names).reported

    def __call__(self, output: EvalPrediction) -> dict[str, float]:
        """Return the scores."""
        kept = [labels != IGNORED for labels in output.label_ids]
        predictions, references = (
            [[self.names[number] for number in row[own]] for row, own in zip(rows, kept, strict=True)]
            for rows in (output.predictions, output.label_ids)
        )
        return scoring_of(self.names).score(predictions, references, each=self.each)


class TokenClassificationRun(Run):
    """Writes the labels of the words, which are not in the features if the model does not see them.

    `seen_words` has, per split, the numbers of each sentence's words that the model sees. Sentences without any are
    in the data, but not in the features.
    """

    task = "token-classification"
    seen_words: dict[str, list[list[int]]]

    def predict_split(self, split: str, prefix: str) -> PredictionOutput:
        if any(self.data[split]["labels"]):
            return super().predict_split(split, prefix)
        # The labels in the features only tell the places: they are nothing to compare with.
        scores, self.trainer.compute_metrics = self.trainer.compute_metrics, None
        try:
            output = super().predict_split(split, prefix)
        finally:
            self.trainer.compute_metrics = scores
        output.metrics.pop(f"{prefix}_loss", None)
        return output

    def write_predictions(self, split: str, prefix: str, output: PredictionOutput) -> None:
        """Write a line for each sentence to `predictions.txt`: a label for each word, with blanks between.

        Words that the model does not see get "O", where labels mark entities, or else "_". The line of a sentence
        that `--skip_empty` leaves out is blank.
        """
        names = self.trainer.model.config.id2label
        unseen = "O" if "O" in names.values() else UNSPECIFIED
        rows = zip(output.predictions, output.label_ids, strict=True)
        lines = []
        for tokens, seen in zip(self.data[split]["tokens"], self.seen_words[split], strict=True):
            labels = [unseen] * len(tokens)
            if seen:
                numbers, places = next(rows)
                for word, number in zip(seen, numbers[places != IGNORED], strict=True):
                    labels[word] = names[int(number)]
            lines.append(" ".join(labels) + "\n")
        numbered = dict(zip(row_numbers(self.data[split]), lines, strict=True))
        kept = [numbered.get(number, "\n") for number in range(max(numbered) + 1)]
        write_whole(Path(self.trainer.args.output_dir, PREDICTIONS), "".join(kept))


def prepare(
    model_args: ModelArguments, data_args: TokenClassificationDataArguments, training_args: TrainingArguments
) -> TokenClassificationRun:
    """Return a run that is ready to go; everything that can be checked has been.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used.
    """
    # Which scores there are is known when the labels are.
    begin(training_args, {"loss": False, **GREATER_IS_BETTER}, all_reported=False)
    if set(checkpoint_names(model_args)) == set(SCOPE_LABELS):
        raise ValueError(f"{model_args.source} finds the scopes of cues: give --task {NEGATION}.")
    columns = columns_of(data_args)
    data, names = load_labelled(model_args, data_args, training_args, columns)
    scores = LabelScores(names, data_args.return_entity_level_metrics)
    check_best_metric(training_args, ("loss", *scores.reported))
    logger.info("Predicting one of %d labels of each word: %s.", len(names), ", ".join(names))
    if all(name.isdecimal() for name in names):
        logger.warning(
            "The labels are numbers, which are scored word by word. If they mark entities, name them by"
            " --label_names_file."
        )
    label_ids = {name: number for number, name in enumerate(names)}
    fields = {"num_labels": len(names), "id2label": dict(enumerate(names)), "label2id": label_ids}
    model, tokenizer = load_model_and_tokenizer("token-classification", model_args, training_args, **fields)
    prepare_tokenizer(tokenizer)
    max_length = input_length(model, tokenizer, data_args)
    features = make_features(
        data,
        data_args,
        training_args,
        word_features,
        subword_features if data_args.label_all_tokens else None,
        tokenizer=tokenizer,
        max_length=max_length,
        label_ids=label_ids,
    )
    seen_words = {split: list(rows["seen_words"]) for split, rows in features.items()}
    features = {split: keep_seen(split, data[split], rows, max_length) for split, rows in features.items()}
    trainer = LocalAttentionTrainer(
        model=model,
        args=training_args,
        train_dataset=features.get("train"),
        eval_dataset=features.get("validation"),
        processing_class=tokenizer,
        data_collator=DataCollatorForTokenClassification(
            tokenizer,
            **batch_padding(data_args, training_args, max_length),
        ),
        compute_metrics=scores,
        preprocess_logits_for_metrics=lambda logits, labels: (
            logits[0] if isinstance(logits, tuple) else logits
        ).argmax(dim=-1),
    )
    run = TokenClassificationRun(trainer, data, features, model_args, data_args, fields)
    run.seen_words = seen_words
    return run


def columns_of(data_args: TokenClassificationDataArguments) -> TokenColumns:
    """Return where words and labels are, and what the labels are called if there is a file that says it."""
    columns = TokenColumns(
        text=data_args.text_column_name,
        label=data_args.label_column_name,
        task=data_args.task_name,
        conll=data_args.label_column_index,
        conllu=data_args.conllu_column,
    )
    if data_args.label_names_file is None:
        return columns
    return replace(columns, names=load_label_names(data_args.label_names_file, columns))


def keep_seen(
    split: str, sentences: datasets.Dataset, features: datasets.Dataset, max_length: int
) -> datasets.Dataset:
    """Return the features of the sentences of which the model sees a word, and say how many words it does not see.

    A batch of others would have no loss.

    Raises:
        ValueError: there are none.
    """
    seen = list(features["seen_words"])
    hidden = [len(tokens) - len(own) for tokens, own in zip(sentences["tokens"], seen, strict=True)]
    if not any(seen):
        raise ValueError(f"No {split} sentence has a word within {max_length} tokens: check --max_seq_length.")
    if any(hidden):
        logger.warning(
            "The model does not see %d words of %d %s sentences: they are behind the %d tokens of --max_seq_length, or"
            " the tokenizer makes nothing of them. They are left out of training and scores.",
            sum(hidden),
            sum(map(bool, hidden)),
            split,
            max_length,
        )
    if not all(seen):
        logger.warning("%d %s sentences have no word that the model sees.", sum(not own for own in seen), split)
    return features.select([number for number, own in enumerate(seen) if own]).remove_columns("seen_words")
