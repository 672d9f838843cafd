"""SAM's mechanisms and baselines against the equations of their papers, and its models: heads, thresholds."""

import pytest
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from hf_localattn.families.sam_roberta.facts import FACTS
from hf_localattn.models.configuration_sam_roberta import SamRobertaConfig
from hf_localattn.models.modeling_sam_roberta import SamRobertaForSequenceClassification, SamRobertaModel
from hf_localattn.models.sam_attention import FeatureAttention, SequentialAttention, TokenAttention
from hf_localattn.models.sam_baselines import DiSAN, RecurrentAttention
from hf_localattn.models.sam_bilstm import RecurrentEncoder
from hf_localattn.models.sam_entmax import entmax15
from tests.models.naive import MASK, EqualsLoop, assert_same, pair, random_states, randomized
from tests.models.tiny import ablations_of, loss, main_outputs, run, tiny_config, tiny_model, token_ids
from tests.reference import encoder_states
from tests.reference import sam as reference

SIZE, LONGEST = 9, 11
TOKENS = MASK[:-1]
POSITION, TOKEN = {"tam_max_length": LONGEST, "tam_hidden_size": 6}, {"tam_ffn": "token"}
SEQUENTIAL = {"fam_reduction": 2, **POSITION, "fam_threshold": 0.3}


def config(**fields):
    """Return a configuration whose mechanisms get states of the width `SIZE`."""
    backbone = {"model_type": "bert", "hidden_size": SIZE}
    return SamRobertaConfig(backbone_config=backbone, **{"use_bilstm": False, **fields})


def feature_attention(**fields):
    return FeatureAttention(config(fam_reduction=2, **fields))


MECHANISMS = {
    "fam": feature_attention,
    "fam, filtered": lambda: feature_attention(fam_threshold=0.4),
    "fam, learned": lambda: feature_attention(learn_fam_threshold=True),
    "tam, position": lambda: TokenAttention(config(**POSITION)),
    "tam, sparse": lambda: TokenAttention(config(tam_softmax="entmax15", **POSITION)),
    "tam, token": lambda: TokenAttention(config(**TOKEN)),
    "sam": lambda: SequentialAttention(config(**SEQUENTIAL)),
    "sam, swapped": lambda: SequentialAttention(config(attention_order="tam_fam", **SEQUENTIAL)),
    "sam, by token": lambda: SequentialAttention(config(**{**SEQUENTIAL, "tam_hidden_size": None}, **TOKEN)),
    "sam without fam": lambda: SequentialAttention(config(use_fam=False, **SEQUENTIAL)),
    "sam without tam": lambda: SequentialAttention(config(use_tam=False, **SEQUENTIAL)),
    "rba": lambda: RecurrentAttention(SIZE),
    "disan": lambda: DiSAN(SIZE, hidden_size=5),
    "bilstm": lambda: RecurrentEncoder(SIZE, 5, num_layers=2),
    "bilstm, summed": lambda: RecurrentEncoder(SIZE, 5, num_layers=3, merge="sum"),
}


def states(*shape):
    return random_states(*shape, SIZE)


def loop(module, row, real):
    """Return the outputs of the reference for one example."""
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
            return (reference.bilstm(row, real, module.lstm, module.merge),)


def feature_arguments(module):
    return module and {"inner": pair(module.inner), "outer": pair(module.outer), "threshold": module.delta}


def token_arguments(module):
    positions = module and module.inner.in_features
    more = {"max_length": positions if module and positions > 1 else None}
    if module and module.softmax is entmax15:
        more["normalize"] = reference.entmax15
    return module and {"inner": pair(module.inner), "outer": pair(module.outer), **more}


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


class TestMechanisms(EqualsLoop):
    """A row of nothing but padding counts as a text of one token, the first."""

    cases = MECHANISMS
    shapes = (((1, 1),), ((2, 2),), ((3, 5),), ((1, LONGEST),))

    def build(self, case):
        return randomized(MECHANISMS[case]())

    def inputs(self, case, shape):
        return [states(*shape)]

    def loop(self, module, case, rows, reals):
        (row,), (real,) = rows, reals
        return loop(module, row, real if any(real) else [place == 0 for place in range(len(real))])


