"""Spaces on the Hub with the page of a checkpoint.

A Space installs only torch, transformers and gradio, and for some checkpoints spaCy. It loads the checkpoint with its
own code, at the commit that was uploaded.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi, SpaceCard, SpaceCardData

from hf_localattn.errors import hub_upload_errors, loading
from hf_localattn.families import family_of
from hf_localattn.hub import TrainingRecord
from hf_localattn.hub.push import published_text
from hf_localattn.installed.configurations import load_config
from hf_localattn.limits import MOST_CHARACTERS
from hf_localattn.names import read_config
from hf_localattn.parsing import read_json
from hf_localattn.serving import page
from hf_localattn.serving.demo import example_text, page_task

GRADIO = "6.31.0"
"""Version of gradio that the page is tested with, as in constraints.txt."""

APP = "app.py"
PAGE_SETTINGS = "page.json"
README = "README.md"
REQUIREMENTS = "requirements.txt"
MARK = "# Written by `hf-localattn push --space`"

README_TEXT = """
# {title}

Page of the model [{model}](https://huggingface.co/{model}), made with `hf-localattn push --space`. `page.json` names
the commit of the model.

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
    """Create or update a Space with the page of a model on the Hub, at a commit; return its name.

    The text and further metadata of a README.md that people edited there are kept.

    Raises:
        ValueError: The model has no page, no pipeline of its own, or a parser that the Space cannot install; or the
            Space has a program of somebody else.
        OSError: The Hub cannot be reached, or refuses the upload.
    """
    contents = space_files(checkpoint, repo_id, revision, license=license)
    api = HfApi(token=token)
    then = "The model itself is uploaded. Remove the cause, then repeat the command."
    with hub_upload_errors(f"write the Space {space_id!r}", then):
        space_id = api.create_repo(
            space_id, repo_type="space", space_sdk="gradio", private=private, exist_ok=True
        ).repo_id
        app, readme = (published_text(api, space_id, name, repo_type="space") for name in (APP, README))
        if app is not None and MARK not in app:
            raise ValueError(
                f"The Space {space_id} has an {APP} that this command did not write. Choose another name with --space."
            )
        if app is not None and readme is not None:
            card = SpaceCard(readme, ignore_metadata_errors=True)
            card.data.__dict__.update(SpaceCard(contents[README]).data.to_dict())
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
    """Return the files of a Space by name. Errors of the model are those of `push_space`."""
    folder = Path(checkpoint)
    with loading("model", str(folder)):
        config = load_config(folder)
    task = page_task(str(folder), config)
    comes_along = task in ("question-answering", "negation")  # transformers has no such pipeline
    if comes_along and task not in (read_config(folder).get("custom_pipelines") or {}):
        raise ValueError(
            f"{folder} does not contain its pipeline {task!r}, which a Space needs: load the model with this version"
            " of hf_localattn, and save it again with save_pretrained."
        )
    family = family_of(config)
    packages = [f"{name}=={version(name).partition('+')[0]}" for name in ("torch", "transformers")]
    if family is not None and family.needs_parse(config):
        parser = str(read_json(folder / "tokenizer_config.json").get("parser"))
        try:
            parser_version = version(parser)
        except (PackageNotFoundError, ValueError):
            raise ValueError(
                f"The tokenizer names the parser {parser!r}, which is not an installed spaCy pipeline. A Space can"
                " install only a pipeline of spaCy, such as en_core_web_sm: save the checkpoint with one."
            ) from None
        wheel = f"{PARSERS}/{parser}-{parser_version}/{parser}-{parser_version}-py3-none-any.whl"
        packages += [f"spacy=={version('spacy')}", f"{parser} @ {wheel}"]
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
    trust = {"revision": revision, "trust_remote_code": True}  # the commit whose code the Space runs
    record = TrainingRecord.load(folder)
    settings = {
        "task": task,
        "model": repo_id,
        "trust": trust,
        "title": title,
        "example": example_text(task, config),
        "has_pairs": None if record is None else record.has_pairs,
        "most_characters": MOST_CHARACTERS,
    }
    return {
        APP: f"{MARK}\n{Path(page.__file__).read_text(encoding='utf-8')}",
        PAGE_SETTINGS: json.dumps(settings, indent=2, ensure_ascii=False) + "\n",
        REQUIREMENTS: "".join(f"{package}\n" for package in packages),
        README: f"---\n{data.to_yaml()}\n---\n{README_TEXT.format(title=title, model=repo_id)}",
    }
