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
from hf_localattn.serving.space import GRADIO, push_space, space_files
from tests.fresh_process import run_fresh
from tests.script_helpers import ROOT
from tests.serving.conftest import loaded

MODEL, SPACE = "somebody/reader", "somebody/page"


def save(head, folder):
    head.from_backbone(tiny_backbone(), num_local_layers=1).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_backbone()).save_pretrained(folder)


def edit(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    save(CoolForQuestionAnswering, folder)
    return folder


def files_of(hub):
    return {name: data.decode() for name, data in hub.files(f"spaces/{SPACE}").items()}


def test_push_makes_a_space_that_pins_the_commit_and_keeps_what_was_written_there(hub, reader, capsys):
    assert main(["push", str(reader), MODEL, "--space", SPACE, "--private", "--license", "mit"]) == 0
    commit = re.search(r"as commit (\w+):", capsys.readouterr().out)[1]
    space = hub.repositories[f"spaces/{SPACE}"]
    assert space.private
    files = files_of(hub)
    assert set(files) == {"app.py", "page.json", "requirements.txt", "README.md"}
    assert json.loads(files["page.json"])["trust"] == {"revision": commit, "trust_remote_code": True}
    assert files["requirements.txt"].startswith(f"torch=={torch.__version__.partition('+')[0]}\ntransformers==")
    expected = {"sdk": "gradio", "sdk_version": GRADIO, "app_file": "app.py", "models": [MODEL], "license": "mit"}
    assert SpaceCard(files["README.md"]).data.to_dict().items() >= expected.items()
    assert str(reader) not in "".join(files.values())
    assert f"\ngradio=={GRADIO}\n" in (ROOT / "constraints.txt").read_text()

    commits = len(space.commits)
    push_space(reader, MODEL, commit, SPACE, license="mit")
    assert len(space.commits) == commits
    mine = files["README.md"].replace("title: reader", "title: reader\nemoji: 🌹") + "\n## Mine\n"
    space.commit("main", {**hub.files(f"spaces/{SPACE}"), "README.md": mine.encode()}, "Update README.md")
    push_space(reader, MODEL, "2" * 40, SPACE, license="apache-2.0")
    files = files_of(hub)
    assert "2" * 40 in files["page.json"]
    assert "## Mine" in files["README.md"]
    card = SpaceCard(files["README.md"]).data
    assert (card.emoji, card.license) == ("🌹", "apache-2.0")
    space.commit("main", {"app.py": b"print('mine')"}, "Mine")
    with pytest.raises(ValueError, match=r"app\.py"):
        push_space(reader, MODEL, "1" * 40, SPACE)
    assert files_of(hub) == {"app.py": "print('mine')"}
    with pytest.raises(OSError, match="uploaded"):
        push_space(reader, MODEL, "1" * 40, "others/page")


def test_the_program_is_short_and_needs_no_other_module(reader):
    text = space_files(reader, MODEL, "1" * 40)["app.py"]
    assert len(text.encode()) <= 16_000
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports}
    modules -= {"functools", "html", "itertools", "json", "pathlib", "threading", "types", "collections.abc", "typing"}
    assert modules <= {"gradio", "torch", "transformers"}


PROGRAM = """
import runpy, sys
from unittest.mock import MagicMock
sys.modules["hf_localattn"] = None  # importing it is an error from here on
sys.modules["gradio"] = MagicMock()
names = runpy.run_path("app.py", run_name="__main__")
settings = names["settings"]
pipe = names["load_pipe"](settings["task"], settings["model"], **settings["trust"])
texts = ["Who is the baker?", "The baker Mira grows white roses."]
print(names["WIDGETS"][settings["task"]].answer(pipe, texts).result)
"""


@pytest.mark.slow(reason="a process that imports torch and transformers anew")
def test_the_program_works_without_the_package(reader, tmp_path):
    files = space_files(reader, str(reader), "main")
    for name in ("app.py", "page.json"):
        (tmp_path / name).write_text(files[name])
    done = run_fresh(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in "The baker Mira grows white roses."


def test_a_checkpoint_without_a_page_is_refused_before_the_upload(hub, tmp_path, capsys, monkeypatch):
    def refused(reason):
        with pytest.raises(SystemExit):
            main(["push", str(tmp_path), MODEL, "--space", SPACE])
        assert reason in capsys.readouterr().err
        assert not hub.repositories

    save(CoolModel, tmp_path)
    refused("CoolModel")
    save(CoolForQuestionAnswering, tmp_path)
    edit(tmp_path / "config.json", custom_pipelines={})
    refused("'question-answering'")
    for one in loaded("sla-bert", "token-classification"):
        one.save_pretrained(tmp_path)
    refused("not an installed spaCy pipeline")  # the parser is a folder

    edit(tmp_path / "tokenizer_config.json", parser="en_core_web_sm")
    versions = {"en_core_web_sm": "3.8.0", "spacy": "3.8.14", "torch": "2.13.0", "transformers": "5.23.0"}
    monkeypatch.setattr("hf_localattn.serving.space.version", versions.__getitem__)
    _, _, spacy, parser = space_files(tmp_path, MODEL, "main")["requirements.txt"].splitlines()
    assert spacy == "spacy==3.8.14"
    assert parser.startswith("en_core_web_sm @ https://")
    assert parser.endswith("/en_core_web_sm-3.8.0/en_core_web_sm-3.8.0-py3-none-any.whl")
