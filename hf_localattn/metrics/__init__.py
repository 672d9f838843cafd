"""Metrics as `evaluate` modules that need no network."""

from pathlib import Path

import evaluate

from hf_localattn.extras import require_train


def load_metric(name: str, config_name: str | None = None) -> evaluate.EvaluationModule:
    """Load a metric of this package, without network access.

    Args:
        name: one of "entities", "error_detection", "error_diagnosis", "generation", "glue", "negation_scope", "squad",
            "squad_v2" and "starsem".
        config_name: configuration of the metric, *optional*. Only "glue" has configurations: its tasks.

    Returns:
        A module of the `evaluate` library. Its `inputs_description` describes its inputs and scores.

    Raises:
        ValueError: there is no metric, or no configuration, with this name.
        ImportError: the extra `train` is not installed.

    Example:
        >>> from hf_localattn.metrics import load_metric
        >>> load_metric("glue", "sst2").compute(predictions=[0, 1, 1, 1], references=[0, 1, 1, 0])
        {'accuracy': 0.75}
    """
    folder = Path(__file__).parent
    known = sorted(path.parent.name for path in folder.glob("*/*.py") if path.stem == path.parent.name)
    if name not in known:
        raise ValueError(f"no metric {name!r}; there are {', '.join(known)}.")
    require_train(f"The metric {name!r}")
    # A path, because names are looked up on the Hub. In memory: no files to lock or to clean up.
    return evaluate.load(str(folder / name / f"{name}.py"), config_name, keep_in_memory=True)
