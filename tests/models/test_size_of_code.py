"""A checkpoint has no more code than the table of docs/trust.md says, and all its code is in use."""

import re
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from hf_localattn.installed import code_files
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import tiny_model

PAGE = Path(__file__).parents[2] / "docs" / "trust.md"

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

ADDITIONS = {
    "question answering, in addition": "COOL",
    "negation, in addition": "COOL",
    "parsing in batches (SLA for texts or tokens), in addition": "SLA with its tokenizer",
}


def save(name, folder):
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


def limits():
    rows = re.findall(r"^\| (.*) \| (\d+) \| ([\d,]+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    return {name: (int(files), int(lines.replace(",", ""))) for name, files, lines in rows}


def test_every_kind_is_in_the_table():
    assert limits().keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_has_no_more_code(name, tmp_path):
    code = save(name, tmp_path / "all")
    if name in ADDITIONS:
        code = {file: lines for file, lines in code.items() if file not in save(ADDITIONS[name], tmp_path / "without")}
    files, lines = limits()[name]
    assert len(code) <= files, code
    assert sum(code.values()) <= lines, code
