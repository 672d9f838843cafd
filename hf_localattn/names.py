"""Names of families, files and checkpoints, checked without importing torch: a misspelt one is an error at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

import hf_localattn.models as models  # not `from`, which would import all of it
import hf_localattn.models.fields as fields
from hf_localattn.files import A_LINK, is_regular
from hf_localattn.parsing import read_json
from hf_localattn.resources import NAMED_BACKBONES

NO_FAMILY = "baseline"
"""Value of --family for a backbone without local attention."""

SCRIPTS = {
    "glue": "TextClassification",
    "ner": "TokenClassification",
    "qa": "QuestionAnswering",
    "qg": "QuestionGeneration",
    "swag": "MultipleChoice",
}
"""Name of each training script, without `run_`, and its class in `hf_localattn.tasks`."""

AUTO_CLASSES = {
    "question-answering": "AutoModelForQuestionAnswering",
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "multiple-choice": "AutoModelForMultipleChoice",
    "fill-mask": "AutoModelForMaskedLM",
    "text2text-generation": "AutoModelForSeq2SeqLM",
}
"""Name of the Auto class of each task."""

CLASS_ENDINGS = {
    task: name.removeprefix("AutoModel").replace("Seq2SeqLM", "ConditionalGeneration")
    for task, name in AUTO_CLASSES.items()
}
"""Ending of the names of model classes by task."""

RUN = "run.json"
"""File of an output folder with the arguments of the run and digests of its data."""

RECORD = "training_record.json"
"""Record of a training run, saved with the model. The model card is written from it."""

STATE = "trainer_state.json"
"""File of transformers' Trainer with the log of a run. It is written last, after weights and optimizer."""

RESULTS = "all_results.json"
"""File of an output folder with all metrics of a finished command."""

NO_SCORES = (
    "_runtime",
    "_samples",
    "_per_second",
    "_preparation_time",
    "_gen_len",
    "_num_beams",
)
"""Endings of the names of metrics that are times and counts."""

RIVALS = {
    "constant": "the same answer for all rows",
    "linear": "regression on the states of all layers of the encoder before training",
    "cosine": "cosine of both texts, or of choice and context, by the encoder before training",
    "words": "the sentence with most words of the question",
}
"""Plain rivals of a trained model. The names of their scores end in `_of_` and the name of the rival."""

RIVAL_SCORES = tuple(f"_of_{name}" for name in RIVALS)
"""Endings of the names of the scores of rivals."""

HUB_ID = r"[\w.-]+/[\w.-]+"
"""Regular expression of OWNER/NAME."""

ADAPTER_ALONE = (
    "is an adapter of peft without its base model. Load the base, add the adapter with"
    " `PeftModel.from_pretrained(base, adapter)`, and save what `merge_and_unload()` returns."
)
"""Problem of a folder with an adapter and no model, and its remedy."""

_PACKAGE = Path(__file__).parent

MODELS = _PACKAGE / "models"
"""Folder of the files that are saved with checkpoints."""

NOTES = ("title", "summary", "paper", "url", "bibtex", "inputs", "limits")
"""Texts that each family has in its `card.yaml`."""

SAMPLES = _PACKAGE / "resources" / "samples"
"""Folder of small files of all formats."""


GROUP = "hf_localattn.families"
"""Group of entry points with families of other packages: the name of a family, and the package that is its folder."""

_registered: dict[str, str] = {}
"""Packages of families that a program has registered, by name."""


class BrokenFamily(ValueError):
    """A family of another package cannot be used."""

    def __init__(self, name: str, problem: object):
        told = " ".join(str(problem).split()) or type(problem).__name__
        package = family_packages()[name]
        super().__init__(
            f"The family {name!r} of the package {package} cannot be used: {told}. Repair or uninstall it."
        )


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """Return the entry points of families elsewhere. Finding them takes long: each distribution has a file of them."""
    return tuple(sorted(entry_points(group=GROUP)))


@cache
def _installed() -> dict[str, str]:
    here = sorted(path.parent.name for path in (_PACKAGE / "families").glob("*/card.yaml"))
    families = {folder.replace("_", "-"): f"hf_localattn.families.{folder}" for folder in here}
    for point in _entry_points():
        families.setdefault(point.name, point.value)
    return families


def family_packages() -> dict[str, str]:
    """Return the package of each family by name, whose folder has `entry.py`, `card.yaml` and, elsewhere, `models/`.

    Nothing is imported.
    """
    return _installed() | _registered


