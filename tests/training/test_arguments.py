import json

import pytest

from hf_localattn.tasks.question_answering import QuestionAnsweringDataArguments
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, parse_arguments

CLASSES = (ModelArguments, QuestionAnsweringDataArguments, TrainingArguments)
DATA = ["--train_file", "x.json", "--output_dir", "out"]
MODEL = ["--model_name_or_path", "x"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give either --model_name_or_path, or --family together with --backbone"),
        ([*MODEL, "--family", "cool", "--backbone", "y"], "Give either"),
        (["--family", "cool"], "--family cool needs --backbone"),
        ([*MODEL, "--backbone", "y"], "--backbone needs --family"),
        (["--family", "hot", "--backbone", "x"], "no family 'hot'. Choose one of cool, .*baseline"),
        (["--family", "baseline", "--backbone", "x", "--local_config", "a=1"], "--local_config sets fields"),
        (["--family", "cool", "--backbone", "x", "--local_config", "mod=l2g"], "no field 'mod'. Did you mean 'mode'"),
        (["--family", "cool", "--backbone", "x", "--config_name", "y"], "--config_name cannot be used with"),
        ([*MODEL, "--max_train_samples", "0"], "--max_train_samples must be at least 1"),
        ([*MODEL, "--dataset_name", "squad"], "either --dataset_name or files"),
        ([*MODEL, "--lerning_rate", "1"], "Unknown option --lerning_rate. Did you mean --learning"),
        (["--famly", "cool", "--backbone", "x"], r"Unknown option --famly. Did you mean --family\?"),
        ([*MODEL, "--early_stopping_patience", "0"], "early_stopping_patience must be at least 1; got 0"),
        ([*MODEL, "--early_stopping_patience", "2", "--eval_strategy", "no"], "--eval_strategy no contradicts it"),
        ([*MODEL, "--early_stopping_patience", "2", "--save_strategy", "no"], "--save_strategy no contradicts it"),
        ([*MODEL, "--lookahead_steps", "0"], "lookahead_steps must be at least 1; got 0"),
        ([*MODEL, "--lookahead_steps", "5", "--lookahead_alpha", "0"], "above 0 and at most 1; got 0.0"),
        ([*MODEL, "--lookahead_steps", "5", "--lookahead_alpha", "1.5"], "above 0 and at most 1; got 1.5"),
        ([*MODEL, "--lookahead_alpha", "0.5"], "--lookahead_alpha needs --lookahead_steps"),
        ([*MODEL, "--search_trials", "2"], "--search_trials needs --search_space"),
        ([*MODEL, "--workers", "0"], "workers must be at least 1; got 0"),
    ],
)
def test_arguments_that_do_not_go_together(arguments, message):
    with pytest.raises(ValueError, match=message):
        parse_arguments(CLASSES, [*arguments, *DATA])


def test_there_must_be_data():
    with pytest.raises(ValueError, match="No data: give --dataset_name, or --train_file"):
        parse_arguments(CLASSES, [*MODEL, "--output_dir", "out"])


def test_fields_of_a_family_come_as_a_list():
    arguments = ["--family", "cool", "--backbone", "x", "--local_config", "mode=l2g", "use_conv=no", *DATA]
    model_args, _, _ = parse_arguments(CLASSES, arguments)
    assert (model_args.local_config, model_args.source) == (["mode=l2g", "use_conv=no"], "x")


def test_a_file_of_arguments(tmp_path):
    path = tmp_path / "arguments.json"
    path.write_text(json.dumps({"model_name_or_path": "x", "train_file": "y.json", "output_dir": "out"}))
    model_args, data_args, training_args = parse_arguments(CLASSES, [str(path)])
    assert (model_args.source, data_args.train_file, training_args.output_dir) == ("x", "y.json", "out")
    path.write_text("{\n")
    with pytest.raises(ValueError, match="line 2, column 1: invalid JSON"):
        parse_arguments(CLASSES, [str(path)])
    with pytest.raises(FileNotFoundError, match="missing"):
        parse_arguments(CLASSES, ["missing.json"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "expected an object"),
        ('{"lerning_rate": 1}', "Unknown option lerning_rate. Did you mean learning_rate"),
        ('{"learning_rate": "fast"}', "learning_rate is 'fast'"),
        ('{"max_seq_length": 1.5}', "max_seq_length is 1.5"),
        ('{"local_config": "mode=l2g"}', "local_config is 'mode=l2g'"),
    ],
)
def test_a_file_of_other_values(content, message, tmp_path):
    (tmp_path / "options.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        parse_arguments(CLASSES, [str(tmp_path / "options.json")])


def test_values_of_a_file_have_their_types(tmp_path):
    given = {"model_name_or_path": "x", "train_file": "y.json", "output_dir": "out", "report_to": "none"}
    given |= {"learning_rate": "1e-4", "max_steps": 5, "lr_scheduler_type": "linear", "optim": "sgd", "seed": 3}
    (tmp_path / "options.json").write_text(json.dumps(given))
    args = parse_arguments(CLASSES, [str(tmp_path / "options.json")])[2]
    assert (args.learning_rate, args.max_steps, args.seed, args.optim) == (1e-4, 5, 3, "sgd")
