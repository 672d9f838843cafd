"""The pipeline "question-answering": what it takes and gives, and that it travels with every checkpoint."""

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
from tests.parsers import install_pipeline
from tests.qa_helpers import byte_pieces, question, tiny_bert, word_pieces

TOKENIZER = word_pieces()
MODEL = tiny_bert(TOKENIZER)
WHO, WHERE = "who sat?", "where sat the cat?"
CONTEXT = question()["context"]
LONG = "the red dog sat on the mat. " * 12
SMALL = {"max_seq_len": 40, "doc_stride": 8}
PASSAGE = "The smith Greta keeps two goats. Anton is the shepherd. " * 20


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


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ((), {"question": WHO, "context": CONTEXT}),
        ((), {"question": [WHO], "context": CONTEXT}),
        ((), {"question": [WHO], "context": [CONTEXT]}),
        ((WHO, CONTEXT), {}),
        (({"question": WHO, "context": CONTEXT},), {}),
        (([{"question": WHO, "context": CONTEXT}],), {}),
        (({**question(), "question": WHO},), {}),
    ],
)
def test_one_question_has_one_answer(inputs, named):
    answer = READER(*inputs, **named)
    assert list(answer) == ["score", "start", "end", "answer"]
    assert CONTEXT[answer["start"] : answer["end"]] == answer["answer"] != ""
    assert answer == READER(question=WHO, context=CONTEXT)


def test_several_questions_have_a_list_of_answers():
    expected = [READER(WHO, CONTEXT), READER(WHERE, LONG)]
    rows = [{"question": WHO, "context": CONTEXT}, {"question": WHERE, "context": LONG}]
    for inputs, named in (
        ((), {"question": [WHO, WHERE], "context": [CONTEXT, LONG]}),
        ((rows,), {}),
        ((tuple(rows),), {}),
        (rows, {}),
    ):
        assert READER(*inputs, **named) == expected
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

    for rows in (questions(), map(dict, questions())):
        read.clear()
        answers = READER(rows, batch_size=batch_size)
        assert not isinstance(answers, list)
        assert [next(answers)["answer"] for answers in [iter(answers)] for _ in range(6)]
        assert len(read) <= 6 + 2 * batch_size
    same(list(READER(Rows(), batch_size=batch_size)), [READER(WHERE, CONTEXT)] * 3)


# --- settings


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
    assert len(TOKENIZER.tokenize(shorter["answer"])) == 1


def test_answers_are_ranked_and_different():
    ranked = READER(WHO, CONTEXT, top_k=5)
    assert len(ranked) == 5
    assert [one["score"] for one in ranked] == sorted((one["score"] for one in ranked), reverse=True)
    assert len({one["answer"].lower() for one in ranked}) == 5
    assert ranked[0] == READER(WHO, CONTEXT)
    assert all(CONTEXT[one["start"] : one["end"]] == one["answer"] for one in ranked)


def test_scores_of_equal_answers_are_added():
    cats = "cats. " * 3
    alone = {one["answer"]: one["score"] for one in READER(WHO, cats, top_k=1000, max_answer_len=2)}
    assert len(alone) == len({text.lower() for text in alone})
    assert sum(alone.values()) <= 1 + 1e-6


def test_answers_are_whole_words_unless_asked_otherwise():
    words = {one["answer"] for one in READER(WHO, "unknownwords here", top_k=50)}
    assert words <= {"unknownwords", "unknownwords here", "here"}
    assert len({one["answer"] for one in READER(WHO, "unknownwords here", top_k=50, align_to_words=False)}) > 3


