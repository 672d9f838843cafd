"""The pipeline "question-answering": what it takes, gives and refuses, and that it travels with every checkpoint."""

import json

import pytest
import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoTokenizer,
    BertForTokenClassification,
    BertModel,
    Trainer,
    TrainingArguments,
    pipeline,
)

from hf_localattn.cli import main
from hf_localattn.hub.verify import verify_checkpoint
from hf_localattn.models.pipeline_question_answering import QuestionAnsweringPipeline
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone, tiny_parser
from tests.fresh_process import run_fresh
from tests.models.tiny import one_or_every_family
from tests.qa_helpers import byte_pieces, question, tiny_bert, word_pieces
from tests.tiny_parser import install_pipeline

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


def same(answers, others):
    """Compare answers, whose scores may differ by rounding."""
    answers, others = ([one] if isinstance(one, dict) else one for one in (answers, others))
    for one, other in zip(answers, others, strict=True):
        if isinstance(one, list) or isinstance(other, list):
            same(one, other)
            continue
        assert {**one, "score": 0} == {**other, "score": 0}
        assert one["score"] == pytest.approx(other["score"], abs=1e-6)


# --- inputs

TWO = [ONE, {"question": WHERE, "context": LONG}]
ACCEPTED = [
    ((), ONE, 1),
    ((), {"question": [WHO], "context": CONTEXT}, 1),
    ((), {"question": [WHO], "context": [CONTEXT]}, 1),
    ((WHO, CONTEXT), {}, 1),
    ((ONE,), {}, 1),
    (([ONE],), {}, 1),
    (({**question(), "question": WHO},), {}, 1),
    ((), {"question": [WHO, WHERE], "context": [CONTEXT, LONG]}, 2),
    ((TWO,), {}, 2),
    ((tuple(TWO),), {}, 2),
    (TWO, {}, 2),
]


@pytest.mark.parametrize(("inputs", "named", "number"), ACCEPTED)
def test_one_question_has_one_answer_and_several_have_a_list(inputs, named, number):
    expected = [READER(**row) for row in TWO]
    for row, answer in zip(TWO, expected, strict=True):
        assert list(answer) == ["score", "start", "end", "answer"]
        assert row["context"][answer["start"] : answer["end"]] == answer["answer"] != ""
    assert READER(*inputs, **named) == (expected[0] if number == 1 else expected)


def test_one_context_serves_several_questions():
    assert READER(question=[WHO, WHERE], context=CONTEXT) == [READER(WHO, CONTEXT), READER(WHERE, CONTEXT)]
    assert READER([]) == []


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, number):
        return [question(0), question(1), question(2)][number]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_iterators_are_read_as_slowly_as_their_answers(batch_size):
    read = []

    def questions():
        for number in range(10_000):
            read.append(number)
            yield {"question": WHO if number % 2 else WHERE, "context": CONTEXT}

    for given in (questions(), map(dict, questions())):
        read.clear()
        answers = iter(READER(given, batch_size=batch_size))
        assert all(next(answers)["answer"] for _ in range(6))
        assert len(read) <= 6 + 2 * batch_size
    same(list(READER(Rows(), batch_size=batch_size)), [READER(WHERE, CONTEXT)] * 3)


REFUSED = [
    (("", CONTEXT), {}, "`question`"),
    ((WHO, " \n\t"), {}, "`context`"),
    ((), {"question": [WHO, " "], "context": CONTEXT}, "`question` 1"),
    ((), {"question": [WHO], "context": [CONTEXT, LONG]}, "2 contexts"),
    ((), {"question": WHO, "context": [CONTEXT]}, "`context`"),
    ((), {"question": WHO}, "`context=`"),
    ((), {}, "`question=`"),
    ((), {"question": WHO, "context": 3}, "`context`"),
    (({"question": WHO},), {}, "'context'"),
    (([3],), {}, "'question'"),
    (("who?",), {}, "'question'"),
    ((ONE,), {"question": WHO}, "not both"),
    ((iter([ONE, {"question": "", "context": CONTEXT}]),), {}, "`question`"),
    ((WHO, CONTEXT), {"top_k": 0}, "`top_k` is 0"),
    ((WHO, CONTEXT), {"max_answer_len": 0}, "`max_answer_len` is 0"),
    ((WHO, CONTEXT), {"doc_stride": -1}, "`doc_stride` is -1"),
    ((WHO, CONTEXT), {"max_seq_len": 65}, "`max_seq_len` is 65.* 64"),
    ((WHO, CONTEXT), {"max_seq_len": 4}, "`max_seq_len` is 4"),
    ((WHO, LONG), {"max_seq_len": 20, "doc_stride": 16}, "room for 14"),
    ((WHO, "\u200b"), {}, "no token"),
]


