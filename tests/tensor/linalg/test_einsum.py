"""Einstein's sums are NumPy's, in whichever form they are written."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.ir import toposort
from graphc.tensor.core.elementwise import Elementwise
from graphc.tensor.linalg.dot import DotGeneral
from tests.reference import evaluate
from tests.tensor.agreement import DTYPES, check_agrees

LETTERS = "ABab"
SIZES = {"A": 2, "B": 3, "a": 1, "b": 4, "...": 2}


@st.composite
def sums(draw: Any) -> tuple[str, list[np.ndarray]]:
    """Subscripts and arrays: letters that come twice, ellipses, lengths of 1, all outputs."""
    terms = draw(st.lists(st.lists(st.sampled_from(LETTERS), max_size=3), min_size=1, max_size=4))
    dotted = draw(st.lists(st.booleans(), min_size=len(terms), max_size=len(terms)))
    arrays = []
    for term, dots in zip(terms, dotted, strict=True):
        if dots:
            term.insert(draw(st.integers(0, len(term))), "...")
        # One length stands for all of a letter in an array.
        lengths = {x: draw(st.sampled_from([SIZES[x], SIZES[x], 1])) for x in dict.fromkeys(term)}
        shape = [lengths[x] for x in term]
        dtype = draw(st.sampled_from(DTYPES))
        values = draw(st.integers(0, 5)) + np.arange(np.prod(shape, dtype=int)).reshape(shape)
        arrays.append((values % 5 - (2 if np.dtype(dtype).kind not in "bu" else 0)).astype(dtype))
    letters = sorted({x for term in terms for x in term} - {"..."})
    text = ",".join("".join(term) for term in terms)
    if draw(st.booleans()):
        out = draw(st.permutations(letters))[: draw(st.integers(0, len(letters)))]
        if any(dotted) or draw(st.booleans()):
            out.insert(draw(st.integers(0, len(out))), "...")
        text += "->" + "".join(out)
    return text, arrays


@settings(max_examples=150)
@given(sums())
def test_any_sum_is_numpys(drawn: Any) -> None:
    text, values = drawn
    check_agrees(lambda *xs: gt.einsum(text, *xs), lambda *xs: np.einsum(text, *xs), *values)


CHAINS = {
    "a chain": ("ij,jk,kl,lm->im", (4, 2), (2, 5), (5, 3), (3, 2)),
    "a ring": ("ij,jk,kl,li->", (4, 2), (2, 5), (5, 3), (3, 4)),
    "a network": ("ea,fb,abcd,gc,hd->efgh", (2, 3), (2, 3), (3, 3, 3, 3), (2, 3), (2, 3)),
    "nine": ("ab,bc,cd,de,ef,fg,gh,hi,ij->aj", *[(2, 2)] * 9),
    "two that never meet": ("i,j,i->j", (3,), (2,), (3,)),
    "one": ("ij->j", (2, 3)),
}
ORDERS: list[Any] = [None, True, False, "auto", "greedy", "optimal", "numpy"]


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_the_order_of_the_products_changes_nothing(name: str, order: Any) -> None:
    text, *shapes = CHAINS[name]
    values = [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]
    if order == "numpy":
        order = np.einsum_path(text, *values, optimize="greedy")[0]
    check_agrees(
        lambda *xs: gt.einsum(text, *xs, optimize=order), lambda *xs: np.einsum(text, *xs), *values
    )


def test_numbers_stand_for_letters() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    forms: list[tuple[Any, ...]] = [
        (a, [0, 1], b, [1, 2]),
        (a, [0, 1], b, [1, 2], [2, 0]),
        (a, [51, 26], b, [26, 0]),
        (a, [..., 1], b, [1, 2], [..., 2]),
        (a, [1, 0]),
        (a, (0, 1), []),
    ]
    for form in forms:
        expected = np.einsum(*form)
        symbolic = [gt.as_tensor(x) if isinstance(x, np.ndarray) else x for x in form]
        np.testing.assert_allclose(evaluate([gt.einsum(*symbolic)])[0], expected)


def flops(y: Any) -> int:
    """Multiplications in all products of a graph of known lengths."""
    total = 0
    for node in toposort([y]):
        if isinstance(node.op, DotGeneral):
            a = node.inputs[0]
            summed = np.prod([a.type.shape[i] for i in node.op.contract[0]], dtype=int)
            total += int(summed * np.prod(node.type.shape, dtype=int))
        elif isinstance(node.op, Elementwise):
            total += int(np.prod(node.type.shape, dtype=int))
    return total


@pytest.mark.parametrize("name", ["a chain", "a ring", "a network", "two that never meet"])
def test_the_best_order_takes_the_fewest_multiplications(name: str) -> None:
    text, *shapes = CHAINS[name]
    xs = [gt.tensor(shape=shape) for shape in shapes]
    n = len(xs)

    def every_path(left: int) -> Any:
        if left == 1:
            yield []
        for pair in itertools.combinations(range(left), 2):
            yield from ([pair, *rest] for rest in every_path(left - 1))

    costs = [flops(gt.einsum(text, *xs, optimize=["einsum_path", *path])) for path in every_path(n)]
    assert flops(gt.einsum(text, *xs)) == min(costs) < max(costs)


def test_many_arrays_are_multiplied_in_a_good_order() -> None:
    n = 60
    xs = [gt.tensor(shape=(2, 2)) for _ in range(n)]
    lists = [part for i, x in enumerate(xs) for part in (x, [i % 50, (i + 1) % 50])]
    assert flops(gt.einsum(*lists[: 2 * 49], [0, 49])) == 48 * 8


def test_a_product_of_matrices_is_one_operation() -> None:
    a, b, c = gt.matrix(), gt.matrix(), gt.tensor3()
    assert gt.einsum("ij,jk->ik", a, b) is a @ b
    assert gt.einsum("ij,jk", a, b) is gt.einsum("...j,jk", a, b)
    assert gt.einsum("zij,zjk->zik", c, c) is c @ c


def test_lengths_that_differ_at_run_time_are_noticed() -> None:
    x = gt.matrix("x")
    f = graphc.function([x], gt.einsum("ii", x), mode="NUMPY")
    assert f(np.eye(3)) == 3
    with pytest.raises(ShapeError):
        f(np.ones((2, 3)))


def test_gradients_are_those_of_the_sum() -> None:
    text = "zij,jk,ziz->ik"
    shapes = [(2, 3, 4), (4, 5), (2, 3, 2)]
    values = [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]
    graphc.verify_grad(lambda *xs: gt.einsum(text, *xs), values)


M, V = gt.tensor("m", shape=(2, 3)), gt.tensor("v", shape=(3,))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no arrays": (lambda: gt.einsum("i"), ArgumentError, "1 arrays and 0"),
    "nothing": (lambda: gt.einsum(M), ArgumentError, "expected subscripts, or arrays and lists"),
    "too few arrays": (lambda: gt.einsum("ij,j", M), ArgumentError, "2 arrays and 1"),
    "no letter": (lambda: gt.einsum("i$", M), ArgumentError, "'\\$' in 'i\\$' is not a letter"),
    "two arrows": (lambda: gt.einsum("ij->i->j", M), ArgumentError, "'-' in 'i->j'"),
    "two dots": (lambda: gt.einsum("..i", M), ArgumentError, "'.' in"),
    "two ellipses": (lambda: gt.einsum("...i...", M), ArgumentError, "is repeated"),
    "too many letters": (lambda: gt.einsum("ijk", M), ShapeError, "has 2 axes"),
    "too few letters": (lambda: gt.einsum("i", M), ShapeError, "'...' for those"),
    "a new letter": (lambda: gt.einsum("ij->k", M), ArgumentError, "repeats 'k', or no array"),
    "a letter twice": (lambda: gt.einsum("ij->ii", M), ArgumentError, "repeats 'i'"),
    "no ellipsis": (lambda: gt.einsum("...i->i", M), ArgumentError, "lacks the '...'"),
    "lengths": (lambda: gt.einsum("ij,i", M, V), ShapeError, "'i' has the lengths 2 and 3"),
    "a diagonal": (lambda: gt.einsum("ii", M[:1]), ShapeError, "1 and 3"),
    "a number": (lambda: gt.einsum(M, [0, 52]), ArgumentError, "52 does not name an axis"),
    "no number": (lambda: gt.einsum(M, ["a", "b"]), ArgumentError, "'a' does not name an axis"),
    "an order": (
        lambda: gt.einsum("ij,j", M, V, optimize="best"), ArgumentError, "optimize='best'"
    ),
    "a path": (
        lambda: gt.einsum("ij,j", M, V, optimize=["einsum_path", (0, 2)]), ArgumentError,
        "not positions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_meaning_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_einsum.py:" in str(caught.value)
