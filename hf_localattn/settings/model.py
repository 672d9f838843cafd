"""Options that choose the model of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hf_localattn.names import NO_FAMILY, family_names, find_family
from hf_localattn.parsing import parse_assignments
from hf_localattn.settings.option import FREE, declared, option


@declared
@dataclass
class ModelArguments:
    """The model to fine-tune: a checkpoint, or a pretrained backbone with new layers of a family.

    Raises:
        ValueError: Options contradict each other, or the family or one of its fields does not exist.
    """

    model_name_or_path: str | None = option(
        None, "Hub id or folder of the model to fine-tune. Give either this or `backbone`."
    )
    family: str | None = option(
        None,
        "Family of the local attention layers to add to the backbone, or `baseline` for the backbone alone. New layers"
        " are initialized randomly.",
    )
    backbone: str | None = option(
        None, "Hub id or folder of the pretrained encoder for the family, or `tiny` for a small random one."
    )
    local_config: list[str] = option(
        [],
        "Fields of the family's configuration, such as `num_local_layers=2 use_conv=false`, and settings of its"
        " tokenizer, such as `parser=de_core_news_sm`. With `model_name_or_path` only settings of the tokenizer.",
    )
    recipe: str | None = option(
        None,
        "Named options, measured on data like yours, such as words or texts-frozen; auto to try those of the task and"
        " keep the best model; none for transformers' defaults. By default the recipe of the task, if `backbone` is"
        " given without `family`. Options that you give win.",
        recorded=True,
    )
    config_name: str | None = option(None, "Hub id or folder of the configuration, if not the model's.")
    tokenizer_name: str | None = option(None, "Hub id or folder of the tokenizer, if not the model's.")
    cache_dir: str | None = option(None, "Cache folder for files from the Hub.", result=FREE)
    model_revision: str = option("main", "Branch, tag or commit of the model on the Hub.")
    # runs of a command get it from the environment
    token: str | None = option(
        None,
        "Token for private repositories on the Hub; by default the one of `hf auth login`.",
        result=FREE,
        shared=False,
    )
    ignore_mismatched_sizes: bool = option(
        False, "Initialize a new head if that of the checkpoint has another size, such as another number of labels."
    )
    trust_remote_code: bool = option(
        False, "Run the Python code of the model's repository. Use it only if you have read that code."
    )

    def __post_init__(self) -> None:
        if self.family is not None and self.backbone is None:
            raise ValueError(f"--family {self.family} needs --backbone, a pretrained encoder's Hub id or folder.")
        if (self.model_name_or_path is None) == (self.backbone is None):
            raise ValueError("Give either --backbone, an encoder to train, or --model_name_or_path, a model.")
        if self.family is None and self.backbone is not None:
            raise ValueError(
                f"--backbone needs --family, one of {', '.join([*family_names(), NO_FAMILY])}: only a training"
                " (--do_train) by a recipe needs none."
            )
        if self.family is not None:
            self.family = find_family(self.family, NO_FAMILY)
        if self.local_config and self.family == NO_FAMILY:
            raise ValueError("--local_config sets fields of a family's config: it needs --family and --backbone.")
        if self.config_name is not None and self.family not in (None, NO_FAMILY):
            raise ValueError("--config_name cannot be used with --family: set fields with --local_config.")
        self.local_fields = self._read_local_config()

    def _read_local_config(self) -> dict[str, Any]:
        """Return the values of `local_config` by name. Fields of the family are checked."""
        fields = parse_assignments(self.local_config)
        if fields and self.family is not None:
            from hf_localattn.families import get_family  # imports torch and transformers

            get_family(self.family).split_fields(fields)
        return fields

    @property
    def source(self) -> str:
        """Hub id or folder of the weights."""
        return self.model_name_or_path or self.backbone or ""

    @property
    def hub(self) -> dict[str, Any]:
        """Arguments of `from_pretrained` for files of the model on the Hub."""
        return {"cache_dir": self.cache_dir, "revision": self.model_revision, "token": self.token}
