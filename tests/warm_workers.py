"""Worker processes that are forked from the tests' own, whose imports they have: those alone take ten seconds.

In place of a worker stands a small program that hands its pipes to the fork, and ends as the fork does.
"""

from __future__ import annotations

import os
import runpy
import signal
import socket
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

STAND_IN = """
import os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [f"{sys.argv[2]} {os.getcwd()}".encode()], [0, 1, 2])
    os.close(0)
    os.close(1)
    code = int(server.recv(16))
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@contextmanager
def warm_workers() -> Iterator[tuple[str, ...]]:
    """Start the process that forks; yield a command that takes the name of a module to run as a worker."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/socket"  # that of a test would be too long for one
        listener.bind(path)
        listener.listen()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: those of pytest-xdist only wait
            server = os.fork()
        if not server:
            _serve(listener)
        yield (sys.executable, "-I", "-S", "-c", STAND_IN, path)
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


def _serve(listener: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        with connection:
            order, pipes, *_ = socket.recv_fds(connection, 4096, 3)
            if not os.fork():
                _tell_the_end(connection, *order.decode().split(" ", 1), pipes)
            for pipe in pipes:
                os.close(pipe)


def _tell_the_end(connection: socket.socket, module: str, folder: str, pipes: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    worker = os.fork()
    if not worker:
        connection.close()
        _work(module, folder, pipes)
    for pipe in pipes:
        os.close(pipe)
    connection.send(str(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])).encode())
    os._exit(0)


def _work(module: str, folder: str, pipes: list[int]) -> None:
    code = 1
    try:
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
            os.close(pipe)
        sys.stdin, sys.stdout, sys.stderr = map(os.fdopen, range(3), "rww")
        os.chdir(folder)
        runpy.run_module(module, run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
