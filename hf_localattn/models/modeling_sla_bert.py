"""SLA: syntax-aware local attention in the layers of a pretrained encoder, mixed with global attention by a gate.

Source: Improving BERT with Syntax-aware Local Attention (Li et al.), section 3 and figure 1. The heads are equivalent
to transformers' task classes, and keep the pretrained pooler.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_FOR_MULTIPLE_CHOICE_MAPPING,
    MODEL_FOR_QUESTION_ANSWERING_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
    MODEL_MAPPING,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import initialization as init
from transformers.utils import can_return_tuple

from .configuration_sla_bert import STRUCTURE, SlaBertConfig
from .fields_sla_bert import GATED
from .modeling_local_attention import LocalAttentionPreTrainedModel, LocalModelOutput, check_inputs
from .sla_attention import DistanceSlope, LocalGate
from .sla_masks import limited_rows, shifted_heads, syntax_tables, window_tables
from .sla_row_blocks import is_split
from .sla_self_attention import (
    LocalAttentionRecord,
    check_implementation,
    is_in_kernel,
    prepared_mask,
    replace_class,
    self_attentions,
)
from .task_heads import (
    MaskedLMHead,
    MultipleChoiceHead,
    QuestionAnsweringHead,
    SequenceClassificationHead,
    TokenClassificationHead,
    build_reference_head,
)


class SyntaxLayers(nn.Module):
    """Base class of the baselines without gates: what they add to an encoder."""

    def __init__(self, backbone: PreTrainedModel, config: SlaBertConfig):
        super().__init__()

    def initialize(self) -> None:
        """Initialize the parameters that belong to no submodule. Called by `_init_weights`."""

    def start(
        self, structure: dict[str, torch.Tensor], tokens: torch.Tensor | None
    ) -> tuple[LocalAttentionRecord, dict[str, Any]]:
        """Return a record of this forward pass, and further arguments for the layers of the encoder.

        Args:
            structure: `word_index` and `dep_heads`, each (B, L), those that the model needs and was given.
            tokens: (B, L), True at tokens and False at padding. If None, all are tokens.
        """
        raise NotImplementedError

    def forward(self, states: torch.Tensor, record: LocalAttentionRecord) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the states (B, L, H) after the encoder, and a loss or None."""
        raise NotImplementedError


SYNTAX_LAYERS: dict[str, type[SyntaxLayers]] = {}
"""Baselines without gates by `local_attention`; sla_baselines.py adds them."""


LOCAL_MASKS: dict[str, Callable[..., Any]] = {}
"""Masks of local attention by `local_mask` of the configuration; sla_distances.py adds "distances"."""


