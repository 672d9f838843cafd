"""`hf-localattn export`: graphs that answer like their models, alone in a folder and in pipelines; refusals."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, pipeline

from hf_localattn import CoolConfig, OnnxModel
from hf_localattn.cli import run
from hf_localattn.exported import GRAPH, SETTINGS
from hf_localattn.hub import init_checkpoint
from hf_localattn.models.negation_finder import CUE_LABELS, SCOPE_LABELS
from hf_localattn.pretrained import load_tokenizer
from hf_localattn.registry import AUTO_CLASSES, FAMILIES
from hf_localattn.resources import tiny_backbone
from hf_localattn.serving import export
from tests.fresh_process import run_fresh
from tests.models.test_generation import tiny_generator
from tests.models.tiny import CASES

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SLOW = pytest.mark.slow(reason="an export takes ten seconds and more")
# torch 2.13 copies what it deprecates itself.
pytestmark = COPIED = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")

QUESTION, PASSAGE = "Who is the baker?", "Hugo is the smith. The baker Mira grows white roses."
TEXTS = {
    "question-answering": (QUESTION, PASSAGE),
    "multiple-choice": ("Mira bakes", "white roses.", "brown bread for all of them."),
    "fill-mask": ("Mira is [MASK] the [MASK].",),
}
SENTENCES = ["Mira is [CUE] not the baker.", "Hugo!", "The baker Mira grows white roses in [CUE] no garden of hers."]
LABELS = {
    "text-classification": ["no", "yes", "maybe"],
    "token-classification": [*SCOPE_LABELS, *CUE_LABELS[:3]],
}
CALLS = {
    "question-answering": (
        {"question": [QUESTION, "Who grows roses?"], "context": [PASSAGE, " ".join([PASSAGE] * 9)]},
        {"max_seq_len": 40, "doc_stride": 9, "batch_size": 4, "top_k": 2},
    ),
    "text-classification": ({"inputs": SENTENCES}, {"batch_size": 2, "top_k": None}),
    "token-classification": ({"inputs": SENTENCES}, {"batch_size": 2}),
    "negation": ({"inputs": ["He neither spoke nor moved. It was impossible."] * 2}, {"batch_size": 3}),
}
"""Inputs of a pipeline by name, and its settings."""

RUN = """
import json, runpy, sys
hidden = json.loads(sys.argv.pop(1))
sys.modules.update(dict.fromkeys(hidden))  # importing these is an error from here on
sys.path.insert(0, ".")
print(json.dumps(runpy.run_path("infer.py")["Model"]()(*sys.argv[1:])))
"""


def checkpoint_of(family, task, folder, **settings):
    """A checkpoint without a parser, which a fresh process could not load from a folder."""
    fields = {"local_attention": "window"} if family == "sla-bert" else {}
    base = init_checkpoint(family, "tiny", folder / "base", **fields)
    head = FAMILIES[family].heads.get(task, FAMILIES[family].model)
    torch.manual_seed(0)
    settings = settings or {"id2label": dict(enumerate(LABELS.get(task, ["no", "yes"])))}
    head.from_pretrained(base, **settings).save_pretrained(folder / "head")
    load_tokenizer(str(base)).save_pretrained(folder / "head")
    return folder / "head"


def same(found, expected):
    """Compare answers, whose scores may differ in the last digits."""
    if isinstance(expected, list | tuple):
        for pair in zip(found, expected, strict=True):
            same(*pair)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        same(list(found.values()), list(expected.values()))
    else:
        assert found == (pytest.approx(expected, abs=1e-4) if isinstance(expected, float | np.floating) else expected)


def in_pipeline(task, folder):
    """Return the answers of a pipeline to its inputs."""
    inputs, settings = CALLS[task]
    built = pipeline(task, model=str(folder))
    return built(*inputs.values(), **settings) if "inputs" in inputs else built(**inputs, **settings)


@SLOW
@pytest.mark.parametrize(("family", "task"), CASES)
def test_an_exported_folder_answers_like_its_model(family, task, tmp_path, capsys):
    checkpoint, out = checkpoint_of(family, task, tmp_path), tmp_path / "out"
    assert run(["export", str(checkpoint), str(out)]) == 0
    assert f"python {out}/infer.py {export.ARGUMENTS.get(task, 'TEXT')}\n" in capsys.readouterr().out
    written = {path.name for path in out.iterdir() if path.suffix != ".py"}
    assert written == {"config.json", "export.json", "model.onnx", "tokenizer.json", "tokenizer_config.json"}
    for name in (task, "negation") if (family, task) == ("oa-xlnet", "token-classification") else (task,):
        if name in CALLS:
            found, expected = (in_pipeline(name, folder) for folder in (out, checkpoint))
            assert any(expected)
            same(found, expected)
    texts = TEXTS.get(task, ("Mira is [CUE] not the baker.",))
    hidden = ["hf_localattn", *([] if FAMILIES[family].tokenizer else ["transformers", "torch"])]
    done = run_fresh(RUN, out, json.dumps(hidden), *texts)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.stderr
    answer = json.loads(done.stdout)

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AUTO_CLASSES.get(task, FAMILIES[family].model).from_pretrained(checkpoint)
    columns = [[texts[0]] * 2, texts[1:]] if task == "multiple-choice" else [[text] for text in texts]
    encoded = tokenizer(*columns, padding=True, return_tensors="pt")
    inputs = {name: value[None] for name, value in encoded.items()} if task == "multiple-choice" else encoded
    with torch.no_grad():
        output = model(**inputs)
    if task == "question-answering":
        assert texts[1][answer["start"] : answer["end"]] == answer["answer"]
        assert 0 < answer["score"] <= 1
    elif task in ("text-classification", "multiple-choice"):
        assert list(answer.values()) == pytest.approx(output.logits[0].softmax(-1).tolist(), abs=1e-4)
    elif task == "fill-mask":
        masks = encoded["input_ids"][0] == tokenizer.mask_token_id
        for one, filled in zip(output.logits[0, masks].softmax(-1), answer, strict=True):
            scores, best = one.topk(5)
            same(filled, [*zip(tokenizer.convert_ids_to_tokens(best), scores.tolist(), strict=True)])
    elif task == "headless":
        assert answer == pytest.approx(output.last_hidden_state[0].mean(0).tolist(), abs=1e-3)
    else:
        labels = [model.config.id2label[label] for label in output.logits[0].argmax(-1).tolist()]
        assert answer == [list(pair) for pair in zip(encoded.tokens(), labels, strict=True)]


@SLOW
def test_eight_bit_weights_are_smaller_and_give_similar_answers(tmp_path, caplog):
    checkpoint = checkpoint_of("cool", "text-classification", tmp_path)
    sizes, logits = {}, {}
    for quantize in (None, *export.QUANTIZATIONS):
        out = export.export_checkpoint(checkpoint, tmp_path / str(quantize), quantize=quantize)
        sizes[quantize] = (out / GRAPH).stat().st_size
        graph = OnnxModel.from_pretrained(out)
        logits[quantize] = graph(**{name: torch.ones(1, 9, dtype=torch.long) for name in graph.input_names}).logits
        assert logits[quantize].tolist() == [pytest.approx(logits[None][0].tolist(), abs=0.1)]
    assert max(sizes[quantize] for quantize in export.QUANTIZATIONS) < 0.7 * sizes[None]
    assert all(f"After `{quantize}`, outputs differ" in caplog.text for quantize in export.QUANTIZATIONS)
    errors = {quantize: (logits[quantize] - logits[None]).abs().max() for quantize in export.QUANTIZATIONS}
    assert 0 < errors["int8-weights"] < errors["int8"]


@SLOW
def test_a_graph_that_differs_is_not_written(tmp_path):
    checkpoint = checkpoint_of("cool", "text-classification", tmp_path)
    model = AUTO_CLASSES["text-classification"].from_pretrained(checkpoint)
    torch.nn.init.constant_(model.get_input_embeddings().weight, torch.nan)
    model.save_pretrained(checkpoint)
    with pytest.raises(ValueError, match="differ"):
        export.export_checkpoint(checkpoint, tmp_path / "out")
    assert not (tmp_path / "out").exists()


REFUSED = {
    "quantization": (["cool", "out", "--quantize", "int4"], "int4"),
    "no checkpoint": (["missing", "out"], "missing"),
    "taken": (["cool", "cool"], "exists already"),
    "a file": (["cool", "cool/config.json"], "is a file"),
    "generation": (["generator", "out"], "CoolForConditionalGeneration"),
    "no parser": (["sla", "out"], "dep_heads"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with checkpoints."""
    folder = tmp_path_factory.mktemp("export")
    checkpoint_of("cool", "question-answering", folder).rename(folder / "cool")
    tiny_generator("bart").save_pretrained(folder / "generator")
    init_checkpoint("sla-bert", "tiny", folder / "sla", parser=None)
    return folder


