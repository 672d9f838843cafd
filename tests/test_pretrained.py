"""Loading of a checkpoint: the log tells which weights are not its own."""

import pytest

from hf_localattn.pretrained import load_checkpoint


@pytest.mark.parametrize(
    ("fields", "levels", "words"),
    [
        ({}, ["INFO"], "classifier.weight"),
        ({"num_hidden_layers": 9}, ["WARNING", "INFO"], "lacks weights: bert.encoder.layer"),
        ({"num_hidden_layers": 1}, ["WARNING", "INFO"], "does not use: "),
    ],
)
def test_a_new_head_is_told_and_another_encoder_is_a_warning(fields, levels, words, caplog, capfd):
    with caplog.at_level("INFO", "hf_localattn"):
        load_checkpoint("tiny", task="text-classification", config_fields=fields)
    assert [record.levelname for record in caplog.records] == levels
    assert words in caplog.text
    assert "LOAD REPORT" not in capfd.readouterr().err
