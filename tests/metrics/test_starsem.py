"""The measures of *SEM 2012, also beside the program of the shared task, and means over negations."""

import os
import random
import re
import subprocess

import pytest

from hf_localattn.data.negation import group_sentences, load_negation
from hf_localattn.data.negation_corpora import format_starsem
from hf_localattn.metrics import load_metric
from hf_localattn.metrics.starsem_scores import (
    INSTANCE_SCORES,
    MEASURES,
    STARSEM_SCORES,
    count_negations,
    instance_scores,
    starsem_scores,
)
from tests.script_helpers import ROOT

LEFT = "He/PRP never/RB left/VBD Mr./NNP Li/NNP ,/, unhappy/JJ and/CC careless/JJ ./."
NEITHER = "Neither/CC he/PRP nor/CC I/PRP (/-LRB- ever/RB )/-RRB- left/VBD"
NEVER = "_ never _ _ _ _ _ _ _ _", "He _ left Mr. Li _ _ _ _ _"
UNHAPPY = "_ _ _ _ _ _ un _ _ _", "He _ _ _ _ _ happy _ _ _"
CARELESS = "_ _ _ _ _ _ _ _ less _", "He _ _ _ _ _ _ _ care _"
NEITHER_NOR = "Neither _ nor _ _ _ _ _", "_ he _ I ( ever ) left"
NEITHER_ALONE = "Neither _ _ _ _ _ _ _", "_ he _ _ _ _ _ left"
NOR_ALONE = "_ _ nor _ _ _ _ _", "_ _ _ I _ _ _ left"
EMPTY = "_ never _ _ _ _ _ _ _ _", "_ _ _ _ _ _ _ _ _ _"
NO_CUE = "_ _ _ _ _ _ _ _ _ _", "He _ _ _ _ _ _ _ _ _"

CASES = {
    "all right": (LEFT, [NEVER, UNHAPPY, CARELESS], [CARELESS, NEVER, UNHAPPY]),
    "punctuation": (LEFT, [NEVER], [(NEVER[0], "He _ left Mr Li , _ _ _ .")]),
    "a word less": (LEFT, [NEVER, UNHAPPY], [(NEVER[0], "He _ left Mr. _ _ _ _ _ _"), UNHAPPY]),
    "the whole word for its affix": (LEFT, [UNHAPPY], [(UNHAPPY[0].replace("un", "unhappy"), UNHAPPY[1])]),
    "the whole word in scope": (LEFT, [UNHAPPY], [(UNHAPPY[0], UNHAPPY[1].replace("happy", "unhappy"))]),
    "a cue split in two": (NEITHER, [NEITHER_NOR], [NEITHER_ALONE, NOR_ALONE]),
    "two cues joined": (NEITHER, [NEITHER_ALONE, NOR_ALONE], [NEITHER_NOR]),
    "brackets": (NEITHER, [NEITHER_NOR], [(NEITHER_NOR[0], "_ he _ I _ ever _ left")]),
    "one too many": (LEFT, [NEVER], [NEVER, CARELESS]),
    "one too few": (LEFT, [NEVER, CARELESS], [CARELESS]),
    "a scope that is empty": (LEFT, [EMPTY, CARELESS], [NEVER, CARELESS]),
    "an empty scope of a wrong cue": (LEFT, [("He never _ _ _ _ _ _ _ _", EMPTY[1]), CARELESS], [NEVER, CARELESS]),
    "nothing found": (LEFT, [NEVER], []),
    "nothing there": (LEFT, [], [NEVER]),
}


def texts(cells):
    return ["" if cell == "_" else cell for cell in cells.split()]


def inputs(*cases):
    tokens = [[word.rsplit("/", 1) for word in sentence.split()] for sentence, _, _ in cases]
    gold, predicted = (
        [[{"cue_text": texts(cue), "scope_text": texts(scope)} for cue, scope in case[own]] for case in cases]
        for own in (1, 2)
    )
    return {"predictions": predicted, "references": gold, "pos": [[tag for _, tag in own] for own in tokens]}


