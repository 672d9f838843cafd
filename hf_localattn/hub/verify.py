"""Comparing the code of a checkpoint with that of the package, without importing torch or transformers.

`trust_remote_code=True` runs the code that a checkpoint contains or names. If everything that it names is beside it
and equal to the package's files, it runs the code of the package.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from hf_localattn import __version__
from hf_localattn.errors import join_names, loading
from hf_localattn.names import HUB_ID, MODELS, default_settings, family_names, read_config
from hf_localattn.parsing import parse_json, read_utf8

# Verdicts
EQUAL = "equal"
DIFFERS = "differs"
MISSING = "missing"
EXTRA = "extra"

CODE = (".py", ".pyc", ".pyd", ".so")  # suffixes of files that Python can import
ADAPTER = "adapter_config.json"  # makes transformers load another checkpoint, which it names, with its code
TOKENIZER = "tokenizer_config.json"
OF_TOOLS = {".git", ".cache"}  # folders that transformers does not read

PICKLES = ("pytorch_model*.bin", ".metadata")
"""Names of weights that transformers unpickles if there are no others."""

WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
LOADED = (
    *WEIGHTS,
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    TOKENIZER,
    "special_tokens_map.json",
    "added_tokens.json",
    "*.jinja",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.model",
    "preprocessor_config.json",
    "processor_config.json",
)
"""Names of files without code that transformers reads."""

SCOPE = (
    "Compared is what can run: code, and entries that name code. Weights, labels, the tokenizer's vocabulary and texts"
    " are not judged."
)

LARGEST_DIFF = 500_000
"""Bytes of a file above which its lines are not compared."""

# Entries of JSON files
NAMES_CODE = ("auto_map", "custom_pipelines")
NAMES_WEIGHTS = "weight_map"
REFUSED = ("configuration_files", "transformers_weights", "kernel_config", "use_kernels")
"""Entries that name another configuration, a file of weights, which may be a pickle, or kernels."""

RELATIVE_IMPORT = re.compile(r"^\s*from\s+\.(\S+)\s+import", re.MULTILINE)  # that of transformers
# Places of a pipeline's Auto classes, which are those of transformers, and of its type:
OF_TRANSFORMERS = re.compile(r"(.*\.)?custom_pipelines\.[^.]+\.(pt|tf|type)(\.\d+)?")


@dataclass(frozen=True)
class CodeFile:
    """The verdict on one file of a checkpoint, or on one entry of a JSON file.

    Control characters are escaped.

    Attributes:
        name: Path of the file relative to the checkpoint.
        verdict: "equal", "differs", "missing" or "extra".
        note: Place and value of an entry, the kind of a path that is no regular file, or that line endings differ.
        size: Number of bytes of a file that is equal to the package's.
        diff: Lines of a unified diff from the package's file to the checkpoint's.
    """

    name: str
    verdict: str
    note: str = ""
    size: int = 0
    diff: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verification:
    """The verdicts on everything in a checkpoint that can name or contain code.

    Attributes:
        files: Verdicts in the order of the names.
        settings: Settings of the tokenizer that change what a model reads and differ from their defaults, as text.
        unread: Names of files that loading does not read.
        compared_with: Installed version of the package.
    """

    files: tuple[CodeFile, ...]
    settings: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    compared_with: str = __version__

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
        """Number and size of the files that are equal to the package's, as text."""
        count = len(self.files) - len(self.others)
        return f"{count} files, {_kilobytes(sum(file.size for file in self.files))}"

    def report(self, *, with_equal: bool = False, with_diff: bool = False) -> str:
        """Return the files, one a line, a summary, and what was not judged.

        Args:
            with_equal (*optional*, defaults to False): List equal files, with their sizes, and all unread files, too.
            with_diff (*optional*, defaults to False): Show the lines in which files differ.
        """
        lines = []
        for file in self.files if with_equal else self.others:
            note = _kilobytes(file.size) if file.verdict == EQUAL else file.note
            parts = [f"{file.verdict:<8} {file.name}", note]
            lines.append(": ".join(filter(None, parts)))
            if with_diff:
                lines += file.diff
        differs = f"Not equal: {len(self.others)} files or entries differ. " if self.others else ""
        lines.append(f"{differs}Equal to hf_localattn {self.compared_with}: {self.size}.")
        lines.append(SCOPE)
        lines += [f"Changes what the model reads: {setting}." for setting in self.settings]
        if self.unread:
            # Files of the folder itself come first: a training's own checkpoints have many more.
            unread = sorted(self.unread, key=lambda name: (name.startswith("checkpoint-"), name))
            most = len(unread) if with_equal else 10
            lines.append(f"Not read by a load: {join_names(unread, most)}.")
        return "\n".join(lines)


