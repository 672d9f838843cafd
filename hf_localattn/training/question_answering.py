"""Fine-tuning and evaluating extractive question answering, chapter by chapter."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerState,
    set_seed,
)

from hf_localattn.data.qa_answers import AnswerSettings
from hf_localattn.data.qa_windows import (
    QuestionAnsweringCollator,
    check_window_settings,
    evaluation_features,
    train_features,
)
from hf_localattn.data.squad import check_squad, count_unanswerable, load_squad
from hf_localattn.errors import loading
from hf_localattn.families import FAMILIES, parse_config_fields
from hf_localattn.inference import longest_input
from hf_localattn.pretrained import load_tokenizer, resolve_backbone
from hf_localattn.training.arguments import (
    PLAIN,
    ModelArguments,
    QuestionAnsweringDataArguments,
    TrainingArguments,
)
from hf_localattn.training.output_folder import STATE, check_same_model, prepare_output_folder, steps_done
from hf_localattn.training.parameter_groups import backbone_of
from hf_localattn.training.trainer import QuestionAnsweringTrainer

logger = logging.getLogger(__name__)

Data = dict[str, datasets.Dataset]

BEST_METRICS = {
    False: ("f1", "exact_match"),
    True: ("f1", "exact", "HasAns_f1", "HasAns_exact", "best_f1", "best_exact"),
}


def run_question_answering(
    model_args: ModelArguments, data_args: QuestionAnsweringDataArguments, training_args: TrainingArguments
) -> dict[str, float]:
    """Does what the arguments ask for, as `run_qa.py` does, and returns all metrics.

    Raises:
        ValueError, OSError: before anything is trained, if arguments, data or model cannot be used.
    """
    trainer, data = prepare(model_args, data_args, training_args)
    metrics = train(trainer) | evaluate(trainer) | predict(trainer, data)
    share(trainer, model_args, data_args)
    return metrics


def prepare(
    model_args: ModelArguments, data_args: QuestionAnsweringDataArguments, training_args: TrainingArguments
) -> tuple[QuestionAnsweringTrainer, Data]:
    """Returns a trainer that is ready to go, and the questions by split; everything that can be checked has been."""
    check_arguments(data_args, training_args)
    if training_args.do_train:
        training_args.resume_from_checkpoint = prepare_output_folder(
            training_args.output_dir, training_args.resume_from_checkpoint
        )
    data = load_data(model_args, data_args, training_args)
    set_seed(training_args.seed)  # before the model: its new layers are random
    model, tokenizer = load_model_and_tokenizer(model_args)
    if training_args.do_train and training_args.resume_from_checkpoint:
        check_same_model(training_args.resume_from_checkpoint, model)
    if training_args.local_learning_rate is not None:
        backbone_of(model)
    features = prepare_features(data, model, tokenizer, data_args, training_args)
    if training_args.device.type == "cpu":
        training_args.dataloader_pin_memory = False  # pinning serves an accelerator; without one it only warns
    trainer = QuestionAnsweringTrainer(
        model=model,
        args=training_args,
        train_dataset=features.get("train"),
        eval_dataset=features.get("validation"),
        eval_examples=data.get("validation"),
        processing_class=tokenizer,
        data_collator=QuestionAnsweringCollator(
            tokenizer,
            max_length=window_length(model, tokenizer, data_args) if data_args.pad_to_max_length else None,
            pad_to_multiple_of=8 if training_args.fp16 or training_args.bf16 else None,
        ),
        answer_settings=AnswerSettings(
            n_best_size=data_args.n_best_size,
            max_answer_length=data_args.max_answer_length,
            handle_no_answer=data_args.version_2_with_negative,
            null_score_diff_threshold=data_args.null_score_diff_threshold,
        ),
    )
    return trainer, {**data, **{f"{split}_features": windows for split, windows in features.items()}}


def check_arguments(data_args: QuestionAnsweringDataArguments, training_args: TrainingArguments) -> None:
    """Makes sure that there is something to do, and that the best model can be told by a metric that there is.

    `--load_best_model_at_end` alone, which for Trainer means the loss, here means F1: windows are evaluated without.
    """
    if not (training_args.do_train or training_args.do_eval or training_args.do_predict):
        raise ValueError("Nothing to do: give at least one of --do_train, --do_eval and --do_predict.")
    known = BEST_METRICS[data_args.version_2_with_negative]
    metric = training_args.metric_for_best_model
    if metric == "loss":
        logger.warning("The best model is the one with the highest F1.")
        training_args.metric_for_best_model, training_args.greater_is_better = "f1", True
    elif metric is not None and metric.removeprefix("eval_") not in known:
        raise ValueError(f"--metric_for_best_model must be one of {', '.join(known)}; got {metric!r}.")


def load_data(
    model_args: ModelArguments, data_args: QuestionAnsweringDataArguments, training_args: TrainingArguments
) -> Data:
    """Returns the questions of the splits that are needed (train, validation, test), checked, no more than asked."""
    needed = {
        "train": (training_args.do_train, data_args.train_file, data_args.max_train_samples, "--do_train"),
        "validation": (training_args.do_eval, data_args.validation_file, data_args.max_eval_samples, "--do_eval"),
        "test": (training_args.do_predict, data_args.test_file, data_args.max_predict_samples, "--do_predict"),
    }
    hub: Mapping[str, datasets.Dataset] = {}
    if data_args.dataset_name is not None:
        with loading("data set", data_args.dataset_name):
            hub = datasets.load_dataset(
                data_args.dataset_name,
                data_args.dataset_config_name,
                cache_dir=model_args.cache_dir,
                token=model_args.token,
            )
    data: Data = {}
    for split, (wanted, file, limit, option) in needed.items():
        if not wanted:
            continue
        labelled = split != "test"
        if file is not None:
            questions = load_squad(file, require_answers=labelled)
        elif split in hub:
            name = f"{data_args.dataset_name} ({split})"
            rows = hub[split] if limit is None else hub[split].select(range(min(limit, len(hub[split]))))
            questions = check_squad(rows, name, require_answers=labelled)
        else:
            instead = f"the data set has {', '.join(hub)}" if hub else f"give --{split}_file"
            raise ValueError(f"{option} needs {split} data: {instead}.")
        data[split] = questions if limit is None else questions.select(range(min(limit, len(questions))))
        unanswerable = count_unanswerable(data[split])
        if labelled and unanswerable and not data_args.version_2_with_negative:
            raise ValueError(
                f"{unanswerable} of {len(data[split])} {split} questions have no answer: pass"
                " --version_2_with_negative (SQuAD 2.0), or remove them."
            )
    return data


def load_model_and_tokenizer(model_args: ModelArguments) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Returns the model in fp32, with fresh layers where the checkpoint has none for them, and its fast tokenizer."""
    hub: dict[str, Any] = {
        "cache_dir": model_args.cache_dir,
        "revision": model_args.model_revision,
        "token": model_args.token,
    }
    trust = {"trust_remote_code": model_args.trust_remote_code}
    source = resolve_backbone(model_args.source)
    tokenizer = load_tokenizer(model_args.tokenizer_name or source, **hub, **trust)
    if model_args.family in (None, PLAIN):
        with loading("config", model_args.config_name or source):
            config = AutoConfig.from_pretrained(model_args.config_name or source, **hub, **trust)
        with loading("model", source):
            model = AutoModelForQuestionAnswering.from_pretrained(
                source, config=config, dtype=torch.float32, **hub, **trust
            )
    else:
        assert model_args.family is not None
        fields = parse_config_fields(model_args.family, model_args.local_config)
        head = FAMILIES[model_args.family].heads["question-answering"]
        with loading("backbone", source):
            model = head.from_backbone(source, **hub, **fields)
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ValueError(
            f"The tokenizer knows {len(tokenizer)} tokens, but the model only {rows}: they do not belong together;"
            " check --tokenizer_name."
        )
    return model.to(torch.float32), tokenizer


