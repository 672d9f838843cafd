import logging
import re
from collections import Counter

import pytest
from datasets import ClassLabel, Dataset, List

from hf_localattn.data.folds import Fold, split_rows, warn_of_lone_classes

BOTH = ("test", "validation")


def numbered(count, **columns):
    return Dataset.from_dict({"row": list(range(count)), **columns})


def classified(*names):
    return numbered(len(names), label=names).cast_column("label", ClassLabel(names=sorted(set(names))))


def sets(*labels):
    kind = List(ClassLabel(names=["a", "b", "c"]))
    return numbered(len(labels), label=labels).cast_column("label", kind)


def all_folds(rows, count, parts=BOTH, seed=0, **columns):
    return [split_rows(rows, Fold(number, count, seed), parts, **columns) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("count", "size", "parts", "expected"),
    [
        (3, 3, BOTH, [1, 1, 1]),
        (10, 100, BOTH, [80, 10, 10]),
        (5, 23, BOTH, [13, 5, 5]),
        (2, 100, BOTH, [25, 50, 25]),  # something has to train
        (5, 100, ("validation",), [80, 20]),
        (200, 100, (), [100]),
    ],
)
def test_parts_are_disjoint_and_first_parts_cover_all_rows(count, size, parts, expected):
    tested = []
    for data in all_folds(numbered(size), count, parts):
        assert sorted(row for rows in data.values() for row in rows["row"]) == list(range(size))
        assert all(rows["row"] == sorted(rows["row"]) for rows in data.values())
        tested += [row for part in parts[:1] for row in data[part]["row"]]
    assert sorted(tested) == list(range(size if parts else 0))
    assert list(data) == ["train", *parts]
    assert list(map(len, all_folds(numbered(size), count, parts)[0].values())) == expected


def test_the_seed_alone_decides():
    first, again, other = (
        [[data[part]["row"] for part in BOTH] for data in all_folds(numbered(30), 5, seed=seed)] for seed in (1, 1, 2)
    )
    assert first == again != other
    assert first[0][0] != list(range(6))  # shuffled
    assert len({tuple(rows) for _, rows in first}) == 5


def test_groups_stay_whole():
    for data in all_folds(numbered(60, sentence=[f"s{n // 3}" for n in range(60)]), 5, group_column="sentence"):
        own = [set(rows["sentence"]) for rows in data.values()]
        assert sum(map(len, own)) == len(set.union(*own)) == 20
        assert list(map(len, data.values())) == [36, 12, 12]


def test_every_part_has_the_classes_in_their_shares(recwarn):
    rows = classified(*["a"] * 60, *["b"] * 30, *["c"] * 10)
    for data in all_folds(rows, 5, class_column="label"):
        assert [Counter(data[part]["label"]) for part in BOTH] == [Counter({0: 12, 1: 6, 2: 2})] * 2
    texts = numbered(10, label=[f"{number}" for number in range(10)])  # texts, not classes
    assert list(map(len, all_folds(texts, 5, class_column="label")[0].values())) == [6, 2, 2]
    for rare, count in ((["a"] * 9 + ["b"], 5), ("aabbcc", 6)):
        folds = all_folds(classified(*rare), count, class_column="label")
        assert sum(len(data["test"]) for data in folds) == len(rare)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("rows", "count", "group", "message"),
    [
        (numbered(4), 5, None, "test rows .* 5 parts.* only 4 rows"),
        (numbered(9, sentence=[0, 0, 0, 1, 1, 1, 2, 2, 2]), 4, "sentence", "test .* only 3 values of sentence"),
        (numbered(2), 2, None, "validation rows .* 2 parts.* only 1 rows"),
    ],
)
def test_too_little_for_so_many_folds(rows, count, group, message):
    with pytest.raises(ValueError, match=message):
        split_rows(rows, Fold(1, count, 0), BOTH, group_column=group)


BARE = numbered(2, label=[None, None])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"train": classified(*"aab"), "validation": classified(*"acd"), "test": BARE}, ["Only: b", "No: c, d"]),
        ({"train": classified(*"ab")}, []),
        ({"train": classified(*"ab"), "test": BARE}, []),
        ({"test": classified(*"ab"), "validation": classified(*"b")}, []),
        ({"train": classified(*"ab"), "validation": classified(*"bc"), "test": classified(*"acd")}, ["No: c, d"]),
        ({"train": sets([0, 1], [], [0]), "test": sets([0, 2], None)}, ["Only: b", "No: c"]),
    ],
)
def test_classes_that_are_not_learned_or_not_scored(data, expected, caplog):
    with caplog.at_level(logging.WARNING):
        for fold in (None, Fold(2, 5, 0)):
            warn_of_lone_classes(data, "label", fold)
    found = [re.match(r"(Fold 2: |)(Only|No) .* classes (.*?): ", one).groups() for one in caplog.messages]
    assert found == [(where, *own.split(": ")) for where in ("", "Fold 2: ") for own in expected]
