"""Recipes: what they give a command, and what wins over them."""

import pytest

from hf_localattn.names import SCRIPTS
from hf_localattn.settings.data import DATA_ARGUMENTS
from hf_localattn.settings.model import ModelArguments
from hf_localattn.settings.reading import build_arguments
from hf_localattn.settings.recipes import FOLDER, add_recipe, read_recipe, recipes_of
from hf_localattn.settings.stock import all_options
from hf_localattn.settings.training import NewTrainingArguments
from hf_localattn.training.arguments import TrainingArguments, follow_rows

NAMES = [path.stem for path in sorted(FOLDER.glob("*.yaml"))]
TRAINED = {"backbone": "b", "do_train": True, "train_file": "t.csv", "output_dir": "o"}


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_has_options_of_its_script(name):
    recipe = read_recipe(name)
    classes = (ModelArguments, DATA_ARGUMENTS[recipe.script], NewTrainingArguments)
    assert {*recipe.options, *recipe.with_validation} <= {*all_options(*classes)}
    assert recipe.options["min_train_steps"] > 0
    assert recipe.summary.endswith(".")
    build_arguments(
        [ModelArguments],
        {name: value for name, value in recipe.options.items() if name in ("family", "local_config")}
        | {"backbone": "tiny"},
    )


def test_each_script_has_at_most_one_default_and_the_documented_ones_have_one():
    defaults = {script: [recipe.name for recipe in recipes_of(script) if recipe.default] for script in SCRIPTS}
    assert defaults == {"glue": ["texts"], "ner": ["words"], "qa": ["questions"], "swag": ["choices"], "qg": []}


def test_a_backbone_alone_gets_the_recipe_of_its_task():
    completed = add_recipe("ner", TRAINED)
    assert completed["family"] == "baseline"
    assert (completed["recipe"], completed["min_train_steps"]) == ("words", 600)
    assert "early_stopping_patience" not in completed
    assert add_recipe("ner", completed) == completed
    assert add_recipe("ner", TRAINED | {"validation_file": "v"})["early_stopping_patience"] == 3
    for given in ({"family": "cool"}, {"recipe": "none"}, {"do_train": False}):
        assert add_recipe("ner", TRAINED | given) == TRAINED | given
    assert add_recipe("qg", TRAINED) == TRAINED
    for given in ({"num_folds": 2}, {"search_space": "s.json"}):  # which train without --do_train
        assert add_recipe("ner", {"backbone": "b"} | given)["recipe"] == "words"


def test_what_the_user_gives_wins():
    completed = add_recipe("glue", TRAINED | {"recipe": "texts-frozen", "learning_rate": "1e-2", "max_steps": 5})
    assert (completed["learning_rate"], completed["max_steps"]) == ("1e-2", 5)
    assert "min_train_steps" not in completed
    epochs = add_recipe("glue", TRAINED | {"validation_file": "v", "num_train_epochs": 9})
    assert not {"min_train_steps", "early_stopping_patience"} & epochs.keys()
    fields = add_recipe("glue", TRAINED | {"recipe": "texts-frozen", "local_config": ["pooling=rba"]})["local_config"]
    assert fields == ["pooling=rba", "freeze_backbone=true", "encoder_states=mix"]
    other = add_recipe("qa", TRAINED | {"recipe": "questions", "family": "oa-xlnet"})
    assert "local_config" not in other
    of_checkpoint = add_recipe("qa", {"model_name_or_path": "m", "do_train": True, "recipe": "questions"})
    assert not {"family", "local_config"} & of_checkpoint.keys()
    assert "train_sampling_strategy" not in add_recipe("ner", TRAINED | {"streaming": True})
    strategy = add_recipe("ner", TRAINED | {"validation_file": "v", "eval_strategy": "no"})
    assert "early_stopping_patience" not in strategy


@pytest.mark.parametrize(
    ("script", "name", "word"), [("ner", "texts", "train glue"), ("ner", "nothing", "words"), ("ner", "../x", "words")]
)
def test_recipes_that_are_refused(script, name, word):
    with pytest.raises(ValueError, match=f"recipe.*{word}"):
        add_recipe(script, TRAINED | {"recipe": name})


@pytest.mark.parametrize(
    ("rows", "given", "steps"),
    [(50, {}, 100), (500, {}, -1), (50, {"max_steps": 7}, 7), (50, {"num_train_epochs": 30.0}, -1)],
)
def test_steps_follow_the_rows(tmp_path, rows, given, steps):
    settings = {"per_device_train_batch_size": 10, "min_train_steps": 100, "use_cpu": True} | given
    args = TrainingArguments(str(tmp_path), **settings)
    assert follow_rows(args, rows).max_steps == steps
    assert args.max_steps == given.get("max_steps", -1)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_gives_arguments_in_python(tmp_path, name):
    recipe = read_recipe(name)
    arguments = TrainingArguments(str(tmp_path), use_cpu=True, **recipe.training_arguments)
    assert arguments.min_train_steps == recipe.options["min_train_steps"]


def test_a_recipe_gives_fields_in_python():
    fields = {"pooling": "rb", "freeze_backbone": True, "encoder_states": "mix"}
    assert read_recipe("texts-frozen").fields == fields
