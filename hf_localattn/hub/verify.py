"""Judging a checkpoint by the policy and comparing its code with the package's, without importing torch.

`trust_remote_code=True` runs the code that a checkpoint contains or names. If everything that it names is beside it
and equal to the package's files, it runs the code of the package.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_localattn import __version__
from hf_localattn.errors import join_names, loading
from hf_localattn.files import A_LINK, is_regular
from hf_localattn.installed.policy import NAMED, REFUSED, harmless, is_read, judge_folder
from hf_localattn.names import HUB_ID, MODELS, model_file, packages_of, read_family_config
from hf_localattn.parsing import parse_json, read_utf8

# Verdicts on code. The policy has two more: NAMED is allowed, and REFUSED is what loading refuses.
EQUAL = "equal"
DIFFERS = "differs"
MISSING = "missing"
EXTRA = "extra"

CODE = (".py", ".pyc", ".pyd", ".so")  # suffixes of files that Python can import
OF_TOOLS = {".git", ".cache"}  # folders that transformers does not read

PROGRAM = "infer.py"
"""Code of an exported folder, which `hf-localattn export` writes beside `export.json`."""

TEMPLATE = MODELS.parent / "serving" / "templates" / PROGRAM

SCOPE = (
    "Compared is what can run: code, and entries that name code. Weights, labels, the tokenizer's vocabulary and texts"
    " are not judged."
)

LARGEST_DIFF = 500_000
"""Bytes of a file above which its lines are not compared."""

NAMES_CODE = ("auto_map", "custom_pipelines")
"""Entries of JSON files that name code."""

RELATIVE_IMPORT = re.compile(r"^\s*from\s+\.(\S+)\s+import", re.MULTILINE)  # that of transformers
# Places of a pipeline's Auto classes, which are those of transformers, and of its type:
OF_TRANSFORMERS = re.compile(r"(.*\.)?custom_pipelines\.[^.]+\.(pt|tf|type)(\.\d+)?")


@dataclass(frozen=True)
class CodeFile:
    """The verdict on one file of a checkpoint, or on one entry of a JSON file.

    Attributes:
        name: Path of the file relative to the checkpoint, as it is.
        verdict: "equal", "differs", "missing" or "extra" for code; "refused" for what is not loaded; "named" for what
            is allowed and should be known.
        note: Place and value of an entry, the kind of a path that is no regular file, or that line endings differ.
            Control characters are escaped.
        size: Number of bytes of a file that is equal to the package's.
        diff: Lines of a unified diff from the package's file to the checkpoint's.
    """

    name: str
    verdict: str
    note: str = ""
    size: int = 0
    diff: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name with control characters escaped."""
        return harmless(self.name)


@dataclass(frozen=True)
class Verification:
    """The verdicts on everything in a checkpoint that can name or contain code, or that loading refuses.

    Attributes:
        files: Verdicts in the order of the names.
        unread: Names of files that loading does not read.
        compared_with: Packages that the model's code is of, and their installed versions.
    """

    files: tuple[CodeFile, ...]
    unread: tuple[str, ...] = ()
    compared_with: str = f"hf_localattn {__version__}"

    @property
    def is_equal(self) -> bool:
        """True if all code is equal to the package's, nothing is missing or extra, and nothing is refused."""
        return not self.others

    @property
    def others(self) -> tuple[CodeFile, ...]:
        """The files and entries that are not equal to the package's, or refused."""
        return tuple(file for file in self.files if file.verdict not in (EQUAL, NAMED))

    @property
    def named(self) -> tuple[CodeFile, ...]:
        """The files and entries that are allowed and should be known."""
        return tuple(file for file in self.files if file.verdict == NAMED)

    @property
    def size(self) -> str:
        """Number and size of the files that are equal to the package's, as text."""
        equal = [file.size for file in self.files if file.verdict == EQUAL]
        return f"{len(equal)} {'file' if len(equal) == 1 else 'files'}, {_kilobytes(sum(equal))}"

    def report(self, *, with_equal: bool = False, with_diff: bool = False) -> str:
        """Return the files, one a line, a summary, and what was not judged.

        Args:
            with_equal (*optional*, defaults to False): List equal files, with their sizes, and all unread files, too.
            with_diff (*optional*, defaults to False): Show the lines in which files differ.
        """
        lines = []
        for file in self.files if with_equal else (*self.others, *self.named):
            note = _kilobytes(file.size) if file.verdict == EQUAL else file.note
            parts = [f"{file.verdict:<8} {file.label}", note]
            lines.append(": ".join(filter(None, parts)))
            if with_diff:
                lines += file.diff
        if self.others:
            count = f"{len(self.others)} files or entries" if len(self.others) > 1 else "1 file or entry"
            lines.append(
                f"Not equal to {self.compared_with}: {count}. Of its other code, {self.size}, each file is equal."
            )
        else:
            lines.append(f"Equal to {self.compared_with}: {self.size}.")
        lines.append(SCOPE)
        if self.unread:
            # Files of the folder itself come first: a training's own checkpoints have many more.
            unread = sorted(map(harmless, self.unread), key=lambda name: (name.startswith("checkpoint-"), name))
            most = len(unread) if with_equal else 10
            lines.append(f"Not read by a load: {join_names(unread, most)}.")
        return "\n".join(lines)


