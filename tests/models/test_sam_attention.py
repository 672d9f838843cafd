"""SAM's mechanisms and baselines against the equations of their papers, under any padding and batch."""

import pytest
import torch

from hf_localattn.models.configuration_sam_roberta import SamRobertaConfig
from hf_localattn.models.modeling_sam_roberta import SamRobertaModel
from hf_localattn.models.sam_attention import FeatureAttention, SequentialAttention, TokenAttention
from hf_localattn.models.sam_baselines import DiSAN, RecurrentAttention
from hf_localattn.models.sam_bilstm import RecurrentEncoder
from tests.models.tiny import TINY_BACKBONES, token_ids
from tests.reference import sam as reference

SIZE, LONGEST = 9, 11
FEATURE = {"fam_reduction": 2}
POSITION, TOKEN = {"tam_max_length": LONGEST, "tam_hidden_size": 6}, {"tam_ffn": "token"}
SEQUENTIAL = {**FEATURE, **POSITION, "fam_threshold": 0.3}
BILSTM = {"use_bilstm": True, "bilstm_hidden_size": 5}


def config(**fields):
    """Return a configuration whose mechanisms get states of the width `SIZE`."""
    backbone = {"model_type": "bert", "hidden_size": SIZE}
    return SamRobertaConfig(backbone_config=backbone, **{"use_bilstm": False, **fields})


def feature_attention(**fields):
    return FeatureAttention(config(**FEATURE, **fields))


def token_attention(**fields):
    return TokenAttention(config(**fields))


MECHANISMS = {
    "fam": lambda: feature_attention(),
    "fam, filtered": lambda: feature_attention(fam_threshold=0.4),
    "fam, learned": lambda: feature_attention(learn_fam_threshold=True),
    "tam, position": lambda: token_attention(**POSITION),
    "tam, token": lambda: token_attention(**TOKEN),
    "sam": lambda: SequentialAttention(config(**SEQUENTIAL)),
    "sam, swapped": lambda: SequentialAttention(config(attention_order="tam_fam", **SEQUENTIAL)),
    "sam, by token": lambda: SequentialAttention(config(**{**SEQUENTIAL, "tam_hidden_size": None}, **TOKEN)),
    "sam without fam": lambda: SequentialAttention(config(use_fam=False, **SEQUENTIAL)),
    "sam without tam": lambda: SequentialAttention(config(use_tam=False, **SEQUENTIAL)),
    "rba": lambda: RecurrentAttention(SIZE),
    "disan": lambda: DiSAN(SIZE, hidden_size=5),
    "bilstm": lambda: RecurrentEncoder(config(**BILSTM)),
    "bilstm, summed": lambda: RecurrentEncoder(config(**BILSTM, num_bilstm_layers=3, bilstm_merge="sum")),
}
# No padding; padding on the left, on the right, on both sides and in between; and a row of one token.
MASK = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1, 1],
        [0, 0, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 1, 1, 0],
        [0, 1, 0, 1, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 0],
    ]
).bool()
ALONE = (5, 3)  # the place of the one token
WITH_PADS_ALONE = torch.cat([MASK, torch.zeros(1, 7, dtype=torch.bool)])
HALVES = [torch.bfloat16, torch.float16]
every_mechanism = pytest.mark.parametrize("name", MECHANISMS)
every_ffn = pytest.mark.parametrize("options", [POSITION, TOKEN], ids=["position", "token"])


def make(name, dtype=torch.float64):
    return randomized(MECHANISMS[name]()).to(dtype)


def randomized(module, scale=0.6):
    """Fill all parameters with asymmetric values, including those that are initialized with zeros."""
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, scale)
    return module


def states(*shape, dtype=torch.float64):
    return torch.randn(*shape, SIZE, dtype=torch.float64).to(dtype).requires_grad_()


def pair(layer):
    return layer.weight, layer.bias


def loop(module, row, real):
    """Return the outputs of the reference implementation for one example."""
    match module:
        case FeatureAttention():
            return reference.feature_attention(row, real, **feature_arguments(module))
        case TokenAttention():
            return reference.token_attention(row, real, **token_arguments(module))
        case SequentialAttention():
            fam, tam = feature_arguments(module.fam), token_arguments(module.tam)
            return reference.sequential_attention(row, real, "_".join(module.order), fam, tam)
        case RecurrentAttention():
            return reference.recurrent_attention(row, real, module.attention_scores.weight[0])
        case DiSAN():
            forward, backward = (block_arguments(block) for block in module.blocks)
            return reference.disan(row, real, forward, backward, (pair(module.inner), pair(module.outer)))
        case RecurrentEncoder():
            layers = [
                [cell(module, layer, way) for way in ("", "_reverse")] for layer in range(module.lstm.num_layers)
            ]
            return (reference.bilstm(row, real, layers, module.merge),)


