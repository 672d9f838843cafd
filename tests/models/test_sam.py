"""Fields, inputs and training of the SAM models."""

import copy

import pytest
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from hf_localattn.models.configuration_sam_roberta import SamRobertaConfig
from hf_localattn.models.modeling_sam_roberta import (
    SamRobertaForMaskedLM,
    SamRobertaForMultipleChoice,
    SamRobertaForQuestionAnswering,
    SamRobertaForSequenceClassification,
    SamRobertaForTokenClassification,
    SamRobertaModel,
)
from hf_localattn.models.sam_bilstm import RecurrentEncoder
from hf_localattn.registry import FAMILIES
from tests.models.ablations import SAM_SIZES
from tests.models.tiny import (
    TINY_BACKBONES,
    loss,
    main_outputs,
    run,
    token_ids,
    with_one_layer,
)

CLASSES = {
    "headless": SamRobertaModel,
    "question-answering": SamRobertaForQuestionAnswering,
    "text-classification": SamRobertaForSequenceClassification,
    "token-classification": SamRobertaForTokenClassification,
    "multiple-choice": SamRobertaForMultipleChoice,
    "fill-mask": SamRobertaForMaskedLM,
}
MASK = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6, [0] * 3 + [1] * 4 + [0] * 4, [0] * 9 + [1, 0]])
INPUTS = {"input_ids": token_ids(5, 11), "attention_mask": MASK}


def config(backbone="roberta", **fields):
    silent = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "dropout": 0.0}
    of_backbone = {"model_type": backbone, **silent, **TINY_BACKBONES[backbone]}
    tiny = {**SAM_SIZES, "tam_hidden_size": 9, "dropout": 0.0}
    return SamRobertaConfig(backbone_config=of_backbone, **{**tiny, **fields})


def model_of(task="headless", backbone="roberta", **fields):
    torch.manual_seed(0)
    model = CLASSES[task](config(backbone, **fields)).eval()
    with torch.no_grad():  # move biases and norms too, so that nothing cancels
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


def assert_close(actual, expected, tolerance=1e-5):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


# --- every row of the tables, every head


WITHOUT_LSTM = pytest.mark.parametrize("fields", [{"use_bilstm": False}, {"pooling": "disan"}], ids=["sam", "disan"])


@pytest.mark.slow(reason="compiling takes long")
@WITHOUT_LSTM
def test_what_has_no_lstm_compiles_as_one_graph(fields):
    model = model_of("text-classification", **fields)
    expected = model(**INPUTS).logits
    torch.compiler.reset()
    assert_close([torch.compile(model, fullgraph=True, backend="aot_eager")(**INPUTS).logits], [expected])


@pytest.mark.slow(reason="compiling takes long")
def test_the_lstm_compiles_with_a_break():
    model = model_of("text-classification")
    expected = model(**INPUTS).logits
    torch.compiler.reset()
    assert_close([torch.compile(model, backend="aot_eager")(**INPUTS).logits], [expected])


@pytest.mark.slow(reason="tracing takes three seconds; SAM with its LSTM is exported in the contract")
def test_disan_exports_with_any_batch_and_length():
    """As SAM without its LSTM, which test_family_contract.py exports."""
    model = with_one_layer(model_of("text-classification", pooling="disan"))
    dims = {0: torch.export.Dim("batch", min=2, max=16), 1: torch.export.Dim("length", min=2, max=20)}
    program = torch.export.export(model, (), INPUTS, dynamic_shapes=dict.fromkeys(INPUTS, dims)).module()
    other = {"input_ids": token_ids(3, 6), "attention_mask": MASK[1:4, 2:8]}
    assert_close([program(**other).logits], [model(**other).logits])


# --- what the heads read


def test_the_vector_is_the_sum_over_tokens_and_tokens_weigh_one_on_average():
    model = model_of()
    output = model(**INPUTS, output_attentions=True)
    torch.testing.assert_close(output.token_attention.sum(-1), torch.ones(5))
    assert not output.token_attention[MASK == 0].any()
    assert output.feature_attention.shape == (5, 12)
    states = model.bilstm(model.backbone(INPUTS["input_ids"][:1]).last_hidden_state)
    weighted = states * output.feature_attention[:1, None] * output.token_attention[:1, :, None]
    assert_close([output.pooler_output[:1], output.last_hidden_state[:1]], [weighted.sum(1), 11 * weighted])
    sums = (output.last_hidden_state * MASK[..., None]).sum(1) / MASK.sum(-1, keepdim=True)
    assert_close([output.pooler_output], [sums])


