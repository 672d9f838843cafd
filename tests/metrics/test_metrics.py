"""Metrics of classes, answers and texts, by hand or by the official scripts; modules of `evaluate`."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from nltk.corpus import wordnet

from hf_localattn.metrics import METRICS, load_metric
from hf_localattn.metrics.classification_scores import SCORES, logger
from hf_localattn.metrics.word_scores import find_stray_tag
from tests.qa_helpers import tiny_bert, word_pieces, write_jsonl
from tests.script_helpers import load_main

MODULE = """
import datasets
import evaluate

class Share(evaluate.Metric):
    def _info(self):
        kinds = datasets.Value("int64"), datasets.List(datasets.Value("string"))
        features = [datasets.Features(predictions=kind, references=kind) for kind in kinds]
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        equal = [one == other for one, other in zip(predictions, references)]
        return {"share": sum(equal) / len(equal), "of": len(equal), "each": equal}
"""


def share(folder):
    (folder / "share").mkdir(exist_ok=True)
    (folder / "share" / "share.py").write_text(MODULE)
    return str(folder / "share")


def test_modules(tmp_path):
    metric = load_metric("glue", "stsb")
    metric.add_batch(predictions=[1.0, 2.0], references=[0.0, 1.0])
    metric.add_batch(predictions=[4.0], references=[2.0])
    assert metric.compute() == load_metric("glue", "stsb").compute(predictions=[1.0, 2, 4], references=[0.0, 1, 2])
    assert all(load_metric(name).name == name for name in METRICS if name != "glue")
    assert load_metric(share(tmp_path)).compute(predictions=[1, 0], references=[1, 1])["share"] == 0.5
    with pytest.raises(OSError, match=r"none of .*squad.* '.*nothing'"):
        load_metric(str(tmp_path / "nothing"))
    for config_name in (None, "ax"):
        with pytest.raises(ValueError, match=r"glue has no configuration .*cola, mnli, "):
            load_metric("glue", config_name)


@pytest.mark.parametrize(
    ("script", "row"),
    [("run_glue", {"text": "the cat sat"}), ("run_ner", {"tokens": ["the", "cat"], "labels": ["O", "B-x"]})],
)
def test_a_further_metric_of_a_script(tmp_path, script, row):
    data = str(write_jsonl(tmp_path / "rows.jsonl", [{**row, "label": label} for label in "ab"]))
    tokenizer, arguments = word_pieces(), ["--do_train", "--do_eval", "--max_steps", "1", "--use_cpu"]
    for part in (tokenizer, tiny_bert(tokenizer)):
        part.save_pretrained(tmp_path / "model")
    arguments += ["--model_name_or_path", str(tmp_path / "model"), "--output_dir", str(tmp_path / "out")]
    arguments += ["--train_file", data, "--validation_file", data, "--metric_for_best_model", "share"]
    metrics = load_main(script)([*arguments, "--metric", share(tmp_path)])
    assert metrics["eval_of"] == 2
    assert metrics["eval_share"] in (0, 0.5, 1)
    assert "eval_each" not in metrics
    with pytest.raises(SystemExit):  # before the training
        load_main(script)([*arguments, "--metric", str(tmp_path / "nothing"), "--output_dir", str(tmp_path / "other")])
    assert not list((tmp_path / "other").glob("*.safetensors"))


BINARY = [0, 1, 1, 0, 1], [0, 1, 0, 1, 1]
# true and false positives 2 and 1, true and false negatives 1 and 1
COLA = [1, 1, 1, 0, 0], [1, 1, 0, 0, 1], {"matthews_correlation": (2 - 1) / math.sqrt(3 * 3 * 2 * 2)}
STSB = [0.5, 1.0, 2.0], [0.0, 0.5, 1.0], {"pearson": 3 / math.sqrt(2 * 14 / 3), "spearmanr": 1}


@pytest.mark.parametrize(
    ("task", "predictions", "references", "expected"),
    [
        ("mnli", *BINARY, {"accuracy": 3 / 5}),
        ("mrpc", *BINARY, {"accuracy": 3 / 5, "f1": 2 / 3}),
        ("cola", *COLA),
        ("stsb", *STSB),
        ("stsb", [1.5, 1.5], [0.5, 1.0], {"pearson": 0, "spearmanr": 0}),
        ("cola", [1, 1], [0, 1], {"matthews_correlation": 0}),
        ("mrpc", [0, 0], [0, 0], {"accuracy": 1, "f1": 0}),
    ],
)
def test_tasks(task, predictions, references, expected):
    scores = load_metric("glue", task).compute(predictions=predictions, references=references)
    assert scores == pytest.approx(expected)


def test_scores_of_nothing_and_of_what_is_no_number(caplog):
    assert SCORES["pearson"](np.array([2.0]), np.array([0.5])) == 0
    sets = np.array([[1, 0], [1, 0]])  # nothing has the second class
    assert [SCORES[name](sets, sets) for name in ("macro_f1", "micro_f1", "subset_accuracy")] == [0.5, 1, 1]
    assert SCORES["micro_f1"](0 * sets, 0 * sets) == 0
    type(logger).warning_once.cache_clear()
    for bad in (math.nan, math.inf):
        for name in ("mse", "rmse", "pearson", "spearmanr"):
            assert math.isnan(SCORES[name](np.array([0.5, bad, 1.0]), np.array([0.0, 1.0, 2.0])))
    assert caplog.text.count("diverged") == 1


def squad(name, texts, golds, no_answer=None, **options):
    """Return the scores of predictions and of gold answers, separated by `|`; a question has its number as its id."""
    rows = [{"id": str(i), "prediction_text": text} for i, text in enumerate(texts)]
    rows += [{"id": "other", "prediction_text": "mat"}] * (len(golds) - len(texts))
    for row, probability in zip(rows, no_answer or [], strict=False):
        row["no_answer_probability"] = probability
    answers = [{"text": own.split("|") if own else [], "answer_start": [0] * (own.count("|") + 1)} for own in golds]
    answers = [{"id": str(i), "answers": own} for i, own in enumerate(answers)]
    return load_metric(name).compute(predictions=rows, references=answers, **options)


@pytest.mark.parametrize(
    ("text", "golds", "exact", "f1"),
    [
        ("The Mat!", "mat", 100, 100),
        ("on the red mat", "red mat|dog", 0, 80),
        ("mat", "dog|mat", 100, 100),
        ("the", "an", 100, 0),
    ],
)
def test_version_1(text, golds, exact, f1):
    assert squad("squad", [text], [golds]) == {"exact_match": pytest.approx(exact), "f1": pytest.approx(f1)}


def test_a_missing_prediction_scores_nothing(caplog):
    result = squad("squad", ["mat", "a dog"], ["mat", "red dog", "the"])
    assert result == {"exact_match": pytest.approx(100 / 3), "f1": pytest.approx(100 * (1 + 2 / 3) / 3)}
    # a blank gold answer counts as no answer, and so does a blank prediction
    result = squad("squad_v2", ["", "the"], ["the", "the", "mat"], [0.0] * 3)
    assert (result["exact"], result["f1"]) == (pytest.approx(200 / 3), pytest.approx(200 / 3))
    assert "best_f1" not in result
    assert caplog.text.count("Question 2 has no prediction") == 2
    with pytest.raises(ValueError, match=r"question '0' .*squad_v2"):
        squad("squad", ["x"], [""])


def test_version_2_counts_answerable_and_unanswerable_questions_apart():
    assert squad("squad_v2", ["mat", "red mat", "", "dog"], ["the mat", "mat|the", "", ""], [0.0] * 4) == {
        **{"exact": 50, "f1": pytest.approx(100 * (1 + 2 / 3 + 1) / 4), "total": 4},
        **{"HasAns_exact": 50, "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 2), "HasAns_total": 2},
        **{"NoAns_exact": 50, "NoAns_f1": 50, "NoAns_total": 2},
    }
    assert {name[:6] for name in squad("squad_v2", ["x"], ["x"], [0.0])} == {"exact", "f1", "total", "HasAns"}


def test_version_2_finds_the_best_threshold():
    given = ["mat", "x", "y", "dog"], ["mat", "x z", "", "dog"], [-2.0, -1.0, 0.5, 3.0]
    result = squad("squad_v2", *given, no_answer_threshold=0.0)
    assert result["exact"] == 50  # "mat", and no answer to y
    assert (result["best_exact"], result["best_exact_thresh"]) == (50, -2)
    assert (result["best_f1"], result["best_f1_thresh"]) == (pytest.approx(100 * (1 + 1 + 2 / 3) / 4), -1)
    assert squad("squad_v2", *given, no_answer_threshold=-1.0)["f1"] == pytest.approx(result["best_f1"])
    result = squad("squad_v2", ["x", "y"], ["a", ""], [1.0, 2.0])
    assert (result["best_f1_thresh"], result["exact"]) == (0, 50)  # no answer to y: 2 is more than 1


CAT, ON_A_MAT = "The cat sat on the mat", "the cat sat on a mat"


def test_scores_by_hand(monkeypatch):
    monkeypatch.setitem(vars(wordnet), "ensure_loaded", lambda: {}["wordnet"])
    for predictions, references, expected in (
        # BLEU, ROUGE-L, METEOR; nltk matches the later "the" to the only one: chunks are "cat sat on", "the" and "mat"
        ([CAT], [ON_A_MAT], [(5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25, 5 / 6, 5 / 6 * (1 - 0.5 * (3 / 5) ** 3)]),
        # BLEU is of the corpus, the others are means: all n-grams right, 6 tokens for 12
        ([CAT, ""], [CAT, "who sat on the red mat"], [1 / math.e, 0.5, 0.5 * (1 - 0.5 / 6**3)]),
    ):
        scores = load_metric("generation").compute(predictions=predictions, references=references)
        found = [scores[name] for name in ("bleu", "rouge_l", "meteor_no_synonyms")]
        assert found == pytest.approx([100 * value for value in expected])
    assert scores["bleu_signature"].startswith("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:")


def test_synonyms_count_where_wordnet_is_installed(monkeypatch):
    cat = SimpleNamespace(lemmas=lambda: [SimpleNamespace(name=lambda: "tom")])
    monkeypatch.setitem(vars(wordnet), "ensure_loaded", lambda: None)
    monkeypatch.setitem(vars(wordnet), "synsets", lambda word: [cat] if word == "cat" else [])
    scores = load_metric("generation").compute(predictions=["cat"], references=["tom"])
    assert scores["meteor"] == pytest.approx(50)  # one match is one chunk: half of it is penalty
    assert "meteor_no_synonyms" not in scores


TEXTS = {
    "13a": "who baked the bread ?",
    "intl": "кто испёк этот хлеб сегодня ?",
    "zh": "谁烤了这个面包",
    "char": "誰がパンを焼きましたか",
}
OTHERS = [
    "नमस्ते दुनिया आज कैसे हो",
    "مرحبا بالعالم كيف حالك اليوم",
    "ποιος έψησε το ψωμί σήμερα",
    "où est le bébé hier",
    "ใครอบขนมปังนี้",
]


def test_rouge_of_signs_alone_counts_the_tokens_of_bleu():
    for text in ("\U0001f600 \U0001f602", "...", "\u20ac"):
        scores = load_metric("generation").compute(predictions=[text], references=[text])
        assert scores["rouge_l"] == pytest.approx(100)


@pytest.mark.parametrize("text", [*TEXTS.values(), *OTHERS])
def test_a_text_of_any_script_equals_itself(text):
    scores = load_metric("generation").compute(predictions=[text], references=[text])
    assert (scores["bleu"], scores["rouge_l"]) == (pytest.approx(100), pytest.approx(100))


@pytest.mark.parametrize(("tokenization", "text"), TEXTS.items())
def test_the_signature_names_the_tokenization_of_the_script(tokenization, text):
    scores = load_metric("generation").compute(predictions=["a"], references=[text])
    assert f"tok:{tokenization}|" in scores["bleu_signature"]


def test_accents_are_compared():
    scores = load_metric("generation").compute(predictions=["ou est l'ete"], references=["où est l'été"])
    assert scores["rouge_l"] < 70


@pytest.mark.parametrize("stray", ["0", "o", "B_PER", "B\u2013PER", "O\u200b", "ner_tags"])
def test_a_label_that_hides_the_tagging_scheme(stray):
    tags = {"O", "B-PER", "I-PER"}
    assert find_stray_tag(tags) is None
    assert find_stray_tag(tags | {stray}) == stray
    assert find_stray_tag({"NOUN", "VERB", stray}) is None
