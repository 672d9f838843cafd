"""Every training argument of transformers: the table, and cheap runs of those that could break a task."""

from dataclasses import fields
from types import SimpleNamespace

import pytest
from transformers import Seq2SeqTrainingArguments

from hf_localattn.settings.option import NEEDS, REFUSED
from hf_localattn.settings.stock import all_options
from hf_localattn.tasks import Target
from hf_localattn.training.arguments import GenerationTrainingArguments, TrainingArguments
from hf_localattn.training.checks import check_task, check_training
from hf_localattn.training.scores import choose_best_metric, further_metric, further_scores
from scripts.training_options import PAGE, render

QUIET = {"output_dir": "out", "use_cpu": True, "report_to": "none"}


OPTIONS = all_options(GenerationTrainingArguments)


def test_every_field_of_transformers_is_declared():
    """A field of a new release fails here: try it in all tasks, and name or declare it in `settings/stock.py`."""
    assert {field.name for field in fields(Seq2SeqTrainingArguments)} <= OPTIONS.keys()


def test_the_page_shows_the_table():
    """If not, run `python -m scripts.training_options`."""
    assert render(PAGE.read_text()) == PAGE.read_text()


OUT_OF_RANGE = {
    "adam_beta1": 1.0,
    "adam_epsilon": -1.0,
    "data_seed": -1,
    "dataloader_num_workers": -1,
    "early_stopping_patience": 0,
    "eval_accumulation_steps": 0,
    "eval_delay": -1,
    "eval_steps": 1.5,
    "frozen_states": "quarter",
    "frozen_states_memory": "a lot",
    "generation_max_length": 0,
    "generation_num_beams": 0,
    "gradient_accumulation_steps": 0,
    "label_smoothing_factor": 1.0,
    "learning_rate": float("inf"),
    "local_learning_rate": -1.0,
    "log_level": "loud",
    "logging_steps": -1,
    "lookahead_alpha": 1.5,
    "max_grad_norm": -1.0,
    "max_steps": 0,
    "neftune_noise_alpha": -1.0,
    "num_train_epochs": 0,
    "per_device_eval_batch_size": 0,
    "per_device_train_batch_size": -1,
    "save_steps": 0,
    "save_total_limit": 0,
    "seed": 2**32,
    "train_sampling_strategy": "longest",
    "warmup_steps": 1.5,
    "weight_decay": float("nan"),
}
LACKING = {
    "dataloader_persistent_workers": True,
    "dataloader_prefetch_factor": 2,
    "dataloader_multiprocessing_context": "fork",
    "eval_delay": 1,
    "eval_on_start": True,
    "eval_steps": 5,
    "report_to": "abacus",
}
CONTRADICTIONS = [
    *({name: value} for name, value in (OUT_OF_RANGE | LACKING).items() if name != "lookahead_alpha"),
    {"lookahead_alpha": 1.5, "lookahead_steps": 5},
    {"max_steps": -5},
    {"save_steps": 5, "save_strategy": "epoch"},
    {"save_strategy": "no", "load_best_model_at_end": True},
    {"load_best_model_at_end": True, "eval_strategy": "no"},
    {"accelerator_config": {"split": True}},
    {"bf16": True, "use_cpu": False},
    {"bf16_full_eval": True, "use_cpu": False},
    {"fsdp": "full_shard"},
    {"deepspeed": "zero.json"},
]


