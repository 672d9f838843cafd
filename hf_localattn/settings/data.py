"""Options that choose the data of a run, for each task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hf_localattn.names import find_files
from hf_localattn.settings.documented import documented

if TYPE_CHECKING:
    from hf_localattn.data.texts import TextColumns

GLUE = "nyu-mll/glue"

NEGATION = "negation"
"""Value of `task_name` for `hf_localattn.tasks.negation`."""

COLUMN_OPTIONS = (
    "text_column_names",
    "text_column_name",
    "label_column_name",
    "label_column_index",
    "conllu_column",
    "context_column_name",
    "question_column_name",
    "choices_column_name",
)
"""Options that name columns of the data, None by default. They are recorded with the model, for later predictions."""

OF_NEGATION = ("cues", "cue_in_scope", "unmatched_scopes", "detect_cues", "convention")
"""Options that only `--task negation` has."""

NOT_OF_NEGATION = ("text_column_name", "label_column_name", "label_names_file", "return_entity_level_metrics")
"""Options that `--task negation` does not have."""


@documented
@dataclass
class DataArguments:
    """Data files or data set of a run, and limits on their rows and lengths.

    A file may be `sample:NAME`, one of the small files of the package.

    Args:
        dataset_name: Name of a data set on the Hub, which must load without a script.
        dataset_config_name: Configuration name of the data set on the Hub.
        train_file: Local file with training data.
        validation_file: Local file with evaluation data.
        test_file: Local file with data to predict on; labels are not needed.
        overwrite_cache: Overwrite cached features.
        preprocessing_num_workers: Number of processes for preprocessing.
        max_seq_length: Maximum number of input tokens, with special tokens; longer inputs are cut.
        pad_to_max_length: Pad all inputs to max_seq_length, not to the longest in the batch: for TPUs; slower
            elsewhere.
        skip_empty: Leave out rows with an empty text (question, context, sentence, choice) instead of raising an
            error, and log their number. Predictions keep the index of each row in its file.
        metric: Further metric to report: one of hf_localattn.metrics that suits the task, or a module of evaluate by
            its name on the Hub or its path, whose code is executed. If it selects the best model and lower is better,
            also give --greater_is_better false.
        max_train_samples: Maximum number of training rows.
        draw_train_samples: Draw the --max_train_samples rows at random, by --seed, instead of using the first ones. A
            larger number with the same seed adds rows to those of a smaller one.
        max_eval_samples: Maximum number of evaluation rows.
        max_predict_samples: Maximum number of rows to predict on.
        streaming: Read the training rows while the model is trained, and keep none of them: for data sets that do not
            fit into memory or on the disk. Needs --max_steps. Files must be .jsonl.
        num_folds: Number of folds for cross-validation. The runs write to OUTPUT_DIR/fold-1 and so on, and each is
            tested on another part of the training data; mean and deviation of the scores are reported. All runs use
            the --test_file or --validation_file, if given.
        fold: Run only this fold of --num_folds, from 1, such as one task of a SLURM array. When all are finished, the
            same command without --fold reports mean and deviation.

    Raises:
        ValueError: There are no data, or options contradict each other.
        FileNotFoundError: There is no sample of this name.
    """

    dataset_name: str | None = None
    dataset_config_name: str | None = None
    train_file: str | None = None
    validation_file: str | None = None
    test_file: str | None = None
    overwrite_cache: bool = False
    preprocessing_num_workers: int | None = None
    max_seq_length: int = 128
    pad_to_max_length: bool = False
    skip_empty: bool = False
    metric: str | None = None
    max_train_samples: int | None = None
    draw_train_samples: bool = False
    max_eval_samples: int | None = None
    max_predict_samples: int | None = None
    streaming: bool = False
    num_folds: int | None = None
    fold: int | None = None
    held_out: Any = field(default=None, init=False)  # not an option: the `Fold` whose data this run has

    def __post_init__(self) -> None:
        for name, path in self.files.items():
            if path is not None and "sample:" in path:
                setattr(self, f"{name}_file", find_files(path))
        has_files = any(self.files.values())
        if self.dataset_name is None and not has_files:
            raise ValueError("No data: give --dataset_name, or --train_file, --validation_file or --test_file.")
        if self.dataset_name is not None and has_files:
            raise ValueError("Give either --dataset_name or files, not both.")
        for name in ("max_train_samples", "max_eval_samples", "max_predict_samples", "max_seq_length"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"--{name} must be at least 1; got {value}.")
        if self.draw_train_samples and self.max_train_samples is None:
            raise ValueError("--draw_train_samples needs --max_train_samples: it draws that many of all rows.")
        if self.fold is not None and not 1 <= self.fold <= (self.num_folds or 0):
            raise ValueError(f"--fold {self.fold} is not one of {self.num_folds or 'no'} folds: see --num_folds.")
        if self.num_folds is not None and self.num_folds < 2:
            raise ValueError(f"--num_folds must be at least 2; got {self.num_folds}.")
        if self.streaming and (self.num_folds is not None or self.draw_train_samples):
            raise ValueError(
                "--streaming cannot be used with --num_folds or --draw_train_samples, which need all rows."
            )

    @property
    def files(self) -> dict[str, str | None]:
        """File of each part of the data, or None."""
        return {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}

    def name_of(self, split: str) -> str:
        """Return the file of a split, or a name of its rows if they are of another file or a data set."""
        return self.files.get(split) or f"{split} rows"


@documented
@dataclass
class TextClassificationDataArguments(DataArguments):
    """Data arguments for text classification.

    Files are `.csv`, `.tsv`, `.json` or `.jsonl`.

    Args:
        task_name: GLUE task, from the Hub or from files with its columns: cola, mnli, mrpc, qnli, qqp, rte, sst2,
            stsb, wnli.
        text_column_names: Column of the texts, or two columns separated by a comma; by default common names are tried.
        label_column_name: Column of the labels; default: label.
        label_names_file: .json file with a list of all class names, or an object with such a list per column; labels
            may be its indices, or lists with a 0 or 1 for each class.
        metric_name: Metric that selects the best model, reported with the usual ones: accuracy, f1, macro_f1,
            micro_f1, subset_accuracy, matthews_correlation, pearson, spearmanr, mse, rmse.
        do_regression: Read labels as scores if true, as classes if false. By default they are scores if they have a
            decimal point.
        class_weights: Weights of classes in the loss: balanced (inversely proportional to their numbers of rows), or
            entries such as spam=2.5; other classes have the weight 1.
        temperature_scaling: After training, divide the logits by the temperature that suits the validation rows best
            (Guo et al. 2017), in the last layer of the model, so that its probabilities are calibrated wherever it is
            loaded. The expected calibration error is reported before and after.
        skip_unlabeled: Leave out training and evaluation rows without a label instead of raising an error.
    """

    task_name: str | None = None
    text_column_names: str | None = None
    label_column_name: str | None = None
    label_names_file: str | None = None
    metric_name: str | None = None
    do_regression: bool | None = None
    class_weights: list[str] = field(default_factory=list)
    temperature_scaling: bool = False
    skip_unlabeled: bool = field(default=False, metadata={"aliases": ["--skip_unlabelled"]})

    def __post_init__(self) -> None:
        if self.task_name is not None:
            from hf_localattn.data.texts import GLUE_TASKS

            self.task_name = self.task_name.lower()
            if self.task_name not in GLUE_TASKS:
                raise ValueError(
                    f"--task_name must be one of {', '.join(GLUE_TASKS)}; got {self.task_name!r}."
                    " For other data leave it out, and give --dataset_name or files."
                )
            for name in ("do_regression", "label_names_file"):
                if getattr(self, name) is not None:
                    raise ValueError(f"--{name} cannot be used with --task_name, which sets the labels.")
            if self.dataset_name is None and not any(self.files.values()):
                self.dataset_name = GLUE
                self.dataset_config_name = self.task_name
        super().__post_init__()
        if len(self.layout.texts) > 2:
            raise ValueError(f"--text_column_names takes one column, or two; got {self.text_column_names!r}.")
        if self.do_regression and self.label_names_file is not None:
            raise ValueError("--label_names_file names classes, but --do_regression true reads scores: omit one.")
        if self.streaming and self.skip_unlabeled:
            raise ValueError("--streaming cannot be used with --skip_unlabeled: leave out such rows in the file.")

    @property
    def layout(self) -> TextColumns:
        """Column names, and the problem type if the arguments determine it."""
        from hf_localattn.data.labels import REGRESSION, SINGLE_LABEL  # brings datasets and torch
        from hf_localattn.data.texts import GLUE_TASKS, TextColumns

        layout = GLUE_TASKS[self.task_name] if self.task_name is not None else TextColumns()
        if self.do_regression is not None:
            layout = replace(layout, problem_type=REGRESSION if self.do_regression else SINGLE_LABEL)
        if self.text_column_names is not None:
            layout = replace(layout, texts=tuple(name.strip() for name in self.text_column_names.split(",")))
        return replace(layout, label=self.label_column_name or layout.label, skip_unlabeled=self.skip_unlabeled)


@documented
@dataclass
class TokenClassificationDataArguments(DataArguments):
    """Data arguments for token classification.

    Files are `.json` or `.jsonl` (rows with lists), `.conllu`, `.xml` (CGED), or column files (`.conll`, `.txt`,
    `.tsv`, `.bio`, `.iob`).

    Args:
        task_name: Labels are in the column <task_name>_tags, such as ner, pos or chunk. With negation, the words in
            the scope of a given cue are found; data with part-of-speech tags also get the scores of *SEM 2012.
        text_column_name: Column with the lists of words; default: tokens.
        label_column_name: Column with the lists of labels; default: <task_name>_tags, or labels.
        label_column_index: Index of the labels' column in a column file; default: the last one.
        conllu_column: Column with the labels in a CoNLL-U file: upos or xpos; default: upos.
        label_names_file: .json file with a list of all labels, or an object with such a list per column; labels may be
            its indices.
        label_all_tokens: Train on all tokens of a word (with I- instead of B- after the first), not only on the first
            one.
        return_entity_level_metrics: Report precision, recall and F1 of each type of entity, or of each label, in
            addition to the overall ones.
        cues: With --task negation: kind of cues, negation or speculation or both.
        detect_cues: With --task negation: train one model that finds the cues of a sentence, too, not only their
            scopes.
        cue_in_scope: With --task negation: never removes the cue's words from its scope; corpus keeps the scope.
        unmatched_scopes: With --task negation: scopes without a cue raise an error, or are dropped with a warning
            (skip).
        convention: With --task negation: convention of predicted cues and scopes, stories (as the model predicts) or
            papers or reviews or notes.
    """

    task_name: str = field(default="ner", metadata={"aliases": ["--task"]})
    text_column_name: str | None = None
    label_column_name: str | None = None
    label_column_index: int | None = None
    conllu_column: str | None = None
    label_names_file: str | None = None
    label_all_tokens: bool = False
    return_entity_level_metrics: bool = False
    cues: str = "negation"
    detect_cues: bool = False
    cue_in_scope: str = "never"
    unmatched_scopes: str = "error"
    convention: str = "stories"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in NOT_OF_NEGATION if self.task_name == NEGATION else OF_NEGATION:
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise ValueError(f"--{name} cannot be used with --task {self.task_name}: leave it out.")
        if self.detect_cues and self.draw_train_samples:
            raise ValueError("--draw_train_samples cannot be used with --detect_cues: it draws parts of sentences.")


@documented
@dataclass
class QuestionAnsweringDataArguments(DataArguments):
    """Data arguments for extractive question answering.

    Files are `.json` (SQuAD's format, or rows) or `.jsonl`; data sets on the Hub have SQuAD's columns.

    Args:
        max_seq_length: Number of tokens of a window: question, passage and special tokens.
        pad_to_max_length: Pad all windows to max_seq_length; if false, to the longest in the batch (faster except on
            TPUs).
        version_2_with_negative: Some questions have no answer (SQuAD 2.0).
        null_score_diff_threshold: Predict 'no answer' if its score exceeds that of the best answer by more than this
            (SQuAD 2.0).
        doc_stride: Number of tokens by which the windows of a long passage overlap.
        n_best_size: Number of start and end positions combined, and of answers kept, per question.
        max_answer_length: Maximum number of tokens of an answer.
    """

    max_seq_length: int = 384
    pad_to_max_length: bool = True
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0
    doc_stride: int = 128
    n_best_size: int = 20
    max_answer_length: int = 30


@documented
@dataclass
class QuestionGenerationDataArguments(DataArguments):
    """Data arguments for question generation.

    Files are `.json` (SQuAD's format, or rows) or `.jsonl`; data sets on the Hub have SQuAD's columns. Rows to predict
    on need answers, but no questions.

    Args:
        max_source_length: Maximum number of tokens of answer and passage; a longer passage is cut to the part around
            the answer.
        max_target_length: Maximum number of tokens of a training question; longer ones are cut.
        val_max_target_length: Maximum number of tokens of evaluation and generated questions; default:
            max_target_length.
        pad_to_max_length: Pad inputs and questions to these lengths instead of the longest in the batch; for TPUs,
            slower elsewhere.
        num_beams: Number of beams for generation; overrides --generation_num_beams.
        ignore_pad_token_for_loss: Ignore the padding of questions in the loss.
    """

    max_seq_length: int = field(default=384, init=False)  # not an option: source and target have separate lengths
    max_source_length: int = 384
    max_target_length: int = 64
    val_max_target_length: int | None = None
    pad_to_max_length: bool = False
    num_beams: int | None = None
    ignore_pad_token_for_loss: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.val_max_target_length = self.val_max_target_length or self.max_target_length


@documented
@dataclass
class MultipleChoiceDataArguments(DataArguments):
    """Data arguments for multiple choice.

    Files are `.csv`, `.tsv`, `.json` or `.jsonl`. Rows have a list of choices, or SWAG's columns. Without files and
    data set, SWAG is loaded from the Hub.

    Args:
        context_column_name: Column with the text that the choices refer to or continue; default: context.
        question_column_name: Column with the question, if there is one; default: question.
        choices_column_name: Column with the lists of choices, not needed for SWAG; default: choices.
        label_column_name: Column with the right choice, its index, counted from 0, its letter, its name or its text;
            default: label.
    """

    context_column_name: str | None = None
    question_column_name: str | None = None
    choices_column_name: str | None = None
    label_column_name: str | None = None

    def __post_init__(self) -> None:
        if self.dataset_name is None and not any(self.files.values()):
            self.dataset_name = "allenai/swag"
            self.dataset_config_name = "regular"
        super().__post_init__()


DATA_ARGUMENTS: dict[str, type[DataArguments]] = {
    "glue": TextClassificationDataArguments,
    "ner": TokenClassificationDataArguments,
    "qa": QuestionAnsweringDataArguments,
    "qg": QuestionGenerationDataArguments,
    "swag": MultipleChoiceDataArguments,
}
"""Data arguments of each training script, a key of `hf_localattn.names.SCRIPTS`."""
