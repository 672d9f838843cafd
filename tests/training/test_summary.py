"""The summary of a run: sections of aligned rows."""

from hf_localattn.hub import Score
from hf_localattn.training.summary import Section, format_summary, score_section


def test_sections_are_aligned():
    scores = [Score("validation", "accuracy", 0.5), Score("validation", "f1", 0.25), Score("test", "f1", float("nan"))]
    sections = [Section("Nothing", []), Section("Run", [("rows", "4 train")]), score_section("Scores", scores)]
    assert format_summary(sections).splitlines() == [
        "Run",
        "  rows  4 train",
        "Scores",
        "            validation  test",
        "  accuracy  0.5000",
        "  f1        0.2500      nan",
    ]


def test_a_run_without_scores_has_no_table():
    assert format_summary([score_section("Scores", [])]) == ""