# F1 of cues, scopes with and without cue match, scope tokens and the B variants, as the task's program prints it
PRINTED = {
    "all right": [100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0],
    "punctuation": [100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0],
    "a word less": [100.0, 66.67, 66.67, 90.91, 100.0, 50.0, 50.0],
    "the whole word for its affix": [0.0, 0.0, 100.0, 100.0, 0.0, 0.0, 100.0],
    "the whole word in scope": [100.0, 0.0, 0.0, 50.0, 100.0, 0.0, 0.0],
    "a cue split in two": [0.0, 0.0, 0.0, 50.0, 0.0, 0.0, 0.0],
    "two cues joined": [0.0, 0.0, 0.0, 50.0, 0.0, 0.0, 0.0],
    "brackets": [100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0],
    "one too many": [66.67, 66.67, 66.67, 80.0, 66.67, 66.67, 66.67],
    "one too few": [66.67, 66.67, 66.67, 50.0, 66.67, 66.67, 66.67],
    "a scope that is empty": [100.0, 66.67, 66.67, 50.0, 100.0, 66.67, 66.67],
    "an empty scope of a wrong cue": [66.67, 100.0, 66.67, 50.0, 50.0, 66.67, 66.67],
    "nothing found": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
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


def percent(value):
    return round(100 * value, 2)


def test_cases_as_the_program_prints_them():
    measures = [*MEASURES, *(f"{measure}_b" for measure in MEASURES[:3])]
    for name, expected in PRINTED.items():
        scores = starsem_scores(**inputs(CASES[name]))
        assert [percent(scores[f"starsem_{measure}_f1"]) for measure in measures] == expected, name
    scores = load_metric("starsem").compute(**inputs(*CASES.values()))
    for measure, values in TABLE.items():
        recall = scores[f"starsem_{measure.removesuffix('_b')}_recall"]
        found = (scores[f"starsem_{measure}_precision"], recall, scores[f"starsem_{measure}_f1"])
        assert tuple(map(percent, found)) == values, measure
    assert [percent(scores[f"starsem_correct_{kind}sentences"]) for kind in ("", "negation_")] == [21.43, 23.08]
    assert {*STARSEM_SCORES, *INSTANCE_SCORES} == set(scores)


def test_without_any_negation():
    scores = load_metric("starsem").compute(**inputs((LEFT, [], [])))
    assert scores.pop("starsem_correct_sentences") == 1
    assert set(scores.values()) == {0}


@pytest.mark.parametrize(
    ("gold", "predicted", "precision", "recall"),
    [
        ([NEVER], [(NEVER[0], "He _ left _ _ , _ and _ .")], 2 / 3, 2 / 4),
        ([NEVER, CARELESS], [CARELESS], 1, 1 / 2),
        ([NEVER], [CARELESS, NEVER], 1 / 2, 1),
        ([EMPTY, CARELESS], [EMPTY, CARELESS], 1, 1),
        ([EMPTY], [NEVER], 0, 1),
        ([NEVER], [EMPTY], 1, 0),
        ([UNHAPPY], [(UNHAPPY[0].replace("un", "unhappy"), UNHAPPY[1])], 0, 0),
        ([NEVER], [NEVER, NEVER], 1 / 2, 1),
        ([NEVER], [], 0, 0),
    ],
)
def test_means_over_negations(gold, predicted, precision, recall):
    given = inputs((LEFT, gold, predicted))
    scores = instance_scores(given["predictions"], given["references"])
    assert scores["instance_precision"] == pytest.approx(precision)
    assert scores["instance_recall"] == pytest.approx(recall)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
    assert scores["instance_f1"] == pytest.approx(f1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cue_text": ["", ""]}, "references, sentence 1.*no cue"),
        ({"scope_text": ["a"]}, "references, sentence 1.*'scope_text'"),
    ],
)
def test_what_is_no_negation(change, message):
    negation = {"cue_text": ["no", ""], "scope_text": ["", "one"]}
    with pytest.raises(ValueError, match=message):
        load_metric("starsem").compute(
            predictions=[[negation]], references=[[{**negation, **change}]], pos=[["A", "B"]]
        )


PREFIX = "HF_LOCALATTN_STARSEM_"
SAMPLE = ROOT / "hf_localattn" / "resources" / "samples" / "negation" / "starsem.txt"
ROWS = {
    "Cues": "cues",
    "Scopes(cue match)": "scopes_cue_match",
    "Scopes(no cue match)": "scopes_no_cue_match",
    "Scope tokens(no cue match)": "scope_tokens",
    "Cues B": "cues_b",
    "Scopes B (cue match)": "scopes_cue_match_b",
    "Scopes B (no cue match)": "scopes_no_cue_match_b",
}
SHARES = {
    "% correct sentences": "starsem_correct_sentences",
    "% correct negation sentences": "starsem_correct_negation_sentences",
}


