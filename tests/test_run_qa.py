"""The script from command line to reloaded checkpoint, on a model that learns nothing in two steps."""

import json
import shutil

import pytest
from transformers import AutoModelForQuestionAnswering, AutoTokenizer, Trainer, pipeline

from hf_localattn.data import load_squad
from hf_localattn.data.answers import AnswerSettings, extract_answers
from hf_localattn.data.questions import evaluation_features
from hf_localattn.metrics.squad_scores import is_blank
from hf_localattn.tasks.question_answering import score_answers
from tests.qa_helpers import question, tiny_bert, unanswerable, word_pieces, write_jsonl
from tests.script_helpers import assert_one_line_error, load_main


@pytest.fixture(scope="module")
def main():
    return load_main("run_qa")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qa")
    tokenizer = word_pieces()
    tiny_bert(tokenizer).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    left = word_pieces("left", cls_last=True)
    tiny_bert(left).save_pretrained(folder / "left")
    left.save_pretrained(folder / "left")
    write_jsonl(folder / "answered.jsonl", [question(i) for i in range(8)])
    write_jsonl(folder / "mixed.jsonl", [question(i) if i % 2 else unanswerable(i) for i in range(6)])
    unlabeled = [{key: value for key, value in question(i).items() if key != "answers"} for i in range(2)]
    write_jsonl(folder / "unlabeled.jsonl", unlabeled)
    return folder


def options(files, output_dir, *more, model="model", data="answered.jsonl"):
    common = ["--max_seq_length", "40", "--doc_stride", "8", "--per_device_train_batch_size", "2", "--use_cpu"]
    where = ["--train_file", str(files / data), "--validation_file", str(files / data)]
    return ["--model_name_or_path", str(files / model), *where, *common, "--output_dir", str(output_dir), *more]


def test_trains_evaluates_predicts_and_reloads(main, files, tmp_path):
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--do_predict", "--test_file", str(files / "unlabeled.jsonl")]
    metrics = main(options(files, out, *work, "--max_steps", "2", "--max_eval_samples", "3"))
    assert metrics["eval_samples"] == 3
    assert {"train_loss", "eval_exact_match", "eval_f1", "predict_runtime"} <= set(metrics)
    assert "predict_f1" not in metrics  # no answers to compare with
    assert json.loads((out / "all_results.json").read_text())["eval_f1"] == metrics["eval_f1"]
    predictions = json.loads((out / "predict_predictions.json").read_text())
    assert list(predictions) == ["q0", "q1"]
    # the saved folder is whole
    model = AutoModelForQuestionAnswering.from_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    row = question()
    reader = pipeline("question-answering", model=model, tokenizer=tokenizer, max_seq_len=40, doc_stride=8)
    answer = reader(question=row["question"], context=row["context"])["answer"]
    assert answer in row["context"]


@pytest.mark.parametrize("model", ["model", "left"])
@pytest.mark.parametrize("padded", ["true", "false"])
def test_unanswerable_questions_either_side_padded_or_not(main, files, tmp_path, model, padded):
    work = ["--do_eval", "--version_2_with_negative", "--pad_to_max_length", padded]
    metrics = main(options(files, tmp_path / "out", *work, model=model, data="mixed.jsonl"))
    assert {"eval_exact", "eval_HasAns_f1", "eval_NoAns_f1"} <= set(metrics)
    odds = json.loads((tmp_path / "out" / "eval_null_odds.json").read_text())
    predictions = json.loads((tmp_path / "out" / "eval_predictions.json").read_text())
    assert {key: text == "" for key, text in predictions.items()} == {key: value > 0 for key, value in odds.items()}


def test_rows_without_text_are_left_out_if_it_is_asked_for(main, files, tmp_path):
    write_jsonl(tmp_path / "data.jsonl", [question(0), question(1, question=" "), question(2)])
    work = ["--do_eval", "--do_predict", "--validation_file", str(tmp_path / "data.jsonl"), "--skip_empty"]
    metrics = main(options(files, tmp_path / "out", *work, "--test_file", str(tmp_path / "data.jsonl")))
    assert (metrics["eval_samples"], metrics["predict_samples"]) == (2, 2)
    assert set(json.loads((tmp_path / "out" / "predict_predictions.json").read_text())) == {"q0", "q2"}


def test_the_metric_decides_as_the_predictions_do(files):
    rows = load_squad(files / "mixed.jsonl")
    features = evaluation_features(rows.to_dict(), word_pieces(), 40, 8)
    features = [dict(zip(features, values, strict=True)) for values in zip(*features.values(), strict=True)]
    starts = [[float((i * 7 + j * 3) % 11) for j in range(40)] for i in range(len(features))]
    for threshold in (-5.0, 0.0, 5.0):
        settings = AnswerSettings(handle_no_answer=True, null_score_diff_threshold=threshold)
        answers = extract_answers(
            dict(zip(rows["id"], rows["context"], strict=True)), features, starts, starts, settings
        )
        silent = [is_blank(answers[row["id"]].best.text) for row in rows if not row["answers"]["text"]]
        assert score_answers(answers, rows, settings)[0]["NoAns_f1"] == pytest.approx(100 * sum(silent) / len(silent))


def test_the_best_model_is_the_one_with_the_best_f1(main, files, tmp_path):
    often = ["--eval_strategy", "steps", "--eval_steps", "1", "--save_steps", "1", "--load_best_model_at_end"]
    main(options(files, tmp_path / "out", "--do_train", "--max_steps", "2", *often))
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert state["best_metric"] == max(log["eval_f1"] for log in state["log_history"] if "eval_f1" in log)


