"""The script from command line to pipeline, on a model that learns nothing in two steps."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, BertForSequenceClassification, pipeline

from hf_localattn.tasks.labels import checkpoint_labels
from hf_localattn.training.example_scores import read_example_scores
from tests.qa_helpers import tiny_bert, word_pieces, write_jsonl
from tests.script_helpers import assert_one_line_error, load_main

TEXTS = ["the cat sat", "on the mat", "who sat?", "the red dog", "where cats sat", "the mat"]


@pytest.fixture(scope="module")
def main():
    return load_main("run_glue")


def rows_of(*labels, **columns):
    columns = columns or {"text": TEXTS}
    return [
        {**{name: texts[i % len(texts)] for name, texts in columns.items()}, "label": label}
        for i, label in enumerate(labels)
    ]


def save_classifier(folder, *names, **fields):
    tokenizer = word_pieces()
    config = tiny_bert(tokenizer).config
    config.id2label, config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    config.update(fields)
    torch.manual_seed(1)
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    tokenizer = word_pieces()
    tiny_bert(tokenizer).save_pretrained(folder / "backbone")
    tokenizer.save_pretrained(folder / "backbone")
    save_classifier(folder / "classifier", "cat", "ant", "bee")
    save_classifier(folder / "numbers", "LABEL_0", "LABEL_1", "LABEL_2")
    pair = {"sentence1": TEXTS, "sentence2": TEXTS[::-1]}
    data = {
        "classes": rows_of("bee", "ant", "cat", "ant", "bee", "cat"),
        "capitals": rows_of("BEE", "Ant", "cat"),
        "two": rows_of("no", "yes", "no", "yes"),
        "digits": rows_of(0, 1),
        "one": rows_of("ant", "ant"),
        "four": rows_of("bee", "ant", "cat", "dog"),
        "some": rows_of(0.5, None, 2.0),
        "bare": rows_of(None, None),
        "other": rows_of("bee", "dog"),
        "scores": rows_of(0.5, 1, 2.5, 3),
        "several": rows_of(["ant", "bee"], [], ["cat"], ["bee"]),
        "unlabeled": [{"text": text} for text in TEXTS],
        "pairs": rows_of("bee", "ant", **pair),
        "cola": rows_of(0, 1, 1, 0, sentence=TEXTS),
        "mrpc": rows_of(0, 1, 1, 0, **pair),
        "stsb": rows_of(0.5, 5.0, 2.0, 1.0, **pair),
        "stsb_test": rows_of(-1.0, -1.0, **pair),
    }
    for name, rows in data.items():
        write_jsonl(folder / f"{name}.jsonl", rows)
    return folder


def options(
    files, output_dir, *more, data="classes", model=("--family", "baseline", "--backbone", "{files}/backbone")
):
    given = [option.format(files=files) for option in (*model, *more)]
    where = ["--train_file", f"{files}/{data}.jsonl", "--validation_file", f"{files}/{data}.jsonl"]
    common = ["--max_seq_length", "24", "--per_device_train_batch_size", "2", "--max_steps", "2", "--use_cpu"]
    common += ["--save_strategy", "no", "--disable_tqdm", "true"]
    return [*where, *common, "--output_dir", str(output_dir), *given]


def checkpoint(name):
    return ("--model_name_or_path", f"{{files}}/{name}")


def predictions(path):
    header, *lines = path.read_text().splitlines()
    assert header == "index\tprediction"
    indices, values = zip(*(line.split("\t") for line in lines), strict=True)
    assert list(map(int, indices)) == list(range(len(lines)))
    return list(values)


def test_trains_evaluates_predicts_and_serves_a_pipeline(main, files, tmp_path):
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--do_predict", "--test_file", "{files}/unlabeled.jsonl"]
    metrics = main(options(files, out, *work, "--max_eval_samples", "4"))
    assert metrics["eval_samples"] == 4
    assert {"train_loss", "eval_loss", "eval_accuracy", "eval_macro_f1", "predict_runtime"} <= set(metrics)
    assert not {"eval_f1", "predict_accuracy"} & set(metrics)  # more than two classes, no labels to compare with
    assert json.loads((out / "all_results.json").read_text())["eval_accuracy"] == metrics["eval_accuracy"]
    assert AutoConfig.from_pretrained(out).id2label == {0: "ant", 1: "bee", 2: "cat"}
    answers = pipeline("text-classification", model=str(out), device="cpu")(TEXTS)
    assert predictions(out / "predict_results.txt") == [answer["label"] for answer in answers]
    assert not list(out.glob("_*"))


@pytest.mark.parametrize(
    ("data", "arguments", "problem_type", "metrics"),
    [
        ("cola", ["--task_name", "cola"], "single_label_classification", "matthews_correlation"),
        ("mrpc", ["--task_name", "MRPC"], "single_label_classification", "accuracy f1 combined_score"),
        ("stsb", ["--task_name", "stsb"], "regression", "pearson spearmanr combined_score"),
        ("two", [], "single_label_classification", "accuracy macro_f1 f1"),
        (
            "classes",
            ["--metric_name", "matthews_correlation"],
            "single_label_classification",
            "accuracy macro_f1 matthews_correlation",
        ),
        ("scores", ["--metric_name", "mse"], "regression", "pearson spearmanr mse rmse"),
        ("digits", ["--do_regression", "true"], "regression", "pearson spearmanr mse rmse"),
        ("several", [], "multi_label_classification", "micro_f1 macro_f1 subset_accuracy"),
    ],
)
def test_each_kind_of_labels(main, files, tmp_path, data, arguments, problem_type, metrics):
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--do_predict", "--test_file", f"{files}/{data}.jsonl"]
    result = main(options(files, out, *work, *arguments, data=data))
    measured = {"loss", "runtime", "samples_per_second", "steps_per_second", "samples", *metrics.split()}
    assert {name.removeprefix("eval_") for name in result if name.startswith("eval_")} == measured
    assert {name: result[f"predict_{name}"] for name in metrics.split()} == {  # the same rows, labeled
        name: result[f"eval_{name}"] for name in metrics.split()
    }
    scores, data = read_example_scores(out)
    assert {rows["rows"] for rows in data.values()} == {result["eval_samples"]}
    for name, own in scores.items():
        assert np.mean(own) == pytest.approx(result.get(name, np.mean(own)), rel=1e-3, abs=1e-4)
    assert scores.keys() & result.keys() or "--task_name" in arguments
    assert AutoConfig.from_pretrained(out).problem_type == problem_type
    (path,) = out.glob("predict_results*.txt")
    task = arguments[1].lower() if "--task_name" in arguments else None
    assert path.name == (f"predict_results_{task}.txt" if task else "predict_results.txt")
    for text in predictions(path):
        if problem_type == "regression":
            assert f"{float(text):.3f}" == text
        elif problem_type == "multi_label_classification":
            assert set(json.loads(text)) <= {"ant", "bee", "cat"}
        else:
            assert text in AutoConfig.from_pretrained(out).label2id


def test_test_rows_of_glue_have_no_labels(main, files, tmp_path):
    work = ["--do_train", "--task_name", "stsb", "--do_predict", "--test_file", "{files}/stsb_test.jsonl"]
    metrics = main(options(files, tmp_path, *work, data="stsb"))
    assert "predict_loss" not in metrics
    assert len(predictions(tmp_path / "predict_results_stsb.txt")) == 2


def test_mnli_is_evaluated_on_both_of_its_sets(main, files, tmp_path):
    (tmp_path / "mnli" / "data").mkdir(parents=True)
    columns = {"premise": TEXTS, "hypothesis": TEXTS[::-1]}
    labels = {"train": (0, 1, 2), "validation_matched": (0, 1), "validation_mismatched": (2, 1, 0)}
    for split, own in {**labels, "test_matched": (-1,), "test_mismatched": (-1, -1)}.items():
        write_jsonl(tmp_path / "mnli" / "data" / f"{split}-00000-of-00001.jsonl", rows_of(*own, **columns))
    out = tmp_path / "out"
    run = options(files, out, "--do_train", "--do_eval", "--do_predict", "--cache_dir", str(tmp_path / "cache"))
    metrics = main([*run[4:], "--task_name", "mnli", "--dataset_name", str(tmp_path / "mnli")])
    assert (metrics["eval_samples"], metrics["eval_mismatched_samples"]) == (2, 3)
    assert {"eval_accuracy", "eval_mismatched_accuracy"} <= set(metrics)
    assert set(predictions(out / "predict_results_mnli.txt")) <= {"entailment", "neutral", "contradiction"}
    assert len(predictions(out / "predict_results_mnli-mm.txt")) == 2


def test_classes_that_the_used_training_rows_lack(main, files, tmp_path):
    main(options(files, tmp_path, "--do_train", "--do_eval", "--max_train_samples", "2"))
    assert AutoConfig.from_pretrained(tmp_path).id2label == {0: "ant", 1: "bee", 2: "cat"}


def test_rows_without_text_are_left_out_if_it_is_asked_for(main, files, tmp_path, caplog, capsys):
    rows = rows_of("bee", "ant", None, "cat")
    write_jsonl(tmp_path / "data.jsonl", [*rows[:1], {"text": " ", "label": "cat"}, *rows[1:]])
    of_before = "--skip_unlabelled"
    work = ["--do_eval", "--validation_file", str(tmp_path / "data.jsonl"), of_before]
    work += ["--do_predict", "--test_file", str(tmp_path / "data.jsonl")]
    run = options(files, tmp_path / "out", *work, model=checkpoint("classifier"))
    assert_one_line_error(
        main, run, "leave out such rows with skip_empty=True (scripts: --skip_empty)", tmp_path / "out", capsys
    )
    metrics = main([*run, "--skip_empty"])
    assert (metrics["eval_samples"], metrics["predict_samples"]) == (3, 4)
    lines = (tmp_path / "out" / "predict_results.txt").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["index", "0", "2", "3", "4"]
    assert "leaving out 1 of 5 rows, which have an empty text: line 2." in caplog.text
    assert "The predictions are for 4 test rows; rows with an empty text have none" in caplog.text


@pytest.mark.parametrize("data", ["classes", "capitals"])
def test_a_checkpoint_keeps_the_order_of_its_classes(main, files, tmp_path, data):
    work = ["--do_eval", "--do_predict", "--test_file", "{files}/unlabeled.jsonl"]
    metrics = main(options(files, tmp_path / "out", *work, data=data, model=checkpoint("classifier")))
    answers = [row["label"] for row in pipeline("text-classification", model=str(files / "classifier"))(TEXTS)]
    written = predictions(tmp_path / "out" / "predict_results.txt")
    assert [name.lower() for name in written] == answers
    golds = [json.loads(line)["label"].lower() for line in (files / f"{data}.jsonl").read_text().splitlines()]
    hits = sum(gold == answer for gold, answer in zip(golds, answers, strict=False))
    assert metrics["eval_accuracy"] == pytest.approx(hits / len(golds))
    main(options(files, tmp_path / "trained", "--do_train", data=data, model=checkpoint("classifier")))
    config = AutoConfig.from_pretrained(tmp_path / "trained")
    assert [config.id2label[i].lower() for i in range(3)] == ["cat", "ant", "bee"]


@pytest.mark.parametrize(
    ("data", "model", "names"),
    [
        ("one", "classifier", {"cat", "ant", "bee"}),
        ("digits", "classifier", {"0", "1", "2"}),
        ("digits", "numbers", {"0", "1", "2"}),
        ("classes", "numbers", {"ant", "bee", "cat"}),
        ("unlabeled", "classifier", {"cat", "ant", "bee"}),
    ],
)
def test_without_training_the_checkpoint_says_which_classes_there_are(main, files, tmp_path, data, model, names):
    work = ["--do_predict", "--test_file", f"{files}/{data}.jsonl"]
    work += [] if data == "unlabeled" else ["--do_eval"]
    main(options(files, tmp_path, *work, data=data, model=checkpoint(model)))
    assert set(predictions(tmp_path / "predict_results.txt")) <= names


def test_a_head_for_other_classes_can_start_afresh(main, files, tmp_path):
    model = (*checkpoint("classifier"), "--ignore_mismatched_sizes")
    main(options(files, tmp_path, "--do_train", data="two", model=model))
    config = AutoConfig.from_pretrained(tmp_path)
    assert config.id2label == {0: "no", 1: "yes"}


def test_other_names_for_as_many_classes_are_taken_with_a_warning(main, files, tmp_path, caplog):
    write_jsonl(tmp_path / "renamed.jsonl", rows_of("x", "y", "z"))
    with caplog.at_level("WARNING", "hf_localattn"):
        main(
            [
                *options(files, tmp_path / "out", "--do_train", model=checkpoint("classifier")),
                *("--train_file", str(tmp_path / "renamed.jsonl")),
            ]
        )
    assert "predicts 3 labels (cat, ant, bee); taking them for the data's 3 labels (x, y, z)" in caplog.text
    assert AutoConfig.from_pretrained(tmp_path / "out").id2label == {0: "x", 1: "y", 2: "z"}


@pytest.mark.parametrize(
    ("data", "arguments", "metric", "best"),
    [
        ("classes", ["--metric_name", "macro_f1"], "macro_f1", max),
        ("scores", ["--metric_name", "mse"], "mse", min),
        ("scores", ["--metric_for_best_model", "rmse"], "rmse", min),
        ("classes", [], "loss", min),
        ("mrpc", ["--task_name", "mrpc", "--metric_for_best_model", "combined_score"], "combined_score", max),
    ],
)
def test_the_best_model_is_told_by_the_metric_that_is_named(main, files, tmp_path, data, arguments, metric, best):
    often = ["--eval_strategy", "steps", "--eval_steps", "1", "--save_strategy", "steps", "--save_steps", "1"]
    often.append("--load_best_model_at_end")
    main(options(files, tmp_path, "--do_train", "--do_eval", *often, *arguments, data=data))
    state = json.loads((tmp_path / "trainer_state.json").read_text())
    values = [log[f"eval_{metric}"] for log in state["log_history"] if f"eval_{metric}" in log]
    assert len(values) >= 2
    assert state["best_metric"] == best(values)


CORPORA = {
    "sst5.tsv": 'label\ttext\n4\tthe cat\n0\ta "red mat\n3\ton the mat\n2\tdog\n1\twho sat\n',
    "hahackathon.csv": "id,text,is_humor,humor_rating,humor_controversy,offense_rating\n"
    '1,"the cat, red",1,2.4,1,0.2\n2,who sat,0,,,0.0\n3,the dog,1,3.25,0,1.0\n4,on the mat,0,,,0\n',
    "trec.jsonl": '{"text": "who sat?", "coarse_label": 3, "coarse_name": "HUM"}\n'
    '{"text": "where?", "coarse_label": 4, "coarse_name": "LOC"}\n',
}


@pytest.mark.parametrize(
    ("corpus", "more", "found", "samples", "metrics"),
    [
        ("sst5.tsv", [], "one of 5 classes (0, 1, 2, 3, 4)", 5, "accuracy macro_f1"),
        (
            "trec.jsonl",
            ["--label_column_name", "coarse_name"],
            "one of 2 classes (HUM, LOC; F1 is of 'LOC')",
            2,
            "accuracy f1",
        ),
        (
            "trec.jsonl",
            ["--label_column_name", "coarse_label"],
            "one of 2 classes (3, 4; F1 is of '4')",
            2,
            "accuracy f1",
        ),
        (
            "hahackathon.csv",
            ["--label_column_name", "is_humor"],
            "one of 2 classes (0, 1; F1 is of '1')",
            4,
            "accuracy f1",
        ),
        ("hahackathon.csv", ["--label_column_name", "offense_rating"], "a score", 4, "rmse"),
        (
            "hahackathon.csv",
            ["--label_column_name", "humor_controversy", "--skip_unlabeled"],
            "one of 2 classes (0, 1; F1 is of '1')",
            2,
            "f1",
        ),
        (
            "hahackathon.csv",
            ["--label_column_name", "humor_rating", "--skip_unlabeled"],
            "a score",
            2,
            "pearson rmse",
        ),
    ],
)
def test_corpora_by_columns(main, files, tmp_path, caplog, corpus, more, found, samples, metrics):
    path = tmp_path / corpus
    path.write_text(CORPORA[corpus])
    data = ["--train_file", str(path), "--validation_file", str(path), "--text_column_names", "text"]
    with caplog.at_level("INFO", logger="hf_localattn"):
        result = main(options(files, tmp_path / "out", "--do_train", "--do_eval", *data, *more))
    assert f"Predicting {found} of texts." in caplog.text
    assert result["train_samples"] == result["eval_samples"] == samples
    assert {f"eval_{name}" for name in metrics.split()} <= set(result)
    assert ("leaving out 2 of 4 rows, which have no label" in caplog.text) is ("--skip_unlabeled" in more)


def test_a_class_of_one_split_alone_is_named(main, files, tmp_path, caplog):
    data = ["--validation_file", "{files}/classes.jsonl", "--train_file", "{files}/four.jsonl"]
    main(options(files, tmp_path / "out", "--do_train", "--do_eval", *data))
    assert "Only the train rows have the classes dog: no score shows how well they are learned" in caplog.text


def test_padding_changes_no_prediction(main, files, tmp_path):
    work = ["--do_predict", "--test_file", "{files}/classes.jsonl"]
    short, padded = (
        main(options(files, tmp_path / way, *work, "--pad_to_max_length", way, model=checkpoint("classifier")))
        for way in ("false", "true")
    )
    assert padded["predict_loss"] == pytest.approx(short["predict_loss"], abs=1e-5)


def test_a_family_on_a_plain_backbone(main, files, tmp_path):
    family = ("--family", "cool", "--backbone", "tiny", "--local_config", "num_local_layers=1")
    main(options(files, tmp_path, "--do_train", "--do_eval", "--local_learning_rate", "1e-3", model=family))
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path, trust_remote_code=True)
    assert model.config.id2label == {0: "ant", 1: "bee", 2: "cat"}
    assert checkpoint_labels(model.config).names == ("ant", "bee", "cat")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "Nothing to do: give at least one of --do_train"),
        (
            ["--task_name", "copa"],
            "--task_name must be one of cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb, wnli; got",
        ),
        (["--task_name", "cola", "--do_regression", "false"], "--do_regression cannot be used with --task_name"),
        (["--text_column_names", "a,b,c"], "--text_column_names takes one column, or two; got 'a,b,c'"),
        (["--metric_name", "bleu"], "--metric_name must be one of accuracy, f1, macro_f1"),
        (
            ["--do_eval", "--metric_name", "mse"],
            "--metric_name mse is not for single label classification of 3 classes",
        ),
        (["--do_eval", "--metric_name", "f1"], "of 3 classes; choose one of accuracy, macro_f1, matthews_correlation"),
        (["--do_eval", "--metric_for_best_model", "f1"], "must be one of loss, accuracy, macro_f1; got 'f1'"),
        (["--do_eval", "--metric_for_best_model", "bleu"], "must be one of loss, accuracy, macro_f1; got 'bleu'"),
        (["--do_train", "--train_file", "missing.csv"], "missing.csv: no such file"),
        (
            ["--do_train", "--train_file", "{files}/one.jsonl"],
            "All rows have the label 'ant': give data with at least two classes",
        ),
        (
            ["--do_train", "--task_name", "cola"],
            "classes.jsonl, line 1: the field 'sentence' is missing (found text, label)",
        ),
        (
            ["--do_train", "--do_eval", "--validation_file", "{files}/other.jsonl"],
            "other.jsonl, line 2: the label 'dog' is outside the label set (ant, bee, cat)",
        ),
        (
            ["--do_eval", "--validation_file", "{files}/other.jsonl", "--model_name_or_path", "{files}/classifier"],
            "other.jsonl, line 2: the label 'dog' is outside the label set (cat, ant, bee)",
        ),
        (
            ["--do_train", "--train_file", "{files}/two.jsonl", "--model_name_or_path", "{files}/classifier"],
            "classifier predicts 3 labels (cat, ant, bee), but the data have 2 labels (no, yes). Pass"
            " --ignore_mismatched_sizes",
        ),
        (
            ["--do_train", "--train_file", "{files}/some.jsonl"],
            "some.jsonl, line 2: the field 'label' holds no label; found None. Correct the row, or leave",
        ),
        (
            ["--do_train", "--train_file", "{files}/bare.jsonl", "--skip_unlabeled"],
            "bare.jsonl: no row has a label; give the label column",
        ),
        (["--num_folds", "7", "--do_train"], "--num_folds 7 needs at least 7 rows; the training data have 6"),
        (["--do_predict", "--test_file", "{files}/unlabeled.jsonl"], "No labels: neither the data nor the model"),
        (
            ["--do_train", "--do_eval", "--validation_file", "{files}/pairs.jsonl"],
            "train has single texts, validation has pairs",
        ),
        (["--do_train", "--max_seq_length", "2"], "--max_seq_length 2 leaves no room for text: 2 tokens are special"),
    ],
)
def test_what_the_user_can_mend_is_one_line(main, files, tmp_path, capsys, changes, message):
    model = () if "--model_name_or_path" in changes else ("--family", "baseline", "--backbone", "{files}/backbone")
    assert_one_line_error(
        main, options(files, tmp_path / "out", *changes, model=model), message, tmp_path / "out", capsys
    )


def test_what_was_found_is_said_and_what_is_cut(main, files, tmp_path, caplog):
    with caplog.at_level("INFO", logger="hf_localattn"):
        main(options(files, tmp_path / "out", "--do_eval", "--max_seq_length", "4", data="two"))
    assert "Predicting one of 2 classes (no, yes; F1 is of 'yes') of texts." in caplog.text
    assert "4 of 4 validation rows fill the 4 tokens of --max_seq_length" in caplog.text


def test_a_task_alone_is_fetched_from_the_hub(main, tmp_path, capsys):
    model = ["--family", "baseline", "--backbone", "tiny", "--output_dir", str(tmp_path), "--use_cpu"]
    with pytest.raises(SystemExit):
        main([*model, "--task_name", "rte", "--do_eval", "--cache_dir", str(tmp_path / "cache")])
    assert "error: Cannot load the data set 'nyu-mll/glue'" in capsys.readouterr().err
