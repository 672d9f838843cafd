"""Comparing the code files of a checkpoint with those of the package.

`trust_remote_code=True` runs the files of the checkpoint. If they are equal, it runs the code of the package.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from transformers.dynamic_module_utils import get_relative_import_files

from hf_localattn.errors import loading
from hf_localattn.hub.checkpoint import read_config
from hf_localattn.hub.record import TrainingRecord
from hf_localattn.models import package_version
from hf_localattn.parsing import parse_json, read_utf8
from hf_localattn.registry import Family, get_family

EQUAL, DIFFERS, MISSING, EXTRA = "equal", "differs", "missing", "extra"

MODELS = Path(package_version.__file__).parent
"""Folder of the package whose files are saved with checkpoints."""

CODE = (".py", ".pyc", ".pyd", ".so")
"""Suffixes of files that Python can import."""

CONFIGURATIONS = ("config.json", "tokenizer_config.json", "processor_config.json", "preprocessor_config.json")
"""Files that can name code (`auto_map`, `custom_pipelines`)."""

_OTHER_CHECKPOINT = re.compile(r"checkpoint-\d+|last-checkpoint|_incomplete-.*|_saving-.*")
"""Folders that training leaves next to the model. `auto_map` is checked, so no code in them is loaded."""

MOST_BYTES = 256 * 1024
"""Largest file, in bytes, whose difference is shown."""


@dataclass(frozen=True)
class CodeFile:
    """The verdict on one code file of a checkpoint, or on one entry of a configuration that names code.

    Attributes:
        name: Path of the file relative to the checkpoint. For an entry, ": " and the entry follow.
        verdict: "equal", "differs", "missing" or "extra".
        difference: Unified diff from the package's file, or the value of an extra entry. Control characters are
            escaped.
    """

    name: str
    verdict: str
    difference: str = ""


@dataclass(frozen=True)
class Verification:
    """The verdicts on all code files of a checkpoint.

    Attributes:
        files: Verdicts in the order of the files' names, then verdicts on entries.
        saved_by: Version of the package that saved the checkpoint, or None if it is not recorded.
        compared_with: Installed version of the package.
    """

    files: tuple[CodeFile, ...]
    saved_by: str | None
    compared_with: str = package_version.VERSION

    @property
    def is_equal(self) -> bool:
        """True if all files are equal to those of the package, and none are missing or extra."""
        return all(file.verdict == EQUAL for file in self.files)

    def report(self) -> str:
        """Return the verdicts as text: one line per file, followed by its difference."""
        lines = [f"{file.verdict:<8} {file.name}\n{file.difference}".rstrip("\n") for file in self.files]
        counts = {verdict: sum(file.verdict == verdict for file in self.files) for verdict in _WORDS}
        told = ", ".join(f"{count} {_WORDS[verdict]}" for verdict, count in counts.items() if count)
        lines.append(f"Compared with hf_localattn {self.compared_with}: {told}.")
        if self.saved_by is None:
            lines.append("The checkpoint does not say which version of hf_localattn saved it.")
        elif self.saved_by != self.compared_with:
            saved_by = _harmless(self.saved_by)
            lines.append(
                f"The checkpoint was saved by hf_localattn {saved_by}: differences may be due to the version."
                f" Install hf_localattn=={saved_by} in another environment, and verify there."
            )
        return "\n".join(lines)


_WORDS = {EQUAL: "equal", DIFFERS: "different", MISSING: "missing", EXTRA: "extra"}


def verify_checkpoint(checkpoint: str | os.PathLike[str]) -> Verification:
    """Compare the code files of a checkpoint with the installed package, byte for byte, without running them.

    Args:
        checkpoint: Folder, or `OWNER/NAME` or `OWNER/NAME@REVISION` on the Hub. Only code files and configurations
            are downloaded.

    Returns:
        The verdicts on all files.

    Raises:
        ValueError: The model belongs to no family of this package, or a file cannot be read.
        OSError: The checkpoint does not exist, or cannot be downloaded.
    """
    folder = _local(checkpoint)
    config = read_config(folder)
    family = get_family(config["model_type"])
    expected = _expected_files(folder, family)
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.suffix in CODE)
    found = {path.as_posix() for path in paths if not _OTHER_CHECKPOINT.fullmatch(path.parts[0])}
    files = [
        _compare(folder / name, MODELS / name, name) if name in found else CodeFile(name, MISSING)
        for name in sorted(found | expected)
    ]
    files += _foreign_entries(folder, family)
    return Verification(tuple(files), _saved_by(folder, config))


def _local(checkpoint: str | os.PathLike[str]) -> Path:
    """Return the folder of a checkpoint. Download checkpoints on the Hub."""
    name = os.fspath(checkpoint)
    if Path(name).is_dir() or not re.fullmatch(r"[\w.-]+/[\w.-]+(@[^@\s]+)?", name):
        return Path(name)
    repo_id, _, revision = name.partition("@")
    patterns = [*(f"*{suffix}" for suffix in CODE), *CONFIGURATIONS, "training_record.json"]
    with loading("checkpoint", repo_id):
        return Path(snapshot_download(repo_id, revision=revision or None, allow_patterns=patterns))


def _expected_files(folder: Path, family: Family) -> set[str]:
    """Return the names of the files of the model, and of the tokenizer if the checkpoint has its code."""
    classes = [family.config, family.model]  # heads are in the file of the model
    if family.tokenizer is not None and any(_code_entries(_read(folder / "tokenizer_config.json"))):
        classes.append(family.tokenizer)
    modules = {MODELS / f"{one.__module__.rpartition('.')[2]}.py" for one in classes}
    reached = {Path(path) for module in modules for path in get_relative_import_files(module)}
    return {path.name for path in modules | reached}


def _compare(path: Path, own: Path, name: str) -> CodeFile:
    content = path.read_bytes()
    if not own.is_file():
        return CodeFile(_harmless(name), EXTRA)
    expected = own.read_bytes()
    if content == expected:
        return CodeFile(name, EQUAL)
    if len(content) > MOST_BYTES:
        return CodeFile(name, DIFFERS, f"  {len(content):,} bytes, not {len(expected):,}")
    before, after = (part.decode(errors="backslashreplace").split("\n") for part in (expected, content))
    versions = (f"hf_localattn {package_version.VERSION}/{name}", f"checkpoint/{name}")
    return CodeFile(
        name, DIFFERS, "\n".join(map(_harmless, difflib.unified_diff(before, after, *versions, lineterm="")))
    )


def _foreign_entries(folder: Path, family: Family) -> Iterator[CodeFile]:
    """Yield the entries of configurations that name code outside the family."""
    models = (family.model, *family.heads.values())
    own = {entry for model in models for entry in model.auto_classes.values()}
    own |= {entry for model in models for _, entry in _leaves(model.pipelines, "")}
    if family.tokenizer is not None:
        own.add(f"{family.tokenizer.__module__.rpartition('.')[2]}.{family.tokenizer.__name__}")
    for name in CONFIGURATIONS:
        for entry, value in _code_entries(_read(folder / name)):
            if value not in own:
                yield CodeFile(f"{name}: {_harmless(entry)}", EXTRA, f"  {_harmless(str(value))}")


def _code_entries(content: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the place and value of each entry of a configuration that names code, at any depth."""
    if not isinstance(content, dict | list):
        return
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        place = f"{where}.{key}" if where else str(key)
        if key in ("auto_map", "custom_pipelines"):
            for entry, named in _leaves(value, place):
                if named is not None:  # None in a tokenizer's `auto_map`: there is no slow tokenizer
                    yield entry, named
        else:
            yield from _code_entries(value, place)


def _leaves(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(one, f"{where}.{key}")
    else:
        yield where, value


def _read(path: Path) -> Any:
    """Return the content of a JSON file; None if the file does not exist."""
    if not path.is_file():
        return None
    return parse_json(read_utf8(path), str(path))


def _saved_by(folder: Path, config: dict[str, Any]) -> str | None:
    """Return the version of the package that saved a checkpoint; None if unknown."""
    named = config.get("hf_localattn_version")
    if named is None and (record := TrainingRecord.load(folder)) is not None:
        named = record.versions.get("hf_localattn")
    return None if named is None else str(named)


def _harmless(text: str) -> str:
    """Escape control characters. They could change the terminal."""
    return "".join(one if one.isprintable() or one == "\t" else repr(one)[1:-1] for one in text)