def test_sparse_weights_are_zero_at_low_scores():
    """By hand: with s / 2 of 0.5 and 0 the root of (0.5 - t)^2 + t^2 = 1 is (1 - 7^0.5) / 4; with 1 and 0 it is 0."""
    root = (1 - 7**0.5) / 4
    scores = torch.tensor([[1, 0, -9], [2, 0, -9], [3, 3, 3]], dtype=torch.float64)
    expected = torch.tensor([[(0.5 - root) ** 2, root**2, 0], [1, 0, 0], [1 / 3] * 3], dtype=torch.float64)
    assert_same([entmax15(scores), entmax15(scores + 100)], [expected, expected])


def test_positions_are_counted_from_the_first_token():
    """A text may be longer than the network if padding makes it so."""
    module, inputs = randomized(TokenAttention(config(**POSITION))), states(2, LONGEST + 3)
    mask = torch.ones(2, LONGEST + 3, dtype=torch.bool)
    mask[0, :5], mask[1, -3:] = False, False
    _, weights = module(inputs, mask)
    expected = [module(inputs[:1, 5:])[1], module(inputs[1:, :LONGEST])[1]]
    assert_same([weights[:1, 5:], weights[1:, :LONGEST]], expected)
    assert_same([weights.sum(1)], [torch.ones(2, dtype=torch.float64)])


@pytest.mark.parametrize("mask", [None, torch.ones(1, 64, dtype=torch.bool)], ids=["no mask", "mask"])
def test_mean_of_large_values_fits_half_precision(mask):
    """The sum of the values would overflow."""
    module = randomized(feature_attention()).half()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1e-3)
    inputs = torch.full((1, 64, SIZE), 2000.0, dtype=torch.float16)
    (_, weights), (_, expected) = module(inputs, mask), module(inputs[:, :1])
    torch.testing.assert_close(weights, expected, rtol=1e-2, atol=1e-2)
    assert (expected - 0.5).abs().max() > 1e-3


def test_a_threshold_of_one_closes_and_of_zero_is_the_plain_map():
    plain, inputs = randomized(feature_attention()), states(*TOKENS.shape)
    _, expected = plain(inputs, TOKENS)
    for threshold in (0.0, 0.25, 1.0):
        module = feature_attention(fam_threshold=threshold).double()
        module.load_state_dict(plain.state_dict())
        output, weights = module(inputs, TOKENS)
        assert_same([weights], [(expected - threshold).clamp(min=0)])
        assert output.any() == weights.any() == (threshold < 1)


@pytest.mark.parametrize(("threshold", "start"), [(0.0, 0.1), (0.35, 0.35)])
def test_a_learned_threshold_starts_where_told_and_stays_in_its_bounds(threshold, start):
    module = feature_attention(fam_threshold=threshold, learn_fam_threshold=True).double()
    assert module.delta.item() == pytest.approx(start)
    optimizer = torch.optim.SGD([module.threshold_bias], lr=10.0)
    for sign in (-1, 1):
        before = module.delta.item()
        optimizer.zero_grad()
        (sign * module.delta).backward()
        optimizer.step()
        assert 0 < module.delta < 1
        assert (module.delta < before) == (sign == 1)


# --- the BiLSTM


def test_the_bilstm_drops_out_between_its_layers_in_training():
    module, inputs = randomized(RecurrentEncoder(SIZE, 5, num_layers=2, dropout=0.5)), states(*TOKENS.shape)
    assert not torch.allclose(module.train()(inputs, TOKENS), module.eval()(inputs, TOKENS))
    single = RecurrentEncoder(SIZE, 5, dropout=0.5).double().train()
    assert torch.equal(single(inputs, TOKENS), single(inputs, TOKENS))


