"""COOL's layers against the papers' equations and torch's, and its models: order, losses, stock classes."""

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from hf_localattn import CoolConfig, CoolModel, outlook_attention, outlook_attention_matrix
from hf_localattn.families.cool.facts import OUTLOOKERS
from hf_localattn.models.cool_local_encoder import Fusion, LocalEncoder
from tests.models.naive import (
    MASK,
    EqualsLoop,
    assert_same,
    pair,
    pairs,
    random_states,
    randomized,
    saved,
    with_gradients,
)
from tests.models.tiny import COMMON, tiny_model, token_ids
from tests.reference import cool as reference
from tests.reference import cool_baselines as baselines

SIZE = 6
HEADS = {"dynamic_conv": 2, "visual_outlook": 1, "rgcn": 1, "gat": 2, "hgt": 3}
WINDOWS = {
    **dict.fromkeys(HEADS, ("graph_window", 1, 2)),
    **dict.fromkeys([*HEADS][:2], ("outlook_kernel_size", 3, 5)),
}
CONTIGUOUS = MASK[:4]


def config(heads=1, **fields):
    backbone = {"model_type": "bert", "hidden_size": SIZE, "num_attention_heads": heads}
    return CoolConfig(backbone_config=backbone, **fields)


def encoder_of(kind="outlook", **fields):
    few = {"conv_filters": 5 if "outlook_num_heads" in fields else 2, "num_local_layers": 1}
    return randomized(LocalEncoder(config(HEADS.get(kind, 1), local_attention=kind, **{**few, **fields})), scale=0.4)


# --- outlook attention


class Outlook(nn.Module):
    """Outlook attention as a module without parameters, whose scores are a part of its input."""

    def __init__(self, window=3, heads=SIZE, **options):
        super().__init__()
        self.window, self.heads, self.options = window, heads, options

    def forward(self, values, scores, mask=None, **options):
        scores = scores.unflatten(-1, (self.window, self.window, self.heads))
        return outlook_attention(values, scores, mask, **self.options, **options)


WAYS = [
    *({"heads": heads} for heads in (6, 2, 1)),
    *({"window": window} for window in (1, 5)),
    *({"joint_softmax": True, "heads": heads} for heads in (6, 2)),
    *({"mask_outside_window": True, "heads": heads} for heads in (6, 2)),
    {"joint_softmax": True, "mask_outside_window": True},
]
OPTIONS = {str(options): options for options in WAYS}


class TestOutlook(EqualsLoop):
    cases = OPTIONS
    shapes = (((1, 1),), ((2, 2),), ((1, 9),))

    def build(self, case):
        return Outlook(**self.cases[case])

    def inputs(self, case, shape):
        module = self.build(case)
        scores = 2 * torch.randn(*shape, module.window**2 * module.heads, dtype=torch.float64)
        return [random_states(*shape, SIZE), scores.requires_grad_()]

    def run(self, module, inputs, masks):
        mixed, nothing = module(*inputs, *masks)
        assert nothing is None
        with_weights, weights = module(*inputs, *masks, return_weights=True)
        tolerance = 1e-2 if mixed.dtype.itemsize < 4 else 1e-5 if mixed.dtype.itemsize < 8 else 1e-12
        assert_same([with_weights], [mixed], tolerance * max(1, float(mixed.detach().abs().max())))
        real = torch.ones(mixed.shape[:2], dtype=torch.bool) if masks[0] is None else masks[0]
        sums = weights.sum((3, 4)) if module.options.get("joint_softmax") else weights.sum(3)
        torch.testing.assert_close(sums[real], torch.ones_like(sums[real]), rtol=0.02, atol=0.02)
        assert not weights[~real].any()
        return mixed

    def loop(self, module, case, rows, reals):
        values, scores = rows
        scores = scores.unflatten(-1, (module.window, module.window, module.heads))
        return reference.outlook_attention(values, scores, *reals, **module.options)


def random_windows(batch=2, length=5, features=6, window=3):
    return [random_states(batch, length, *more, features) for more in ((), (window, window))]


def test_gradients_have_gradients_and_transforms_see_through():
    function = lambda *tensors: outlook_attention(*tensors, torch.tensor([[1, 1, 0]]))[0]  # noqa: E731
    small = random_windows(1, 3, 2)
    assert torch.autograd.gradcheck(function, small)
    assert torch.autograd.gradgradcheck(function, small)
    values, scores = (tensor.detach() for tensor in random_windows())
    per_example = torch.func.vmap(torch.func.grad(lambda v, s: outlook_attention(v[None], s[None])[0].square().sum()))
    whole = torch.func.grad(lambda v: outlook_attention(v, scores)[0].square().sum())(values)
    torch.testing.assert_close(per_example(values, scores), whole)


