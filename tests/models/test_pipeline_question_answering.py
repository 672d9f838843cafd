"""The pipeline "question-answering": what it takes, gives and refuses. That it travels is in test_pipelines.py."""

import itertools

import pytest
import torch
from transformers import BertModel, pipeline

from hf_localattn import CoolConfig, CoolForQuestionAnswering
from tests.qa_helpers import byte_pieces, question, tiny_bert, uncased, word_pieces

TOKENIZER = word_pieces()
MODEL = tiny_bert(TOKENIZER)
WHO, WHERE = "who sat?", "where sat the cat?"
CONTEXT = question()["context"]
ONE = {"question": WHO, "context": CONTEXT}
LONG = "the red dog sat on the mat. " * 12
SMALL = {"max_seq_len": 40, "doc_stride": 8}


def reader_of(model=MODEL, tokenizer=TOKENIZER, **settings):
    return pipeline("question-answering", model=model, tokenizer=tokenizer, device="cpu", **settings)


READER = reader_of()


def same(one, other):
    """Compare results, whose scores may differ by rounding. `index` counts padding on the left."""
    if isinstance(one, dict):
        assert {**one, "score": 0, "scope_score": 0, "index": 0} == {**other, "score": 0, "scope_score": 0, "index": 0}
        for name in {"score", "scope_score"} & one.keys():
            assert one[name] == pytest.approx(other[name], abs=1e-5)
        return
    for mine, theirs in zip(one, other, strict=True):
        same(mine, theirs)


TWO = [ONE, {"question": WHERE, "context": LONG}]
ACCEPTED = [
    ((), {"question": [WHO], "context": CONTEXT}, 1),
    ((WHO, CONTEXT), {}, 1),
    (([ONE],), {}, 1),
    (({**question(), "question": WHO},), {}, 1),
    ((), {"question": [WHO, WHERE], "context": [CONTEXT, LONG]}, 2),
    ((), {"question": [WHO, WHERE], "context": CONTEXT}, 0),
    ((tuple(TWO),), {}, 2),
    (TWO, {}, 2),
    (([],), {}, None),
]


@pytest.mark.parametrize(("inputs", "named", "number"), ACCEPTED)
def test_one_question_has_one_answer_and_several_have_a_list(inputs, named, number):
    one, other = (READER(**row) for row in TWO)
    for row, answer in zip(TWO, (one, other), strict=True):
        assert list(answer) == ["score", "start", "end", "answer"]
        assert row["context"][answer["start"] : answer["end"]] == answer["answer"] != ""
    expected = {None: [], 0: [one, READER(WHERE, CONTEXT)], 1: one, 2: [one, other]}
    assert READER(*inputs, **named) == expected[number]


REFUSED = [
    (("", CONTEXT), {}, "`question`"),
    ((WHO, " \n\t"), {}, "`context`"),
    ((), {"question": [WHO, " "], "context": CONTEXT}, "`question` 1"),
    ((), {"question": [WHO], "context": [CONTEXT, LONG]}, "2 contexts"),
    ((), {"question": WHO, "context": [CONTEXT]}, "`context`"),
    ((), {"question": WHO}, "`context=`"),
    (({"question": WHO},), {}, "'context'"),
    (([3],), {}, "'question'"),
    (("who?",), {}, "'question'"),
    ((ONE,), {"question": WHO}, "not both"),
    ((iter([ONE, {"question": "", "context": CONTEXT}]),), {}, "`question`"),
    ((WHO, CONTEXT), {"top_k": 0}, "`top_k` is 0"),
    ((WHO, CONTEXT), {"doc_stride": -1}, "`doc_stride` is -1"),
    ((WHO, CONTEXT), {"max_seq_len": 65}, "`max_seq_len` is 65.* 64"),
    ((WHO, CONTEXT), {"max_seq_len": 4}, "`max_seq_len` is 4"),
    ((WHO, LONG), {"max_seq_len": 20, "doc_stride": 14}, "room for 14"),
    ((WHO, "\u200b"), {}, "no token"),
]


@pytest.mark.parametrize(("inputs", "named", "message"), REFUSED, ids=[row[-1] for row in REFUSED])
def test_what_is_no_question_is_refused(inputs, named, message):
    with pytest.raises(ValueError, match=message):
        list(READER(*inputs, **named))


def test_models_and_settings_that_cannot_answer_are_refused():
    diverged = tiny_bert(TOKENIZER)
    torch.nn.init.constant_(diverged.qa_outputs.bias, torch.nan)
    for call, error, word in (
        (lambda: READER(WHO, CONTEXT, top=3), TypeError, "top_k"),
        (lambda: reader_of(BertModel(MODEL.config)), ValueError, "BertModel has no question-answering head"),
        (lambda: reader_of(tokenizer=object()), ValueError, "fast tokenizer"),
        (lambda: reader_of(diverged)(WHO, CONTEXT), ValueError, "diverged"),
    ):
        with pytest.raises(error, match=word):
            call()


def by_hand(reader, max_answer_len=15):
    """The best span of one window in float64, as defined: the product of two softmaxes over passage and [CLS]."""
    question_is_first = reader.tokenizer.padding_side == "right"
    pair = (WHO, CONTEXT) if question_is_first else (CONTEXT, WHO)
    inputs = reader.tokenizer(*pair, return_tensors="pt", return_offsets_mapping=True)
    offsets, none = inputs.pop("offset_mapping")[0].tolist(), inputs.tokens().index("[CLS]")
    with torch.no_grad():
        output = reader.model(**inputs)
    places = [none, *(place for place, text in enumerate(inputs.sequence_ids(0)) if text == question_is_first)]
    logits = (output.start_logits, output.end_logits)
    start, end = (one[0, places].double().softmax(-1).tolist() for one in logits)
    spans = itertools.product(range(1, len(places)), range(max_answer_len))
    best, i, j = max((start[i] * end[i + more], i, i + more) for i, more in spans if i + more < len(places))
    return best, offsets[places[i]][0], offsets[places[j]][1], start[0] * end[0]


