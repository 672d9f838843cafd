"""SLA models: equality with transformers' classes at gate 0, gates, masks, and baselines."""

import copy
import logging
import pickle

import pytest
import torch
from transformers import (
    AttentionInterface,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from hf_localattn import SlaBertConfig, SlaBertForSequenceClassification, SlaBertModel, SlaBertTokenizer
from hf_localattn.models.sla_baselines import ancestor_mask
from hf_localattn.models.sla_masks import limited_rows
from hf_localattn.models.sla_self_attention import LocalAttentionRecord, prepared_mask, self_attentions
from hf_localattn.registry import FAMILIES
from hf_localattn.resources import tiny_backbone
from tests.models.tiny import (
    COMMON,
    adapted,
    at_tokens,
    gradients,
    labels,
    run,
    tiny_config,
    tiny_model,
    token_ids,
)
from tests.reference import sla as reference

STOCK = {
    "question-answering": AutoModelForQuestionAnswering,
    "text-classification": AutoModelForSequenceClassification,
    "token-classification": AutoModelForTokenClassification,
    "multiple-choice": AutoModelForMultipleChoice,
    "fill-mask": AutoModelForMaskedLM,
}
STOCK_CASES = [(task, backbone) for task in STOCK for backbone in SlaBertConfig.tested_backbones]
MASK = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6])


@pytest.fixture
def inputs():
    return {"input_ids": token_ids(3, 11), "attention_mask": MASK}


def stock_twin(model, task):
    """Return transformers' task class with the same weights."""
    config = copy.deepcopy(model.config.backbone_config)
    config.num_labels = model.config.num_labels
    twin = STOCK[task].from_config(config).eval()
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


def outputs_of(output):
    return [output[name] for name in ("logits", "start_logits", "end_logits") if name in output]


def without_structure(inputs):
    return {name: value for name, value in inputs.items() if name not in SlaBertModel.token_inputs}


def set_gates(model, weight, bias):
    for name, parameter in model.named_parameters():
        if ".gate." in name:
            torch.nn.init.constant_(parameter, bias if name.endswith("bias") else weight)


# --- the backbone's own classes


@pytest.mark.parametrize(("task", "backbone"), STOCK_CASES)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_closed_gates_are_the_stock_class(task, backbone, implementation):
    model = tiny_model("sla-bert", task, backbone)
    twin = stock_twin(model, task)
    model.set_attn_implementation(implementation)
    twin.set_attn_implementation(implementation)
    for mask in (torch.ones(2, 11, dtype=torch.long), MASK[:2]):
        ids = token_ids(2, 11).masked_fill(mask == 0, model.config.pad_token_id)
        ours = adapted(model, input_ids=ids, attention_mask=mask, **labels(task, 2, 11))
        expected = twin(**without_structure(ours), output_hidden_states=True)
        set_gates(model, 0.0, 0.0)
        assert not torch.equal(outputs_of(model(**ours))[0], outputs_of(expected)[0])
        set_gates(model, 0.0, -1e4)
        actual = model(**ours, output_hidden_states=True)
        for one, other in zip(outputs_of(actual), outputs_of(expected), strict=True):
            (one,), (other,) = (at_tokens(task, [each], mask) for each in (one, other))
            assert torch.equal(one, other)
        for one, other in zip(actual.hidden_states, expected.hidden_states, strict=True):
            assert torch.equal(one[mask.bool()], other[mask.bool()])
    # The loss of transformers' class includes padding if it reads all tokens.
    if task in ("text-classification", "multiple-choice"):
        assert torch.equal(actual.loss, expected.loss)


