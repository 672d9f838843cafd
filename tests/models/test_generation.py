"""Heads over the vocabulary: generation through local layers, step by step, with beams; and masked words."""

import inspect

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig
from transformers.modeling_outputs import BaseModelOutput

from hf_localattn import (
    CoolConfig,
    CoolForConditionalGeneration,
    CoolForMaskedLM,
    CoolModel,
    OaXLNetConfig,
    OaXLNetForMaskedLM,
)
from hf_localattn.cli import main
from hf_localattn.families import FAMILIES
from hf_localattn.hub import init_checkpoint
from hf_localattn.resources import tiny_backbone
from tests.fresh_process import run_fresh
from tests.models.naive import assert_same
from tests.models.tiny import (
    TINY_FIELDS,
    VOCABULARY,
    adapted,
    backbones_of,
    enable_checkpointing,
    labels,
    tiny_config,
    tiny_model,
    token_ids,
)
from tests.qa_helpers import GENERATORS, word_pieces

IDS = {"vocab_size": 59, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
SILENT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "max_position_embeddings": 40}
FIELDS = [
    {},
    {"use_conv": False},
    *({"local_attention": kind} for kind in ("conv", "dynamic_conv", "visual_outlook", "rgcn", "gat", "hgt")),
    {"local_attention": "none"},
    {"local_attention": "deeper", "num_extra_layers": 1},
    {"encoder_states": "mix"},
]


def tiny_generator(backbone, **fields):
    torch.manual_seed(0)
    backbone_config = {"model_type": backbone, **IDS, **SILENT, **GENERATORS[backbone]}
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


MASK = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
SOURCE = {"input_ids": token_ids(2, 9) * MASK, "attention_mask": MASK}
LABELS = token_ids(2, 5, seed=1)
LABELS[1, 3:] = -100
TARGET = {**SOURCE, "labels": LABELS}


def generate(model, source=SOURCE, **options):
    return model.generate(**source, **{"max_new_tokens": 7, "do_sample": False, "num_beams": 1, **options})


def test_the_decoder_reads_the_local_layers_output(model):
    """The definition: encoder, local layers, then the backbone's decoder and its own loss."""
    shown = {"output_hidden_states": True, "output_attentions": True}
    encoded = model.backbone.get_encoder()(**SOURCE, output_attentions=True)
    states, _ = model.local_encoder(encoded.last_hidden_state, MASK.bool())
    stock = model.backbone(encoder_outputs=BaseModelOutput(states), attention_mask=MASK, labels=LABELS, **shown)
    output = model(**TARGET, **shown)
    for name in ("logits", "loss", "decoder_hidden_states", "decoder_attentions", "cross_attentions"):
        torch.testing.assert_close(output[name], stock[name], rtol=1e-5, atol=1e-5)
    assert_same([output.encoder_last_hidden_state], [states], 1e-5)
    assert_same([output.encoder_hidden_states[-1]], [encoded.last_hidden_state], 1e-5)  # the backbone's
    assert_same(output.encoder_attentions, encoded.attentions, 1e-5)
    assert [tuple(weights.shape) for weights in output.local_attentions] == [(2, 9, 3, 3, 15)] * 2
    model.config.output_hidden_states = True
    assert len(model(**TARGET).encoder_hidden_states) == len(output.encoder_hidden_states) == 3
    by_tuple = model(encoder_outputs=(states,), attention_mask=MASK, labels=LABELS, return_dict=False)
    assert_same(by_tuple[:2], [output.loss, output.logits], 1e-5)


