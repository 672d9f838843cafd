"""`SlaBertTokenizer` keeps its hash, and works without the package installed."""

import copy
import json
import os
import pickle

import pytest
import spacy
from datasets import Dataset
from datasets.fingerprint import Hasher
from transformers import AutoTokenizer, BertConfig, DataCollatorWithPadding

from hf_localattn.installed.parse_store import VARIABLE
from hf_localattn.models import sla_parser, tokenization_sla_bert
from hf_localattn.models.tokenization_sla_bert import SlaBertTokenizer
from hf_localattn.resources import tiny_backbone
from tests.fresh_process import run_fresh
from tests.parsers import tiny_parser

CAT, DOG, TOWN = "The cat sleeps.", "A small dog saw the red house.", "Birds fly over the old town."


@pytest.fixture
def tokenizer():
    return SlaBertTokenizer.from_backbone(AutoTokenizer.from_pretrained(tiny_backbone()), parser=tiny_parser())


def test_calls_leave_no_trace(tokenizer):
    before = pickle.dumps(tokenizer), Hasher.hash(tokenizer)
    tokenizer([CAT, DOG], truncation=True, max_length=5, padding=True)
    tokenizer("It rains. " * 200)  # over the model's length: a warning, once
    DataCollatorWithPadding(tokenizer)([dict(tokenizer(CAT))])
    with pytest.raises(ValueError, match="cycle"):
        tokenizer(["a", "b"], is_split_into_words=True, heads=[1, 0], truncation=True, max_length=4)
    assert (pickle.dumps(tokenizer), Hasher.hash(tokenizer)) == before
    assert len(before[0]) < len(pickle.dumps(AutoTokenizer.from_pretrained(tiny_backbone()))) + 2000


def test_copies_work(tokenizer):
    expected = dict(tokenizer(CAT, DOG))
    for copied in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert dict(copied(CAT, DOG)) == expected
        assert Hasher.hash(copied) == Hasher.hash(tokenizer)


def test_map_finds_its_cache(tokenizer, monkeypatch, tmp_path):
    Dataset.from_dict({"text": [CAT, DOG, TOWN]}).save_to_disk(tmp_path / "data")
    tokenize = lambda batch: tokenizer(batch["text"], truncation=True, max_length=8)  # noqa: E731
    first = Dataset.load_from_disk(tmp_path / "data").map(tokenize, batched=True)
    monkeypatch.setattr(tokenization_sla_bert, "parse", None)
    second = Dataset.load_from_disk(tmp_path / "data").map(tokenize, batched=True)
    assert first["dep_heads"][:] == second["dep_heads"][:]
    with pytest.raises(TypeError):
        tokenize({"text": [CAT]})


FRESH_PROCESS = """
import json
import sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
from datasets import Dataset
from datasets.fingerprint import Hasher
from transformers import AutoTokenizer

folder, data, expected, again = sys.argv[1:]
expected = json.loads(expected)
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
module = sys.modules[type(tokenizer).__module__]
assert module.__name__.startswith("transformers_modules"), module.__name__
parsing = sys.modules[module.parse.__module__]
fingerprint = Hasher.hash(tokenizer)

rows = Dataset.load_from_disk(data)
mapped = rows.map(lambda batch: tokenizer(batch["text"], truncation=True, max_length=128), batched=True)
print(fingerprint, mapped._fingerprint, len(parsing._pipelines))
assert {name: mapped[name][:] for name in expected} == expected
assert Hasher.hash(tokenizer) == fingerprint

if again != "-":  # the second generation
    tokenizer.save_pretrained(again)
    second = AutoTokenizer.from_pretrained(again, trust_remote_code=True)
    assert dict(second(rows["text"][:])) == expected
    assert second.is_fast and second.parser == tokenizer.parser and second.words == tokenizer.words
"""


@pytest.mark.slow(
    reason="a process of its own; tests/hub/test_round_trip.py loads a tokenizer of every family like this"
)
def test_loads_where_the_package_is_not_installed(tokenizer, tmp_path):
    """In a second process, `map` finds the results of the first without loading the parser."""
    folder, data, again = tmp_path / "folder", tmp_path / "data", tmp_path / "again"
    Dataset.from_dict({"text": [CAT, DOG, TOWN]}).save_to_disk(data)
    tokenizer.save_pretrained(folder)
    for checkpoint in (folder, again):
        BertConfig().save_pretrained(checkpoint)
    expected = json.dumps(dict(tokenizer([CAT, DOG, TOWN])))
    said = []
    for second_generation in (again, "-"):
        result = run_fresh(FRESH_PROCESS, tmp_path, folder, data, expected, second_generation)
        assert result.returncode == 0, result.stderr
        said.append(result.stdout.split())
    assert said[0][:2] == said[1][:2]
    assert [loaded for *_, loaded in said] == ["1", "0"]
    code = {"configuration_local_attention", "configuration_sla_bert", "sla_alignment", "sla_parser"}
    code |= {"tokenization_local_attention", "tokenization_sla_bert"}
    assert code == {path.stem for path in again.glob("*.py")}


# Python 3.12 and newer warn about forks in processes with threads; `datasets` decides to fork.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("stored", [False, True])
def test_map_in_several_processes(stored, tokenizer, monkeypatch, tmp_path):
    """Each process loads the pipeline once."""
    load, log = spacy.load, tmp_path / "loads"

    def logged(name):
        with log.open("a") as stream:
            stream.write(f"{os.getpid()}\n")
        return load(name)

    monkeypatch.setattr(spacy, "load", logged)
    monkeypatch.setattr(sla_parser, "_cache", sla_parser.ParseCache())
    monkeypatch.setattr(sla_parser, "_pipelines", {})
    if stored:
        monkeypatch.setattr(os, "environ", os.environ)  # `map` replaces it by a copy, which would keep the variable
        monkeypatch.setenv(VARIABLE, str(tmp_path / "parses"))
    rows = Dataset.from_dict({"text": [CAT, DOG, TOWN, "", *(f"{CAT} {number}" for number in range(4))]})
    tokenize = lambda batch: tokenizer(batch["text"], truncation=True, max_length=8)  # noqa: E731
    mapped = rows.map(tokenize, batched=True, batch_size=2, num_proc=2)
    workers = log.read_text().split()
    assert len(workers) == len(set(workers)) == 2
    assert mapped["dep_heads"][:] == tokenize(rows[:])["dep_heads"]