@pytest.mark.parametrize(("task", "backbone"), STOCK_CASES)
def test_an_open_mask_is_the_stock_class_for_any_gate(task, backbone):
    model = tiny_model("sla-bert", task, backbone)
    twin = stock_twin(model, task)
    mask = torch.ones(2, 11, dtype=torch.long)
    ours = adapted(model, input_ids=token_ids(2, 11), attention_mask=mask)
    for name in model.token_inputs:
        ours[name] = torch.full_like(ours[name], -1)
    expected = outputs_of(twin(**without_structure(ours)))
    for weight, bias in ((0.0, 0.0), (3.0, 1.0)):
        set_gates(model, weight, bias)
        for one, other in zip(outputs_of(model(**ours)), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_the_parameters_are_those_of_the_paper():
    sizes = {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "vocab_size": 9}
    with torch.device("meta"):
        config = SlaBertConfig(backbone_config={"model_type": "bert", **sizes})
        model = SlaBertForSequenceClassification(config)
        stock = AutoModelForSequenceClassification.from_config(config.backbone_config)
    assert model.num_parameters() - stock.num_parameters() == 12 * 769


def test_a_stock_checkpoint_gives_its_pooler(tmp_path):
    stock = AutoModelForSequenceClassification.from_config(tiny_config("sla-bert").backbone_config)
    stock.save_pretrained(tmp_path)
    model = SlaBertForSequenceClassification.from_backbone(tmp_path)
    assert torch.equal(model.backbone_model.pooler.dense.weight, stock.bert.pooler.dense.weight)


@pytest.mark.parametrize(("task", "has_one"), [("text-classification", True), ("question-answering", False)])
def test_only_heads_that_use_the_pooler_keep_it(task, has_one, tmp_path, caplog):
    tiny_model("sla-bert").save_pretrained(tmp_path)
    model = FAMILIES["sla-bert"].heads[task].from_pretrained(tmp_path)
    assert (model.backbone_model.pooler is not None) is has_one
    assert "UNEXPECTED" not in caplog.text


# --- the mechanism inside the model


@pytest.mark.parametrize("kind", ["syntax", "window"])
def test_every_layer_computes_the_equations(kind, inputs):
    """Compare gates, local and mixed attention of each layer with float64 loops over the layer's input."""
    model = tiny_model("sla-bert", local_attention=kind).double()
    model.set_attn_implementation("eager")
    given = adapted(model, **inputs)
    output = model(**given, output_attentions=True, output_hidden_states=True)
    for row, mask in enumerate(MASK.bool().tolist()):
        words, heads = (given[name][row].tolist() for name in ("word_index", "dep_heads"))
        near = reference.syntax_mask(words, heads, threshold=1) if kind == "syntax" else reference.window_mask(words)
        for layer, module in enumerate(model.backbone_model.encoder.layer):
            attention = module.attention.self
            states = output.hidden_states[layer][row]
            gates = torch.sigmoid(states @ attention.gate.weight[0] + attention.gate.bias)
            torch.testing.assert_close(output.gates[layer][row], gates, rtol=1e-12, atol=1e-12)
            for head in range(2):
                part = slice(16 * head, 16 * head + 16)
                query, key = (projection(states)[:, part] for projection in (attention.query, attention.key))
                for i in range(11):
                    if not mask[i]:
                        continue
                    scores = (key @ query[i]) / 4
                    allowed = torch.tensor([near[i][j] and mask[j] for j in range(11)])
                    local, everywhere = (
                        torch.softmax(scores.masked_fill(~seen, -torch.inf), 0)
                        for seen in (allowed, torch.tensor(mask))
                    )
                    mixed = gates[i] * local + (1 - gates[i]) * everywhere
                    found = output.local_attentions[layer][row, head, i], output.attentions[layer][row, head, i]
                    for one, other in zip(found, (local, mixed), strict=True):
                        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_some_layers_alone_can_have_it(inputs):
    model = tiny_model("sla-bert", sla_layers=[1])
    model.set_attn_implementation("eager")
    output = run(model, **inputs, output_attentions=True)
    assert len(output.gates) == len(output.local_attentions) == 1
    assert len(output.attentions) == 2
    assert sum(".gate." in name for name, _ in model.named_parameters()) == 2
    with pytest.raises(ValueError, match=r"`sla_layers` is \[2\]; .* from 0 to 1"):
        SlaBertConfig(backbone_config=model.config.backbone_config, sla_layers=[2])


def test_gates_begin_where_the_configuration_says(inputs):
    gates = run(
        SlaBertModel(tiny_config("sla-bert", gate_bias_init=-3.0)).eval(), **inputs, output_attentions=True
    ).gates
    torch.testing.assert_close(torch.stack(gates).mean(), torch.tensor(-3.0).sigmoid(), rtol=0.2, atol=0)


def test_copies_keep_their_own_gates(inputs):
    model = tiny_model("sla-bert")
    clone = copy.deepcopy(model)
    set_gates(clone, 0.0, 50.0)
    assert all(gate.eq(1).all() for gate in run(clone, **inputs, output_attentions=True).gates)
    assert not any(gate.eq(1).any() for gate in run(model, **inputs, output_attentions=True).gates)
    clone.set_attn_implementation("eager")
    assert model.backbone_model.config._attn_implementation == "sdpa"


def test_the_backbone_alone_is_the_plain_one(inputs):
    model = tiny_model("sla-bert")
    plain = stock_twin(tiny_model("sla-bert", "text-classification"), "text-classification").bert
    plain.load_state_dict({k: v for k, v in model.backbone_model.state_dict().items() if ".gate." not in k})
    expected = plain(**inputs).last_hidden_state
    assert torch.equal(model.backbone_model(**inputs).last_hidden_state, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["syntax", "window", "sgnet"])
def test_no_mask_gives_nan(kind, implementation, dtype):
    model = tiny_model("sla-bert", local_attention=kind, syntax_threshold=0, neighbor_window=0, window_size=0)
    model.to(dtype).set_attn_implementation(implementation)
    model = model.train()
    for parameter in model.parameters():
        parameter.data.mul_(3)
    for mask in (torch.ones(2, 9), torch.zeros(2, 9), torch.eye(9)[:2], torch.tensor([[0, 1] * 4 + [0], [1] * 9])):
        given = {"input_ids": token_ids(2, 9), "attention_mask": mask.long()}
        # Every token is a word of its own.
        alone = torch.arange(9).expand(2, 9).masked_fill(mask == 0, -1)
        output = model(**given, word_index=alone, dep_heads=alone)
        assert output.last_hidden_state.isfinite().all()
        output.last_hidden_state.float().square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


# --- the baselines


def test_the_guided_layer_sees_ancestors_and_is_half_of_the_answer(inputs):
    model = tiny_model("sla-bert", local_attention="sgnet").double()
    model.set_attn_implementation("eager")
    torch.nn.init.zeros_(model.syntax_layer.mixture)
    given = adapted(model, **inputs)
    output = model(**given, output_attentions=True, output_hidden_states=True)
    (local,) = output.local_attentions
    seen = ancestor_mask(given["word_index"], given["dep_heads"]) & MASK.bool().unsqueeze(1)
    assert torch.equal(local[0, 0] > 0, seen[0])
    encoded = output.hidden_states[-1]
    with torch.no_grad():
        model.syntax_layer.mixture.copy_(torch.tensor([40.0, -40.0]))
        alone = model(**given).last_hidden_state
        model.syntax_layer.mixture.copy_(torch.tensor([-40.0, 40.0]))
        guided = model(**given).last_hidden_state
        model.syntax_layer.mixture.copy_(torch.tensor([0.3, -0.9]))
        mixed = model(**given).last_hidden_state
    expected = reference.sgnet_mixture(encoded[0], guided[0], torch.tensor([0.3, -0.9], dtype=mixed.dtype))
    torch.testing.assert_close(mixed[0], expected, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(alone[MASK.bool()], encoded[MASK.bool()])
    torch.testing.assert_close(output.last_hidden_state[MASK.bool()], (0.5 * (encoded + guided))[MASK.bool()])


def test_guided_layers_are_stacked_and_named_as_one_was(inputs):
    one = tiny_model("sla-bert", local_attention="sgnet")
    assert not [name for name in one.state_dict() if "further_layers" in name]
    model = tiny_model("sla-bert", local_attention="sgnet", num_sgnet_layers=3).double()
    of_layer = sum(weight.numel() for weight in one.syntax_layer.layer.parameters())
    assert model.num_parameters() - one.num_parameters() == 2 * of_layer
    with torch.no_grad():
        model.syntax_layer.mixture.copy_(torch.tensor([-40.0, 40.0]))
    given = adapted(model, **inputs)
    output = model(**given, output_hidden_states=True)
    expected, mask = output.hidden_states[-1], MASK.bool()
    seen = ancestor_mask(given["word_index"], given["dep_heads"])
    rows = limited_rows(lambda rows: seen[:, rows], mask)(slice(None))
    allowed = prepared_mask(rows, model.backbone.config, model.dtype)
    for layer in (model.syntax_layer.layer, *model.syntax_layer.further_layers):
        expected = layer(expected, allowed, record=LocalAttentionRecord(mask=allowed))
    torch.testing.assert_close(output.last_hidden_state[mask], expected[mask])


def test_the_last_head_of_every_layer_is_taught_the_parents(inputs):
    task = "token-classification"
    model = tiny_model("sla-bert", task, local_attention="lisa", lisa_loss_weight=0.3).double()
    model.set_attn_implementation("eager")
    given = adapted(model, **inputs)
    answers = labels(task, 3, 11)
    output = model(**given, **answers, output_attentions=True)
    losses = []
    for attention in output.attentions:
        for row, position in (given["dep_heads"] >= 0).nonzero().tolist():
            losses.append(-attention[row, -1, position, given["dep_heads"][row, position]].log())
    plain = torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), answers["labels"].flatten())
    # Backbone and attention are in double precision, but the loss of transformers' head is in single.
    torch.testing.assert_close(output.loss, plain + 0.3 * torch.stack(losses).mean(), rtol=1e-6, atol=1e-6)
    half = model(**given, **answers, num_items_in_batch=torch.tensor(66))
    torch.testing.assert_close(half.loss, output.loss / 2, rtol=1e-6, atol=1e-6)


