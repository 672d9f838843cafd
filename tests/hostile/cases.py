"""Hostile checkpoints: for each its name, the files that make it hostile, and how loading it must end."""

import json
import shutil

OUTSIDE = "{outside}"
"""Stands in a text for a folder that is not the checkpoint's."""

CODE = "raise SystemExit('the code of a checkpoint was run')\n"


PICKLE = b"cos\nsystem\n(S'echo the pickle of a checkpoint was run >&2'\ntR."


def write(folder, outside, files):
    """Write files of a checkpoint: text, bytes, or entries of a JSON file. None removes a file."""
    for name, new in files.items():
        path = folder / name
        if isinstance(new, dict):
            old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            both = [key for key in new if new[key] and isinstance(old.get(key), dict) and isinstance(new[key], dict)]
            new = json.dumps(old | new | {key: old[key] | new[key] for key in both})
        path.unlink(missing_ok=True)  # it may be a link
        path.parent.mkdir(parents=True, exist_ok=True)
        if new is not None:
            path.write_bytes(new if isinstance(new, bytes) else new.replace(OUTSIDE, str(outside)).encode())


def write_outside(folder, sample):
    """Write a folder that no checkpoint may reach: another checkpoint, whole, with code, a parser and a pickle."""
    shutil.copytree(sample, folder)
    parser = {"meta.json": {"lang": "en", "name": "hostile", "version": "1.0"}, "__init__.py": CODE}
    parser |= {"config.cfg": '[nlp]\nlang = "en"\npipeline = []\n'}
    files = {path.name: CODE for path in folder.glob("*.py")} | {"pytorch_model.bin": PICKLE}
    files |= {f"{name}.4.0.json": (folder / f"{name}.json").read_bytes() for name in ("config", "tokenizer")}
    write(folder, folder, files | {f"parser/{name}": text for name, text in parser.items()})


SAMPLES = {
    "cool": ("cool", "tiny", {"conv_filters": 5}),
    "sla": ("sla-bert", "tiny", {"parser": None}),
    "oa": ("oa-xlnet", "tiny", {}),
    "sam": ("sam-roberta", "tiny", {"bilstm_hidden_size": 8, "tam_max_length": 32}),
    "bart": ("cool", "tiny-bart", {"conv_filters": 5}),
}
"""Harmless checkpoints: family, backbone, settings. Every case is one of them with one thing changed."""

LOADS = None
"""In place of a pattern: it loads, and the hostile part has no effect."""

STOCK = ""
"""In place of a pattern: transformers or a library below ends it with an error of any class."""

ELSEWHERE = {
    **{"auto_map": {"AutoConfig": "owner/name--code.Config", "AutoModel": "../outside/modeling_cool.CoolModel"}},
    **{"trust_remote_code": True, "configuration_files": ["../outside/config.4.0.json"]},
}
INDEX = "model.safetensors.index.json"
ONLY_BESIDE = "no safetensors file beside it"
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


def of(name, *cases):
    """Cases that change one file, each with a name, its entries or its text, and how loading ends."""
    return {case: ({name: new}, ends) for case, new, ends in cases}


