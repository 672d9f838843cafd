"""Python processes forked from one that has made their imports: the libraries alone take five seconds.

In place of each process stands a small program that hands its arguments, surroundings and pipes to the fork, and ends
as the fork does. A command of `bare_python` or `warm_python` therefore replaces `sys.executable` in a list of words.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

STAND_IN = """
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    order = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(order).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(order)
    os.close(0)
    os.close(1)
    code = int(server.recv(16))
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""

UNTOUCHED = ("hf_localattn", "transformers", "huggingface_hub", "datasets")
"""Packages that read the environment of their process, and the one that is tested."""


@cache
def bare_python() -> tuple[str, ...]:
    """Return a command that runs Python where torch and what it brings are imported, and none of `UNTOUCHED`.

    It takes the options `-I`, `-c` and `-m`. A process of its own forks, so that nothing of the tests' own is there.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-I", __file__]
    server = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    path = server.stdout.readline().strip()
    if not path:
        raise RuntimeError("the process that forks has ended before its first fork")
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # called first; the pipe is closed as well when this process is killed
    return _stand_in(path)


@contextmanager
def warm_python() -> Iterator[tuple[str, ...]]:
    """Fork from the tests' own process, whose imports and environment the new ones have; yield the command."""
    with _listening() as (path, listener):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: those of pytest-xdist only wait
            server = os.fork()
        if not server:
            signal.signal(signal.SIGTERM, _end)
            _serve(listener, is_bare=False)
        yield _stand_in(path)
        os.kill(server, signal.SIGTERM)
        os.waitpid(server, 0)


@contextmanager
def _listening() -> Iterator[tuple[str, socket.socket]]:
    """Listen at a path, which in the folder of a test would be too long for a socket."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/socket"
        listener.bind(path)
        listener.listen()
        yield path, listener


def _stand_in(path: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", STAND_IN, path)


def _serve(listener: socket.socket, is_bare: bool) -> None:
    while not (is_bare and sys.stdin in select.select([listener, sys.stdin], [], [])[0]):
        connection, _ = listener.accept()
        _bury()
        with connection:
            size, pipes, *_ = socket.recv_fds(connection, 8, 3)
            if not os.fork():
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                with connection.makefile("rb") as stream:
                    order = json.loads(stream.read(int.from_bytes(size, "big")))
                _tell_the_end(connection, order, pipes, is_bare)
            for pipe in pipes:
                os.close(pipe)


def _bury() -> None:
    """Wait for the children that have ended, so that their processor time is counted."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _end(*_: object) -> None:
    _bury()
    os._exit(0)


def _tell_the_end(connection: socket.socket, order: list, pipes: list[int], is_bare: bool) -> None:
    process = os.fork()
    if not process:
        connection.close()
        _work(*order, pipes, is_bare)
    for pipe in pipes:
        os.close(pipe)
    connection.send(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())
    os._exit(0)


def _work(words: list[str], folder: str, environment: dict[str, str], pipes: list[int], is_bare: bool) -> None:
    code: object = 1
    try:
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
            os.close(pipe)
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
        os.chdir(folder)
        if is_bare:
            os.environ.clear()
            os.environ.update(environment)
        _run(words, environment if is_bare else {})
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(ValueError, OSError):  # the program or its reader has closed them
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _run(words: list[str], environment: dict[str, str]) -> None:
    """Do what `python` does with these words."""
    if words[0] == "-I":
        words = words[1:]
    elif environment:
        sys.path[:0] = [os.getcwd(), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    option, program, *arguments = words
    sys.argv = [option, *arguments]
    if option == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), vars(main))
    else:
        raise ValueError(f"python {option} is not known here; use -c or -m")


def main() -> None:
    """Import what the programs of tests need, say so in a line, and fork."""
    import gc

    import scipy.stats  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import torch._dynamo
    import torch.distributed.tensor  # noqa: F401

    assert not {*UNTOUCHED} & {*sys.modules}
    gc.collect()
    gc.freeze()
    with _listening() as (path, listener):
        print(path, flush=True)
        _serve(listener, is_bare=True)
        _bury()


if __name__ == "__main__":
    main()
