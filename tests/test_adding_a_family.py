"""A family of another package has what the families here have: the contract, commands, cards, code in checkpoints."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.fresh_process import bare_python

ROOT = Path(__file__).parents[1]
FIFTH = ROOT / "tests" / "fifth_family"
CONTRACT = (
    "tests/models/test_family_contract.py",
    "tests/hub/test_checkpoint.py",
    "tests/hub/test_model_card.py",
    "tests/test_families.py",
    "tests/fifth_family/commands.py",
)
LEFT_OUT = "compiles or exports_with_any or half_precision or cards_of_real_runs or every_card_is_complete"
"""The slowest, and those of a run that is kept in model_cards/."""

FILES = {
    "__init__.py": '"""A family."""\n',
    "card.yaml": "{title: T, summary: S, paper: P, url: U, bibtex: B, inputs: I, limits: []}\n",
    "entry.py": """from hf_localattn.families import Family
from hf_localattn.models.configuration_NAME import BadConfig

FAMILY = Family(config=BadConfig)
""",
    "models/fields_NAME.py": """from dataclasses import dataclass
from .fields import Fields

@dataclass(kw_only=True, repr=False, eq=False)
class BadFields(Fields):
    pass
""",
    "models/configuration_NAME.py": """from .configuration_local_attention import LocalAttentionConfig
from .fields_NAME import BadFields

class BadConfig(BadFields, LocalAttentionConfig):
    model_type = "NAME"
""",
    "models/modeling_NAME.py": """from .configuration_NAME import BadConfig
from .modeling_on_encoder import ModelOnEncoder

class BadPreTrainedModel(ModelOnEncoder):
    config_class = BadConfig

class BadModel(BadPreTrainedModel):
    pass
""",
}
"""Files of a family without heads."""

BAD = {
    "lacks_a_head": ({}, "no class BadForQuestionAnswering"),
    "fails": ({"entry.py": "import not_there"}, "No module named 'not_there'"),
    "lacks_a_card": ({"card.yaml": None}, "card.yaml, the text of its cards, is missing"),
    "half_a_card": ({"card.yaml": "title: T"}, "card.yaml has no 'summary'"),
    "takes_a_file": ({"models/masking.py": ""}, "masking.py has the name of a file"),
    "takes_a_name": (
        {"models/configuration_NAME.py": FILES["models/configuration_NAME.py"].replace('"NAME"', '"bert"')},
        "'bert'",
    ),
}
"""Files of packages that differ, and what is said of each."""

PROGRAM = """
import json, sys
import hf_localattn
from hf_localattn.families import BROKEN, FAMILIES, get_family
from hf_localattn.names import family_names
told = {}
for name in json.loads(sys.argv[1]):
    try:
        get_family(name)
    except ValueError as error:
        told[name] = str(error)
assert {"cool", "sla-bert", "oa-xlnet", "sam-roberta"} == set(FAMILIES)
assert "bert" not in family_names()  # a name that is refused is nobody's
hf_localattn.CoolConfig()
print(json.dumps(told))
"""


def install(source, site):
    """Put a package into a folder as pip does: the modules, and the metadata with the entry points."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    shutil.copytree(source, site, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = site / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.timeout(900)  # one process runs the tests of all that a family owes
def test_a_family_of_another_package_is_held_to_the_contract(tmp_path):
    install(FIFTH, tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    chosen = f"(selfattentive or commands) and not ({LEFT_OUT})"
    command = [*bare_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *CONTRACT]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    passed = int(done.stdout.rsplit(" passed", 1)[0].split()[-1])
    assert passed > 40, done.stdout[-600:]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with packages whose families cannot be used, and one that takes the name of another family."""
    folder = tmp_path_factory.mktemp("site")
    for name, (changed, _) in [*BAD.items(), ("clash", ({}, ""))]:
        source = tmp_path_factory.mktemp(name)
        family = "cool" if name == "clash" else name
        (source / name / "models").mkdir(parents=True)
        for path, text in {**FILES, **changed}.items():
            if text is None:
                continue
            (source / name / path.replace("NAME", name)).write_text(text.replace("NAME", name))
        entry_point = f'[project.entry-points."hf_localattn.families"]\n{family} = "{name}"\n'
        (source / "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "1"\n{entry_point}')
        install(source, folder)
        (folder / "pyproject.toml").unlink()
    return folder


def test_a_family_that_cannot_be_used_is_told_at_use_and_all_others_work(site, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])}
    command = [*bare_python(), "-c", PROGRAM, json.dumps([*BAD])]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    for name, (_, words) in BAD.items():
        assert words in told[name], told[name]
        assert f"{name!r} of the package {name}" in told[name]
        assert "\n" not in told[name]
    assert "'cool' of the package clash is left out" in done.stderr


def test_a_light_command_tells_it_too(site, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "half_a_card", "backbone_config": {"model_type": "bert"}})
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])}
    command = [sys.executable, "-c", "from hf_localattn_command import main; main()", "card", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "card.yaml has no 'summary'" in done.stderr
    assert "Traceback" not in done.stderr
