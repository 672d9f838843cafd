"""Names of families, found without their modules."""

from pathlib import Path

import pytest

from hf_localattn.names import PLAIN, SAMPLES, family_names, find_family, find_files
from hf_localattn.registry import FAMILIES


def test_families_are_those_of_the_registry():
    assert family_names() == sorted(FAMILIES)
    with pytest.raises(ValueError, match=r"There is no family 'col'. Choose one of cool, oa-xlnet"):
        find_family("col")


def test_a_family_may_be_given_by_its_first_part():
    assert [find_family(name) for name in ("sla", "sla-bert", "oa", "sam", "cool")] == [
        *("sla-bert", "sla-bert", "oa-xlnet", "sam-roberta", "cool")
    ]
    assert find_family(PLAIN, PLAIN) == PLAIN
    with pytest.raises(ValueError, match="'baseline'"):
        find_family(PLAIN)


def test_files_are_found_in_the_folder_or_among_the_samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("one,two.csv").write_text("")
    Path("three.csv").write_text("")
    assert find_files("one,two.csv") == "one,two.csv"
    assert find_files("three.csv, sample:jokes.csv") == f"three.csv,{SAMPLES / 'jokes.csv'}"
    with pytest.raises(FileNotFoundError, match=r"four.csv: no such file; check the path"):
        find_files("three.csv,four.csv")
    with pytest.raises(FileNotFoundError, match=r"There is no 'sample:joke'. The samples are .*negation/starsem.txt"):
        find_files("sample:joke")
