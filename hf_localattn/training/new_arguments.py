"""Training arguments that transformers lacks, or that have another default here. Neither is imported here."""

from dataclasses import dataclass, field

from hf_localattn.settings.documented import documented


@documented
@dataclass
class NewTrainingArguments:
    """Two learning rates, Lookahead, hyperparameter search, folds and early stopping.

    Args:
        learning_rate: Peak learning rate; by default 5e-5, and 1e-3 if the encoder is frozen.
        local_learning_rate: Learning rate of all parameters outside the backbone (local layers and head); by default
            `learning_rate`.
        early_stopping_patience: Stop training after this number of evaluations in a row without a better score, and
            keep the best model. The score is `metric_for_best_model`, by default the task's main score.
        lookahead_steps: Use Lookahead (Zhang et al. 2019): update its slow weights after every N steps of the
            optimizer. The paper uses 5.
        lookahead_alpha: Step size of Lookahead's slow weights, above 0 and at most 1; by default 0.5. Needs
            `lookahead_steps`.
        frozen_states: Precision of the states of a frozen encoder, which runs once for each row: full (the default)
            or half; or `no` to run it in every step.
        frozen_states_memory: Size of states to keep in memory, such as 500MB; by default 4GiB. More than that are in
            a file in the output folder, until the run ends.
        seeds: Train a model with each of these seeds, such as 1 2 3. The runs write to OUTPUT_DIR/seed-1 and so on;
            mean, deviation and interval of their scores are reported.
        search_space: Search hyperparameters: a .yaml or .json file of training arguments and fields of the family's
            configuration, each with a list of values or a range such as {low: 1e-5, high: 1e-4, log: true}. Each trial
            trains a model. The best trial is chosen by `metric_for_best_model`, by default the task's main score.
        search_trials: Number of trials of the search; by default all combinations of values, if their number is
            finite.
        workers: Number of folds, seeds or search trials to run at a time, each in a process of its own and, if there
            are GPUs, on a GPU of its own.
        ray_address: Run folds, seeds or search trials on a Ray cluster: auto, HOST:PORT, or local. Its nodes must
            share a file system. `workers` limits how many run at a time; by default one on each GPU.
        logging_steps: Number of steps between two logs of the loss, or their share of all steps.
        save_steps: Number of steps between two checkpoints, or their share of all steps; by default 0.1 but
            at most every two minutes, or as `eval_steps` if the best model is loaded at the end.
        save_total_limit: Number of checkpoints to keep.
        keep_checkpoints: Keep the optimizer states of a finished run, which training it further needs.
        eval_strategy: When to evaluate during training: no, steps or epoch. By default no, or epoch if the best model
            is loaded at the end.
        save_strategy: When to save checkpoints: no, steps, epoch or best. By default steps, or as `eval_strategy` if
            the best model is loaded at the end.
    """

    local_learning_rate: float | None = None
    frozen_states: str | None = None
    frozen_states_memory: str | None = None
    early_stopping_patience: int | None = None
    lookahead_steps: int | None = None
    lookahead_alpha: float | None = None
    seeds: list[int] = field(default_factory=list)
    search_space: str | None = None
    search_trials: int | None = None
    workers: int = 1
    ray_address: str | None = None
    logging_steps: float = 0.05
    save_total_limit: int | None = 2
    keep_checkpoints: bool = False
    # None marks an option that was not given. transformers' default could also have been given.
    learning_rate: float | None = None  # the trainer sets it
    eval_strategy: str | None = None
    save_strategy: str | None = None
    save_steps: float | None = None
