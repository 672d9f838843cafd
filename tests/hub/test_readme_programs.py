"""The programs of the README, with a Hub of this machine, the encoder that ships, and a few rows."""

import json

from hf_localattn.resources import tiny_backbone
from tests.programs import programs, run_program

PAGE = "README.md"
REPLACED = {
    '"roberta-base"': repr(str(tiny_backbone())),
    '"cornell-movie-review-data/rotten_tomatoes"': '"json", data_files="rows.json"',
    "learning_rate=1e-3": 'learning_rate=1e-3, report_to="none", use_cpu=True',
}


def test_what_the_readme_trains_arrives_on_the_hub_and_answers(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"text": "A warm and funny film.", "label": 1}, {"text": "Dull from start to end.", "label": 0}]
    (tmp_path / "rows.json").write_text(json.dumps(rows * 4))
    namespace = {}
    (train, _), (use, _) = programs(PAGE)
    for name, other in REPLACED.items():
        assert name in train
        train = train.replace(name, other)
    run_program(train, "", PAGE, namespace)
    assert {"model.safetensors", "modeling_sam_roberta.py", "tokenizer.json"} <= {*hub.files("somebody/my-classifier")}
    run_program(use, "", PAGE, namespace)
    assert namespace["classify"]("Dull.")[0]["label"] in ("bad", "good")
