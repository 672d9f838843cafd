"""Each option of each task changes what a run reads, builds, is given, scores or writes.

A case has another value of an option, and what that needs of others. The run with it and the run without it are
compared: rows, features, a batch, model, tokenizer, optimizer, what libraries are asked for, scores and files. A wire
that is cut, wherever it is on an option's way, makes them equal.
"""

import json
import shutil
from dataclasses import fields
from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import transformers
from transformers import Seq2SeqTrainingArguments

from hf_localattn.data.rows import PLACE
from hf_localattn.settings.data import DATA_ARGUMENTS
from hf_localattn.settings.model import ModelArguments
from hf_localattn.settings.option import options_of
from hf_localattn.settings.training import NewGenerationArguments, NewTrainingArguments
from hf_localattn.studies import command, search
from hf_localattn.studies.script_command import ScriptCommand
from hf_localattn.training import scores
from hf_localattn.training.run import Trained, evaluate, share, train
from tests.qa_helpers import question, unanswerable, write_jsonl
from tests.scripts.conftest import NEGATED, ROWS, labeled

OF_TRANSFORMERS = {field.name for field in fields(Seq2SeqTrainingArguments)} - {"output_dir"}


def case(value, does="", **others):
    """Another value of an option, what a run does besides its preparation, and other options of both runs."""
    return SimpleNamespace(value=value, does=does, others=others)


CHECKPOINT = {"family": None, "backbone": None, "model_name_or_path": "classifier"}
FROZEN = {"family": "sam-roberta", "local_config": ["freeze_backbone=true", "bilstm_hidden_size=8"]}
HUB = {"train_file": None, "validation_file": None, "dataset_name": "some/rows"}
ONE_FOLD = {"num_folds": 2, "validation_file": None}

OF_MODEL = {
    "model_name_or_path": case("plain", **CHECKPOINT),
    "family": case("cool"),
    "backbone": case("left"),
    "local_config": case(["num_local_layers=2"], family="cool"),
    "recipe": case("texts", "command"),
    "config_name": case("tagger", **CHECKPOINT),
    "tokenizer_name": case("left"),
    "cache_dir": case("cache"),
    "model_revision": case("other"),
    "token": case("secret"),
    "ignore_mismatched_sizes": case(True, **CHECKPOINT, train_file="four.jsonl", validation_file="four.jsonl"),
    "trust_remote_code": case(True),
}
OF_DATA = {
    "dataset_name": case("other/rows", **HUB),
    "dataset_config_name": case("part", **HUB),
    "train_file": case("more.jsonl"),
    "validation_file": case("more.jsonl"),
    "test_file": case("more.jsonl", do_predict=True, test_file="rows.jsonl"),
    "overwrite_cache": case(True),
    "preprocessing_num_workers": case(3),
    "max_seq_length": case(3),
    "pad_to_max_length": case(True),
    "skip_empty": case(True, train_file="empty.jsonl"),
    "metric": case("share", "eval"),
    "max_train_samples": case(1),
    "draw_train_samples": case(True, max_train_samples=1, seed=5),
    "max_eval_samples": case(1),
    "max_predict_samples": case(1, do_predict=True, test_file="rows.jsonl"),
    "streaming": case(True),
    "num_folds": case(3, "command", fold=1, **ONE_FOLD),
    "fold": case(2, "command", **ONE_FOLD),
}
SHARED = ("dataset_name", "dataset_config_name", "train_file", "validation_file", "test_file", "num_folds", "fold")
SHARED += ("max_train_samples", "draw_train_samples", "max_eval_samples", "max_predict_samples")
SHARED += ("overwrite_cache", "preprocessing_num_workers")
"""Options that `training/splits.py` and `training/prepare.py` read for all tasks alike: they are tried with texts."""

