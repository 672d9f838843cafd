"""Answers and questions: windows, padding, and what is scored."""

import json

import pytest

from hf_localattn.data import load_squad
from hf_localattn.data.answers import extract_answers
from hf_localattn.data.questions import evaluation_features
from hf_localattn.metrics.squad_scores import is_blank
from hf_localattn.tasks.question_answering import score_answers
from tests.qa_helpers import question, word_pieces, write_jsonl
from tests.scripts.conftest import lines_of


@pytest.mark.parametrize("model", ["plain", "left"])
@pytest.mark.parametrize("padded", [True, False])
def test_unanswerable_questions_either_side_padded_or_not(model, padded, run, tmp_path):
    options = {"version_2_with_negative": True, "pad_to_max_length": padded, "backbone": model}
    metrics = run("qa", "mixed.jsonl", "eval", **options)
    assert {"eval_exact", "eval_HasAns_f1", "eval_NoAns_f1", "eval_best_f1_thresh"} <= set(metrics)
    odds, predictions = (
        json.loads((tmp_path / "out" / f"eval_{name}.json").read_text()) for name in ("null_odds", "predictions")
    )
    assert {key: text == "" for key, text in predictions.items()} == {key: value > 0 for key, value in odds.items()}


@pytest.mark.parametrize("threshold", [-5.0, 0.0, 5.0])
def test_the_metric_decides_as_the_predictions_do(threshold, files):
    rows = load_squad(files / "mixed.jsonl")
    features = evaluation_features(rows.to_dict(), word_pieces(), 40, 8)
    features = [dict(zip(features, values, strict=True)) for values in zip(*features.values(), strict=True)]
    starts = [[float((i * 7 + j * 3) % 11) for j in range(40)] for i in range(len(features))]
    contexts = dict(zip(rows["id"], rows["context"], strict=True))
    answers = extract_answers(contexts, features, starts, starts, null_threshold=threshold)
    silent = [is_blank(answers[row["id"]].best.text) for row in rows if not row["answers"]["text"]]
    assert score_answers(answers, rows.select_columns(["id", "answers"]).to_list(), threshold)[
        "NoAns_f1"
    ] == pytest.approx(100 * sum(silent) / len(silent))


def test_it_learns_to_ask_about_the_answer(run, tmp_path):
    words, context = ["cat", "mat", "dog", "red"], "the cat sat on the red mat. the dog sat."
    rows = [
        question(
            number,
            context=context,
            question=f"who sat on the {words[number % 4]}?",
            answers={"text": [words[number % 4]], "answer_start": [context.index(words[number % 4])]},
        )
        for number in range(16)
    ]
    data = str(write_jsonl(tmp_path / "copy.jsonl", rows))
    metrics = run("qg", data, "train eval", max_steps=120, learning_rate=1e-2, per_device_train_batch_size=16)
    assert metrics["eval_bleu"] == pytest.approx(100)
    assert metrics["eval_rouge_l"] == pytest.approx(100)


def test_rows_are_scored_against_their_own_questions(run, tmp_path):
    rows = [question(0), question(1, question="who?")]
    data = str(write_jsonl(tmp_path / "asked.jsonl", rows))
    before = run("qg", None, "predict", test_file=data, num_beams=1)
    first, second = lines_of(tmp_path / "out" / "generated_predictions.txt")
    assert first == second  # the same passage and answer
    write_jsonl(tmp_path / "asked.jsonl", [{**row, "question": f"{first} x"} for row in rows])
    after = run("qg", None, "predict", out="again", test_file=data, num_beams=1)
    assert before["predict_rouge_l"] < 50 < after["predict_rouge_l"]
    assert (before["predict_num_beams"], before["predict_gen_len"]) == (1, after["predict_gen_len"])


def test_left_padding_becomes_right_padding_with_a_note(run, caplog):
    left = run("qg", "answered.jsonl", "eval", backbone="left_bart")
    assert "encoder-decoders need padding on the right" in caplog.text
    right = run("qg", "answered.jsonl", "eval", out="right", pad_to_max_length=True)
    assert left["eval_loss"] == pytest.approx(right["eval_loss"], rel=1e-4)
    assert left["eval_bleu"] == right["eval_bleu"]


def test_the_loss_alone_of_questions_that_have_an_answer(run):
    metrics = run("qg", "mixed.jsonl", "eval", predict_with_generate=False)
    assert metrics["eval_loss"] > 0
    assert metrics["eval_samples"] == 3
    assert "eval_bleu" not in metrics
