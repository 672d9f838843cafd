"""States of a frozen encoder: computed once, the same in memory, in a file, and computed anew."""

from contextlib import nullcontext
from types import SimpleNamespace

import datasets
import pytest
import torch
from transformers.training_args import ParallelMode

from hf_localattn.training.arguments import TrainingArguments
from hf_localattn.training.frozen_states import FrozenStates, frozen_states_of, groups_of
from hf_localattn.training.trainer import LocalAttentionTrainer
from tests.models.tiny import tiny_model

ROWS = [[5, 6, 7, 8, 9], [5, 6, 7], [11, 12, 13], [20, 21, 22, 23, 24], [5, 6, 7], [30, 31], [32, 33], [34, 35, 36]]
FEATURES = [{"input_ids": ids, "token_type_ids": [0] * len(ids), "labels": len(ids) % 2} for ids in ROWS]


def sam(task="text-classification", **fields):
    return tiny_model("sam-roberta", task, freeze_backbone=True, **fields)


def kept_states(model, folder, memory=10**6, precision=torch.float32):
    return FrozenStates(model.base_model, precision, memory, folder)


def padded(rows, side="right"):
    """A batch of rows (ids, segments and mask)."""
    length = max(map(len, rows))
    batch = {name: torch.zeros(len(rows), length, dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    for index, ids in enumerate(rows):
        place = slice(len(ids)) if side == "right" else slice(length - len(ids), length)
        batch["input_ids"][index, place] = torch.tensor(ids)
        batch["attention_mask"][index, place] = 1
    return {**batch, "token_type_ids": torch.zeros_like(batch["input_ids"])}


def count_runs(model, monkeypatch):
    """A list of the number of rows of each call of the encoder."""
    sizes = []
    forward = model.backbone_model.forward

    def counted(*args, **kwargs):
        sizes.append(len(kwargs["input_ids"]))
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.backbone_model, "forward", counted)
    return sizes


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("memory", [10**6, 0], ids=["memory", "file"])
@pytest.mark.parametrize("read", ["last", "mix", [0, -1]], ids=str)
def test_a_model_reads_the_states_that_its_encoder_has(side, memory, read, tmp_path, monkeypatch):
    model = sam(encoder_states=read)
    batch = padded(ROWS[:5], side)
    expected = model(**batch).logits
    sizes = count_runs(model, monkeypatch)
    states = kept_states(model, tmp_path / "new", memory)
    with states.computed({"train": FEATURES}):
        assert sum(sizes) == 7  # a row is there twice
        torch.testing.assert_close(model(**states.complete(batch)).logits, expected, atol=1e-6, rtol=1e-5)
        assert sum(sizes) == 7
        for other in (padded([[50, 51]]), {**batch, "position_ids": batch["input_ids"]}):
            assert "encoder_outputs" not in states.complete(other)
    assert "encoder_outputs" not in states.complete(batch)
    assert not any(tmp_path.rglob("*.*"))


def test_choices_are_rows_of_their_own(tmp_path, monkeypatch):
    model = sam("multiple-choice")
    sizes = count_runs(model, monkeypatch)
    batch = {name: values.view(1, 2, -1) for name, values in padded(ROWS[1:3]).items()}
    states = kept_states(model, tmp_path)
    with states.computed({"train": [{"input_ids": ROWS[1:3], "token_type_ids": [[0] * 3] * 2}]}):
        model(**states.complete(batch))
    assert sizes == [2]


def trained(states, model, folder, features=FEATURES):
    """The weights after some steps that read states."""
    arguments = TrainingArguments(
        str(folder), use_cpu=True, report_to="none", max_steps=6, disable_tqdm=True, save_strategy="no",
        per_device_train_batch_size=3,
    )  # fmt: skip
    with states.computed({"train": features}) if states else nullcontext():
        rows = datasets.Dataset.from_list(features)
        trainer = LocalAttentionTrainer(model, arguments, train_dataset=rows, frozen_states=states)
        trainer.data_collator = lambda rows: {
            **padded([row["input_ids"] for row in rows]),
            "labels": torch.tensor([row["labels"] for row in rows]),
        }
        trainer.train()
    return {name: value.clone() for name, value in model.state_dict().items()}


class ComputedAnew(FrozenStates):
    """States that are not kept: the encoder runs on the group of a row whenever the row is read."""

    def complete(self, batch):
        self.rows = {}
        for group in groups_of(FEATURES):
            self.rows |= zip([key for key, _ in group], self._compute(group), strict=True)
        return super().complete(batch)


@pytest.mark.parametrize("read", ["last", "mix"])
def test_weights_are_equal_to_the_last_bit_with_and_without_kept_states(read, tmp_path):
    makers = {"memory": kept_states, "file": lambda model, folder: kept_states(model, folder, 0)}
    makers["anew"] = lambda model, folder: ComputedAnew(model.base_model, torch.float32, 10**6, folder)
    weights = {}
    for name, maker in makers.items():
        model = sam(encoder_states=read)
        weights[name] = trained(maker(model, tmp_path), model, tmp_path)
    for name in ("file", "anew"):
        assert all(value.equal(weights["memory"][key]) for key, value in weights[name].items())
    usual = trained(None, sam(encoder_states=read), tmp_path)
    for key, value in usual.items():
        torch.testing.assert_close(value, weights["memory"][key], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("read", "layers"), [("last", 1), ("mix", 3), ([0, 2], 2)], ids=str)
def test_half_precision_takes_half_of_the_space(read, layers, tmp_path):
    model = sam(pooling="none", encoder_states=read)
    states = kept_states(model, tmp_path, precision=torch.float16)
    with states.computed({"train": FEATURES}):
        assert states.bytes_in_memory == 2 * 32 * layers * sum(map(len, map(set, ROWS[:4] + ROWS[5:])))
        model(**states.complete(padded(ROWS)))


def options(**changes):
    usual = {"do_train": True, "frozen_states": None, "frozen_states_memory": None, "output_dir": "out"}
    return SimpleNamespace(**usual | {"parallel_mode": ParallelMode.NOT_PARALLEL} | changes)


def test_states_are_kept_only_of_an_encoder_that_is_frozen(caplog):
    caplog.set_level("INFO", "hf_localattn")
    model = sam()
    assert frozen_states_of(model, options(frozen_states="half")).precision == torch.float16
    assert frozen_states_of(model, options(frozen_states_memory="2KB")).memory == 2000
    for changes in ({"do_train": False}, {"frozen_states": "no"}, {"parallel_mode": ParallelMode.DISTRIBUTED}):
        assert frozen_states_of(model, options(**changes)) is None
    peft = pytest.importorskip("peft", reason="the extra peft")
    model = peft.get_peft_model(sam(pooling="none"), peft.LoraConfig(target_modules=["query"]))
    assert frozen_states_of(model, options()) is None
    assert "a part of it is trained" in caplog.text
    for changes in ({"frozen_states": "half"}, {"frozen_states_memory": "1GB"}):
        with pytest.raises(ValueError, match="--frozen_states"):
            frozen_states_of(model, options(**changes))


def test_a_frozen_encoder_has_another_default_rate(tmp_path):
    for model, rate, expected in (
        (sam(), None, 1e-3),
        (sam(), 2e-4, 2e-4),
        (tiny_model("sam-roberta", "text-classification"), None, 5e-5),
    ):
        arguments = TrainingArguments(str(tmp_path), use_cpu=True, report_to="none", learning_rate=rate)
        assert LocalAttentionTrainer(model, arguments).args.learning_rate == expected
