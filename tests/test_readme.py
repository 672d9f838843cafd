"""The programs of the documentation run as printed, and print what they say. Its commands exist."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from hf_localattn.cli import app, main
from hf_localattn.names import SCRIPTS
from hf_localattn.tasks import QuestionAnswering, TextClassification, TokenClassification
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, parse_arguments
from tests.programs import commands, programs, run_page, training_command

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FAMILY_PAGES = [f"docs/families/{name}.md" for name in ("cool", "sla", "oa", "sam")]
# Commands and then programs, which ask the model that the page trained.
TASKS = [
    f"docs/{task}.md"
    for task in ("text_classification", "token_classification", "multiple_choice", "question_generation")
]
RUN = ["docs/index.md", "docs/backbones.md", *FAMILY_PAGES]
ASK = "docs/question_answering.md"


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "families").glob("*.md"))]
# The record of first runs has programs of the shell.
COMMANDS = [command for page in PAGES if page.name != "first_runs.md" for command in commands(page)]


@pytest.mark.parametrize("page", RUN)
def test_programs_of_the_documentation_print_what_they_say(page, tmp_path, monkeypatch):
    """In order and in one namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_programs_that_ask_the_model_of_the_demo(demo_output, monkeypatch):
    monkeypatch.chdir(demo_output.parent)
    assert len(programs(ASK)) == 2
    run_page(ASK)


@pytest.mark.parametrize("page", TASKS)
def test_programs_of_a_task_ask_the_model_that_its_page_trains(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["train", *training_command(page), "--use_cpu", "true"])
    run_page(page)


def test_the_scripts_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page("docs/scripts.md")


def test_the_readme_is_a_shop_window():
    assert len(README.splitlines()) <= 180


def test_make_targets_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {command[1] for command in COMMANDS if command and command[0] == "make"}
    named |= set(re.findall(r"`make ([\w-]+)`", README))
    assert named
    assert named <= targets


def test_init_commands_run(tmp_path_factory, monkeypatch):
    ours = [command for command in COMMANDS if command[:1] == ["hf-localattn"]]
    known = get_command(app).commands
    assert ours
    for command in ours:
        arguments = ["tiny" if word == "bert-base-cased" else word for word in command[1:]]
        assert known[arguments[0]].make_context(arguments[0], arguments[1:])
        if arguments[0] == "init":  # the others want a model that is trained: tests/hub/
            monkeypatch.chdir(tmp_path_factory.mktemp("init"))
            assert main(arguments) == 0


TRAINING = [
    command[2:]
    for command in COMMANDS
    # Not those that leave out options, or take one from a variable of the shell.
    if command[:2] == ["hf-localattn", "train"] and "..." not in command and "$" not in "".join(command)
]


def test_every_script_is_shown():
    assert {script for script, *_ in TRAINING} == {*SCRIPTS}


@pytest.mark.parametrize("command", [c for c in TRAINING if "tiny" not in c], ids=" ".join)
def test_training_commands_are_understood(command):
    data = {
        "glue": TextClassification.DataArguments,
        "ner": TokenClassification.DataArguments,
        "qa": QuestionAnswering.DataArguments,
    }
    parse_arguments((ModelArguments, data[command[0]], TrainingArguments), [*command[1:], "--report_to", "none"])


SEVERAL_RUNS = pytest.mark.slow(reason="several runs; tests/studies has their like")
OF_TASKS = [training_command(page) for page in (*TASKS, "docs/negation.md")]  # run with the programs of their pages
SMALL = [
    pytest.param(c, marks=SEVERAL_RUNS if {"--num_folds", "--search_space"} & {*c} else ())
    for c in TRAINING
    if "tiny" in c and c not in OF_TASKS
]


@pytest.mark.parametrize("command", SMALL, ids=lambda c: f"{c[0]} {c[-1]}")
def test_the_small_training_commands_run(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "search.json" in command:
        Path("search.json").write_text('{"num_train_epochs": [1, 2], "learning_rate": {"low": 1e-5, "high": 1e-3}}')
    arguments = command
    main(["train", *command, "--use_cpu", "true"])
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
    assert any(output.glob(f"modeling_{family.replace('-', '_')}*.py"))


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
