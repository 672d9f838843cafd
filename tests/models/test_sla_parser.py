"""Conversion of spaCy's parses, choice of its components, and errors if it cannot parse."""

import sys

import pytest
import spacy

from hf_localattn.models import sla_parser
from hf_localattn.models.sla_alignment import Words
from hf_localattn.models.sla_parser import ParseCache, load_pipeline, parse
from tests.parsers import tiny_parser
from tests.tiny_parser import SENTENCES

CAT, DOG = "The cat sleeps.", "A small dog saw the red house."


@pytest.fixture(autouse=True)
def _nothing_parsed(monkeypatch):
    monkeypatch.setattr(sla_parser, "_cache", ParseCache())


@pytest.mark.parametrize("language", SENTENCES)
def test_parses_what_the_parser_has_learnt(language):
    """Texts and lists of words get the same heads, but only texts have offsets."""
    for sentence, heads in SENTENCES[language]:
        (given,) = parse([tuple(sentence.split())], tiny_parser(language))
        assert (given.number, list(given.heads), given.starts) == (len(heads), heads, None)
        (text,) = parse([sentence], tiny_parser(language), "whitespace")
        assert list(text.heads) == heads
        assert [sentence[a:b] for a, b in zip(text.starts, text.ends, strict=True)] == sentence.split()


def test_white_space_is_no_word():
    """spaCy has tokens of white space, which have heads and dependents."""
    (plain,) = parse([CAT], tiny_parser())
    for text in (f" {CAT}", f"{CAT}\n\n", "The  cat \n sleeps."):
        (parsed,) = parse([text], tiny_parser())
        assert [text[a:b] for a, b in zip(parsed.starts, parsed.ends, strict=True)] == ["The", "cat", "sleeps", "."]
        assert len(parsed.heads) == plain.number


def test_what_hangs_on_white_space_hangs_on_its_head():
    """Chains of blanks are climbed; dependents of a blank root become roots."""
    assert sla_parser._without([0, 0, 1, 1, 0], [1, 2, 3, 4, 4]) == [1, 2, 2]
    assert sla_parser._without([0, 1, 0], [1, 1, 0]) == [0, 0]


def test_the_cache_forgets_the_oldest_parses(monkeypatch):
    monkeypatch.setattr(sla_parser, "MAX_CACHED_WORDS", 10)
    cache = ParseCache()
    for name in "abcd":
        cache.put(name, Words(2))
    assert (list(cache), cache.size) == (["b", "c", "d"], 9)
    cache.put("long", Words(30))
    assert (list(cache), cache.size) == ([], 0)


def test_a_text_larger_than_the_cache_is_parsed(monkeypatch):
    expected = parse([CAT, DOG], tiny_parser())
    monkeypatch.setattr(sla_parser, "MAX_CACHED_WORDS", 3)
    monkeypatch.setattr(sla_parser, "_cache", ParseCache())
    assert parse([CAT, DOG], tiny_parser()) == expected


def test_only_what_the_parser_needs_is_kept():
    assert spacy.load(tiny_parser()).pipe_names == ["tok2vec", "tagger", "ner", "parser", "doc_cleaner"]
    assert load_pipeline(tiny_parser()).pipe_names == ["tok2vec", "parser"]


def test_what_sets_sentences_before_the_parser_is_kept(tmp_path):
    pipeline = spacy.load(tiny_parser())
    pipeline.add_pipe("sentencizer", first=True)
    pipeline.to_disk(tmp_path / "pipeline")
    assert load_pipeline(str(tmp_path / "pipeline")).pipe_names == ["sentencizer", "tok2vec", "parser"]


@pytest.mark.parametrize(("reads", "kept"), [("TAG", ["tok2vec", "tagger", "parser"]), ("SHAPE", ["parser"])])
def test_a_parser_with_an_embedding_of_its_own_keeps_what_that_reads(tmp_path, reads, kept):
    pipeline = spacy.load(tiny_parser())
    attributes = {"@architectures": "spacy.MultiHashEmbed.v2", "width": 8, "attrs": ["NORM", reads], "rows": [9, 9]}
    encoder = {"@architectures": "spacy.MaxoutWindowEncoder.v2", "width": 8, "depth": 1, "window_size": 1}
    tok2vec = {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {**attributes, "include_static_vectors": False},
        "encode": {**encoder, "maxout_pieces": 2},
    }
    model = {"@architectures": "spacy.TransitionBasedParser.v2", "state_type": "parser", "extra_state_tokens": False}
    pipeline.remove_pipe("parser")
    sizes = {"hidden_width": 8, "maxout_pieces": 1, "use_upper": True}
    parser = pipeline.add_pipe("parser", config={"model": {**model, **sizes, "tok2vec": tok2vec}}, after="tagger")
    parser.add_label("dep")
    parser.model.initialize()
    pipeline.to_disk(tmp_path / "pipeline")
    assert load_pipeline(str(tmp_path / "pipeline")).pipe_names == kept


def test_spacy_missing(monkeypatch):
    monkeypatch.setattr(sla_parser, "_pipelines", {})
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match="pip install spacy"):
        parse([CAT], tiny_parser())


def test_pipeline_missing():
    with pytest.raises(OSError, match=r"'xx_not_there'.*python -m spacy download xx_not_there.*folder"):
        parse([CAT], "xx_not_there")


def test_pipeline_without_a_parser(tmp_path):
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.to_disk(tmp_path / "blank")
    with pytest.raises(ValueError, match=r"blank' has no dependency parser \(its components: sentencizer\)"):
        parse([CAT], str(tmp_path / "blank"))


def test_a_pipeline_that_changes_the_text(monkeypatch):
    pipeline = load_pipeline(tiny_parser())
    monkeypatch.setattr(pipeline, "tokenizer", lambda text: spacy.tokens.Doc(pipeline.vocab, words=text.split()))
    with pytest.raises(ValueError, match=r"changes the text.*words='whitespace'"):
        parse([CAT], tiny_parser())
