"""Hostile checkpoints: for each its name, the files that make it hostile, and how loading it must end."""

import json
import os
import shutil

from tests.hostile.weights import DEEP, DIGITS, LYING, PICKLE

OUTSIDE = "{outside}"
"""Stands in a text for a folder that is not the checkpoint's."""

LINK = "{link}"
"""In place of a file: a link to the same one outside, or to another."""

LOOP, ZERO, PIPE = "{loop}", "{zero}", "{pipe}"
"""In place of a file: a link to itself, a link to a device without an end, a pipe whose reader waits forever."""

CODE = "raise SystemExit('the code of a checkpoint was run')\n"

LEVELS = "[" * 900 + "]" * 900
"""Nesting that JSON readers still read."""


def write(folder, outside, files):
    """Write files of a checkpoint: text, bytes, a function of the bytes, or entries of a JSON file.

    None removes a file.
    """
    for name, new in files.items():
        path = folder / name
        if callable(new):
            new = new(path.read_bytes())
        if isinstance(new, dict):
            old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            both = [key for key in new if new[key] and isinstance(old.get(key), dict) and isinstance(new[key], dict)]
            new = json.dumps(old | new | {key: old[key] | new[key] for key in both})
        path.unlink(missing_ok=True)  # it may be a link
        path.parent.mkdir(parents=True, exist_ok=True)
        if new == LINK:
            path.symlink_to(outside / ("tokenizer.json" if not (outside / name).exists() else name))
        elif new in (LOOP, ZERO):
            path.symlink_to(path.name if new == LOOP else "/dev/zero")
        elif new == PIPE:
            os.mkfifo(path)
        elif new is not None:
            path.write_bytes(new if isinstance(new, bytes) else new.replace(OUTSIDE, str(outside)).encode())


def write_outside(folder, sample):
    """Write a folder that no checkpoint may reach: another checkpoint, whole, with code, a parser and a pickle."""
    shutil.copytree(sample, folder)
    parser = {"meta.json": {"lang": "en", "name": "hostile", "version": "1.0"}, "__init__.py": CODE}
    parser |= {"config.cfg": '[nlp]\nlang = "en"\npipeline = []\n'}
    files = {path.name: CODE for path in folder.glob("*.py")} | {"pytorch_model.bin": PICKLE, "x.tensor": "secret"}
    files |= {f"{name}.4.0.json": (folder / f"{name}.json").read_bytes() for name in ("config", "tokenizer")}
    write(folder, folder, files | {f"parser/{name}": text for name, text in parser.items()})


SAMPLES = {
    "cool": ("cool", "tiny", {"conv_filters": 5}),
    "sla": ("sla-bert", "tiny", {"parser": None}),
    "oa": ("oa-xlnet", "tiny", {}),
    "sam": ("sam-roberta", "tiny", {"bilstm_hidden_size": 8, "tam_max_length": 32}),
    "bart": ("cool", "tiny-bart", {"conv_filters": 5}),
}
"""Harmless checkpoints: family, backbone, settings. Every case is one of them with one thing changed.

"stock" is the tiny BERT itself, and "exported" a graph with its tokenizer.
"""

LOADS = None
"""In place of a pattern: it loads, and the hostile part has no effect."""

INDEX = "model.safetensors.index.json"
NO_FAMILY = "no family 'strange'"  # say commands that are for families
NO_WEIGHTS = "has no .safetensors file"  # says `push`
BESIDE = f"safetensors file beside it|{NO_WEIGHTS}"
ADAPTER = {"base_model_name_or_path": OUTSIDE, "peft_type": "LORA", "auto_mapping": {"parent_library": "pip"}}

# What Jinja would run, what YAML would build, and what would end the metadata or the part of the card that is ours.
BOUNDARY = "<!-- hf-localattn writes what is above. What is below is yours, and stays. -->"
INJECTION = (
    "{{ cycler.__init__.__globals__.os.system('id') }}{% for x in range(10**9) %}{% endfor %}\n---\n"
    f"license: injected\na: !!python/object/apply:os.system [id]\n---\n{BOUNDARY} `code` | <script>"
)
RECORD = {
    **{"task": INJECTION, "base_model": INJECTION, "dataset": INJECTION, "dataset_config": INJECTION},
    "scores": [{"split": INJECTION, "metric": INJECTION, "value": 0.5}],
    **{"hyperparameters": {INJECTION: INJECTION}, "versions": {INJECTION: INJECTION}},
}


