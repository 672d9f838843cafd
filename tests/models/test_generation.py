"""Generation: local layers between encoder and decoder, in training, step by step, with beams and caches."""

import copy
import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import CONFIG_MAPPING, AutoModelForSeq2SeqLM, EncoderDecoderConfig, GenerationConfig
from transformers.modeling_outputs import BaseModelOutput

from hf_localattn import CoolConfig, CoolForConditionalGeneration, CoolForQuestionAnswering, CoolModel
from hf_localattn.hub import init_checkpoint
from tests.fresh_process import run_fresh
from tests.models.tiny import token_ids
from tests.qa_helpers import word_pieces

IDS = {"vocab_size": 59, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
SILENT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "max_position_embeddings": 40}
TINY_GENERATORS = {
    "bart": {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 37,
        "decoder_ffn_dim": 37,
        "forced_eos_token_id": None,
    },
    "prophetnet": {
        "hidden_size": 32,
        "num_encoder_layers": 2,
        "num_decoder_layers": 1,
        "num_encoder_attention_heads": 2,
        "num_decoder_attention_heads": 2,
        "encoder_ffn_dim": 37,
        "decoder_ffn_dim": 37,
    },
}
FIELDS = [
    {},
    {"use_conv": False},
    *({"local_attention": kind} for kind in ("conv", "dynamic_conv", "visual_outlook", "rgcn", "gat", "hgt")),
    {"local_attention": "none"},
    {"local_attention": "deeper", "num_extra_layers": 1},
]

FRESH_PROCESS = """
import sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
import torch
import transformers
from transformers import AutoConfig

def check(model, inputs, expected):
    with torch.no_grad():
        output = model(**inputs)
    for name, value in expected.items():  # a processor adds in an order that depends on where the memory lies
        torch.testing.assert_close(output[name], value, rtol=1e-6, atol=1e-6)

for case in sys.argv[1:]:
    auto_class, inputs, expected = torch.load(f"{case}/case.pt")
    auto_class = getattr(transformers, auto_class)
    model = auto_class.from_pretrained(f"{case}/checkpoint", trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules"), type(model).__module__
    check(model, inputs, expected)
    model.save_pretrained(f"{case}/again")  # the second generation
    second = auto_class.from_pretrained(f"{case}/again", trust_remote_code=True)
    check(second, inputs, expected)
    first, second = (dict(one.config.to_dict(), _name_or_path="") for one in (model, second))
    assert first == second, (first, second)
    config = AutoConfig.from_pretrained(f"{case}/again", trust_remote_code=True)
    assert type(auto_class.from_config(config, trust_remote_code=True))
"""