def verify_checkpoint(checkpoint: str | os.PathLike[str], *, subfolders: bool = True) -> Verification:
    """Judge a checkpoint as loading does, and compare its code with the installed package, without running it.

    A checkpoint is equal if loading refuses nothing of it; if each entry of its JSON files that names code names a
    file beside it that is equal to the package's, byte for byte; if it has no other code files; and if all its paths
    are regular files, or links into the Hub's own cache. This holds for all its subfolders.

    Weights, labels, vocabulary and texts are not judged. Settings of the tokenizer are named if they differ from
    their defaults, and so is what runs in place of weights.

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
    read_family_config(folder)
    comparison = _Comparison(folder)
    paths = sorted(folder.glob("**/*" if subfolders else "*"))
    names = {path.relative_to(folder).as_posix() for path in paths} | set(names_on_hub or ())
    names = {name for name in names if OF_TOOLS.isdisjoint(name.split("/"))}
    for place in sorted({name.rpartition("/")[0] for name in names}):
        comparison.judge(place, names, whole=names_on_hub is not None)
    comparison.compare_code(name for name in names if name.endswith(CODE))
    for name in names - {file.name for file in comparison.files}:
        comparison.note_other(name)
    files = sorted({*comparison.files}, key=lambda file: (file.name, file.note))
    packages = " and ".join([f"hf_localattn {__version__}", *packages_of(comparison.expected.values())])
    return Verification(tuple(files), unread=tuple(sorted(comparison.unread)), compared_with=packages)


class _Comparison:
    """The verdicts on the files of a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.files: list[CodeFile] = []
        self.unread: set[str] = set()
        self.expected: dict[str, Path] = {}  # the package's file by name

    def add(self, name: str, verdict: str, note: str = "", size: int = 0, diff: Iterable[str] = ()) -> None:
        self.files.append(CodeFile(name, verdict, harmless(note), size, tuple(map(harmless, diff))))

    def judge(self, place: str, names: Iterable[str], *, whole: bool) -> None:
        """Judge a folder as loading does, and note which code its entries expect."""
        folder = self.folder / place
        inside = [name.rpartition("/")[2] for name in names if name.rpartition("/")[0] == place]
        for finding in judge_folder(folder, names=inside, whole=whole, root=self.folder):
            verdict = NAMED if finding.verdict == NAMED else REFUSED
            self.add(_join(place, finding.file), verdict, finding.note)
        for name in ("config.json", "tokenizer_config.json"):
            if is_regular(folder / name, self.folder) and (folder / name).is_file():
                self.read_entries(_join(place, name), place)
        if "export.json" in inside and PROGRAM in inside:
            self.expected[_join(place, PROGRAM)] = TEMPLATE

    def read_entries(self, name: str, place: str) -> None:
        """Judge the entries of a JSON file that name code."""
        try:
            content = parse_json(read_utf8(self.folder / name), name)
        except ValueError:  # refused already
            return
        for note, modules in _entries(content):
            if not modules:
                self.add(name, REFUSED, f"{note}, which is no code of this folder. Remove it.")
            for module in modules:
                self.expected[_join(place, module)] = model_file(module) or MODELS / module

    def compare_code(self, names: Iterable[str]) -> None:
        """Compare all code files, and those that entries expect, with the package's."""
        for name in {*names, *self.expected}:
            path = self.folder / name
            if not os.path.lexists(path):
                self.add(name, MISSING)
            elif not is_regular(path, self.folder):
                self.add(name, REFUSED, A_LINK)
            elif name not in self.expected:
                if not path.is_dir():
                    self.add(name, EXTRA)
            else:
                self.compare(name, self.expected[name])

    def compare(self, name: str, file: Path) -> None:
        ours = file.read_bytes()
        theirs = (self.folder / name).read_bytes()
        if theirs == ours:
            self.add(name, EQUAL, size=len(ours))
            return
        note = ""
        if theirs.splitlines() == ours.splitlines():
            note = "only line endings differ"
        elif b"\r" in theirs:
            note = "line endings differ, too"
        self.add(name, DIFFERS, note, diff=_diff(ours, theirs))

    def note_other(self, name: str) -> None:
        """Refuse a path that is no regular file, and note a file that loading does not read."""
        path = self.folder / name
        if os.path.lexists(path) and not is_regular(path, self.folder):
            self.add(name, REFUSED, A_LINK)
        elif not path.is_dir() and not is_read(name):
            self.unread.add(name)


