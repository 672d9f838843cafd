"""Base class of all configurations: the backbone's configuration, checked fields, and the code that is saved."""

import contextlib
import copy
import inspect
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from transformers import AutoConfig, PreTrainedConfig
from transformers.dynamic_module_utils import get_relative_imports
from transformers.utils import cached_file

from .fields import Fields, check_types, field_types

VERSION = "0.2.0"
"""Version of hf_localattn that this code belongs to."""


class InstalledServices:
    """Services of the installed package. Here, in code that travels with checkpoints, each of them does nothing.

    Importing `hf_localattn` replaces `LocalAttentionConfig.installed` by an object that overrides all methods.
    """

    def check_checkpoint(self, checkpoint: Any, arguments: Mapping[str, Any]) -> None:
        """Check that the files of a checkpoint are data, before they are read."""

    def check_content(self, config_class: Any, content: Mapping[str, Any], folder: Any) -> Mapping[str, Any]:
        """Check the content of a `config.json` and its folder, and return it without entries that name code."""
        return content

    def check_values(self, config_class: Any, content: Mapping[str, Any], folder: Any) -> None:
        """Check that a configuration can be built from the content of a `config.json`, after it could not."""

    def loading(self, name_or_path: Any, arguments: dict[str, Any]) -> Any:
        """Return a context in which `from_pretrained` reads only safetensors files."""
        return contextlib.nullcontext()

    def check_backbone_type(self, config_class: Any, model_type: Any) -> None:
        """Check that a model type is that of a backbone, before its configuration is built."""

    def check_backbone(self, config: Any) -> None:
        """Check that local layers can read the backbone of a configuration."""

    def check_model(self, model_class: Any, config: Any) -> None:
        """Check that a model class supports a configuration."""

    def warn_of_inactive_fields(self, config: Any) -> None:
        """Warn of fields that differ from their default but have no effect."""

    def check_texts(self, text: Any, text_pair: Any, split: bool) -> None:
        """Check that the arguments of a tokenizer's call are texts."""

    def check_structure(self, word_index: Any, dep_heads: Any) -> None:
        """Check that `dep_heads` form a forest."""

    def build_model(self, model_class: Any, name_or_path: Any, **arguments: Any) -> Any:
        """Build a model from a backbone."""
        raise ImportError(
            "`from_backbone` is part of the package: run `pip install hf_localattn` and import the class from it."
        )

    def build_tokenizer(self, tokenizer_class: Any, tokenizer: Any, **settings: Any) -> Any:
        """Build a tokenizer from a backbone's."""
        self.build_model(tokenizer_class, tokenizer)

    def kernel(self, name: str) -> Any:
        """Return the GPU kernels of a computation, if any."""

    def load_parser(self, parser: str) -> Any:
        """Load a spaCy pipeline that only a checkpoint names, if it is safe; None leaves it to the caller."""

    def parser_version(self, parser: str, named_by_checkpoint: bool) -> Any:
        """Return the version of an installed spaCy pipeline."""

    def lighten_parser(self, pipeline: Any) -> None:
        """Remove the components of a spaCy pipeline that dependency parsing does not need."""

    def read_parses(self, texts: Any, words: str, parser: str, pipeline: Any) -> Any:
        """Return the stored parses of texts, if any."""

    def write_parses(self, parses: Any, words: str, parser: str, pipeline: Any) -> None:
        """Store parses."""


class BackboneField(property):
    """Property that reads and writes a field of `backbone_config`, so that both configurations agree.

    With `reads` it reads that property of the outer configuration.
    """

    def __init__(self, name: str, reads: str = ""):
        super().__init__(
            lambda config: getattr(config, reads) if reads else getattr(config.backbone_config, name),
            lambda config, value: setattr(config.backbone_config, name, value),
        )


