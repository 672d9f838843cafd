"""Spaces on the Hub with the page of a checkpoint.

A Space installs only torch, transformers and gradio, and for some checkpoints spaCy. Its program is one file: the code
of the model's widget, and a line that loads the checkpoint with its own code, at the commit that was uploaded.
"""

from __future__ import annotations

import inspect
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, HfApi, SpaceCard, SpaceCardData, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError
from transformers import AutoConfig

from hf_localattn.errors import hub_upload_errors, loading
from hf_localattn.hub.checkpoint import read_config
from hf_localattn.hub.model_card import WITHOUT_PIPELINE
from hf_localattn.hub.push import parser_of
from hf_localattn.registry import AUTO_CLASSES, family_of
from hf_localattn.serving.demo import example_text, widget_task
from hf_localattn.serving.widgets import WIDGETS, Answer, Widget, add_widget, launch

GRADIO = "6.31.0"
"""Version of gradio that the page is tested with, as in constraints.txt."""

APP, README, REQUIREMENTS = "app.py", "README.md", "requirements.txt"
MARK = "Written by `hf-localattn push --space`"

APP_TEXT = '''"""{mark}: page of the model {model}."""

import html
from itertools import groupby
from typing import Any, NamedTuple

import gradio as gr
import torch
from transformers import {imports}

MODEL = {model!r}
TRUSTED = {{"revision": {revision!r}, "trust_remote_code": True}}  # the commit whose code this Space runs


{code}
with gr.Blocks(title={title!r}) as page:
    gr.Markdown("# " + {title!r})
{load}
    add_widget(widget, {example!r})
launch(page)
'''

PIPELINE = """    pipe = pipeline({task!r}, model=MODEL, **TRUSTED)
    widget = {widget}(pipe.model, pipe.tokenizer, pipe)"""

NO_PIPELINE = """    model = {auto_class}.from_pretrained(MODEL, **TRUSTED).eval()
    widget = {widget}(model, AutoTokenizer.from_pretrained(MODEL, **TRUSTED))"""

OWN_PIPELINES = ("question-answering", "negation")
"""Pipelines that come with a checkpoint, because transformers has none."""

README_TEXT = """# {title}

Page of the model [{model}](https://huggingface.co/{model}), made with `hf-localattn push --space`. `app.py` names the
commit of the model.

If the model is private, add a secret `HF_TOKEN` that can read it in the settings of this Space.
"""

PARSERS = "https://github.com/explosion/spacy-models/releases/download"


def push_space(
    checkpoint: str | os.PathLike[str],
    repo_id: str,
    revision: str,
    space_id: str,
    *,
    private: bool | None = None,
    license: str | None = None,
    token: str | bool | None = None,
) -> str:
    """Create or update a Space with the page of a model on the Hub.

    The text and further metadata of a README.md that you edited there are kept.

    Args:
        checkpoint: Folder of the model.
        repo_id: Name of the model on the Hub.
        revision: Commit of the model.
        space_id: Name of the Space, "owner/name". It is created if it does not exist.
        private (*optional*): If True, create a private Space. Defaults to the owner's setting on the Hub.
        license (*optional*): License of the Space.
        token (*optional*): Access token for the Hub. Defaults to the token of `hf auth login`.

    Returns:
        The name of the Space.

    Raises:
        ValueError: The model has no widget or no pipeline of its own, or the Space has a program of somebody else.
        OSError: The Hub cannot be reached, or refuses the upload.
    """
    contents = space_files(checkpoint, repo_id, revision, license=license)
    api = HfApi(token=token)
    then = "The model itself is uploaded. Remove the cause, then repeat the command."
    with hub_upload_errors(f"write the Space {space_id!r}", then):
        space_id = api.create_repo(
            space_id, repo_type="space", space_sdk="gradio", private=private, exist_ok=True
        ).repo_id
        app = _published(api, space_id, APP)
        if app is not None and MARK not in app:
            raise ValueError(
                f"The Space {space_id} has an {APP} that this command did not write. Choose another name with --space."
            )
        if app is not None and (readme := _published(api, space_id, README)) is not None:
            card: Any = SpaceCard(readme, ignore_metadata_errors=True)
            for name, value in SpaceCard(contents[README]).data.to_dict().items():
                card.data[name] = value
            contents[README] = str(card)
        api.create_commit(
            space_id,
            [CommitOperationAdd(name, text.encode()) for name, text in contents.items()],
            commit_message=f"Page of {repo_id} at {revision[:8]}",
            repo_type="space",
        )
    return space_id


