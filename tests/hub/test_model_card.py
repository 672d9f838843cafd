"""Model cards, tested whole: what the Hub reads, what people read, what they run, and what of theirs stays."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from transformers import AutoTokenizer

from hf_localattn.cli import main
from hf_localattn.hub import Score, TrainingRecord, render_card, write_card
from hf_localattn.hub.model_card import BOUNDARY, EVAL_RESULTS
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import MARKED_CASES, tiny_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RECORD = TrainingRecord(
    task="text-classification",
    base_model="somebody/encoder",
    dataset="nyu-mll/glue",
    dataset_config="cola",
    rows={"train": 8551, "validation": 1043},
    scores=(
        Score("validation", "matthews_correlation", 0.51234567),
        Score("validation", "loss", 0.4),
        Score("test", "accuracy", 0.25),
    ),
    hyperparameters={"learning_rate": 2e-5, "optim": "adamw_torch"},
    seed=7,
    versions={"hf_localattn": "0.1.0", "torch": "2.13.0"},
)
WHOLE = Path(__file__).with_name("whole_card.txt").read_text(encoding="utf-8")


@pytest.fixture
def checkpoint(tmp_path):
    """A folder with all that a card is made from; no weights, which it does not read."""
    model = tiny_model("cool", "text-classification", id2label={0: "no", 1: "yes"})
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(tmp_path / "model")
    RECORD.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_whole_card():
    config = {
        "architectures": ["CoolForSequenceClassification"],
        "model_type": "cool",
        "backbone_config": {"model_type": "bert"},
        "use_conv": False,
        "num_local_layers": None,
        "id2label": {"0": "unacceptable", "1": "acceptable"},
    }
    own = {"license": "apache-2.0", "language": "en"}
    assert render_card(config, RECORD, repo_id="somebody/judge", revision=COMMIT, metadata=own) == WHOLE


@pytest.mark.parametrize(("name", "task"), [*MARKED_CASES, ("cool", "text2text-generation")])
def test_every_card_is_complete_and_its_program_runs(name, task, tmp_path, capsys):
    """The program is run as it stands, but for the folder in place of the name on the Hub."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone(generates=task == "text2text-generation"))
    if task == "text2text-generation":
        model = FAMILIES[name].heads[task].from_backbone(tiny_backbone(generates=True), conv_filters=4)
        model.generation_config.max_length = 20
    else:
        head = FAMILIES[name].model if task == "headless" else FAMILIES[name].heads[task]
        model = head.from_backbone(tiny_backbone())
    settings = {"parser": None} if name == "sla-bert" else {}
    model_config = model.config
    tokenizer = FAMILIES[name].adapt_tokenizer(tokenizer, model, **settings)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    card = write_card(tmp_path / "model").read_text()
    assert FAMILIES[name].model.__name__.removesuffix("Model") in card
    assert "No training record found; assume the new layers are untrained." in card
    assert 'add `revision="COMMIT"` to these calls' in card
    metadata = ModelCard(card).data
    assert metadata.tags == ["hf_localattn", name]
    assert metadata.get("pipeline_tag") == (None if task == "headless" else task)
    assert metadata.eval_results is None
    (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    for empty in ("None", "[]", "()", "nan"):
        assert empty not in card.replace(program, "")
    if name == "sla-bert" and model_config.required_inputs:
        return  # its tokenizer needs a pipeline that only trained ones name
    exec(program.replace("OWNER/NAME", str(tmp_path / "model")), {})
    assert capsys.readouterr().out  # of an untrained model maybe no more than a line's end


def test_results_are_what_the_hub_shows(checkpoint):
    results = ModelCard.load(write_card(checkpoint, repo_id="somebody/judge")).data.eval_results
    shown = [
        (one.dataset_type, one.dataset_config, one.dataset_split, one.metric_type, one.metric_value) for one in results
    ]
    assert shown == [
        ("nyu-mll/glue", "cola", "validation", "matthews_correlation", 0.51234567),
        ("nyu-mll/glue", "cola", "test", "accuracy", 0.25),
    ]


def test_local_files_are_named_and_not_linked():
    record = TrainingRecord(
        task="text-classification",
        files={"train": "train.csv", "validation": "dev.csv"},
        scores=(Score("validation", "accuracy", 0.5),),
        seed=0,
    )
    config = {"architectures": ["SamRobertaForSequenceClassification"], "model_type": "sam-roberta"}
    card = render_card({**config, "backbone_config": {"model_type": "roberta"}}, record)
    (result,) = ModelCard(card).data.eval_results
    assert (result.dataset_type, result.dataset_name) == ("local", "dev.csv")
    assert "Data: local files (train: train.csv, validation: dev.csv)." in card
    assert "huggingface.co/datasets" not in card
    assert "Fine-tuned from" not in card


def test_a_stock_model_gets_a_card_without_a_family():
    card = render_card({"architectures": ["BertForTokenClassification"], "model_type": "bert"}, RECORD)
    assert "`BertForTokenClassification`, trained with the scripts of hf_localattn." in card
    assert "trust_remote_code" not in card
    assert 'tagger = pipeline("token-classification", model="OWNER/NAME")\n' in card
    card = render_card({"architectures": ["BertForMultipleChoice"], "model_type": "bert"}, RECORD)
    assert "pipeline" not in card.partition("## How to use")[2]
    card = render_card({"architectures": ["BertForQuestionAnswering"], "model_type": "bert"}, None)
    assert "import hf_localattn  # registers the pipeline" in card
    assert 'pipeline("question-answering", model="OWNER/NAME")' in card
    assert ModelCard(card).data.tags == ["hf_localattn"]


@pytest.mark.parametrize("model_type", ["oa-xlnet", "bert"])
def test_a_finder_of_cues_has_its_pipeline_first(model_type):
    labels = {"0": "O", "1": "SCOPE", "2": "negation:single", "3": "negation:affix"}
    architecture = "OaXLNetForTokenClassification" if model_type == "oa-xlnet" else "BertForTokenClassification"
    config = {"architectures": [architecture], "model_type": model_type, "id2label": labels}
    card = render_card(config, None)
    (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert program.index('finder = pipeline("negation"') < program.index("AutoTokenizer.from_pretrained")
    assert program.startswith("import hf_localattn") == (model_type == "bert")
    compile(program, "card", "exec")
    assert ModelCard(card).data.pipeline_tag == "token-classification"


def test_scores_on_data_of_the_hub_are_also_entries_of_its_leaderboards(checkpoint):
    write_card(checkpoint)
    path = checkpoint / EVAL_RESULTS
    entries = parse_eval_result_entries(yaml.safe_load(path.read_text()))
    assert [(one.dataset_id, one.task_id, one.value, one.notes) for one in entries] == [
        ("nyu-mll/glue", "cola", 0.51234567, "matthews_correlation (validation)"),
        ("nyu-mll/glue", "cola", 0.25, "accuracy (test)"),
    ]
    dataclasses.replace(RECORD, dataset_config=None).save(checkpoint)
    write_card(checkpoint)
    assert {one["dataset"]["task_id"] for one in yaml.safe_load(path.read_text())} == {"default"}


@pytest.mark.parametrize(
    "change", [{"dataset": None}, {"dataset": "../../x"}, {"dataset": "a b\n- c"}, {"scores": ()}]
)
def test_there_is_no_entry_without_a_score_on_data_of_the_hub(checkpoint, change, caplog):
    caplog.set_level("DEBUG", "hf_localattn")
    write_card(checkpoint)
    mine = (checkpoint / EVAL_RESULTS).with_name("mine.yaml")
    mine.write_text("[]")
    dataclasses.replace(RECORD, **change).save(checkpoint)
    write_card(checkpoint)
    assert not (checkpoint / EVAL_RESULTS).exists()
    assert mine.exists()
    assert ("needs a data set on the Hub" in caplog.text) == ("dataset" in change)


def test_scores_are_not_written_through_a_link(checkpoint, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (checkpoint / EVAL_RESULTS).parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"\.eval_results is a link"):
        write_card(checkpoint)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_what_people_add_stays_when_a_card_is_renewed(checkpoint, capsys):
    path = write_card(checkpoint, license="mit")
    mine = (
        path.read_text().replace("tags:\n", "tags:\n- grammar\n").replace("---\n\n#", "thumbnail: a.png\n---\n\n#", 1)
    )
    path.write_text(mine.rstrip("\n") + "\n\n## Mine\n\nAsk me.\n")
    TrainingRecord.from_dict({**json.loads((checkpoint / "training_record.json").read_text()), "seed": 8}).save(
        checkpoint
    )
    assert main(["card", str(checkpoint), "--language", "de", "--repo", "somebody/judge"]) == 0
    assert capsys.readouterr().out == f"Wrote {path}.\n"
    renewed = ModelCard.load(path)
    assert renewed.data.license == "mit"
    assert renewed.data.language == "de"
    assert renewed.data.to_dict()["thumbnail"] == "a.png"
    assert renewed.data.tags == ["hf_localattn", "cool", "grammar"]
    assert "| seed | 8 |" in renewed.content
    assert renewed.content.endswith(f"{BOUNDARY}\n\n## Mine\n\nAsk me.\n")
    again = path.read_text()
    write_card(checkpoint, repo_id="somebody/judge")
    assert path.read_text() == again


def test_entries_of_people_in_lists_stay_too(checkpoint):
    path = write_card(checkpoint)
    mine = (
        path.read_text()
        .replace("datasets:\n", "datasets:\n- somebody/more\n")
        .replace("base_model: somebody/encoder", "base_model:\n- somebody/encoder\n- somebody/original")
    )
    path.write_text(mine)
    renewed = ModelCard.load(write_card(checkpoint)).data
    assert renewed.datasets == ["nyu-mll/glue", "somebody/more"]
    assert renewed.base_model == ["somebody/encoder", "somebody/original"]
    assert "[somebody/original](https://huggingface.co/somebody/original)" in path.read_text()


def test_scores_of_an_earlier_training_do_not_stay(checkpoint):
    write_card(checkpoint)
    dataclasses.replace(RECORD, scores=()).save(checkpoint)
    assert ModelCard.load(write_card(checkpoint)).data.eval_results is None


def test_what_a_headless_model_does_is_said_by_people(tmp_path):
    tiny_model("cool", "headless").config.save_pretrained(tmp_path)
    path = write_card(tmp_path)
    path.write_text(path.read_text().replace("tags:", "pipeline_tag: feature-extraction\ntags:", 1))
    assert ModelCard.load(write_card(tmp_path)).data.pipeline_tag == "feature-extraction"


def test_metadata_that_cannot_be_read_are_named(checkpoint):
    path = write_card(checkpoint, license="mit")
    path.write_text(path.read_text().replace("license: mit", "license: [mit"))
    with pytest.raises(ValueError, match=r"The metadata of .*README.md, or of the card on the Hub, cannot be read"):
        write_card(checkpoint)


def test_a_card_of_others_is_not_overwritten_unless_told_to(checkpoint, capsys):
    (checkpoint / "README.md").write_text("# Mine\n")
    with pytest.raises(SystemExit) as stop:
        main(["card", str(checkpoint)])
    assert stop.value.code == 2
    assert (
        "was not written by hf-localattn, and would be lost: move it, or pass --overwrite" in capsys.readouterr().err
    )
    assert (checkpoint / "README.md").read_text() == "# Mine\n"
    assert main(["card", str(checkpoint), "--overwrite"]) == 0
    assert BOUNDARY in (checkpoint / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", None, "is not a checkpoint folder: it has no config.json"),
        ("config.json", "{", "config.json cannot be read"),
        ("config.json", "{}", "is not the configuration of a model: it has no `model_type`"),
        ("training_record.json", "[1]", "training_record.json is not a record of a training run"),
        ("training_record.json", '{"scores": [{}], "task": "x"}', "training_record.json is not a record"),
        ("training_record.json", "{}", "training_record.json is not a record"),
        ("training_record.json", '{"task": "x", "hyperparameters": null}', "hyperparameters"),
        ("training_record.json", '{"task": "x", "rows": {"a\\u001b": "x"}}', r"rows\.'a\\x1b'"),
        (
            "training_record.json",
            '{"task": "x", "scores": [{"split": "a", "metric": "b", "value": "c"}]}',
            "not a record",
        ),
    ],
)
def test_what_no_card_can_be_made_from(checkpoint, name, text, message):
    if text is None:
        (checkpoint / name).unlink()
    else:
        (checkpoint / name).write_text(text)
    with pytest.raises((OSError, ValueError), match=message):
        write_card(checkpoint)
    assert not (checkpoint / "README.md").exists()


def test_a_record_comes_back_as_it_was(tmp_path):
    RECORD.save(tmp_path)
    assert TrainingRecord.load(tmp_path) == RECORD
    content = json.loads((tmp_path / "training_record.json").read_text()) | {"of_a_later_version": 1}
    assert TrainingRecord.from_dict(content) == RECORD
    assert TrainingRecord.load(tmp_path / "nowhere") is None
