"""The policy for strangers' checkpoints: whatever opens one asks it before anything is built, requested or imported.

`policy_table.py` says what each entry of each file may be. Here a folder is judged by it: loading asks `check_folder`,
and `hf-localattn verify` prints the same judgment. torch is not imported, and transformers only to ask whether it
knows a field that the table does not have.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from hf_localattn import __version__
from hf_localattn.errors import CheckpointError, printable, shorten
from hf_localattn.files import A_LINK, is_regular
from hf_localattn.installed.policy_kinds import (
    KINDS,
    Family,
    are_names,
    are_shards,
    are_templates,
    family_named,
    family_of_tokenizer,
    is_data,
    is_family,
    values_of_rule,
)
from hf_localattn.installed.policy_table import (
    CONFIG,
    CONVERSION,
    DIVISORS,
    ENCODER_CONFIG,
    ENCODER_DECODERS,
    ENCODERS,
    EXPORT,
    FAMILY_CONFIG,
    GENERATION,
    OF_WEIGHTS,
    PICKLES,
    READ,
    REFUSED_FILES,
    REMEDIES,
    SPECIAL_TOKENS,
    TOKENIZER,
    TOLD,
    UNDIVIDED,
    WEIGHT_INDEX,
    Rule,
)
from hf_localattn.models.fields import Range
from hf_localattn.names import family_names
from hf_localattn.parsing import parse_json, read_json

# Verdicts
NAMED = "named"  # allowed, and told
REFUSED = "refused"
UNKNOWN = "unknown"  # refused, or left out of the configuration of a stock model

TEMPLATES = "additional_chat_templates"
A_TEMPLATE = "a template, which Jinja runs in a sandbox when a chat is formatted"

NO_SAFETENSORS = "it is no safetensors file ({}). Save the model again with `save_pretrained`."

LEFT_OUT = {"auto_map", "custom_pipelines", "_name_or_path", "name_or_path"}
"""Entries that reach no configuration: the package's code is used, and the caller's name."""


@cache
def _declared(model_type: str) -> frozenset[str]:
    """Return the fields that the installed transformers declares for a text encoder or an encoder-decoder."""
    from transformers import CONFIG_MAPPING

    return frozenset(field.name for field in fields(CONFIG_MAPPING[model_type])) - REMEDIES.keys()


@dataclass(frozen=True)
class Finding:
    """The judgment on an entry or a file that is not plain data.

    Attributes:
        file: Name of the file, as it is.
        verdict: "named", "refused" or "unknown".
        note: Entry and value, and what to do if it is refused.
        entry: Name of the entry; empty if the judgment is on the file.
    """

    file: str
    verdict: str
    note: str
    entry: str = ""


def harmless(text: str) -> str:
    """Escape control characters. They could change the terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return True if a file name matches one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def is_read(name: str) -> bool:
    """Return True for the path of a file that a load reads or refuses, in small letters or others."""
    return matches(name.rpartition("/")[2].lower(), (*READ, *REFUSED_FILES))


def judge_entries(
    file: str, content: Mapping[str, Any], rules: Mapping[str, Rule | Range], place: str = ""
) -> Iterator[Finding]:
    """Yield the judgment on each entry of an object that is not plain data. `place` is its path in the file."""
    for name, value in content.items():
        entry = f"`{harmless(place + name)[:80]}` is {shorten(value)}"
        if name not in rules:
            if value not in (None, False, "", [], {}):
                verdict = REFUSED if name in REMEDIES else UNKNOWN
                remedy = REMEDIES.get(name, "Remove it.")
                yield Finding(file, verdict, f"{entry}, which a checkpoint must not set. {remedy}", name)
        elif not (allowed := values_of_rule(rules[name])).holds(value):
            remedy = REMEDIES.get(name, "Correct or remove it.")
            yield Finding(file, REFUSED, f"{entry}; a checkpoint may set {allowed.description}. {remedy}", name)


def judge_tokens(
    file: str, content: Mapping[str, Any], rules: Mapping[str, Rule | Range], family: Family | None = None
) -> Iterator[Finding]:
    """Yield the judgment on the entries of a tokenizer's file, and settings that differ from their defaults."""
    tokens = [name for name in content if name.endswith("_token")]
    settings = {} if family is None else family.settings
    versions = [f"{name}_version" for name in settings]  # of a parser
    yield from judge_entries(
        file, content, {**dict.fromkeys(tokens, "token"), **dict.fromkeys(versions, "text"), **settings, **rules}
    )
    if content.get("chat_template") and are_templates(content["chat_template"]):
        yield Finding(file, NAMED, f"`chat_template` is {A_TEMPLATE}", "chat_template")
    for name, default in () if family is None else family.defaults.items():
        value = content.get(name, default)
        if value != default and settings[name].holds(value):
            yield Finding(file, NAMED, f"`{name}` is {shorten(value)}, by default {default!r}", name)


