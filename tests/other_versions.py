"""Checkpoints that one environment saves and another one loads without the package (`make test-versions`).

Usage, with the Python of each environment: python -m tests.other_versions save FOLDER; then, from another folder,
python -P PATH/tests/other_versions.py load FOLDER.
"""

import json
import math
import sys
from pathlib import Path

import torch
import transformers
from transformers import pipeline

TEXT = "Mira is not the baker."
IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])
TOLERANCE = 1e-5


def save(folder):
    """Save tiny models of all families and heads, generators, tokenizers and pipelines, with what they answer."""
    site(folder)
    cases = []
    for name, loader, part, inputs in parts():
        name = name.replace("-", "_")  # transformers warns of code in a folder that is no identifier
        part.save_pretrained(folder / name)
        cases.append((name, loader, inputs, answer(part, inputs)))
    for name, task, inputs, settings in saved_pipelines(folder):
        run = pipeline(task, model=str(folder / name), device="cpu")
        cases.append((name, task, [inputs, settings], answer(run, [inputs, settings])))
    torch.save(cases, folder / "cases.pt")
    print(f"{len(cases)} parts in {folder}")


def site(folder):
    """Install a tiny parser in the folder, and let it be found."""
    from tests.models.test_pipelines import PARSER
    from tests.tiny_parser import install_pipeline, tiny_parser

    (folder / "site").mkdir(parents=True)
    install_pipeline(folder / "site", PARSER, str(tiny_parser()))
    sys.path.insert(0, str(folder / "site"))


def parts():
    """Yield models and tokenizers: a name, the Auto class that loads it, the part, and its inputs."""
    from hf_localattn.families import AUTO_CLASSES, FAMILIES
    from tests.models.test_generation import tiny_generator
    from tests.models.test_tokenizers import KINDS, TOKENIZERS, backbone_of
    from tests.models.tiny import ENCODER_HEADS, adapted, tiny_model
    from tests.qa_helpers import GENERATORS

    for backbone in GENERATORS:
        yield f"generation_{backbone}", "AutoModelForSeq2SeqLM", tiny_generator(backbone), {"input_ids": IDS}
    for name in FAMILIES:
        for task in ("headless", *ENCODER_HEADS[name]):
            auto_class = "AutoModel" if task == "headless" else AUTO_CLASSES[task].__name__
            model = tiny_model(name, task)
            yield f"{name}_{task}", auto_class, model, adapted(model, input_ids=IDS)
    for name, tokenizer_class in TOKENIZERS.items():
        for kind in KINDS:
            settings = {"parser": None} if FAMILIES[name].parse else {}
            tokenizer = tokenizer_class.from_backbone(backbone_of(kind), **settings)
            inputs = {"text": [TEXT, "Goats!"], "padding": True}
            if settings:
                inputs = {"text": TEXT.split(), "is_split_into_words": True, "heads": [4] * 5}
            yield f"{name}_tokenizer_{kind}", "AutoTokenizer", tokenizer, inputs


def saved_pipelines(folder):
    """Save what pipelines run, and yield the names, tasks, inputs and settings of the pipelines that a model names."""
    from hf_localattn.families import FAMILIES
    from tests.models import test_pipelines

    for family in FAMILIES:
        for head, fields in test_pipelines.NAMED.items():
            name = f"{family}_{head}_pipeline".replace("-", "_")
            test_pipelines.save(family, head, folder / name, marker=head == "token-classification", **fields)
            for task in test_pipelines.named_pipelines(folder / name):
                inputs, settings = test_pipelines.RUNS[task]
                yield name, task, inputs, settings


@torch.no_grad()
def answer(part, inputs):
    """Return what a part gives: ids of generated tokens, tensors, lists of a tokenizer, or results of a pipeline."""
    if isinstance(part, transformers.Pipeline):
        texts, settings = inputs
        return json.loads(json.dumps(part(*texts, **settings, batch_size=4), default=float))
    if isinstance(part, transformers.PreTrainedTokenizerBase):
        return dict(part(**inputs))
    if part.can_generate():
        return {"ids": part.generate(**inputs, num_beams=2, max_new_tokens=20)}
    return {name: value for name, value in part(**inputs).items() if torch.is_tensor(value)}


def load(folder):
    """Load all of it where the package cannot be imported, and compare the answers."""
    sys.modules["hf_localattn"] = None
    sys.path.insert(0, str(folder / "site"))
    cases = torch.load(folder / "cases.pt")
    others = []
    for name, loader, inputs, expected in cases:
        if loader.startswith("Auto"):
            part = getattr(transformers, loader).from_pretrained(folder / name, trust_remote_code=True)
        else:
            part = pipeline(loader, model=str(folder / name), trust_remote_code=True, device="cpu")
        if not is_close(answer(part, inputs), expected):
            others.append(name)
    print(f"{len(cases) - len(others)} of {len(cases)} parts give the same within {TOLERANCE}")
    sys.exit(f"others: {', '.join(others)}" if others else 0)


def is_close(value, expected):
    """Return True if numbers in nested lists and mappings are close, and all else is equal."""
    if isinstance(expected, dict):
        return value.keys() == expected.keys() and all(is_close(value[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(value) == len(expected) and all(map(is_close, value, expected))
    if isinstance(expected, float):
        return math.isclose(value, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if torch.is_tensor(expected):
        return value.shape == expected.shape and torch.allclose(value, expected, rtol=TOLERANCE, atol=TOLERANCE)
    return value == expected


if __name__ == "__main__":
    {"save": save, "load": load}[sys.argv[1]](Path(sys.argv[2]).resolve())
