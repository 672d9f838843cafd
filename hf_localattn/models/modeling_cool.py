"""COOL: a pretrained encoder with a context outlooker on top of, below or parallel to it.

Source: COOL, a Context Outlooker, and its Application to Question Answering (Zhu, Ng and Bressan), section 3.

Shapes: B batch, L tokens, H width of the encoder, F width of the local layers.
"""

from typing import Any

import torch
from torch.nn import functional
from transformers.loss.loss_utils import ForQuestionAnsweringLoss

from .configuration_cool import CoolConfig
from .cool_local_encoder import CoolPreTrainedModel, Fusion, LocalEncoder
from .modeling_on_encoder import ModelOnEncoder
from .task_heads import (
    MaskedLMHead,
    MultipleChoiceHead,
    QuestionAnsweringHead,
    SequenceClassificationHead,
    TokenClassificationHead,
)


class CoolModel(CoolPreTrainedModel, ModelOnEncoder):
    """The encoder with the context outlooker, without a task head."""

    def __init__(self, config: CoolConfig):
        super().__init__(config)
        self.add_backbone()
        self.local_encoder = LocalEncoder(config)
        width = getattr(self.get_input_embeddings(), "embedding_dim", None)
        if config.mode != "g2l" and width != config.local_input_size:
            raise ValueError(
                f"`mode` is {config.mode!r}, but {config.backbone_config.model_type!r} has no word embeddings of "
                f"width {config.local_input_size} (found {width}): set `mode` to 'g2l'."
            )
        if config.mode == "g&l":
            self.fusion = Fusion(config)
        self.post_init()

    def start_layers(
        self, inputs: dict[str, Any], mask: torch.Tensor | None, output_attentions: bool, **further: Any
    ) -> dict[str, Any]:
        """Run the local layers on the word embeddings in modes "l2g", for the encoder to read, and "g&l"."""
        if self.config.mode == "g2l":
            return {}
        words = inputs["inputs_embeds"]
        if words is None:
            words = self.get_input_embeddings()(inputs["input_ids"])
        local, weights = self.local_encoder(words, mask, output_attentions)
        if self.config.mode == "l2g":
            inputs |= {"input_ids": None, "inputs_embeds": local}
        return {"local": local, "weights": weights}

    def forward_layers(
        self,
        states: torch.Tensor,
        mask: torch.Tensor | None,
        output_attentions: bool,
        local: torch.Tensor | None = None,
        weights: tuple[torch.Tensor, ...] | None = None,
        **started: Any,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return states (B, L, F) in mode "g2l" and (B, L, encoder size) in other modes, and `local_attentions`."""
        if self.config.mode == "g2l":
            states, weights = self.local_encoder(states, mask, output_attentions)
        elif self.config.mode == "g&l":
            states = self.fusion(states, local)
        return states, {"local_attentions": weights}


CoolPreTrainedModel.base_model_class = CoolModel


class CoolForQuestionAnswering(CoolPreTrainedModel, QuestionAnsweringHead):
    """COOL with a span prediction head for extractive question answering (section 3.4)."""

    def loss_function(
        self,
        start_logits: torch.Tensor,
        end_logits: torch.Tensor,
        start_positions: torch.Tensor,
        end_positions: torch.Tensor,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Compute the loss that `qa_loss` names, over the examples whose answer is in range."""
        logits = start_logits, end_logits
        positions = start_positions, end_positions
        if self.config.qa_loss != "joint":
            mean = ForQuestionAnsweringLoss(*logits, *positions, num_items_in_batch=num_items_in_batch)
            return 2 * mean if self.config.qa_loss == "sum" else mean
        dtype = torch.promote_types(start_logits.dtype, torch.float32)
        last = start_logits.shape[1] - 1
        starts, ends = (position.view(-1).to(start_logits.device).clamp(min=0) for position in positions)
        inside = (starts <= last) & (ends <= last)
        logs = [
            functional.log_softmax(scores, dim=-1, dtype=dtype).gather(1, position.clamp(max=last)[:, None])
            for scores, position in zip(logits, (starts, ends), strict=True)
        ]
        losses = -torch.logaddexp(*logs).squeeze(1)
        count = inside.sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
        return losses.masked_fill(~inside, 0.0).sum() / count


class CoolForSequenceClassification(CoolPreTrainedModel, SequenceClassificationHead):
    """COOL with a classification or regression head for texts and pairs of texts."""


class CoolForTokenClassification(CoolPreTrainedModel, TokenClassificationHead):
    """COOL with a token classification head."""


class CoolForMultipleChoice(CoolPreTrainedModel, MultipleChoiceHead):
    """COOL with a multiple choice head."""


class CoolForMaskedLM(CoolPreTrainedModel, MaskedLMHead):
    """COOL with the masked-language-model head of the backbone."""
