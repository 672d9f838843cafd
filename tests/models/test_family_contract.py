"""What every model class of every family owes its users; a new family joins by its line in the registry."""

import copy
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel
from transformers import PreTrainedModel as TransformersModel

from hf_localattn.registry import AUTO_CLASSES, FAMILIES
from tests.models.naive import assert_same
from tests.models.tiny import (
    CASES,
    ENCODER_HEADS,
    MARKED_CASES,
    OTHER_FIELD,
    TINY_BACKBONES,
    TRACEABLE,
    adapted,
    at_tokens,
    backbones_of,
    by_index,
    enable_checkpointing,
    gradients,
    loss,
    main_outputs,
    marks_of,
    run,
    tiny_config,
    tiny_model,
    token_ids,
    with_one_layer,
)

OTHER_BACKBONES = pytest.mark.slow(reason="many; a head is the same on all backbones, which show all else headless")


def _is_default(name, backbone):
    return backbone == FAMILIES[name].config.tested_backbones[0]


def _on_backbones(with_all_heads=()):
    def marks(name, task, backbone):
        if task == "headless" or name in with_all_heads:
            return ()
        return marks_of(name, task) if _is_default(name, backbone) else OTHER_BACKBONES

    return [
        pytest.param(name, task, backbone, id=f"{name}-{task}-{backbone}", marks=marks(name, task, backbone))
        for name, task in CASES
        for backbone in backbones_of(name, task)
    ]


BACKBONE_CASES = _on_backbones()
WEIGHTS_CASES = _on_backbones(with_all_heads=["sla-bert"])
"""All heads of SLA on all backbones: they are the backbones' own heads, with names of their own."""

TESTED = [(name, backbone) for name, family in FAMILIES.items() for backbone in family.config.tested_backbones]
EAGER_ONLY = ("deberta-v2", "xlnet")
CAPABLE = {"oa-xlnet": {"backbone": "bert"}}
"""On what a family shows checkpointing and export where its default backbone has neither."""


SHARED_HEADS = pytest.mark.slow(reason="tracing takes long, and a head is a layer or two on what is traced headless")
LARGE_GRAPH = pytest.mark.slow(reason="XLNet's graph alone takes as long as all others")
TRACED = [
    pytest.param(case, marks=SHARED_HEADS if case[1] != "headless" else LARGE_GRAPH if case[0] == "oa-xlnet" else ())
    for case in CASES
]


@pytest.fixture(params=[pytest.param(case, id="-".join(case), marks=marks_of(*case)) for case in CASES])
def case(request):
    return request.param


@pytest.fixture
def model(case):
    return tiny_model(*case)


@pytest.fixture
def task(case):
    return case[1]


@pytest.fixture
def inputs():
    mask = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6])
    return {"input_ids": token_ids(3, 11), "attention_mask": mask}


def assert_close(actual, expected, tolerance=1e-6):
    assert_same(actual, expected, tolerance)


def assert_equal(actual, expected):
    assert_same(actual, expected, 0)


