"""Checkpoints that one environment saves and another one loads without the package.

Usage, with the Python of each environment: python -m tests.other_versions save FOLDER; then, from another folder,
python -P PATH/tests/other_versions.py load FOLDER.
"""

import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoTokenizer

TEXT = "Mira is not the baker."
IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])


def save(folder):
    """Save a tiny model for each family and head, a generator, and the families' tokenizers, with their answers."""
    from hf_localattn.registry import AUTO_CLASSES, FAMILIES
    from hf_localattn.resources import tiny_backbone
    from tests.models.test_generation import tiny_generator
    from tests.models.tiny import ENCODER_HEADS, adapted, tiny_model

    models = {"generation": ("AutoModelForSeq2SeqLM", tiny_generator("bart"))}
    for name in FAMILIES:
        models[name] = ("AutoModel", tiny_model(name))
        for task in set(ENCODER_HEADS[name]) - {"multiple-choice"}:
            models[f"{name} {task}"] = (AUTO_CLASSES[task].__name__, tiny_model(name, task))
    cases = []
    for name, (auto_class, model) in models.items():
        model.save_pretrained(folder / name)
        inputs = {"input_ids": IDS} if name == "generation" else adapted(model, input_ids=IDS)
        cases.append((name, auto_class, inputs, answer(model, inputs)))
    tokenizers = []
    for name, family in FAMILIES.items():
        if family.tokenizer is not None:
            settings = {"parser": None} if "parser" in family.tokenizer.SETTINGS else {}
            backbone = AutoTokenizer.from_pretrained(tiny_backbone())
            tokenizer = family.tokenizer.from_backbone(backbone, **settings)
            inputs = {"text": TEXT}
            if settings:
                inputs = {"text": TEXT.split(), "is_split_into_words": True, "heads": [4] * 5}
            tokenizer.save_pretrained(folder / f"{name} tokenizer")
            tokenizers.append((f"{name} tokenizer", inputs, dict(tokenizer(**inputs))))
    torch.save({"models": cases, "tokenizers": tokenizers}, folder / "cases.pt")


def answer(model, inputs):
    """Return what a model gives: generated ids, or its tensors."""
    with torch.no_grad():
        if "Generation" in type(model).__name__:
            return {"ids": model.generate(**inputs, num_beams=2, max_new_tokens=20)}
        return {name: value for name, value in model(**inputs).items() if torch.is_tensor(value)}


def load(folder):
    """Load all of it where the package cannot be imported, and compare the answers."""
    sys.modules["hf_localattn"] = None
    cases = torch.load(folder / "cases.pt")
    for name, auto_class, inputs, expected in cases["models"]:
        made = getattr(transformers, auto_class).from_pretrained(folder / name, trust_remote_code=True)
        for key, value in answer(made, inputs).items():
            torch.testing.assert_close(
                value, expected[key], rtol=1e-6, atol=1e-6, msg=lambda text, of=name: f"{of}: {text}"
            )
    for name, inputs, expected in cases["tokenizers"]:
        assert dict(AutoTokenizer.from_pretrained(folder / name, trust_remote_code=True)(**inputs)) == expected, name
    print(f"{len(cases['models'])} models and {len(cases['tokenizers'])} tokenizers give the same")


if __name__ == "__main__":
    {"save": save, "load": load}[sys.argv[1]](Path(sys.argv[2]).resolve())
