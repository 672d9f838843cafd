"""Comparing the code of a checkpoint with that of the package.

`trust_remote_code=True` runs the code that a checkpoint contains or names. If everything that it names is beside it
and equal to the package's files, it runs the code of the package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from transformers.dynamic_module_utils import get_relative_import_files

from hf_localattn import models
from hf_localattn.errors import loading
from hf_localattn.models.configuration_local_attention import VERSION
from hf_localattn.names import read_config
from hf_localattn.parsing import parse_json, read_utf8
from hf_localattn.registry import get_family

EQUAL, DIFFERS, MISSING, EXTRA = "equal", "differs", "missing", "extra"

MODELS = Path(models.__file__).parent  # files that are saved with checkpoints
CODE = (".py", ".pyc", ".pyd", ".so")  # suffixes of files that Python can import
ADAPTER = "adapter_config.json"  # makes transformers load another checkpoint, which it names, with its code
OF_TOOLS = {".git", ".cache", "__pycache__"}  # folders that transformers does not read

# Entries of JSON files
NAMES_CODE = ("auto_map", "custom_pipelines")
NAMES_WEIGHTS = "weight_map"
REFUSED = ("configuration_files", "kernel_config", "use_kernels")  # they name another configuration, or kernels
# Places of a pipeline's Auto classes, which are those of transformers, and of its type:
OF_TRANSFORMERS = re.compile(r"(.*\.)?custom_pipelines\.[^.]+\.(pt|tf|type)(\.\d+)?")


@dataclass(frozen=True)
class CodeFile:
    """The verdict on one file of a checkpoint, or on one entry of a JSON file.

    Attributes:
        name: Path of the file relative to the checkpoint.
        verdict: "equal", "differs", "missing" or "extra".
        note: Place and value of an entry, or the kind of a path that is no regular file.
        lines: Number of lines of a file that is equal to the package's.

    Control characters are escaped.
    """

    name: str
    verdict: str
    note: str = ""
    lines: int = 0


@dataclass(frozen=True)
class Verification:
    """The verdicts on everything in a checkpoint that can name or contain code.

    Attributes:
        files: Verdicts in the order of the names.
        compared_with: Installed version of the package.
    """

    files: tuple[CodeFile, ...]
    compared_with: str = VERSION

    @property
    def is_equal(self) -> bool:
        """True if all code is equal to the package's, and nothing is missing or extra."""
        return not self.others

    @property
    def others(self) -> tuple[CodeFile, ...]:
        """The files and entries that are not equal to the package's."""
        return tuple(file for file in self.files if file.verdict != EQUAL)

    @property
    def size(self) -> str:
        """Number of files and lines that are equal to the package's, as text."""
        return f"{len(self.files) - len(self.others)} files, {sum(file.lines for file in self.files):,} lines"

    def report(self, *, with_equal: bool = False) -> str:
        """Return the files, one a line, and a summary.

        Args:
            with_equal (*optional*, defaults to False): List equal files, too, with their numbers of lines.
        """
        lines = []
        for file in self.files if with_equal else self.others:
            note = f"{file.lines} lines" if file.verdict == EQUAL else file.note
            lines.append(f"{file.verdict:<8} {file.name}" + (f": {note}" if note else ""))
        differs = f"Not equal: {len(self.others)} files or entries differ. " if self.others else ""
        lines.append(f"{differs}Equal to hf_localattn {self.compared_with}: {self.size}.")
        return "\n".join(lines)


