"""Hostile values in `config.json`, its `backbone_config`, and `generation_config.json`."""

from tests.hostile.cases import Harmless, Stock, group, says
from tests.hostile.writing import ABSENT, CODE, OUTSIDE, backbone, config, content, edited, json_file, several

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
        says("unknown model_type 'strange'"),
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
    "activation": (backbone(hidden_act="__import__"), says("from its configuration: KeyError: '__import__'")),
    "timm": (config(backbone_config={"model_type": "timm_backbone", "backbone": "x"}), says("'timm_backbone' is not")),
    "weights-parent": (
        config(transformers_weights="../outside/model.safetensors"),
        says("`transformers_weights` is '.."),
    ),
    "weights-bin-named": (
        config(transformers_weights="adapter_model.bin"),
        says("`transformers_weights` is 'adapter"),
    ),
    "dtype": (config(dtype="load"), says("`dtype` is 'load'")),
    "dtype-nested": (backbone(dtype="compile"), says("`dtype` is 'compile'")),
    "dtype-old": (config(dtype=ABSENT, torch_dtype="hub"), says("`torch_dtype` is 'hub'")),
    "dtype-object": (config(dtype={"": "float32", "backbone_config": "load"}), says("`dtype` is {'': 'float32'")),
    "dtype-expression": (config(dtype="__import__('pip')"), says('`dtype` is "__import__')),
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
    "layer-by-layer": (config(per_layer_config={"0": {"hidden_size": 8}}), says("`per_layer_config` is {'0'")),
}

ATTRIBUTES = {
    "method": (config(check="x", to_dict="x"), says("`check` is not a field of CoolConfig")),
    "method-nested": (backbone(to_dict="x"), says("`to_dict` is not a field of BertConfig")),
    "class": (config(__class__="builtins.dict"), says("`__class__` is not a field")),
    "dict": (backbone(__dict__={"a": 1}), says("`backbone_config.__dict__` is not a field")),
    "attribute-map": (config(attribute_map={"hidden_size": "auto_map"}), says("`attribute_map` is not a field")),
    "sub-configs": (config(sub_configs={"a": "builtins.dict"}), says("`sub_configs` is not a field")),
    "property": (config(required_inputs=["x"]), says("`required_inputs` is not a field")),
    "auto-class": (config(_auto_class="os.system"), says("`_auto_class` is not a field")),
    "nested-twice": (
        backbone(model_type="sla-bert", backbone_config={"model_type": "cool"}),
        says("itself a composite"),
    ),
    "nested-list": (config(backbone_config=["bert"]), says(r"`backbone_config` is \['bert'\]")),
    "nested-text": (config(backbone_config="bert"), says("`backbone_config` is 'bert'")),
}

VALUES = {
    "negative": (backbone(hidden_size=-64), says("`hidden_size` of `backbone_config` is -64")),
    "zero": (backbone(num_attention_heads=0), says("`num_attention_heads` of `backbone_config` is 0")),
    "nan": (text('"classifier_dropout": 0.1', '"classifier_dropout": NaN'), says("`classifier_dropout` is nan")),
    "nan-nested": (
        text('"layer_norm_eps": 1e-12', '"layer_norm_eps": NaN'),
        says("`backbone_config.layer_norm_eps` is nan"),
    ),
    "infinite": (text('"initializer_range": 0.02', '"initializer_range": 1e999'), says("`initializer_range` is inf")),
    "text": (backbone(hidden_size="64"), says("Field 'hidden_size' expected int")),
    "list": (backbone(num_hidden_layers=[2]), says("Field 'num_hidden_layers' expected int")),
    "null": (backbone(hidden_size=None), says("Field 'hidden_size' expected int")),
    "choice": (config(mode=["g2l"]), says(r"`mode` is \['g2l'\]")),
    "float": (config(conv_filters=5.5), says("`conv_filters` is 5.5")),
    "bool": (config(num_ffn_layers=True), says("`num_ffn_layers` is True")),
    "labels-list": (config(id2label=["a"]), says(r"`id2label` is \['a'\]")),
    "labels-keys": (config(id2label={"x": "a"}), says("`id2label` is {'x': 'a'}")),
    "labels-key-huge": (config(id2label={str(10**30): "a"}), says("it must map the id of each class")),
    "labels-text": (config(num_labels="many"), says("`num_labels` is 'many'")),
    "token": (backbone(pad_token_id=10**9), says("`pad_token_id` of `backbone_config` is 1000000000")),
    "token-text": (backbone(pad_token_id="x"), says("'pad_token_id' with value 'x'")),
    "architectures-number": (config(architectures=7), says("`architectures` is 7")),
    "heads": (backbone(num_attention_heads=10**9), says("`num_attention_heads` of `backbone_config` is 1000000000")),
    "outputs": (config(output_attentions="x"), says("`output_attentions` is 'x'")),
    "version": (config(transformers_version=[1]), Harmless("nobody compares it")),
    "type-nested": (backbone(model_type=["bert"]), says(r"unknown model_type \['bert'\]")),
    "depth": (first('"a":' + "[" * 50 + "]" * 50), says("deeper than 20 levels")),
    "digits": (first('"a":' + "9" * 100_000), says("4300 digits")),
    "twice": (first('"model_type": "sla-bert"'), Harmless("the last entry of a name counts, to all who read it")),
    "surrogate": (first('"a": "\\ud800"'), Harmless("nobody looks at it")),
    "not-utf-8": (
        content("config.json", '{"model_type": "cool", "é": 1}'.encode("latin-1")),
        says("not a valid JSON file"),
    ),
    "empty": (content("config.json", ""), says("not a valid JSON file")),
}