def pad(ids, length, side, pad_id):
    padding, mask = length - ids.shape[1], torch.ones_like(ids)
    before = {"left": padding, "right": 0, "both": padding // 2}[side]
    shape = (before, padding - before)
    return {
        "input_ids": torch.nn.functional.pad(ids, shape, value=pad_id),
        "attention_mask": torch.nn.functional.pad(mask, shape),
    }


def check_padding(model, task, side):
    """Sequences say the same alone and padded beside longer ones, by ids or by embeddings."""
    rows = [token_ids(1, tokens, seed=tokens) for tokens in (1, 2, 5, 8, 11)]
    padded = [pad(ids, 11, side, model.config.pad_token_id) for ids in rows]
    batch = {key: torch.cat([row[key] for row in padded]) for key in padded[0]}
    mask = batch["attention_mask"]
    together = at_tokens(task, main_outputs(run(model, **batch)), mask)
    alone = [at_tokens(task, main_outputs(run(model, input_ids=ids)), torch.ones_like(ids)) for ids in rows]
    assert_close(together, [torch.cat(outputs) for outputs in zip(*alone, strict=True)], tolerance=1e-5)
    embeds = model.get_input_embeddings()(batch["input_ids"])
    by_embeds = main_outputs(run(model, inputs_embeds=embeds, attention_mask=mask))
    assert_close(at_tokens(task, by_embeds, mask), together, tolerance=1e-5)


def auto_class(task):
    return AutoModel if task == "headless" else AUTO_CLASSES[task]


# --- outputs


def test_return_dict_both_ways(model, inputs):
    as_dict = run(model, **inputs, return_dict=True)
    as_tuple = run(model, **inputs, return_dict=False)
    assert isinstance(as_tuple, tuple)
    assert_equal(as_tuple, as_dict.to_tuple())
    model.config.return_dict = False
    assert isinstance(run(model, **inputs), tuple)


def test_hidden_states_and_attentions_are_complete(model, inputs, task):
    """As asked for in the call or in the configuration. Further outputs stay out of Trainer's predictions."""
    model.set_attn_implementation("eager")
    plain = run(model, **inputs)
    assert [plain[name] for name in ("hidden_states", "attentions", "local_attentions") if name in plain] == []
    in_the_call = run(model, **inputs, output_hidden_states=True, output_attentions=True)
    model.config.output_hidden_states = model.config.output_attentions = True
    for output in (in_the_call, run(model, **inputs)):
        assert [tuple(states.shape) for states in output.hidden_states] == [(3, 11, 32)] * 3
        assert [tuple(attention.shape) for attention in output.attentions] == [(3, 2, 11, 11)] * 2
        assert len(output.local_attentions) == getattr(model.config, "num_active_local_layers", 0)
        assert_close(main_outputs(plain), main_outputs(output))
        kept = [name for name in output if name not in model.config.keys_to_ignore_at_inference]
        main = {"headless": ["last_hidden_state"], "question-answering": ["start_logits", "end_logits"]}
        assert kept == main.get(task, ["logits"])


@by_index
@pytest.mark.parametrize("asked", [[0, -1], (1, 7, -9), 2], ids=str)
def test_some_hidden_states_can_be_asked_for(model, inputs, asked):
    """By index, as transformers has it. Some backbones, such as XLNet, give all."""
    every = run(model, **inputs, output_hidden_states=True).hidden_states
    wanted = {index % 3 for index in ([asked] if isinstance(asked, int) else asked) if -3 <= index < 3}
    in_the_call = run(model, **inputs, output_hidden_states=asked)
    model.config.output_hidden_states = asked
    for output in (in_the_call, run(model, **inputs)):
        assert all(torch.equal(output.hidden_states[place], every[place]) for place in wanted)
    assert run(model, **inputs, output_hidden_states=False).hidden_states is None


@by_index
@pytest.mark.parametrize("backbone", FAMILIES["cool"].config.tested_backbones)
def test_some_hidden_states_of_every_backbone(backbone, inputs, tmp_path):
    tiny_model("cool", backbone=backbone).save_pretrained(tmp_path)
    chosen = AutoModel.from_pretrained(tmp_path, output_hidden_states=[0, -2])(**inputs).hidden_states
    every = tiny_model("cool", backbone=backbone)(**inputs, output_hidden_states=True).hidden_states
    assert all(torch.equal(chosen[place], every[place]) for place in (0, len(every) - 2))


# --- inputs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ids, mask: {"attention_mask": mask}, "`input_ids`"),
        (lambda ids, mask: {"input_ids": ids, "attention_mask": mask[:, 1:]}, r"`attention_mask` .*\(3, 10\)"),
        (lambda ids, mask: {"input_ids": ids, "attention_mask": mask[:, None, None]}, r"`attention_mask` .*\(3, 1,"),
    ],
    ids=["no ids", "a short mask", "a mask of pairs"],
)
def test_wrong_inputs_are_named(model, inputs, change, message):
    with pytest.raises(ValueError, match=message):
        run(model, **change(*inputs.values()))


