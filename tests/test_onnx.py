"""ONNX by transformers' exporter: the settings of docs/adapting.md give equal logits at another batch and length."""

import pytest
import torch

from hf_localattn.registry import FAMILIES
from tests.models.tiny import adapted, tiny_config, token_ids
from tests.programs import programs, run_program

onnx_ir = pytest.importorskip("onnx_ir")
onnxruntime = pytest.importorskip("onnxruntime")
exporter = pytest.importorskip("transformers.exporters.exporter_onnx")

# torch 2.13 copies what it deprecates itself.
pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")

TASK = "text-classification"
SLOW = pytest.mark.slow(reason="an export takes ten seconds and more")
SETTINGS = [
    ("cool", "bert", {"num_local_layers": 1}),
    ("sam-roberta", "roberta", {}),
    ("sla-bert", "bert", {}),
    ("oa-xlnet", "bert", {"num_oa_layers": 1}),
    *(
        ("cool", "bert", {"local_attention": kind, "num_local_layers": 1})
        for kind in ("conv", "dynamic_conv", "visual_outlook", "rgcn", "gat", "hgt")
    ),
    *(("cool", "bert", {"local_attention": kind}) for kind in ("none", "deeper")),
    *(("cool", "bert", {"mode": mode, "num_local_layers": 1}) for mode in ("l2g", "g&l")),
    ("cool", "bert", {"conv_pooling": "avg", "outlook_softmax": "window", "num_local_layers": 1}),
    *(("sla-bert", "bert", {"local_attention": kind}) for kind in ("window", "sgnet", "lisa")),
    *(("oa-xlnet", "bert", {"local_attention": variant, "num_oa_layers": 1}) for variant in ("em", "c", "ca")),
    ("oa-xlnet", "xlnet", {"num_oa_layers": 1}),
    *(("sam-roberta", "roberta", {"pooling": kind}) for kind in ("none", "rb", "rba", "disan")),
    ("sam-roberta", "roberta", {"use_bilstm": False}),
    ("sam-roberta", "roberta", {"use_bilstm": False, "tam_ffn": "token", "order": "tam_fam"}),
]
CASES = [
    pytest.param(*case, id=" ".join([*case[:2], *(f"{field}={value}" for field, value in case[2].items())]))
    for case in SETTINGS
]

EXAMPLE = torch.tensor([[1] * 11, [1] * 7 + [0] * 4])
OTHER = torch.tensor([[1] * 8, [1] * 5 + [0] * 3, [0] * 3 + [1] * 5])


def inputs_of(model, mask):
    ids = token_ids(*mask.shape).masked_fill(mask == 0, model.config.pad_token_id)
    return adapted(model, input_ids=ids, attention_mask=mask)


def run_exported(exported, inputs):
    """The outputs by name."""
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(exported.program).SerializeToString())
    values = session.run(None, {one.name: inputs[one.name].numpy() for one in session.get_inputs()})
    return dict(zip([one.name for one in session.get_outputs()], map(torch.from_numpy, values), strict=True))


@SLOW
@pytest.mark.parametrize(("name", "backbone", "fields"), CASES)
def test_exported_logits_are_equal_at_another_batch_and_length(name, backbone, fields):
    config = tiny_config(name, backbone, **fields)
    config.num_hidden_layers = 1
    model = FAMILIES[name].heads[TASK](config).eval()
    exported = exporter.OnnxExporter().export(model, inputs_of(model, EXAMPLE), exporter.OnnxConfig(dynamic=True))
    inputs = inputs_of(model, OTHER)
    with torch.no_grad():
        expected = model(**inputs).logits
    torch.testing.assert_close(run_exported(exported, inputs)["logits"], expected, rtol=1e-5, atol=1e-5)


@SLOW
def test_the_program_of_the_document_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "docs/adapting.md"
    (program,) = (program for program, _ in programs(page) if "Onnx" in program)
    run_program(program, "", page, {})
    assert (tmp_path / "exported" / "model.onnx").is_file()