@pytest.mark.parametrize("options", CONTRADICTIONS, ids=str)
def test_values_that_no_run_can_task_with(options, monkeypatch):
    monkeypatch.setattr("transformers.utils.is_torch_bf16_gpu_available", lambda: False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with pytest.raises(ValueError, match=f"--{next(iter(options))}"):
        GenerationTrainingArguments(**QUIET | options)


NOT_BUILT = [
    ({"lr_scheduler_type": "cosine_with_min_lr"}, ValueError, "--lr_scheduler_type"),
    ({"lr_scheduler_kwargs": {"cycles": 2}}, ValueError, "--lr_scheduler_type linear"),
    ({"optim": "lomo"}, ImportError, "lomo"),
    ({"optim_args": "momentum"}, ValueError, "--optim"),
]


@pytest.mark.parametrize(("options", "error", "word"), NOT_BUILT)
def test_optimizers_and_schedules_that_cannot_be_built(options, error, word):
    with pytest.raises(error, match=word):
        check_training(TrainingArguments(**QUIET, **options))


def task_with(options=None, metric=None, metrics=None, **attributes):
    """A task with classes and a loss, its training arguments, and its scores."""
    args = GenerationTrainingArguments(**QUIET | (options or {}))
    usual = {"name": "guessing", "model_task": "text-classification", "has_classes": True, "has_lengths": True}
    usual |= {"own_metrics": (), "args": SimpleNamespace(metric=metric)}
    task = SimpleNamespace(**usual | attributes)
    return task, args, Target(metrics or SCORES, has_classes=task.has_classes)


SCORES = {"loss": False, "accuracy": True}
NEVER = {
    "label_names": ["labels"],
    "length_column_name": "size",
    "liger_kernel_config": {"rope": True},
    "parallelism_config": {"tp_size": 2},
    "sortish_sampler": True,
    "use_liger_kernel": True,
}
UNSUITABLE = [
    *(({name: value}, {}) for name, value in NEVER.items()),
    ({"debug": "underflow_overflow"}, {}),
    ({"label_smoothing_factor": 0.1}, {"has_classes": False}),
    ({"neftune_noise_alpha": 5}, {"model_task": "text2text-generation"}),
    ({"predict_with_generate": False, "do_predict": True}, {}),
    ({"predict_with_generate": False}, {"metric": "generation"}),
    ({"prediction_loss_only": True}, {"metrics": {"f1": True}}),
    ({"push_to_hub": True}, {}),
    ({"prediction_loss_only": True, "do_predict": True}, {}),
    ({"train_sampling_strategy": "group_by_length"}, {"has_lengths": False}),
]


@pytest.mark.parametrize(("options", "attributes"), UNSUITABLE, ids=str)
def test_options_that_a_task_cannot_task_with(options, attributes, monkeypatch):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(ValueError, match=f"--{next(iter(options))}"):
        check_task(*task_with(options, **attributes))


def test_each_refusal_of_the_table_is_tried():
    tried = {next(iter(options)) for options, *_ in [*UNSUITABLE, *NOT_BUILT]}
    tried |= {next(iter(options)) for options in CONTRADICTIONS}
    assert {name for name, option in OPTIONS.items() if option.kind in (NEEDS, REFUSED)} <= tried


STEPS = {"eval_strategy": "steps", "eval_steps": 1}


@pytest.mark.parametrize(
    ("options", "metrics", "expected"),
    [
        ({}, {}, (None, None)),
        ({"early_stopping_patience": 1}, {}, ("accuracy", True)),
        ({"load_best_model_at_end": True}, {}, ("loss", False)),
        ({"save_strategy": "best"}, {"metrics": {"f1": True}}, ("f1", True)),
        ({"metric_for_best_model": "loss"}, {"metrics": {"bleu": True, "loss": False}}, ("loss", False)),
        ({"metric_for_best_model": "eval_accuracy"}, {}, ("accuracy", True)),
        ({"metric_for_best_model": "rmse"}, {"metrics": {"rmse": False}}, ("rmse", False)),
        ({"metric_for_best_model": "share"}, {"further_scores": ("share",)}, ("share", True)),
        ({"metric_for_best_model": "cer", "greater_is_better": False}, {"further_scores": ("cer",)}, ("cer", False)),
        ({"metric_for_best_model": "loss"}, {"metrics": {"f1": True}}, "one of f1;"),
        ({"metric_for_best_model": "bleu"}, {}, "'bleu'"),
        ({"metric_for_best_model": "accuracy", "prediction_loss_only": True}, {}, "'accuracy'"),
        ({"metric_for_best_model": "accuracy", "greater_is_better": False}, {}, "contradicts accuracy"),
        ({"metric_for_best_model": "loss", "greater_is_better": True}, {}, "contradicts loss"),
        ({"early_stopping_patience": 1, "greater_is_better": False}, {}, "contradicts accuracy"),
    ],
)
def test_the_score_that_selects_the_best_model(options, metrics, expected):
    args = GenerationTrainingArguments(**QUIET | options)
    known = metrics.get("metrics", SCORES), metrics.get("further_scores", ())
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            choose_best_metric(args, *known)
        return
    values = choose_best_metric(args, *known)
    assert (values.get("metric_for_best_model"), values.get("greater_is_better")) == expected


def test_a_schedule_that_reads_a_score_knows_its_direction():
    options = {"lr_scheduler_type": "reduce_lr_on_plateau", "metric_for_best_model": "accuracy", **STEPS}
    values = choose_best_metric(GenerationTrainingArguments(**QUIET | options), SCORES)
    assert values["lr_scheduler_kwargs"] == {"mode": "max"}
    contradicted = GenerationTrainingArguments(**QUIET | options, lr_scheduler_kwargs={"mode": "min"})
    with pytest.raises(ValueError, match="mode=min"):
        choose_best_metric(contradicted, SCORES)


SHARE = """
import datasets
import evaluate
class Share(evaluate.Metric):
    def _info(self):
        number = datasets.Value("int64")
        features = datasets.Features({"predictions": number, "references": number})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)
    def _compute(self, predictions, references):
        return {"share": sum(map(int.__eq__, predictions, references)) / len(references), "classes": ["a"]}
"""


@pytest.mark.parametrize(
    ("examples", "expected"), [([0, 1], ("share",)), ([["a"]], "cannot read"), (None, ())], ids=str
)
def test_a_further_metric_is_tried_before_training(examples, expected, tmp_path):
    (tmp_path / "share.py").write_text(SHARE)
    task = task_with(metric=str(tmp_path / "share.py"))[0]
    target = Target({}, examples=None if examples is None else (examples, examples))
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            further_scores(further_metric(task), task, target)
    else:
        assert further_scores(further_metric(task), task, target) == expected


def test_a_metric_of_this_package_is_for_the_tasks_that_list_it():
    task = task_with(metric="entities", own_metrics=("entities",))[0]
    assert further_metric(task).info.module_name == "entities"
    with pytest.raises(ValueError, match="entities"):
        further_metric(task, Target({}))  # not with these labels
