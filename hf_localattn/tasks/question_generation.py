"""Question generation: generating a question from a passage and an answer in it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from transformers import DataCollatorForSeq2Seq, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.generation import REFERENCE, generation_features
from hf_localattn.data.questions import load_answered
from hf_localattn.data.rows import Data
from hf_localattn.files import atomic_write
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.generation_scores import meteor_name
from hf_localattn.tasks.task import DataArguments, Scored, Task, input_length
from hf_localattn.training.arguments import GenerationTrainingArguments, documented
from hf_localattn.training.trainer import GenerationTrainer

logger = logging.getLogger(__name__)

PREDICTIONS = "generated_predictions.txt"

SHORTEST_SOURCE = 8
"""Minimum number of tokens for answer and passage."""


@documented
@dataclass
class QuestionGenerationDataArguments(DataArguments):
    """Data arguments for question generation.

    Files are `.json` (SQuAD's format, or rows) or `.jsonl`; data sets on the Hub have SQuAD's columns. Rows to predict
    on need answers, but no questions.

    Args:
        max_source_length: Maximum number of tokens of answer and passage; a longer passage is cut to the part around
            the answer.
        max_target_length: Maximum number of tokens of a training question; longer ones are cut.
        val_max_target_length: Maximum number of tokens of evaluation and generated questions; default:
            max_target_length.
        pad_to_max_length: Pad inputs and questions to these lengths instead of the longest in the batch; for TPUs,
            slower elsewhere.
        num_beams: Number of beams for generation; overrides --generation_num_beams.
        ignore_pad_token_for_loss: Ignore the padding of questions in the loss.
    """

    max_seq_length: int = field(default=384, init=False)  # not an option: source and target have separate lengths
    max_source_length: int = 384
    max_target_length: int = 64
    val_max_target_length: int | None = None
    pad_to_max_length: bool = False
    num_beams: int | None = None
    ignore_pad_token_for_loss: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.val_max_target_length is None:
            self.val_max_target_length = self.max_target_length
        for name in ("max_source_length", "max_target_length", "val_max_target_length", "num_beams"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"--{name} must be at least 1; got {value}.")


class QuestionGeneration(Task):
    """Generation of questions from a passage and an answer by an encoder-decoder."""

    name = "question-generation"
    model_task = "text2text-generation"
    DataArguments = QuestionGenerationDataArguments
    TrainingArguments = GenerationTrainingArguments
    trainer_class = GenerationTrainer
    group_column = "context"  # a passage must not be in both training and test data
    args: QuestionGenerationDataArguments
    training_args: GenerationTrainingArguments

    def __init__(self, args: QuestionGenerationDataArguments, training_args: GenerationTrainingArguments):
        super().__init__(args, training_args)
        generates = training_args.predict_with_generate
        if training_args.do_predict and not generates:
            raise ValueError("--do_predict writes generated questions: pass --predict_with_generate true.")
        self.metrics = {"bleu": True, "rouge_l": True, meteor_name(): True} if generates else {}
        self.metrics |= {"loss": False}
        training_args.generation_num_beams = args.num_beams or training_args.generation_num_beams

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        return load_answered(data, require_questions=labeled, skip_empty=self.args.skip_empty)

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        check_can_write(model, tokenizer)
        if tokenizer.padding_side != "right":
            logger.warning("The tokenizer pads on the left; encoder-decoders need padding on the right: using that.")
            tokenizer.padding_side = "right"
        names = ("max_source_length", "max_target_length", "val_max_target_length")
        self.lengths = {name: input_length(model, tokenizer, self.args, name) for name in names}
        least = tokenizer.num_special_tokens_to_add(pair=True) + SHORTEST_SOURCE
        if self.lengths["max_source_length"] < least:
            raise ValueError(
                f"--max_source_length {self.lengths['max_source_length']} leaves no room for answer and passage;"
                f" choose at least {least}."
            )
        self.tokenizer = tokenizer
        self.label_padding = -100 if self.args.ignore_pad_token_for_loss else tokenizer.pad_token_id
        longest = self.lengths["val_max_target_length"]
        self.training_args.generation_max_length = self.training_args.generation_max_length or longest

    def encoder(self, split: str) -> tuple[Callable[..., Any], dict[str, Any]]:
        target = "max_target_length" if split == "train" else "val_max_target_length"
        return generation_features, {
            "max_source_length": self.lengths["max_source_length"],
            "max_target_length": self.lengths[target],
            "pad_to_max_length": self.args.pad_to_max_length,
            "label_pad_token_id": self.label_padding,
        }

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        return features  # long passages are cut around the answer

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        return GenerationCollator(
            tokenizer, model=model, label_pad_token_id=self.label_padding, pad_to_multiple_of=multiple
        )

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the generated texts in one line each, and their scores if there are references.

        The scores are those of `hf_localattn.metrics`, `gen_len` (mean number of generated tokens, without padding)
        and `num_beams`.
        """
        features, padding = self.features[split], self.tokenizer.pad_token_id
        ids = np.where(outputs < 0, padding, outputs)
        texts = [" ".join(text.splitlines()).strip() for text in self.tokenizer.batch_decode(ids, True)]
        scores: dict[str, Any] = {
            "gen_len": float(np.mean(np.count_nonzero(ids != padding, axis=1))),
            "num_beams": self.training_args.generation_num_beams or 1,
        }
        if REFERENCE not in features.column_names:
            return Scored(texts, scores)
        references = list(features[REFERENCE])
        scores |= load_metric("generation").compute(predictions=texts, references=references)
        notes = {"bleu_signature": scores.pop("bleu_signature")}
        return Scored(texts, scores, notes=notes, pair=(texts, references))

    def write_predictions(self, folder: Path, split: str, prefix: str, predictions: Any) -> None:
        """Write the generated questions to generated_predictions.txt, one line per answered row."""
        atomic_write(folder / PREDICTIONS, "".join(f"{question}\n" for question in predictions))


class GenerationCollator(DataCollatorForSeq2Seq):
    """Collator of transformers that also takes rows with reference texts and rows without labels."""

    def __call__(self, features: list[dict[str, Any]], return_tensors: str | None = None) -> Any:
        """Return inputs and labels (batch, length), and decoder inputs if the model derives these from labels."""
        inputs = [{name: value for name, value in row.items() if name != REFERENCE} for row in features]
        batch = super().__call__(inputs, return_tensors)
        if batch["labels"] is None:  # Seq2SeqTrainer only tests if the key exists
            del batch["labels"]
        return batch


def check_can_write(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise `ValueError` if the decoder has no start token, or the tokenizer's end token does not stop it."""
    name = type(model).__name__
    if getattr(model.config, "decoder_start_token_id", None) is None:
        raise ValueError(
            f"{name} has no decoder_start_token_id: set it in its config.json to the first token of its decoder"
            " (often eos_token_id, bos_token_id or pad_token_id)."
        )
    if tokenizer.pad_token_id is None:
        raise ValueError(f"The tokenizer of {name} has no padding token: set its pad_token.")
    ends = model.generation_config.eos_token_id
    ends = model.config.eos_token_id if ends is None else ends
    last = tokenizer(text_target="?")["input_ids"][-1]
    if last not in (ends if isinstance(ends, list) else [ends]):
        raise ValueError(
            f"The tokenizer ends texts with the token {last} ({tokenizer.convert_ids_to_tokens(last)}), but {name}"
            f" stops at eos_token_id {ends}: it cannot learn to stop. Check --tokenizer_name and the model's"
            " config.json."
        )