def test_a_long_context_is_read_in_windows():
    assert len(TOKENIZER.tokenize(LONG)) > 64
    marked = LONG + "who sat on the red cats."
    for settings in ({}, SMALL, {"max_seq_len": 64}, {"max_seq_len": 24, "doc_stride": 1}):
        answer = READER(WHO, marked, **settings)
        assert marked[answer["start"] : answer["end"]] == answer["answer"] != ""
    windows = [window["window"] for window in READER.preprocess({"question": WHO, "context": marked}, **SMALL)]
    assert len(windows) > 3
    assert all(len(window.inputs["input_ids"]) <= 40 for window in windows)
    assert {place for window in windows for place in window.offsets if place} == {
        tuple(place)
        for place in TOKENIZER(marked, add_special_tokens=False, return_offsets_mapping=True).offset_mapping
    }


def test_a_long_question_is_cut(caplog):
    same(READER(WHERE, CONTEXT, max_question_len=2), READER("where sat", CONTEXT))
    assert "A question of 5 tokens is cut to 2" in caplog.text
    endless = "who sat on the mat " * 40
    assert READER(endless, CONTEXT)["answer"]
    assert READER(endless, LONG, max_seq_len=30)["answer"]


@pytest.mark.parametrize("settings", [{}, {"padding": "max_length"}, {"padding": True}])
@pytest.mark.parametrize("batch_size", [2, 8])
def test_batches_give_the_answers_of_single_windows(settings, batch_size):
    questions, contexts = [WHO, WHERE, "who?"], [CONTEXT, LONG, "the mat."]
    alone = [READER(*pair, **SMALL, top_k=3) for pair in zip(questions, contexts, strict=True)]
    together = READER(question=questions, context=contexts, batch_size=batch_size, top_k=3, **SMALL, **settings)
    same(together, alone)


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


@pytest.mark.parametrize("settings", [{}, {"padding": "max_length"}])
@pytest.mark.parametrize("tokenizer", [TOKENIZER, word_pieces("left"), word_pieces("left", cls_last=True)])
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


def test_half_precision():
    assert reader_of(tiny_bert(TOKENIZER).bfloat16())(WHO, CONTEXT)["answer"] in CONTEXT


# --- bad input


@pytest.mark.parametrize(
    ("inputs", "named", "message"),
    [
        (("", CONTEXT), {}, "`question` is"),
        ((WHO, " \n\t"), {}, "`context` is"),
        ((), {"question": [WHO, " "], "context": CONTEXT}, "`question` 1 is"),
        ((), {"question": [WHO], "context": [CONTEXT, LONG]}, "1 questions, but 2 contexts"),
        ((), {"question": WHO, "context": [CONTEXT]}, "`context` is"),
        ((), {"question": WHO}, "`question=` and `context=`"),
        ((), {}, "`question=` and `context=`"),
        ((), {"question": WHO, "context": 3}, "`context` is"),
        (({"question": WHO},), {}, "'context'"),
        (([3],), {}, "'question'"),
        (("who?",), {}, "'question'"),
        (({"question": WHO, "context": CONTEXT},), {"question": WHO}, "but not both"),
        ((WHO, CONTEXT), {"top_k": 0}, "`top_k` is 0; it must be a whole number of at least 1"),
        ((WHO, CONTEXT), {"max_answer_len": 0}, "`max_answer_len` is 0"),
        ((WHO, CONTEXT), {"doc_stride": -1}, "`doc_stride` is -1; it must be a whole number of at least 0"),
        ((WHO, CONTEXT), {"max_seq_len": 65}, "`max_seq_len` is 65, but the model takes 64 tokens at most"),
        ((WHO, CONTEXT), {"max_seq_len": 4}, "`max_seq_len` is 4, which leaves no room"),
        ((WHO, LONG), {"max_seq_len": 20, "doc_stride": 16}, "has room for 14 of the context"),
        ((WHO, "\u200b"), {}, "has no token that the model knows"),
    ],
)
def test_bad_input(inputs, named, message):
    with pytest.raises(ValueError, match=message):
        READER(*inputs, **named)


def test_bad_examples_of_an_iterator():
    answers = READER(iter([{"question": WHO, "context": CONTEXT}, {"question": "", "context": CONTEXT}]))
    with pytest.raises(ValueError, match="`question` is"):
        list(answers)


