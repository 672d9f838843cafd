"""`hf-localattn export`: graphs that answer like their models, alone in a folder and in pipelines; refusals."""

import gc
import json
import multiprocessing
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoTokenizer, pipeline

from hf_localattn import CoolConfig, CoolForQuestionAnswering, OnnxModel
from hf_localattn.cli import main
from hf_localattn.families import AUTO_CLASSES, FAMILIES
from hf_localattn.graphs import EXPORT_SETTINGS, GRAPH, Graph
from hf_localattn.hub import init_checkpoint
from hf_localattn.models.negation_labels import CUE_LABELS, SCOPE_LABELS
from hf_localattn.names import read_config
from hf_localattn.pretrained import load_tokenizer
from hf_localattn.resources import NEGATION, tiny_backbone
from hf_localattn.serving import export
from hf_localattn.serving.validation import compare_with_checkpoint, prepare_evaluation
from tests.fresh_process import run_fresh
from tests.models.test_generation import tiny_generator
from tests.models.tiny import CASES
from tests.qa_helpers import tiny_bert, word_pieces, write_jsonl

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SLOW = pytest.mark.slow(reason="an export takes ten seconds and more")
# torch 2.13 copies what it deprecates itself.
pytestmark = COPIED = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")

INFER = runpy.run_path(str(Path(export.__file__).parent / "templates" / "infer.py"))
QUESTION, PASSAGE = "Who is the baker?", "Hugo is the smith. The baker Mira grows white roses."
TEXTS = {
    "question-answering": (QUESTION, PASSAGE),
    "multiple-choice": ("Mira bakes", "white roses.", "brown bread for all of them."),
    "fill-mask": ("Mira is [MASK] the [MASK].",),
}
LABELS = {
    "text-classification": ["no", "yes", "maybe"],
    "token-classification": [*SCOPE_LABELS, *CUE_LABELS[:3]],
}
SENTENCES = ["Mira is [CUE] not the baker.", "Hugo!", "The baker Mira grows white roses in [CUE] no garden of hers."]
QUESTIONS = {"question": [QUESTION, "Who grows roses?"], "context": [PASSAGE, " ".join([PASSAGE] * 9)]}
CALLS = {
    "question-answering": ((), {**QUESTIONS, "max_seq_len": 40, "doc_stride": 9, "batch_size": 4, "top_k": 2}),
    "text-classification": ((SENTENCES,), {"batch_size": 2, "top_k": None}),
    "token-classification": ((SENTENCES,), {"batch_size": 2}),
    "negation": ((["He neither spoke nor moved. It was impossible."] * 2,), {"batch_size": 3}),
}
"""Inputs and settings of a pipeline."""

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
    if isinstance(expected, dict):
        found, expected = sorted(found.items()), sorted(expected.items())
    if isinstance(expected, list | tuple):
        for pair in zip(found, expected, strict=True):
            same(*pair)
    else:
        assert found == (pytest.approx(expected, abs=1e-4) if isinstance(expected, float | np.floating) else expected)


@SLOW
@pytest.mark.parametrize(("family", "task"), CASES)
def test_an_exported_folder_answers_like_its_model(family, task, tmp_path, capsys):
    checkpoint, out = checkpoint_of(family, task, tmp_path), tmp_path / "out"
    assert main(["export", str(checkpoint), str(out)]) == 0
    assert f"python {out}/infer.py {export.ARGUMENTS.get(task, 'TEXT')}\n" in capsys.readouterr().out
    written = {path.name for path in out.iterdir() if path.suffix != ".py"}
    assert written == {"config.json", "export.json", "model.onnx", "tokenizer.json", "tokenizer_config.json"}
    results = {}
    for name in {task, "negation"} if (family, task) == ("oa-xlnet", "token-classification") else {task} & {*CALLS}:
        texts, settings = CALLS[name]
        found, results[name] = (pipeline(name, model=str(made))(*texts, **settings) for made in (out, checkpoint))
        assert any(results[name])
        same(found, results[name])
    hidden = ["hf_localattn", *([] if FAMILIES[family].tokenizer else ["transformers", "torch"])]
    done = run_fresh(RUN, out, json.dumps(hidden), *TEXTS.get(task, SENTENCES[:1]))
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.stderr
    answer = json.loads(done.stdout)
    if task == "text-classification":
        same(answer, {one["label"]: one["score"] for one in results[task][0]})
    elif task == "token-classification":
        assert all([one["word"], one["entity"]] in answer for one in results[task][0])
    elif task == "headless":
        assert len(answer) == AutoConfig.from_pretrained(checkpoint).hidden_size


