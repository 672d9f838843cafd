"""Options that choose the data of a run, for each task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field, PositiveInt

from hf_localattn.names import find_files
from hf_localattn.settings.columns import (
    GLUE_TASKS,
    REGRESSION,
    SINGLE_LABEL,
    ChoiceColumns,
    NegationCorpus,
    TextColumns,
    TokenColumns,
)
from hf_localattn.settings.option import (
    FREE,
    GROWS,
    check_values,
    declared,
    group,
    option,
    options_of,
    values_of,
)

GLUE = "nyu-mll/glue"

NEGATION = "negation"
"""Value of `task_name` for `hf_localattn.tasks.negation`."""

SPLITS = ("train", "validation", "test")
"""Parts of the data."""


@declared
@dataclass
class DataArguments:
    """Data files or data set of a run, and limits on their rows and lengths.

    A file may be `sample:NAME`, one of the small files of the package. `held_out` is the `Fold` whose data a run has.

    Raises:
        ValueError: There are no data, or options contradict each other.
        FileNotFoundError: There is no sample of this name.
    """

    dataset_name: str | None = option(
        None, "Name of a data set on the Hub, which must load without a script.", planned=True
    )
    dataset_config_name: str | None = option(None, "Configuration name of the data set on the Hub.", planned=True)
    # digests tell if the rows of files are others
    train_file: str | None = option(None, "Local file with training data.", result=FREE, planned=True)
    validation_file: str | None = option(None, "Local file with evaluation data.", result=FREE, planned=True)
    test_file: str | None = option(
        None, "Local file with data to predict on; labels are not needed.", result=FREE, planned=True
    )
    overwrite_cache: bool = option(False, "Overwrite cached features.", result=FREE)
    preprocessing_num_workers: PositiveInt | None = option(None, "Number of processes for preprocessing.", result=FREE)
    max_seq_length: PositiveInt = option(
        128,
        "Maximum number of input tokens, with special tokens; longer inputs are cut.",
        recorded=True,
    )
    pad_to_max_length: bool = option(
        False, "Pad all inputs to max_seq_length, not to the longest in the batch: for TPUs; slower elsewhere."
    )
    skip_empty: bool = option(
        False,
        "Leave out rows with an empty text (question, context, sentence, choice) instead of raising an error, and log"
        " their number. Predictions keep the index of each row in its file.",
    )
    metric: str | None = option(
        None,
        "Further metric to report: one of hf_localattn.metrics that suits the task, or a module of evaluate by its"
        " name on the Hub or its path, whose code is executed. If it selects the best model and lower is better, also"
        " give --greater_is_better false.",
    )
    max_train_samples: PositiveInt | None = option(None, "Maximum number of training rows.")
    draw_train_samples: bool = option(
        False,
        "Draw the --max_train_samples rows at random, by --seed, instead of using the first ones. A larger number with"
        " the same seed adds rows to those of a smaller one.",
    )
    max_eval_samples: PositiveInt | None = option(None, "Maximum number of evaluation rows.")
    max_predict_samples: PositiveInt | None = option(None, "Maximum number of rows to predict on.")
    streaming: bool = option(
        False,
        "Read the training rows while the model is trained, and keep none of them: for data sets that do not fit into"
        " memory or on the disk. Needs --max_steps. Files must be .jsonl.",
        planned=True,
    )
    num_folds: Annotated[int, Field(ge=2)] | None = option(
        None,
        "Number of folds for cross-validation. The runs write to OUTPUT_DIR/fold-1 and so on, and each is tested on"
        " another part of the training data; mean and deviation of the scores are reported. All runs use the"
        " --test_file or --validation_file, if given.",
        planned=True,
    )
    fold: int | None = option(
        None,
        "Run only this fold of --num_folds, from 1, such as one task of a SLURM array. When all are finished, the same"
        " command without --fold reports mean and deviation.",
        result=GROWS,
        planned=True,
    )
    held_out: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        for split, path in self.files.items():
            if path is not None and "sample:" in path:
                setattr(self, f"{split}_file", find_files(path))
        has_files = any(self.files.values())
        if self.dataset_name is None and not has_files:
            raise ValueError("No data: give --dataset_name, or --train_file, --validation_file or --test_file.")
        if self.dataset_name is not None and has_files:
            raise ValueError("Give either --dataset_name or files, not both.")
        check_values(self)
        if self.draw_train_samples and self.max_train_samples is None:
            raise ValueError("--draw_train_samples needs --max_train_samples: it draws that many of all rows.")
        if self.fold is not None and not 1 <= self.fold <= (self.num_folds or 0):
            raise ValueError(f"--fold {self.fold} is not one of {self.num_folds or 'no'} folds: see --num_folds.")
        if self.streaming and (self.num_folds is not None or self.draw_train_samples):
            raise ValueError(
                "--streaming cannot be used with --num_folds or --draw_train_samples, which need all rows."
            )

    @property
    def files(self) -> dict[str, str | None]:
        """File of each part of the data, or None."""
        return {split: getattr(self, f"{split}_file") for split in SPLITS}

    def name_of(self, split: str) -> str:
        """Return the file of a split, or a name of its rows if they are of another file or a data set."""
        return self.files.get(split) or f"{split} rows"


@declared
@dataclass
class TextClassificationDataArguments(DataArguments):
    """Data arguments for text classification.

    Files are `.csv`, `.tsv`, `.json` or `.jsonl`.
    """

    task_name: str | None = option(
        None, f"GLUE task, from the Hub or from files with its columns: {', '.join(GLUE_TASKS)}."
    )
    columns: TextColumns = group(TextColumns())
    label_names_file: str | None = option(
        None,
        ".json file with a list of all class names, or an object with such a list per column; labels may be its"
        " indices, or lists with a 0 or 1 for each class.",
    )
    metric_name: str | None = option(
        None,
        "Metric that selects the best model, reported with the usual ones: accuracy, f1, macro_f1, micro_f1,"
        " subset_accuracy, matthews_correlation, pearson, spearmanr, mse, rmse.",
    )
    do_regression: bool | None = option(
        None,
        "Read labels as scores if true, as classes if false. By default they are scores if they have a decimal point.",
    )
    class_weights: list[str] = option(
        [],
        "Weights of classes in the loss: balanced (inversely proportional to their numbers of rows), or entries such"
        " as spam=2.5; other classes have the weight 1.",
        recorded=True,
    )
    temperature_scaling: bool = option(
        False,
        "After training, divide the logits by the temperature that suits the validation rows best (Guo et al. 2017),"
        " in the last layer of the model, so that its probabilities are calibrated wherever it is loaded. The expected"
        " calibration error is reported before and after.",
    )

    def __post_init__(self) -> None:
        if self.task_name is not None:
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
        if len(self.columns.texts or ()) > 2:
            names = ",".join(self.columns.texts or ())
            raise ValueError(f"--text_column_names takes one column, or two; got {names!r}.")
        if self.do_regression and self.label_names_file is not None:
            raise ValueError("--label_names_file names classes, but --do_regression true reads scores: omit one.")
        if self.streaming and self.columns.skip_unlabeled:
            raise ValueError("--streaming cannot be used with --skip_unlabeled: leave out such rows in the file.")

    @property
    def layout(self) -> TextColumns:
        """Columns of the data, by default those of the GLUE task, and the problem type if it is given."""
        layout = self.columns
        if self.task_name is not None:
            changes = {name: value for name, value in vars(layout).items() if value != getattr(TextColumns, name)}
            layout = replace(GLUE_TASKS[self.task_name], **changes)
        if self.do_regression is not None:
            layout = replace(layout, problem_type=REGRESSION if self.do_regression else SINGLE_LABEL)
        return layout


@declared
@dataclass
class TokenClassificationDataArguments(DataArguments):
    """Data arguments for token classification.

    Files are `.json` or `.jsonl` (rows with lists), `.conllu`, `.xml` (CGED), or column files (`.conll`, `.txt`,
    `.tsv`, `.bio`, `.iob`).
    """

    columns: TokenColumns = group(TokenColumns())
    label_names_file: str | None = option(
        None,
        ".json file with a list of all labels, or an object with such a list per column; labels may be its indices.",
    )
    label_all_tokens: bool = option(
        False, "Train on all tokens of a word (with I- instead of B- after the first), not only on the first one."
    )
    return_entity_level_metrics: bool = option(
        False,
        "Report precision, recall and F1 of each type of entity, or of each label, in addition to the overall ones.",
    )
    corpus: NegationCorpus = group(NegationCorpus())
    convention: str = option(
        "stories",
        "With --task negation: convention of predicted cues and scopes, stories (as the model predicts) or papers or"
        " reviews or notes.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        names = options_of(NegationCorpus).keys() | {"convention"}
        if self.task_name == NEGATION:
            names = options_of(TokenClassificationDataArguments).keys() - options_of(DataArguments).keys() - names
            names.remove("task_name")
        values = values_of(self)
        for name, declaration in options_of(TokenClassificationDataArguments).items():
            if name in names and values[name] != declaration.default:
                raise ValueError(f"--{name} cannot be used with --task {self.task_name}: leave it out.")
        if self.corpus.all_sentences and self.draw_train_samples:
            raise ValueError("--draw_train_samples cannot be used with --detect_cues: it draws parts of sentences.")

    @property
    def task_name(self) -> str:
        """Name of the kind of labels, or `NEGATION`."""
        return self.columns.task


@declared
@dataclass
class NegationDataArguments(TokenClassificationDataArguments):
    """Data arguments for negation scope resolution."""

    columns: TokenColumns = group(TokenColumns(task=NEGATION))


@declared
@dataclass
class QuestionAnsweringDataArguments(DataArguments):
    """Data arguments for extractive question answering.

    Files are `.json` (SQuAD's format, or rows) or `.jsonl`; data sets on the Hub have SQuAD's columns.
    """

    max_seq_length: PositiveInt = option(
        384,
        "Number of tokens of a window: question, passage and special tokens.",
        recorded=True,
    )
    pad_to_max_length: bool = option(
        True, "Pad all windows to max_seq_length; if false, to the longest in the batch (faster except on TPUs)."
    )
    version_2_with_negative: bool = option(False, "Some questions have no answer (SQuAD 2.0).")
    null_score_diff_threshold: float = option(
        0.0, "Predict 'no answer' if its score exceeds that of the best answer by more than this (SQuAD 2.0)."
    )
    doc_stride: Annotated[int, Field(ge=0)] = option(
        128, "Number of tokens by which the windows of a long passage overlap."
    )
    n_best_size: PositiveInt = option(
        20, "Number of start and end positions combined, and of answers kept, per question."
    )
    max_answer_length: PositiveInt = option(30, "Maximum number of tokens of an answer.")


@declared
@dataclass
class QuestionGenerationDataArguments(DataArguments):
    """Data arguments for question generation.

    Files are `.json` (SQuAD's format, or rows) or `.jsonl`; data sets on the Hub have SQuAD's columns. Rows to predict
    on need answers, but no questions.
    """

    max_seq_length: int = field(default=384, init=False)  # not an option: source and target have separate lengths
    max_source_length: PositiveInt = option(
        384,
        "Maximum number of tokens of answer and passage; a longer passage is cut to the part around the answer.",
    )
    max_target_length: PositiveInt = option(
        64, "Maximum number of tokens of a training question; longer ones are cut."
    )
    val_max_target_length: PositiveInt | None = option(
        None, "Maximum number of tokens of evaluation and generated questions; default: max_target_length."
    )
    pad_to_max_length: bool = option(
        False,
        "Pad inputs and questions to these lengths instead of the longest in the batch; for TPUs, slower elsewhere.",
    )
    num_beams: PositiveInt | None = option(None, "Number of beams for generation; overrides --generation_num_beams.")
    ignore_pad_token_for_loss: bool = option(True, "Ignore the padding of questions in the loss.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.val_max_target_length = self.val_max_target_length or self.max_target_length


@declared
@dataclass
class MultipleChoiceDataArguments(DataArguments):
    """Data arguments for multiple choice.

    Files are `.csv`, `.tsv`, `.json` or `.jsonl`. Rows have a list of choices, or SWAG's columns. Without files and
    data set, SWAG is loaded from the Hub.
    """

    columns: ChoiceColumns = group(ChoiceColumns())

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
