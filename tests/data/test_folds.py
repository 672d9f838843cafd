import logging
from collections import Counter

import pytest
from datasets import ClassLabel, Dataset, List

from hf_localattn.data.folds import Fold, split_rows, warn_of_lone_classes

BOTH = ("test", "validation")


def numbered(count, **columns):
    return Dataset.from_dict({"row": list(range(count)), **columns})


def classified(*names):
    return numbered(len(names), label=names).cast_column("label", ClassLabel(names=sorted(set(names))))


def all_folds(rows, count, parts=BOTH, seed=0, **columns):
    return [split_rows(rows, Fold(number, count, seed), parts, **columns) for number in range(1, count + 1)]


def sizes(data):
    return {split: len(rows) for split, rows in data.items()}


@pytest.mark.parametrize(("count", "size"), [(3, 3), (5, 23), (10, 23), (10, 100), (2, 4)])
def test_parts_are_disjoint_and_test_parts_cover_all_rows(count, size):
    tested = []
    for data in all_folds(numbered(size), count):
        assert sorted(row for rows in data.values() for row in rows["row"]) == list(range(size))
        assert all(rows["row"] == sorted(rows["row"]) for rows in data.values())
        assert count == 2 or abs(len(data["validation"]) - len(data["test"])) <= 1
        tested += data["test"]["row"]
    assert sorted(tested) == list(range(size))


@pytest.mark.parametrize(
    ("count", "parts", "expected"),
    [
        (10, BOTH, {"train": 80, "test": 10, "validation": 10}),
        (2, BOTH, {"train": 25, "test": 50, "validation": 25}),  # something has to train
        (5, ("validation",), {"train": 80, "validation": 20}),
        (200, (), {"train": 100}),
    ],
)
def test_sizes_of_parts(count, parts, expected):
    assert sizes(all_folds(numbered(100), count, parts)[-1]) == expected


def test_the_seed_alone_decides():
    first, again, other = (
        [[data[part]["row"] for part in BOTH] for data in all_folds(numbered(30), 5, seed=seed)] for seed in (1, 1, 2)
    )
    assert first == again != other
    assert first[0][0] != list(range(6))  # shuffled
    assert len({tuple(rows) for _, rows in first}) == 5


def test_groups_stay_whole():
    owners = [f"s{number // 3}" for number in range(60)]
    tested = []
    for data in all_folds(numbered(60, sentence=owners), 5, group_column="sentence"):
        own = [set(rows["sentence"]) for rows in data.values()]
        assert sum(map(len, own)) == len(set.union(*own)) == 20
        assert sizes(data) == {"train": 36, "test": 12, "validation": 12}
        tested += data["test"]["row"]
    assert sorted(tested) == list(range(60))


def test_every_part_has_the_classes_in_their_shares(recwarn):
    rows = classified(*["a"] * 60, *["b"] * 30, *["c"] * 10)
    for data in all_folds(rows, 5, class_column="label"):
        assert [Counter(data[part]["label"]) for part in BOTH] == [Counter({0: 12, 1: 6, 2: 2})] * 2
    texts = numbered(10, label=[f"{number}" for number in range(10)])  # texts, not classes
    assert sizes(all_folds(texts, 5, class_column="label")[0]) == {"train": 6, "test": 2, "validation": 2}
    for rare, count in ((["a"] * 9 + ["b"], 5), ("aabbcc", 6)):
        folds = all_folds(classified(*rare), count, class_column="label")
        assert sum(len(data["test"]) for data in folds) == len(rare)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("rows", "count", "group", "message"),
    [
        (numbered(4), 5, None, "at least 5 rows; the training data have 4"),
        (numbered(9, sentence=[0, 0, 0, 1, 1, 1, 2, 2, 2]), 4, "sentence", r"4 values of sentence .* data have 3"),
        (numbered(2), 2, None, "too few to train on: 1 of 2 rows"),
        (numbered(9), 3, "sentence", "same sentence together"),
    ],
)
def test_too_little_for_so_many_folds(rows, count, group, message):
    with pytest.raises(ValueError, match=message):
        split_rows(rows, Fold(1, count, 0), BOTH, group_column=group)


def sets(*labels):
    kind = List(ClassLabel(names=["a", "b", "c"]))
    return numbered(len(labels), label=labels).cast_column("label", kind)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"train": classified(*"aab"), "validation": classified(*"acd"), "test": numbered(2, label=[None, None])},
            [
                "Only the train rows have the classes b: no score",
                "Only the validation rows have the classes c, d: they",
            ],
        ),
        ({"train": classified(*"ab")}, []),
        ({"train": classified(*"ab"), "test": classified(*"ba")}, []),
        (
            {"train": classified(*"ab"), "validation": classified(*"abcd"), "test": classified(*"bcd")},
            ["No train row has the classes c, d, which the other splits have: they are not learned."],
        ),
        (
            {"train": sets([0, 1], [], [0]), "test": sets([0, 2], None)},
            ["Only the train rows have the classes b: no score", "Only the test rows have the classes c: they"],
        ),
    ],
)
def test_classes_that_are_not_learned_or_not_scored(data, expected, caplog):
    with caplog.at_level(logging.WARNING):
        warn_of_lone_classes(data, "label")
        warn_of_lone_classes(data, "label", Fold(2, 5, 0))
    assert len(caplog.messages) == 2 * len(expected)
    for message, start in zip(caplog.messages, [*expected, *(f"Fold 2: {one}" for one in expected)], strict=True):
        assert message.startswith(start)
