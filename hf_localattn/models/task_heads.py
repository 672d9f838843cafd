"""Task heads that all families share.

A family's class inherits from the family's base class, which knows its `base_model_class`, and from a head. The layers
of each head have different names, so a checkpoint of one task loads into the model of another. transformers'
generic heads do not fit: they pool the last token, and all have one name for their layers.

Shapes: B batch, L tokens, C choices or classes.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional
from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    ModelOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from .modeling_local_attention import LocalAttentionPreTrainedModel, LocalOutputs


@dataclass
class LocalQuestionAnsweringOutput(LocalOutputs, QuestionAnsweringModelOutput):
    """Output of a head for question answering."""


@dataclass
class LocalSequenceClassifierOutput(LocalOutputs, SequenceClassifierOutput):
    """Output of a sequence-classification head."""


@dataclass
class LocalTokenClassifierOutput(LocalOutputs, TokenClassifierOutput):
    """Output of a token-classification head."""


@dataclass
class LocalMultipleChoiceOutput(LocalOutputs, MultipleChoiceModelOutput):
    """Output of a multiple-choice head."""


@dataclass
class LocalMaskedLMOutput(LocalOutputs, MaskedLMOutput):
    """Output of a masked-language-model head."""


PASSED_THROUGH = ("hidden_states", "attentions", *(field.name for field in fields(LocalOutputs)))
"""Outputs that all heads copy from those of the headless model."""


def add_local_loss(
    loss: torch.Tensor,
    outputs: Mapping[str, Any],
    labels: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Add the loss of the local layers, if outputs have one, to that of a task.

    Args:
        loss: Mean over the labels that are not -100, or their sum divided by `num_items_in_batch`.
        outputs: Outputs of a model.
        labels: Labels of the batch, or the first tokens of its answers.
        num_items_in_batch (*optional*): Number of labels of all batches of a training step.
    """
    local_loss = outputs.get("local_loss")
    if local_loss is None:
        return loss
    share = 1.0 if num_items_in_batch is None else (labels != -100).sum() / num_items_in_batch
    return loss + share * local_loss[0]


