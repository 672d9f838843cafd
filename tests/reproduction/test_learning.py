"""Recipes learn: after seconds of training, the loss on the training rows is far below that of a constant answer."""

import random

import pytest
from transformers import Trainer

from reproduction.corpora import load_corpora
from reproduction.measures import MEASURES
from reproduction.plan import plan, select
from reproduction.tables import load_table, table_names

TRAINED = [
    name for name in table_names() if any(task.script not in MEASURES for task in load_table(name).tasks.values())
]
BOUNDS = {"run_qa": 1.5, "run_qg": 0.5, "run_swag": 0.5, "run_glue": 0.3, "run_ner": 0.6}
BOUNDS |= {"stsb": 1.0, "fce": 0.2, "negation": 0.4}
"""Bounds of the loss by script, or by GLUE task, corpus or task of the script.

The best constant answer has a loss of 2.3 for answers in texts, 3.4 for similarities, 1.4 for endings, 1.1 for kinds
of questions, 0.69 for other classes and for scopes, and 0.40 (FCE) to 0.95 for other labels of words.
"""

STEPS = {"run_qg": 240, "run_ner": 120}
"""Number of training steps by script. Defaults to 60. The wording of questions is learned before what they ask for."""

LOSS = "training_rows_loss"


def loss_of(run, folder):
    """Train, and return the loss on the training rows; the reported one counts, too, where it is of the same rows."""
    study = run.study(folder / run.row.name)
    prepared = (study if run.task.folds is None else study.of_fold(1)).prepare()
    trainer, rows = prepared.trainer, prepared.trainer.train_dataset
    metrics = prepared.execute()
    loader = trainer.get_eval_dataloader(rows)
    # Trainer's own loop: those of this package score answers, which training rows need not have.
    metrics |= Trainer.evaluation_loop(trainer, loader, "", True, metric_key_prefix="training_rows").metrics
    sample = load_corpora()[run.task.corpus].sample
    return max(metrics[loss] for loss in [LOSS, *["eval_loss"] * (sample.get("validation") == sample["train"])])


def train(name, folder, learning_rate="1e-3"):
    """Train rows of a table that are drawn by its name, and return the highest loss and its bound."""
    table, draw = load_table(name), random.Random(name)
    rows = [row.name for row in table.rows.values() if row.family is not None]
    rows = next(iter(table.figure.series.values())) if name == "oa-figure-7" else [draw.choice(rows)]
    task = draw.choice([task for task in table.tasks if table.rows[rows[0]].tasks in (None, [task])])
    script, recipe = table.tasks[task].script, table.rows[rows[0]].recipe(table.tasks[task])
    rates = [name for name in ("learning_rate", "local_learning_rate") if name in recipe]
    arguments = [*(f"{rate}={learning_rate}" for rate in rates), f"max_steps={STEPS.get(script, 60)}"]
    arguments += ["per_device_train_batch_size=8", *["max_seq_length=64", "doc_stride=16"] * (script == "run_qa")]
    arguments += ["early_stopping_patience=null"] * ("early_stopping_patience" in recipe)
    given = {"rows": rows, "tasks": [task], "data": ["samples"], "args": arguments, "num_runs": 1}
    selection = select(name, **given, max_samples=16, backbone="tiny", parser="tiny", test_corpora=())
    kinds = (recipe.get("task_name"), task, script)
    return max(loss_of(one, folder) for one in plan(selection)), next(BOUNDS[kind] for kind in kinds if kind in BOUNDS)


@pytest.mark.slow(reason="trains a model for each table, for some seconds")
@pytest.mark.parametrize("table", TRAINED)
def test_a_table_learns(table, tmp_path):
    loss, bound = train(table, tmp_path)
    assert loss < bound


@pytest.mark.slow(reason="trains a model, for some seconds")
def test_a_table_that_does_not_learn_is_found(tmp_path):
    loss, bound = train("oa-6", tmp_path, learning_rate="0.0")
    assert loss > bound
