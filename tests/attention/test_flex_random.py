"""Attention with masks, lengths, blocks, heads and score changes drawn at random."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.attention import reference
from tests.attention.examples import Example, Functions
from tests.attention.worlds import TABLES, WORLDS, Given, answers

Part = Callable[[Any, Any, Any, Any], Any]
"""A function of (b, h, q, k)."""

COMPARED = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
COMPUTED = {"+": operator.add, "-": operator.sub, "*": operator.mul}
JOINED = {"&": operator.and_, "|": operator.or_, "^": operator.xor}

Tree = tuple[Any, ...]
"""A function as text and numbers: what is done, and to what."""

NUMBERS = st.integers(-6, 30)

LEAVES = st.one_of(
    st.sampled_from([("b",), ("h",), ("q",), ("k",), ("q",), ("k",)]),
    st.tuples(st.just("number"), NUMBERS),
    st.tuples(st.just("of queries"), st.integers(0, 1)),
    st.tuples(st.just("of keys"), st.integers(0, 1)),
    st.just(("of sequences",)),
)


def _grown(children: Any) -> Any:
    return st.one_of(
        st.tuples(st.sampled_from(list(COMPUTED)), children, children),
        st.tuples(st.just("//"), children, st.integers(1, 7)),
        st.tuples(st.just("%"), children, st.integers(1, 7)),
        st.tuples(st.just("abs"), children),
    )


INTEGERS = st.recursive(LEAVES, _grown, max_leaves=4)

COMPARISONS = st.one_of(
    st.tuples(st.sampled_from(list(COMPARED)), INTEGERS, INTEGERS),
    st.tuples(st.sampled_from(["<=", ">="]), st.just(("k",)), st.just(("q",))),
    st.just(("flags",)),
)

MASKS = st.recursive(
    COMPARISONS,
    lambda children: st.one_of(
        st.tuples(st.sampled_from(list(JOINED)), children, children),
        st.tuples(st.just("~"), children),
        st.tuples(st.just("where"), children, children, children),
    ),
    max_leaves=4,
)


class Drawn(NamedTuple):
    """One use of attention, and what it is compared with."""

    tree: Tree
    example: Example
    given: Given
    options: dict[str, Any]
    gradients: dict[str, Callable[[reference.Gradients], Any]]
    known: bool


def part_of(tree: Tree, library: Any, captured: dict[str, Any]) -> Part:
    """The function that a tree says, of arrays in any library."""
    name, *rest = tree
    if name in "bhqk":
        return _index("bhqk".index(name))
    if name == "number":
        number = rest[0]
        # A comparison of two numbers of Python's would be Python's bool, and no mask.
        return lambda b, h, q, k: q * 0 + number
    if name in LOOKUPS:
        return LOOKUPS[name](captured, *rest)
    if name in ("//", "%"):
        inner, number = part_of(rest[0], library, captured), rest[1]
        if name == "//":
            return lambda b, h, q, k: inner(b, h, q, k) // number
        return lambda b, h, q, k: inner(b, h, q, k) % number
    return _combined(name, [part_of(x, library, captured) for x in rest], library)


def _index(place: int) -> Part:
    return lambda *at: at[place]


def _of_queries(captured: dict[str, Any], n: int) -> Part:
    numbers = captured["query_numbers"]
    return lambda b, h, q, k: numbers[n, q]


def _of_keys(captured: dict[str, Any], n: int) -> Part:
    numbers = captured["key_numbers"]
    return lambda b, h, q, k: numbers[n, k]


def _of_sequences(captured: dict[str, Any]) -> Part:
    numbers = captured["sequence_numbers"]
    return lambda b, h, q, k: numbers[b]


def _flags(captured: dict[str, Any]) -> Part:
    flags = captured["flags"]
    return lambda b, h, q, k: flags[q, k % 5]


LOOKUPS = {
    "of queries": _of_queries,
    "of keys": _of_keys,
    "of sequences": _of_sequences,
    "flags": _flags,
}


def _combined(name: str, parts: list[Part], library: Any) -> Part:
    if name == "abs":
        (x,) = parts
        return lambda b, h, q, k: abs(x(b, h, q, k))
    if name == "~":
        (x,) = parts
        return lambda b, h, q, k: ~x(b, h, q, k)
    if name == "where":
        condition, yes, no = parts
        where = library.where
        return lambda *at: where(condition(*at), yes(*at), no(*at))
    a, c = parts
    function = {**COMPARED, **COMPUTED, **JOINED}[name]
    return lambda b, h, q, k: function(a(b, h, q, k), c(b, h, q, k))


def _score_of(kind: str, captured: dict[str, Any], library: Any) -> Any:
    bias = captured["bias"]
    return {
        "none": None,
        "bias": lambda s, b, h, q, k: s + bias[h, q, k],
        "factor": lambda s, b, h, q, k: s * bias[h, q, k],
        "capped": lambda s, b, h, q, k: 0.9 * library.tanh(s / 0.9) + bias[h, q, k],
    }[kind]


@st.composite
def uses(draw: Any) -> Drawn:
    """A use of attention whose mask function is drawn, and its arrays."""
    tree, kind = draw(MASKS), draw(st.sampled_from(["none", "bias", "factor", "capped"]))
    queries, keys = draw(st.integers(1, 33)), draw(st.integers(1, 33))
    batch, group, heads = (draw(st.integers(1, 2)) for _ in range(3))
    block = draw(st.tuples(st.sampled_from([1, 3, 8, 16]), st.sampled_from([1, 4, 7, 16])))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    runs = np.sort(random.integers(0, 4, (2, max(queries, keys))), axis=1)
    captured = {
        "query_numbers": runs[:, :queries].astype(np.int32),
        "key_numbers": runs[:, :keys].astype(np.int32),
        "sequence_numbers": random.integers(0, keys + 1, batch).astype(np.int32),
        "flags": random.random((queries, 5)) < 0.8,
        "bias": random.standard_normal((heads * group, queries, keys)),
    }

    def functions(library: Any, **captured: Any) -> Functions:
        mask = part_of(tree, library, captured)
        return Functions(mask, _score_of(kind, captured, library))

    example = Example(
        functions,
        captured if kind != "none" else {**captured, "bias": np.zeros(1, np.int32)},
        heads=(heads * group, heads),
        lengths=(queries, keys),
        batch=batch,
        mask_batch=batch,
        mask_heads=heads * group,
        block=block,
    )
    numbers = Given(*reference.problem(3, batch, example.heads, example.lengths))
    return Drawn(tree, example, numbers, *_meant(example, kind), draw(st.booleans()))


class Plain(NamedTuple):
    """What the functions take from NumPy."""

    where: Any = np.where
    tanh: Any = np.tanh


def _meant(example: Example, kind: str) -> Any:
    """What the mask says of each element, asked one at a time, and what becomes of scores."""
    mask = example.functions(Plain(), **example.captured).mask
    sizes = (example.batch, example.heads[0], *example.lengths)
    bias = example.captured["bias"]
    options: dict[str, Any] = {"mask": reference.dense_mask(mask, *sizes)}
    if kind in ("bias", "capped"):
        options["plus"] = bias
    if kind == "factor":
        options["times"] = bias
    if kind == "capped":
        options["cap"] = 0.9
    gradients = {
        "bias": lambda g: g.final.sum(0),
        "factor": lambda g: g.times.sum(0),
        "capped": lambda g: g.final.sum(0),
    }
    return options, {"bias": gradients[kind]} if kind in gradients else {}


def check(drawn: Drawn, world: str) -> None:
    _, example, numbers, options, gradients, known = drawn
    found = answers(world, example, numbers, known)
    if not known:
        reference.check_tables([found[name] for name in TABLES], options["mask"], example.block)
    y = reference.forward(*numbers[:3], **options)
    g = reference.backward(*numbers, **options)
    expected = {"out": y.out, "lse": y.lse, "q": g.q, "k": g.k, "v": g.v}
    expected |= {name: f(g) for name, f in gradients.items()}
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-11, atol=1e-11, err_msg=name)


FEW = {"NUMPY": 15, "JAX": 3, "MLX": 15, "eager": 3, "jit": 3, "kernels": 3}
"""How many uses are drawn in a few seconds: JAX compiles each of them."""

MANY = {"NUMPY": 100, "JAX": 12, "MLX": 100, "eager": 8, "jit": 12, "kernels": 12}


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("world", WORLDS)
def test_masks_drawn_at_random_give_what_dense_formulas_do(world: str) -> None:
    @settings(max_examples=FEW[world], suppress_health_check=list(HealthCheck))
    @given(uses())
    def run(drawn: Drawn) -> None:
        check(drawn, world)

    run()


@pytest.mark.exhaustive
@pytest.mark.parametrize("world", WORLDS)
def test_many_masks_drawn_at_random_give_what_dense_formulas_do(world: str) -> None:
    @settings(max_examples=MANY[world], suppress_health_check=list(HealthCheck))
    @given(uses())
    def run(drawn: Drawn) -> None:
        check(drawn, world)

    run()
