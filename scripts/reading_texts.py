"""A small reading-comprehension set, written from templates, in which only neighboring words tell the answer.

Every passage says of a few people who they are; every question asks for one of them. All names fill all roles, equally
often, so that knowing a name or a role is of no use: what answers is the name beside the role. No sentence of one half
occurs in the other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

NAMES = ("Anton", "Clara", "Felix", "Greta", "Hugo", "Ines", "Mira", "Oskar")


@dataclass(frozen=True)
class World:
    """People of a text, the places where they live, and what they do."""

    roles: tuple[str, ...]
    places: tuple[str, ...]
    habits: tuple[str, ...]


WORLDS = (
    World(
        roles=("baker", "miller", "smith", "teacher", "doctor", "shepherd"),
        places=("Ashby", "Elmford", "Millbrook", "Stonebridge", "Willowdale"),
        habits=(
            "sings at dawn",
            "keeps two goats",
            "grows white roses",
            "feeds the birds",
            "plays the flute",
            "sleeps until noon",
            "walks by the river",
            "tells good stories",
        ),
    ),
    World(
        roles=("captain", "cook", "pilot", "carpenter", "surgeon", "sailmaker"),
        places=("the Albatross", "the Morning Star", "the North Wind", "the Seahorse", "the Swallow"),
        habits=(
            "hums in the rain",
            "reads old maps",
            "drinks black tea",
            "watches the stars",
            "fears the cold",
            "whistles all day",
            "paints the waves",
            "never hurries",
        ),
    ),
)

# In all of them two words at most lie between the name and the role.
SENTENCES = (
    "The {role} is {name}.",
    "The {role} is {name}, who {habit}.",
    "The {role} {name} {habit}.",
    "The {role} is called {name} and {habit}.",
    "{name} is the {role}.",
    "{name} is the {role} and {habit}.",
    "{name}, the {role}, {habit}.",
    "{name}, our {role}, {habit}.",
)

QUESTIONS = ("Who is the {role}?", "What is the {role} called?", "What is the name of the {role}?")

PEOPLE_PER_PASSAGE = 3
VALIDATION_ROUNDS = 3
TRAINING_ROUNDS = 18
SEED = 1

Cast = list[tuple[str, str]]
"""(role, name) of everybody in a passage."""


def reading_comprehension() -> dict[str, dict[str, Any]]:
    """Both halves, "train" and "validation", in the nested layout of SQuAD 1.1."""
    rng = random.Random(SEED)
    taken: set[str] = set()
    return {
        # The smaller half first: it may choose its sentences freely, the other one finds enough in what is left.
        half: _squad(half, list(_passages(rounds, rng, taken)))
        for half, rounds in (("validation", VALIDATION_ROUNDS), ("train", TRAINING_ROUNDS))
    }


def _passages(rounds: int, rng: random.Random, taken: set[str]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield (place, [(role, name, sentence), ...]); in every round each name fills each role exactly once.

    `taken` holds the sentences of earlier calls, which are not used again; those of this call are added at its end.
    """
    written: set[str] = set()
    for _ in range(rounds):
        for world in WORLDS:
            for cast in _casts(world.roles, rng):
                sentences = [(role, name, _sentence(role, name, world.habits, rng, taken)) for role, name in cast]
                written.update(sentence for *_, sentence in sentences)
                yield rng.choice(world.places), sentences
    taken |= written


def _casts(roles: Sequence[str], rng: random.Random) -> Iterator[Cast]:
    """Yield groups of (role, name) without a repetition inside a group; all groups together hold each pair once."""
    names = rng.sample(NAMES, len(NAMES))
    for shift in range(len(names)):
        # One row of a Latin square: different names for all the roles.
        row = [(role, names[(number + shift) % len(names)]) for number, role in enumerate(roles)]
        rng.shuffle(row)
        for start in range(0, len(row), PEOPLE_PER_PASSAGE):
            yield row[start : start + PEOPLE_PER_PASSAGE]


def _sentence(role: str, name: str, habits: Sequence[str], rng: random.Random, taken: set[str]) -> str:
    while True:
        sentence = rng.choice(SENTENCES).format(role=role, name=name, habit=rng.choice(habits))
        if sentence not in taken:
            return sentence


def _squad(half: str, passages: Sequence[tuple[str, list[tuple[str, str, str]]]]) -> dict[str, Any]:
    rng = random.Random(f"{SEED} {half}")
    articles: dict[str, list[dict[str, Any]]] = {}
    for number, (place, people) in enumerate(passages, start=1):
        context = " ".join(sentence for *_, sentence in people)
        questions = [
            {
                "id": f"{half}-{number}-{role}",
                "question": rng.choice(QUESTIONS).format(role=role),
                "answers": [{"text": name, "answer_start": context.index(sentence) + sentence.index(name)}],
            }
            for role, name, sentence in people
        ]
        articles.setdefault(place, []).append({"context": context, "qas": questions})
    return {"version": "1.1", "data": [{"title": place, "paragraphs": own} for place, own in sorted(articles.items())]}
