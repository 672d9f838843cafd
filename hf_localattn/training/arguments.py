"""Arguments of the training scripts: the arguments of the transformers example scripts, and new ones.

The dataclasses are parsed by `transformers.HfArgumentParser`. Each field is a command-line option.
"""

import argparse
import inspect
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar, get_type_hints

import transformers
from pydantic import ConfigDict, TypeAdapter, ValidationError
from transformers import HfArgumentParser
from transformers import Seq2SeqTrainingArguments as StockGenerationArguments
from transformers import TrainingArguments as StockTrainingArguments
from transformers.trainer_pt_utils import AcceleratorConfig

from hf_localattn.assignments import parse_config_fields
from hf_localattn.names import PLAIN, find_family
from hf_localattn.parsing import read_json
from hf_localattn.registry import FAMILIES
from hf_localattn.training.options import check_values, named_option

ANY_TYPE = ConfigDict(arbitrary_types_allowed=True)

USUAL = (
    "output_dir",
    "do_train",
    "do_eval",
    "do_predict",
    "num_train_epochs",
    "max_steps",
    "learning_rate",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "warmup_steps",
    "seed",
    "eval_strategy",
    "save_strategy",
    "metric_for_best_model",
    "load_best_model_at_end",
    "resume_from_checkpoint",
    "bf16",
    "use_cpu",
    "push_to_hub",
    "hub_model_id",
)
"""Options of transformers' Trainer that `--help` shows."""

Arguments = TypeVar("Arguments", bound=type)


def documented(arguments: Arguments) -> Arguments:
    """Take the help of each option from the section `Args` of a dataclass's docstring.

    Args:
        arguments: dataclass. Inherited fields that the docstring does not name keep their help.
    """
    docstring = inspect.cleandoc(arguments.__doc__ or "")
    section = docstring.partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    helps = {name: " ".join(text.split()).replace("%", "%%") for name, text in entries}
    for option in fields(arguments):
        if option.name in helps:
            option.metadata = MappingProxyType({**option.metadata, "help": helps[option.name]})
    return arguments


@documented
@dataclass
class ModelArguments:
    """The model to fine-tune: a checkpoint, or a pretrained backbone with new layers of a family.

    Args:
        model_name_or_path: Hub id or folder of the model to fine-tune. Give either this, or `family` and `backbone`.
        family: Family of the local attention layers to add to the backbone, or `baseline` for the backbone alone. New
            layers are initialized randomly.
        backbone: Hub id or folder of the pretrained encoder for the family, or `tiny` for a small random one.
        local_config: Fields of the family's configuration, such as `num_local_layers=2 use_conv=false`, and settings
            of its tokenizer, such as `parser=de_core_news_sm`. With `model_name_or_path` only settings of the
            tokenizer.
        config_name: Hub id or folder of the configuration, if not the model's.
        tokenizer_name: Hub id or folder of the tokenizer, if not the model's.
        cache_dir: Cache folder for files from the Hub.
        model_revision: Branch, tag or commit of the model on the Hub.
        token: Token for private repositories on the Hub; by default the one of `hf auth login`.
        ignore_mismatched_sizes: Initialize a new head if that of the checkpoint has another size, such as another
            number of labels.
        trust_remote_code: Run the Python code of the model's repository. Use it only if you have read that code.

    Raises:
        ValueError: options contradict each other, or the family or one of its fields does not exist.
    """

    model_name_or_path: str | None = None
    family: str | None = None
    backbone: str | None = None
    local_config: list[str] = field(default_factory=list)
    config_name: str | None = None
    tokenizer_name: str | None = None
    cache_dir: str | None = None
    model_revision: str = "main"
    token: str | None = None
    ignore_mismatched_sizes: bool = False
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        if (self.model_name_or_path is None) == (self.family is None):
            raise ValueError("Give either --model_name_or_path, or --family together with --backbone.")
        if self.family is not None and self.backbone is None:
            raise ValueError(f"--family {self.family} needs --backbone, a pretrained encoder's Hub id or folder.")
        if self.family is None and self.backbone is not None:
            raise ValueError(f"--backbone needs --family, one of {', '.join([*FAMILIES, PLAIN])}.")
        if self.family is not None:
            self.family = find_family(self.family, PLAIN)
        if self.local_config and self.family == PLAIN:
            raise ValueError("--local_config sets fields of a family's config: it needs --family and --backbone.")
        if self.family not in (None, PLAIN):
            parse_config_fields(self.family, self.local_config)  # raise errors before the data is read
        if self.config_name is not None and self.family not in (None, PLAIN):
            raise ValueError("--config_name cannot be used with --family: set fields with --local_config.")

    @property
    def source(self) -> str:
        """Hub id or folder of the weights."""
        return self.model_name_or_path or self.backbone or ""

    @property
    def hub(self) -> dict[str, Any]:
        """Arguments of `from_pretrained` for files of the model on the Hub."""
        return {"cache_dir": self.cache_dir, "revision": self.model_revision, "token": self.token}


