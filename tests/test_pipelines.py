"""What people do with a checkpoint of any family: transformers' pipelines."""

import pytest
from transformers import AutoTokenizer, pipeline

from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone, tiny_parser
from tests.tiny_parser import install_pipeline

TEXTS = ["Mira is [CUE] not the baker.", "The smith Greta keeps two goats, and the teacher keeps none of them."]
NAMES = {0: "no", 1: "yes"}


@pytest.fixture(params=FAMILIES)
def save(request, tmp_path, monkeypatch):
    """Saves a model of the family for a task, with its tokenizer, and returns the folder."""
    family = FAMILIES[request.param]
    install_pipeline(tmp_path / "site", "en_tiny_for_pipelines", str(tiny_parser()))
    monkeypatch.syspath_prepend(tmp_path / "site")

    def save(task, **fields):
        model = family.heads[task].from_backbone(tiny_backbone(), **fields)
        settings = {"parser": "en_tiny_for_pipelines"} if request.param == "sla-bert" else {}
        tokenizer = family.adapt_tokenizer(AutoTokenizer.from_pretrained(tiny_backbone()), model, **settings)
        for part in (model, tokenizer):
            part.save_pretrained(tmp_path / task)
        return str(tmp_path / task)

    return save


def squeezed(text):
    """Decoded tokens have blanks of their own, and small letters."""
    return text.replace(" ", "").lower()


@pytest.mark.filterwarnings("ignore:.*pipelines sequentially")
def test_texts_and_words_are_labeled(save):
    classify = pipeline("text-classification", model=save("text-classification", id2label=NAMES), device="cpu")
    alone = [classify(text)[0] for text in TEXTS]
    assert {answer["label"] for answer in alone} <= set(NAMES.values())
    together = classify(TEXTS, batch_size=2)
    assert [answer["score"] for answer in together] == pytest.approx([answer["score"] for answer in alone], abs=1e-6)

    tag = pipeline(
        "token-classification",
        model=save("token-classification", id2label={0: "B-no", 1: "B-yes"}),
        aggregation_strategy="first",
        device="cpu",
    )
    for text, words in zip(TEXTS, tag(TEXTS, batch_size=2), strict=True):
        assert words
        found = [(text[word["start"] : word["end"]], word["word"]) for word in words]
        assert [squeezed(place) for place, _ in found] == [squeezed(word) for _, word in found]


@pytest.mark.filterwarnings("ignore:.*pipelines sequentially")
def test_masked_words_are_filled(save):
    fill = pipeline("fill-mask", model=save("fill-mask"), device="cpu", top_k=3)
    texts = [
        text.replace("is", fill.tokenizer.mask_token).replace("keeps", fill.tokenizer.mask_token) for text in TEXTS
    ]
    alone = [fill(text) for text in texts]
    assert [len(one) for one in alone] == [3, 2]  # candidates for one mask; for each of two masks
    together = fill(texts[:1] * 2, batch_size=2)
    assert [one["score"] for one in together[1]] == pytest.approx([one["score"] for one in alone[0]], abs=1e-6)


def test_questions_are_answered(save):
    folder = save("question-answering")
    passage = "The smith Greta keeps two goats. Anton is the shepherd. " * 20
    reader = pipeline("question-answering", model=folder, device="cpu", max_seq_len=64, doc_stride=16)
    answer = reader(question="Who is the smith?", context=passage)
    assert answer["answer"] == passage[answer["start"] : answer["end"]] != ""
