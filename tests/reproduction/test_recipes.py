"""The recipes: whole, accepted by the scripts and families they are for, and refused where they are wrong."""

import json
import shutil
from functools import cache
from itertools import chain, product
from types import SimpleNamespace

import pytest
import yaml
from transformers import AutoTokenizer

from hf_localattn.families import FAMILIES
from hf_localattn.names import NO_FAMILY
from hf_localattn.resources import FOLDER as RESOURCES
from hf_localattn.resources import tiny_backbone
from hf_localattn.studies.script_command import ScriptCommand
from hf_localattn.studies.search_space import SEARCHABLE, combinations, read_space
from hf_localattn.tasks import choose_task
from hf_localattn.tasks.labels import Head
from hf_localattn.tasks.negation import OFFICIAL_SCORES
from reproduction import tables
from reproduction.corpora import SAMPLES, corpus_arguments, load_corpora
from reproduction.measures import MEASURES
from reproduction.plan import plan, select
from reproduction.report import report_of
from reproduction.tables import load_table, table_names

WORK = [(table, task) for table in map(load_table, table_names()) for task in table.tasks.values()]
TRAINED = [(table, task) for table, task in WORK if task.script not in MEASURES]


def command_of(task, recipe):
    """A run of a row with the sample for data."""
    corpus = load_corpora()[task.corpus]
    options = recipe | corpus_arguments(corpus, list(corpus.files), SAMPLES) | {"backbone": "tiny"}
    return ScriptCommand.of(task.script.removeprefix("run_"), options | {"local_config": [], "output_dir": "unused"})


def reported(task, command):
    """The scores that the script of a task reports of the sample."""
    own = choose_task(command.task, command.data_args)(command.data_args)
    rows, layout = own.read(command.data_args.train_file, own.layout, labeled=True)
    metrics = own.choose_target({"train": rows}, layout, Head("tiny")).metrics
    names = {name.removesuffix("_no_synonyms") for name in metrics}  # of METEOR where WordNet is not installed
    return {*metrics, *names, *(OFFICIAL_SCORES if own.name == "negation" else ())}


@pytest.mark.parametrize(("table", "task"), TRAINED, ids=[f"{table.name}-{task.name}" for table, task in TRAINED])
def test_a_script_takes_the_arguments_of_its_rows_and_reports_their_scores(table, task):
    recipes = [row.recipe(task) for row in table.rows.values() if row.family is not None]
    commands = [command_of(task, recipe) for recipe in recipes]
    for recipe in (own for own in recipes if own["family"] != NO_FAMILY):
        check_fields(recipe["family"], json.dumps(recipe["local_config"]))
    known, files = reported(task, commands[0]), load_corpora()[task.corpus].files
    assert task.arguments.get("metric_for_best_model") in (None, *known)
    for metric in {score.metric for score in task.scores.values()} - {"train_seconds_per_epoch"}:
        part, _, name = metric.partition("_")
        assert name.partition("_of_")[0] in known  # or a rival has this score
        assert {"eval": "validation", "predict": "test"}[part] in files or task.folds is not None


@cache
def check_fields(family, settings):
    fields, own = FAMILIES[family].split_fields(json.loads(settings))
    assert not FAMILIES[family].inactive_fields(FAMILIES[family].config(**fields))
    if own:
        FAMILIES[family].tokenizer.from_backbone(AutoTokenizer.from_pretrained(tiny_backbone()), **own)


@pytest.mark.parametrize("name", sorted({table.name for table, task in WORK if task.search}))
def test_grids_are_of_what_can_be_searched_and_hold_what_is_taken_without(name, tmp_path):
    table = load_table(name)
    for task in (own for own in table.tasks.values() if own.search):
        file = tmp_path / "search.yaml"
        file.write_text(yaml.safe_dump(task.search))
        for row in (own for own in table.rows.values() if own.family is not None):
            setting = row.recipe(task)
            space = read_space(str(file), SimpleNamespace(family=row.family))
            chosen = {**setting, **setting["local_config"]}
            for dimension in space:
                values = [setting[dimension] for setting in combinations({dimension: space[dimension]})]
                assert (chosen[dimension] in values) if dimension in chosen else dimension not in SEARCHABLE


@pytest.mark.parametrize("corpus", load_corpora().values(), ids=lambda corpus: corpus.name)
def test_a_corpus_has_a_sample_and_says_where_it_is_from(corpus):
    assert list(corpus.files) == list(corpus.sample)
    assert all((RESOURCES / file).exists() for file in corpus.sample.values())
    assert corpus.source.startswith(("https://", "http://"))
    assert any(corpus.name in (task.corpus, *task.test_corpora.values()) for _, task in WORK), "no recipe reads it"


def test_printed_numbers_are_in_the_unit_of_the_scores_and_the_same_in_two_tables_but_where_a_note_says_so():
    known, differences = {}, set()
    for table, task in TRAINED:
        for row, score in product(table.rows.values(), task.scores.values()):
            number = row.printed(task, score.name)
            assert number is None or score.ratio or 1 < number < 100
            if number is not None and row.family is not None:
                key = json.dumps([task.corpus, score.name, row.recipe(task)], sort_keys=True)
                if known.setdefault(key, number) != number:
                    differences.add((table.name, row.name, task.name))
                    assert any(str(known[key]) in note.text for note in table.notes)
    assert differences == {("sam-4", "sam", "contro")}


