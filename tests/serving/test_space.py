"""A Space of a checkpoint: its files, what is kept there, and what is refused."""

import ast
import json
import re

import pytest
import torch
from huggingface_hub import SpaceCard
from transformers import AutoTokenizer

from hf_localattn import CoolForQuestionAnswering, CoolModel
from hf_localattn.cli import main
from hf_localattn.resources import tiny_backbone
from hf_localattn.serving.page import TASKS
from hf_localattn.serving.space import GRADIO, program, push_space, space_files
from tests.fresh_process import run_fresh
from tests.serving.conftest import loaded
from tests.test_packaging import TESTED

MODEL, SPACE = "somebody/reader", "somebody/page"


def save(head, folder):
    head.from_backbone(tiny_backbone(), num_local_layers=1).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_backbone()).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return save(CoolForQuestionAnswering, tmp_path_factory.mktemp("reader"))


def files_of(hub):
    """The files of the Space, and the metadata of its card."""
    files = {name: data.decode() for name, data in hub.files(f"spaces/{SPACE}").items()}
    return files, SpaceCard(files.get("README.md", "---\n---\n")).data.to_dict()


def test_push_makes_a_space_that_pins_the_commit_and_keeps_what_was_written_there(hub, reader, capsys):
    assert main(["push", str(reader), MODEL, "--space", SPACE, "--private", "--license", "mit"]) == 0
    commit = re.search(r"as commit (\w+):", capsys.readouterr().out)[1]
    space = hub.repositories[f"spaces/{SPACE}"]
    assert space.private
    files, card = files_of(hub)
    assert set(files) == {"app.py", "requirements.txt", "README.md"}
    assert f"'trust': {{'revision': {commit!r}, 'trust_remote_code': True}}" in files["app.py"]
    assert files["requirements.txt"].startswith(f"torch=={torch.__version__.partition('+')[0]}\ntransformers==")
    assert (card["sdk"], card["sdk_version"], card["app_file"]) == ("gradio", GRADIO, "app.py")
    assert (card["models"], card["license"]) == ([MODEL], "mit")
    assert str(reader) not in "".join(files.values())
    assert str(TESTED["gradio"]) == GRADIO

    commits = len(space.commits)
    push_space(reader, MODEL, commit, SPACE, license="mit")
    assert len(space.commits) == commits
    mine = files["README.md"].replace("title: reader", "title: reader\nemoji: 🌹") + "\n## Mine\n"
    space.commit("main", {**hub.files(f"spaces/{SPACE}"), "README.md": mine.encode()}, "Update README.md")
    push_space(reader, MODEL, "2" * 40, SPACE, license="apache-2.0")
    files, card = files_of(hub)
    assert "2" * 40 in files["app.py"]
    assert "## Mine" in files["README.md"]
    assert (card["emoji"], card["license"]) == ("🌹", "apache-2.0")
    space.commit("main", {"app.py": b"print('mine')"}, "Mine")
    with pytest.raises(ValueError, match=r"app\.py"):
        push_space(reader, MODEL, "1" * 40, SPACE)
    assert files_of(hub)[0] == {"app.py": "print('mine')"}
    with pytest.raises(OSError, match="uploaded"):
        push_space(reader, MODEL, "1" * 40, "others/page")


@pytest.mark.parametrize("task", TASKS)
def test_the_program_is_short_and_needs_no_other_file(task):
    text = program(task, model=MODEL, trust={"revision": "1" * 40}, title="reader", example='"\\')
    assert text.count("\n") <= 150
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports}
    assert modules <= {"html", "types", "collections.abc", "typing", "gradio", "torch", "transformers"}


PROGRAM = """
import runpy, sys
from unittest.mock import MagicMock
sys.modules["hf_localattn"] = None  # importing it is an error from here on
sys.modules["gradio"] = MagicMock()
names = runpy.run_path("app.py", run_name="__main__")
settings = names["SPACE"]
pipe = names["load_pipe"](settings["task"], settings["model"], **settings["trust"])
texts = ["Who is the baker?", "The baker Mira grows white roses."]
print(names["TASKS"][settings["task"]].answer(pipe, texts).result)
"""


@pytest.mark.slow(reason="a process that imports torch and transformers anew")
def test_the_program_works_without_the_package(reader, tmp_path):
    (tmp_path / "app.py").write_text(space_files(reader, str(reader), "main")["app.py"])
    done = run_fresh(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in "The baker Mira grows white roses."


def without_pipeline(folder):
    config = save(CoolForQuestionAnswering, folder) / "config.json"
    config.write_text(config.read_text().replace("custom_pipelines", "other_pipelines"))


def with_parser(folder, parser=None):
    for one in loaded("sla-bert", "token-classification"):
        one.save_pretrained(folder)
    if parser is not None:
        config = folder / "tokenizer_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "parser": parser}))


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda folder: save(CoolModel, folder), "CoolModel"),
        (without_pipeline, "'question-answering'"),
        (with_parser, "not an installed spaCy pipeline"),
    ],
    ids=["no head", "no pipeline", "a parser's folder"],
)
def test_a_checkpoint_without_a_page_is_refused_before_the_upload(write, reason, hub, tmp_path, capsys):
    write(tmp_path)
    with pytest.raises(SystemExit):
        main(["push", str(tmp_path), MODEL, "--space", SPACE])
    assert reason in capsys.readouterr().err
    assert not hub.repositories


def test_a_parser_of_spacy_is_installed_by_the_space(monkeypatch, tmp_path):
    with_parser(tmp_path, "en_core_web_sm")
    versions = {"en_core_web_sm": "3.8.0", "spacy": "3.8.14", "torch": "2.13.0", "transformers": "5.23.0"}
    monkeypatch.setattr("hf_localattn.serving.space.version", versions.__getitem__)
    _, _, spacy, parser = space_files(tmp_path, MODEL, "main")["requirements.txt"].splitlines()
    assert spacy == "spacy==3.8.14"
    assert parser.startswith("en_core_web_sm @ https://")
    assert parser.endswith("/en_core_web_sm-3.8.0/en_core_web_sm-3.8.0-py3-none-any.whl")
