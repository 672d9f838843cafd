"""Python where neither this package nor anything of this process is: forked from a process that has torch imported.

In place of each process stands a small program that hands its arguments, surroundings and pipes to the fork, and ends
as the fork does. A command of `bare_python` therefore replaces `sys.executable` in a list of words.

Without the fork each would import torch and transformers, for five seconds of a core. The package itself starts plain
processes. All processes of a run of the tests share what is forked: whoever needs it first starts it.
"""

import atexit
import builtins
import gc
import importlib
import json
import os
import re
import runpy
import select
import socket
import socketserver
import subprocess
import sys
import traceback
import types
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

from filelock import FileLock

STAND_IN = """
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [b"."], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode() + b"\\n")
    os.close(0)
    os.close(1)
    code = int(server.recv(16))
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""

SERVERS = "TESTS_SERVERS"
"""Variable of the environment with the folder of what is forked, also for tests that are run by a test."""

UNTOUCHED = ("hf_localattn", "transformers", "huggingface_hub", "datasets")
"""Packages that read the environment of their process, and the one that is tested."""

PREPARED = ("scipy.stats", "sklearn.linear_model", "sklearn.metrics", "torch._dynamo", "torch.distributed.checkpoint")
PREPARED += ("torch.distributed.tensor", "jinja2", "pydantic", "regex", "safetensors.torch", "tokenizers", "yaml")
"""What transformers and the package import of others."""


def run_fresh(program, folder, *arguments, **environment):
    """Run a Python program in a folder, with a cache of its own there and without a network unless told otherwise."""
    ones = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY", "OMP_NUM_THREADS")
    variables = {**dict.fromkeys(ones, "1"), "HF_HOME": str(folder / "home"), "PATH": ""}
    variables |= {"PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS", ""), **environment}
    command = [*bare_python(), "-I", "-c", program, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


@cache
def bare_python(*modules):
    """A command for Python (`-I`, `-c`, `-m`) with torch and these modules, but none of `UNTOUCHED`, imported."""
    path = os.path.join(os.environ[SERVERS], "-".join(["bare", *modules]))
    users = f"{path}.users"
    python = bare_python() if modules else (sys.executable,)  # which has torch
    with FileLock(f"{path}.lock"):
        if not os.path.exists(users):
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": ""}
            program = [*python, "-I", "-c", Path(__file__).read_text(), str(Path(__file__).parents[1]), path, *modules]
            server = subprocess.Popen(program, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            if not server.stdout.readline():
                raise RuntimeError("the process that forks has ended before its first fork")
            atexit.register(server.wait)
        # Called before the server is waited for; the pipe is closed as well when this process is killed.
        atexit.register(os.close, os.open(users, os.O_WRONLY))
    return (sys.executable, "-I", "-S", "-c", STAND_IN, path)


class Orders(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Forks for each stand-in, until all processes of the tests have closed a pipe."""

    def __init__(self, path):
        super().__init__(path, Order)
        os.mkfifo(f"{path}.users")
        self.users = os.open(f"{path}.users", os.O_RDONLY | os.O_NONBLOCK)

    def has_no_users(self):
        return bool(select.select([self.users], [], [], 0)[0])

    def service_actions(self):
        super().service_actions()
        if not self.has_no_users():
            return
        path = self.server_address
        with FileLock(f"{path}.lock"):
            if self.has_no_users():  # still; whoever comes now starts another
                for name in (path, f"{path}.users"):
                    os.remove(name)
                sys.exit()


class Order(socketserver.StreamRequestHandler):
    """Forks once more, waits, and tells the stand-in how that ended."""

    def handle(self):
        _, pipes, *_ = socket.recv_fds(self.request, 1, 3)
        words, folder, environment = json.loads(self.rfile.readline())
        process = os.fork()
        if not process:
            self.request.close()
            for number, pipe in enumerate(pipes):
                os.dup2(pipe, number)
                os.close(pipe)
            os._exit(exit_code(words, folder, environment))
        for pipe in pipes:
            os.close(pipe)
        self.wfile.write(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())


def exit_code(words, folder, environment):
    """Do what `python` does with these words, in this process."""
    code = 1
    # A server that was forked itself has such files, which must not close the pipes when they are replaced.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        set_warnings(environment.get("PYTHONWARNINGS", ""))
        if words[0] == "-I":
            words = words[1:]
        else:
            sys.path[:0] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        option, program, *arguments = words
        sys.argv = [option, *arguments]
        if option == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.modules["__main__"] = main = types.ModuleType("__main__")
            exec(compile(program, "<string>", "exec"), vars(main))
        code = 0
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        else:
            code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    with suppress(ValueError, OSError):  # the program or its reader has closed them
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def set_warnings(filters):
    """Filter warnings as a new process does by PYTHONWARNINGS."""
    for text in filter(None, filters.split(",")):
        action, message, category = text.split(":")
        warnings.filterwarnings(action, re.escape(message), getattr(builtins, category))


def serve(root, path, *modules):
    for name in PREPARED:
        importlib.import_module(name)
    assert not {*UNTOUCHED} & {*sys.modules}
    if modules:
        sys.path.insert(0, root)
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    with Orders(path) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve(*sys.argv[1:])
