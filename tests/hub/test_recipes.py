"""A checkpoint of each recipe, where the package is not installed."""

import torch

from hf_localattn import tasks
from hf_localattn.families import AUTO_CLASSES
from hf_localattn.names import SCRIPTS
from hf_localattn.settings.recipes import MODEL, recipes_of
from hf_localattn.training.arguments import ModelArguments, TrainingArguments
from hf_localattn.training.models import load_model_and_tokenizer
from tests.fresh_process import run_fresh
from tests.models.tiny import token_ids

PROGRAM = """
import sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
import torch, transformers

for name, (auto_class, inputs, expected) in torch.load("case.pt").items():
    model = getattr(transformers, auto_class).from_pretrained(name, trust_remote_code=True)
    with torch.no_grad():
        logits = model(**inputs)[0]
    torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)
    print(name)
"""


def test_checkpoints_of_recipes_load_without_the_package(tmp_path):
    case = {}
    for script, task in SCRIPTS.items():
        model_task = getattr(tasks, task).model_task
        for recipe in recipes_of(script):
            options = {name: recipe.options[name] for name in MODEL if name in recipe.options}
            arguments = ModelArguments(**options, backbone="tiny")
            training_args = TrainingArguments(str(tmp_path / "out"), use_cpu=True)
            model, tokenizer = load_model_and_tokenizer(model_task, arguments, training_args)
            shape = (1, 2, 9) if model_task == "multiple-choice" else (2, 9)
            inputs = {"input_ids": token_ids(2, 9).reshape(shape)}
            with torch.no_grad():
                case[recipe.name] = AUTO_CLASSES[model_task].__name__, inputs, model.eval()(**inputs)[0]
            model.save_pretrained(tmp_path / recipe.name)
            tokenizer.save_pretrained(tmp_path / recipe.name)
    torch.save(case, tmp_path / "case.pt")
    done = run_fresh(PROGRAM, tmp_path)
    assert done.stdout.split() == [*case], done.stderr