@pytest.mark.parametrize(
    ("backbone", "fields"),
    [*(("bart", fields) for fields in FIELDS), ("prophetnet", {})],
    ids=str,
    indirect=["backbone"],
)
def test_keeps_the_contract(backbone, fields, tmp_path):
    """Padding, embeddings, gradients, checkpointing, larger vocabularies and saving, as encoders do."""
    model, found = tiny_generator(backbone, **fields), []
    whole = model(**TARGET).logits
    alone = model(SOURCE["input_ids"][1:, :6], labels=LABELS[1:]).logits
    embeds = model(inputs_embeds=model.get_input_embeddings()(SOURCE["input_ids"]), attention_mask=MASK, labels=LABELS)
    assert_same([whole[1:], whole], [alone, embeds.logits], 1e-5)
    model.train()
    for _ in range(2):
        found.append(torch.autograd.grad(model(**TARGET, use_cache=False).loss, list(model.parameters())))
        enable_checkpointing(model)
    assert_same(found[1], found[0], 1e-6)  # and none is missing
    model.eval().resize_token_embeddings(65)
    assert model.config.vocab_size == model.config.backbone_config.vocab_size == 65
    resized = model(**TARGET).logits
    assert_same([resized[..., :59]], [whole], 1e-5)
    model.save_pretrained(tmp_path)
    loaded, report = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert torch.equal(loaded(**TARGET).logits, resized)
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight  # tied


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("beams", [1, 5])
def test_generates_what_the_backbone_does_from_these_states(model, beams, use_cache):
    options = {"num_beams": beams, "use_cache": use_cache}
    states = BaseModelOutput(model.get_encoder()(**SOURCE).last_hidden_state)
    generated = generate(model, **options)
    stock = generate(model.backbone, {"encoder_outputs": states, "attention_mask": MASK}, **options)
    embeds = {"inputs_embeds": model.get_input_embeddings()(SOURCE["input_ids"]), "attention_mask": MASK}
    assert torch.equal(generated, stock)
    assert torch.equal(generated, generate(model, embeds, **options))
    alone = generate(model, {"input_ids": SOURCE["input_ids"][1:, :6]}, **options)
    width = min(alone.shape[1], generated.shape[1])
    assert torch.equal(generated[1:, :width], alone[:, :width])
    if model.config.backbone_config.model_type == "bart":  # ProphetNet computes other positions with a cache
        assert torch.equal(generated, generate(model, **options | {"use_cache": not use_cache}))


def test_the_cache_has_the_backbones_name():
    """A caller hands it on from step to step, as `generate` does."""
    model = tiny_generator("bart")
    name = "cache" if "cache" in inspect.signature(model.backbone.forward).parameters else "past_key_values"
    target = token_ids(2, 5, seed=1)
    whole = model(**SOURCE, decoder_input_ids=target)
    first = model(**SOURCE, decoder_input_ids=target[:, :3])
    rest = model(**SOURCE, decoder_input_ids=target[:, 3:], **{name: first[name]})
    assert_same([torch.cat([first.logits, rest.logits], dim=1)], [whole.logits], 1e-5)


FRESH_PROCESS = """
import json, sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
import torch
from transformers import AutoModelForSeq2SeqLM

for folder in ("checkpoint", "again"):  # a copy of the code saves the second generation
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    model.save_pretrained("again")
    print(model.generate(torch.tensor(json.loads(sys.argv[1])), num_beams=2, max_new_tokens=7).tolist())
"""


def test_travels_without_a_file_of_settings(tmp_path):
    model, ids = tiny_generator("bart", local_attention="gat"), SOURCE["input_ids"][:1]
    model.save_pretrained(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "generation_config.json").unlink()
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "checkpoint", device_map={"": "cpu"})
    expected = generate(model, {"input_ids": ids}, num_beams=2)
    assert torch.equal(generate(loaded, {"input_ids": ids}, num_beams=2), expected)
    assert next(loaded.get_encoder().parameters()) is next(loaded.backbone.get_encoder().parameters())
    result = run_fresh(FRESH_PROCESS, tmp_path, ids.tolist())
    assert result.stdout == f"{expected.tolist()}\n" * 2, result.stderr