def feature_arguments(module):
    return module and {"inner": pair(module.inner), "outer": pair(module.outer), "threshold": module.delta}


def token_arguments(module):
    if module is None:
        return None
    positions = module.inner.in_features
    return {
        "inner": pair(module.inner),
        "outer": pair(module.outer),
        "max_length": positions if positions > 1 else None,
    }


def block_arguments(block):
    gate_attention, gate_hidden = block.gate.weight.chunk(2, dim=1)
    return {
        "hidden": pair(block.hidden),
        "source": block.source.weight,
        "target": block.target.weight,
        "bias": block.source.bias,
        "gate_attention": gate_attention,
        "gate_hidden": gate_hidden,
        "gate_bias": block.gate.bias,
    }


def cell(module, layer, direction):
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [getattr(module.lstm, f"{name}_l{layer}{direction}") for name in names]


def outputs_of(module, inputs, mask=None):
    """Return the outputs of a mechanism as a list without missing maps."""
    outputs = module(inputs, mask)
    return [one for one in (outputs if isinstance(outputs, tuple) else (outputs,)) if one is not None]


def loops(module, inputs, mask):
    """Return the expected `outputs_of`, computed separately for each example."""
    rows = [loop(module, row, real) for row, real in zip(inputs, mask.tolist(), strict=True)]
    return [torch.stack(column) for column in zip(*rows, strict=True) if column[0] is not None]


def with_gradients(function, inputs, module, **options):
    """Return outputs and gradients of inputs and all parameters. A parameter without a gradient is an error."""
    outputs = function(inputs)
    total = sum((one * torch.linspace(-1, 2, one.numel(), dtype=one.dtype).view_as(one)).sum() for one in outputs)
    return [*outputs, *torch.autograd.grad(total, [inputs, *module.parameters()], **options)]


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@every_mechanism
def test_equals_the_loop(name):
    module, inputs = make(name), states(*MASK.shape)
    slow = with_gradients(lambda tensor: loops(module, tensor, MASK), inputs, module)
    # Dead units would hide the layers behind them.
    assert all(gradient.any() for gradient in slow[-1 - len([*module.parameters()]) :])
    assert_same(with_gradients(lambda tensor: outputs_of(module, tensor, MASK), inputs, module), slow)


@every_mechanism
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 2), (3, 5), (1, LONGEST)])
def test_equals_the_loop_without_a_mask(name, batch, length):
    module, inputs = make(name), states(batch, length)
    everything = torch.ones(batch, length, dtype=torch.bool)
    # With one token DiSAN computes no scores.
    unused = {"allow_unused": True, "materialize_grads": True}
    slow = with_gradients(lambda tensor: loops(module, tensor, everything), inputs, module, **unused)
    assert_same(with_gradients(lambda tensor: outputs_of(module, tensor), inputs, module), slow)


@every_mechanism
def test_pads_change_nothing(name):
    """Outputs do not depend on values at padding or on other examples, and padding gets no gradient."""
    module, alone = make(name), states(1, 4)
    expected = outputs_of(module, alone)
    mask = torch.zeros(3, 8, dtype=torch.bool)
    mask[0, 3:7] = mask[1] = True
    garbage = torch.randn(3, 8, SIZE, dtype=torch.float64) * 50
    garbage[0, mask[0]] = alone.detach()[0]
    padded = outputs_of(module, garbage.requires_grad_(), mask)
    kept = [one[:1, 3:7] if per_token(one, mask) else one[:1] for one in padded]
    assert_same(kept, expected)
    (gradient,) = torch.autograd.grad(sum(one.square().sum() for one in kept), [garbage])
    assert gradient[0, mask[0]].any()
    assert not gradient[0, ~mask[0]].any()
    assert not gradient[1:].any()


def per_token(output, mask):
    return output.shape[:2] == mask.shape


@every_mechanism
def test_no_mask_means_all_real(name):
    module, inputs = make(name), states(2, 6)
    assert_same(outputs_of(module, inputs, torch.ones(2, 6, dtype=torch.bool)), outputs_of(module, inputs))


@every_mechanism
def test_a_row_of_pads_counts_as_one_token_and_leaves_the_others_alone(name):
    module, inputs = make(name), states(*WITH_PADS_ALONE.shape)
    outputs = outputs_of(module, inputs, WITH_PADS_ALONE)
    assert_same([one[:-1] for one in outputs], outputs_of(module, inputs[:-1], MASK))
    single = outputs_of(module, inputs[-1:, :1])
    assert_same([one[-1:, :1] if per_token(one, WITH_PADS_ALONE) else one[-1:] for one in outputs], single)