def test_unknown_settings():
    with pytest.raises(TypeError, match="topk"):
        READER(WHO, CONTEXT, topk=3)


@pytest.mark.parametrize("asked", ["?", "1 2 3", "!!! ...", "\u65e5\u672c"])
def test_a_question_without_a_letter(asked):
    assert READER(asked, CONTEXT)["answer"]


def test_what_cannot_answer_is_refused(tmp_path):
    for model in (BertModel(MODEL.config), BertForTokenClassification(MODEL.config)):
        with pytest.raises(ValueError, match=f"{type(model).__name__} has no question-answering head"):
            reader_of(model)
        model.save_pretrained(tmp_path)
        TOKENIZER.save_pretrained(tmp_path)
        with pytest.raises(LookupError, match=f"has no question-answering head: .* of {type(model).__name__} and"):
            pipeline("question-answering", model=str(tmp_path))
    with pytest.raises(ValueError, match="is not a fast tokenizer"):
        reader_of(tokenizer=object())
    diverged = tiny_bert(TOKENIZER)
    torch.nn.init.constant_(diverged.qa_outputs.bias, torch.nan)
    with pytest.raises(ValueError, match="training diverged"):
        reader_of(diverged)(WHO, CONTEXT)


# --- checkpoints


def test_any_stock_reader_answers(tmp_path):
    for part in (MODEL, TOKENIZER):
        part.save_pretrained(tmp_path)
    reader = pipeline("question-answering", model=str(tmp_path), device="cpu")
    assert type(reader) is QuestionAnsweringPipeline
    same(reader(question=WHO, context=CONTEXT), READER(WHO, CONTEXT))
    reader.save_pretrained(tmp_path / "again")
    assert "custom_pipelines" not in json.loads((tmp_path / "again" / "config.json").read_text())


def named_pipelines(folder):
    return json.loads((folder / "config.json").read_text()).get("custom_pipelines")


OURS = {
    "question-answering": {
        "impl": "pipeline_question_answering.QuestionAnsweringPipeline",
        "pt": ["AutoModelForQuestionAnswering"],
    }
}


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


ASKED = {"question": ["Who is the smith?", "Who keeps goats?", "?"], "context": [PASSAGE, PASSAGE[:56], PASSAGE]}
SETTINGS = {"max_seq_len": 64, "doc_stride": 16, "top_k": 3, "batch_size": 4, "handle_impossible_answer": True}

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
        alone = {**SETTINGS, "batch_size": 1}
        same(reader_of(model, tokenizer)(**ASKED, **alone), answers)
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
        with pytest.raises(LookupError, match="has no question-answering head"):
            pipeline("question-answering", model=str(tmp_path / task))


def test_a_reader_becomes_no_reader_and_back(tmp_path):
    save("cool", tmp_path / "reader")
    heads = FAMILIES["cool"].heads
    heads["token-classification"].from_pretrained(tmp_path / "reader").save_pretrained(tmp_path / "labels")
    assert named_pipelines(tmp_path / "labels") is None
    heads["question-answering"].from_pretrained(tmp_path / "labels").save_pretrained(tmp_path / "reader")
    assert named_pipelines(tmp_path / "reader") == OURS


def test_trainer_and_what_follows_init_name_it(tmp_path):
    model, _ = save("cool", tmp_path / "first")
    Trainer(model, TrainingArguments(str(tmp_path / "trained"), report_to="none")).save_model()
    assert main(["init", "cool", "tiny", str(tmp_path / "made")]) == 0
    assert named_pipelines(tmp_path / "made") is None  # it has no head yet
    AutoModelForQuestionAnswering.from_pretrained(tmp_path / "made").save_pretrained(tmp_path / "given a head")
    for folder in ("trained", "given a head"):
        assert named_pipelines(tmp_path / folder) == OURS
        assert (tmp_path / folder / "pipeline_question_answering.py").is_file()
        assert verify_checkpoint(tmp_path / folder).is_equal
