"""`hf-localattn export`: graphs that answer like their models, alone in a folder; and what cannot be exported."""

import json
import runpy
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch

import hf_localattn.serving
from hf_localattn.cli import run
from hf_localattn.hub import init_checkpoint
from hf_localattn.pretrained import load_tokenizer
from hf_localattn.registry import FAMILIES
from hf_localattn.serving import export
from tests.fresh_process import run_fresh
from tests.models.test_generation import tiny_generator
from tests.models.tiny import ENCODER_HEADS

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SLOW = pytest.mark.slow(reason="an export takes ten seconds and more")
# torch 2.13 copies what it deprecates itself.
COPIED = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")

TEMPLATE = Path(hf_localattn.serving.__file__).parent / "templates" / "infer.py"
TEXTS = {
    "question-answering": ("Who is the baker?", "Hugo is the smith. The baker Mira grows white roses."),
    "multiple-choice": ("Mira bakes", "white roses.", "brown bread for all of them."),
    "fill-mask": ("Mira is [MASK] the [MASK].",),
}
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
    settings = settings or {"num_labels": 3 if task.endswith("classification") else 2}
    head.from_pretrained(base, **settings).save_pretrained(folder / "head")
    load_tokenizer(str(base)).save_pretrained(folder / "head")
    return folder / "head"


@SLOW
@COPIED
@pytest.mark.parametrize(
    ("family", "task"), [(name, task) for name, heads in ENCODER_HEADS.items() for task in ("headless", *heads)]
)
def test_an_exported_folder_answers_like_its_model(family, task, tmp_path):
    checkpoint = checkpoint_of(family, task, tmp_path)
    assert run(["export", str(checkpoint), str(tmp_path / "out")]) == 0
    written = {path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".py"}
    assert written == {"config.json", "export.json", "model.onnx", "tokenizer.json", "tokenizer_config.json"}
    texts = TEXTS.get(task, ("Mira is [CUE] not the baker.",))
    hidden = ["hf_localattn", *([] if FAMILIES[family].tokenizer else ["transformers", "torch"])]
    done = run_fresh(RUN, tmp_path / "out", json.dumps(hidden), *texts)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.stderr
    answer = json.loads(done.stdout)

    model, tokenizer, _ = export._load(checkpoint)
    if task == "multiple-choice":
        encoded = tokenizer([texts[0]] * 2, list(texts[1:]), padding=True, return_tensors="pt")
        encoded = {name: value[None] for name, value in encoded.items()}
    else:
        encoded = tokenizer(*([text] for text in texts), return_tensors="pt")
    with torch.no_grad():
        output = model(**encoded)
    if task in ("text-classification", "multiple-choice"):
        assert list(answer.values()) == pytest.approx(output.logits[0].softmax(-1).tolist(), abs=1e-4)
    elif task == "token-classification":
        labels = [model.config.id2label[label] for label in output.logits[0].argmax(-1).tolist()]
        assert answer == [list(pair) for pair in zip(encoded.tokens(), labels, strict=True)]
    elif task == "question-answering":
        assert texts[1][answer["start"] : answer["end"]] == answer["answer"]
        assert 0 < answer["score"] <= 1
    elif task == "fill-mask":
        masks = encoded["input_ids"][0] == tokenizer.mask_token_id
        scores, best = output.logits[0, masks].softmax(-1).topk(5)
        for own, expected, tokens in zip(answer, scores.tolist(), best, strict=True):
            assert [token for token, _ in own] == tokenizer.convert_ids_to_tokens(tokens)
            assert [score for _, score in own] == pytest.approx(expected, abs=1e-4)
    else:
        assert answer == pytest.approx(output.last_hidden_state[0].mean(0).tolist(), abs=1e-3)


@SLOW
@COPIED
def test_eight_bit_weights_are_smaller_and_give_similar_answers(tmp_path, caplog):
    checkpoint = checkpoint_of("cool", "text-classification", tmp_path)
    sizes, logits = {}, {}
    for quantize in (None, *export.QUANTIZATIONS):
        out = export.export_checkpoint(checkpoint, tmp_path / str(quantize), quantize=quantize)
        sizes[quantize] = (out / "model.onnx").stat().st_size
        session = onnxruntime.InferenceSession(str(out / "model.onnx"))
        inputs = {one.name: np.ones((1, 9), np.int64) for one in session.get_inputs()}
        logits[quantize] = session.run(["logits"], inputs)[0]
        assert logits[quantize] == pytest.approx(logits[None], abs=0.1)
        assert quantize is None or sizes[quantize] < 0.7 * sizes[None]
        assert quantize is None or f"`{quantize}` changes " in caplog.text
    errors = {quantize: np.abs(logits[quantize] - logits[None]).max() for quantize in export.QUANTIZATIONS}
    assert 0 < errors["int8-weights"] < errors["int8"]


