"""Trainers with two learning rates, Lookahead, whole files, and the scores of a task."""

from __future__ import annotations

import copy
import inspect
import logging
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.utils.data
from accelerate import load_checkpoint_in_model
from accelerate.utils import load_fsdp_model
from huggingface_hub import CommitInfo
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    Seq2SeqTrainer,
    Trainer,
    TrainerCallback,
    TrainerState,
)
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalLoopOutput, HubStrategy, SaveStrategy, TrainOutput
from transformers.utils import PushInProgress

from hf_localattn.errors import DivergedError, hub_upload_errors
from hf_localattn.files import atomic_directory, atomic_write, discard
from hf_localattn.hub import push_checkpoint, write_card
from hf_localattn.hub.push import upload_in_background
from hf_localattn.names import STATE
from hf_localattn.parsing import format_json, read_json
from hf_localattn.tasks.task import split_of
from hf_localattn.training.arguments import TrainingArguments, changed, follow_rows
from hf_localattn.training.checks import is_loss_only, selects_best
from hf_localattn.training.evaluation import Evaluation
from hf_localattn.training.frozen_states import FrozenStates, frozen_base_model
from hf_localattn.training.losses import with_local_loss
from hf_localattn.training.optimizers import (
    begin_frozen,
    pretrained_parameters,
    split_parameter_groups,
    tells_two_kinds,
    with_lookahead,
)
from hf_localattn.training.output_folder import last_complete_checkpoint
from hf_localattn.training.run_loss import RunLoss
from hf_localattn.training.saving import CheckpointSaving

logger = logging.getLogger(__name__)

RATE = 5e-5
"""Default learning rate, that of transformers."""

FROZEN_RATE = 1e-3
"""Default learning rate if only new layers are trained."""


