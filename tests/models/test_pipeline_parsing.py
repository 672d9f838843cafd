"""SLA's pipelines for texts and tokens: the answers of transformers' own, with one parse for each batch."""

import copy
import json

import pytest
import torch
from transformers import AutoTokenizer, TextClassificationPipeline, TokenClassificationPipeline, pipeline

from hf_localattn.models import sla_parser
from hf_localattn.models.pipeline_parsing import ParsingTextClassificationPipeline, ParsingTokenClassificationPipeline
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone, tiny_parser
from tests.fresh_process import run_fresh
from tests.tiny_parser import install_pipeline

PARSER = "en_tiny_for_texts"
TEXTS = [
    "Mira is not the baker.",
    "The smith Greta keeps two goats, and the teacher keeps none of them.",
    "",
    "Goats!",
    "Anton is the shepherd of the village.",
]
PAIRS = [{"text": text, "text_pair": f"Greta has {number} goats."} for number, text in enumerate(TEXTS)]
WORDS = [text.split() for text in TEXTS if text]
LONG = ["The smith Greta keeps two goats. " * 8, "Goats!"]
TEXT, TOKEN = "text-classification", "token-classification"
STOCK = {TEXT: TextClassificationPipeline, TOKEN: TokenClassificationPipeline}
OURS = {TEXT: ParsingTextClassificationPipeline, TOKEN: ParsingTokenClassificationPipeline}
LABELS = {TEXT: {0: "no", 1: "yes", 2: "perhaps"}, TOKEN: {0: "B-it", 1: "I-it"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder on `sys.path` with a parser."""
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("site")
        install_pipeline(folder, PARSER, str(tiny_parser()))
        patched.syspath_prepend(folder)
        yield folder


@pytest.fixture(scope="module")
def folders(site, tmp_path_factory):
    """A checkpoint for each task."""
    folder, family = tmp_path_factory.mktemp("checkpoints"), FAMILIES["sla-bert"]
    torch.manual_seed(3)
    for task, labels in LABELS.items():
        model = family.heads[task].from_backbone(tiny_backbone(), id2label=labels, gate_bias_init=2.0)
        torch.nn.init.normal_(next(module for module in model.modules() if hasattr(module, "out_features")).weight)
        tokenizer = family.tokenizer.from_backbone(AutoTokenizer.from_pretrained(tiny_backbone()), parser=PARSER)
        for part in (model, tokenizer):
            part.save_pretrained(folder / task)
    return {task: str(folder / task) for task in LABELS}


@pytest.fixture
def parsed(site, monkeypatch):
    """Number of texts in each call of the parser, with an empty cache."""
    nlp = sla_parser.load_pipeline(PARSER, named_by_checkpoint=True)
    pipe, calls = nlp.pipe, []

    def counted(documents):
        documents = list(documents)
        calls.append(len(documents))
        return pipe(documents)

    monkeypatch.setattr(nlp, "pipe", counted)
    sla_parser._cache.clear()
    return calls


@pytest.fixture(scope="module")
def built(folders):
    return {task: pipeline(task, model=folder, device="cpu") for task, folder in folders.items()}


def same(one, other):
    """Compare results, whose scores may differ by rounding. `index` counts padding on the left."""
    if isinstance(one, list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            same(mine, theirs)
        return
    assert {**one, "score": 0, "index": 0} == {**other, "score": 0, "index": 0}
    assert one["score"] == pytest.approx(other["score"], abs=1e-5)


INPUTS = [
    (TEXT, TEXTS, {}),
    (TEXT, TEXTS, {"top_k": None}),
    (TEXT, PAIRS, {"top_k": None}),
    (TEXT, LONG, {"truncation": True, "max_length": 24}),
    (TOKEN, TEXTS, {}),
    (TOKEN, TEXTS, {"aggregation_strategy": "average"}),
    (TOKEN, WORDS, {"is_split_into_words": True, "aggregation_strategy": "first"}),
    (TOKEN, WORDS, {"is_split_into_words": True, "delimiter": "_"}),
    (TOKEN, LONG, {"stride": 4, "aggregation_strategy": "simple"}),
]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(("task", "inputs", "settings"), INPUTS)
def test_batches_give_the_stock_pipelines_results(built, parsed, task, inputs, settings, side, monkeypatch):
    if side == "left" and "is_split_into_words" in settings:
        pytest.skip("transformers finds no words in batches of lists of words that are padded on the left")
    ours = built[task]
    monkeypatch.setattr(ours.tokenizer, "padding_side", side)
    stock = STOCK[task](model=ours.model, tokenizer=ours.tokenizer, device="cpu")
    assert type(ours) is OURS[task]
    if "stride" in settings:
        monkeypatch.setattr(ours.tokenizer, "model_max_length", 24)
    expected = stock(inputs, **settings)
    assert len(parsed) == len(inputs)  # text by text
    generator = inputs if inputs is WORDS else (one for one in inputs)  # transformers loses lists of words of those
    for given in (inputs, generator, Rows(inputs)):
        sla_parser._cache.clear()
        parsed.clear()
        same(list(ours(given, batch_size=4, **settings)), expected)
        assert len(parsed) == -(-len(inputs) // 4)
    same(list(ours(inputs, **settings)), expected)


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        return self.rows[number]


@pytest.mark.parametrize("task", STOCK)
def test_generators_are_read_batch_by_batch(built, task):
    read = []

    def texts():
        for number in range(1000):
            read.append(number)
            yield TEXTS[number % 5] or "A goat."

    results = iter(built[task](texts(), batch_size=4))
    assert all(next(results) for _ in range(6))
    assert len(read) <= 12


def test_workers_copies_device_maps_and_half_precision(folders, built):
    expected = built[TEXT](TEXTS, batch_size=4)
    same(built[TEXT](TEXTS, batch_size=2, num_workers=1), expected)
    same(copy.deepcopy(built[TEXT])(TEXTS, batch_size=2), expected)
    same(pipeline(TEXT, model=folders[TEXT], device_map="auto")(TEXTS, batch_size=4), expected)
    half = pipeline(TEXT, model=folders[TEXT], device="cpu", dtype="bfloat16")
    assert half.model.dtype == torch.bfloat16
    scores = [one["score"] for one in half(TEXTS, batch_size=4)]
    assert scores == pytest.approx([one["score"] for one in expected], abs=0.05)


@pytest.mark.parametrize(
    ("task", "rows", "settings", "message"),
    [
        (TEXT, [3, 4], {}, "text"),
        (TEXT, [["a", "b"], ["c", "d"]], {}, "text pairs"),
        (TOKEN, [3, 4], {}, "untokenized"),
        (TOKEN, [["a", 3]], {"is_split_into_words": True}, "expected str"),
    ],
)
def test_other_inputs_are_left_to_transformers(built, task, rows, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        built[task](rows, batch_size=2, **settings)


def test_other_models_have_the_pipelines_of_transformers():
    for task, stock in STOCK.items():
        head = FAMILIES["cool"].heads[task].from_backbone(tiny_backbone())
        assert type(pipeline(task, model=head, tokenizer=AutoTokenizer.from_pretrained(tiny_backbone()))) is stock


@pytest.mark.parametrize("name", FAMILIES)
def test_a_checkpoint_without_the_head_is_refused(name, tmp_path):
    FAMILIES[name].heads[TOKEN].from_backbone(tiny_backbone()).save_pretrained(tmp_path)
    with pytest.raises(LookupError, match=f"no {TEXT} head.*ForTokenClassification"):
        pipeline(TEXT, model=str(tmp_path), tokenizer=AutoTokenizer.from_pretrained(tiny_backbone()))


def test_a_parser_that_is_not_installed(folders):
    tokenizer = AutoTokenizer.from_pretrained(folders[TEXT], parser="en_there_is_none")
    with pytest.raises(OSError, match=r'en_there_is_none.*local_attention="window"'):
        pipeline(TEXT, model=folders[TEXT], tokenizer=tokenizer)
    without = AutoTokenizer.from_pretrained(folders[TEXT], parser=None)
    by_window = {"model_kwargs": {"local_attention": "window"}, "tokenizer": without}
    windowed = pipeline(TEXT, model=folders[TEXT], device="cpu", **by_window)
    same(windowed(TEXTS, batch_size=4), [windowed(text)[0] for text in TEXTS])


FRESH = """
import json, sys
sys.modules["hf_localattn"] = None  # importing it is an error from here on
site, folders, texts = sys.argv[1], *map(json.loads, sys.argv[2:])
sys.path.insert(0, site)
from transformers import pipeline

for task, folder in folders.items():
    ours = pipeline(task, model=folder, trust_remote_code=True, device="cpu")
    assert type(ours).__module__.startswith("transformers_modules"), type(ours)
    print(json.dumps(ours(texts, batch_size=4), default=float))
    stock = pipeline(task, model=ours.model, tokenizer=ours.tokenizer, device="cpu")  # as before loading
    print(json.dumps(stock(texts), default=float))
    assert type(stock).__module__.startswith("transformers.pipelines"), type(stock)
    stock.save_pretrained(folder + "-again")
    inferred = pipeline(model=folder + "-again", trust_remote_code=True, device="cpu")
    assert type(inferred).__name__ == type(ours).__name__
"""


def test_the_pipelines_travel(folders, built, site, tmp_path):
    expected = [built[task](TEXTS, batch_size=4) for task in folders for _ in range(2)]
    done = run_fresh(FRESH, tmp_path, site, json.dumps(folders), json.dumps(TEXTS))
    assert done.returncode == 0, done.stderr
    for line, results in zip(done.stdout.splitlines(), expected, strict=True):
        same(json.loads(line), results)
