"""transformers' own tests of its models, run on every class of every family.

`make test-common` brings the source of transformers, as a wheel has no tests, and runs them. A test has to pass, or to
skip itself on transformers' own class for the same task and backbone, too. All others are in `EXCLUDED`, with their
reasons. They are run nevertheless: once one passes, its line is an error.
"""

import functools
import importlib
import os
import sys
import unittest
import unittest.mock
from contextlib import nullcontext
from fnmatch import fnmatch
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType

import pytest
import torch
from transformers.models.auto import get_values

from hf_localattn import CoolConfig
from hf_localattn.families import AUTO_CLASSES, FAMILIES
from hf_localattn.models.modeling_local_attention import LocalAttentionPreTrainedModel
from tests.models.test_generation import IDS, SILENT
from tests.models.tiny import CASES, TOKEN_INPUTS, VOCABULARY, backbones_of, tiny_config
from tests.qa_helpers import GENERATORS

VARIABLE = "TRANSFORMERS_TESTS"
if VARIABLE not in os.environ:
    pytest.skip(f"transformers' tests are not in its wheel: {VARIABLE} names none", allow_module_level=True)

pytestmark = pytest.mark.common(reason="transformers' own tests, some thousands; their source has to be fetched")


def import_common_tests():
    """Import `test_modeling_common` of transformers' package `tests` under another name: ours is called `tests`, too.

    It imports tests of generation and of export, which the source distribution lacks: they are empty.
    """
    package = "transformers_tests"
    spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [os.path.abspath(os.environ[VARIABLE])]
    sys.modules[package] = module_from_spec(spec)
    for name, mixin in (("exporters.test_export", "Export"), ("generation.test_utils", "Generation")):
        module = sys.modules[f"{package}.{name}"] = ModuleType(name)
        setattr(module, f"{mixin}TesterMixin", type(mixin, (), {}))
    return importlib.import_module(f"{package}.test_modeling_common")


common = import_common_tests()


def set_declared(config, set_all=common.set_config_for_less_flaky_test):
    """Set the epsilons of normalizations that a configuration has: loading refuses entries that nobody declares."""
    before = {*vars(config)}
    set_all(config)
    for name in {*vars(config)} - before:
        delattr(config, name)


common.set_config_for_less_flaky_test = set_declared

GENERATION = "cool/text2text-generation/*"
BART = "cool/text2text-generation/bart"
PROPHETNET = "cool/text2text-generation/prophetnet"
XLNET = "*/*/xlnet"
NO_CHECKPOINTING = (
    "asks the class, which serves many backbones; only the model knows that XLNet has none, and says so "
    "(test_gradients_and_checkpoints)"
)

EXCLUDED = [
    ("*", "test_eager_matches_sdpa_inference_24_*", "asks `forward` for a parameter that ours takes as a keyword"),
    ("*", "test_sdpa_can_dispatch_non_composite_models", "is about models without a backbone's configuration"),
    (
        "*/text-classification/*",
        "test_*load_*mismatched_shapes",
        "expects a `RuntimeError`; ours is a `CheckpointError` of one sentence",
    ),
    ("*/*[!s]/xlnet", "test_training_gradient_checkpointing*", NO_CHECKPOINTING),
    (XLNET, "test_*gradient_checkpointing_[be]*", NO_CHECKPOINTING),
    (XLNET, "test_enable_input_require_grads_with_gradient_checkpointing", NO_CHECKPOINTING),
    (XLNET, "test_retain_grad_hidden_states_attentions", "the backbone hands out copies of its states"),
    (PROPHETNET, "test_retain_grad_hidden_states_attentions", "the backbone hands out slices of its decoder's states"),
    (PROPHETNET, "test_encoder_decoder_loss_no_double_shift", "the backbone's loss is of several tokens to come"),
    (
        BART,
        "test_attn_implementation_composite_models",
        "sets the attention of the decoder alone, and gives it a copy",
    ),
    (GENERATION, "test_bc_cache_name_forward", "looks for the parameter `cache`, which ours takes as a keyword"),
    (GENERATION, "test_attention_outputs", "counts the outputs; ours has one more, `local_attentions`"),
    (GENERATION, "test_model_base_model_prefix", "asks for a headless model inside; the backbone inside is whole"),
]
"""Suites (family, task, backbone) and tests that do not pass. Where it is the backbone, the class of
transformers does not pass, either."""

SUITES = [
    *((name, task, backbones_of(name, task)[0]) for name, task in CASES),
    # XLNet, the default of this family, itself cannot do much of what is tested.
    *((name, task, "bert") for name, task in CASES if name == "oa-xlnet" and "xlnet" in backbones_of(name, task)),
    *(("cool", "text2text-generation", backbone) for backbone in ("bart", "prophetnet")),
]


def generator_config(backbone):
    backbone_config = {"model_type": backbone, **IDS, **SILENT, **GENERATORS[backbone]}
    return CoolConfig(backbone_config=backbone_config, conv_filters=5)


