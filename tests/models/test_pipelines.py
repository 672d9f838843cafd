"""Pipelines of checkpoints: transformers' own and ours with every family, SLA's that parse; and that they travel."""

import copy
import json

import pytest
import torch
from torch.utils.data import Subset
from transformers import (
    AutoTokenizer,
    TextClassificationPipeline,
    TokenClassificationPipeline,
    pipeline,
)

from hf_localattn import OnnxModel, pipelines
from hf_localattn.families import FAMILIES
from hf_localattn.hub.verify import verify_checkpoint
from hf_localattn.models import sla_parser
from hf_localattn.models.negation_labels import CUE_LABELS, SCOPE_LABELS
from hf_localattn.resources import tiny_backbone
from hf_localattn.tasks.negation import add_cue_marker
from tests.fresh_process import run_fresh
from tests.models.test_pipeline_negation import finder_of
from tests.models.test_pipeline_question_answering import READER, same
from tests.models.tiny import one_or_every_family
from tests.tiny_parser import install_pipeline, record_parses, tiny_parser

PARSER = "en_tiny_for_pipelines"
TEXT, TOKEN, ANSWERS, NEGATION = "text-classification", "token-classification", "question-answering", "negation"
STOCK = {TEXT: TextClassificationPipeline, TOKEN: TokenClassificationPipeline}
LABELS = {TEXT: {0: "no", 1: "yes", 2: "perhaps"}, TOKEN: {0: "B-it", 1: "I-it"}}
TEXTS = [
    "Mira is not the baker.",
    "The smith Greta keeps two goats, and the teacher keeps none of them.",
    "",
    "Goats!",
    "Anton is the shepherd of the village.",
]
WORDS = [text.split() for text in TEXTS if text]
LONG = ["The smith Greta keeps two goats. " * 8, "Goats!"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder on `sys.path` with a parser."""
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("site")
        install_pipeline(folder, PARSER, str(tiny_parser()))
        patched.syspath_prepend(folder)
        yield folder


def save(name, task, folder, marker=False, **fields):
    """Save a random model of a family and its tokenizer, and return the model."""
    torch.manual_seed(3)
    family = FAMILIES[name]
    model = family.heads[task].from_backbone(tiny_backbone(), **family.facts.tiny_fields, **fields)
    torch.nn.init.normal_(next(module for module in model.modules() if hasattr(module, "out_features")).weight)
    settings = {"parser": PARSER} if family.parse else {}
    tokenizer = family.adapt_tokenizer(AutoTokenizer.from_pretrained(tiny_backbone()), model, **settings)
    if marker:
        add_cue_marker(tokenizer, model)
    for part in (model, tokenizer):
        part.save_pretrained(folder)
    return model


def named_pipelines(folder):
    return json.loads((folder / "config.json").read_text()).get("custom_pipelines", {})


MASKED = [f"{text} [MASK] [MASK]" for text in TEXTS]
QUESTIONS = [{"question": "Who?", "context": text} for text in TEXTS if text]
HEADS = {TEXT: TEXTS, TOKEN: TEXTS, "fill-mask": MASKED, ANSWERS: QUESTIONS}


@pytest.mark.filterwarnings("ignore:.*pipelines sequentially")
@pytest.mark.parametrize("task", HEADS)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_pipelines_of_every_family(name, task, site, tmp_path):
    """Ours are named by the checkpoint, and every pipeline takes batches. Another head is refused."""
    save(name, task, tmp_path)
    is_ours = task == ANSWERS or (FAMILIES[name].parse is not None and task in STOCK)
    assert {*named_pipelines(tmp_path)} == ({task} if is_ours else set())
    run = pipeline(task, model=str(tmp_path), device="cpu")
    assert type(run).__module__.startswith("hf_localattn") == is_ours
    alone = [run(one) for one in HEADS[task]]
    same(run(HEADS[task], batch_size=2), [one[0] for one in alone] if task == TEXT else alone)
    if task == ANSWERS:
        same(list(run(Subset(QUESTIONS, range(4)), batch_size=2)), alone)
    if task != TEXT:
        with pytest.raises(LookupError, match=f"no {TEXT} head.*{type(run.model).__name__}"):
            pipeline(TEXT, model=str(tmp_path))


# --- SLA's pipelines, which parse a batch together


@pytest.fixture(scope="module")
def built(site, tmp_path_factory):
    """A pipeline for each task."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for task, labels in LABELS.items():
        save("sla-bert", task, folder / task, id2label=labels, gate_bias_init=2.0)
    return {task: pipeline(task, model=str(folder / task), device="cpu") for task in LABELS}


@pytest.fixture
def parsed(site, monkeypatch):
    """The texts of each call of the parser, with an empty cache."""
    sla_parser._cache.clear()
    return record_parses(monkeypatch, sla_parser.load_pipeline(PARSER, named_by_checkpoint=True))


SPLIT = {"is_split_into_words": True}
INPUTS = {
    "texts": (TEXT, TEXTS, {"top_k": None}),
    "pairs": (TEXT, [{"text": text, "text_pair": f"Greta has {len(text)} goats."} for text in TEXTS], {"top_k": None}),
    "listed pairs": (TEXT, [[[text, "Greta has goats."]] for text in TEXTS], {"top_k": None}),
    "cut texts": (TEXT, LONG, {"truncation": True, "max_length": 24}),
    "tokens": (TOKEN, TEXTS, {}),
    "mean tokens": (TOKEN, TEXTS, {"aggregation_strategy": "average"}),
    "words": (TOKEN, WORDS, {**SPLIT, "aggregation_strategy": "first", "delimiter": "_"}),
    "windows": (TOKEN, LONG, {"stride": 4, "aggregation_strategy": "simple"}),
}
# transformers finds no words in batches of lists of words that are padded on the left
SIDED = [(side, name) for side in ("right", "left") for name in INPUTS if side == "right" or name != "words"]


@pytest.mark.parametrize(("side", "name"), SIDED)
def test_batches_give_the_stock_pipelines_results(built, parsed, side, name, monkeypatch):
    task, inputs, settings = INPUTS[name]
    ours = built[task]
    monkeypatch.setattr(ours.tokenizer, "padding_side", side)
    monkeypatch.setattr(ours.tokenizer, "model_max_length", 24 if name == "windows" else 512)
    stock = STOCK[task](model=ours.model, tokenizer=ours.tokenizer, device="cpu")
    expected = stock(inputs, **settings)
    assert len(parsed) == len(inputs)  # text by text
    generator = inputs if inputs is WORDS else (one for one in inputs)  # transformers loses lists of words of those
    for given, size in ((inputs, 2), (generator, 4), (Subset(inputs, range(len(inputs))), 4), (inputs, 1)):
        sla_parser._cache.clear()
        parsed.clear()
        same(list(ours(given, batch_size=size, **settings)), expected)
        assert len(parsed) == -(-len(inputs) // size)


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("task", [*STOCK, ANSWERS, NEGATION])
def test_generators_are_read_batch_by_batch(built, task, batch_size):
    run = built.get(task) or {ANSWERS: READER, NEGATION: finder_of()}[task]
    read, row = [], {"question": "Who?", "context": "A dog."} if task == ANSWERS else "Not a goat."
    results = iter(run((read.append(number) or row for number in range(1000)), batch_size=batch_size))
    assert all(next(results) for _ in range(6))
    assert len(read) <= 6 + 2 * batch_size


def test_workers_and_copies(built):
    expected = built[TEXT](TEXTS, batch_size=4)
    same(built[TEXT](TEXTS, batch_size=2, num_workers=1), expected)
    same(copy.deepcopy(built[TEXT])(TEXTS, batch_size=2), expected)


def test_a_parser_that_is_not_installed(built):
    folder = built[TEXT].model.name_or_path
    absent, without = (AutoTokenizer.from_pretrained(folder, parser=name) for name in ("en_there_is_none", None))
    with pytest.raises(OSError, match=r'en_there_is_none.*local_attention="window"'):
        pipeline(TEXT, model=folder, tokenizer=absent)
    by_window = {"model_kwargs": {"local_attention": "window"}, "tokenizer": without}
    windowed = pipeline(TEXT, model=folder, device="cpu", **by_window)
    same(windowed(TEXTS, batch_size=4), [windowed(text)[0] for text in TEXTS])


# --- the package's own model

DEFAULTS = {
    "onnx": (True, {}, True),
    "no onnxruntime": (False, {}, False),
    "half": (True, {"dtype": "bfloat16"}, False),
}


@pytest.mark.parametrize(("is_installed", "settings", "is_graph"), DEFAULTS.values(), ids=DEFAULTS)
def test_negation_without_a_model(is_installed, settings, is_graph, monkeypatch, caplog):
    if is_graph:
        pytest.importorskip("onnxruntime")
    monkeypatch.setattr(pipelines, "find_spec", lambda name: object() if is_installed else None)
    run = pipeline(NEGATION, device="cpu", **settings)
    assert isinstance(run.model, OnnxModel) == is_graph
    assert str(run.model.dtype).endswith(settings.get("dtype", "float32"))
    assert isinstance(run("No fever."), list)
    assert not caplog.records
    for text in ("Kein Husten und keine Schmerzen.", "\u0411\u0435\u0437 \u0436\u0430\u0440\u0430."):
        run(text)
    assert ["English" in record.message for record in caplog.records] == [True]


def test_a_graph_is_for_the_cpu_alone(monkeypatch):
    monkeypatch.setattr(pipelines, "find_spec", lambda name: object())  # onnxruntime
    for on_gpu in (True, False):
        monkeypatch.setattr(torch.accelerator, "is_available", lambda on_gpu=on_gpu: on_gpu)
        assert pipelines.uses_onnx() == (not on_gpu)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there PyTorch computes the model")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "meta", 0])
def test_a_graph_and_a_number_without_accelerator_are_refused_together(device):
    pytest.importorskip("onnxruntime")
    with pytest.raises(ValueError, match=f"device.*{device}"):
        pipeline(NEGATION, device=device)


def test_a_graph_answers_where_transformers_takes_a_gpu(monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(pipelines, "uses_onnx", lambda: True)
    monkeypatch.setattr("transformers.pipelines.base.is_torch_cuda_available", lambda: True)
    run = pipeline(NEGATION)
    assert isinstance(run.model, OnnxModel)
    assert run("No fever.")


# --- checkpoints that name pipelines

FRESH = """
import json, sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
site, cases = sys.argv[1], json.loads(sys.argv[2])
sys.path.insert(0, site)
from transformers import pipeline

for task, folder, inputs, settings in cases:
    for place in (folder, f"{folder}-{task}"):  # and the second generation, saved by the code of the first
        ours = pipeline(task, model=place, trust_remote_code=True, device="cpu")
        assert type(ours).__module__.startswith("transformers_modules"), type(ours)
        print(json.dumps(ours(*inputs, **settings), default=float))
        for part in (ours.model, ours.tokenizer):
            part.save_pretrained(f"{folder}-{task}")
    if task in ("text-classification", "question-answering"):  # the other head has two pipelines
        inferred = pipeline(model=place, trust_remote_code=True, device="cpu")
        assert type(inferred).__name__ == type(ours).__name__, type(inferred)
"""
NAMED = {TEXT: {"id2label": LABELS[TEXT]}, TOKEN: {"id2label": dict(enumerate([*SCOPE_LABELS, *CUE_LABELS[:3]]))}}
NAMED |= {ANSWERS: {}}
RUNS = {
    ANSWERS: ([QUESTIONS], {"max_seq_len": 24, "doc_stride": 4, "top_k": 3, "handle_impossible_answer": True}),
    **dict.fromkeys((TEXT, TOKEN, NEGATION), ([TEXTS], {})),
}


@one_or_every_family
def test_pipelines_travel(names, site, tmp_path):
    """They run, without trust, where the package is, and from two generations of checkpoints where it is not."""
    cases, expected = [], []
    for name in names:
        for head, fields in NAMED.items():
            folder = tmp_path / f"{name}-{head}"
            save(name, head, folder, marker=head == TOKEN, **fields)
            assert verify_checkpoint(folder).is_equal
            for task in named_pipelines(folder):
                inputs, settings = RUNS[task]
                cases.append((task, str(folder), inputs, {**settings, "batch_size": 4}))
                ours = pipeline(task, model=str(folder), device="cpu")
                expected += [list(ours(*inputs, **settings, batch_size=size)) for size in (4, 1)]
    assert {task for task, *_ in cases} == {*RUNS}
    done = run_fresh(FRESH, tmp_path, site, json.dumps(cases))
    assert done.returncode == 0, done.stderr
    for line, results in zip(done.stdout.splitlines(), expected, strict=True):
        same(json.loads(line), results)
    for task, folder, *_ in cases:
        assert named_pipelines(tmp_path / f"{folder}-{task}") == named_pipelines(tmp_path / folder)


def test_a_reader_names_its_pipeline_however_it_was_made(tmp_path):
    save("cool", ANSWERS, tmp_path / "reader")
    heads = FAMILIES["cool"].heads
    heads[TOKEN].from_pretrained(tmp_path / "reader").save_pretrained(tmp_path / "labels")
    heads[ANSWERS].from_pretrained(tmp_path / "labels").save_pretrained(tmp_path / "back")
    assert named_pipelines(tmp_path / "labels") == {}
    impl = "pipeline_question_answering.QuestionAnsweringPipeline"
    for folder in ("reader", "back"):
        assert named_pipelines(tmp_path / folder) == {ANSWERS: {"impl": impl, "pt": ["AutoModelForQuestionAnswering"]}}
        assert verify_checkpoint(tmp_path / folder).is_equal