@every_mechanism
@pytest.mark.parametrize("scale", [1, 30])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALVES], ids=str)
def test_always_finite(name, dtype, scale):
    module, inputs = make(name, dtype), (states(*WITH_PADS_ALONE.shape) * scale).detach().to(dtype).requires_grad_()
    outputs = outputs_of(module, inputs, WITH_PADS_ALONE)
    for output in outputs:
        assert output.dtype == dtype
        assert output.isfinite().all()
    sum(output.float().square().mean() for output in outputs).backward()
    for tensor in (inputs, *module.parameters()):
        assert tensor.grad.isfinite().all()


@every_mechanism
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_precision_is_close(name, dtype):
    module, inputs = make(name), states(*MASK.shape)
    expected = outputs_of(module, inputs, MASK)
    for output, one in zip(outputs_of(module.to(dtype), inputs.to(dtype), MASK), expected, strict=True):
        torch.testing.assert_close(output.double(), one, rtol=0.1, atol=0.05)


@pytest.mark.parametrize("mask", [None, torch.ones(1, 64, dtype=torch.bool)], ids=["no mask", "mask"])
def test_mean_of_large_values_fits_half_precision(mask):
    """The sum of the values would overflow."""
    module = make("fam", torch.float16)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1e-3)
    inputs = torch.full((1, 64, SIZE), 2000.0, dtype=torch.float16)
    _, weights = module(inputs, mask)
    _, expected = module(inputs[:, :1])
    torch.testing.assert_close(weights, expected, rtol=1e-2, atol=1e-2)
    assert (expected - 0.5).abs().max() > 1e-3


@every_mechanism
def test_reads_no_uninitialized_memory(name, poisoned_memory):
    module, inputs = make(name), states(*MASK.shape)
    results = with_gradients(lambda tensor: outputs_of(module, tensor, MASK), inputs, module)
    assert all(result.isfinite().all() for result in results)


def test_threshold_of_one_closes_and_of_zero_is_the_plain_map():
    plain, inputs = make("fam"), states(*MASK.shape)
    _, expected = plain(inputs, MASK)
    assert (expected > 0).all()
    for threshold in (0.0, 0.25, 1.0):
        module = feature_attention(fam_threshold=threshold).double()
        module.load_state_dict(plain.state_dict())
        output, weights = module(inputs, MASK)
        assert_same([weights], [(expected - threshold).clamp(min=0)])
        assert_same([output[MASK]], [(weights[:, None] * inputs)[MASK]])
        assert weights.any() == (threshold < 1)
        assert output.any() == (threshold < 1)


@pytest.mark.parametrize(("threshold", "start"), [(0.0, 0.1), (0.35, 0.35)])
def test_learned_threshold_starts_where_told(threshold, start):
    learned = feature_attention(fam_threshold=threshold, learn_fam_threshold=True).double()
    assert learned.delta.item() == pytest.approx(start)
    fixed = feature_attention(fam_threshold=learned.delta.item()).double()
    fixed.load_state_dict({name: one for name, one in learned.state_dict().items() if name != "threshold_bias"})
    inputs = states(*MASK.shape)
    assert_same(learned(inputs, MASK), fixed(inputs, MASK))


def test_learned_threshold_learns_within_its_bounds():
    module, inputs = make("fam, learned"), states(*MASK.shape).detach()
    optimizer = torch.optim.SGD([module.threshold_bias], lr=1.0, maximize=True)
    thresholds = [module.delta.item()]
    for _ in range(20):
        optimizer.zero_grad()
        module(inputs, MASK)[1].sum().backward()
        optimizer.step()
        thresholds.append(module.delta.item())
    # The lower it is, the larger the weights.
    assert thresholds == sorted(thresholds, reverse=True)
    assert 0 < thresholds[-1] < thresholds[0] / 2


@every_ffn
def test_token_weights_sum_to_one_over_the_tokens(options):
    module, inputs = randomized(token_attention(**options)), states(*MASK.shape)
    output, weights = module(inputs, MASK)
    assert_same([weights.sum(1)], [torch.ones(len(MASK), dtype=torch.float64)])
    assert not weights[~MASK].any()
    assert not output[~MASK].any()
    assert (weights[MASK] > 0).all()
    assert weights[ALONE] == 1


def test_position_ffn_reads_values_from_the_first_token_on():
    """Weights for positions after the last token are multiplied by zeros, and outputs there are dropped."""
    module, inputs = randomized(token_attention(**POSITION)), states(1, 4)
    _, expected = module(inputs)
    for before in range(LONGEST - 4):
        longer = torch.cat([states(1, before), inputs, states(1, 2)], 1)
        mask = torch.zeros(1, before + 6, dtype=torch.bool)
        mask[:, before : before + 4] = True
        _, weights = module(longer, mask)
        assert_same([weights[:, before : before + 4]], [expected])
        module.zero_grad()
        weights.square().sum().backward()
        assert module.inner.weight.grad[:, :4].any()
        assert not module.inner.weight.grad[:, 4:].any()
        assert module.outer.weight.grad[:4].any()
        assert not module.outer.weight.grad[4:].any()


