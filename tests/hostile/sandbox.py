"""A process that loads strangers' checkpoints, and tells what came of each.

The process imports what a harmless checkpoint needs and loads one of each family. What it imports, opens, runs or
connects to after that, it does because of a checkpoint. An audit hook tells what Python does, inotify what is opened
without Python.
"""

import ctypes
import json
import operator
import os
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.fresh_process import bare_python

ROOT = Path(__file__).parents[2]
SECONDS = 300
"""Time that all calls may take."""

LAZILY_IMPORTED = ("transformers", "hf_localattn", "torch", "huggingface_hub", "google")
"""Packages that are imported in part, when something of them is first needed, such as the file of another backbone.

transformers looks for `google.protobuf` whenever it cannot load a tokenizer, to name its errors.
"""

OWN = [ROOT / name for name in ("hf_localattn", "hf_localattn.egg-info", "tests")]
SITES = [path for path in sys.path if path.endswith("site-packages")]  # an environment may lend another's
LIBRARIES = tuple({os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, *SITES, *OWN)})
READABLE = (*LIBRARIES, "/dev/null", "/dev/urandom", "/proc", "/sys")

FORBIDDEN = (
    *("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.startfile"),
    *("pty.", "ctypes.dlopen", "pickle.", "webbrowser.", "urllib.", "ftplib.", "smtplib.", "http.client."),
)
WITHIN = (
    *("os.remove", "os.rename", "os.rmdir", "os.chmod", "os.symlink", "os.link", "os.mkdir", "os.truncate"),
    "shutil.",
)
"""What may happen in the checkpoint's own folder, as a card is written there, and nowhere else."""


@dataclass
class Result:
    """What came of a call: the classes of its exception, its text or what the loader returned, and what it did."""

    error: list[str] = field(default_factory=list)
    text: str = ""
    forbidden: list[str] = field(default_factory=list)

    @property
    def is_refusal(self) -> bool:
        """Whether it ended with a `ValueError` or an `OSError`."""
        return any(name in self.error for name in ("ValueError", "OSError"))


