"""Options of the scripts, what early stopping switches on, and the output folder: new, in use, killed, finished."""

import json

import pytest

from hf_localattn.files import atomic_write
from hf_localattn.settings.reading import build_arguments, read_options
from hf_localattn.tasks.question_answering import QuestionAnsweringDataArguments
from hf_localattn.training.arguments import (
    GenerationTrainingArguments,
    ModelArguments,
    TrainingArguments,
)
from hf_localattn.training.output_folder import mark_unfinished, prepare_output_folder

CLASSES = (ModelArguments, QuestionAnsweringDataArguments, TrainingArguments)
DATA = ["--train_file", "x.json", "--output_dir", "out"]


def parse(words):
    return build_arguments(CLASSES, read_options(CLASSES, words))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "Give either --backbone"),
        ("--model_name_or_path x --family cool --backbone y", "Give either"),
        ("--family cool", "--family cool needs --backbone"),
        ("--model_name_or_path x --backbone y", "Give either"),
        ("--backbone y", "--backbone needs --family"),
        ("--family hot --backbone x", "no family 'hot'. Choose one of cool, .*baseline"),
        ("--family baseline --backbone x --local_config a=1", "--local_config sets fields"),
        ("--family cool --backbone x --local_config mod=l2g", "no field 'mod'; it has .*mode"),
        ("--family cool --backbone x --config_name y", "--config_name cannot be used with"),
        ("--model_name_or_path x --max_train_samples 0", "--max_train_samples is '0'"),
        ("--model_name_or_path x --dataset_name squad", "either --dataset_name or files"),
        ("--famly cool --backbone x", r"Unknown option --famly.*--family\?"),
        ("--model_name_or_path x --early_stopping_patience 2 --eval_strategy no", "--eval_strategy no"),
        ("--model_name_or_path x --early_stopping_patience 2 --save_strategy no", "--save_strategy no"),
        ("--model_name_or_path x --lookahead_alpha 0.5", "--lookahead_alpha needs --lookahead_steps"),
        ("--model_name_or_path x --learning_rat 1", "Unknown option --learning_rat"),
        ("--learning-rat 1", r"Unknown option --learning_rat.*--learning_rate\?"),
        ("options.json --max_steps 3", "options.json"),
        ("--model_name_or_path x --max_steps 1.5", "--max_steps is '1.5'.*integer"),
        ("--model_name_or_path x --max_steps", "--max_steps needs a value"),
        ("--model_name_or_path x --max_steps 1 seed", "Unknown option seed"),
        ("--model_name_or_path x --no_max_steps", "--max_steps is 'false'"),
        ("--model_name_or_path x --search_trials 2", "--search_trials needs --search_space"),
    ],
)
def test_arguments_that_do_not_go_together(arguments, message):
    with pytest.raises(ValueError, match=message):
        parse([*arguments.split(), *DATA])


def test_values_of_a_file_have_their_types(tmp_path):
    given = {"model_name_or_path": "x", "train_file": "y.json", "output_dir": "out", "report_to": "none"}
    given |= {"learning_rate": "1e-4", "max_steps": 5, "lr_scheduler_type": "linear", "optim": "sgd", "seed": 3}
    (tmp_path / "options.json").write_text(json.dumps(given))
    model_args, data_args, args = parse([str(tmp_path / "options.json")])
    assert (model_args.source, data_args.train_file) == ("x", "y.json")
    assert (args.learning_rate, args.max_steps, args.seed, args.optim) == (1e-4, 5, 3, "sgd")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"max_steps": true}', "--max_steps needs a value"),
        ("[1]", "is a list"),
        ("{\n", "line 2, column 1"),
        ('{"lerning_rate": 1}', r"Unknown option lerning_rate.*learning_rate\?"),
        ('{"learning_rate": "fast"}', "learning_rate is 'fast'"),
        ('{"max_seq_length": 1.5}', "max_seq_length is 1.5"),
        ('{"local_config": "mode=l2g"}', "local_config is 'mode=l2g'"),
        (None, "missing.json"),
    ],
)
def test_a_file_of_other_values(content, message, tmp_path):
    if content is not None:
        (tmp_path / "missing.json").write_text(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        parse([str(tmp_path / "missing.json")])


@pytest.mark.parametrize("kind", [TrainingArguments, GenerationTrainingArguments])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("no", "steps", 0.1, False)),
        ({"early_stopping_patience": 3}, ("epoch", "epoch", 0.1, True)),
        ({"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 30}, ("steps", "steps", 30, True)),
        ({"load_best_model_at_end": True, "eval_strategy": "steps"}, ("steps", "steps", 0.05, True)),
        ({"load_best_model_at_end": True, "eval_strategy": "epoch"}, ("epoch", "epoch", 0.1, True)),
        ({"load_best_model_at_end": True}, ("epoch", "epoch", 0.1, True)),
        ({"early_stopping_patience": 1, "eval_strategy": "steps", "eval_steps": 7}, ("steps", "steps", 7, True)),
        ({"early_stopping_patience": 1, "save_strategy": "best"}, ("epoch", "best", 0.1, True)),
        (
            {"early_stopping_patience": 1, "save_strategy": "steps", "save_steps": 40, "eval_steps": 20},
            ("steps", "steps", 40, True),
        ),
    ],
)
def test_when_it_is_evaluated_and_saved(kind, options, expected):
    args = kind(output_dir="out", report_to="none", use_cpu=True, do_eval=True, **options)
    assert (args.eval_strategy, args.save_strategy, args.save_steps, args.load_best_model_at_end) == expected
    assert args.save_total_limit == 2
    if "early_stopping_patience" in options:
        assert args.restore_callback_states_from_checkpoint
    assert (args.metric_for_best_model, args.greater_is_better) == (None, None)


