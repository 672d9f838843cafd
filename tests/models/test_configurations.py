"""Fields of all families: what is refused, what accepted ones decide, and how `from_backbone` takes them."""

import json
import logging
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, BertConfig

from hf_localattn import (
    CoolConfig,
    CoolForConditionalGeneration,
    CoolForQuestionAnswering,
    CoolModel,
    SamRobertaConfig,
    SamRobertaForSequenceClassification,
    SamRobertaModel,
    families,
)
from hf_localattn.errors import CheckpointError
from hf_localattn.families import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import COMMON, tiny_config

COOL, SLA, OA, SAM = "cool", "sla-bert", "oa-xlnet", "sam-roberta"

REFUSED = [
    (COOL, {"mode": "global"}, "mode", "g2l"),
    (COOL, {"mode": "l2g", "local_attention": "none"}, "mode", "no local layers"),
    (COOL, {"mode": "l2g", "mlm_residual": True}, "mode", "mlm_residual"),
    (COOL, {"mode": "g&l", "backbone_config": {"model_type": "prophetnet"}}, "mode", "g2l"),
    (COOL, {"num_local_layers": 1.5}, "num_local_layers", "whole number"),
    (COOL, {"num_local_layers": -1}, "num_local_layers", "at least 0"),
    (COOL, {"use_conv": 1}, "use_conv", "true or false"),
    (COOL, {"conv_filters": True}, "conv_filters", "whole number"),
    (COOL, {"conv_kernel_sizes": [3, 6]}, "conv_kernel_sizes", "conv_alignment='same'"),
    (COOL, {"conv_kernel_sizes": []}, "conv_kernel_sizes", "sizes"),
    (COOL, {"conv_kernel_sizes": ["3"]}, "conv_kernel_sizes", "at least 1"),
    (COOL, {"outlook_kernel_size": 4}, "outlook_kernel_size", "odd"),
    (COOL, {"outlook_num_heads": 7}, "outlook_num_heads", "divide the local width 15"),
    (COOL, {"outlook_dropout": 1.0}, "outlook_dropout", "number"),
    (COOL, {"classifier_dropout": -0.1}, "classifier_dropout", "number"),
    (COOL, {"initializer_range": float("inf")}, "initializer_range", "finite"),
    (COOL, {"backbone_config": {"model_type": "speech_to_text"}}, "backbone", "text encoder"),
    (COOL, {"backbone_config": {"model_type": "vit"}}, "backbone", "text encoder"),
    (COOL, {"backbone_config": {"model_type": "bert", "is_decoder": True}}, "backbone", "decoder"),
    (COOL, {"backbone_config": {"model_type": "cool"}}, "backbone", "composite"),
    (COOL, {"backbone_config": "bert"}, "backbone_config", "dict"),
    (SLA, {"sla_layers": 3}, "sla_layers", "list"),
    (SLA, {"sla_layers": [1, 1]}, "sla_layers", "distinct"),
    (SLA, {"sla_layers": []}, "sla_layers", "list"),
    (SLA, {"sla_layers": [2]}, "sla_layers", "from 0 to 1"),
    (SLA, {"mlm_residual": True}, "mlm_residual", "gate_bias_init"),
    (COOL, {"encoder_states": "first"}, "encoder_states", "'last', 'mix'"),
    (COOL, {"encoder_states": []}, "encoder_states", "distinct"),
    (COOL, {"encoder_states": [1, -2]}, "encoder_states", "distinct"),
    (COOL, {"encoder_states": [3]}, "encoder_states", "from -3 to 2"),
    (COOL, {"encoder_states": [0, 1], "backbone_config": {"model_type": "bart"}}, "encoder_states", "decoder"),
    (OA, {"oa_num_heads": 5}, "oa_num_heads", "one of 1, 2, 4, 8, 16, 32"),
    (OA, {"oa_num_heads": 0}, "oa_num_heads", "at least 1"),
    (OA, {"oa_num_heads": 4, "local_attention": "ca"}, "oa_num_heads", "one of 2, 8, 32, .* square"),
    (SAM, {"fam_threshold": 1.01}, "fam_threshold", "number"),
    (SAM, {"fam_threshold": 1, "learn_fam_threshold": True}, "fam_threshold", "1"),
]


@pytest.mark.parametrize(("name", "fields", "field", "word"), REFUSED, ids=lambda value: str(value).replace(" ", ""))
def test_impossible_fields_are_named(name, fields, field, word):
    with pytest.raises(ValueError, match=rf"(?s)(?=.*{field})(?=.*{word})"):
        tiny_config(name, **fields)


def test_impossible_models_are_refused():
    with pytest.raises(ValueError, match="CoolConfig"):
        CoolModel(BertConfig(**COMMON))
    rembert = {"model_type": "rembert", **COMMON, "input_embedding_size": 16}
    with pytest.raises(ValueError, match=r"`mode` is 'l2g'.*found 16"):
        CoolModel(CoolConfig(backbone_config=rembert, mode="l2g"))


