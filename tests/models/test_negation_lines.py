"""Clinical notes in lines: what ends a sentence, and findings with a known answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_localattn.models.negation_answers import Answer
from hf_localattn.models.negation_lines import split_notes


def written(text, ends=None):
    """Return the sentences, and the answers as [answer]{finding}; "=" marks an affirmed finding, "?" speculation."""
    signs = {"negation": "", "speculation": "?", None: "="}
    parts = []
    for part in split_notes(text, ends):
        if isinstance(part, Answer):
            cue = text[slice(*part.cue)]
            findings = "|".join(text[slice(*finding)] for finding in part.findings)
            parts.append(f"{signs[part.kind]}[{cue}]{{{findings}}}" if findings else "-")
        else:
            parts.append(text[slice(*part)])
    return parts


NOTES = {
    "Smoker: No\nDiabetes: Yes\nHypertension: No": ["[No]{Smoker}", "=[Yes]{Diabetes}", "[No]{Hypertension}"],
    "Allergies: none\nFever and cough since Monday": ["[none]{Allergies}", "Fever and cough since Monday"],
    "Invasion: Absent.\r\nNecrosis: Present": ["[Absent]{Invasion}", "=[Present]{Necrosis}"],
    "Fever: no Cough: yes Rash: no": ["[no]{Fever}", "=[yes]{Cough}", "[no]{Rash}"],
    "Fever: no, cough: yes; rash: ?": ["[no]{Fever}", "=[yes]{cough}", "?[?]{rash}"],
    "Asthma: yes, since childhood": ["=[yes]{Asthma}", "since childhood"],
    "Edema: 0\nPain: 0.5\nBlood: +": ["[0]{Edema}", "Pain: 0.5", "=[+]{Blood}"],
    "Fever? No. Chills - yes\nRash .... no": ["[No]{Fever}", "=[yes]{Chills}", "[no]{Rash}"],
    "Cough: no sputum": ["Cough: no sputum"],
    "No known allergies: yes": ["No known allergies: yes"],
    "Fever | no\nCough | yes | at night": ["[no]{Fever}", "=[yes]{Cough}", "at night"],
    "Fever\tno\nCough\tyes": ["[no]{Fever}", "=[yes]{Cough}"],
    "Fever | Cough\n---|---\nno | yes": ["Fever | Cough", "-", "[no]{Fever}", "=[yes]{Cough}"],
    "Symptom | Yes | No\nFever | x |\nCough | | x": ["-", "=[x]{Fever}", "[x]{Cough}"],
    "| | Yes | No |\n| Fever | | X |": ["-", "[X]{Fever}"],
    "       Yes    No\nFever         X": ["-", "Fever         X"],
    "| Liver | no lesions |": ["| Liver | no lesions |"],
    "[ ] Asthma\n[x] Diabetes": ["[[ ]]{Asthma}", "=[[x]]{Diabetes}"],
    "( ) fever (x) cough": ["[( )]{fever}", "=[(x)]{cough}"],
    "Symptoms: \u2610 fever \u2612 cough": ["[\u2610]{fever}", "=[\u2612]{cough}"],
    "Fever [ ] Cough [x]": ["[[ ]]{Fever}", "=[[x]]{Cough}"],
    "Fever: Y[ ] N[x]": ["[N]{Fever}"],
    "Fever: [x] yes [ ] no": ["=[yes]{Fever}"],
    "Fever: [ ] yes [ ] no": ["=[[ ]]{Fever}"],
    "[x] No known allergies": ["No known allergies"],
    "Factor (X) is low": ["Factor (X) is low"],
    "-fever -chills +rhinorrhea": ["[-]{fever}", "[-]{chills}", "=[+]{rhinorrhea}"],
    "+cough\n-fever": ["=[+]{cough}", "[-]{fever}"],
    "-wheeze": ["-wheeze"],
    "(-) fever, (+) cough": ["[(-)]{fever}", "=[(+)]{cough}"],
    "Pertinent negatives: fever, rash": ["[Pertinent negatives]{fever, rash}"],
    "Pertinent negatives: fever but he has cough": ["[Pertinent negatives]{fever}", "he has cough"],
    "Pt denies:\n- fever\n- chills\nSeen today": ["[denies]{fever|chills}", "Seen today"],
    "Denies:\nfever\n\nHas cough": ["[Denies]{fever}", "Has cough"],
    "Denies: fever but has cough": ["Denies: fever but has cough"],
    "He denies fever, chills,\nnausea. Smoker": ["He denies fever, chills,\nnausea.", "Smoker"],
    "No evidence of acute\ndisease. Lungs clear": ["No evidence of acute\ndisease.", "Lungs clear"],
    "He denies fever,\nchills. Smoker: no": ["He denies fever,\nchills.", "[no]{Smoker}"],
    "Pertinent negatives:\nNone": ["Pertinent negatives:", "None"],
    "Found to have no\nCrohn disease": ["Found to have no\nCrohn disease"],
    "no fever\ncough for 3 days\nrash": ["no fever", "cough for 3 days", "rash"],
    "No fever\nno cough": ["No fever", "no cough"],
    "PMH\nasthma": ["PMH", "asthma"],
    "1. No fever\n2) cough\n\u2022 rash": ["No fever", "cough", "rash"],
    "seen (by\nDr. Moran) today\n\x0cNo rash": ["seen (by\nDr. Moran) today", "No rash"],
    "This line is so long that it had to be broken here,\u2028and no rash": [
        "This line is so long that it had to be broken here,\u2028and no rash"
    ],
    "": [],
    " \n\r\n\t": [],
}


@pytest.mark.parametrize("text", NOTES)
def test_lines_are_sentences_or_answers(text):
    assert written(text) == NOTES[text]


def test_lines_divide_the_sentences_of_a_caller():
    text = "Smoker: no\nHe has a\nrash. no fever. Seen today"
    assert written(text, [25, 35, len(text)]) == ["[no]{Smoker}", "He has a\nrash.", "no fever.", "Seen today"]


WORDS = [
    "Fever",
    "no",
    "yes",
    ":",
    " ",
    "\n",
    "\r",
    "|",
    "\t",
    "[ ]",
    "[x]",
    "(x)",
    "-",
    "+",
    ",",
    ".",
    "Denies:",
    "0",
]
PIECES = st.lists(st.sampled_from(WORDS)).map("".join)


@given(st.one_of(st.text(), PIECES))
def test_parts_are_inside_the_text_and_apart(text):
    last = 0
    for part in split_notes(text):
        if isinstance(part, Answer):
            assert all(text[start:end].strip() for start, end in (part.cue, *part.findings))
            places = [part.cue, *part.findings]
            assert all(part.sentence[0] <= start < end <= part.sentence[1] for start, end in part.findings)
            begin, end = min(start for start, _ in places), max(end for _, end in places)
        else:
            begin, end = part
            assert text[begin:end] == text[begin:end].strip() != ""
        assert last <= begin < end <= len(text) or isinstance(part, Answer)
        last = max(last, end)


UNITS = ["Fever: no ", "[ ] fever ", "-fever +rash ", "a | ", "Denies:\n", "x\n", "(", '". ']


@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear_in_the_length(unit):
    """A quadratic reading of 200,000 characters would take minutes."""
    text = unit * (200_000 // len(unit))
    assert sum(1 for _ in split_notes(text)) >= 1