def tiny_generator(backbone, **fields):
    torch.manual_seed(0)
    backbone_config = {"model_type": backbone, **IDS, **SILENT, **TINY_GENERATORS[backbone]}
    model = CoolForConditionalGeneration(CoolConfig(backbone_config=backbone_config, conv_filters=5, **fields)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


BART_AND_SLOWLY_PROPHETNET = pytest.mark.parametrize(
    "backbone",
    [
        "bart",
        pytest.param("prophetnet", marks=pytest.mark.slow(reason="takes long, and the layers are the same")),
    ],
    indirect=True,
)


@pytest.fixture(params=TINY_GENERATORS)
def backbone(request):
    return request.param


@pytest.fixture
def model(backbone):
    return tiny_generator(backbone)


@pytest.fixture
def source():
    mask = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
    return {"input_ids": token_ids(2, 9) * mask, "attention_mask": mask}


@pytest.fixture
def labels():
    ids = token_ids(2, 5, seed=1)
    ids[1, 3:] = -100
    return ids


def assert_close(actual, expected, tolerance=1e-5):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_without_local_layers_it_is_the_stock_class(backbone, source, labels):
    model = tiny_generator(backbone, local_attention="none")
    ours, stock = model(**source, labels=labels), model.backbone(**source, labels=labels)
    assert torch.equal(ours.loss, stock.loss)
    assert torch.equal(ours.logits, stock.logits)
    options = {"max_new_tokens": 6, "num_beams": 5, "do_sample": False}
    assert torch.equal(model.generate(**source, **options), model.backbone.generate(**source, **options))


def test_the_decoder_reads_the_local_layers_output(model, source, labels):
    """The definition: encoder, local layers, then the backbone's decoder and its own loss."""
    encoded = model.backbone.get_encoder()(**source).last_hidden_state
    states, _ = model.local_encoder(encoded, source["attention_mask"].bool())
    output = model(**source, labels=labels, output_hidden_states=True, output_attentions=True)
    expected = model.backbone(
        encoder_outputs=BaseModelOutput(states), attention_mask=source["attention_mask"], labels=labels
    )
    assert_close(output.logits, expected.logits)
    assert_close(output.loss, expected.loss)
    assert_close(output.encoder_last_hidden_state, states)
    assert_close(output.encoder_hidden_states[-1], encoded)  # the backbone's
    assert [tuple(weights.shape) for weights in output.local_attentions] == [(2, 9, 3, 3, 15)] * 2
    stock = model.backbone(
        encoder_outputs=BaseModelOutput(states),
        attention_mask=source["attention_mask"],
        labels=labels,
        output_hidden_states=True,
        output_attentions=True,
    )
    for name in ("decoder_hidden_states", "decoder_attentions", "cross_attentions"):
        for actual, own in zip(output[name], stock[name], strict=True):
            assert_close(actual, own)
    encoder = model.backbone.get_encoder()(**source, output_attentions=True)
    for actual, own in zip(output.encoder_attentions, encoder.attentions, strict=True):
        assert_close(actual, own)
    assert not torch.allclose(model.backbone(**source, labels=labels).logits, output.logits, atol=1e-3)


def test_lengths_that_cannot_be_are_named(backbone, model):
    """ProphetNet's encoder has no limit, and its decoder two positions less."""
    most = 40 if backbone == "bart" else 38
    short = token_ids(1, 3)
    assert model(token_ids(1, 40), labels=token_ids(1, most)).logits.shape[1] == most
    message = rf"{most + 1} tokens in a row, but the backbone '{backbone}' has positions for {most}"
    for target in ({"labels": token_ids(1, most + 1)}, {"decoder_input_ids": token_ids(1, most + 1)}):
        with pytest.raises(ValueError, match=message):
            model(short, **target)
    if backbone == "bart":
        with pytest.raises(ValueError, match=message):
            model(token_ids(1, 41), labels=short)
    with pytest.raises(ValueError, match="`input_ids` has no tokens"):
        model(short[:, :0], labels=short)


def test_some_hidden_states_can_be_asked_for(model, source, labels):
    """By index, as transformers has it: in the call, in the configuration and in `generate`; the others are `None`."""
    every = model(**source, labels=labels, output_hidden_states=True)
    assert (len(every.encoder_hidden_states), len(every.decoder_hidden_states)) == (3, 2)
    in_the_call = model(**source, labels=labels, output_hidden_states=[1])
    written = model.generate(
        **source, max_new_tokens=2, num_beams=1, return_dict_in_generate=True, output_hidden_states=[1]
    )
    model.config.output_hidden_states = [1]
    for output in (in_the_call, model(**source, labels=labels)):
        for name in ("encoder_hidden_states", "decoder_hidden_states"):
            assert [states is None for states in output[name]] == [place != 1 for place in range(len(every[name]))]
            assert torch.equal(output[name][1], every[name][1])
    assert [states is None for states in written.encoder_hidden_states] == [True, False, True]
    assert all([states is None for states in step] == [True, False] for step in written.decoder_hidden_states)


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_padding_changes_nothing_and_everything_is_trained(backbone, fields, source, labels):
    model = tiny_generator(backbone, **fields)
    whole = model(**source, labels=labels).logits
    alone = model(source["input_ids"][1:, :6], labels=labels[1:]).logits
    assert_close(whole[1:], alone)
    model.train()(**source, labels=labels).loss.backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("beams", [1, 5])
def test_generates_what_the_backbone_does_from_these_states(model, source, beams, use_cache):
    options = {"max_new_tokens": 7, "num_beams": beams, "do_sample": False, "use_cache": use_cache}
    states = model.encode_source(**source, inputs_embeds=None).last_hidden_state
    stock = {"encoder_outputs": BaseModelOutput(states), "attention_mask": source["attention_mask"]}
    generated = model.generate(**source, **options)
    assert torch.equal(generated, model.backbone.generate(**stock, **options))
    embeds = {"inputs_embeds": model.get_input_embeddings()(source["input_ids"])}
    by_embeds = model.generate(**embeds, attention_mask=source["attention_mask"], **options)
    assert torch.equal(by_embeds, generated)
    alone = model.generate(source["input_ids"][1:, :6], **options)
    width = min(alone.shape[1], generated.shape[1])
    assert torch.equal(generated[1:, :width], alone[:, :width])


@pytest.mark.parametrize("beams", [1, 5])
def test_the_cache_changes_nothing(source, beams):
    """Of BART: the stock ProphetNet itself computes other relative positions with a cache than without."""
    model, options = tiny_generator("bart"), {"max_new_tokens": 7, "num_beams": beams, "do_sample": False}
    assert torch.equal(model.generate(**source, **options), model.generate(**source, **options, use_cache=False))


def test_greedy_is_the_argmax_of_teacher_forcing(model, source):
    generated = model.generate(**source, max_new_tokens=6, do_sample=False, num_beams=1, use_cache=False)
    logits = model(**source, decoder_input_ids=generated[:, :-1]).logits
    chosen = logits.argmax(-1)
    for row in range(2):
        for step in range(chosen.shape[1]):
            if generated[row, step] == 2 and step:
                break
            assert chosen[row, step] == generated[row, step + 1]


@BART_AND_SLOWLY_PROPHETNET
def test_saves_and_loads_everywhere(model, source, labels, tmp_path):
    folder = tmp_path / "checkpoint"
    model.save_pretrained(folder)
    loaded, report = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert type(loaded) is CoolForConditionalGeneration
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    output = model(**source, labels=labels)
    assert torch.equal(loaded(**source, labels=labels).logits, output.logits)
    assert torch.equal(loaded.generate(**source, max_new_tokens=5), model.generate(**source, max_new_tokens=5))
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight  # tied
    auto_map = json.loads((folder / "config.json").read_text())["auto_map"]
    assert auto_map.keys() == {"AutoConfig", "AutoModelForSeq2SeqLM"}
    expected = {"logits": output.logits.detach(), "loss": output.loss.detach()}
    torch.save(("AutoModelForSeq2SeqLM", {**source, "labels": labels}, expected), tmp_path / "case.pt")
    result = run_fresh(FRESH_PROCESS, tmp_path, tmp_path)
    assert result.returncode == 0, result.stderr


def test_return_dict_deepcopy_and_embeds(model, source, labels):
    output = model(**source, labels=labels, use_cache=False)
    assert torch.equal(model(**source, labels=labels, use_cache=False, return_dict=False)[0], output.loss)
    assert_close(copy.deepcopy(model)(**source, labels=labels).logits, output.logits, tolerance=1e-6)
    embeds = model.get_input_embeddings()(source["input_ids"])
    by_embeds = model(inputs_embeds=embeds, attention_mask=source["attention_mask"], labels=labels)
    # BART scales inside its embedding module, ProphetNet not at all
    assert_close(by_embeds.logits, output.logits)


def test_embeddings_resize_and_reload(model, source, labels, tmp_path):
    expected = model(**source, labels=labels).logits
    model.resize_token_embeddings(65)
    assert model.config.vocab_size == model.config.backbone_config.vocab_size == 65
    assert_close(model(**source, labels=labels).logits[..., :59], expected)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.equal(loaded(**source, labels=labels).logits, model(**source, labels=labels).logits)


def test_gradient_checkpointing_gives_the_same_gradients(backbone, source, labels):
    model = tiny_generator(backbone).train()
    expected = gradients(model, source, labels)
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    assert_close(gradients(model, source, labels), expected, tolerance=1e-6)


def gradients(model, source, labels):
    model.zero_grad(set_to_none=True)
    model(**source, labels=labels, use_cache=False).loss.backward()
    return [parameter.grad for parameter in model.parameters()]


def test_from_backbone_keeps_weights_and_generation_settings(backbone, source, tmp_path):
    stock = tiny_generator(backbone).backbone
    stock.generation_config = GenerationConfig(
        **{**stock.generation_config.to_dict(), "num_beams": 3, "max_length": 9}
    )
    stock.save_pretrained(tmp_path / "backbone")
    model = CoolForConditionalGeneration.from_backbone(tmp_path / "backbone", local_attention="none")
    assert model.generation_config.num_beams == 3
    assert torch.equal(model.generate(**source), stock.generate(**source))
    assert torch.equal(model.generate(**source), model.generate(**source, num_beams=3))


def test_init_writes_a_generating_checkpoint(backbone, tmp_path):
    tokenizer = word_pieces()
    backbone_config = {**IDS, **SILENT, **TINY_GENERATORS[backbone], "vocab_size": len(tokenizer)}
    stock = AutoModelForSeq2SeqLM.from_config(CONFIG_MAPPING[backbone](**backbone_config))
    stock.save_pretrained(tmp_path / "backbone")
    tokenizer.save_pretrained(tmp_path / "backbone")
    folder = init_checkpoint("cool", tmp_path / "backbone", tmp_path / "out", conv_filters=5)
    assert type(AutoModelForSeq2SeqLM.from_pretrained(folder)) is CoolForConditionalGeneration
    weights = load_file(folder / "model.safetensors")
    for key, value in load_file(tmp_path / "backbone" / "model.safetensors").items():
        assert torch.equal(weights[f"backbone.{key}"], value)


def test_deeper_adds_layers_to_the_encoder(backbone, tmp_path):
    stock = tiny_generator(backbone).backbone
    stock.save_pretrained(tmp_path)
    fields = {"local_attention": "deeper", "num_extra_layers": 2}
    model = CoolForConditionalGeneration.from_backbone(tmp_path, **fields)
    assert len(model.backbone.get_encoder().layers) == 4
    inside = model.backbone.state_dict()
    assert all(torch.equal(inside[name], value) for name, value in stock.state_dict().items())
    model.resize_token_embeddings(61)
    assert model.backbone.config.vocab_size == model.config.vocab_size == 61


def test_half_precision(model, source, labels):
    full = model(**source, labels=labels).logits
    half = model.to(torch.bfloat16)(**source, labels=labels).logits
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), full, rtol=0.1, atol=0.1)


