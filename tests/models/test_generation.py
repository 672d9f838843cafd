"""Generation: local layers between encoder and decoder, in training, step by step, with beams and caches."""

import copy
import json

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig
from transformers.modeling_outputs import BaseModelOutput

from hf_localattn import CoolConfig, CoolForConditionalGeneration, CoolModel
from hf_localattn.hub import init_checkpoint
from tests.fresh_process import run_fresh
from tests.models.tiny import by_index, enable_checkpointing, token_ids
from tests.qa_helpers import GENERATORS, word_pieces

IDS = {"vocab_size": 59, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
SILENT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "max_position_embeddings": 40}
TWO_LAYERS = {"bart": {"encoder_layers": 2}, "prophetnet": {"num_encoder_layers": 2}}
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
from transformers import AutoModelForSeq2SeqLM

inputs, expected = torch.load("case.pt")
for folder in ("checkpoint", "again"):  # a copy of the code saves the second generation
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules"), type(model).__module__
    with torch.no_grad():
        torch.testing.assert_close(model(**inputs).logits, expected, rtol=1e-6, atol=1e-6)
    model.save_pretrained("again")
"""


def tiny_generator(backbone, **fields):
    torch.manual_seed(0)
    backbone_config = {"model_type": backbone, **IDS, **SILENT, **GENERATORS[backbone], **TWO_LAYERS[backbone]}
    model = CoolForConditionalGeneration(CoolConfig(backbone_config=backbone_config, conv_filters=5, **fields)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


@pytest.fixture(params=GENERATORS)
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


def generate(model, source, **options):
    return model.generate(**source, **{"max_new_tokens": 7, "do_sample": False, "num_beams": 1, **options})


def test_without_local_layers_it_is_the_stock_class(backbone, source, labels):
    model = tiny_generator(backbone, local_attention="none")
    ours, stock = model(**source, labels=labels), model.backbone(**source, labels=labels)
    assert torch.equal(ours.loss, stock.loss)
    assert torch.equal(ours.logits, stock.logits)
    assert torch.equal(generate(model, source, num_beams=5), generate(model.backbone, source, num_beams=5))


def test_the_decoder_reads_the_local_layers_output(model, source, labels):
    """The definition: encoder, local layers, then the backbone's decoder and its own loss."""
    shown = {"output_hidden_states": True, "output_attentions": True}
    encoded = model.backbone.get_encoder()(**source, output_attentions=True)
    states, _ = model.local_encoder(encoded.last_hidden_state, source["attention_mask"].bool())
    output = model(**source, labels=labels, **shown)
    encoder_outputs = BaseModelOutput(states)
    stock = model.backbone(
        encoder_outputs=encoder_outputs, attention_mask=source["attention_mask"], labels=labels, **shown
    )
    for name in ("logits", "loss", "decoder_hidden_states", "decoder_attentions", "cross_attentions"):
        assert_close(output[name], stock[name])
    assert_close(output.encoder_last_hidden_state, states)
    assert_close(output.encoder_hidden_states[-1], encoded.last_hidden_state)  # the backbone's
    assert_close(output.encoder_attentions, encoded.attentions)
    assert [tuple(weights.shape) for weights in output.local_attentions] == [(2, 9, 3, 3, 15)] * 2
    assert not torch.allclose(model.backbone(**source, labels=labels).logits, output.logits, atol=1e-3)
    by_tuple = model(encoder_outputs=(states,), attention_mask=source["attention_mask"], labels=labels)
    assert_close(by_tuple.logits, output.logits)


@by_index
def test_some_hidden_states_can_be_asked_for(model, source, labels):
    """By index, as transformers has it, in the call and in the configuration. ProphetNet gives all."""
    every = model(**source, labels=labels, output_hidden_states=True)
    assert (len(every.encoder_hidden_states), len(every.decoder_hidden_states)) == (3, 2)
    in_the_call = model(**source, labels=labels, output_hidden_states=[1])
    model.config.output_hidden_states = [1]
    for output in (in_the_call, model(**source, labels=labels)):
        for name in ("encoder_hidden_states", "decoder_hidden_states"):
            assert len(output[name]) == len(every[name])
            assert torch.equal(output[name][1], every[name][1])


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_padding_changes_nothing_and_everything_is_trained(backbone, fields, source, labels):
    model = tiny_generator(backbone, **fields)
    whole = model(**source, labels=labels).logits
    assert_close(whole[1:], model(source["input_ids"][1:, :6], labels=labels[1:]).logits)
    model.train()(**source, labels=labels).loss.backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("beams", [1, 5])
def test_generates_what_the_backbone_does_from_these_states(model, source, beams, use_cache):
    options = {"num_beams": beams, "use_cache": use_cache}
    states = model.get_encoder()(**source).last_hidden_state
    stock = {"encoder_outputs": BaseModelOutput(states), "attention_mask": source["attention_mask"]}
    generated = generate(model, source, **options)
    assert torch.equal(generated, generate(model.backbone, stock, **options))
    embeds = {"inputs_embeds": model.get_input_embeddings()(source["input_ids"])}
    assert torch.equal(generate(model, {**embeds, "attention_mask": source["attention_mask"]}, **options), generated)
    alone = generate(model, {"input_ids": source["input_ids"][1:, :6]}, **options)
    width = min(alone.shape[1], generated.shape[1])
    assert torch.equal(generated[1:, :width], alone[:, :width])
    if model.config.backbone_config.model_type == "bart":  # ProphetNet computes other positions with a cache
        assert torch.equal(generated, generate(model, source, **options | {"use_cache": not use_cache}))


