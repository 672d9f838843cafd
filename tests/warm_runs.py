"""A run of a script, for what the first one of a process does once: imports, tables of patterns, templates."""

import contextlib
import io
import logging
import tempfile

import optuna
import torchmetrics.text  # noqa: F401
import typer.main  # noqa: F401

from hf_localattn.studies.command import run_task
from hf_localattn.tasks import TextClassification

OPTIONS = {
    **{"family": "cool", "backbone": "tiny", "local_config": ["conv_filters=4"], "max_steps": 1, "use_cpu": True},
    **{"max_seq_length": 16},
    **{"train_file": "sample:reviews.csv", "validation_file": "sample:reviews.csv", "disable_tqdm": True},
    **{"do_train": True, "do_eval": True, "report_to": "none"},
}

with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    run_task(TextClassification, {**OPTIONS, "output_dir": folder})
logging.getLogger().handlers.clear()  # what this process prints is not what its forks print
optuna.create_study(storage="sqlite:///:memory:")
