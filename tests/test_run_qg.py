"""The script from command line to reloaded checkpoint, on encoder-decoders of few dimensions."""

import json

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from hf_localattn.data.generation import source
from hf_localattn.registry import FAMILIES
from tests.generation_helpers import tiny_writer
from tests.qa_helpers import question, tiny_bert, unanswerable, word_pieces, write_jsonl
from tests.script_helpers import assert_one_line_error, load_main


@pytest.fixture(scope="module")
def main():
    return load_main("run_qg")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qg")
    tokenizer = word_pieces()
    models = {
        "bart": tiny_writer("bart", tokenizer),
        "prophetnet": tiny_writer("prophetnet", tokenizer),
        "bert": tiny_bert(tokenizer),
        "endless": tiny_writer("bart", tokenizer, eos_token_id=5),
        "beginless": tiny_writer("bart", tokenizer),
    }
    models["beginless"].config.decoder_start_token_id = None
    models["beginless"].generation_config.decoder_start_token_id = None
    for name, model in models.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    models["bart"].save_pretrained(folder / "left")
    word_pieces("left").save_pretrained(folder / "left")
    write_jsonl(folder / "answered.jsonl", [question(i) for i in range(6)])
    write_jsonl(folder / "mixed.jsonl", [question(i) if i % 2 else unanswerable(i) for i in range(6)])
    write_jsonl(folder / "unanswerable.jsonl", [unanswerable(i) for i in range(3)])
    unasked = [{key: value for key, value in question(i).items() if key != "question"} for i in range(2)]
    write_jsonl(folder / "unasked.jsonl", unasked)
    return folder


def options(files, output_dir, *more, family="baseline", backbone="bart", data="answered.jsonl"):
    common = ["--max_source_length", "40", "--max_target_length", "12", "--generation_num_beams", "2", "--use_cpu"]
    where = ["--train_file", str(files / data), "--validation_file", str(files / data)]
    model = ["--family", family, "--backbone", str(files / backbone)]
    return [*model, *where, *common, "--per_device_train_batch_size", "2", "--output_dir", str(output_dir), *more]


@pytest.mark.parametrize("backbone", ["bart", "prophetnet"])
def test_trains_evaluates_predicts_and_reloads(main, files, tmp_path, backbone):
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--do_predict", "--test_file", str(files / "unasked.jsonl")]
    metrics = main(options(files, out, *work, "--max_steps", "2", "--max_eval_samples", "3", backbone=backbone))
    assert metrics["eval_samples"] == 3
    assert {"train_loss", "eval_loss", "eval_bleu", "eval_rouge_l", "eval_gen_len"} <= set(metrics)
    assert "eval_meteor" in metrics or "eval_meteor_no_synonyms" in metrics
    assert "predict_bleu" not in metrics  # no questions to compare with
    results = json.loads((out / "all_results.json").read_text())
    assert results["eval_bleu"] == metrics["eval_bleu"]
    assert "tok:13a" in results["eval_bleu_signature"]
    lines = (out / "generated_predictions.txt").read_text(encoding="utf-8").split("\n")
    assert len(lines) == 3
    assert lines[2] == ""
    # the saved folder is whole, and generates what the script wrote
    model = AutoModelForSeq2SeqLM.from_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert generated(model, tokenizer) == lines[0]


def generated(model, tokenizer):
    row = question()
    ids = source(row["context"], "on the mat", 13, tokenizer, 40)
    output = model.generate(model.dummy_inputs["input_ids"].new_tensor([ids]), num_beams=2, max_length=12)
    return tokenizer.decode(output[0], skip_special_tokens=True)


@pytest.mark.parametrize("backbone", ["bart", "prophetnet"])
def test_a_family_on_a_plain_backbone(main, files, tmp_path, backbone):
    assert "text2text-generation" in FAMILIES["cool"].heads
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--do_predict", "--test_file", str(files / "unasked.jsonl")]
    more = ["--max_steps", "1", "--local_learning_rate", "1e-3", "--local_config", "num_local_layers=1"]
    metrics = main(options(files, out, *work, *more, family="cool", backbone=backbone))
    assert {"eval_loss", "eval_bleu"} <= set(metrics)
    assert (out / "modeling_cool_generation.py").is_file()
    model = AutoModelForSeq2SeqLM.from_pretrained(out, trust_remote_code=True)
    lines = (out / "generated_predictions.txt").read_text(encoding="utf-8").splitlines()
    assert generated(model, AutoTokenizer.from_pretrained(out)) == lines[0]


def test_learns_to_ask_about_the_answer(main, files, tmp_path):
    words = ["cat", "mat", "dog", "red"]
    context = "the cat sat on the red mat. the dog sat."
    rows = [
        question(
            number,
            context=context,
            question=f"who sat on the {words[number % 4]}?",
            answers={"text": [words[number % 4]], "answer_start": [context.index(words[number % 4])]},
        )
        for number in range(16)
    ]
    write_jsonl(tmp_path / "copy.jsonl", rows)
    run = options(tmp_path, tmp_path / "out", "--do_train", "--do_eval", data="copy.jsonl", backbone="")
    run[run.index("--backbone") + 1] = str(files / "bart")
    schedule = ["--max_steps", "120", "--learning_rate", "1e-2", "--per_device_train_batch_size", "16"]
    metrics = main([*run, *schedule])
    assert metrics["eval_bleu"] == pytest.approx(100)
    assert metrics["eval_rouge_l"] == pytest.approx(100)