class StopIfDiverged(TrainerCallback):
    """End a training whose weights are no longer finite, at the next log or at its end.

    A NaN loss is logged as 0 by default, and a model of NaN predicts the first class, which may be the commonest.
    """

    def on_log(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if not all(bool(torch.isfinite(weights).all()) for weights in model.parameters()):
            raise DivergedError(
                f"The training diverged: at step {state.global_step} the weights are not numbers. Choose a smaller"
                " --learning_rate, or more --warmup_steps."
            )

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self.on_log(args, state, control, model)


class LocalAttentionTrainer(Trainer):
    """transformers' `Trainer` with two learning rates, `frozen_steps`, Lookahead and early stopping.

    These settings are fields of `args`. Files are written completely or not at all. In a `hyperparameter_search`,
    the score of a trial is computed with its final model.

    Args:
        model (*optional*): The model. Without one, `model_init` is needed.
        args (*optional*): `LocalAttentionTrainingArguments`, or transformers' own.
        *more: Further arguments of `Trainer`.
        frozen_states (*optional*): States of a frozen encoder, which batches get in place of a run of the encoder.
        **kwargs: Further arguments of `Trainer`.
    """

    args: Any
    compute_loss_func: Any
    label_smoother: Any
    optimizer: torch.optim.Optimizer | None
    push_in_progress: PushInProgress | None

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *more: Any,
        frozen_states: FrozenStates | None = None,
        **kwargs: Any,
    ) -> None:
        args = None if args is None else _completed(args, model)
        super().__init__(model, args, *more, **kwargs)
        if isinstance(self.args, TrainingArguments) and hasattr(self.train_dataset, "__len__"):
            self.args = follow_rows(self.args, len(self.train_dataset))
        if self.args.learning_rate is None:
            is_frozen = frozen_base_model(self.model) is not None
            self.args = changed(self.args, learning_rate=FROZEN_RATE if is_frozen else RATE)
            if is_frozen and self.train_dataset is not None:
                logger.info("The encoder is frozen: the default learning rate is %g.", FROZEN_RATE)
        if self.label_smoother is not None:
            self.label_smoother = with_local_loss(self.label_smoother)
        self.frozen_states = frozen_states
        self.loss = RunLoss()
        # With gradient accumulation, Trainer expects a model to scale its loss if `forward` accepts any keyword. Only
        # models with an argument `num_items_in_batch` scale it.
        scales = "num_items_in_batch" in inspect.signature(self.model.forward).parameters
        self.model_accepts_loss_kwargs = getattr(self.model, "accepts_loss_kwargs", scales)
        patience = getattr(self.args, "early_stopping_patience", None)
        if patience is not None:
            self.add_callback(EarlyStoppingCallback(patience))
        self.add_callback(CheckpointSaving())
        self.add_callback(StopIfDiverged())

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Train like `Trainer.train`. A resumed run gives the same result as an uninterrupted run."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_complete_checkpoint(self.args.output_dir) or True
        self.loss = RunLoss()
        if resume_from_checkpoint and resume_from_checkpoint is not True:
            self.loss = RunLoss.read(resume_from_checkpoint, self.args.process_index)
        result = super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)
        if trial is not None and self.args.load_best_model_at_end:
            self.objective = None  # the best model was loaded after the last evaluation: make the search evaluate it
        return result._replace(training_loss=result.metrics["train_loss"])

    def training_step(self, model: torch.nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Compute the loss and the gradients of a batch, and add the loss to that of the run."""
        loss = super().training_step(model, self.with_states(inputs), *args, **kwargs)
        self.loss.add(loss, self.state.global_step, skips_nan=self.args.logging_nan_inf_filter)
        return loss

    def with_states(self, inputs: Any) -> Any:
        """Return the inputs of a batch, with the states of a frozen encoder if they are kept."""
        return inputs if self.frozen_states is None else self.frozen_states.complete(inputs)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log like `Trainer.log`. The losses of a resumed run are those of the whole run."""
        # Trainer counts only the steps since training was resumed.
        step = self.state.global_step
        if "loss" in logs and step > self.loss.logged_step:
            logs["loss"] = self.loss.mean_since_log(self.accelerator, step)
        if "train_loss" in logs and self.loss.first_step is not None:
            logs["train_loss"] = self.loss.mean(step)
        super().log(logs, *args, **kwargs)

    def finish_training(self, checkpoint: str) -> dict[str, float]:
        """Load the checkpoint of a run whose steps are done, and return its metrics without timings."""
        self.state = TrainerState.load_from_json(str(Path(checkpoint, STATE)))
        best = self.state.best_model_checkpoint if self.args.load_best_model_at_end else None
        if self.is_fsdp_enabled:
            load_fsdp_model(self.accelerator.state.fsdp_plugin, self.accelerator, self.model, best or checkpoint)
        else:
            load_checkpoint_in_model(self.model, best or checkpoint)
        self.loss = RunLoss.read(checkpoint, self.args.process_index)
        metrics = {"total_flos": self.state.total_flos, "train_loss": self.loss.mean(self.state.global_step)}
        self.log(metrics)
        return metrics

    def save_model(self, output_dir: str | None = None, *internal: bool, **internals: bool) -> None:
        """Write model and tokenizer completely or not at all. Nothing is uploaded: `push_to_hub` does that.

        Args:
            output_dir (*optional*): Folder, by default that of the run.
            *internal: True if Trainer calls this.
            **internals: The same by keyword.
        """
        folder = Path(output_dir or self.args.output_dir)
        is_internal = any(internal) or any(internals.values())
        if is_internal and folder.name == f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}":
            if self.args.should_save:
                discard(folder)  # an old checkpoint of this step would look whole during the write
            self.accelerator.wait_for_everyone()
            self.loss.write(folder, self.args.process_index)
            self.accelerator.wait_for_everyone()  # `is_whole` counts these files
        if not self.args.should_save:  # this process writes no files, but may take part in gathering the weights
            super().save_model(str(folder), True)
            return
        with atomic_directory(folder) as staging:
            super().save_model(staging, True)

    def save_metrics(self, split: str, metrics: dict[str, float], combined: bool = True) -> None:
        """Write the files of `Trainer.save_metrics` completely or not at all."""
        if not self.is_world_process_zero():
            return
        folder = Path(self.args.output_dir)
        atomic_write(folder / f"{split}_results.json", format_json(metrics, indent=4, sort_keys=True))
        if combined:
            path = folder / "all_results.json"
            others = read_json(path) if path.is_file() else {}
            atomic_write(path, format_json(others | metrics, indent=4, sort_keys=True))

    def create_optimizer(self, model: PreTrainedModel | None = None) -> torch.optim.Optimizer:
        """Create Trainer's optimizer, split it into pretrained and new parameters, and wrap it with Lookahead."""
        if self.optimizer is not None:
            return self.optimizer
        optimizer = super().create_optimizer(model)
        if tells_two_kinds(self.args):
            groups = optimizer.param_groups
            rate = self.args.local_learning_rate
            groups[:] = split_parameter_groups(groups, pretrained_parameters(model or self.model), rate)
        steps = getattr(self.args, "lookahead_steps", None)
        counts: Counter[float] = Counter()
        for group in optimizer.param_groups:
            counts[group["lr"]] += sum(parameter.numel() for parameter in group["params"])
        rates = " and ".join(f"{count:,} parameters at {rate:g}" for rate, count in counts.items() if count)
        logger.info("Training %s%s.", rates, f", Lookahead every {steps} steps" if steps else "")
        if steps is not None:
            optimizer = self.optimizer = with_lookahead(optimizer, steps, self.args.lookahead_alpha)
        return optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> Any:
        """Create Trainer's schedule, with `frozen_steps` at its beginning."""
        is_new = self.lr_scheduler is None
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        frozen_steps = getattr(self.args, "frozen_steps", None)
        if is_new and frozen_steps is not None:
            warmup_steps = self.args.get_warmup_steps(num_training_steps)
            begin_frozen(scheduler, frozen_steps, warmup_steps, num_training_steps)
        return scheduler

    def create_model_card(
        self, language: str | None = None, license: str | None = None, *args: Any, **kwargs: Any
    ) -> None:
        """Write the model card to the output folder. `*args` and `**kwargs` are ignored."""
        if self.is_world_process_zero():
            write_card(self.args.output_dir, overwrite=None, language=language, license=license)

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        private: bool | None = None,
        **kwargs: Any,
    ) -> CommitInfo | None:
        """Save the model with its card and upload it, as `push_checkpoint` does.

        The call always waits for the upload, because the card names the uploaded commit.

        Returns:
            The commit, or None in processes other than the main one.

        Raises:
            OSError: The Hub cannot be reached or rejects the upload. The output folder is complete.
        """
        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        token = token or self.args.hub_token
        if self.hub_model_id is None:
            self.init_hf_repo(token=token, private=private)
        self.save_model()
        if not self.is_world_process_zero():
            return None
        if self.push_in_progress is not None:
            self.push_in_progress.wait_until_done()
        metadata = {name: kwargs.get(name) for name in ("language", "license")}
        self.create_model_card(**metadata)  # before the upload, because the upload may fail
        commit = push_checkpoint(
            self.args.output_dir,
            str(self.hub_model_id),
            branch=revision or self.args.hub_revision,
            message=commit_message,
            token=token,
            **metadata,
        )
        logger.info("Uploaded to %s as commit %s.", self.hub_model_id, commit.oid)
        return commit

    def init_hf_repo(self, *args: Any, **kwargs: Any) -> None:
        """Create the repository on the Hub.

        Raises:
            OSError: The Hub cannot be reached or rejects the request.
        """
        name = self.args.hub_model_id or Path(self.args.output_dir).absolute().name
        with hub_upload_errors(f"create the repository {name!r}", "The output folder is unchanged."):
            super().init_hf_repo(*args, **kwargs)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        # Trainer's method uploads the output folder without the model code and with pickled arguments.
        args = self.args
        if not self.is_world_process_zero() or args.hub_strategy == HubStrategy.END:
            return
        if not args.hub_always_push and self.push_in_progress is not None and not self.push_in_progress.is_done():
            return
        self.callback_handler.on_push_begin(args, self.state, self.control)
        time = f"epoch {int(self.state.epoch)}"
        if args.save_strategy == SaveStrategy.STEPS:
            time = f"step {self.state.global_step}"
        message = f"Training in progress, {time}"
        folder = Path(checkpoint_folder)
        options: dict[str, Any] = {
            "repo_id": self.hub_model_id,
            "token": args.hub_token,
            "revision": args.hub_revision,
        }
        jobs = [upload_in_background(folder, commit_message=message, **options)]
        if args.hub_strategy in (HubStrategy.CHECKPOINT, HubStrategy.ALL_CHECKPOINTS):
            is_last = args.hub_strategy == HubStrategy.CHECKPOINT
            options["path_in_repo"] = "last-checkpoint" if is_last else folder.name
            jobs.append(upload_in_background(folder, commit_message=f"{message}, checkpoint", **options))
        for job in jobs:
            job.add_done_callback(_warn_of_failure)
        if self.push_in_progress is None or self.push_in_progress.is_done():
            self.push_in_progress = PushInProgress(jobs)
        else:
            self.push_in_progress.jobs.extend(jobs)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> torch.utils.data.DataLoader:
        """Return the batches of a data set, of all rows in their order, to which predictions are matched."""
        return super(LocalAttentionTrainer, self._for_all_rows()).get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> torch.utils.data.DataLoader:
        """Return the batches of a data set, of all rows in their order."""
        return super(LocalAttentionTrainer, self._for_all_rows()).get_test_dataloader(test_dataset)

    def _for_all_rows(self) -> LocalAttentionTrainer:
        """Return a trainer with the same model, whose arguments leave out no row and keep the order."""
        trainer = copy.copy(self)
        trainer.args = changed(
            self.args,
            dataloader_drop_last=False,
            dataloader_in_order=True,
            dataloader_persistent_workers=False,  # the batches serve one evaluation
            train_sampling_strategy="random",  # evaluation rows would be sorted, too
        )
        return trainer