def test_an_accelerators_way_equals_a_cpus():
    lstm = randomized(RecurrentEncoder(SIZE, 5, num_layers=3)).lstm
    inputs, results = states(*TOKENS.shape), []
    for encode in (lstm.encode_packed, lstm.encode_by_direction):
        encoded = encode(inputs, TOKENS)[TOKENS]
        results.append([encoded, *torch.autograd.grad(encoded.square().sum(), [inputs, *lstm.parameters()])])
    assert_same(*results)


@pytest.mark.parametrize("mask", [None, TOKENS], ids=["all real", "padded"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_bilstm_runs_in_full_precision_where_torchs_fails_under_autocast(mask, dtype):
    module, inputs = RecurrentEncoder(SIZE, 5, num_layers=2).eval(), states(*TOKENS.shape).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        encoded = module(inputs, mask)
    torch.testing.assert_close(encoded, module(inputs.float(), mask))


# --- whole models


def model_loop(model, row, real):
    """Map the encoder's states (L, H) of one text to its vector, the states for token heads, and both maps."""
    if model.bilstm is not None:
        (row,) = loop(model.bilstm, row, real)
    if model.pooling_attention is not None:
        vector, terms, *weights = loop(model.pooling_attention, row, real)
        return [vector, reference.per_token(terms, real, True), None, *(weights or [None])]
    features = tokens = None
    if model.sequential_attention is not None:
        row, features, tokens = loop(model.sequential_attention, row, real)
    is_weighed = tokens is not None
    return [*(one(row, real, is_weighed) for one in (reference.pooled, reference.per_token)), features, tokens]


def states_that_are_read(model, layers):
    """The states (B, L, H) of the encoder that the layers on top read, from those of its layers."""
    chosen = model.config.encoder_states
    if chosen == "mix":
        mix = model.layer_mix
        texts = zip(*layers, strict=True)
        return torch.stack([encoder_states.layer_mix(text, mix.layer_scores, mix.scale) for text in texts])
    return layers[-1] if chosen == "last" else torch.cat([layers[index] for index in chosen], dim=-1)


@pytest.mark.parametrize("fields", ablations_of("sam-roberta").values(), ids=ablations_of("sam-roberta"))
def test_a_model_equals_the_loop(fields):
    """The vector is the mean, or the sum of token states times their weights; token heads read weights of mean 1."""
    model = randomized(tiny_model("sam-roberta", **fields), scale=0.4)
    shown = {"output_hidden_states": True, "output_attentions": True}
    with torch.no_grad():
        output = model(token_ids(*TOKENS.shape), attention_mask=TOKENS.long(), **shown)
        rows = zip(states_that_are_read(model, output.hidden_states), TOKENS.tolist(), strict=True)
        vectors, states, *maps = zip(*(model_loop(model, row, real) for row, real in rows), strict=True)
    states = [torch.stack(vectors), torch.stack(states)[TOKENS]]
    assert_same([output.pooler_output, output.last_hidden_state[TOKENS]], states)
    for name, expected in zip(("feature_attention", "token_attention"), maps, strict=True):
        assert (output.get(name) is None) == (expected[0] is None)
        if expected[0] is not None:
            assert_same([output[name]], [torch.stack(expected)])
        assert name in model.config.keys_to_ignore_at_inference


# --- models


PADDED = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6, [0] * 3 + [1] * 4 + [0] * 4, [0] * 9 + [1, 0]])
INPUTS = {"input_ids": token_ids(5, 11), "attention_mask": PADDED}
TEXTS = "text-classification"


def tiny_sam_config(**fields):
    return tiny_config("sam-roberta", **{**FACTS.row_fields, "dropout": 0.0, **fields})


def tiny_sam(task="headless", **fields):
    return tiny_model("sam-roberta", task, **{**FACTS.row_fields, "dropout": 0.0, **fields})