@SLOW
def test_eight_bit_weights_are_smaller_and_give_similar_answers(tmp_path, caplog):
    caplog.set_level("INFO", "hf_localattn")
    checkpoint = checkpoint_of("cool", "text-classification", tmp_path)
    sizes, logits = {}, {}
    for quantize in (None, *export.QUANTIZATIONS):
        out = export.export_checkpoint(checkpoint, tmp_path / str(quantize), quantize=quantize)
        sizes[quantize] = (out / GRAPH).stat().st_size
        graph = OnnxModel.from_pretrained(out)
        logits[quantize] = graph(**{name: torch.ones(1, 9, dtype=torch.long) for name in graph.input_names}).logits
    assert max(sizes[quantize] for quantize in export.QUANTIZATIONS) < 0.7 * sizes[None]
    assert all(f"After `{quantize}`, outputs differ" in caplog.text for quantize in export.QUANTIZATIONS)
    errors = {quantize: (logits[quantize] - logits[None]).abs().max() for quantize in export.QUANTIZATIONS}
    assert 0 < errors["int8-weights"] < errors["int8"] < 0.1


@SLOW
def test_a_graph_that_differs_is_not_written(tmp_path):
    checkpoint = checkpoint_of("cool", "text-classification", tmp_path)
    model = AUTO_CLASSES["text-classification"].from_pretrained(checkpoint)
    torch.nn.init.constant_(model.get_input_embeddings().weight, torch.nan)
    model.save_pretrained(checkpoint)
    with pytest.raises(ValueError, match="differ"):
        export.export_checkpoint(checkpoint, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_exported_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiny_generator("bart").save_pretrained("generator")
    init_checkpoint("sla-bert", "tiny", "sla", parser=None)
    for words, error in (
        (["generator", "out"], "CoolForConditionalGeneration"),
        (["sla", "out"], "dep_heads"),
        (["missing", "out"], "missing"),
        (["generator", "out", "--quantize", "int4"], "int4"),
        (["sla", "out", "--quantise", "int8"], "--quantise"),
        (["sla", "out", "--validation_file", "rows.csv"], "rows.csv"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["export", *words])
        assert error in capsys.readouterr().err
    assert not Path("out").exists()


def program(task, problem=None, labels=("no", "yes"), **outputs):
    """`infer.py` with a graph that always has these outputs."""
    model = INFER["Model"].__new__(INFER["Model"])
    model.tokenizer = load_tokenizer(str(tiny_backbone())).backend_tokenizer
    model.settings = {"task": task, "problem_type": problem, "labels": labels, "max_length": None}
    model.settings |= {"mask_token": "[MASK]", "padding": {}, "question_is_first": True, "no_answer_tokens": []}
    model.settings["has_segments"] = True
    model.run = lambda inputs: {
        name: np.repeat(np.array(value, float), len(inputs["input_ids"]) // len(value) or 1, axis=0)
        for name, value in outputs.items()
    }
    return model


def test_answers_of_the_program():
    task, logits = "text-classification", [[0, 2]]
    same(program(task, logits=logits)("A"), {"no": 0.1192, "yes": 0.8808})
    same(program(task, "multi_label_classification", logits=logits)("A"), {"no": 0.5, "yes": 0.8808})
    same(program(task, "regression", logits=logits)("A"), {"no": 0.0, "yes": 2.0})
    same(program(task, labels=["score"], logits=[[2]])("A"), {"score": 2.0})
    same(program("multiple-choice", logits=logits)("Mira", "bakes.", "is"), {"bakes.": 0.1192, "is": 0.8808})

    rows, _ = program("multiple-choice").encode([("Mira", "bakes."), ("Mira", "grows white roses.")])
    assert len({*map(len, rows["input_ids"])}) == 1
    assert np.sum(rows["attention_mask"]) == np.count_nonzero(rows["input_ids"])

    fill = program("fill-mask")
    encoding, words = fill.tokenizer.encode("[MASK] grows [MASK]"), ["mira", "roses"]
    scores = np.zeros((1, len(encoding), fill.tokenizer.get_vocab_size()))
    for place, word in zip((1, len(encoding) - 2), words, strict=True):
        scores[0, place, fill.tokenizer.token_to_id(word)] = 9.0
    fill.run = lambda inputs: {"logits": scores}
    answers = fill("[MASK] grows [MASK]")
    assert [[one[0][0], len(one)] for one in answers] == [[word, 5] for word in words]
    assert answers[0][0][1] == pytest.approx(1 / (1 + (scores.shape[-1] - 1) * np.exp(-9)))
    with pytest.raises(ValueError, match="MASK"):
        fill("Mira")

    encoding = fill.tokenizer.encode(QUESTION, PASSAGE)
    start, end = (encoding.char_to_token(PASSAGE.index(word), 1) for word in ("Mira", "roses"))
    scores = {name: np.full((1, len(encoding)), -9.0) for name in ("start_logits", "end_logits")}
    scores["start_logits"][0, [1, start]] = 9.0  # the first is in the question
    scores["end_logits"][0, end] = 9.0
    found = program("question-answering", **scores)(QUESTION, PASSAGE)
    same(found, {"answer": "Mira grows white roses", "start": 29, "end": 51, "score": 1.0, "no_answer": 0.0})
    with_mark = PASSAGE.replace("roses", "roses\u0301")  # which the tokenizer drops
    assert program("question-answering", **scores)(QUESTION, with_mark)["answer"] == "Mira grows white roses\u0301"

    # Tokenizers that pad on the left have the passage first.
    encoding = fill.tokenizer.encode(PASSAGE, QUESTION)
    word = encoding.char_to_token(PASSAGE.index("Mira"), 0)
    logits = np.full((1, len(encoding)), -9.0)
    logits[0, word] = 9.0
    xlnet = program("question-answering", start_logits=logits, end_logits=logits)
    xlnet.settings["question_is_first"] = False
    same(xlnet(QUESTION, PASSAGE), {"answer": "Mira", "start": 29, "end": 33, "score": 1.0, "no_answer": 0.0})
    for task, texts in (("question-answering", [QUESTION]), ("text-classification", []), (None, ["a", "b", "c"])):
        with pytest.raises(ValueError, match=f"has {len(texts)} texts"):
            program(task)(*texts)


@pytest.mark.parametrize("is_raw", [True, False], ids=["tokenizers", "transformers"])
@pytest.mark.parametrize("cls_last", [False, True], ids=["right", "left"])
def test_the_program_reads_like_the_pipeline(cls_last, is_raw):
    tokenizer = word_pieces("left" if cls_last else "right", cls_last)
    torch.manual_seed(0)
    config = CoolConfig(backbone_config=tiny_bert(tokenizer).config.to_dict(), conv_filters=4)
    model = CoolForQuestionAnswering(config).eval()
    torch.nn.init.normal_(model.qa_outputs.weight)
    reader = pipeline("question-answering", model=model, tokenizer=tokenizer, device="cpu")
    made = program("question-answering")
    made.tokenizer = tokenizer.backend_tokenizer if is_raw else tokenizer
    made.settings |= {"max_length": 64, "question_is_first": not cls_last}
    made.settings |= {"padding": {"pad_id": 0, "direction": tokenizer.padding_side}}
    made.settings["has_segments"] = "token_type_ids" in tokenizer.model_input_names
    made.settings |= {"no_answer_tokens": [tokenizer.cls_token_id, tokenizer.bos_token_id]}

    def run(inputs):
        with torch.inference_mode():
            output = model(**{name: torch.as_tensor(np.asarray(values)) for name, values in inputs.items()})
        return {name: output[name].numpy() for name in ("start_logits", "end_logits")}

    made.run = run
    rows = [("who sat?", "the cat sat on the mat."), ("where?", "the red dog sat on the mat. " * 9), ("who", "a'b")]
    rows.append(("who sat on the mat " * 40, "the unknownword sat."))
    for (question, context), answer in zip(rows, made.answers(rows, 3), strict=True):
        found, none = reader(question, context, top_k=2000, handle_impossible_answer=True), answer.pop("no_answer")
        same(none, next(one["score"] for one in found if not one["answer"]))
        same(answer, reader(question, context))


def ask(model, monkeypatch, capsys, *words):
    """What `python infer.py WORDS` prints."""
    monkeypatch.setitem(INFER["main"].__globals__, "Model", lambda: model)
    monkeypatch.setattr("sys.argv", ["infer.py", *map(str, words)])
    INFER["main"]()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_program_reads_files_in_batches(tmp_path, monkeypatch, capsys):
    texts = ["Mira.", "The baker Mira grows white roses.", "No.", "Hugo!", "A smith."]
    (tmp_path / "rows.txt").write_text("\n".join(texts) + "\n")
    (tmp_path / "rows.csv").write_text("text\n" + "\n".join(texts) + "\n")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"words": text}) + "\n" for text in texts))
    model = program("token-classification")
    sizes = []

    def run(inputs):
        sizes.append(len(inputs["input_ids"]))
        return {"logits": np.stack([1.0 - np.equal(inputs["input_ids"], 0), np.zeros_like(inputs["input_ids"])], -1)}

    model.run = run
    expected = [model(text) for text in texts]
    for file, *columns in (["rows.txt"], ["rows.csv"], ["rows.jsonl", "--columns", "words"]):
        del sizes[:]
        words = ["--file", tmp_path / file, "--batch_size", 2, *columns]
        assert ask(model, monkeypatch, capsys, *words) == expected  # without padding
        assert sizes == [2, 2, 1]
    assert ask(model, monkeypatch, capsys, texts[0]) == expected[:1]
    (tmp_path / "choices.jsonl").write_text(json.dumps({"prompt": "Mira", "choices": ["bakes.", "is"]}))
    chooser = program("multiple-choice", logits=[[0, 2]])
    words = ["--file", tmp_path / "choices.jsonl", "--columns", "prompt", "choices"]
    (choice,) = ask(chooser, monkeypatch, capsys, *words)
    same(choice, {"bakes.": 0.1192, "is": 0.8808})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "TEXT or --file"),
        (["a", "--file", "rows.jsonl"], "TEXT or --file"),
        (["--file", "rows.jsonl", "--columns", "b"], "row 2: has no b"),
        (["--file", "rows.jsonl", "--batch_size", "0"], "--batch_size"),
        (["--file", "rows.pdf"], ".txt"),
        (["a", "b", "c"], "3 texts"),
        (["--file", "missing.txt"], "missing.txt"),
        (["--file", "blank.txt"], "Row 2"),
    ],
)
def test_the_program_refuses(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"b": "x"}\n{"a": "y"}\n')
    Path("blank.txt").write_text("a\n\nb\n")
    with pytest.raises(SystemExit):
        ask(program("text-classification", logits=[[0, 2]]), monkeypatch, capsys, *words)
    assert message in capsys.readouterr().err


