"""Loading spaCy pipelines: components, errors, versions; and that a checkpoint cannot choose code as its parser."""

import json
import sys
from pathlib import Path

import pytest
import spacy
from transformers import AutoTokenizer

from hf_localattn import SlaBertTokenizer
from hf_localattn.models import sla_parser
from hf_localattn.models.sla_parser import ParseCache, load_pipeline, parse
from hf_localattn.resources import tiny_backbone
from tests.tiny_parser import install_distribution, install_pipeline, record_parses, tiny_parser

CAT, DOG = "The cat sleeps.", "A small dog saw the red house."


@pytest.fixture(autouse=True)
def _nothing_parsed(monkeypatch):
    monkeypatch.setattr(sla_parser, "_cache", ParseCache())


@pytest.mark.parametrize(
    ("words", "heads", "expected"),
    [("a b \n \t c", [1, 2, 3, 4, 4], [1, 2, 2]), ("a \n b", [1, 1, 0], [0, 0])],
    ids=["a chain of blanks", "a blank root"],
)
def test_what_hangs_on_white_space_hangs_on_its_head(words, heads, expected, monkeypatch):
    """Chains are climbed; dependents of a blank root become roots."""
    pipeline, words = load_pipeline(tiny_parser()), words.split(" ")
    parsed = spacy.tokens.Doc(pipeline.vocab, words, [False] * len(words), heads=heads, deps=["dep"] * len(words))
    monkeypatch.setattr(pipeline, "pipe", lambda texts: [parsed for _ in texts])
    (found,) = parse([parsed.text], tiny_parser())
    assert (found.count, list(found.heads)) == (len(expected), expected)
    places = zip(found.starts, found.ends, strict=True)
    assert [parsed.text[start:end] for start, end in places] == [word for word in words if word.strip()]


@pytest.mark.parametrize(("most", "parsed"), [(15, [CAT, DOG]), (13, [CAT, DOG, CAT]), (3, [CAT, DOG, DOG, CAT])])
def test_the_cache_forgets_the_oldest_parses(most, parsed, monkeypatch):
    """The texts have 4 and 8 words, and count for one more."""
    expected, calls = parse([CAT], tiny_parser()), record_parses(monkeypatch, load_pipeline(tiny_parser()))
    monkeypatch.setattr(sla_parser, "MAX_CACHED_WORDS", most)
    monkeypatch.setattr(sla_parser, "_cache", ParseCache())
    found = [parse([text], tiny_parser()) for text in (CAT, DOG, DOG, CAT)]
    assert ([text for texts in calls for text in texts], found[0], found[3]) == (parsed, expected, expected)


def embedding_of(reads):
    """A parser's own embedding, which reads an attribute of the words."""
    embed = {"width": 8, "attrs": ["NORM", reads], "rows": [9, 9], "include_static_vectors": False}
    encode = {"width": 8, "depth": 1, "window_size": 1, "maxout_pieces": 2}
    return {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {"@architectures": "spacy.MultiHashEmbed.v2", **embed},
        "encode": {"@architectures": "spacy.MaxoutWindowEncoder.v2", **encode},
    }


@pytest.mark.parametrize(("reads", "kept"), [(None, "tok2vec"), ("TAG", "tok2vec tagger"), ("SHAPE", "")])
def test_only_what_the_parser_needs_is_kept(reads, kept, tmp_path):
    """What sets sentences before it, and what its embedding reads."""
    pipeline = spacy.load(tiny_parser())
    shared = {"model": {"tok2vec": pipeline.get_pipe_config("parser")["model"]["tok2vec"]}}
    if reads is not None:
        pipeline.replace_pipe("parser", "parser", config={"model": {"tok2vec": embedding_of(reads)}})
    pipeline.add_pipe("sentencizer", first=True)
    pipeline.add_pipe("tagger", config=shared, before="parser")
    pipeline.add_pipe("doc_cleaner")
    pipeline.to_disk(tmp_path)
    assert load_pipeline(str(tmp_path)).pipe_names == ["sentencizer", *kept.split(), "parser"]


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    pipeline, blank = load_pipeline(tiny_parser()), spacy.blank("en")
    blank.add_pipe("sentencizer")
    blank.to_disk(tmp_path)
    with pytest.raises(ValueError, match=r"no dependency parser .*sentencizer"):
        parse([CAT], str(tmp_path))
    # one that changes the text
    monkeypatch.setattr(pipeline, "tokenizer", lambda text: spacy.tokens.Doc(pipeline.vocab, words=text.split()))
    with pytest.raises(ValueError, match="words='whitespace'"):
        parse([CAT], tiny_parser())
    monkeypatch.setattr(sla_parser, "_pipelines", {})
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match="pip install spacy"):
        parse([CAT], tiny_parser())


