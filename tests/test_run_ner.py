"""The script from command line to reloaded checkpoint, on models that learn little or nothing."""

import json
import re
import shutil

import pytest
from transformers import AutoModelForTokenClassification, AutoTokenizer, BertForTokenClassification, pipeline

from tests.qa_helpers import byte_pieces, tiny_bert, word_pieces, write_jsonl
from tests.script_helpers import assert_one_line_error, load_main

SENTENCES = [
    {"tokens": ["the", "cats", "sat", "on", "red", "mat"], "ner_tags": ["O", "B-pet", "O", "O", "B-place", "I-place"]},
    {"tokens": ["dog", "\u200b", "sat"], "ner_tags": ["B-pet", "O", "O"]},
    {"tokens": ["on", "the", "mat"], "ner_tags": ["O", "O", "B-place"]},
]
NAMES = ["B-pet", "B-place", "I-place", "O"]
CGED = """<DOC><TEXT id="1">a cat sat</TEXT><ERROR start_off="3" end_off="5" type="S"/></DOC>
<DOC><TEXT id="2">a dog</TEXT></DOC>
"""


@pytest.fixture(scope="module")
def main():
    return load_main("run_ner")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ner")
    for name, tokenizer in (("model", word_pieces()), ("left", word_pieces("left", cls_last=True))):
        tiny_bert(tokenizer).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    write_jsonl(folder / "data.jsonl", SENTENCES)
    write_jsonl(folder / "bare.jsonl", [{"tokens": row["tokens"]} for row in SENTENCES])
    write_jsonl(folder / "other.jsonl", [{"tokens": ["the"], "ner_tags": ["B-car"]}])
    (folder / "fce.tsv").write_text("the\tc\ncat\ti\n\nsat\tc\non\tc\n")
    (folder / "bare.txt").write_text("the\ncat\n\nsat\n")
    (folder / "cged.xml").write_text(CGED)
    (folder / "bare.xml").write_text(re.sub("<ERROR.*/>", "", CGED))
    return folder


def options(files, output_dir, *more, model="model", data="data.jsonl", family="baseline"):
    common = ["--max_seq_length", "40", "--per_device_train_batch_size", "2", "--use_cpu", "--report_to", "none"]
    where = ["--train_file", str(files / data), "--validation_file", str(files / data)]
    start = ["--family", family, "--backbone", str(files / model) if model != "tiny" else model]
    return [*start, *where, *common, "--output_dir", str(output_dir), *more]


def checkpoint(folder, tokenizer, names):
    """A token classifier that knows `names`, saved with its tokenizer."""
    config = tiny_bert(tokenizer).config
    config.id2label = dict(enumerate(names))
    config.label2id = {name: number for number, name in enumerate(names)}
    BertForTokenClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def predicted(out):
    return [line.split(" ") for line in (out / "predictions.txt").read_text().splitlines()]


def test_trains_evaluates_predicts_and_reloads(main, files, tmp_path):
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--do_predict", "--test_file", str(files / "bare.jsonl"), "--max_steps", "2"]
    metrics = main(options(files, out, *work, "--max_eval_samples", "2", "--label_all_tokens"))
    assert metrics["eval_samples"] == 2
    assert {"train_loss", "eval_loss", "eval_f1", "eval_precision", "eval_recall", "eval_accuracy"} <= set(metrics)
    assert {name for name in metrics if name.startswith("predict_")} == {
        *("predict_runtime", "predict_samples_per_second", "predict_steps_per_second", "predict_samples")
    }
    lines = predicted(out)
    assert [len(line) for line in lines] == [6, 3, 3]
    assert lines[1][1] == "O"  # the tokenizer makes nothing of this word
    # the saved folder is whole, it knows its labels, and gives the script's predictions
    model = AutoModelForTokenClassification.from_pretrained(out)
    assert [model.config.id2label[number] for number in range(4)] == NAMES
    ask = pipeline("token-classification", model=model, tokenizer=AutoTokenizer.from_pretrained(out))
    found = {entity["start"]: entity["entity"] for entity in ask("on the mat", ignore_labels=[])}
    assert [found[start] for start in (0, 3, 7)] == lines[2]


