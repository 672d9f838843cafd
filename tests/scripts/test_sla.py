"""SLA through the scripts and the command, as a user runs it, with a parser of a few sentences."""

import json

import pytest
from transformers import AutoTokenizer

from hf_localattn import SlaBertTokenizer
from hf_localattn.hub import init_checkpoint
from hf_localattn.names import SAMPLES
from tests.tiny_parser import tiny_parser

SLA = {"family": "sla-bert", "backbone": "tiny", "max_seq_length": 48}
REVIEWS = str(SAMPLES / "reviews.csv")


@pytest.mark.parametrize(
    ("script", "data", "score", "more"),
    [
        ("glue", "mrpc.jsonl", "accuracy", {"task_name": "mrpc"}),
        ("ner", "names.conll", "f1", {}),
        ("ner", "errors.xml", "detection_f1", {}),
        ("swag", "endings.csv", "accuracy", {}),
        ("qa", "reading/validation.json", "f1", {}),
    ],
)
def test_every_script_trains_it_and_its_folder_goes_on(script, data, score, more, run, tmp_path):
    path, parser = str(SAMPLES / data) if (SAMPLES / data).exists() else data, tiny_parser()
    more = {**more, "max_train_samples": 6, "max_eval_samples": 4}
    fields = [f"parser={parser}", "syntax_threshold=2", "words=whitespace"]
    assert f"eval_{score}" in run(script, path, "train eval", **SLA, **more, local_config=fields)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert type(tokenizer) is SlaBertTokenizer
    assert (tokenizer.parser, tokenizer.words) == (parser, "whitespace")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["syntax_threshold"] == 2
    assert "parser" not in config
    # no field has to be given again, but for a parser that is a folder
    again = {"model": str(tmp_path / "out"), "max_seq_length": 48, "local_config": fields[:1]}
    assert f"eval_{score}" in run(script, path, "eval", "again", **again, **more)


@pytest.mark.parametrize("kind", ["window", "none"])
def test_what_needs_no_parse_needs_no_parser(kind, run, tmp_path):
    run("glue", REVIEWS, "train", **SLA, local_config=[f"local_attention={kind}"])
    assert AutoTokenizer.from_pretrained(tmp_path / "out").parser is None


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = init_checkpoint("sla-bert", "tiny", tmp_path_factory.mktemp("sla") / "sla", parser=tiny_parser())
    return {"model": str(folder)}


@pytest.mark.parametrize(
    ("is_made", "fields", "word"),
    [
        (False, ["parser=xx_no_such_parser"], "spacy download"),
        (False, ["local_attention=syntactic"], "'syntactic'"),
        (False, ["parser=null"], "dep_heads"),
        (False, ["syntax_treshold=3"], "'syntax_treshold'"),
        (True, [], "yourself"),  # of a checkpoint only the tokenizer can be set
        (True, ["words=spaces"], "'spaces'"),
        (True, ["syntax_threshold=2"], "fixed"),
    ],
)
def test_fields_and_settings_that_are_refused(is_made, fields, word, made, refused):
    refused(word, "glue", REVIEWS, "train", **(made if is_made else SLA), local_config=fields)
