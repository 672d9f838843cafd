"""Tiny models with heads, and a stand-in for a trained negation pipeline; the Hub of this machine, for Spaces."""

from functools import cache

import torch
from transformers import AutoTokenizer

from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone, tiny_parser
from hf_localattn.serving.page import TASKS, load_pipe
from tests.hub.conftest import hub

__all__ = ["hub"]

NEGATED = TASKS["negation"].fields[0][1]
CUES = (
    ("multi", ["neither", "nor"], ["He neither spoke", "moved"], "He neither spoke nor moved.", 0.98, 0.91),
    ("affix", ["im"], ["That is", "possible"], "That is impossible.", 0.88, 0.5),
)
"""Type, cue, scope and sentence of what is found in `NEGATED`, with the scores of cue and scope."""


@cache
def loaded(name, task, **fields):
    """An untrained model of a family, with eager attention, and its tokenizer. Shared: leave both as they are."""
    torch.manual_seed(0)
    family = FAMILIES[name]
    head = family.heads[task]
    folder = tiny_backbone(generates=head.can_generate())
    labels = {"id2label": dict(enumerate(["O", "B-PER", "I-PER", "B-LOC"]))} if task == "token-classification" else {}
    model = head.from_backbone(folder, **{**family.tiny_fields, **labels, **fields})
    model.set_attn_implementation("eager")
    parser = {"parser": str(tiny_parser())} if family.parse else {}
    return model.eval(), family.adapt_tokenizer(AutoTokenizer.from_pretrained(folder), model, **parser)


def pipe(name, task, **fields):
    model, tokenizer = loaded(name, task, **fields)
    return load_pipe(task, model, tokenizer=tokenizer)


class Cues:
    """Pipeline "negation" that knows the example of the page, and finds no cue in other texts."""

    def __init__(self):
        self.model, self.tokenizer = loaded("oa-xlnet", "token-classification")

    def __call__(self, text):
        def place(part):
            return {"text": part, "start": text.index(part), "end": text.index(part) + len(part)}

        return [
            {
                "kind": "negation",
                "type": of_type,
                "cue": [*map(place, cue)],
                "scope": [*map(place, scope)],
                "sentence": place(sentence),
                "score": score,
                "scope_score": scope_score,
            }
            for of_type, cue, scope, sentence, score, scope_score in (CUES if text == NEGATED else ())
        ]