def verify_checkpoint(checkpoint: str | os.PathLike[str], *, subfolders: bool = True) -> Verification:
    """Compare the code of a checkpoint with the installed package, byte for byte, without running it.

    A checkpoint is equal if each entry of its JSON files that names code names a file beside it that is equal to the
    package's; if it has no other code files, no adapter, no pickled weights and no `configuration_files`; and if all
    its paths are regular files, or links into the Hub's own cache. This holds for all its subfolders.

    Weights, labels, vocabulary and texts are not judged. Settings of the tokenizer are listed if they differ from
    their defaults.

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
    folder, names_on_hub = _local(checkpoint)
    family = read_config(folder)["model_type"]
    if family not in family_names():
        raise ValueError(f"{checkpoint}: there is no family {family!r}; `verify` knows {', '.join(family_names())}.")
    paths = sorted(folder.glob("**/*" if subfolders else "*"))
    paths = [path for path in paths if OF_TOOLS.isdisjoint(path.relative_to(folder).parts)]
    comparison = _Comparison(folder, default_settings(family))
    for path in paths:
        comparison.read(path)
    for name in names_on_hub:
        comparison.note_name(name)
    comparison.compare_code(paths)
    return Verification(
        tuple(sorted(comparison.files, key=lambda file: file.name)),
        settings=tuple(comparison.settings),
        unread=tuple(sorted(comparison.unread)),
    )


class _Comparison:
    """The verdicts on the files of a folder. `defaults` are those of the settings of the family's tokenizer."""

    def __init__(self, folder: Path, defaults: dict[str, Any]):
        self.folder = folder
        self.defaults = defaults
        self.files: list[CodeFile] = []
        self.settings: list[str] = []
        self.unread: set[str] = set()
        self.expected: set[Path] = set()

    def add(self, path: Path, verdict: str, note: str = "", size: int = 0, diff: Iterable[str] = ()) -> None:
        name = _harmless(path.relative_to(self.folder).as_posix())
        self.files.append(CodeFile(name, verdict, _harmless(note), size, tuple(map(_harmless, diff))))

    def read(self, path: Path) -> None:
        """Judge a path that is no code, and note which code its entries expect."""
        if not is_regular(path, self.folder):
            self.add(path, EXTRA, "a link" if path.is_symlink() else "no regular file")
            return
        if path.is_dir():
            return
        self.note_name(path.relative_to(self.folder).as_posix())
        if path.name == ADAPTER:
            self.add(path, EXTRA, "an adapter")
        elif path.suffix == ".json":
            self.read_entries(path)

    def note_name(self, name: str) -> None:
        """Refuse a file of pickled weights, and note a file that loading does not read."""
        path = self.folder / name
        if _matches(path.name, PICKLES):
            if _harmless(name) not in [file.name for file in self.files]:
                self.add(path, EXTRA, "pickled weights")
        elif path.suffix not in CODE and path.name != ADAPTER and not _matches(path.name, LOADED):
            self.unread.add(_harmless(name))

    def read_entries(self, path: Path) -> None:
        """Judge the entries of a JSON file that name code, kernels or weights."""
        try:
            content = parse_json(read_utf8(path), path.name)
            for note, modules in _entries(content):
                if not modules:
                    self.add(path, EXTRA, note)
                self.expected |= {path.with_name(module) for module in modules}
        except ValueError as error:
            self.add(path, EXTRA, str(error))
            return
        if path.name == TOKENIZER and isinstance(content, dict):
            self.note_settings(path, content)

    def note_settings(self, path: Path, settings: dict[str, Any]) -> None:
        """Note settings of the family's tokenizer that differ from their defaults."""
        for name, default in self.defaults.items():
            value = settings.get(name, default)
            if value != default:
                place = _harmless(path.relative_to(self.folder).as_posix())
                self.settings.append(f"`{name}` of {place} is {repr(value)[:80]}, by default {default!r}")

    def compare_code(self, paths: list[Path]) -> None:
        """Compare all code files, and those that entries expect, with the package's."""
        code = {path for path in paths if path.suffix in CODE and not path.is_dir()}
        for path in self.expected | code:
            if not is_regular(path, self.folder):
                if not os.path.lexists(path):  # else an extra file already
                    self.add(path, MISSING)
            elif path not in self.expected:
                self.add(path, EXTRA)
            else:
                self.compare(path)

    def compare(self, path: Path) -> None:
        ours = (MODELS / path.name).read_bytes()
        theirs = path.read_bytes()
        if theirs == ours:
            self.add(path, EQUAL, size=len(ours))
            return
        note = ""
        if theirs.splitlines() == ours.splitlines():
            note = "only line endings differ"
        elif b"\r" in theirs:
            note = "line endings differ, too"
        self.add(path, DIFFERS, note, diff=_diff(ours, theirs))


