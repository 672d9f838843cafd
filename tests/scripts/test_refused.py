"""Options, data and models that a script refuses with one line, before it writes anything."""

import pytest

from hf_localattn.resources import FOLDER
from hf_localattn.tasks.multiple_choice import MultipleChoiceDataArguments

NEGATION = {"task_name": "negation", "family": "oa-xlnet", "backbone": "tiny", "data": "negated.jsonl"}
STARSEM = FOLDER / "samples" / "negation" / "starsem.txt"
DRAWN = {"draw_train_samples": True, "max_train_samples": 3}
STREAM = {"streaming": True, "data": "none.jsonl"}
DATA = {"glue": "classes.jsonl", "ner": "names.jsonl", "swag": "swag.csv"}


@pytest.mark.parametrize(
    ("script", "word", "options"),
    [
        ("glue", "Nothing to do", {"do": ""}),
        ("glue", "'copa'", {"task_name": "copa"}),
        ("glue", "--do_regression", {"task_name": "cola", "do_regression": False}),
        ("glue", "'text,text,label'", {"text_column_names": "text,text,label"}),
        ("glue", "bleu is not for", {"metric_name": "bleu"}),
        ("glue", "f1 is not for", {"metric_name": "f1"}),
        ("glue", "loss, accuracy, macro_f1; got 'f1'", {"metric_for_best_model": "f1"}),
        ("glue", "'ant'", {"train_file": "one.jsonl"}),
        ("glue", "other.jsonl, line 2: the label 'dog'", {"validation_file": "other.jsonl"}),
        ("glue", "--ignore_mismatched_sizes", {"train_file": "two.jsonl", "model": "classifier"}),
        ("glue", "none.jsonl", {"train_file": "none.jsonl", "skip_unlabeled": True}),
        ("glue", "ended.jsonl, row 2: a text has '[SEP]'", {"do": "train predict", "test_file": "ended.jsonl"}),
        ("glue", "No labels", {"do": "predict", "test_file": "texts.jsonl"}),
        ("glue", "pairs", {"validation_file": "pairs.jsonl"}),
        ("glue", "--max_seq_length 2", {"max_seq_length": 2}),
        ("glue", "--frozen_states needs", {"frozen_states": "half"}),
        ("glue", "--frozen_states_memory needs", {"frozen_states_memory": "1GB"}),
        ("glue", "needs --max_train_samples", {"draw_train_samples": True}),
        ("glue", "--fold 3", {"num_folds": 2, "fold": 3}),
        ("glue", "'nyu-mll/glue'", {"data": None, "task_name": "rte", "cache_dir": "/tmp/no-such-cache"}),
        ("ner", "No labels", {"do": "predict", "test_file": "tokens.jsonl"}),
        ("ner", "cars.jsonl, line 1, word 1", {"validation_file": "cars.jsonl"}),
        ("ner", "hidden.jsonl: the tokenizer makes no token", {"data": "hidden.jsonl"}),
        ("ner", "got 'macro_f1'", {"metric_for_best_model": "macro_f1"}),
        ("ner", "--cues cannot", {"cues": "speculation"}),
        ("ner", "--detect_cues cannot", {"detect_cues": True}),
        ("swag", "--max_seq_length 3", {"max_seq_length": 3}),
        ("qa", "--do_predict needs test data", {"do": "predict"}),
        ("qa", "3 of 6 train questions", {"train_file": "mixed.jsonl"}),
        ("qa", "'no-such/model'", {"model": "no-such/model"}),
        ("qa", "config.json", {"model": "./nowhere"}),
        ("qa", "doc_stride 39", {"doc_stride": 39}),
        ("qa", "whole checkpoint", {"resume_from_checkpoint": "plain"}),
        ("qg", "BartConfig", {"backbone": "plain"}),
        ("qg", "encoder-decoder", {"backbone": "plain", "family": "cool"}),
        ("qg", "max_seq_length", {"max_seq_length": 40}),
        ("qg", "--predict_with_generate", {"do": "predict", "predict_with_generate": False}),
        ("qg", "got 'bleu'", {"predict_with_generate": False, "metric_for_best_model": "bleu"}),
        ("glue", "--label_smoothing_factor", {"data": "scores.jsonl", "label_smoothing_factor": 0.1}),
        ("glue", "--label_smoothing_factor", {"data": "several.jsonl", "label_smoothing_factor": 0.1}),
        ("qa", "--label_smoothing_factor", {"label_smoothing_factor": 0.1}),
        ("qa", "--prediction_loss_only", {"prediction_loss_only": True}),
        ("qa", "--metric entities", {"metric": "entities"}),
        ("qa", "--metric squad_v2", {"metric": "squad_v2"}),
        ("ner", "--metric error_detection", {"metric": "error_detection"}),
        ("ner", "--metric starsem", {**NEGATION, "metric": "starsem"}),
        ("swag", "--train_sampling_strategy", {"train_sampling_strategy": "group_by_length"}),
        ("swag", "--dataloader_drop_last", {"dataloader_drop_last": True, "per_device_train_batch_size": 8}),
        ("glue", "--train_sampling_strategy", {**STREAM, "train_sampling_strategy": "sequential"}),
        ("ner", "No train row", {**NEGATION, "train_file": "out_of_scope.jsonl"}),
        ("ner", "within 4 tokens", {**NEGATION, "max_seq_length": 4}),
        ("ner", "'doubt'", {**NEGATION, "cues": "doubt"}),
        ("ner", "--label_column_name", {**NEGATION, "label_column_name": "scope"}),
        ("ner", "got 'starsem_cues_f1'", {**NEGATION, "metric_for_best_model": "starsem_cues_f1"}),
        ("ner", "cue_marker", {**NEGATION, "local_config": ["cue_marker=plain"]}),
        ("ner", "notes.md", {**NEGATION, "train_file": f"{STARSEM},{STARSEM.with_name('notes.md')}"}),
        ("ner", "--detect_cues", {**NEGATION, **DRAWN, "detect_cues": True}),
        ("glue", "--max_steps", {**STREAM, "max_steps": -1}),
        ("glue", "--num_folds", {**STREAM, "num_folds": 2}),
        ("glue", "--search_space", {**STREAM, "search_space": "space.json"}),
        ("glue", "--skip_unlabeled", {**STREAM, "skip_unlabeled": True}),
        ("glue", "--draw_train_samples", {**STREAM, **DRAWN}),
        ("glue", "--do_train", {**STREAM, "do": "eval"}),
        ("glue", "save the rows as .jsonl", {**STREAM, "train_file": "jokes.csv"}),
        ("qa", "--save_strategy steps", {**STREAM, "save_strategy": "epoch"}),
        ("qa", "--eval_strategy steps", {**STREAM, "save_strategy": None, "early_stopping_patience": 1}),
        (
            "glue",
            "predicted.csv: predictions.csv adds the column 'prediction'",
            {"do": "predict", "test_file": "predicted.csv", "model": "classifier"},
        ),
        (
            "swag",
            "predicted.csv: predictions.csv adds the column 'prediction'",
            {"test_file": "predicted.csv", "do": "train predict"},
        ),
        ("glue", "All rows have the label 'ant'", {"data": "one_class.jsonl"}),
        ("ner", "All words have the label 'O'", {"data": "one_label.jsonl"}),
        ("glue", "dog=2: give balanced alone, or NAME=WEIGHT of ant, bee, cat", {"class_weights": ["dog=2"]}),
        ("glue", "ant=3: give each class one", {"class_weights": ["ant=2", "ant=3"]}),
        ("glue", "ant=0: a weight", {"class_weights": ["ant=0"]}),
        ("glue", "--class_weights balanced: give balanced alone", {"class_weights": ["balanced", "ant=2"]}),
        ("glue", "--class_weights needs --do_train", {"class_weights": ["balanced"], "do": "eval"}),
        ("glue", "--class_weights needs one class", {"class_weights": ["balanced"], "data": "several.jsonl"}),
        ("glue", "validation rows", {"temperature_scaling": True, "do": "train"}),
        ("glue", "--do_train", {"temperature_scaling": True, "do": "eval"}),
        ("glue", "the labels are scores", {"temperature_scaling": True, "data": "scores.jsonl"}),
        ("glue", "--prediction_loss_only", {"temperature_scaling": True, "prediction_loss_only": True}),
        ("ner", "negation", {**STREAM, "task_name": "negation"}),
        ("swag", "multiple-choice", STREAM),
    ],
)
def test_refusal_in_one_line(script, word, options, refused):
    refused(word, script, **{"data": DATA.get(script, "answered.jsonl"), "do": "train eval", **options})


def test_without_data_it_is_swag_as_in_the_stock_script():
    arguments = MultipleChoiceDataArguments()
    assert (arguments.dataset_name, arguments.dataset_config_name) == ("allenai/swag", "regular")
    assert MultipleChoiceDataArguments(train_file="a.csv").dataset_name is None
