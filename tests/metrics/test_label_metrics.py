"""Metrics of words by hand, as conlleval and CGED's tool count, and of *SEM 2012, as its program prints them."""

import pytest

from hf_localattn.metrics import load_metric, word_scores
from hf_localattn.metrics.starsem_scores import INSTANCE_SCORES, MEASURES, STARSEM_SCORES

NAMES = ("entities", "error_detection", "error_diagnosis", "negation_scope")
METRICS = {name: load_metric(name) for name in NAMES}


def compute(name, predictions, references, **options):
    """Return the scores of sentences written as "B-x O", or of scopes written as "0 1"."""
    kind = int if name == "negation_scope" else str
    pair = [[[kind(label) for label in labels.split()] for labels in rows] for rows in (predictions, references)]
    return METRICS[name].compute(predictions=pair[0], references=pair[1], **options)


def prf(scores, prefix=""):
    return [scores[f"{prefix}{name}"] for name in ("precision", "recall", "f1")]


def test_an_entity_counts_as_a_whole_in_all_schemes():
    found = ["B-person I-person O B-place", "B-creative-work O O", "B-only"]
    result = compute("entities", found, ["B-person I-person I-person B-place", "B-creative-work O B-person", "O"])
    assert result["overall_accuracy"] == pytest.approx(5 / 8)
    assert result["person"] == {"precision": 0, "recall": 0, "f1": 0, "number": 2}
    assert result["only"] == {"precision": 0, "recall": 0, "f1": 0, "number": 0}
    assert result["place"] == result["creative-work"] == {"precision": 1, "recall": 1, "f1": 1, "number": 1}
    assert compute("entities", ["B-x", "I-x"], ["B-x", "I-x"])["x"]["number"] == 2  # it ends with its sentence
    for labels in ("I-x I-x O I-y I-x", "I-x E-x O E-y E-x", "B-x E-x O S-y S-x", "B-x L-x O U-y U-x"):
        result = compute("entities", [labels], [labels])
        assert (result["x"]["number"], result["y"]["number"], result["overall_f1"]) == (2, 1, 1)
    assert compute("entities", ["B-x M-x M-x E-x"], ["B-x I-x I-x E-x"])["overall_f1"] == 1


# one S too many, both elsewhere: the type is found, once; R is right; M is right, S is too long; another type
FOUND = ["B-S I-S B-S I-S O O B-R", "O O", "B-M O B-S I-S", "B-M I-M"]
TRUE = ["O O O O B-S I-S B-R", "O O", "B-M O B-S O", "B-W I-W"]


def test_the_three_levels_of_diagnosis_and_the_words_that_are_marked():
    """The example of the shared task's tool, with the scores that the tool prints for it."""
    scores = compute("error_diagnosis", FOUND, TRUE)
    assert prf(scores, "detection_") == [1, 1, 1]
    assert prf(scores, "identification_") == pytest.approx([4 / 5, 4 / 5, 4 / 5])
    assert prf(scores, "position_") == pytest.approx([2 / 6, 2 / 5, 4 / 11])
    assert prf(compute("entities", FOUND, TRUE), "overall_") == pytest.approx([2 / 6, 2 / 5, 4 / 11])
    scores = compute("error_diagnosis", ["B-S", "O", "O B-R", "O"], ["O", "O", "B-S O", "B-R"])
    assert [*prf(scores, "detection_"), scores["false_positive_rate"]] == [1 / 2, 1 / 2, 1 / 2, 1 / 2]
    pair = [[" ".join(str(int(label != "O")) for label in one.split()) for one in own] for own in (FOUND, TRUE)]
    scores = compute("negation_scope", *pair)  # 5 hits among 10 words and 7 words
    assert [*prf(scores), scores["scope_exact_match"]] == pytest.approx([1 / 2, 5 / 7, 10 / 17, 1 / 2])
    scores = compute("error_detection", *([one.translate({48: "c", 49: "i"}) for one in own] for own in pair))
    assert scores == pytest.approx({"precision": 1 / 2, "recall": 5 / 7, "f0_5": 1.25 * 5 / 14 / (1 / 8 + 5 / 7)})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_nothing_to_divide_by(name):
    nothing = {"error_detection": "c c", "negation_scope": "0 0"}.get(name, "O O")
    for labels in (nothing, ""):
        scores = compute(name, [labels], [labels])
        assert scores.pop("overall_accuracy", bool(labels)) == bool(labels)
        assert scores.pop("scope_exact_match", 1) == 1
        assert set(scores.values()) == {0}


@pytest.mark.parametrize("side", ["predictions", "references"])
def test_what_is_refused(side):
    for name in NAMES:
        with pytest.raises(ValueError, match="sentence 2: 1 predicted labels, but 2"):
            compute(name, ["0", "0"], ["0", "0 0"])
    with pytest.raises(ValueError, match=f"{side}: 2"):
        METRICS["negation_scope"].compute(**{"predictions": [[0]], "references": [[0]], side: [[2]]})
    right = {"cue_text": ["no", ""], "scope_text": ["", "one"]}
    for change in ({"cue_text": ["", ""]}, {"cue_text": ["no"]}, {"scope_text": ["a"]}):
        sides = {"predictions": [[right]], "references": [[right]], side: [[{**right, **change}]]}
        with pytest.raises(ValueError, match=f"{side}, sentence 1.*cue.* 2 texts"):
            load_metric("starsem").compute(**sides, pos=[["A", "B"]])