def nested(levels):
    """Return a list in a list, and so on."""
    return [nested(levels - 1)] if levels else []


CONFIG = {
    "code": ({"auto_map": {"AutoConfig": "owner/name--code.C", "AutoModel": "../outside/modeling_cool.M"}}, LOADS),
    "code-of-a-pipeline": ({"custom_pipelines": {"x": {"impl": "owner/name--code.Pipeline"}}}, LOADS),
    "code-of-the-backbone": ({"backbone_config": {"auto_map": {"AutoModel": "owner/name--code.M"}}}, LOADS),
    "code-object": ({"auto_map": {"AutoModel": 5}}, "`auto_map` is"),
    "trust": ({"trust_remote_code": True}, "`trust_remote_code` is True"),
    "trust-of-the-backbone": ({"backbone_config": {"trust_remote_code": True}}, "`backbone_config.trust_remote_code`"),
    "architectures": ({"architectures": ["os.system", "../outside.Model"]}, "`architectures` "),
    "architectures-number": ({"architectures": 5}, "`architectures` is 5"),
    "backbone-text": ({"backbone_config": "bert"}, "`backbone_config`"),
    "architecture-of-transformers": ({"architectures": ["RagModel"]}, "no class of this family"),
    "activation": ({"backbone_config": {"hidden_act": "__import__"}}, "`backbone_config.hidden_act` is"),
    "kernel": ({"attn_implementation": "owner/kernel"}, "`attn_implementation` is 'owner/kernel'"),
    "kernel-by-part": ({"_attn_implementation": {"backbone_config": "a/b"}}, "`_attn_implementation` is"),
    "kernel-of-the-backbone": ({"backbone_config": {"attn_implementation": "a/b"}}, "`backbone_config.attn"),
    "flash": ({"attn_implementation": "flash_attention_2"}, "'flash_attention_2'"),
    "experts": ({"experts_implementation": "owner/kernel"}, "`experts_implementation` is"),
    "kernels": ({"use_kernels": True}, "`use_kernels` is True"),
    "kernels-named": ({"kernel_config": {"kernel_mapping": {"RMSNorm": "a/b:C"}}}, "`kernel_config` is"),
    "quantized": ({"quantization_config": {"quant_method": "torchao"}}, "`quantization_config` is"),
    "quantized-backbone": (
        {"backbone_config": {"quantization_config": {"quant_method": "x"}}},
        "quantization_config`",
    ),
    "fused": ({"fusion_config": {"patch_embeddings": True}}, "`fusion_config` is"),
    "distributed": ({"distributed_config": {"tp_size": 2}}, "`distributed_config` is"),
    "parts": ({"sub_configs": {"a": "builtins.dict"}}, "`sub_configs` is"),
    "map-of-attributes": ({"attribute_map": {"vocab_size": "__class__"}}, "`attribute_map` is"),
    "layers": ({"per_layer_config": {"0": {"hidden_size": 1}}}, "`per_layer_config` is"),
    "method": ({"to_dict": 3}, "`to_dict` is"),
    "class": ({"__class__": "x"}, "`__class__` is"),
    "folder-of-code": ({"code_folder": OUTSIDE}, "`code_folder` is"),
    "type": ({"model_type": "strange"}, f"'strange', which is not a text encoder|{NO_FAMILY}"),
    "type-of-the-backbone": ({"backbone_config": {"model_type": "strange"}}, "'strange', which is not a text encoder"),
    "type-no-text": ({"backbone_config": {"model_type": ["bert"]}}, "which is not a text encoder"),
    "composite": (
        {"backbone_config": {"model_type": "maskformer", "backbone": "owner/x", "use_timm_backbone": False}},
        "'maskformer', which is not a text encoder",
    ),
    "detectron": ({"backbone_config": {"model_type": "layoutlmv2"}}, "'layoutlmv2', which is not"),
    "itself": ({"backbone_config": {"model_type": "cool"}}, "itself a composite model"),
    "backbone-of-timm": ({"backbone_config": {"backbone": "owner/x"}}, "`backbone_config.backbone` is"),
    "dtype": ({"dtype": "hub"}, "`dtype` is 'hub'"),
    "dtype-of-the-backbone": ({"backbone_config": {"torch_dtype": "nn"}}, "`backbone_config.torch_dtype` is"),
    "compiled": ({"backbone_config": {"reference_compile": True}}, "reference_compile` is True"),
    "weights-named": ({"transformers_weights": "../outside/pytorch_model.bin"}, "`transformers_weights` is"),
    "tokenizer-named": ({"tokenizer_class": "BertModel"}, "`tokenizer_class` is 'BertModel'"),
    "unknown": ({"of_tomorrow": "owner/name"}, "`of_tomorrow` is"),
    "unknown-number": ({"of_tomorrow": 1}, "`of_tomorrow` is"),
    "field-object": ({"conv_filters": {"a": 1}}, "`conv_filters` is"),
    "labels": ({"id2label": "os.system"}, "label"),
    "nested": (
        {"backbone_config": {"backbone_config": {"model_type": "bert"}}},
        "`backbone_config.backbone_config` is",
    ),
    "sub-config": ({"text_config": {"model_type": "clip", "backbone": "owner/x"}}, "`text_config` is"),
    "lists-in-lists": ({"conv_filters": nested(60)}, "`conv_filters` is"),
    "objects-in-objects": ({"auto_map": {"AutoModel": nested(60)}}, "`auto_map` is"),
    "control": ({"x\x1b[2J\ny": "\x1b"}, r"x\\x1b\[2J\\ny"),
}
"""Entries of `config.json`, and the word of the error; LOADS if it loads and the entry has no effect."""

