"""Tiny models with heads, as pipelines or as what the page takes for one; the Hub of this machine, for Spaces."""

from functools import cache

import torch
from transformers import AutoTokenizer

from hf_localattn.families import FAMILIES
from hf_localattn.resources import tiny_backbone, tiny_parser
from hf_localattn.serving.page import load_pipe
from tests.hub.conftest import hub
from tests.models.test_pipeline_negation import TOKENIZER, RuleModel

__all__ = ["hub"]


@cache
def loaded(name, task, **fields):
    """An untrained model of a family, with eager attention, and its tokenizer. Shared: leave both as they are."""
    torch.manual_seed(0)
    family = FAMILIES[name]
    head = family.heads[task]
    folder = tiny_backbone(generates=head.can_generate())
    labels = {"id2label": dict(enumerate(["O", "B-PER", "I-PER", "B-LOC"]))} if task == "token-classification" else {}
    model = head.from_backbone(folder, **{**family.facts.tiny_fields, **labels, **fields})
    model.set_attn_implementation("eager")
    parser = {"parser": str(tiny_parser())} if family.parse else {}
    return model.eval(), family.adapt_tokenizer(AutoTokenizer.from_pretrained(folder), model, **parser)


def pipe(name, task, **fields):
    """What the page asks. The model for "negation" follows rules."""
    if task == "negation":
        model, tokenizer = RuleModel.of(TOKENIZER), TOKENIZER
        model.set_attn_implementation("eager")
    else:
        model, tokenizer = loaded(name, task, **fields)
    return load_pipe(task, model, tokenizer=tokenizer)