def space_files(
    checkpoint: str | os.PathLike[str], repo_id: str, revision: str, *, license: str | None = None
) -> dict[str, str]:
    """Return the files of a Space by name.

    Args:
        checkpoint: Folder of the model.
        repo_id: Name of the model on the Hub.
        revision: Commit of the model.
        license (*optional*): License of the Space.

    Raises:
        ValueError: The model has no widget, no pipeline of its own, or a parser that the Space cannot install.
    """
    folder = Path(checkpoint)
    stored = read_config(folder)
    with loading("model", str(folder)):
        config = AutoConfig.from_pretrained(folder)
    task = widget_task(str(folder), config, next(iter(config.architectures or ()), ""))
    if task in OWN_PIPELINES and task not in (stored.get("custom_pipelines") or {}):
        raise ValueError(
            f"{folder} does not contain its pipeline {task!r}, which a Space needs: load the model with this version"
            " of hf_localattn, and save it again with save_pretrained."
        )
    family = family_of(config)
    packages = [f"{name}=={version(name).partition('+')[0]}" for name in ("torch", "transformers")]
    if family is not None and family.needs_parse(config):
        packages += _parser_packages(parser_of(folder))
    title = repo_id.rpartition("/")[2]
    data = SpaceCardData(
        title=title,
        sdk="gradio",
        sdk_version=GRADIO,
        python_version=f"{sys.version_info.major}.{sys.version_info.minor}",
        app_file=APP,
        models=[repo_id],
        license=license,
    )
    example = example_text(task, config)
    return {
        APP: program(task, model=repo_id, revision=revision, title=title, example=example),
        REQUIREMENTS: "".join(f"{package}\n" for package in packages),
        README: f"---\n{data.to_yaml()}\n---\n\n{README_TEXT.format(title=title, model=repo_id)}",
    }


def program(task: str, *, model: str, revision: str, title: str, example: str | None) -> str:
    """Return the text of `app.py`.

    Args:
        task: Task of the widget, a key of `WIDGETS`.
        model: Name of the model on the Hub.
        revision: Commit of the model.
        title: Title of the page.
        example: Initial text of the first field, or None for the widget's.
    """
    widget = WIDGETS[task]
    code = [inspect.getsource(one) for one in (Answer, Widget, widget, add_widget, launch)]
    if task in WITHOUT_PIPELINE:
        auto_class = AUTO_CLASSES[task].__name__
        imports = f"{auto_class}, AutoTokenizer"
        load = NO_PIPELINE.format(widget=widget.__name__, auto_class=auto_class)
    else:
        imports = "pipeline"
        load = PIPELINE.format(widget=widget.__name__, task=task)
    known = {"mark": MARK, "model": model, "revision": revision, "title": title, "example": example}
    return APP_TEXT.format(**known, code="\n\n".join(code), load=load, imports=imports)


def _parser_packages(parser: str | None) -> list[str]:
    """Return requirements for spaCy and an installed pipeline of spaCy."""
    try:
        number = version(parser or "")
    except (PackageNotFoundError, ValueError):
        raise ValueError(
            f"The tokenizer of the checkpoint names the parser {parser!r}, which is not an installed spaCy pipeline. A"
            " Space can install only a pipeline of spaCy, such as en_core_web_sm: save the checkpoint with one."
        ) from None
    spacy = f"spacy=={version('spacy')}"
    return [spacy, f"{parser} @ {PARSERS}/{parser}-{number}/{parser}-{number}-py3-none-any.whl"]


def _published(api: HfApi, space_id: str, name: str) -> str | None:
    """Return the text of a file of a Space; None if there is none."""
    try:
        path = hf_hub_download(space_id, name, repo_type="space", token=api.token)
    except EntryNotFoundError:
        return None
    return Path(path).read_text(encoding="utf-8")