@pytest.mark.parametrize(("inputs", "named", "message"), REFUSED)
def test_what_is_no_question_is_refused(inputs, named, message):
    with pytest.raises(ValueError, match=message):
        list(READER(*inputs, **named))


def test_models_and_settings_that_cannot_answer_are_refused(tmp_path):
    with pytest.raises(TypeError, match="topk"):
        READER(WHO, CONTEXT, topk=3)
    for model in (BertModel(MODEL.config), BertForTokenClassification(MODEL.config)):
        with pytest.raises(ValueError, match=f"{type(model).__name__} has no question-answering head"):
            reader_of(model)
        for part in (model, TOKENIZER):
            part.save_pretrained(tmp_path)
        with pytest.raises(LookupError, match=f"no question-answering head.*{type(model).__name__}"):
            pipeline("question-answering", model=str(tmp_path))
    with pytest.raises(ValueError, match="fast tokenizer"):
        reader_of(tokenizer=object())
    diverged = tiny_bert(TOKENIZER)
    torch.nn.init.constant_(diverged.qa_outputs.bias, torch.nan)
    with pytest.raises(ValueError, match="diverged"):
        reader_of(diverged)(WHO, CONTEXT)


# --- answers


def by_hand(asked, context, max_answer_len=15):
    """The best span of one window in float64, as defined: the product of two softmaxes over passage and [CLS]."""
    inputs = TOKENIZER(asked, context, return_tensors="pt", return_offsets_mapping=True)
    offsets = inputs.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        output = MODEL(**inputs)
    allowed = [place for place, text in enumerate(inputs.sequence_ids(0)) if text == 1]
    logits = [output.start_logits[0].double(), output.end_logits[0].double()]
    totals = [sum(one[place].exp() for place in [0, *allowed]) for one in logits]
    start, end = ([float(logit.exp() / total) for logit in one] for one, total in zip(logits, totals, strict=True))
    spans = [(start[i] * end[j], i, j) for i in allowed for j in allowed if i <= j < i + max_answer_len]
    best, i, j = max(spans)
    return best, offsets[i][0], offsets[j][1], start[0] * end[0]


def test_scores_are_products_of_probabilities():
    score, start, end, none = by_hand(WHO, CONTEXT)
    answer = READER(WHO, CONTEXT, align_to_words=False)
    same(answer, {"score": score, "start": start, "end": end, "answer": CONTEXT[start:end]})
    ranked = READER(WHO, CONTEXT, top_k=1000, handle_impossible_answer=True)
    same([one for one in ranked if not one["answer"]], [{"score": none, "start": 0, "end": 0, "answer": ""}])
    assert "" not in {one["answer"] for one in READER(WHO, CONTEXT, top_k=1000)}
    shorter = READER(WHO, CONTEXT, max_answer_len=1, align_to_words=False)
    assert shorter["score"] == pytest.approx(by_hand(WHO, CONTEXT, 1)[0], abs=1e-6)


def test_answers_are_ranked_and_different():
    ranked = READER(WHO, CONTEXT, top_k=5)
    assert [one["score"] for one in ranked] == sorted((one["score"] for one in ranked), reverse=True)
    assert len({one["answer"].lower() for one in ranked}) == 5
    assert ranked[0] == READER(WHO, CONTEXT)
    assert all(CONTEXT[one["start"] : one["end"]] == one["answer"] for one in ranked)
    cats = READER(WHO, "cats. " * 3, top_k=1000, max_answer_len=2)  # scores of equal answers are added
    assert len(cats) == len({one["answer"].lower() for one in cats})
    assert sum(one["score"] for one in cats) <= 1 + 1e-6


def test_answers_are_whole_words_unless_asked_otherwise():
    words = {one["answer"] for one in READER(WHO, "unknownwords here", top_k=50)}
    assert words <= {"unknownwords", "unknownwords here", "here"}
    assert len({one["answer"] for one in READER(WHO, "unknownwords here", top_k=50, align_to_words=False)}) > 3


def test_a_long_context_is_read_in_windows():
    marked = LONG + "who sat on the red cats."
    for settings in ({}, SMALL, {"max_seq_len": 64}, {"max_seq_len": 24, "doc_stride": 1}):
        answer = READER(WHO, marked, **settings)
        assert marked[answer["start"] : answer["end"]] == answer["answer"] != ""
    windows = [window["window"] for window in READER.preprocess({"question": WHO, "context": marked}, **SMALL)]
    assert len(windows) > 3
    assert all(len(window.inputs["input_ids"]) <= 40 for window in windows)
    whole = TOKENIZER(marked, add_special_tokens=False, return_offsets_mapping=True).offset_mapping
    assert {place for window in windows for place in window.offsets if place} == set(map(tuple, whole))