class PooledClassifier(nn.Module):
    """Classifier of a sequence from the features of one token: pooler, dropout and a linear layer."""

    def __init__(self, size: int, num_outputs: int, dropout: float):
        super().__init__()
        self.pooler = nn.Linear(size, size)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(size, num_outputs)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map features (B, size) to logits (B, num_outputs)."""
        return self.output(self.dropout(self.pooler(features).tanh()))


class TaskHead(LocalAttentionPreTrainedModel):
    """Base class of all heads: the headless model, and layers on top."""

    def __init__(self, config: Any):
        super().__init__(config)
        self.add_base_model()
        self.add_layers(config)
        self.post_init()

    def add_layers(self, config: Any) -> None:
        """Build the layers of the head."""


class QuestionAnsweringHead(TaskHead):
    """Start and end logits of an answer span, by a linear layer on each token (COOL, equations 14 and 15)."""

    def add_layers(self, config: Any) -> None:
        self.qa_dropout = nn.Dropout(getattr(config, "qa_dropout", 0.0))  # not all families have this field
        self.qa_outputs = nn.Linear(config.hidden_size, 2)

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

        With the positions (B,) of its first and last token the output has a loss, which ignores positions past the
        end. It is a mean over the batch, or the sum divided by `num_items_in_batch`. The other inputs are those of
        `LabelingHead.forward`.
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
            counted = {} if num_items_in_batch is None else {"num_items_in_batch": num_items_in_batch}
            loss = self.loss_function(start_logits, end_logits, start_positions, end_positions, **counted)
            loss = add_local_loss(loss, outputs, start_positions, num_items_in_batch)
        return LocalQuestionAnsweringOutput(
            loss=loss,
            start_logits=start_logits.contiguous(),
            end_logits=end_logits.contiguous(),
            **{name: outputs[name] for name in PASSED_THROUGH if name in outputs},
        )


class LabelingHead(TaskHead):
    """Base class of the heads with `logits` and `labels`. Each computes the logits and the loss of its task."""

    output_class: ClassVar[type[ModelOutput]]
    reads_hidden_states = False

    def new_classifier(self, num_outputs: int) -> nn.Module:
        """Build the module that maps features of sequences (B, F) to logits (B, num_outputs)."""
        return PooledClassifier(self.config.hidden_size, num_outputs, self.config.classifier_dropout)

    def flatten_choices(self, name: str, values: torch.Tensor) -> torch.Tensor:
        """Return an input with one row for each text."""
        return values

    def compute_logits(self, outputs: Any, attention_mask: torch.Tensor | None, shape: torch.Size) -> torch.Tensor:
        """Compute logits from the outputs of the headless model. `shape` is that of the inputs, at least (B, L)."""
        raise NotImplementedError

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor, **counted: Any) -> torch.Tensor:
        """Compute the loss of the task. `counted` has `num_items_in_batch` if it is given."""
        raise NotImplementedError

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
    ) -> Any:
        """Compute the logits of texts (B, num_labels), tokens (B, L, labels or vocabulary) or choices (B, C).

        Inputs of choices are (B, C, L, ...). Their hidden states and attentions have B * C rows.

        Args:
            input_ids (*optional*): (B, L). Give either these or `inputs_embeds`.
            attention_mask (*optional*, defaults to all ones): (B, L), 1 at real tokens, 0 at padding on either side.
            token_type_ids (*optional*): (B, L), segment ids.
            position_ids (*optional*): (B, L). By default tokens are numbered without padding.
            inputs_embeds (*optional*): (B, L, E).
            labels (*optional*): For texts (B,), class indices or floats, or (B, num_labels), floats for several labels
                or regressions; for tokens (B, L), -100 is ignored; for choices (B,).
            num_items_in_batch (*optional*): Divisor of the loss of tokens. By default the loss is a mean.
            **kwargs: Inputs of the family, `output_attentions`, `output_hidden_states` and the like.
        """
        self.resolve_output_flags(kwargs)
        asked_for = kwargs["output_hidden_states"]
        inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
            **{name: kwargs.pop(name, None) for name in self.token_inputs},
        }
        for name, value in inputs.items():
            inputs[name] = None if value is None else self.flatten_choices(name, value)
        kwargs |= {"return_dict": True, "output_hidden_states": self.reads_hidden_states or asked_for}
        outputs = self.base_model(**inputs, **kwargs)
        states = input_ids if input_ids is not None else inputs_embeds
        assert states is not None  # the headless model has checked it
        logits = self.compute_logits(outputs, inputs["attention_mask"], states.shape)
        loss = None
        if labels is not None:
            counted = {} if num_items_in_batch is None else {"num_items_in_batch": num_items_in_batch}
            loss = self.compute_loss(logits, labels, **counted)
            loss = add_local_loss(loss, outputs, labels, num_items_in_batch)
        more = {name: outputs[name] for name in PASSED_THROUGH if name in outputs}
        if asked_for is False:  # the head alone has read them
            more.pop("hidden_states", None)
        return self.output_class(loss=loss, logits=logits, **more)


class SequenceClassificationHead(LabelingHead):
    """Logits of a text or a pair of texts, for the classification or regression that `problem_type` selects."""

    output_class = LocalSequenceClassifierOutput
    accepts_loss_kwargs = False  # Trainer has to scale the loss, a mean over the batch

    def add_layers(self, config: Any) -> None:
        self.num_labels = config.num_labels
        self.sequence_classifier = self.new_classifier(config.num_labels)

    def compute_logits(self, outputs: Any, attention_mask: torch.Tensor | None, shape: torch.Size) -> torch.Tensor:
        return self.sequence_classifier(self.sequence_features(outputs, attention_mask))

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor, **counted: Any) -> torch.Tensor:
        return self.loss_function(labels, logits, self.config)


class TokenClassificationHead(LabelingHead):
    """Logits of each token, by dropout and a linear layer."""

    output_class = LocalTokenClassifierOutput

    def add_layers(self, config: Any) -> None:
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.num_labels = config.num_labels
        self.token_classifier = nn.Linear(config.hidden_size, config.num_labels)

    def compute_logits(self, outputs: Any, attention_mask: torch.Tensor | None, shape: torch.Size) -> torch.Tensor:
        return self.token_classifier(self.dropout(outputs.last_hidden_state))

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor, **counted: Any) -> torch.Tensor:
        return self.loss_function(logits, labels, self.config, **counted)


class MultipleChoiceHead(LabelingHead):
    """One logit for each choice; each choice is a text or a pair of texts."""

    output_class = LocalMultipleChoiceOutput
    accepts_loss_kwargs = False  # Trainer has to scale the loss, a mean over the batch

    def add_layers(self, config: Any) -> None:
        self.choice_classifier = self.new_classifier(1)

    def flatten_choices(self, name: str, values: torch.Tensor) -> torch.Tensor:
        if values.dim() < 3:
            raise ValueError(f"`{name}` has shape {tuple(values.shape)}; it must be (batch, choices, length).")
        return values.flatten(0, 1)

    def compute_logits(self, outputs: Any, attention_mask: torch.Tensor | None, shape: torch.Size) -> torch.Tensor:
        return self.choice_classifier(self.sequence_features(outputs, attention_mask)).view(shape[:2])

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor, **counted: Any) -> torch.Tensor:
        # Not `loss_function`: for a class of this name transformers chooses a loss that shifts labels.
        return functional.cross_entropy(logits, labels)


def build_reference_head(mapping: Any, backbone_config: PreTrainedConfig, **changes: Any) -> PreTrainedModel:
    """Build transformers' task class of a backbone without layers and with a minimal vocabulary, to reuse its head.

    `mapping` is from configurations to classes. Raise `ValueError` if there is no such class for the backbone.
    """
    config = copy.deepcopy(backbone_config)
    if type(config) not in mapping:
        raise ValueError(f"transformers has no such task class for the backbone {config.model_type!r}.")
    minimal = {"num_hidden_layers": 0, "vocab_size": (config.pad_token_id or 0) + 1}
    for name, value in (minimal | changes).items():
        setattr(config, name, value)
    return mapping[type(config)](config)


class GivenStates(nn.Module):
    """Stand-in for the encoder inside transformers' class: returns the states (B, L, H) that it is given."""

    def forward(self, *args: Any, inputs_embeds: torch.Tensor, **kwargs: Any) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=inputs_embeds)


