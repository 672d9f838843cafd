"""The summary of a run: sections of aligned rows."""

from hf_localattn.hub import Score
from hf_localattn.training.summary import Section, format_summary, label_sections, score_section


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


def test_scores_of_entity_types_have_a_table():
    values = {"f1": 0.5, "new_place_f1": 0.25, "new_place_number": 4.0, "a_f1": 1.0, "a_number": 2.0, "number": 3.0}
    others, (section,) = label_sections([Score("validation", name, value) for name, value in values.items()])
    assert [score.metric for score in others] == ["f1", "number"]
    assert format_summary([section]).splitlines() == [
        "Labels of the validation rows",
        "             f1      number",
        "  new_place  0.2500  4",
        "  a          1.0000  2",
    ]
