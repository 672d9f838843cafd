"""What every model class of every family owes its users; a new family joins by its line in the registry."""

import json
import os
import re
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch._dynamo.testing import CompileCounterWithBackend
from transformers import AutoConfig, AutoModel
from transformers.trainer_pt_utils import LabelSmoother

from hf_localattn.families import AUTO_CLASSES, FAMILIES
from hf_localattn.tasks.class_weights import weighted_loss
from hf_localattn.training.losses import with_local_loss
from tests.models.naive import assert_same
from tests.models.tiny import (
    CASES,
    ENCODER_HEADS,
    MARKED_CASES,
    OTHER_FIELD,
    ablations_of,
    adapted,
    at_tokens,
    backbones_of,
    by_index,
    enable_checkpointing,
    gradients,
    labels,
    loss,
    main_outputs,
    marks_of,
    model_class_of,
    run,
    tiny_config,
    tiny_model,
    token_ids,
    with_one_layer,
)

EAGER_ONLY = ("deberta-v2", "xlnet", "mpnet")
WITHOUT_CHECKPOINTING = ("albert", "xlnet", "mpnet")
SHARED_HEADS = pytest.mark.slow(reason="tracing takes long, and a head is a layer or two on what is traced headless")
LARGE_GRAPH = pytest.mark.slow(reason="XLNet's graph alone takes as long as all others")
MORE_SIZES = pytest.mark.slow(reason="a graph for any size, and one of the gradients, take ten seconds to compile")
TRACED = [
    pytest.param(case, marks=SHARED_HEADS if case[1] != "headless" else LARGE_GRAPH if case[0] == "oa-xlnet" else ())
    for case in CASES
]
LARGE_EXPORT = pytest.mark.slow(
    reason="a BiLSTM takes fourteen seconds; tests/models/test_encoder_states.py exports SAM without"
)
EXPORTED = [
    pytest.param(*row.values, marks=row.marks or (LARGE_EXPORT if FAMILIES[row.values[0][0]].facts.traceable else ()))
    for row in TRACED
]
ELSEWHERE = pytest.mark.slow(reason="over a thousand models; one head or backbone of each ablation stands for all")
CANCELED = {"choice_classifier.output.bias", "choice_classifier.head.bias", "qa_outputs.bias"}
"""Parameters whose gradient may be 0, by the softmax over the choices or tokens."""


def marks(name, task, backbone, fields):
    is_default = backbone == FAMILIES[name].config.default_backbone
    if not fields:
        # COOL shows what stands on every backbone; SLA is inside, and its heads are the backbones' own.
        is_shown = name == "sla-bert" or (name, task) == ("cool", "headless")
        is_fast = is_shown or (is_default and (task == "headless" or not marks_of(name, task)))
    else:
        # What differs by head: losses of SLA's baselines, and which vectors the heads read from SAM's.
        of_heads = fields.get("local_attention") in ("lisa", "sgnet") or "pooling" in fields
        is_fast = is_default and (task == "headless" or (task.endswith("n-classification") and of_heads))
    return () if is_fast else ELSEWHERE


def rows(with_ablations):
    """Rows of a test, without those that are left out: making 9,000 tests for nothing takes seconds."""
    every = [
        pytest.param(
            name,
            task,
            backbone,
            fields,
            id=f"{name}-{task}-{backbone}-{row}",
            marks=marks(name, task, backbone, fields),
        )
        for name, task in CASES
        for backbone in backbones_of(name, task)
        for row, fields in {"usual": {}, **(ablations_of(name) if with_ablations else {})}.items()
    ]
    return [row for row in every if os.environ["SLOW_TESTS"] or not row.marks]


every_row = pytest.mark.parametrize(("name", "task", "backbone", "fields"), rows(with_ablations=True))
BACKBONES = [row for row in rows(with_ablations=False) if row.values[:2] == ("cool", "headless")]
HEADS = [row for row in rows(with_ablations=False) if row.values[2] == backbones_of(*row.values[:2])[0]]
each_backbone_and_head = pytest.mark.parametrize(
    ("name", "task", "backbone"),
    [pytest.param(*row.values[:3], id=row.id, marks=row.marks) for row in (*BACKBONES, *HEADS[1:])],
)
every_family = pytest.mark.parametrize("name", FAMILIES)


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


def auto_class(task):
    return AutoModel if task == "headless" else AUTO_CLASSES[task]


# --- every ablation: padding, gradients, saving