def test_from_backbone_keeps_weights_and_generation_settings(backbone, tmp_path):
    stock, tokenizer = tiny_generator(backbone).backbone, word_pieces()
    stock.resize_token_embeddings(len(tokenizer))
    stock.generation_config = GenerationConfig(**stock.generation_config.to_dict() | {"num_beams": 3, "max_length": 9})
    for part in (stock, tokenizer):
        part.save_pretrained(tmp_path / "backbone")
    made_by = CoolForConditionalGeneration.from_backbone
    model = made_by(tmp_path / "backbone", local_attention="none")
    assert all(torch.equal(model(**TARGET)[name], stock(**TARGET)[name]) for name in ("loss", "logits"))
    assert torch.equal(model.generate(**SOURCE), stock.generate(**SOURCE))
    assert torch.equal(model.generate(**SOURCE), model.generate(**SOURCE, num_beams=3))
    deeper = made_by(tmp_path / "backbone", local_attention="deeper", num_extra_layers=2)
    assert (len(deeper.backbone.get_encoder().layers), len(deeper.new_modules())) == (4, 2)
    folder = init_checkpoint("cool", tmp_path / "backbone", tmp_path / "out", conv_filters=5)
    made = AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert len(AutoTokenizer.from_pretrained(folder)) == made.config.vocab_size
    for one in (model, deeper, made):
        inside = one.backbone.state_dict()
        assert all(torch.equal(inside[name], value) for name, value in stock.state_dict().items())


@pytest.mark.slow(reason="tracing takes long")
def test_compiles_and_exports(model):
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager")
    assert_same([compiled(**TARGET).loss], [model(**TARGET).loss], 1e-5)
    # Given explicitly, as deriving them from labels depends on their values.
    inputs = {**SOURCE, "decoder_input_ids": LABELS.clamp(min=0), "use_cache": False}
    program = torch.export.export(model, (), inputs)
    assert_same([program.module()(**inputs).logits], [model(**inputs).logits], 1e-5)


def test_wrong_inputs_and_backbones_are_named(backbone, tmp_path):
    generator = CoolConfig(backbone_config={"model_type": backbone, **GENERATORS[backbone]})
    legacy = CoolConfig(backbone_config={"model_type": "deberta-v2", "legacy": False})
    folders = {name: tmp_path / name for name in ("encoder", "generator", "xlnet")}
    for config, folder in zip((CoolConfig(), generator, OaXLNetConfig()), folders.values(), strict=True):
        config.backbone_config.save_pretrained(folder)  # without weights: nothing is loaded
    model = tiny_generator(backbone)
    for call, word in (
        (lambda: model(labels=LABELS), "exactly one"),
        (lambda: model(input_ids=SOURCE["input_ids"]), "`labels`"),
        (lambda: model(**{**TARGET, "attention_mask": MASK.flip(1)}), "on the left"),
        (lambda: CoolModel(generator), "on an encoder"),
        (lambda: CoolModel.from_backbone(folders["generator"]), "AutoModelForSeq2SeqLM"),
        (lambda: CoolForConditionalGeneration(CoolConfig()), "'bert' alone cannot"),
        (lambda: CoolForConditionalGeneration.from_backbone(folders["encoder"]), "'bert' alone cannot"),
        (lambda: OaXLNetForMaskedLM.from_backbone(folders["xlnet"]), "none for 'xlnet'"),
        (lambda: CoolForMaskedLM(legacy), "`legacy=False`"),
    ):
        with pytest.raises(ValueError, match=word):
            call()


# --- masked language modeling: what it starts from

MASKED_WORDS = "fill-mask"
STARTS = [
    *(("cool", backbone, {"mlm_residual": True}) for backbone in backbones_of("cool", MASKED_WORDS)),
    ("cool", "bert", {"mlm_residual": True, "mode": "g&l"}),
    ("oa-xlnet", "bert", {"mlm_residual": True}),
    ("sam-roberta", "roberta", {"mlm_residual": True}),
    ("sla-bert", "bert", {"gate_bias_init": -1e4}),
]


