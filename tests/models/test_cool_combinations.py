"""COOL's local encoders; what holds for all of them is in test_ablations.py."""

import pytest
import torch
from transformers import AutoConfig, AutoModel

from hf_localattn import CoolConfig, CoolModel
from hf_localattn.models.configuration_cool import LOCAL_ATTENTIONS
from tests.models.ablations import LOCAL_ENCODERS, PLACED
from tests.models.test_family_contract import assert_close, assert_equal
from tests.models.tiny import main_outputs, tiny_config, tiny_model, token_ids


@pytest.mark.slow(reason="compiling takes seconds; each layer alone is compiled in test_local_baselines.py")
@pytest.mark.parametrize("fields", LOCAL_ENCODERS, ids=str)
def test_compiles_as_one_graph_in_half_precision_too(fields):
    torch.compiler.reset()
    model = tiny_model("cool", **fields)
    inputs = {"input_ids": token_ids(2, 7), "attention_mask": torch.tensor([[1] * 7, [1] * 3 + [0] * 4])}
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_close(main_outputs(compiled(**inputs)), main_outputs(model(**inputs)), tolerance=1e-5)
    full, (half,) = main_outputs(model(**inputs)), main_outputs(model.bfloat16()(**inputs))
    torch.testing.assert_close(half.float(), full[0], rtol=0.1, atol=0.2)


@pytest.mark.parametrize("kind", PLACED)
def test_local_layers_start_at_the_scale_of_their_input(kind):
    states = CoolModel(tiny_config("cool", local_attention=kind)).eval()(token_ids(3, 11)).last_hidden_state
    assert 0.05 < states.std() < 5.0


@pytest.mark.parametrize("kind", ["dynamic_conv", "gat", "hgt"])
def test_weights_of_the_other_local_layers(kind):
    model = tiny_model("cool", local_attention=kind)
    output = model(token_ids(2, 7), output_attentions=True)
    assert [tuple(weights.shape) for weights in output.local_attentions] == [(2, 7, 3, 2)] * 3
    for weights in output.local_attentions:
        torch.testing.assert_close(weights.sum(2), torch.ones(2, 7, 2))


@pytest.mark.parametrize("backbone", CoolConfig.tested_backbones)
def test_deeper_is_the_pretrained_backbone_with_new_layers_on_top(backbone, tmp_path):
    """The first layers are the pretrained ones. ALBERT repeats its shared layer."""
    pretrained = tiny_model("cool", backbone=backbone).backbone_model
    pretrained.save_pretrained(tmp_path / "backbone")
    model = CoolModel.from_backbone(tmp_path / "backbone", local_attention="deeper", num_extra_layers=2)
    ids, layers = token_ids(2, 7), pretrained.config.num_hidden_layers
    assert len(model(ids, output_hidden_states=True).hidden_states) == layers + 3
    inside, weights = model.backbone_model.state_dict(), pretrained.state_dict()
    assert_equal((inside[name] for name in weights), weights.values())
    assert (len(inside) > len(weights)) is (backbone != "albert")
    model.save_pretrained(tmp_path / "deeper")
    loaded = CoolModel.from_pretrained(tmp_path / "deeper")
    assert loaded.config.num_hidden_layers == layers
    assert_equal(loaded.state_dict().values(), model.state_dict().values())


def test_deeper_resizes_its_embeddings(tmp_path):
    model = tiny_model("cool", local_attention="deeper")
    model.resize_token_embeddings(65)
    assert model.config.vocab_size == model.backbone_model.config.vocab_size == 65
    model.backbone_model.save_pretrained(tmp_path)
    assert AutoModel.from_pretrained(tmp_path).get_input_embeddings().num_embeddings == 65


@pytest.mark.parametrize(
    ("saved", "override", "layers"),
    [
        ({"local_attention": "none"}, {"local_attention": "gat"}, 3),
        ({}, {"local_attention": "dynamic_conv"}, 3),
        ({}, {"use_conv": False}, 3),
        ({}, {"local_attention": "conv"}, 0),
        ({}, {"local_attention": "none"}, 0),
        ({"num_local_layers": 1}, {"local_attention": "hgt"}, 1),
    ],
    ids=str,
)
def test_the_number_of_layers_follows_what_is_set_later(saved, override, layers, tmp_path):
    tiny_model("cool", **saved).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    config = AutoConfig.from_pretrained(tmp_path, **override)
    assert config.num_active_local_layers == layers
    assert len(CoolModel(config).local_encoder.layers) == layers


def test_modern_berts_rhythm_goes_on():
    config = tiny_config("cool", "modernbert", local_attention="deeper", num_extra_layers=4)
    full, sliding = "full_attention", "sliding_attention"
    assert config.backbone_config.layer_types == [full, sliding, sliding]
    deeper = config.backbone_config_to_build()
    assert deeper.layer_types == [full, sliding, sliding, full, sliding, sliding, full]
    assert deeper.num_hidden_layers == 7


def test_parameter_counts():
    """Numbers of new parameters at the size of BERT-base, derived by hand from the equations."""
    size, heads, layers = 768, 12, 3
    linear = size * size + size
    expected = {
        "none": 0,
        "deeper": 3 * 7_087_872,
        "conv": 100 * (3 + 4 + 5) * size + 300,
        "dynamic_conv": layers * (2 * linear + linear + size * 3 * heads),
        "visual_outlook": layers * (2 + 81 * 2 + 2 + 2),
        "rgcn": layers * (linear + size * size),
        "gat": layers * (size * size + 2 * size + size),
        "hgt": layers * (3 * linear + size * size + 2 * heads * (size // heads) ** 2 + heads),
        "outlook": (100 * 12 * size + 300) + 2 * (2 * (300 * 300 + 300) + 812_700),
    }
    with torch.device("meta"):
        counts = {kind: CoolModel(CoolConfig(local_attention=kind)).num_parameters() for kind in LOCAL_ATTENTIONS}
    assert {kind: count - counts["none"] for kind, count in counts.items()} == expected


@pytest.mark.parametrize(
    ("fields", "idle"),
    [
        ({"fusion": "gate"}, ["fusion"]),
        ({"fusion": "gate", "mode": "g&l"}, []),
        ({"local_attention": "gat", "use_conv": False, "graph_window": 2}, ["use_conv"]),
        (
            {"local_attention": "none", "num_local_layers": 2, "num_extra_layers": 1},
            ["num_extra_layers", "num_local_layers"],
        ),
        ({"use_conv": False, "conv_pooling": "avg"}, ["conv_pooling"]),
        ({"local_attention": "conv", "conv_pooling": "avg"}, []),
    ],
    ids=str,
)
def test_fields_that_change_nothing_are_told(fields, idle):
    assert CoolConfig(**fields).inactive_fields() == idle