def test_lisa_needs_heads_in_training_alone(inputs):
    model = tiny_model("sla-bert", "token-classification", local_attention="lisa")
    expected = run(model, **inputs).logits
    assert torch.equal(model(**inputs).logits, expected)
    with pytest.raises(ValueError, match="needs `dep_heads` in training"):
        model.train()(**inputs, **labels("token-classification", 3, 11))


TRACED_AT_NIGHT = pytest.mark.slow(
    reason="tracing takes two seconds; of a kind like this, `syntax`, it is in the contract"
)


@pytest.mark.parametrize(
    "kind", [pytest.param("window", marks=TRACED_AT_NIGHT), "lisa", pytest.param("sgnet", marks=TRACED_AT_NIGHT)]
)
@torch.no_grad()
def test_every_kind_compiles(kind, inputs):
    torch.compiler.reset()
    model = tiny_model("sla-bert", "token-classification", local_attention=kind)
    given = adapted(model, **inputs, **labels("token-classification", 3, 11))
    compiled = torch.compile(model, fullgraph=True, backend="eager")  # gradients: test_family_contract.py
    torch.testing.assert_close(compiled(**given).loss, model(**given).loss, rtol=1e-6, atol=1e-6)


def test_a_checkpoint_works_without_its_parser(tmp_path):
    """By the words around each word, as the error for missing heads says."""
    model = tiny_model("sla-bert", local_attention="syntax")
    model.save_pretrained(tmp_path)
    backbone = AutoTokenizer.from_pretrained(tiny_backbone())
    SlaBertTokenizer.from_backbone(backbone, parser="not_installed").save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path, local_attention="window")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, parser=None)
    encoded = tokenizer(["The farmer works."], return_tensors="pt")
    encoded["input_ids"] %= 59  # the model's vocabulary is smaller
    assert "dep_heads" not in encoded
    assert loaded(**encoded).last_hidden_state.isfinite().all()
    with pytest.raises(ValueError, match="`local_attention='window'`"):
        model(**encoded)