VALUES = {
    "value-text": ({"backbone_config": {"hidden_size": "x"}}, "`backbone_config.hidden_size` is"),
    "value-list": ({"backbone_config": {"max_position_embeddings": [1]}}, "max_position_embeddings` is"),
    "value-zero": ({"backbone_config": {"num_attention_heads": 0}}, "`backbone_config.num_attention_heads` is"),
    "value-half": ({"backbone_config": {"num_hidden_layers": 1.5}}, "`backbone_config.num_hidden_layers` is"),
    "value-negative": ({"backbone_config": {"vocab_size": -1}}, "`backbone_config.vocab_size` is"),
    "value-large": ({"backbone_config": {"vocab_size": 10**30}}, "`backbone_config.vocab_size` is"),
    "value-truth": ({"backbone_config": {"intermediate_size": True}}, "`backbone_config.intermediate_size` is"),
    "value-null": ({"backbone_config": {"hidden_size": None}}, "`backbone_config.hidden_size` is"),
    "value-share": ({"backbone_config": {"hidden_dropout_prob": 5.0}}, "`backbone_config.hidden_dropout_prob` is"),
    "value-no-number": ({"backbone_config": {"layer_norm_eps": float("nan")}}, "`backbone_config.layer_norm_eps` is"),
    "value-infinite": ({"backbone_config": {"initializer_range": float("inf")}}, "initializer_range` is inf"),
    "value-flag": ({"backbone_config": {"use_cache": "yes"}}, "`backbone_config.use_cache` is"),
    "value-token": ({"backbone_config": {"eos_token_id": ["x"]}}, "`backbone_config.eos_token_id` is"),
    "value-padding": ({"backbone_config": {"pad_token_id": 10**6}}, "must be below `vocab_size`"),
    "value-heads": ({"backbone_config": {"num_attention_heads": 7}}, "no multiple of `num_attention_heads`"),
    "value-rotation": ({"backbone_config": {"rope_parameters": {"rope_theta": "x"}}}, "rope_parameters` is"),
    "value-decoder": ({"backbone_config": {"is_decoder": True}}, "`backbone_config.is_decoder` is"),
    "value-crossed": ({"backbone_config": {"add_cross_attention": True}}, "`backbone_config.add_cross_attention` is"),
    "value-problem": ({"problem_type": "x"}, "`problem_type` is"),
    "value-label": ({"id2label": {"a": "x"}}, "`id2label` is"),
    "value-label-number": ({"id2label": {DIGITS: "x"}}, "`id2label` is"),
    "value-field": ({"conv_filters": "x"}, "`conv_filters` is"),
    "value-field-large": ({"initializer_range": float("nan")}, "`initializer_range` is nan"),
    "value-field-choice": ({"fusion": "x"}, "`fusion` is 'x'"),
}
"""Entries of `config.json` with which no model can be built."""

