"""Evaluation: from a model's outputs for the splits of a run to scores. The model is any function of a batch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from hf_localattn.data.rows import LABELED
from hf_localattn.errors import DivergedError
from hf_localattn.tasks.task import Scored, Split, Target, Task
from hf_localattn.training.intervals import intervals_of_rows
from hf_localattn.training.scores import numbers_of, perfect_score

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model by a task, for the splits of a run.

    Args:
        task: The task.
        target: The labels and scores.
        encoding: The tokenizer of the model.
        splits: Splits by name.
        metric (*optional*): The metric of `--metric`.
    """

    task: Task
    target: Target
    encoding: Any
    splits: Mapping[str, Split]
    metric: Any = None

    def keep(self, outputs: Any, attention_mask: torch.Tensor | None) -> Any:
        """Return the outputs for a batch that the task scores, a tensor or several.

        Args:
            outputs: Outputs of the model without its loss, a tensor or several. Outputs by token have their left
                padding moved to the right.
            attention_mask: Attention mask (batch, length) of the batch.
        """
        outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
        if any(values.is_floating_point() and bool(values.isnan().any()) for values in outputs[:2]):
            raise DivergedError("The logits of the model are not numbers: its training diverged. Train it again.")
        kept = self.task.keep_outputs(outputs)
        if self.task.scores_tokens and self.encoding.tokenizer.padding_side == "left":
            assert attention_mask is not None
            mask = attention_mask.to(kept[0].device)
            kept = tuple(unpad_left(tensor, mask) for tensor in kept)
        return kept[0] if len(kept) == 1 else kept

    def score(self, split: Split, outputs: Any, model: Any) -> Scored:
        """Return the predictions for a split, and their scores with those of `--metric`.

        Args:
            split: The split.
            outputs: Results of `keep` for all features.
            model: The model that computed them.
        """
        outputs = self.task.complete_outputs(outputs, split, model, self.encoding)
        scored = self.task.score(split, outputs, self.target, self.encoding)
        if LABELED in scored.scores:
            count = len(split.rows)
            labeled = scored.scores[LABELED]
            message = "%d of %d %s rows have no label: the scores are those of the other %d."
            logger.warning(message, count - labeled, count, split.name, labeled)
        if self.metric is None or scored.pair is None:
            return scored
        predictions, references = scored.pair
        further = numbers_of(self.metric.compute(predictions=predictions, references=references))
        return replace(scored, scores=scored.scores | further)

    def intervals(self, scored: Scored) -> dict[str, tuple[float, float]]:
        """Return the interval of each score over the rows of a split; empty if there are no references.

        An interval ends with the perfect score.
        """
        if scored.pair is None:
            return {}
        intervals = {}
        for name, (low, high) in intervals_of_rows(self._score_pair, *scored.pair).items():
            is_greater = self.target.metrics.get(name, True)
            perfect = perfect_score(self.task, is_greater=is_greater)
            intervals[name] = (low, min(high, perfect)) if is_greater else (max(low, perfect), high)
        return intervals

    def _score_pair(self, predictions: Any, references: Any) -> dict[str, float]:
        return self.task.score_pair(predictions, references, self.target)


def unpad_left(logits: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Move the left padding of each row of logits (batch, length, ...) to its right end.

    Position i of a row is then token i of its unpadded feature, whatever the padding side.
    """
    pads = attention_mask.to(torch.int64).argmax(dim=1, keepdim=True)
    positions = torch.arange(logits.shape[1], device=logits.device).unsqueeze(0) + pads
    rows = torch.arange(len(logits), device=logits.device).unsqueeze(1)
    return logits[rows, positions % logits.shape[1]]
