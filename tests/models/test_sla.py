"""SLA models: equality with transformers' classes at gate 0, gates, masks, baselines, and inputs that they need."""

import copy
import pickle
from types import SimpleNamespace

import pytest
import torch
from transformers import AttentionInterface, AutoModelForSequenceClassification

from hf_localattn import SlaBertConfig, SlaBertForSequenceClassification, SlaBertModel
from hf_localattn.families import AUTO_CLASSES, FAMILIES
from hf_localattn.models.configuration_local_attention import LocalAttentionConfig
from hf_localattn.models.sla_baselines import ancestor_mask
from hf_localattn.models.sla_self_attention import is_in_kernel, self_attentions
from tests.models.naive import assert_same, pair
from tests.models.tiny import (
    COMMON,
    ENCODER_HEADS,
    adapted,
    at_tokens,
    enable_checkpointing,
    gradients,
    labels,
    main_outputs,
    run,
    tiny_config,
    tiny_model,
    token_ids,
)
from tests.reference import sla as reference

HEADS = [(task, backbone) for task in ENCODER_HEADS["sla-bert"] for backbone in SlaBertConfig.tested_backbones]
TEXTS, TOKENS = "text-classification", "token-classification"
MASK = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6])
INPUTS = {"input_ids": token_ids(3, 11), "attention_mask": MASK}


def stock_twin(model, task):
    """Return transformers' task class with the same weights."""
    config = copy.deepcopy(model.config.backbone_config)
    config.num_labels = model.config.num_labels
    twin = AUTO_CLASSES[task].from_config(config).eval()
    prefixes = {
        "sla_bert.backbone.": f"{twin.base_model_prefix}.",
        "masked_lm.": "",
        "sequence_classifier.head.": "classifier.",
        "sequence_classifier.": "",
        "choice_classifier.head.": "classifier.",
        "choice_classifier.": "",
        "token_classifier.": "classifier.",
    }
    weights = {}
    for name, value in model.state_dict().items():
        prefix = next((prefix for prefix in prefixes if name.startswith(prefix)), "")
        if ".gate." not in name:
            weights[prefixes.get(prefix, "") + name.removeprefix(prefix)] = value
    twin.load_state_dict(weights)  # strict: not one more, not one less
    return twin


def set_gates(model, weight, bias):
    for name, parameter in model.named_parameters():
        if ".gate." in name:
            torch.nn.init.constant_(parameter, bias if name.endswith("bias") else weight)


def gates_of(model):
    return torch.stack(run(model, **INPUTS, output_attentions=True).gates)


# --- the backbone's own classes


@pytest.mark.parametrize(("task", "backbone"), HEADS)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_closed_gates_are_the_stock_class_bit_for_bit(task, backbone, implementation):
    model = tiny_model("sla-bert", task, backbone)
    twin = stock_twin(model, task)
    model.set_attn_implementation(implementation)
    twin.set_attn_implementation(implementation)
    for mask in (torch.ones(2, 11, dtype=torch.long), MASK[:2]):
        ids = token_ids(2, 11).masked_fill(mask == 0, model.config.pad_token_id)
        ours = adapted(model, input_ids=ids, attention_mask=mask, **labels(task, 2, 11))
        expected = twin(
            **{name: ours[name] for name in ours if name not in SlaBertModel.token_inputs}, output_hidden_states=True
        )
        theirs = [expected[name] for name in ("logits", "start_logits", "end_logits") if name in expected]
        theirs = [theirs[0].T] if task == "multiple-choice" else theirs
        set_gates(model, 0.0, 0.0)
        assert not torch.equal(main_outputs(model(**ours))[0], theirs[0])
        set_gates(model, 0.0, -1e4)
        actual = model(**ours, output_hidden_states=True)
        assert_same(at_tokens(task, main_outputs(actual), mask), at_tokens(task, theirs, mask), 0)
        for one, other in zip(actual.hidden_states, expected.hidden_states, strict=True):
            assert torch.equal(one[mask.bool()], other[mask.bool()])
    # The loss of transformers' class includes padding if it reads all tokens.
    assert task not in (TEXTS, "multiple-choice") or torch.equal(actual.loss, expected.loss)


