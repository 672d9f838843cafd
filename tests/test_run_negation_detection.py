"""Cues and scopes with one model through run_ner.py --detect_cues, and the finished model in the pipeline."""

import json
import re
import shlex

import pytest
from transformers import AutoTokenizer, pipeline

from hf_localattn.data.negation import load_negation
from hf_localattn.models.negation_finder import SCOPE_LABELS, cue_label_names
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.parsers import tiny_parser
from tests.qa_helpers import write_jsonl
from tests.script_helpers import ROOT, assert_one_line_error, load_main

SAMPLES = ROOT / "hf_localattn" / "resources" / "samples" / "negation"
WORDS = ["he", "saw", "the", "old", "house", "and", "she", "left", "it", "here"]
SCORES = {f"{task}_{name}" for task in ("cue", "end_to_end") for name in ("f1", "precision", "recall")}


def sentence(number, *cues, length=7):
    """The words "not" are cues; two words after each are its scope."""
    tokens = [WORDS[(3 * number + place) % len(WORDS)] for place in range(length)]
    for cue in cues:
        tokens[cue] = "not"
    row = {"sentence_id": f"s{number}", "tokens": tokens}
    return [
        {
            **row,
            "id": f"{number}-{cue}",
            "cue": [int(place == cue) for place in range(length)],
            "scope": [int(cue < place <= cue + 2) for place in range(length)],
        }
        for cue in cues
    ] or [{**row, "id": f"{number}", "cue": [0] * length, "scope": [0] * length}]


ROWS = [row for number in range(6) for row in sentence(number, *[[], [1], [4], [0, 4], [2], []][number])]


@pytest.fixture(scope="module")
def main():
    return load_main("run_ner")


def options(folder, *more, data, family="oa-xlnet", steps="2"):
    start = ["--task", "negation", "--detect_cues", "--family", family, "--backbone", "tiny", "--use_cpu"]
    common = ["--train_file", data, "--validation_file", data, "--report_to", "none", "--max_steps", steps]
    return [*start, *common, "--output_dir", str(folder), *more]


LEARN = ["--do_train", "--do_eval", "--do_predict", "--learning_rate", "3e-3", "--per_device_train_batch_size", "16"]


@pytest.mark.parametrize("family", ["oa-xlnet", "baseline"])
def test_it_learns_cues_and_scopes_and_answers_raw_text(main, tmp_path, family):
    data = str(write_jsonl(tmp_path / "data.jsonl", ROWS))
    no_dropout = ["--local_config", "oa_dropout=0", "classifier_dropout=0"] if family == "oa-xlnet" else []
    metrics = main(
        options(tmp_path / "out", *LEARN, "--test_file", data, *no_dropout, data=data, family=family, steps="60")
    )
    assert {f"eval_{name}" for name in (*SCORES, "f1", "scope_exact_match")} <= set(metrics)
    assert metrics["eval_cue_f1"] == metrics["eval_f1"] == metrics["eval_end_to_end_f1"] == 1
    lines = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    assert len(lines) == 6
    assert all(line["predicted_negations"] == line["negations"] for line in lines)
    finder = pipeline("negation", model=str(tmp_path / "out"), device="cpu")
    text = " ".join(ROWS[1]["tokens"])
    (found,) = finder(text)
    assert [part["text"] for part in found["cue"]] == ["not"]
    assert [span["text"] for span in found["scope"]] == [" ".join(ROWS[1]["tokens"][2:4])]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_runs_and_its_tokenizer_learns_the_marker(main, tmp_path, family):
    parser = ["--local_config", f"parser={tiny_parser()}"] if family == "sla-bert" else []
    data = str(SAMPLES / "bioscope.xml")
    limit = ["--max_train_samples", "8", "--max_eval_samples", "8"]
    work = ["--do_train", "--do_eval", "--cues", "both", *limit, *parser]
    metrics = main(options(tmp_path, *work, data=data, family=family, steps="1"))
    assert {f"eval_{name}" for name in SCORES} <= set(metrics)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, **({"parser": tiny_parser()} if parser else {}))
    assert tokenizer.tokenize("a [CUE] b")[1] == "[CUE]"
    names = json.loads((tmp_path / "config.json").read_text())["id2label"].values()
    assert list(names) == [*SCOPE_LABELS, *cue_label_names(["negation", "speculation"])]