OF_TRAINING = {
    "learning_rate": case(0.5),
    "local_learning_rate": case(0.5),
    "frozen_steps": case(1, max_steps=2),
    "min_train_steps": case(50, max_steps=None),
    "early_stopping_patience": case(1),
    "lookahead_steps": case(2),
    "lookahead_alpha": case(0.25, lookahead_steps=2),
    "frozen_states": case("half", **FROZEN),
    "frozen_states_memory": case("1kB", **FROZEN),
    "seeds": case([3, 4], "command"),
    "search_space": case("space.json", "command"),
    "search_trials": case(1, "command", search_space="wide.json"),
    "minutes": case(5, "command", recipe="auto", family=None),
    "workers": case(2, "command", seeds=[3, 4]),
    "ray_address": case("local", "command", seeds=[3, 4]),
    "logging_steps": case(1),
    "save_total_limit": case(5),
    "keep_checkpoints": case(True, "train", save_strategy="steps", save_steps=1),
    "eval_strategy": case("epoch"),
    "save_strategy": case("no"),
    "save_steps": case(7),
}
OF_TASK = {
    "glue": {
        "task_name": case("mrpc", train_file="glued.jsonl", validation_file="glued.jsonl"),
        "text_column_names": case("other"),
        "label_column_name": case("class"),
        "skip_unlabeled": case(True, train_file="unlabeled.jsonl"),
        "label_names_file": case("names.json", train_file="numbered.jsonl", validation_file="numbered.jsonl"),
        "metric_name": case("matthews_correlation", "eval"),
        "do_regression": case(True, train_file="numbered.jsonl", validation_file="numbered.jsonl"),
        "class_weights": case(["ant=2"]),
        "temperature_scaling": case(True, "train"),
    },
    "ner": {
        "task_name": case("pos", train_file="tagged.jsonl", validation_file="tagged.jsonl"),
        "text_column_name": case("words"),
        "label_column_name": case("tags"),
        "label_column_index": case(1, train_file="words.conll", validation_file="words.conll"),
        "conllu_column": case("xpos", train_file="words.conllu", validation_file="words.conllu"),
        "label_names_file": case("tags.json", train_file="numbers.jsonl", validation_file="numbers.jsonl"),
        "label_all_tokens": case(True),
        "return_entity_level_metrics": case(True, "eval"),
    },
    "negation": {
        "cues": case("both", train_file="bioscope.xml", validation_file="bioscope.xml"),
        "detect_cues": case(True),
        "cue_in_scope": case("corpus", train_file="bioscope.xml", validation_file="bioscope.xml"),
        "unmatched_scopes": case("skip", train_file="stray.xml"),
        "convention": case("reviews", "answer"),
    },
    "swag": {
        "context_column_name": case("other"),
        "question_column_name": case("asked"),
        "choices_column_name": case("ends"),
        "label_column_name": case("right"),
    },
    "qa": {
        "pad_to_max_length": case(False),
        "version_2_with_negative": case(True, train_file="unanswerable.jsonl"),
        "null_score_diff_threshold": case(-1e9, "eval", version_2_with_negative=True),
        "doc_stride": case(0, max_seq_length=16),
        "n_best_size": case(1, "eval"),
        "max_answer_length": case(1, "eval"),
    },
    "qg": {
        "max_source_length": case(16),
        "max_target_length": case(4),
        "val_max_target_length": case(4),
        "num_beams": case(3),
        "ignore_pad_token_for_loss": case(False, pad_to_max_length=True),
        "predict_with_generate": case(False),
        "generation_max_length": case(3),
        "generation_num_beams": case(1),
    },
}
TASKS = {task: {"family": "baseline", "backbone": "plain"} for task in OF_TASK}
TASKS["qg"] |= {"backbone": "bart", "max_source_length": 40, "max_target_length": 12, "generation_max_length": 6}
TASKS["qa"] |= {"max_seq_length": 40, "doc_stride": 4}
TASKS["negation"] |= {"task_name": "negation"}
CASES = [
    *(("glue", name) for name in OF_MODEL),
    *(("glue", name) for name in OF_TRAINING),
    *(("glue", name) for name in SHARED),
    *(
        (task, name)
        for task in TASKS
        for name in OF_DATA
        if (task, name) != ("qg", "max_seq_length") and name not in SHARED
    ),
    *((task, name) for task, cases in OF_TASK.items() for name in cases if name not in OF_DATA),
]
CHOICES = {"context": "the cat", "choices": ["mat", "dog"], "ends": ["red mat", "dog"], "label": 0, "right": 1}
TAGS = {"labels": ["O", "B-pet"], "tags": ["O", "B-place"], "words": ["red", "cat"], "pos_tags": ["DET", "NOUN"]}
BIOSCOPE = """<Annotation><DocumentSet><Document type="x"><DocID>1</DocID><DocumentPart type="Text">
<sentence id="S1">It is <xcope id="X1"><cue type="negation" ref="X1">not</cue> here</xcope>.</sentence>
<sentence id="S2">It <xcope id="X2"><cue type="speculation" ref="X2">may</cue> be</xcope> red.</sentence>
{more}</DocumentPart></Document></DocumentSet></Annotation>
"""
STRAY = '<sentence id="S3">It is <xcope id="X9">here</xcope>.</sentence>'