TOGETHER = {
    "together-heads": {"outlook_num_heads": 7},
    "together-states": {"encoder_states": [9]},
}
"""Entries that are valid alone, but not with the others. The error names the file."""

SHAPES = {
    "shapes-of-weights": {"backbone_config": {"intermediate_size": 7}},
    "shapes-of-positions": {"backbone_config": {"model_type": "roberta", "pad_token_id": 900}},
}
"""Entries that fit no weights, or no model. The error names the folder, which has the case's name."""

TOKENIZER = {
    "class-of-a-model": ({"tokenizer_class": "BertModel"}, "`tokenizer_class` is"),
    "class-of-a-library": ({"tokenizer_class": "XLMTokenizer"}, "`tokenizer_class` is"),
    "class-of-a-retriever": ({"tokenizer_class": "RagRetriever"}, "`tokenizer_class` is"),
    "class-elsewhere": ({"tokenizer_class": "pip.Tokenizer"}, "`tokenizer_class` is"),
    "class-object": ({"tokenizer_class": ["BertTokenizer"]}, "`tokenizer_class` is"),
    "tokens-code": ({"auto_map": {"AutoTokenizer": ["owner/name--code.T", None]}}, LOADS),
    "tokens-trust": ({"trust_remote_code": True}, "`trust_remote_code` is"),
    "tokens-template": ({"chat_template": "{{ ''.__class__.__mro__ }}"}, LOADS),
    "tokens-template-files": ({"chat_template": "{% include '../outside/x.tensor' %}{% import 'os' %}"}, LOADS),
    "tokens-templates": ({"chat_template": [{"name": "../../x", "template": "x"}]}, "`chat_template` is"),
    "tokens-template-name": ({"chat_template": [{"name": 5, "template": "x"}]}, "`chat_template` is"),
    "tokens-template-code": ({"chat_template": {"x": {"module": "pip"}}}, "`chat_template` is"),
    "tokens-content": ({"unk_token": {"content": 5}}, "`unk_token` is"),
    "tokens-empty": ({"unk_token": {"lstrip": True}}, "`unk_token` is"),
    "tokens-file": ({"tokenizer_file": f"{OUTSIDE}/tokenizer.json"}, "`tokenizer_file` is"),
    "tokens-vocab": ({"vocab_file": f"{OUTSIDE}/vocab.txt"}, "`vocab_file` is"),
    "tokens-merges": ({"merges_file": "../outside/merges.txt"}, "`merges_file` is"),
    "tokens-files": ({"fast_tokenizer_files": ["../outside/tokenizer.4.0.json"]}, "`fast_tokenizer_files` is"),
    "tokens-object": ({"tokenizer_object": "x"}, "`tokenizer_object` is"),
    "tokens-inputs": ({"init_inputs": [f"{OUTSIDE}/tokenizer.json"]}, "`init_inputs` is"),
    "tokens-gguf": ({"gguf_file": "../outside/x.gguf"}, "`gguf_file` is"),
    "tokens-mistral": ({"fix_mistral_regex": True}, "`fix_mistral_regex` is"),
    "tokens-processor": ({"post_processor": "x"}, "`post_processor` is"),
    "tokens-vocabulary": ({"vocab": {"a": 0}}, "`vocab` is"),
    "tokens-backend": ({"backend": {"module": "pip"}}, "`backend` is"),
    "tokens-names": ({"model_input_names": {"a": "b"}}, "`model_input_names` is"),
    "tokens-token": ({"unk_token": {"content": "x", "module": "pip"}}, "`unk_token` is"),
    "tokens-added": ({"added_tokens_decoder": {"0": {"content": "x", "call": "y"}}}, "`added_tokens_decoder` is"),
    "tokens-extra": ({"extra_special_tokens": {"image": {"path": "x"}}}, "`extra_special_tokens` is"),
    "tokens-schema": ({"response_template": {"x": "y"}}, "`response_template` is"),
    "tokens-limit": ({"model_max_length": -1}, "`model_max_length` is -1"),
    "tokens-limit-text": ({"model_max_length": "x"}, "`model_max_length` is 'x'"),
    "tokens-limit-half": ({"model_max_length": 1.5}, "`model_max_length` is 1.5"),
    "tokens-side": ({"padding_side": "middle"}, "`padding_side` is"),
    "tokens-flag": ({"do_lower_case": "x"}, "`do_lower_case` is"),
    "tokens-stride": ({"stride": -1}, "`stride` is -1"),
    "tokens-no-id": ({"added_tokens_decoder": {"x": {"content": "a"}}}, "`added_tokens_decoder` is"),
    "tokens-large-id": ({"added_tokens_decoder": {DIGITS: {"content": "a"}}}, "`added_tokens_decoder` is"),
    "tokens-token-flag": ({"unk_token": {"content": "x", "lstrip": 5}}, "`unk_token` is"),
    "tokens-setting": ({"parser": 5}, "`parser` is 5"),
    "tokens-control": ({"chat_control_tokens": ["a"]}, "`chat_control_tokens` is"),
}

