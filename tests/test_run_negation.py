"""Negation scopes through run_ner.py, from command line to predictions and reloaded checkpoint."""

import json

import pytest
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

from hf_localattn import OaXLNetTokenizer
from hf_localattn.data import load_negation
from hf_localattn.data.negation import group_sentences, with_scope
from hf_localattn.models.negation_finder import FoundCue, NegationFinder
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from hf_localattn.tasks.starsem import OFFICIAL_SCORES, score_sentences
from tests.qa_helpers import tiny_bert, word_pieces, write_jsonl
from tests.script_helpers import ROOT, assert_one_line_error, load_main

SAMPLES = ROOT / "hf_localattn" / "resources" / "samples" / "negation"
WORDS = ["he", "saw", "the", "old", "house", "and", "she", "never", "left", "it"]


def sentence(cue, number, length=6):
    """All that follows the cue is negated; the words alone do not tell which "not" is the cue."""
    tokens = [WORDS[(number + place) % len(WORDS)] for place in range(length)]
    for place in (1, 4, cue):
        tokens[place] = "not"
    return {
        "id": f"r{number}-{cue}",
        "sentence_id": f"s{number}",
        "tokens": tokens,
        "cue": [int(place == cue) for place in range(length)],
        "scope": [int(place > cue) for place in range(length)],
    }


ROWS = [sentence(cue, number) for number in range(4) for cue in (1, 4)]


@pytest.fixture(scope="module")
def main():
    return load_main("run_ner")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("negation")
    tokenizer = word_pieces("left", cls_last=True)
    tiny_bert(tokenizer).base_model.save_pretrained(folder / "left")
    tokenizer.save_pretrained(folder / "left")
    write_jsonl(folder / "data.jsonl", ROWS)
    write_jsonl(folder / "bare.jsonl", [{name: row[name] for name in ("tokens", "cue")} for row in ROWS[:3]])
    write_jsonl(folder / "empty.jsonl", [{**row, "scope": [0] * 6} for row in ROWS])
    write_jsonl(folder / "no_cue.jsonl", [ROWS[0], {**ROWS[1], "cue": [0] * 6}])
    write_jsonl(folder / "ragged.jsonl", [ROWS[0], {**ROWS[1], "scope": [0] * 5}])
    write_jsonl(folder / "marked.jsonl", [ROWS[0], {**ROWS[1], "tokens": ["[CUE]", *ROWS[1]["tokens"][1:]]}])
    long = sentence(1, 20, length=30)
    write_jsonl(folder / "long.jsonl", [*ROWS[:2], long, {**sentence(25, 30, length=30), "id": "late"}])
    return folder


def options(files, output_dir, *more, data="data.jsonl", family="oa-xlnet", steps="2"):
    start = ["--task", "negation", "--family", family, "--backbone", "tiny"]
    where = ["--train_file", str(files / data), "--validation_file", str(files / data)]
    common = ["--max_seq_length", "24", "--per_device_train_batch_size", "4", "--use_cpu", "--report_to", "none"]
    return [*start, *where, *common, "--max_steps", steps, "--output_dir", str(output_dir), *more]