@pytest.mark.parametrize(("name", "task", "backbone"), BACKBONE_CASES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_batching_change_nothing(name, task, backbone, side):
    check_padding(tiny_model(name, task, backbone), task, side)


@pytest.mark.parametrize("backbone", ["bert", "roberta"])
def test_right_padding_gives_the_backbones_own_positions(backbone, inputs):
    """Without left padding the backbone inside computes bit for bit what it computes alone."""
    model = tiny_model("cool", backbone=backbone)
    mask = torch.tensor([[1] * 11, [1] * 7 + [0] * 4])
    ids = token_ids(2, 11).masked_fill(mask == 0, model.config.pad_token_id)
    inside = model(ids, attention_mask=mask, output_hidden_states=True).hidden_states[-1]
    alone = model.backbone_model(ids, attention_mask=mask).last_hidden_state
    assert torch.equal(inside[mask.bool()], alone[mask.bool()])


def test_any_mask_that_is_not_zero_marks_a_token(model, inputs, task):
    expected = main_outputs(run(model, **inputs))
    for mask in (inputs["attention_mask"].bool(), inputs["attention_mask"].float()):
        outputs = main_outputs(run(model, input_ids=inputs["input_ids"], attention_mask=mask))
        assert_close(at_tokens(task, outputs, mask), at_tokens(task, expected, mask))


def test_an_untested_backbone_keeps_its_own_positions():
    model = tiny_model("cool", backbone="mpnet")
    ids = token_ids(2, 7)
    with_mask = model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    assert torch.equal(with_mask, model(ids).last_hidden_state)


def test_a_row_of_pads_is_finite(model, inputs, task):
    inputs["attention_mask"][1] = 0
    assert all(output.isfinite().all() for output in main_outputs(run(model, **inputs)))
    assert all(gradient.isfinite().all() for gradient in gradients(model.train(), task, **inputs).values())


# --- training


@pytest.mark.parametrize(("name", "task", "backbone"), BACKBONE_CASES)
def test_every_trainable_parameter_gets_a_gradient(name, task, backbone, inputs):
    model = tiny_model(name, task, backbone).train()
    found = gradients(model, task, **inputs)
    assert [parameter for parameter, gradient in found.items() if gradient is None] == []
    # By the softmax over the choices.
    canceled = ("choice_classifier.output.bias", "choice_classifier.head.bias")
    silent = [name for name, gradient in found.items() if "backbone" not in name and not gradient.any()]
    assert set(silent) <= set(canceled)


def test_gradient_checkpointing_gives_the_same_gradients(case, inputs, task):
    model = tiny_model(*case, **CAPABLE.get(case[0], {})).train()
    expected = gradients(model, task, **inputs)
    enable_checkpointing(model)
    assert sum(getattr(module, "gradient_checkpointing", False) for module in model.modules()) > 2
    actual = gradients(model, task, **inputs)
    assert_close(actual.values(), expected.values())


@pytest.mark.parametrize("name", [name for name, backbone in TESTED if backbone == "albert"])
def test_gradient_checkpointing_is_refused_where_the_backbone_has_none(name):
    model = tiny_model(name, backbone="albert")
    with pytest.raises(ValueError, match=r"does not support \w+ checkpointing"):
        enable_checkpointing(model)


# --- precision, devices, compilers


@pytest.mark.parametrize(("name", "task", "backbone"), BACKBONE_CASES)
def test_eager_equals_sdpa(name, task, backbone, inputs):
    model = tiny_model(name, task, backbone)
    if backbone in EAGER_ONLY:
        with pytest.raises(ValueError, match="does not support an attention implementation"):
            type(model)._from_config(tiny_config(name, backbone), attn_implementation="sdpa")
        return
    model.set_attn_implementation("sdpa")
    sdpa = at_tokens(task, main_outputs(run(model, **inputs)), inputs["attention_mask"])
    model.set_attn_implementation("eager")
    assert model.backbone_model.config._attn_implementation == "eager"
    eager = at_tokens(task, main_outputs(run(model, **inputs)), inputs["attention_mask"])
    assert_close(eager, sdpa, tolerance=1e-5)


@pytest.mark.slow(reason="flex attention is compiled, which takes minutes")
def test_flex_equals_eager(model, inputs, task):
    eager = at_tokens(task, main_outputs(run(model, **inputs)), inputs["attention_mask"])
    model.set_attn_implementation("flex_attention")
    with torch.no_grad():  # flex has no backward on a CPU
        flex = at_tokens(task, main_outputs(run(model, **inputs)), inputs["attention_mask"])
    assert_close(flex, eager, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(model, inputs, task, dtype):
    full = main_outputs(run(model, **inputs))
    model.to(dtype)
    outputs = main_outputs(run(model, **inputs))
    for half, single in zip(outputs, full, strict=True):
        assert half.dtype == dtype
        torch.testing.assert_close(half.float(), single, rtol=0.1, atol=0.1)
    assert all(gradient.isfinite().all() for gradient in gradients(model.train(), task, **inputs).values())


def test_autocast(model, inputs, task):
    full = main_outputs(run(model, **inputs))
    with torch.autocast("cpu", torch.bfloat16):
        outputs = main_outputs(run(model, **inputs))
        value = loss(model.train(), task, **inputs)
    for half, single in zip(outputs, full, strict=True):
        torch.testing.assert_close(half.float(), single, rtol=0.1, atol=0.1)
    value.backward()


@pytest.mark.parametrize("case", TRACED, ids="-".join)
def test_compiles_as_one_graph(case, inputs, task):
    """As it is trained; a graph of its answers is what is exported below."""
    model = with_one_layer(tiny_model(*case, **TRACEABLE.get(case[0], {}))).train()
    expected = gradients(model, task, **inputs)
    torch.compiler.reset()
    model.zero_grad(set_to_none=True)
    loss(model, task, run_by=torch.compile(model, fullgraph=True, backend="aot_eager"), **inputs).backward()
    actual = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert_close(actual.values(), expected.values(), tolerance=1e-5)


@pytest.mark.parametrize("case", TRACED, ids="-".join)
def test_exports_with_any_batch_and_length(case, inputs):
    model = with_one_layer(tiny_model(*case, **CAPABLE.get(case[0], {})))
    inputs = adapted(model, **inputs)
    batch, length = inputs["input_ids"].dim() - 2, inputs["input_ids"].dim() - 1
    shape = {batch: torch.export.Dim("batch", min=2, max=16), length: torch.export.Dim("length", min=2, max=40)}
    program = torch.export.export(model, (), inputs, dynamic_shapes=dict.fromkeys(inputs, shape))
    others = {"input_ids": token_ids(5, 6), "attention_mask": torch.ones(5, 6, dtype=torch.long)}
    others["attention_mask"][1, 4:] = 0
    others = adapted(model, **others)
    assert_close(main_outputs(program.module()(**others)), main_outputs(model(**others)))


# --- weights


@pytest.mark.parametrize(("name", "task", "backbone"), WEIGHTS_CASES)
def test_save_and_load_are_bit_equal(name, task, backbone, inputs, tmp_path):
    model = tiny_model(name, task, backbone)
    model.save_pretrained(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".bin", ".pt", ".pkl")]
    loaded, report = auto_class(task).from_pretrained(tmp_path, output_loading_info=True)
    assert type(loaded) is type(model)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    saved = model.config.backbone_config.to_dict() | {"dtype": "float32"}  # known once it was saved
    assert loaded.config.backbone_config.to_dict() == saved
    assert_equal(loaded.state_dict().values(), model.state_dict().values())
    assert_close(main_outputs(run(loaded, **inputs)), main_outputs(run(model, **inputs)))
    loaded.save_pretrained(tmp_path / "again")
    first, second = load_file(tmp_path / "model.safetensors"), load_file(tmp_path / "again" / "model.safetensors")
    assert first.keys() == second.keys()
    assert_equal(second.values(), (first[name] for name in second))
    trainable, still = ({n: p.requires_grad for n, p in one.named_parameters()} for one in (model, loaded))
    assert still == trainable
    assert None not in gradients(loaded.train(), task, **inputs).values()


def test_deepcopy_is_independent(model, inputs):
    clone = copy.deepcopy(model)
    expected = main_outputs(run(model, **inputs))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert_close(main_outputs(run(clone, **inputs)), expected)


def test_embeddings_resize_and_reload(model, inputs, task, tmp_path):
    expected = main_outputs(run(model, **inputs))
    model.resize_token_embeddings(model.config.vocab_size + 6)
    assert model.config.vocab_size == model.config.backbone_config.vocab_size == 65

    def outputs_of_before(model):  # without the logits of new tokens
        of_tokens = task == "fill-mask"
        return [output[..., :59] if of_tokens else output for output in main_outputs(run(model, **inputs))]

    assert_close(outputs_of_before(model), expected)
    assert run(model, input_ids=token_ids(1, 4) * 0 + 64) is not None
    model.save_pretrained(tmp_path)
    loaded = auto_class(task).from_pretrained(tmp_path)
    assert loaded.get_input_embeddings().num_embeddings == 65
    assert_close(outputs_of_before(loaded), expected)


@pytest.mark.parametrize(("name", "task"), [case for case in MARKED_CASES if case.values[1] != "headless"])
def test_a_headless_checkpoint_loads_into_every_head(name, task, tmp_path):
    headless = tiny_model(name, backbone=backbones_of(name, task)[0])
    headless.save_pretrained(tmp_path)
    loaded, report = auto_class(task).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["unexpected_keys"]
    assert all(not key.startswith(loaded.base_model_prefix) for key in report["missing_keys"])
    weights = headless.state_dict()
    for key, value in loaded.base_model.state_dict().items():
        assert torch.equal(value, weights.pop(key)), key
    assert all(".pooler." in key for key in weights)  # which this head may not have


def test_missing_weights_are_initialized(model, inputs, task, tmp_path, poisoned_memory):
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "backbone" in name}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    first, second = (load_seeded(auto_class(task), tmp_path) for _ in range(2))
    for name, value in first.state_dict().items():
        assert value.isfinite().all(), name
        if name in kept:
            assert torch.equal(value, kept[name])
    assert_equal(first.state_dict().values(), second.state_dict().values())
    assert all(output.isfinite().all() for output in main_outputs(run(first, **inputs)))


