"""`init` folders: whole, loadable into every head, and written whole or not at all."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from hf_localattn.assignments import parse_config_fields
from hf_localattn.hub import init_checkpoint
from hf_localattn.pretrained import resolve_backbone
from hf_localattn.registry import AUTO_CLASSES, FAMILIES
from tests.models.tiny import ENCODER_HEADS, OTHER_FIELD, tiny_model
from tests.parsers import tiny_parser


@pytest.mark.parametrize("family", FAMILIES)
def test_tiny_is_complete(family, tmp_path):
    field, value = OTHER_FIELD[family]
    settings = {"parser": tiny_parser()} if family == "sla-bert" else {}
    folder = init_checkpoint(family, "tiny", tmp_path / "made" / "here", **{field: value}, **settings)
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= {
        path.name for path in folder.iterdir()
    }
    tokenizer = AutoTokenizer.from_pretrained(folder, **settings)
    assert tokenizer.is_fast
    inputs = tokenizer("Who is the baker?", "Mira is the baker.", return_tensors="pt")
    headless = AutoModel.from_pretrained(folder)
    assert getattr(headless.config, field) == value
    assert headless(**inputs).last_hidden_state.isfinite().all()
    for task, head_class in ENCODER_HEADS[family].items():
        head, report = AUTO_CLASSES[task].from_pretrained(folder, output_loading_info=True)
        assert type(head) is head_class
        assert not any(key.startswith(head.base_model_prefix) for key in report["missing_keys"])
    assert str(tmp_path) not in "".join(path.read_text() for path in folder.glob("*.json"))
    assert not list((tmp_path / "made").glob(".*"))


def test_the_same_call_writes_the_same_weights(tmp_path):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    weights = [
        AutoModel.from_pretrained(init_checkpoint("oa-xlnet", "tiny", tmp_path / str(number), seed=seed)).state_dict()
        for number, seed in enumerate((5, 5, 6))
    ]
    assert torch.equal(torch.rand(3), expected), "the caller's random numbers go on as they were"
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    assert not all(torch.equal(value, weights[2][name]) for name, value in weights[0].items())


def test_the_backbones_weights_are_kept(tmp_path):
    folder = init_checkpoint("cool", "tiny", tmp_path / "cool")
    backbone = AutoModel.from_pretrained(resolve_backbone("tiny"), add_pooling_layer=False)
    inside = AutoModel.from_pretrained(folder).backbone
    for name, value in backbone.state_dict().items():
        assert torch.equal(inside.state_dict()[name], value), name


def test_an_occupied_folder_is_left_alone(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"'.*taken' is in the way: choose a folder"):
        init_checkpoint("cool", "tiny", tmp_path / "taken")
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["thesis.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="in the way"):
        init_checkpoint("cool", "tiny", tmp_path / "file")


def test_an_empty_folder_is_fine(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    assert (init_checkpoint("cool", "tiny", tmp_path / "link") / "config.json").is_file()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert init_checkpoint("cool", "tiny", ".")
    assert (tmp_path / "here" / "config.json").is_file()


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
    def fail(self, folder, **_):
        raise OSError("disk full")

    monkeypatch.setattr(PreTrainedTokenizerBase, "save_pretrained", fail)
    with pytest.raises(OSError, match="disk full"):
        init_checkpoint("cool", "tiny", tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "fields", "error", "message"),
    [
        (("coool", "tiny"), {}, ValueError, "no family 'coool'. Choose one of cool"),
        (
            ("cool", "tiny"),
            {"use_convolution": False},
            ValueError,
            "no field 'use_convolution'. Did you mean 'use_conv'",
        ),
        (("cool", "tiny"), {"outlook_kernel_size": 2}, ValueError, "`outlook_kernel_size` is 2; it must be odd"),
        (("cool", "./nowhere"), {}, FileNotFoundError, r"'\./nowhere' is not a folder with a `config.json`"),
        (("cool", "nobody/nothing"), {}, OSError, "nobody/nothing"),
    ],
)
def test_bad_input_is_named_and_nothing_written(arguments, fields, error, message, tmp_path):
    with pytest.raises(error, match=message):
        init_checkpoint(*arguments, tmp_path / "out", **fields)
    assert not list(tmp_path.iterdir())


def test_a_backbone_without_a_tokenizer_is_named(tmp_path):
    tiny_model("cool").backbone_model.save_pretrained(tmp_path / "backbone")
    with pytest.raises(ValueError, match=r"backbone' has no tokenizer files"):
        init_checkpoint("cool", tmp_path / "backbone", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_decoder_is_refused(tmp_path):
    shutil.copytree(resolve_backbone("tiny"), tmp_path / "gpt2")
    (tmp_path / "gpt2" / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(ValueError, match="'gpt2' is a decoder"):
        init_checkpoint("cool", tmp_path / "gpt2", tmp_path / "out")


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("num_local_layers=4", 4),
        ("use_conv=false", False),
        ("conv_kernel_sizes=[2, 3]", [2, 3]),
        ("outlook_num_heads=null", None),
        ("outlook_dropout=0.1", 0.1),
        ("qa_loss=joint", "joint"),
    ],
)
def test_fields_are_read_as_yaml(assignment, value):
    assert parse_config_fields("cool", [assignment]) == {assignment.split("=")[0]: value}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("use_conv", "'use_conv' is not of the form field=value"),
        ("=3", "'=3' is not of the form"),
        ("conv_kernel_sizes=[3", r"Cannot read the value of 'conv_kernel_sizes=\[3'"),
        ("num_layers=3", "CoolConfig has no field 'num_layers'. Did you mean 'num_ffn_layers'"),
        ("zzz=3", "CoolConfig has no field 'zzz'.$"),
    ],
)
def test_bad_fields_are_named(assignment, message):
    with pytest.raises(ValueError, match=message):
        parse_config_fields("cool", [assignment])


def test_resolve_backbone():
    assert Path(resolve_backbone("tiny"), "config.json").is_file()
    assert resolve_backbone("google-bert/bert-base-uncased") == "google-bert/bert-base-uncased"