def test_a_long_question_is_cut(caplog):
    same(READER(WHERE, CONTEXT, max_question_len=2), READER("where sat", CONTEXT))
    assert "A question of 5 tokens is cut to 2" in caplog.text
    endless = "who sat on the mat " * 40
    assert READER(endless, CONTEXT)["answer"]
    assert READER(endless, LONG, max_seq_len=30)["answer"]


@pytest.mark.parametrize("settings", [{}, {"padding": "max_length"}, {"padding": True}], ids=str)
@pytest.mark.parametrize("batch_size", [2, 8])
def test_batches_give_the_answers_of_single_windows(settings, batch_size):
    questions, contexts = [WHO, WHERE, "who?"], [CONTEXT, LONG, "the mat."]
    alone = [READER(*pair, **SMALL, top_k=3) for pair in zip(questions, contexts, strict=True)]
    same(READER(question=questions, context=contexts, batch_size=batch_size, top_k=3, **SMALL, **settings), alone)


class FindsMat(torch.nn.Module):
    """Finds the token "mat", whatever the padding and the order of the texts."""

    def __init__(self, tokenizer):
        super().__init__()
        self.config = type("Config", (), {"max_position_embeddings": 64})
        self.token, self.device = tokenizer.convert_tokens_to_ids("mat"), torch.device("cpu")

    def can_generate(self):
        return False

    def forward(self, input_ids, attention_mask, start_positions=None, return_dict=True):
        logits = (input_ids == self.token).float() * 10
        return {"start_logits": logits, "end_logits": logits}


@pytest.mark.parametrize("settings", [{}, {"padding": "max_length"}], ids=str)
@pytest.mark.parametrize(
    "tokenizer", [TOKENIZER, word_pieces("left"), word_pieces("left", cls_last=True)], ids=["right", "left", "xlnet"]
)
def test_padding_moves_no_answer(tokenizer, settings):
    reader = QuestionAnsweringPipeline(model=FindsMat(tokenizer), tokenizer=tokenizer, device="cpu", **settings)
    for batch_size in (1, 3):
        found = reader(question=["who?", WHERE, "who"], context=["a mat", CONTEXT, "mat"], batch_size=batch_size)
        assert [(one["answer"], one["start"]) for one in found] == [("mat", 2), ("mat", 20), ("mat", 0)]
    ranked = reader("who?", "a mat", top_k=50, handle_impossible_answer=True)
    assert {one["answer"] for one in ranked} == {"mat", "a mat", "a", ""}


def test_a_tokenizer_with_bytes_for_tokens():
    tokenizer = byte_pieces()
    tokenizer.model_max_length = 64
    reader = reader_of(tiny_bert(tokenizer), tokenizer)
    context = "\u00e9\u00e8 caf\u00e9 \U0001f600 on the mat. " * 5
    for align in (True, False):
        for one in reader("?!", context, top_k=20, align_to_words=align):
            assert context[one["start"] : one["end"]] == one["answer"] == one["answer"].strip() != ""


def test_defaults_can_be_set_once():
    reader = reader_of(top_k=2, max_answer_len=3, batch_size=2)
    assert reader(WHO, CONTEXT) == READER(WHO, CONTEXT, top_k=2, max_answer_len=3)
    assert reader(WHO, CONTEXT, top_k=1) == READER(WHO, CONTEXT, max_answer_len=3)


@pytest.mark.parametrize("asked", ["?", "1 2 3", "!!! ...", "\u65e5\u672c"])
def test_a_question_without_a_letter_and_half_precision(asked):
    assert READER(asked, CONTEXT)["answer"]
    assert reader_of(tiny_bert(TOKENIZER).bfloat16())(asked, CONTEXT)["answer"] in CONTEXT


# --- checkpoints

OURS = {
    "question-answering": {
        "impl": "pipeline_question_answering.QuestionAnsweringPipeline",
        "pt": ["AutoModelForQuestionAnswering"],
    }
}
PASSAGE = "The smith Greta keeps two goats. Anton is the shepherd. " * 20
ASKED = {"question": ["Who is the smith?", "Who keeps goats?", "?"], "context": [PASSAGE, PASSAGE[:56], PASSAGE]}
SETTINGS = {"max_seq_len": 64, "doc_stride": 16, "top_k": 3, "batch_size": 4, "handle_impossible_answer": True}