def run(home: Path, harmless: list[tuple], calls: list[tuple]) -> list[Result]:
    """Call loaders of `tests.hostile.loaders` in one process, one after the other.

    Args:
        home: a folder for caches and temporary files.
        harmless: calls that the process begins with.
        calls: for each the name of a loader; a folder that it may read and write; one that nothing may touch.
    """
    own = {name: str(home / name) for name in ("HF_HOME", "TMPDIR")}
    for folder in own.values():
        Path(folder).mkdir(parents=True, exist_ok=True)
    # Not offline: whoever wants to reach the Hub shall try.
    kept = {name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "HF_TOKEN")}
    kept |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1"}
    request = json.dumps([[[str(part) for part in call] for call in group] for group in (harmless, calls)])
    done = subprocess.run(
        [*bare_python(), "-m", "tests.hostile.sandbox"],
        input=request,
        stdout=subprocess.PIPE,
        env=kept | own | {"HF_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        text=True,
        timeout=SECONDS,
    )
    results = [Result(**json.loads(line)) for line in done.stdout.splitlines()]
    if len(results) < len(calls):
        raise AssertionError(f"{calls[len(results)]} ended the process: {done.returncode}")
    return results


class Watch:
    """Whether any program opens a file, also one that does so without Python."""

    OPENED = 0x20
    EVENT = struct.Struct("iIII")

    def __init__(self, *paths: Path):
        libc = ctypes.CDLL(None)
        self.file = libc.inotify_init1(os.O_NONBLOCK)
        self.names = {libc.inotify_add_watch(self.file, os.fsencode(path), self.OPENED): path for path in paths}

    def opened(self) -> set[str]:
        """Return the files and folders that were opened, and end."""
        found = set()
        with suppress(BlockingIOError):
            while True:
                events, at = os.read(self.file, 65536), 0
                while at < len(events):
                    number, _, _, length = self.EVENT.unpack_from(events, at)
                    name = events[at + self.EVENT.size :][:length].rstrip(b"\0").decode(errors="replace")
                    found.add(f"opened {self.names[number] / name}")
                    at += self.EVENT.size + length
        os.close(self.file)
        return found


class Finder:
    """Finds no module, and tells a hook which are looked for: `importlib.import_module` raises no event of its own."""

    def __init__(self, hook):
        self.hook = hook

    def find_spec(self, name, path=None, target=None):
        self.hook("import", (name,))


def main() -> None:
    """Make the calls of a request, and print a line of JSON for each."""
    from tests.hostile import loaders

    sys.dont_write_bytecode = True  # a library may be imported here for the first time
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    harmless, calls = json.load(sys.stdin)
    sys.stdin = open(os.devnull)  # transformers asks whether it may run code, and waits  # noqa: SIM115
    loaders.warm_up([(loader, folder) for loader, folder, _ in harmless])
    found: set[str] = set()
    scope: list = []  # of the call: its own folders, and whether it reads code files as data

    def hook(event: str, arguments: tuple) -> None:
        if scope and (what := forbidden(event, arguments, *scope)):
            found.add(what)

    sys.addaudithook(hook)
    for loader, folder, outside in calls:
        reads_code, function = loader in loaders.READ_CODE, operator.attrgetter(loader)(loaders)
        baits = [path for path in Path(folder).glob("*") if path.suffix in (".py", ".bin", ".pt", ".pkl")]
        folders = [path for path in [Path(outside), *Path(outside).rglob("*")] if path.is_dir()]
        watch, result = Watch(*folders, *(() if reads_code else baits)), Result()
        found.clear()
        sys.meta_path.insert(0, Finder(hook))
        own = tuple(os.path.realpath(path) for path in (folder, os.environ["HF_HOME"], os.environ["TMPDIR"]))
        scope[:] = [own, reads_code]
        try:
            result.text = str(function(Path(folder)))
        except BaseException as error:
            result.error, result.text = [one.__name__ for one in type(error).__mro__], str(error)
        scope.clear()
        del sys.meta_path[0]
        result.forbidden = sorted(found | watch.opened())[:20]
        result.text = result.text[:20_000]
        print(json.dumps(vars(result)), file=answers, flush=True)
    os._exit(0)  # taking down what was imported takes seconds


def forbidden(event: str, arguments: tuple, own: tuple[str, ...], reads_code: bool) -> str:
    """Return in words what an event of `sys.addaudithook` says, if it is something that no checkpoint may cause.

    Args:
        event, arguments: as the hook gets them.
        own: folders that may be written, first the checkpoint's.
        reads_code: whether the call reads code files, as data.
    """
    if event == "import":
        name = str(arguments[0])
        return "" if name.partition(".")[0] in LAZILY_IMPORTED else f"imported {name}"
    if event in ("exec", "compile"):
        name = getattr(arguments[0], "co_filename", None) if event == "exec" else arguments[1]
        return f"ran {name}" if any(folder in str(name) for folder in own) else ""
    if event == "open":
        path, mode, flags = arguments
        if not isinstance(path, str | bytes | os.PathLike):  # a file that is open already
            return ""
        name = os.path.abspath(os.fsdecode(path))
        name = name if is_in(name, own) else os.path.realpath(name)  # links in the folder are the case's own
        is_writing = set(mode or "") & set("wax+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR)
        allowed = is_in(name, own) or (is_in(name, READABLE) and (not is_writing or name == "/dev/null"))
        is_code = is_in(name, own) and name.endswith(".py") and not reads_code
        return "" if allowed and not is_code else f"opened {name}"
    if event.startswith(WITHIN):
        paths = [os.path.abspath(os.fsdecode(one)) for one in arguments if isinstance(one, str | bytes | os.PathLike)]
        return "" if all(is_in(path, own) for path in paths) else f"{event} {paths}"
    return f"{event} {arguments!r}"[:200] if event.startswith(FORBIDDEN) else ""


def is_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


if __name__ == "__main__":
    main()
