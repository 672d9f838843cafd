"""Fields and losses of COOL. Tests that all families share are in test_family_contract.py."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from hf_localattn import CoolConfig, CoolModel
from tests.models.ablations import OUTLOOKERS
from tests.models.tiny import COMMON, tiny_config, tiny_model, token_ids
from tests.reference import cool as reference


@pytest.fixture(params=OUTLOOKERS.values(), ids=OUTLOOKERS)
def fields(request):
    return request.param


def weights_of(layer):
    return layer.weight, layer.bias


def naive_outlooker(model, states, real):
    """Run the reference context outlooker on one example without its padding, which counts as outside."""
    config, outlooker = model.config, model.base_model.local_encoder
    states = states[real]
    if outlooker.convolution_block is not None:
        kernels = [weights_of(layer) for layer in outlooker.convolution_block.convolutions]
        states = reference.convolution_block(states, kernels, config.conv_pooling, config.conv_alignment)
    for layer in outlooker.layers:
        states = reference.outlook_layer(
            states,
            [True] * len(states),
            weights_of(layer.value),
            weights_of(layer.attention_scores),
            [weights_of(linear) for linear in layer.feed_forward],
            config.outlook_kernel_size,
            config.outlook_num_heads or config.local_size,
            norms=(layer.attention_norm, layer.feed_forward_norm),
            joint_softmax=config.outlook_softmax == "window",
            mask_outside_window=config.mask_outside_window,
        )
    if outlooker.projection is not None:
        states = torch.stack([reference.linear(row, *weights_of(outlooker.projection)) for row in states])
    return states


@pytest.mark.parametrize("side", ["left", "right"])
def test_equals_the_equations(fields, side):
    sizes = {"conv_filters": 2, **fields}
    if "outlook_num_heads" in sizes:
        sizes["conv_filters"] = 5
    model = tiny_model("cool", "question-answering", **sizes).double()
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    mask = mask.flip(1) if side == "left" else mask
    output = model(token_ids(2, 5), attention_mask=mask, output_hidden_states=True)
    for row in range(2):
        real = mask[row].bool()
        states = naive_outlooker(model, output.hidden_states[-1][row], real)
        logits = torch.stack([reference.linear(s, model.qa_outputs.weight, model.qa_outputs.bias) for s in states])
        actual = torch.stack([output.start_logits[row][real], output.end_logits[row][real]], dim=-1)
        torch.testing.assert_close(actual, logits, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("use_conv", [True, False])
@pytest.mark.parametrize("fusion", ["concat", "sum", "gate"])
def test_beside_the_encoder_equals_the_equations(fusion, use_conv, side):
    fields = {"mode": "g&l", "fusion": fusion, "use_conv": use_conv, "num_local_layers": 1, "conv_filters": 2}
    model = tiny_model("cool", backbone="albert", **fields).double()
    ids, mask = token_ids(2, 4), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    mask = mask.flip(1) if side == "left" else mask
    output = model(ids, attention_mask=mask, output_hidden_states=True)
    alone = model.backbone_model(ids[:1], output_hidden_states=True).last_hidden_state
    torch.testing.assert_close(output.hidden_states[-1][:1], alone, rtol=1e-12, atol=1e-12)  # as usual
    words = model.get_input_embeddings()(ids)
    layers = {name: weights_of(layer) for name, layer in model.fusion.named_children()}
    for row in range(2):
        real = mask[row].bool()
        local = naive_outlooker(model, words[row], real)
        joined = zip(output.hidden_states[-1][row][real], local, strict=True)
        naive = torch.stack([reference.fusion(fusion, both, one, **layers) for both, one in joined])
        torch.testing.assert_close(output.last_hidden_state[row][real], naive, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backbone", ["bert", "albert"])
@pytest.mark.parametrize("use_conv", [True, False])
def test_below_the_encoder_equals_the_equations(use_conv, backbone):
    model = tiny_model("cool", backbone=backbone, mode="l2g", use_conv=use_conv, num_local_layers=1, conv_filters=2)
    model, ids = model.double(), token_ids(1, 5)
    words = naive_outlooker(model, model.get_input_embeddings()(ids)[0], torch.ones(5, dtype=torch.bool))
    naive = model.backbone_model(inputs_embeds=words[None]).last_hidden_state
    torch.testing.assert_close(model(ids).last_hidden_state, naive, rtol=1e-12, atol=1e-12)
    assert (model.local_encoder.projection is None) is not use_conv


def test_local_attentions_are_target_by_source_by_feature():
    model = tiny_model("cool")
    output = model(token_ids(2, 7), output_attentions=True)
    assert [tuple(weights.shape) for weights in output.local_attentions] == [(2, 7, 3, 3, 15)] * 2
    torch.testing.assert_close(output.local_attentions[0].sum(3), torch.ones(2, 7, 3, 15))


def test_defaults_are_the_papers():
    with torch.device("meta"):
        with_conv, without = CoolModel(CoolConfig()), CoolModel(CoolConfig(use_conv=False))
    assert with_conv.config.hidden_size == 300
    assert [tuple(c.weight.shape) for c in with_conv.local_encoder.convolution_block.convolutions] == [
        (100, 768, kernel) for kernel in (3, 4, 5)
    ]
    assert len(with_conv.local_encoder.layers) == 2
    assert sum(p.numel() for p in with_conv.local_encoder.layers[0].attention_scores.parameters()) == 812_700
    assert without.config.hidden_size == 768
    assert len(without.local_encoder.layers) == 3
    assert with_conv.backbone.pooler is None


@pytest.mark.parametrize("kind", ["mean", "sum", "joint"])
def test_losses_equal_the_paper(kind):
    model = tiny_model("cool", "question-answering", qa_loss=kind).double()
    starts, ends = torch.tensor([0, 3, 4]), torch.tensor([2, 3, 6])
    output = model(token_ids(3, 7), start_positions=starts, end_positions=ends)
    naive = reference.question_answering_loss(output.start_logits, output.end_logits, starts, ends, kind)
    torch.testing.assert_close(output.loss, naive, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["mean", "joint"])
def test_positions_before_the_text_count_as_its_first(kind):
    model = tiny_model("cool", "question-answering", qa_loss=kind)
    before, first = (
        model(token_ids(1, 7), start_positions=torch.tensor([at]), end_positions=torch.tensor([2])).loss
        for at in (-1, 0)
    )
    assert torch.equal(before, first)


def test_eq16_ignores_positions_past_the_end():
    model = tiny_model("cool", "question-answering", qa_loss="joint")
    ids = token_ids(2, 7)
    both = model(ids, start_positions=torch.tensor([1, 7]), end_positions=torch.tensor([2, 9])).loss
    one = model(ids[:1], start_positions=torch.tensor([1]), end_positions=torch.tensor([2])).loss
    torch.testing.assert_close(both, one)
    assert model(ids, start_positions=torch.tensor([7, 7]), end_positions=torch.tensor([7, 7])).loss == 0


@pytest.mark.parametrize("starts", [[[1, 1]], [1], [1, 1, 1], 1])
def test_answers_are_one_position_for_each_row(starts):
    model = tiny_model("cool", "question-answering")
    with pytest.raises(ValueError, match=r"`start_positions` has shape .*; it must be \(2,\) of torch.int64"):
        model(token_ids(2, 7), start_positions=torch.tensor(starts), end_positions=torch.tensor([1, 1]))


@pytest.mark.parametrize("positions", [[1, 3], [2, 40]])
def test_loss_is_the_stock_classes(positions):
    """With local layers that output 0, COOL has the loss of BertForQuestionAnswering."""
    model = tiny_model("cool", "question-answering", use_conv=False, num_local_layers=0)
    stock = BertForQuestionAnswering(BertConfig(**COMMON)).eval()
    stock.bert.load_state_dict(model.cool.backbone.state_dict())
    stock.qa_outputs.load_state_dict(model.qa_outputs.state_dict())
    inputs = {"input_ids": token_ids(2, 7), "start_positions": torch.tensor(positions)}
    inputs["end_positions"] = inputs["start_positions"] + 1
    ours, theirs = model(**inputs), stock(**inputs)
    assert torch.equal(ours.start_logits, theirs.start_logits)
    assert torch.equal(ours.loss, theirs.loss)


def stock_bert(ours, stock_class, pooled=None, classifier=None, **fields):
    """Build the stock class with the weights of our model. Its pooler gets those of our head."""
    stock = stock_class(BertConfig(**COMMON, **fields)).eval()
    stock.bert.load_state_dict(ours.cool.backbone.state_dict(), strict=False)
    if pooled is not None:
        stock.bert.pooler.dense.load_state_dict(pooled.pooler.state_dict())
        classifier = pooled.output
    stock.classifier.load_state_dict(classifier.state_dict())
    return stock


@pytest.mark.parametrize(
    ("num_labels", "labels"),
    [
        (3, torch.tensor([2, 0])),
        (1, torch.tensor([0.3, -1.2])),
        (3, torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])),
    ],
    ids=["classes", "regression", "several labels"],
)
def test_sequence_classification_is_the_stock_classes(num_labels, labels):
    model = tiny_model("cool", "text-classification", local_attention="none", num_labels=num_labels)
    stock = stock_bert(model, BertForSequenceClassification, model.sequence_classifier, num_labels=num_labels)
    ours, theirs = (one(token_ids(2, 7), labels=labels) for one in (model, stock))
    assert ours.logits.shape == (2, num_labels)
    torch.testing.assert_close(ours.logits, theirs.logits, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(ours.loss, theirs.loss, rtol=1e-6, atol=1e-7)
    assert model.config.problem_type == stock.config.problem_type


def test_token_classification_is_the_stock_classes():
    model = tiny_model("cool", "token-classification", local_attention="none", num_labels=5)
    stock = stock_bert(model, BertForTokenClassification, classifier=model.token_classifier, num_labels=5)
    labels = torch.tensor([[-100, 4, 0, 2, -100], [1, 1, 3, -100, -100]])
    ours, theirs = (one(token_ids(2, 5), labels=labels) for one in (model, stock))
    torch.testing.assert_close(ours.logits, theirs.logits, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(ours.loss, theirs.loss, rtol=1e-6, atol=1e-7)


def test_multiple_choice_is_the_stock_classes():
    model = tiny_model("cool", "multiple-choice", local_attention="none")
    stock = stock_bert(model, BertForMultipleChoice, model.choice_classifier)
    ids, labels = token_ids(6, 7).view(2, 3, 7), torch.tensor([2, 0])
    mask = torch.ones_like(ids)
    mask[1, 2, 4:] = 0
    ours, theirs = (one(ids, attention_mask=mask, labels=labels) for one in (model, stock))
    assert ours.logits.shape == (2, 3)
    torch.testing.assert_close(ours.logits, theirs.logits, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(ours.loss, theirs.loss, rtol=1e-6, atol=1e-7)
    by_embeds = model(inputs_embeds=model.get_input_embeddings()(ids), attention_mask=mask)
    torch.testing.assert_close(by_embeds.logits, ours.logits, rtol=1e-5, atol=1e-6)


def test_another_models_configuration_is_refused():
    with pytest.raises(ValueError, match=r"CoolModel takes a CoolConfig, not a BertConfig.*from_backbone"):
        CoolModel(BertConfig(**COMMON))


def test_modes_need_word_embeddings_of_a_known_width():
    rembert = {"model_type": "rembert", **COMMON, "input_embedding_size": 16}
    with pytest.raises(ValueError, match=r"`mode` is 'l2g'.*'rembert' has no.*width 32 \(found 16\): set `mode`"):
        CoolModel(CoolConfig(backbone_config=rembert, mode="l2g"))


def test_multiple_choice_wants_choices():
    model = tiny_model("cool", "multiple-choice")
    with pytest.raises(ValueError, match=r"`input_ids` has shape \(2, 7\); multiple choice needs \(batch, choices"):
        model(token_ids(2, 7))
    with pytest.raises(ValueError, match=r"`inputs_embeds` has shape \(2, 7, 32\).*length, width\)"):
        model(inputs_embeds=torch.zeros(2, 7, 32))
    with pytest.raises(ValueError, match="exactly one of"):
        model()


@pytest.mark.parametrize(("backbone", "position"), [("bert", 0), ("xlnet", -1)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_whole_texts_are_told_by_the_backbones_own_token(backbone, position, side):
    """Texts are represented by their first token, in XLNet by the last one."""
    model = tiny_model("cool", "text-classification", backbone)
    mask = torch.tensor([[1] * 5 + [0] * 2])
    mask = mask.flip(1) if side == "left" else mask
    ids = token_ids(1, 7)
    states = model.cool(ids, attention_mask=mask).last_hidden_state[mask.bool()][position]
    expected = model.sequence_classifier(states[None])
    torch.testing.assert_close(model(ids, attention_mask=mask).logits, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "global"}, r"`mode` is 'global'; choose one of 'g2l', 'l2g', 'g&l'"),
        (
            {"mode": "l2g", "local_attention": "none"},
            r"`mode` is 'l2g', but `local_attention='none'` has no local layers",
        ),
        ({"fusion": "product"}, r"`fusion` is 'product'; choose one of 'concat', 'sum', 'gate'"),
        (
            {"local_attention": "lstm"},
            r"`local_attention` is 'lstm'; choose one of 'none', 'deeper', 'conv', 'outlook'",
        ),
        ({"num_extra_layers": 0}, r"`num_extra_layers` is 0; it must be a whole number of at least 1"),
        ({"graph_window": 0}, r"`graph_window` is 0"),
        ({"classifier_dropout": -0.1}, r"`classifier_dropout` is -0.1"),
        ({"outlook_kernel_size": 4}, r"`outlook_kernel_size` is 4; it must be odd.*use 3 or 5"),
        ({"outlook_kernel_size": 0}, r"`outlook_kernel_size` is 0; it must be a whole number of at least 1"),
        ({"conv_kernel_sizes": [3, 6]}, r"`conv_kernel_sizes` is \[3, 6\]; the padding of 2.*conv_alignment='same'"),
        ({"conv_kernel_sizes": []}, r"`conv_kernel_sizes` is \[\]; give a list"),
        ({"conv_kernel_sizes": 3}, r"`conv_kernel_sizes` is 3; give a list"),
        ({"conv_pooling": "min"}, r"`conv_pooling` is 'min'; choose one of 'max', 'avg'"),
        ({"conv_alignment": "left"}, r"`conv_alignment` is 'left'"),
        ({"outlook_softmax": "none"}, r"`outlook_softmax` is 'none'"),
        ({"outlook_num_heads": 7}, r"`outlook_num_heads` is 7; it must divide the local width 15"),
        ({"outlook_dropout": 1.0}, r"`outlook_dropout` is 1.0; it must be a number in \[0.0, 1.0\)"),
        ({"outlook_dropout": "abc"}, r"`outlook_dropout` is 'abc'"),
        ({"use_conv": "nein"}, r"`use_conv` is 'nein'; it must be true or false"),
        ({"num_local_layers": -1}, r"`num_local_layers` is -1"),
        ({"num_local_layers": 1.5}, r"`num_local_layers` is 1.5"),
        ({"num_ffn_layers": 0}, r"`num_ffn_layers` is 0"),
        ({"qa_loss": "max"}, r"`qa_loss` is 'max'"),
    ],
    ids=lambda value: next(iter(value.items())).__repr__() if isinstance(value, dict) else "",
)
def test_impossible_fields_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        tiny_config("cool", **fields)


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        ({"model_type": "gpt2"}, "'gpt2' is a decoder"),
        ({"model_type": "llama"}, "'llama' is a decoder"),
        (
            {"model_type": "speech_to_text"},
            "'speech_to_text' is not a text-to-text model. To generate, use prophetnet",
        ),
        ({"model_type": "vit"}, "'vit' is not a text encoder"),
        ({"model_type": "bert", "is_decoder": True}, "set up as a decoder"),
        ({"model_type": "cool"}, "itself a composite"),
        ({"model_type": "brt"}, "unknown model_type 'brt'"),
    ],
)
def test_unsupported_backbones_are_refused(backbone, message):
    with pytest.raises(ValueError, match=message):
        CoolConfig(backbone_config=backbone)


def test_the_callers_backbone_config_stays_its_own():
    backbone_config = BertConfig(**COMMON)
    config = CoolConfig(backbone_config=backbone_config)
    config.vocab_size = 70
    assert backbone_config.vocab_size == COMMON["vocab_size"]


def test_new_layers_begin_as_heads_do():
    model = CoolModel(tiny_config("cool", use_conv=False, initializer_range=0.05))
    weights = [weight for weight in model.local_encoder.parameters() if weight.dim() == 2]
    assert len(weights) == 9
    for weight in weights:
        torch.testing.assert_close(weight.std().item(), 0.05, rtol=0.1, atol=0)
