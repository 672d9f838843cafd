"""Training of models that generate text: arguments, and a trainer that compares generated texts with references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
import torch
from transformers import Seq2SeqTrainer as StockTrainer
from transformers import Seq2SeqTrainingArguments as StockTrainingArguments
from transformers.trainer_utils import EvalLoopOutput, PredictionOutput

from hf_localattn.data.generation import REFERENCE
from hf_localattn.metrics import load_metric
from hf_localattn.tasks.arguments import documented
from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.trainer import LocalAttentionTrainer


@documented
@dataclass
class GenerationTrainingArguments(TrainingArguments, StockTrainingArguments):
    """`TrainingArguments` of this package and transformers' `Seq2SeqTrainingArguments` in one class.

    Args:
        predict_with_generate (bool, *optional*, defaults to True): Generate texts and compare them with the
            references; if false, evaluate the loss alone.
        generation_max_length (int, *optional*): Maximum number of generated tokens; by default that of the longest
            reference text.
        generation_num_beams (int, *optional*, defaults to 5): Number of beams of the beam search; 1 is greedy search.
    """

    predict_with_generate: bool = True
    generation_max_length: int | None = None
    generation_num_beams: int | None = 5


class GenerationTrainer(LocalAttentionTrainer, StockTrainer):
    """Trainer that generates texts, and compares them with the column `reference` if a data set has this column.

    Predictions are texts without line breaks. Metrics are the scores of `metrics/generation`, `gen_len` (mean number
    of generated tokens, without padding) and the loss. `notes["bleu_signature"]` is sacreBLEU's signature of the last
    BLEU score.
    """

    _references: list[str] | None = None

    def evaluate(
        self,
        eval_dataset: datasets.Dataset | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
        **generation: Any,
    ) -> dict[str, float]:
        """Return the metrics of a data set. `**generation` is passed to `generate`."""
        self._references = _references(self.eval_dataset if eval_dataset is None else eval_dataset)
        return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix, **generation)

    def predict(
        self,
        test_dataset: datasets.Dataset,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "test",
        **generation: Any,
    ) -> PredictionOutput:
        """Return the generated texts as predictions, with metrics if there are references."""
        self._references = _references(test_dataset)
        return super().predict(test_dataset, ignore_keys, metric_key_prefix, **generation)

    def evaluation_loop(
        self,
        dataloader: torch.utils.data.DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Run the model and add the metrics of the texts, so that callbacks can read them."""
        generates = self.args.predict_with_generate and not self.args.prediction_loss_only
        loss_only = False if generates else prediction_loss_only
        output = super().evaluation_loop(dataloader, description, loss_only, ignore_keys, metric_key_prefix)
        self.notes = {}
        if not generates:
            return output
        padding = self.processing_class.pad_token_id
        ids = np.where(output.predictions < 0, padding, output.predictions)[: output.num_samples]
        texts = [one_line(text) for text in self.processing_class.batch_decode(ids, skip_special_tokens=True)]
        scores: dict[str, Any] = {
            "gen_len": float(np.mean(np.count_nonzero(ids != padding, axis=1))),
            "num_beams": self._gen_kwargs.get("num_beams") or self.args.generation_num_beams or 1,
        }
        if self._references is not None:
            scores |= load_metric("generation").compute(predictions=texts, references=self._references)
            self.notes = {"bleu_signature": scores.pop("bleu_signature")}
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in scores.items()}
        return output._replace(predictions=texts, metrics={**output.metrics, **metrics})


def one_line(text: str) -> str:
    """Replace the line breaks of a text by blanks, for files with one text per line."""
    return " ".join(text.splitlines()).strip()


def _references(dataset: Any) -> list[str] | None:
    return list(dataset[REFERENCE]) if REFERENCE in (getattr(dataset, "column_names", None) or ()) else None