def load_seeded(auto, folder):
    torch.manual_seed(3)
    return auto.from_pretrained(folder)


def test_new_layers_keep_the_scale_of_their_input(case, inputs):
    """Random local layers neither drown nor blow up what the backbone says, at any width."""
    states = run(FAMILIES[case[0]].model(tiny_config(case[0])).eval(), **inputs).last_hidden_state
    assert 0.01 < states.std() < 5.0  # a BiLSTM and a sigmoid make it small


def test_builds_on_the_meta_device(model):
    with torch.device("meta"):
        model = type(model)(model.config)
        alone = AutoModel.from_config(model.config.backbone_config)
    built = {name.rpartition("backbone.")[2] for name, parameter in model.named_parameters() if not parameter.is_meta}
    assert built == {name for name, parameter in alone.named_parameters() if not parameter.is_meta}  # some of XLNet's


@pytest.mark.parametrize("name", FAMILIES)
def test_loads_with_a_device_map(name, inputs, tmp_path):
    model = tiny_model(name)
    model.save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path, device_map={"": "cpu"})
    assert_close(main_outputs(run(loaded, **inputs)), main_outputs(run(model, **inputs)))
    for task, model_class in {"headless": type(model), **ENCODER_HEADS[name]}.items():
        own = tiny_config(name, backbones_of(name, task)[0])
        with torch.device("meta"):
            built = model_class(own)
        of_backbone = built.backbone_model._no_split_modules or ()
        assert set(built._no_split_modules) == {*model_class._no_split_modules, *of_backbone}


