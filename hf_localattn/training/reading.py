"""Reading of options, from words or a file, into the dataclasses that declare them.

Neither torch nor transformers is imported, so that a misspelt option is an error at once.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import Field, fields
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from hf_localattn.parsing import read_json
from hf_localattn.training.options import FIELDS

ANY_TYPE = ConfigDict(arbitrary_types_allowed=True)

HELP_ALL = "--help-all"

USUAL = {
    "output_dir": "Folder of the results.",
    "do_train": "Train the model.",
    "do_eval": "Evaluate the model.",
    "do_predict": "Write predictions.",
    "num_train_epochs": "Number of passes over the training rows (default: 3).",
    "max_steps": "Number of steps of the optimizer, instead of epochs.",
    "per_device_train_batch_size": "Training rows of a batch on each device (default: 8).",
    "per_device_eval_batch_size": "Evaluation rows of a batch on each device (default: 8).",
    "gradient_accumulation_steps": "Number of batches of a step of the optimizer (default: 1).",
    "warmup_steps": "Steps, or share of all steps, in which the learning rate rises (default: 0).",
    "seed": "Random seed (default: 42).",
    "metric_for_best_model": "Score that chooses the best model.",
    "load_best_model_at_end": "Keep the best model instead of the last one.",
    "resume_from_checkpoint": "Checkpoint to continue from.",
    "bf16": "Train in bfloat16.",
    "use_cpu": "Use no GPU.",
    "push_to_hub": "Upload the output folder to the Hub.",
    "hub_model_id": "Name of the repository on the Hub (default: that of the output folder).",
}
"""Options of transformers' Trainer that `--help` shows."""


def read_options(classes: Iterable[type], arguments: Sequence[str], program: str | None = None) -> dict[str, Any]:
    """Return the options that words or a .json file give, by name. `build_arguments` reads their values.

    `--help` prints the options and ends the program.

    Args:
        classes: Dataclasses whose fields are the options, besides the training arguments of transformers.
        arguments: Words of the command line, or only the path of a .json file.
        program (*optional*): Name of the program for `--help`.

    Raises:
        ValueError: An option does not exist, or the file cannot be read.
        FileNotFoundError: The file does not exist.
    """
    declared = _options_of(classes)
    names = [*declared, *(FIELDS.keys() - declared.keys())]
    if len(arguments) == 1 and arguments[0].endswith(".json"):
        options = read_json(arguments[0])
        _check_names(options, names)
        return options
    words = [_plain(word) for word in arguments]
    parser = _parser(declared, program, everything=HELP_ALL in words)
    values, unknown = parser.parse_known_args(words)
    if unknown and unknown[0].endswith(".json"):
        raise ValueError(f"A file of options stands alone: move the other options into {unknown[0]}.")
    if unknown:
        raise _unknown(unknown[0], names)
    return vars(values)


def _parser(declared: Mapping[str, Field[Any]], program: str | None, *, everything: bool) -> argparse.ArgumentParser:
    """Return a parser that takes words as they are. An option without a word is True."""
    parser = argparse.ArgumentParser(
        program,
        usage="%(prog)s [OPTIONS], or a .json file of options",
        epilog=f"{HELP_ALL} lists all options of transformers' TrainingArguments, which documents them.",
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("-h", "--help", HELP_ALL, action="help", help="Show the options and exit.")
    for name, option in declared.items():
        names = (f"--{name}", *option.metadata.get("aliases", ()))
        help = option.metadata.get("help", "")
        if option.default_factory is list:
            parser.add_argument(*names, dest=name, nargs="*", help=help)
            continue
        if option.default is not None:
            help += f" (default: {option.default})"
        parser.add_argument(*names, dest=name, nargs="?", const=True, help=help)
    for name in FIELDS:
        if name not in declared:
            parser.add_argument(f"--{name}", nargs="?", const=True, help=_stock_help(name, everything))
    return parser


def _stock_help(name: str, everything: bool) -> str:
    """Return the help of an option of transformers."""
    if name not in USUAL and not everything:
        return argparse.SUPPRESS
    return f"{USUAL.get(name, '')} {FIELDS[name].note}".replace("%", "%%")


def _plain(word: str) -> str:
    """Return a word of the command line with `--train-file` as `--train_file`, and `--no_x` as `--x=false`."""
    name, separator, value = word.partition("=")
    if not name.startswith("--") or name == HELP_ALL:
        return word
    name = name[2:].replace("-", "_")
    if name.startswith("no_"):
        return f"--{name[3:]}=false"
    return f"--{name}{separator}{value}"


def build_arguments(classes: Sequence[type], options: Mapping[str, Any]) -> tuple[Any, ...]:
    """Build one instance of each dataclass from options by name. Words are read as values of the option's type.

    Raises:
        ValueError: An option does not exist or has an invalid value.
    """
    _check_names(options, _options_of(classes))
    hints = {name: hint for arguments in classes for name, hint in get_type_hints(arguments).items()}
    values = {name: _read_value(name, value, hints[name]) for name, value in options.items()}
    instances = []
    for arguments in classes:
        names = values.keys() & _options_of([arguments])
        instances.append(arguments(**{name: values[name] for name in names}))
    return tuple(instances)


def _options_of(classes: Iterable[type]) -> dict[str, Field[Any]]:
    declared: dict[str, Field[Any]] = {}
    for arguments in classes:
        declared |= {option.name: option for option in fields(arguments) if option.init}
    return declared


def _check_names(options: Iterable[str], names: Collection[str]) -> None:
    """Raise `ValueError` for the first option that does not exist."""
    for name in options:
        if name not in names:
            raise _unknown(name, names)


def _unknown(option: str, names: Collection[str]) -> ValueError:
    nearest = difflib.get_close_matches(option.lstrip("-").partition("=")[0], names, 1)
    remedy = f" Did you mean --{nearest[0]}?" if nearest else ""
    return ValueError(f"Unknown option {option}.{remedy}")


def _read_value(name: str, value: Any, hint: Any) -> Any:
    """Return a value of the type of an option."""
    types = get_args(hint) or (hint,)
    if value is True and bool not in types:
        raise ValueError(f"--{name} needs a value.")
    try:
        return TypeAdapter(hint, config=ANY_TYPE).validate_python(value)
    except ValidationError as error:
        raise ValueError(f"--{name} is {value!r}. {error.errors()[0]['msg']}.") from None