# --- bad input


def test_left_padding_is_refused(model, source, labels):
    source["attention_mask"] = source["attention_mask"].flip(1)
    with pytest.raises(ValueError, match=r"padding on the left.*padding_side = 'right'"):
        model(**source, labels=labels)
    with pytest.raises(ValueError, match="padding on the left"):
        model.generate(**source)


def test_kinds_of_backbone_are_not_mixed_up(backbone):
    generator = CoolConfig(backbone_config={"model_type": backbone, **TINY_GENERATORS[backbone]})
    for model_class in (CoolModel, CoolForQuestionAnswering):
        with pytest.raises(ValueError, match=f"{model_class.__name__} puts local layers on an encoder.*'{backbone}'"):
            model_class(generator)
    with pytest.raises(ValueError, match=r"generates text, which 'bert' alone cannot: .* such as prophetnet, bart"):
        CoolForConditionalGeneration(CoolConfig())


def test_from_backbone_says_what_kind_it_needs(backbone, tmp_path):
    """Before any weight is loaded: there are none."""
    CoolConfig().backbone_config.save_pretrained(tmp_path / "encoder")
    with pytest.raises(ValueError, match="generates text, which 'bert' alone cannot"):
        CoolForConditionalGeneration.from_backbone(tmp_path / "encoder")
    tiny_generator(backbone).config.backbone_config.save_pretrained(tmp_path / "generator")
    with pytest.raises(ValueError, match=r"load it with `AutoModelForSeq2SeqLM`"):
        CoolModel.from_backbone(tmp_path / "generator")


