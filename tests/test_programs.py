"""Programs of documentation, docstrings and notebooks run as printed, and print what they say; commands exist."""

import doctest
import importlib.abc
import json
import re
import runpy
import shlex
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from transformers import pipeline
from typer.main import get_command

import hf_localattn
from hf_localattn import CoolForSequenceClassification, LocalAttentionTrainer, LocalAttentionTrainingArguments, tasks
from hf_localattn.cli import app, main
from hf_localattn.extras import EXTRAS
from hf_localattn.names import SCRIPTS
from hf_localattn.resources import tiny_backbone
from hf_localattn.settings.reading import build_arguments, read_options
from hf_localattn.settings.recipes import options_of_run
from hf_localattn.studies.script_command import argument_classes
from tests.fresh_process import bare_python
from tests.programs import (
    DEMO,
    QUESTIONS,
    ROOT,
    commands,
    demo_by_heart,
    programs,
    run_page,
    run_program,
    training_command,
)

README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "families").glob("*.md"))]
COMMANDS = [command for page in PAGES for command in commands(page)]

RUN = {
    "README.md": 2,
    "docs/index.md": 1,
    "docs/backbones.md": 1,
    "docs/interactions.md": 2,
    "docs/python.md": 5,
    "docs/scripts.md": 1,
    **{f"docs/families/{name}.md": 1 for name in ("cool", "sla", "oa", "sam")},
}
"""Pages whose programs need nothing else, with the least number of programs."""

TASKS = [
    f"docs/{task}.md"
    for task in ("text_classification", "token_classification", "multiple_choice", "question_generation")
]
"""Pages with commands and then programs, which ask the model that the page trained."""


@pytest.mark.parametrize("page", RUN)
def test_programs_of_the_documentation_print_what_they_say(page, tmp_path, monkeypatch):
    """In order and in one namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    run_page(page, RUN[page])


def test_programs_that_ask_the_model_of_the_demo(demo_output, monkeypatch):
    monkeypatch.chdir(demo_output.parent)
    run_page("docs/question_answering.md", 2)


@pytest.mark.parametrize("page", TASKS)
def test_programs_of_a_task_ask_the_model_that_its_page_trains(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["train", *training_command(page), "--use_cpu", "true"])
    run_page(page)


def test_negation_is_found_at_once_and_then_trained(tmp_path, monkeypatch):
    """The package's own model answers first; a program writes rows, and the first command trains on them."""
    monkeypatch.chdir(tmp_path)
    page, namespace, command = "docs/negation.md", {}, training_command("docs/negation.md")
    answers, later = [], []
    for program in programs(page):
        (later if f'"{command[-1]}"' in program[0] else answers).append(program)
    for program, expected in answers:
        run_program(program, expected, page, namespace)
    short = ["--max_train_samples", "8", "--max_steps", "1", "--use_cpu", "true"]
    main(["train", *command, *short])
    assert later
    for program, expected in later:
        run_program(program, expected, page, namespace)


@pytest.mark.slow(reason="a minute of training; docs/question_answering.md is run with a model that learns by heart")
def test_the_demo_learns_what_the_page_says():
    trained = runpy.run_path(DEMO, run_name="demo")["train"]("cool", Namespace(seed=0, steps=200))
    reader = pipeline("question-answering", model=trained.model, tokenizer=trained.tokenizer)
    for question, passage, answer in QUESTIONS:
        assert reader(question=question, context=passage)["answer"] == answer


def test_the_demo_trains_saves_reloads_and_asks(tmp_path, monkeypatch, capsys):
    earlier = tmp_path / "demo_output"
    earlier.mkdir()
    (earlier / "demo.json").write_text("{}")
    (earlier / "left_over").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [DEMO, "--steps", "2", "--seed", "3"])
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {shlex.join(bare_python())} "$@"\n')
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    demo_by_heart(tmp_path)["main"]()
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("CoolForQuestionAnswering", "BertForQuestionAnswering", "\nCOOL  "))
    assert printed.splitlines()[-1].startswith("  Who is the "), "the fresh process has answered"
    results = json.loads((earlier / "demo.json").read_text())
    assert results["seed"] == 3
    assert 0 <= results["cool"]["exact_match"] <= results["cool"]["f1"] <= 100
    assert (earlier / "modeling_cool.py").is_file()
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith((".demo", "left_over"))]


