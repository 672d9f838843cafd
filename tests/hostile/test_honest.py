"""Honest checkpoints pass every door that asks the policy."""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from string import ascii_letters

import pytest
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    pipeline,
)

from hf_localattn.families import FAMILIES, task_of_class
from hf_localattn.hub import init_checkpoint, push
from hf_localattn.pretrained import load_checkpoint
from hf_localattn.resources import NEGATION, tiny_backbone
from hf_localattn.serving import demo, export
from hf_localattn.studies import command as training
from tests.hostile.sandbox import DOORS, TEXT, Reached, reached, run_model
from tests.models.test_tokenizers import KINDS
from tests.models.tiny import TINY_BACKBONES
from tests.tiny_parser import tiny_parser

TOKENIZERS = {
    **dict.fromkeys(("bert", "electra", "distilbert", "mpnet"), "wordpiece"),
    **dict.fromkeys(("roberta", "modernbert"), "bytes"),
    **dict.fromkeys(("deberta-v2", "xlnet"), "unigram"),
}
"""Kind of the tokenizer of each backbone."""

CLASSES = {
    **{"bert": "BertTokenizer", "electra": "ElectraTokenizer", "distilbert": "DistilBertTokenizer"},
    **{"mpnet": "MPNetTokenizer", "roberta": "RobertaTokenizer", "modernbert": "TokenizersBackend"},
    **{"albert": "AlbertTokenizer", "deberta-v2": "DebertaV2Tokenizer", "xlnet": "XLNetTokenizer"},
}

ROWS = [(name, backbone) for name, one in FAMILIES.items() for backbone in one.config.tested_backbones]
"""The rows of docs/backbones.md."""

QUICK = {("cool", "xlnet"), ("oa-xlnet", "roberta"), ("sla-bert", "bert")}
EVERY_ROW = pytest.mark.slow(reason="three rows have each kind of tokenizer, and the families with one")


@pytest.fixture(autouse=True)
def stopped(monkeypatch):
    """Stop commands where they have the model."""
    for place, name in ((demo, "build_page"), (training, "execute"), (export, "_write_graph")):
        monkeypatch.setattr(place, name, reached)


def stock_folder(backbone, folder):
    """Write a tiny backbone with a tokenizer of its class, as transformers does."""
    tokenizer_class = getattr(transformers, CLASSES[backbone])
    if backbone == "albert":  # whose class needs special tokens of these names
        pieces = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "▁", *ascii_letters, "."]
        tokenizer = tokenizer_class([(piece, -1.0) for piece in pieces], model_max_length=64)
    else:
        tokenizer = tokenizer_class(tokenizer_object=KINDS[TOKENIZERS[backbone]]().backend_tokenizer)
    tokenizer.save_pretrained(folder)
    sizes = {**TINY_BACKBONES[backbone], "vocab_size": len(tokenizer) + 8, "max_position_embeddings": 66}
    sizes = {name: value for name, value in sizes.items() if backbone != "xlnet" or name != "max_position_embeddings"}
    AutoModel.from_config(CONFIG_MAPPING[backbone](**sizes)).save_pretrained(folder)
    return folder


def family_folder(name, stock, folder, task="text-classification"):
    """Write a classifier of a family on a backbone."""
    family = FAMILIES[name]
    model = family.heads[task].from_backbone(stock, **family.facts.tiny_fields)
    parser = {"parser": tiny_parser()} if family.parse else {}
    family.adapt_tokenizer(AutoTokenizer.from_pretrained(stock), model, **parser).save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def pass_doors(folder, doors):
    """Go through doors with a folder; each returns something, or has the model."""
    for door in doors:
        with suppress(Reached):
            DOORS[door](folder)


STOCK_DOORS = ("config", "built_tokenizer", "checked_tokenizer", "checkpoint", "model", "inspect", "train")
FAMILY_DOORS = ("config", "built_tokenizer", "checked_tokenizer", "checkpoint", "demo", "card", "verify", "pipeline")
PARSED = ("config", "built_tokenizer", "model", "card", "verify")
"""Doors of a family whose parser no distribution declares. For others the user names it."""


@pytest.mark.parametrize("backbone", [pytest.param(one, marks=() if one == "bert" else EVERY_ROW) for one in CLASSES])
def test_every_backbone_passes(backbone, tmp_path):
    pass_doors(stock_folder(backbone, tmp_path / "stock"), STOCK_DOORS)
    push.check_checkpoint(tmp_path / "stock")


