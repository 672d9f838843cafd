"""Exported folders in pipelines: answers equal to those of the model."""

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, pipeline

from hf_localattn import CoolConfig, OnnxModel
from hf_localattn.exported import GRAPH, SETTINGS
from hf_localattn.models.negation_finder import CUE_LABELS, SCOPE_LABELS
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from hf_localattn.serving.export import export_checkpoint
from tests.serving.test_export import COPIED, SLOW, TEXTS, checkpoint_of

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

QUESTION, PASSAGE = TEXTS["question-answering"]
SENTENCES = ["Mira is [CUE] not the baker.", "Hugo!", "The baker Mira grows white roses in [CUE] no garden of hers."]
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


def call(task, folder):
    """Return the answers of a pipeline to its inputs."""
    inputs, settings = CALLS[task]
    built = pipeline(task, model=str(folder))
    return built(*inputs.values(), **settings) if "inputs" in inputs else built(**inputs, **settings)


def same(found, expected):
    """Compare answers, whose scores may differ in the last digits."""
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            same(*pair)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            same(found[name], value)
    else:
        assert found == (pytest.approx(expected, abs=1e-4) if isinstance(expected, float | np.floating) else expected)


@SLOW
@COPIED
@pytest.mark.parametrize(
    ("family", "task"),
    [(name, task) for name, family in FAMILIES.items() for task in CALLS if task in family.heads]
    + [("oa-xlnet", "negation")],
)
def test_pipelines_answer_as_with_the_model(family, task, tmp_path):
    settings = {}
    if task == "negation":
        settings = {"id2label": dict(enumerate([*SCOPE_LABELS, *CUE_LABELS[:3]]))}
    checkpoint = checkpoint_of(family, task.replace("negation", "token-classification"), tmp_path, **settings)
    folder = export_checkpoint(checkpoint, tmp_path / "out")
    found, expected = call(task, folder), call(task, checkpoint)
    assert any(expected)
    same(found, expected)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An exported token classifier, whose graph gives each token its id as the logit of the second label."""
    folder = tmp_path_factory.mktemp("exported")
    node, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    shape = ("batch", "length")
    graph = onnx.helper.make_graph(
        [
            node("Mul", ["input_ids", "attention_mask"], ["real"]),
            node("Cast", ["real"], ["scores"], to=onnx.TensorProto.FLOAT),
            node("Sub", ["scores", "scores"], ["zeros"]),
            node("Constant", [], ["last"], value_ints=[-1]),
            node("Unsqueeze", ["zeros", "last"], ["first"]),
            node("Unsqueeze", ["scores", "last"], ["second"]),
            node("Concat", ["first", "second"], ["logits"], axis=-1),
        ],
        "graph",
        [tensor(name, onnx.TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")],
        [tensor("logits", onnx.TensorProto.FLOAT, (*shape, 2))],
    )
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9), folder / GRAPH)
    AutoTokenizer.from_pretrained(tiny_backbone()).save_pretrained(folder)
    CoolConfig(architectures=["CoolForTokenClassification"]).to_json_file(folder / "config.json")
    (folder / SETTINGS).write_text("{}")
    return folder


def test_a_folder_is_a_model_of_its_pipeline(folder, caplog):
    labeler = pipeline("token-classification", model=str(folder), batch_size=2)
    tokenizer = labeler.tokenizer
    found = labeler(["Mira grows white roses.", "Hugo!"])
    for text, labels in zip(("Mira grows white roses.", "Hugo!"), found, strict=True):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert [label["word"] for label in labels] == tokenizer.convert_ids_to_tokens(ids)
        assert {label["entity"] for label in labels} == {"LABEL_1"}
    assert "not supported" not in caplog.text
    assert "CoolForTokenClassification" in repr(labeler)
    model = OnnxModel.from_pretrained(folder)
    assert not model.can_generate()
    output = model(**tokenizer("Mira", return_tensors="pt"))
    assert output.logits.shape == (1, 3, 2)
    assert output.logits[0, :, 1].tolist() == tokenizer("Mira")["input_ids"]


def test_mistakes_are_named(folder, tmp_path):
    model = OnnxModel.from_pretrained(folder)
    with pytest.raises(ValueError, match="The graph needs attention_mask, which was not given"):
        model(input_ids=torch.ones(1, 3, dtype=torch.long))
    with pytest.raises(FileNotFoundError, match=r"has no model\.onnx and export\.json: write the folder"):
        OnnxModel.from_pretrained(tmp_path)
    for task in ("question-answering", "text-classification"):
        with pytest.raises(LookupError, match=f"no {task} head: it is an exported CoolForTokenClassification"):
            pipeline(task, model=str(folder))
    with pytest.raises(ValueError, match="does not predict scopes"):
        pipeline("negation", model=str(folder))