@pytest.mark.parametrize(
    ("fields", "entry"),
    [({}, "modeling_cool_generation"), ({"local_attention": "gat"}, "cool_baselines_generation")],
    ids=str,
)
def test_saves_and_loads_everywhere(fields, entry, source, labels, tmp_path):
    model, folder = tiny_generator("bart", **fields), tmp_path / "checkpoint"
    model.save_pretrained(folder)
    auto_map = json.loads((folder / "config.json").read_text())["auto_map"]
    assert auto_map == {
        "AutoConfig": "configuration_cool.CoolConfig",
        "AutoModelForSeq2SeqLM": f"{entry}.CoolForConditionalGeneration",
    }
    loaded, report = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert type(loaded) is CoolForConditionalGeneration
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    logits = model(**source, labels=labels).logits
    assert torch.equal(loaded(**source, labels=labels).logits, logits)
    assert torch.equal(generate(loaded, source), generate(model, source))
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight  # tied
    torch.save(({**source, "labels": labels}, logits.detach()), tmp_path / "case.pt")
    result = run_fresh(FRESH_PROCESS, tmp_path)
    assert result.returncode == 0, result.stderr


def test_keeps_the_contract(backbone, model, source, labels, tmp_path):
    """Tuples, copies, embeddings, larger vocabularies and gradient checkpointing, as encoders do."""
    output = model(**source, labels=labels, use_cache=False)
    assert torch.equal(model(**source, labels=labels, use_cache=False, return_dict=False)[0], output.loss)
    embeds = {"inputs_embeds": model.get_input_embeddings()(source["input_ids"])}
    assert_close(model(**embeds, attention_mask=source["attention_mask"], labels=labels).logits, output.logits)
    found, clone = [], copy.deepcopy(model).train()
    for _ in range(2):
        loss = clone(**source, labels=labels, use_cache=False).loss
        assert_close(loss, output.loss)
        found.append(torch.autograd.grad(loss, list(clone.parameters())))
        enable_checkpointing(clone)
    assert_close(found[1], found[0], tolerance=1e-6)
    model.resize_token_embeddings(65)
    assert model.config.vocab_size == model.config.backbone_config.vocab_size == 65
    resized = model(**source, labels=labels).logits
    assert_close(resized[..., :59], output.logits)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.equal(loaded(**source, labels=labels).logits, resized)


def test_from_backbone_keeps_weights_and_generation_settings(backbone, source, tmp_path):
    stock, tokenizer = tiny_generator(backbone).backbone, word_pieces()
    stock.resize_token_embeddings(len(tokenizer))
    settings = {**stock.generation_config.to_dict(), "num_beams": 3, "max_length": 9}
    stock.generation_config = GenerationConfig(**settings)
    stock.save_pretrained(tmp_path / "backbone")
    tokenizer.save_pretrained(tmp_path / "backbone")
    model = CoolForConditionalGeneration.from_backbone(tmp_path / "backbone", local_attention="none")
    assert torch.equal(model.generate(**source), stock.generate(**source))
    assert torch.equal(model.generate(**source), model.generate(**source, num_beams=3))
    fields = {"local_attention": "deeper", "num_extra_layers": 2}
    deeper = CoolForConditionalGeneration.from_backbone(tmp_path / "backbone", **fields)
    assert len(deeper.backbone.get_encoder().layers) == 4
    assert len(deeper.new_modules()) == 2
    folder = init_checkpoint("cool", tmp_path / "backbone", tmp_path / "out", conv_filters=5)
    made = AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert type(made) is CoolForConditionalGeneration
    assert len(AutoTokenizer.from_pretrained(folder)) == made.config.vocab_size
    for one in (model, deeper, made):
        inside = one.backbone.state_dict()
        assert all(torch.equal(inside[name], value) for name, value in stock.state_dict().items())


@pytest.mark.slow(reason="tracing takes long")
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
    assert torch.equal(generate(loaded, source, num_beams=2), generate(model, source, num_beams=2))
    assert next(loaded.get_encoder().parameters()) is next(loaded.backbone.get_encoder().parameters())
    assert model.config.num_hidden_layers == 2
    assert model.config.decoder_start_token_id == model.generation_config.decoder_start_token_id == 2


def test_wrong_inputs_are_named(model, source, labels):
    left = source["attention_mask"].flip(1)
    for inputs, word in (
        ({"labels": labels}, "exactly one"),
        ({"input_ids": source["input_ids"]}, "`labels`"),
        ({**source, "attention_mask": left, "labels": labels}, "on the left"),
    ):
        with pytest.raises(ValueError, match=word):
            model(**inputs)


def test_kinds_of_backbone_are_not_mixed_up(backbone, tmp_path):
    generator = CoolConfig(backbone_config={"model_type": backbone, **GENERATORS[backbone]})
    CoolConfig().backbone_config.save_pretrained(tmp_path / "encoder")  # without weights: nothing is loaded
    generator.backbone_config.save_pretrained(tmp_path / "generator")
    for build, word in (
        (lambda: CoolModel(generator), "on an encoder"),
        (lambda: CoolModel.from_backbone(tmp_path / "generator"), "AutoModelForSeq2SeqLM"),
        (lambda: CoolForConditionalGeneration(CoolConfig()), "'bert' alone cannot"),
        (lambda: CoolForConditionalGeneration.from_backbone(tmp_path / "encoder"), "'bert' alone cannot"),
    ):
        with pytest.raises(ValueError, match=word):
            build()