@pytest.mark.parametrize("task", ["question-answering", "token-classification", "fill-mask"])
def test_the_loss_of_the_layers_is_scaled_with_that_of_the_task(task, inputs):
    """A caller that divides by `num_items_in_batch` adds up batches: twice as many items, half the loss."""
    model = tiny_model("sla-bert", task, local_attention="lisa")
    given = {**adapted(model, **inputs), **labels(task, *inputs["input_ids"].shape)}
    items = 3 if task == "question-answering" else int((given["labels"] != -100).sum())
    once, half = (model(**given, num_items_in_batch=torch.tensor(number)).loss for number in (items, 2 * items))
    torch.testing.assert_close(2 * half, once)
    if task == "token-classification":
        torch.testing.assert_close(once, model(**given).loss)


# --- bad input


@pytest.mark.parametrize("kind", ["syntax", "window", "sgnet"])
def test_what_is_missing_is_named(kind, inputs):
    model = tiny_model("sla-bert", local_attention=kind)
    with pytest.raises(ValueError, match="needs `word_index`, which SlaBertTokenizer returns"):
        model(**inputs)
    given = adapted(model, **inputs)
    if kind == "window":
        assert model(**inputs, word_index=given["word_index"], output_attentions=True).gates
        return
    with pytest.raises(ValueError, match=r"needs `dep_heads`, .*if it has a `parser`"):
        model(**inputs, word_index=given["word_index"])
    with pytest.raises(ValueError, match=r"`dep_heads` has shape \(3, 10\)"):
        model(**inputs, word_index=given["word_index"], dep_heads=given["dep_heads"][:, 1:])
    given["dep_heads"][0, 1:10] = given["dep_heads"][0, 1:10].roll(1)
    with pytest.raises(ValueError, match="of row 0 at position"):
        model(**given)