@documented
@dataclass
class TrainingArguments(StockTrainingArguments):
    """transformers' `TrainingArguments` with two learning rates, Lookahead, hyperparameter search and early stopping.

    With `early_stopping_patience`, the best model is loaded at the end. The model is then evaluated and saved after
    every epoch by default. `metric_for_best_model` and `greater_is_better` are None unless they are given: the task
    sets them to one of its scores, or the trainer to "loss".

    Args:
        local_learning_rate: Learning rate of all parameters outside the backbone (local layers and head); by default
            `learning_rate`.
        early_stopping_patience: Stop training after this number of evaluations in a row without a better score, and
            keep the best model. The score is `metric_for_best_model`, by default the task's main score.
        lookahead_steps: Use Lookahead (Zhang et al. 2019): update its slow weights after every N steps of the
            optimizer. The paper uses 5.
        lookahead_alpha: Step size of Lookahead's slow weights, above 0 and at most 1; by default 0.5. Needs
            `lookahead_steps`.
        search_space: Search hyperparameters: a .yaml or .json file of training arguments and fields of the family's
            configuration, each with a list of values or a range such as {low: 1e-5, high: 1e-4, log: true}. Each trial
            trains a model. The best trial is chosen by `metric_for_best_model`, by default the task's main score.
        search_trials: Number of trials of the search; by default all combinations of values, if their number is
            finite.
        workers: Number of folds or of search trials to run at a time, each in a process of its own and, if there are
            GPUs, on a GPU of its own.
        ray_address: Run folds or search trials on a Ray cluster: auto, HOST:PORT, or local. Its nodes must share a
            file system. `workers` limits how many run at a time; by default one on each GPU.
        logging_steps: Number of steps between two logs of the loss, or their share of all steps.
        save_steps: Number of steps between two checkpoints, or their share of all steps; by default 0.1, or as
            `eval_steps` if the best model is loaded at the end.
        save_total_limit: Number of checkpoints to keep.
        keep_checkpoints: Keep the optimizer states of a finished run, which training it further needs.
        eval_strategy: When to evaluate during training: no, steps or epoch. By default no, or epoch if the best model
            is loaded at the end.
        save_strategy: When to save checkpoints: no, steps, epoch or best. By default steps, or as `eval_strategy` if
            the best model is loaded at the end.

    Raises:
        ValueError: a strategy contradicts early stopping, a value is invalid, or an option needs another one.
    """

    local_learning_rate: float | None = None
    early_stopping_patience: int | None = None
    lookahead_steps: int | None = None
    lookahead_alpha: float | None = None
    search_space: str | None = None
    search_trials: int | None = None
    workers: int = 1
    ray_address: str | None = None
    logging_steps: float = 0.05
    save_total_limit: int | None = 2
    keep_checkpoints: bool = False
    # None marks an option that was not given. transformers' default could also have been given.
    eval_strategy: str | None = None
    save_strategy: str | None = None
    save_steps: float | None = None

    def __post_init__(self) -> None:
        if self.lookahead_alpha is not None and self.lookahead_steps is None:
            raise ValueError("--lookahead_alpha needs --lookahead_steps, such as --lookahead_steps 5.")
        if self.search_trials is not None and self.search_space is None:
            raise ValueError("--search_trials needs --search_space, a file of the values to try.")
        if self.early_stopping_patience is not None:
            self.load_best_model_at_end = True
            self.restore_callback_states_from_checkpoint = True  # keep counting evaluations when resumed
        if self.load_best_model_at_end:
            self._match_strategies()
        self.eval_strategy = self.eval_strategy or "no"
        self.save_strategy = self.save_strategy or "steps"
        check_values(self)
        if self.lookahead_steps is not None and self.lookahead_alpha is None:
            self.lookahead_alpha = 0.5  # as in the paper
        if self.save_steps is None:
            self.save_steps = self._usual_save_steps()
        metric = self.metric_for_best_model
        greater = self.greater_is_better
        if isinstance(self.accelerator_config, dict):
            with named_option("--accelerator_config"):
                AcceleratorConfig(**self.accelerator_config)
        super().__post_init__()
        # transformers has replaced None by the loss, which could also have been given.
        self.metric_for_best_model: str | None = metric
        self.greater_is_better: bool | None = greater

    def __getstate__(self) -> dict[str, Any]:
        # Trainer pickles its arguments into every checkpoint and uploads that file: it must not contain a token.
        return {**self.__dict__, "hub_token": None}

    def __copy__(self) -> "TrainingArguments":
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def _match_strategies(self) -> None:
        """Evaluate and save at the same steps, as loading the best model needs it."""
        for name in ("eval_strategy", "save_strategy"):
            if getattr(self, name) == "no":
                raise ValueError(
                    f"--{name} no leaves no best model, which --load_best_model_at_end and --early_stopping_patience"
                    " need: choose epoch or steps."
                )
        if self.eval_strategy is None:
            self.eval_strategy = self.save_strategy if self.save_strategy in ("steps", "epoch") else "epoch"
        self.save_strategy = self.save_strategy or self.eval_strategy

    def _usual_save_steps(self) -> float:
        """Return `save_steps` for runs that do not set it."""
        if self.load_best_model_at_end and self.eval_strategy == "steps":
            return self.eval_steps or self.logging_steps  # every evaluated model may be the best one
        return 0.1


