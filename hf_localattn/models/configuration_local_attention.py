"""Base class of all configurations: the backbone's configuration, checked fields, and the code that is saved."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin

from transformers import AutoConfig, PreTrainedConfig
from transformers.dynamic_module_utils import get_relative_imports
from transformers.utils import cached_file

VERSION = "0.2.0"
"""Version of hf_localattn that this code belongs to."""


class Range(NamedTuple):
    """Values that a field accepts: a description for errors, and a test."""

    description: str
    holds: Callable[[Any], bool]


Positive = Annotated[int, Range("a whole number of at least 1", lambda value: value >= 1)]
Count = Annotated[int, Range("a whole number of at least 0", lambda value: value >= 0)]
Probability = Annotated[float, Range("a number in [0, 1)", lambda value: 0 <= value < 1)]
NonNegative = Annotated[float, Range("a finite number of at least 0", lambda value: 0 <= value < math.inf)]

TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", NoneType: "null"}


def range_of(kind: Any) -> Range:
    """Return the values that fit an annotation."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return Range(f"one of {', '.join(map(repr, arguments))}", lambda value: value in arguments)
    if origin is Annotated:
        inner, own = range_of(arguments[0]), arguments[1]
        return Range(own.description, lambda value: inner.holds(value) and own.holds(value))
    if origin in (Union, UnionType):
        ranges = [range_of(one) for one in arguments]
        return Range(" or ".join(one[0] for one in ranges), lambda value: any(one.holds(value) for one in ranges))
    if origin in (list, tuple):  # files have lists for tuples
        inner = range_of(arguments[0])
        description = f"a list, each entry {inner.description}"
        return Range(description, lambda value: isinstance(value, list | tuple) and all(map(inner.holds, value)))
    types = (int, float) if kind is float else kind
    return Range(TYPES[kind], lambda value: isinstance(value, types) and (kind is bool or not isinstance(value, bool)))


@cache
def field_types(config_class: Any) -> dict[str, Any]:
    """Return the annotations of the fields of a family, by name."""
    classes = [one for one in reversed(config_class.__mro__) if issubclass(one, LocalAttentionConfig)]
    annotations = {name: kind for one in classes for name, kind in inspect.get_annotations(one, eval_str=True).items()}
    return {name: kind for name, kind in annotations.items() if kind is not Any and get_origin(kind) is not ClassVar}


def check_types(fields: Any, types: Mapping[str, Any]) -> None:
    """Raise `ValueError` for the first attribute whose value does not fit its annotation."""
    for name, annotation in types.items():
        accepted, value = range_of(annotation), getattr(fields, name)
        if not accepted.holds(value):
            raise ValueError(f"`{name}` is {value!r}; it must be {accepted.description}.")


