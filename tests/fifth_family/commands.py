"""Commands, cards, scripts and views of the fifth family. tests/test_adding_a_family.py runs this file."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from hf_localattn import OnnxModel
from hf_localattn.cli import main
from hf_localattn.families import get_family
from hf_localattn.inspection import attention_map
from hf_localattn.names import default_fields
from hf_localattn.pretrained import load_checkpoint
from hf_localattn.resources import tiny_backbone
from tests.fresh_process import run_fresh
from tests.models.tiny import tiny_config, tiny_model, token_ids
from tests.script_helpers import load_main

NAME = "selfattentive"
SIZES = ("--config", "hops=3", "--config", "attention_size=5", "--config", "bilstm_hidden_size=4")

WITHOUT_THE_PACKAGE = """
import sys
sys.modules["hf_localattn"] = None
from transformers import AutoModelForSequenceClassification, AutoTokenizer
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
print(model(**tokenizer("the cat sat.", return_tensors="pt")).logits.tolist())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("made") / "model"
    words = ["init", NAME, "tiny", str(made), "--task", "text-classification", *SIZES]
    assert main(words) in (0, None)
    return made


def test_a_checkpoint_has_its_code_a_card_and_equal_files(folder, capsys, tmp_path):
    files = {path.name for path in folder.iterdir()}
    assert {"modeling_selfattentive.py", "structured_attention.py", "fields.py", "task_heads.py"} <= files
    assert json.loads((folder / "config.json").read_text())["hops"] == 3
    assert default_fields(NAME)["hops"] == 30
    assert main(["card", str(folder)]) in (0, None)
    card = (folder / "README.md").read_text()
    assert "Structured self-attentive embeddings" in card
    assert "with 3 attentions over its tokens, on top of a BiLSTM" in card
    assert "`hops` 3" in card
    assert "penalty" not in card.partition("non-default values:")[2].partition("\n")[0]
    assert "part of the Python package selfattentive" in card
    capsys.readouterr()
    assert main(["verify", str(folder)]) in (0, None)
    assert re.search(r"Equal to hf_localattn \S+ and selfattentive \S+: ", capsys.readouterr().out)
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "structured_attention.py").write_text("# other code\n")
    assert main(["verify", str(copy)]) == 1
    assert "structured_attention.py" in capsys.readouterr().out


def test_hops_are_rows_of_a_map(folder, tmp_path):
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    shown = attention_map(model, tokenizer, "the cat sat.", special_tokens=True)
    assert shown.title == "structured attention, layer 0"
    assert shown.tokens == ("hop 1", "hop 2", "hop 3")
    assert shown.row_label == "hop"
    np.testing.assert_allclose(shown.weights.sum(-1), 1, rtol=1e-5)
    assert shown.weights.shape == (3, len(shown.sources))
    output = tmp_path / "map.html"
    assert main(["inspect", str(folder), "the cat sat.", "-o", str(output)]) in (0, None)
    assert "hop 2" in output.read_text()


def test_the_penalty_is_a_part_of_the_loss():
    """Equation 8, by hand, and the same loss by smoothing that smooths nothing."""
    model = tiny_model(NAME, "text-classification", hops=2)
    inputs = {"input_ids": token_ids(2, 5), "labels": torch.tensor([0, 1])}
    output = model(**inputs, output_attentions=True)
    task_loss = torch.nn.functional.cross_entropy(output.logits, inputs["labels"])
    (weights,) = output.local_attentions
    penalties = [((a @ a.T - torch.eye(2)) ** 2).sum() for a in weights]
    torch.testing.assert_close(output.loss, task_loss + sum(penalties) / 2)
    assert tiny_model(NAME, "text-classification", penalty=0.0)(**inputs).loss is not None


def test_a_script_trains_it(tmp_path):
    options = ["--family", NAME, "--backbone", "tiny", "--local_config", "hops=3", "use_bilstm=false"]
    options += ["--train_file", "sample:reviews.csv", "--do_train", "--max_steps", "1", "--use_cpu"]
    options += ["--output_dir", str(tmp_path / "out"), "--report_to", "none"]
    load_main("run_glue")(options)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["hops"] == 3


def test_its_graph_answers_as_the_model_does(tmp_path):
    """The penalty is computed in the graph, too, for any number of choices. A layer takes seconds to trace."""
    backbone = AutoModel.from_pretrained(tiny_backbone(), num_hidden_layers=1)
    for part in (backbone, AutoTokenizer.from_pretrained(tiny_backbone())):
        part.save_pretrained(tmp_path / "encoder")
    words = ["init", NAME, str(tmp_path / "encoder"), str(tmp_path / "model"), "--task", "multiple-choice", *SIZES]
    assert main([*words, "--config", "use_bilstm=false"]) in (0, None)
    assert main(["export", str(tmp_path / "model"), str(tmp_path / "graph")]) in (0, None)
    model, tokenizer = load_checkpoint(tmp_path / "model")
    rows = tokenizer(["the cat sat.", "a dog", "no"], padding=True, return_tensors="pt")
    inputs = {name: torch.stack([values, values.flip(0), values]) for name, values in rows.items()}
    graph = OnnxModel.from_pretrained(tmp_path / "graph")
    torch.testing.assert_close(graph(**inputs).logits, model(**inputs).logits, rtol=1e-4, atol=1e-5)


def test_it_is_loaded_where_no_package_is(folder, tmp_path):
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    inputs = AutoTokenizer.from_pretrained(folder)("the cat sat.", return_tensors="pt")
    done = run_fresh(WITHOUT_THE_PACKAGE, tmp_path, folder)
    assert done.returncode == 0, done.stderr
    logits = torch.tensor(json.loads(done.stdout.splitlines()[-1]))
    torch.testing.assert_close(logits, model(**inputs).logits, rtol=1e-5, atol=1e-6)


def test_a_field_is_checked_and_told():
    with pytest.raises(ValueError, match="`hops`"):
        tiny_config(NAME, hops=0)
    family = get_family(NAME)
    assert family.inactive_fields(tiny_config(NAME, use_bilstm=False)) == ["bilstm_hidden_size"]
    assert "hops (int, *optional*, defaults to 30)" in family.config.__doc__