def test_baselines_are_sam_without_its_parts():
    """`rb` is the masked mean of the BiLSTM, `none` that of the backbone. Both equal SAM without some parts."""
    nothing = {"use_fam": False, "use_tam": False}
    for pooling, without in (("rb", nothing), ("none", {**nothing, "use_bilstm": False})):
        baseline, bare = model_of(pooling=pooling), model_of(**without)
        assert baseline.state_dict().keys() == bare.state_dict().keys()
        assert torch.equal(baseline(**INPUTS).pooler_output, bare(**INPUTS).pooler_output)
    output = baseline(**INPUTS, output_hidden_states=True)
    assert torch.equal(output.last_hidden_state, output.hidden_states[-1])
    real = [row[tokens].mean(0) for row, tokens in zip(output.last_hidden_state, MASK.bool(), strict=True)]
    assert_close([output.pooler_output], [torch.stack(real)])


@pytest.mark.parametrize(("pooling", "expected"), [("sam", True), ("rba", True), ("rb", False), ("disan", False)])
def test_attention_is_given_when_asked_for_and_where_there_is_any(pooling, expected):
    model = model_of("text-classification", pooling=pooling)
    output = model(**INPUTS, output_attentions=True)
    assert (output.token_attention is not None) == expected
    assert (output.feature_attention is not None) == (pooling == "sam")
    assert [name for name in output if name not in model.config.keys_to_ignore_at_inference] == ["logits"]
    assert model(**INPUTS).token_attention is None


@pytest.mark.parametrize("task", ["text-classification", "multiple-choice"])
def test_heads_of_texts_are_one_layer_on_the_vector(task):
    model = model_of(task, dropout=0.3, freeze_backbone=True).train()
    layers = model.sequence_classifier if task == "text-classification" else model.choice_classifier
    assert [type(layer) for layer in layers] == [nn.Dropout, nn.Linear]
    assert layers.dropout.p == model.sam.bilstm.lstm.dropout == 0.3
    model.eval()
    expected = layers.output(model.sam(**INPUTS).pooler_output)
    assert_close(main_outputs(run(model, **INPUTS)), [expected])


# --- threshold, order, length


def test_a_threshold_of_one_leaves_nothing_and_of_zero_everything():
    plain, filtered, none = (model_of(fam_threshold=delta) for delta in (0.0, 0.5, 1.0))
    weights = plain(**INPUTS, output_attentions=True).feature_attention
    assert (weights > 0).all()
    expected = (weights - 0.5).clamp(min=0)
    assert torch.equal(filtered(**INPUTS, output_attentions=True).feature_attention, expected)
    assert not none(**INPUTS).pooler_output.any()
    assert not none(**INPUTS).last_hidden_state.any()


def test_the_order_is_part_of_the_model():
    first, second = model_of(), model_of(attention_order="tam_fam")
    assert first.state_dict().keys() == second.state_dict().keys()
    assert not torch.allclose(first(**INPUTS).pooler_output, second(**INPUTS).pooler_output, atol=1e-5)


@pytest.mark.parametrize(("begin", "expected"), [(0.0, 0.1), (0.3, 0.3)])
def test_a_learned_threshold_stays_between_zero_and_one(begin, expected, tmp_path):
    model = SamRobertaModel(config(learn_fam_threshold=True, fam_threshold=begin))
    module = model.sequential_attention.fam
    torch.testing.assert_close(module.delta, torch.tensor(expected))
    optimizer = torch.optim.SGD([module.threshold_bias], lr=10.0)
    for sign in (-1, 1):
        before = module.delta.item()
        optimizer.zero_grad()
        (sign * module.delta).backward()
        optimizer.step()
        assert 0 < module.delta < 1
        assert (module.delta < before) == (sign == 1)
    model.save_pretrained(tmp_path)
    again = SamRobertaModel.from_pretrained(tmp_path)
    assert torch.equal(again.sequential_attention.fam.delta, module.delta)


def test_a_threshold_set_later_is_that_of_the_model_and_of_its_checkpoint(tmp_path):
    model = model_of(fam_threshold=0.1)
    before = model(**INPUTS, output_attentions=True)
    model.config.fam_threshold = 0.3
    after = model(**INPUTS, output_attentions=True)
    assert_close([after.feature_attention], [(before.feature_attention - 0.2).clamp(min=0)])
    model.save_pretrained(tmp_path)
    again = SamRobertaModel.from_pretrained(tmp_path).eval()
    assert_close([again(**INPUTS).pooler_output], [after.pooler_output])
    model.config.fam_threshold = 2.0
    with pytest.raises(ValueError, match=r"`fam_threshold` is 2.0; it must be a number in \[0, 1\]"):
        model.save_pretrained(tmp_path / "never")