def named_pipelines(folder):
    return json.loads((folder / "config.json").read_text()).get("custom_pipelines")


def test_any_stock_reader_answers(tmp_path):
    for part in (MODEL, TOKENIZER):
        part.save_pretrained(tmp_path)
    reader = pipeline("question-answering", model=str(tmp_path), device="cpu")
    assert type(reader) is QuestionAnsweringPipeline
    same(reader(**ONE), READER(WHO, CONTEXT))
    reader.save_pretrained(tmp_path / "again")
    assert named_pipelines(tmp_path / "again") is None


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on `sys.path` with a parser for SLA."""
    install_pipeline(tmp_path / "site", "en_tiny_for_answers", str(tiny_parser()))
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


def save(name, folder, task="question-answering"):
    torch.manual_seed(3)
    family = FAMILIES[name]
    model = family.heads[task].from_backbone(tiny_backbone())
    settings = {"parser": "en_tiny_for_answers"} if name == "sla-bert" else {}
    tokenizer = family.adapt_tokenizer(AutoTokenizer.from_pretrained(tiny_backbone()), model, **settings)
    for part in (model, tokenizer):
        part.save_pretrained(folder)
    return model, tokenizer


FRESH = """
import json, sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
site, folders, asked, settings = sys.argv[1], *map(json.loads, sys.argv[2:])
sys.path.insert(0, site)
from transformers import pipeline

for folder in folders:
    reader = pipeline("question-answering", model=folder, trust_remote_code=True, device="cpu")
    assert type(reader).__module__.startswith("transformers_modules"), type(reader).__module__
    reader.model.save_pretrained(folder + "-again")
    reader.tokenizer.save_pretrained(folder + "-again")
    again = pipeline("question-answering", model=folder + "-again", trust_remote_code=True, device="cpu")
    answers = reader(**asked, **settings)
    assert again(**asked, **settings) == answers
    inferred = pipeline(model=folder, trust_remote_code=True, device="cpu")
    assert type(inferred) is type(reader)
    print(json.dumps(answers))
"""


@one_or_every_family
def test_a_reader_answers_with_and_without_the_package(names, site, tmp_path):
    expected = []
    for name in names:
        folder = tmp_path / name
        model, tokenizer = save(name, folder)
        reader = pipeline("question-answering", model=str(folder), device="cpu")  # its code is here: no trust needed
        assert type(reader) is QuestionAnsweringPipeline
        answers = reader(**ASKED, **SETTINGS)
        same(reader_of(model, tokenizer)(**ASKED, **{**SETTINGS, "batch_size": 1}), answers)
        assert named_pipelines(folder) == OURS
        expected.append(answers)
    folders = json.dumps([str(tmp_path / name) for name in names])
    done = run_fresh(FRESH, tmp_path, site, folders, json.dumps(ASKED), json.dumps(SETTINGS))
    assert done.returncode == 0, done.stderr
    for name, line, answers in zip(names, done.stdout.splitlines(), expected, strict=True):
        same(json.loads(line), answers)
        assert named_pipelines(tmp_path / f"{name}-again") == OURS


@pytest.mark.parametrize("name", FAMILIES)
def test_heads_without_answers_do_not_name_the_pipeline(name, site, tmp_path):
    for task in FAMILIES[name].heads.keys() - {"question-answering", "text2text-generation"}:
        save(name, tmp_path / task, task)
        assert "question-answering" not in (named_pipelines(tmp_path / task) or {})


def test_a_reader_names_it_however_it_was_made(tmp_path):
    model, _ = save("cool", tmp_path / "reader")
    heads = FAMILIES["cool"].heads
    heads["token-classification"].from_pretrained(tmp_path / "reader").save_pretrained(tmp_path / "labels")
    assert named_pipelines(tmp_path / "labels") is None
    heads["question-answering"].from_pretrained(tmp_path / "labels").save_pretrained(tmp_path / "back")
    Trainer(model, TrainingArguments(str(tmp_path / "trained"), report_to="none")).save_model()
    assert main(["init", "cool", "tiny", str(tmp_path / "made")]) == 0
    assert named_pipelines(tmp_path / "made") is None  # it has no head yet
    AutoModelForQuestionAnswering.from_pretrained(tmp_path / "made").save_pretrained(tmp_path / "given a head")
    for folder in ("back", "trained", "given a head"):
        assert named_pipelines(tmp_path / folder) == OURS
        assert verify_checkpoint(tmp_path / folder).is_equal
