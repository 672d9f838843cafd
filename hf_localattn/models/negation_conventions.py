"""Conventions of annotation: what counts as a cue and as its scope in stories, papers, reviews and clinical notes."""

from collections.abc import Sequence

CONVENTIONS = ("stories", "papers", "reviews", "notes")

_AFFIXED = """
acyanotic afebrile anicteric asymptomatic atraumatic unlabored unremarkable unresponsive nonbilious nonbloody
nondiabetic nondisplaced nondistended nondrinker nonerythematous nonfocal nonicteric nonpainful nonpalpable nonpitting
nonproductive nonpruritic nonradiating nonreactive nonsmoker nontender nontoxic nonverbal
"""
AFFIXED = frozenset(_AFFIXED.split())
"""Words whose negative affix is a cue in clinical notes, without hyphens."""

_NEGATORS = "not n't cannot never no neither nor hardly scarcely barely rarely seldom longer unable"
NEGATORS = frozenset(_NEGATORS.split())
"""First words of cues that are no predicate of their own."""

_BE = "be been being is are was were am 's 're got gets get"
BE = frozenset(_BE.split())

_PARTICIPLES = """
brought built chosen done driven felt forgotten found given held hidden kept known lost made met proven put seen sent
shown spoken taken thought told understood written
"""
PARTICIPLES = frozenset(_PARTICIPLES.split())
"""Participles that do not end in "ed"."""

_TREATED = """
alleviate alleviated alleviates change changed changes ease eased eases explain explained explains help helped helps
improve improved improves make makes made relieve relieved relieves worsen worsened worsens
"""
TREATED = frozenset(_TREATED.split())
"""Verbs whose object is there, though they are negated: "nothing relieves the migraine"."""

_TREATMENTS = """
biopsy evaluation follow-up followup imaging improvement intervention investigation management monitoring relief
studies surveillance testing therapy treatment work-up workup
"""
TREATMENTS = frozenset(_TREATMENTS.split())
"""Nouns of the same kind: "no further workup of the nodule"."""

EXCEPTIONS = (["except"], ["other", "than"], ["apart", "from"], ["aside", "from"], ["s/p"], ["status", "post"])
"""Words behind which a finding is there."""

CLAUSE_MARKS = (",", ".", ";", ":")

REACH = 4
"""Words after a cue, or after a form of "be", in which a participle shows that the clause is passive."""


def check_convention(convention: str) -> None:
    """Raise `ValueError` if a convention is unknown."""
    if convention not in CONVENTIONS:
        raise ValueError(f"`convention` is {convention!r}; choose one of {', '.join(map(repr, CONVENTIONS))}.")


def is_cue(convention: str, cue_type: str, word: str) -> bool:
    """Return False for affixes that are no cues by a convention. `word` is the whole word of the affix."""
    if cue_type != "affix" or convention == "stories":
        return True
    return convention == "notes" and word.lower().replace("-", "") in AFFIXED


def whole_cue(
    convention: str, cue_type: str, words: Sequence[str], cue: tuple[int, ...]
) -> tuple[str, tuple[int, ...]]:
    """Return the type and the words of a cue, whole where a convention has a whole one.

    Stories divide `unable`, and stories and reviews `cannot` and `could not`, whose cue is `not` there.

    Args:
        convention: One of `CONVENTIONS`.
        cue_type: Type of the cue.
        words: Words of the sentence.
        cue: Indices of the cue's words.
    """
    first = cue[0]
    word = _plain(words[first])
    if convention != "stories" and cue_type == "affix" and word == "unable":
        return "single", cue
    has_whole_verbs = convention in ("papers", "notes")
    if has_whole_verbs and len(cue) == 1 and word == "not" and first and _plain(words[first - 1]) in ("can", "could"):
        return "multi", (first - 1, first)
    return cue_type, cue


def limit_scope(convention: str, words: Sequence[str], cue: Sequence[int], scope: Sequence[bool]) -> list[bool]:
    """Return a scope without the subject: words left of the cue stay only if they are what the cue negates.

    They stay if the clause is passive ("the gene was not found"), if the cue itself is the predicate ("appendicitis
    was ruled out by CT"), or if no word right of the cue is in scope ("fever: none"). The auxiliary of "does n't"
    stays.

    Args:
        convention: One of `CONVENTIONS`. "stories" keeps all.
        words: Words of the sentence.
        cue: Indices of the cue's words.
        scope: True for each word in scope.
    """
    first = cue[0]
    last = cue[-1]
    if convention == "notes":
        scope = _of_finding(words, first, last, scope)
    after = zip(words[last + 1 :], scope[last + 1 :], strict=True)
    has_right = any(inside and any(map(str.isalnum, word)) for word, inside in after)
    if convention == "stories" or not has_right or _is_passive(words, first, last):
        return list(scope)
    start = first - 1 if _plain(words[first]) == "n't" else first
    return [inside and index >= start for index, inside in enumerate(scope)]


def _of_finding(words: Sequence[str], first: int, last: int, scope: Sequence[bool]) -> list[bool]:
    """Return the scope of a cue in notes without findings that are there: what a treatment is for, what else is."""
    after = [word.lower() for word in words[last + 1 :]]
    stops = []
    for index, word in enumerate(after[:REACH], 1):
        if word in TREATED or (word in TREATMENTS and after[index : index + 1] in (["of"], ["for"], ["in"], ["from"])):
            stops.append(last + 1 + index)
    if _plain(words[first]).startswith("lack") and "or" not in after:
        stops += [last + 1 + after.index(mark) for mark in (",", "and") if mark in after]
    for index in range(len(after)):
        if any(after[index : index + len(exception)] == exception for exception in EXCEPTIONS):
            stops.append(last + 1 + index)
    stop = min(stops, default=len(words))
    if True in scope and True not in scope[:stop]:  # "gallbladder absent s/p cholecystectomy"
        before = clause_before(words, first)
        return [index in before for index in range(len(words))]
    return [inside and index < stop for index, inside in enumerate(scope)]


def clause_before(words: Sequence[str], index: int) -> range:
    """Return the words of a clause before one of its words."""
    return range(
        max((place + 1 for place, word in enumerate(words[:index]) if word in CLAUSE_MARKS), default=0), index
    )


def _is_passive(words: Sequence[str], first: int, last: int) -> bool:
    """Return True if a cue, from its first to its last word, is in a passive clause or is itself a predicate."""
    near = [_plain(word) for word in words[max(0, first - 2) : last + 1 + 2 * REACH]]
    before = near[: min(first, 2)]
    after = near[len(before) + last + 1 - first :]
    follows_be = not BE.isdisjoint(before)
    cue = near[len(before)]
    if cue not in NEGATORS:
        return follows_be or cue == "absent" or after[:1] == ["by"]  # notes leave out "is"
    forms = [index for index, word in enumerate(after[:REACH]) if word in BE]
    if follows_be or forms:
        start = 0 if follows_be else forms[0] + 1
        return any(map(_is_participle, after[start : start + REACH]))
    return any(map(_is_participle, after[:1]))


def _plain(word: str) -> str:
    return word.lower().replace("\u2019", "'").strip("(),.;:")


def _is_participle(word: str) -> bool:
    return word in PARTICIPLES or (word.endswith("ed") and not word.endswith("eed"))
