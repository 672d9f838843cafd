"""The calls that people load strangers' checkpoints with; and calls that do what no loader may (`fakes`)."""

import importlib
import pickle
import socket
import subprocess
import sys

import spacy  # noqa: F401 (looking for a parser imports it)
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from hf_localattn import CoolConfig, CoolModel, OaXLNetTokenizer, SlaBertTokenizer
from hf_localattn.hub import write_card
from hf_localattn.pretrained import load_tokenizer

TEXT = "The [CUE] baker sees no white roses."


def run_model(auto_class):
    """Return a call that loads a model and makes a forward pass."""

    def call(folder):
        loaded, ids = auto_class.from_pretrained(folder), torch.tensor([[5, 6, 7, 8, 9]])
        further = {"word_index": torch.tensor([[-1, 0, 1, 2, -1]]), "dep_heads": torch.tensor([[-1, 1, 1, 2, -1]])}
        further |= {"query_mask": torch.tensor([[0, 1, 0, 0, 0]])}
        needed = {name: further[name] for name in loaded.config.required_inputs}
        return loaded(ids, attention_mask=torch.ones_like(ids), **needed)[0].shape

    return call


LOADERS = {
    "config": AutoConfig.from_pretrained,
    "own_config": CoolConfig.from_pretrained,
    "built_tokenizer": AutoTokenizer.from_pretrained,
    "plain_tokenizer": lambda folder: AutoTokenizer.from_pretrained(folder)(TEXT),
    "sla_tokenizer": lambda folder: SlaBertTokenizer.from_pretrained(folder)(TEXT),
    "oa_tokenizer": lambda folder: OaXLNetTokenizer.from_pretrained(folder)(TEXT),
    "checked_tokenizer": lambda folder: load_tokenizer(str(folder))(TEXT),
    "model": run_model(AutoModel),
    "own_model": run_model(CoolModel),
    "classifier": run_model(AutoModelForSequenceClassification),
    "generator": lambda folder: AutoModelForSeq2SeqLM.from_pretrained(folder).generate(torch.tensor([[5, 6]])),
    "card": lambda folder: write_card(folder).read_text(encoding="utf-8"),
}


def imports_a_file(folder):
    sys.path.insert(0, str(folder))
    import cool_convolution  # noqa: F401


def runs_a_file(folder):
    exec(compile((folder / "cool_convolution.py").read_text(), folder / "cool_convolution.py", "exec"), {})


FAKES = {
    "imports a module": (lambda folder: importlib.import_module("this"), "imported this"),
    "imports a file": (imports_a_file, "imported cool_convolution|ran .*cool_convolution.py"),
    "runs a file": (runs_a_file, "ran .*cool_convolution.py"),
    "connects": (lambda folder: socket.socket().connect_ex(("127.0.0.1", 9)), "socket.connect"),
    "starts a program": (lambda folder: subprocess.run(["true"], check=True), "subprocess.Popen"),
    "unpickles": (lambda folder: pickle.loads(b"cos\ngetcwd\n(tR."), "pickle.find_class"),
}
"""Were one of these not found out, the other results would say nothing."""

LOADERS |= {name: call for name, (call, _) in FAKES.items()}
