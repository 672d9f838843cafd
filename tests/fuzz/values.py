"""Values of all kinds, right and wrong, for whatever is read from a file or given by a caller."""

import hypothesis.strategies as st

TEXTS = (
    *("", " ", "\0", "\n", "[CUE]", "nan", "1e-5", "true", "null", "-1", "0", "../.."),
    *("x" * 300, "\ud800", "\u2028", "😀"),
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([10**6, 2**31, 2**63, -(2**63) - 1, 10**18, 10**400, -(10**400)]),
    st.floats(0, 1),
    st.sampled_from([float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324, 1e-9]),
    st.sampled_from(TEXTS),
    st.sampled_from(["\ud800", "9" * 5000]),
    st.text(max_size=6),
)

json_values = st.one_of(
    scalars,
    st.lists(st.integers(-2, 6), max_size=4),
    st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.text(max_size=4) | st.sampled_from(TEXTS), inner, max_size=3),
        ),
        max_leaves=6,
    ),
)
"""What a .json file can hold."""

anything = st.one_of(
    json_values,
    st.sampled_from([(), (3,), b"x", frozenset(), object(), int, 1j, range(3)]),
    st.dictionaries(st.integers(-1, 3), scalars, max_size=2),
)
"""What a caller can give."""


def often(*strategies):
    """Draw from one of them, a strategy that is there several times so much more often (`one_of` takes it once)."""
    return st.sampled_from(strategies).flatmap(lambda strategy: strategy)


def or_wrong(right, wrong=anything):
    """Draw mostly from the first, else from the second."""
    return often(right, right, wrong)
