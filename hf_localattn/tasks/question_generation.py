"""Question generation: generating a question from a passage and an answer in it."""

from __future__ import annotations

import logging
from typing import Any

import datasets
import numpy as np
from transformers import DataCollatorForSeq2Seq, PreTrainedModel, PreTrainedTokenizerBase

from hf_localattn.data.generation import REFERENCE, generation_features
from hf_localattn.data.questions import load_answered
from hf_localattn.data.rows import LABELED, Data, labeled_rows
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.generation_scores import meteor_name
from hf_localattn.settings.data import QuestionGenerationDataArguments
from hf_localattn.tasks.task import Encoder, Scored, Task, input_length
from hf_localattn.training.arguments import GenerationTrainingArguments
from hf_localattn.training.trainer import GenerationTrainer

logger = logging.getLogger(__name__)


class QuestionGeneration(Task):
    """Generation of questions from a passage and an answer by an encoder-decoder."""

    name = "question-generation"
    model_task = "text2text-generation"
    DataArguments = QuestionGenerationDataArguments
    TrainingArguments = GenerationTrainingArguments
    trainer_class = GenerationTrainer
    own_metrics = ("generation",)
    group_column = "context"  # a passage must not be in both training and test data
    args: QuestionGenerationDataArguments
    training_args: GenerationTrainingArguments

    def __init__(self, args: QuestionGenerationDataArguments, training_args: GenerationTrainingArguments):
        super().__init__(args, training_args)
        self.metrics = {"bleu": True, "rouge_l": True, meteor_name(): True, "loss": False}
        training_args.generation_num_beams = args.num_beams or training_args.generation_num_beams

    def read(self, data: Data, labeled: bool) -> datasets.Dataset:
        return load_answered(data, require_questions=labeled, skip_empty=self.args.skip_empty)

    def adapt(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        tokenizer.padding_side = "right"  # as encoder-decoders need it
        names = ("max_source_length", "max_target_length", "val_max_target_length")
        self.lengths = {name: input_length(model, tokenizer, self.args, name) for name in names}
        self.tokenizer = tokenizer
        self.label_padding = -100 if self.args.ignore_pad_token_for_loss else tokenizer.pad_token_id
        args = self.training_args
        args.generation_max_length = args.generation_max_length or self.lengths["val_max_target_length"]

    def encoder(self, split: str) -> Encoder:
        target = "max_target_length" if split == "train" else "val_max_target_length"
        return generation_features, {
            "max_source_length": self.lengths["max_source_length"],
            "max_target_length": self.lengths[target],
            "pad_to_max_length": self.args.pad_to_max_length,
            "label_pad_token_id": self.label_padding,
        }

    def metric_examples(self) -> tuple[Any, Any]:
        return ["a text of a few words"], ["a text of a few words"]

    def finish_features(self, split: str, rows: datasets.Dataset, features: datasets.Dataset) -> datasets.Dataset:
        return features  # long passages are cut around the answer

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, multiple: int | None) -> Any:
        return DataCollatorForSeq2Seq(
            tokenizer,
            model=model,
            label_pad_token_id=self.label_padding,
            pad_to_multiple_of=multiple,
        )

    def score(self, split: str, outputs: Any, labels: Any) -> Scored:
        """Return the generated texts in one line each, and their scores if there are references.

        The scores are those of `hf_localattn.metrics`, `gen_len` (mean number of generated tokens, without padding)
        and `num_beams`. If some test rows have no question, the others are scored, and `labeled_samples` counts these.
        """
        features = self.features[split]
        padding = self.tokenizer.pad_token_id
        ids = np.where(outputs < 0, padding, outputs)
        decoded = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        texts = [" ".join(text.splitlines()).strip() for text in decoded]
        if len(texts) > 1 and len(set(texts)) == 1:
            logger.warning(
                "The model writes the same for all %s rows (%r): train it longer, or with another --learning_rate.",
                split,
                texts[0],
            )
        scores: dict[str, Any] = {
            "gen_len": float(np.mean(np.count_nonzero(ids != padding, axis=1))),
            "num_beams": self.training_args.generation_num_beams or 1,
        }
        predictions = texts
        if REFERENCE in features.column_names:
            references = list(features[REFERENCE])
        else:
            labeled, references = labeled_rows(self.rows[split])
            if not labeled:
                return Scored(texts, scores)
            predictions = [texts[row] for row in labeled]
            scores[LABELED] = len(labeled)
        scores |= load_metric("generation").compute(predictions=predictions, references=references)
        notes = {"bleu_signature": scores.pop("bleu_signature")}
        return Scored(texts, scores, notes=notes, pair=(predictions, references))

    def files(self, split: str, prefix: str, predictions: Any) -> dict[str, str]:
        """Return generated_predictions.txt: the generated questions, one line per answered row."""
        return {"generated_predictions.txt": "".join(f"{question}\n" for question in predictions)}
