"""A checkpoint cannot choose arbitrary code or folders as its parser; the caller can."""

import json
import sys

import pytest
from transformers import AutoTokenizer

from hf_localattn import SlaBertTokenizer
from hf_localattn.hub import init_checkpoint
from hf_localattn.resources import tiny_backbone
from tests.fresh_process import run_fresh
from tests.parsers import install_distribution, install_pipeline, tiny_parser

SENTENCE = "The cat sleeps."


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a folder on the import path, to install packages into."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return init_checkpoint("sla-bert", "tiny", tmp_path_factory.mktemp("sla") / "sla", parser=tiny_parser())


@pytest.fixture
def checkpoint(made, tmp_path):
    """Return a function that writes a checkpoint with given tokenizer settings and returns its folder."""

    def write(**settings):
        folder = tmp_path / "checkpoint"
        SlaBertTokenizer.from_pretrained(made).save_pretrained(folder)
        (folder / "config.json").write_text((made / "config.json").read_text())
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))
        return folder

    return write


def test_a_module_that_is_no_pipeline_is_not_imported(checkpoint, site):
    """The risk: spaCy imports any installed distribution by its name."""
    install_distribution(site, "unrelated_module", "raise SystemExit('this module was imported')")
    tokenizer = AutoTokenizer.from_pretrained(checkpoint(parser="unrelated_module"))
    with pytest.raises(OSError, match=r"'unrelated_module', which no installed distribution declares") as refused:
        tokenizer(SENTENCE)
    assert "AutoTokenizer.from_pretrained(CHECKPOINT, parser=NAME_OR_FOLDER)" in str(refused.value)
    assert "unrelated_module" not in sys.modules


@pytest.mark.parametrize(
    "parser", ["PATH", "./here", "../x", "blank:en", "en core", "a.b", "C:\\x", "~/parser", "a\nb", ""]
)
def test_a_folder_is_loaded_only_if_the_caller_names_it(parser, checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint(parser=tiny_parser() if parser == "PATH" else parser))
    with pytest.raises(ValueError, match=r"is not the name of an installed spaCy pipeline"):
        tokenizer(SENTENCE)
    given = AutoTokenizer.from_pretrained(tmp_path / "checkpoint", parser=tiny_parser())
    assert "dep_heads" in given(SENTENCE)


