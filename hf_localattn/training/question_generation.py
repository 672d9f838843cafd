"""Fine-tuning and evaluating question generation: which question does this passage answer so?"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from hf_localattn.data.features.generation import generation_features
from hf_localattn.data.rows.questions import load_answered, normalize_answered
from hf_localattn.files import write_whole
from hf_localattn.metrics.generation.generation import meteor_name
from hf_localattn.training.arguments import DataArguments, ModelArguments, option
from hf_localattn.training.generation import (
    GenerationCollator,
    GenerationTrainer,
    GenerationTrainingArguments,
    check_can_write,
)
from hf_localattn.training.models import input_length, load_model_and_tokenizer
from hf_localattn.training.run import Run, begin
from hf_localattn.training.splits import load_splits, make_features

logger = logging.getLogger(__name__)

PREDICTIONS = "generated_predictions.txt"

SHORTEST_SOURCE = 8
"""Tokens of answer and passage; with fewer there is nothing to ask about."""


@dataclass
class QuestionGenerationDataArguments(DataArguments):
    """Which passages and answers the model asks about, and how they become inputs and labels.

    Files are `.json` (SQuAD's layout or rows) or `.jsonl`; data sets on the Hub have SQuAD's columns. Rows to predict
    on need answers, but no questions.
    """

    max_seq_length: int = field(default=384, init=False)  # no option: source and target have each their own
    max_source_length: int = option(
        384, "Tokens of answer, passage and special tokens; of a longer passage the part around the answer is used."
    )
    max_target_length: int = option(64, "Tokens of the longest question to train on; longer ones are cut.")
    val_max_target_length: int | None = option(
        None, "Tokens of the longest question to evaluate on and to generate; by default max_target_length."
    )
    pad_to_max_length: bool = option(
        False,
        "Pad inputs and questions to these lengths, not to the longest of the batch: for TPUs; slower elsewhere.",
    )
    num_beams: int | None = option(None, "Beams of the search; goes before --generation_num_beams.")
    ignore_pad_token_for_loss: bool = option(True, "Leave the padding of questions out of the loss.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.val_max_target_length is None:
            self.val_max_target_length = self.max_target_length
        for name in ("max_source_length", "max_target_length", "val_max_target_length", "num_beams"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"--{name} must be at least 1; got {value}.")


class QuestionGenerationRun(Run):
    """Reports how BLEU was computed beside its value, and writes the generated questions, one a line."""

    task = "text2text-generation"
    trainer: GenerationTrainer

    def evaluate_split(self, split: str, prefix: str) -> dict[str, Any]:
        return self._with_signature(super().evaluate_split(split, prefix), prefix)

    def predict_split(self, split: str, prefix: str) -> PredictionOutput:
        output = super().predict_split(split, prefix)
        return output._replace(metrics=self._with_signature(output.metrics, prefix))

    def write_predictions(self, split: str, prefix: str, output: PredictionOutput) -> None:
        """Write generated_predictions.txt; its lines are the answered rows in their order."""
        text = "".join(f"{question}\n" for question in output.predictions)
        write_whole(Path(self.trainer.args.output_dir) / PREDICTIONS, text)

    def _with_signature(self, metrics: dict[str, Any], prefix: str) -> dict[str, Any]:
        known = f"{prefix}_bleu" in metrics
        return {**metrics, f"{prefix}_bleu_signature": self.trainer.bleu_signature} if known else metrics


def prepare(
    model_args: ModelArguments,
    data_args: QuestionGenerationDataArguments,
    training_args: GenerationTrainingArguments,
) -> QuestionGenerationRun:
    """Return a run that is ready to go; everything that can be checked has been.

    Raises:
        ValueError, OSError: arguments, data or model cannot be used.
    """
    if training_args.do_predict and not training_args.predict_with_generate:
        raise ValueError("--do_predict writes generated questions: it needs --predict_with_generate true.")
    scores = {"bleu": True, "rouge_l": True, meteor_name(): True} if training_args.predict_with_generate else {}
    begin(training_args, {**scores, "loss": False})
    data = load_splits(
        model_args,
        data_args,
        training_args,
        read=lambda path, labelled: load_answered(path, require_questions=labelled, skip_empty=data_args.skip_empty),
        check=lambda rows, name, labelled: normalize_answered(
            rows, name, require_questions=labelled, skip_empty=data_args.skip_empty
        ),
        group_column="context",  # a passage to be tested on is not to be known from training
    )
    model, tokenizer = _load(model_args, training_args)
    check_can_write(model, tokenizer)
    if tokenizer.padding_side != "right":
        logger.warning("The tokenizer pads on the left; encoder-decoders take padding on the right: using that.")
        tokenizer.padding_side = "right"
    lengths = _lengths(model, tokenizer, data_args)
    training_args.generation_max_length = training_args.generation_max_length or lengths["val_max_target_length"]
    training_args.generation_num_beams = data_args.num_beams or training_args.generation_num_beams
    label_padding = -100 if data_args.ignore_pad_token_for_loss else tokenizer.pad_token_id
    features = make_features(
        data,
        data_args,
        training_args,
        partial(generation_features, max_target_length=lengths["val_max_target_length"]),
        partial(generation_features, max_target_length=lengths["max_target_length"]),
        tokenizer=tokenizer,
        max_source_length=lengths["max_source_length"],
        pad_to_max_length=data_args.pad_to_max_length,
        label_pad_token_id=label_padding,
    )
    trainer = GenerationTrainer(
        model=model,
        args=training_args,
        train_dataset=features.get("train"),
        eval_dataset=features.get("validation"),
        processing_class=tokenizer,
        data_collator=GenerationCollator(
            tokenizer,
            model=model,
            label_pad_token_id=label_padding,
            pad_to_multiple_of=8 if training_args.fp16 or training_args.bf16 else None,
        ),
    )
    return QuestionGenerationRun(trainer, data, features, model_args, data_args)


def _load(
    model_args: ModelArguments, training_args: GenerationTrainingArguments
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    try:
        return load_model_and_tokenizer(QuestionGenerationRun.task, model_args, training_args)
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
        raise ValueError(
            f"{model_args.source!r} cannot write: it is no encoder-decoder for text. Give one such as BART"
            " (facebook/bart-base) or ProphetNet (microsoft/prophetnet-large-uncased)."
        ) from error


def _lengths(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data_args: QuestionGenerationDataArguments
) -> dict[str, int]:
    """The three lengths, each cut (with a warning) to what model and tokenizer can take."""
    names = ("max_source_length", "max_target_length", "val_max_target_length")
    lengths = {name: input_length(model, tokenizer, data_args, name) for name in names}
    least = tokenizer.num_special_tokens_to_add(pair=True) + SHORTEST_SOURCE
    if lengths["max_source_length"] < least:
        raise ValueError(
            f"--max_source_length {lengths['max_source_length']} leaves no room for answer and passage; choose at"
            f" least {least}."
        )
    return lengths