@pytest.mark.parametrize(
    ("function", "label_sets", "first"),
    [
        (
            word_scores.entity_scores,
            ("O B-x-y S-x E-x", "U-x L-x O", "O B-R B-x", "B I E S", "I O", "B M-x", "S-x O"),
            "f1",
        ),
        (word_scores.diagnosis_scores, ("O B-R I-R", "B-W O B-M B-S B-R"), "detection_f1"),
        (word_scores.detection_scores, ("i c",), "f0_5"),
        (
            word_scores.word_scores,
            ("c i x", "O B-x X", "O person", "O", "S M L", "S M", "E S O", "S-1 M-1 L-1"),
            "accuracy",
        ),
    ],
)
def test_labels_say_how_they_are_scored(function, label_sets, first):
    for names in map(str.split, label_sets):
        score, reported = word_scores.select_metrics(names)
        assert (score, reported[0]) == (function, first)
        assert set(score([names], [names])) > set(reported)


def test_scores_of_each_label():
    own = word_scores.word_scores([["c", "i"], ["i", "c"]], [["c", "i"], ["c", "c"]])
    # F1 of c is 4/5, of i 2/3
    assert [own["accuracy"], own["macro_f1"]] == [3 / 4, pytest.approx((4 / 5 + 2 / 3) / 2)]
    assert [*prf(own, "i_"), own["i_number"], own["c_number"]] == pytest.approx([1 / 2, 1, 2 / 3, 1, 3])
    assert compute("error_detection", ["bad good"], ["bad bad"], positive_label="bad")["recall"] == 0.5
    assert word_scores.word_scores([[]], [[]]) == {"accuracy": 0, "macro_f1": 0}
    scores = word_scores.entity_scores([["B-x", "I-x", "O"]], [["B-x", "O", "O"]])
    assert (scores["accuracy"], scores["f1"], scores["x_number"]) == (pytest.approx(2 / 3), 0, 1)


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
EMPTY = NEVER[0], "_ _ _ _ _ _ _ _ _ _"
LESS, DOTS = (NEVER[0], "He _ left Mr. _ _ _ _ _ _"), (NEVER[0], "He _ left Mr Li , _ _ _ .")
OWN, ANOTHER = (UNHAPPY[0], "He _ _ _ _ _ unhappy _ _ _"), ("He never _ _ _ _ _ _ _ _", EMPTY[1])
BARE = NEITHER_NOR[0], "_ he _ I _ ever _ left"

CASES = {
    # the sentence, its negations, those that are found; and F1 of cues, scopes with and without cue match, scope
    # tokens and the B variants, as the task's program prints it
    "all right": (LEFT, [NEVER, UNHAPPY, CARELESS], [CARELESS, NEVER, UNHAPPY], "100 100 100 100 100 100 100"),
    "punctuation": (LEFT, [NEVER], [DOTS], "100 100 100 100 100 100 100"),
    "a word less": (LEFT, [NEVER, UNHAPPY], [LESS, UNHAPPY], "100 66.67 66.67 90.91 100 50 50"),
    "the whole word for its affix": (LEFT, [UNHAPPY], [WHOLE], "0 0 100 100 0 0 100"),
    "the whole word in scope": (LEFT, [UNHAPPY], [OWN], "100 0 0 50 100 0 0"),
    "a cue split in two": (NEITHER, [NEITHER_NOR], [NEITHER_ALONE, NOR_ALONE], "0 0 0 50 0 0 0"),
    "two cues joined": (NEITHER, [NEITHER_ALONE, NOR_ALONE], [NEITHER_NOR], "0 0 0 50 0 0 0"),
    "brackets": (NEITHER, [NEITHER_NOR], [BARE], "100 100 100 100 100 100 100"),
    "one too many": (LEFT, [NEVER], [NEVER, CARELESS], "66.67 66.67 66.67 80 66.67 66.67 66.67"),
    "one too few": (LEFT, [NEVER, CARELESS], [CARELESS], "66.67 66.67 66.67 50 66.67 66.67 66.67"),
    "a scope that is empty": (LEFT, [EMPTY, CARELESS], [NEVER, CARELESS], "100 66.67 66.67 50 100 66.67 66.67"),
    "an empty scope of a wrong cue": (
        LEFT,
        [ANOTHER, CARELESS],
        [NEVER, CARELESS],
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


def negations(pairs):
    """Return negations from pairs of cue and scope."""
    pairs = [[text.replace("_", "").split(" ") for text in pair] for pair in pairs]
    return [{"cue_text": cue, "scope_text": scope} for cue, scope in pairs]


def scores_of(*cases):
    """Return the scores of cases as percentages."""
    tags = [[word.rsplit("/", 1)[1] for word in case[0].split()] for case in cases]
    references, predictions = ([negations(case[own]) for case in cases] for own in (1, 2))
    scores = load_metric("starsem").compute(predictions=predictions, references=references, pos=tags)
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
    ("gold", "predicted", "expected"),
    [
        ([NEVER], [(NEVER[0], "He _ left _ _ , _ and _ .")], [66.67, 50, 57.14]),
        ([NEVER, CARELESS], [CARELESS], [100, 50, 66.67]),
        ([EMPTY], [NEVER], [0, 100, 0]),
        ([NEVER], [EMPTY], [100, 0, 0]),
        ([NEVER], [NEVER, NEVER], [50, 100, 66.67]),
    ],
)
def test_means_over_negations(gold, predicted, expected):
    assert prf(scores_of((LEFT, gold, predicted)), "instance_") == expected
