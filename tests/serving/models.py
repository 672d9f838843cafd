"""Tiny models with heads, and a stand-in for a trained negation pipeline."""

from functools import cache

import torch
from transformers import AutoTokenizer

from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone, tiny_parser
from hf_localattn.serving.demo import pipe_of

ENTITIES = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"}


@cache
def loaded(name, task, **fields):
    """An untrained model of a family, with eager attention, and its tokenizer. Shared: leave both as they are."""
    torch.manual_seed(0)
    family = FAMILIES[name]
    head = family.heads[task]
    folder = tiny_backbone(generates=head.can_generate())
    labels = {"id2label": ENTITIES} if task == "token-classification" else {}
    model = head.from_backbone(folder, **{**family.tiny_fields, **labels, **fields})
    model.set_attn_implementation("eager")
    parser = {"parser": str(tiny_parser())} if family.parse else {}
    return model.eval(), family.adapt_tokenizer(AutoTokenizer.from_pretrained(folder), model, **parser)


def pipe(name, task, **fields):
    return pipe_of(task, *loaded(name, task, **fields))


def span(text, part):
    start = text.index(part)
    return {"text": part, "start": start, "end": start + len(part)}


def find_cues(text):
    """Answer as the pipeline "negation" does, for the widget's example; no cue in other texts."""
    first, second = "He neither spoke nor moved.", "That is impossible."
    if text != f"{first} {second}":
        return []
    neither = {
        "cue": [span(text, "neither"), span(text, "nor")],
        "type": "multi",
        "kind": "negation",
        "score": 0.98,
        "scope": [span(text, "He"), span(text, "spoke"), span(text, "moved")],
        "scope_score": 0.91,
        "sentence": {"start": 0, "end": len(first)},
    }
    affix = {
        "cue": [span(text, "im")],
        "type": "affix",
        "kind": "negation",
        "score": 0.88,
        "scope": [span(text, "That is"), span(text, "possible")],
        "scope_score": 0.5,
        "sentence": {"start": len(first) + 1, "end": len(text)},
    }
    return [neither, affix]


class CuesOfTheExample:
    """Pipeline "negation" with a model that knows one text."""

    model, tokenizer = loaded("oa-xlnet", "token-classification")
    __call__ = staticmethod(find_cues)
