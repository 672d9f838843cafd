"""The measures of *SEM 2012, as the program of the shared task prints them, and means over negations."""

import pytest

from hf_localattn.metrics import load_metric
from hf_localattn.metrics.starsem_scores import INSTANCE_SCORES, MEASURES, STARSEM_SCORES

LEFT = "He/PRP never/RB left/VBD Mr./NNP Li/NNP ,/, unhappy/JJ and/CC careless/JJ ./."
NEITHER = "Neither/CC he/PRP nor/CC I/PRP (/-LRB- ever/RB )/-RRB- left/VBD"
# cue and scope
NEVER = "_ never _ _ _ _ _ _ _ _", "He _ left Mr. Li _ _ _ _ _"
UNHAPPY = "_ _ _ _ _ _ un _ _ _", "He _ _ _ _ _ happy _ _ _"
WHOLE = UNHAPPY[0].replace("un", "unhappy"), UNHAPPY[1]
CARELESS = "_ _ _ _ _ _ _ _ less _", "He _ _ _ _ _ _ _ care _"
NEITHER_NOR = "Neither _ nor _ _ _ _ _", "_ he _ I ( ever ) left"
NEITHER_ALONE = "Neither _ _ _ _ _ _ _", "_ he _ _ _ _ _ left"
NOR_ALONE = "_ _ nor _ _ _ _ _", "_ _ _ I _ _ _ left"
EMPTY = "_ never _ _ _ _ _ _ _ _", "_ _ _ _ _ _ _ _ _ _"

CASES = {
    # the sentence, its negations, those that are found; and F1 of cues, scopes with and without cue match, scope
    # tokens and the B variants, as the task's program prints it
    "all right": (LEFT, [NEVER, UNHAPPY, CARELESS], [CARELESS, NEVER, UNHAPPY], "100 100 100 100 100 100 100"),
    "punctuation": (LEFT, [NEVER], [(NEVER[0], "He _ left Mr Li , _ _ _ .")], "100 100 100 100 100 100 100"),
    "a word less": (
        *(LEFT, [NEVER, UNHAPPY], [(NEVER[0], "He _ left Mr. _ _ _ _ _ _"), UNHAPPY]),
        "100 66.67 66.67 90.91 100 50 50",
    ),
    "the whole word for its affix": (LEFT, [UNHAPPY], [WHOLE], "0 0 100 100 0 0 100"),
    "the whole word in scope": (
        *(LEFT, [UNHAPPY], [(UNHAPPY[0], UNHAPPY[1].replace("happy", "unhappy"))]),
        "100 0 0 50 100 0 0",
    ),
    "a cue split in two": (NEITHER, [NEITHER_NOR], [NEITHER_ALONE, NOR_ALONE], "0 0 0 50 0 0 0"),
    "two cues joined": (NEITHER, [NEITHER_ALONE, NOR_ALONE], [NEITHER_NOR], "0 0 0 50 0 0 0"),
    "brackets": (NEITHER, [NEITHER_NOR], [(NEITHER_NOR[0], "_ he _ I _ ever _ left")], "100 100 100 100 100 100 100"),
    "one too many": (LEFT, [NEVER], [NEVER, CARELESS], "66.67 66.67 66.67 80 66.67 66.67 66.67"),
    "one too few": (LEFT, [NEVER, CARELESS], [CARELESS], "66.67 66.67 66.67 50 66.67 66.67 66.67"),
    "a scope that is empty": (LEFT, [EMPTY, CARELESS], [NEVER, CARELESS], "100 66.67 66.67 50 100 66.67 66.67"),
    "an empty scope of a wrong cue": (
        *(LEFT, [("He never _ _ _ _ _ _ _ _", EMPTY[1]), CARELESS], [NEVER, CARELESS]),
        "66.67 100 66.67 50 50 66.67 66.67",
    ),
    "nothing found": (LEFT, [NEVER], [], "0 0 0 0 0 0 0"),
    "nothing there": (LEFT, [], [NEVER], "0 0 0 0 0 0 0"),
}
TABLE = {  # precision, recall and F1 of all cases together
    "cues": (81.25, 65.00, 72.22),
    "scopes_cue_match": (71.43, 55.56, 62.50),
    "scopes_no_cue_match": (68.75, 61.11, 64.71),
    "scope_tokens": (66.67, 73.08, 69.73),
    "cues_b": (65.00, 65.00, 65.00),
    "scopes_cue_match_b": (50.00, 55.56, 52.63),
    "scopes_no_cue_match_b": (55.00, 61.11, 57.89),
}


