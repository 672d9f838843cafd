"""A small question-answering set, generated from templates. Answers follow only from neighboring words.

Each passage names a few people and their roles, and each question asks for one person. The answer is the name next to
the role. It cannot be guessed, because all names have all roles equally often. The splits have no sentence in common.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

NAMES = ("Anton", "Clara", "Felix", "Greta", "Hugo", "Ines", "Mira", "Oskar")


@dataclass(frozen=True)
class World:
    """Roles of people in a text, places where they live, and their habits."""

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

# At most two words are between the name and the role.
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
"""(role, name) of all people in a passage."""


def reading_comprehension() -> dict[str, dict[str, Any]]:
    """Generate both splits, "train" and "validation", in the nested format of SQuAD 1.1."""
    rng = random.Random(SEED)
    taken: set[str] = set()
    return {
        # The smaller split comes first. It uses few sentences and leaves enough for the larger split.
        half: _squad(half, list(_passages(rounds, rng, taken)))
        for half, rounds in (("validation", VALIDATION_ROUNDS), ("train", TRAINING_ROUNDS))
    }


def _passages(rounds: int, rng: random.Random, taken: set[str]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield (place, [(role, name, sentence), ...]). In every round, each name has each role exactly once.

    Sentences in `taken` are not used. At the end, the sentences of this call are added to it.
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
    """Yield groups of (role, name) with distinct roles and names. All groups together have each pair once."""
    names = rng.sample(NAMES, len(NAMES))
    for shift in range(len(names)):
        # A row of a Latin square: all roles have different names.
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
