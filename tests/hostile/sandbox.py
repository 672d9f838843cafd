"""Doors: whatever opens strangers' checkpoints, and a process that goes through them and tells what came of each.

The process imports what a harmless checkpoint needs and loads one of each family. What it imports, runs, unpickles,
opens or connects to after that, it does because of a checkpoint. An audit hook tells.
"""

import contextlib
import importlib
import io
import json
import os
import pickle
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import spacy
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    pipeline,
)

from hf_localattn import CoolConfig, CoolModel, OaXLNetTokenizer, OnnxModel, SlaBertTokenizer
from hf_localattn.cli import main as command
from hf_localattn.hub import init_checkpoint, push_checkpoint, write_card
from hf_localattn.pretrained import load_checkpoint, load_tokenizer
from hf_localattn.serving import demo, export
from hf_localattn.studies import command as training
from tests.fresh_process import bare_python

ROOT = Path(__file__).parents[2]
LAZILY_IMPORTED = ("transformers", "hf_localattn", "torch", "huggingface_hub", "google")
"""Packages that are imported in part, when something of them is first needed, such as the file of another backbone.

transformers looks for `google.protobuf` whenever it cannot load a tokenizer, to name its errors.
"""

FORBIDDEN = (
    *("socket.connect", "socket.getaddrinfo", "socket.gethostby", "socket.sendto"),
    *("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.startfile"),
    *("pty.", "ctypes.dlopen", "pickle.", "webbrowser.", "urllib.", "ftplib.", "smtplib.", "http.client."),
)

ENGLISH = spacy.blank("en")
TEXT = "The [CUE] baker sees no white roses."
ROWS = ROOT / "hf_localattn" / "resources" / "samples" / "reviews.csv"


def run_model(load):
    """Return a call that loads a model and makes a forward pass."""

    def call(folder):
        loaded, ids = load(folder), torch.tensor([[5, 6, 7, 8, 9]])
        further = {"word_index": torch.tensor([[-1, 0, 1, 2, -1]]), "dep_heads": torch.tensor([[-1, 1, 1, 2, -1]])}
        further |= {"query_mask": torch.tensor([[0, 1, 0, 0, 0]])}
        needed = {name: further[name] for name in getattr(loaded.config, "required_inputs", ())}
        return loaded(ids, attention_mask=torch.ones_like(ids), **needed)[0].shape

    return call


def run_command(*words):
    """Return a call that runs a command on a folder, and returns what it prints. Its output is beside the folder."""

    def call(folder):
        printed = io.StringIO()
        places = {"folder": folder, "out": folder.parent / f"{folder.name}-{words[0]}"}
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                code = command([word.format(**places) for word in words])
            except SystemExit as ended:
                code = ended.code
        if code:
            raise Refused(printed.getvalue())
        return printed.getvalue()

    return call


class Refused(Exception):
    """A command ended with an error in one line."""


class Reached(Refused):
    """A command has the model that it was given."""


def reached(*args, **settings):
    """Stand in for what a command does with a model: a page, a training, a graph."""
    raise Reached("the model was loaded")


DOORS = {
    "config": AutoConfig.from_pretrained,
    "built_tokenizer": AutoTokenizer.from_pretrained,
    "model": run_model(AutoModel.from_pretrained),
    "pipeline": lambda folder: pipeline("text-classification", str(folder)),
    "negation": lambda folder: pipeline("negation", str(folder)),
    "own_config": CoolConfig.from_pretrained,
    "own_model": run_model(CoolModel.from_pretrained),
    "classifier": run_model(AutoModelForSequenceClassification.from_pretrained),
    "generator": lambda folder: AutoModelForSeq2SeqLM.from_pretrained(folder).generate(torch.tensor([[5, 6]])),
    "sla_tokenizer": lambda folder: SlaBertTokenizer.from_pretrained(folder)(TEXT),
    "oa_tokenizer": lambda folder: OaXLNetTokenizer.from_pretrained(folder)(TEXT),
    "checked_tokenizer": lambda folder: load_tokenizer(str(folder))(TEXT),
    "checkpoint": lambda folder: load_checkpoint(folder),
    "exported": OnnxModel.from_pretrained,
    "inspect": run_command("inspect", "{folder}", TEXT, "-o", "{out}.json"),
    "train": run_command(
        *("train", "glue", "--model_name_or_path", "{folder}", "--train_file", str(ROWS), "--do_train"),
        *("--output_dir", "{out}", "--max_steps", "1", "--use_cpu"),
    ),
    "demo": lambda folder: demo.run(str(folder)),
    "export": run_command("export", "{folder}", "{out}"),
    "card": lambda folder: write_card(folder).read_text(encoding="utf-8"),
    "verify": run_command("verify", "{folder}"),
    "push": lambda folder: push_checkpoint(folder, "owner/name"),
    "from": lambda folder: init_checkpoint("cool", "tiny", f"{folder}-from", trained=folder),
    "init": run_command("init", "cool", "{folder}", "{out}"),
    "backbone": CoolModel.from_backbone,
    "spacy": lambda folder: ENGLISH.create_pipe("hf_localattn_negation", config={"model": str(folder)}),
    "negation_command": run_command("negation", "--model", "{folder}", TEXT),
}
"""Whatever opens a checkpoint, by name."""