@every_row
def test_padding_and_batching_change_nothing(name, task, backbone, fields):
    """Sequences say the same alone and beside longer ones, by ids or embeddings, with eager or SDPA attention."""
    model = tiny_model(name, task, backbone, **fields)
    texts = [token_ids(1, tokens, seed=tokens) for tokens in (1, 2, 5, 8, 11)]
    batch = [(ids, before) for ids in texts for before in {0, (11 - ids.shape[1]) // 2, 11 - ids.shape[1]}]
    around = [(before, 11 - before - ids.shape[1]) for ids, before in batch]
    pad = torch.nn.functional.pad
    ids = torch.cat(
        [pad(ids, sides, value=model.config.pad_token_id) for (ids, _), sides in zip(batch, around, strict=True)]
    )
    mask = torch.cat([pad(torch.ones_like(ids), sides) for (ids, _), sides in zip(batch, around, strict=True)])

    def outputs(ids, mask):
        return at_tokens(task, main_outputs(run(model, input_ids=ids, attention_mask=mask)), mask)

    together = outputs(ids, mask)
    alone = {ids: at_tokens(task, main_outputs(run(model, input_ids=ids)), torch.ones_like(ids)) for ids in texts}
    expected = [torch.cat(parts) for parts in zip(*(alone[ids] for ids, _ in batch), strict=True)]
    assert_close(together, expected, tolerance=1e-5)
    embeds = model.get_input_embeddings()(ids)
    by_embeds = main_outputs(run(model, inputs_embeds=embeds, attention_mask=mask.bool()))
    assert_close(at_tokens(task, by_embeds, mask), together, tolerance=1e-5)
    if backbone not in EAGER_ONLY:
        model.set_attn_implementation("eager")
        assert_close(outputs(ids, mask.float()), together, tolerance=1e-5)


@every_row
def test_gradients_and_checkpoints(name, task, backbone, fields, tmp_path):
    """Every trainable parameter gets a finite gradient, also beside a row of pads, the same with checkpointing."""
    model = tiny_model(name, task, backbone, **fields).train()
    mask = torch.tensor([[1] * 11, [1] * 7 + [0] * 4, [0] * 5 + [1] * 6, [0] * 11])
    inputs = {"input_ids": token_ids(4, 11), "attention_mask": mask}
    found = gradients(model, task, **inputs)
    assert [parameter for parameter, gradient in found.items() if gradient is None] == []
    assert all(gradient.isfinite().all() for gradient in found.values())
    silent = {one for one, gradient in found.items() if "backbone" not in one and not gradient.any()}
    assert fields or silent <= CANCELED
    if backbone in WITHOUT_CHECKPOINTING:
        with pytest.raises(ValueError, match=r"does not support \w+ checkpointing"):
            enable_checkpointing(model)
    else:
        enable_checkpointing(model)
        assert fields or sum(getattr(module, "gradient_checkpointing", False) for module in model.modules()) > 2
        assert_close(gradients(model, task, **inputs).values(), found.values())
    model.eval().save_pretrained(tmp_path)
    loaded, report = auto_class(task).from_pretrained(tmp_path, output_loading_info=True)
    assert type(loaded) is type(model)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    saved = model.config.backbone_config.to_dict() | {"dtype": "float32"}  # known once it was saved
    assert loaded.config.backbone_config.to_dict() == saved
    assert_equal(loaded.state_dict().values(), model.state_dict().values())
    assert {n: p.requires_grad for n, p in loaded.named_parameters()} == {
        n: p.requires_grad for n, p in model.named_parameters()
    }
    outputs = main_outputs(run(loaded, **inputs))
    assert all(output.isfinite().all() for output in outputs)
    assert_close(outputs, main_outputs(run(model, **inputs)))
    assert outputs[0].shape[-1] == model.config.hidden_size or task != "headless"


WITH_LABELS = [row for row in rows(with_ablations=True) if row.values[1] not in ("headless", "question-answering")]


@pytest.mark.parametrize(("name", "task", "backbone", "fields"), WITH_LABELS)
def test_a_loss_of_logits_and_labels_is_the_models(name, task, backbone, fields):
    """By a label smoothing of 0, and by equal weights of classes; also of a part of a training step."""
    model = tiny_model(name, task, backbone, **fields)
    inputs = adapted(model, input_ids=token_ids(3, 11), **labels(task, 3, 11))
    count = 40 if getattr(model, "accepts_loss_kwargs", True) else None
    losses = [with_local_loss(LabelSmoother(0.0))]
    if task == "text-classification":
        losses.append(partial(weighted_loss, weights=[1.0, 1.0]))
    for given in ({}, {} if count is None else {"num_items_in_batch": count}):
        expected = model(**inputs, **given).loss
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
        for loss_of in losses:
            assert_close([loss_of(outputs, inputs["labels"], **given)], [expected])


# --- new layers


STARTS = [(name, *start) for name, family in FAMILIES.items() for start in family.facts.starts]
NEW_PARAMETERS = [(name, *counted) for name, family in FAMILIES.items() for counted in family.facts.new_parameters]


@pytest.mark.parametrize(
    ("name", "fields", "parameters", "size"), STARTS, ids=lambda one: "" if callable(one) else str(one)
)
@pytest.mark.usefixtures("poisoned_memory")
def test_new_layers_start_at_a_known_size(name, fields, parameters, size, tmp_path):
    """Built, and loaded from a checkpoint without them."""
    built = FAMILIES[name].model(tiny_config(name, **fields))
    kept = {key: value for key, value in built.state_dict().items() if "backbone" in key and "gate" not in key}
    built.save_pretrained(tmp_path, state_dict=kept)
    for model in (built, AutoModel.from_pretrained(tmp_path)):
        new = [parameter for key, parameter in model.named_parameters() if re.search(parameters, key)]
        assert new
        for one in new:
            torch.testing.assert_close(one.square().mean().sqrt().item(), size(one), rtol=0.3, atol=1e-6)
        together = torch.cat([(one / (size(one) or 1)).flatten() for one in new]).square()
        if len(together) > 1000:
            assert together.mean().item() == pytest.approx(1, rel=0.1)


@every_family
def test_new_layers_keep_the_scale_of_their_input(name, inputs):
    """Random local layers neither drown nor blow up what the backbone says, at any width."""
    for row, fields in ablations_of(name).items():
        states = run(FAMILIES[name].model(tiny_config(name, **fields)).eval(), **inputs).last_hidden_state
        assert 0.004 < states.std() < 5.0, row  # a BiLSTM, a sigmoid or a fusion make it small


@pytest.mark.parametrize(("name", "fields", "count"), NEW_PARAMETERS, ids=str)
def test_sizes_are_the_papers(name, fields, count):
    """Numbers of new parameters over an encoder of BERT-base's size, derived by hand from the equations."""
    with torch.device("meta"):
        model = FAMILIES[name].model(FAMILIES[name].config(backbone_config={"model_type": "bert"}, **fields))
    assert model.num_parameters() - sum(one.numel() for one in model.pretrained_parameters()) == count


# --- inputs and outputs


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
    assert run(model, **inputs, output_hidden_states=False).hidden_states is None
    assert isinstance(run(model, **inputs, return_dict=False), tuple)


@by_index
@pytest.mark.parametrize("backbone", FAMILIES["cool"].config.tested_backbones)
def test_some_hidden_states_of_every_backbone(backbone, inputs, tmp_path):
    """By index, as transformers has it. Some backbones, such as XLNet, give all."""
    tiny_model("cool", backbone=backbone).save_pretrained(tmp_path)
    chosen = AutoModel.from_pretrained(tmp_path, output_hidden_states=[0, -2])(**inputs).hidden_states
    every = tiny_model("cool", backbone=backbone)(**inputs, output_hidden_states=True).hidden_states
    assert all(torch.equal(chosen[place], every[place]) for place in (0, len(every) - 2))


WRONG = {
    "no ids": (lambda ids, mask: {"attention_mask": mask}, "`input_ids`"),
    "a short mask": (lambda ids, mask: {"input_ids": ids, "attention_mask": mask[:, 1:]}, r"_mask` .*\(3, 10\)"),
    "pairs": (lambda ids, mask: {"input_ids": ids, "attention_mask": mask[:, None, None]}, r"_mask` .*\(3, 1,"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_wrong_inputs_are_named(model, inputs, change, message):
    with pytest.raises(ValueError, match=message):
        run(model, **change(*inputs.values()))


def test_missing_and_misshapen_inputs_of_a_family_are_named(model, inputs):
    for name in model.config.required_inputs:
        given = adapted(model, **inputs)
        for value, message in ((None, ""), (given[name][..., 1:], r".*\(3, 10\)")):
            with pytest.raises(ValueError, match=f"`{name}`{message}"):
                model(**{**given, name: value})


@pytest.mark.parametrize("backbone", ["bert", "roberta", "mpnet"])
def test_right_padding_gives_the_backbones_own_positions(backbone):
    """There the backbone computes bit for bit what it computes alone, wherever it begins to count."""
    model, mask = tiny_model("cool", backbone=backbone), torch.tensor([[1] * 11, [1] * 7 + [0] * 4])
    ids = token_ids(2, 11).masked_fill(mask == 0, model.config.pad_token_id)
    inside = model(ids, attention_mask=mask, output_hidden_states=True).hidden_states[-1]
    alone = model.backbone_model(ids, attention_mask=mask).last_hidden_state
    assert torch.equal(inside[mask.bool()], alone[mask.bool()])


# --- precision, devices, compilers


@pytest.mark.slow(reason="flex attention is compiled, which takes minutes")
def test_flex_equals_eager(model, inputs, task):
    eager = at_tokens(task, main_outputs(run(model, **inputs)), inputs["attention_mask"])
    model.set_attn_implementation("flex_attention")
    with torch.no_grad():  # flex has no backward on a CPU
        flex = at_tokens(task, main_outputs(run(model, **inputs)), inputs["attention_mask"])
    assert_close(flex, eager, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, None], ids=["bfloat16", "float16", "autocast"])
def test_half_precision(model, inputs, task, dtype):
    """Also beside a row of pads."""
    inputs = {name: torch.cat([value, 0 * value[:1]]) for name, value in inputs.items()}

    def outputs():
        return at_tokens(task, main_outputs(run(model, **inputs)), inputs["attention_mask"])

    full = outputs()
    model.to(dtype or torch.float32)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype is None):
        found = outputs()
        value = loss(model.train(), task, **inputs)
    for half, single in zip(found, full, strict=True):
        assert half.dtype == dtype or dtype is None
        torch.testing.assert_close(half.float(), single, rtol=0.1, atol=0.1)
    value.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("case", TRACED, ids="-".join)
@pytest.mark.parametrize("sizes", [[], pytest.param([(2, 6), (3, 9)], marks=MORE_SIZES)], ids=["one", "many"])
def test_compiles_as_one_graph(case, sizes, inputs, task):
    """As it is trained, with a second graph for all further sizes, as a bare backbone has."""
    model = with_one_layer(tiny_model(*case, **FAMILIES[case[0]].facts.traceable)).train()
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager" if sizes else "eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for rows, length in [(3, 11), *sizes]:
        given = {name: value[:rows, 11 - length :] for name, value in inputs.items()}
        expected = gradients(model, task, **given)
        model.zero_grad(set_to_none=True)
        loss(model, task, run_by=compiled, **given).backward()
        actual = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.requires_grad}
        assert_close(actual.values(), expected.values(), tolerance=1e-5)
    assert counter.frame_count <= 1 + bool(sizes)


@pytest.mark.parametrize("case", EXPORTED, ids="-".join)
def test_exports_with_any_batch_and_length(case, inputs):
    model = with_one_layer(tiny_model(*case, backbone=FAMILIES[case[0]].facts.export_backbone))
    inputs = adapted(model, **inputs)
    batch, length = inputs["input_ids"].dim() - 2, inputs["input_ids"].dim() - 1
    shape = {batch: torch.export.Dim("batch", min=2, max=16), length: torch.export.Dim("length", min=2, max=40)}
    program = torch.export.export(model, (), inputs, dynamic_shapes=dict.fromkeys(inputs, shape))
    others = {"input_ids": token_ids(5, 6), "attention_mask": torch.ones(5, 6, dtype=torch.long)}
    others["attention_mask"][1, 4:] = 0
    others = adapted(model, **others)
    assert_close(main_outputs(program.module()(**others)), main_outputs(model(**others)))


@pytest.mark.parametrize("place", ["disk", "auto", "backbone", "local layers", "cpu"])
@every_family
def test_runs_with_weights_on_any_device(name, place, inputs, tmp_path):
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
            device_map={"disk": {"": "disk"}, "cpu": {"": "cpu"}, "auto": "auto"}.get(place, on_disk),
            max_memory={"cpu": sum(parameter.nbytes for parameter in model.parameters()) // 2},
            offload_folder=tmp_path / "offloaded",
        )
    except ValueError as error:
        if "offload the whole model to the disk" not in str(error):
            raise
        pytest.skip("accelerate before 1.15 does not put all weights on the disk")
    assert any(parameter.is_meta for parameter in loaded.parameters()) is (place != "cpu")
    for given in (inputs, {"input_ids": inputs["input_ids"]}):
        assert_close(main_outputs(run(loaded, **given)), main_outputs(run(model, **given)))


# --- weights and configuration


@every_family
@pytest.mark.parametrize("task", ["headless", "fill-mask"])
def test_embeddings_resize_and_reload(name, task, inputs, tmp_path):
    if task != "headless" and task not in ENCODER_HEADS[name]:
        pytest.skip("the family has no such head")
    model = tiny_model(name, task)
    expected = main_outputs(run(model, **inputs))
    model.resize_token_embeddings(65)
    assert model.config.vocab_size == model.config.backbone_config.vocab_size == 65
    model.save_pretrained(tmp_path)
    for one in (model, auto_class(task).from_pretrained(tmp_path)):
        assert one.get_input_embeddings().num_embeddings == 65
        assert run(one, input_ids=token_ids(1, 4) * 0 + 64) is not None
        outputs = main_outputs(run(one, **inputs))
        assert_close([output[..., :59] if task == "fill-mask" else output for output in outputs], expected)


@pytest.mark.parametrize(("name", "task"), [case for case in MARKED_CASES if case.values[1] != "headless"])
def test_a_headless_checkpoint_loads_into_every_head(name, task, tmp_path):
    """What is missing gets the same finite weights from the same seed, and what was loaded stays."""
    headless = tiny_model(name, backbone=backbones_of(name, task)[0])
    headless.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    for kept in (weights, {key: value for key, value in weights.items() if "backbone" in key}):
        save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
        made = []
        for _ in range(2):
            torch.manual_seed(3)
            loaded, report = auto_class(task).from_pretrained(tmp_path, output_loading_info=True)
            made.append(loaded.state_dict())
        assert_equal(*(one.values() for one in made))
        assert all(value.isfinite().all() for value in made[0].values())
        assert not report["unexpected_keys"]
        missing = {key.removeprefix(f"{loaded.base_model_prefix}.") for key in report["missing_keys"]}
        assert missing & weights.keys() == weights.keys() - kept.keys()
        inside = loaded.base_model.state_dict()
        for key, value in kept.items():
            assert ".pooler." in key or torch.equal(inside[key], value)  # which this head may not have


@each_backbone_and_head
def test_from_backbone_keeps_the_pretrained_weights_in_any_type(name, task, backbone, tmp_path):
    pretrained = tiny_model("cool", backbone=backbone).backbone_model  # which nothing was put in
    pretrained.save_pretrained(tmp_path)
    field, value = OTHER_FIELD[name]
    model = model_class_of(name, task).from_backbone(tmp_path, **{field: value})
    assert not model.training
    assert getattr(model.config, field) == value
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    weights = model.backbone_model.state_dict()
    assert_equal([weights[key] for key in pretrained.state_dict()], pretrained.state_dict().values())
    half = model_class_of(name, task).from_backbone(tmp_path, dtype=torch.bfloat16, attn_implementation="eager")
    assert half.backbone_model.config._attn_implementation == "eager"
    half.save_pretrained(tmp_path / "half")
    for one in (half, auto_class(task).from_pretrained(tmp_path / "half")):
        assert all(output.isfinite().all() for output in main_outputs(run(one, input_ids=token_ids(2, 5))))
        assert {parameter.dtype for parameter in one.parameters()} == {torch.bfloat16}


@every_family
def test_the_configuration_of_a_checkpoint(name, tmp_path):
    """It names every head, has no width of its own, and what is set at loading is checked."""
    tiny_model(name).save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert "hidden_size" not in saved
    heads = {AUTO_CLASSES[task].__name__: head.__name__ for task, head in ENCODER_HEADS[name].items()}
    expected = {"AutoConfig": FAMILIES[name].config.__name__, "AutoModel": FAMILIES[name].model.__name__, **heads}
    assert {auto: reference.split(".")[1] for auto, reference in saved["auto_map"].items()} == expected
    files = {f"{reference.split('.')[0]}.py" for reference in saved["auto_map"].values()}
    assert files <= {path.name for path in tmp_path.iterdir()}
    config = tiny_config(name)
    config.initializer_range = -1
    for build in (
        lambda: AutoConfig.from_pretrained(tmp_path, initializer_range=-1),
        lambda: AutoModel.from_pretrained(tmp_path, initializer_range="x"),
        lambda: FAMILIES[name].model(config),
    ):
        with pytest.raises(ValueError, match="`initializer_range`"):
            build()
