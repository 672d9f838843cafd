"""Hostile tokenizers, weights, cards, records, links, and files with settings to try."""

from tests.hostile.cases import LOADS, Stock, group
from tests.hostile.writing import (
    ABSENT,
    OUTSIDE,
    config,
    content,
    edited,
    json_file,
    linked,
    pickled,
    removed,
    several,
    sharded,
    tokenizer,
    tokens,
    torch_saved,
    weights,
)

PARSERS = {
    "parser-module": (tokenizer(parser="pip"), "names the parser 'pip'"),
    "parser-absolute": (tokenizer(parser=f"{OUTSIDE}/parser"), "names the parser '/.*/outside/parser'"),
    "parser-relative": (tokenizer(parser="../outside/parser"), "names the parser '../outside/parser'"),
    "parser-here": (tokenizer(parser="./parser"), "names the parser './parser'"),
    "parser-blank": (tokenizer(parser="blank:en"), "names the parser 'blank:en'"),
    "parser-dotted": (tokenizer(parser="os.path"), "names the parser 'os.path'"),
    "parser-claim": (tokenizer(parser="pip", parser_named_by_checkpoint=False), "names the parser 'pip'"),
    "parser-nul": (tokenizer(parser="en_core\0_web"), "not the name of an installed spaCy pipeline"),
    "parser-newline": (tokenizer(parser="en\nimport os"), "not the name of an installed spaCy pipeline"),
    "parser-list": (tokenizer(parser=["pip"]), r"`parser` is \['pip'\]"),
    "parser-object": (tokenizer(parser={"@llm": "x"}), "`parser` is {'@llm'"),
    "parser-number": (tokenizer(parser=7), "`parser` is 7"),
}

A_FILE = f"{OUTSIDE}/tokenizer.json"
CANNOT_BE_READ = "tokenizer files of .* cannot be read"
TOKENIZERS = {
    "tokens-map": (tokenizer(auto_map={"AutoTokenizer": ["owner/name--code.T", None]}), LOADS),
    "tokens-trust": (tokenizer(trust_remote_code=True), LOADS),
    "tokens-file": (tokenizer(tokenizer_file=A_FILE), "`tokenizer_file` is '/"),
    "tokens-file-only": (several(removed("tokenizer.json"), tokenizer(vocab_file=A_FILE)), "`vocab_file` is '/"),
    "tokens-files": (tokenizer(fast_tokenizer_files=["../outside/tokenizer.4.0.json"]), "`fast_tokenizer_files` is"),
    "tokens-gguf": (several(removed("tokenizer.json"), tokenizer(gguf_file=A_FILE)), "`gguf_file` is '/"),
    "tokens-object": (tokenizer(tokenizer_object="x"), "`tokenizer_object` is 'x'"),
    "tokens-inputs": (tokenizer(init_inputs=[A_FILE]), "`init_inputs` is"),
    "tokens-template": (tokenizer(chat_template="{{ ''.__class__.__mro__ }}"), LOADS),
    "tokens-template-file": (content("chat_template.jinja", "{{ ''.__class__ }}"), LOADS),
    "tokens-ids": (tokenizer(added_tokens_decoder={"99999999999": {"content": "x"}}), LOADS),
    "tokens-method": (tokenizer(_encode_plus="x"), Stock("AttributeError")),
    "tokens-side": (tokenizer(padding_side="up"), "current value: up"),
    "tokens-not-json": (content("tokenizer.json", "{"), "line 1 column 2"),
    "tokens-component": (tokens(pre_tokenizer={"type": "Python", "code": "import pip"}), Stock("Exception")),
}
AUTO_TOKENIZERS = {
    "auto-tokens-class": (tokenizer(tokenizer_class="BertJapaneseTokenizer", auto_map=ABSENT), Stock("TypeError")),
    "auto-tokens-module": (tokenizer(tokenizer_class="pip.Tokenizer", auto_map=ABSENT), LOADS),
    "auto-tokens-class-list": (tokenizer(tokenizer_class=["a"], auto_map=ABSENT), Stock("AttributeError")),
    "auto-tokens-list": (content("tokenizer_config.json", "[]"), Stock("AttributeError")),
}
CHECKED_TOKENIZERS = {
    "checked-tokens-class": (tokenizer(tokenizer_class=["a"], auto_map=ABSENT), "Cannot load the tokenizer"),
    "checked-tokens-list": (content("tokenizer_config.json", "[]"), "Cannot load the tokenizer"),
}


NO_INDEX = "model.safetensors.index.json"
ONLY_BESIDE = "no safetensors file beside it"
INDEX = "model.safetensors.index.json"
NO_WEIGHTS = removed("model.safetensors")