def rows_of(task):
    """Rows of a task, more rows, and rows with an empty text."""
    if task == "glue":
        rows = [
            {**row, "other": "who sat", "class": "b" if number else "a"} for number, row in enumerate(ROWS["classes"])
        ]
        return rows, rows[:4] + rows, [*rows, {**rows[0], "text": " "}]
    if task == "ner":
        rows = [{"tokens": ["the", "cats"], **TAGS}, {"tokens": ["dog", "sat"], **TAGS}]
        return rows, [rows[1], *rows], [*rows, {name: [] for name in rows[0]}]
    if task == "negation":
        return NEGATED, NEGATED[::-1], [*NEGATED, {**NEGATED[0], "tokens": [], "cue": [], "scope": [], "id": "e"}]
    if task == "swag":
        rows = [
            {**CHOICES, "other": "on the mat", "question": "who", "asked": "where"},
            {**CHOICES, "question": "is it"},
        ]
        rows[1] |= {"other": "red", "asked": "what"}
        return rows, [*rows, rows[0]], [*rows, {**rows[0], "choices": ["", "a"]}]
    rows = [question(number, context="the cats sat on the mat. the dog sat there. ") for number in range(4)]
    return rows, [*rows, question(9)], [*rows, question(5, question=" ", context=" ")]


@pytest.fixture(scope="session")
def folders(files):
    """A folder of data for each task, beside the models."""
    for task in TASKS:
        folder = files / f"of-{task}"
        folder.mkdir()
        for name, rows in zip(("rows", "more", "empty"), rows_of(task), strict=True):
            write_jsonl(folder / f"{name}.jsonl", rows)
    write_jsonl(files / "numbered.jsonl", labeled(0, 1, 1, 0))
    write_jsonl(files / "unlabeled.jsonl", labeled("ant", None, "bee", "cat"))
    write_jsonl(files / "glued.jsonl", labeled(0, 1, sentence1=["a", "b"], sentence2=["c", "d"], text=["e", "f"]))
    write_jsonl(files / "unanswerable.jsonl", [question(1), unanswerable(2)])
    write_jsonl(files / "tagged.jsonl", [{"tokens": ["the", "cat"], "pos_tags": ["D", "N"], "ner_tags": ["O", "B-x"]}])
    write_jsonl(files / "numbers.jsonl", [{"tokens": ["the", "cat"], "ner_tags": [0, 1]}])
    (files / "names.json").write_text('["ant", "bee"]')
    (files / "tags.json").write_text('["O", "B-pet"]')
    (files / "wide.json").write_text('{"learning_rate": [1e-3, 1e-4]}')
    (files / "words.conll").write_text("the DET O\ncat NOUN B-pet\n")
    words = (("1", "he", "PRON", "PRP"), ("2", "sat", "VERB", "VBD"))
    lines = ["\t".join((number, word, "_", upos, xpos, *"_____")) for number, word, upos, xpos in words]
    (files / "words.conllu").write_text("\n".join(lines) + "\n")
    (files / "bioscope.xml").write_text(BIOSCOPE.format(more=""))
    (files / "stray.xml").write_text(BIOSCOPE.format(more=STRAY))
    return files


