"""What says how to train or what was trained: search spaces, records, configurations, cards and `--args`."""

import json

import hypothesis.strategies as st
import yaml

from hf_localattn.hub import TrainingRecord, write_card
from hf_localattn.hub.model_card import BOUNDARY
from hf_localattn.studies.search_space import combinations, params_of, read_space
from hf_localattn.studies.search_space import examples as some
from hf_localattn.training.arguments import ModelArguments
from reproduction.plan import parse_argument
from tests.fuzz.mutation import changed
from tests.fuzz.properties import check, outcome, sizes
from tests.fuzz.values import TEXTS, often
from tests.models.tiny import TINY_BACKBONES, TINY_FIELDS

ALIASES = "a: &a [1, 1, 1, 1]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in zip("abc", "bcd", strict=True)
)
WRONG = st.sampled_from(
    [
        *(
            "",
            "\0",
            "&a [*a]",
            "a: &a {b: *a}",
            "2024-13-45",
            "- " * 400,
            "a: " * 300,
            "{" * 3000,
            "!!bool x",
            ALIASES,
        ),
        *("? [1]\n: 2", "x: 2024-01-02", "x: !!binary aGk=", "x: !!set {a}", 'x: "\\ud800"', "1: 2", "[]", "null"),
    ]
).map(str.encode)
"""Files of YAML and JSON that hold something else."""

SPACE = {
    "learning_rate": {"low": 1e-5, "high": 1e-4, "log": True},
    "num_train_epochs": [1, 2],
    "lr_scheduler_type": ["linear", "cosine"],
    "warmup_steps": {"low": 0, "high": 100, "step": 50},
    "num_local_layers": {"low": 1, "high": 3},
    "conv_kernel_sizes": [[3, 4], [5]],
    "use_conv": True,
}
RECORD = {
    **{"task": "question-answering", "base_model": "a/b", "dataset": "squad", "dataset_config": None, "seed": 1},
    **{"files": {"train": "train.json"}, "rows": {"train": 3}, "hyperparameters": {"learning_rate": 1e-5}},
    "scores": [{"split": "validation", "metric": "f1", "value": 0.5}],
    "versions": {"torch": "2"},
}
CONFIG = {
    "model_type": "cool",
    "architectures": ["CoolForQuestionAnswering"],
    "backbone_config": {"model_type": "bert", **TINY_BACKBONES["bert"]},
    "id2label": {"0": "a", "1": "b"},
    **TINY_FIELDS["cool"],
}
CARD = f"""---
license: mit
tags: [x]
language: en
datasets: [a]
base_model: b
model-index:
- name: x
  results: []
---

# Own
{BOUNDARY}
mine
"""


@sizes
def test_search_spaces(examples, tmp_path):
    def holds(drawn):
        ending, content, family = drawn
        path = tmp_path / f"space{ending}"
        path.write_bytes(content)
        space = outcome(lambda: read_space(str(path), ModelArguments(family=family, backbone="tiny")), path.name)
        if space is not None:
            found = combinations(space)
            assert found is None or all(setting.keys() == space.keys() for setting in found)
            for setting in some(space):
                json.dumps(params_of(setting, space))

    files = {".json": changed(json.dumps(SPACE)), ".yaml": changed(yaml.safe_dump(SPACE))}
    families = st.sampled_from(["cool", "cool", "baseline", "sla-bert"])
    drawn = [st.tuples(st.just(end), often(*[file] * 12, WRONG), families) for end, file in files.items()]
    check(holds, st.one_of(*drawn), examples)


@sizes
def test_cards(examples, tmp_path):
    valid = {"config.json": CONFIG, "training_record.json": RECORD}

    def holds(drawn):
        name, content = drawn
        for one, own in valid.items():
            (tmp_path / one).write_text(json.dumps(own))
        (tmp_path / "README.md").unlink(missing_ok=True)
        (tmp_path / name).write_bytes(content)
        places = {"config.json": ("config.json", "`"), "training_record.json": ("training_record.json",)}
        path = outcome(lambda: write_card(tmp_path, overwrite=False), name, *places.get(name, ()))
        if path is not None:
            assert BOUNDARY in path.read_text(encoding="utf-8")
            TrainingRecord.load(tmp_path)

    files = {**{name: json.dumps(content) for name, content in valid.items()}, "README.md": CARD}
    drawn = [st.tuples(st.just(name), often(*[changed(file)] * 12, WRONG)) for name, file in files.items()]
    check(holds, st.one_of(*drawn), examples)


@sizes
def test_assignments(examples):
    def holds(word):
        assigned = outcome(lambda: parse_argument(word), "--args", repr(word))
        if assigned is not None:
            assert word.startswith(assigned[0] + "=")
            json.dumps(assigned[1])

    names = st.sampled_from(["learning_rate", "num_train_epochs", "seed", "train_file", "x"]) | st.text(max_size=4)
    values = st.sampled_from([*TEXTS, "[", "{a: 1", "!!bool x", "2024-13-45", "&a [*a]", "0x_"]) | st.text(max_size=6)
    check(holds, st.tuples(names, st.sampled_from(["=", "=", ""]), values).map("".join), examples)
