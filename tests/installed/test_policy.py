"""The policy allows what honest checkpoints have, and its table is true of the installed transformers."""

import json

import pytest
import torch
import transformers
from tokenizers import Tokenizer
from transformers import CONFIG_MAPPING, AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from hf_localattn import CoolConfig, CoolModel
from hf_localattn.errors import CheckpointError
from hf_localattn.families import FAMILIES
from hf_localattn.hub import verify_checkpoint
from hf_localattn.installed.configurations import load_config
from hf_localattn.installed.policy import judge_config, judge_folder
from hf_localattn.installed.policy_table import CONFIG, ENCODER_DECODERS, ENCODERS, TOKENIZERS
from hf_localattn.pretrained import load_checkpoint
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import TINY_BACKBONES

FORMER = {
    **{"architectures": ["BertForMaskedLM"], "gradient_checkpointing": False, "position_embedding_type": "absolute"},
    **{
        "directionality": "bidi",
        "pooler_fc_size": 768,
        "pooler_type": "first_token_transform",
        "torch_dtype": "float32",
    },
    **{
        "finetuning_task": "sst-2",
        "_num_labels": 2,
        "output_past": True,
        "_name_or_path": "owner/name",
        "prefix": None,
    },
    **{"id2label": {"0": "NEGATIVE"}, "label2id": {"NEGATIVE": 0}, "task_specific_params": {"translation": {"x": 1}}},
    **{"transformers_version": "4.6.0.dev0", "pruned_heads": {}, "_attn_implementation_autoset": True},
}
"""Entries of configurations that were published in earlier years."""


@pytest.mark.parametrize("model_type", sorted(ENCODERS | ENCODER_DECODERS))
def test_configurations_of_all_backbones_of_the_table_are_data(model_type):
    config_class = CONFIG_MAPPING[model_type]
    assert not config_class.sub_configs
    config = config_class()
    for content in (config.to_dict(), config.to_diff_dict(), {**FORMER, "model_type": model_type}):
        content = json.loads(json.dumps(content, default=str))
        assert not list(judge_config("config.json", content))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_all_fields_of_families_are_data(family):
    assert not list(judge_config("config.json", json.loads(family.config().to_json_string(use_diff=False))))


@pytest.mark.parametrize("name", sorted(TOKENIZERS))
def test_files_of_all_tokenizers_of_the_table_are_data(name, tmp_path):
    tokenizer_class = getattr(transformers, name)
    assert issubclass(tokenizer_class, PreTrainedTokenizerBase)
    if name == "ProphetNetTokenizer":
        (tmp_path / "prophetnet.tokenizer").write_text("[UNK]\n[SEP]\n[X_SEP]\n[PAD]\n[MASK]\nword\n")
        tokenizer = tokenizer_class(str(tmp_path / "prophetnet.tokenizer"))
    elif name == "PegasusTokenizer":
        tokenizer = tokenizer_class(vocab=[(piece, 0.0) for piece in ("<pad>", "</s>", "<unk>", "a")])
    else:
        tokenizer = tokenizer_class(tokenizer_object=Tokenizer.from_file(str(tiny_backbone() / "tokenizer.json")))
    tokenizer.save_pretrained(tmp_path)
    assert not list(judge_folder(tmp_path))


@pytest.mark.parametrize("model_type", TINY_BACKBONES)
def test_stock_models_and_families_on_them_load(model_type, tmp_path):
    stock, family = tmp_path / "stock", tmp_path / "family"
    model = AutoModel.from_config(CONFIG_MAPPING[model_type](**TINY_BACKBONES[model_type]))
    model.save_pretrained(stock)
    AutoTokenizer.from_pretrained(tiny_backbone()).save_pretrained(stock)
    (stock / "pytorch_model.bin").write_bytes(b"a pickle beside the weights is not read")
    loaded, _ = load_checkpoint(stock)
    assert type(loaded) is type(model)
    CoolModel.from_backbone(stock).save_pretrained(family)
    AutoTokenizer.from_pretrained(stock).save_pretrained(family)
    assert type(load_checkpoint(family)[0]) is CoolModel
    assert verify_checkpoint(family).is_equal


def test_entries_that_nobody_knows_do_not_reach_a_stock_model(tmp_path):
    config = json.loads((tiny_backbone() / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "of_tomorrow": {"a": 1}, "trust_remote_code": True}))
    loaded = load_config(tmp_path)
    assert not {"of_tomorrow", "trust_remote_code"} & vars(loaded).keys()
    assert loaded.hidden_size == config["hidden_size"]


def test_a_field_of_a_newer_transformers_is_known_if_it_declares_it(tmp_path, monkeypatch):
    """For a family, which refuses what nobody knows, because it may change the model."""
    CoolConfig().save_pretrained(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    content["backbone_config"]["of_tomorrow"] = 1
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"config\.json.*backbone_config\.of_tomorrow"):
        CoolConfig.from_pretrained(tmp_path)
    monkeypatch.setattr("hf_localattn.installed.policy._declared", lambda model_type: {"of_tomorrow"})
    assert CoolConfig.from_pretrained(tmp_path).backbone_config.of_tomorrow == 1


STRANGE = ["x", 0, -1, 1.5, float("nan"), float("inf"), 10**30, 10**9, 7, 1, True, False, None, [1], ["x"], {}]
MANY = ("layers", "num_labels")
"""Endings of names of numbers of parts: each part takes time to build."""


@pytest.mark.parametrize(
    ("model_type", "sizes"), [("bert", TINY_BACKBONES["bert"]), ("bart", {"encoder_layers": 1, "decoder_layers": 1})]
)
def test_values_that_pass_can_be_built(model_type, sizes):
    """One strange value at a time, in the place of each field of a model."""
    config_class = CONFIG_MAPPING[model_type]
    content = json.loads(config_class(**sizes).to_json_string(use_diff=False))
    passed = []
    for name, value in ((name, value) for name in content.keys() & CONFIG.keys() for value in STRANGE):
        changed = content | {name: value}
        if (name.endswith(MANY) and value == 10**9) or list(judge_config("config.json", changed)):
            continue
        with torch.device("meta"):
            AutoModel.from_config(config_class(**changed | {"architectures": []}))
        passed.append(name)
    assert {"hidden_dropout_prob", "dropout"} & {*passed}


@pytest.mark.parametrize("labels", [{"0": "bad", "7": "good"}, {"1": "bad", "2": "good"}])
def test_labels_with_gaps_are_refused(labels):
    """A prediction between them would be a `KeyError`."""
    (finding,) = judge_config("config.json", {"model_type": "bert", "id2label": labels})
    assert (finding.entry, finding.verdict) == ("id2label", "refused")