@every_ffn
def test_only_the_position_ffn_knows_the_order(options):
    module, inputs = randomized(token_attention(**options)), states(2, 5)
    shuffled = torch.tensor([3, 0, 4, 1, 2])
    _, weights = module(inputs)
    _, moved = module(inputs[:, shuffled])
    assert torch.allclose(moved, weights[:, shuffled]) == (options is TOKEN)


def test_position_ffn_counts_tokens():
    module, inputs = randomized(token_attention(**POSITION)), states(2, LONGEST + 3)
    mask = torch.ones(2, LONGEST + 3, dtype=torch.bool)
    mask[0, :5], mask[1, -3:] = False, False
    expected = [module(inputs[:1, 5:])[1], module(inputs[1:, :LONGEST])[1]]
    _, weights = module(inputs, mask)
    assert_same([weights[:1, 5:], weights[1:, :LONGEST]], expected)
    assert randomized(token_attention(**TOKEN))(inputs)[1].shape == inputs.shape[:2]


def test_sequential_attention_without_either_changes_nothing():
    inputs = states(2, 5)
    output, *maps = SequentialAttention(config(use_fam=False, use_tam=False))(inputs)
    assert torch.equal(output, inputs)
    assert maps == [None, None]


@pytest.mark.parametrize(
    ("module", "sizes"),
    [
        (FeatureAttention(SamRobertaConfig()), (512, 32)),
        (FeatureAttention(config()), (9, 1)),
        (token_attention(), (512, 32)),
        (token_attention(tam_max_length=9), (9, 1)),
        (token_attention(**TOKEN), (1, 16)),
    ],
)
def test_networks_are_as_wide_as_specified(module, sizes):
    assert module.inner.weight.shape == sizes[::-1]
    assert module.outer.weight.shape == sizes


def test_bilstm_drops_out_between_its_layers_in_training():
    module, inputs = randomized(RecurrentEncoder(config(**BILSTM, dropout=0.5))), states(*MASK.shape)
    expected = module(inputs, MASK)
    assert torch.equal(module(inputs, MASK), expected)
    assert not torch.allclose(module.train()(inputs, MASK), expected)
    single = RecurrentEncoder(config(**BILSTM, num_bilstm_layers=1, dropout=0.5)).double().train()
    assert torch.equal(single(inputs, MASK), single(inputs, MASK))


FAM, TAM = {**FEATURE, "fam_threshold": 0.2}, POSITION
MODELS = {
    "rb": {"pooling": "rb", **BILSTM},
    "rba": {"pooling": "rba", **BILSTM},
    "disan": {"pooling": "disan", "disan_hidden_size": 5},
    "sam": {**BILSTM, **FAM, **TAM},
    "sam, summed": {"bilstm_merge": "sum", **BILSTM, **FAM, **TAM},
    "sam, swapped": {"attention_order": "tam_fam", **BILSTM, **FAM, **TAM},
    "sam without fam": {"use_fam": False, **BILSTM, **TAM},
    "sam without tam": {"use_tam": False, **BILSTM, **FAM},
    "sam without bilstm": {"use_bilstm": False, "tam_ffn": "token", **FAM},
}


def model_loop(model, row, real):
    """Map the encoder's states (L, H) of one text to its vector and to the states for token heads."""
    if model.bilstm is not None:
        (row,) = loop(model.bilstm, row, real)
    if model.pooling_attention is not None:
        vector, terms, *_ = loop(model.pooling_attention, row, real)
        return vector, reference.per_token(terms, real, True)
    weighed = False
    if model.sequential_attention is not None:
        row, _, token_map = loop(model.sequential_attention, row, real)
        weighed = token_map is not None
    return reference.pooled(row, real, weighed), reference.per_token(row, real, weighed)


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_model_equals_the_loop(fields):
    """The vector is the mean, or the sum of token states that are multiplied by their weights."""
    backbone = {"model_type": "roberta", **TINY_BACKBONES["roberta"]}
    model = randomized(SamRobertaModel(SamRobertaConfig(backbone_config=backbone, **fields)), scale=0.4)
    inputs = {"input_ids": token_ids(*MASK.shape), "attention_mask": MASK.long(), "output_hidden_states": True}
    with torch.no_grad():
        outputs = model(**inputs)
        rows = zip(outputs.hidden_states[-1], MASK.tolist(), strict=True)
        vectors, tokens = zip(*(model_loop(model, row, real) for row, real in rows), strict=True)
    assert_same(
        [outputs.pooler_output, outputs.last_hidden_state[MASK]], [torch.stack(vectors), torch.stack(tokens)[MASK]]
    )