def window_length(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data_args: QuestionAnsweringDataArguments
) -> int:
    """Returns max_seq_length, cut to what model and tokenizer can take."""
    limit = longest_input(model, tokenizer)
    return data_args.max_seq_length if limit is None else min(data_args.max_seq_length, limit)


def prepare_features(
    data: Data,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    data_args: QuestionAnsweringDataArguments,
    training_args: TrainingArguments,
) -> Data:
    """Returns the questions and passages of every split as windows of tokens."""
    max_length = window_length(model, tokenizer, data_args)
    if max_length < data_args.max_seq_length:
        logger.warning(
            "max_seq_length %d is more than the model takes: using %d.", data_args.max_seq_length, max_length
        )
    check_window_settings(tokenizer, max_length, data_args.doc_stride)
    features: Data = {}
    for split, questions in data.items():
        with training_args.main_process_first(desc=f"{split} features"):
            features[split] = questions.map(
                train_features if split == "train" else evaluation_features,
                fn_kwargs={"tokenizer": tokenizer, "max_length": max_length, "doc_stride": data_args.doc_stride},
                batched=True,
                num_proc=data_args.preprocessing_num_workers,
                remove_columns=questions.column_names,
                load_from_cache_file=not data_args.overwrite_cache,
                desc=f"Preparing {split} windows",
            )
    return features