def renamed(name):
    """Give a tensor another name."""
    return weights(lambda header: header.update({name: header.pop(list(header)[-1])}))


WEIGHTS = {
    "weights-bin": (
        several(NO_WEIGHTS, pickled("pytorch_model.bin")),
        "other formats are not read. A .bin file is a pickle",
    ),
    "weights-zip": (several(NO_WEIGHTS, torch_saved("pytorch_model.bin")), "other formats are not read"),
    "weights-pickle": (pickled("model.safetensors"), Stock("SafetensorError")),
    "weights-pickle-zip": (torch_saved("model.safetensors"), Stock("SafetensorError")),
    "weights-index-bin": (several(torch_saved("x.bin"), sharded("x.bin")), ONLY_BESIDE),
    "weights-index-only-bin": (
        several(NO_WEIGHTS, torch_saved("x.bin"), json_file(INDEX, {"metadata": {}, "weight_map": {"a": "x.bin"}})),
        ONLY_BESIDE,
    ),
    "weights-index-parent": (sharded("../outside/model.safetensors"), ONLY_BESIDE),
    "weights-index-absolute": (sharded(f"{OUTSIDE}/model.safetensors"), ONLY_BESIDE),
    "weights-index-missing": (sharded("model-2.safetensors"), "No such file"),
    "weights-index-list": (several(NO_WEIGHTS, json_file(INDEX, [])), NO_INDEX),
    "weights-index-types": (several(NO_WEIGHTS, json_file(INDEX, {"metadata": 7, "weight_map": {"a": 7}})), NO_INDEX),
    "weights-index-not-json": (several(NO_WEIGHTS, content(INDEX, "{")), NO_INDEX),
    "weights-distributed": (
        several(torch_saved(".metadata"), linked("shard-00001-model-00001-of-00001.safetensors", "model.safetensors")),
        "distributed checkpoint",
    ),
    "weights-name": (renamed("__class__"), LOADS),
    "weights-name-code": (renamed("backbone.forward.__code__"), LOADS),
    "weights-folder": (several(NO_WEIGHTS, content("model.safetensors/x", "x")), "no file named model.safetensors"),
    "weights-linked": (linked("model.safetensors", "../blob"), LOADS),
    "adapter": (
        json_file(
            "adapter_config.json",
            {"peft_type": "LORA", "target_modules": "(.*)*x", "base_model_name_or_path": OUTSIDE},
        ),
        "adapter_config.json, which can name any other model",
    ),
    "adapter-code": (
        json_file("adapter_config.json", {"peft_type": "LORA", "auto_mapping": {"parent_library": "pip"}}),
        "adapter_config.json",
    ),
    "adapter-bin": (
        several(json_file("adapter_config.json", {}), pickled("adapter_model.bin")),
        "adapter_config.json",
    ),
}
# `AutoModel` reads the configuration of an adapter's base, wherever that is, before it asks any class of ours.
ADAPTERS = {
    "adapter-alone": (
        several(removed("config.json"), json_file("adapter_config.json", {"base_model_name_or_path": OUTSIDE})),
        "adapter_config.json",
    )
}

# What Jinja would run, what YAML would build, and what would end the metadata or the part of the card that is ours.
BOUNDARY = "<!-- hf-localattn writes what is above. What is below is yours, and stays. -->"
INJECTION = (
    "{{ cycler.__init__.__globals__.os.system('id') }}{% for x in range(10**9) %}{% endfor %}\n---\n"
    f"license: injected\na: !!python/object/apply:os.system [id]\n---\n{BOUNDARY} `code` | <script>"
)
RECORD = {
    **{"task": "text-classification", "base_model": "owner/base", "dataset": "owner/data", "seed": 1, "files": {}},
    **{
        "scores": [{"split": "test", "metric": "f1", "value": 0.5}],
        "hyperparameters": {"a": 1},
        "versions": {"torch": "2"},
    },
}


def record(**entries):
    return json_file("training_record.json", RECORD | entries)


def own_card(metadata, text=""):
    return content("README.md", f"---\n{metadata}\n---\n{BOUNDARY}\n{text}")