PARSERS = {
    "parser-module": ({"parser": "pip", "parser_named_by_checkpoint": False}, "`parser_named_by_checkpoint` is|'pip'"),
    "parser-folder": ({"parser": f"{OUTSIDE}/parser"}, "outside/parser', which is not the name"),
    "parser-object": ({"parser": {"@llm": "x"}}, "`parser` is {'@llm'"),
}

GENERATION = {
    "generation-code": ({"custom_generate": "owner/name"}, "`custom_generate` is"),
    "generation-hub": ({"num_beam_groups": 2, "num_beams": 4}, "`num_beam_groups` is"),
    "generation-dola": ({"dola_layers": "high"}, "`dola_layers` is"),
    "generation-contrastive": ({"penalty_alpha": 0.6, "top_k": 4}, "`penalty_alpha` is"),
    "generation-constrained": ({"force_words_ids": [[5]]}, "`force_words_ids` is"),
    "generation-cache": ({"cache_implementation": "quantized"}, "`cache_implementation` is"),
    "generation-compiled": ({"compile_config": {"backend": "x"}}, "`compile_config` is"),
    "generation-text": ({"num_beams": "x"}, "`num_beams` is 'x'"),
    "generation-negative": ({"max_length": -1}, "`max_length` is -1"),
    "generation-no-number": ({"temperature": float("nan")}, "`temperature` is nan"),
    "generation-share": ({"top_p": 5.0}, "`top_p` is 5.0"),
    "generation-stop": ({"early_stopping": "x"}, "`early_stopping` is 'x'"),
    "generation-token": ({"eos_token_id": "x"}, "`eos_token_id` is 'x'"),
    "generation-watermark": ({"watermarking_config": {"class": "x"}}, "`watermarking_config` is"),
}

WEIGHTS = {
    "weights-bin": (
        {"model.safetensors": None, "pytorch_model.bin": PICKLE},
        f"pytorch_model.bin: it is a pickle|{NO_WEIGHTS}",
    ),
    "weights-bins": (
        {"model.safetensors": None, "pytorch_model-00001-of-00002.bin": PICKLE},
        f"pytorch_model-00001-of-00002.bin: it is a pickle|{NO_WEIGHTS}",
    ),
    "weights-index": ({"model.safetensors": None, "x.bin": PICKLE, INDEX: {"weight_map": {"a": "x.bin"}}}, BESIDE),
    "weights-outside": (
        {"model.safetensors": None, INDEX: {"weight_map": {"a": "../outside/model.safetensors"}}},
        BESIDE,
    ),
    "weights-absolute": (
        {"model.safetensors": None, INDEX: {"weight_map": {"a": f"{OUTSIDE}/model.safetensors"}}},
        BESIDE,
    ),
    "weights-map": ({"model.safetensors": None, INDEX: {"weight_map": ["model.safetensors"]}}, BESIDE),
    "weights-extra": ({INDEX: {"weight_map": {"a": "model.safetensors"}, "reader": "pip"}}, "`reader` is"),
    "weights-distributed": ({".metadata": PICKLE}, ".metadata: it is the index of a distributed checkpoint"),
    "weights-pickle": ({"model.safetensors": PICKLE}, "safetensors"),
    "weights-header": ({"model.safetensors": (10**9).to_bytes(8, "little") + b"{}"}, "safetensors"),
    **{f"weights-{case}": ({"model.safetensors": content}, "safetensors") for case, content in LYING.items()},
    "weights-missing": (
        {"model.safetensors": None, INDEX: {"weight_map": {"a": "model-00002-of-00002.safetensors"}}},
        "which is not beside it",
    ),
    "weights-device": ({"model.safetensors": ZERO}, "model.safetensors: it is a link"),
    "weights-letters": ({"Model.SafeTensors": PICKLE}, "Model.SafeTensors: some systems"),
    "weights-bin-letters": ({"model.safetensors": None, "PyTorch_Model.bin": PICKLE}, "Model.bin: it is a pickle"),
    "processors": (
        {
            f"{name}.json": {"auto_map": {"AutoProcessor": "owner/name--code.P"}, "processor_class": "pip.P"}
            for name in ("preprocessor_config", "processor_config", "video_preprocessor_config")
        },
        LOADS,
    ),
    "spacy-files": (
        {"config.cfg": '[nlp]\nlang = "en"\n[components.x]\n@misc = "os.system"\n', "meta.json": {"name": "pip"}},
        LOADS,
    ),
    "weights-beside": ({"pytorch_model.bin": PICKLE, "tf_model.h5": b"x", "model.pkl": PICKLE}, LOADS),
    "adapter": (
        {"adapter_config.json": ADAPTER, "adapter_model.bin": PICKLE},
        "adapter_config.json: it is an adapter",
    ),
    "adapter-object": ({"adapter_config.json": {"peft_type": ["x"]}}, "adapter_config.json: it is an adapter"),
    "vocabulary": ({"tiktoken.model": "x"}, "tiktoken.model: it is a vocabulary"),
}
"""Files besides the entries of JSON files."""

