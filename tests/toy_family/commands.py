"""Commands, cards, scripts and views of the toy family. tests/test_adding_a_family.py runs this file."""

import json

from transformers import AutoModel, AutoTokenizer

from hf_localattn.cli import main
from hf_localattn.inspection import attention_map
from tests.script_helpers import load_main


def test_it_has_a_checkpoint_with_its_code_a_card_and_a_picture(tmp_path):
    folder = tmp_path / "toy"
    assert main(["init", "toy", "tiny", str(folder), "--config", "num_toy_layers=1"]) in (0, None)
    assert json.loads((folder / "config.json").read_text())["num_toy_layers"] == 1
    assert {"modeling_toy.py", "toy_attention.py", "task_heads.py"} <= {path.name for path in folder.iterdir()}
    assert main(["card", str(folder)]) in (0, None)
    card = (folder / "README.md").read_text()
    assert "Toy, a family to try the registry with" in card
    assert "It is a toy." in card
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    found = attention_map(model, tokenizer, "the cat sat.")
    assert found.title == "toy attention, layer 0"
    assert found.weights[0, 2] == 0 < found.weights[0, 1]


def test_a_script_trains_it(tmp_path):
    options = ["--family", "toy", "--backbone", "tiny", "--local_config", "toy_window=2", "--max_steps", "1"]
    options += ["--train_file", "sample:reviews.csv", "--do_train", "--use_cpu", "--report_to", "none"]
    load_main("run_glue")([*options, "--output_dir", str(tmp_path / "out")])
    assert json.loads((tmp_path / "out" / "config.json").read_text())["toy_window"] == 2