def test_the_demo_refuses_a_folder_that_is_not_its_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "thesis.txt").touch()
    monkeypatch.setattr(sys, "argv", [DEMO, "--output", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"^2$"):
        runpy.run_path(DEMO, run_name="__main__")
    assert "exists and is not from an earlier demo" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()


def test_make_targets_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {command[1] for command in COMMANDS if command and command[0] == "make"}
    named |= set(re.findall(r"`make ([\w-]+)`", README))
    assert set() < named <= targets


def test_commands_exist_and_those_of_init_run(tmp_path_factory, monkeypatch):
    ours = [command[1:] for command in COMMANDS if command[:1] == ["hf-localattn"]]
    known = get_command(app).commands
    assert {script for script, *_ in TRAINING} == {*SCRIPTS}
    for command in ours:
        name, *arguments = ["tiny" if word == "bert-base-cased" else word for word in command]
        assert known[name].make_context(name, [*arguments])
        if name == "init":  # the others want a model that is trained: tests/hub/
            monkeypatch.chdir(tmp_path_factory.mktemp("init"))
            assert main([name, *arguments]) == 0


TRAINING = [
    command[2:]
    for command in COMMANDS
    # Not those that leave out options, or take one from a variable of the shell.
    if command[:2] == ["hf-localattn", "train"] and "..." not in command and "$" not in "".join(command)
]


WRITTEN = "my-rows.jsonl"
"""A file that a program of the page writes before the command reads it."""


@pytest.mark.parametrize(
    "command", [c for c in TRAINING if "tiny" not in c and WRITTEN not in " ".join(c)], ids=" ".join
)
def test_training_commands_are_understood(command):
    script, *words = command
    classes = argument_classes(getattr(tasks, SCRIPTS[script]))
    build_arguments(classes, options_of_run(script, read_options(classes, [*words, "--report_to", "none"])))


SEVERAL_RUNS = pytest.mark.slow(reason="several runs; tests/studies has their like")
OF_TASKS = [training_command(page) for page in [*TASKS, "docs/negation.md"]]  # run with the programs of their pages
SMALL = [
    pytest.param(c, marks=SEVERAL_RUNS if {"--num_folds", "--seeds", "--search_space"} & {*c} else ())
    for c in TRAINING
    if "tiny" in c and c not in OF_TASKS
]


@pytest.mark.parametrize("command", SMALL, ids=lambda c: f"{c[0]} {c[-1]}")
def test_the_small_training_commands_run(command, tmp_path, monkeypatch):
    def given(option):
        return command[command.index(option) + 1]

    monkeypatch.chdir(tmp_path)
    Path("search.json").write_text('{"num_train_epochs": [1, 2], "learning_rate": {"low": 1e-5, "high": 1e-3}}')
    main(["train", *command, "--use_cpu", "true"])
    output = tmp_path / given("--output_dir")
    if "--search_space" in command:
        trials = json.loads((output / "search.json").read_text())["trials"]
        assert len(trials) == int(given("--search_trials"))
        return
    if "--num_folds" in command:
        assert len(json.loads((output / "folds.json").read_text())["folds"]) == int(given("--num_folds"))
        output /= "fold-1"
    if "--seeds" in command:
        output /= "seed-1"
    assert json.loads((output / "all_results.json").read_text())["eval_samples"] > 0
    assert any(output.glob(f"modeling_{given('--family').replace('-', '_')}*.py"))


def test_the_command_of_a_release_makes_the_links_of_the_readme_absolute(tmp_path):
    (tmp_path / "README.md").write_text(README)
    (command,) = re.findall(r"```bash\n( *sed .*?)```", (ROOT / "RELEASING.md").read_text(), flags=re.DOTALL)
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    links = re.findall(r"\]\(([^)]+)\)", (tmp_path / "README.md").read_text())
    assert all(link.startswith("https://") for link in links)


def test_links_lead_somewhere():
    links = {(page, link) for page in PAGES for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text())}
    assert len(links) > 50
    assert not [(page.name, link) for page, link in links if not (page.parent / link).exists()]


def test_early_stopping_from_python_compares_the_loss(tmp_path):
    arguments = LocalAttentionTrainingArguments(str(tmp_path), early_stopping_patience=2, report_to="none")
    model = CoolForSequenceClassification.from_backbone(tiny_backbone(), num_labels=2)
    found = LocalAttentionTrainer(model, arguments, eval_dataset=[]).args
    assert (found.metric_for_best_model, found.greater_is_better) == ("loss", False)


DOCTESTS = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(Path(hf_localattn.__file__).parent.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", DOCTESTS)
def test_examples_of_docstrings(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted
    assert not results.failed


class Hidden(importlib.abc.MetaPathFinder):
    """Finder for which some modules are not installed."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        """Raise the error of a missing module."""
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.timeout(1800)
@pytest.mark.slow(reason="trains tiny models for a minute")
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_run_and_print_what_they_say(path, tmp_path, monkeypatch, capsys):
    """Run with what IPython would show left out, and without the extras that the notebook does not install."""
    installed = re.search(r"pip install 'hf_localattn\[([a-z,]+)\]'", path.read_text())[1].split(",")
    hidden = {module for extra, modules in EXTRAS.items() if extra not in installed for module in modules}
    for module in hidden:
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Hidden(hidden), *sys.meta_path])
    shown = []
    display = Namespace(Image=shown.append, HTML=shown.append)
    own = Namespace(display=display, version_info=(9, 0))  # matplotlib asks for the version
    monkeypatch.setitem(sys.modules, "IPython", own)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.chdir(tmp_path)
    namespace, cells = {}, json.loads(path.read_text())["cells"]
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        program = "".join(cell["source"])
        exec(compile(program, path.name, "exec"), namespace)
        printed = capsys.readouterr().out
        if "pipeline(" in program:  # what the trained models answer
            assert printed == "".join(cell["outputs"][0]["text"])
    assert len(shown) == 1
    assert shown[0]