def test_weight_decay_spares_a_learned_threshold(tmp_path):
    model = SamRobertaForSequenceClassification(config(learn_fam_threshold=True))
    trainer = Trainer(model, TrainingArguments(str(tmp_path), use_cpu=True, report_to="none"))
    decayed = trainer.get_decay_parameter_names(model)
    assert "sam.sequential_attention.fam.inner.weight" in decayed
    assert "sam.sequential_attention.fam.threshold_bias" not in decayed


def test_long_texts_are_refused_before_the_backbone_runs():
    model = model_of("text-classification", tam_max_length=6)
    long = pytest.raises(ValueError, match=r"`tam_max_length` is 6, but a text has 11 tokens.*`tam_ffn='token'`")
    with long:
        model(**INPUTS)
    with pytest.raises(ValueError, match="a text has 60 tokens"):  # more than the backbone has positions
        model(input_ids=token_ids(2, 60))
    short = {name: value[3:] for name, value in INPUTS.items()}
    roomy = model_of("text-classification", tam_max_length=6)(**short).logits  # 11 positions, but few real tokens
    alone = model(input_ids=short["input_ids"][:1, 3:7]).logits
    assert_close([roomy[:1]], [alone])
    assert model_of(tam_max_length=6, tam_ffn="token")(**INPUTS).pooler_output.isfinite().all()
    assert model_of(tam_max_length=6, use_tam=False)(**INPUTS).pooler_output.isfinite().all()


# --- the BiLSTM


def recurrent_encoder(**fields):
    """Return an encoder of states of width 7."""
    backbone = {"model_type": "bert", "hidden_size": 7}
    config = SamRobertaConfig(backbone_config=backbone, bilstm_hidden_size=4, dropout=0.0, **fields)
    return RecurrentEncoder(config)


@pytest.mark.parametrize("merge", ["concat", "sum"])
def test_the_lstm_sees_real_tokens_alone(merge):
    encoder = recurrent_encoder(bilstm_merge=merge)
    states = torch.randn(5, 11, 7)
    states[MASK == 0] = 1e4
    encoded = encoder(states, MASK.bool())
    assert not encoded[MASK == 0].any()
    for row, tokens, mine in zip(states, MASK.bool(), encoded, strict=True):
        both = torch.nn.LSTM.forward(encoder.lstm, row[tokens][None])[0][0]
        expected = both if merge == "concat" else both[:, :4] + both[:, 4:]
        torch.testing.assert_close(mine[tokens], expected)


def test_the_lstm_reads_packed_texts_as_it_reads_them_by_direction():
    encoder = recurrent_encoder(num_bilstm_layers=3).double()
    states = torch.randn(5, 11, 7, dtype=torch.float64, requires_grad=True)
    real, weights = MASK.bool(), torch.randn(5, 11, 8, dtype=torch.float64) * MASK.unsqueeze(-1)
    results = []
    for encode in (encoder.lstm.encode_packed, encoder.lstm.encode_by_direction):  # an accelerator's way, a CPU's way
        encoded = encode(states, real)
        gradients = torch.autograd.grad((encoded * weights).sum(), [states, *encoder.parameters()])
        results.append([encoded[real], *gradients])
    for packed, by_direction in zip(*results, strict=True):
        torch.testing.assert_close(packed, by_direction, atol=1e-12, rtol=1e-12)
        assert packed.any()


