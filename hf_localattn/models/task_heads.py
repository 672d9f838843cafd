"""Task heads that all families share.

A family's class inherits from the family's base class and from a head, in this order, and sets `base_model_class`. The
layers of each head have different names, so a checkpoint of one task loads into the model of another. Each `forward`
lists its inputs explicitly, because Trainer drops all columns that are not in its signature.

Shapes: B batch, L tokens, C choices or classes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers.loss.loss_utils import ForQuestionAnsweringLoss
from transformers.modeling_outputs import (
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from .input_checks import IGNORED, WHOLE, check_numbers, check_positions, check_tensor, check_text_labels
from .modeling_local_attention import LocalAttentionPreTrainedModel, LocalModelOutput, LocalOutputs


@dataclass
class LocalQuestionAnsweringOutput(LocalOutputs, QuestionAnsweringModelOutput):
    """Output of a question-answering head."""


@dataclass
class LocalSequenceClassifierOutput(LocalOutputs, SequenceClassifierOutput):
    """Output of a sequence-classification head."""


@dataclass
class LocalTokenClassifierOutput(LocalOutputs, TokenClassifierOutput):
    """Output of a token-classification head."""


@dataclass
class LocalMultipleChoiceOutput(LocalOutputs, MultipleChoiceModelOutput):
    """Output of a multiple-choice head."""


HANDED_ON = ("hidden_states", "attentions", *(field.name for field in fields(LocalOutputs)))
"""Outputs of the headless model that all heads return, too."""


class PooledClassifier(nn.Module):
    """Classifier of a sequence from the features of one token: pooler, dropout and a linear layer.

    Args:
        size: Width of the features.
        num_outputs: Number of logits.
        dropout: Dropout probability before the last layer.
    """

    def __init__(self, size: int, num_outputs: int, dropout: float):
        super().__init__()
        self.pooler = nn.Linear(size, size)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(size, num_outputs)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map features (B, size) to logits (B, num_outputs)."""
        return self.output(self.dropout(self.pooler(features).tanh()))


class QuestionAnsweringHead(LocalAttentionPreTrainedModel):
    """Start and end logits of an answer span, by a linear layer on each token (COOL, equations 14 and 15)."""

    def __init__(self, config: Any):
        super().__init__(config)
        self.add_base_model()
        # Not all families have these fields.
        self.qa_dropout = nn.Dropout(getattr(config, "qa_dropout", 0.0))
        qa_loss = getattr(config, "qa_loss", "mean")
        self.qa_outputs = nn.Linear(self.config.hidden_size, 2)
        if qa_loss != "mean":
            self.loss_function = QUESTION_ANSWERING_LOSSES[qa_loss]
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Any,
    ) -> LocalQuestionAnsweringOutput:
        """Compute start and end logits, each (B, L), of the answer.

        Args:
            input_ids (*optional*): (B, L). Give either these or `inputs_embeds`.
            attention_mask (*optional*, defaults to all ones): (B, L), 1 at real tokens, 0 at padding on either side.
            token_type_ids (*optional*): (B, L), segment ids.
            position_ids (*optional*): (B, L). By default tokens are numbered without padding.
            inputs_embeds (*optional*): (B, L, E).
            start_positions (*optional*): (B,), position of the answer's first token. The loss ignores positions past
                the end.
            end_positions (*optional*): (B,), position of the answer's last token.
            num_items_in_batch (*optional*): Divisor of the loss. By default the loss is a mean.
            **kwargs: Inputs of the family, `output_attentions`, `output_hidden_states` and the like.
        """
        outputs = self.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            **{**kwargs, "return_dict": True},
        )
        start_logits, end_logits = self.qa_outputs(self.qa_dropout(outputs.last_hidden_state)).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            check_positions("start_positions", start_positions, len(start_logits))
            check_positions("end_positions", end_positions, len(end_logits))
            loss_kwargs = {} if num_items_in_batch is None else {"num_items_in_batch": num_items_in_batch}
            loss = self.loss_function(start_logits, end_logits, start_positions, end_positions, **loss_kwargs)
            loss = self.training_loss(loss, outputs)
        return LocalQuestionAnsweringOutput(
            loss=loss,
            start_logits=start_logits.contiguous(),
            end_logits=end_logits.contiguous(),
            **extra_outputs(outputs),
        )