@pytest.mark.parametrize("backbone", SlaBertConfig.tested_backbones)
def test_an_open_mask_is_the_stock_class_for_any_gate(backbone):
    model = tiny_model("sla-bert", TOKENS, backbone)
    mask, given = MASK[:2].bool(), {name: value[:2] for name, value in INPUTS.items()}
    expected = stock_twin(model, TOKENS)(**given).logits
    for weight, bias in ((0.0, 0.0), (3.0, 1.0)):
        set_gates(model, weight, bias)
        found = model(**given, **dict.fromkeys(model.token_inputs, torch.full((2, 11), -1))).logits
        assert_same([found[mask]], [expected[mask]], 1e-6)


def test_only_heads_that_use_the_pooler_keep_it(tmp_path, caplog):
    stock = AutoModelForSequenceClassification.from_config(tiny_config("sla-bert").backbone_config)
    stock.save_pretrained(tmp_path / "stock")
    model = SlaBertForSequenceClassification.from_backbone(tmp_path / "stock")
    assert torch.equal(model.backbone_model.pooler.dense.weight, stock.bert.pooler.dense.weight)
    tiny_model("sla-bert").save_pretrained(tmp_path / "headless")
    for task, has_one in ((TEXTS, True), ("question-answering", False)):
        model = FAMILIES["sla-bert"].heads[task].from_pretrained(tmp_path / "headless")
        assert (model.backbone_model.pooler is not None) is has_one
    assert "UNEXPECTED" not in caplog.text


# --- the mechanism inside the model


@pytest.mark.parametrize("kind", ["syntax", "window"])
def test_every_layer_computes_the_equations(kind):
    """Compare gates, local and mixed attention of each layer with float64 loops over the layer's input."""
    model = tiny_model("sla-bert", local_attention=kind).double()
    model.set_attn_implementation("eager")
    given = adapted(model, **INPUTS)
    output = model(**given, output_attentions=True, output_hidden_states=True)
    for row, mask in enumerate(MASK.bool()):
        words, heads = (given[name][row].tolist() for name in ("word_index", "dep_heads"))
        near = reference.syntax_mask(words, heads, threshold=1) if kind == "syntax" else reference.window_mask(words)
        allowed = (mask.expand(11, 11), torch.tensor(near) & mask)
        both = [torch.zeros(11, 11).double().masked_fill(~seen, -torch.inf) for seen in allowed]
        for layer, module in enumerate(model.backbone_model.encoder.layer):
            attention, states = module.attention.self, output.hidden_states[layer][row]
            gates = reference.gate(states, *pair(attention.gate))
            projections = (attention.query, attention.key, attention.value)
            parts = [projection(states).view(11, 2, 16).transpose(0, 1) for projection in projections]
            # Rows of pads, which no key may attend to, are not compared.
            _, *expected = reference.gated_attention(*parts, gates, *both, 1 / 4)
            found = output.attentions[layer][row], output.local_attentions[layer][row]
            assert_same([output.gates[layer][row]], [gates])
            assert_same([one[:, mask] for one in found], [one[:, mask] for one in expected])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_keep_their_own_gates(copied):
    model = tiny_model("sla-bert")
    clone = copied(model)
    assert torch.equal(gates_of(clone), gates_of(model))
    set_gates(clone, 0.0, 50.0)
    assert gates_of(clone).eq(1).all()
    assert not gates_of(model).eq(1).any()
    clone.set_attn_implementation("eager")
    assert model.backbone_model.config._attn_implementation == "sdpa"
    # All models of a process share transformers' registry.
    assert not [name for name in AttentionInterface._global_mapping if "local" in name]


# --- the baselines


