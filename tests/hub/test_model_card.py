"""Model cards, tested whole: what the Hub reads, what people read, what they run, and what of theirs stays."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from transformers import AutoTokenizer

from hf_localattn.cli import main
from hf_localattn.hub import Score, TrainingRecord, render_card, write_card
from hf_localattn.hub.model_card import BOUNDARY
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import MARKED_CASES, tiny_model

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
CARDS = Path(__file__).parents[2] / "model_cards"


@pytest.fixture
def checkpoint(tmp_path):
    """A folder with all that a card is made from; no weights, which it does not read."""
    model = tiny_model("cool", "text-classification", id2label={0: "no", 1: "yes"})
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(tmp_path / "model")
    RECORD.save(tmp_path / "model")
    return tmp_path / "model"


def data_of(path):
    return ModelCard.load(path).data


@pytest.mark.parametrize("family", FAMILIES)
def test_cards_of_real_runs_are_what_would_be_written_now(family, tmp_path):
    """`hf-localattn card model_cards/FAMILY` renews one."""
    folder = shutil.copytree(CARDS / family, tmp_path / family)
    assert write_card(folder).read_text() == (CARDS / family / "README.md").read_text()
    record, results = TrainingRecord.load(folder), data_of(folder / "README.md").eval_results
    assert {one.metric_type: one.metric_value for one in results} == {
        score.metric: score.value for score in record.scores if score.metric != "loss"
    }
    assert {path.name for path in (CARDS / family).iterdir()} == {"README.md", "config.json", "training_record.json"}


@pytest.mark.parametrize(("name", "task"), [*MARKED_CASES, ("cool", "text2text-generation")])
def test_every_card_is_complete_and_its_program_runs(name, task, tmp_path, capsys):
    """The program is run as it stands, but for the folder in place of the name on the Hub."""
    generates = task == "text2text-generation"
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone(generates=generates))
    head = FAMILIES[name].model if task == "headless" else FAMILIES[name].heads[task]
    model = head.from_backbone(tiny_backbone(generates=generates), **({"conv_filters": 4} if generates else {}))
    if generates:
        model.generation_config.max_length = 20
    settings = {"parser": None} if name == "sla-bert" else {}
    tokenizer = FAMILIES[name].adapt_tokenizer(tokenizer, model, **settings)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    card = write_card(tmp_path / "model").read_text()
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
    if name == "sla-bert" and model.config.required_inputs:
        return  # its tokenizer needs a pipeline that only trained ones name
    exec(program.replace("OWNER/NAME", str(tmp_path / "model")), {})
    assert capsys.readouterr().out  # of an untrained model maybe no more than a line's end


def test_local_files_are_named_and_not_linked():
    files, scores = {"train": "train.csv", "validation": "dev.csv"}, (Score("validation", "accuracy", 0.5),)
    config = {"architectures": ["SamRobertaForSequenceClassification"], "model_type": "sam-roberta"}
    card = render_card(config, TrainingRecord(task="text-classification", files=files, scores=scores))
    (result,) = ModelCard(card).data.eval_results
    assert (result.dataset_type, result.dataset_name) == ("local", "dev.csv")
    assert "Data: local files (train: train.csv, validation: dev.csv)." in card
    assert "huggingface.co/datasets" not in card
    assert "Fine-tuned from" not in card


@pytest.mark.parametrize(
    ("architecture", "model_type", "labels", "begin", "pipeline"),
    [
        ("BertForTokenClassification", "bert", (), "from transformers", 'tagger = pipeline("token-classification"'),
        ("BertForMultipleChoice", "bert", (), "from transformers", None),
        ("BertForQuestionAnswering", "bert", (), "import hf_localattn", 'reader = pipeline("question-answering"'),
        ("BertForTokenClassification", "bert", ("negation:affix",), "import hf_localattn", 'pipeline("negation"'),
        ("OaXLNetForTokenClassification", "oa-xlnet", ("negation:affix",), "from transf", 'pipeline("negation"'),
    ],
)
def test_pipelines_of_cards(architecture, model_type, labels, begin, pipeline):
    config = {"architectures": [architecture], "model_type": model_type, "id2label": dict(enumerate(("O", *labels)))}
    card = render_card(config)
    (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    compile(program, "card", "exec")
    assert program.startswith(begin)
    assert ("pipeline" in program) == (pipeline is not None)
    assert pipeline is None or program.index(pipeline) < program.index("AutoTokenizer.from_pretrained")
    assert ("trust_remote_code" in card) == (model_type != "bert")
    assert ModelCard(card).data.tags == ["hf_localattn", *([model_type] if model_type != "bert" else [])]


def test_what_people_add_stays_when_a_card_is_renewed(checkpoint, tmp_path, capsys):
    path = write_card(checkpoint, license="mit")
    mine = (
        path.read_text().replace("tags:\n", "tags:\n- grammar\n").replace("---\n\n#", "thumbnail: a.png\n---\n\n#", 1)
    )
    mine = mine.replace("datasets:\n", "datasets:\n- somebody/more\n")
    mine = mine.replace("base_model: somebody/encoder", "base_model:\n- somebody/encoder\n- somebody/original")
    path.write_text(mine.rstrip("\n") + "\n\n## Mine\n\nAsk me.\n")
    dataclasses.replace(RECORD, seed=8, scores=RECORD.scores[:1]).save(checkpoint)
    assert main(["card", str(checkpoint), "--language", "de", "--repo", "somebody/judge"]) == 0
    assert capsys.readouterr().out == f"Wrote {path}.\n"
    renewed = ModelCard.load(path)
    assert (renewed.data.license, renewed.data.language) == ("mit", "de")
    assert renewed.data.to_dict()["thumbnail"] == "a.png"
    assert renewed.data.tags == ["hf_localattn", "cool", "grammar"]
    assert renewed.data.datasets == ["nyu-mll/glue", "somebody/more"]
    assert renewed.data.base_model == ["somebody/encoder", "somebody/original"]
    assert "[somebody/original](https://huggingface.co/somebody/original)" in path.read_text()
    assert "| seed | 8 |" in renewed.content
    assert len(renewed.data.eval_results) == 1  # those of an earlier training do not stay
    assert renewed.content.endswith(f"{BOUNDARY}\n\n## Mine\n\nAsk me.\n")
    again = path.read_text()
    write_card(checkpoint, repo_id="somebody/judge")
    assert path.read_text() == again
    # What a model without a head is for is said by people.
    tiny_model("cool", "headless").config.save_pretrained(tmp_path)
    headless = write_card(tmp_path)
    headless.write_text(headless.read_text().replace("tags:", "pipeline_tag: feature-extraction\ntags:", 1))
    assert data_of(write_card(tmp_path)).pipeline_tag == "feature-extraction"


def test_a_card_of_others_is_not_overwritten_unless_told_to(checkpoint, capsys):
    (checkpoint / "README.md").write_text("# Mine\n")
    with pytest.raises(SystemExit) as stop:
        main(["card", str(checkpoint)])
    assert stop.value.code == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (checkpoint / "README.md").read_text() == "# Mine\n"
    assert main(["card", str(checkpoint), "--overwrite"]) == 0
    assert BOUNDARY in (checkpoint / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", None, "no config.json"),
        ("config.json", "{}", "model_type"),
        ("README.md", f"---\nlicense: [mit\n---\n{BOUNDARY}\n", "metadata of .*README.md"),
        ("training_record.json", "{}", "not a record.*task"),
        ("training_record.json", '{"task": "x", "seed": "1"}', "not a record.*seed"),
    ],
)
def test_what_no_card_can_be_made_from(checkpoint, name, text, message):
    (checkpoint / name).unlink(missing_ok=True)
    if text is not None:
        (checkpoint / name).write_text(text)
    with pytest.raises((OSError, ValueError), match=f"(?s){message}"):
        write_card(checkpoint)
    assert (checkpoint / "README.md").exists() == (name == "README.md")


def test_a_record_comes_back_as_it_was(tmp_path):
    RECORD.save(tmp_path)
    assert TrainingRecord.load(tmp_path) == RECORD
    path = tmp_path / "training_record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"of_a_later_version": 1}))
    assert TrainingRecord.load(tmp_path) == RECORD
    assert TrainingRecord.load(tmp_path / "nowhere") is None
