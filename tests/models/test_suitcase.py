"""`models/` travels to the Hub with every checkpoint: it is whole and flat, and needs only torch and transformers."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import hf_localattn.models
from hf_localattn.families import AUTO_CLASSES, FAMILIES
from tests.models.tiny import CASES, adapted, tiny_model, token_ids

SUITCASE = Path(hf_localattn.models.__file__).parent
FILES = sorted(SUITCASE.glob("*.py"))
ALLOWED = {"torch", "transformers", *sys.stdlib_module_names}


def imports(path):
    """(level, module, is it guarded by `try`) of every import statement."""
    tree = ast.parse(path.read_text())
    guarded = {id(node) for block in ast.walk(tree) if isinstance(block, ast.Try) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name, id(node) in guarded) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", id(node) in guarded


def test_is_flat():
    assert not [path for path in SUITCASE.iterdir() if path.is_dir() and path.name != "__pycache__"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_imports_only_what_travels_or_is_there(path):
    for level, module, guarded in imports(path):
        if level:
            assert level == 1, f"from {'.' * level}{module} does not travel"
            assert re.fullmatch(r"\w+", module), "only files beside this one travel"
            assert (SUITCASE / f"{module}.py").is_file()
        else:
            assert guarded or module.split(".")[0] in ALLOWED, f"{module} may not be where the checkpoint is loaded"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_docstrings_do_not_look_like_imports(path):
    """transformers finds the files to copy with a regular expression, which sees docstrings too."""
    seen = re.findall(r"^\s*from\s+\.(\S+)\s+import", path.read_text(), flags=re.MULTILINE)
    assert sorted(seen) == sorted(module for level, module, _ in imports(path) if level)


FRESH_PROCESS = """
import sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
import torch
import transformers
from transformers import AutoConfig

def check(model, inputs, expected):
    with torch.no_grad():
        output = model(**inputs)
    for name, value in expected.items():  # a processor adds in an order that depends on where the memory lies
        torch.testing.assert_close(output[name], value, rtol=1e-6, atol=1e-6)

for case in sys.argv[1:]:
    auto_class, inputs, expected = torch.load(f"{case}/case.pt")
    auto_class = getattr(transformers, auto_class)
    model = auto_class.from_pretrained(f"{case}/checkpoint", trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules"), type(model).__module__
    check(model, inputs, expected)
    model.save_pretrained(f"{case}/again")  # the second generation
    second = auto_class.from_pretrained(f"{case}/again", trust_remote_code=True)
    check(second, inputs, expected)
    first, second = (dict(one.config.to_dict(), _name_or_path="") for one in (model, second))
    assert first == second, (first, second)
    config = AutoConfig.from_pretrained(f"{case}/again", trust_remote_code=True)
    assert type(auto_class.from_config(config, trust_remote_code=True))
"""


TWO_VERSIONS = """
import sys
sys.modules["hf_localattn"] = None
import torch
from transformers import AutoModel

inputs = torch.load(sys.argv[3])
first, second = (AutoModel.from_pretrained(folder, trust_remote_code=True) for folder in sys.argv[1:3])
with torch.no_grad():
    one, other = (model(**inputs).last_hidden_state for model in (first, second))
assert torch.equal(other, one + 1), (one - other).abs().max()
"""


def run_fresh(program, folder, *arguments):
    environment = {"HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": ""}
    command = [sys.executable, "-I", "-c", program, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", FAMILIES)
def test_two_versions_of_the_code_live_in_one_process(name, tmp_path):
    """Also in folders of the same name, which transformers tells apart by the code that the configuration reaches."""
    model = tiny_model(name)
    for version in ("old", "new"):
        model.save_pretrained(tmp_path / version / "checkpoint")
    code = tmp_path / "new" / "checkpoint" / f"{model.__module__.split('.')[-1]}.py"
    changed = code.read_text().replace("last_hidden_state=states,", "last_hidden_state=states + 1,")
    assert changed != code.read_text()
    code.write_text(changed)
    torch.save(adapted(model, input_ids=token_ids(2, 9)), tmp_path / "inputs.pt")
    folders = (tmp_path / version / "checkpoint" for version in ("old", "new"))
    result = run_fresh(TWO_VERSIONS, tmp_path, *folders, tmp_path / "inputs.pt")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", FAMILIES)
def test_loads_where_the_package_is_not_installed(name, tmp_path):
    """Every class of the family, all in one process: starting one is what takes the time."""
    tasks = [task for family, task in CASES if family == name]
    mask = torch.tensor([[1] * 9, [1] * 4 + [0] * 5])
    for task in tasks:
        model = tiny_model(name, task)
        model.save_pretrained(tmp_path / task / "checkpoint")
        inputs = adapted(model, input_ids=token_ids(2, 9), attention_mask=mask)
        with torch.no_grad():
            output = model(**inputs)
        expected = {key: value for key, value in output.items() if torch.is_tensor(value)}
        auto_class = "AutoModel" if task == "headless" else AUTO_CLASSES[task].__name__
        torch.save((auto_class, inputs, expected), tmp_path / task / "case.pt")
    result = run_fresh(FRESH_PROCESS, tmp_path, *(tmp_path / task for task in tasks))
    assert result.returncode == 0, result.stderr
    needed = {model.__module__.split(".")[-1] + ".py" for model in (FAMILIES[name].model, FAMILIES[name].config)}
    for task in tasks:
        folder, again = tmp_path / task / "checkpoint", tmp_path / task / "again"
        code = {path.name for path in folder.glob("*.py")}
        assert code == {path.name for path in again.glob("*.py")}
        assert all((folder / file).read_text() == (SUITCASE / file).read_text() for file in code)
        assert needed <= code
