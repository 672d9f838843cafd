"""docs/consumers.md: the program of every library, run for every family."""

import re
import shutil

import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from hf_localattn.families import FAMILIES, get_family
from hf_localattn.hub import init_checkpoint
from hf_localattn.models.negation_labels import CUE_LABELS, SCOPE_LABELS
from tests.programs import ROOT, programs, run_program
from tests.tiny_parser import install_pipeline, tiny_parser

pytestmark = [
    pytest.mark.consumers,
    pytest.mark.timeout(900),  # an export takes minutes on a busy machine
    # Those of the libraries.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

PAGE = "docs/consumers.md"
PROGRAMS = programs(PAGE)
LIBRARIES = [re.search(r"^(?:from|import) (?!datasets|torch|pathlib)(\w+)", one, flags=re.M)[1] for one, _ in PROGRAMS]
QUESTION, PASSAGE, ANSWER = "Who is the baker?", "Hugo is the smith. The baker is Mira.", "Mira"
FIELDS = {"sam-roberta": {"tam_max_length": 64}}
REFUSALS = {("haystack", "sla-bert"): "needs `word_index`", ("haystack", "oa-xlnet"): "`query_mask` is missing"}
"""Libraries that drop an input of a family, and a part of the error that says so."""


@pytest.fixture(scope="module", params=FAMILIES)
def checkpoints(request, tmp_path_factory):
    """A folder with the checkpoints of the page, whose reader has learned an answer."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "sla-bert":
            install_pipeline(folder / "packages", "en_core_web_sm", tiny_parser())
            patch.syspath_prepend(folder / "packages")
        fields = FIELDS.get(request.param, {})
        init_checkpoint(request.param, "tiny", folder / "my-model", **fields)
        heads = {"my-classifier": "text-classification", "my-reader": "question-answering"}
        for name, task in heads.items():
            init_checkpoint(request.param, "tiny", folder / name, task=task, **fields)
        teach(folder / "my-reader")
        labels = dict(enumerate([*SCOPE_LABELS, *CUE_LABELS[:3]]))
        tagger = get_family(request.param).heads["token-classification"]
        tokenizer = AutoTokenizer.from_pretrained(folder / "my-model")
        tokenizer.add_special_tokens({"extra_special_tokens": ["[CUE]"]})
        tagger = tagger.from_pretrained(folder / "my-model", id2label=labels)
        tagger.resize_token_embeddings(len(tokenizer))
        tagger.save_pretrained(folder / "my-negation")
        tokenizer.save_pretrained(folder / "my-negation")
        shutil.copy(ROOT / "hf_localattn/resources/samples/reviews.csv", folder)
        yield request.param, folder


def teach(folder):
    """Train a reader until it knows one answer."""
    torch.manual_seed(0)
    model, tokenizer = AutoModelForQuestionAnswering.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(QUESTION, PASSAGE, return_tensors="pt")
    first = PASSAGE.index(ANSWER)
    start, end = (inputs.char_to_token(0, place, 1) for place in (first, first + len(ANSWER) - 1))
    answer = {"start_positions": torch.tensor([start]), "end_positions": torch.tensor([end])}
    optimizer = torch.optim.Adam(model.train().parameters(), lr=3e-3)
    for _ in range(30):
        optimizer.zero_grad()
        model(**inputs, **answer).loss.backward()
        optimizer.step()
    model.save_pretrained(folder)


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[f"{i}-{name}" for i, name in enumerate(LIBRARIES)])
def test_programs(checkpoints, number, monkeypatch, tmp_path):
    name, folder = checkpoints
    pytest.importorskip(LIBRARIES[number], reason="not among the packages of `make test-consumers`")
    monkeypatch.chdir(shutil.copytree(folder, tmp_path / "work"))
    if (folder / "packages").is_dir():
        monkeypatch.syspath_prepend(folder / "packages")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
    program, expected = PROGRAMS[number]
    namespace = {}
    if refusal := REFUSALS.get((LIBRARIES[number], name)):
        with pytest.raises(ValueError, match=refusal):
            run_program(program, expected, PAGE, namespace)
        return
    run_program(program, expected, PAGE, namespace)
    if (page := namespace.get("page")) is not None and hasattr(page, "close"):  # a running page of gradio
        from gradio_client import Client

        answer = Client(page.local_url, verbose=False).predict("A [CUE] good film.", fn_index=0)
        page.close()
        assert {one["label"] for one in answer["confidences"]} == {"LABEL_0", "LABEL_1"}
