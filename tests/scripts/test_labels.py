"""Labels of a checkpoint, of the data, and what a run says about them."""

import json
import shutil

import pytest
from transformers import AutoConfig, AutoModelForTokenClassification, AutoTokenizer, pipeline

from tests.qa_helpers import write_jsonl
from tests.scripts.conftest import CGED, NAMES, SENTENCES, TEXTS, lines_of


def names_of(folder):
    config = AutoConfig.from_pretrained(folder)
    return [config.id2label[number] for number in range(config.num_labels)]


def predicted(out):
    return [line.split("\t")[1] for line in lines_of(out / "predict_results.txt")[1:]]


@pytest.mark.parametrize("data", ["classes", "capitals"])
def test_a_checkpoint_keeps_the_order_of_its_classes(data, run, files, tmp_path):
    metrics = run("glue", f"{data}.jsonl", "eval predict", model="classifier", test_file="texts.jsonl")
    found = [row["label"] for row in pipeline("text-classification", str(files / "classifier"))(TEXTS)]
    assert [name.lower() for name in predicted(tmp_path / "out")] == found
    golds = [json.loads(line)["label"].lower() for line in lines_of(files / f"{data}.jsonl")]
    hits = sum(gold == one for gold, one in zip(golds, found, strict=False))
    assert metrics["eval_accuracy"] == pytest.approx(hits / len(golds))
    run("glue", f"{data}.jsonl", "train", out="trained", model="classifier")
    assert [name.lower() for name in names_of(tmp_path / "trained")] == ["cat", "ant", "bee"]


@pytest.mark.parametrize(
    ("script", "data", "options", "expected"),
    [
        ("glue", "classes.jsonl", {"max_train_samples": 2}, ["ant", "bee", "cat"]),  # of all rows
        ("glue", "two.jsonl", {"model": "classifier", "ignore_mismatched_sizes": True}, ["no", "yes"]),
        ("ner", "names.jsonl", {}, NAMES),
        ("ner", "names.jsonl", {"model": "tagger"}, ["B-car", *NAMES[::-1]]),
        ("ner", "cged.xml", {}, sorted(["O", *(f"{letter}-{kind}" for letter in "BI" for kind in "RMSW")])),
    ],
)
def test_labels_of_a_trained_model(script, data, options, expected, run, tmp_path):
    run(script, data, "train", **options)
    assert names_of(tmp_path / "out") == expected


@pytest.mark.parametrize(
    ("data", "model", "names"),
    [
        ("one", "classifier", {"cat", "ant", "bee"}),
        ("digits", "classifier", {"0", "1", "2"}),
        ("digits", "numbers", {"0", "1", "2"}),
        ("classes", "numbers", {"ant", "bee", "cat"}),
        ("texts", "classifier", {"cat", "ant", "bee"}),
    ],
)
def test_without_training_the_checkpoint_says_which_classes_there_are(data, model, names, run, tmp_path):
    do = "predict" if data == "texts" else "eval predict"
    run("glue", f"{data}.jsonl", do, model=model, test_file=f"{data}.jsonl")
    assert set(predicted(tmp_path / "out")) <= names


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"data": "two.jsonl", "max_seq_length": 4}, "one of 2 classes (no, yes; F1 is of 'yes') of texts"),
        ({"data": "two.jsonl", "max_seq_length": 4}, "4 of 4 validation rows fill the 4 tokens of --max_seq_length"),
        ({"data": "classes.jsonl", "train_file": "four.jsonl"}, "Only the train rows have the classes dog"),
        ({"data": "renamed.jsonl", "model": "classifier"}, "predicts 3 labels (cat, ant, bee); taking them"),
        (
            {"data": "jokes.csv", "label_column_name": "humor_rating", "skip_unlabeled": True},
            "leaving out 1 of 3 rows, which have no label",
        ),
    ],
)
def test_what_is_said(options, told, run, caplog):
    with caplog.at_level("INFO", logger="hf_localattn"):
        run("glue", do="train eval", **options)
    assert told in caplog.text