# --- trust


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the import path, to install packages into."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


def changed(tokenizer, folder, **settings):
    """Save a tokenizer with other settings in its file, and return the folder."""
    tokenizer.save_pretrained(folder)
    path = Path(folder, "tokenizer_config.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return folder


STOCK = AutoTokenizer.from_pretrained(tiny_backbone())
PARSING = SlaBertTokenizer.from_backbone(STOCK, parser=tiny_parser())


@pytest.mark.parametrize(("parser", "error"), [("./a_folder", ValueError), ("", ValueError), ("a_folder", OSError)])
def test_only_the_caller_may_name_what_no_distribution_declares(parser, error, tmp_path, monkeypatch):
    """spaCy would import any installed distribution by its name, or open any folder."""
    monkeypatch.chdir(tmp_path)
    Path("a_folder").symlink_to(tiny_parser())
    named = changed(PARSING, "named", parser=parser, parser_named_by_checkpoint=False)
    given = AutoTokenizer.from_pretrained(named, parser="a_folder")
    saved = changed(given, "saved", parser=parser)
    backbone = changed(STOCK, "backbone", parser=parser)  # transformers hands on entries that it does not know
    wrapped = [SlaBertTokenizer.from_backbone(AutoTokenizer.from_pretrained(one)) for one in (named, backbone)]
    for tokenizer in (*map(AutoTokenizer.from_pretrained, (named, saved)), *wrapped):
        with pytest.raises(error, match=f"names the parser '{parser}'"):
            tokenizer(CAT)
    for tokenizer in (given, SlaBertTokenizer.from_backbone(given)):
        assert "dep_heads" in tokenizer(CAT)


def test_an_installed_pipeline_is_loaded_and_a_broken_one_named(site, tmp_path):
    install_pipeline(site, "en_tiny_declared", tiny_parser())
    tokenizer = AutoTokenizer.from_pretrained(changed(PARSING, tmp_path / "installed", parser="en_tiny_declared"))
    assert tokenizer(CAT)["dep_heads"] == PARSING(CAT)["dep_heads"]
    for code in ("import no_such_module", ""):
        name = f"en_broken_{len(code)}"
        install_distribution(site, name, code, entry_points=f"[spacy_models]\n{name} = {name}\n")
        with pytest.raises(OSError, match=f"'{name}' is broken"):
            AutoTokenizer.from_pretrained(changed(PARSING, tmp_path / name, parser=name))(CAT)


def test_the_version_is_saved_and_compared(site, tmp_path, caplog):
    def version_of(tokenizer):
        tokenizer.save_pretrained(tmp_path / "saved")
        return json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())["parser_version"]

    name = "en_tiny_versioned"
    install_pipeline(site, name, tiny_parser(), version="2.1")
    assert version_of(SlaBertTokenizer.from_backbone(STOCK, parser=name)) == "2.1"
    SlaBertTokenizer.from_pretrained(tmp_path / "saved")
    install_pipeline(site, name, tiny_parser(), version="2.2")
    assert SlaBertTokenizer.from_pretrained(tmp_path / "saved", parser=tiny_parser()).parser_version == "0.0.0"
    assert not caplog.records
    again = SlaBertTokenizer.from_pretrained(tmp_path / "saved")
    assert f"version 2.1 of the parser '{name}', but version 2.2" in caplog.text
    assert SlaBertTokenizer.from_backbone(again, parser=None).parser_version is None
    assert version_of(again) == "2.2"
    absent = changed(PARSING, tmp_path / "absent", parser="en_not_here", parser_version="3.8.0")
    assert version_of(SlaBertTokenizer.from_pretrained(absent)) == "3.8.0"