def judge_config(file: str, content: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the judgment on the entries of a `config.json`."""
    model_type = content.get("model_type")
    if not is_family(model_type):
        yield from _judge_model(file, content)
        return
    family = family_named(str(model_type))
    yield from judge_entries(file, content, {**FAMILY_CONFIG, **family.fields})
    prefix = str(model_type).replace("-", "")
    classes = content.get("architectures")
    for name in classes or () if are_names(classes) and model_type in family_names() else ():
        if not name.lower().startswith(prefix):  # pipelines may look in transformers for it
            note = f"`architectures` has {shorten(name)}, which is no class of this family. Remove it."
            yield Finding(file, REFUSED, note, "architectures")
    backbone = content.get("backbone_config")
    if isinstance(backbone, dict):
        yield from _judge_model(file, backbone, "backbone_config.", family.backbones)


def _judge_model(
    file: str, content: Mapping[str, Any], place: str = "", others: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield the judgment on the configuration of a text encoder or an encoder-decoder, or of one of `others`."""
    model_type = content.get("model_type")
    if problem := problem_of_type(model_type, others):
        yield Finding(file, REFUSED, f"`{place}model_type` is {shorten(model_type)}, which {problem}", "model_type")
        return
    for finding in judge_entries(file, content, ENCODER_CONFIG if model_type in ENCODERS else CONFIG, place):
        is_new = finding.verdict == UNKNOWN and finding.entry in _declared(str(model_type))
        if not (is_new and is_data(content[finding.entry])):
            yield finding
    yield from _judge_sizes(file, content, place)


def _judge_sizes(file: str, content: Mapping[str, Any], place: str) -> Iterator[Finding]:
    """Yield the judgment on sizes of a model that do not fit each other."""
    sizes = {name: value for name, value in content.items() if KINDS["size"].holds(value)}
    for size, counts in () if content["model_type"] in UNDIVIDED else DIVISORS.items():
        for count in sizes.keys() & counts:
            if size in sizes and sizes[size] % sizes[count]:
                note = f"`{place}{size}` is {sizes[size]}, no multiple of `{count}`, {sizes[count]}. Correct them."
                yield Finding(file, REFUSED, note, size)
    padding, limit = sizes.get("pad_token_id", 0), sizes.get("vocab_size", math.inf)
    if padding >= limit:
        note = f"`{place}pad_token_id` is {padding}; it must be below `vocab_size`, {limit}. Correct it."
        yield Finding(file, REFUSED, note, "pad_token_id")


def problem_of_type(model_type: Any, others: Collection[str] = ()) -> str:
    """Return why a model type is no backbone, and what to use; an empty text for one of the table or of `others`."""
    if isinstance(model_type, str) and (model_type in ENCODERS | ENCODER_DECODERS or model_type in others):
        return ""
    if is_family(model_type):
        return "is itself a composite model. To load a saved checkpoint of this family, use `from_pretrained`."
    return f"is not a text encoder that hf_localattn {__version__} knows. Use an encoder, such as bert or roberta."


def judge_file(
    path: Path, file: str, model_type: str | None = None, beside: Collection[str] | None = None
) -> Iterator[Finding]:
    """Yield the judgment on a file that a load reads.

    Args:
        path: The file.
        file: Its name for messages.
        model_type (*optional*): Family of the checkpoint.
        beside (*optional*): Names of all files of its folder, if shards of weights are read.
    """
    name = path.name
    if name in ("tokenizer.json", "vocab.json", *TOLD) or not name.endswith(".json"):
        if name.endswith(".jinja"):
            yield Finding(file, NAMED, A_TEMPLATE)
        elif name == "model.onnx":
            yield Finding(file, NAMED, "a graph, which pipelines and infer.py run by ONNX Runtime in place of weights")
        elif name == "tokenizer.json":
            if error := _tokenizer_error(path, path.stat().st_mtime_ns):
                yield Finding(file, REFUSED, f"no tokenizer can be built of it ({error}). Save the tokenizer again.")
        elif name.endswith(".safetensors"):
            try:
                with safe_open(path, framework="numpy"):  # it reads the header, as loading does
                    pass
            except (SafetensorError, OSError) as error:
                yield Finding(file, REFUSED, NO_SAFETENSORS.format(error))
        return
    try:
        content = _parse(path)
    except (ValueError, OSError) as error:
        yield Finding(file, REFUSED, str(error))
        return
    if not isinstance(content, dict):
        yield Finding(file, REFUSED, f"it is {shorten(content)}; it must be an object of names and values.")
    elif name == "config.json":
        yield from judge_config(file, content)
    elif name == "tokenizer_config.json":
        yield from judge_tokens(file, content, TOKENIZER, family_of_tokenizer(content, model_type))
    elif name == "special_tokens_map.json":
        yield from judge_tokens(file, content, SPECIAL_TOKENS)
    elif name == "added_tokens.json":
        yield from judge_entries(file, content, dict.fromkeys(content, "count"))
    else:
        rules = {"generation_config.json": GENERATION, "export.json": EXPORT}.get(name, WEIGHT_INDEX)
        yield from judge_entries(file, content, rules)
        shards: Any = content.get("weight_map")
        if beside is not None and are_shards(shards) and (missing := {*shards.values()}.difference(beside)):
            note = (
                f"`weight_map` has {shorten(min(missing))}, which is not beside it. Add it, or save the model again."
            )
            yield Finding(file, REFUSED, note, "weight_map")


@cache
def _tokenizer_error(path: Path, modified: int) -> str | None:
    """Return why no tokenizer can be built of a file, which was modified at a time."""
    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no class of its own
        return printable(str(error))[:100]
    return None


def _parse(path: Path) -> Any:
    """Return the content of a JSON file; raise `ValueError` for one that cannot be read."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8.") from None
    if text.startswith("\ufeff"):
        raise ValueError("it begins with a byte-order mark. Save it as UTF-8 without one.")
    return parse_json(text, "its text")


def judge_folder(
    folder: Path,
    *,
    weights: bool = True,
    names: Iterable[str] | None = None,
    whole: bool = True,
    root: Path | None = None,
) -> Iterator[Finding]:
    """Yield the judgment on what a load reads of a folder.

    Args:
        folder: Folder of a checkpoint.
        weights (*optional*, defaults to True): If False, weights are not read.
        names (*optional*): Names of all its files, if only a part was downloaded.
        whole (*optional*, defaults to True): If False, there may be more files than those in the folder.
        root (*optional*, defaults to `folder`): Folder whose place in the Hub's cache says where links may lead.
    """
    root = root or folder
    model_type = family_in(folder)
    names = sorted(names or (os.listdir(folder) if folder.is_dir() else ()))
    templates = folder / TEMPLATES
    if templates.is_symlink():
        yield Finding(templates.name, REFUSED, A_LINK)
    elif templates.is_dir():
        names += [f"{templates.name}/{name}" for name in sorted(os.listdir(templates))]
    reads_shards = weights and whole and "model.safetensors" not in names
    for name in names:
        path = folder / name
        if not is_read(name):
            continue
        if not matches(path.name, (*READ, *REFUSED_FILES)):
            yield Finding(name, REFUSED, "some systems take it for the file with small letters: rename it.")
            continue
        for pattern, (reason, remedy) in REFUSED_FILES.items():
            if fnmatchcase(name, pattern) and (weights or pattern not in OF_WEIGHTS):
                yield Finding(name, REFUSED, f"it is {reason}. {remedy}")
        is_here = os.path.lexists(path)
        if not matches(path.name, READ) or (path.suffix in (".json", ".safetensors") and not is_here):
            continue
        if is_here and not is_regular(path, root):
            yield Finding(name, REFUSED, A_LINK)
        elif path.is_dir():
            yield Finding(name, REFUSED, "it is a folder, not a file. Remove it.")
        elif weights or path.suffix != ".safetensors":
            yield from judge_file(path, name, model_type, names if reads_shards else None)
    if weights and whole and not any(name.endswith(".safetensors") for name in names):
        for name in names:
            if matches(name.lower(), PICKLES):
                yield Finding(name, REFUSED, f"it is a pickle, and there are no safetensors weights. {CONVERSION}")


def family_in(folder: Path) -> str | None:
    """Return the family of a checkpoint folder; None for other models and for what cannot be read."""
    path = folder / "config.json"
    try:
        content = read_json(path) if path.is_file() and is_regular(path, folder) else {}
    except (ValueError, OSError):
        return None
    model_type = content.get("model_type")
    return model_type if is_family(model_type) else None


def refuse(findings: Iterable[Finding], where: str | os.PathLike[str], verdicts: Collection[str]) -> None:
    """Raise `CheckpointError` for the first finding with one of the verdicts."""
    for finding in findings:
        if finding.verdict in verdicts:
            raise CheckpointError(f"{harmless(str(Path(where, finding.file)))}: {finding.note}")


def check_folder(folder: str | os.PathLike[str], *, weights: bool = True, whole: bool = True) -> None:
    """Raise `CheckpointError` if a folder sets what a stranger's checkpoint may not.

    Entries of a stock model that nobody knows are no error: `known_entries` leaves them out. The arguments are those
    of `judge_folder`.
    """
    place = Path(folder)
    is_stock = family_in(place) is None
    for finding in judge_folder(place, weights=weights, whole=whole):
        is_left_out = is_stock and finding.file == "config.json" and finding.verdict == UNKNOWN
        refuse([finding], place, () if is_left_out else (REFUSED, UNKNOWN))


def known_entries(content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the configuration of a stock model without entries that nobody knows, and without names of code.

    Raises:
        CheckpointError: An entry is more than data, or the model is no text encoder.
    """
    refuse(judge_config("config.json", content), where, [REFUSED])
    entries = (CONFIG.keys() | _declared(content["model_type"])) - LEFT_OUT
    return {name: value for name, value in content.items() if name in entries}