@pytest.mark.parametrize("implementation", ["flash_attention_2", "paged|eager"])
def test_an_attention_that_drops_the_mask_is_refused(implementation, tmp_path):
    model = tiny_model("sla-bert", "text-classification")
    model.save_pretrained(tmp_path)
    message = "is not supported with local attention.*silently.* Use one of 'eager', 'sdpa', 'flex_attention'"
    with pytest.raises(ValueError, match=message):
        model.set_attn_implementation(implementation)
    with pytest.raises(ValueError, match=message):
        SlaBertForSequenceClassification.from_pretrained(tmp_path, attn_implementation=implementation)
    model.backbone_model.config._attn_implementation = implementation  # past all checks
    with pytest.raises(ValueError, match=message):
        run(model, input_ids=token_ids(2, 5))


@pytest.mark.parametrize("kind", ["syntax", "lisa", "sgnet"])
def test_self_attentions_show_the_implementation_that_is_set(kind):
    """They register no attention function, since all models of a process share the registry."""
    model = tiny_model("sla-bert", local_attention=kind)
    local = [module for module in model.modules() if type(module).__name__ == "LocalBertSelfAttention"]
    assert len(local) == (1 if kind == "sgnet" else 2)
    for implementation in ("eager", "sdpa"):
        model.set_attn_implementation(implementation)
        assert all(module.config is model.backbone_model.config for module in local)
        assert model.backbone_model.config._attn_implementation == implementation
    assert not [name for name in AttentionInterface._global_mapping if "local" in name]


def test_a_model_survives_pickling(inputs):
    model = tiny_model("sla-bert")
    clone = pickle.loads(pickle.dumps(model))
    assert torch.equal(run(clone, **inputs).last_hidden_state, run(model, **inputs).last_hidden_state)
    set_gates(clone, 0.0, 50.0)
    assert all(gate.eq(1).all() for gate in run(clone, **inputs, output_attentions=True).gates)
    assert not any(gate.eq(1).any() for gate in run(model, **inputs, output_attentions=True).gates)


def test_an_encoder_that_computes_otherwise_is_refused():
    """Its self-attention has parts that BERT's does not have."""
    backbone = tiny_model("sla-bert", local_attention="none").backbone_model
    backbone.encoder.layer[1].attention.self.distance = torch.nn.Embedding(3, 16)
    with pytest.raises(ValueError, match="'bert' cannot have local attention inside its layers"):
        self_attentions(backbone)


@pytest.mark.parametrize("backbone", ["albert", "distilbert", "deberta-v2", "modernbert", "xlnet", "mpnet"])
def test_other_builds_are_refused(backbone, tmp_path):
    with pytest.raises(ValueError, match=f"{backbone!r} cannot have local attention inside its layers"):
        tiny_model("sla-bert", backbone=backbone)


