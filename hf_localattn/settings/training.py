"""Training arguments that transformers lacks, or that have another default here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, ByteSize, Field, PositiveInt

from hf_localattn.settings.conditions import has_loss_alone, saves_by_steps
from hf_localattn.settings.option import FREE, GROWS, NEEDS, OURS, declared, option

INFINITY = float("inf")

LOSS_ALONE = "reports the loss alone: it needs a task with an evaluation loss, and no --do_predict or --metric."


def _is_share_or_count(steps: float) -> float:
    if steps > 1 and steps != int(steps):
        raise ValueError("a number of steps is whole, and a share of all steps is below 1")
    return steps


Count = PositiveInt | None
Rate = Annotated[float, Field(ge=0, lt=INFINITY)] | None
Share = Annotated[float, Field(ge=0, lt=1)]
Steps = Annotated[float, Field(gt=0, lt=INFINITY), AfterValidator(_is_share_or_count)] | None
Warmup = Annotated[float, Field(ge=0, lt=INFINITY), AfterValidator(_is_share_or_count)]
Seed = Annotated[int, Field(ge=0, lt=2**32)] | None


@declared
@dataclass
class NewTrainingArguments:
    """Two learning rates, Lookahead, hyperparameter search, folds and early stopping."""

    # None marks an option that was not given. transformers' default could also have been given.
    learning_rate: Rate = option(
        None,  # the trainer sets it
        "Peak learning rate; by default 5e-5, and 1e-3 if the encoder is frozen.",
        kind=OURS,
        searchable=True,
        recorded=True,
    )
    local_learning_rate: Rate = option(
        None,
        "Learning rate of all parameters outside the backbone (local layers and head); by default `learning_rate`.",
        searchable=True,
        recorded=True,
    )
    frozen_steps: Steps = option(
        None,
        "Number of steps, or their share of all steps, that train the new layers alone. Then the pretrained"
        " parameters are trained, too; their rate rises in as many steps as `warmup_steps`.",
        searchable=True,
        recorded=True,
    )
    min_train_steps: Count = option(
        None,
        "Smallest number of steps: train more epochs than `num_train_epochs` if the rows are few. `max_steps`, if"
        " given, is the number of steps all the same.",
        searchable=True,
        recorded=True,
    )
    early_stopping_patience: Count = option(
        None,
        "Stop training after this number of evaluations in a row without a better score, and keep the best model. The"
        " score is `metric_for_best_model`, by default the task's main score.",
        recorded=True,
    )
    lookahead_steps: Count = option(
        None,
        "Use Lookahead (Zhang et al. 2019): update its slow weights after every N steps of the optimizer. The paper"
        " uses 5.",
        searchable=True,
        recorded=True,
        extra="lookahead",
    )
    lookahead_alpha: Annotated[float, Field(gt=0, le=1)] | None = option(
        None,
        "Step size of Lookahead's slow weights, above 0 and at most 1; by default 0.5. Needs `lookahead_steps`.",
        searchable=True,
        recorded=True,
    )
    frozen_states: Literal["full", "half", "no"] | None = option(
        None,
        "Precision of the states of a frozen encoder, which runs once for each row: full (the default) or half; or"
        " `no` to run it in every step.",
    )
    frozen_states_memory: str | None = option(
        None,
        "Size of states to keep in memory, such as 500MB; by default 4GiB. More than that are in a file in the output"
        " folder, until the run ends.",
        values=ByteSize | None,
        result=FREE,
    )
    seeds: list[int] = option(
        [],
        "Train a model with each of these seeds, such as 1 2 3. The runs write to OUTPUT_DIR/seed-1 and so on; mean,"
        " deviation and interval of their scores are reported.",
        result=GROWS,
        shared=False,
    )
    search_space: str | None = option(
        None,
        "Search hyperparameters: a .yaml or .json file of training arguments and fields of the family's configuration,"
        " each with a list of values or a range such as {low: 1e-5, high: 1e-4, log: true}. Each trial trains a model."
        " The best trial is chosen by `metric_for_best_model`, by default the task's main score.",
        shared=False,
        extra="search",
    )
    search_trials: Count = option(
        None,
        "Number of trials of the search; by default all combinations of values, if their number is finite.",
        result=GROWS,
        shared=False,
    )
    minutes: Annotated[float, Field(gt=0, lt=INFINITY)] | None = option(
        None,
        "Time for the trainings of `recipe auto`, in minutes. Then the best model so far is kept; with more minutes"
        " the same command goes on.",
        result=GROWS,
        shared=False,
    )
    workers: PositiveInt = option(
        1,
        "Number of folds, seeds, recipes or search trials to run at a time, each in a process of its own and, if there"
        " are GPUs, on a GPU of its own.",
        result=FREE,
        shared=False,
    )
    ray_address: str | None = option(
        None,
        "Run folds, seeds or search trials on a Ray cluster: auto, HOST:PORT, or local. Its nodes must share a file"
        " system. `workers` limits how many run at a time; by default one on each GPU.",
        result=FREE,
        shared=False,
        extra="cluster",
    )
    logging_steps: Annotated[float, Field(gt=0, lt=INFINITY), AfterValidator(_is_share_or_count)] = option(
        0.05,
        "Number of steps between two logs of the loss, or their share of all steps.",
        kind=OURS,
        result=FREE,
    )
    save_total_limit: Count = option(2, "Number of checkpoints to keep.", kind=OURS, result=FREE)
    keep_checkpoints: bool = option(
        False, "Keep the checkpoints of a finished run, which training it further needs.", result=FREE
    )
    eval_strategy: str | None = option(
        None,
        "When to evaluate during training: no, steps or epoch. By default no, or epoch if the best model is loaded at"
        " the end.",
        kind=OURS,
    )
    save_strategy: str | None = option(
        None,
        "When to save checkpoints: no, steps, epoch or best. By default steps, or as `eval_strategy` if the best model"
        " is loaded at the end.",
        kind=OURS,
    )
    save_steps: Steps = option(
        None,
        "Number of steps between two checkpoints, or their share of all steps; by default 0.1 but at most every two"
        " minutes, or as `eval_steps` if the best model is loaded at the end.",
        kind=NEEDS,
        note="needs --save_strategy steps.",
        suits_arguments=saves_by_steps,
        result=FREE,
    )


@declared
@dataclass
class NewGenerationArguments(NewTrainingArguments):
    """Arguments of question generation, which has another default for those of transformers."""

    predict_with_generate: bool = option(
        True,
        "Generate texts and compare them with the references; if false, evaluate the loss alone.",
        kind=NEEDS,
        note=f"false {LOSS_ALONE}",
        suits_task=has_loss_alone,
    )
    generation_max_length: Count = option(
        None,
        "Maximum number of generated tokens; by default that of the longest reference text.",
        kind=OURS,
    )
    generation_num_beams: Count = option(
        5,
        "Number of beams of the beam search; 1 is greedy search.",
        kind=OURS,
        recorded=True,
    )
