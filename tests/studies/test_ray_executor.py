"""Jobs on a Ray cluster of this machine; what they run is light."""

import os
import re
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from hf_localattn.studies import ray_executor
from hf_localattn.studies.executors import Job, TrialFailed
from hf_localattn.studies.ray_executor import RayCluster
from hf_localattn.studies.results import settings_of
from hf_localattn.studies.trial import Trial
from hf_localattn.tasks import DataArguments
from hf_localattn.training.arguments import ModelArguments, TrainingArguments

needs_ray = pytest.mark.cluster(reason="needs the extra `cluster`, and starts Ray")


@pytest.fixture
def cluster(monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra `cluster`")

    # Inside of a function, so that it is sent as it is: Ray's processes would import this module with all of torch.
    def run_line(line, folder):
        import json
        import os

        found = json.loads(line)
        path = found["folder"]
        os.makedirs(path, exist_ok=True)
        attempts = len(os.listdir(path))
        open(f"{path}/{attempts}", "w").close()
        if "killed" in path and not attempts:
            os.kill(os.getpid(), 9)
        if "always" in path:
            os.kill(os.getpid(), 9)
        if "fails" in path:
            return {"error": "no such parser", "is_of_setting": True}
        return {"metrics": {"eval_f1": found["trial"]["seed"], "folder": folder, "function": found["function"]}}

    monkeypatch.setattr(ray_executor, "run_line", run_line)
    yield RayCluster("local", 2, use_cpu=True)
    ray.shutdown()


def job(folder, seed=0):
    return Job(Trial("text-classification", {}, {}, {}, seed=seed), Path(folder))


@needs_ray
def test_jobs_end_as_in_workers(cluster, tmp_path):
    names = ("a", "killed", "fails", "always")
    jobs = [job(tmp_path / name, seed) for seed, name in enumerate(names)]
    found = {outcome.job.folder.name: outcome for outcome in cluster.run(iter(jobs))}
    assert found["a"].metrics == {
        "eval_f1": 0,
        "folder": os.getcwd(),
        "function": "hf_localattn.studies.trial:run_trial",
    }
    assert found["killed"].metrics["eval_f1"] == 1
    assert len(os.listdir(tmp_path / "killed")) == 2
    assert re.match("no such parser", str(found["fails"].error))
    assert found["fails"].is_of_setting
    assert isinstance(found["always"].error, TrialFailed)
    assert not found["always"].is_of_setting


def on_two_nodes(line, kind, folder):
    """Say where it runs, and wait for the end of a node that is not the first."""
    import json
    import os
    import time

    import ray

    found, node = json.loads(line), ray.get_runtime_context().get_node_id()
    path = found["folder"]
    os.makedirs(path, exist_ok=True)
    with open(f"{path}/{len(os.listdir(path))}", "w") as file:
        file.write(node)
    with open(f"{folder}/first") as file:
        is_first = file.read() == node
    if not is_first:
        time.sleep(600)
    return {"metrics": {"eval_f1": found["trial"]["seed"]}}


@needs_ray
def test_a_node_that_is_lost_loses_no_trial(tmp_path, monkeypatch):
    """Two nodes are processes of this machine, as Ray's own tests have them; one is killed at its first trial."""
    ray = pytest.importorskip("ray", reason="the extra `cluster`")
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="the extra `cluster`")
    size = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    nodes = cluster_utils.Cluster(initialize_head=True, head_node_args=size)
    second = nodes.add_node(**size)
    (tmp_path / "first").write_text(nodes.head_node.node_id)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_executor, "run_line", _by_value(on_two_nodes))
    lost = []

    def strike():
        until = time.monotonic() + 120
        while not lost and time.monotonic() < until:
            begun = [path for path in tmp_path.glob("trial-*/0") if path.read_text() == second.node_id]
            lost.extend(path.parent.name for path in begun)
            time.sleep(0.05)
        nodes.remove_node(second, allow_graceful=False)

    killer = threading.Thread(target=strike)
    try:
        cluster = RayCluster(nodes.address, use_cpu=True)
        assert cluster.count == 2
        killer.start()
        outcomes = list(cluster.run(job(tmp_path / f"trial-{seed}", seed) for seed in range(4)))
        killer.join()
    finally:
        ray.shutdown()
        nodes.shutdown()
    assert {outcome.job.folder.name: outcome.metrics for outcome in outcomes} == {
        f"trial-{seed}": {"eval_f1": seed} for seed in range(4)
    }
    (again,) = lost
    assert (tmp_path / again / "1").read_text() == (tmp_path / "first").read_text()


def _by_value(function):
    """Return a function that is sent as it is: Ray's processes would import this module with all of torch."""
    names = {"__name__": "__main__", "__builtins__": __builtins__}
    return types.FunctionType(function.__code__, names, function.__name__)


def test_without_ray_nothing_is_begun(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"--ray_address needs ray: run `pip install 'hf_localattn\[cluster\]'`"):
        RayCluster("auto")


def test_the_address_is_no_part_of_a_trial(tmp_path):
    """A study that was begun on one machine goes on on a cluster."""
    given = {"output_dir": str(tmp_path), "use_cpu": True, "report_to": "none"}
    found = [
        settings_of(
            ModelArguments(family="cool", backbone="tiny"),
            DataArguments(train_file="x.csv"),
            TrainingArguments(**given, **more),
        )
        for more in ({}, {"ray_address": "auto", "workers": 4})
    ]
    assert found[0] == found[1]
