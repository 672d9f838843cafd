"""States of an encoder that the layers on top of it read: the last layer, several, or a mix of all."""

import pytest
import torch

from hf_localattn import CoolConfig, CoolModel, SamRobertaModel
from hf_localattn.models.modeling_on_encoder import LayerMix
from tests.models.naive import EqualsLoop, assert_same, random_states, randomized
from tests.models.tiny import FAMILIES, backbones_of, gradients, main_outputs, run, tiny_model, token_ids
from tests.reference import encoder_states as reference

LAYERS, SIZE = 3, 5
ON_ENCODER = [name for name, family in FAMILIES.items() if name != "sla-bert"]
MASK = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6])
INPUTS = {"input_ids": token_ids(3, 11), "attention_mask": MASK}


class TestLayerMix(EqualsLoop):
    """Padding is mixed like tokens."""

    cases = ("mix",)
    scales = (1, 300)

    def build(self, case):
        return randomized(LayerMix(LAYERS))

    def inputs(self, case, shape):
        return [random_states(*shape, LAYERS * SIZE)]

    def run(self, module, inputs, masks):
        return module(*inputs)

    def loop(self, module, case, rows, reals):
        return reference.layer_mix(rows[0].split(SIZE, dim=-1), module.layer_scores, module.scale)


@pytest.mark.parametrize("backbone", backbones_of("cool", "headless"))
def test_each_backbone_has_the_states_of_all_its_layers(backbone):
    """The last is that which `encoder_states="last"` reads, to the last bit; several are put side by side."""
    usual = tiny_model("cool", backbone=backbone, local_attention="none")
    every = run(usual, **INPUTS, output_hidden_states=True).hidden_states
    last = run(usual, **INPUTS).last_hidden_state
    for chosen, expected in {(-1,): [last], (0, -2, -1): [every[0], every[-2], last]}.items():
        model = tiny_model("cool", backbone=backbone, local_attention="none", encoder_states=list(chosen))
        model.load_state_dict(usual.state_dict())
        assert torch.equal(run(model, **INPUTS).last_hidden_state, torch.cat(expected, dim=-1))
    model = tiny_model("cool", backbone=backbone, local_attention="none", encoder_states="all")
    model.load_state_dict(usual.state_dict())
    assert torch.equal(run(model, **INPUTS).last_hidden_state, torch.cat([*every[:-1], last], dim=-1))


@pytest.mark.parametrize("states", ["mix", [1, -1]], ids=str)
@pytest.mark.parametrize("name", ON_ENCODER)
def test_hidden_states_are_returned_only_if_they_are_asked_for(name, states):
    model = tiny_model(name, encoder_states=states)
    plain, asked = run(model, **INPUTS), run(model, **INPUTS, output_hidden_states=True)
    assert plain.hidden_states is None
    assert [tuple(one.shape) for one in asked.hidden_states] == [(3, 11, 32)] * 3
    assert_same(main_outputs(plain), main_outputs(asked), 0)
    assert plain.last_hidden_state.shape[-1] == model.config.hidden_size


TRACED = pytest.mark.slow(reason="an export takes seconds; that of the mix shows how states are read in a graph")


@TRACED
@pytest.mark.parametrize("states", ["mix", "all", [0, -1]], ids=str)
def test_states_compile(states):
    model = tiny_model("sam-roberta", "text-classification", pooling="none", encoder_states=states)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    expected = main_outputs(model(**INPUTS))  # before: transformers cannot be traced when it first records states
    assert_same(main_outputs(compiled(**INPUTS)), expected, 1e-6)


@pytest.mark.parametrize("states", ["mix", pytest.param([0, -1], marks=TRACED)], ids=str)
def test_states_export(states):
    model = tiny_model("sam-roberta", "text-classification", pooling="none", encoder_states=states)
    model(**INPUTS)  # transformers cannot be traced when it first records states
    shape = {0: torch.export.Dim("batch", min=2, max=16), 1: torch.export.Dim("length", min=2, max=40)}
    program = torch.export.export(model, (), INPUTS, dynamic_shapes=dict.fromkeys(INPUTS, shape))
    others = {"input_ids": token_ids(5, 6), "attention_mask": torch.ones(5, 6, dtype=torch.long)}
    assert_same(main_outputs(program.module()(**others)), main_outputs(model(**others)), 1e-6)


def test_a_mix_of_a_frozen_encoder_is_trained_with_the_new_layers():
    model = tiny_model("sam-roberta", "token-classification", freeze_backbone=True, encoder_states="mix")
    found = gradients(model.train(), "token-classification", **INPUTS)
    assert found["sam.layer_mix.layer_scores"].any()
    assert found["sam.layer_mix.scale"].any()
    assert not any("backbone" in name for name in found)
    assert "sam.layer_mix" in model.new_modules()


def test_a_family_without_layers_on_top_is_refused():
    with pytest.raises(ValueError, match="`encoder_states` is 'mix', but SlaBertModel"):
        tiny_model("sla-bert", encoder_states="mix")


def test_a_backbone_without_states_of_its_layers_is_refused(tmp_path):
    """Reformer's layers are reversible: it has two states of each."""
    sizes = {"hidden_size": 32, "vocab_size": 59, "axial_pos_embds": False, "attn_layers": ["local", "local"]}
    config = CoolConfig(backbone_config={"model_type": "reformer", **sizes}, encoder_states="mix")
    model = CoolModel(config)
    with pytest.raises(ValueError, match="`encoder_states` to 'last'"):
        model(**INPUTS)
    model.backbone_model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="`encoder_states` to 'last'"):
        SamRobertaModel.from_backbone(tmp_path, encoder_states=[0, 1])