LIKE_XLNET = word_pieces("left", cls_last=True)


@pytest.mark.parametrize("tokenizer", [TOKENIZER, LIKE_XLNET], ids=["bert", "xlnet"])
def test_scores_are_products_of_probabilities(tokenizer):
    reader = reader_of(MODEL, tokenizer, align_to_words=False)
    score, start, end, none = by_hand(reader)
    same(reader(WHO, CONTEXT), {"score": score, "start": start, "end": end, "answer": CONTEXT[start:end]})
    ranked = reader(WHO, CONTEXT, top_k=1000, handle_impossible_answer=True)
    same([one for one in ranked if not one["answer"]], [{"score": none, "start": 0, "end": 0, "answer": ""}])
    shorter = reader(WHO, CONTEXT, max_answer_len=1)
    assert shorter["score"] == pytest.approx(by_hand(reader, 1)[0], abs=1e-6)


def test_answers_are_ranked_and_different():
    ranked = READER(WHO, CONTEXT, top_k=5)
    assert [one["score"] for one in ranked] == sorted((one["score"] for one in ranked), reverse=True)
    assert len({one["answer"].lower() for one in ranked} - {""}) == 5
    assert all(CONTEXT[one["start"] : one["end"]] == one["answer"] for one in ranked)
    assert reader_of(top_k=5)(WHO, CONTEXT) == ranked, "a default"
    assert READER(WHO, CONTEXT, topk=5) == ranked, "the former name"
    with pytest.raises(ValueError, match=r"topk.*top_k"):
        READER(WHO, CONTEXT, topk=5, top_k=4)
    assert reader_of(top_k=5)(WHO, CONTEXT, top_k=1) == READER(WHO, CONTEXT) == ranked[0]
    cats = READER(WHO, "cats. " * 3, top_k=1000, max_answer_len=2)  # scores of equal answers are added
    assert len(cats) == len({one["answer"].lower() for one in cats})
    assert sum(one["score"] for one in cats) <= 1 + 1e-6


def test_there_are_as_many_answers_as_asked_for():
    words = "unknownwordsaaa unknownwordsbbb unknownwordsccc"  # of many tokens each
    ranked = READER(WHO, words, top_k=5)
    assert len({one["answer"] for one in ranked}) == 5


def test_answers_are_whole_words_unless_asked_otherwise():
    words = {one["answer"] for one in READER(WHO, "unknownwords here", top_k=50)}
    assert words <= {"unknownwords", "unknownwords here", "here"}
    assert len({one["answer"] for one in READER(WHO, "unknownwords here", top_k=50, align_to_words=False)}) > 3


@pytest.mark.parametrize("align_to_words", [True, False])
def test_answers_have_the_marks_that_follow(align_to_words):
    tokenizer = uncased()
    reader = reader_of(tiny_bert(tokenizer), tokenizer, align_to_words=align_to_words)
    context = "cafe\u0301 \u0915\u0948\u0938\u0947"
    found = reader("Mira", context, top_k=9)
    assert {one["answer"] for one in found} == {context, *context.split()}
    assert all(context[one["start"] : one["end"]] == one["answer"] for one in found)


def test_a_long_context_is_read_in_windows():
    marked = LONG + "who sat on the red cats."
    for settings in ({}, SMALL, {"max_seq_len": 64}, {"max_seq_len": 24, "doc_stride": 1}):
        answer = READER(WHO, marked, **settings)
        assert marked[answer["start"] : answer["end"]] == answer["answer"] != ""


def test_a_long_question_is_cut(caplog):
    same(READER(WHERE, CONTEXT, max_question_len=1), READER("where", CONTEXT))
    assert "A question of 5 tokens is cut to 1" in caplog.text
    assert READER("who sat on the mat " * 40, LONG, max_seq_len=30)["answer"]


@pytest.mark.parametrize("padding", [False, True, "max_length"])
@pytest.mark.parametrize("tokenizer", [TOKENIZER, word_pieces("left"), LIKE_XLNET], ids=["right", "left", "xlnet"])
def test_batches_and_padding_change_no_answer(tokenizer, padding):
    torch.manual_seed(0)
    model = CoolForQuestionAnswering(CoolConfig(backbone_config=MODEL.config.to_dict(), conv_filters=4)).eval()
    torch.nn.init.normal_(model.qa_outputs.weight)
    reader = reader_of(model, tokenizer, **SMALL, top_k=3, handle_impossible_answer=True)
    asked = {"question": [WHO, WHERE, "who?"], "context": [CONTEXT, LONG, "the mat."]}
    alone = [reader(*pair) for pair in zip(*asked.values(), strict=True)]
    for batch_size in (2, 8):
        same(reader(**asked, batch_size=batch_size, padding=padding), alone)


def test_a_tokenizer_with_bytes_for_tokens():
    tokenizer = byte_pieces()
    tokenizer.model_max_length = 64
    reader = reader_of(tiny_bert(tokenizer), tokenizer)
    context = "\u00e9\u00e8 caf\u00e9 \U0001f600 on the mat. " * 5
    for align in (True, False):
        for one in reader("?!", context, top_k=20, align_to_words=align):
            assert context[one["start"] : one["end"]] == one["answer"] == one["answer"].strip() != ""