LINKS = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "training_record.json")
"""Files that are links to files outside."""

BROKEN = {
    "config-twice": (
        {"config.json": '{"model_type": "cool", "conv_filters": 5, "conv_filters": 7}'},
        "'conv_filters' twice",
    ),
    "config-number": ({"config.json": '{"model_type": "cool", "conv_filters": 1%s}' % ("0" * 5000)}, "config.json"),
    "config-deep": ({"config.json": f'{{"model_type": "cool", "x": {DEEP}'}, "config.json"),
    "config-loop": ({"config.json": LOOP}, "config.json: it is a link|no config.json|folder with a `config.json`"),
    "config-pipe": ({"config.json": PIPE}, "config.json: it is a link|no config.json|folder with a `config.json`"),
    "config-letters": ({"Config.json": {"model_type": "maskformer"}}, "Config.json: some systems"),
    "tokenizer-loop": ({"tokenizer_config.json": LOOP}, "tokenizer_config.json: it is a link"),
    "tokenizer-pipe": ({"tokenizer.json": PIPE}, "tokenizer.json: it is a link"),
    "templates-loop": ({"additional_chat_templates": LOOP}, "additional_chat_templates: it is a link"),
    "broken-config": ({"config.json": "{"}, "config.json"),
    "config-list": ({"config.json": "[1]"}, "config.json|identif"),
    "config-bytes": ({"config.json": b"\xff\xfe"}, "config.json"),
    "config-surrogate": ({"config.json": '{"model_type": "cool", "x": "\\ud800"}'}, "config.json"),
    "levels-config": ({"config.json": f'{{"model_type": "cool", "x": {LEVELS}}}'}, "config.json"),
    "levels-tokenizer": ({"tokenizer_config.json": f'{{"x": {LEVELS}}}'}, "tokenizer_config.json"),
    "deep-tokenizer": ({"tokenizer_config.json": DEEP}, "tokenizer_config.json"),
    "digits-tokenizer": (
        {"tokenizer_config.json": f'{{"model_max_length": {DIGITS}}}'},
        "tokenizer_config.json",
    ),
    "digits-generation": ({"generation_config.json": f'{{"max_length": {DIGITS}}}'}, "generation_config.json"),
    "deep-map": ({"special_tokens_map.json": DEEP}, "special_tokens_map.json"),
    "deep-index": ({INDEX: f'{{"weight_map": {DEEP}'}, INDEX),
    "broken-tokenizer": ({"tokenizer_config.json": "[]"}, "tokenizer_config.json"),
    "broken-map": ({"special_tokens_map.json": '{"vocab_file": "../outside/vocab.txt"}'}, "`vocab_file` is"),
    "broken-index": ({INDEX: "x"}, INDEX),
    "broken-generation": ({"generation_config.json": "5"}, "generation_config.json"),
    "map-token": ({"special_tokens_map.json": '{"unk_token": {"content": "x", "pip": 1}}'}, "`unk_token` is"),
    "map-extra": ({"special_tokens_map.json": '{"tokenizer_object": "x"}'}, "`tokenizer_object` is"),
    "map-flag": ({"special_tokens_map.json": '{"unk_token": {"content": "x", "lstrip": 5}}'}, "`unk_token` is"),
    "added-text": ({"added_tokens.json": '{"a": "x"}'}, "`a` is 'x'"),
    "added-object": ({"added_tokens.json": '{"a": {"b": 1}}'}, "`a` is"),
    "unreadable-json": ({"tokenizer.json": "x"}, "tokenizer.json: no tokenizer"),
    "unreadable-tokenizer": ({"tokenizer.json": "{}"}, "tokenizer.json: no tokenizer"),
    "unreadable-list": ({"tokenizer.json": "[{}]"}, "tokenizer.json: no tokenizer"),
    "unreadable-levels": ({"tokenizer.json": "[" * 100_000}, "tokenizer.json: no tokenizer"),
    "template-link": ({"chat_template.jinja": LINK}, "chat_template.jinja: it is a link"),
    "templates-link": ({"additional_chat_templates/x.jinja": LINK}, "x.jinja: it is a link"),
}

