"""Hostile tokenizers, weights, cards, records, links, and files with settings to try."""

from tests.hostile.cases import Harmless, Stock, group, says
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
    "parser-module": (tokenizer(parser="pip"), says("names the parser 'pip'")),
    "parser-absolute": (tokenizer(parser=f"{OUTSIDE}/parser"), says("names the parser '/.*/outside/parser'")),
    "parser-relative": (tokenizer(parser="../outside/parser"), says("names the parser '../outside/parser'")),
    "parser-here": (tokenizer(parser="./parser"), says("names the parser './parser'")),
    "parser-blank": (tokenizer(parser="blank:en"), says("names the parser 'blank:en'")),
    "parser-dotted": (tokenizer(parser="os.path"), says("names the parser 'os.path'")),
    "parser-claim": (tokenizer(parser="pip", parser_named_by_checkpoint=False), says("names the parser 'pip'")),
    "parser-nul": (tokenizer(parser="en_core\0_web"), says("not the name of an installed spaCy pipeline")),
    "parser-newline": (tokenizer(parser="en\nimport os"), says("not the name of an installed spaCy pipeline")),
    "parser-list": (tokenizer(parser=["pip"]), says(r"`parser` is \['pip'\]")),
    "parser-object": (tokenizer(parser={"@llm": "x"}), says("`parser` is {'@llm'")),
    "parser-number": (tokenizer(parser=7), says("`parser` is 7")),
}

