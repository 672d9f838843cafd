"""The program of the *SEM 2012 shared task beside `starsem_scores`, on sentences with random errors.

The program may not be passed on, so the test runs where an environment variable says where it is; version 2.2 is
needed, changed as docs/negation.md says. Further variables may name the corpora.
"""

import os
import random
import re
import subprocess

import pytest

from hf_localattn.data.negation import group_sentences, load_negation
from hf_localattn.data.negation_corpora import format_starsem
from hf_localattn.metrics.starsem_scores import count_negations, starsem_scores
from tests.script_helpers import ROOT

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