def test_guided_layers_see_ancestors_and_are_half_of_the_answer():
    model = tiny_model("sla-bert", local_attention="sgnet", num_sgnet_layers=3).double()
    assert len(model.syntax_layer.further_layers) == 2
    model.set_attn_implementation("eager")
    given, real = adapted(model, **INPUTS), MASK.bool()
    found = []
    for mixture in ((40.0, -40.0), (-40.0, 40.0), (0.3, -0.9)):
        with torch.no_grad():
            model.syntax_layer.mixture.copy_(torch.tensor(mixture))
        output = model(**given, output_attentions=True, output_hidden_states=True)
        found.append(output.last_hidden_state[real])
    seen = ancestor_mask(given["word_index"], given["dep_heads"]) & real.unsqueeze(1)
    assert torch.equal(output.local_attentions[0][0, 0] > 0, seen[0])
    encoded, guided, mixed = found
    torch.testing.assert_close(encoded, output.hidden_states[-1][real])
    assert_same([mixed], [reference.sgnet_mixture(encoded, guided, torch.tensor([0.3, -0.9]).double())], 1e-7)
    assert not SlaBertModel(tiny_config("sla-bert", local_attention="sgnet")).syntax_layer.mixture.any()


def test_the_last_head_of_every_layer_is_taught_the_parents():
    model = tiny_model("sla-bert", TOKENS, local_attention="lisa", lisa_loss_weight=0.3).double()
    model.set_attn_implementation("eager")
    given = adapted(model, **INPUTS)
    answers = labels(TOKENS, 3, 11)
    output = model(**given, **answers, output_attentions=True)
    scores = [attention[:, -1].log() for attention in output.attentions]
    taught = reference.lisa_loss(scores, given["dep_heads"].tolist(), MASK.bool().tolist())
    plain = torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), answers["labels"].flatten())
    # Backbone and attention are in double precision, but the loss of transformers' head is in single.
    torch.testing.assert_close(output.loss, plain + 0.3 * taught, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("task", ["question-answering", TOKENS, "fill-mask"])
def test_the_loss_of_the_layers_is_scaled_with_that_of_the_task(task):
    """A caller that divides by `num_items_in_batch` adds up batches: twice as many items, half the loss."""
    model = tiny_model("sla-bert", task, local_attention="lisa")
    given = {**adapted(model, **INPUTS), **labels(task, 3, 11)}
    items = 3 if task == "question-answering" else int((given["labels"] != -100).sum())
    once, half = (model(**given, num_items_in_batch=torch.tensor(number)).loss for number in (items, 2 * items))
    torch.testing.assert_close(2 * half, once)
    assert task != TOKENS or torch.allclose(once, model(**given).loss)


@pytest.mark.slow(reason="takes three seconds each; the contract compiles SLA")
@pytest.mark.parametrize("kind", ["lisa", "sgnet"])
@torch.no_grad()
def test_the_baselines_compile(kind):
    torch.compiler.reset()
    model = tiny_model("sla-bert", TOKENS, local_attention=kind)
    given = adapted(model, **INPUTS, **labels(TOKENS, 3, 11))
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(**given).loss, model(**given).loss, rtol=1e-6, atol=1e-6)


# --- inputs


WRONG_HEADS = [
    ("lisa", None, "`dep_heads`.*training"),
    ("lisa", 99, "position 3.*outside"),
    ("syntax", 99, "position 3.*outside"),
    ("syntax", 0, "position 3.*special token"),
]


@pytest.mark.parametrize(("kind", "head", "message"), WRONG_HEADS)
def test_wrong_heads_are_named(kind, head, message):
    model = tiny_model("sla-bert", TOKENS, local_attention=kind).train()
    given = adapted(model, **INPUTS, **labels(TOKENS, 3, 11))
    changed = None if head is None else given["dep_heads"].index_fill(1, torch.tensor(3), head)
    with pytest.raises(ValueError, match=message):
        model(**{**given, "dep_heads": changed})


def test_windows_need_no_heads_and_lisa_needs_them_in_training_alone():
    for kind, names in (("window", ["word_index"]), ("lisa", [])):
        model = tiny_model("sla-bert", TOKENS, local_attention=kind)
        given = adapted(model, **INPUTS)
        assert torch.equal(model(**INPUTS, **{name: given[name] for name in names}).logits, model(**given).logits)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["syntax", "window", "lisa", "sgnet"])
