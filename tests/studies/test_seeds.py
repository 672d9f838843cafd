"""A training for each seed, on models that learn nothing in a step."""

import json
import re

import pytest
from scipy import stats

from hf_localattn.studies.command import lost_to_rivals
from tests.script_helpers import assert_one_line_error, load_main

main = load_main("run_glue")
ROWS = "sample:reviews.csv"
COMMON = (
    f"--family baseline --backbone tiny --max_seq_length 16 --use_cpu --train_file {ROWS} --validation_file {ROWS}"
)
COMMON += " --do_train --do_eval --max_steps 1 --save_strategy no --per_device_train_batch_size 2 --disable_tqdm true"


def options(output_dir, more):
    return [*COMMON.split(), "--output_dir", str(output_dir), *more.split()]


def test_seeds_are_runs_with_a_summary_and_more_of_them_may_follow(tmp_path, caplog):
    caplog.set_level("INFO", "hf_localattn")
    main(options(tmp_path / "out", "--seeds 5 2 --workers 2"))
    weights = tmp_path / "out" / "seed-2" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    metrics = main(options(tmp_path / "out", "--seeds 5 2 7"))
    assert weights.stat().st_mtime_ns == before
    assert "To use one model, choose it by validation scores" in caplog.text
    end = caplog.messages[-1]
    assert end == lost_to_rivals({name.removesuffix("_mean"): value for name, value in metrics.items()})[-1]
    assert end.startswith("The models are")
    results = json.loads((tmp_path / "out" / "seeds.json").read_text())["seeds"]
    assert list(results) == ["5", "2", "7"]
    losses = [run["eval_loss"] for run in results.values()]
    assert len({*losses}) == 3
    low, high = stats.t.interval(0.95, 2, loc=metrics["eval_loss_mean"], scale=stats.sem(losses))
    assert (metrics["eval_loss_low"], metrics["eval_loss_high"]) == pytest.approx((low, high))
    assert json.loads((tmp_path / "out" / "all_results.json").read_text()) == metrics
    assert json.loads((tmp_path / "out" / "seed-2" / "run.json").read_text())["seed"] == 2
    main(options(tmp_path / "alone", "--seed 2"))
    assert (tmp_path / "alone" / "model.safetensors").read_bytes() == weights.read_bytes()
    with pytest.raises(SystemExit):
        main(options(tmp_path / "out", "--seeds 5 2 --learning_rate 1"))


@pytest.mark.parametrize(
    ("means", "words"),
    [
        (
            {"eval_f1": 0.5, "eval_f1_of_constant": 0.5, "eval_f1_of_linear": 0.4},
            ["level with their rival 'constant'"],
        ),
        ({"eval_f1": 0.5, "eval_f1_of_constant": 0.5, "eval_f1_of_linear": 0.6}, ["not better than .* 'linear'"]),
        ({"eval_f1": 0.7, "eval_f1_of_constant": 0.5, "predict_f1": 0.4, "predict_f1_of_linear": 0.6}, ["predict_f1"]),
        ({"eval_rmse": 0.5, "eval_rmse_of_constant": 0.6}, []),
        ({"eval_rmse": 0.7, "eval_rmse_of_constant": 0.6, "eval_pearson": 0.9}, ["eval_rmse 0.7000, against 0.6000"]),
    ],
)
def test_a_rival_that_is_above_or_level_on_average_is_named(means, words):
    sentences = lost_to_rivals(means)
    assert len(sentences) == len(words)
    assert all(map(re.search, words, sentences))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--seeds 1 2 1", "--seeds 1 2 1 repeats 1"),
        ("--seeds", "--seeds .* no seed"),
        ("--seeds 1 x", "--seeds"),
        ("--seeds 1 2 --seed 3", "--seed,"),
        ("--seeds 1 2 --num_folds 3", "--num_folds"),
        ("--seeds 1 2 --search_space space.yaml", "--search_space"),
        ("--seeds 1 2 --do_train false", "--do_train"),
        ("--seeds 1 2 --push_to_hub", "--push_to_hub"),
    ],
)
def test_seeds_that_cannot_be_run_are_one_line(more, message, tmp_path, capsys):
    assert_one_line_error(lambda: main(options(tmp_path / "out", more)), message, tmp_path / "out", capsys)
