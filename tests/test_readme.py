"""The README's programs run as printed, and print what it says; its commands are commands there are."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

import run_qa
from hf_localattn.cli import build_parser, main
from hf_localattn.resources import tiny_backbone
from hf_localattn.training.arguments import ModelArguments, TrainingArguments, parse_arguments
from hf_localattn.training.question_answering import QuestionAnsweringDataArguments

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
# A program and, directly below it, what it prints.
PROGRAMS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", README, flags=re.DOTALL)
COMMANDS = [
    shlex.split(line, comments=True)
    for language, block in BLOCKS
    if language == "bash"
    for line in block.replace("\\\n", " ").splitlines()
]


def offline(text):
    """Names on the Hub become the tiny encoder that ships."""
    return text.replace('"bert-base-cased"', repr(str(tiny_backbone())))


def test_programs_print_what_the_readme_says(demo_output, monkeypatch):
    """In order and in one namespace, as a reader would type them."""
    monkeypatch.chdir(demo_output.parent)
    namespace = {}
    assert len(PROGRAMS) >= 4
    for program, expected in PROGRAMS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(offline(program), "README.md", "exec"), namespace)
        assert printed.getvalue() == expected


def test_make_targets_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {command[1] for command in COMMANDS if command and command[0] == "make"}
    named |= set(re.findall(r"`make ([\w-]+)`", README))
    assert named
    assert named <= targets


def test_init_commands_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [command for command in COMMANDS if command[:1] == ["hf-localattn"]]
    assert commands
    for command in commands:
        arguments = ["tiny" if word == "bert-base-cased" else word for word in command[1:]]
        assert build_parser().parse_args(arguments)
        assert main(arguments) == 0


def test_training_commands_are_understood():
    commands = [command for command in COMMANDS if command[:2] == ["python", "run_qa.py"]]
    assert len(commands) >= 2
    for command in commands:
        classes = (ModelArguments, QuestionAnsweringDataArguments, TrainingArguments)
        parse_arguments(classes, [*command[2:], "--report_to", "none"])


def test_the_small_training_command_runs(tmp_path, monkeypatch):
    (command,) = [c for c in COMMANDS if c[:2] == ["python", "run_qa.py"] and "tiny" in c]
    arguments = [str(ROOT / word) if word.startswith("hf_localattn/") else word for word in command[2:]]
    monkeypatch.chdir(tmp_path)
    metrics = run_qa.main([*arguments, "--use_cpu", "true"])
    assert metrics["eval_samples"] == 20
    assert (tmp_path / "first-run" / "modeling_cool.py").is_file()


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()
