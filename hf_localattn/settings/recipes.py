"""Recipes: named files of options, each with what measured it. Options that the user gives win over a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hf_localattn.parsing import format_assignments, parse_assignments
from hf_localattn.settings.data import DATA_ARGUMENTS
from hf_localattn.settings.option import options_of

FOLDER = Path(__file__).parents[1] / "resources" / "recipes"

NO_RECIPE = "none"
"""Value of --recipe for the defaults of transformers."""

AUTO = "auto"
"""Value of --recipe that tries the recipes of a task, and keeps the best model."""

MODEL = ("family", "backbone", "local_config")
"""Options of a recipe that choose the layers. A checkpoint has its own."""

TRAINING = ("do_train", "num_folds", "search_space")
"""Options of commands that train."""

CHOSEN = ("family", "local_config", "model_name_or_path")
"""Options that --recipe auto chooses."""

OTHER_RUNS = ("fold", "seeds", "search_space", "ray_address", "push_to_hub", "streaming")
"""Options of commands that --recipe auto cannot be."""


@dataclass(frozen=True)
class Recipe:
    """Options of a training that were measured.

    Args:
        name: Name of the file.
        script: Script that it is for, such as "glue".
        summary: Sentence about what it trains.
        measured: Data, encoder and scores of the measurement.
        seconds: CPU seconds of the measured training, about. `--recipe auto` begins with the cheapest recipe.
        options: Options by name.
        with_validation (*optional*): Further options if there are validation rows.
        default (*optional*): True if it is the default of its script.
    """

    name: str
    script: str
    summary: str
    measured: str
    seconds: float
    options: Mapping[str, Any]
    with_validation: Mapping[str, Any] = field(default_factory=dict)
    default: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of the family's configuration, for `from_backbone`."""
        return parse_assignments(self.options.get("local_config", ()))

    @property
    def training_arguments(self) -> dict[str, Any]:
        """Arguments for `LocalAttentionTrainingArguments`, without those that need validation rows."""
        others = {*MODEL, *options_of(DATA_ARGUMENTS[self.script])}
        return {name: value for name, value in self.options.items() if name not in others}


def read_recipe(name: str) -> Recipe:
    """Read a recipe of the package.

    Raises:
        ValueError: There is no such recipe. The message lists all names.
    """
    path = FOLDER / f"{name}.yaml"
    if path.parent != FOLDER or not path.is_file():
        names = sorted(path.stem for path in FOLDER.glob("*.yaml"))
        raise ValueError(f"There is no recipe {name!r}. Choose one of {', '.join([*names, AUTO, NO_RECIPE])}.")
    return Recipe(name, **yaml.safe_load(path.read_text(encoding="utf-8")))


def recipes_of(script: str) -> list[Recipe]:
    """Return the recipes of a script, the default first."""
    recipes = [read_recipe(path.stem) for path in sorted(FOLDER.glob("*.yaml"))]
    return sorted((recipe for recipe in recipes if recipe.script == script), key=lambda recipe: not recipe.default)


def add_recipe(script: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options completed by those of a recipe.

    The recipe is that of the option `recipe`, or the default of the script if a backbone alone is trained. Options
    that are given win. Another family takes no fields from the recipe, and a checkpoint none of its layers. Given
    epochs or steps replace the recipe's steps and its early stopping.

    With `--recipe auto` the options stay as they are: each recipe completes them in a run of its own.

    Args:
        script: Name of the script, such as "glue".
        options: Options that are given, by name.

    Raises:
        ValueError: There is no such recipe, it is for another script, or an option contradicts `--recipe auto`.
    """
    name = options.get("recipe")
    if name == AUTO:
        _check_auto(script, options)
    if name in (AUTO, NO_RECIPE):
        return dict(options)
    if name is None:
        is_trained = any(options.get(name) for name in TRAINING)
        if "backbone" not in options or "family" in options or not is_trained:
            return dict(options)
        defaults = [recipe for recipe in recipes_of(script) if recipe.default]
        if not defaults:
            return dict(options)
        recipe = defaults[0]
    else:
        recipe = read_recipe(str(name))
    if recipe.script != script:
        names = ", ".join(recipe.name for recipe in recipes_of(script)) or "none"
        raise ValueError(f"--recipe {recipe.name} is for `train {recipe.script}`. Recipes of this task: {names}.")
    usual = dict(recipe.options)
    has_rows = any(options.get(name) is not None for name in ("validation_file", "dataset_name", "num_folds"))
    if options.keys() & {"num_train_epochs", "max_steps"}:
        usual.pop("min_train_steps", None)
    elif has_rows and not options.keys() & recipe.with_validation.keys():
        usual |= recipe.with_validation
    if "model_name_or_path" in options:
        usual = {name: value for name, value in usual.items() if name not in MODEL}
    elif options.get("family", usual.get("family")) != usual.get("family"):
        usual.pop("local_config", None)
    if options.get("streaming"):
        usual.pop("train_sampling_strategy", None)  # streamed rows cannot be grouped
    completed = {**usual, **options, "recipe": recipe.name}
    if "local_config" in usual and "local_config" in options:
        fields = parse_assignments(usual["local_config"]) | parse_assignments(options["local_config"])
        completed["local_config"] = format_assignments(fields)
    return completed


def options_of_run(script: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of one run of a command, completed by `add_recipe`: with `--recipe auto` of the default."""
    is_search = options.get("recipe") == AUTO
    return add_recipe(script, {**options, "recipe": recipes_of(script)[0].name} if is_search else options)


def _check_auto(script: str, options: Mapping[str, Any]) -> None:
    """Raise `ValueError` for options with which recipes cannot be compared."""
    if not recipes_of(script):
        raise ValueError(f"--recipe {AUTO}: there are no recipes for `train {script}`. Give --family.")
    for name in (*CHOSEN, *OTHER_RUNS):
        if options.get(name) not in (None, False):
            reason = "chooses the family" if name in CHOSEN else "trains several models and keeps one"
            raise ValueError(f"--recipe {AUTO} {reason}: leave out --{name}.")
    for name in ("backbone", "do_train"):
        if not options.get(name):
            raise ValueError(f"--recipe {AUTO} needs --{name}.")