def predicted(out):
    return [json.loads(line) for line in (out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]


def test_trains_evaluates_predicts_and_reloads(main, files, tmp_path):
    out = tmp_path / "out"
    work = ["--do_train", "--do_eval", "--do_predict", "--test_file", str(files / "bare.jsonl")]
    metrics = main(options(files, out, *work))
    assert {f"eval_{name}" for name in ("loss", "f1", "precision", "recall", "scope_exact_match")} <= set(metrics)
    assert {name for name in metrics if name.startswith("predict_")} == {
        *("predict_runtime", "predict_samples_per_second", "predict_steps_per_second", "predict_samples")
    }
    rows = predicted(out)
    assert [set(row) for row in rows] == [{"id", "tokens", "cue", "predicted_scope"}] * 3
    assert [row["tokens"] for row in rows] == [row["tokens"] for row in ROWS[:3]]
    assert all(len(row["predicted_scope"]) == 6 and set(row["predicted_scope"]) <= {0, 1} for row in rows)
    model = AutoModelForTokenClassification.from_pretrained(out)
    assert model.config.label2id == {"O": 0, "SCOPE": 1}
    assert type(AutoTokenizer.from_pretrained(out)) is OaXLNetTokenizer
    # the finished model on another corpus, whose scopes are known
    test = ["--do_predict", "--test_file", str(SAMPLES / "starsem.txt"), "--use_cpu", "--report_to", "none"]
    start = ["--task", "negation", "--model_name_or_path", str(out), "--output_dir", str(tmp_path / "other")]
    metrics = main([*start, *test])
    assert {"predict_f1", "predict_loss", "predict_scope_exact_match"} <= set(metrics)
    assert "scope" in predicted(tmp_path / "other")[0]


def test_official_scores_and_columns_of_starsem(main, files, tmp_path):
    corpus, out = str(SAMPLES / "starsem.txt"), tmp_path / "out"
    data = ["--train_file", corpus, "--validation_file", corpus, "--test_file", corpus]
    best = [
        "--metric_for_best_model",
        "starsem_scope_tokens_f1",
        "--eval_strategy",
        "steps",
        "--save_strategy",
        "best",
    ]
    work = ["--do_train", "--do_eval", "--do_predict", "--max_eval_samples", "9", "--eval_steps", "1", *best]
    metrics = main(options(files, out, *data, *work))
    assert {f"eval_{name}" for name in OFFICIAL_SCORES} <= set(metrics)
    rows = load_negation(corpus)
    assert rows.to_list() == load_negation(out / "starsem_gold.txt").to_list()
    found = load_negation(out / "starsem_predicted.txt", cue_in_scope="corpus").to_list()
    assert [row["id"] for row in found] == rows["id"][:]
    assert [row["scope"] for row in found] == [row["predicted_scope"] for row in predicted(out)]
    scores = score_sentences(
        group_sentences(rows), group_sentences(map(with_scope, rows, [row["scope"] for row in found]))
    )
    assert {f"predict_{name}": value for name, value in scores.items()}.items() <= metrics.items()
    assert metrics["predict_starsem_cues_f1"] == 1


def test_rows_without_words_are_left_out_if_it_is_asked_for(main, files, tmp_path):
    write_jsonl(tmp_path / "data.jsonl", [ROWS[0], {"tokens": [], "cue": [], "scope": []}, ROWS[1]])
    work = ["--do_train", "--do_predict", "--test_file", str(tmp_path / "data.jsonl"), "--skip_empty"]
    metrics = main(options(tmp_path, tmp_path / "out", *work, data="data.jsonl"))
    assert (metrics["train_samples"], metrics["predict_samples"]) == (2, 2)
    assert [row["tokens"] for row in predicted(tmp_path / "out")] == [ROWS[0]["tokens"], ROWS[1]["tokens"]]


LEARN = ["--do_train", "--do_eval", "--do_predict", "--learning_rate", "0.002", "--lr_scheduler_type", "constant"]


@pytest.mark.parametrize(
    ("fields", "learns"),
    [
        (["local_attention=emb", "cue_marker=drop"], True),  # from the query alone
        (["local_attention=none", "cue_marker=keep"], True),  # the baseline, from the markers
        (["local_attention=none", "cue_marker=drop"], False),  # nothing tells it which word is the cue
    ],
)
def test_it_learns_what_follows_the_cue(main, files, tmp_path, fields, learns):
    data = ["--test_file", str(files / "data.jsonl"), "--per_device_train_batch_size", "8"]
    fields = ["--local_config", *fields, "oa_dropout=0", "classifier_dropout=0"]
    metrics = main(options(files, tmp_path / "out", *LEARN, *data, *fields, steps="50"))
    assert metrics["eval_f1"] == metrics["predict_f1"]
    assert metrics["eval_scope_exact_match"] == (1 if learns else pytest.approx(0.25, abs=0.25))
    assert learns == all(row["predicted_scope"] == row["scope"] for row in predicted(tmp_path / "out"))


@pytest.mark.parametrize("cue_marker", ["keep", "drop", "typed"])
def test_padding_on_the_left_shifts_no_word(main, files, tmp_path, cue_marker):
    """The same fresh model, with and without padding; [CLS] is last, words have many tokens."""
    work = ["--do_predict", "--test_file", str(files / "data.jsonl"), "--backbone", str(files / "left")]
    work += ["--max_seq_length", "64", "--local_config", f"cue_marker={cue_marker}"]
    found = []
    for size in ("1", "8"):
        main(options(files, tmp_path / size, *work, "--per_device_eval_batch_size", size))
        found.append([row["predicted_scope"] for row in predicted(tmp_path / size)])
    assert found[0] == found[1]
    assert {0, 1} == {word for row in found[0] for word in row}


def test_what_the_model_does_not_see_is_scored_and_said(main, files, tmp_path, caplog):
    """24 tokens hold 21 words with a marker: 9 of 30 words are behind them, and the cue of the last row."""
    work = [*LEARN, "--test_file", str(files / "long.jsonl"), "--local_config", "oa_dropout=0"]
    metrics = main(options(files, tmp_path / "out", *work, data="long.jsonl", steps="1"))
    for split, of_cues, of_words in (
        ("train", "These rows are left out of training.", "are left out of training"),
        ("test", "An empty scope is predicted for them.", "count as not in scope, and are scored"),
    ):
        assert (
            f"does not see the cue of 1 of 4 {split} rows: it is after the 24 tokens of --max_seq_len" in caplog.text
        )
        assert f"does not see 9 words of 1 other {split} rows" in caplog.text
        assert of_cues in caplog.text
        assert of_words in caplog.text
    rows = predicted(tmp_path / "out")
    assert [len(row["predicted_scope"]) for row in rows] == [6, 6, 30, 30]
    assert not any(rows[2]["predicted_scope"][21:])
    assert not any(rows[3]["predicted_scope"])
    true, found = (sum(sum(row[name]) for row in rows) for name in ("scope", "predicted_scope"))
    hits = sum(a & b for row in rows for a, b in zip(row["scope"], row["predicted_scope"], strict=True))
    assert metrics["predict_recall"] == hits / true
    assert metrics["predict_f1"] == pytest.approx(2 * hits / (true + found))
    assert metrics["predict_samples"] == 4
    assert metrics["train_samples"] == 3


def test_a_trained_model_is_asked_from_python(main, files, tmp_path):
    """The finder says what the script's predictions say."""
    out = tmp_path / "out"
    main(options(files, out, "--do_train", "--do_predict", "--test_file", str(files / "data.jsonl"), steps="3"))
    model = AutoModelForTokenClassification.from_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    rows = list(predicted(out))
    found = scopes_of(model, tokenizer, [row["tokens"] for row in rows], [row["cue"] for row in rows])
    assert found == [row["predicted_scope"] for row in rows]


@pytest.mark.parametrize("side", ["right", "left"])
def test_scopes_of_many_sentences_are_those_of_each(side):
    torch.manual_seed(0)
    labels = {0: "O", 1: "SCOPE"}
    model = FAMILIES["oa-xlnet"].heads["token-classification"].from_backbone(tiny_backbone(), id2label=labels)
    tokenizer = FAMILIES["oa-xlnet"].adapt_tokenizer(AutoTokenizer.from_pretrained(tiny_backbone()), model)
    tokenizer.padding_side = side
    words = [
        "The",
        "smith",
        "does",
        "not",
        "keep",
        "goats",
        "but",
        "the",
        "teacher",
        "keeps",
        "two",
        "of",
        "them",
        "and",
        "Mira",
        "sings",
    ]
    sentences = [words[:length] for length in range(4, len(words), 2)]
    cues = [[int(word == "not") for word in sentence] for sentence in sentences]
    with torch.no_grad():  # half of the words in scope
        probe = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
        difference = model(**probe).logits[..., 1] - model(**probe).logits[..., 0]
        model.token_classifier.bias[1] -= difference[probe["attention_mask"] == 1].median()
    alone = [scopes_of(model, tokenizer, [words], [cue])[0] for words, cue in zip(sentences, cues, strict=True)]
    assert {number for scope in alone for number in scope} == {0, 1}
    assert scopes_of(model, tokenizer, sentences, cues) == alone


def scopes_of(model, tokenizer, sentences, cues):
    """The scope of a cue of each sentence, 0 or 1 for each word."""
    finder = NegationFinder(model.eval(), tokenizer)
    given = [FoundCue("negation", "single", tuple(i for i, is_cue in enumerate(cue) if is_cue)) for cue in cues]
    with torch.inference_mode():
        return [[int(word) for word in scope.words] for scope in finder.find_scopes(sentences, given)]


def test_a_model_that_cannot_know_the_cue_is_told_of(main, files, tmp_path, caplog):
    fields = ["--local_config", "local_attention=none", "cue_marker=drop"]
    main(options(files, tmp_path / "out", "--do_train", *fields, steps="1"))
    assert "This model cannot tell which cue is meant" in caplog.text


def test_only_training_adds_the_marker_to_a_tokenizer(main, files, tmp_path, capsys):
    """Every family learns scopes with a marker of its own; a finished model without one cannot know the cue."""
    main(options(files, tmp_path / "out", "--do_train", family="baseline", steps="1"))
    assert "[CUE]" in AutoTokenizer.from_pretrained(tmp_path / "out").get_added_vocab()
    work = ["--do_predict", "--test_file", str(files / "data.jsonl"), "--use_cpu", "--report_to", "none"]
    start = [
        "--task",
        "negation",
        "--model_name_or_path",
        str(tmp_path / "out"),
        "--tokenizer_name",
        str(tiny_backbone()),
    ]
    message = "has no cue marker [CUE], so the model cannot know which cue is meant"
    assert_one_line_error(
        main, [*start, *work, "--output_dir", str(tmp_path / "no")], message, tmp_path / "no", capsys
    )


def test_folds_keep_the_cues_of_a_sentence_together(main, tmp_path):
    corpus = str(SAMPLES / "bioscope.xml")
    start = ["--task_name", "negation", "--family", "oa-xlnet", "--backbone", "tiny", "--train_file", corpus]
    work = ["--num_folds", "2", "--do_train", "--do_eval", "--do_predict", "--max_steps", "1", "--use_cpu"]
    metrics = main([*start, *work, "--report_to", "none", "--output_dir", str(tmp_path)])
    assert {"predict_f1_mean", "predict_f1_std"} <= set(metrics)
    tested = [{" ".join(row["tokens"]) for row in predicted(tmp_path / f"fold-{fold}")} for fold in (1, 2)]
    assert all(tested)
    assert not tested[0] & tested[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--train_file", "{files}/empty.jsonl"], "No train row has a word in scope: give training data"),
        (["--train_file", "{files}/no_cue.jsonl"], "no_cue.jsonl, line 2"),
        (["--train_file", "{files}/ragged.jsonl"], "ragged.jsonl, line 2"),
        (["--train_file", "{files}/bare.jsonl"], "scope"),
        (["--train_file", "{files}/marked.jsonl"], "[CUE]"),
        (["--max_seq_length", "2"], "No train row has its cue within 2 tokens: check --max_seq_length"),
        (["--cues", "doubt"], "--cues must be negation or speculation or both; got 'doubt'"),
        (["--cue_in_scope", "always"], "--cue_in_scope must be never or corpus; got 'always'"),
        (["--label_column_name", "scope"], "--label_column_name cannot be used with --task negation"),
        (["--task", "ner", "--cues", "speculation"], "--cues can only be used with --task negation"),
        (
            ["--metric_for_best_model", "accuracy"],
            "must be one of loss, f1, precision, recall, scope_exact_match; got",
        ),
        (
            ["--metric_for_best_model", "starsem_cues_f1", "--eval_strategy", "steps"],
            "must be one of loss, f1, precision, recall, scope_exact_match; got 'starsem_cues_f1'",
        ),
        (["--local_config", "cue_marker=plain"], "cue_marker"),
    ],
)
def test_what_the_user_can_mend_is_one_line(main, files, tmp_path, capsys, changes, message):
    changes = [change.format(files=files) for change in changes]
    arguments = options(files, tmp_path / "out", "--do_train", *changes)
    assert_one_line_error(main, arguments, message, tmp_path / "out", capsys)