def test_predictions_of_a_graph_are_counted(tmp_path, capsys):
    """The graph has the opposite of the checkpoint's logits. Nothing but the report is printed."""
    checkpoint = checkpoint_of("cool", "text-classification", tmp_path, id2label={0: "no", 1: "yes"})
    rows = [{"text": f"Mira is {word} the baker.", "label": label} for word, label in (("not", "no"), ("now", "yes"))]
    words = ["--validation_file", str(write_jsonl(tmp_path / "rows.jsonl", rows))]
    prepared = prepare_evaluation(str(checkpoint), read_config(checkpoint), words, str(tmp_path / "scratch"))
    model = prepared.model
    for sign, equal in ((1, 2), (-1, 0)):
        graph = lambda sign=sign, **inputs: {"logits": sign * model(**inputs)["logits"]}  # noqa: E731
        agreement = compare_with_checkpoint(prepared, graph)
        assert (agreement.equal, agreement.count) == (equal, 2)
        of_checkpoint, of_graph = agreement.scores["accuracy"]
        assert of_graph == (of_checkpoint if equal else 1 - of_checkpoint)
    assert capsys.readouterr().out == ""
    report = [line.split() for line in agreement.report().splitlines()[1:]]
    assert ["accuracy", f"{of_checkpoint:.4f}", f"{of_graph:.4f}"] in report
    assert report[-1] == ["equal", "predictions", "0", "of", "2"]