STOCK = {
    "stock-composite": ({"config.json": {"model_type": "maskformer", "backbone": "owner/x"}}, "'maskformer', which"),
    "stock-detectron": ({"config.json": {"model_type": "layoutlmv2"}}, "'layoutlmv2', which"),
    "stock-strange": ({"config.json": {"model_type": "x", "auto_map": {"AutoConfig": "code.C"}}}, "'x', which"),
    "stock-tokenizer": ({"tokenizer_config.json": {"tokenizer_class": "BertModel"}}, "`tokenizer_class` is"),
    "stock-tokenizer-named": ({"config.json": {"tokenizer_class": "RagRetriever"}}, "`tokenizer_class` is"),
    "stock-quantized": ({"config.json": {"quantization_config": {"quant_method": "x"}}}, "`quantization_config` is"),
    "stock-kernel": ({"config.json": {"attn_implementation": "owner/kernel"}}, "`attn_implementation` is"),
    "stock-elsewhere": (
        {"config.json": {"configuration_files": ["../outside/config.4.0.json"]}},
        "`configuration_files` is",
    ),
    "stock-bin": ({"model.safetensors": None, "pytorch_model.bin": PICKLE}, f"bin: it is a pickle|{NO_WEIGHTS}"),
    "stock-weights": ({"config.json": {"transformers_weights": "../outside/x.bin"}}, "`transformers_weights` is"),
    "stock-dtype": ({"config.json": {"dtype": "hub"}}, "`dtype` is"),
    "stock-vocab": ({"tokenizer_config.json": {"vocab_file": f"{OUTSIDE}/vocab.txt"}}, "`vocab_file` is"),
    "stock-link": ({"tokenizer.json": LINK}, "tokenizer.json: it is a link"),
    "stock-value": ({"config.json": {"hidden_size": "x"}}, "`hidden_size` is 'x'"),
    "stock-heads": ({"config.json": {"num_attention_heads": 7}}, "no multiple of `num_attention_heads`"),
    "stock-unknown": ({"config.json": {"of_tomorrow": "owner/name", "trust_remote_code": True}}, LOADS),
}
"""A stock BERT: transformers itself would read these."""