def test_a_file_is_blamed_only_if_it_is_wrong_without_the_arguments_of_the_caller(tmp_path):
    CoolModel(tiny_config(COOL, outlook_num_heads=3)).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    with pytest.raises(ValueError, match="`outlook_num_heads` is 7"):
        CoolConfig.from_pretrained(tmp_path, outlook_num_heads=7)
    with pytest.raises(ValueError, match="x"):
        CoolModel.from_pretrained(tmp_path, attn_implementation="x")
    path.write_text(path.read_text().replace('"outlook_num_heads": 3', '"outlook_num_heads": 7'))
    for load in (CoolConfig.from_pretrained, AutoConfig.from_pretrained, CoolModel.from_pretrained):
        with pytest.raises(CheckpointError, match=r"config\.json: `outlook_num_heads` is 7"):
            load(tmp_path)
    assert CoolConfig.from_pretrained(tmp_path, outlook_num_heads=3).outlook_num_heads == 3


INACTIVE = [
    (COOL, {}, []),
    (COOL, {"fusion": "gate", "mode": "gl"}, []),
    (COOL, {"use_conv": False, "conv_pooling": "avg"}, ["conv_pooling"]),
    (COOL, {"local_attention": "conv", "conv_pooling": "avg"}, []),
    (COOL, {"local_attention": "gat", "use_conv": False, "graph_window": 2}, ["use_conv"]),
    (COOL, {"local_attention": "none", "num_local_layers": 2}, ["num_local_layers"]),
    (OA, {"local_attention": "em", "query_summary": "plain"}, ["query_summary"]),
    (SAM, {"pooling": "none", "use_tam": False, "num_bilstm_layers": 1}, ["num_bilstm_layers", "use_tam"]),
    (SAM, {"pooling": "rba", "num_bilstm_layers": 1, "fam_threshold": 0.1}, ["fam_threshold"]),
    (SAM, {"tam_ffn": "token", "tam_max_length": 9, "tam_hidden_size": 3}, ["tam_max_length"]),
    (SAM, {"use_fam": False, "attention_order": "tam_fam"}, ["attention_order"]),
    (SAM, {"use_bilstm": False, "bilstm_merge": "sum", "disan_hidden_size": 3}, ["bilstm_merge", "disan_hidden_size"]),
    (SAM, {"pooling": "disan", "disan_hidden_size": 3}, []),
]


@pytest.mark.parametrize(("name", "fields", "inactive"), INACTIVE, ids=str)
def test_fields_without_effect_are_told(name, fields, inactive, caplog):
    families.logger.warning_once.__func__.cache_clear()
    config = FAMILIES[name].config(**fields)
    assert FAMILIES[name].inactive_fields(config) == inactive
    assert all(f"`{field}` is {fields[field]!r}, which has no effect" in caplog.text for field in inactive)


def test_fields_are_checked_once_when_a_configuration_is_built_or_loaded_and_once_for_a_model(tmp_path, monkeypatch):
    checked = []
    monkeypatch.setattr(SamRobertaConfig, "check_fields", lambda config: checked.append(config.pooling))
    SamRobertaForSequenceClassification.from_backbone("tiny", pooling="rb").save_pretrained(tmp_path)
    assert checked.count("rb") == 3  # also when it is saved
    checked.clear()
    config = SamRobertaConfig.from_pretrained(tmp_path, pooling="none", id2label={0: "bad", 1: "good"})
    assert config.label2id == {"bad": 0, "good": 1}
    SamRobertaForSequenceClassification(config)
    assert [pooling for pooling in checked if pooling != "sam"] == ["none", "none"]  # "sam": transformers' defaults
    config.pooling = "strange"
    with pytest.raises(ValueError, match="pooling"):
        SamRobertaModel(config)


@pytest.mark.parametrize(
    ("fields", "layers", "entry"),
    [
        ({}, 2, "modeling_cool"),
        ({"use_conv": False}, 3, "modeling_cool"),
        ({"local_attention": "conv"}, 0, "modeling_cool"),
        ({"local_attention": "hgt", "num_local_layers": 1}, 1, "cool_baselines"),
        ({"local_attention": "none", "num_local_layers": 2}, 0, "modeling_cool"),
        ({"backbone_config": {"model_type": "bart"}}, 2, "modeling_cool_generation"),
        ({"local_attention": "rgcn", "backbone_config": {"model_type": "bart"}}, 3, "cool_baselines_generation"),
    ],
    ids=str,
)
def test_fields_of_cool_decide_its_layers_and_code(fields, layers, entry):
    config = CoolConfig(**fields)
    assert (config.num_active_local_layers, config.entry_module) == (layers, entry)


