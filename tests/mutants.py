"""Break the package in one place at a time, and count by room how many of these mutants the tests notice.

It first records which test runs which line, then runs for each mutant the tests of its line. mutmut does not fit: it
rewrites every function, and the code of models is copied into checkpoints. cosmic-ray runs all tests for every mutant.
"""

import argparse
import ast
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hf_localattn"

ROOMS = {
    "mechanisms": (
        "models/cool_*.py",
        "models/oa_*.py",
        "models/sam_*.py",
        "models/sla_[!ap]*.py",
        "models/sla_at*.py",
    ),
    "heads": ("models/modeling_*.py", "models/task_heads.py", "models/masking.py", "models/pipeline_*.py"),
    "tokenizers": ("models/tokenization_*.py", "models/sla_al*.py", "models/sla_p*.py", "models/negation_*.py"),
    "readers": ("data/*.py",),
    "metrics": ("metrics/*.py",),
    "statistics": ("studies/compare.py", "studies/search_space.py", "training/splits.py", "training/run.py"),
}

SWAPS = {
    **{ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in"},
    **{ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is", ast.And: "or", ast.Or: "and"},
    **{ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*"},
}

TIMEOUT = 300
"""Seconds for the tests of a mutant. One that does not end is noticed."""


class Mutant(NamedTuple):
    room: str
    path: Path
    line: int
    start: int
    end: int
    text: str

    def write(self, root):
        source = (ROOT / self.path).read_bytes()
        (root / self.path).write_bytes(source[: self.start] + self.text.encode() + source[self.end :])
        return f"{self.path}:{self.line}: {source[self.start : self.end].decode()!r} -> {self.text!r}"


def mutants(room, path):
    """Yield all mutants of a file: comparisons, arithmetic, conditions and constants, but no types and messages."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node):
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def changed(node, start, end, text):
        return Mutant(room, path.relative_to(ROOT), node.lineno, start, end, text)

    def between(left, operator, right):
        start, end = span(left)[1], span(right)[0]
        gap = source[start:end]
        if type(operator) in SWAPS and b"#" not in gap:
            word = gap.strip(b" ()\n")
            place = start + gap.index(word)
            yield changed(left, place, place + len(word), SWAPS[type(operator)])

    for node in _code(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                yield from between(left, operator, right)
            case ast.BinOp(left=left, op=operator, right=right):
                yield from between(left, operator, right)
            case ast.BoolOp(op=operator, values=values):
                yield from between(values[0], operator, values[1])
            case ast.Constant(value=bool() as value):
                yield changed(node, *span(node), str(not value))
            case ast.Constant(value=int() | float() as value):
                yield changed(node, *span(node), repr(value + 1))
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                start, end = span(test)
                yield changed(test, start, end, f"(not ({source[start:end].decode()}))")


def _code(node):
    """Yield the nodes that are neither types nor parts of a raised error."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            is_type = name in ("annotation", "returns") or isinstance(child, ast.Raise)
            if isinstance(child, ast.AST) and not is_type:
                yield child
                yield from _code(child)


def files_of(room):
    """Return the files of a room, sorted.

    Raises:
        ValueError: There is no file with one of its names.
    """
    files = set()
    for pattern in ROOMS[room]:
        matching = set(PACKAGE.glob(pattern))
        if not matching:
            raise ValueError(f"The room {room!r} names {pattern!r}, but there is no such file: correct `ROOMS`.")
        files |= matching
    return sorted(files)


def draw(count, seed):
    drawn = []
    for room in ROOMS:
        files = files_of(room)
        possible = [mutant for file in files for mutant in mutants(room, file)]
        drawn += random.Random(f"{seed} {room}").sample(possible, count)
    return drawn


def record(arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--cov", "hf_localattn", "--cov-context", "test"]
    code = os.spawnv(os.P_WAIT, sys.executable, [*command, "--cov-report", "", *arguments])
    if code:
        raise SystemExit(f"the tests fail without any mutant (exit code {code})")


def tests_of(mutant):
    """Return the tests that run the line of a mutant; those of its file, if the line runs when it is imported."""
    from coverage import CoverageData

    data = CoverageData(str(ROOT / ".coverage"))
    data.read()
    lines = data.contexts_by_lineno(str(ROOT / mutant.path))
    contexts = [one for one in lines.get(mutant.line, []) if one] or [one for line in lines.values() for one in line]
    return sorted({context.rpartition("|")[0] for context in contexts if context})


def is_noticed(root, tests):
    """Run tests in a copy of the project, in a process forked from this one, which has imported the libraries."""
    process = os.fork()
    if not process:
        import pytest

        os.setsid()
        os.chdir(root)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "hf_localattn")]:
            del sys.modules[name]
        sys.path[:] = [str(root), *(path for path in sys.path if path not in ("", str(ROOT)))]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:cov", *tests])
        os._exit(int(code))
    for _ in range(TIMEOUT * 10):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(0.1)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=25, help="number of mutants of each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recorded", action="store_true", help="use the lines recorded by the last call")
    parser.add_argument("arguments", nargs="*", help="arguments of pytest for the record, after --")
    options = parser.parse_args()
    if not options.recorded:
        record(options.arguments)
    import datasets  # noqa: F401
    import evaluate  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import transformers.pipelines  # noqa: F401

    noticed = dict.fromkeys(ROOMS, 0)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "project")
        skipped = shutil.ignore_patterns(".git", ".venv*", ".hypothesis", ".coverage*", "__pycache__")
        shutil.copytree(ROOT, root, ignore=skipped)
        drawn = draw(options.count, options.seed)
        some = next(filter(None, map(tests_of, drawn)))
        if is_noticed(root, some):
            raise SystemExit("tests fail in a copy of the project without a change")
        for mutant in drawn:
            tests = tests_of(mutant)
            words = mutant.write(root)
            started = time.monotonic()
            found = bool(tests) and is_noticed(root, tests)
            shutil.copyfile(ROOT / mutant.path, root / mutant.path)
            noticed[mutant.room] += found
            result, seconds = "noticed" if found else "SURVIVED" if tests else "NOT RUN", time.monotonic() - started
            print(f"{result} {mutant.room} {words} ({len(tests)} tests, {seconds:.0f} s)", flush=True)
    for room, number in noticed.items():
        print(f"{room}: {number} of {options.count}")


if __name__ == "__main__":
    main()