def verify_checkpoint(checkpoint: str | os.PathLike[str], *, subfolders: bool = True) -> Verification:
    """Compare the code of a checkpoint with the installed package, byte for byte, without running it.

    A checkpoint is equal if each entry of its JSON files that names code names a file beside it that is equal to the
    package's; if it has no other code files, no adapter and no `configuration_files`; and if all its paths are regular
    files, or links into the Hub's own cache. This holds for all its subfolders.

    Args:
        checkpoint: Folder, or `OWNER/NAME` or `OWNER/NAME@REVISION` on the Hub. Only code and JSON files are
            downloaded.
        subfolders (*optional*, defaults to True): If False, leave out subfolders, such as the checkpoints of a
            training, which `push` does not upload.

    Returns:
        The verdicts on all files.

    Raises:
        ValueError: The model belongs to no family of this package, or its `config.json` cannot be read.
        OSError: The checkpoint does not exist, or cannot be downloaded.
    """
    folder = _local(checkpoint)
    get_family(read_config(folder)["model_type"])
    every = folder.rglob("*") if subfolders else folder.glob("*")
    paths = [path for path in every if OF_TOOLS.isdisjoint(path.relative_to(folder).parts)]
    files: list[CodeFile] = []
    expected: set[Path] = set()

    def add(path: Path, verdict: str, note: str = "", lines: int = 0) -> None:
        files.append(CodeFile(_harmless(path.relative_to(folder).as_posix()), verdict, _harmless(note), lines))

    for path in paths:
        if not is_regular(path, folder):
            add(path, EXTRA, "a link" if path.is_symlink() else "no regular file")
        elif path.name == ADAPTER:
            add(path, EXTRA, "an adapter")
        elif path.suffix == ".json" and path.is_file():
            try:
                for note, modules in _entries(parse_json(read_utf8(path), path.name)):
                    if not modules:
                        add(path, EXTRA, note)
                    expected |= {path.with_name(module) for module in modules}
            except ValueError as error:
                add(path, EXTRA, str(error))
    for path in expected | {path for path in paths if path.suffix in CODE and not path.is_dir()}:
        if not is_regular(path, folder):
            if not path.is_symlink():  # a link is an extra file already
                add(path, MISSING)
        elif path not in expected:
            add(path, EXTRA)
        elif path.read_bytes() == (own := (MODELS / path.name).read_bytes()):
            add(path, EQUAL, lines=own.count(b"\n"))
        else:
            add(path, DIFFERS)
    return Verification(tuple(sorted(files, key=lambda file: file.name)))


def _local(checkpoint: str | os.PathLike[str]) -> Path:
    """Return the folder of a checkpoint. Download checkpoints on the Hub."""
    name = os.fspath(checkpoint)
    match = re.fullmatch(r"([\w.-]+/[\w.-]+)(?:@([^@\s]+))?", name)
    if match is None or Path(name).is_dir():
        return Path(name)
    with loading("checkpoint", match[1]):
        patterns = [*(f"*{suffix}" for suffix in CODE), "*.json"]
        return Path(snapshot_download(match[1], revision=match[2], allow_patterns=patterns))


def is_regular(path: Path, folder: Path) -> bool:
    """Return True for folders and regular files, and for links from a snapshot of the Hub's cache to its own blobs."""
    if path.is_symlink():
        blobs = folder.absolute().parent.parent / "blobs"
        return folder.absolute().parent.name == "snapshots" and path.resolve().parent == blobs.resolve()
    return path.is_file() or path.is_dir()


def _entries(content: Any, where: str = "", kind: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield each entry of a JSON file that names code, kernels or weights, and the package's files that it needs.

    An entry that names anything besides the package's files and safetensors in the folder is yielded without files.
    """
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            place = f"{where}.{key}" if where else str(key)
            if (key in REFUSED and value) or (str(key).endswith("_implementation") and "/" in str(value)):
                yield f"{place} is {repr(value)[:200]}", set()
            else:
                is_kind = key in NAMES_CODE or (key == NAMES_WEIGHTS and not kind)
                yield from _entries(value, place, str(key) if is_kind else kind)
    elif kind == NAMES_WEIGHTS and not re.fullmatch(r"[\w.-]+\.safetensors", str(content)):
        yield f"{where} is {repr(content)[:200]}", set()
    elif kind in NAMES_CODE and isinstance(content, str) and not OF_TRANSFORMERS.fullmatch(where):
        match = re.fullmatch(r"([a-z]\w*)\.[A-Z]\w*", content)
        module = MODELS / f"{match[1]}.py" if match else None
        is_ours = module is not None and module.is_file()
        imported = get_relative_import_files(module) if is_ours else ()
        yield f"{where} is {content[:200]!r}", {Path(path).name for path in (module, *imported) if is_ours}


def _harmless(text: str) -> str:
    """Escape control characters. They could change the terminal."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