@pytest.mark.parametrize("sampling", ["random", "group_by_length"])
def test_it_learns_and_each_word_gets_its_own_label(main, files, tmp_path, sampling):
    out = tmp_path / "out"
    learn = ["--do_train", "--max_steps", "60", "--learning_rate", "0.02", "--lr_scheduler_type", "constant"]
    work = ["--do_eval", "--do_predict", "--test_file", str(files / "data.jsonl"), "--return_entity_level_metrics"]
    sampled = ["--train_sampling_strategy", sampling]
    metrics = main(options(files, out, *learn, *work, *sampled, model="left"))
    assert metrics["eval_f1"] == metrics["predict_f1"] == metrics["predict_accuracy"] == 1
    assert (metrics["eval_pet_f1"], metrics["eval_pet_number"], metrics["eval_place_number"]) == (1, 2, 2)
    # padding on the left, a word without tokens, and rows sorted by length shift nothing
    assert predicted(out) == [row["ner_tags"] for row in SENTENCES]


def test_words_that_are_cut_off_are_counted(main, files, tmp_path, caplog):
    work = ["--do_predict", "--test_file", str(files / "bare.jsonl"), "--max_seq_length", "4"]
    names = tmp_path / "names.json"
    names.write_text(json.dumps(NAMES))
    main(options(files, tmp_path / "out", *work, "--label_names_file", str(names)))
    warning = "The model does not see 6 words of 3 test sentences: they are after the 4 tokens of --max_seq_length"
    assert warning in caplog.text
    lines = predicted(tmp_path / "out")
    assert [len(line) for line in lines] == [6, 3, 3]
    assert lines[0][2:] == ["O"] * 4


def test_rows_without_words_are_left_out_if_it_is_asked_for(main, files, tmp_path, caplog):
    rows = [SENTENCES[0], {"tokens": [" "], "ner_tags": ["O"]}, *SENTENCES[1:]]
    write_jsonl(tmp_path / "data.jsonl", rows)
    work = ["--do_train", "--max_steps", "1", "--do_predict", "--test_file", str(tmp_path / "data.jsonl")]
    metrics = main(options(tmp_path, tmp_path / "out", *work, "--skip_empty", model="tiny", data="data.jsonl"))
    assert (metrics["train_samples"], metrics["predict_samples"]) == (len(SENTENCES), len(SENTENCES))
    lines = (tmp_path / "out" / "predictions.txt").read_text().splitlines()
    assert [len(line.split()) for line in lines] == [len(row["tokens"]) * (n != 1) for n, row in enumerate(rows)]
    assert "leaving out 1 of 4 rows, which have an empty text: line 2." in caplog.text


def test_sentences_without_words_are_left_out_and_keep_their_line(main, files, tmp_path, caplog):
    empty = {"tokens": [], "ner_tags": []}
    hidden = {"tokens": ["\u200b"], "ner_tags": ["O"]}
    data = write_jsonl(tmp_path / "data.jsonl", [empty, SENTENCES[0], hidden, SENTENCES[2]])
    work = ["--do_train", "--do_eval", "--do_predict", "--test_file", str(data), "--max_steps", "3"]
    work += ["--train_file", str(data), "--per_device_train_batch_size", "1"]
    metrics = main(options(files, tmp_path / "out", *work))
    assert metrics["train_loss"] > 0  # and not NaN, as the loss of no word is
    assert "2 train sentences have no word that the model sees" in caplog.text
    assert [len(line) for line in (line if line != [""] else [] for line in predicted(tmp_path / "out"))] == [
        0,
        6,
        1,
        3,
    ]


def test_a_family_on_the_shipped_backbone_that_tells_errors(main, files, tmp_path):
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--max_steps", "1", "--local_config", "num_local_layers=1"]
    work += ["--do_predict", "--test_file", str(files / "bare.txt"), "--metric_for_best_model", "f0_5"]
    metrics = main(options(files, out, *work, model="tiny", family="cool", data="fce.tsv"))
    assert {"eval_f0_5", "eval_precision", "eval_recall", "eval_accuracy", "eval_macro_f1"} <= set(metrics)
    assert not {"eval_f1", "predict_f0_5"} & set(metrics)
    assert [len(line) for line in predicted(out)] == [2, 1]
    assert {label for line in predicted(out) for label in line} <= {"c", "i"}
    moved = shutil.move(out, tmp_path / "moved")
    model = AutoModelForTokenClassification.from_pretrained(moved, trust_remote_code=True)
    assert model.config.label2id == {"c": 0, "i": 1}


