"""Hostile values in `config.json`, its `backbone_config`, and `generation_config.json`."""

from tests.hostile.cases import Harmless, Stock, group, says
from tests.hostile.writing import CODE, OUTSIDE, backbone, config, content, edited, json_file, several

OTHER_REPOSITORY = {"AutoConfig": "owner/name--code.Config", "AutoModel": "owner/name--code.Model"}
NOT_ASKED = Harmless("the installed class is taken, and the map is not looked at")
ASKS_FOR_TRUST = says("trust_remote_code=True")
NEITHER = Harmless("no field of that name is looked at")
TYPES = "{'backbone_config': 'kernels-community/x'}"


def text(old, new):
    """Replace a piece of `config.json`."""
    return edited("config.json", lambda content: content.replace(old, new))


def first(entry):
    """Put an entry before all others of `config.json`."""
    return edited("config.json", lambda content: "{" + entry + "," + content[1:])


CODE_BY_NAME = {
    "map-repository": (config(auto_map=OTHER_REPOSITORY), NOT_ASKED),
    "map-parent": (config(auto_map={"AutoConfig": "../outside/modeling_cool.CoolConfig"}), NOT_ASKED),
    "map-absolute": (config(auto_map={"AutoModel": f"{OUTSIDE}/modeling_cool.CoolModel"}), NOT_ASKED),
    "map-list": (config(auto_map=["configuration_cool.CoolConfig"]), NOT_ASKED),
    "map-unknown-type": (config(model_type="strange"), ASKS_FOR_TRUST),
    "map-unknown-repository": (config(model_type="strange", auto_map=OTHER_REPOSITORY), ASKS_FOR_TRUST),
    "map-nested": (backbone(auto_map=OTHER_REPOSITORY), NOT_ASKED),
    "map-nested-type": (
        backbone(model_type="strange", auto_map=OTHER_REPOSITORY),
        says("Unrecognized model identifier: strange"),
    ),
    "trust": (config(trust_remote_code=True, model_type="strange"), ASKS_FOR_TRUST),
    "trust-nested": (backbone(trust_remote_code=True, auto_map=OTHER_REPOSITORY), NOT_ASKED),
    "pipelines": (config(custom_pipelines={"x": {"impl": "owner/name--code.Pipeline"}}), NEITHER),
    "name": (config(_name_or_path=OUTSIDE, name_or_path=OUTSIDE), NEITHER),
    "name-nested": (backbone(_name_or_path=OUTSIDE, name_or_path=OUTSIDE), NEITHER),
    "architectures": (config(architectures=["os.system", "../outside.Model"]), NEITHER),
    "configuration-files": (
        config(configuration_files=["../outside/config.4.0.json", "config.4.0/../../outside/config.4.0.json"]),
        says("Invalid version"),
    ),
    "configuration-files-parent": (
        config(configuration_files=["../outside/config.4.0.json"]),
        Harmless("only names that begin with config. are taken"),
    ),
    "activation": (backbone(hidden_act="__import__"), Stock("KeyError")),
    "timm": (config(backbone_config={"model_type": "timm_backbone", "backbone": "x"}), says("'timm_backbone' is not")),
    "weights-parent": (
        config(transformers_weights="../outside/model.safetensors"),
        says("`transformers_weights` is '.."),
    ),
    "weights-bin-named": (
        config(transformers_weights="adapter_model.bin"),
        says("`transformers_weights` is 'adapter"),
    ),
    "dtype-object": (
        config(dtype={"": "float32", "backbone_config": "load"}),
        Harmless("a dtype of a part that is none"),
    ),
    "dtype-expression": (config(dtype="__import__('pip')"), Stock("AttributeError")),
}