def test_a_killed_run_resumes_with_the_new_marker(main, tmp_path):
    data = str(SAMPLES / "starsem.txt")
    work = ["--do_train", "--save_steps", "1"]
    main(options(tmp_path, *work, data=data, family="baseline", steps="1"))
    (tmp_path / "train_results.json").unlink()
    (tmp_path / "trainer_state.json").unlink()
    metrics = main(
        options(
            tmp_path, *work, "--resume_from_checkpoint", str(tmp_path / "checkpoint-1"), data=data, family="baseline"
        )
    )
    assert metrics["train_samples"] == 39 + 32


def test_a_limit_on_all_rows_leaves_no_sentence_out(main, tmp_path):
    data = str(SAMPLES / "starsem.txt")
    limit = ("--max_train_samples", str(len(load_negation(data, all_sentences=True))))
    metrics = main(options(tmp_path, "--do_train", *limit, data=data, family="baseline", steps="1"))
    assert metrics["train_samples"] == 39 + 32


def test_sentences_without_cues_are_read_only_for_detection(main, tmp_path, capsys):
    data = str(write_jsonl(tmp_path / "data.jsonl", ROWS))
    arguments = [one for one in options(tmp_path / "out", "--do_train", data=data) if one != "--detect_cues"]
    assert_one_line_error(main, arguments, "no word is a cue", tmp_path / "out", capsys)
    elsewhere = [*arguments, "--task", "pos", "--detect_cues"]
    assert_one_line_error(main, elsewhere, "--detect_cues can only be used with --task", tmp_path / "out", capsys)
    drawn = [*arguments, "--detect_cues", "--max_train_samples", "5", "--draw_train_samples"]
    assert_one_line_error(main, drawn, "cannot be used with --detect_cues", tmp_path / "out", capsys)


def test_a_model_without_labels_of_cues_is_not_evaluated_on_them(main, tmp_path, capsys):
    data = str(SAMPLES / "starsem.txt")
    arguments = [
        one for one in options(tmp_path / "scopes", "--do_train", data=data, steps="1") if one != "--detect_cues"
    ]
    main(arguments)
    start = ["--task", "negation", "--detect_cues", "--model_name_or_path", str(tmp_path / "scopes"), "--do_predict"]
    work = [*start, "--test_file", data, "--output_dir", str(tmp_path / "out"), "--use_cpu", "--report_to", "none"]
    message = "predicts 2 labels (O, SCOPE), but the data have"
    assert_one_line_error(main, work, message, tmp_path / "out", capsys)


def test_a_model_for_cues_and_scopes_takes_given_cues(main, tmp_path):
    data = str(SAMPLES / "starsem.txt")
    main(options(tmp_path / "both", "--do_train", data=data, steps="1"))
    start = ["--task", "negation", "--model_name_or_path", str(tmp_path / "both"), "--do_predict", "--test_file", data]
    metrics = main([*start, "--output_dir", str(tmp_path / "out"), "--use_cpu", "--report_to", "none"])
    assert "predict_f1" in metrics
    assert "predict_cue_f1" not in metrics
    assert tiny_backbone().is_dir()


def test_the_page_about_negation_runs(main, tmp_path, monkeypatch):
    page = (ROOT / "docs" / "negation.md").read_text()
    command, _ = re.findall(r"```bash\npython run_ner.py (.*?)```", page, flags=re.DOTALL)
    programs = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    words = shlex.split(command.replace("\\\n", " "))
    arguments = [str(ROOT / word) if (ROOT / word).is_file() else word for word in words]
    monkeypatch.chdir(tmp_path)
    metrics = main([*arguments, "--use_cpu", "--report_to", "none"])
    documented = set(re.findall(r"`(\w+_f1|f1|scope_exact_match)`", page))
    assert {f"eval_{name}" for name in documented} <= set(metrics)
    assert len(programs) == 2
    for program in programs:
        exec(compile(program, "negation.md", "exec"), {})