EXPORTED = {
    "graph-class": ({"config.json": {"architectures": ["LocalAttentionConfig"]}}, "no class of this family"),
    "graph-type": ({"config.json": {"model_type": "strange"}}, f"'strange', which|{NO_FAMILY}"),
    "graph-code": ({"export.json": {"trust_remote_code": "yes"}}, "`trust_remote_code` is"),
    "graph-task": ({"export.json": {"task": {"module": "pip"}}}, "`task` is"),
    "graph-labels": ({"export.json": {"labels": {"0": "x"}}}, "`labels` is"),
    "graph-unknown": ({"export.json": {"provider": "x.so"}}, "`provider` is"),
    "graph-named": ({"export.json": {"graph": f"{OUTSIDE}/model.onnx"}}, "`graph` is"),
    "graph-length": ({"export.json": {"max_length": "x"}}, "`max_length` is"),
    "graph-large": ({"export.json": {"max_length": 10**30}}, "`max_length` is 1"),
    "graph-flag": ({"export.json": {"has_segments": "x"}}, "`has_segments` is 'x'"),
    "graph-padding": ({"export.json": {"padding": {"pad_id": "x"}}}, "`padding` is"),
    "graph-tokens": ({"export.json": {"no_answer_tokens": ["x"]}}, "`no_answer_tokens` is"),
    "graph-label": ({"export.json": {"labels": [5]}}, "`labels` is"),
    "graph-data-outside": (
        {"model.onnx": lambda graph: graph.replace(b"weights.safetensors", b"../outside/x.tensor")},
        "model.onnx is no graph that runs",
    ),
    "graph-data-absolute": (
        {"model.onnx": lambda graph: graph.replace(b"weights.safetensors", b"/etc//../etc/passwd")},
        "model.onnx is no graph that runs",
    ),
    "graph-broken": ({"model.onnx": b"x"}, "model.onnx is no graph that runs"),
    "graph-link": ({"model.onnx": LINK}, "model.onnx: it is a link"),
    "graph-data-link": ({"model.onnx.data": LINK}, "model.onnx.data: it is a link"),
    "graph-tokenizer": ({"tokenizer_config.json": {"tokenizer_class": "BertModel"}}, "`tokenizer_class` is"),
    "graph-adapter": ({"adapter_config.json": ADAPTER}, "adapter_config.json: it is an adapter"),
}

CARDS = {
    "card-labels": (
        {"config.json": {"architectures": ["CoolForSequenceClassification"], "id2label": {"0": INJECTION}}},
        LOADS,
    ),
    "card-class": ({"config.json": {"architectures": [INJECTION]}}, "`architectures` "),
    "card-field": ({"config.json": {"qa_loss": INJECTION}}, "`qa_loss` is"),
    "card-record": ({"training_record.json": RECORD}, LOADS),
    "card-files": ({"training_record.json": {"task": "x", "files": {INJECTION: INJECTION}}}, LOADS),
    "card-results": ({"training_record.json": None, "all_results.json": "[]"}, "all_results.json"),
    "card-results-deep": ({"training_record.json": None, "all_results.json": DEEP}, "all_results.json"),
    "card-results-values": (
        {"training_record.json": None, "all_results.json": {"eval_accuracy": {"a": 1}, "eval_samples": "x"}},
        LOADS,
    ),
    "card-state": ({"training_record.json": None, "trainer_state.json": {"log_history": 5}}, "`log_history` is 5"),
    "card-state-entry": (
        {"training_record.json": None, "trainer_state.json": {"log_history": [5]}},
        "`log_history.0` is 5",
    ),
    "card-state-steps": ({"training_record.json": None, "trainer_state.json": {"max_steps": "x"}}, "`max_steps` is"),
    "card-own": ({"README.md": f"---\na: !!python/object/apply:os.system [id]\n---\n{BOUNDARY}\n"}, "cannot be"),
    "card-link": ({"README.md": LINK}, "README.md: it is a link"),
}
"""Cards alone read these."""


def in_file(name, cases):
    """Cases as files: each changes entries of one."""
    return {case: ({name: entries}, ends) for case, (entries, ends) in cases.items()}


CASES = {
    "cool": {
        **in_file("config.json", CONFIG),
        "elsewhere": (
            {"config.json": {"configuration_files": ["../outside/config.4.0.json"]}},
            "`configuration_files`",
        ),
        **WEIGHTS,
        **BROKEN,
        **in_file("config.json", VALUES),
        **in_file("config.json", {case: (entries, "config.json: ") for case, entries in TOGETHER.items()}),
        **in_file("config.json", {case: (entries, case) for case, entries in SHAPES.items()}),
        **{f"link-{name}": ({name: LINK}, f"{name}: it is a link") for name in LINKS},
    },
    "sla": {
        **in_file("tokenizer_config.json", {**TOKENIZER, **PARSERS}),
        **{f"link-{name}": ({name: LINK}, f"{name}: it is a link") for name in LINKS[1:3]},
    },
    "bart": in_file("generation_config.json", GENERATION),
    "stock": STOCK,
    "exported": EXPORTED,
    "cards": CARDS,
}
"""By the harmless checkpoint: the files that make it hostile, and how everything that opens it must end."""
