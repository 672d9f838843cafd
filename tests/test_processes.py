"""Two processes on a CPU train as one does: plain `DistributedDataParallel`, `fully_shard`, and a launched script."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.multiprocessing import start_processes
from torch.nn.parallel import DistributedDataParallel

from hf_localattn.families import FAMILIES
from tests.models.tiny import loss, tiny_model, token_ids
from tests.qa_helpers import write_jsonl
from tests.script_helpers import ROOT, load_main
from tests.tiny_parser import tiny_parser

pytestmark = pytest.mark.slow(reason="processes of their own, which import everything, take half a minute")

TASK = "text-classification"
SENTENCE = "The cat sleeps and a small dog saw the red house over the old town ."
LENGTHS = (11, 7, 4, 11)

# What keeps chance out of a run of a script.
SILENT = {
    "cool": ["classifier_dropout=0"],
    "sla-bert": ["syntax_threshold=1"],  # that of the backbone is silent
    "oa-xlnet": ["classifier_dropout=0", "oa_dropout=0"],
    "sam-roberta": ["dropout=0"],
}
SETTINGS = "--task_name rte --do_train --max_steps 3 --logging_steps 1 --max_seq_length 32 --save_strategy no"
SETTINGS += " --use_cpu --ddp_find_unused_parameters false"


def train(model, rows, run_by=None):
    """The losses of two steps on some of the rows of a batch."""
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    inputs = {"input_ids": token_ids(*mask.shape)[rows], "attention_mask": mask[rows]}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        losses.append(loss(model.train(), TASK, run_by, **inputs))
        losses[-1].backward()
        optimizer.step()
    return torch.stack(losses).detach()


def shard(model):
    for module in model.modules():
        if type(module).__name__ in model._no_split_modules:
            fully_shard(module)
    fully_shard(model)


def be_one_of_two(rank, folder):
    """Train every family on half of the batch, both ways; the first process writes down what came of it."""
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    rows = slice(2 * rank, 2 * rank + 2)
    for name in FAMILIES:
        replica, sharded = tiny_model(name, TASK), tiny_model(name, TASK)
        shard(sharded)
        losses = torch.stack([train(replica, rows, DistributedDataParallel(replica)), train(sharded, rows)])
        distributed.all_reduce(losses)
        whole = get_model_state_dict(sharded, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        if rank == 0:
            torch.save(losses / 2, folder / f"{name}.pt")
            replica.save_pretrained(folder / name / "replica")
            sharded.save_pretrained(folder / name / "sharded", state_dict=whole)
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """The folder that two processes have written to."""
    folder = tmp_path_factory.mktemp("processes")
    # Forked from a process that has imported everything and computed nothing.
    multiprocessing.get_context("forkserver").set_forkserver_preload([__name__])
    start_processes(be_one_of_two, (folder,), nprocs=2, start_method="forkserver")
    return folder


@pytest.mark.parametrize("name", FAMILIES)
def test_two_processes_train_and_save_as_one(two_processes, name):
    model = tiny_model(name, TASK)
    expected = train(model, slice(None))
    assert expected[0] != expected[1]
    for losses in torch.load(two_processes / f"{name}.pt"):
        torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-6)
    model.save_pretrained(two_processes / name / "one")
    one, *others = (two_processes / name / way for way in ("one", "replica", "sharded"))
    for folder in others:
        saved = load_file(folder / "model.safetensors")
        torch.testing.assert_close(saved, dict(model.state_dict()), rtol=1e-4, atol=1e-6)
        assert sorted(os.listdir(folder)) == sorted(os.listdir(one)), "its own code"
        assert (folder / "config.json").read_text() == (one / "config.json").read_text()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_launched_script_trains_as_one_process(name, tmp_path):
    words, data = SENTENCE.split(), str(tmp_path / "pairs.jsonl")
    pairs = [(" ".join(words[: n + 2]), " ".join(words[n:])) for n in range(12)]
    write_jsonl(Path(data), [{"sentence1": a, "sentence2": b, "label": n % 2} for n, (a, b) in enumerate(pairs)])
    fields = [*SILENT[name], *([f"parser={tiny_parser()}"] if name == "sla-bert" else [])]
    options = ["--family", name, "--backbone", "tiny", "--local_config", *fields, "--train_file", data]
    options += ["--validation_file", data, *SETTINGS.split()]
    # On a CPU alone `accelerate launch --cpu` starts one process, however many it is told, unless MPI is there.
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launch += ["--main_process_port", "0", str(ROOT / "run_glue.py"), *options, "--output_dir", str(tmp_path / "two")]
    subprocess.run([*launch, "--per_device_train_batch_size", "2"], check=True, cwd=tmp_path)
    load_main("run_glue")([*options, "--output_dir", str(tmp_path / "one"), "--per_device_train_batch_size", "4"])
    logs = [json.loads((tmp_path / run / "trainer_state.json").read_text())["log_history"] for run in ("one", "two")]
    expected, actual = ([step["loss"] for step in log if "loss" in step] for log in logs)
    assert len(expected) == 3
    assert actual == pytest.approx(expected, rel=1e-4)