@documented
@dataclass
class GenerationTrainingArguments(TrainingArguments, StockGenerationArguments):
    """`TrainingArguments` of this package and transformers' `Seq2SeqTrainingArguments` in one class.

    Args:
        predict_with_generate: Generate texts and compare them with the references; if false, evaluate the loss alone.
        generation_max_length: Maximum number of generated tokens; by default that of the longest reference text.
        generation_num_beams: Number of beams of the beam search; 1 is greedy search.
    """

    predict_with_generate: bool = True
    generation_max_length: int | None = None
    generation_num_beams: int | None = 5


class OptionParser(HfArgumentParser):
    """Parser of the command line. An invalid value is an exception, and names cannot be abbreviated."""

    def __init__(self, classes: Sequence[type], prog: str | None = None):
        super().__init__(classes, prog=prog, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        named = re.sub(r"/--[\w-]+", "", message)  # second spelling of a name, with hyphens
        raise ValueError(f"{named[:1].upper()}{named[1:]}.")


def read_options(classes: Sequence[type], arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the options of the command line, or of a .json file, by name. Defaults are left out.

    Args:
        classes: dataclasses whose fields are the options.
        arguments: words of the command line, or only the path of a .json file. Defaults to `sys.argv[1:]`.

    Raises:
        ValueError: an option does not exist or has an invalid value, or the file cannot be read.
        FileNotFoundError: the file does not exist.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if len(arguments) == 1 and arguments[0].endswith(".json"):
        return read_json(Path(arguments[0]))
    name = Path(sys.argv[0]).name
    words = [word for word in sys.argv[1:3] if word.isalpha()] if name in ("hf-localattn", "__main__.py") else []
    name = "python -m hf_localattn" if name == "__main__.py" else name
    parser = OptionParser(classes, prog=" ".join([name, *words]))
    if {"-h", "--help", "--help-all"} & {*arguments}:
        print_help(parser, everything="--help-all" in arguments)
        sys.exit(0)
    given, unknown = parser.parse_known_args(arguments)
    if unknown and unknown[0].endswith(".json"):
        raise ValueError(f"A file of options stands alone: move the other options into {unknown[0]}.")
    if unknown:
        raise ValueError(f"Unknown option {unknown[0]}.")
    return {name: value for name, value in vars(given).items() if value != parser.get_default(name)}


def print_help(parser: HfArgumentParser, *, everything: bool) -> None:
    """Print the options of a script: those of this package and the usual ones of Trainer, or all."""
    own = {one.name for one in fields(TrainingArguments)} - {one.name for one in fields(StockTrainingArguments)}
    stock = {one.name for one in fields(StockGenerationArguments)} - own - {*USUAL}
    parser.usage = "%(prog)s [OPTIONS], or a .json file of options"
    if not everything:
        parser.epilog = "--help-all lists all options of transformers' TrainingArguments, too."
    for action in parser._actions:
        if not everything and action.dest in stock:
            action.help = argparse.SUPPRESS
    parser.print_help()


def build_arguments(classes: Sequence[type], options: Mapping[str, Any]) -> tuple[Any, ...]:
    """Build one instance of each dataclass from options by name.

    Raises:
        ValueError: an option does not exist or has an invalid value.
    """
    hints = {name: hint for one in classes for name, hint in get_type_hints(one).items()}
    checked = {}
    for name, value in options.items():
        if name not in hints:
            raise ValueError(f"Unknown option {name}.")
        try:
            checked[name] = TypeAdapter(hints[name], config=ANY_TYPE).validate_python(value)
        except ValidationError as error:
            raise ValueError(f"{name} is {value!r}. {error.errors()[0]['msg']}.") from None
    return OptionParser(classes).parse_dict(checked)


def set_up_logging(training_args: TrainingArguments) -> None:
    """Log this package, transformers and datasets to stdout, at the level in the arguments."""
    import datasets  # an extra, which the arguments do not need

    logging.basicConfig(
        format="%(asctime)s - %(levelname)s - %(name)s - %(message)s",
        datefmt="%m/%d/%Y %H:%M:%S",
        handlers=[logging.StreamHandler(sys.stdout)],
    )
    level = training_args.get_process_log_level()
    # Show INFO messages of this package unless a log level is set.
    package_level = logging.INFO if training_args.log_level == "passive" and training_args.should_log else level
    logging.getLogger("hf_localattn").setLevel(package_level)
    if training_args.disable_tqdm:
        datasets.disable_progress_bars()
        transformers.utils.logging.disable_progress_bar()
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.enable_default_handler()
    transformers.utils.logging.enable_explicit_format()