IDS = """<ir_version: 9, opset_import: ["": 17]>
graph (int64[batch, length] input_ids, int64[batch, length] attention_mask) => (float[batch, length, 2] logits) {
    real = Mul(input_ids, attention_mask)
    scores = Cast<to = 1>(real)
    last = Constant<value_ints = [-1]>()
    column = Unsqueeze(scores, last)
    weights = Constant<value = float[1, 2] {0, 1}>()
    logits = MatMul(column, weights)
}"""


def test_a_folder_is_a_model_of_its_pipeline(tmp_path, caplog):
    """The graph gives each token its id as the logit of the second label."""
    with pytest.raises(FileNotFoundError, match=r"model\.onnx"):
        OnnxModel.from_pretrained(tmp_path)
    onnx.save(onnx.parser.parse_model(IDS), tmp_path / GRAPH)
    AutoTokenizer.from_pretrained(tiny_backbone()).save_pretrained(tmp_path)
    CoolConfig(architectures=["CoolForTokenClassification"]).to_json_file(tmp_path / "config.json")
    settings = {"task": "token-classification", "labels": ["no", "yes"], "max_length": 4, "padding": {}}
    settings |= {"has_segments": False, "no_answer_tokens": []}
    (tmp_path / EXPORT_SETTINGS).write_text(json.dumps(settings))
    made = pipeline("token-classification", model=str(tmp_path), batch_size=2)
    texts = ["Mira grows white roses.", "Hugo!"]
    for text, labels in zip(texts, made(texts), strict=True):
        assert [label["word"] for label in labels] == made.tokenizer.tokenize(text)
        assert {label["entity"] for label in labels} == {"LABEL_1"}
    assert "not supported" not in caplog.text
    assert "CoolForTokenClassification" in repr(made)
    model = OnnxModel.from_pretrained(tmp_path)
    assert not model.can_generate()
    output = model(**made.tokenizer("Mira", return_tensors="pt"))
    assert output.logits[0].tolist() == [[0, number] for number in made.tokenizer("Mira")["input_ids"]]
    with pytest.raises(ValueError, match="attention_mask"):
        model(input_ids=torch.ones(1, 3, dtype=torch.long))
    cut = [[token, "yes"] for token in ("mira", "grows", "white")]
    assert INFER["Model"](tmp_path)("Mira grows white roses.")[1:-1] == cut[:2]
    with pytest.raises(LookupError, match="no text-classification head: it is an exported CoolForTokenClassification"):
        pipeline("text-classification", model=str(tmp_path))
    with pytest.raises(ValueError, match="scopes"):
        pipeline("negation", model=str(tmp_path))


def answer_after_a_fork(graph):
    gc.collect()  # of the parent's garbage, whose threads are not in this process
    inputs = {name: np.ones((1, 3), np.int64) for name in graph.input_names}
    return graph.run(graph.output_names, inputs)[0].tolist()


def test_a_forked_process_leaves_the_graphs_of_its_parent():
    """Also those that are garbage: to end their threads would wait forever."""
    gc.disable()
    try:
        left, graph = Graph(NEGATION, 2), Graph(NEGATION, 2)
        expected = answer_after_a_fork(graph)
        left.itself = left
        del left
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply_async(answer_after_a_fork, (graph,)).get(60) == expected
    finally:
        gc.enable()
