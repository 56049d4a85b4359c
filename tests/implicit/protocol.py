"""What a structure answers when it is asked directly, beside what NumPy answers for the whole.

``tests/implicit/reference.py`` puts structures through whole programs. Here each method of the
protocol is called on fields of each library, with shapes that hypothesis chooses, so that a slip at
length 0 or 1, in one dtype or in one library is found, and it is known which methods answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from graphc.implicit import ImplicitArray, materializing, numpy_like
from graphc.implicit.structured import (
    ADD,
    MULTIPLY,
    ElementwiseFunction,
    Structured,
    function_named,
    scaling,
)
from graphc.implicit.treedef import Treedef, dtype_of
from graphc.ir import Leaf, TensorType, dtype_name, is_inexact, toposort
from graphc.tensor import as_tensor

__all__ = ["ALIKE", "LEVELS", "Asked", "Symbols", "answers", "confirm", "numbers", "slope_agrees"]

ALIKE = """
    x @ w; y @ w.T; xs @ w; ys @ w.T; w @ x.T; w @ v; c @ w; w.T @ c; einsum free between;
    layer; two layers; w.T; new axis; new axis and back; new axis, product; repeated; w[1];
    w[-1]; w[1:3]; w[::2]; w[:, 1]; w[:, 1:3]; w[1:3, ::2]; w[1, 2]; w[:0]; w[None]; w[i];
    w[index]; w[table]; w[-index]; w[:, columns]; w[:, index]; take; take columns; stack; split;
    w * 2; s * w; w / s; -w; where flag; sum; sum of columns; sum of rows; sum kept; mean
"""
"""The operations of ``reference.py`` in which no matrix structure of these becomes whole."""

MAPPED = ("negative", "abs", "square", "sign", "exp", "conj")


@dataclass(frozen=True)
class Asked:
    """A question to a structure, what it answered, and what is right.

    Attributes:
        name: The method, and what distinguishes the question.
        found: The answer; NotImplemented where it has none.
        expected: NumPy's answer for the whole array.
    """

    name: str
    found: Any
    expected: Any


class NumPy:
    """Arrays as they are."""

    def enter(self, x: Any) -> Any:
        return x

    def leave(self, x: Any) -> Any:
        return np.asarray(x)


class Jax(NumPy):
    """Arrays of JAX's."""

    def enter(self, x: Any) -> Any:
        return jnp.asarray(x)


class Symbols:
    """Inputs of a graph, and values of what is made of them: node by node, nothing rewritten."""

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}

    def enter(self, x: Any) -> Any:
        x = np.asarray(x)
        symbol = TensorType(dtype_name(x.dtype), x.shape)()
        self.known[symbol] = x
        return symbol

    def leave(self, x: Any) -> Any:
        for node in toposort([as_tensor(x)], self.known):
            if isinstance(node.op, Leaf):
                self.known[node] = node.op.array
                continue
            self.known[node] = node.op.perform(*[self.known[part] for part in node.inputs])
        return self.known[x]


LEVELS: dict[str, Callable[[], Any]] = {"numpy": NumPy, "jax": Jax, "graphc": Symbols}


def numbers(rng: np.random.Generator, dtype: str, *lengths: int) -> Any:
    """Numbers of a dtype: whole ones from -3 to 3, so that sums of products are exact."""
    if dtype == "bool":
        return rng.integers(0, 2, lengths).astype(bool)
    low = 0 if dtype.startswith("u") else -3
    x = rng.integers(low, 4, lengths).astype(dtype)
    return x + 1j * rng.integers(-3, 4, lengths) if dtype.startswith("complex") else x


def _left(library: Any, y: Any) -> Any:
    """A result as a NumPy array."""
    if isinstance(y, ImplicitArray):
        treedef, leaves = Treedef.of(y)
        y = treedef.build([library.leave(x) for x in leaves])
        while isinstance(y, ImplicitArray):
            y = y.materialize()
        return np.asarray(y)
    return library.leave(y)


def answers(
    level: str, w: Structured, whole: Any, other: Structured, other_whole: Any, seed: int
) -> Iterator[Asked]:
    """Questions to a structure and another of the same form, in a library."""
    library = LEVELS[level]()
    x, y = w.each(library.enter), other.each(library.enter)
    rng, dtype = np.random.default_rng(seed), dtype_name(whole.dtype)
    given = Given(library, x, whole, y, other_whole, rng, dtype)
    for group in (_products, _places, _parts, _elements, _choices, _functions, _reductions):
        for name, found, expected in group(given):
            if found is not NotImplemented:
                found = _left(library, found)
            yield Asked(name, found, expected)