@pytest.mark.parametrize("place", ["disk", "auto", "backbone", "local layers"])
@pytest.mark.parametrize("name", FAMILIES)
def test_runs_with_weights_on_the_disk(name, place, inputs, tmp_path):
    """Offloaded weights are in memory only while the module that owns them runs."""
    model = tiny_model(name)
    model.save_pretrained(tmp_path)
    parts = [part for part, _ in model.named_children()]
    on_disk = {part: "disk" if (part == "backbone") == (place == "backbone") else "cpu" for part in parts}
    if place in ("backbone", "local layers") and parts == ["backbone"]:
        pytest.skip("the local layers are inside the backbone")
    try:
        loaded = AutoModel.from_pretrained(
            tmp_path,
            device_map={"disk": {"": "disk"}, "auto": "auto"}.get(place, on_disk),
            max_memory={"cpu": sum(parameter.nbytes for parameter in model.parameters()) // 2},
            offload_folder=tmp_path / "offloaded",
        )
    except ValueError as error:
        if "offload the whole model to the disk" not in str(error):
            raise
        pytest.skip("accelerate before 1.15 does not put all weights on the disk")
    assert any(parameter.is_meta for parameter in loaded.parameters())
    for given in (inputs, {"input_ids": inputs["input_ids"]}):
        assert_close(main_outputs(run(loaded, **given)), main_outputs(run(model, **given)))


# --- configuration


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("backbone", TINY_BACKBONES)
def test_common_fields_are_the_backbones(name, backbone):
    config = tiny_config(name, backbone)
    assert config.backbone_config.hidden_size == 32
    assert config.num_attention_heads == 2
    assert config.vocab_size == 59
    config.vocab_size = 60
    assert config.backbone_config.vocab_size == 60


WIDTHS = [
    ("cool", {}, 15),
    ("cool", {"mode": "l2g"}, 32),
    ("cool", {"use_conv": False}, 32),
    ("sam-roberta", {"bilstm_hidden_size": 7}, 14),
    ("sam-roberta", {"pooling": "disan", "disan_hidden_size": 5}, 10),
    ("sam-roberta", {"pooling": "none"}, 32),
    *((name, {}, 32) for name in FAMILIES if name != "cool"),
]


@pytest.mark.parametrize(("name", "fields", "width"), WIDTHS, ids=str)
def test_hidden_size_is_the_width_of_the_output(name, fields, width, tmp_path):
    model = tiny_model(name, **fields)
    model.save_pretrained(tmp_path)
    for one in (model, AutoModel.from_pretrained(tmp_path)):
        output = run(one, input_ids=token_ids(2, 5), output_hidden_states=True)
        assert output.last_hidden_state.shape == (2, 5, one.config.hidden_size) == (2, 5, width)
        assert {states.shape for states in output.hidden_states} == {(2, 5, one.config.backbone_config.hidden_size)}
    assert "hidden_size" not in json.loads((tmp_path / "config.json").read_text())


@pytest.mark.parametrize("name", FAMILIES)
def test_overrides_at_loading_are_checked(name, tmp_path):
    tiny_model(name).save_pretrained(tmp_path)
    config = tiny_config(name)
    config.initializer_range = -1
    for build in (
        lambda: AutoConfig.from_pretrained(tmp_path, initializer_range=-1),
        lambda: AutoModel.from_pretrained(tmp_path, initializer_range="x"),
        lambda: FAMILIES[name].model(config),
    ):
        with pytest.raises(ValueError, match="`initializer_range`"):
            build()


@pytest.mark.parametrize("name", FAMILIES)
def test_every_head_is_in_auto_map(name, tmp_path):
    tiny_model(name).save_pretrained(tmp_path)
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    heads = {AUTO_CLASSES[task].__name__: head.__name__ for task, head in ENCODER_HEADS[name].items()}
    expected = {"AutoConfig": FAMILIES[name].config.__name__, "AutoModel": FAMILIES[name].model.__name__, **heads}
    assert {auto: reference.split(".")[1] for auto, reference in auto_map.items()} == expected
    assert {f"{reference.split('.')[0]}.py" for reference in auto_map.values()} <= {p.name for p in tmp_path.iterdir()}


# --- pretrained backbones


@pytest.mark.parametrize(("name", "task", "backbone"), WEIGHTS_CASES)
def test_from_backbone_keeps_the_pretrained_weights(name, task, backbone, inputs, tmp_path):
    pretrained: TransformersModel = tiny_model("cool", backbone=backbone).backbone_model  # which nothing was put in
    pretrained.save_pretrained(tmp_path)
    family = FAMILIES[name]
    model_class = family.model if task == "headless" else family.heads[task]
    field, value = OTHER_FIELD[name]
    model = model_class.from_backbone(tmp_path, **{field: value})
    assert not model.training
    assert getattr(model.config, field) == value
    weights = model.backbone_model.state_dict()
    assert_equal([weights[key] for key in pretrained.state_dict()], pretrained.state_dict().values())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("name", "backbone"),
    # What the families share in loading is shown on every backbone of one.
    [
        pytest.param(*one, marks=() if one[0] == "cool" or _is_default(*one) else OTHER_BACKBONES, id="-".join(one))
        for one in TESTED
    ],
)
def test_the_type_of_weights_is_the_one_asked_for(name, backbone, dtype, tmp_path):
    tiny_model(name, backbone=backbone).backbone_model.save_pretrained(tmp_path / "backbone")
    model_class = FAMILIES[name].model
    model = model_class.from_backbone(tmp_path / "backbone", dtype=dtype, attn_implementation="eager")
    assert model.backbone_model.config._attn_implementation == "eager"
    model.save_pretrained(tmp_path / "half")
    loaded = AutoModel.from_pretrained(tmp_path / "half")
    for one in (model, loaded):
        assert run(one, input_ids=token_ids(2, 5)).last_hidden_state.isfinite().all()
    full = model_class.from_backbone(tmp_path / "backbone")
    types = [{parameter.dtype for parameter in one.parameters()} for one in (model, loaded, full)]
    assert types == [{dtype}, {dtype}, {torch.float32}]


