import logging
from collections import Counter

import pytest
from datasets import ClassLabel, Dataset, List

from hf_localattn.data.folds import Fold, split_rows, warn_of_lone_classes

BOTH = ("test", "validation")


def numbered(count, **columns):
    return Dataset.from_dict({"row": list(range(count)), **columns})


def classified(*names):
    kind = ClassLabel(names=sorted(set(names)))
    return numbered(len(names), label=names).cast_column("label", kind)


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
        tested += data["test"]["row"]
    assert sorted(tested) == list(range(size))


def test_validation_is_as_large_as_the_test_part():
    for data in all_folds(numbered(23), 10):
        assert abs(len(data["validation"]) - len(data["test"])) <= 1
    assert sizes(all_folds(numbered(100), 10)[3]) == {"train": 80, "test": 10, "validation": 10}
    assert sizes(all_folds(numbered(100), 2)[0]) == {
        "train": 25,
        "test": 50,
        "validation": 25,
    }  # something has to train


def test_a_part_that_is_given_is_not_held_out():
    rows = numbered(20)
    (first, *_) = all_folds(rows, 5, parts=("validation",))
    assert sizes(first) == {"train": 16, "validation": 4}
    validated = [row for data in all_folds(rows, 5, parts=("validation",)) for row in data["validation"]["row"]]
    assert sorted(validated) == list(range(20))
    assert [sizes(data) for data in all_folds(rows, 40, parts=())] == [{"train": 20}] * 40


def test_the_seed_alone_decides():
    rows = numbered(30)
    drawn = [[data["test"]["row"], data["validation"]["row"]] for data in all_folds(rows, 5, seed=1)]
    assert drawn == [[data["test"]["row"], data["validation"]["row"]] for data in all_folds(rows, 5, seed=1)]
    assert drawn != [[data["test"]["row"], data["validation"]["row"]] for data in all_folds(rows, 5, seed=2)]
    assert drawn[0][0] != list(range(6))  # shuffled


def test_groups_stay_whole():
    owners = [f"s{number // 3}" for number in range(60)]
    tested = []
    for data in all_folds(numbered(60, sentence=owners), 5, group_column="sentence"):
        own = [set(rows["sentence"]) for rows in data.values()]
        assert sum(map(len, own)) == len(set.union(*own)) == 20
        assert sizes(data) == {"train": 36, "test": 12, "validation": 12}
        tested += data["test"]["row"]
    assert sorted(tested) == list(range(60))


def test_every_part_has_the_classes_in_their_shares():
    rows = classified(*["a"] * 60, *["b"] * 30, *["c"] * 10)
    for data in all_folds(rows, 5, class_column="label"):
        assert [Counter(data[part]["label"]) for part in BOTH] == [Counter({0: 12, 1: 6, 2: 2})] * 2
    texts = numbered(10, label=[f"{number}" for number in range(10)])  # texts, not classes
    assert sizes(all_folds(texts, 5, class_column="label")[0]) == {"train": 6, "test": 2, "validation": 2}


def test_rare_classes_are_shared_out_as_far_as_they_go(recwarn):
    rows = classified(*["a"] * 9, "b")
    assert sum(len(data["test"]) for data in all_folds(rows, 5, class_column="label")) == 10
    assert sum(len(data["test"]) for data in all_folds(classified(*"aabbcc"), 6, class_column="label")) == 6
    assert not recwarn.list


@pytest.mark.parametrize(
    ("rows", "count", "group", "message"),
    [
        (numbered(4), 5, None, "--num_folds 5 needs at least 5 rows; the training data have 4"),
        (
            numbered(9, sentence=[0, 0, 0, 1, 1, 1, 2, 2, 2]),
            4,
            "sentence",
            r"needs at least 4 values of sentence \(rows with the same one stay together\); the training data have 3",
        ),
        (numbered(2), 2, None, "--num_folds 2 leaves too few to train on: 1 of 2 rows are left"),
        (
            numbered(9),
            3,
            "sentence",
            "same sentence together",
        ),
    ],
)
def test_too_little_for_so_many_folds(rows, count, group, message):
    with pytest.raises(ValueError, match=message):
        split_rows(rows, Fold(1, count, 0), BOTH, group_column=group)


def test_classes_of_one_split_alone(caplog):
    data = {"train": classified(*"aab"), "validation": classified(*"acd"), "test": numbered(2, label=[None, None])}
    with caplog.at_level(logging.WARNING):
        warn_of_lone_classes(data, "label")
    assert [record.getMessage() for record in caplog.records] == [
        "Only the train rows have the classes b: no score shows how well they are learned.",
        "Only the validation rows have the classes c, d: they are not learned.",
    ]
    caplog.clear()
    warn_of_lone_classes({"train": classified(*"ab")}, "label")
    warn_of_lone_classes({"train": classified(*"ab"), "test": classified(*"ba")}, "label")
    assert not caplog.records


def test_classes_that_are_not_learned(caplog):
    data = {"train": classified(*"ab"), "validation": classified(*"abcd"), "test": classified(*"bcd")}
    warn_of_lone_classes(data, "label", Fold(2, 5, 0))
    said = "Fold 2: No train row has the classes c, d, which the other splits have: they are not learned."
    assert [record.getMessage() for record in caplog.records] == [said]
    caplog.clear()
    warn_of_lone_classes({"train": classified("a"), "test": classified("b")}, "label", Fold(1, 2, 0))
    assert [record.getMessage().split(":")[:2] for record in caplog.records] == [
        ["Fold 1", f" Only the {split} rows have the classes {name}"]
        for split, name in [("train", "a"), ("test", "b")]
    ]


def test_sets_of_classes(caplog):
    kind = List(ClassLabel(names=["a", "b", "c"]))
    train, test = (
        numbered(len(sets), label=sets).cast_column("label", kind) for sets in ([[0, 1], [], [0]], [[0, 2], None])
    )
    warn_of_lone_classes({"train": train, "test": test}, "label")
    assert [record.getMessage() for record in caplog.records] == [
        "Only the train rows have the classes b: no score shows how well they are learned.",
        "Only the test rows have the classes c: they are not learned.",
    ]