def test_a_setting_is_of_table_task_and_row_and_numbers_are_those_of_the_tasks_that_are_taken():
    table = load_table("sla-1")
    setting = table.rows["sla-large"].recipe(table.tasks["fce"])
    expected = {"family": "sla-bert", "backbone": "bert-large-cased", "metric_for_best_model": "f0_5"}
    assert setting == setting | expected | {"max_seq_length": 128}
    assert setting["local_config"]["local_attention"] == "syntax"
    table = load_table("sam-4")
    setting = table.rows["sam-delta-0.1"].recipe(table.tasks["trec"])
    assert setting["local_config"] == {"pooling": "sam", "fam_threshold": 0.1, "freeze_backbone": True, "dropout": 0.2}
    printed = {score: table.rows["sam"].printed(table.tasks["humor"], score) for score in ("F1", "T", "Acc.")}
    assert printed == {"F1": 96.41, "T": 92, "Acc.": None}
    assert load_table("sam-3").rows["sam"].published == {"sst5": [59.7, 112]}
    (run,) = plan(select("cool-study-1", rows=["bert"], tasks=["q250"], data=["samples"], num_runs=1))
    assert run.options["max_train_samples"] == 250


DERIVED = {
    "there is no task 'squad'": {"score": {"squad": "F1"}, "steps": ["mean train test"]},
    "sfu has no score 'EM'": {"score": {"sfu": "EM"}, "steps": ["mean train test"]},
    "there is no reduction 'median'": {"score": "F1", "steps": ["median train"]},
    "'seed' is not a column": {"score": "F1", "steps": ["mean train seed"]},
    "'train' .* an earlier step": {"score": "F1", "steps": ["mean train", "maximum train"]},
    "must reduce train": {"score": "F1", "steps": ["mean test"]},
    "must not reduce group": {"score": "F1", "steps": ["mean train", "maximum group"]},
    "the same group": {"score": "F1", "steps": ["mean train test"]},
}


@pytest.mark.parametrize("problem", DERIVED)
def test_a_derived_column_of_what_a_table_lacks_is_refused(problem, tmp_path, monkeypatch):
    text = (tables.FOLDER / "tables" / "oa-5.yaml").read_text(encoding="utf-8")
    (tmp_path / "tables").mkdir()
    for name in ("oa-2", "oa-5"):
        shutil.copy(tables.FOLDER / "tables" / f"{name}.yaml", tmp_path / "tables")
    content = yaml.safe_load(text) | {"derived": {"column": DERIVED[problem]}}
    (tmp_path / "tables" / "oa-5.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=f"oa-5.yaml, column: .*{problem}"):
        load_table("oa-5")


def test_rows_are_named_after_the_encoder_that_runs_and_notes_hold_for_what_is_selected():
    selection = select("cool-2", rows=["bert", "cool-bert"], tasks=["squad"], data=["samples"], backbone="x/MiniLM")
    assert [row.title for row in selection.rows] == ["MiniLM", "COOL(MiniLM) w/o Conv."]
    assert load_table("sla-1").rows["devlin"].title == "BERT (Devlin et al.)"
    report = report_of(selection, [])
    assert report["encoder"] == "MiniLM"
    assert report["changes"] == ["backbone MiniLM (bert-base-cased)"]
    assert not any("RoBERTa" in note for note in report["notes"])
    assert any("RoBERTa" in note for note in report_of(select("cool-2"), [])["notes"])


@pytest.mark.parametrize("name", table_names())
def test_the_parts_of_a_table_fit_together(name):
    table = load_table(name)
    for task in table.tasks.values():
        assert task.scores
        assert {task.corpus, *task.test_corpora.values()} <= load_corpora().keys()
    for row in table.rows.values():
        assert row.baseline is None or table.rows[row.baseline].family is not None
        assert (row.family is None) == (row.reason is not None)
        assert row.family != NO_FAMILY or not row.local_config
        assert {*(row.tasks or ()), *row.published} <= table.tasks.keys()
        assert all(len(numbers) == len(table.tasks[task].scores) for task, numbers in row.published.items())
    for note in table.notes:
        assert {*note.rows} <= table.rows.keys()
        assert {*note.tasks} <= table.tasks.keys()
    if (figure := table.figure) is not None and not figure.is_of_models:
        tasks = [figure.task] if figure.kind == "curve" else list(table.tasks)
        rows = list(chain.from_iterable(figure.series.values()))
        assert {*rows, *figure.levels.values()} <= table.rows.keys()
        assert all(figure.score in table.tasks[task].scores for task in tasks)
        assert figure.kind != "curve" or all(figure.x in table.rows[row].local_config for row in rows)
        assert figure.kind != "learning_curve" or all(figure.x in table.tasks[task].arguments for task in tasks)