class LocalAttentionConfig(Fields, PreTrainedConfig):
    """Base configuration of all families: the configuration of a backbone, and fields of the local attention.

    Raises:
        ValueError: A field has an invalid value, or the backbone does not fit.
    """

    model_type = ""
    sub_configs: ClassVar[dict[str, Any]] = {"backbone_config": AutoConfig}
    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        "hidden_states",
        "attentions",
        "local_attentions",
        "local_loss",
    ]

    installed: ClassVar[InstalledServices] = InstalledServices()
    default_backbone: ClassVar[str] = "bert"
    tested_backbones: ClassVar[Sequence[str]] = (
        "bert",
        "roberta",
        "albert",
        "electra",
        "distilbert",
        "deberta-v2",
        "modernbert",
        "xlnet",
        "mpnet",
    )
    generation_backbones: ClassVar[Sequence[str]] = ()
    """Tested encoder-decoder backbones; empty for families that do not generate."""

    code_folder = str(Path(__file__).parent)
    """Folder of this code. Models set it, because transformers may keep their code in another folder."""

    heads: ClassVar[Mapping[str, str]] = {
        "AutoModel": "Model",
        "AutoModelForQuestionAnswering": "ForQuestionAnswering",
        "AutoModelForSequenceClassification": "ForSequenceClassification",
        "AutoModelForTokenClassification": "ForTokenClassification",
        "AutoModelForMultipleChoice": "ForMultipleChoice",
        "AutoModelForMaskedLM": "ForMaskedLM",
    }
    """Ending of the family's class for each Auto class. The classes begin with the name of the family."""

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
        self.normalize()
        self.check()
        self.installed.warn_of_inactive_fields(self)

    def normalize(self) -> None:
        """Bring fields with several spellings into one form. Called before each `check`."""
        default_names = all(re.fullmatch(r"LABEL_\d+", str(name)) for name in vars(self).get("label2id") or ())
        if self.id2label and default_names:  # a file may name the labels in one direction only
            self.label2id = {name: int(index) for index, name in self.id2label.items()}

    def check(self) -> None:
        """Raise `ValueError` for an invalid field, when a configuration is created or saved and a model is built."""
        self.installed.check_backbone(self)
        config_class: Any = type(self)  # which mypy takes for unhashable
        check_types(self, field_types(config_class))
        self.encoder_state_indices()
        self.check_fields()

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
        """Width of the last hidden states, by default `encoder_size`."""
        return self.encoder_size

    @property
    def encoder_size(self) -> int:
        """Width of the states of the encoder that `encoder_states` selects."""
        count = 1 if self.encoder_states in ("last", "mix") else len(self.encoder_state_indices() or ())
        return count * self.backbone_config.hidden_size

    @property
    def num_encoder_states(self) -> int:
        """Number of states that the encoder has of a token: its word embedding, and one of each layer."""
        config: Any = self.backbone_config_to_build()
        return 1 + (getattr(config, "num_encoder_layers", None) or config.num_hidden_layers)

    def encoder_state_indices(self) -> list[int] | None:
        """Return the indices, from 0, of the states that `encoder_states` selects; None for the last one alone."""
        if self.encoder_states == "last":
            return None
        count = self.num_encoder_states
        listed: Any = range(count) if self.encoder_states in ("mix", "all") else self.encoder_states
        chosen = list(dict.fromkeys(index % count for index in listed if -count <= index < count))
        if not chosen or len(chosen) < len(listed):
            raise ValueError(f"`encoder_states` is {listed!r}; give distinct layers from {-count} to {count - 1}.")
        return chosen

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
            content = {name: value for name, value in dict(backbone_config or {}).items() if name not in labels}
            hub_id = str(content.pop("_name_or_path", ""))
            model_type = content.pop("model_type", self.default_backbone)
            self.installed.check_backbone_type(type(self), model_type)
            backbone_config = AutoConfig.for_model(model_type, **content)
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
    def get_config_dict(cls, pretrained_model_name_or_path: Any, **kwargs: Any) -> Any:
        """Read a `config.json` as in transformers."""
        cls.installed.check_checkpoint(pretrained_model_name_or_path, kwargs)
        content, kwargs = super().get_config_dict(pretrained_model_name_or_path, **kwargs)
        return content, {"name_or_path": str(pretrained_model_name_or_path), **kwargs}

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Build a configuration from the content of a `config.json`. It must be valid."""
        folder = kwargs.get("name_or_path")
        content = dict(cls.installed.check_content(cls, config_dict, folder))
        content.pop("code_folder", None)  # code is never copied from a folder that a file names
        # Replaced here, fields are checked with the others. transformers would replace them afterwards.
        config_class: Any = cls
        fields = {name: kwargs.pop(name) for name in field_types(config_class).keys() & kwargs.keys()}
        try:
            loaded = super().from_dict(content | fields, **kwargs)
        except Exception:
            cls.installed.check_values(cls, content, folder)  # or else the caller's values are wrong
            raise
        config = loaded[0] if isinstance(loaded, tuple) else loaded
        config.normalize()  # labels may have been replaced
        return loaded

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = "AutoConfig") -> None:
        """Do nothing: `save_pretrained` saves the modules that the configuration names, not the file of one class."""

    @property
    def entry_module(self) -> str:
        """Name of the module that has all models of this configuration."""
        return type(self).__module__.rpartition(".")[2].replace("configuration_", "modeling_")

    def auto_classes(self) -> dict[str, str]:
        """Return the class for each Auto class, saved as `auto_map`."""
        name = type(self).__name__
        family = name.removesuffix("Config")
        module = type(self).__module__.rpartition(".")[2]
        models = {auto_class: f"{self.entry_module}.{family}{ending}" for auto_class, ending in self.heads.items()}
        return {"AutoConfig": f"{module}.{name}", **models}

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
        self.normalize()
        self.check()
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.auto_map = self.auto_classes()
        pipelines = {}
        for task, entry in self.pipelines().items():
            with contextlib.suppress(OSError):  # fine-tuned from a folder without a head, which has no pipelines
                self._code_file(_module_of(entry["impl"]))
                pipelines[task] = entry
        named = [*self.auto_map.values(), *(entry["impl"] for entry in pipelines.values())]
        self._copy_code({_module_of(name) for name in named}, folder)
        if pipelines:
            self.custom_pipelines = pipelines
        try:
            super().save_pretrained(save_directory)
        finally:  # in a model object they would make transformers look for files in the object
            self.__dict__.pop("custom_pipelines", None)
        if push_to_hub:
            self.push_to_hub(kwargs.pop("repo_id", folder.name), **kwargs)

    def _copy_code(self, modules: set[str], folder: Path) -> None:
        """Copy modules, and those that they import from the same folder, as in `from .module import name`."""
        waiting = list(modules)
        copied: set[str] = set()
        while waiting:
            module = waiting.pop()
            if module in copied:
                continue
            copied.add(module)
            source = self._code_file(module)
            target = folder / source.name
            if not (target.exists() and target.samefile(source)):
                shutil.copyfile(source, target)
            waiting += get_relative_imports(source)

    def _code_file(self, module: str) -> Path:
        """Search for the file of a module: in this folder, in those of family and model, in the Hub repository.

        transformers keeps only the modules that it needed. Others are downloaded from the same commit, not run.
        """
        name = f"{module}.py"
        here = Path(__file__).parent
        for folder in (here, Path(inspect.getfile(type(self))).parent, Path(self.code_folder)):
            if (folder / name).is_file():
                return folder / name
        revision = here.name if re.fullmatch("[0-9a-f]{40}", here.name) else None  # the commit of code from the Hub
        return Path(str(cached_file(self.name_or_path, name, revision=revision)))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as a dict, with the version of this code."""
        content = {**super().to_dict(), "hf_localattn_version": VERSION}
        of_this_machine = ("code_folder", "fusion_config", "kernel_config", "use_kernels")
        return {name: value for name, value in content.items() if name not in of_this_machine}


def _module_of(name: str) -> str:
    """Return the module of a class that is named as `module.Class`."""
    return name.partition(".")[0]
