"""`init` folders: whole, loadable into every head, into empty folders only, from a folder or from the Hub."""

import json
import re
import shutil

import pytest
import torch
from huggingface_hub import constants
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from hf_localattn.cli import main
from hf_localattn.families import AUTO_CLASSES, FAMILIES
from hf_localattn.hub import init_checkpoint
from hf_localattn.parsing import parse_assignments
from hf_localattn.pretrained import load_tokenizer
from hf_localattn.resources import tiny_backbone
from tests.hub.conftest import TOKEN
from tests.models.tiny import ENCODER_HEADS, OTHER_FIELD, tiny_model
from tests.tiny_parser import tiny_parser

NAME = "somebody/tiny-bert"


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


def test_the_same_call_writes_the_same_weights_around_the_backbone_s(tmp_path):
    state = torch.random.get_rng_state()
    first, second, other = (
        AutoModel.from_pretrained(init_checkpoint("oa-xlnet", "tiny", tmp_path / str(number), seed=seed)).state_dict()
        for number, seed in enumerate((5, 5, 6))
    )
    assert torch.equal(torch.random.get_rng_state(), state), "the caller's random numbers go on as they were"
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert not all(torch.equal(value, other[name]) for name, value in first.items())
    backbone = AutoModel.from_pretrained(tiny_backbone(), add_pooling_layer=False).state_dict()
    for name in backbone.keys() - {"embeddings.word_embeddings.weight"}:  # this one has a row for the marker
        assert torch.equal(first[f"backbone.{name}"], backbone[name]), name


def test_only_an_empty_folder_is_written(tmp_path, monkeypatch):
    for name in ("taken", "empty", "here"):
        (tmp_path / name).mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("years of work")
    for taken in (tmp_path / "taken", tmp_path / "taken" / "thesis.txt"):
        with pytest.raises((FileExistsError, ValueError), match=r"exists already|is a file"):
            init_checkpoint("cool", "tiny", taken)
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["thesis.txt"]
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    monkeypatch.chdir(tmp_path / "here")
    for folder in (tmp_path / "link", "."):
        assert (init_checkpoint("cool", "tiny", folder) / "config.json").is_file()


def test_a_folder_without_its_tokenizer_is_refused_but_not_a_small_vocabulary(tmp_path):
    for model_type in ("bert", "deberta-v2", "mbart", "t5", "xlnet"):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
        with pytest.raises(ValueError, match="no tokenizer files"):
            load_tokenizer(str(tmp_path))
    vocabulary = {piece: number for number, piece in enumerate(["[PAD]", "[UNK]", *"ACGT"])}
    bases = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    PreTrainedTokenizerFast(tokenizer_object=bases, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(tmp_path)
    assert len(load_tokenizer(str(tmp_path))) == 6


@pytest.mark.parametrize("fields", [{}, {"local_attention": "window"}])
def test_a_parser_that_cannot_be_loaded_is_refused(tmp_path, fields):
    with pytest.raises(OSError, match="'tiny'"):
        init_checkpoint("sla-bert", "tiny", tmp_path / "out", parser="tiny", **fields)
    assert not (tmp_path / "out").exists()


def test_a_backbone_without_its_tokenizer_is_refused(tmp_path):
    tiny_model("cool").backbone_model.save_pretrained(tmp_path / "backbone")
    with pytest.raises(ValueError, match="tokenizer"):
        init_checkpoint("cool", tmp_path / "backbone", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_fields_are_read_as_yaml():
    given = "num_local_layers=4 use_conv=false conv_kernel_sizes=[2,3] outlook_num_heads=null outlook_dropout=1e-1"
    assert [*parse_assignments(given.split()).values()] == [4, False, [2, 3], None, 0.1]


def test_a_backbone_from_the_hub_in_trouble_at_a_revision_and_from_the_cache(
    hub, tmp_path, monkeypatch, capsys, caplog
):
    def init(*options):
        """Run `hf-localattn init`; return the backbone's configuration, or the last line of an error."""
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        try:
            main(["init", "cool", NAME, str(tmp_path / "out"), *options])
        except SystemExit:
            assert not (tmp_path / "out").exists()
            return capsys.readouterr().err.rstrip("\n").rsplit("\n", 1)[-1]
        return json.loads((tmp_path / "out" / "config.json").read_text())["backbone_config"]

    assert NAME in init()  # there is none
    repository, pinned = hub.add(NAME, tiny_backbone(), private=True)
    for fault in (("GET|HEAD", 500), ("GET|HEAD", "break"), ("GET .*model.safetensors", "break")):
        hub.faults = [fault]
        assert init().startswith("error: Cannot load the ")
    hub.faults = []
    monkeypatch.setenv("HF_TOKEN", "hf_reader")
    assert re.match(f"error: Cannot load the tokenizer '{NAME}'.*run `hf auth login`", init())
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    later = json.loads(hub.files(NAME)["config.json"]) | {"hidden_dropout_prob": 0.25}
    repository.commit("main", hub.files(NAME) | {"config.json": json.dumps(later).encode()}, "more dropout")
    assert init("--revision", pinned)["hidden_dropout_prob"] == 0.0
    written = init()
    assert (written["hidden_dropout_prob"], written["_name_or_path"]) == (0.25, NAME)
    asked = len(hub.requests)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert init() == written
    assert len(hub.requests) == asked
    assert TOKEN not in caplog.text + "".join(path.read_text() for path in (tmp_path / "out").glob("*.json"))


def test_an_exported_folder_on_the_hub_is_refused_with_its_remedy(hub, tmp_path):
    folder = init_checkpoint("cool", "tiny", tmp_path / "model")
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".json"}
    hub.add(NAME, {**files, "export.json": b"{}", "model.onnx": b""})
    with pytest.raises(OSError, match=f"hf download {NAME} --local-dir"):
        FAMILIES["cool"].model.from_pretrained(NAME)