def test_padding_changes_no_prediction(run):
    losses = [
        run("glue", "classes.jsonl", "eval", out=str(padded), model="classifier", pad_to_max_length=padded)[
            "eval_loss"
        ]
        for padded in (False, True)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@pytest.mark.parametrize("sampling", ["random", "group_by_length"])
def test_each_word_gets_its_own_label(sampling, run, tmp_path):
    """Padding on the left, a word without tokens, and rows sorted by length shift nothing."""
    learn = {"max_steps": 60, "learning_rate": 0.02, "lr_scheduler_type": "constant", "backbone": "left"}
    more = {"return_entity_level_metrics": True, "train_sampling_strategy": sampling}
    metrics = run("ner", "names.jsonl", test_file="names.jsonl", **learn, **more)
    assert metrics["eval_f1"] == metrics["predict_f1"] == metrics["predict_accuracy"] == 1
    assert (metrics["eval_pet_f1"], metrics["eval_pet_number"], metrics["eval_place_number"]) == (1, 2, 2)
    found = [line.split() for line in lines_of(tmp_path / "out" / "predictions.txt")]
    assert found == [row["ner_tags"] for row in SENTENCES]


@pytest.mark.parametrize(
    ("data", "scores"), [("cged.xml", "detection_f1 identification_f1 position_f1"), ("fce.tsv", "f0_5")]
)
def test_it_learns_to_find_errors(data, scores, run):
    metrics = run("ner", data, "train eval", max_steps=60, learning_rate=0.02)
    assert [metrics[f"eval_{name}"] for name in scores.split()] == [1] * len(scores.split())


@pytest.mark.parametrize("backbone", ["plain", "left"])
def test_it_learns_the_right_choice_at_every_place(backbone, run, tmp_path):
    learn = {"max_steps": 40, "learning_rate": 0.01, "lr_scheduler_type": "constant", "pad_to_max_length": True}
    metrics = run("swag", "swag.csv", "train predict", test_file="swag.csv", backbone=backbone, **learn)
    assert metrics["predict_accuracy"] == 1
    assert lines_of(tmp_path / "out" / "predict_results.txt") == ["index\tprediction", "0\t0", "1\t2", "2\t1"]


def test_words_that_are_cut_off_are_counted(run, tmp_path, caplog):
    run("ner", "names.jsonl", "predict", test_file="tokens.jsonl", max_seq_length=4, label_names_file="labels.json")
    assert "does not see 6 words of 3 test sentences: they are after the 4 tokens" in caplog.text
    lines = [line.split() for line in lines_of(tmp_path / "out" / "predictions.txt")]
    assert [len(line) for line in lines] == [6, 3, 3]
    assert lines[0][2:] == ["O"] * 4


def test_sentences_without_words_are_left_out_and_keep_their_line(run, tmp_path, caplog):
    empty, hidden = {"tokens": [], "ner_tags": []}, {"tokens": ["\u200b"], "ner_tags": ["O"]}
    data = str(write_jsonl(tmp_path / "data.jsonl", [empty, SENTENCES[0], hidden, SENTENCES[2]]))
    metrics = run("ner", data, test_file=data, max_steps=3, per_device_train_batch_size=1)
    assert metrics["train_loss"] > 0  # and not NaN, as the loss of no word is
    assert "2 train sentences have no word that the model sees" in caplog.text
    assert [len(line.split()) for line in lines_of(tmp_path / "out" / "predictions.txt")] == [0, 6, 1, 3]


def test_a_byte_level_tokenizer_is_saved_as_it_was_used(run, tmp_path):
    run("ner", "names.jsonl", "train", model="bytes")
    saved = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert saved([["a", "b"]], is_split_into_words=True).tokens(0) == ["<s>", "Ġ", "a", "Ġ", "b", "</s>"]


def test_characters_of_a_diagnosis_are_words(run, tmp_path):
    (tmp_path / "bare.xml").write_text(CGED.replace('<ERROR start_off="3" end_off="5" type="S"/>', ""))
    run("ner", "cged.xml", "train predict", test_file=str(tmp_path / "bare.xml"))
    lines = [line.split() for line in lines_of(tmp_path / "out" / "predictions.txt")]
    assert [len(line) for line in lines] == [9, 5]
    assert lines[0][1] == "O"  # of a blank the tokenizer makes nothing


def test_a_family_is_loaded_from_another_place_with_its_code(run, tmp_path):
    run("ner", "fce.tsv", "train", family="cool", backbone="tiny", local_config=["num_local_layers=1"])
    moved = shutil.move(tmp_path / "out", tmp_path / "moved")
    model = AutoModelForTokenClassification.from_pretrained(moved, trust_remote_code=True)
    assert model.config.label2id == {"c": 0, "i": 1}
    assert (tmp_path / "moved" / "modeling_cool.py").is_file()