@pytest.mark.parametrize(
    ("name", "backbone"), [pytest.param(*row, marks=() if row in QUICK else EVERY_ROW) for row in ROWS]
)
def test_every_family_on_every_backbone_passes(name, backbone, tmp_path):
    stock = stock_folder(backbone, tmp_path / "stock")
    folder = family_folder(name, stock, tmp_path / "family")
    pass_doors(folder, PARSED if FAMILIES[name].parse else (*FAMILY_DOORS, "train", "export", "inspect"))
    load_checkpoint(folder, settings={"parser": tiny_parser()} if FAMILIES[name].parse else {})
    push.check_checkpoint(folder)
    fields = {"task": "text-classification", "trained": folder, **({"parser": None} if FAMILIES[name].parse else {})}
    assert init_checkpoint(name, stock, tmp_path / "further", **fields)


@pytest.mark.parametrize("backbone", AutoConfig.for_model("cool").generation_backbones)
def test_generation_passes(backbone, tmp_path):
    stock = tiny_backbone(generates=True)
    if backbone == "prophetnet":
        (tmp_path / "prophetnet.tokenizer").write_text(
            "[UNK]\n[SEP]\n[X_SEP]\n[PAD]\n[MASK]\n[CLS]\nword\nno\nthe\n.\n"
        )
        stock = tmp_path / "stock"
        transformers.ProphetNetTokenizer(str(tmp_path / "prophetnet.tokenizer")).save_pretrained(stock)
        sizes = {"hidden_size": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "vocab_size": 12}
        sizes |= dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "num_encoder_attention_heads"), 2)
        config = CONFIG_MAPPING[backbone](**sizes, num_decoder_attention_heads=2, max_position_embeddings=64)
        AutoModelForSeq2SeqLM.from_config(config).save_pretrained(stock)
    folder = init_checkpoint("cool", stock, tmp_path / "family", conv_filters=5)
    pass_doors(
        folder, ("config", "built_tokenizer", "checked_tokenizer", "checkpoint", "demo", "card", "verify", "generator")
    )


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.slow(reason="checkpoints of 22 million parameters")
def test_every_reference_checkpoint_passes(name, tmp_path):
    """Its weights are random."""
    shutil.copytree(Path(__file__).parents[2] / "model_cards" / name, tmp_path, dirs_exist_ok=True)
    config, family = AutoConfig.from_pretrained(tmp_path), FAMILIES[name]
    model = family.heads[task_of_class(config.architectures[0])](config)
    settings = {"parser": tiny_parser()} if family.parse else {}
    tokenizer = family.adapt_tokenizer(AutoTokenizer.from_pretrained(tiny_backbone()), model, **settings)
    for saved in (model, tokenizer):
        saved.save_pretrained(tmp_path)
    pass_doors(tmp_path, (*PARSED, *(() if family.parse else ("checkpoint", "demo"))))
    push.check_checkpoint(tmp_path)


def test_a_snapshot_in_the_cache_of_the_hub_passes(tmp_path):
    """Its files are links to blobs."""
    folder = family_folder("cool", tiny_backbone(), tmp_path / "saved")
    snapshot, blobs = (
        tmp_path / "models--owner--name" / "snapshots" / "abc",
        tmp_path / "models--owner--name" / "blobs",
    )
    for place in (snapshot, blobs):
        place.mkdir(parents=True)
    for number, path in enumerate(sorted(folder.iterdir())):
        shutil.copy(path, blobs / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    pass_doors(snapshot, (*FAMILY_DOORS, "model", "train", "export", "inspect"))
    push.check_checkpoint(snapshot)


def test_the_graph_that_comes_with_the_package_passes():
    pass_doors(NEGATION, ("exported", "negation", "spacy", "negation_command", "verify", "checked_tokenizer"))


def test_adapters_pass(tmp_path):
    """A user adds them to a model of their own, and loads the tokenizer that is beside them."""
    folder = family_folder("cool", tiny_backbone(), tmp_path / "saved")
    model = get_peft_model(AutoModel.from_pretrained(folder), LoraConfig(target_modules=["query", "value"]))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01)
    model.save_pretrained(tmp_path / "adapter")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "adapter")
    pass_doors(tmp_path / "adapter", ("built_tokenizer", "checked_tokenizer"))
    ids = torch.tensor([[5, 6, 7]])
    loaded = PeftModel.from_pretrained(model.get_base_model(), tmp_path / "adapter")
    assert torch.equal(loaded(ids)[0], model(ids)[0])


def test_a_pipeline_of_a_stock_model_answers_as_before(tmp_path):
    content = json.loads((tiny_backbone() / "config.json").read_text())
    shutil.copytree(tiny_backbone(), tmp_path, dirs_exist_ok=True)
    (tmp_path / "config.json").write_text(json.dumps(content | {"of_tomorrow": 1}))
    assert pipeline("fill-mask", str(tmp_path))(TEXT.replace("roses", "[MASK]"))
    assert run_model(AutoModel.from_pretrained)(tmp_path)