NO_OBJECT = says("is not a readable JSON object")
SHAPES = {
    "json-depth": (first('"a":' + "[" * 100_000 + "]" * 100_000), NO_OBJECT),
    "json-list": (content("config.json", "[]"), says(r"`config.json` is \[\]; it must be an object")),
    "json-null": (content("config.json", "null"), NO_OBJECT),
}
AUTO_SHAPES = {
    "auto-depth": (first('"a":' + "[" * 100_000 + "]" * 100_000), Stock("RecursionError")),
    "auto-null": (content("config.json", "null"), Stock("TypeError")),
    "auto-type": (config(model_type=["cool"]), Stock("TypeError")),
    "auto-type-number": (config(model_type=7), ASKS_FOR_TRUST),
    "auto-list": (content("config.json", "[]"), says("Should have a `model_type`")),
}

TOO_LARGE = says(r"the weight files hold \d+ numbers in \d+ tensors")
TOO_MANY = says("10,000,000")
SIZES = {
    "size-vocabulary": (backbone(vocab_size=10**9), TOO_MANY),
    "size-vocabulary-terabytes": (
        backbone(vocab_size=10**12),
        says("`backbone_config.vocab_size` is 1000000000000"),
    ),
    "size-two-gigabytes": (backbone(vocab_size=8_000_000), TOO_LARGE),
    "size-outer": (config(vocab_size=10**9), TOO_MANY),
    "size-hidden": (backbone(hidden_size=10**9), TOO_MANY),
    "size-intermediate": (backbone(intermediate_size=10**9), TOO_LARGE),
    "size-positions": (backbone(max_position_embeddings=10**9), TOO_LARGE),
    "size-layers": (backbone(num_hidden_layers=10_000), TOO_LARGE),
    "size-layers-more": (backbone(num_hidden_layers=10**9), says("`backbone_config.num_hidden_layers` is 1000000000")),
    "size-filters": (config(conv_filters=10**7), TOO_LARGE),
    "size-kernels": (config(conv_alignment="same", conv_kernel_sizes=[10**9]), TOO_LARGE),
    "size-kernels-many": (config(conv_kernel_sizes=[3] * 20_000), TOO_LARGE),
    "size-window": (config(outlook_kernel_size=10**9 + 1), says("`outlook_kernel_size` is 1000000001")),
    "size-local-layers": (config(num_local_layers=10_000), TOO_LARGE),
    "size-ffn-layers": (config(num_ffn_layers=10**8), says("`num_ffn_layers` is 100000000")),
    "size-more-layers": (config(local_attention="deeper", num_extra_layers=10_000), TOO_LARGE),
    "size-graph": (config(local_attention="rgcn", graph_window=10**9), says("`graph_window` is 1000000000")),
    "size-chunks": (backbone(chunk_size_feed_forward=10**12), says("`backbone_config.chunk_size_feed_forward` is")),
    "size-modernbert": (
        config(backbone_config={"model_type": "modernbert", "num_hidden_layers": 10**11}),
        says("`backbone_config.num_hidden_layers` is 100000000000"),
    ),
    "size-digits": (text('"num_ffn_layers": 1', '"num_ffn_layers": 1' + "0" * 5000), says("4300 digits")),
}
SIZES_OF_HEADS = {
    "size-labels": (config(num_labels=10**9), says("`num_labels` is 1000000000")),
    "size-labels-nested": (
        backbone(num_labels=10**9, id2label=None),
        Harmless("the labels of a backbone mean nothing"),
    ),
    "size-labels-many": (config(num_labels=100_001), says("`num_labels` is 100001")),
}
SIZES_OF_SLA = {
    "size-sla-layers": (config(sla_layers=[0], num_hidden_layers=10**9), says("`num_hidden_layers` is 1000000000")),
    "size-sla-threshold": (config(syntax_threshold=10**9), says("`syntax_threshold` is 1000000000")),
    "size-sla-neighbors": (config(neighbor_window=10**9), says("`neighbor_window` is 1000000000")),
    "size-sla-window": (
        config(window_size=10**9, local_attention="window"),
        TOO_MANY,
    ),
}
SIZES_OF_OA = {
    "size-oa-blocks": (config(num_oa_layers=10_000), TOO_LARGE),
    "size-oa-intermediate": (config(oa_intermediate_size=10**7), TOO_LARGE),
    "size-oa-heads": (config(oa_num_heads=None, hidden_size=10**7 - 2), TOO_LARGE),
    "size-oa-convolution": (config(local_attention="c", oa_num_heads=4, conv_num_filters=10**7), TOO_LARGE),
    "size-oa-chunks": (config(oa_chunk_size=10**9), TOO_MANY),
}
SIZES_OF_SAM = {
    "size-sam-positions": (config(tam_max_length=10**7), TOO_LARGE),
    "size-sam-lstm": (config(bilstm_hidden_size=10**7), TOO_LARGE),
    "size-sam-lstm-layers": (config(num_bilstm_layers=10_000), TOO_LARGE),
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
    "generate-beams": (
        json_file("generation_config.json", {"num_beams": 10**12}),
        says("`num_beams` is 1000000000000"),
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
    *group("numbers and types", "cool", "config own_model model", VALUES),
    *group("what JSON is", "cool", "own_model own_config", SHAPES),
    *group("what JSON is", "cool", "config model", AUTO_SHAPES),
    *group("memory and time", "cool", "config model", SIZES),
    *group("memory and time", "cool", "config classifier", SIZES_OF_HEADS),
    *group("memory and time", "sla", "config model", SIZES_OF_SLA),
    *group("memory and time", "oa", "config model", SIZES_OF_OA),
    *group("memory and time", "sam", "config model", SIZES_OF_SAM),
    *group("what `generate` does", "bart", "generator", GENERATION),
]