class BackboneHead(nn.Module):
    """Classification head of a model of transformers for sequences or choices, from `build_reference_head`."""

    def __init__(self, stock: PreTrainedModel):
        super().__init__()
        for name, module in stock.named_children():
            if name != stock.base_model_prefix:
                # Not "classifier": peft wraps every module with this ending, and cannot load one inside another.
                self.add_module("head" if name == "classifier" else name, module)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map features (B, H) of the pooler, or of the first token without one, to logits (B, num_labels)."""
        parts: dict[str, Any] = dict(self.named_children())
        tokens = features.unsqueeze(1)  # some heads select the first token themselves
        if "sequence_summary" in parts:  # ELECTRA's multiple choice head
            return parts["head"](parts["sequence_summary"](tokens))
        if "dropout" in parts:  # BERT's head, after the pooler
            return parts["head"](parts["dropout"](features))
        return parts["head"](tokens)


class SlaBertPreTrainedModel(LocalAttentionPreTrainedModel):
    """Base class of the SLA models, with initialization and the choice of a pooler."""

    config_class = SlaBertConfig
    base_model_prefix = "sla_bert"
    token_inputs = STRUCTURE
    _no_split_modules = ["SyntaxGuidedLayer"]  # noqa: RUF012 (transformers' own type)
    _keys_to_ignore_on_load_unexpected = [r"\.pooler\."]  # noqa: RUF012 (headless checkpoints have a pooler)

    stock_classes: ClassVar[Any]
    """Mapping from configuration classes to transformers' classes for the same task."""

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, SlaBertModel):
            for part in module.modules():  # gates in the backbone, which would initialize them differently
                if isinstance(part, LocalGate):
                    init.constant_(part.bias, self.config.gate_bias_init)
                elif isinstance(part, DistanceSlope):
                    part.initialize()

    @property
    def _supports_flash_attn(self) -> bool:  # type: ignore[override]  # of the class in transformers
        return bool(self.config.local_attention == "none")  # no kernel is loaded to be refused

    def get_correct_attn_implementation(self, requested_attention: str | None, *args: Any, **kwargs: Any) -> str:
        """Check the name of an attention implementation, as transformers does; None is its choice."""
        if self.config.local_attention != "none" and requested_attention is not None:
            check_implementation(requested_attention)
        return super().get_correct_attn_implementation(requested_attention, *args, **kwargs)

    @classmethod
    def has_pooler(cls, backbone_config: PreTrainedConfig) -> bool:
        """Return True if the backbone keeps its pooler, as in transformers' class for the task."""
        if not super().pooler_kwargs(backbone_config):  # the backbone has no pooler
            return False
        with torch.device("meta"):
            stock = build_reference_head(cls.stock_classes, backbone_config)
        return getattr(stock.base_model, "pooler", None) is not None

    @classmethod
    def pooler_kwargs(cls, backbone_config: PreTrainedConfig) -> dict[str, bool]:
        return {} if cls.has_pooler(backbone_config) else super().pooler_kwargs(backbone_config)

    def add_base_model(self) -> None:
        super().add_base_model()
        if not self.has_pooler(self.config.backbone_config):
            self.backbone_model.pooler = None

    def sequence_features(self, outputs: LocalModelOutput, attention_mask: torch.Tensor | None) -> torch.Tensor:
        if outputs.pooler_output is not None:
            return outputs.pooler_output
        return super().sequence_features(outputs, attention_mask)

    def new_classifier(self, num_outputs: int) -> nn.Module:
        return BackboneHead(
            build_reference_head(self.stock_classes, self.config.backbone_config, num_labels=num_outputs)
        )

    def fresh_modules(self) -> Iterator[nn.Module]:
        for module in self.backbone_model.modules():
            if isinstance(module, LocalGate | DistanceSlope):
                yield module
        pooler = getattr(self.backbone_model, "pooler", None)
        if self.config.pooler_is_new and pooler is not None:
            yield pooler

    def on_missing_keys(self, names: Iterable[str]) -> None:
        if any(re.search(r"(^|backbone\.)pooler\.", name) for name in names):
            self.config.pooler_is_new = True