@pytest.mark.parametrize(("words", "error"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_exported_is_named(words, error, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises((ValueError, OSError), match=error):
        run(["export", *words])
    assert not (folder / "out").exists()


def test_answers_of_the_program():
    made = runpy.run_path(str(Path(export.__file__).parent / "templates" / "infer.py"))["Model"]
    model, logits = made.__new__(made), np.array([0.0, 2.0])
    for problem, labels, expected in (
        (None, ["no", "yes"], {"no": 0.1192, "yes": 0.8808}),
        ("multi_label_classification", ["no", "yes"], {"no": 0.5, "yes": 0.8808}),
        ("regression", ["no", "yes"], {"no": 0.0, "yes": 2.0}),
        (None, ["score"], {"score": 2.0}),
    ):
        model.settings = {"labels": labels, "problem_type": problem}
        assert model.label(logits[-len(labels) :]) == pytest.approx(expected, abs=1e-4)

    encoding = load_tokenizer(str(tiny_backbone()))(QUESTION, PASSAGE).encodings[0]
    start, end = (encoding.char_to_token(PASSAGE.index(word), 1) for word in ("Mira", "roses"))
    scores = {name: np.full((1, len(encoding)), -9.0) for name in ("start_logits", "end_logits")}
    scores["start_logits"][0, [1, start]] = 9.0  # the first is in the question
    scores["end_logits"][0, end] = 9.0
    assert model.answer(PASSAGE, encoding, scores)["answer"] == "Mira grows white roses"
    for task, texts in (("question-answering", [QUESTION]), ("text-classification", []), (None, ["a", "b", "c"])):
        model.settings = {"task": task}
        with pytest.raises(ValueError, match=f"not {len(texts)}"):
            model(*texts)


IDS = """<ir_version: 9, opset_import: ["": 17]>
graph (int64[batch, length] input_ids, int64[batch, length] attention_mask) => (float[batch, length, 2] logits) {
    real = Mul(input_ids, attention_mask)
    scores = Cast<to = 1>(real)
    last = Constant<value_ints = [-1]>()
    column = Unsqueeze(scores, last)
    weights = Constant<value = float[1, 2] {0, 1}>()
    logits = MatMul(column, weights)
}"""


@pytest.fixture(scope="module")
def labeler(tmp_path_factory):
    """An exported token classifier, whose graph gives each token its id as the logit of the second label."""
    folder = tmp_path_factory.mktemp("exported")
    onnx.save(onnx.parser.parse_model(IDS), folder / GRAPH)
    AutoTokenizer.from_pretrained(tiny_backbone()).save_pretrained(folder)
    CoolConfig(architectures=["CoolForTokenClassification"]).to_json_file(folder / "config.json")
    (folder / SETTINGS).write_text("{}")
    return folder


def test_a_folder_is_a_model_of_its_pipeline(labeler, caplog):
    made = pipeline("token-classification", model=str(labeler), batch_size=2)
    texts = ["Mira grows white roses.", "Hugo!"]
    for text, labels in zip(texts, made(texts), strict=True):
        assert [label["word"] for label in labels] == made.tokenizer.tokenize(text)
        assert {label["entity"] for label in labels} == {"LABEL_1"}
    assert "not supported" not in caplog.text
    assert "CoolForTokenClassification" in repr(made)
    model = OnnxModel.from_pretrained(labeler)
    assert not model.can_generate()
    output = model(**made.tokenizer("Mira", return_tensors="pt"))
    assert output.logits[0].tolist() == [[0, number] for number in made.tokenizer("Mira")["input_ids"]]


def test_mistakes_with_a_folder_are_named(labeler, tmp_path):
    with pytest.raises(ValueError, match="attention_mask"):
        OnnxModel.from_pretrained(labeler)(input_ids=torch.ones(1, 3, dtype=torch.long))
    with pytest.raises(FileNotFoundError, match=r"model\.onnx"):
        OnnxModel.from_pretrained(tmp_path)
    for task in ("question-answering", "text-classification"):
        with pytest.raises(LookupError, match=f"no {task} head: it is an exported CoolForTokenClassification"):
            pipeline(task, model=str(labeler))
    with pytest.raises(ValueError, match="scopes"):
        pipeline("negation", model=str(labeler))