def test_dropout_keeps_the_expectation():
    values, scores = (tensor.detach() for tensor in random_windows(length=3, features=2))
    mean = torch.stack([outlook_attention(values, scores, dropout=0.3)[0] for _ in range(2000)]).mean(0)
    torch.testing.assert_close(mean, outlook_attention(values, scores)[0], rtol=0.12, atol=0.12)
    layer, states = encoder_of(use_conv=False, outlook_dropout=0.3), random_states(3, 7, SIZE)
    assert torch.equal(layer(states)[0], layer(states)[0])
    assert not torch.equal(layer.train()(states)[0], layer(states)[0])


def test_the_matrix_is_the_map_that_the_attention_applies():
    """With the same value in every feature, applying the matrix equals applying the attention and averaging."""
    values, scores = (tensor.detach() for tensor in random_windows())
    values = values[..., :1].expand_as(values)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    mixed, weights = outlook_attention(values, scores, mask, return_weights=True)
    matrix = outlook_attention_matrix(weights, mask)
    torch.testing.assert_close((matrix @ values[..., :1])[..., 0], mixed.mean(-1))
    assert not matrix[1, :, 2:].any()


# --- convolutions, local layers, baselines and fusion

ENCODERS = {
    **OUTLOOKERS,
    **{
        f"conv {pooling} {alignment} {kernels}": {
            **{"kind": "conv", "conv_pooling": pooling, "conv_alignment": alignment, "conv_kernel_sizes": kernels}
        }
        for pooling in ("max", "avg")
        for alignment in ("adaptive", "same")
        for kernels in ((3, 4, 5), (1, 2))
    },
    "balanced": {"fusion": "gate"},
    "conv balanced": {"kind": "conv", "fusion": "gate"},
    "gat balanced": {"kind": "gat", "fusion": "gate"},
    **{f"{kind} {size}": {"kind": kind, field: size} for kind, (field, *sizes) in WINDOWS.items() for size in sizes},
}


def layer_loop(layer, fields, row):
    match fields.get("kind", "outlook"):
        case "outlook":
            norms = (layer.attention_norm, layer.feed_forward_norm)
            layers = (pair(layer.value), pair(layer.attention_scores), pairs(layer.feed_forward))
            joint, masked = fields.get("outlook_softmax") == "window", fields.get("mask_outside_window", False)
            more = {"norms": norms, "joint_softmax": joint, "mask_outside_window": masked}
            sizes = (fields.get("outlook_kernel_size", 3), fields.get("outlook_num_heads", row.shape[-1]))
            return reference.outlook_layer(row, [True] * len(row), *layers, *sizes, **more), None
        case "dynamic_conv":
            layers = (pair(layer.gate), pair(layer.kernel), pair(layer.output))
            return baselines.dynamic_convolution(row, *layers, layer.window, layer.num_heads)
        case "visual_outlook":
            layers = (
                pair(layer.value),
                pairs(layer.attention_scores),
                pair(layer.projection),
                pair(layer.feed_forward),
            )
            return baselines.visual_outlook(row, *layers, layer.window)
        case "rgcn":
            return baselines.relational_graph(row, pair(layer.own), pair(layer.neighbour), layer.window)
        case "gat":
            vectors = (layer.target_vector, layer.source_vector, layer.bias)
            return baselines.graph_attention(row, pair(layer.value), *vectors, layer.window)
        case "hgt":
            layers = (pair(layer.query), pair(layer.key), pair(layer.value))
            matrices = (layer.attention, layer.message, layer.prior)
            return baselines.heterogeneous_graph(row, *layers, *matrices, pair(layer.output), layer.window)


