"""What says how to train or what was trained: search spaces, recipes, records, results, cards and `--args`."""

import json

import hypothesis.strategies as st
import yaml

from hf_localattn.hub import TrainingRecord, write_card
from hf_localattn.hub.model_card import BOUNDARY
from hf_localattn.studies.search_space import combinations, params_of, read_space
from hf_localattn.studies.search_space import examples as some
from hf_localattn.training.arguments import ModelArguments
from reproduction.plan import parse_argument
from tests.fuzz.mutation import json_changes, mutated, nearly
from tests.fuzz.properties import check, outcome, sizes
from tests.fuzz.values import TEXTS, often
from tests.models.tiny import TINY_BACKBONES, TINY_FIELDS

ALIASES = (
    "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
).encode()
WRONG_YAML = (
    *(
        b"",
        b"\0",
        b"&a [*a]",
        b"a: &a {b: *a}",
        b"2024-13-45",
        b"- " * 400,
        b"a: " * 300,
        b"{" * 3000,
        b"!!bool x",
        ALIASES,
    ),
    *(
        b"? [1]\n: 2",
        b"x: 2024-01-02",
        b"x: !!binary aGk=",
        b"x: !!set {a}",
        b'x: "\\ud800"',
        b"\xff",
        b"1: 2",
        b"[]",
        b"null",
        b"<<: 3",
    ),
)


def yaml_files(content):
    """A YAML file of what `content` holds, changed in its values, its bytes, or something else."""
    changed = json_changes(content).map(_as_yaml)
    return often(*[nearly(yaml.safe_dump(content).encode(), changed)] * 12, st.sampled_from(WRONG_YAML))


def json_files(content):
    changed = json_changes(content)
    return often(
        *[nearly(json.dumps(content).encode(), changed)] * 12, st.sampled_from([b"", b"[]", b"{}", b"null", b"\xff"])
    )


def _as_yaml(content):
    try:
        return yaml.safe_dump(json.loads(content), allow_unicode=True).encode("utf-8", "surrogatepass")
    except (ValueError, yaml.YAMLError):  # half of a character, a number of thousands of digits
        return content


SPACE = {
    "learning_rate": {"low": 1e-5, "high": 1e-4, "log": True},
    "num_train_epochs": [1, 2],
    "lr_scheduler_type": ["linear", "cosine"],
    "warmup_steps": {"low": 0, "high": 100, "step": 50},
    "num_local_layers": {"low": 1, "high": 3},
    "conv_kernel_sizes": [[3, 4], [5]],
    "use_conv": True,
}


@sizes
def test_search_spaces(examples, tmp_path):
    def holds(drawn):
        ending, content, family = drawn
        path = tmp_path / f"space{ending}"
        path.write_bytes(content)
        model_args = ModelArguments(family=family, backbone="tiny")
        space = outcome(lambda: read_space(str(path), model_args), path.name)
        if space is not None:
            settings = combinations(space)
            assert settings is None or all(setting.keys() == space.keys() for setting in settings)
            for setting in some(space):
                json.dumps(params_of(setting, space))

    files = st.sampled_from([".yaml", ".json"]).flatmap(
        lambda ending: st.tuples(
            st.just(ending),
            (yaml_files if ending == ".yaml" else json_files)(SPACE),
            st.sampled_from(["cool", "cool", "baseline", "sla-bert"]),
        )
    )
    check(holds, files, examples)


TABLE = {
    "title": "Small",
    "source": "Nobody (2000)",
    "backbone": "tiny",
    "family": "cool",
    "baseline": "plain",
    "scores": {"F1": "eval_f1", "EM": {"metric": "eval_exact", "scale": 100.0, "ratio": False}},
    "arguments": {"learning_rate": 2e-5},
    "runs": 2,
    "tasks": {
        "squad": {"title": "SQuAD", "script": "run_qa", "corpus": "squad", "search": {"use_conv": [True]}},
        "other": {
            **{"title": "Other", "script": "run_glue", "corpus": "glue_cola", "scores": {"MCC": "eval_mcc"}},
            **{
                "folds": 2,
                "test_corpora": {"More": "squad"},
                "local_config": {"num_local_layers": 1},
                "backbones": {"a": "b"},
            },
        },
    },
    "rows": {
        "plain": {"title": "Plain", "family": "cool", "published": {"squad": [1.0, None]}, "tasks": ["squad"]},
        "cool": {"title": "COOL", "local_config": {"use_conv": False, "num_local_layers": 2}},
        "quoted": {"title": "Quoted", "reason": "No code.", "published": {"other": 3}},
    },
    "notes": ["A note."],
    "figure": {
        **{"kind": "curve", "x": "num_local_layers", "x_label": "layers", "task": "squad", "score": "F1"},
        **{"series": {"COOL": ["cool"]}, "levels": {"Plain": "plain"}},
    },
}
LIKE = {"title": "Second", "source": "x", "like": "cool-1", "rows": {"cool": None}, "tasks": ["squad"]}


RECORD = {
    "task": "question-answering",
    "base_model": "a/b",
    "dataset": "squad",
    "dataset_config": None,
    "files": {"train": "train.json"},
    "rows": {"train": 3},
    "scores": [{"split": "validation", "metric": "f1", "value": 0.5}],
    "hyperparameters": {"learning_rate": 1e-5},
    "seed": 1,
    "versions": {"torch": "2"},
}
CONFIG = {
    "model_type": "cool",
    "architectures": ["CoolForQuestionAnswering"],
    "backbone_config": {"model_type": "bert", **TINY_BACKBONES["bert"]},
    "id2label": {"0": "a", "1": "b"},
    **TINY_FIELDS["cool"],
}
METADATA = "license: mit\ntags: [x]\nlanguage: en\nmodel-index:\n- name: x\n  results: []\n"
CARD = f"---\n{METADATA}---\n\n# Own\n{BOUNDARY}\nmine\n"


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

    metadata = {
        "license": "mit",
        "tags": ["x"],
        "datasets": ["a"],
        "base_model": "b",
        "model-index": [{"name": "x", "results": []}],
    }
    cards = yaml_files(metadata).map(lambda content: b"---\n" + content + f"\n---\n{BOUNDARY}\nmine".encode())
    files = st.one_of(
        st.tuples(st.just("config.json"), json_files(CONFIG)),
        st.tuples(st.just("training_record.json"), json_files(RECORD)),
        st.tuples(st.just("README.md"), often(mutated(CARD.encode()), cards)),
    )
    check(holds, files, examples)


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
