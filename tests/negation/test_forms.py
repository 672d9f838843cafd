"""Forms of clinical notes and what is read in them, by the finder, the component, the pipeline and the command."""

import json

import pytest
import spacy
from transformers import pipeline

from benchmarks.negation import read_traps
from hf_localattn.cli import main
from hf_localattn.negation import decide, finder

pytest.importorskip("onnxruntime")

FORMS = {
    # findings and answers
    "Smoker: No\nDiabetes: Yes\nHypertension: No": "[No]{Smoker} [No]{Hypertension}",
    "Allergies: none\nFever and cough since Monday": "[none]{Allergies}",
    "Lymphovascular invasion: Absent\nNecrosis: Present": "[Absent]{Lymphovascular invasion}",
    "Edema: 0": "[0]{Edema}",
    "Pain: 0/10\nNausea: 4/10": "[0/10]{Pain}",
    "Rash: \u2212": "[\u2212]{Rash}",
    "Fever: -ve, cough: +ve": "[-ve]{Fever}",
    # tables, boxes, signs
    "Fever | no": "[no]{Fever}",
    "Fever\tno\nCough\tyes": "[no]{Fever}",
    "[ ] Asthma": "[[ ]]{Asthma}",
    "( ) fever (x) cough": "[( )]{fever}",
    "Fever: Y[ ] N[x]": "[N]{Fever}",
    "-fever -chills +rhinorrhea": "[-]{fever} [-]{chills}",
    "\u2212fever \u2212chills +cough": "[\u2212]{fever} [\u2212]{chills}",
    "Lungs clear, \u2212wheeze": "[\u2212]{wheeze}",
    "+cough, no fever": "[no]{fever}",
    "\u00d8 fever": "[\u00d8]{fever}",
    "Fever    No\nCough    Yes": "[No]{Fever}",
    "Fever; no\nCough; yes": "[no]{Fever}",
    "fever, no\ncough, yes": "[no]{fever}",
    "Fever\tno\tCough\tyes": "[no]{Fever}",
    "Fever\tCough\tRash\nno\tyes\tno": "[no]{Fever} [no]{Rash}",
    "\tYes\tNo\nFever\t\tX\nCough\tX\t": "[X]{Fever}",
    "Fever [N]  Chills [N]  Cough [Y]": "[[N]]{Fever} [[N]]{Chills}",
    "[-] fever\n[+] cough": "[[-]]{fever}",
    "\u2717 fever\n\u2713 cough": "[\u2717]{fever}",
    "\u2705 cough \u274c fever": "[\u274c]{fever}",
    "Fever \u2717 Cough \u2713": "[\u2717]{Fever}",
    "\u2714\ufe0f no fever": "[no]{fever}",
    "[\u2713] fever [\u2717] cough": "[[\u2717]]{cough}",
    "night sweats -\ncough +": "[-]{night sweats}",
    "\u00d8fever\n\u2205 cough": "[\u00d8]{fever} [\u2205]{cough}",
    "\u00d8fever \u00d8chills": "[\u00d8]{fever} [\u00d8]{chills}",
    "\u00d8degaard was seen. Dr. \u00d8rsted, too. No fever.": "[No]{fever}",
    "\u00d8degaard, Martin": "",
    "Patient: \u00d8degaard": "",
    "Name: \u00d8degaard\nExam: \u00d8fever": "[\u00d8]{fever}",
    "Fever- Cough+": "[-]{Fever}",
    "fever+ chills- cough-": "[-]{chills} [-]{cough}",
    "ER+ PR- HER2-": "[-]{PR} [-]{HER2}",
    "Fever (-), Cough (+)": "[(-)]{Fever}",
    "Blood group O-": "",
    "pre- and post-op": "",
    "Edema 0": "[0]{Edema}",
    "Edema 0, pain 3": "[0]{Edema}",
    "Stage 0": "",
    "o Fever\no Cough": "",
    # answers behind prose, below and behind questions
    "Presents with cough. Fever | no": "[no]{Fever}",
    "PMH asthma, smoker: no": "[no]{smoker}",
    "Has pain today, fever: no, cough: yes": "[no]{fever}",
    "Fever, chills: no": "[no]{Fever, chills}",
    "He was asked about fever, no": "[no]{}",
    "Fever:\nNo\nCough:\nYes": "[No]{Fever}",
    "Allergies:\n- none\nMeds:\n- aspirin": "[none]{Allergies}",
    "Fever:\r\n  1. No": "[No]{Fever}",
    "Q: Fever? A: No.": "[No]{Fever}",
    "Rash: False\nItch: True": "[False]{Rash}",
    "rash->no\nitch->yes": "[no]{rash}",
    "Rash \u2192 no, itch => yes": "[no]{Rash}",
    "Hernia: not palpable": "[not palpable]{Hernia}",
    "Vomiting x0, diarrhea x4": "[x0]{Vomiting}",
    "HIV: non-reactive": "[non-reactive]{HIV}",
    "HBsAg non reactive": "[non reactive]{HBsAg}",
    "Gallbladder: absent s/p cholecystectomy": "[absent]{Gallbladder}",
    "MI: neg / CABG: pos / stroke: neg": "[neg]{MI} [neg]{stroke}",
    "Fever: Y / N": "",
    # answers that say nothing
    "Smoker: N/A Diabetes: yes": "",
    "Pregnant: N/A, Smoker: no": "[no]{Smoker}",
    "Fever N/A Cough N": "[N]{Cough}",
    "Fever: [N/A] Cough: [N]": "[[N]]{Cough}",
    "Smoker: Y/N  Alcohol: N/Y  Drugs: N/Y": "",
    "Smoker: yes / no  Alcohol: no": "[no]{Alcohol}",
    "CABG: y/n / stroke: n": "[n]{stroke}",
    "Rash present/absent, fever absent": "[absent]{fever}",
    "Answer yes or no": "",
    # lists of findings that all have an answer
    "HIV non-reactive, HBsAg non reactive": "[non-reactive]{HIV} [non reactive]{HBsAg}",
    "Fever N  Cough Y": "[N]{Fever}",
    "Fever N\tCough Y": "[N]{Fever}",
    "ROS: fever n, cough y": "[n]{fever}",
    "MI neg / CABG pos / stroke neg": "[neg]{MI} [neg]{stroke}",
    "Hx: MI neg/CABG pos/stroke neg": "[neg]{MI} [neg]{stroke}",
    "Wells score 0, PERC negative": "[negative]{PERC}",
    "Pain score: 0": "",
    "Stage | 0": "",
    "Finding | Right | Left\nEffusion | no | no\nMass | yes | no": "[no]{Effusion}",
    "Asymptomatic gallstones, a nonsmoker with COPD.": "[A]{symptomatic} [non]{smoker}",
    "Fever - Cough -": "[-]{Fever} [-]{Cough}",
    "Fever - Cough +": "[-]{Fever}",
    "Asthma - eczema yes": "",
    "Lungs clear - murmur absent": "[absent]{murmur}",
    "Fever no and cough no": "[no]{Fever} [no]{cough}",
    "Fever -\nCough -": "[-]{Fever} [-]{Cough}",
    "Fever Y/N, cough Y/N": "",
    "Temp 98, pulse 80": "",
    # dashes that stand for a minus
    "Murmur \u2013ve": "[\u2013ve]{Murmur}",
    "Jaundice: \u2013": "[\u2013]{Jaundice}",
    "Fever \u2013 Cough \u2013": "[\u2013]{Fever} [\u2013]{Cough}",
    "\u2013fever \u2013chills +cough": "[\u2013]{fever} [\u2013]{chills}",
    "3\u20135 days of cough\u2013no fever": "[no]{fever}",
    # headings
    "No: fever, chills\nYes: cough": "[No]{fever, chills}",
    "Pertinent negatives: fever, rash": "[Pertinent negatives]{fever, rash}",
    "Pertinent (-): dysuria, hematuria\nPertinent (+): urgency": "[Pertinent (-)]{dysuria, hematuria}",
    "ROS neg: fever, rash": "[ROS neg]{fever, rash}",
    "Negatives: fever, rash. Positives: cough.": "[Negatives]{fever, rash}",
    "Denies any of the following:\n- fever\n- rash": "[Denies]{fever|rash}",
    "Differential: PE, pneumonia": "?[Differential]{PE, pneumonia}",
    "Ddx: PE vs pneumonia": "?[Ddx]{PE vs pneumonia}",
    "Differential includes PE and gout.": "?[Differential includes]{PE and gout}",
    "Differential: neutrophils 80%, bands 3%": "",
    # abbreviations
    "w/o CP, SOB, N/V": "[w/o]{CP, SOB, N/V}",
    "Pt w/o CP, SOB, N/V.": "[w/o]{CP, SOB, N/V}",
    "Blood cultures -ve, influenza +ve.": "[-ve]{Blood cultures}",
    "-ve for COVID": "[-ve]{for COVID}",
    # doubt
    "?TIA": "?[?]{TIA}",
    "Chest pain, ?MI or PE. Troponin pending. No fever.": "?[?]{MI or PE} [No]{fever}",
    "Impression: ? TIA": "?[?]{TIA}",
    "Is he febrile? Yes. What next?": "",
    "Query TIA": "?[Query]{TIA}",
    "Low suspicion for PE": "?[Low suspicion]{for PE}",
    "It is unclear whether she has asthma.": "?[unclear whether]{she has asthma}",
    "Unclear whether this is pneumonia": "?[Unclear whether]{this is pneumonia}",
    "Pneumonia ruled out; PE cannot be excluded": "[ruled out]{Pneumonia} ?[can not be excluded]{PE}",
    "MI excluded; PE cannot be ruled out": "[excluded]{MI} ?[can not be ruled out]{PE}",
    "PE not ruled out": "?[not ruled out]{PE}",
    # findings that are there
    "Triple-negative breast cancer": "",
    "It is not true that he has no pain.": "",
    "Resolved pneumonia": "",
    "Nothing relieves the migraine": "[Nothing]{relieves}",
    "Ibuprofen did not help the headache.": "[not]{help}",
    "No further workup of the nodule": "[No]{further workup}",
    "No relief of the pain.": "[No]{relief}",
    "No imaging evidence of metastasis.": "[No]{imaging evidence of metastasis}",
    "Nothing to suggest pneumonia.": "[Nothing]{to suggest pneumonia}",
    "Vomiting has not recurred.": "[not]{recurred}",
    "She denies everything except cough.": "[denies]{everything}",
    "Gallbladder absent s/p cholecystectomy": "[absent]{Gallbladder}",
    "No pain; uterus absent, status post hysterectomy": "[No]{pain} [absent]{uterus}",
    "No symptoms other than a cough.": "[No]{symptoms}",
    "Lack of motivation and poor sleep": "[Lack]{of motivation}",
    "Lack of fever or chills.": "[Lack]{of fever or chills}",
    # whole cues, wrapped lines
    "He is unable to walk.": "[unable]{to walk}",
    "She cannot walk.": "[can not]{walk}",
    "He denies fever, chills,\nnausea and vomiting.": "[denies]{fever, chills,\nnausea and vomiting}",
}
"""Texts with what is found; "?" marks speculation."""