@pytest.mark.parametrize(
    ("size", "of_backbone", "interaction", "heads"),
    # 384 is 64 wide in 6 parts, but 32, which is no square, in 12; 12 do not divide 32
    [(768, 12, "em", 12), (384, 12, "em", 12), (384, 12, "ca", 6), (32, 2, "em", 2)],
)
def test_orthogonal_attention_has_twelve_heads_where_they_fit(size, of_backbone, interaction, heads):
    backbone = {"model_type": "bert", "num_attention_heads": of_backbone, "hidden_size": size}
    assert FAMILIES[OA].config(backbone_config=backbone, local_attention=interaction).oa_num_heads == heads


def test_ids_of_labels_follow_from_their_names(tmp_path):
    for labels in ({0: "bad", 1: "good"}, {"0": "bad", "1": "good"}):
        assert CoolConfig(id2label=labels).label2id == {"bad": 0, "good": 1}
    assert CoolConfig(id2label=labels, label2id={"no": 0, "yes": 1}).label2id["yes"] == 1
    config = CoolConfig(num_labels=2)
    config.id2label = {0: "bad", 1: "good"}  # with the default names in `label2id`
    config.save_pretrained(tmp_path)
    assert CoolConfig.from_pretrained(tmp_path).label2id == {"bad": 0, "good": 1}


def test_modern_berts_rhythm_goes_on():
    config = tiny_config(COOL, "modernbert", local_attention="deeper", num_extra_layers=4)
    deeper, rhythm = config.backbone_config_to_build(), ["full_attention", "sliding_attention", "sliding_attention"]
    assert config.backbone_config.layer_types == rhythm
    assert (deeper.layer_types, deeper.num_hidden_layers) == ([*rhythm, *rhythm, rhythm[0]], 7)


# --- from_backbone


def test_backbones_have_names_folders_and_subfolders(tmp_path):
    shutil.copytree(tiny_backbone(), tmp_path / "encoders" / "small")
    expected = SamRobertaModel.from_backbone(tiny_backbone()).backbone_model.state_dict()
    for place in ({"name_or_path": "tiny"}, {"name_or_path": tmp_path, "subfolder": "encoders/small"}):
        found = SamRobertaModel.from_backbone(**place).backbone_model.state_dict()
        assert all(torch.equal(one, found[key]) for key, one in expected.items())
    model = CoolForConditionalGeneration.from_backbone("tiny-bart", conv_filters=4)
    assert model.config.backbone_config.model_type == "bart"
    assert model.config.backbone_config._name_or_path == ""


NO_FIELDS = {
    "use_famm": "'use_famm'.*use_fam",
    "hidden_size": "`hidden_size` belongs to the backbone",
    "output_size": "'output_size'",  # a property
    "is_encoder_decoder": "'is_encoder_decoder'",  # a field of all models
}


@pytest.mark.parametrize("field", NO_FIELDS)
def test_what_is_no_field_of_the_family_is_refused(field):
    with pytest.raises(ValueError, match=NO_FIELDS[field]):
        SamRobertaModel.from_backbone("tiny", **{field: 64})


def test_weights_that_cannot_serve_are_refused(tmp_path):
    model, file = SamRobertaModel.from_backbone("tiny"), tmp_path / "model.safetensors"
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="composite"):
        SamRobertaModel.from_backbone(tmp_path)
    model.backbone_model.save_pretrained(tmp_path)
    weights = load_file(file)
    save_file(dict(list(weights.items())[:3]), file, metadata={"format": "pt"})
    with pytest.raises(ValueError, match="lacks weights"):
        SamRobertaModel.from_backbone(tmp_path)
    file.unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    for load in (SamRobertaModel.from_pretrained, SamRobertaModel.from_backbone):
        with pytest.raises(CheckpointError, match=r"pytorch_model\.bin.*pickle"):
            load(tmp_path)


def test_the_code_of_a_backbone_is_not_run_even_if_it_is_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda question: pytest.fail("asked whether to run code"))
    folder = shutil.copytree(tiny_backbone(), tmp_path / "backbone")
    code = {"AutoConfig": "configuration_own.OwnConfig", "AutoModel": "configuration_own.OwnModel"}
    config = json.loads((folder / "config.json").read_text()) | {"auto_map": code}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "configuration_own.py").write_text("raise SystemExit('this code was run')\n")
    model = SamRobertaModel.from_backbone(folder, trust_remote_code=True)
    assert type(model.backbone_model).__name__ == "BertModel"
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own"}))
    for trusted in (True, False):
        with pytest.raises(CheckpointError, match=r"'own'.* no.* encoder"):
            SamRobertaModel.from_backbone(folder, trust_remote_code=trusted)


def test_loading_prints_nothing_but_that_a_head_is_new(tmp_path, monkeypatch, capfd, caplog):
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)  # transformers 5.18 does not
    SamRobertaModel.from_backbone("tiny").save_pretrained(tmp_path)
    capfd.readouterr()  # saving has bars
    SamRobertaModel.from_pretrained(tmp_path)
    CoolForQuestionAnswering.from_backbone("tiny")
    assert not caplog.text
    assert "Loading" not in capfd.readouterr().err
    SamRobertaForSequenceClassification.from_pretrained(tmp_path)
    assert "classifier" in caplog.text