def train(trainer: QuestionAnsweringTrainer) -> dict[str, float]:
    """Trains if asked to, from the checkpoint that `prepare` found, and saves model, tokenizer and state."""
    if not trainer.args.do_train:
        return {}
    checkpoint = trainer.args.resume_from_checkpoint
    if checkpoint and 0 < trainer.args.max_steps <= steps_done(checkpoint):
        # Killed between its last checkpoint and its final save: Trainer would train one step too many.
        logger.warning("%s has all %d steps: nothing is left to train.", checkpoint, trainer.args.max_steps)
        trainer._load_from_checkpoint(checkpoint)
        trainer.state = TrainerState.load_from_json(str(Path(checkpoint) / STATE))
        trainer.save_model()
        trainer.save_state()
        return {}
    result = trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model()
    metrics = {**result.metrics, "train_samples": len(trainer.train_dataset)}
    _report(trainer, "train", metrics)
    trainer.save_state()  # last: its file says that the run is finished
    return metrics


def evaluate(trainer: QuestionAnsweringTrainer) -> dict[str, float]:
    """Evaluates if asked to; metrics begin with `eval_`."""
    if not trainer.args.do_eval:
        return {}
    metrics = {**trainer.evaluate(), "eval_samples": len(trainer.eval_examples or ())}
    _report(trainer, "eval", metrics)
    return metrics


def predict(trainer: QuestionAnsweringTrainer, data: Data) -> dict[str, float]:
    """Writes the answers to the test questions if asked to; metrics begin with `predict_`."""
    if not trainer.args.do_predict:
        return {}
    output = trainer.predict(data["test_features"], data["test"], metric_key_prefix="predict")
    metrics = {**output.metrics, "predict_samples": len(data["test"])}
    _report(trainer, "predict", metrics)
    return metrics


def share(
    trainer: QuestionAnsweringTrainer, model_args: ModelArguments, data_args: QuestionAnsweringDataArguments
) -> None:
    """Writes the model card and, with `--push_to_hub`, uploads model, tokenizer, code and card."""
    card: dict[str, Any] = {"tasks": "question-answering"}
    if not Path(model_args.source).exists():  # a folder of this machine means nothing to others
        card["finetuned_from"] = model_args.source
    if data_args.dataset_name is not None:
        card |= {"dataset_tags": data_args.dataset_name, "dataset": data_args.dataset_name}
    if trainer.args.push_to_hub:
        trainer.push_to_hub(**card)
    elif trainer.args.do_train:
        trainer.create_model_card(**card)


def _report(trainer: QuestionAnsweringTrainer, stage: str, metrics: dict[str, float]) -> None:
    trainer.log_metrics(stage, metrics)
    trainer.save_metrics(stage, metrics)  # also into all_results.json
