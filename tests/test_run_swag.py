"""The script from command line to reloaded checkpoint, on a model that learns little or nothing."""

import shutil

import pytest
import torch
from transformers import AutoModelForMultipleChoice, AutoTokenizer

from hf_localattn.tasks.multiple_choice import MultipleChoiceDataArguments
from tests.qa_helpers import tiny_bert, word_pieces, write_jsonl
from tests.script_helpers import assert_one_line_error, load_main

SWAG = """,video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label
0,v,1,the cat sat. the dog,the cat sat.,the dog,gold,sat on the mat.,red.,"on, on.",where?,0
1,v,1,the mat. the cat,the mat.,the cat,gold,red.,"on, on.",sat on the mat.,where?,2
2,v,1,the dog. the cat,the dog.,the cat,gold,red.,sat on the mat.,where?,"on, on.",1
"""


@pytest.fixture(scope="module")
def main():
    return load_main("run_swag")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swag")
    for name, tokenizer in (("model", word_pieces()), ("left", word_pieces("left", cls_last=True))):
        tiny_bert(tokenizer).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    (folder / "swag.csv").write_text(SWAG)
    bare = [line.rsplit(",", 1)[0] for line in SWAG.splitlines()]
    (folder / "bare.csv").write_text("\n".join(bare) + "\n")
    rows = [{"context": "the cat", "choices": ["mat", "dog", "red"], "label": letter} for letter in "ABC"]
    write_jsonl(folder / "letters.jsonl", rows)
    write_jsonl(folder / "ragged.jsonl", [rows[0], {**rows[0], "choices": ["mat", "dog"]}])
    return folder


def options(files, output_dir, *more, model="model", data="swag.csv", family="baseline"):
    common = ["--max_seq_length", "40", "--per_device_train_batch_size", "2", "--use_cpu", "--report_to", "none"]
    where = ["--train_file", str(files / data), "--validation_file", str(files / data)]
    start = ["--family", family, "--backbone", str(files / model) if model != "tiny" else model]
    return [*start, *where, *common, "--output_dir", str(output_dir), *more]


def test_trains_evaluates_predicts_and_reloads(main, files, tmp_path):
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--do_predict", "--test_file", str(files / "bare.csv"), "--max_steps", "2"]
    metrics = main(options(files, out, *work, "--max_eval_samples", "2"))
    assert metrics["eval_samples"] == 2
    assert {"train_loss", "eval_loss", "eval_accuracy", "predict_runtime"} <= set(metrics)
    assert not {"predict_accuracy", "predict_loss"} & set(metrics)  # no labels to compare with
    header, *lines = (out / "predict_results.txt").read_text().splitlines()
    assert header == "index\tprediction"
    # the saved folder is whole and gives the script's predictions
    model = AutoModelForMultipleChoice.from_pretrained(out).eval()
    tokenizer = AutoTokenizer.from_pretrained(out)
    endings = ["the dog sat on the mat.", "the dog red.", "the dog on, on.", "the dog where?"]
    inputs = tokenizer(["the cat sat."] * 4, endings, padding=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(**{name: tensor[None] for name, tensor in inputs.items()}).logits
    assert lines[0] == f"0\t{logits.argmax().item()}"


@pytest.mark.parametrize("model", ["model", "left"])
def test_it_learns_the_right_choice_at_every_place(main, files, tmp_path, model):
    out = tmp_path / "out"
    learn = ["--do_train", "--max_steps", "40", "--learning_rate", "0.01", "--lr_scheduler_type", "constant"]
    work = ["--do_predict", "--test_file", str(files / "swag.csv"), "--pad_to_max_length", "true"]
    metrics = main(options(files, out, *learn, *work, model=model))
    assert metrics["predict_accuracy"] == 1
    assert (out / "predict_results.txt").read_text() == "index\tprediction\n0\t0\n1\t2\n2\t1\n"


def test_a_family_on_the_shipped_backbone_and_letters(main, files, tmp_path):
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--max_steps", "1", "--local_config", "num_local_layers=1"]
    metrics = main(options(files, out, *work, model="tiny", family="cool", data="letters.jsonl"))
    assert metrics["eval_accuracy"] == pytest.approx(1 / 3)  # the same choices, and each is right once
    moved = shutil.move(out, tmp_path / "moved")
    model = AutoModelForMultipleChoice.from_pretrained(moved, trust_remote_code=True)
    assert model(input_ids=torch.tensor([[[5, 6], [7, 8]]])).logits.shape == (1, 2)


def test_rows_without_text_are_left_out_if_it_is_asked_for(main, files, tmp_path):
    rows = [{"context": "the cat", "choices": ["mat", end], "label": 0} for end in ("dog", " ", "red")]
    write_jsonl(tmp_path / "data.jsonl", rows)
    work = ["--do_train", "--max_steps", "1", "--do_predict", "--test_file", str(tmp_path / "data.jsonl")]
    metrics = main(options(tmp_path, tmp_path / "out", *work, "--skip_empty", model="tiny", data="data.jsonl"))
    assert (metrics["train_samples"], metrics["predict_samples"]) == (2, 2)
    lines = (tmp_path / "out" / "predict_results.txt").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["index", "0", "2"]


def test_without_data_it_is_swag_as_in_the_stock_script():
    arguments = MultipleChoiceDataArguments()
    assert (arguments.dataset_name, arguments.dataset_config_name) == ("allenai/swag", "regular")
    assert MultipleChoiceDataArguments(train_file="a.csv").dataset_name is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "Nothing to do: give at least one of --do_train"),
        (["--do_train", "--train_file", "missing.csv"], "missing.csv: no such file"),
        (["--do_train", "--train_file", "{files}/ragged.jsonl"], "line 2: 2 choices, but 3 in the first row"),
        (["--do_eval", "--validation_file", "{files}/bare.csv"], "bare.csv, line 2: the field 'label' is missing"),
        (["--do_train", "--max_seq_length", "3"], "--max_seq_length 3 leaves no room for text"),
        (["--do_eval", "--metric_for_best_model", "f1"], "must be one of loss, accuracy; got 'f1'"),
    ],
)
def test_what_the_user_can_mend_is_one_line(main, files, tmp_path, capsys, changes, message):
    changes = [change.format(files=files) for change in changes]
    assert_one_line_error(main, options(files, tmp_path / "out", *changes), message, tmp_path / "out", capsys)
