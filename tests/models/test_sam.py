"""What a SAM model does beside its mechanism: heads, thresholds, the length of texts, a frozen backbone."""

import pytest
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from hf_localattn.models.modeling_sam_roberta import SamRobertaForSequenceClassification, SamRobertaModel
from tests.models.ablations import SAM_SIZES
from tests.models.naive import assert_same
from tests.models.tiny import loss, main_outputs, run, tiny_config, tiny_model, token_ids

MASK = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6, [0] * 3 + [1] * 4 + [0] * 4, [0] * 9 + [1, 0]])
INPUTS = {"input_ids": token_ids(5, 11), "attention_mask": MASK}
TEXTS = "text-classification"


def config(**fields):
    return tiny_config("sam-roberta", **{**SAM_SIZES, "dropout": 0.0, **fields})


def model_of(task="headless", **fields):
    return tiny_model("sam-roberta", task, **{**SAM_SIZES, "dropout": 0.0, **fields})


@pytest.mark.parametrize("task", [TEXTS, "multiple-choice"])
def test_heads_of_texts_are_one_layer_on_the_vector(task):
    model = model_of(task, dropout=0.3)
    layers = model.sequence_classifier if task == TEXTS else model.choice_classifier
    assert [type(layer) for layer in layers] == [nn.Dropout, nn.Linear]
    assert layers.dropout.p == model.sam.bilstm.lstm.dropout == 0.3
    expected = layers.output(model.sam(**INPUTS).pooler_output)
    assert_same(main_outputs(run(model, **INPUTS)), [expected], tolerance=1e-5)


def test_a_threshold_set_later_is_that_of_the_model_and_of_its_checkpoint(tmp_path):
    model = model_of(fam_threshold=0.1)
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
    model = SamRobertaForSequenceClassification(config(learn_fam_threshold=True))
    trainer = Trainer(model, TrainingArguments(str(tmp_path), use_cpu=True, report_to="none"))
    decayed = trainer.get_decay_parameter_names(model)
    assert "sam.sequential_attention.fam.inner.weight" in decayed
    assert "sam.sequential_attention.fam.threshold_bias" not in decayed


def test_long_texts_are_refused_before_the_backbone_runs():
    model = model_of(TEXTS, tam_max_length=6)
    for inputs, tokens in ((INPUTS, 11), ({"input_ids": token_ids(2, 60)}, 60)):  # the backbone has 40 positions
        with pytest.raises(ValueError, match=f"`tam_max_length` is 6, but a text has {tokens}.*`tam_ffn="):
            model(**inputs)
    short = {name: value[3:] for name, value in INPUTS.items()}  # 11 positions, but few tokens
    alone = model(input_ids=short["input_ids"][:1, 3:7]).logits
    assert_same([model(**short).logits[:1]], [alone], tolerance=1e-5)
    for fields in ({"tam_ffn": "token"}, {"use_tam": False}):
        assert model_of(tam_max_length=6, **fields)(**INPUTS).pooler_output.isfinite().all()


def test_new_layers_start_as_torch_starts_them(tmp_path):
    """With small normal weights the narrow networks of both attentions would start with outputs near 0."""
    SamRobertaModel(config()).backbone.save_pretrained(tmp_path)
    for model in (SamRobertaModel(config(learn_fam_threshold=True)), SamRobertaModel.from_backbone(tmp_path)):
        for part in (model.sequential_attention.fam, model.sequential_attention.tam):
            for layer in (part.inner, part.outer):
                assert 0.7 < layer.weight.abs().max() * layer.in_features**0.5 <= 1
        cells = model.bilstm.lstm
        assert 0.7 < cells.weight_hh_l1_reverse.abs().max() * cells.hidden_size**0.5 <= 1


# --- a frozen backbone


@pytest.mark.parametrize("start", [True, False])
def test_a_backbone_can_be_frozen_and_freed_later(start, tmp_path):
    """What somebody froze or freed by hand is not undone without reason; other embeddings are as frozen as before."""
    model_of(TEXTS, freeze_backbone=start).save_pretrained(tmp_path)
    model = SamRobertaForSequenceClassification.from_pretrained(tmp_path)
    for part in (model, model.train()):
        assert all(parameter.requires_grad != start for parameter in part.backbone_model.parameters())
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