def _completed(args: Any, model: Any) -> Any:
    """Return a copy of training arguments with the score that selects the best model, and what a model allows."""
    values: dict[str, Any] = {}
    metric = args.metric_for_best_model
    if metric is None and selects_best(args):
        metric = values["metric_for_best_model"] = "loss"  # the scripts set the metric to a score of the task
    if metric is not None and args.greater_is_better is None:
        values["greater_is_better"] = not metric.endswith("loss")  # as in transformers
    if getattr(args, "ddp_find_unused_parameters", False) is None and hasattr(model, "new_modules"):
        values["ddp_find_unused_parameters"] = False  # every trainable parameter of our models gets a gradient
    return changed(args, **values)


def _warn_of_failure(upload: Future[CommitInfo]) -> None:
    if error := upload.exception():
        logger.warning("A checkpoint was not uploaded during training: %s", error)


class TaskTrainer(LocalAttentionTrainer):
    """Trainer of a run, whose evaluations have the scores of a task.

    The prefix of the metrics names the split: "eval" stands for "validation", "predict" for "test". The predictions
    that `predict` returns are a `hf_localattn.tasks.Scored`, or None if only the loss is evaluated.

    Args:
        evaluation: How outputs become scores.
        args: The training arguments.
        **kwargs: Further arguments of `Trainer`.
    """

    def __init__(self, evaluation: Evaluation, args: TrainingArguments, **kwargs: Any) -> None:
        self.evaluation = evaluation
        args = changed(
            args,
            remove_unused_columns=True,  # other columns of features are for the scores
            # The task scores all rows at once. Trainer's `compute_metrics`, which these three are for, is not used.
            eval_do_concat_batches=True,
            batch_eval_metrics=False,
            include_for_metrics=[],
        )
        super().__init__(args=args, **kwargs)

    def evaluation_loop(
        self,
        dataloader: torch.utils.data.DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Run the model on the features of a split, and add the scores of the task, which callbacks can then read.

        The loss is that of the model, without the weights of classes and the smoothing of a training: later commands
        report the same.
        """
        loss_only = is_loss_only(self.args)
        of_training = self.compute_loss_func, self.label_smoother
        self.compute_loss_func = self.label_smoother = None
        try:
            output = super().evaluation_loop(dataloader, description, loss_only, ignore_keys, metric_key_prefix)
        finally:
            self.compute_loss_func, self.label_smoother = of_training
        if loss_only:
            return output._replace(predictions=None)
        split = self.evaluation.splits[split_of(metric_key_prefix)]
        scored = self.evaluation.score(split, output.predictions, self.model)
        scores = {f"{metric_key_prefix}_{name}": value for name, value in scored.scores.items()}
        return output._replace(predictions=scored, metrics={**output.metrics, **scores})

    def prediction_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Any, Any, Any]:
        """Keep only the outputs that the task scores."""
        inputs = {name: value for name, value in inputs.items() if value is not None}  # texts without labels
        inputs = self.with_states(inputs)
        loss, outputs, labels = super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        if outputs is None:
            return loss, None, labels
        return loss, self.evaluation.keep(outputs, inputs.get("attention_mask")), labels


class GenerationTrainer(TaskTrainer, Seq2SeqTrainer):
    """`TaskTrainer` that generates texts, as transformers' `Seq2SeqTrainer` does."""

    def evaluation_loop(self, *arguments: Any, **settings: Any) -> EvalLoopOutput:
        """Run the model on each row once.

        `Seq2SeqTrainer` would also keep the rows that fill the last batches of several processes.
        """
        self.gather_function = self.accelerator.gather_for_metrics
        return super().evaluation_loop(*arguments, **settings)