def spoil(sentence, rng, rate):
    """Drop, add, split, join and change negations of a sentence at random."""
    first, tokens = sentence[0], sentence[0]["tokens"]
    spots, names = range(len(tokens)), ("cue_text", "scope_text")
    negations = [{name: list(row[name]) for name in names} for row in sentence if any(row["cue_text"])]

    def toggle(texts, places):
        for place in places:
            word = tokens[place]
            cut = rng.randrange(1, len(word) + 1)
            # the whole word, mostly, or one of its ends
            texts[place] = "" if texts[place] else rng.choice([word, word, word, word[:cut], word[-cut:]])

    def drop_punctuation(own):
        toggle(own["scope_text"], [place for place in spots if not re.search(r"\w", first["pos"][place])])

    def split(own):
        negations.append({name: list(texts) for name, texts in own.items()})
        toggle(own["cue_text"], rng.choices(spots, k=1))

    changes = [
        lambda own: negations.remove(own),
        lambda own: negations.append({"cue_text": [""] * len(tokens), "scope_text": list(own["scope_text"])}),
        lambda own: toggle(own["cue_text"], rng.choices(spots, k=1)),
        lambda own: toggle(own["scope_text"], rng.choices(spots, k=rng.randrange(1, 4))),
        lambda own: own.update(scope_text=[""] * len(tokens)),
        lambda own: own.update(scope_text=[text.rstrip(".") or text for text in own["scope_text"]]),
        drop_punctuation,
        split,
        lambda own: rng.shuffle(negations),
    ]
    for own in list(negations):
        for change in changes:
            if rng.random() < rate / 3 and own in negations:
                change(own)
    kept = [{**first, **own} for own in negations if any(own["cue_text"])]
    return kept or [{**first, "cue_text": [""] * len(tokens)}]


def program_output(script, folder, gold, predicted):
    paths = [folder / "gold.txt", folder / "predicted.txt"]
    for path, sentences in zip(paths, (gold, predicted), strict=True):
        path.write_bytes(format_starsem(sentences).encode())
    command = ["perl", script, "-g", str(paths[0]), "-s", str(paths[1])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


def printed_scores(output):
    """The scores of a table, and the numbers before them: gold, system, tp, fp, fn."""
    scores, counts = {}, {}
    for label, name in ROWS.items():
        cells = re.search(rf"^{re.escape(label)}:(.*)$", output, re.MULTILINE)
        assert cells, f"the program prints no {label!r}: version 2.2 does"
        *numbers, precision, recall, f1 = cells[1].split("|")
        counts[name] = [int(number) for number in numbers]
        values = {"precision": precision, "recall": recall, "f1": f1}
        scores |= {f"starsem_{name}_{score}": round(float(value) / 100, 4) for score, value in values.items()}
    for label, name in SHARES.items():
        scores[name] = round(float(re.search(rf"{label}: ([\d.]+)", output)[1]) / 100, 4)
    return scores, counts


def corpora():
    paths = [os.environ.get(PREFIX + name) for name in ("TRAIN", "DEV", "TEST")]
    return [path for part in paths if part for path in part.split(os.pathsep)] or [SAMPLE]


@pytest.mark.corpus(reason="needs a program that is not ours to pass on")
def test_all_measures_equal_those_of_the_program(tmp_path):
    script = os.environ.get(PREFIX + "SCRIPT")
    if not script:
        pytest.skip(f"{PREFIX}SCRIPT does not say where the program is")
    trials = int(os.environ.get(PREFIX + "TRIALS", "25"))
    for path in corpora():
        sentences = group_sentences(load_negation(path, all_sentences=True))
        for trial in range(trials):
            rng = random.Random(trial)
            gold = [spoil(own, rng, 0.3 * (trial % 3)) for own in sentences]
            predicted = [spoil(own, rng, rng.choice([0.02, 0.1, 0.5, 1])) for own in gold]
            if not any(any(row["cue_text"]) for own in gold for row in own):
                continue
            scores, counts = printed_scores(program_output(script, tmp_path, gold, predicted))
            negations = [[[row for row in own if any(row["cue_text"])] for own in part] for part in (predicted, gold)]
            inputs = *negations, [own[0]["pos"] for own in gold]
            ours = starsem_scores(*inputs)
            same = {name: value for name, value in scores.items() if not name.endswith("_b_recall")}
            assert ours == same, f"{path}, trial {trial}"
            for measure, own in count_negations(*inputs)[0].items():
                numbers = [own[name] for name in ("gold", "system", "tp", "fp", "fn")]
                if measure == "scopes_no_cue_match":  # the program prints the hits of the line before
                    numbers[2] = counts["scopes_cue_match"][2]
                assert numbers == counts[measure], f"{path}, trial {trial}, {measure}"
