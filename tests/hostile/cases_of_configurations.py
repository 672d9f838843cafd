"""Hostile values in `config.json`, its `backbone_config`, and `generation_config.json`."""

from tests.hostile.cases import LOADS, Stock, group
from tests.hostile.writing import CODE, OUTSIDE, backbone, config, content, edited, json_file, several

OTHER_REPOSITORY = {"AutoConfig": "owner/name--code.Config", "AutoModel": "owner/name--code.Model"}
ASKS_FOR_TRUST = "trust_remote_code=True"
TYPES = "{'backbone_config': 'kernels-community/x'}"


def text(old, new):
    """Replace a piece of `config.json`."""
    return edited("config.json", lambda content: content.replace(old, new))


def first(entry):
    """Put an entry before all others of `config.json`."""
    return edited("config.json", lambda content: "{" + entry + "," + content[1:])


CODE_BY_NAME = {
    "map-repository": (config(auto_map=OTHER_REPOSITORY), LOADS),
    "map-parent": (config(auto_map={"AutoConfig": "../outside/modeling_cool.CoolConfig"}), LOADS),
    "map-absolute": (config(auto_map={"AutoModel": f"{OUTSIDE}/modeling_cool.CoolModel"}), LOADS),
    "map-list": (config(auto_map=["configuration_cool.CoolConfig"]), LOADS),
    "map-unknown-type": (config(model_type="strange"), ASKS_FOR_TRUST),
    "map-unknown-repository": (config(model_type="strange", auto_map=OTHER_REPOSITORY), ASKS_FOR_TRUST),
    "map-nested": (backbone(auto_map=OTHER_REPOSITORY), LOADS),
    "map-nested-type": (
        backbone(model_type="strange", auto_map=OTHER_REPOSITORY),
        "Unrecognized model identifier: strange",
    ),
    "trust": (config(trust_remote_code=True, model_type="strange"), ASKS_FOR_TRUST),
    "trust-nested": (backbone(trust_remote_code=True, auto_map=OTHER_REPOSITORY), LOADS),
    "pipelines": (config(custom_pipelines={"x": {"impl": "owner/name--code.Pipeline"}}), LOADS),
    "name": (config(_name_or_path=OUTSIDE, name_or_path=OUTSIDE), LOADS),
    "name-nested": (backbone(_name_or_path=OUTSIDE, name_or_path=OUTSIDE), LOADS),
    "architectures": (config(architectures=["os.system", "../outside.Model"]), LOADS),
    "configuration-files": (
        config(configuration_files=["../outside/config.4.0.json", "config.4.0/../../outside/config.4.0.json"]),
        "Invalid version",
    ),
    "configuration-files-parent": (config(configuration_files=["../outside/config.4.0.json"]), LOADS),
    "activation": (backbone(hidden_act="__import__"), Stock("KeyError")),
    "timm": (config(backbone_config={"model_type": "timm_backbone", "backbone": "x"}), "'timm_backbone' is not"),
    "weights-parent": (config(transformers_weights="../outside/model.safetensors"), "`transformers_weights` is '.."),
    "weights-bin-named": (config(transformers_weights="adapter_model.bin"), "`transformers_weights` is 'adapter"),
    "dtype-object": (config(dtype={"": "float32", "backbone_config": "load"}), LOADS),
    "dtype-expression": (config(dtype="__import__('pip')"), Stock("AttributeError")),
}

KERNELS = {
    "kernel": (config(attn_implementation="owner/kernel"), "`attn_implementation` is 'owner/kernel'"),
    "kernel-private": (config(_attn_implementation="owner/kernel:f"), "`_attn_implementation` is 'owner/kernel:f'"),
    "kernel-internal": (config(_attn_implementation_internal="owner/kernel"), "`_attn_implementation_internal` is"),
    "kernel-nested": (backbone(attn_implementation="owner/kernel"), "`backbone_config.attn_implementation` is"),
    "kernel-nested-private": (backbone(_attn_implementation="a/b"), "`backbone_config._attn_implementation` is 'a/b'"),
    "kernel-community": (config(attn_implementation="kernels-community/flash-attn2"), "'kernels-community/flash"),
    "kernel-object": (config(_attn_implementation={"backbone_config": "a/b"}), "is {'backbone_config': 'a/b'}"),
    "kernel-flash": (config(attn_implementation="flash_attention_2"), "is 'flash_attention_2'"),
    "kernel-number": (config(_attn_implementation=7), "`_attn_implementation` is 7"),
    "kernel-experts": (config(_experts_implementation="owner/kernel"), "`_experts_implementation` is"),
    "kernel-switch": (config(use_kernels=True), "`use_kernels` is True"),
    "kernel-config": (config(kernel_config={"a": "owner/kernel"}), "`kernel_config` is {'a': 'owner/kernel'}"),
    "quantization": (config(quantization_config={"quant_method": "gptq", "bits": 4}), "`quantization_config` is"),
    "quantization-nested": (backbone(quantization_config={"quant_method": "hqq"}), "`backbone_config.quantization"),
    "quantization-text": (config(quantization_config="gptq"), "`quantization_config` is 'gptq'"),
    "fusion": (config(fusion_config={"patch_embeddings": True}), "`fusion_config` is {'patch_embeddings'"),
    "distributed": (config(distributed_config={"tp_plan": "auto"}), "`distributed_config` is {'tp_plan'"),
    "layer-by-layer": (config(per_layer_config={"0": {"hidden_size": 8}}), "`per_layer_config` is not a field"),
}

ATTRIBUTES = {
    "method": (config(check="x", to_dict="x"), "`check` is not a field of CoolConfig"),
    "method-nested": (backbone(to_dict="x"), Stock("TypeError")),
    "class": (config(__class__="builtins.dict"), "`__class__` is not a field"),
    "dict": (backbone(__dict__={"a": 1}), "`backbone_config.__dict__` is not a field"),
    "attribute-map": (config(attribute_map={"hidden_size": "auto_map"}), "`attribute_map` is not a field"),
    "sub-configs": (config(sub_configs={"a": "builtins.dict"}), "`sub_configs` is not a field"),
    "property": (config(required_inputs=["x"]), Stock("AttributeError")),
    "auto-class": (config(_auto_class="os.system"), "`_auto_class` is not a field"),
    "nested-twice": (backbone(model_type="sla-bert", backbone_config={"model_type": "cool"}), "itself a composite"),
    "nested-list": (config(backbone_config=["bert"]), r"`backbone_config` is \['bert'\]"),
    "nested-text": (config(backbone_config="bert"), "`backbone_config` is 'bert'"),
}


GENERATION = {
    "generate-code": (json_file("generation_config.json", {"custom_generate": "owner/name"}), LOADS),
    "generate-file": (
        several(content("custom_generate/generate.py", CODE), content("custom_generate/requirements.txt", "pip")),
        LOADS,
    ),
    "generate-cache": (json_file("generation_config.json", {"cache_implementation": "a/b"}), "Invalid `cache_impl"),
    "generate-texts": (json_file("generation_config.json", {"num_return_sequences": "9"}), Stock("TypeError")),
    "generate-not-json": (content("generation_config.json", "{"), LOADS),
}

CONFIGURATIONS = [
    *group("cool", "config classifier model", CODE_BY_NAME),
    *group("cool", "model config", KERNELS),
    *group("cool", "model config", ATTRIBUTES),
    *group("bart", "generator", GENERATION),
]