@pytest.fixture
def look(folders, monkeypatch):
    """A function that prepares a run, or does more of it, and returns all that can be seen of it, by name."""
    asked = []

    def record(owner, name, *keywords, drop=()):
        function = getattr(owner, name)

        def call(*args, **given):
            asked.append((name, [*map(str, args[:1])], {key: str(given[key]) for key in keywords if key in given}))
            return function(*args, **{key: value for key, value in given.items() if key not in drop})

        monkeypatch.setattr(owner, name, call)

    hub = ("cache_dir", "revision", "token")
    record(transformers.utils.hub, "cached_files", *hub)
    for auto_class in (transformers.AutoConfig, transformers.AutoTokenizer):
        record(auto_class, "from_pretrained", *hub, "trust_remote_code")
    record(datasets.Dataset, "map", "num_proc", "load_from_cache_file", drop=["num_proc"])

    monkeypatch.setattr(scores, "load_metric", lambda name: SimpleNamespace(compute=lambda **pair: {name: 1.0}))

    def call(task, does, others, **more):
        key = json.dumps([task, does, others])
        if not more and key in seen_before:
            return seen_before[key]
        seen = prepare(task, does, others | more)
        return seen if more else seen_before.setdefault(key, seen)

    def prepare(task, does, options):
        asked.clear()
        folder = folders / "out"
        shutil.rmtree(folder, ignore_errors=True)
        given = {**TASKS[task], "max_steps": 2, "per_device_train_batch_size": 2, "use_cpu": True, "report_to": "none"}
        given |= {"do_train": True, "do_eval": True, "disable_tqdm": True, "output_dir": str(folder)}
        given |= {"train_file": "rows.jsonl", "validation_file": "rows.jsonl"} | options
        for name, value in given.items():
            for place in (folders / f"of-{task}", folders):
                if isinstance(value, str) and (place / value).exists():
                    given[name] = str(place / value)
        given = {name: value for name, value in given.items() if value is not None}

        def load_dataset(*names, **ways):
            asked.append(("load_dataset", names, ways))
            rows = datasets.Dataset.from_list(rows_of(task)[0])
            return {"train": rows, "validation": rows}

        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        try:
            script = ScriptCommand.of("ner" if task == "negation" else task, given)
            seen = of_command(script, monkeypatch) if does == "command" else of_run(script.start(), does, folder)
        except ValueError as error:
            seen = {"error": str(error)}
        results = seen.get("results", {})
        seen["results"] = {name: value for name, value in results.items() if not name.endswith(TIMES)}
        return json.loads(json.dumps({**seen, "asked": asked}, default=str))

    return call


def of_run(started, does, folder):
    """All that can be seen of a prepared run, or of one that trains or evaluates."""
    prepared, trainer = started.prepared, started.trainer
    evaluation = prepared.evaluation
    seen = {
        name: rows.remove_columns([*{PLACE} & {*rows.column_names}]).to_list() for name, rows in prepared.rows.items()
    }
    seen["features"] = {name: split.features.to_list() for name, split in evaluation.splits.items()}
    for name, loader in (("batch", trainer.get_train_dataloader()), ("evaluated", trainer.get_eval_dataloader())):
        seen[name] = {column: values.tolist() for column, values in next(iter(loader)).items()}
    seen["model"] = (
        trainer.model.config.to_dict(),
        [values.detach().sum().item() for values in trainer.model.parameters()],
    )
    seen["parameters"] = {name: [*values.shape] for name, values in trainer.model.named_parameters()}
    seen["tokens"] = trainer.processing_class.init_kwargs, len(trainer.processing_class)
    seen["arguments"] = {name: value for name, value in trainer.args.to_dict().items() if name in OF_TRANSFORMERS}
    optimizer = trainer.create_optimizer()
    seen["optimizer"] = type(optimizer), getattr(optimizer, "k", 0), getattr(optimizer, "alpha", 0)
    seen["rates"] = [group["lr"] for group in optimizer.param_groups]
    seen["callbacks"] = [type(callback) for callback in trainer.callback_handler.callbacks]
    seen["loss"] = getattr(prepared.loss, "keywords", None)
    seen["frozen"] = vars(trainer.frozen_states) if trainer.frozen_states else None
    if does == "train":
        trained = train(started)
        share(trained, [])
        seen["results"] = trained.metrics
        seen["kept"] = sorted(map(str, folder.rglob("*")))
    elif does == "eval":
        evaluated = evaluate(Trained(prepared, trainer), "validation")
        seen["results"] = evaluated.metrics
        seen["predictions"] = evaluated.scored.predictions
    elif does == "answer":  # each word is in scope
        split = evaluation.splits["validation"]
        logits = [np.tile([0.0, 1.0], (len(ids), 1)) for ids in split.features["input_ids"]]
        seen["scopes"] = evaluation.task.score(split, logits, evaluation.target).predictions
    return seen