def described(found):
    """Return the cues of a text as in `FORMS`."""
    parts = []
    for one in sorted(found, key=lambda one: one["cue"][0]["start"]):
        cue, scope = (joint.join(span["text"] for span in one[name]) for name, joint in (("cue", " "), ("scope", "|")))
        parts.append(f"{'?' * (one['kind'] == 'speculation')}[{cue}]{{{scope}}}")
    return " ".join(parts)


@pytest.fixture(scope="module")
def found_forms():
    return dict(zip(FORMS, finder(convention="notes", threads=1)(list(FORMS)), strict=True))


@pytest.mark.parametrize("text", FORMS)
def test_forms_of_notes_are_read(text, found_forms):
    assert described(found_forms[text]) == FORMS[text]


DECIDED = {
    "Fever\tCough\tRash\nno\tyes\tno": {"Fever": True, "Cough": False, "Rash": True},
    "Fever | Cough\n---|---\nno | yes": {"Fever": True, "Cough": False},
    "\tYes\tNo\nFever\t\tX\nCough\tX\t": {"Fever": True, "Cough": False},
    "Fever:\nNo\nCough:\nYes": {"Fever": True, "Cough": False},
    "Denies:\n- fever\n- rash\nHas cough": {"fever": True, "rash": True, "cough": False},
}
"""Texts with answers in other lines than their findings, and which findings are negated."""