class MaskedLMHead(LabelingHead):
    """Logits of the vocabulary for each token, by the head of transformers' masked language model for the backbone.

    The output layer is tied to the word embeddings if `tie_word_embeddings` of the backbone's configuration is True.
    Features of another width than the backbone's are projected to its width.
    """

    output_class = LocalMaskedLMOutput
    backbone_auto_class = AutoModelForMaskedLM

    def add_layers(self, config: Any) -> None:
        self.masked_lm_projection: nn.Linear | None = None
        size = config.backbone_config.hidden_size
        if config.mlm_residual or config.output_size != size:
            self.masked_lm_projection = nn.Linear(config.output_size, size)
        with init.no_init_weights():  # `post_init` does it
            self.masked_lm = build_reference_head(
                MODEL_FOR_MASKED_LM_MAPPING, config.backbone_config, vocab_size=config.vocab_size
            )
        self.masked_lm.config = config.backbone_config  # with the layers, on which ModernBERT's initialization depends
        self._tie_to_backbone(self.masked_lm)

    def _tie_to_backbone(self, stock: PreTrainedModel) -> None:
        """Replace the encoder of transformers' class by a stand-in, and tie the head to the backbone instead."""
        encoder = f"{stock.base_model_prefix}."
        ours = f"{self.base_model_prefix}.backbone."

        def name_here(name: str) -> str:
            return f"{ours}{name.removeprefix(encoder)}" if name.startswith(encoder) else f"masked_lm.{name}"

        tied = {name_here(target): name_here(source) for target, source in (stock._tied_weights_keys or {}).items()}
        self._tied_weights_keys = tied
        stock._tied_weights_keys = {}
        stock.all_tied_weights_keys = {}
        setattr(stock, stock.base_model_prefix, GivenStates())

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if self.config.mlm_residual and module is self.masked_lm_projection:
            init.zeros_(module.weight)
            init.zeros_(module.bias)

    def pretrained_parameters(self) -> Iterator[nn.Parameter]:
        """Iterate over the parameters that come from the backbone's checkpoint, with those of its head."""
        yield from dict.fromkeys([*super().pretrained_parameters(), *self.masked_lm.parameters()])

    def get_output_embeddings(self) -> nn.Module:
        return self.masked_lm.get_output_embeddings()

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.masked_lm.set_output_embeddings(new_embeddings)

    @property
    def reads_hidden_states(self) -> bool:  # type: ignore[override]
        """True if the head reads the states of the backbone."""
        return self.config.mlm_residual

    def compute_logits(self, outputs: Any, attention_mask: torch.Tensor | None, shape: torch.Size) -> torch.Tensor:
        features = outputs.last_hidden_state
        if self.masked_lm_projection is not None:
            features = self.masked_lm_projection(features)
        if self.config.mlm_residual:
            features = outputs.hidden_states[-1] + features
        return self.masked_lm(inputs_embeds=features, return_dict=True).logits

    def compute_loss(self, logits: torch.Tensor, labels: torch.Tensor, **counted: Any) -> torch.Tensor:
        return self.loss_function(logits, labels, vocab_size=logits.shape[-1], **counted)
