"""transformers' own tests of its models, run on every class of every family.

`make test-common` brings transformers' source and runs them. Each test that does not pass is in `exclusions.py`, with
its reason. It is run nevertheless: once it passes, its line there is an error. What the backbone cannot do either is
shown by transformers' own class for the same task, on which the same test has to fail, or to be skipped, too.
"""

import functools
import os
import unittest
import unittest.mock
from contextlib import nullcontext

import pytest
import torch
from transformers.models.auto import get_values

from hf_localattn import CoolConfig
from hf_localattn.models.modeling_local_attention import LocalAttentionPreTrainedModel
from hf_localattn.registry import AUTO_CLASSES, FAMILIES
from tests.models.test_generation import IDS, SILENT
from tests.models.tiny import CASES, TOKEN_INPUTS, VOCABULARY, backbones_of, tiny_config
from tests.qa_helpers import GENERATORS
from tests.transformers_common.exclusions import reason_for
from tests.transformers_common.source import VARIABLE, import_common_tests

if VARIABLE not in os.environ:
    pytest.skip(f"transformers' tests are not in its wheel: {VARIABLE} names none", allow_module_level=True)

pytestmark = pytest.mark.common(reason="transformers' own tests, some thousands; their source has to be fetched")

common, GenerationTesterMixin = import_common_tests()

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
    hidden_size, num_hidden_layers, num_attention_heads = 32, 2, 2

    def __init__(self, case):
        self.case = case
        self.is_encoder_decoder = case.is_encoder_decoder
        self.vocab_size = VOCABULARY

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
            # By this transformers' tests of generation ask a class what its backbone decides.
            (stock,) = suite(*self.suite, is_stock=True).all_model_classes
            self.all_model_classes[0]._can_compile_fullgraph = stock._can_compile_fullgraph
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
    bases = (Common, common.ModelTesterMixin, *((GenerationTesterMixin,) if generates else ()))
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
    """Hold a test to the table of exclusions."""
    reason = reason_for(of, test.__name__)

    @functools.wraps(test)
    def run(self):
        try:
            test(self)
            outcome = None
        except unittest.SkipTest as skip:
            outcome = f"skips itself ({skip})"
        except Exception as error:
            if reason is None or reason.startswith("needs "):
                raise
            outcome = f"fails ({error})"
        if reason is None:
            assert outcome is None, f"{outcome}, and exclusions.py gives no reason"
            return
        if reason.startswith("needs ") and outcome is None:
            return
        assert outcome is not None, f"passes, but exclusions.py says: {reason}"
        if reason.startswith("the backbone"):
            result = unittest.TestResult()
            suite(*of, is_stock=True)(test.__name__).run(result)
            assert result.skipped or not result.wasSuccessful(), f"{outcome}; the stock class passes"
        raise unittest.SkipTest(reason)

    if reason is not None and reason.startswith("needs "):
        run.__unittest_skip_why__ = reason
    else:
        vars(run).pop("__unittest_skip__", None)  # it is to be seen that it does
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
