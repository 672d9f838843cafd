"""`models/` travels with every checkpoint: flat, small, and in need of torch and transformers alone."""

import ast
import re
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer
from transformers.dynamic_module_utils import get_imports, get_relative_imports

import hf_localattn.models
from hf_localattn.families import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import model_class_of

FILES = sorted(Path(hf_localattn.models.__file__).parent.glob("*.py"))
PAGE = Path(__file__).parents[2] / "docs" / "trust.md"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_imports_only_what_travels_or_is_there(path):
    """As transformers reads it, which sees docstrings, too."""
    assert {*get_imports(path)} <= {"torch", "transformers", *sys.stdlib_module_names}
    assert {*get_relative_imports(path)} <= {file.stem for file in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_type_is_a_text(path):
    """Somebody may evaluate it, as transformers does with those of model classes, and nobody expects code there."""
    for node in ast.walk(ast.parse(path.read_text())):
        annotations = [getattr(node, name, None) for name in ("annotation", "returns")]
        assert not any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in annotations)
        assert not (isinstance(node, ast.ImportFrom) and node.module == "__future__")


ROWS = re.findall(r"^\| ([^|]*) \| (\d+) \| (\d+) \|$", PAGE.read_text(), flags=re.MULTILINE)
CASES = [
    ("sam-roberta", "text-classification", {}),
    ("sam-roberta", "headless", {"pooling": "rba"}),
    ("cool", "text-classification", {}),
    ("cool", "text-classification", {"local_attention": "gat"}),
    ("cool", "text2text-generation", {}),
    ("oa-xlnet", "headless", {}),
    ("sla-bert", "headless", {}),
    ("sla-bert", "headless", {"local_attention": "soft"}),
    ("cool", "question-answering", {}),
    ("cool", "token-classification", {"id2label": {0: "O", 1: "negation:single"}}),
    ("sla-bert", "text-classification", {}),
]


def code_of(folder, family, task, fields):
    """Save a checkpoint; return the number of bytes of each of its code files."""
    backbone = "tiny-bart" if task == "text2text-generation" else "tiny"
    model_class_of(family, task).from_backbone(backbone, **fields).save_pretrained(folder)
    if tokenizer := FAMILIES[family].tokenizer:
        tokenizer.from_backbone(AutoTokenizer.from_pretrained(tiny_backbone())).save_pretrained(folder)
    return {file.name: file.stat().st_size for file in folder.glob("*.py")}


@pytest.mark.parametrize(("row", "case"), [*zip(ROWS, CASES, strict=True)], ids=[name for name, *_ in ROWS])
def test_a_checkpoint_has_no_more_code_than_the_page_says(row, case, tmp_path):
    (name, files, kilobytes), code = row, code_of(tmp_path / "case", *case)
    without = code_of(tmp_path / "base", case[0], "headless", {}) if name.endswith("in addition") else {}
    sizes = [size for file, size in code.items() if file not in without]
    assert len(sizes) <= int(files)
    assert sum(sizes) <= 1000 * int(kilobytes)
