"""Masked language modeling: the backbone's own head, its start, and what its training gives to other heads."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from hf_localattn import CoolConfig, CoolForMaskedLM, OaXLNetForMaskedLM
from hf_localattn.cli import main
from hf_localattn.hub import init_checkpoint
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import TINY_FIELDS, adapted, backbones_of, labels, tiny_config, tiny_model, token_ids

TASK = "fill-mask"
STARTS = [
    *(("cool", backbone, {"mlm_residual": True}) for backbone in backbones_of("cool", TASK)),
    ("cool", "bert", {"mlm_residual": True, "mode": "g&l"}),
    ("oa-xlnet", "bert", {"mlm_residual": True}),
    ("sam-roberta", "roberta", {"mlm_residual": True}),
    ("sla-bert", "bert", {"gate_bias_init": -1e4}),
]


def stock_checkpoint(folder, backbone="bert", **fields):
    """Save transformers' masked language model, with no two weights alike, and return it as it is loaded."""
    config = tiny_config("cool", backbone).backbone_config
    for name, value in fields.items():
        setattr(config, name, value)
    stock = AutoModelForMaskedLM.from_config(config)
    with torch.no_grad():
        for parameter in stock.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    stock.save_pretrained(folder)
    return AutoModelForMaskedLM.from_pretrained(folder).eval()


# --- what it starts from


@pytest.mark.parametrize(("name", "backbone", "fields"), STARTS)
def test_a_residual_and_closed_gates_start_as_the_stock_class(name, backbone, fields, tmp_path):
    """Bit for bit, with the head's weights from the backbone's checkpoint."""
    stock, ids = stock_checkpoint(tmp_path, backbone), token_ids(3, 11)
    model = FAMILIES[name].heads[TASK].from_backbone(tmp_path, **{**TINY_FIELDS[name], **fields})
    given = adapted(model, input_ids=ids, **labels(TASK, 3, 11))
    found, expected = model(**given), stock(ids, **labels(TASK, 3, 11))
    assert torch.equal(found.loss, expected.loss)
    assert torch.equal(found.logits, expected.logits)
    if "mlm_residual" in fields:
        torch.nn.init.normal_(model.masked_lm_projection.weight)
        assert not torch.equal(model(**given).logits, expected.logits)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("backbone", backbones_of("cool", TASK))
def test_the_output_layer_is_tied_as_in_the_stock_class(backbone, tied, tmp_path):
    stock = stock_checkpoint(tmp_path / "stock", backbone, tie_word_embeddings=tied)
    made = CoolForMaskedLM.from_backbone(tmp_path / "stock", **TINY_FIELDS["cool"])
    made.save_pretrained(tmp_path / "cool")
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path / "cool")
    for model in (made, loaded):
        assert model.config.tie_word_embeddings is tied
        assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) is tied
        assert torch.equal(model.get_output_embeddings().weight, stock.get_output_embeddings().weight)
        model.resize_token_embeddings(64)
        assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) is tied
        assert model(input_ids=token_ids(2, 5), labels=torch.full((2, 5), 63)).logits.shape == (2, 5, 64)
    of_head = {name for name in load_file(tmp_path / "cool" / "model.safetensors") if name.startswith("masked_lm.")}
    of_base = {f"{stock.base_model_prefix}.{name}" for name in stock.base_model.state_dict()}
    stock_head = load_file(tmp_path / "stock" / "model.safetensors").keys() - of_base
    assert of_head == {f"masked_lm.{name}" for name in stock_head}


def test_backbones_that_do_not_fit_are_named(tmp_path):
    tiny_model("oa-xlnet").config.backbone_config.save_pretrained(tmp_path)  # no weights: it is said before they load
    legacy = CoolConfig(backbone_config={"model_type": "deberta-v2", "legacy": False})
    for build, message in (
        (lambda: OaXLNetForMaskedLM.from_backbone(tmp_path), "none for 'xlnet'"),
        (lambda: CoolForMaskedLM(legacy), "`legacy=False`"),
    ):
        with pytest.raises(ValueError, match=message):
            build()


# --- what its training gives to others


def test_init_from_a_trained_checkpoint(tmp_path):
    """The fields, the backbone and the local layers are the checkpoint's; what it lacks is the backbone's."""
    stock = AutoModel.from_config(tiny_model("cool").backbone_model.config)
    for part in (stock, AutoTokenizer.from_pretrained(tiny_backbone())):
        part.save_pretrained(tmp_path / "backbone")
    trained = tiny_model("sla-bert", TASK, local_attention="window", window_size=2)
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
        ("cool", "tiny-bart", {"task": TASK}, "backbone 'bart'"),
    ],
    ids=["another family", "another backbone", "no head", "a generator"],
)
def test_init_names_what_does_not_fit(name, backbone, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_model("cool", TASK).save_pretrained("cool")
    with pytest.raises(ValueError, match=message):
        init_checkpoint(name, backbone, "out", **options)
    assert not [path for path in tmp_path.glob("out/*") if path.suffix != ".lock"]
