"""`models/` travels to the Hub with every checkpoint: flat, small, and in need of torch and transformers alone.

That it works where it arrives is in tests/hub/test_round_trip.py.
"""

import ast
import re
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

import hf_localattn.models
from hf_localattn.installed import code_files
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import tiny_model

FILES = sorted(Path(hf_localattn.models.__file__).parent.glob("*.py"))
ALLOWED = {"torch", "transformers", *sys.stdlib_module_names}
PAGE = Path(__file__).parents[2] / "docs" / "trust.md"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_imports_only_what_travels_or_is_there(path):
    """transformers finds the files to copy with a regular expression, which sees docstrings too."""
    text = path.read_text()
    tree = ast.parse(text)
    guarded = {id(node) for block in ast.walk(tree) if isinstance(block, ast.Try) for node in ast.walk(block)}
    siblings = []
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            siblings += [node.module] * node.level
            names = [] if node.level else [node.module]
            assert node.level < 2, f"from {'.' * node.level}{node.module} does not travel"
        assert id(node) in guarded or {name.split(".")[0] for name in names} <= ALLOWED
    assert set(siblings) <= {file.stem for file in FILES}
    assert sorted(siblings) == sorted(re.findall(r"^\s*from\s+\.(\S+)\s+import", text, flags=re.MULTILINE))


CASES = {
    "SAM, no head or for texts, tokens, choices or words": ("sam-roberta", "text-classification", {}),
    "SAM with a baseline (`rba`, `disan`)": ("sam-roberta", "headless", {"pooling": "rba"}),
    "COOL": ("cool", "text-classification", {}),
    "COOL with a baseline (`gat` and others)": ("cool", "text-classification", {"local_attention": "gat"}),
    "COOL for generation": ("cool", "text2text-generation", {}),
    "OA with its tokenizer": ("oa-xlnet", "headless", {}),
    "SLA with its tokenizer": ("sla-bert", "headless", {}),
    "question answering, in addition": ("cool", "question-answering", {}),
    "negation, in addition": ("cool", "token-classification", {"id2label": {0: "O", 1: "negation:single"}}),
    "parsing in batches (SLA for texts or tokens), in addition": ("sla-bert", "text-classification", {}),
}
WITHOUT = {"cool": "COOL", "sla-bert": "SLA with its tokenizer"}


def code_of(name, folder):
    """Save a checkpoint; return the number of lines of each of its code files."""
    family, task, fields = CASES[name]
    if task == "text2text-generation":
        model = FAMILIES[family].heads[task].from_backbone("tiny-bart")
    else:
        model = tiny_model(family, task, **fields)
    model.save_pretrained(folder)
    if tokenizer := FAMILIES[family].tokenizer:
        tokenizer.from_backbone(AutoTokenizer.from_pretrained(tiny_backbone())).save_pretrained(folder)
    return {file.name: len(file.read_text().splitlines()) for file in code_files(folder)}


def test_a_checkpoint_has_no_more_code_than_the_page_says(tmp_path):
    rows = re.findall(r"^\| (.*) \| (\d+) \| ([\d,]+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    assert [name for name, *_ in rows] == [*CASES]
    code = {name: code_of(name, tmp_path / str(number)) for number, name in enumerate(CASES)}
    for name, files, lines in rows:
        without = code[WITHOUT[CASES[name][0]]] if name.endswith("in addition") else {}
        counted = [count for file, count in code[name].items() if file not in without]
        assert len(counted) <= int(files), name
        assert sum(counted) <= int(lines.replace(",", "")), name
