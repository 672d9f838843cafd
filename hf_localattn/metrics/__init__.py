"""Metrics as `evaluate` modules that need no network."""

from pathlib import Path

import evaluate


def load_metric(name: str) -> evaluate.EvaluationModule:
    """Returns a metric of this package, with the interface of the `evaluate` library.

    Raises:
        ValueError: there is no metric of that name.
    """
    folder = Path(__file__).parent
    known = sorted(path.parent.name for path in folder.glob("*/*.py") if path.stem == path.parent.name)
    if name not in known:
        raise ValueError(f"no metric {name!r}; there are {', '.join(known)}.")
    # by path: a bare name would be looked up on the Hub; in memory: nothing to lock or to clean up
    return evaluate.load(str(folder / name / f"{name}.py"), keep_in_memory=True)
