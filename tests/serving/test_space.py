"""A Space of a checkpoint: its files, what is kept there, and what is refused."""

import re

import pytest
import torch
import yaml
from transformers import AutoTokenizer

from hf_localattn import CoolForMultipleChoice, CoolForQuestionAnswering, CoolModel
from hf_localattn.cli import main
from hf_localattn.resources import tiny_backbone
from hf_localattn.serving.space import COPIES, GRADIO, push_space, space_files
from tests.fresh_process import run_fresh
from tests.serving.models import loaded
from tests.test_packaging import read_constraints

MODEL, SPACE = "somebody/reader", "somebody/page"


def save(head, folder):
    head.from_backbone(tiny_backbone(), num_local_layers=1).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_backbone()).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return save(CoolForQuestionAnswering, tmp_path_factory.mktemp("reader"))


def files_of(hub):
    return {name: data.decode() for name, data in hub.files(f"spaces/{SPACE}").items()}


def front_matter(readme):
    return yaml.safe_load(re.match(r"---\n(.*?)\n---\n", readme, re.DOTALL)[1])


def test_push_makes_a_space_that_pins_the_commit(hub, reader, capsys):
    assert main(["push", str(reader), MODEL, "--space", SPACE, "--private", "--license", "mit"]) == 0
    commit = re.search(r"as commit (\w+):", capsys.readouterr().out)[1]
    assert hub.repositories[f"spaces/{SPACE}"].private
    files = files_of(hub)
    assert set(files) == {"app.py", "requirements.txt", "README.md", *COPIES}
    assert f"MODEL, REVISION = '{MODEL}', '{commit}'" in files["app.py"]
    assert "hf_localattn." not in files["page.py"].replace("`hf_localattn.serving.space`", "")
    packages = files["requirements.txt"].split()
    assert packages[0] == f"torch=={torch.__version__.partition('+')[0]}"
    assert len(packages) == 2
    found = front_matter(files["README.md"])
    assert (found["sdk"], found["sdk_version"], found["app_file"]) == ("gradio", GRADIO, "app.py")
    assert (found["models"], found["license"]) == ([MODEL], "mit")
    assert str(reader) not in "".join(files.values())


def test_gradio_is_the_version_of_the_constraints():
    assert str(read_constraints()["gradio"]) == GRADIO


def test_again_it_keeps_what_was_written_there(hub, reader):
    push_space(reader, MODEL, "1" * 40, SPACE)
    space = hub.repositories[f"spaces/{SPACE}"]
    commits = len(space.commits)
    push_space(reader, MODEL, "1" * 40, SPACE)
    assert len(space.commits) == commits
    files = dict(hub.files(f"spaces/{SPACE}"))
    mine = files["README.md"].decode().replace("title: reader", "title: reader\nemoji: 🌹") + "\n## Mine\n"
    space.commit("main", {**files, "README.md": mine.encode()}, "Update README.md")
    push_space(reader, MODEL, "2" * 40, SPACE, license="mit")
    files = files_of(hub)
    assert "2" * 40 in files["app.py"]
    assert "## Mine" in files["README.md"]
    found = front_matter(files["README.md"])
    assert (found["emoji"], found["license"]) == ("🌹", "mit")


def test_a_space_with_another_program_is_not_touched(hub, reader):
    push_space(reader, MODEL, "1" * 40, SPACE)
    space = hub.repositories[f"spaces/{SPACE}"]
    space.commit("main", {"app.py": b"print('mine')"}, "Mine")
    with pytest.raises(ValueError, match=r"has an app\.py that this command did not write"):
        push_space(reader, MODEL, "1" * 40, SPACE)
    assert files_of(hub) == {"app.py": "print('mine')"}


def test_a_failure_says_what_is_there(hub, reader):
    with pytest.raises(OSError, match="The model itself is uploaded"):
        push_space(reader, MODEL, "1" * 40, "others/page")


def refused(folder, message, hub, capsys):
    with pytest.raises(SystemExit):
        main(["push", str(folder), MODEL, "--space", SPACE])
    assert message in capsys.readouterr().err
    assert not hub.repositories  # nothing is uploaded


def test_a_checkpoint_without_head_is_refused_before_the_upload(hub, tmp_path, capsys):
    refused(save(CoolModel, tmp_path), "a checkpoint of CoolModel, whose head has no widget", hub, capsys)


def test_a_checkpoint_without_its_pipeline_is_refused(hub, reader, tmp_path, capsys):
    save(CoolForQuestionAnswering, tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace("custom_pipelines", "former_pipelines"))
    refused(tmp_path, "does not contain its pipeline 'question-answering'", hub, capsys)


def test_a_parser_of_this_machine_is_refused(hub, tmp_path, capsys):
    for one in loaded("sla-bert", "token-classification"):
        one.save_pretrained(tmp_path)
    refused(tmp_path, "which is not an installed spaCy pipeline", hub, capsys)


def test_a_parser_of_spacy_is_installed_by_the_space(monkeypatch, tmp_path):
    for one in loaded("sla-bert", "token-classification"):
        one.save_pretrained(tmp_path)
    installed = {"en_core_web_sm": "3.8.0", "spacy": "3.8.14", "torch": "2.13.0", "transformers": "5.23.0"}
    monkeypatch.setattr("hf_localattn.serving.space.version", installed.__getitem__)
    monkeypatch.setattr("hf_localattn.serving.space.parser_of", lambda folder: "en_core_web_sm")
    _, _, spacy, parser = space_files(tmp_path, MODEL, "main")["requirements.txt"].splitlines()
    assert spacy == "spacy==3.8.14"
    assert parser.startswith("en_core_web_sm @ https://")
    assert parser.endswith("/en_core_web_sm-3.8.0/en_core_web_sm-3.8.0-py3-none-any.whl")


PROGRAM = """
import sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
sys.path.insert(0, ".")
from widgets import load_widget
question, passage = "Who is the baker?", "The baker Mira grows white roses."
print(load_widget("question-answering", sys.argv[1], trust_remote_code=True).answer(question, passage).text)
print(sum(load_widget("multiple-choice", sys.argv[2], trust_remote_code=True).answer("A.", "B.\\nC.").scores.values()))
"""


@pytest.mark.slow(reason="a process that imports torch and transformers anew; the browser test runs app.py, too")
def test_the_copies_work_without_the_package(reader, tmp_path):
    endings = save(CoolForMultipleChoice, tmp_path / "endings")
    for name, text in space_files(reader, MODEL, "main").items():
        (tmp_path / name).write_text(text)
    done = run_fresh(PROGRAM, tmp_path, reader, endings)
    assert done.returncode == 0, done.stderr
    answer, total = done.stdout.splitlines()
    assert answer in "The baker Mira grows white roses."
    assert float(total) == pytest.approx(1.0)
