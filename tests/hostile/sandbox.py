"""A process that loads strangers' checkpoints, each in a child of its own, and tells what came of it.

The process imports what a harmless checkpoint needs, once, and loads one of each family. A child is a fork of it,
under limits of memory and time and under an audit hook. What it imports, opens, runs or connects to after that, it
does because of its checkpoint.
"""

import ctypes
import json
import operator
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forked_python import bare_python

ROOT = Path(__file__).parents[2]
TOGETHER = 8
"""Calls that one child makes, as a fork costs as much as a call. What ends the child ends one of them only."""

MEMORY = 2**30
"""Bytes that a child may have on top of what the process has."""

CPU_SECONDS, SECONDS = 10, 30
"""Time that a child may take; more on the clock, as the machine may have others to serve."""

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
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.chmod",
    "os.symlink",
    "os.link",
    "os.mkdir",
    "os.truncate",
    "shutil.",
)
"""What may happen in the checkpoint's own folder, as a card is written there, and nowhere else."""


@dataclass
class Result:
    """What came of a call.

    Attributes:
        status: "ended", or what stopped it: "hung", or the name of a signal.
        error: names of the classes of the exception, from its own up; none where there was no error.
        text: of the exception, or what the loader returned.
        forbidden: what it did and should not have done.
        memory: bytes more than before, at most.
        seconds: of CPU time.
    """

    status: str = "ended"
    error: list[str] = field(default_factory=list)
    text: str = ""
    forbidden: list[str] = field(default_factory=list)
    memory: int = 0
    seconds: float = 0.0

    @property
    def is_refusal(self) -> bool:
        """Whether it ended with a `ValueError` or an `OSError`."""
        return self.status == "ended" and any(name in self.error for name in ("ValueError", "OSError"))


class Sandbox:
    """The process, started when it is entered.

    Args:
        home: a folder for caches and temporary files.
        calls: loaders, and folders of harmless checkpoints for them, which it begins with.
    """

    def __init__(self, home: Path, calls: list[tuple[str, Path]]):
        self.home, self.calls = home, calls

    def __enter__(self):
        own = {name: str(self.home / name) for name in ("HF_HOME", "TMPDIR")}
        for folder in own.values():
            Path(folder).mkdir(parents=True, exist_ok=True)
        # Not offline: whoever wants to reach the Hub shall try.
        kept = {name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "HF_TOKEN")}
        environment = kept | own | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "MALLOC_ARENA_MAX": "1"}
        environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [*bare_python(), "-m", "tests.hostile.sandbox"],
            *(-1, None, subprocess.PIPE, subprocess.PIPE),
            env=environment,
            cwd=ROOT,
            text=True,
        )
        self._ask([(loader, str(folder)) for loader, folder in self.calls])
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def run(self, *calls: tuple[str, Path, Path], seconds: int = CPU_SECONDS) -> list[Result]:
        """Call loaders of `tests.hostile.loaders`, one after the other.

        Args:
            *calls: the name of a loader; a folder that it may read and write; one that nothing may touch.
            seconds: of CPU time that each may take.
        """
        request = {"calls": [[str(part) for part in call] for call in calls], "seconds": seconds}
        return [Result(**one) for one in self._ask(request)]

    def _ask(self, request: Any) -> Any:
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the sandbox itself ended, with {self.process.wait(60)}")
        return json.loads(line)


class Watch:
    """Whether any program opens a file, also one that does so without Python: inotify, where there is such a thing."""

    OPENED = 0x20
    EVENT = struct.Struct("iIII")

    def __init__(self, *paths: Path):
        self.names = {}
        self.libc = ctypes.CDLL(None)
        self.file = self.libc.inotify_init1(os.O_NONBLOCK) if hasattr(self.libc, "inotify_init1") else -1
        for path in paths:
            self.names[self.libc.inotify_add_watch(self.file, os.fsencode(path), self.OPENED)] = path

    def opened(self) -> list[str]:
        """The files and folders that were opened."""
        found = set()
        with suppress(BlockingIOError):
            while self.file >= 0:
                events, at = os.read(self.file, 65536), 0
                while at < len(events):
                    number, _, _, length = self.EVENT.unpack_from(events, at)
                    name = events[at + self.EVENT.size :][:length].rstrip(b"\0").decode(errors="replace")
                    found.add(str(self.names[number] / name))
                    at += self.EVENT.size + length
        os.close(self.file)
        return sorted(found)


