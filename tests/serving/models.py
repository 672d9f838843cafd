"""Tiny models with heads, and a stand-in for a trained negation pipeline."""

from functools import cache

import torch
from transformers import AutoTokenizer

from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone, tiny_parser
from hf_localattn.serving.page import load_pipe

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
    model, tokenizer = loaded(name, task, **fields)
    return load_pipe(task, model, tokenizer=tokenizer)


class Cues:
    """Pipeline "negation" that knows the example of the page, and finds no cue in other texts."""

    FIRST, SECOND = "He neither spoke nor moved.", "That is impossible."

    def __init__(self):
        self.model, self.tokenizer = loaded("oa-xlnet", "token-classification")

    def __call__(self, text):
        if text != f"{self.FIRST} {self.SECOND}":
            return []

        def found(cue, scope, sentence, **scores):
            parts = ([{"text": one, **place(one)} for one in several] for several in (cue, scope))
            return {**dict(zip(("cue", "scope"), parts, strict=True)), "sentence": place(sentence), **scores}

        def place(part):
            return {"start": text.index(part), "end": text.index(part) + len(part)}

        multi = {"kind": "negation", "type": "multi", "score": 0.98, "scope_score": 0.91}
        affix = {"kind": "negation", "type": "affix", "score": 0.88, "scope_score": 0.5}
        return [
            found(["neither", "nor"], ["He neither spoke", "moved"], self.FIRST, **multi),
            found(["im"], ["That is", "possible"], self.SECOND, **affix),
        ]