def _diff(ours: bytes, theirs: bytes) -> list[str]:
    """Return the lines of a unified diff, without its header and without line endings."""
    if len(theirs) > LARGEST_DIFF:
        return [f"{len(theirs):,} bytes, too many to compare lines"]
    diff = difflib.diff_bytes(difflib.unified_diff, ours.splitlines(), theirs.splitlines(), n=1, lineterm=b"")
    return [line.decode(errors="backslashreplace") for line in diff][2:]


def _local(checkpoint: str | os.PathLike[str]) -> tuple[Path, list[str]]:
    """Return the folder of a checkpoint, and the names of all files on the Hub. Download checkpoints on the Hub."""
    name = os.fspath(checkpoint)
    match = re.fullmatch(rf"({HUB_ID})(?:@([^@\s]+))?", name)
    if match is None or Path(name).is_dir():
        return Path(name), []
    from huggingface_hub import HfApi, constants, snapshot_download

    with loading("checkpoint", match[1]):
        patterns = [*(f"*{suffix}" for suffix in CODE), "*.json"]
        folder = Path(snapshot_download(match[1], revision=match[2], allow_patterns=patterns))
        if constants.HF_HUB_OFFLINE:  # only the downloaded files are known
            return folder, []
        return folder, HfApi().list_repo_files(match[1], revision=folder.name)


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
            names_a_kernel = str(key).endswith("_implementation") and "/" in str(value)
            if names_a_kernel or (key in REFUSED and value):
                yield f"{place} is {repr(value)[:200]}", set()
                continue
            is_kind = key in NAMES_CODE or (key == NAMES_WEIGHTS and not kind)
            yield from _entries(value, place, str(key) if is_kind else kind)
    elif kind == NAMES_WEIGHTS:
        if not re.fullmatch(r"[\w.-]+\.safetensors", str(content)):
            yield f"{where} is {repr(content)[:200]}", set()
    elif kind in NAMES_CODE and isinstance(content, str) and not OF_TRANSFORMERS.fullmatch(where):
        yield f"{where} is {content[:200]!r}", _modules_of(content)


def _modules_of(name: str) -> set[str]:
    """Return the package's files that a class needs, named as `module.Class`; none if it is not the package's."""
    match = re.fullmatch(r"([a-z]\w*)\.[A-Z]\w*", name)
    if match is None or not (MODELS / f"{match[1]}.py").is_file():
        return set()
    modules: set[str] = set()
    waiting = [match[1]]
    while waiting:
        module = f"{waiting.pop()}.py"
        if module not in modules:
            modules.add(module)
            waiting += RELATIVE_IMPORT.findall((MODELS / module).read_text(encoding="utf-8"))
    return modules


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _kilobytes(size: int) -> str:
    return f"{size / 1000:.1f} kB" if size < 100_000 else f"{size / 1000:.0f} kB"


def _harmless(text: str) -> str:
    """Escape control characters. They could change the terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