def checkpoint(folder, step, state="{}"):
    path = folder / f"checkpoint-{step}"
    atomic_write(path / "optimizer.pt", "")
    if state is not None:
        atomic_write(path / "trainer_state.json", state)
    return path


def test_leftovers_are_removed_and_other_files_are_in_the_way(tmp_path):
    for name in (".gitignore", "train.log", "runs/events", "_saving-x/a"):  # the last of a killed run
        atomic_write(tmp_path / name, "")
    prepare_output_folder(tmp_path, None, tidy=False)
    assert (tmp_path / "_saving-x").exists()
    assert prepare_output_folder(tmp_path, None) is None
    assert not (tmp_path / "_saving-x").exists()
    for name in "abcd":
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"a, b, c and 1 more"):
        prepare_output_folder(tmp_path, None)


def test_a_finished_run_stays_finished_while_it_is_trained_further(tmp_path):
    (tmp_path / "trainer_state.json").write_text("{}")
    mark_unfinished(tmp_path)
    with pytest.raises(ValueError, match="finished run"):
        prepare_output_folder(tmp_path, None)


@pytest.mark.parametrize("state", [None, "", json.dumps({"log_history": []})[:-1]], ids=["none", "empty", "cut"])
def test_a_half_written_checkpoint_is_passed_over(tmp_path, state, caplog):
    half = checkpoint(tmp_path, 12, state)
    mark_unfinished(tmp_path)
    assert prepare_output_folder(tmp_path, None) is None
    for wanted in (True, str(half)):
        with pytest.raises(ValueError, match="whole checkpoint"):
            prepare_output_folder(tmp_path, wanted)
    checkpoint(tmp_path, 9)
    last = str(checkpoint(tmp_path, 10))
    for wanted in (None, True, "True", last):
        assert prepare_output_folder(tmp_path, wanted) == last
    assert str(half) in caplog.text


def test_a_sharded_checkpoint_of_another_folder_is_refused(tmp_path):
    sharded = checkpoint(tmp_path / "theirs", 2)
    atomic_write(sharded / "optimizer_0" / ".metadata", "")
    assert prepare_output_folder(tmp_path / "theirs", str(sharded)) == str(sharded)
    with pytest.raises(ValueError, match="unpickles"):
        prepare_output_folder(tmp_path / "ours", str(sharded))


def test_words_and_a_file_give_the_same_arguments(tmp_path):
    """Flags, their negation, hyphens, aliases and several words."""
    words = "--family=cool --backbone tiny --local_config num_local_layers=1 use_conv=false --max-steps 3 --skip_empty"
    words += " --no_dataloader_pin_memory --do_train true --learning_rate 1e-4 --adam_beta1 0.5 --report_to none"
    values = {"family": "cool", "backbone": "tiny", "local_config": ["num_local_layers=1", "use_conv=false"]}
    values |= {"max_steps": 3, "skip_empty": True, "dataloader_pin_memory": False, "do_train": True}
    values |= {
        "learning_rate": 1e-4,
        "adam_beta1": 0.5,
        "report_to": "none",
        "train_file": DATA[1],
        "output_dir": "out",
    }
    (tmp_path / "options.json").write_text(json.dumps(values))
    model_args, *others = parse([*words.split(), *DATA])
    assert [model_args, *others] == list(parse([str(tmp_path / "options.json")]))
    assert model_args.local_fields == {"num_local_layers": 1, "use_conv": False}