FAKES = {
    "imports a module": (lambda folder: importlib.import_module("this"), "imported this"),
    "runs a file": (lambda folder: exec(compile("", folder / "code.py", "exec")), "ran .*/code.py"),
    "connects": (lambda folder: socket.socket().connect_ex(("127.0.0.1", 9)), "socket.connect"),
    "starts a program": (lambda folder: subprocess.run(["true"], check=True), "subprocess.Popen"),
    "opens a file": (lambda folder: open(folder.parent / "outside" / "config.json").close(), "opened .*outside"),
    "unpickles": (lambda folder: pickle.loads(b"cos\ngetcwd\n(tR."), "pickle.find_class"),
}
"""Were one of these not found out, the other results would say nothing."""

DOORS |= {name: call for name, (call, _) in FAKES.items()}


def run(home, harmless, others):
    """Call loaders by name, each with a folder, in one process, which makes the harmless calls once before."""
    own = {name: str(home / name) for name in ("HF_HOME", "TMPDIR")}
    for folder in own.values():
        Path(folder).mkdir(parents=True, exist_ok=True)
    # Not offline: whoever wants to reach the Hub shall try.
    kept = {name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "HF_TOKEN")}
    kept |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [*bare_python(), "-m", "tests.hostile.sandbox"],
        input=json.dumps([harmless, others], default=str),
        stdout=subprocess.PIPE,
        env=kept | own | {"HF_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        text=True,
        timeout=1700,
    )
    results = [SimpleNamespace(**json.loads(line)) for line in done.stdout.splitlines()]
    calls = [*harmless, *others]
    assert len(results) == len(calls), f"{calls[len(results)]} ended the process: {done.returncode}"
    return results


def main():
    """Make the calls of a request, and print a line of JSON for each."""
    warnings.simplefilter("ignore")
    sys.dont_write_bytecode = True  # a library may be imported here for the first time
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    harmless, others = json.load(sys.stdin)
    demo.build_page, training.execute, export._write_graph = reached, reached, reached
    sys.stdin = open(os.devnull)  # transformers asks whether it may run code, and waits  # noqa: SIM115
    for loader, folder in harmless:
        with contextlib.suppress(Refused, ValueError, LookupError):
            DOORS[loader](Path(folder))
    found, own = set(), []  # what a call does, and its folders

    def hook(event, arguments):
        if own and (what := forbidden(event, arguments, own)):
            found.add(what)

    sys.addaudithook(hook)
    # `importlib.import_module` raises no event of its own: what looks for modules first tells, and finds none.
    finder = SimpleNamespace(find_spec=lambda name, path=None, target=None: hook("import", (name,)))
    for loader, folder in [*harmless, *others]:
        error = []
        found.clear()
        sys.meta_path.insert(0, finder)
        own[:] = map(os.path.realpath, (Path(folder).parent, os.environ["HF_HOME"], os.environ["TMPDIR"]))
        try:
            text = str(DOORS[loader](Path(folder)))
        except BaseException as raised:
            error, text = [one.__name__ for one in type(raised).__mro__], str(raised)
        own.clear()
        del sys.meta_path[0]
        result = {"error": error, "text": text[:20_000], "forbidden": sorted(found)[:20]}
        print(json.dumps(result), file=answers, flush=True)
    os._exit(0)  # taking down what was imported takes seconds


def forbidden(event, arguments, own):
    """Return in words what an event of `sys.addaudithook` says, if it is something that no checkpoint may cause."""
    if event == "import":
        name = str(arguments[0])
        return "" if name.partition(".")[0] in LAZILY_IMPORTED else f"imported {name}"
    if event == "open":
        is_path = isinstance(arguments[0], str | bytes | os.PathLike)
        place = os.path.realpath(os.fsdecode(arguments[0])) if is_path else ""
        return f"opened {place}" if place.startswith(f"{own[0]}/outside/") else ""
    if event in ("exec", "compile"):
        name = getattr(arguments[0], "co_filename", None) if event == "exec" else arguments[1]
        return f"ran {name}" if any(folder in str(name) for folder in own) else ""
    return f"{event} {arguments!r}"[:200] if event.startswith(FORBIDDEN) else ""


if __name__ == "__main__":
    main()