@pytest.mark.parametrize("mask", [None, MASK.bool()], ids=["all real", "padded"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_lstm_runs_in_full_precision_where_torchs_fails_under_autocast(mask, dtype):
    encoder, states = recurrent_encoder(), torch.randn(5, 11, 7).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        encoded = encoder(states, mask)
    torch.testing.assert_close(encoded, encoder(states.float(), mask))


# --- a frozen backbone


@pytest.mark.parametrize("backbone", ["roberta", "xlnet"])
def test_a_frozen_backbone_stays_bit_equal_through_training(backbone, tmp_path):
    noisy = {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.5, "dropout": 0.5}
    of_backbone = {"model_type": backbone, **noisy, **TINY_BACKBONES[backbone]}
    fields = {"bilstm_hidden_size": 6, "freeze_backbone": True, "dropout": 0.1}
    SamRobertaForSequenceClassification(SamRobertaConfig(backbone_config=of_backbone, **fields)).save_pretrained(
        tmp_path
    )
    model = SamRobertaForSequenceClassification.from_pretrained(tmp_path).train()
    before = copy.deepcopy(model.state_dict())
    states = model.backbone_model(INPUTS["input_ids"]).last_hidden_state
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss(model, "text-classification", **INPUTS).backward()
        optimizer.step()
    assert torch.equal(model.train().backbone_model(INPUTS["input_ids"]).last_hidden_state, states)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert not any(".backbone." in name for name in changed)
    assert changed == {name for name in before if ".backbone." not in name}


def test_a_backbone_can_be_frozen_and_freed_later():
    for start in (True, False):
        model = SamRobertaForSequenceClassification(config(freeze_backbone=start)).train()
        first = next(model.backbone_model.parameters())
        for frozen in (not start, start):
            first.requires_grad_(frozen)  # as somebody may have done, and as nothing is to undo without reason
            model.train()
            assert first.requires_grad == frozen
            model.config.freeze_backbone = frozen
            model.train()
            assert all(parameter.requires_grad != frozen for parameter in model.backbone_model.parameters())
            assert model.backbone_model.training != frozen
            assert model.sequence_classifier.training


def test_embeddings_that_are_exchanged_are_as_frozen_as_the_others():
    model = SamRobertaModel(config(freeze_backbone=True))
    model.set_input_embeddings(torch.nn.Embedding(61, 32))
    assert not model.get_input_embeddings().weight.requires_grad


def test_a_backbone_is_frozen_from_the_start_and_keeps_so():
    for model in (model_of().train(), SamRobertaModel(config(freeze_backbone=True))):
        frozen = model.config.freeze_backbone
        model.resize_token_embeddings(61)
        assert all(parameter.requires_grad != frozen for parameter in model.backbone.parameters())
        assert all(parameter.requires_grad for parameter in model.sequential_attention.parameters())
        assert model.training
        assert model.backbone.training != frozen
    embeds = model.get_input_embeddings()(INPUTS["input_ids"]).detach().requires_grad_()
    loss(model, "headless", inputs_embeds=embeds).backward()
    assert embeds.grad.any()  # frozen weights still hand on what is asked of their input


# --- fields


@pytest.mark.parametrize(
    ("fields", "idle"),
    [
        ({}, []),
        ({"pooling": "none", "use_tam": False, "num_bilstm_layers": 1}, ["use_tam", "num_bilstm_layers"]),
        ({"pooling": "rba", "num_bilstm_layers": 1, "fam_threshold": 0.1}, ["fam_threshold"]),
        ({"tam_ffn": "token", "tam_max_length": 9, "tam_hidden_size": 3}, ["tam_max_length"]),
        (
            {"use_fam": False, "attention_order": "tam_fam", "learn_fam_threshold": True},
            ["learn_fam_threshold", "attention_order"],
        ),
        ({"use_bilstm": False, "bilstm_merge": "sum", "disan_hidden_size": 3}, ["bilstm_merge", "disan_hidden_size"]),
        ({"pooling": "disan", "disan_hidden_size": 3}, []),
    ],
)
def test_fields_without_effect_are_known(fields, idle):
    assert FAMILIES["sam-roberta"].inactive_fields(SamRobertaConfig(**fields)) == idle


def test_the_networks_have_the_papers_sizes():
    model = SamRobertaModel(SamRobertaConfig(backbone_config=config().backbone_config))
    fam, tam = model.sequential_attention.fam, model.sequential_attention.tam
    assert [tuple(layer.weight.shape) for layer in (fam.inner, fam.outer)] == [(32, 512), (512, 32)]
    assert [tuple(layer.weight.shape) for layer in (tam.inner, tam.outer)] == [(32, 512), (512, 32)]


def test_new_layers_start_as_torch_starts_them(tmp_path):
    """With small normal weights the narrow networks of both attentions would start with outputs near 0."""
    SamRobertaModel(config()).backbone.save_pretrained(tmp_path)
    for model in (SamRobertaModel(config(learn_fam_threshold=True)), SamRobertaModel.from_backbone(tmp_path)):
        for part in (model.sequential_attention.fam, model.sequential_attention.tam):
            for layer in (part.inner, part.outer):
                bound = layer.in_features**-0.5
                assert 0.7 * bound < layer.weight.abs().max() <= bound
        cells = model.bilstm.lstm
        assert 0.7 < cells.weight_hh_l1_reverse.abs().max() * cells.hidden_size**0.5 <= 1
