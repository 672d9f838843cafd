"""The calls that people load strangers' checkpoints with; each returns some words about what it has loaded."""

import warnings
from pathlib import Path

import optuna  # noqa: F401 (reading a search space imports it)
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
from hf_localattn.cli import run
from hf_localattn.hub import write_card
from hf_localattn.hub.push import check_checkpoint, parser_of, shared_files
from hf_localattn.pretrained import load_tokenizer
from hf_localattn.studies.search_space import read_space
from hf_localattn.training.arguments import ModelArguments
from tests.hostile import fakes

__all__ = ["fakes"]

READ_CODE = ("card", "push")
"""Loaders that compare the code of a checkpoint with the package's: they read it, and run nothing."""

TEXT = "The [CUE] baker sees no white roses."


def config(folder):
    return AutoConfig.from_pretrained(folder)


def own_config(folder):
    return CoolConfig.from_pretrained(folder)


def plain_tokenizer(folder):
    """`AutoTokenizer`, and the first text."""
    return AutoTokenizer.from_pretrained(folder)(TEXT).input_ids


def built_tokenizer(folder):
    """`AutoTokenizer` alone."""
    return type(AutoTokenizer.from_pretrained(folder)).__name__


def sla_tokenizer(folder):
    return SlaBertTokenizer.from_pretrained(folder)(TEXT).input_ids


def oa_tokenizer(folder):
    return OaXLNetTokenizer.from_pretrained(folder)(TEXT).input_ids


def checked_tokenizer(folder):
    """The package's own way."""
    return load_tokenizer(str(folder))(TEXT).input_ids


def model(folder):
    """`AutoModel`, and a forward pass."""
    return _outputs(AutoModel.from_pretrained(folder))


def classifier(folder):
    return _outputs(AutoModelForSequenceClassification.from_pretrained(folder))


def generator(folder):
    return AutoModelForSeq2SeqLM.from_pretrained(folder).generate(torch.tensor([[5, 6, 7]]), max_new_tokens=3)


def own_model(folder):
    return _outputs(CoolModel.from_pretrained(folder))


def card(folder):
    return write_card(folder).read_text(encoding="utf-8")


def push(folder):
    """What is asked and chosen before anything is uploaded."""
    check_checkpoint(folder)
    parser_of(folder)
    write_card(folder)
    return shared_files(folder)


def inspect(folder):
    page = folder / "page.html"
    run(["inspect", str(folder), TEXT, "-o", str(page)])
    return page.read_text(encoding="utf-8")


def search_space(folder):
    (path,) = folder.glob("space.*")
    return read_space(str(path), ModelArguments(family="cool", backbone="tiny"))


def _outputs(loaded):
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    further = {"word_index": torch.tensor([[-1, 0, 1, 2, -1]]), "dep_heads": torch.tensor([[-1, 1, 1, 2, -1]])}
    further |= {"query_mask": torch.tensor([[0, 1, 0, 0, 0]])}
    needed = {name: further[name] for name in loaded.config.required_inputs}
    output = loaded(ids, attention_mask=torch.ones_like(ids), **needed)
    return [list(output[0].shape), bool(output[0].isfinite().all())]


def warm_up(calls):
    """Load harmless checkpoints, so that nothing of what they need is new."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for loader, folder in calls:
        globals()[loader](Path(folder))