@pytest.mark.parametrize(
    ("name", "backbone", "fields", "tied"),
    [*((*start, True) for start in STARTS), (*STARTS[0], False), (*STARTS[-1], False)],
)
def test_a_residual_and_closed_gates_start_as_the_stock_class(name, backbone, fields, tied, tmp_path):
    """Bit for bit, with the head's weights and ties from the backbone's checkpoint, in which no two are alike."""
    config = tiny_config("cool", backbone).backbone_config
    config.tie_word_embeddings = tied
    stock = AutoModelForMaskedLM.from_config(config)
    with torch.no_grad():
        for parameter in stock.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    stock.save_pretrained(tmp_path)
    stock, ids = AutoModelForMaskedLM.from_pretrained(tmp_path).eval(), token_ids(3, 11)
    made = FAMILIES[name].heads[MASKED_WORDS].from_backbone(tmp_path, **{**TINY_FIELDS[name], **fields})
    given, expected = (
        adapted(made, input_ids=ids, **labels(MASKED_WORDS, 3, 11)),
        stock(ids, **labels(MASKED_WORDS, 3, 11)),
    )
    made.save_pretrained(tmp_path / "made")
    for model in (made, AutoModelForMaskedLM.from_pretrained(tmp_path / "made")):
        found = model(**given)
        assert torch.equal(found.loss, expected.loss)
        assert torch.equal(found.logits, expected.logits)
        assert found.hidden_states is None
        assert len(model(**given, output_hidden_states=True).hidden_states) > 2
        last = model(**given, output_hidden_states=[-1]).hidden_states[-1]
        assert last is not None or stock(ids, output_hidden_states=[-1]).hidden_states[-1] is None  # transformers 5.18
        assert model.config.tie_word_embeddings is tied
        for size in (VOCABULARY, 64):
            model.resize_token_embeddings(size)
            assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) is tied
    if "mlm_residual" in fields:
        torch.nn.init.normal_(model.masked_lm_projection.weight)
        assert not torch.equal(model(**given).logits[..., :VOCABULARY], expected.logits)


# --- what its training gives to others


def test_init_from_a_trained_checkpoint(tmp_path):
    """The fields, the backbone and the local layers are the checkpoint's; what it lacks is the backbone's."""
    stock = AutoModel.from_config(tiny_model("cool").backbone_model.config)
    for part in (stock, AutoTokenizer.from_pretrained(tiny_backbone())):
        part.save_pretrained(tmp_path / "backbone")
    trained = tiny_model("sla-bert", MASKED_WORDS, local_attention="window", window_size=2)
    trained.save_pretrained(tmp_path / "trained")
    folders = [str(tmp_path / name) for name in ("backbone", "warm", "trained")]
    assert main(["init", "sla-bert", *folders[:2], "--from", folders[2], "--config", "parser=null"]) == 0
    warm = AutoModel.from_pretrained(folders[1])
    assert (warm.config.local_attention, warm.config.window_size) == ("window", 2)
    weights = trained.base_model.state_dict()
    for key, value in warm.state_dict().items():
        expected = stock.state_dict()[key.removeprefix("backbone.")] if ".pooler." in key else weights[key]
        assert torch.equal(value, expected), key


@pytest.mark.parametrize(
    ("name", "backbone", "options", "message"),
    [
        ("sam-roberta", "tiny", {"trained": "cool"}, "'cool' checkpoint"),
        ("cool", "tiny", {"trained": "cool"}, r"(?s)do not fit: .*size mismatch"),
        ("cool", "tiny", {"task": "fill-masks"}, "no head for 'fill-masks'"),
        ("cool", "tiny-bart", {"task": MASKED_WORDS}, "backbone 'bart'"),
    ],
)
def test_init_names_what_does_not_fit(name, backbone, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_model("cool", MASKED_WORDS).save_pretrained("cool")
    with pytest.raises(ValueError, match=message):
        init_checkpoint(name, backbone, "out", **options)