def scores_of(*cases):
    """Return the scores of cases as percentages."""
    sides = [
        [
            [
                {"cue_text": cue.replace("_", "").split(" "), "scope_text": scope.replace("_", "").split(" ")}
                for cue, scope in case[own]
            ]
            for case in cases
        ]
        for own in (2, 1)
    ]
    tags = [[word.rsplit("/", 1)[1] for word in case[0].split()] for case in cases]
    scores = load_metric("starsem").compute(predictions=sides[0], references=sides[1], pos=tags)
    assert {*STARSEM_SCORES, *INSTANCE_SCORES} == set(scores)
    return {name: round(100 * value, 2) for name, value in scores.items()}


@pytest.mark.parametrize("name", CASES)
def test_cases_as_the_program_prints_them(name):
    scores = scores_of(CASES[name])
    measures = [*MEASURES, *(f"{measure}_b" for measure in MEASURES[:3])]
    assert [scores[f"starsem_{measure}_f1"] for measure in measures] == list(map(float, CASES[name][3].split()))


def test_all_cases_together():
    scores = scores_of(*CASES.values())
    for measure, values in TABLE.items():
        names = f"{measure}_precision", f"{measure.removesuffix('_b')}_recall", f"{measure}_f1"
        assert tuple(scores[f"starsem_{name}"] for name in names) == values
    assert [scores[f"starsem_correct_{kind}sentences"] for kind in ("", "negation_")] == [21.43, 23.08]
    nothing = scores_of((LEFT, [], []))
    assert nothing.pop("starsem_correct_sentences") == 100
    assert set(nothing.values()) == {0}


@pytest.mark.parametrize(
    ("gold", "predicted", "precision", "recall"),
    [
        ([NEVER], [(NEVER[0], "He _ left _ _ , _ and _ .")], 2 / 3, 2 / 4),
        ([NEVER, CARELESS], [CARELESS], 1, 1 / 2),
        ([NEVER], [CARELESS, NEVER], 1 / 2, 1),
        ([EMPTY, CARELESS], [EMPTY, CARELESS], 1, 1),
        ([EMPTY], [NEVER], 0, 1),
        ([NEVER], [EMPTY], 1, 0),
        ([UNHAPPY], [WHOLE], 0, 0),
        ([NEVER], [NEVER, NEVER], 1 / 2, 1),
        ([NEVER], [], 0, 0),
    ],
)
def test_means_over_negations(gold, predicted, precision, recall):
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
    scores = scores_of((LEFT, gold, predicted))
    expected = {"instance_f1": f1, "instance_precision": precision, "instance_recall": recall}
    assert {name: scores[name] for name in INSTANCE_SCORES} == pytest.approx(
        {name: round(100 * value, 2) for name, value in expected.items()}
    )


@pytest.mark.parametrize("change", [{"cue_text": ["", ""]}, {"cue_text": ["no"]}, {"scope_text": ["a"]}])
def test_what_is_no_negation(change):
    own = {"cue_text": ["no", ""], "scope_text": ["", "one"]}
    sides = {"predictions": [[own], [own]], "references": [[own], [{**own, **change}]]}
    for given in (sides, {"predictions": sides["references"], "references": sides["predictions"]}):
        side = next(name for name in given if given[name] is sides["references"])
        with pytest.raises(ValueError, match=f"{side}, sentence 2.*cue.* 2 texts"):
            load_metric("starsem").compute(**given, pos=[["A", "B"]] * 2)