A_FILE = f"{OUTSIDE}/tokenizer.json"
CANNOT_BE_READ = says("tokenizer files of .* cannot be read")
TOKENIZERS = {
    "tokens-map": (
        tokenizer(auto_map={"AutoTokenizer": ["owner/name--code.T", None]}),
        Harmless("as in configurations"),
    ),
    "tokens-trust": (tokenizer(trust_remote_code=True), Harmless("the caller's word counts")),
    "tokens-file": (tokenizer(tokenizer_file=A_FILE), says("`tokenizer_file` is '/")),
    "tokens-file-only": (several(removed("tokenizer.json"), tokenizer(vocab_file=A_FILE)), says("`vocab_file` is '/")),
    "tokens-files": (
        tokenizer(fast_tokenizer_files=["../outside/tokenizer.4.0.json"]),
        says("`fast_tokenizer_files` is"),
    ),
    "tokens-gguf": (several(removed("tokenizer.json"), tokenizer(gguf_file=A_FILE)), says("`gguf_file` is '/")),
    "tokens-object": (tokenizer(tokenizer_object="x"), says("`tokenizer_object` is 'x'")),
    "tokens-inputs": (tokenizer(init_inputs=[A_FILE]), says("`init_inputs` is")),
    "tokens-template": (
        tokenizer(chat_template="{{ ''.__class__.__mro__ }}"),
        Harmless("it is run by apply_chat_template"),
    ),
    "tokens-template-file": (content("chat_template.jinja", "{{ ''.__class__ }}"), Harmless("the same")),
    "tokens-ids": (tokenizer(added_tokens_decoder={"99999999999": {"content": "x"}}), Harmless("ids are given anew")),
    "tokens-method": (tokenizer(_encode_plus="x"), Stock("AttributeError")),
    "tokens-side": (tokenizer(padding_side="up"), says("current value: up")),
    "tokens-not-json": (content("tokenizer.json", "{"), says("line 1 column 2")),
    "tokens-component": (tokens(pre_tokenizer={"type": "Python", "code": "import pip"}), Stock("Exception")),
    "tokens-padding-length": (
        tokens(
            padding={"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
            | {"pad_type_id": 0, "pad_token": "[PAD]"}
        ),
        Harmless("a family's tokenizer pads as its call says"),
    ),
}
AUTO_TOKENIZERS = {
    "auto-tokens-class": (tokenizer(tokenizer_class="BertJapaneseTokenizer", auto_map=ABSENT), Stock("TypeError")),
    "auto-tokens-module": (
        tokenizer(tokenizer_class="pip.Tokenizer", auto_map=ABSENT),
        Harmless("classes of transformers are looked for, and this is none"),
    ),
    "auto-tokens-class-list": (tokenizer(tokenizer_class=["a"], auto_map=ABSENT), Stock("AttributeError")),
    "auto-tokens-list": (content("tokenizer_config.json", "[]"), Stock("AttributeError")),
    "auto-tokens-depth": (
        content("tokenizer_config.json", '{"a":' * 100_000 + "1" + "}" * 100_000),
        Stock("RecursionError"),
    ),
}
CHECKED_TOKENIZERS = {
    "checked-tokens-class": (tokenizer(tokenizer_class=["a"], auto_map=ABSENT), says("Cannot load the tokenizer")),
    "checked-tokens-list": (content("tokenizer_config.json", "[]"), says("Cannot load the tokenizer")),
    "checked-tokens-depth": (
        content("tokenizer_config.json", '{"a":' * 100_000),
        says("Cannot load the tokenizer|Expecting"),
    ),
}


NOT_WHOLE = says("model.safetensors is not a whole safetensors file")
NO_INDEX = says("model.safetensors.index.json")
ONLY_BESIDE = says("no safetensors file beside it")
INDEX = "model.safetensors.index.json"
NO_WEIGHTS = removed("model.safetensors")


def last(**entry):
    """Change the entry of the last tensor in the header of the weights."""
    return weights(lambda header: header[list(header)[-1]].update(entry))


def renamed(name):
    """Give a tensor another name."""
    return weights(lambda header: header.update({name: header.pop(list(header)[-1])}))


def at_zero(header):
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            entry["data_offsets"] = [0, end - begin]


WEIGHTS = {
    "weights-bin": (
        several(NO_WEIGHTS, pickled("pytorch_model.bin")),
        says("other formats are not read. A .bin file is a pickle"),
    ),
    "weights-zip": (several(NO_WEIGHTS, torch_saved("pytorch_model.bin")), says("other formats are not read")),
    "weights-pickle": (pickled("model.safetensors"), Stock("SafetensorError")),
    "weights-pickle-zip": (torch_saved("model.safetensors"), Stock("SafetensorError")),
    "weights-index-bin": (several(torch_saved("x.bin"), sharded("x.bin")), ONLY_BESIDE),
    "weights-index-only-bin": (
        several(NO_WEIGHTS, torch_saved("x.bin"), json_file(INDEX, {"metadata": {}, "weight_map": {"a": "x.bin"}})),
        ONLY_BESIDE,
    ),
    "weights-index-parent": (sharded("../outside/model.safetensors"), ONLY_BESIDE),
    "weights-index-absolute": (sharded(f"{OUTSIDE}/model.safetensors"), ONLY_BESIDE),
    "weights-index-missing": (sharded("model-2.safetensors"), says("No such file")),
    "weights-index-list": (several(NO_WEIGHTS, json_file(INDEX, [])), NO_INDEX),
    "weights-index-types": (several(NO_WEIGHTS, json_file(INDEX, {"metadata": 7, "weight_map": {"a": 7}})), NO_INDEX),
    "weights-index-not-json": (several(NO_WEIGHTS, content(INDEX, "{")), NO_INDEX),
    "weights-index-depth": (several(NO_WEIGHTS, content(INDEX, "[" * 100_000)), NO_INDEX),
    "weights-distributed": (
        several(torch_saved(".metadata"), linked("shard-00001-model-00001-of-00001.safetensors", "model.safetensors")),
        says("distributed checkpoint"),
    ),
    "weights-name": (
        renamed("__class__"),
        Harmless("the model has no such weight: its own begins afresh, with a warning"),
    ),
    "weights-name-code": (renamed("backbone.forward.__code__"), Harmless("the same")),
    "weights-folder": (
        several(NO_WEIGHTS, content("model.safetensors/x", "x")),
        says("no file named model.safetensors"),
    ),
    "weights-linked": (linked("model.safetensors", "../blob"), Harmless("the Hub's cache has such links")),
    "adapter": (
        json_file(
            "adapter_config.json",
            {"peft_type": "LORA", "target_modules": "(.*)*x", "base_model_name_or_path": OUTSIDE},
        ),
        says("adapter_config.json, which can name any other model"),
    ),
    "adapter-code": (
        json_file("adapter_config.json", {"peft_type": "LORA", "auto_mapping": {"parent_library": "pip"}}),
        says("adapter_config.json"),
    ),
    "adapter-bin": (
        several(json_file("adapter_config.json", {}), pickled("adapter_model.bin")),
        says("adapter_config.json"),
    ),
}
# `AutoModel` reads the configuration of an adapter's base, wherever that is, before it asks any class of ours.
ADAPTERS = {
    "adapter-alone": (
        several(removed("config.json"), json_file("adapter_config.json", {"base_model_name_or_path": OUTSIDE})),
        says("adapter_config.json"),
    ),
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
AS_TEXT = Harmless("it stands in the card as text")
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def record(**entries):
    return json_file("training_record.json", RECORD | entries)


def own_card(metadata, text=""):
    return content("README.md", f"---\n{metadata}\n---\n{BOUNDARY}\n{text}")


NO_RECORD = says("training_record.json is not a record of a training run")
CARDS = {
    "card-labels": (
        config(architectures=["CoolForSequenceClassification"], id2label={"0": INJECTION, "1": "b"}),
        AS_TEXT,
    ),
    "card-architecture": (config(architectures=[INJECTION]), AS_TEXT),
    "card-type": (config(model_type=INJECTION), AS_TEXT),
    "card-field": (config(qa_loss=INJECTION), AS_TEXT),
    "card-backbone": (config(backbone_config={"model_type": INJECTION}), says("Unrecognized model identifier")),
    "card-own-object": (
        own_card("a: !!python/object/apply:os.system [id]"),
        says("The metadata of .*README.md.* cannot be"),
    ),
    "card-own-template": (own_card("license: mit", INJECTION.replace("injected", "other")), AS_TEXT),
    "card-own-bytes": (content("README.md", b"\xff\xfe"), says("is not UTF-8 text")),
    "record-base": (record(base_model=INJECTION), AS_TEXT),
    "record-data": (record(dataset=INJECTION, dataset_config=INJECTION), AS_TEXT),
    "record-scores": (record(scores=[{"split": INJECTION, "metric": INJECTION, "value": 0.5}]), AS_TEXT),
    "record-settings": (record(hyperparameters={INJECTION: INJECTION}, versions={INJECTION: INJECTION}), AS_TEXT),
    "record-files": (record(dataset=None, files={INJECTION: INJECTION}, rows={INJECTION: INJECTION}), NO_RECORD),
    "record-task": (record(task=INJECTION), AS_TEXT),
    "record-seed": (record(seed=INJECTION), NO_RECORD),
    "record-task-number": (record(task=7), NO_RECORD),
    "record-base-object": (record(base_model={"a": 1}), NO_RECORD),
    "record-scores-number": (record(scores=7), NO_RECORD),
    "record-score-infinite": (record(scores=[{"split": "a", "metric": "b", "value": "1e999"}]), AS_TEXT),
    "record-list": (json_file("training_record.json", [1]), NO_RECORD),
    "record-depth": (content("training_record.json", "[" * 100_000), NO_RECORD),
    "card-depth": (
        edited("config.json", lambda text: '{"a":' + "[" * 100_000 + text),
        says("config.json, line 1"),
    ),
    "card-types": (config(architectures=7), Stock("TypeError")),
    "card-type-list": (config(model_type=["cool"]), says("config.json is not the configuration of a model")),
}
A_LINK = says("is a link")
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
    "push-bin": (several(NO_WEIGHTS, pickled("pytorch_model.bin")), says("has its weights in pytorch_model.bin")),
    "push-pickle": (pickled("model.safetensors"), NOT_WHOLE),
    "push-tokens": (content("tokenizer_config.json", "[]"), says("expected an object")),
}
PAGES = {
    "page-labels": (config(id2label={"0": "<script>x"}), Harmless("pages have characters, not elements")),
    "page-tokens": (
        edited("tokenizer.json", lambda text: text.replace("[UNK]", "<script>x")),
        Harmless("pages have characters, not elements"),
    ),
    "page-architecture": (config(architectures=["os.system"]), Harmless("a head is chosen by how its name ends")),
}

SPACES = {
    "space-object": (
        content("space.yaml", "conv_filters: !!python/object/apply:os.system [id]"),
        says("space.yaml: cannot"),
    ),
    "space-module": (content("space.yaml", "conv_filters: !!python/module:pip"), says("space.yaml: cannot be read")),
    "space-not-utf-8": (content("space.yaml", b"\xff"), says("space.yaml: is not UTF-8")),
    "space-code": (content("space.yaml", "auto_map: [x]"), says("space.yaml, auto_map: ")),
    "space-types": (content("space.yaml", "conv_filters: [{a: 1}, [2]]"), says("space.yaml, conv_filters: ")),
    "space-names": (content("space.yaml", "7: [1]"), says("space.yaml, 7: ")),
}
RECIPES = {
    "recipe-object": (
        content("recipe.yaml", "a: !!python/object/apply:os.system [id]"),
        says("recipe.yaml: cannot be read"),
    ),
    "recipe-not-utf-8": (content("recipe.yaml", b"\xff"), says("recipe.yaml: is not UTF-8")),
}
FILES = [
    *group("the parser, which spaCy loads", "sla", "checked_tokenizer sla_tokenizer", PARSERS),
    *group("a tokenizer's files", "sla", "built_tokenizer checked_tokenizer sla_tokenizer", TOKENIZERS),
    *group("a tokenizer's files", "sla", "built_tokenizer", AUTO_TOKENIZERS),
    *group("a tokenizer's files", "sla", "checked_tokenizer", CHECKED_TOKENIZERS),
    *group("weights, and what lies beside them", "cool", "model own_model", WEIGHTS),
    *group("weights, and what lies beside them", "cool", "own_model", ADAPTERS),
    *group("Jinja, YAML and Markdown", "cool", "push card", CARDS),
    *group("what is uploaded", "cool", "push", UPLOADS),
    *group("the pages of `inspect`", "cool", "inspect", PAGES),
    *group("a file for --search_space", "cool", "search_space", SPACES),
    *group("a recipe", "cool", "recipe", RECIPES),
]
