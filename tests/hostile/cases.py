"""Hostile checkpoints: for each its name, the change that makes it hostile, and how loading it must end."""

import io
import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ABSENT = object()
"""In place of a value: the entry is removed."""

OUTSIDE = "{outside}"
"""Stands in a value for a folder that is not the checkpoint's."""

CODE = "raise SystemExit('the code of a checkpoint was run')\n"

Change = Callable[[Path, Path], None]


class Attack:
    """A pickle of this runs code when it is read."""

    def __reduce__(self):
        return os.system, ("echo the pickle of a checkpoint was run >&2",)


def updated(name: str, **fields: Any) -> Change:
    """Set entries of a JSON file."""
    return lambda folder, outside: _update(folder / name, fields, outside)


config = partial(updated, "config.json")
tokenizer = partial(updated, "tokenizer_config.json")
tokens = partial(updated, "tokenizer.json")


def backbone(**fields: Any) -> Change:
    return config(backbone_config=fields)


def content(name: str, text: str | bytes) -> Change:
    """Write a file."""

    def change(folder: Path, outside: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.replace(OUTSIDE, str(outside)).encode())

    return change


def json_file(name: str, value: Any) -> Change:
    """Write a file of JSON."""
    return content(name, json.dumps(value))


def removed(*names: str) -> Change:
    """Delete files."""
    return lambda folder, outside: [(folder / name).unlink() for name in names] and None


def pickled(name: str) -> Change:
    """Write a pickle that runs code."""
    return content(name, pickle.dumps(Attack()))


def torch_saved(name: str) -> Change:
    """Write what `torch.save` makes of an object that runs code: a zip of a pickle."""
    import torch

    buffer = io.BytesIO()
    torch.save({"weight": Attack()}, buffer)
    return content(name, buffer.getvalue())


def renamed(name: str) -> Change:
    """Give a tensor of the weights another name."""

    def change(folder: Path, outside: Path) -> None:
        header, data = read_weights(folder / "model.safetensors")
        header[name] = header.pop(list(header)[-1])
        text = json.dumps(header).encode()
        content("model.safetensors", struct.pack("<Q", len(text)) + text + data)(folder, outside)

    return change