def main() -> None:
    """Serve requests, a line of JSON each, until there are no more."""
    from tests.hostile import loaders

    sys.dont_write_bytecode = True  # a library may be imported here for the first time
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    loaders.warm_up(json.loads(sys.stdin.readline()))
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        request, results = json.loads(line), []
        while len(results) < len(request["calls"]):
            results += attempt(loaders, request["calls"][len(results) :][:TOGETHER], request["seconds"])
        print(json.dumps(results), file=answers, flush=True)
    os._exit(0)  # taking down what was imported takes seconds


def attempt(loaders, calls: list[list[str]], seconds: int) -> list[dict]:
    """Fork a child that makes calls, one after the other; return the fields of their `Result`s.

    There is one for each call that has ended, and for the one that has ended the child.
    """
    (reading, writing), (going, go) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.close(go)
        sys.stdin = open(os.devnull)  # transformers asks whether it may run code, and waits  # noqa: SIM115
        try:
            for loader, folder, _ in calls:
                os.read(going, 1)
                function = operator.attrgetter(loader)(loaders)
                answer = json.dumps(_called(function, Path(folder), loader in loaders.READ_CODE, seconds))
                os.write(writing, f"{answer}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    results = []
    with os.fdopen(reading, "rb", buffering=0) as answers:
        for loader, folder, outside in calls:
            baits = [path for path in Path(folder).glob("*") if path.suffix in (".py", ".bin", ".pt", ".pkl")]
            folders = [path for path in [Path(outside), *Path(outside).rglob("*")] if path.is_dir()]
            watch = Watch(*folders, *(() if loader in loaders.READ_CODE else baits))
            os.write(go, b".")
            answer = _line(answers)
            result = json.loads(answer) if answer else {"status": _end(child), "forbidden": []}
            result["forbidden"] += [f"opened {path}" for path in watch.opened()]
            results.append(result)
            if not answer:
                break
        else:
            os.waitpid(child, 0)
    os.close(going)
    os.close(go)
    return results


def _line(answers) -> bytes:
    """A whole line; nothing if there is none in time."""
    line, deadline = b"", time.monotonic() + SECONDS
    while not line.endswith(b"\n"):
        ready = select.select([answers], [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready or not (part := answers.read(65536)):
            return b""
        line += part
    return line


def _end(child: int) -> str:
    """End a child that does not answer, if it has not ended already; return in a word what it was."""
    ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        time.sleep(0.5)  # a process that is killed closes its files first
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "hung"
    code = os.waitstatus_to_exitcode(status)
    return "hung" if code == -signal.SIGXCPU else signal.Signals(-code).name if code < 0 else f"exit {code}"


def _called(loader, folder: Path, reads_code: bool, seconds: int) -> dict:
    """Call a loader under limits; return the fields of a `Result`."""
    before, start = _resident(), time.process_time()
    _limit(int(start) + seconds)
    result = Result()
    is_watching = True
    own = tuple(os.path.realpath(path) for path in (folder, os.environ["HF_HOME"], os.environ["TMPDIR"]))

    def hook(event: str, arguments: tuple) -> None:
        if is_watching and (found := forbidden(event, arguments, own, reads_code)):
            result.forbidden.append(found)

    sys.addaudithook(hook)  # for good: from the end of this call on it does nothing
    sys.meta_path.insert(0, Finder(hook))
    try:
        result.text = str(loader(folder))
    except BaseException as error:
        result.error = [one.__name__ for one in type(error).__mro__]
        result.text = str(error)
    is_watching = False
    del sys.meta_path[0]
    result.forbidden = sorted(set(result.forbidden))[:20]
    result.text = result.text[:20_000]
    result.memory = max(0, _resident() - before)
    result.seconds = time.process_time() - start
    return vars(result)


class Finder:
    """Finds no module, and tells a hook which are looked for: `importlib.import_module` raises no event of its own."""

    def __init__(self, hook):
        self.hook = hook

    def find_spec(self, name, path=None, target=None):
        self.hook("import", (name,))


def _limit(seconds: int) -> None:
    """Set the limits of this process; of its time, from its beginning on."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if resource.getrlimit(resource.RLIMIT_AS)[1] == resource.RLIM_INFINITY:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))


def _resident() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


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