@pytest.mark.parametrize("text", DECIDED)
def test_findings_above_and_below_their_answers_are_decided(text):
    phrases = DECIDED[text]
    found = finder(convention="notes", threads=1)(text)
    starts = {phrase: text.index(phrase) for phrase in phrases}
    assert {phrase: decide(text, at, at + len(phrase), found).negated for phrase, at in starts.items()} == phrases
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "P", "pattern": phrase} for phrase in phrases])
    nlp.add_pipe("hf_localattn_negation")
    assert {entity.text: entity._.negex for entity in nlp(text).ents} == phrases


def test_finder_component_pipeline_and_command_agree(found_forms, tmp_path, capsys):
    """On a quarter of the sentences that mislead rules, and the forms."""
    texts = [*dict.fromkeys(trap.text for trap in read_traps()[::4]), *FORMS]
    expected = [*finder(convention="notes", threads=1)(texts)]
    assert expected[-len(FORMS) :] == list(found_forms.values())
    assert len(texts) > 120
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert main(["negation", str(tmp_path / "notes.jsonl"), "--convention", "notes"]) == 0
    assert [json.loads(line)["negations"] for line in capsys.readouterr().out.splitlines()] == expected
    assert [*map(described, pipeline("negation", convention="notes")(texts))] == [*map(described, expected)]
    nlp = spacy.blank("en")
    nlp.add_pipe("hf_localattn_negation")
    for doc, found in zip(nlp.pipe(texts), expected, strict=True):
        found.sort(key=lambda one: one["cue"][0]["start"])
        for one, other in zip(doc._.negations, found, strict=True):
            assert (one["kind"], one["type"], one["score"]) == (other["kind"], other["type"], other["score"])
            for name in ("cue", "scope"):  # tokens of spaCy may be longer than words
                assert one[name] == [
                    token.i
                    for token in doc
                    if any(span["start"] < token.idx + len(token) and token.idx < span["end"] for span in other[name])
                ]