NO_RECORD = "training_record.json is not a record of a training run"
CARDS = {
    "card-labels": (
        config(architectures=["CoolForSequenceClassification"], id2label={"0": INJECTION, "1": "b"}),
        LOADS,
    ),
    "card-architecture": (config(architectures=[INJECTION]), LOADS),
    "card-type": (config(model_type=INJECTION), LOADS),
    "card-field": (config(qa_loss=INJECTION), LOADS),
    "card-backbone": (config(backbone_config={"model_type": INJECTION}), "Unrecognized model identifier"),
    "card-own-object": (
        own_card("a: !!python/object/apply:os.system [id]"),
        "The metadata of .*README.md.* cannot be",
    ),
    "card-own-template": (own_card("license: mit", INJECTION.replace("injected", "other")), LOADS),
    "card-own-bytes": (content("README.md", b"\xff\xfe"), "is not UTF-8 text"),
    "record-base": (record(base_model=INJECTION), LOADS),
    "record-data": (record(dataset=INJECTION, dataset_config=INJECTION), LOADS),
    "record-scores": (record(scores=[{"split": INJECTION, "metric": INJECTION, "value": 0.5}]), LOADS),
    "record-settings": (record(hyperparameters={INJECTION: INJECTION}, versions={INJECTION: INJECTION}), LOADS),
    "record-files": (record(dataset=None, files={INJECTION: INJECTION}, rows={INJECTION: INJECTION}), NO_RECORD),
    "record-task": (record(task=INJECTION), LOADS),
    "record-seed": (record(seed=INJECTION), NO_RECORD),
    "record-task-number": (record(task=7), NO_RECORD),
    "record-base-object": (record(base_model={"a": 1}), NO_RECORD),
    "record-scores-number": (record(scores=7), NO_RECORD),
    "record-score-infinite": (record(scores=[{"split": "a", "metric": "b", "value": "1e999"}]), LOADS),
    "record-list": (json_file("training_record.json", [1]), NO_RECORD),
    "card-types": (config(architectures=7), Stock("TypeError")),
    "card-type-list": (config(model_type=["cool"]), "config.json is not the configuration of a model"),
}
A_LINK = "is a link"
UPLOADS = {
    "push-link": (linked("LICENSE", f"{OUTSIDE}/secret.txt"), A_LINK),
    "push-link-card": (linked("README.md", f"{OUTSIDE}/secret.txt"), A_LINK),
    "push-link-code": (linked("secret.py", f"{OUTSIDE}/secret.txt"), A_LINK),
    "push-link-relative": (linked("vocab.txt", "../outside/secret.txt"), A_LINK),
    "push-link-twice": (several(linked("step", f"{OUTSIDE}/secret.txt"), linked("vocab.txt", "step")), A_LINK),
    "push-link-folder": (linked("x.py", OUTSIDE), A_LINK),
    "push-link-config": (linked("config.json", f"{OUTSIDE}/config.json"), A_LINK),
    "push-link-weights": (linked("model.safetensors", f"{OUTSIDE}/model.safetensors"), A_LINK),
    "push-link-record": (linked("training_record.json", f"{OUTSIDE}/config.json"), A_LINK),
    "push-bin": (several(NO_WEIGHTS, pickled("pytorch_model.bin")), "has no .safetensors file"),
    "push-tokens": (content("tokenizer_config.json", "[]"), "expected an object"),
}
PAGES = {
    "page-labels": (config(id2label={"0": "<script>x"}), LOADS),
    "page-tokens": (edited("tokenizer.json", lambda text: text.replace("[UNK]", "<script>x")), LOADS),
    "page-architecture": (config(architectures=["os.system"]), LOADS),
}

SPACES = {
    "space-object": (
        content("space.yaml", "conv_filters: !!python/object/apply:os.system [id]"),
        "space.yaml: cannot",
    ),
    "space-module": (content("space.yaml", "conv_filters: !!python/module:pip"), "space.yaml: cannot be read"),
    "space-not-utf-8": (content("space.yaml", b"\xff"), "space.yaml: is not UTF-8"),
    "space-code": (content("space.yaml", "auto_map: [x]"), "space.yaml, auto_map: "),
    "space-types": (content("space.yaml", "conv_filters: [{a: 1}, [2]]"), "space.yaml, conv_filters: "),
    "space-names": (content("space.yaml", "7: [1]"), "space.yaml, 7: "),
}
FILES = [
    *group("sla", "checked_tokenizer sla_tokenizer", PARSERS),
    *group("sla", "built_tokenizer checked_tokenizer sla_tokenizer", TOKENIZERS),
    *group("sla", "built_tokenizer", AUTO_TOKENIZERS),
    *group("sla", "checked_tokenizer", CHECKED_TOKENIZERS),
    *group("cool", "model own_model", WEIGHTS),
    *group("cool", "own_model", ADAPTERS),
    *group("cool", "push card", CARDS),
    *group("cool", "push", UPLOADS),
    *group("cool", "inspect", PAGES),
    *group("cool", "search_space", SPACES),
]
