"""Parsers: those that only a checkpoint names, their versions, and the components that parsing needs."""

from __future__ import annotations

import json
import re
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from hf_localattn.models.sla_parser import WITHOUT_PARSER, download_hint, import_spacy

ENTRY_POINTS = "spacy_models"
"""Group of entry points in which installed distributions declare spaCy pipelines."""

# Parsers do not read the annotations of these components by default, but may need any other component.
NEEDLESS = {
    "attribute_ruler",
    "beam_ner",
    "entity_linker",
    "entity_ruler",
    "lemmatizer",
    "morphologizer",
    "ner",
    "span_cleaner",
    "span_finder",
    "span_ruler",
    "spancat",
    "spancat_singlelabel",
    "tagger",
    "textcat",
    "textcat_multilabel",
    "trainable_lemmatizer",
}
WRITTEN_BY_THEM = ("TAG", "POS", "MORPH", "LEMMA", "ENT_TYPE", "ENT_IOB")

BY_CALLER = (
    "To use another pipeline, or a folder that you trust, name it yourself:"
    " `AutoTokenizer.from_pretrained(CHECKPOINT, parser=NAME_OR_FOLDER)`, in scripts `--local_config"
    " parser=NAME_OR_FOLDER`, in `hf-localattn inspect` `--config parser=NAME_OR_FOLDER`."
)


def load_declared(parser: str) -> Any:
    """Load a spaCy pipeline only if an installed distribution declares it.

    Raises:
        ValueError: The parser is a folder.
        ImportError: spaCy is not installed.
        OSError: No installed distribution declares the pipeline, or it is broken.
    """
    declared = declaration_of(parser)
    if declared is None and not re.fullmatch(r"\w+", parser):
        raise ValueError(
            f"The checkpoint names the parser {parser!r}, which is not the name of an installed spaCy pipeline. A"
            f" folder that only a checkpoint names is not loaded, because it may run code. {BY_CALLER}"
        )
    import_spacy()
    if declared is None:
        raise OSError(
            f"The checkpoint names the parser {parser!r}, which no installed distribution declares as a spaCy"
            f" pipeline (entry points of the group {ENTRY_POINTS!r}).{download_hint(parser)} {BY_CALLER}"
            f" {WITHOUT_PARSER}"
        )
    try:
        return declared.load().load()
    except (ImportError, AttributeError) as error:
        raise OSError(
            f"The distribution that declares the spaCy pipeline {parser!r} is broken ({error}): reinstall it."
        ) from error


def parser_version(parser: str, named_by_checkpoint: bool) -> str | None:
    """Return the version of a pipeline without importing it, or None if it is not installed or has no version.

    Files of a folder that only a checkpoint names are not read.
    """
    declared = declaration_of(parser)
    if declared is not None:
        return declared.dist.version if declared.dist else None
    if named_by_checkpoint:
        return None
    try:
        version = json.loads(Path(parser, "meta.json").read_text(encoding="utf-8")).get("version")
    except (OSError, ValueError, AttributeError):
        return None
    return version if isinstance(version, str) else None


def declaration_of(parser: str) -> EntryPoint | None:
    """Return the entry point that declares a pipeline, without importing anything."""
    return next(iter(entry_points(group=ENTRY_POINTS, name=parser)), None)


def lighten(pipeline: Any) -> None:
    """Remove the components of a pipeline that its dependency parser does not need."""
    names = pipeline.pipe_names
    written = {name: pipeline.get_pipe_meta(name).assigns for name in names}
    parsing = [name for name in names if "token.head" in written[name] or "token.dep" in written[name]]
    upto = names[: names.index(parsing[-1]) + 1]
    factory = {name: pipeline.get_pipe_meta(name).factory for name in upto}
    # The configuration of an embedding layer lists the attributes that it reads.
    read = repr([pipeline.get_pipe_config(name) for name in upto if factory[name] not in NEEDLESS])
    tagged = any(repr(attribute) in read for attribute in WRITTEN_BY_THEM)
    needed: set[str] = set()
    for name in reversed(upto):
        listeners = getattr(pipeline.get_pipe(name), "listening_components", None)  # of a shared embedding layer
        if (tagged or factory[name] not in NEEDLESS) and (listeners is None or needed & set(listeners)):
            needed.add(name)
    for name in reversed(names):
        if name not in needed:
            pipeline.remove_pipe(name)
