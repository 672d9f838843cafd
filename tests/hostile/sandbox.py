"""A process that loads strangers' checkpoints, and tells what came of each.

The process imports what a harmless checkpoint needs and loads one of each family. What it imports, runs, unpickles or
connects to after that, it does because of a checkpoint. An audit hook tells.
"""

import json
import os
import subprocess
import sys
import warnings
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

FORBIDDEN = (
    *("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.startfile"),
    *("pty.", "ctypes.dlopen", "pickle.", "webbrowser.", "urllib.", "ftplib.", "smtplib.", "http.client."),
)


@dataclass
class Result:
    """What came of a call: the classes of its exception, its text or what the loader returned, and what it did."""

    error: list[str] = field(default_factory=list)
    text: str = ""
    forbidden: list[str] = field(default_factory=list)


def run(home: Path, harmless: list[tuple[str, Path]], calls: list[tuple[str, Path]]) -> list[Result]:
    """Call loaders by name, each with a folder, in one process, which begins with those that are harmless."""
    own = {name: str(home / name) for name in ("HF_HOME", "TMPDIR")}
    for folder in own.values():
        Path(folder).mkdir(parents=True, exist_ok=True)
    # Not offline: whoever wants to reach the Hub shall try.
    kept = {name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "HF_TOKEN")}
    kept |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [*bare_python(), "-m", "tests.hostile.sandbox"],
        input=json.dumps([[(name, str(folder)) for name, folder in group] for group in (harmless, calls)]),
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


class Finder:
    """Finds no module, and tells a hook which are looked for: `importlib.import_module` raises no event of its own."""

    def __init__(self, hook):
        self.hook = hook

    def find_spec(self, name, path=None, target=None):
        self.hook("import", (name,))


def main() -> None:
    """Make the calls of a request, and print a line of JSON for each."""
    from tests.hostile.loaders import LOADERS

    warnings.simplefilter("ignore")
    sys.dont_write_bytecode = True  # a library may be imported here for the first time
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    harmless, calls = json.load(sys.stdin)
    sys.stdin = open(os.devnull)  # transformers asks whether it may run code, and waits  # noqa: SIM115
    for loader, folder in harmless:
        LOADERS[loader](Path(folder))
    found: set[str] = set()
    own: list[str] = []  # folders of the call

    def hook(event: str, arguments: tuple) -> None:
        if own and (what := forbidden(event, arguments, own)):
            found.add(what)

    sys.addaudithook(hook)
    for loader, folder in calls:
        result = Result()
        found.clear()
        sys.meta_path.insert(0, Finder(hook))
        own[:] = [
            os.path.realpath(path) for path in (Path(folder).parent, os.environ["HF_HOME"], os.environ["TMPDIR"])
        ]
        try:
            result.text = str(LOADERS[loader](Path(folder)))
        except BaseException as error:
            result.error, result.text = [one.__name__ for one in type(error).__mro__], str(error)
        own.clear()
        del sys.meta_path[0]
        result.forbidden, result.text = sorted(found)[:20], result.text[:20_000]
        print(json.dumps(vars(result)), file=answers, flush=True)
    os._exit(0)  # taking down what was imported takes seconds


def forbidden(event: str, arguments: tuple, own: list[str]) -> str:
    """Return in words what an event of `sys.addaudithook` says, if it is something that no checkpoint may cause."""
    if event == "import":
        name = str(arguments[0])
        return "" if name.partition(".")[0] in LAZILY_IMPORTED else f"imported {name}"
    if event in ("exec", "compile"):
        name = getattr(arguments[0], "co_filename", None) if event == "exec" else arguments[1]
        return f"ran {name}" if any(folder in str(name) for folder in own) else ""
    return f"{event} {arguments!r}"[:200] if event.startswith(FORBIDDEN) else ""


if __name__ == "__main__":
    main()