def of_command(script, monkeypatch):
    """The runs of a command, none of which is run, and where they would be."""
    seen = []

    def start(self):
        args = self.training_args
        seen.append((args.output_dir, args.seed, args.learning_rate, self.data_args.held_out))
        args.metric_for_best_model = "accuracy"
        return SimpleNamespace(trainer=SimpleNamespace(args=args))

    def run_all(runs, *where, **device):
        seen.append((runs, where))
        yield from ()

    def in_parallel(function, jobs, workers):
        seen.append((jobs,))
        yield from ()

    monkeypatch.setattr(ScriptCommand, "start", start)
    monkeypatch.setattr(command, "execute", lambda started: {})
    monkeypatch.setattr(command, "run_all", run_all)
    monkeypatch.setattr(search, "in_parallel", in_parallel)
    monkeypatch.setattr(search.Search, "_report", lambda self, trials: {})
    monkeypatch.setattr(
        command,
        "RecipeSearch",
        lambda given: SimpleNamespace(execute=lambda: seen.append(given.training_args.minutes) or {}),
    )
    monkeypatch.setattr(command, "set_up_logging", lambda args: None)
    command.run_task(script.task, script.options)
    return {"runs": seen}


TIMES = ("_runtime", "_per_second", "_time")
seen_before = {}
"""Runs without an option, which several cases have."""


@pytest.mark.parametrize(("task", "name"), CASES, ids=map(" ".join, CASES))
def test_an_option_is_seen(task, name, look):
    tried = OF_TASK[task].get(name) or (OF_MODEL | OF_DATA | OF_TRAINING)[name]
    without, given = (look(task, tried.does, tried.others, **more) for more in ({}, {name: tried.value}))
    assert [part for part in without.keys() | given.keys() if without.get(part) != given.get(part)]
    assert "error" not in without or "error" not in given


@pytest.mark.parametrize(
    ("task", "does", "others"),
    [
        *((task, "eval", {"seed": 42}) for task in TASKS),
        ("glue", "train", FROZEN),
        ("glue", "command", {"seeds": [3, 4]}),
    ],
)
def test_equal_runs_look_the_same(task, does, others, look):
    assert look(task, does, {}, **others) == look(task, does, others)


@pytest.mark.parametrize("task", TASKS)
def test_half_precision_pads_to_a_multiple_of_8(task, look):
    others = {"pad_to_max_length": False}
    for more, is_padded in (({}, False), ({"bf16": True}, True)):
        seen = look(task, "", others, **more)
        lengths = [np.shape(seen[batch]["input_ids"])[-1] for batch in ("batch", "evaluated")]
        assert all(length % 8 == 0 for length in lengths) is is_padded


def test_all_files_are_asked_for_in_the_same_way(look):
    given = {"model_revision": "other", "cache_dir": "cache", "token": "secret"}
    for options in (HUB, FROZEN, CHECKPOINT):
        ways = [asked for name, _, asked in look("glue", "", options, **given)["asked"] if name != "map"]
        assert {(way.get("revision", "other"), way["cache_dir"], way["token"]) for way in ways} == {(*given.values(),)}
        assert len(ways) > 2


def test_each_declared_option_is_tried():
    tried = {task: {name for of_task, name in CASES if of_task == task} for task in TASKS}
    of_all = options_of(ModelArguments, NewTrainingArguments)
    assert of_all.keys() <= tried["glue"]
    for script, arguments in DATA_ARGUMENTS.items():
        known = tried[script] | {*SHARED} | (tried["negation"] if script == "ner" else set())
        assert options_of(arguments).keys() <= known
    assert options_of(NewGenerationArguments).keys() <= tried["qg"] | of_all.keys()