class TestLocalEncoder(EqualsLoop):
    """The reference reads one example without its padding. Only weights have to be 0 at padding."""

    cases = ENCODERS
    few = (
        "with convolutions",
        "without",
        "conv avg same (1, 2)",
        *(f"{kind} {size}" for kind, (_, size, _) in WINDOWS.items()),
    )
    masks = (CONTIGUOUS,)
    shapes = (((1, 1),), ((1, 2),), ((2, 5),), ((1, 8),))

    def build(self, case):
        return encoder_of(**self.cases[case])

    def inputs(self, case, shape):
        return [random_states(*shape, SIZE)]

    def run(self, module, inputs, masks):
        (mask,) = masks
        states, weights = module(*inputs, mask, output_attentions=True)
        assert module(*inputs, mask)[1] is None
        states = states if mask is None else states.masked_fill(~mask.unsqueeze(-1), 0)
        return [states, *(one for one in weights if one.dim() == 4)]  # those of outlook layers: above

    def loop(self, module, case, rows, reals):
        fields, there = self.cases[case], torch.tensor(reals[0])
        row, weights = rows[0][there], None
        if module.convolution_block is not None:
            kernels = pairs(module.convolution_block.convolutions)
            how = fields.get("conv_pooling", "max"), fields.get("conv_alignment", "adaptive")
            row = reference.convolution_block(row, kernels, *how)
        for layer in module.layers:
            row, weights = layer_loop(layer, fields, row)
        if module.fusion is not None:
            layers = {name: pair(layer) for name, layer in module.fusion.named_children()}
            both = zip(rows[0][there], row, strict=True)
            row = torch.stack([reference.fusion("gate", *states, **layers) for states in both])
        found = [row] if weights is None else [row, weights]
        return [one.new_zeros(len(there), *one.shape[1:]).index_put((there.nonzero()[:, 0],), one) for one in found]


class TestFusion(EqualsLoop):
    """Fusion reads no mask."""

    cases = ("concat", "sum", "gate")

    def build(self, case):
        return randomized(Fusion(config(mode="g&l", fusion=case, conv_filters=2)))

    def inputs(self, case, shape):
        return [random_states(*shape, SIZE), random_states(*shape, SIZE)]

    def run(self, module, inputs, masks):
        return module(*inputs)

    def loop(self, module, case, rows, reals):
        layers = {name: pair(layer) for name, layer in module.named_children()}
        return torch.stack([reference.fusion(case, *both, **layers) for both in zip(*rows, strict=True)])


@pytest.mark.parametrize("kind", HEADS)
def test_baselines_are_exported_as_one_graph(kind):
    """A strict export begins with the compiler's graph."""
    torch.compiler.reset()
    layer, states = encoder_of(kind), random_states(4, 7, SIZE)
    traced = torch.export.export(layer, (states.detach(), CONTIGUOUS), strict=True).module()
    assert_same(*(with_gradients(lambda one, run=run: run(one, CONTIGUOUS)[0], [states]) for run in (traced, layer)))


def test_visual_outlook_keeps_no_scores():
    """Tensors saved for backward take a few times the memory of the states, not K**4 = 81 times."""
    states = random_states(3, 65, SIZE)
    assert saved(lambda: encoder_of("visual_outlook")(states, torch.ones(3, 65))) < 10 * states.nbytes


# --- models


PADDED = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])


@pytest.mark.parametrize("backbone", ["bert", "albert"])
@pytest.mark.parametrize("use_conv", [True, False])
def test_the_local_encoder_stands_above_below_or_beside_the_backbone(use_conv, backbone):
    ids, real = token_ids(3, 5), PADDED.bool()
    for mode in ("g2l", "l2g", "g&l"):
        model = tiny_model("cool", backbone=backbone, mode=mode, use_conv=use_conv)
        output = model(ids, attention_mask=PADDED, output_hidden_states=True)
        states = output.hidden_states[-1] if mode == "g2l" else model.get_input_embeddings()(ids)
        local, _ = model.local_encoder(states, real)
        words = {"inputs_embeds": local} if mode == "l2g" else {"input_ids": ids}
        places = (PADDED.cumsum(-1) - 1).clamp(min=0)
        alone = model.backbone_model(**words, attention_mask=PADDED, position_ids=places).last_hidden_state
        assert_same([output.hidden_states[-1][real]], [alone[real]], 1e-6)
        expected = model.fusion(alone, local) if mode == "g&l" else local if mode == "g2l" else alone
        assert_same([output.last_hidden_state[real]], [expected[real]], 1e-6)
        assert (model.local_encoder.projection is None) is not (mode == "l2g" and use_conv)


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
    (head,) = (module for name, module in model.named_children() if name not in ("cool", "dropout", "qa_dropout"))
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


@pytest.mark.parametrize(("backbone", "place"), [("bert", 0), ("xlnet", -1)])
def test_texts_are_represented_by_the_backbones_own_token(backbone, place):
    model, ids = tiny_model("cool", "text-classification", backbone), token_ids(3, 5)
    states = model.cool(ids, attention_mask=PADDED).last_hidden_state
    own = torch.stack([row[real][place] for row, real in zip(states, PADDED.bool(), strict=True)])
    assert_same([model(ids, attention_mask=PADDED).logits], [model.sequence_classifier(own)], 1e-6)


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