@pytest.mark.parametrize("task", [TEXTS, "multiple-choice"])
def test_heads_of_texts_are_one_layer_on_the_vector(task):
    model = tiny_sam(task, dropout=0.3)
    layers = model.sequence_classifier if task == TEXTS else model.choice_classifier
    assert [type(layer) for layer in layers] == [nn.Dropout, nn.Linear]
    assert layers.dropout.p == model.sam.bilstm.lstm.dropout == 0.3
    expected = layers.output(model.sam(**INPUTS).pooler_output)
    assert_same(main_outputs(run(model, **INPUTS)), [expected], tolerance=1e-5)


def test_a_threshold_set_later_is_that_of_the_model_and_of_its_checkpoint(tmp_path):
    model = tiny_sam(fam_threshold=0.1)
    before = model(**INPUTS, output_attentions=True)
    model.config.fam_threshold = 0.3
    after = model(**INPUTS, output_attentions=True)
    assert_same([after.feature_attention], [(before.feature_attention - 0.2).clamp(min=0)], tolerance=1e-5)
    model.save_pretrained(tmp_path)
    again = SamRobertaModel.from_pretrained(tmp_path).eval()
    assert_same([again(**INPUTS).pooler_output], [after.pooler_output], tolerance=1e-5)
    model.config.fam_threshold = 2.0
    with pytest.raises(ValueError, match="`fam_threshold`"):
        model.save_pretrained(tmp_path / "never")


def test_weight_decay_spares_a_learned_threshold(tmp_path):
    model = SamRobertaForSequenceClassification(tiny_sam_config(learn_fam_threshold=True))
    trainer = Trainer(model, TrainingArguments(str(tmp_path), use_cpu=True, report_to="none"))
    decayed = trainer.get_decay_parameter_names(model)
    assert "sam.sequential_attention.fam.inner.weight" in decayed
    assert "sam.sequential_attention.fam.threshold_bias" not in decayed


def test_long_texts_are_refused_before_the_backbone_runs():
    model = tiny_sam(TEXTS, tam_max_length=6)
    for inputs, tokens in ((INPUTS, 11), ({"input_ids": token_ids(2, 60)}, 60)):  # the backbone has 40 positions
        with pytest.raises(ValueError, match=f"`tam_max_length` is 6, but a text has {tokens}.*`tam_ffn="):
            model(**inputs)
    short = {name: value[3:] for name, value in INPUTS.items()}  # 11 positions, but few tokens
    alone = model(input_ids=short["input_ids"][:1, 3:7]).logits
    assert_same([model(**short).logits[:1]], [alone], tolerance=1e-5)
    for fields in ({"tam_ffn": "token"}, {"use_tam": False}):
        assert tiny_sam(tam_max_length=6, **fields)(**INPUTS).pooler_output.isfinite().all()


# --- a frozen backbone


@pytest.mark.parametrize("start", [True, False])
def test_a_backbone_can_be_frozen_and_freed_later(start, tmp_path):
    """What somebody froze or freed by hand is not undone without reason; other embeddings are as frozen as before."""
    tiny_sam(TEXTS, freeze_backbone=start).save_pretrained(tmp_path)
    model = SamRobertaForSequenceClassification.from_pretrained(tmp_path)
    assert all(parameter.requires_grad != start for parameter in model.backbone_model.parameters())
    assert model.train().backbone_model.training != start
    first = next(model.backbone_model.parameters())
    for frozen in (not start, start):
        first.requires_grad_(not frozen)
        model.train()
        assert first.requires_grad != frozen
        model.config.freeze_backbone = frozen
        model.train()
        model.resize_token_embeddings(model.config.vocab_size + 1)
        assert all(parameter.requires_grad != frozen for parameter in model.backbone_model.parameters())
        assert (model.backbone_model.training, model.sequence_classifier.training) == (not frozen, True)
        assert all(parameter.requires_grad for parameter in model.sam.sequential_attention.parameters())
    model.set_input_embeddings(torch.nn.Embedding(61, 32))
    assert model.get_input_embeddings().weight.requires_grad != start
    embeds = model.get_input_embeddings()(INPUTS["input_ids"]).detach().requires_grad_()
    loss(model, TEXTS, inputs_embeds=embeds).backward()
    assert embeds.grad.any()  # frozen weights still hand on what is asked of their input
