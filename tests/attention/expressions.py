"""Random mask functions: trees over the four indices and captured arrays, for any library."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["SHAPES", "Tree", "arrays", "integers", "masks", "value"]

Tree = tuple[Any, ...]
"""A name, and what it is applied to."""

SHAPES = {"ids": (40,), "table": (2, 40), "lengths": (2,), "slopes": (3,), "flags": (40,)}
"""The captured arrays; at most 2 batches, 3 heads, 40 queries and 40 keys are looked up in them."""

COMPARISONS = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
ARITHMETIC = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
}
LOGIC = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
CONSTANTS = {"constant": np.int32, "float": np.float32}

_indices = st.sampled_from([("b",), ("h",), ("q",), ("k",)])
_places = st.sampled_from([("q",), ("k",), ("later", ("q",)), ("back", ("k",)), ("both",)])
_constants = st.builds(lambda n: ("constant", n), st.integers(-9, 45))
_found = st.one_of(
    st.builds(lambda at: ("ids", at), _places),
    st.builds(lambda at: ("table", ("b",), at), _places),
    st.just(("lengths", ("b",))),
)


def _grown(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    names = st.sampled_from([*ARITHMETIC, "minimum", "maximum"])
    return st.one_of(
        st.builds(lambda name, a, b: (name, a, b), names, children, children),
        st.builds(lambda a: ("abs", a), children),
        st.builds(lambda c, a, b: ("where", c, a, b), _compared(children), children, children),
    )


def _compared(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    names = st.sampled_from([*COMPARISONS])
    return st.builds(lambda name, a, b: (name, a, b), names, children, children)


integers = st.recursive(st.one_of(_indices, _constants, _found), _grown, max_leaves=5)
"""Trees of integers."""

_floats = st.builds(
    lambda a, b: ("less", ("scaled", a), ("float", b)), integers, st.integers(-20, 20)
)

masks = st.recursive(
    st.one_of(
        _compared(integers),
        _floats,
        st.builds(lambda at: ("flags", at), _places),
    ),
    lambda children: st.one_of(
        st.builds(lambda name, a, b: (name, a, b), st.sampled_from([*LOGIC]), children, children),
        st.builds(lambda a: ("not", a), children),
    ),
    max_leaves=4,
)
"""Trees of bools."""


def arrays(seed: int) -> dict[str, Any]:
    """Values of the captured arrays: ids that are sorted, and others that are not."""
    random = np.random.default_rng(seed)
    return {
        "ids": np.sort(random.integers(0, 4, SHAPES["ids"])).astype("int32"),
        "table": random.integers(-3, 9, SHAPES["table"]).astype("int32"),
        "lengths": random.integers(0, 40, SHAPES["lengths"]).astype("int32"),
        # Halves: products with integers are exact.
        "slopes": (random.integers(-4, 5, SHAPES["slopes"]) / 2).astype("float32"),
        "flags": random.random(SHAPES["flags"]) < 0.7,
    }


def value(tree: Tree, library: Any, captured: dict[str, Any], *indices: Any) -> Any:
    """What a tree is for indices and arrays of one library."""
    known = dict(zip("bhqk", indices, strict=True))
    return _value(tree, library, captured, known)


def _value(tree: Tree, library: Any, captured: dict[str, Any], known: dict[str, Any]) -> Any:
    name, *rest = tree
    if name in known:
        return known[name]
    if name in CONSTANTS:
        return CONSTANTS[name](rest[0])
    made = [_value(part, library, captured, known) for part in rest]
    return _applied(name, library, captured, known)(*made)


def _applied(
    name: str, library: Any, captured: dict[str, Any], known: dict[str, Any]
) -> Callable[..., Any]:
    special: dict[str, Callable[..., Any]] = {
        "later": lambda i: library.minimum(i + 3, 39),
        "back": lambda i: i - 40,
        "both": lambda: known["k"] - known["q"],
        "scaled": lambda x: captured["slopes"][known["h"]] * x.astype("float32"),
        "not": operator.invert,
        **ARITHMETIC,
        **COMPARISONS,
        **LOGIC,
    }
    if name in captured:
        return lambda *places: captured[name][places]
    if name in {"equal", "not_equal"}:
        return getattr(library, name)
    return special.get(name) or getattr(library, name)