class Installed:
    """Services of the package, until `hf_localattn` replaces `LocalAttentionConfig.installed`: they do nothing."""

    def check_content(self, config_class: Any, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the content of a `config.json`, unchecked."""
        return content

    def loading(self, name_or_path: Any, arguments: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
        """Return the context in which `from_pretrained` loads weights."""
        return contextlib.nullcontext()

    def from_backbone(self, *args: Any, **kwargs: Any) -> Any:
        """Raise `ImportError`: only the package builds models from a backbone."""
        raise ImportError(
            "`from_backbone` is part of the package: run `pip install hf_localattn` and import the class from it."
        )

    def __getattr__(self, service: str) -> Callable[..., None]:
        """Return a function that returns None, for checks, kernels and caches."""
        return lambda *args: None


class BackboneField(property):
    """Property that reads and writes a field of `backbone_config`, so that both configurations agree.

    With `reads` it reads that property of the outer configuration.
    """

    def __init__(self, name: str, reads: str = ""):
        super().__init__(
            lambda config: getattr(config, reads) if reads else getattr(config.backbone_config, name),
            lambda config, value: setattr(config.backbone_config, name, value),
        )


class LocalAttentionConfig(PreTrainedConfig):
    """Base configuration of all families: the configuration of a backbone, and fields of the local attention.

    Args:
        backbone_config (PreTrainedConfig or dict, *optional*, defaults to the family's default backbone):
            Configuration of the pretrained backbone, as an object or as a dict with its `model_type`. It is copied.
        initializer_range (float, *optional*, defaults to 0.02): Standard deviation of the initial weights of new
            layers and heads.
        mlm_residual (bool, *optional*, defaults to False): In masked language modeling, add the projected features of
            the local layers to the backbone's states, instead of replacing them. The projection starts at zero, so the
            initial predictions are those of the backbone. Only for local layers outside the backbone.
        hf_localattn_version (str, *optional*): Version of hf_localattn that saved the checkpoint; None for a new
            configuration. Saving always writes the version of this code.

    Raises:
        ValueError: If a field has an invalid value, the backbone is a decoder, not a text model, or a model of these
            families, or if it is an encoder-decoder and the family does not generate.
    """

    model_type = ""
    sub_configs: ClassVar[dict[str, Any]] = {"backbone_config": AutoConfig}
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["hidden_states", "attentions", "local_attentions"]

    installed: ClassVar[Any] = Installed()
    default_backbone: ClassVar[str] = "bert"
    tested_backbones: ClassVar[Sequence[str]] = (
        *("bert", "roberta", "albert", "electra", "distilbert", "deberta-v2", "modernbert", "xlnet"),
    )
    generation_backbones: ClassVar[Sequence[str]] = ()
    """Tested encoder-decoder backbones; empty for families that do not generate."""

    code_folder = str(Path(__file__).parent)
    """Folder of this code. A model whose code transformers keeps in another folder names that one."""

    heads: ClassVar[Mapping[str, str]] = {
        "AutoModel": "Model",
        "AutoModelForQuestionAnswering": "ForQuestionAnswering",
        "AutoModelForSequenceClassification": "ForSequenceClassification",
        "AutoModelForTokenClassification": "ForTokenClassification",
        "AutoModelForMultipleChoice": "ForMultipleChoice",
        "AutoModelForMaskedLM": "ForMaskedLM",
    }
    """Ending of the family's class for each Auto class. The classes begin with the name of the family."""

    backbone_config: Any = None
    initializer_range: NonNegative = 0.02
    mlm_residual: bool = False
    hf_localattn_version: str | None = None

    # Tools that put layers on the last hidden states read `hidden_size`. Writing it sets the backbone's.
    hidden_size = BackboneField("hidden_size", reads="output_size")
    vocab_size = BackboneField("vocab_size")
    num_hidden_layers = BackboneField("num_hidden_layers")
    num_attention_heads = BackboneField("num_attention_heads")
    pad_token_id = BackboneField("pad_token_id")
    max_position_embeddings = BackboneField("max_position_embeddings")
    tie_word_embeddings = BackboneField("tie_word_embeddings")
    bos_token_id = BackboneField("bos_token_id")
    eos_token_id = BackboneField("eos_token_id")
    decoder_start_token_id = BackboneField("decoder_start_token_id")

    def __post_init__(self, **kwargs: Any) -> None:
        self.backbone_config = self._build_backbone_config(self.backbone_config)
        super().__post_init__(**kwargs)
        self.is_encoder_decoder = self.backbone_config.is_encoder_decoder
        self.check()
        self.installed.note_fields(self)

    def check(self) -> None:
        """Raise `ValueError` if a field has an invalid value.

        Called when a configuration is created, loaded or saved, and when a model is built: fields can change.
        """
        self.installed.check_backbone(self)
        config_class: Any = type(self)  # which mypy takes for unhashable
        check_types(self, field_types(config_class))
        self.check_fields()
        # A file may name the labels in one direction only.
        if self.id2label and all(re.fullmatch(r"LABEL_\d+", str(name)) for name in vars(self).get("label2id") or ()):
            self.label2id = {name: int(number) for number, name in self.id2label.items()}

    def check_fields(self) -> None:
        """Validate combinations of the family's fields. Called by `check`, after each field was checked alone."""

    def choose_layer(self, field: str, layers: Mapping[str, Any]) -> Any:
        """Return the class of layers that a field names. Code without the file of a baseline does not have it."""
        if (kind := getattr(self, field)) not in layers:
            raise ValueError(f"`{field}` is {kind!r}, which this code does not have: install hf_localattn.")
        return layers[kind]

    @property
    def required_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that the models need in addition to the usual ones."""
        return ()

    @property
    def output_size(self) -> int:
        """Width of the last hidden states, by default the backbone's `hidden_size`."""
        return self.backbone_config.hidden_size

    @property
    def max_tokens(self) -> int | None:
        """Largest number of tokens that the local layers accept, or None if they have no limit."""
        return None

    @property
    def finds_cues(self) -> bool:
        """True if labels of cues are among the labels, such as "negation:single"."""
        return any(re.match("(negation|speculation):", str(label)) for label in (self.id2label or {}).values())

    def _build_backbone_config(self, backbone_config: Any) -> PreTrainedConfig:
        hub_id = ""
        if isinstance(backbone_config, PreTrainedConfig):
            backbone_config = copy.deepcopy(backbone_config)
        elif not isinstance(backbone_config, Mapping | None):
            raise ValueError(
                f"`backbone_config` is {backbone_config!r}; give a configuration or a dict of its fields."
            )
        else:
            # The labels of the backbone are not used.
            labels = ("id2label", "label2id", "num_labels")
            given = {name: value for name, value in dict(backbone_config or {}).items() if name not in labels}
            hub_id = str(given.pop("_name_or_path", ""))
            backbone_config = AutoConfig.for_model(given.pop("model_type", self.default_backbone), **given)
        # An id on the Hub is kept. A path may be that of a private folder, and this configuration may be published.
        backbone_config.name_or_path = hub_id if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", hub_id) else ""
        # The backbone is always a class of transformers, never code of a checkpoint.
        for name in ("auto_map", "custom_pipelines", "trust_remote_code"):
            vars(backbone_config).pop(name, None)
        return backbone_config

    def backbone_config_to_build(self) -> PreTrainedConfig:
        """Return the configuration that the backbone is built from; families that enlarge the backbone override it."""
        return self.backbone_config

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Build a configuration from the content of a `config.json`. It must be valid."""
        config_dict = dict(cls.installed.check_content(cls, config_dict))
        config_dict.pop("code_folder", None)  # code is never copied from a folder that a file names
        loaded = super().from_dict(config_dict, **kwargs)
        # transformers applies overrides after `__post_init__`.
        (loaded[0] if isinstance(loaded, tuple) else loaded).check()
        return loaded

    # The code that is saved with a configuration: transformers would save the files of one class.

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = "AutoConfig") -> None:
        """Do nothing: `save_pretrained` saves the modules that the configuration names."""

    @property
    def entry_module(self) -> str:
        """Name of the module that has all models of this configuration."""
        return type(self).__module__.rpartition(".")[2].replace("configuration_", "modeling_")

    def auto_classes(self) -> dict[str, str]:
        """Return the class for each Auto class, saved as `auto_map`."""
        own, family = type(self), type(self).__name__.removesuffix("Config")
        models = {auto_class: f"{self.entry_module}.{family}{ending}" for auto_class, ending in self.heads.items()}
        return {"AutoConfig": f"{own.__module__.rpartition('.')[2]}.{own.__name__}", **models}

    def pipelines(self) -> dict[str, Any]:
        """Return the pipelines of the head that the configuration was saved with, saved as `custom_pipelines`."""
        head = "".join(self.architectures or ())
        if head.endswith("ForQuestionAnswering"):
            implementation = "pipeline_question_answering.QuestionAnsweringPipeline"
            return {"question-answering": {"impl": implementation, "pt": ["AutoModelForQuestionAnswering"]}}
        if head.endswith("ForTokenClassification") and self.finds_cues:
            implementation = "pipeline_negation.NegationPipeline"
            return {"negation": {"impl": implementation, "pt": ["AutoModelForTokenClassification"]}}
        return {}

    def save_pretrained(self, save_directory: Any, push_to_hub: bool = False, **kwargs: Any) -> None:
        """Save a configuration as in transformers, with the modules that it names and those that they import."""
        self.check()
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.auto_map, pipelines = self.auto_classes(), {}
        for task, entry in self.pipelines().items():
            with contextlib.suppress(OSError):  # fine-tuned from a folder without a head, which has no pipelines
                self._code_file(f"{entry['impl'].partition('.')[0]}.py")
                pipelines[task] = entry
        named = [*self.auto_map.values(), *(entry["impl"] for entry in pipelines.values())]
        waiting, known = [name.partition(".")[0] for name in named], set()
        while waiting:
            if (module := waiting.pop()) not in known:
                known.add(module)
                source, target = self._code_file(f"{module}.py"), folder / f"{module}.py"
                if not (target.exists() and target.samefile(source)):
                    shutil.copyfile(source, target)
                waiting += get_relative_imports(source)
        if pipelines:
            self.custom_pipelines = pipelines
        try:
            super().save_pretrained(save_directory)
        finally:  # in a model object they would make transformers look for files in the object
            self.__dict__.pop("custom_pipelines", None)
        if push_to_hub:
            self.push_to_hub(kwargs.pop("repo_id", folder.name), **kwargs)

    def _code_file(self, name: str) -> Path:
        """Return the path of a code file: beside this one or the model's, or where the weights came from."""
        here = Path(__file__).parent
        for folder in (here, Path(self.code_folder)):
            if (folder / name).is_file():
                return folder / name
        revision = here.name if re.fullmatch("[0-9a-f]{40}", here.name) else None  # the commit of code from the Hub
        return Path(str(cached_file(self.name_or_path, name, revision=revision)))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as a dict, with the version of this code."""
        content = {**super().to_dict(), "hf_localattn_version": VERSION}
        of_this_machine = ("code_folder", "fusion_config", "kernel_config", "use_kernels")
        return {name: value for name, value in content.items() if name not in of_this_machine}