def sharded(file: str) -> Change:
    """Replace the weights by an index, which says of one tensor that it is in this file."""

    def change(folder: Path, outside: Path) -> None:
        header, data = read_weights(folder / "model.safetensors")
        names = [name for name in header if name != "__metadata__"]
        (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
        places = dict.fromkeys(names, "model-00001-of-00001.safetensors")
        places[names[0]] = file.replace(OUTSIDE, str(outside))
        index = {"metadata": {"total_size": len(data)}, "weight_map": places}
        json_file("model.safetensors.index.json", index)(folder, outside)

    return change


def several(*changes: Change) -> Change:
    """Make several changes."""

    def change(folder: Path, outside: Path) -> None:
        for one in changes:
            one(folder, outside)

    return change


def read_weights(path: Path) -> tuple[dict, bytes]:
    """The header of a safetensors file, and its data."""
    whole = path.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


def _update(path: Path, fields: dict[str, Any], outside: Path) -> None:
    values = json.loads(path.read_text(encoding="utf-8"))
    for name, value in fields.items():
        old = values.get(name)
        if value is ABSENT:
            values.pop(name, None)
            continue
        values[name] = old | value if isinstance(old, dict) and isinstance(value, dict) and value else value
    content(path.name, json.dumps(values))(path.parent, outside)


def write_outside(folder: Path, sample: Path) -> None:
    """Write a folder that no checkpoint may reach: another checkpoint, whole, with code, a parser and a pickle."""
    shutil.copytree(sample, folder, dirs_exist_ok=True)
    for path in folder.glob("*.py"):
        path.write_text(CODE)
    json_file("parser/meta.json", {"lang": "en", "name": "hostile", "version": "1.0"})(folder, folder)
    content("parser/config.cfg", '[nlp]\nlang = "en"\npipeline = []\n')(folder, folder)
    content("parser/__init__.py", CODE)(folder, folder)
    pickled("pytorch_model.bin")(folder, folder)
    for name in ("config", "tokenizer"):
        shutil.copy(folder / f"{name}.json", folder / f"{name}.4.0.json")
    content("secret.txt", "a secret of this machine\n")(folder, folder)


SAMPLES = {
    "cool": ("cool", "tiny", {"conv_filters": 5}),
    "sla": ("sla-bert", "tiny", {"parser": None}),
    "oa": ("oa-xlnet", "tiny", {}),
    "sam": ("sam-roberta", "tiny", {"bilstm_hidden_size": 8, "tam_max_length": 32}),
    "bart": ("cool", "tiny-bart", {"conv_filters": 5}),
}
"""Harmless checkpoints: family, backbone, settings. Every case is one of them with one thing changed."""

CONTROLS = {
    "cool": "config own_config plain_tokenizer checked_tokenizer own_model classifier model card",
    "sla": "sla_tokenizer checked_tokenizer model",
    "oa": "oa_tokenizer checked_tokenizer model",
    "sam": "model",
    "bart": "generator",
}
"""The calls that load them, and have to: functions of loaders.py."""

LOADS = None
"""In place of a pattern: it loads, and the hostile part has no effect."""

STOCK = ""
"""In place of a pattern: transformers or a library below ends it with an error of any class."""

OTHER_REPOSITORY = {"AutoConfig": "owner/name--code.Config", "AutoModel": "owner/name--code.Model"}
ASKS_FOR_TRUST = "trust_remote_code=True"
INDEX = "model.safetensors.index.json"
NO_WEIGHTS = removed("model.safetensors")
ONLY_BESIDE = "no safetensors file beside it"
NAMED_PARSER = "names the parser '"
A_FILE = f"{OUTSIDE}/tokenizer.json"

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

CASES = {
    "cool: config classifier model": {
        "map-repository": (config(auto_map=OTHER_REPOSITORY), LOADS),
        "map-parent": (config(auto_map={"AutoConfig": "../outside/modeling_cool.CoolConfig"}), LOADS),
        "map-absolute": (config(auto_map={"AutoModel": f"{OUTSIDE}/modeling_cool.CoolModel"}), LOADS),
        "map-unknown-type": (config(model_type="strange"), ASKS_FOR_TRUST),
        "map-unknown-repository": (config(model_type="strange", auto_map=OTHER_REPOSITORY), ASKS_FOR_TRUST),
        "map-nested": (backbone(auto_map=OTHER_REPOSITORY), LOADS),
        "map-nested-type": (backbone(model_type="strange", auto_map=OTHER_REPOSITORY), "identifier: strange"),
        "trust": (config(trust_remote_code=True, model_type="strange"), ASKS_FOR_TRUST),
        "trust-nested": (backbone(trust_remote_code=True, auto_map=OTHER_REPOSITORY), LOADS),
        "pipelines": (config(custom_pipelines={"x": {"impl": "owner/name--code.Pipeline"}}), LOADS),
        "architectures": (config(architectures=["os.system", "../outside.Model"]), LOADS),
        "configuration-files": (config(configuration_files=["../outside/config.4.0.json"]), LOADS),
        "activation": (backbone(hidden_act="__import__"), STOCK),
        "dtype": (config(dtype="__import__('pip')"), STOCK),
        "kernel": (config(attn_implementation="owner/kernel"), "`attn_implementation` is 'owner/kernel'"),
        "kernel-nested": (backbone(_attn_implementation="a/b"), "`backbone_config._attn_implementation` is 'a/b'"),
        "kernel-object": (config(_attn_implementation={"backbone_config": "a/b"}), "is {'backbone_config': 'a/b'}"),
        "kernel-switch": (config(use_kernels=True), "`use_kernels` is True"),
        "quantization": (config(quantization_config={"quant_method": "gptq"}), "`quantization_config` is"),
        "attribute": (config(sub_configs={"a": "builtins.dict"}), "`sub_configs` is not a field"),
    },
    "bart: generator": {
        "generate-code": (json_file("generation_config.json", {"custom_generate": "owner/name"}), LOADS),
        "generate-file": (content("custom_generate/generate.py", "raise SystemExit('this was run')"), LOADS),
    },
    "sla: checked_tokenizer sla_tokenizer": {
        "parser-module": (tokenizer(parser="pip"), f"{NAMED_PARSER}pip'"),
        "parser-absolute": (tokenizer(parser=f"{OUTSIDE}/parser"), f"{NAMED_PARSER}/.*/outside/parser'"),
        "parser-here": (tokenizer(parser="./parser"), f"{NAMED_PARSER}./parser'"),
        "parser-blank": (tokenizer(parser="blank:en"), f"{NAMED_PARSER}blank:en'"),
        "parser-claim": (tokenizer(parser="pip", parser_named_by_checkpoint=False), f"{NAMED_PARSER}pip'"),
        "parser-newline": (tokenizer(parser="en\nimport os"), "not the name of an installed spaCy pipeline"),
        "parser-object": (tokenizer(parser={"@llm": "x"}), "`parser` is {'@llm'"),
    },
    "sla: built_tokenizer checked_tokenizer sla_tokenizer": {
        "tokens-map": (tokenizer(auto_map={"AutoTokenizer": ["owner/name--code.T", None]}), LOADS),
        "tokens-trust": (tokenizer(trust_remote_code=True), LOADS),
        "tokens-file": (tokenizer(tokenizer_file=A_FILE), "`tokenizer_file` is '/"),
        "tokens-vocabulary": (several(removed("tokenizer.json"), tokenizer(vocab_file=A_FILE)), "`vocab_file` is '/"),
        "tokens-files": (tokenizer(fast_tokenizer_files=["../outside/tokenizer.4.0.json"]), "`fast_tokenizer_files`"),
        "tokens-gguf": (several(removed("tokenizer.json"), tokenizer(gguf_file=A_FILE)), "`gguf_file` is '/"),
        "tokens-object": (tokenizer(tokenizer_object="x"), "`tokenizer_object` is 'x'"),
        "tokens-inputs": (tokenizer(init_inputs=[A_FILE]), "`init_inputs` is"),
        "tokens-template": (tokenizer(chat_template="{{ ''.__class__.__mro__ }}"), LOADS),
        "tokens-component": (tokens(pre_tokenizer={"type": "Python", "code": "import pip"}), STOCK),
    },
    "sla: built_tokenizer": {
        "tokens-class": (tokenizer(tokenizer_class="pip.Tokenizer", auto_map=ABSENT), LOADS),
    },
    "cool: model own_model": {
        "weights-bin": (several(NO_WEIGHTS, pickled("pytorch_model.bin")), "A .bin file is a pickle"),
        "weights-zip": (several(NO_WEIGHTS, torch_saved("pytorch_model.bin")), "A .bin file is a pickle"),
        "weights-pickle": (pickled("model.safetensors"), STOCK),
        "weights-named": (config(transformers_weights="../outside/pytorch_model.bin"), "`transformers_weights` is"),
        "weights-index-bin": (several(torch_saved("x.bin"), sharded("x.bin")), ONLY_BESIDE),
        "weights-index-only-bin": (
            several(
                NO_WEIGHTS, torch_saved("x.bin"), json_file(INDEX, {"metadata": {}, "weight_map": {"a": "x.bin"}})
            ),
            ONLY_BESIDE,
        ),
        "weights-index-parent": (sharded("../outside/model.safetensors"), ONLY_BESIDE),
        "weights-distributed": (
            several(torch_saved(".metadata"), content("shard-00001-model-00001-of-00001.safetensors", "x")),
            "distributed checkpoint",
        ),
        "weights-name-code": (renamed("backbone.forward.__code__"), LOADS),
        "adapter": (json_file("adapter_config.json", {"base_model_name_or_path": OUTSIDE}), "adapter_config.json"),
        "adapter-code": (
            json_file("adapter_config.json", {"peft_type": "LORA", "auto_mapping": {"parent_library": "pip"}}),
            "adapter_config.json",
        ),
        "adapter-bin": (
            several(json_file("adapter_config.json", {}), pickled("adapter_model.bin")),
            "adapter_config.json",
        ),
    },
    # `AutoModel` reads the configuration of an adapter's base, wherever that is, before it asks any class of ours.
    "cool: own_model": {
        "adapter-alone": (
            several(removed("config.json"), json_file("adapter_config.json", {"base_model_name_or_path": OUTSIDE})),
            "adapter_config.json",
        ),
    },
    "cool: card": {
        "card-labels": (
            config(architectures=["CoolForSequenceClassification"], id2label={"0": INJECTION, "1": "b"}),
            LOADS,
        ),
        "card-class": (config(architectures=[INJECTION], qa_loss=INJECTION), LOADS),
        "card-type": (config(model_type=INJECTION), LOADS),
        "card-record": (json_file("training_record.json", RECORD), LOADS),
        "card-files": (json_file("training_record.json", {"task": "x", "files": {INJECTION: INJECTION}}), LOADS),
        "card-own": (
            content("README.md", f"---\na: !!python/object/apply:os.system [id]\n---\n{BOUNDARY}\n"),
            "cannot be",
        ),
    },
}
"""By the sample and the calls that load it, in order: the last one ends as said, the others do no harm."""
