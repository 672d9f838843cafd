"""The scripts' arguments: names and defaults of the stock transformers scripts, plus this package's own.

The dataclasses are for `transformers.HfArgumentParser`; a field is a command-line option.
"""

import difflib
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import HfArgumentParser
from transformers import TrainingArguments as StockTrainingArguments

from hf_localattn.assignments import parse_config_fields
from hf_localattn.parsing import parse_json, read_utf8
from hf_localattn.registry import FAMILIES
from hf_localattn.tasks.arguments import option
from hf_localattn.training.lookahead import DEFAULT_ALPHA, check_lookahead

PLAIN = "baseline"
"""The family of the backbone's stock class."""

FORMER_PLAIN = "none"
FORMER_OPTIONS = {"folds": "num_folds", "search": "search_space", "stray_scopes": "unmatched_scopes"}
"""Options of version 0.1.0 that have another name now. They are read until version 0.3.0, with a warning."""

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    """The model to fine-tune: a complete checkpoint, or a family on top of a plain backbone."""

    model_name_or_path: str | None = option(
        None, "Hub id or folder of the model to fine-tune. Either this, or --family and --backbone."
    )
    family: str | None = option(
        None,
        f"Start from a plain pretrained encoder with fresh local layers of this family: {', '.join(FAMILIES)}; or"
        f" '{PLAIN}' for the encoder's stock class. Needs --backbone.",
    )
    backbone: str | None = option(None, "Hub id or folder of the backbone for --family, or 'tiny'.")
    local_config: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Fields of the family's config, e.g. --local_config num_local_layers=2 use_conv=false, and "
            "settings of its tokenizer, e.g. parser=de_core_news_sm. With --model_name_or_path settings of the "
            "tokenizer alone."
        },
    )
    config_name: str | None = option(None, "Config name or folder, if not the model's.")
    tokenizer_name: str | None = option(None, "Tokenizer name or folder, if not the model's.")
    cache_dir: str | None = option(None, "Where files from the Hub are kept.")
    model_revision: str = option("main", "Branch, tag or commit of the model on the Hub.")
    token: str | None = option(None, "Token for private files on the Hub; by default that of `hf auth login`.")
    ignore_mismatched_sizes: bool = option(
        False, "Start a head afresh whose size does not fit, such as one for another number of labels."
    )
    trust_remote_code: bool = option(
        False, "Run the code that comes with a model. Only for repositories whose code you have read."
    )

    def __post_init__(self) -> None:
        if self.family == FORMER_PLAIN:
            logger.warning("--family %s is called %s now.", FORMER_PLAIN, PLAIN)
            self.family = PLAIN
        if (self.model_name_or_path is None) == (self.family is None):
            raise ValueError("Give either --model_name_or_path, or --family together with --backbone.")
        if self.family is not None and self.backbone is None:
            raise ValueError(f"--family {self.family} needs --backbone, a pretrained encoder's Hub id or folder.")
        if self.family is None and self.backbone is not None:
            raise ValueError(f"--backbone goes with --family: {', '.join([*FAMILIES, PLAIN])}.")
        if self.family is not None and self.family not in (*FAMILIES, PLAIN):
            raise ValueError(f"--family must be one of {', '.join([*FAMILIES, PLAIN])}; got {self.family!r}.")
        if self.local_config and self.family == PLAIN:
            raise ValueError("--local_config sets fields of a family's config: it needs --family and --backbone.")
        if self.family not in (None, PLAIN):
            parse_config_fields(self.family, self.local_config)  # better now than when all data are read
        if self.config_name is not None and self.family not in (None, PLAIN):
            raise ValueError("--config_name does not go with --family: set its fields by --local_config.")

    @property
    def source(self) -> str:
        """The Hub id or folder that the weights come from."""
        return self.model_name_or_path or self.backbone or ""