@pytest.mark.parametrize("name", FAMILIES)
def test_from_backbone_refuses_what_cannot_serve(name, tmp_path):
    model_class, model = FAMILIES[name].model, tiny_model(name)
    field, value = OTHER_FIELD[name]
    for given, message in (
        ({field[:-1]: value}, f"'{field[:-1]}'.*'{field}'"),
        ({"hidden_size": 64}, "`hidden_size` belongs to the backbone"),
        ({"output_size": 3}, "'output_size'"),
        ({"is_encoder_decoder": True}, "'is_encoder_decoder'"),
    ):
        with pytest.raises(ValueError, match=message):
            model_class.from_backbone(tmp_path, **given)
    model.config.backbone_config.save_pretrained(tmp_path / "pickled")
    torch.save(model.backbone_model.state_dict(), tmp_path / "pickled" / "pytorch_model.bin")
    model.backbone_model.save_pretrained(tmp_path / "incomplete")
    weights = load_file(tmp_path / "incomplete" / "model.safetensors")
    save_file(
        dict(list(weights.items())[:3]), tmp_path / "incomplete" / "model.safetensors", metadata={"format": "pt"}
    )
    model.save_pretrained(tmp_path / "composite")
    for folder, kind, message in (
        ("pickled", OSError, "no safetensors"),
        ("incomplete", ValueError, "lacks weights"),
        ("composite", ValueError, "composite"),
    ):
        with pytest.raises(kind, match=message):
            model_class.from_backbone(tmp_path / folder)
    with pytest.raises(ValueError, match="from_backbone"):
        model_class.from_pretrained(tmp_path / "pickled")