def test_a_folder_of_the_name_is_not_loaded(checkpoint, tmp_path, monkeypatch):
    """If a name is not installed, spaCy opens the folder of this name in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some_parser").symlink_to(tiny_parser())
    with pytest.raises(OSError, match=r"no installed distribution declares"):
        AutoTokenizer.from_pretrained(checkpoint(parser="some_parser"))(SENTENCE)
    assert AutoTokenizer.from_pretrained(tmp_path / "checkpoint", parser="some_parser")(SENTENCE)


@pytest.mark.parametrize("parser", [3, ["en"], {"a": 1}, True])
def test_a_parser_that_is_no_name_is_refused_at_once(parser, checkpoint):
    with pytest.raises(ValueError, match=r"`parser` is .*; it must be a text or null"):
        AutoTokenizer.from_pretrained(checkpoint(parser=parser))


def test_an_installed_pipeline_is_loaded(checkpoint, site):
    install_pipeline(site, "en_tiny_declared", tiny_parser())
    tokenizer = AutoTokenizer.from_pretrained(checkpoint(parser="en_tiny_declared"))
    given = AutoTokenizer.from_pretrained(tokenizer.name_or_path, parser=tiny_parser())
    assert tokenizer(SENTENCE)["dep_heads"] == given(SENTENCE)["dep_heads"]


@pytest.mark.parametrize("code", ["import no_such_module", ""])
def test_a_broken_pipeline_is_named(code, checkpoint, site):
    name = f"en_broken_{len(code)}"
    install_distribution(site, name, code, entry_points=f"[spacy_models]\n{name} = {name}\n")
    with pytest.raises(OSError, match=f"declares the spaCy pipeline '{name}' is broken"):
        AutoTokenizer.from_pretrained(checkpoint(parser=name))(SENTENCE)


def test_who_has_named_it_is_not_forgotten(checkpoint, tmp_path):
    """A wrapped, saved, copied or pickled tokenizer may load the same parsers as the original."""
    folder = checkpoint(parser=tiny_parser())
    refused = SlaBertTokenizer.from_backbone(AutoTokenizer.from_pretrained(folder))
    given = SlaBertTokenizer.from_backbone(AutoTokenizer.from_pretrained(folder, parser=tiny_parser()))
    assert "dep_heads" in given(SENTENCE)
    given.save_pretrained(tmp_path / "saved")
    for tokenizer in (refused, AutoTokenizer.from_pretrained(tmp_path / "saved")):
        with pytest.raises(ValueError, match=r"is not the name of an installed spaCy pipeline"):
            tokenizer(SENTENCE)


def test_a_backbone_cannot_name_one_either(tmp_path, site):
    """Tokenizers of transformers keep entries that they do not know, and pass them on."""
    install_distribution(site, "unrelated_module", "raise SystemExit('this module was imported')")
    AutoTokenizer.from_pretrained(tiny_backbone()).save_pretrained(tmp_path / "backbone")
    path = tmp_path / "backbone" / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"parser": "unrelated_module"}))
    tokenizer = SlaBertTokenizer.from_backbone(AutoTokenizer.from_pretrained(tmp_path / "backbone"))
    with pytest.raises(OSError, match=r"no installed distribution declares"):
        tokenizer(SENTENCE)


def test_a_checkpoint_cannot_say_that_the_caller_did(checkpoint):
    with pytest.raises(ValueError, match=r"is not the name of an installed spaCy pipeline"):
        AutoTokenizer.from_pretrained(checkpoint(parser=tiny_parser(), parser_named_by_checkpoint=False))(SENTENCE)


def test_code_of_the_checkpoint_may_load_its_folder(made, tmp_path):
    """With `trust_remote_code=True` the code may load anything anyway, so it may load its parser, too."""
    program = (
        "from transformers import AutoTokenizer; import sys\n"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)\n"
        f"print(tokenizer({SENTENCE!r})['dep_heads'])"
    )
    done = run_fresh(program, tmp_path, made)
    expected = AutoTokenizer.from_pretrained(made, parser=tiny_parser())(SENTENCE)["dep_heads"]
    assert done.stdout.strip() == str(expected), done.stderr


def test_the_version_is_saved_and_compared(site, tmp_path, caplog):
    install_pipeline(site, "en_tiny_versioned", tiny_parser(), version="2.1")
    stock = AutoTokenizer.from_pretrained(tiny_backbone())
    SlaBertTokenizer.from_backbone(stock, parser="en_tiny_versioned").save_pretrained(tmp_path / "first")
    assert json.loads((tmp_path / "first" / "tokenizer_config.json").read_text())["parser_version"] == "2.1"
    SlaBertTokenizer.from_pretrained(tmp_path / "first")
    assert not caplog.records

    install_pipeline(site, "en_tiny_versioned", tiny_parser(), version="2.2")
    again = SlaBertTokenizer.from_pretrained(tmp_path / "first")
    assert "version 2.1 of the parser 'en_tiny_versioned', but version 2.2 is installed" in caplog.text
    again.save_pretrained(tmp_path / "second")
    assert json.loads((tmp_path / "second" / "tokenizer_config.json").read_text())["parser_version"] == "2.2"

    caplog.clear()
    other = SlaBertTokenizer.from_pretrained(tmp_path / "first", parser=tiny_parser())
    assert other.parser_version == "0.0.0"  # of the folder's meta.json
    assert SlaBertTokenizer.from_backbone(again, parser=None).parser_version is None
    assert not caplog.records


def test_the_version_is_kept_where_the_parser_is_not_installed(checkpoint, tmp_path):
    tokenizer = SlaBertTokenizer.from_pretrained(checkpoint(parser="en_not_here", parser_version="3.8.0"))
    tokenizer.save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())["parser_version"] == "3.8.0"