CASES = {
    "cool: own_config checked_tokenizer": {},
    "oa: oa_tokenizer checked_tokenizer model": {},
    "sam: model": {},
    "cool: config classifier model": of(
        "config.json",
        ("code", {**ELSEWHERE, "custom_pipelines": {"x": {"impl": "owner/name--code.Pipeline"}}}, LOADS),
        ("code-of-the-backbone", {"backbone_config": ELSEWHERE}, LOADS),
        ("architectures", {"architectures": ["os.system", "../outside.Model"]}, LOADS),
        ("unknown-type", {**ELSEWHERE, "model_type": "strange"}, "trust_remote_code=True"),
        ("unknown-backbone", {"backbone_config": {**ELSEWHERE, "model_type": "strange"}}, "identifier: strange"),
        ("activation", {"backbone_config": {"hidden_act": "__import__"}}, STOCK),
        ("kernel", {"attn_implementation": "owner/kernel"}, "`attn_implementation` is 'owner/kernel'"),
        ("kernel-by-part", {"_attn_implementation": {"backbone_config": "a/b"}}, "is {'backbone_config': 'a/b'}"),
        ("kernels", {"use_kernels": True}, "`use_kernels` is True"),
        ("quantized", {"backbone_config": {"quantization_config": {"quant_method": "x"}}}, "quantization_config` is"),
        ("attribute", {"sub_configs": {"a": "builtins.dict"}}, "`sub_configs` is not a field"),
    ),
    "bart: generator": {
        "generation": (
            {"generation_config.json": {"custom_generate": "owner/name"}, "custom_generate/generate.py": CODE},
            LOADS,
        ),
    },
    "sla: checked_tokenizer sla_tokenizer": of(
        "tokenizer_config.json",
        ("parser-module", {"parser": "pip", "parser_named_by_checkpoint": False}, "names the parser 'pip'"),
        ("parser-folder", {"parser": f"{OUTSIDE}/parser"}, "outside/parser', which is not the name"),
        ("parser-object", {"parser": {"@llm": "x"}}, "`parser` is {'@llm'"),
    ),
    "sla: built_tokenizer checked_tokenizer sla_tokenizer": {
        **of(
            "tokenizer_config.json",
            ("tokens-code", {"auto_map": {"AutoTokenizer": ["owner/name--code.T", None]}}, LOADS),
            ("tokens-trust", {"trust_remote_code": True, "chat_template": "{{ ''.__class__.__mro__ }}"}, LOADS),
            ("tokens-file", {"tokenizer_file": f"{OUTSIDE}/tokenizer.json"}, "`tokenizer_file` is '/"),
            ("tokens-files", {"fast_tokenizer_files": ["../outside/tokenizer.4.0.json"]}, "`fast_tokenizer_files`"),
            ("tokens-object", {"tokenizer_object": "x"}, "`tokenizer_object` is 'x'"),
            ("tokens-inputs", {"init_inputs": [f"{OUTSIDE}/tokenizer.json"]}, "`init_inputs` is"),
        ),
        **of("tokenizer.json", ("tokens-part", {"pre_tokenizer": {"type": "Python", "code": "import pip"}}, STOCK)),
    },
    "sla: built_tokenizer": of(
        "tokenizer_config.json", ("tokens-class", {"tokenizer_class": "pip.Tokenizer", "auto_map": {}}, LOADS)
    ),
    "cool: model own_model": {
        "weights-bin": ({"model.safetensors": None, "pytorch_model.bin": PICKLE}, "A .bin file is a pickle"),
        "weights-named": (
            {"config.json": {"transformers_weights": "../outside/pytorch_model.bin"}},
            "`transformers_weights` is",
        ),
        "weights-index": (
            {"model.safetensors": None, "x.bin": PICKLE, INDEX: {"weight_map": {"a": "x.bin"}}},
            ONLY_BESIDE,
        ),
        "weights-outside": (
            {"model.safetensors": None, INDEX: {"weight_map": {"a": "../outside/model.safetensors"}}},
            ONLY_BESIDE,
        ),
        **of("model.safetensors", ("weights-pickle", PICKLE, STOCK)),
        **of(".metadata", ("weights-distributed", PICKLE, "distributed checkpoint")),
        "adapter": ({"adapter_config.json": ADAPTER, "adapter_model.bin": PICKLE}, "adapter_config.json"),
    },
    # `AutoModel` reads the configuration of an adapter's base, wherever that is, before it asks any class of ours.
    "cool: own_model": {
        "adapter-alone": ({"config.json": None, "adapter_config.json": ADAPTER}, "adapter_config.json"),
    },
    "cool: card": {
        **of(
            "config.json",
            ("card-labels", {"architectures": ["CoolForSequenceClassification"], "id2label": {"0": INJECTION}}, LOADS),
            ("card-class", {"architectures": [INJECTION], "qa_loss": INJECTION}, LOADS),
            ("card-type", {"model_type": INJECTION}, LOADS),
        ),
        **of(
            "training_record.json",
            ("card-record", RECORD, LOADS),
            ("card-files", {"task": "x", "files": {INJECTION: INJECTION}}, LOADS),
        ),
        **of(
            "README.md", ("card-own", f"---\na: !!python/object/apply:os.system [id]\n---\n{BOUNDARY}\n", "cannot be")
        ),
    },
}
"""By the sample and the calls that load it, in order: the last one ends as said, the others do no harm."""