class SequenceClassificationHead(LocalAttentionPreTrainedModel):
    """Logits of a text or a pair of texts, for the classification or regression that `problem_type` selects."""

    accepts_loss_kwargs = False  # Trainer has to scale the loss, a mean over the batch

    def __init__(self, config: Any):
        super().__init__(config)
        self.add_base_model()
        self.num_labels = config.num_labels
        self.sequence_classifier = self.new_classifier()
        self.post_init()

    def new_classifier(self) -> nn.Module:
        """Build the module that maps features of sequences (B, F) to logits (B, num_labels)."""
        return PooledClassifier(self.config.hidden_size, self.config.num_labels, self.config.classifier_dropout)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> LocalSequenceClassifierOutput:
        """Compute logits (B, num_labels).

        Args:
            input_ids (*optional*): (B, L). Give either these or `inputs_embeds`.
            attention_mask (*optional*, defaults to all ones): (B, L), 1 at real tokens, 0 at padding on either side.
            token_type_ids (*optional*): (B, L), segment ids.
            position_ids (*optional*): (B, L). By default tokens are numbered without padding.
            inputs_embeds (*optional*): (B, L, E).
            labels (*optional*): (B,), class indices, or floats if `num_labels` is 1. (B, num_labels), floats for
                multi-label classification or several regressions.
            **kwargs: Inputs of the family, `output_attentions`, `output_hidden_states` and the like.
        """
        outputs = self.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            **{**kwargs, "return_dict": True},
        )
        logits = self.sequence_classifier(self.sequence_features(outputs, attention_mask))
        loss = None
        if labels is not None:
            check_text_labels(labels, logits, self.config.problem_type)
            loss = self.training_loss(self.loss_function(labels, logits, self.config), outputs)
        return LocalSequenceClassifierOutput(loss=loss, logits=logits, **extra_outputs(outputs))


class TokenClassificationHead(LocalAttentionPreTrainedModel):
    """Logits of each token, by dropout and a linear layer."""

    def __init__(self, config: Any):
        super().__init__(config)
        self.add_base_model()
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.num_labels = config.num_labels
        self.token_classifier = nn.Linear(self.config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Any,
    ) -> LocalTokenClassifierOutput:
        """Compute logits (B, L, num_labels).

        Args:
            input_ids (*optional*): (B, L). Give either these or `inputs_embeds`.
            attention_mask (*optional*, defaults to all ones): (B, L), 1 at real tokens, 0 at padding on either side.
            token_type_ids (*optional*): (B, L), segment ids.
            position_ids (*optional*): (B, L). By default tokens are numbered without padding.
            inputs_embeds (*optional*): (B, L, E).
            labels (*optional*): (B, L), class indices. The loss ignores -100.
            num_items_in_batch (*optional*): Divisor of the loss. By default the loss is a mean.
            **kwargs: Inputs of the family, `output_attentions`, `output_hidden_states` and the like.
        """
        outputs = self.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            **{**kwargs, "return_dict": True},
        )
        logits = self.token_classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if labels is not None:
            known = {"dtypes": WHOLE[:1], "rows": self.num_labels, "ignored": IGNORED}
            check_numbers("labels", labels, logits.shape[:2], **known)
            loss_kwargs = {} if num_items_in_batch is None else {"num_items_in_batch": num_items_in_batch}
            loss = self.loss_function(logits, labels, self.config, **loss_kwargs)
            share = 1.0 if num_items_in_batch is None else (labels != -100).sum() / num_items_in_batch
            loss = self.training_loss(loss, outputs, share)
        return LocalTokenClassifierOutput(loss=loss, logits=logits, **extra_outputs(outputs))