def test_rows_are_scored_against_their_own_questions(main, files, tmp_path):
    asked = [question(0), question(1, question="who?")]
    write_jsonl(tmp_path / "asked.jsonl", asked)
    work = ["--do_predict", "--test_file", str(tmp_path / "asked.jsonl"), "--num_beams", "1"]
    metrics = main(options(files, tmp_path / "out", *work))
    first, second = (tmp_path / "out" / "generated_predictions.txt").read_text(encoding="utf-8").splitlines()
    assert first == second  # the same passage and answer
    write_jsonl(tmp_path / "asked.jsonl", [{**row, "question": f"{first} x"} for row in asked])
    assert metrics["predict_rouge_l"] < 50
    metrics = main(options(files, tmp_path / "again", *work))
    assert metrics["predict_rouge_l"] > 50


def test_rows_without_text_are_left_out_if_it_is_asked_for(main, files, tmp_path):
    write_jsonl(tmp_path / "data.jsonl", [question(0), question(1, question=" "), question(2)])
    work = ["--do_eval", "--validation_file", str(tmp_path / "data.jsonl"), "--skip_empty"]
    assert main(options(files, tmp_path / "out", *work))["eval_samples"] == 2


def test_left_padding_becomes_right_padding_with_a_note(main, files, tmp_path, caplog):
    main(options(files, tmp_path / "left", "--do_eval", backbone="left"))
    assert "encoder-decoders need padding on the right" in caplog.text
    left, right = tmp_path / "left", tmp_path / "right"
    main(options(files, right, "--do_eval", "--pad_to_max_length"))
    one, other = (json.loads((folder / "eval_results.json").read_text()) for folder in (left, right))
    assert one["eval_loss"] == pytest.approx(other["eval_loss"], rel=1e-4)
    assert one["eval_bleu"] == other["eval_bleu"]


def test_the_best_model_is_the_one_with_the_best_bleu(main, files, tmp_path):
    often = ["--eval_strategy", "steps", "--eval_steps", "1", "--save_steps", "1", "--load_best_model_at_end"]
    main(options(files, tmp_path / "out", "--do_train", "--do_eval", "--max_steps", "2", *often))
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert state["best_metric"] == max(log["eval_bleu"] for log in state["log_history"] if "eval_bleu" in log)


def test_the_loss_alone(main, files, tmp_path):
    metrics = main(options(files, tmp_path / "out", "--do_eval", "--predict_with_generate", "false"))
    assert metrics["eval_loss"] > 0
    assert "eval_bleu" not in metrics


def test_unanswerable_questions_are_left_out(main, files, tmp_path):
    assert main(options(files, tmp_path / "out", "--do_eval", data="mixed.jsonl"))["eval_samples"] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "Nothing to do: give at least one of --do_train"),
        (["--do_train", "--train_file", "missing.json"], "missing.json: no such file"),
        (["--do_train", "--train_file", "{files}/unanswerable.jsonl"], "none of the 3 questions has an answer"),
        (["--do_train", "--train_file", "{files}/unasked.jsonl"], "line 1 (id q0): the field 'question' is missing"),
        (
            ["--do_train", "--backbone", "{files}/bert"],
            "bert' cannot generate text: it is not an encoder-decoder for text. Give one such as BART",
        ),
        (["--do_train", "--backbone", "{files}/beginless"], "BartForConditionalGeneration has no decoder_start_token"),
        (["--do_train", "--backbone", "{files}/endless"], "ends texts with the token 3 ([SEP]), but BartForCond"),
        (["--do_train", "--max_source_length", "9"], "--max_source_length 9 leaves no room for answer and passage"),
        (["--do_train", "--max_target_length", "0"], "--max_target_length must be at least 1; got 0"),
        (["--do_train", "--max_seq_length", "40"], "Unknown option --max_seq_length. Did you mean --max_source_len"),
        (["--do_predict", "--predict_with_generate", "false"], "pass --predict_with_generate true"),
        (["--do_eval", "--metric_for_best_model", "f1"], "must be one of bleu, rouge_l, meteor"),
    ],
)
def test_what_the_user_can_mend_is_one_line(main, files, tmp_path, capsys, changes, message):
    changes = [change.format(files=files) for change in changes]
    assert_one_line_error(main, options(files, tmp_path / "out", *changes), message, tmp_path / "out", capsys)


def test_an_encoder_under_a_family_cannot_write_either(main, files, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(options(files, tmp_path / "out", "--do_train", family="cool", backbone="bert"))
    assert "bert" in capsys.readouterr().err.rsplit("error: ", 1)[1]
