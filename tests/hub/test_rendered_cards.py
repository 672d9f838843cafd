"""`model_cards/`: for each family the card of a real run, as `hf-localattn card` writes it now."""

import shutil
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from hf_localattn.hub import TrainingRecord, write_card
from hf_localattn.hub.model_card import read_config
from hf_localattn.registry import FAMILIES

CARDS = Path(__file__).parents[2] / "model_cards"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_card_is_what_would_be_written_now(family, tmp_path):
    """Of its configuration and record: `hf-localattn card model_cards/FAMILY` renews it."""
    folder = shutil.copytree(CARDS / family, tmp_path / family)
    assert write_card(folder).read_text() == (CARDS / family / "README.md").read_text()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_card_has_the_scores_of_a_training(family):
    assert read_config(CARDS / family)["model_type"] == family
    record = TrainingRecord.load(CARDS / family)
    results = ModelCard.load(CARDS / family / "README.md").data.eval_results
    assert {result.metric_type: result.metric_value for result in results} == {
        score.metric: score.value for score in record.scores if score.metric != "loss"
    }
    assert record.rows["train"] > 900


def test_nothing_else_is_there():
    names = ("README.md", "config.json", "training_record.json")
    expected = {"README.md", *(f"{family}/{name}" for family in FAMILIES for name in names)}
    assert {path.relative_to(CARDS).as_posix() for path in CARDS.rglob("*") if path.is_file()} == expected