class MultipleChoiceHead(LocalAttentionPreTrainedModel):
    """One logit for each choice; each choice is a text or a pair of texts."""

    accepts_loss_kwargs = False  # Trainer has to scale the loss, a mean over the batch

    def __init__(self, config: Any):
        super().__init__(config)
        self.add_base_model()
        self.choice_classifier = self.new_classifier()
        self.post_init()

    def new_classifier(self) -> nn.Module:
        """Build the module that maps features of choices (B * C, F) to logits (B * C, 1)."""
        return PooledClassifier(self.config.hidden_size, 1, self.config.classifier_dropout)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> LocalMultipleChoiceOutput:
        """Compute logits (B, C).

        Hidden states and attentions have choices in the batch dimension (B * C), as in transformers' classes.

        Args:
            input_ids (*optional*): (B, C, L). Give either these or `inputs_embeds`.
            attention_mask (*optional*, defaults to all ones): (B, C, L), 1 at real tokens, 0 at padding.
            token_type_ids (*optional*): (B, C, L), segment ids.
            position_ids (*optional*): (B, C, L). By default tokens are numbered without padding.
            inputs_embeds (*optional*): (B, C, L, E).
            labels (*optional*): (B,), index of the correct choice.
            **kwargs: Inputs of the family, `output_attentions`, `output_hidden_states` and the like.
        """
        shape = _shape_of_choices(input_ids, inputs_embeds)
        each = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
            **{name: kwargs.pop(name, None) for name in self.token_inputs},
        }
        each = {name: None if values is None else _by_choice(name, values) for name, values in each.items()}
        outputs = self.base_model(**each, **{**kwargs, "return_dict": True})
        logits = self.choice_classifier(self.sequence_features(outputs, each["attention_mask"])).view(shape)
        loss = None
        if labels is not None:
            check_numbers("labels", labels, logits.shape[:1], dtypes=WHOLE[:1], rows=logits.shape[1], ignored=IGNORED)
            # Not `loss_function`: for a class of this name transformers chooses a loss that shifts labels.
            loss = self.training_loss(functional.cross_entropy(logits, labels), outputs)
        return LocalMultipleChoiceOutput(loss=loss, logits=logits, **extra_outputs(outputs))


def extra_outputs(outputs: LocalModelOutput) -> dict[str, Any]:
    """Return the outputs of the headless model that a head returns, too."""
    return {name: outputs[name] for name in HANDED_ON if name in outputs}


def _by_choice(name: str, values: torch.Tensor) -> torch.Tensor:
    """Flatten inputs (B, C, ...) to (B * C, ...)."""
    check_tensor(name, values)
    if values.dim() < 3:
        raise ValueError(f"`{name}` has shape {tuple(values.shape)}; multiple choice needs (batch, choices, length).")
    return values.flatten(0, 1)


def _shape_of_choices(input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None) -> torch.Size:
    """Return the number of examples and the number of choices per example, (B, C)."""
    for name, values, wanted in (("input_ids", input_ids, 3), ("inputs_embeds", inputs_embeds, 4)):
        if values is not None:
            check_tensor(name, values)
        if values is not None and values.dim() != wanted:
            raise ValueError(
                f"`{name}` has shape {tuple(values.shape)}; multiple choice needs (batch, choices, length"
                f"{', width' if wanted == 4 else ''}), with the same number of choices for every example."
            )
    given = inputs_embeds if input_ids is None else input_ids
    if given is None:
        raise ValueError("Give exactly one of `input_ids` and `inputs_embeds`.")
    return given.shape[:2]


def sum_question_answering_loss(
    start_logits: torch.Tensor,
    end_logits: torch.Tensor,
    start_positions: torch.Tensor,
    end_positions: torch.Tensor,
    **kwargs: Any,
) -> torch.Tensor:
    """Return the sum of the start and end cross-entropy, not their mean.

    Source: COOL, section 3.4, "the sum of the negative log probabilities".
    """
    return 2 * ForQuestionAnsweringLoss(start_logits, end_logits, start_positions, end_positions, **kwargs)


def printed_question_answering_loss(
    start_logits: torch.Tensor,
    end_logits: torch.Tensor,
    start_positions: torch.Tensor,
    end_positions: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
    **kwargs: Any,
) -> torch.Tensor:
    """Return -log(p(start) + p(end)), averaged over the examples whose answer is in range.

    Source: COOL, equation 16 as printed.
    """
    length = start_logits.shape[1]
    device = start_logits.device
    starts, ends = (given.view(-1).to(device).clamp(0, length) for given in (start_positions, end_positions))
    inside = (starts < length) & (ends < length)
    dtype = torch.promote_types(start_logits.dtype, torch.float32)
    logs = [
        functional.log_softmax(logits, dim=-1, dtype=dtype).gather(1, positions.clamp(max=length - 1)[:, None])
        for logits, positions in ((start_logits, starts), (end_logits, ends))
    ]
    losses = -torch.logaddexp(*logs).squeeze(1)
    count = inside.sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
    return losses.masked_fill(~inside, 0.0).sum() / count


QUESTION_ANSWERING_LOSSES = {"sum": sum_question_answering_loss, "joint": printed_question_answering_loss}
