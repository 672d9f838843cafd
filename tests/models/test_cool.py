"""COOL's models against the paper's equations and transformers' classes."""

import pytest
import torch
from transformers import (
    AutoModel,
    BertConfig,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from hf_localattn import CoolConfig, CoolModel
from tests.models.ablations import LOCAL_ENCODERS, OUTLOOKERS, PLACED
from tests.models.naive import assert_same, pair
from tests.models.tiny import COMMON, main_outputs, tiny_config, tiny_model, token_ids
from tests.reference import cool as reference

MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def naive_outlooker(model, states, real):
    """Run the reference context outlooker on one example without its padding, which counts as outside."""
    config, outlooker = model.config, model.base_model.local_encoder
    states = states[real]
    if outlooker.convolution_block is not None:
        kernels = list(map(pair, outlooker.convolution_block.convolutions))
        states = reference.convolution_block(states, kernels, config.conv_pooling, config.conv_alignment)
    for layer in outlooker.layers:
        states = reference.outlook_layer(
            states,
            [True] * len(states),
            pair(layer.value),
            pair(layer.attention_scores),
            list(map(pair, layer.feed_forward)),
            config.outlook_kernel_size,
            config.outlook_num_heads or config.local_size,
            norms=(layer.attention_norm, layer.feed_forward_norm),
            joint_softmax=config.outlook_softmax == "window",
            mask_outside_window=config.mask_outside_window,
        )
    if outlooker.projection is not None:
        states = torch.stack([reference.linear(row, *pair(outlooker.projection)) for row in states])
    return states


BESIDE = {
    f"g&l {fusion} {use_conv}": {"mode": "g&l", "fusion": fusion, "use_conv": use_conv, "num_local_layers": 1}
    for fusion in ("concat", "sum", "gate")
    for use_conv in (True, False)
}
EQUATIONS = {**OUTLOOKERS, "dropout": {"outlook_dropout": 0.3}, **BESIDE}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("fields", EQUATIONS.values(), ids=EQUATIONS)
def test_equals_the_equations(fields, side):
    is_beside = fields.get("mode") == "g&l"
    sizes = {"conv_filters": 5 if "outlook_num_heads" in fields else 2, **fields}
    model = tiny_model("cool", "question-answering", "albert" if is_beside else "bert", **sizes).double()
    ids, mask = token_ids(2, 5), MASK.flip(1) if side == "left" else MASK
    output = model(ids, attention_mask=mask, output_hidden_states=True)
    words, layers = model.get_input_embeddings()(ids), dict(model.cool.named_children())
    for row, real in enumerate(mask.bool()):
        states = output.hidden_states[-1][row]
        local = naive_outlooker(model, words[row] if is_beside else states, real)
        if is_beside:
            parts = {name: pair(layer) for name, layer in layers["fusion"].named_children()}
            joined = zip(states[real], local, strict=True)
            local = torch.stack([reference.fusion(fields["fusion"], both, one, **parts) for both, one in joined])
        logits = torch.stack([reference.linear(one, *pair(model.qa_outputs)) for one in local])
        assert_same([torch.stack([output.start_logits[row][real], output.end_logits[row][real]], dim=-1)], [logits])
    alone = model.backbone_model(ids[:1], output_hidden_states=True).last_hidden_state
    assert_same([output.hidden_states[-1][:1]], [alone])  # as usual


@pytest.mark.parametrize("backbone", ["bert", "albert"])
@pytest.mark.parametrize("use_conv", [True, False])
def test_below_the_encoder_equals_the_equations(use_conv, backbone):
    model = tiny_model("cool", backbone=backbone, mode="l2g", use_conv=use_conv, num_local_layers=1, conv_filters=2)
    model, ids = model.double(), token_ids(1, 5)
    words = naive_outlooker(model, model.get_input_embeddings()(ids)[0], torch.ones(5, dtype=torch.bool))
    assert_same([model(ids).last_hidden_state], [model.backbone_model(inputs_embeds=words[None]).last_hidden_state])
    assert (model.local_encoder.projection is None) is not use_conv


def test_sizes_are_the_papers():
    """Numbers of new parameters at the size of BERT-base, derived by hand from the equations."""
    size, heads, layers = 768, 12, 3
    linear = size * size + size
    expected = {
        "none": 0,
        "deeper": 3 * 7_087_872,
        "conv": 100 * (3 + 4 + 5) * size + 300,
        "dynamic_conv": layers * (2 * linear + linear + size * 3 * heads),
        "visual_outlook": layers * (2 + 81 * 2 + 2 + 2),
        "rgcn": layers * (linear + size * size),
        "gat": layers * (size * size + 2 * size + size),
        "hgt": layers * (3 * linear + size * size + 2 * heads * (size // heads) ** 2 + heads),
        "outlook": (100 * 12 * size + 300) + 2 * (2 * (300 * 300 + 300) + 812_700),
    }
    with torch.device("meta"):
        counts = {kind: CoolModel(CoolConfig(local_attention=kind)).num_parameters() for kind in expected}
    assert {kind: count - counts["none"] for kind, count in counts.items()} == expected


@pytest.mark.parametrize("kind", ["mean", "sum", "joint"])
def test_losses_equal_the_paper(kind):
    model, ids = tiny_model("cool", "question-answering", qa_loss=kind).double(), token_ids(3, 7)

    def outputs(ids, starts, ends):
        return model(ids, start_positions=torch.tensor(starts), end_positions=torch.tensor(ends))

    answers = [0, 3, 4], [2, 3, 6]
    output = outputs(ids, *answers)
    logits = output.start_logits, output.end_logits
    assert_same([output.loss], [reference.question_answering_loss(*logits, *map(torch.tensor, answers), kind)])
    assert torch.equal(outputs(ids[:1], [-1], [2]).loss, outputs(ids[:1], [0], [2]).loss)
    if kind == "joint":  # ours; transformers' losses see to the others
        torch.testing.assert_close(outputs(ids[:2], [1, 7], [2, 9]).loss, outputs(ids[:1], [1], [2]).loss)
        assert outputs(ids[:2], [7, 7], [7, 7]).loss == 0


STOCK = {
    "question-answering": (BertForQuestionAnswering, {}, {"start_positions": [1, 40], "end_positions": [2, 41]}),
    "classes": (BertForSequenceClassification, {"num_labels": 3}, {"labels": [2, 0]}),
    "regression": (BertForSequenceClassification, {"num_labels": 1}, {"labels": [0.3, -1.2]}),
    "several labels": (BertForSequenceClassification, {"num_labels": 3}, {"labels": [[1.0, 0.0, 1.0], [0.0] * 3]}),
    "token-classification": (BertForTokenClassification, {"num_labels": 5}, {"labels": [[-100, 4, 0], [1, 3, -100]]}),
    "multiple-choice": (BertForMultipleChoice, {}, {"labels": [2, 0]}),
}


@pytest.mark.parametrize("case", STOCK)
def test_without_local_layers_heads_and_losses_are_the_stock_classes(case):
    stock_class, fields, labels = STOCK[case]
    task = case if "-" in case else "text-classification"
    model = tiny_model("cool", task, local_attention="none", **fields)
    stock = stock_class(BertConfig(**COMMON, **fields)).eval()
    stock.bert.load_state_dict(model.cool.backbone.state_dict(), strict=False)
    head = dict(model.named_children())
    head = next(head[name] for name in head if name.startswith(("qa_out", "sequence_", "token_", "choice_")))
    if stock.bert.pooler is not None:
        stock.bert.pooler.dense.load_state_dict(head.pooler.state_dict())
        head = head.output
    getattr(stock, "qa_outputs" if task == "question-answering" else "classifier").load_state_dict(head.state_dict())
    length = 3 if task == "token-classification" else 7
    ids = token_ids(6, 7).view(2, 3, 7) if task == "multiple-choice" else token_ids(2, length)
    given = {"input_ids": ids, **{name: torch.tensor(one) for name, one in labels.items()}}
    if task == "multiple-choice":
        given["attention_mask"] = torch.ones_like(ids)
        given["attention_mask"][1, 2, 4:] = 0
    found, expected = model(**given), stock(**given)
    for name in {"loss", "logits", "start_logits", "end_logits"} & found.keys():
        torch.testing.assert_close(found[name], expected[name], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("backbone", "position"), [("bert", 0), ("xlnet", -1)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_texts_are_represented_by_the_backbones_own_token(backbone, position, side):
    model = tiny_model("cool", "text-classification", backbone)
    mask = MASK[1:].flip(1) if side == "left" else MASK[1:]
    ids = token_ids(1, 5)
    states = model.cool(ids, attention_mask=mask).last_hidden_state[mask.bool()][position]
    expected = model.sequence_classifier(states[None])
    torch.testing.assert_close(model(ids, attention_mask=mask).logits, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("backbone", CoolConfig.tested_backbones)
def test_deeper_is_the_pretrained_backbone_with_new_layers_on_top(backbone, tmp_path):
    """The first layers are the pretrained ones. ALBERT repeats its shared layer."""
    pretrained = tiny_model("cool", backbone=backbone).backbone_model
    pretrained.save_pretrained(tmp_path / "backbone")
    model = CoolModel.from_backbone(tmp_path / "backbone", local_attention="deeper", num_extra_layers=2)
    layers = pretrained.config.num_hidden_layers
    assert len(model(token_ids(2, 7), output_hidden_states=True).hidden_states) == layers + 3
    inside, weights = model.backbone_model.state_dict(), pretrained.state_dict()
    assert_same((inside[name] for name in weights), weights.values(), 0)
    new = {parameter for one in model.fresh_modules() for parameter in one.parameters()}
    assert sum(one.numel() for one in new) == sum(inside[name].numel() for name in inside.keys() - weights.keys())
    assert bool(new) is (backbone != "albert")
    model.resize_token_embeddings(65)
    assert model.config.vocab_size == model.backbone_model.config.vocab_size == 65
    model.save_pretrained(tmp_path / "deeper")
    loaded = AutoModel.from_pretrained(tmp_path / "deeper")
    assert loaded.config.num_hidden_layers == layers
    assert_same(loaded.state_dict().values(), model.state_dict().values(), 0)


@pytest.mark.parametrize("kind", PLACED)
def test_new_layers_start_at_the_scale_of_their_input(kind):
    states = CoolModel(tiny_config("cool", local_attention=kind)).eval()(token_ids(3, 11)).last_hidden_state
    assert 0.05 < states.std() < 5.0
    wide = CoolModel(tiny_config("cool", use_conv=False, initializer_range=0.05))
    for weight in (weight for weight in wide.local_encoder.parameters() if weight.dim() == 2):
        torch.testing.assert_close(weight.std().item(), 0.05, rtol=0.1, atol=0)


@pytest.mark.slow(reason="compiling takes seconds; test_cool_mechanism.py traces each layer alone")
@pytest.mark.parametrize("fields", LOCAL_ENCODERS, ids=str)
def test_compiles_as_one_graph_in_half_precision_too(fields):
    torch.compiler.reset()
    model = tiny_model("cool", **fields)
    inputs = {"input_ids": token_ids(2, 7), "attention_mask": torch.tensor([[1] * 7, [1] * 3 + [0] * 4])}
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_same(main_outputs(compiled(**inputs)), main_outputs(model(**inputs)), 1e-5)
    full, (half,) = main_outputs(model(**inputs)), main_outputs(model.bfloat16()(**inputs))
    torch.testing.assert_close(half.float(), full[0], rtol=0.1, atol=0.2)