def test_pipelines_that_do_not_know_the_inputs_pad_them_with_zeros(kind, implementation):
    """On the side of the tokenizer's padding. They do not know that heads are positions, either."""
    model = tiny_model("sla-bert", TOKENS, local_attention=kind)
    model.set_attn_implementation(implementation)
    ids = token_ids(1, 6)
    alone = adapted(model, input_ids=ids)
    expected = model(**alone, labels=ids % 2).loss
    for side in ((3, 0), (0, 3)):
        given = {name: torch.nn.functional.pad(value, side) for name, value in alone.items()}
        given["attention_mask"] = torch.nn.functional.pad(torch.ones_like(ids), side)
        answers = torch.nn.functional.pad(ids % 2, side, value=-100)
        torch.testing.assert_close(model(**given, labels=answers).loss, expected, rtol=1e-5, atol=1e-5)


# --- backbones and attention functions


@pytest.mark.parametrize("implementation", ["flash_attention_2", "paged|eager"])
def test_an_attention_that_drops_the_mask_is_refused(implementation, tmp_path):
    model = tiny_model("sla-bert", TEXTS)
    model.save_pretrained(tmp_path)
    refused = pytest.raises(ValueError, match=r"not supported with local attention.*'sdpa'")
    with refused:
        model.set_attn_implementation(implementation)
    with refused:
        SlaBertForSequenceClassification.from_pretrained(tmp_path, attn_implementation=implementation)
    model.backbone_model.config._attn_implementation = implementation  # past all checks
    with refused:
        run(model, input_ids=token_ids(2, 5))


def test_lisa_is_not_silent_under_reentrant_checkpointing():
    model = tiny_model("sla-bert", TOKENS, local_attention="lisa").train()
    enable_checkpointing(model, {"use_reentrant": True})
    with pytest.raises(ValueError, match="use_reentrant"):
        gradients(model, TOKENS, **INPUTS)


BOTTLENECK = {"intra_bottleneck_size": 16, "embedding_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
OTHERS = ("albert", "distilbert", "deberta-v2", "modernbert", "xlnet", "mpnet")


def test_encoders_that_compute_otherwise_are_refused():
    for backbone in OTHERS:
        with pytest.raises(ValueError, match=f"{backbone!r} cannot have local attention"):
            tiny_model("sla-bert", backbone=backbone)
    with pytest.raises(ValueError, match="'mobilebert' cannot have local attention"):
        SlaBertModel(SlaBertConfig(backbone_config={"model_type": "mobilebert", "hidden_size": 32, **BOTTLENECK}))
    backbone = tiny_model("sla-bert", local_attention="none").backbone_model
    backbone.encoder.layer[1].attention.self.distance = torch.nn.Embedding(3, 16)
    with pytest.raises(ValueError, match="'bert' cannot have local attention"):
        self_attentions(backbone)


def test_an_encoder_built_like_bert_runs_with_a_warning(caplog):
    backbone = {"model_type": "xlm-roberta", **COMMON, "pad_token_id": 1, "type_vocab_size": 1}
    model = SlaBertForSequenceClassification(SlaBertConfig(backbone_config=backbone)).eval()
    assert "'xlm-roberta' is not among the tested ones" in caplog.text
    assert len(gates_of(model)) == 2


def test_the_dropout_of_the_heads_can_be_set(tmp_path):
    tiny_model("sla-bert", TEXTS).save_pretrained(tmp_path)
    model = SlaBertForSequenceClassification.from_pretrained(tmp_path, classifier_dropout=0.3)
    assert model.sequence_classifier.dropout.p == model.config.backbone_config.classifier_dropout == 0.3


def test_kernels_run_where_the_backbone_s_attention_can_be_replaced(monkeypatch):
    tables, found = SimpleNamespace(segments=torch.zeros(1)), []
    for kernel in (SimpleNamespace(runs=lambda *given: given[1:] == (torch.float32, 16, tables)), None):
        monkeypatch.setattr(
            LocalAttentionConfig, "installed", SimpleNamespace(kernel=lambda name, kernel=kernel: kernel)
        )
        for implementation in ("eager", "sdpa", "flex_attention"):
            config = SimpleNamespace(hidden_size=32, num_attention_heads=2, _attn_implementation=implementation)
            found.append(is_in_kernel(SimpleNamespace(config=config, dtype=torch.float32), tables))
    assert found == [True, True, False, False, False, False]