def test_a_killed_run_goes_on_from_its_last_complete_checkpoint(main, files, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    run = options(files, out, "--do_train", "--max_steps", "4", "--save_steps", "1")
    written = []
    original = Trainer._save_optimizer_and_scheduler

    def killed_at_the_third(self, output_dir):
        written.append(output_dir)
        if len(written) == 3:
            raise KeyboardInterrupt
        original(self, output_dir)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_save_optimizer_and_scheduler", killed_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            main(run)
    assert (out / "checkpoint-3").is_dir()
    assert not (out / "config.json").exists()
    main(run)
    assert json.loads((out / "trainer_state.json").read_text())["global_step"] == 4

    straight = tmp_path / "straight"
    main([*run, "--output_dir", str(straight)])
    one, other = (AutoModelForQuestionAnswering.from_pretrained(folder) for folder in (out, straight))
    for parameter, expected in zip(one.parameters(), other.parameters(), strict=True):
        assert parameter.equal(expected)

    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(run)
    assert ended.value.code == 2
    assert "holds a finished run" in capsys.readouterr().err
    metrics = main([*run, "--max_steps", "5", "--resume_from_checkpoint", "true"])
    assert metrics["train_loss"] > 0


def test_a_run_killed_before_its_final_save_trains_no_further(main, files, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    work = ["--do_train", "--max_steps", "3", "--save_steps", "3"]
    main(options(files, whole, *work))
    shutil.copytree(whole / "checkpoint-3", killed / "checkpoint-3")
    main(options(files, killed, *work))
    assert json.loads((killed / "trainer_state.json").read_text())["global_step"] == 3
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert [path.name for path in killed.glob("checkpoint-*")] == ["checkpoint-3"]


def test_a_checkpoint_of_another_model_is_not_resumed(main, files, tmp_path, capsys):
    out = tmp_path / "out"
    main(options(files, out, "--do_train", "--max_steps", "1", "--save_steps", "1"))
    (out / "trainer_state.json").unlink()  # as if killed before the end
    tokenizer = word_pieces()
    tiny_bert(tokenizer, hidden_size=24).save_pretrained(files / "other")
    tokenizer.save_pretrained(files / "other")
    with pytest.raises(SystemExit):
        main(options(files, out, "--do_train", "--max_steps", "2", model="other"))
    assert "holds another run: its model_name_or_path" in capsys.readouterr().err


def test_a_checkpoint_of_the_same_size_with_other_fields_is_not_resumed(main, files, tmp_path, capsys):
    out = tmp_path / "out"
    fresh = ["--family", "cool", "--backbone", str(files / "model"), "--do_train", "--save_steps", "1", "--use_cpu"]
    fresh += ["--train_file", str(files / "answered.jsonl"), "--max_seq_length", "40", "--doc_stride", "8"]
    main([*fresh, "--output_dir", str(out), "--max_steps", "1"])
    (out / "trainer_state.json").unlink()  # as if killed before the end
    with pytest.raises(SystemExit):
        main([*fresh, "--output_dir", str(out), "--max_steps", "2", "--local_config", "outlook_softmax=window"])
    assert "holds another run: its " in capsys.readouterr().err


def test_a_family_on_a_plain_backbone(main, files, tmp_path):
    run = options(
        files, tmp_path / "out", "--do_train", "--do_eval", "--max_steps", "1", "--local_learning_rate", "1e-3"
    )
    index = run.index("--model_name_or_path")
    run[index : index + 2] = [
        "--family",
        "cool",
        "--backbone",
        str(files / "model"),
        "--local_config",
        "num_local_layers=1",
    ]
    main(run)
    assert (tmp_path / "out" / "modeling_cool.py").is_file()
    moved = shutil.move(tmp_path / "out", tmp_path / "moved")
    model = AutoModelForQuestionAnswering.from_pretrained(moved, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(moved)
    reader = pipeline("question-answering", model=model, tokenizer=tokenizer)
    assert reader(question="who sat?", context=question()["context"])["answer"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "Nothing to do: give at least one of --do_train"),
        (["--do_train", "--train_file", "missing.json"], "missing.json: no such file"),
        (["--do_predict"], "--do_predict needs test data: give --test_file"),
        (
            ["--do_train", "--train_file", "{files}/mixed.jsonl"],
            "3 of 6 train questions have no answer: pass --version_2",
        ),
        (["--do_train", "--model_name_or_path", "no-such/model"], "Cannot load the config 'no-such/model'"),
        (["--do_train", "--model_name_or_path", "{files}"], "is not a folder with a `config.json`"),
        (["--do_train", "--doc_stride", "39"], "doc_stride 39 is too large"),
        (["--do_train", "--output_dir", "{files}"], "is not empty"),
        (["--do_train", "--resume_from_checkpoint", "{files}/model"], "is not a whole checkpoint"),
        (["--do_eval", "--metric_for_best_model", "bleu"], "must be one of f1, exact_match; got 'bleu'"),
    ],
)
def test_what_the_user_can_mend_is_one_line(main, files, tmp_path, capsys, changes, message):
    changes = [change.format(files=files) for change in changes]
    assert_one_line_error(main, options(files, tmp_path / "out", *changes), message, tmp_path / "out", capsys)