def test_an_encoder_built_like_bert_runs_with_a_warning(inputs, caplog):
    backbone = {"model_type": "xlm-roberta", **COMMON, "pad_token_id": 1, "type_vocab_size": 1}
    logging.getLogger("transformers").propagate = True
    model = SlaBertForSequenceClassification(SlaBertConfig(backbone_config=backbone)).eval()
    assert "'xlm-roberta' is not among the tested ones (bert, roberta, electra)" in caplog.text
    assert len(run(model, **inputs, output_attentions=True).gates) == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("sla_layers", 3, "`sla_layers` is 3; .* list"),
        ("sla_layers", [1, 1], r"`sla_layers` is \[1, 1\]; give a list of distinct"),
        ("sla_layers", [[0]], r"`sla_layers` is \[\[0\]\]; .* list"),
        ("sla_layers", [], r"`sla_layers` is \[\]; give a list"),
    ],
)
def test_impossible_fields_are_named(field, value, message):
    with pytest.raises(ValueError, match=message):
        SlaBertConfig(**{field: value})


def test_what_stands_at_pads_does_not_matter(inputs):
    """Pipelines do not know these inputs and pad them with 0."""
    for kind in ("syntax", "window", "lisa", "sgnet"):
        model = tiny_model("sla-bert", "token-classification", local_attention=kind)
        given = adapted(model, **inputs) | labels("token-classification", 3, 11)
        pads = (MASK == 0) & torch.tensor([[False], [True], [False]])  # on the right
        zeros = {name: given[name].masked_fill(pads, 0) for name in model.token_inputs}
        assert torch.equal(model(**{**given, **zeros}).loss, model(**given).loss)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_heads_that_were_not_moved_by_padding_on_the_left(implementation):
    """Pipelines pad on the tokenizer's padding side, and do not know that heads are positions."""
    for kind in ("syntax", "lisa", "sgnet"):
        model = tiny_model("sla-bert", "token-classification", local_attention=kind)
        model.set_attn_implementation(implementation)
        ids, padded_ids = token_ids(1, 6), torch.zeros(1, 9, dtype=torch.long)
        padded_ids[:, 3:] = ids
        mask = torch.tensor([[0] * 3 + [1] * 6])
        alone = adapted(model, input_ids=ids)
        unmoved = {name: torch.nn.functional.pad(alone[name], (3, 0)) for name in model.token_inputs}
        given = {"input_ids": padded_ids, "attention_mask": mask, **unmoved}
        expected = model(**alone, labels=ids % 2).loss
        answers = torch.nn.functional.pad(ids % 2, (3, 0), value=-100)
        torch.testing.assert_close(model(**given, labels=answers).loss, expected, rtol=1e-5, atol=1e-5)


def test_lisa_names_heads_that_cannot_be(inputs):
    model = tiny_model("sla-bert", "token-classification", local_attention="lisa")
    given = adapted(model, **inputs) | labels("token-classification", 3, 11)
    for wrong, message in ((99, "is 99: this head is outside the 11 tokens"), (0, "at a special token or padding")):
        heads = given["dep_heads"].clone()
        heads[0, 3] = wrong
        with pytest.raises(ValueError, match=message):
            model(**{**given, "dep_heads": heads})
        with pytest.raises(ValueError, match=message):
            model(**{**given, "dep_heads": heads, "word_index": None})


def test_lisa_is_not_silent_under_reentrant_checkpointing(inputs):
    model = tiny_model("sla-bert", "token-classification", local_attention="lisa").train()
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)({"use_reentrant": True})
    with pytest.raises(ValueError, match="`use_reentrant=False`"):
        gradients(model, "token-classification", **inputs)


def test_the_dropout_of_the_heads_can_be_set(tmp_path):
    tiny_model("sla-bert", "text-classification").save_pretrained(tmp_path)
    model = SlaBertForSequenceClassification.from_pretrained(tmp_path, classifier_dropout=0.3)
    assert model.sequence_classifier.dropout.p == 0.3
    assert model.config.backbone_config.classifier_dropout == 0.3


def test_a_bottleneck_is_refused():
    sizes = {"hidden_size": 32, "intra_bottleneck_size": 16, "embedding_size": 16, "num_attention_heads": 2}
    backbone = {"model_type": "mobilebert", "vocab_size": 59, "num_hidden_layers": 1, **sizes}
    with pytest.raises(ValueError, match="'mobilebert' cannot have local attention"):
        SlaBertModel(SlaBertConfig(backbone_config=backbone))