def family_clashes() -> list[tuple[str, str]]:
    """Return name and package of each family that is left out, because another one has its name."""
    points = [(point.name, point.value) for point in _entry_points()]
    return [(name, package) for name, package in points if family_packages()[name] != package]


def add_family(name: str, package: str) -> None:
    """Note the package of a family that a program registers."""
    _registered[name] = package
    declaring_class.cache_clear()


def family_names() -> list[str]:
    """Return the names of all families."""
    return sorted(family_packages())


def package_folder(package: str) -> Path:
    """Return the folder of the package of a family. Only parents of the package are imported.

    Raises:
        ImportError: There is no such package.
    """
    if package.startswith(f"{GROUP}."):
        return _PACKAGE / "families" / package.rpartition(".")[2]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"there is no package {package!r}")
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def add_models(package: str) -> None:
    """Make the files in `models/` of a family's package modules of `hf_localattn.models`, as their imports need.

    Raises:
        ImportError: There is no such package.
        ValueError: A file has the name of a file of another family.
    """
    folder = package_folder(package) / "models"
    if str(folder) in models.__path__ or not folder.is_dir():
        return
    for path in folder.glob("*.py"):
        if any(Path(other, path.name).is_file() for other in models.__path__):
            raise ValueError(f"{path} has the name of a file of another family")
    models.__path__.append(str(folder))


def model_file(name: str) -> Path | None:
    """Return the file of this name that is saved with checkpoints of some family, or None."""
    for package in family_packages().values():
        with suppress(ImportError, ValueError):  # told when the family is used
            add_models(package)
    return next((path for folder in models.__path__ if (path := Path(folder, name)).is_file()), None)


def packages_of(files: Iterable[Path]) -> list[str]:
    """Return the packages of families elsewhere that have one of these model files, with their versions."""
    folders = {path.parent.parent for path in files}
    versions = {point.value: f"{point.dist.name} {point.dist.version}" for point in _entry_points() if point.dist}
    packages = []
    for package in family_packages().values():
        with suppress(ImportError):  # told when the family is used
            if not package.startswith(f"{GROUP}.") and package_folder(package) in folders:
                packages.append(versions.get(package, package))
    return sorted(packages)


def family_notes(name: str) -> dict[str, Any]:
    """Read the texts about a family for its model cards, and what its options need.

    `summary`, `inputs` and each of `limits` are templates of Jinja, with the fields of a model's configuration, its
    `task`, and `finds_cues`. `summary` may have one for each value of the field that chooses the layers, and `other`.
    A limit that is empty does not hold for the model. `placeholder` (*optional*) is a text of the card's program.

    Raises:
        BrokenFamily: The texts of a family of another package are missing or incomplete.
    """
    package = family_packages()[name]
    try:
        path = package_folder(package) / "card.yaml"
        notes: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        missing = [key for key in NOTES if key not in notes]
        problem = f"{path} has no {', '.join(map(repr, missing))}" if missing else ""
    except FileNotFoundError:
        problem = f"{path}, the text of its cards, is missing"
    except (ImportError, OSError, yaml.YAMLError, TypeError) as error:
        problem = str(error)
    if problem:
        raise BrokenFamily(name, problem)
    return notes


def default_fields(family: str) -> dict[str, Any]:
    """Return the defaults of the fields of a family, as in a `config.json`."""
    return {name: value for name, value in _defaults(family, "Fields").items() if name != "hf_localattn_version"}


def default_settings(family: str) -> dict[str, Any]:
    """Return the defaults of the settings of a family's tokenizer."""
    return dict(_defaults(family, "Settings"))


def _defaults(family: str, base: str) -> dict[str, Any]:
    declaring = declaring_class(family, base)
    names = () if declaring is None else fields.field_types(declaring)
    return {name: fields.as_in_files(getattr(declaring, name)) for name in names}


@cache
def declaring_class(family: str, base: str) -> type | None:
    """Return the class derived from `base` of `models/fields.py` in which a family declares fields, if there is one.

    The declarations need no torch, which takes seconds to import.
    """
    try:
        add_models(family_packages()[family])
        module = import_module(f"{models.__name__}.fields_{family.replace('-', '_')}")
    except Exception as error:  # code of another package
        raise BrokenFamily(family, error) from error
    for declaring in vars(module).values():
        if getattr(declaring, "__module__", "") == module.__name__ and issubclass(declaring, getattr(fields, base)):
            return declaring
    return None


def task_of_class(name: str) -> str | None:
    """Return the task for a class name of this package or of transformers; None for a model without a head."""
    return next((task for task, ending in CLASS_ENDINGS.items() if name.endswith(ending)), None)


