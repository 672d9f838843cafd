import re
from collections import Counter

import pytest
from datasets import ClassLabel, Dataset, List

from hf_localattn.data.folds import Fold, split_rows, warn_of_lone_classes, warn_of_shared_inputs

BOTH = ("test", "validation")


def numbered(count, **columns):
    return Dataset.from_dict({"row": list(range(count)), **columns})


def classified(names):
    return numbered(len(names), label=list(names)).cast_column("label", ClassLabel(names=sorted(set(names))))


def sets(*labels):
    return numbered(len(labels), label=labels).cast_column("label", List(ClassLabel(names=["a", "b", "c"])))


def all_folds(rows, count, parts=BOTH, seed=0, **columns):
    columns = {"inputs": ("text", "tokens"), **columns}
    return [split_rows(rows, Fold(index, count, seed), parts, **columns) for index in range(1, count + 1)]


@pytest.mark.parametrize(
    ("count", "size", "parts", "expected"),
    [
        (3, 3, BOTH, [1, 1, 1]),
        (5, 23, BOTH, [13, 5, 5]),
        (2, 100, BOTH, [25, 50, 25]),  # something has to train
        (5, 100, ("validation",), [80, 20]),
        (9, 9, (), [9]),
    ],
)
def test_parts_are_disjoint_and_first_parts_cover_all_rows(count, size, parts, expected):
    tested, folds = [], all_folds(numbered(size), count, parts)
    for data in folds:
        assert sorted(row for rows in data.values() for row in rows["row"]) == list(range(size))
        assert all(rows["row"] == sorted(rows["row"]) for rows in data.values())
        tested += [row for part in parts[:1] for row in data[part]["row"]]
    assert sorted(tested) == list(range(size if parts else 0))
    assert list(folds[0]) == ["train", *parts]
    assert list(map(len, folds[0].values())) == expected


TWELVE = numbered(48, text=[f"text {row % 12}" for row in range(48)], label=[*"ab"] * 24)


@pytest.mark.parametrize("classes", [None, "label"])
def test_equal_inputs_are_in_one_part(classes):
    rows = TWELVE.cast_column("label", ClassLabel(names=["a", "b"]))
    tested = []
    for data in all_folds(rows, 3, class_column=classes):
        texts = [set(part["text"]) for part in data.values()]
        assert len(set().union(*texts)) == sum(map(len, texts))
        tested += data["test"]["row"]
    assert sorted(tested) == list(range(48))


def test_groups_that_share_an_input_are_in_one_part():
    chained = numbered(6, tokens=[["a"], ["b"], ["b"], ["c"], ["d"], ["e"]], group=[1, 1, 2, 2, 3, 4])
    for data in all_folds(chained, 2, ("test",), group_column="group"):
        assert len({0, 1, 2, 3}.intersection(data["test"]["row"])) in (0, 4)


def test_inputs_that_training_and_held_out_rows_share(caplog):
    rows = TWELVE.select(range(12))
    warn_of_shared_inputs({"train": rows, "validation": TWELVE.select(range(10, 14)), "test": numbered(3)}, ("text",))
    warn_of_shared_inputs({"test": rows}, ("text",))
    assert [message.split(":")[0] for message in caplog.messages] == [
        "4 of 4 validation rows repeat the input of a training row"
    ]


def test_the_seed_alone_decides():
    first, again, other = (all_folds(numbered(30), 5, seed=seed) for seed in (1, 1, 2))
    chosen = [[data["validation"]["row"][:] for data in folds] for folds in (first, again, other)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert len({*map(tuple, chosen[0])}) == 5


def test_every_part_has_the_classes_in_their_shares(recwarn):
    for data in all_folds(classified("a" * 60 + "b" * 30 + "c" * 10), 5, class_column="label"):
        assert [Counter(data[part]["label"]) for part in BOTH] == [Counter({0: 12, 1: 6, 2: 2})] * 2
    texts = numbered(10, label=list("abcdefghij"))  # texts, not classes
    for rows, count in ((texts, 5), (classified("aaaaaaaaab"), 5), (classified("aabbcc"), 6)):
        assert sum(len(data["test"]) for data in all_folds(rows, count, class_column="label")) == len(rows)
    assert not recwarn.list


@pytest.mark.parametrize("fold", [None, Fold(2, 5, 0)])
def test_classes_that_are_not_learned_or_not_scored(fold, caplog):
    bare = numbered(2, label=[None, None])
    warn_of_lone_classes({"train": classified("ab"), "test": bare}, "label", fold)
    warn_of_lone_classes({"test": classified("ab"), "validation": classified("b")}, "label", fold)
    assert not caplog.messages
    warn_of_lone_classes({"train": classified("aab"), "validation": classified("acd"), "test": bare}, "label", fold)
    warn_of_lone_classes({"train": sets([0, 1], [], [0]), "test": sets([0, 2], None)}, "label", fold)
    found = [re.match(r"(Fold 2: )?(Only|No) .* classes (.*?): ", one).groups() for one in caplog.messages]
    where = fold and "Fold 2: "
    assert found == [(where, *own) for own in (("Only", "b"), ("No", "c, d"), ("Only", "b"), ("No", "c"))]