def _join(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name


def _diff(ours: bytes, theirs: bytes) -> list[str]:
    """Return the lines of a unified diff, without its header and without line endings."""
    if len(theirs) > LARGEST_DIFF:
        return [f"{len(theirs):,} bytes, too many to compare lines"]
    diff = difflib.diff_bytes(difflib.unified_diff, ours.splitlines(), theirs.splitlines(), n=1, lineterm=b"")
    return [line.decode(errors="backslashreplace") for line in diff][2:]


def _local(checkpoint: str | os.PathLike[str]) -> tuple[Path, list[str] | None]:
    """Return the folder of a checkpoint and the names of files on the Hub, or None if they are not known.

    Checkpoints on the Hub are downloaded.
    """
    name = os.fspath(checkpoint)
    match = re.fullmatch(rf"({HUB_ID})(?:@([^@\s]+))?", name)
    if match is None or Path(name).is_dir():
        return Path(name), []
    from huggingface_hub import HfApi, constants, snapshot_download

    with loading("checkpoint", match[1]):
        patterns = [*(f"*{suffix}" for suffix in CODE), "*.json"]
        folder = Path(snapshot_download(match[1], revision=match[2], allow_patterns=patterns))
        if constants.HF_HUB_OFFLINE:  # only the downloaded files are known
            return folder, None
        return folder, HfApi().list_repo_files(match[1], revision=folder.name)


def _entries(content: Any, where: str = "", *, names_code: bool = False) -> Iterator[tuple[str, set[str]]]:
    """Yield each entry of a JSON file that names code, and the package's files that it needs, none for other code."""
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            place = f"{where}.{key}" if where else str(key)
            yield from _entries(value, place, names_code=names_code or key in NAMES_CODE)
    elif names_code and isinstance(content, str) and not OF_TRANSFORMERS.fullmatch(where):
        yield f"`{where}` is {content[:80]!r}", _modules_of(content)


def _modules_of(name: str) -> set[str]:
    """Return the package's files that a class needs, named as `module.Class`; none if it is not the package's."""
    match = re.fullmatch(r"([a-z]\w*)\.[A-Z]\w*", name)
    if match is None or model_file(f"{match[1]}.py") is None:
        return set()
    modules: set[str] = set()
    waiting = [match[1]]
    while waiting:
        module = f"{waiting.pop()}.py"
        if module not in modules:
            modules.add(module)
            if source := model_file(module):
                waiting += RELATIVE_IMPORT.findall(source.read_text(encoding="utf-8"))
    return modules


def _kilobytes(size: int) -> str:
    return f"{size / 1000:.1f} kB" if size < 100_000 else f"{size / 1000:.0f} kB"