def test_errors_in_chinese_texts(main, files, tmp_path):
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--max_steps", "1", "--local_config", "num_local_layers=1"]
    work += ["--do_predict", "--test_file", str(files / "bare.xml"), "--metric_for_best_model", "detection_f1"]
    metrics = main(options(files, out, *work, model="tiny", family="cool", data="cged.xml"))
    levels = {f"eval_{level}_f1" for level in ("detection", "identification", "position")}
    assert {*levels, "eval_detection_precision", "eval_detection_recall", "eval_false_positive_rate"} <= set(metrics)
    assert not {"eval_f1", "predict_detection_f1"} & set(metrics)
    lines = predicted(out)
    assert [len(line) for line in lines] == [9, 5]
    assert lines[0][1] == "O"  # of a blank the tokenizer makes nothing
    # all labels of the format, also those that the file does not have
    model = AutoModelForTokenClassification.from_pretrained(out)
    assert sorted(model.config.label2id) == sorted(["O", *(f"{letter}-{kind}" for letter in "BI" for kind in "RMSW")])


def test_it_learns_to_find_errors(main, files, tmp_path):
    learn = ["--do_train", "--do_eval", "--max_steps", "60", "--learning_rate", "0.02"]
    metrics = main(options(files, tmp_path / "cged", *learn, data="cged.xml"))
    assert metrics["eval_detection_f1"] == metrics["eval_position_f1"] == 1
    metrics = main(options(files, tmp_path / "fce", *learn, data="fce.tsv"))
    assert metrics["eval_f0_5"] == 1


def test_a_checkpoint_keeps_the_order_of_its_labels(main, files, tmp_path):
    names = ["O", "I-place", "B-place", "B-pet", "B-car"]
    source = checkpoint(tmp_path / "source", word_pieces(), names)
    run = options(files, tmp_path / "out", "--do_train", "--do_eval", "--max_steps", "1")
    main(["--model_name_or_path", source, *run[4:]])
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "out")
    assert [model.config.id2label[number] for number in range(5)] == names
    # evaluation alone needs no training data to know the labels
    metrics = main(["--model_name_or_path", source, *run[6:-4], "--do_eval", "--output_dir", str(tmp_path / "eval")])
    assert metrics["eval_samples"] == 3


def test_a_byte_level_tokenizer_is_saved_as_it_was_used(main, files, tmp_path):
    tokenizer = byte_pieces()
    tokenizer.model_max_length = 64
    source = checkpoint(tmp_path / "source", tokenizer, NAMES)
    run = options(files, tmp_path / "out", "--do_train", "--max_steps", "1")
    main(["--model_name_or_path", source, *run[4:]])
    saved = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert saved([["a", "b"]], is_split_into_words=True).tokens(0) == ["<s>", "Ġ", "a", "Ġ", "b", "</s>"]


def test_the_best_model_is_the_one_with_the_best_f1(main, files, tmp_path):
    often = ["--eval_strategy", "steps", "--eval_steps", "1", "--save_steps", "1", "--load_best_model_at_end"]
    best = ["--metric_for_best_model", "f1"]
    main(options(files, tmp_path / "out", "--do_train", "--max_steps", "2", *often, *best))
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert state["best_metric"] == max(log["eval_f1"] for log in state["log_history"] if "eval_f1" in log)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "Nothing to do: give at least one of --do_train"),
        (["--do_train", "--train_file", "missing.conll"], "missing.conll: no such file"),
        (["--do_eval", "--train_file", "{files}/other.jsonl"], "No labels"),
        (
            ["--do_train", "--do_eval", "--validation_file", "{files}/other.jsonl"],
            "sentence 1, word 1 ('the'): the label",
        ),
        (["--do_train", "--task_name", "pos"], "the field 'pos_tags or labels' is missing"),
        (["--do_train", "--conllu_column", "feats"], "--conllu_column must be upos or xpos; got 'feats'"),
        (["--do_train", "--max_seq_length", "2"], "No train sentence has a word within 2 tokens"),
        (
            ["--do_train", "--metric_for_best_model", "macro_f1"],
            "must be one of loss, f1, precision, recall, accuracy; got",
        ),
        (["--do_train", "--label_names_file", "{files}/data.jsonl"], "data.jsonl, line 2, column 1: invalid JSON"),
    ],
)
def test_what_the_user_can_mend_is_one_line(main, files, tmp_path, capsys, changes, message):
    changes = [change.format(files=files) for change in changes]
    assert_one_line_error(main, options(files, tmp_path / "out", *changes), message, tmp_path / "out", capsys)