def find_family(name: str, *others: str) -> str:
    """Return the whole name of a family (or one of `others`), which may be given by its first part, such as "sla".

    Raises:
        ValueError: There is no such family, or there are several. The message lists the names.
    """
    names = [*family_names(), *others]
    if name in names:
        return name
    beginnings = [whole_name for whole_name in names if name == whole_name.partition("-")[0]]
    if len(beginnings) == 1:
        return beginnings[0]
    problem = f"The family {name!r} is one of several" if beginnings else f"There is no family {name!r}"
    raise ValueError(f"{problem}. Choose one of {', '.join(beginnings or names)}.")


def split_paths(option: str) -> list[str]:
    """Return the paths that commas separate in an option; the whole text if it is the path of a file."""
    return [option] if Path(option).exists() else [path.strip() for path in option.split(",")]


def find_files(option: str) -> str:
    """Return the path of a data file, or of several separated by commas. `sample:NAME` is one of the package.

    Raises:
        FileNotFoundError: A file does not exist.
    """
    paths = split_paths(option)
    if len(paths) > 1:
        return ",".join(map(find_files, paths))
    name = option.removeprefix("sample:")
    if name != option:
        names = sorted(path.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("*.*") if path.suffix != ".md")
        if name not in names:
            raise FileNotFoundError(f"There is no {option!r}. The samples are {', '.join(names)}.")
        return str(SAMPLES / name)
    if not Path(option).exists():
        raise FileNotFoundError(f"{option}: no such file; check the path (it is relative to {Path.cwd()}).")
    return option


def resolve_backbone(name_or_path: str | os.PathLike[str], *, generates: bool = False) -> str:
    """Return the Hub id or folder of a backbone.

    Args:
        name_or_path: Hub id; folder; or "tiny" or "tiny-bart", the small random encoder and encoder-decoder of this
            package.
        generates: If True, "tiny" also means the encoder-decoder.

    Raises:
        FileNotFoundError: The argument is a path, but there is no folder with a `config.json` at that path, or only an
            adapter.
    """
    name = str(name_or_path)
    if name in NAMED_BACKBONES:
        return NAMED_BACKBONES["tiny-bart" if generates else name]
    path = Path(name).expanduser()
    if not path.exists() and not path.is_absolute() and not name.startswith(("./", "../")):
        return name
    if (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
        raise FileNotFoundError(f"{name!r} {ADAPTER_ALONE}")
    if not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"{name!r} is not a folder with a `config.json`. Give the folder of a saved encoder, the id of one on the"
            " Hub, or 'tiny'."
        )
    return str(path)


def check_checkpoint(name: str) -> None:
    """Refuse a name that is neither a folder with a `config.json` nor an id of the form `OWNER/NAME`.

    Raises:
        FileNotFoundError: The name is no such folder and no such id, as if it were mistyped.
    """
    place = resolve_backbone(name)
    if not re.fullmatch(HUB_ID, place) and not Path(place).is_dir():
        raise FileNotFoundError(f"There is no folder {name!r}. Give a checkpoint's folder, or OWNER/NAME on the Hub.")


def read_config(checkpoint: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the `config.json` of a checkpoint folder.

    Raises:
        FileNotFoundError: The folder has no `config.json`.
        ValueError: The file is not the configuration of a model.
    """
    path = Path(checkpoint, "config.json")
    if not path.is_file():
        is_adapter = path.with_name("adapter_config.json").is_file()
        problem = ADAPTER_ALONE if is_adapter else "has no config.json. Give the folder of a saved model."
        raise FileNotFoundError(f"{str(checkpoint)!r} {problem}")
    if not is_regular(path, path.parent):
        raise ValueError(f"{path}: {A_LINK}")
    config = read_json(path)
    if not isinstance(config.get("model_type"), str) or not isinstance(config.get("backbone_config"), dict | None):
        raise ValueError(
            f"{path}: `model_type` is no text, or `backbone_config` no object. Give the folder of a saved model."
        )
    return config


def read_family_config(checkpoint: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the `config.json` of a checkpoint folder of a family, as `read_config` does."""
    config = read_config(checkpoint)
    if config["model_type"] not in family_names():
        raise ValueError(
            f"{Path(checkpoint, 'config.json')}: there is no family {config['model_type']!r}. Choose a checkpoint of"
            f" {', '.join(family_names())}."
        )
    return config


def read_run(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of a run and the digests of its data; nothing for a folder without `run.json`."""
    path = Path(folder, RUN)
    return read_json(path) if path.is_file() else {}
