"""COOL's models: where the local encoder stands, sizes, losses, and transformers' classes."""

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
from tests.models.naive import assert_same
from tests.models.tiny import COMMON, tiny_config, tiny_model, token_ids
from tests.reference import cool as reference

MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])


@pytest.mark.parametrize("backbone", ["bert", "albert"])
@pytest.mark.parametrize("use_conv", [True, False])
def test_the_local_encoder_stands_above_below_or_beside_the_backbone(use_conv, backbone):
    ids, real = token_ids(3, 5), MASK.bool()
    for mode in ("g2l", "l2g", "g&l"):
        model = tiny_model("cool", backbone=backbone, mode=mode, use_conv=use_conv)
        output = model(ids, attention_mask=MASK, output_hidden_states=True)
        states = output.hidden_states[-1] if mode == "g2l" else model.get_input_embeddings()(ids)
        local, _ = model.local_encoder(states, real)
        words = {"inputs_embeds": local} if mode == "l2g" else {"input_ids": ids}
        places = (MASK.cumsum(-1) - 1).clamp(min=0)
        alone = model.backbone_model(**words, attention_mask=MASK, position_ids=places).last_hidden_state
        assert_same([output.hidden_states[-1][real]], [alone[real]], 1e-6)
        expected = model.fusion(alone, local) if mode == "g&l" else local if mode == "g2l" else alone
        assert_same([output.last_hidden_state[real]], [expected[real]], 1e-6)
        assert (model.local_encoder.projection is None) is not (mode == "l2g" and use_conv)


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
    states = model.cool(ids, attention_mask=MASK).last_hidden_state
    own = torch.stack([row[real][place] for row, real in zip(states, MASK.bool(), strict=True)])
    assert_same([model(ids, attention_mask=MASK).logits], [model.sequence_classifier(own)], 1e-6)


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


def test_new_layers_start_at_the_scale_of_the_configuration():
    wide = CoolModel(tiny_config("cool", use_conv=False, initializer_range=0.05))
    for weight in (weight for weight in wide.local_encoder.parameters() if weight.dim() == 2):
        torch.testing.assert_close(weight.std().item(), 0.05, rtol=0.1, atol=0)