KERNELS = {
    "kernel": (config(attn_implementation="owner/kernel"), says("`attn_implementation` is 'owner/kernel'")),
    "kernel-private": (
        config(_attn_implementation="owner/kernel:f"),
        says("`_attn_implementation` is 'owner/kernel:f'"),
    ),
    "kernel-internal": (
        config(_attn_implementation_internal="owner/kernel"),
        says("`_attn_implementation_internal` is"),
    ),
    "kernel-nested": (backbone(attn_implementation="owner/kernel"), says("`backbone_config.attn_implementation` is")),
    "kernel-nested-private": (
        backbone(_attn_implementation="a/b"),
        says("`backbone_config._attn_implementation` is 'a/b'"),
    ),
    "kernel-community": (
        config(attn_implementation="kernels-community/flash-attn2"),
        says("'kernels-community/flash"),
    ),
    "kernel-object": (config(_attn_implementation={"backbone_config": "a/b"}), says("is {'backbone_config': 'a/b'}")),
    "kernel-flash": (config(attn_implementation="flash_attention_2"), says("is 'flash_attention_2'")),
    "kernel-number": (config(_attn_implementation=7), says("`_attn_implementation` is 7")),
    "kernel-experts": (config(_experts_implementation="owner/kernel"), says("`_experts_implementation` is")),
    "kernel-switch": (config(use_kernels=True), says("`use_kernels` is True")),
    "kernel-config": (config(kernel_config={"a": "owner/kernel"}), says("`kernel_config` is {'a': 'owner/kernel'}")),
    "quantization": (
        config(quantization_config={"quant_method": "gptq", "bits": 4}),
        says("`quantization_config` is"),
    ),
    "quantization-nested": (
        backbone(quantization_config={"quant_method": "hqq"}),
        says("`backbone_config.quantization"),
    ),
    "quantization-text": (config(quantization_config="gptq"), says("`quantization_config` is 'gptq'")),
    "fusion": (config(fusion_config={"patch_embeddings": True}), says("`fusion_config` is {'patch_embeddings'")),
    "distributed": (config(distributed_config={"tp_plan": "auto"}), says("`distributed_config` is {'tp_plan'")),
    "layer-by-layer": (config(per_layer_config={"0": {"hidden_size": 8}}), says("`per_layer_config` is not a field")),
}

ATTRIBUTES = {
    "method": (config(check="x", to_dict="x"), says("`check` is not a field of CoolConfig")),
    "method-nested": (backbone(to_dict="x"), Stock("TypeError")),
    "class": (config(__class__="builtins.dict"), says("`__class__` is not a field")),
    "dict": (backbone(__dict__={"a": 1}), says("`backbone_config.__dict__` is not a field")),
    "attribute-map": (config(attribute_map={"hidden_size": "auto_map"}), says("`attribute_map` is not a field")),
    "sub-configs": (config(sub_configs={"a": "builtins.dict"}), says("`sub_configs` is not a field")),
    "property": (config(required_inputs=["x"]), Stock("AttributeError")),
    "auto-class": (config(_auto_class="os.system"), says("`_auto_class` is not a field")),
    "nested-twice": (
        backbone(model_type="sla-bert", backbone_config={"model_type": "cool"}),
        says("itself a composite"),
    ),
    "nested-list": (config(backbone_config=["bert"]), says(r"`backbone_config` is \['bert'\]")),
    "nested-text": (config(backbone_config="bert"), says("`backbone_config` is 'bert'")),
}


GENERATION = {
    "generate-code": (json_file("generation_config.json", {"custom_generate": "owner/name"}), NEITHER),
    "generate-file": (
        several(content("custom_generate/generate.py", CODE), content("custom_generate/requirements.txt", "pip")),
        Harmless("it is run if the caller of `generate` names it"),
    ),
    "generate-cache": (
        json_file("generation_config.json", {"cache_implementation": "a/b"}),
        says("Invalid `cache_impl"),
    ),
    "generate-texts": (json_file("generation_config.json", {"num_return_sequences": "9"}), Stock("TypeError")),
    "generate-not-json": (
        content("generation_config.json", "{"),
        Harmless("transformers warns, and takes its defaults"),
    ),
}

CONFIGURATIONS = [
    *group("code, a class or a path by its name", "cool", "config classifier model", CODE_BY_NAME),
    *group("what transformers is told to do", "cool", "model config", KERNELS),
    *group("methods and attributes", "cool", "model config", ATTRIBUTES),
    *group("what `generate` does", "bart", "generator", GENERATION),
]
