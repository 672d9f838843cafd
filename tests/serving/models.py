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


def spans(text, *parts):
    return [{"text": part, "start": text.index(part), "end": text.index(part) + len(part)} for part in parts]


class Cues:
    """Pipeline "negation" that knows the example of the page, and finds no cue in other texts."""

    FIRST, SECOND = "He neither spoke nor moved.", "That is impossible."

    def __init__(self):
        self.model, self.tokenizer = loaded("oa-xlnet", "token-classification")

    def __call__(self, text):
        if text != f"{self.FIRST} {self.SECOND}":
            return []
        neither = {"cue": spans(text, "neither", "nor"), "type": "multi", "score": 0.98, "scope_score": 0.91}
        neither |= {
            "scope": spans(text, "He neither spoke", "moved"),
            "sentence": {"start": 0, "end": len(self.FIRST)},
        }
        affix = {"cue": spans(text, "im"), "type": "affix", "score": 0.88, "scope_score": 0.5}
        affix |= {"scope": spans(text, "That is", "possible")}
        affix |= {"sentence": {"start": len(self.FIRST) + 1, "end": len(text)}}
        return [{**one, "kind": "negation"} for one in (neither, affix)]