Group = Iterator[tuple[str, Any, Any]]


@dataclass(frozen=True)
class Given:
    """A structure x and what it stands for, another y and that, of a library and a dtype."""

    library: Any
    x: Any
    a: Any
    y: Any
    b: Any
    rng: Any
    dtype: str

    def of(self, *names: str) -> list[Any]:
        return [getattr(self, name) for name in names]


def _products(given: Given) -> Group:
    library, x, a, b, y, rng, dtype = given.of("library", "x", "a", "b", "y", "rng", "dtype")
    *batch, m, n = a.shape
    for k in (1, 3):
        c = numbers(rng, dtype, *batch, k, m)
        yield f"times {k}", x.rmatmul(library.enter(c)), c @ a
    c = numbers(rng, dtype, *batch, 2, n)
    yield (
        "swapped times",
        x.matrix_transpose().rmatmul(library.enter(c)),
        c @ np.swapaxes(a, -1, -2),
    )
    yield "times itself", x.rmatmul(y.matrix_transpose()), np.swapaxes(b, -1, -2) @ a


def _places(given: Given) -> Group:
    x, a = given.of("x", "a")
    *batch, m, n = a.shape
    k = len(batch)
    yield "swapped", x.matrix_transpose(), np.swapaxes(a, -1, -2)
    if k == 2:
        yield "permuted", x.permute((1, 0, 3, 2)), np.transpose(a, (1, 0, 3, 2))
        shape = (batch[0] * batch[1], m, n)
        yield "reshaped batch", x.reshape_to(shape), a.reshape(shape)
    yield "reshaped in front", x.reshape_to((1, *a.shape)), a[None]
    if m % 2 == 0:
        shape = (*batch, m // 2, n * 2)
        yield "reshaped", x.reshape_to(shape), a.reshape(shape)
    shape = (2, *batch, m, n)
    yield "broadcast", x.broadcast(shape, tuple(range(1, k + 3))), np.broadcast_to(a, shape)


def _parts(given: Given) -> Group:
    library, x, a, y, b, rng = given.of("library", "x", "a", "y", "b", "rng")
    for i in range(3):
        starts = tuple(int(rng.integers(0, n + 1)) for n in a.shape)
        pairs = zip(starts, a.shape, strict=True)
        stops = tuple(int(rng.integers(start, n + 1)) for start, n in pairs)
        steps = tuple(int(rng.integers(1, 3)) for _ in a.shape)
        if i == 1:
            starts, stops = (*starts[:-1], 0), (*stops[:-1], a.shape[-1])
            steps = (*steps[:-1], 1)
        index = tuple(slice(*bounds) for bounds in zip(starts, stops, steps, strict=True))
        yield f"window {index}", x.window(tuple(map(range, starts, stops, steps))), a[index]
    if a.shape[0]:
        for shape in ((), (3,), (2, 2)):
            index = rng.integers(0, a.shape[0], shape).astype("int32")
            yield f"rows {shape}", x.take_rows(library.enter(index)), a[index]
    for axis in range(a.ndim):
        yield f"joined {axis}", x.concatenate([y], axis), np.concatenate([a, b], axis)


def _elements(given: Given) -> Group:
    library, x, a, y, b, rng, dtype = given.of("library", "x", "a", "y", "b", "rng", "dtype")
    c = numbers(rng, dtype)[()] if dtype == "bool" else numbers(rng, dtype)[()] + 1
    c = np.asarray(c, dtype)
    number = library.enter(c)
    yield "scaled", x.elementwise(scaling(number)), a * c
    if dtype != "bool":
        plus = ElementwiseFunction(lambda v: ADD(v, number), shift=number)
        yield "shifted", x.elementwise(plus), a + c
    if is_inexact(dtype):
        two = np.asarray(2, dtype)
        yield "divided", x.elementwise(scaling(library.enter(two), "divide")), a / two
    other = numbers(rng, dtype, *a.shape)
    yield "multiplied", x.elementwise(MULTIPLY, library.enter(other)), a * other
    yield "multiplied by the same", x.elementwise(MULTIPLY, y), a * b
    yield "added", x.elementwise(ADD, y), a + b
    yield "added whole", x.elementwise(ADD, library.enter(other)), a + other
    for axis in (a.ndim - 2, a.ndim - 1):
        v = numbers(rng, dtype, a.shape[axis])
        weights = v[:, None] if axis == a.ndim - 2 else v
        yield f"weighted {axis - a.ndim}", x.scale_along(library.enter(v), axis), a * weights


def _choices(given: Given) -> Group:
    library, x, a, y, b, rng = given.of("library", "x", "a", "y", "b", "rng")
    mask = rng.integers(0, 2, a.shape).astype(bool)
    for first in (True, False):
        pair = (a, b) if first else (b, a)

        def choose(v: Any, w: Any, m: Any, first: bool = first) -> Any:
            return numpy_like(v, w, m).where(m, *((v, w) if first else (w, v)))

        where = ElementwiseFunction(choose, "where", zeros=2)
        found = x.elementwise(where, y, library.enter(mask))
        yield f"chosen {first}", found, np.where(mask, *pair)
        flag = library.enter(np.asarray(True))
        by_one = ElementwiseFunction(partial(choose, m=flag), "where", zeros=2)
        yield f"chosen by one {first}", x.elementwise(by_one, y), pair[0]


def _functions(given: Given) -> Group:
    x, a, dtype = given.of("x", "a", "dtype")
    for name in MAPPED if dtype != "bool" else ():
        if name in {"exp", "sign"} and (not is_inexact(dtype) or "complex" in dtype):
            continue
        yield f"mapped {name}", x.elementwise(function_named(name)), getattr(np, name)(a)
    wide = np.dtype("complex128" if "complex" in dtype else "float64")
    yield "cast", x.cast(wide), a.astype(wide)
    if not is_inexact(dtype):
        yield "cast to int8", x.cast(np.dtype("int8")), a.astype("int8")


def _reductions(given: Given) -> Group:
    x, a, dtype = given.of("x", "a", "dtype")
    names = ("any", "all") if dtype == "bool" else ("sum", "prod", "max", "min")
    choices = [(a.ndim - 1,), (a.ndim - 2,), (a.ndim - 2, a.ndim - 1)]
    choices += [(0,), (0, a.ndim - 1)] if a.ndim > 2 else []
    for name in names:
        for axes in choices:
            empty = 0 in [a.shape[axis] for axis in axes]
            if (empty and name in {"max", "min"}) or (
                "complex" in dtype and name in {"max", "min"}
            ):
                continue
            expected = getattr(np, name)(a, axes).astype(a.dtype)
            yield f"{name} {[axis - a.ndim for axis in axes]}", x.reduce(name, axes), expected


def confirm(asked: Iterator[Asked], required: Callable[[str], bool] | None = None) -> set[str]:
    """Raise where an answer is wrong, or there is none to a question; the names that were answered.

    Args:
        asked: From ``answers``.
        required: Whether a question must be answered; none by default.
    """
    answered = set()
    for question in asked:
        if question.found is NotImplemented:
            assert required is None or not required(question.name), question.name
            continue
        answered.add(question.name)
        found, right = question.found, np.asarray(question.expected)
        assert found.shape == right.shape, question.name
        if question.name != "times itself":
            assert dtype_of(found) == right.dtype, (question.name, found.dtype, right.dtype)
        rounding = 1e-5 if right.dtype in ("float32", "complex64") else 1e-12
        size = float(np.abs(right).max(initial=1)) if right.dtype.kind != "b" else 1.0
        np.testing.assert_allclose(
            np.asarray(found), right, rounding, rounding * size, err_msg=question.name
        )
    return answered


def slope_agrees(w: Structured, seed: int = 0) -> None:
    """Raise where the gradient by a product's fields and operand is not that of differences.

    The gradient is the graph's, of ``sin(x @ w)`` with the array never whole; the differences are
    NumPy's of the whole array.
    """
    rng = np.random.default_rng(seed)
    x, weights = rng.normal(size=(3, w.shape[-2])), rng.normal(size=(3, w.shape[-1]))
    symbol, v = gt.implicit(w, name="w"), gt.tensor("x", dtype="float64", shape=x.shape)
    smooth = [leaf for leaf in Treedef.of(symbol.array)[1] if is_inexact(leaf.dtype)]
    with materializing("error"):
        loss = gt.sum(gt.sin(v @ symbol) * weights)
        gradient = graphc.function([symbol, v], graphc.grad(loss, [*smooth, v]), mode="NUMPY")
        found = gradient(w, x)
    steps = [rng.normal(size=y.shape) for y in found]

    def value(size: float) -> float:
        rest = iter(steps)
        moved = w.each(lambda y: y + size * next(rest) if is_inexact(dtype_name(y.dtype)) else y)
        return float(np.sum(np.sin((x + size * steps[-1]) @ np.asarray(moved)) * weights))

    size = 1e-6
    slope = sum(float(np.sum(y * step)) for y, step in zip(found, steps, strict=True))
    np.testing.assert_allclose((value(size) - value(-size)) / (2 * size), slope, 1e-6, 1e-8)