def test_a_composite_of_two_models_is_refused():
    with pytest.raises(ValueError, match="'encoder-decoder' is not a text-to-text model"):
        CoolConfig(
            backbone_config=EncoderDecoderConfig(encoder={"model_type": "bert"}, decoder={"model_type": "bert"})
        )


@pytest.mark.parametrize("mode", ["l2g", "g&l"])
def test_other_modes_are_refused(backbone, mode):
    with pytest.raises(ValueError, match=f"the encoder-decoder '{backbone}' takes local layers.*set `mode` to 'g2l'"):
        CoolConfig(backbone_config={"model_type": backbone}, mode=mode)


def test_wrong_inputs_are_named(model, labels):
    with pytest.raises(ValueError, match="exactly one of `input_ids` and `inputs_embeds`"):
        model(labels=labels)
    with pytest.raises(ValueError, match="`labels` and `decoder_input_ids` are missing"):
        model(input_ids=token_ids(2, 5))


# --- compilers, devices, configuration


@pytest.mark.slow(reason="tracing takes long")
@BART_AND_SLOWLY_PROPHETNET
def test_compiles_and_exports(model, source, labels):
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager")
    assert_close(compiled(**source, labels=labels).loss, model(**source, labels=labels).loss)
    # Given explicitly, as deriving them from labels depends on their values.
    inputs = {**source, "decoder_input_ids": labels.clamp(min=0), "use_cache": False}
    program = torch.export.export(model, (), inputs)
    assert_close(program.module()(**inputs).logits, model(**inputs).logits)


def test_generates_from_a_device_map_and_without_a_file_of_settings(model, source, tmp_path):
    model.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, device_map={"": "cpu"})
    options = {"max_new_tokens": 5, "num_beams": 2, "do_sample": False}
    assert torch.equal(loaded.generate(**source, **options), model.generate(**source, **options))
    assert next(loaded.get_encoder().parameters()) is next(loaded.backbone.get_encoder().parameters())


def test_common_fields_are_the_backbones(model):
    assert (model.config.num_hidden_layers, model.config.decoder_layers) == (2, 1)
    assert model.config.decoder_start_token_id == model.generation_config.decoder_start_token_id == 2
    assert model.config.is_encoder_decoder