@dataclass
class TrainingArguments(StockTrainingArguments):
    """transformers' training arguments with two learning rates, Lookahead, searches, and early stopping in a word.

    With `early_stopping_patience` the model is evaluated and saved after every epoch, unless other strategies are
    given, and the best one is what is left at the end. `metric_for_best_model` is None until a task has chosen its
    main score, as it has to for a search.

    Raises:
        ValueError: strategies that contradict early stopping, impossible values, or options that lack another one.
    """

    local_learning_rate: float | None = option(
        None, "Learning rate of everything but the backbone (local layers and head); by default --learning_rate."
    )
    early_stopping_patience: int | None = option(
        None,
        "Stop when so many evaluations in a row were not better than the best one, and keep the best model. Better by"
        " --metric_for_best_model, by default the task's main score.",
    )
    lookahead_steps: int | None = option(
        None,
        "Lookahead (Zhang et al. 2019): after so many steps of the optimizer, slow weights follow; 5 in the paper.",
    )
    lookahead_alpha: float | None = option(
        None, f"How far they follow, from 0, not at all, to 1; by default {DEFAULT_ALPHA}. Needs --lookahead_steps."
    )
    search_space: str | None = option(
        None,
        "A .yaml or .json file of training arguments and fields of the family's config, each with the values to try:"
        " {low: 1e-5, high: 1e-4, log: true}, or a list. Trains a model for each trial, and says which setting is best"
        " by --metric_for_best_model, by default the task's main score.",
    )
    search_trials: int | None = option(
        None, "How many settings of --search_space are tried; by default all of them, if their number is finite."
    )
    workers: int = option(
        1,
        "Number of folds, or of trials of a search, to run at a time, each in its own process and on its own GPU where"
        " there are GPUs.",
    )
    ray_address: str | None = option(
        None,
        "Run folds or trials of a search on a Ray cluster: auto, HOST:PORT, or local. Its nodes share the file system."
        " --workers limits how many run at a time; by default as many as there are GPUs.",
    )
    # None says that it was not given, which transformers' own defaults do not.
    eval_strategy: str | None = option(
        None, "When to evaluate while training: no, steps or epoch. By default no; epoch if that may stop it early."
    )
    save_strategy: str | None = option(
        None, "When to save checkpoints: no, steps, epoch or best. By default steps, or as the early stopping needs."
    )

    def __post_init__(self) -> None:
        undecided = self.early_stopping_patience is not None and self.metric_for_best_model is None
        check_lookahead(self.lookahead_steps, self.lookahead_alpha)
        if self.lookahead_steps is not None and self.lookahead_alpha is None:
            self.lookahead_alpha = DEFAULT_ALPHA
        if self.search_trials is not None:
            if self.search_space is None:
                raise ValueError("--search_trials goes with --search_space, a file of the settings to try.")
            if self.search_trials < 1:
                raise ValueError(f"--search_trials must be at least 1; got {self.search_trials}.")
        if self.workers < 1:
            raise ValueError(f"--workers must be at least 1; got {self.workers}.")
        if self.early_stopping_patience is not None:
            self._prepare_early_stopping(self.early_stopping_patience)
        self.eval_strategy = self.eval_strategy or "no"
        self.save_strategy = self.save_strategy or "steps"
        super().__post_init__()
        if undecided:  # transformers takes the loss
            self.metric_for_best_model: str | None = None
            self.greater_is_better: bool | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Trainer pickles its arguments into every checkpoint, and uploads the file: no token may be in there.
        return {**self.__dict__, "hub_token": None}

    def __copy__(self) -> "TrainingArguments":
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def _prepare_early_stopping(self, patience: int) -> None:
        if patience < 1:
            raise ValueError(f"--early_stopping_patience must be at least 1; got {patience}.")
        for name in ("eval_strategy", "save_strategy"):
            if getattr(self, name) == "no":
                raise ValueError(
                    f"--early_stopping_patience compares and keeps models while they are trained: --{name} no"
                    " contradicts it. Leave that out, or choose epoch or steps."
                )
        if self.eval_strategy is None:
            self.eval_strategy = self.save_strategy if self.save_strategy in ("steps", "epoch") else "epoch"
        if self.save_strategy is None:
            self.save_strategy = self.eval_strategy
            if self.eval_strategy == "steps":  # a best model that is not saved is lost
                self.save_steps = self.eval_steps or self.logging_steps
        self.load_best_model_at_end = True
        self.restore_callback_states_from_checkpoint = True  # a resumed run has no more patience than another


def parse_arguments(classes: Sequence[type], arguments: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Return one object per dataclass from the command line, or from a single .json file of options.

    Raises:
        ValueError: an option that does not exist, a value that is not possible, or an unreadable file.
    """
    arguments = [_current_option(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    parser = HfArgumentParser(classes)
    if len(arguments) != 1 or not arguments[0].endswith(".json"):
        *parsed, unknown = parser.parse_args_into_dataclasses(args=arguments, return_remaining_strings=True)
        if unknown:
            nearest = difflib.get_close_matches(unknown[0], parser._option_string_actions, n=1)
            raise ValueError(f"Unknown option {unknown[0]}." + (f" Did you mean {nearest[0]}?" if nearest else ""))
        return tuple(parsed)
    path = Path(arguments[0])
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file of arguments.")
    content = parse_json(read_utf8(path), str(path))
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected an object of arguments; found {type(content).__name__}.")
    return parser.parse_dict({_current_option(f"--{name}")[2:]: value for name, value in content.items()})


def _current_option(word: str) -> str:
    """Return a word of the command line with the name of today if it is an option of version 0.1.0."""
    name, equals, value = word.removeprefix("--").partition("=")
    if not word.startswith("--") or name not in FORMER_OPTIONS:
        return word
    logger.warning("--%s is called --%s now. The former name is read until version 0.3.0.", name, FORMER_OPTIONS[name])
    return f"--{FORMER_OPTIONS[name]}{equals}{value}"
