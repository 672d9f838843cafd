"""Metrics as `evaluate` modules that need no network."""

from pathlib import Path

import evaluate


def load_metric(name: str, config_name: str | None = None) -> evaluate.EvaluationModule:
    """Returns a metric of this package, with the interface of the `evaluate` library.

    Args:
        name: a folder beside this file.
        config_name: the variant, of a metric that has some, such as the task for `glue`.

    Raises:
        ValueError: there is no metric of that name, or no such variant of it.
    """
    folder = Path(__file__).parent
    known = sorted(path.parent.name for path in folder.glob("*/*.py") if path.stem == path.parent.name)
    if name not in known:
        raise ValueError(f"no metric {name!r}; there are {', '.join(known)}.")
    # by path: a bare name would be looked up on the Hub; in memory: nothing to lock or to clean up
    return evaluate.load(str(folder / name / f"{name}.py"), config_name, keep_in_memory=True)
