"""`hf-localattn inspect` as a user meets it."""

import json

import pytest
from transformers import AutoTokenizer

from hf_localattn import (
    CoolForQuestionAnswering,
    CoolForTokenClassification,
    SamRobertaForSequenceClassification,
    SlaBertModel,
    SlaBertTokenizer,
)
from hf_localattn.cli import main
from hf_localattn.inspection import attention_map
from hf_localattn.inspection.command import load
from hf_localattn.resources import tiny_backbone
from tests.script_helpers import assert_one_line_error

TEXT = "Mira grows white roses."


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Checkpoints on the tiny backbone, by name."""
    root, backbone = tmp_path_factory.mktemp("checkpoints"), tiny_backbone()
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    models = {
        "cool": CoolForQuestionAnswering.from_backbone(backbone, use_conv=False),
        "sam": SamRobertaForSequenceClassification.from_backbone(backbone, bilstm_hidden_size=8, fam_reduction=2),
        "tagger": CoolForTokenClassification.from_backbone(backbone, use_conv=False),
        "sla": SlaBertModel.from_backbone(backbone, local_attention="window"),
    }
    for name, model in models.items():
        model.save_pretrained(root / name)
        own = SlaBertTokenizer.from_backbone(tokenizer, parser=None) if name == "sla" else tokenizer
        own.save_pretrained(root / name)
    return root


def inspect(*arguments):
    return main(["inspect", *map(str, arguments)])


def test_json_holds_what_python_gives(folders, tmp_path, capsys):
    target = tmp_path / "new" / "out.json"
    assert inspect(folders / "cool", "Who?", "--pair", TEXT, "--kind", "self", "--layers", "1", "-o", target) == 0
    assert capsys.readouterr().out == f"Wrote {target}.\n"
    expected = attention_map(*load(str(folders / "cool")), "Who?", TEXT, kind="self", layers=[1])
    (one,) = json.loads(target.read_text())["maps"]
    assert (one["model"], one["tokens"], one["layers"]) == ("cool", list(expected.tokens), [1])
    assert one["weights"] == pytest.approx(expected.weights, abs=1e-6)
    inspect(folders / "cool", TEXT, "-o", target)
    assert json.loads(target.read_text())["maps"][0]["title"].startswith("outlook attention, ")


FCE = "The\tc\ncat\tc\nsit\ti\n\nNo\tc\n"


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("sla", "fce.conll", FCE),
        ("tagger", "fce.conll", FCE),
        ("tagger", "fce.tsv", FCE),
        ("tagger", "rows.json", '[{"tokens": ["The", "cat", "sit"]}, {"tokens": ["No"]}]'),
        ("tagger", "lines.txt", "The cat sit\nNo\n"),
        ("sla", "table.tsv", "text\tlabel\nThe cat sit\tc\nNo\ti\n"),
    ],
)
def test_files_of_sentences_and_of_texts(folders, tmp_path, name, file, content, capsys):
    (tmp_path / file).write_text(content)
    inspect(folders / name, "--file", tmp_path / file, "--kind", "self", "-o", tmp_path / "out.json")
    assert "dataset" not in capsys.readouterr().err  # no bar of its steps
    found = json.loads((tmp_path / "out.json").read_text())["maps"]
    assert [one["tokens"] for one in found] == [["the", "cat", "sit"], ["no"]]


def test_settings_go_to_the_tokenizers_that_have_them(folders, tmp_path, capsys):
    out = ["--kind", "self", "-o", tmp_path / "out.json", "--config", "words=whitespace"]
    assert inspect(folders / "sla", TEXT, "--compare", folders / "cool", *out) == 0
    with pytest.raises(SystemExit):
        inspect(folders / "cool", TEXT, *out)
    assert "--config words=whitespace" in capsys.readouterr().err


def test_texts_of_files_and_two_models_beside_each_other(folders, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    texts, target, out = tmp_path / "texts.txt", tmp_path / "out.png", tmp_path / "out.json"
    texts.write_text(f"{TEXT}\n\nWho grows roses?\nWho?\n")
    inspect(folders / "sla", "--file", texts, "-o", target)  # gates
    first = target.read_bytes()
    assert first.startswith(b"\x89PNG")
    inspect(folders / "sam", "--file", texts, "--max_samples", 2, "-o", target)  # weights of tokens
    assert target.read_bytes() != first
    assert capsys.readouterr().out.endswith("replacing the former file.\n")
    inspect(folders / "cool", "--compare", folders / "sam", TEXT, "Who?", "-o", out)
    found = json.loads(out.read_text())["maps"]
    shown = [(one["model"], one["tokens"][0]) for one in found]
    assert shown == [("cool", "mira"), ("sam", "mira"), ("cool", "who"), ("sam", "who")]
    assert all(one["title"].startswith("self-attention") for one in found)  # which is what both have
    with pytest.raises(SystemExit):
        inspect(folders / "cool", *["Who?"] * 7, "-o", target)
    assert "7 maps" in capsys.readouterr().err

    (table := tmp_path / "texts.csv").write_text("review,label\nMira grows roses.,good\nWho?,bad\n")
    inspect(folders / "sam", "--file", table, "--text_column_names", "review", "-o", tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    assert page.count("<section>") == page.count("<h2></h2>") == 2  # the model is in the title


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([TEXT, "-o", "out.gif"], "-o out.gif"),
        (["-o", "out.json"], "TEXT or --file"),
        ([TEXT, TEXT, "--pair", TEXT, "-o", "out.json"], "--pair"),
        ([TEXT, "--compare", "nowhere", "-o", "out.json"], "same checkpoint"),
        ([TEXT, "--layers", "1", "--kind", "gates", "-o", "out.json"], "--layers"),
        (["--file", "nowhere.txt", "-o", "out.json"], "nowhere.txt"),
        ([TEXT, "-o", "out.json"], "Cannot load the model 'nowhere'"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_loaded(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = assert_one_line_error(lambda: inspect("nowhere", *arguments), message, tmp_path, capsys)
    assert len(lines) == 1