class Inputs:
    """Configurations and inputs, as transformers' tests ask for them."""

    batch_size, seq_length, num_choices = 3, 7, 2
    is_training = True
    num_hidden_layers, num_attention_heads = 2, 2

    def __init__(self, case):
        self.case = case
        self.is_encoder_decoder = case.is_encoder_decoder
        self.vocab_size = VOCABULARY
        config = self.get_config()
        self.hidden_size = getattr(config, "backbone_config", config).hidden_size

    def get_config(self):
        name, task, backbone = self.case.suite
        generates = task == "text2text-generation"
        config = generator_config(backbone) if generates else tiny_config(name, backbone)
        return config.backbone_config if self.case.is_stock else config

    def prepare_config_and_inputs_for_common(self):
        name, _, _ = self.case.suite
        shape = (self.batch_size, self.seq_length)
        inputs = {
            "input_ids": common.ids_tensor(shape, VOCABULARY - 7) + 7,
            "attention_mask": torch.ones(shape, dtype=torch.long),
        }
        if self.is_encoder_decoder:
            inputs["decoder_input_ids"] = common.ids_tensor(shape, VOCABULARY - 7) + 7
            inputs["decoder_attention_mask"] = torch.ones(shape, dtype=torch.long)
        elif name in TOKEN_INPUTS and not self.case.is_stock:
            inputs |= TOKEN_INPUTS[name](inputs["attention_mask"])
        return self.get_config(), inputs


class Common:
    """A class of ours, or transformers' own of the same task, under transformers' tests."""

    test_resize_embeddings = True
    is_stock = False

    def setUp(self):
        self.model_tester = Inputs(self)
        if not self.is_stock:
            # Some tests make inputs of their own, which lack what a family takes for each token.
            patch = unittest.mock.patch.object(LocalAttentionPreTrainedModel, "__call__", call_with_token_inputs)
            patch.start()
            self.addCleanup(patch.stop)

    def _prepare_for_class(self, *args, **kwargs):
        inputs = super()._prepare_for_class(*args, **kwargs)
        if inputs["input_ids"].dim() == 3:
            # All choices are the same text: without dropout their gradients would cancel.
            inputs["input_ids"][:, 1] = inputs["input_ids"][:, 1].roll(1, 0)
        return inputs

    def subTest(self, *args, **kwargs):
        return nullcontext()  # a failure ends the test


def call_with_token_inputs(model, *args, **inputs):
    """Call a model, with the inputs for each token that its family takes, where they are missing."""
    given = args[0] if args else inputs.get("input_ids", inputs.get("inputs_embeds"))
    if given is not None and model.token_inputs and not inputs.keys() & set(model.token_inputs):
        shape = given.shape[:-1] if given.is_floating_point() else given.shape
        mask = inputs.get("attention_mask")
        mask = torch.ones(shape) if mask is None else mask
        made = TOKEN_INPUTS[model.config.model_type](mask.reshape(-1, shape[-1]).cpu())
        inputs |= {name: value.view(shape).to(given.device) for name, value in made.items()}
    return torch.nn.Module.__call__(model, *args, **inputs)


def suite(name, task, backbone, is_stock=False):
    """Return the test case of one class."""
    generates = task == "text2text-generation"
    if is_stock:
        config = generator_config(backbone) if generates else tiny_config(name, backbone)
        auto = common.AutoModel if task == "headless" else AUTO_CLASSES[task]
        model_class = auto._model_mapping[type(config.backbone_config)]
        model_class = model_class[0] if isinstance(model_class, tuple) else model_class
    else:
        model_class = FAMILIES[name].model if task == "headless" else FAMILIES[name].heads[task]
    bases = (Common, common.ModelTesterMixin, *((common.GenerationTesterMixin,) if generates else ()))
    fields = {
        "all_model_classes": (model_class,),
        "suite": (name, task, backbone),
        "is_stock": is_stock,
        "is_encoder_decoder": generates,
        "_is_composite": not is_stock,
        "test_can_init_all_missing_weights_before_2023": True,
        "__module__": __name__,
    }
    made = type(f"{model_class.__name__}On{backbone.title()}Test", (*bases, unittest.TestCase), fields)
    if not is_stock:
        for test in [one for one in dir(made) if one.startswith("test_") and callable(getattr(made, one))]:
            setattr(made, test, checked(getattr(made, test), made.suite))
    return made


def checked(test, of):
    """Hold a test to `EXCLUDED`, and to the outcome of transformers' own class."""
    name = "/".join(of)
    reasons = (why for one, tests, why in EXCLUDED if fnmatch(name, one) and fnmatch(test.__name__, tests))
    reason = next(reasons, None)

    @functools.wraps(test)
    def run(self):
        try:
            test(self)
            outcome = None
        except unittest.SkipTest as skip:
            outcome = f"skips itself ({skip})"
        except Exception as error:
            if reason is None:
                raise
            outcome = f"fails ({error})"
        if outcome is None:
            assert reason is None, f"passes, but is excluded: {reason}"
            return
        stock = unittest.TestResult()
        suite(*of, is_stock=True)(test.__name__).run(stock)
        if not (outcome.startswith("skips") and stock.skipped):
            assert reason is not None, f"{outcome}; transformers' own class does not, and nothing excludes it"
            assert not reason.startswith("the backbone") or not stock.wasSuccessful(), "the stock class passes"
        raise unittest.SkipTest(reason or outcome)

    return run


STAND_INS = {}
"""Names of our classes, with those of transformers' own of the same tasks."""

for _suite in SUITES:
    _made = suite(*_suite)
    globals()[_made.__name__] = _made
    STAND_INS[_made.all_model_classes[0].__name__] = suite(*_suite, is_stock=True).all_model_classes[0].__name__


def class_names(mapping):
    """The classes of a task by name, ours among them, by which transformers' tests know what inputs a class takes."""
    names = get_values(mapping)
    return [*names, *(ours for ours, stock in STAND_INS.items() if stock in names)]


common.get_values = class_names
del _suite, _made  # or the last one is collected twice
