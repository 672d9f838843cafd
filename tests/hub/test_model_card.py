"""Model cards, tested whole: what the Hub reads, what people read, what they run, and what of theirs stays."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from hf_localattn.cli import main
from hf_localattn.families import FAMILIES
from hf_localattn.hub import Score, TrainingRecord, init_checkpoint, render_card, write_card
from hf_localattn.hub.model_card import BOUNDARY
from hf_localattn.names import RIVAL_SCORES
from tests.models.tiny import MARKED_CASES, tiny_model

RECORD = TrainingRecord(
    task="text-classification",
    base_model="somebody/encoder",
    dataset="nyu-mll/glue",
    dataset_config="cola",
    rows={"train": 8551, "validation": 1043},
    scores=(Score("validation", "matthews_correlation", 0.51234567), Score("validation", "loss", 0.4)),
    hyperparameters={"learning_rate": 2e-5, "optim": "adamw_torch"},
    seed=7,
    versions={"hf_localattn": "0.1.0", "torch": "2.13.0"},
)
CARDS = Path(__file__).parents[2] / "model_cards"


@pytest.fixture
def checkpoint(tmp_path):
    """A folder with all that a card is made from; no weights, which it does not read."""
    model = tiny_model("cool", "text-classification", id2label={0: "no", 1: "yes"})
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(tmp_path / "model")
    RECORD.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("family", FAMILIES)
def test_cards_of_real_runs_are_what_would_be_written_now(family, tmp_path):
    """`hf-localattn card model_cards/FAMILY` renews one."""
    folder = shutil.copytree(CARDS / family, tmp_path / family)
    assert write_card(folder).read_text() == (CARDS / family / "README.md").read_text()
    record, results = TrainingRecord.load(folder), ModelCard.load(folder / "README.md").data.eval_results
    scores = [score for score in record.scores if not score.metric.endswith(("loss", *RIVAL_SCORES))]
    scores.sort(key=lambda score: score.split != "test")
    expected = [(score.metric, score.value) for score in scores[:5]]
    assert [(result.metric_type, result.metric_value) for result in results] == expected


@pytest.mark.parametrize(("name", "task"), [*MARKED_CASES, ("cool", "text2text-generation")])
def test_every_card_is_complete_and_its_program_runs(name, task, tmp_path, capsys):
    """The program is run as it stands, but for the folder in place of the name on the Hub."""
    folder, backbone = tmp_path / "model", "tiny-bart" if task == "text2text-generation" else "tiny"
    settings = {"parser": None, "local_attention": "window"} if name == "sla-bert" else {}
    init_checkpoint(name, backbone, folder, task=task if task in FAMILIES[name].heads else None, **settings)
    card = write_card(folder).read_text()
    assert FAMILIES[name].model.__name__.removesuffix("Model") in card
    assert "No training record found" in card
    assert 'add `revision="COMMIT"` to these calls' in card
    metadata = ModelCard(card).data
    assert metadata.tags == ["hf_localattn", name]
    assert metadata.get("pipeline_tag") == (None if task == "headless" else task)
    assert metadata.eval_results is None
    (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    for empty in ("None", "[]", "()", "nan"):
        assert empty not in card.replace(program, "")
    exec(program.replace("OWNER/NAME", str(folder)), {})
    assert capsys.readouterr().out  # of an untrained model maybe no more than a line's end


SAM = "SamRobertaForSequenceClassification"
REPORT = {
    "classes": {
        "Abkürzung": {"precision": 1.0, "recall": 0.5, "f1-score": 2 / 3, "support": 4},
        "De|scription": {"precision": 0.5, "recall": 1.0, "f1-score": 2 / 3, "support": 2},
    },
    "confusion_matrix": [[2, 2], [0, 2]],
}


@pytest.mark.parametrize(
    ("fields", "words", "absent"),
    [
        ({}, ["a BiLSTM, attention over the features", "more than 512 tokens"], "baseline"),
        ({"use_tam": False}, ["a BiLSTM, attention over the features."], "512 tokens"),
        ({"pooling": "rb"}, ["A baseline", "without attention over features or tokens"], "512 tokens"),
        ({"pooling": "none", "freeze_backbone": True}, ["without further layers", "is frozen"], "BiLSTM"),
    ],
)
def test_a_card_follows_the_fields(fields, words, absent):
    card = render_card({"architectures": [SAM], "model_type": "sam-roberta", **fields})
    text = card.partition("## Citation")[0]
    assert [word for word in words if word not in text] == []
    assert absent not in text


@pytest.mark.parametrize("name", FAMILIES)
def test_every_ablation_has_a_card(name):
    family = FAMILIES[name]
    for fields in family.ablations:
        card = render_card({"architectures": [], "model_type": name, **fields})
        assert "%}" not in card
        assert ("A baseline of the paper" in card) or "none" not in fields.values()


def test_a_card_has_the_classes_and_five_scores():
    scores = [Score(split, f"score_{index}", 0.5) for split in ("validation", "test") for index in range(4)]
    scores.append(Score("test", "score_0_of_constant", 0.625))
    record = TrainingRecord(
        task="text-classification",
        scores=scores,
        reports={"test": REPORT},
        has_pairs=True,
    )
    labels = dict(enumerate(REPORT["classes"]))
    card = render_card({"architectures": [SAM], "model_type": "sam-roberta", "id2label": labels}, record)
    results = ModelCard(card).data.eval_results
    assert [(result.dataset_split, result.metric_type) for result in results] == [
        *(("test", f"score_{index}") for index in range(4)),
        ("validation", "score_0"),
    ]
    assert card.count("| score_") == 8
    assert '"Abkürzung", "De\\|scription"' in card
    assert "| Abkürzung | 1.000 | 0.500 | 0.667 | 4 |" in card
    assert "| Abkürzung | 2 | 2 |\n| De\\|scription | 0 | 2 |\n" in card
    assert "| test | score_0 | 0.5 (constant: 0.625) |" in card
    assert '{"text": "YOUR TEXT", "text_pair": "ITS SECOND TEXT"}' in card


BERT_TAGGER, OA_TAGGER = "BertForTokenClassification", "OaXLNetForTokenClassification"
CUES = {"0": "O", "1": "negation:affix"}


@pytest.mark.parametrize(
    ("architecture", "model_type", "labels", "begin", "pipeline"),
    [
        (BERT_TAGGER, "bert", {}, "from transformers", 'tagger = pipeline("token-classification"'),
        ("BertForMultipleChoice", "bert", {}, "from transformers", None),
        ("BertForQuestionAnswering", "bert", {}, "import hf_localattn", 'reader = pipeline("question-answering"'),
        (BERT_TAGGER, "bert", CUES, "import hf_localattn", 'pipeline("negation"'),
        (OA_TAGGER, "oa-xlnet", CUES, "from transformers", 'pipeline("negation"'),
    ],
)
def test_a_card_of_local_files_and_its_pipeline(architecture, model_type, labels, begin, pipeline):
    files, scores = {"train": "train.csv", "validation": "dev.csv"}, (Score("validation", "accuracy", 0.5),)
    config = {"architectures": [architecture], "model_type": model_type, "id2label": labels}
    card = render_card(config, TrainingRecord(task="one", files=files, scores=scores))
    (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    compile(program, "card", "exec")
    assert program.startswith(begin)
    assert ("pipeline" in program) == (pipeline is not None)
    assert pipeline is None or program.index(pipeline) < program.index("AutoTokenizer.from_pretrained")
    assert ("trust_remote_code" in card) == (model_type != "bert")
    assert ModelCard(card).data.tags == ["hf_localattn", *([model_type] if model_type != "bert" else [])]
    (result,) = ModelCard(card).data.eval_results
    assert (result.dataset_type, result.dataset_name) == ("local", "dev.csv")
    assert "Data: local files (train: train.csv, validation: dev.csv)." in card
    assert "huggingface.co/datasets" not in card
    assert "Fine-tuned from" not in card


def test_what_people_add_stays_when_a_card_is_renewed(checkpoint, tmp_path, capsys):
    path = write_card(checkpoint, license="mit")
    text = path.read_text().rstrip("\n") + "\n\n## Mine\n\nAsk me.\n"
    for old, new in {
        "tags:\n": "tags:\n- grammar\n",
        "---\n\n#": "thumbnail: a.png\n---\n\n#",
        "datasets:\n": "datasets:\n- somebody/more\n",
        "base_model: somebody/encoder": "base_model:\n- somebody/encoder\n- somebody/original",
    }.items():
        text = text.replace(old, new, 1)
    path.write_text(text)
    dataclasses.replace(RECORD, seed=8, scores=()).save(checkpoint)
    assert main(["card", str(checkpoint), "--language", "de", "--repo", "somebody/judge"]) == 0
    assert capsys.readouterr().out == f"Wrote {path}.\n"
    renewed, again = ModelCard.load(path), path.read_text()
    assert renewed.data.to_dict() == {
        **{"license": "mit", "language": "de", "thumbnail": "a.png", "library_name": "transformers"},
        **{"tags": ["hf_localattn", "cool", "grammar"], "datasets": ["nyu-mll/glue", "somebody/more"]},
        **{"base_model": ["somebody/encoder", "somebody/original"], "pipeline_tag": "text-classification"},
    }  # without scores: those of an earlier training do not stay
    assert "[somebody/original](https://huggingface.co/somebody/original)" in again
    assert "| seed | 8 |" in again
    assert renewed.content.endswith(f"{BOUNDARY}\n\n## Mine\n\nAsk me.\n")
    write_card(checkpoint, repo_id="somebody/judge")
    assert path.read_text() == again
    path.write_text("# Mine\n")
    assert main(["card", str(checkpoint), "--overwrite"]) == 0
    assert BOUNDARY in path.read_text()
    # What a model without a head is for is said by people.
    tiny_model("cool", "headless").config.save_pretrained(tmp_path)
    headless = write_card(tmp_path)
    headless.write_text(headless.read_text().replace("tags:", "pipeline_tag: feature-extraction\ntags:", 1))
    assert ModelCard.load(write_card(tmp_path)).data.pipeline_tag == "feature-extraction"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", "{}", "model_type"),
        ("README.md", "# Mine\n", "pass --overwrite"),
        ("README.md", f"---\nlicense: [mit\n---\n{BOUNDARY}\n", "metadata of .*README.md"),
        ("training_record.json", '{"task": "x", "seed": "1"}', "not a record.*seed"),
    ],
)
def test_what_no_card_can_be_made_from(checkpoint, name, text, message):
    (checkpoint / name).write_text(text)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        write_card(checkpoint)
    assert (checkpoint / "README.md").exists() == (name == "README.md")
    assert (checkpoint / name).read_text() == text


STATE = {
    "max_steps": 30,
    "train_batch_size": 8,
    "log_history": [{"loss": 0.5}, {"eval_accuracy": 0.625, "epoch": 3.0}],
}
ALL = {
    "eval_accuracy": 0.75,
    "eval_runtime": 2.0,
    "eval_samples": 8,
    "train_samples": 16,
    "predict_loss": float("nan"),
}


@pytest.mark.parametrize(("results", "score"), [(None, "0.625"), (ALL, "0.75")], ids=["Trainer", "script"])
def test_the_card_of_a_model_that_transformers_has_trained(checkpoint, results, score):
    (checkpoint / "training_record.json").unlink()
    (checkpoint / "trainer_state.json").write_text(json.dumps(STATE))
    if results:
        (checkpoint / "all_results.json").write_text(json.dumps(results))
    card = write_card(checkpoint).read_text()
    assert f"| validation | accuracy | {score} |" in card
    assert "| max_steps | 30 |" in card
    assert ("16 (train), 8 (validation)" in card) == bool(results)
    assert not any(word in card for word in ("untrained", "runtime", "nan", "Versions"))


def test_a_model_that_trainer_has_saved_alone_is_not_called_untrained(checkpoint):
    (checkpoint / "training_record.json").unlink()
    (checkpoint / "training_args.bin").write_bytes(b"no pickle")
    assert "no scores of that run" in write_card(checkpoint).read_text()


def test_a_record_comes_back_as_it_was_and_unknown_entries_are_ignored(tmp_path):
    RECORD.save(tmp_path)
    path = tmp_path / "training_record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"of_a_later_version": 1}))
    assert TrainingRecord.load(tmp_path) == RECORD
