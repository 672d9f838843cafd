from types import SimpleNamespace

import pytest

from hf_localattn.tasks.run import choose_best_metric
from hf_localattn.training.arguments import GenerationTrainingArguments, TrainingArguments

CLASSES = (TrainingArguments, GenerationTrainingArguments)


def arguments(kind=TrainingArguments, **options):
    return kind(output_dir="out", report_to="none", use_cpu=True, do_eval=True, **options)


@pytest.mark.parametrize("kind", CLASSES)
def test_patience_switches_on_what_it_needs(kind):
    args = arguments(kind, early_stopping_patience=3)
    assert (args.eval_strategy, args.save_strategy) == ("epoch", "epoch")
    assert args.load_best_model_at_end
    assert args.restore_callback_states_from_checkpoint
    assert (args.metric_for_best_model, args.greater_is_better) == (None, None)


@pytest.mark.parametrize("kind", CLASSES)
def test_without_patience_a_tenth_of_a_run_is_lost_at_most(kind):
    args = arguments(kind)
    assert (args.eval_strategy, args.save_strategy, args.save_steps, args.save_total_limit) == ("no", "steps", 0.1, 2)
    assert not args.load_best_model_at_end
    best = arguments(kind, load_best_model_at_end=True, eval_strategy="epoch", save_strategy="epoch")
    assert best.metric_for_best_model == "loss"


def test_checkpoints_follow_evaluations_among_which_the_best_is_chosen():
    args = arguments(load_best_model_at_end=True, eval_strategy="steps", eval_steps=30)
    assert (args.save_strategy, args.save_steps) == ("steps", 30)
    assert arguments(load_best_model_at_end=True, eval_strategy="steps").save_steps == 0.05


def test_strategies_that_are_given_are_kept():
    args = arguments(early_stopping_patience=1, eval_strategy="steps", eval_steps=7)
    assert (args.eval_strategy, args.save_strategy, args.save_steps) == ("steps", "steps", 7)
    args = arguments(early_stopping_patience=1, save_strategy="best")
    assert (args.eval_strategy, args.save_strategy) == ("epoch", "best")
    args = arguments(early_stopping_patience=1, save_strategy="steps", save_steps=40, eval_steps=20)
    assert (args.eval_strategy, args.eval_steps, args.save_steps) == ("steps", 20, 40)


@pytest.mark.parametrize(
    ("options", "metrics", "named", "expected"),
    [
        ({}, "loss f1", None, (None, None)),
        ({"early_stopping_patience": 1}, "loss f1 accuracy", None, ("f1", True)),
        ({"early_stopping_patience": 1}, "loss", None, ("loss", False)),
        ({"early_stopping_patience": 1}, "loss f1", "accuracy", ("accuracy", True)),
        ({"search_space": "x.yaml"}, "loss f1", None, ("f1", True)),
        ({"metric_for_best_model": "eval_f1"}, "loss f1", None, ("f1", True)),
        ({"metric_for_best_model": "loss"}, "loss f1", None, ("loss", False)),
        ({"metric_for_best_model": "loss"}, "f1 accuracy", None, ("f1", True)),  # of answers there is no loss
        ({"metric_for_best_model": "f1"}, "loss f1", "accuracy", ("f1", True)),
    ],
)
def test_the_score_that_tells_the_best_model(options, metrics, named, expected):
    args = arguments(**options)
    known = {name: name != "loss" for name in [*metrics.split(), *([named] if named else [])]}
    choose_best_metric(args, SimpleNamespace(metrics=known, best_metric=named))
    assert (args.metric_for_best_model, args.greater_is_better) == expected


def test_the_score_must_be_one_of_the_task():
    with pytest.raises(ValueError, match="loss, f1; got 'bleu'"):
        choose_best_metric(
            arguments(metric_for_best_model="bleu"),
            SimpleNamespace(metrics={"loss": False, "f1": True}, best_metric=None, args=SimpleNamespace(metric=None)),
        )