class SlaBertModel(SlaBertPreTrainedModel):
    """Encoder with syntax-aware local attention in its layers, without a head."""

    stock_classes = MODEL_MAPPING

    def __init__(self, config: SlaBertConfig):
        super().__init__(config)
        self.add_backbone()
        kind = config.local_attention
        if kind in GATED:
            attentions = self_attentions(self.backbone)
            chosen = [attentions[layer] for layer in config.sla_layer_indices]
            replace_class(chosen)
            for attention in chosen:
                attention.gate = LocalGate(config.backbone_config.hidden_size)
                if kind == "soft":
                    attention.slope = DistanceSlope()
        self.local_mask = None
        if config.local_mask != "tables":
            self.local_mask = config.choose_layer("local_mask", LOCAL_MASKS)
        self.syntax_layer: SyntaxLayers | None = None
        if kind not in (*GATED, "none"):
            self.syntax_layer = config.choose_layer("local_attention", SYNTAX_LAYERS)(self.backbone, config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        word_index: torch.Tensor | None = None,
        dep_heads: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> LocalModelOutput:
        """Compute the states (B, L, H) of all tokens, and the pooled state (B, H) if the backbone has a pooler.

        `SlaBertTokenizer` returns and describes `word_index` and `dep_heads`, each (B, L). "syntax", "soft" and
        "sgnet" need both, "window" the first, "lisa" the second in training. The other inputs are those of the heads.

        With `output_attentions=True` the output has `gates`; with `attn_implementation="eager"` it also has
        `local_attentions` (B, heads, L, L), and its `attentions` are the mixture of global and local attention
        (equation 6).
        """
        self.resolve_output_flags(kwargs)
        wants_attentions = kwargs["output_attentions"]
        states = check_inputs(input_ids, inputs_embeds, attention_mask)
        tokens = None if attention_mask is None else attention_mask != 0
        structure = self.checked_structure(states, tokens, word_index=word_index, dep_heads=dep_heads)
        record = LocalAttentionRecord()
        local_loss = None
        if self.local_mask is not None:
            kwargs |= {
                "record": record,
                "local_mask": self.local_mask(self.config, self.backbone, input_ids, tokens, **structure),
            }
        elif self.config.local_attention in GATED:
            kwargs |= {"record": record, **self.gated_masks(states, tokens, wants_attentions, **structure)}
        elif self.syntax_layer is not None:
            record, more = self.syntax_layer.start(structure, tokens)
            kwargs |= more
        outputs = self.forward_backbone(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs
        )
        states = outputs.last_hidden_state
        pooled = None
        if self.syntax_layer is not None:
            states, local_loss = self.syntax_layer(states, record)
        if getattr(self.backbone, "pooler", None) is not None:
            pooled = self.backbone.pooler(self.classification_token(states, attention_mask).unsqueeze(1))
        return LocalModelOutput(
            last_hidden_state=states,
            pooler_output=pooled,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            local_attentions=tuple(record.local_attentions) if wants_attentions else None,
            gates=tuple(record.gates) if wants_attentions else None,
            local_loss=None if local_loss is None else local_loss.expand(states.shape[0]),
        )

    def checked_structure(
        self, states: torch.Tensor, tokens: torch.Tensor | None, **structure: torch.Tensor | None
    ) -> dict[str, torch.Tensor]:
        """Return the inputs that local attention needs among `word_index` and `dep_heads`, with -1 at padding.

        Code that does not know these inputs, such as transformers' pipelines, pads them with 0. After such padding on
        the left, heads are shifted.
        """
        needed = self.config.required_inputs
        kind = self.config.local_attention
        for name, value in structure.items():
            if value is None and name in needed and kind != "lisa":  # which needs it in training
                raise ValueError(
                    f"`local_attention={kind!r}` needs `{name}`, which SlaBertTokenizer returns"
                    f"{' if it has a `parser`' if name == 'dep_heads' else ''}: pass all that it returns to the model,"
                    " or use `local_attention='window'` (without a parser) or 'none'."
                )
            if value is not None and value.shape != states.shape[:2]:
                raise ValueError(f"`{name}` has shape {tuple(value.shape)}; it must be {tuple(states.shape[:2])}.")
        inputs = {name: value for name, value in structure.items() if name in needed and value is not None}
        if tokens is not None and "word_index" in inputs:
            inputs["word_index"] = inputs["word_index"].masked_fill(~tokens, -1)
        if "dep_heads" in inputs:
            if tokens is not None:
                inputs["dep_heads"] = shifted_heads(inputs["dep_heads"], tokens)
            self.config.installed.check_structure(inputs.get("word_index"), inputs["dep_heads"])
        return inputs

    def gated_masks(
        self, states: torch.Tensor, tokens: torch.Tensor | None, wants_attentions: bool, **structure: torch.Tensor
    ) -> dict[str, Any]:
        """Return the masks of gated layers: whole ones, or those of attention in a kernel or by blocks of rows."""
        config = self.config
        backbone = self.backbone
        if config.local_attention == "window":
            tables = window_tables(**structure, window_size=config.window_size)
        else:
            tables = syntax_tables(
                **structure,
                threshold=config.syntax_threshold,
                neighbor_window=config.neighbor_window,
                connect_roots=config.connect_roots,
            )
        rows = limited_rows(tables.rows, tokens)
        local: Any
        if not wants_attentions and is_in_kernel(backbone, tables):
            local = tables.without_padding(tokens)
            pads = tokens
        elif not wants_attentions and is_split(states, backbone.config._attn_implementation):
            local = rows
            pads = None if tokens is None or tokens.all() else tokens
        else:
            return {"local_mask": prepared_mask(rows(slice(None)), backbone.config, backbone.dtype)}
        if pads is None:
            return {"local_mask": local}
        # One row for all queries. The backbone would build all rows.
        return {"local_mask": local, "layer_mask": prepared_mask(pads[:, None], backbone.config, backbone.dtype)}


SlaBertPreTrainedModel.base_model_class = SlaBertModel


class SlaBertForQuestionAnswering(SlaBertPreTrainedModel, QuestionAnsweringHead):
    """SLA model with a span classification head for extractive question answering."""

    stock_classes = MODEL_FOR_QUESTION_ANSWERING_MAPPING


class SlaBertForSequenceClassification(SlaBertPreTrainedModel, SequenceClassificationHead):
    """SLA model with the backbone's classification or regression head for texts and pairs of texts."""

    stock_classes = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING


class SlaBertForTokenClassification(SlaBertPreTrainedModel, TokenClassificationHead):
    """SLA model with a token classification head."""

    stock_classes = MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING


class SlaBertForMultipleChoice(SlaBertPreTrainedModel, MultipleChoiceHead):
    """SLA model with the backbone's multiple choice head."""

    stock_classes = MODEL_FOR_MULTIPLE_CHOICE_MAPPING


class SlaBertForMaskedLM(SlaBertPreTrainedModel, MaskedLMHead):
    """SLA model with the masked-language-model head of the backbone."""

    stock_classes = MODEL_FOR_MASKED_LM_MAPPING
