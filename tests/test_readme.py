"""The programs of README and docs run as printed, and print what they say; their commands are commands there are."""

import contextlib
import io
import json
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest
from typer.main import get_command

from hf_localattn.cli import app, main
from hf_localattn.resources import tiny_backbone
from hf_localattn.tasks import QuestionAnswering, TextClassification, TokenClassification
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, parse_arguments
from tests.parsers import tiny_parser

ROOT = Path(__file__).parent.parent
SAMPLES = "hf_localattn/resources/samples"
README = (ROOT / "README.md").read_text()
SCRIPTS = (ROOT / "docs" / "scripts.md").read_text()
PAGES = (
    "".join(path.read_text() for path in sorted((ROOT / "docs").glob("families/*.md")))
    + (ROOT / "docs" / "index.md").read_text()
)
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README + SCRIPTS + PAGES, flags=re.DOTALL)


def programs_of(text):
    """Return the programs of a page, each with what it prints: the text directly below it."""
    return re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, flags=re.DOTALL)


PROGRAMS, FROM_PYTHON = programs_of(README), programs_of(SCRIPTS)
COMMANDS = [
    shlex.split(line, comments=True)
    for language, block in BLOCKS
    if language == "bash"
    for line in block.replace("\\\n", " ").splitlines()
]


def offline(text):
    """Names on the Hub become the tiny encoder that ships, the parser's name that of one of a few sentences."""
    names = {'"bert-base-cased"': str(tiny_backbone()), '"en_core_web_sm"': tiny_parser()}
    for name, folder in names.items():
        text = text.replace(name, repr(folder))
    return text


def test_programs_print_what_the_readme_says(demo_output, monkeypatch):
    """In order and in one namespace, as a reader would type them."""
    monkeypatch.chdir(demo_output.parent)
    shutil.copytree(ROOT / SAMPLES, SAMPLES)
    namespace = {}
    assert len(PROGRAMS) >= 4
    for program, expected in PROGRAMS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(offline(program), "README.md", "exec"), namespace)
        assert printed.getvalue() == expected


@pytest.mark.parametrize("page", ["index.md", *(f"families/{name}.md" for name in ("cool", "sla", "oa", "sam"))])
def test_programs_of_the_documentation_print_what_they_say(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / SAMPLES, SAMPLES)
    namespace = {}
    programs = programs_of((ROOT / "docs" / page).read_text())
    assert programs
    for program, expected in programs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(offline(program), page, "exec"), namespace)
        assert not expected or printed.getvalue() == expected


def test_the_scripts_from_python(tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / SAMPLES, tmp_path / SAMPLES)
    monkeypatch.chdir(tmp_path)
    ((program, expected),) = FROM_PYTHON
    exec(compile(program, "scripts.md", "exec"), {})
    assert capsys.readouterr().out.endswith(expected)


def test_make_targets_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {command[1] for command in COMMANDS if command and command[0] == "make"}
    named |= set(re.findall(r"`make ([\w-]+)`", README))
    assert named
    assert named <= targets


def test_init_commands_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [command for command in COMMANDS if command[:1] == ["hf-localattn"]]
    known = get_command(app).commands
    assert commands
    for command in commands:
        arguments = ["tiny" if word == "bert-base-cased" else word for word in command[1:]]
        assert known[arguments[0]].make_context(arguments[0], arguments[1:])
        if arguments[0] == "init":  # the others want a model that is trained: tests/hub/
            assert main(arguments) == 0


TRAINING = [command[1:] for command in COMMANDS if command[:1] == ["python"] and command[1].startswith("run_")]


def test_every_script_is_shown():
    assert {script for script, *_ in TRAINING} == {path.name for path in ROOT.glob("run_*.py")}


@pytest.mark.parametrize("command", [c for c in TRAINING if "tiny" not in c], ids=" ".join)
def test_training_commands_are_understood(command):
    data = {
        "run_glue.py": TextClassification.DataArguments,
        "run_ner.py": TokenClassification.DataArguments,
        "run_qa.py": QuestionAnswering.DataArguments,
    }
    parse_arguments((ModelArguments, data[command[0]], TrainingArguments), [*command[1:], "--report_to", "none"])


SEVERAL_RUNS = pytest.mark.slow(reason="several runs; test_run_folds.py and test_run_search.py have their like")
SMALL = [
    pytest.param(c, marks=SEVERAL_RUNS if {"--num_folds", "--search_space"} & {*c} else ())
    for c in TRAINING
    if "tiny" in c
]


@pytest.mark.parametrize("command", SMALL, ids=lambda c: f"{c[0]} {c[-1]}")
def test_the_small_training_commands_run(command, tmp_path, monkeypatch):
    script, *arguments = command
    arguments = [str(ROOT / word) if (ROOT / word).is_file() else word for word in arguments]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [script, *arguments, "--use_cpu", "true"])
    runpy.run_path(str(ROOT / script), run_name="__main__")
    output = tmp_path / arguments[arguments.index("--output_dir") + 1]
    if "--search_space" in arguments:
        trials = json.loads((output / "search.json").read_text())["trials"]
        assert len(trials) == int(arguments[arguments.index("--search_trials") + 1])
        return
    if "--num_folds" in arguments:
        assert len(json.loads((output / "folds.json").read_text())["folds"]) == int(
            arguments[arguments.index("--num_folds") + 1]
        )
        output /= "fold-1"
    assert json.loads((output / "all_results.json").read_text())["eval_samples"] > 0
    family = arguments[arguments.index("--family") + 1]
    assert (output / f"modeling_{family.replace('-', '_')}.py").is_file()


@pytest.mark.parametrize(
    ("folder", "link"),
    [
        *((ROOT, link) for link in re.findall(r"\]\((?!http)([^)#]+)\)", README)),
        *(
            (page.parent, link)
            for page in (*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "families").glob("*.md"))
            for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text())
        ),
    ],
)
def test_links_lead_somewhere(folder, link):
    assert (folder / link).exists()