@pytest.mark.parametrize(
    ("task", "content", "error"),
    [
        ("question-answering", "Who?\tMira.\nWho?\n", "row 2 .* QUESTION CONTEXT"),
        ("multiple-choice", "One\tTwo\n", "row 1 .* PROMPT CHOICE CHOICE"),
        ("text-classification", "\n", "empty"),
    ],
)
def test_texts_of_decisions_are_checked(task, content, error, tmp_path):
    (tmp_path / "texts.txt").write_text(content)
    with pytest.raises(ValueError, match=error):
        export.check_rows(tmp_path / "texts.txt", task)


def test_decisions_are_those_of_the_graph(tmp_path, monkeypatch):
    model, tokenizer, _ = export._load(checkpoint_of("cool", "question-answering", tmp_path))
    rows = export.check_rows(None, "question-answering")[: export.BATCH + 1]

    class Session:
        def __init__(self, *_, **__):
            pass

        def get_outputs(self):
            return [Namespace(name=name) for name in ("local_attentions", "start_logits", "end_logits")]

        def get_inputs(self):
            return [Namespace(name="input_ids"), Namespace(name="attention_mask")]

        def run(self, names, inputs):
            ends = inputs["input_ids"].cumsum(1).astype(np.float32)
            return [-ends if name == "start_logits" else ends for name in names]

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    found = export.decisions(tmp_path, model, tokenizer, rows)
    lasts = [len(tokenizer(*row).input_ids) - 1 for row in rows]
    assert found.tolist() == [*[0] * export.BATCH, *lasts[:-1], 0, lasts[-1]]


def test_a_graph_that_differs_is_not_written(tmp_path, monkeypatch):
    checkpoint = checkpoint_of("cool", "text-classification", tmp_path)
    monkeypatch.setattr(export, "_write_graph", lambda model, family, path: path.write_bytes(b"graph"))
    monkeypatch.setattr(export, "_largest_difference", lambda *_: float("nan"))
    with pytest.raises(ValueError, match="differ from the model's by nan"):
        export.export_checkpoint(checkpoint, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_exported_is_named(tmp_path):
    checkpoint = init_checkpoint("cool", "tiny", tmp_path / "cool")
    tiny_generator("bart").save_pretrained(tmp_path / "generator")
    init_checkpoint("sla-bert", "tiny", tmp_path / "sla", parser=None)
    for words, error in (
        ([checkpoint, tmp_path / "out", "--quantize", "int4"], "int4"),
        ([tmp_path / "missing", tmp_path / "out"], "missing' has no config.json"),
        ([checkpoint, checkpoint], "exists already"),
        ([checkpoint, checkpoint / "config.json"], "is a file"),
        ([tmp_path / "generator", tmp_path / "out"], "CoolForConditionalGeneration"),
        ([tmp_path / "sla", tmp_path / "out"], "dep_heads"),
    ):
        with pytest.raises((ValueError, OSError), match=error):
            run(["export", *map(str, words)])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("question-answering", "QUESTION CONTEXT"),
        ("multiple-choice", "PROMPT CHOICE CHOICE"),
        ("text-classification", "TEXT"),
    ],
)
def test_the_command_names_the_texts_of_the_program(task, arguments, tmp_path, monkeypatch, capsys):
    (tmp_path / "export.json").write_text(json.dumps({"task": task}))
    monkeypatch.setattr(export, "export_checkpoint", lambda *_, **__: tmp_path)
    assert run(["export", "my-model", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"Wrote {tmp_path}. Run it with: python {tmp_path}/infer.py {arguments}\n"
    assert f"python infer.py {arguments}" in TEMPLATE.read_text()


def test_answers_of_the_program():
    made = runpy.run_path(str(TEMPLATE))["Model"]
    model, logits = made.__new__(made), np.array([0.0, 2.0])
    for problem, labels, expected in (
        (None, ["no", "yes"], {"no": 0.1192, "yes": 0.8808}),
        ("multi_label_classification", ["no", "yes"], {"no": 0.5, "yes": 0.8808}),
        ("regression", ["no", "yes"], {"no": 0.0, "yes": 2.0}),
        (None, ["score"], {"score": 2.0}),
    ):
        model.settings = {"labels": labels, "problem_type": problem}
        assert model.label(logits[-len(labels) :]) == pytest.approx(expected, abs=1e-4)

    tokenizer = load_tokenizer(str(hf_localattn.resources.tiny_backbone()))
    question, passage = TEXTS["question-answering"]
    encoding = tokenizer(question, passage).encodings[0]
    start, end = (encoding.char_to_token(passage.index(word), 1) for word in ("Mira", "roses"))
    scores = {name: np.full((1, len(encoding)), -9.0) for name in ("start_logits", "end_logits")}
    scores["start_logits"][0, [1, start]] = 9.0  # the first is in the question
    scores["end_logits"][0, end] = 9.0
    assert model.answer(passage, encoding, scores)["answer"] == "Mira grows white roses"
    model.settings = {"task": "question-answering"}
    with pytest.raises(ValueError, match="two texts"):
        model(question)
