"""Every operation but the elementwise rows: a graph, and the NumPy function it must equal.

Most cases are written once, for ``graphc.tensor`` and for NumPy alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

import graphc
import graphc.tensor as gt
from graphc.ir import DTYPES, is_complex, is_inexact, numpy_dtype
from graphc.tensor.linalg import DotGeneral
from graphc.tensor.reduce import Peak
from tests.contract.values import awkward

__all__ = ["BARRIERS", "FAMILIES", "Case"]

Function = Callable[..., Any]

EVERY = DTYPES
SOME = ("bool", "int8", "uint64", "bfloat16", "float32", "float64", "complex128")
NUMERIC = tuple(d for d in DTYPES if d != "bool")
REAL = tuple(d for d in DTYPES if not d.startswith("complex"))
FLOATING = ("bfloat16", "float16", "float32", "float64")


@dataclass(frozen=True)
class Case:
    """A function of symbolic arrays and the same of NumPy's.

    Attributes:
        build: Takes ``graphc.tensor`` and symbolic arrays; only arrays if ``numpy`` is given.
        shapes: Of its operands, each a tuple of lengths.
        dtypes: It is tried in each.
        numpy: Takes NumPy arrays; by default ``build`` with ``numpy`` for ``graphc.tensor``.
        static: The lengths are part of the types.
        special: Infinities, NaN and equal values are among the elements.
        values: Its operand by dtype, where moderate numbers do not do.
    """

    build: Function
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = SOME
    numpy: Function | None = None
    static: bool = False
    special: bool = False
    values: Callable[[str], Any] | None = None

    def symbolic(self, *xs: Any) -> Any:
        """The graph."""
        return self.build(*xs) if self.numpy else self.build(gt, *xs)

    def expected(self, *xs: Any) -> Any:
        """What NumPy gives."""
        return self.numpy(*xs) if self.numpy else self.build(np, *xs)


X, V, S, EMPTY, NONE = (2, 3, 4), (5,), (), (0, 3), (2, 0, 4)


def _cast(dtype: str) -> Case:
    def by_numpy(x: Any) -> Any:
        x = x.real if x.dtype.kind == "c" and dtype[:7] not in {"complex", "bool"} else x
        return x.astype(numpy_dtype(dtype))

    return Case(lambda x: gt.cast(x, dtype), ((30,),), EVERY, by_numpy, values=fitting)


def fitting(dtype: str) -> np.ndarray[Any, Any]:
    """Values that every dtype takes or wraps: of a float outside of its range, an integer is
    undefined."""
    if is_inexact(dtype):
        x = np.concatenate([[0.0, -0.0, 0.5, -0.5, 1.0, 127.0], np.linspace(0, 100, 24)])
        return (x * (1 - 0.25j) if is_complex(dtype) else x).astype(numpy_dtype(dtype))
    return np.resize(awkward(dtype), 30)


def _set(x: Any, index: Any, value: Any) -> Any:
    y = x.copy()
    y[index] = value
    return y


def _inc(x: Any, index: Any, value: Any) -> Any:
    y = x.copy()
    np.add.at(y, index, value)
    return y


def _general(letters: str, *shapes: tuple[int, ...]) -> Case:
    """A product in einsum's letters: i, j and k are summed over; y and z are batch axes."""
    left, right = letters.split(",")
    batch = sorted({*left} & {*right} & {*"yz"})
    summed = sorted({*left} & {*right} - {*batch})
    free = [x for x in left + right if x not in {*batch, *summed}]

    def places(names: list[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(map(left.index, names)), tuple(map(right.index, names))

    op = DotGeneral(places(summed), places(batch))
    wanted = f"{letters}->{''.join(batch + free)}"

    def by_numpy(a: Any, b: Any) -> Any:
        return np.einsum(wanted, a, b).astype(a.dtype)

    return Case(lambda a, b: gt.Tensor.make(op, a, b), shapes, SOME, by_numpy)


MASK = np.array([[True, False, True], [False, False, True]])
PLACES = np.array([[1, 0], [-1, 1]])

FAMILIES: dict[str, dict[str, Case]] = {
    "cast": {f"to {dtype}": _cast(dtype) for dtype in DTYPES},
    "choose": {
        "cast to complex": Case(
            lambda x: gt.cast(x, "complex128"), (X,), ("float64",), lambda x: x.astype(complex)
        ),
        "cast to real": Case(
            lambda x: gt.cast(x, "float64"), (X,), ("complex128",), lambda x: x.real
        ),
        "where": Case(lambda n, a, b: n.where(a > b, a, b), (X, X), REAL),
        "where of a vector": Case(lambda n, a, b, c: n.where(n.not_equal(c, 0), a, b), (X, X, X)),
        "where by a scalar": Case(lambda n, c, a, b: n.where(n.not_equal(c, 0), a, b), (S, X, X)),
        "where of scalars": Case(
            lambda c, b: gt.where(c > 0, 0.5, b), (X, S), ("float64",),
            lambda c, b: np.where(c > 0, 0.5, b), static=True,
        ),
        "where with 1s": Case(
            lambda n, a, b: n.where(a > 0, a, b), ((2, 1), (1, 3)), REAL, static=True
        ),
        "where of nothing": Case(lambda n, a, b: n.where(a > 0, a, b), (EMPTY, EMPTY), REAL),
        "clip": Case(lambda n, a, b: n.clip(a, -abs(b), abs(b)), (X, X), FLOATING),
    },
    "shape": {
        "reshape": Case(lambda n, x: n.reshape(x, (6, 4)), (X,), EVERY),
        "reshape with a rest": Case(lambda n, x: n.reshape(x, (4, -1)), (X,)),
        "reshape to a scalar": Case(lambda n, x: n.reshape(x, ()), ((1, 1),)),
        "reshape of nothing": Case(lambda n, x: n.reshape(x, (3, 0)), (EMPTY,)),
        "reshape by a length": Case(
            lambda x, y: x.reshape(y.shape[0] * 2, -1), (X, (3,)), SOME,
            lambda x, y: x.reshape(6, 4),
        ),
        "ravel": Case(lambda n, x: n.ravel(x), (X,)),
        "flatten": Case(lambda x: x.flatten(2), (X,), SOME, lambda x: x.reshape(2, 12)),
        "transpose": Case(lambda n, x: n.transpose(x), (X,), EVERY),
        "transpose to an order": Case(lambda n, x: n.transpose(x, (1, 2, 0)), (X,)),
        "transpose of nothing": Case(lambda n, x: n.transpose(x, (1, 2, 0)), (NONE,)),
        "swapaxes": Case(lambda n, x: n.swapaxes(x, 0, -1), (X,)),
        "moveaxis": Case(lambda n, x: n.moveaxis(x, (0, 1), (-1, 0)), (X,)),
        "expand_dims": Case(lambda n, x: n.expand_dims(x, (0, 2, -1)), (X,), EVERY),
        "expand_dims of a scalar": Case(lambda n, x: n.expand_dims(x, 0), (S,)),
        "squeeze": Case(lambda n, x: n.squeeze(x, (0, 2)), ((1, 3, 1),), EVERY),
        "dimshuffle": Case(
            lambda x: x.dimshuffle(1, "x", 0), ((2, 3),), SOME, lambda x: x.T[:, None, :]
        ),
        "atleast_1d": Case(lambda n, x: n.atleast_1d(x), (S,)),
        "broadcast_to": Case(
            lambda n, x: n.broadcast_to(x, (2, 3, 4)), ((3, 1),), EVERY, static=True
        ),
        "broadcast_to of a scalar": Case(lambda n, x: n.broadcast_to(x, (2, 3)), (S,)),
        "broadcast_to nothing": Case(
            lambda n, x: n.broadcast_to(x, (0, 3)), ((1, 3),), static=True
        ),
        "broadcast_to lengths": Case(
            lambda x, y: gt.broadcast_to(x, (y.shape[1], y.shape[0], x.shape[0])), (V, X), SOME,
            lambda x, y: np.broadcast_to(x, (3, 2, 5)),
        ),
        "broadcast_arrays": Case(
            lambda a, b: gt.broadcast_arrays(a, b)[0], ((2, 1), (1, 3)), SOME,
            lambda a, b: np.broadcast_arrays(a, b)[0], static=True,
        ),
        "concatenate": Case(lambda n, a, b: n.concatenate([a, b, a], 1), (X, (2, 1, 4)), EVERY),
        "concatenate with nothing": Case(
            lambda n, a, b: n.concatenate([a, b], 1), ((2, 3), (2, 0))
        ),
        "concatenate nothing": Case(lambda n, a, b: n.concatenate([a, b], 0), ((0, 3), (0, 3))),
        "stack": Case(lambda n, a, b: n.stack([a, b], -1), (X, X)),
        "shape": Case(lambda x: x.shape, (X,), ("float64",), lambda x: np.array(x.shape)),
        "length": Case(lambda x: x.shape[1] + x.size, (X,), ("int8",), lambda x: np.int64(27)),
        "flip": Case(lambda n, x: n.flip(x, (0, 2)), (X,)),
    },
    "reduce": {
        "sum": Case(lambda n, x: n.sum(x, (0, 2)), (X,), EVERY),
        "sum of all": Case(lambda n, x: n.sum(x), (X,), EVERY),
        "sum of nothing": Case(lambda n, x: n.sum(x, 0), (EMPTY,), EVERY),
        "sum in a dtype": Case(lambda n, x: n.sum(x, 1, "float64"), (X,), ("int8", "float32")),
        "sum kept": Case(lambda n, x: n.sum(x, (1,), keepdims=True), (X,)),
        "sum of 4000": Case(lambda n, x: n.sum(x), ((4000,),), ("float16", "bfloat16", "float32")),
        "prod": Case(lambda n, x: n.prod(x, (0, 2)), (X,), EVERY),
        "prod of nothing": Case(lambda n, x: n.prod(x, 0), (EMPTY,), EVERY),
        "max": Case(lambda n, x: n.max(x, 1), (X,), REAL),
        "max of all": Case(lambda n, x: n.max(x), (X,), REAL),
        "peak": Case(
            lambda x: gt.Tensor.make(Peak((1,)), x), (X,), FLOATING, lambda x: np.max(x, 1)
        ),
        "max with NaN": Case(lambda n, x: n.max(x, 0), ((7, 4),), FLOATING, special=True),
        "min": Case(lambda n, x: n.min(x, (0, 1)), (X,), REAL),
        "min with NaN": Case(lambda n, x: n.min(x, 0), ((7, 4),), FLOATING, special=True),
        "max without slices": Case(lambda n, x: n.max(x, 1), (EMPTY,), REAL),
        "all": Case(lambda n, x: n.all(x, 1), (X,), EVERY),
        "all of nothing": Case(lambda n, x: n.all(x, 0), (EMPTY,)),
        "all with NaN": Case(lambda n, x: n.all(x, 0), ((7, 4),), FLOATING, special=True),
        "any": Case(lambda n, x: n.any(x, (0, 1)), (X,), EVERY),
        "any of nothing": Case(lambda n, x: n.any(x, 0), (EMPTY,)),
        "any with NaN": Case(lambda n, x: n.any(x, 0), ((7, 4),), FLOATING, special=True),
        "argmax": Case(lambda n, x: n.argmax(x, 1), (X,), REAL),
        "argmax of all": Case(lambda n, x: n.argmax(x), (X,), REAL),
        "argmax with ties and NaN": Case(
            lambda n, x: n.argmax(x, 0), ((7, 4),), FLOATING, special=True
        ),
        "argmin": Case(lambda n, x: n.argmin(x, 2), (X,), REAL),
        "argmin with ties and NaN": Case(
            lambda n, x: n.argmin(x, 0), ((7, 4),), FLOATING, special=True
        ),
        "argmin without slices": Case(lambda n, x: n.argmin(x, 1), (EMPTY,), REAL),
        "mean": Case(lambda n, x: n.mean(x, (0, 2)), (X,), ("int8", "float64", "complex128")),
        "var": Case(lambda n, x: n.var(x, 1, ddof=1), (X,), ("int8", "float64", "complex128")),
        "std": Case(lambda n, x: n.std(x), (X,), ("int8", "float64", "complex128")),
    },
    "composite": {
        "softmax": Case(
            lambda x: gt.softmax(x, 1), (X,), FLOATING, lambda x: special.softmax(x, 1)
        ),
        "softmax over two": Case(
            lambda x: gt.softmax(x, (0, 2)), (X,), FLOATING, lambda x: special.softmax(x, (0, 2))
        ),
        "softmax with infinities": Case(
            lambda x: gt.softmax(x, 0), ((7, 4),), FLOATING, lambda x: special.softmax(x, 0),
            special=True,
        ),
        "log_softmax": Case(
            lambda x: gt.log_softmax(x, 2), (X,), FLOATING, lambda x: special.log_softmax(x, 2)
        ),
        "logsumexp": Case(
            lambda x: gt.logsumexp(x, 1), (X,), FLOATING, lambda x: special.logsumexp(x, 1)
        ),
        "logsumexp of -inf": Case(
            lambda x: gt.logsumexp(x - np.inf, 1), (X,), ("float64",),
            lambda x: np.full((2, 4), -np.inf),
        ),
        "log_sigmoid": Case(gt.log_sigmoid, (X,), FLOATING, special.log_expit),
        "norm": Case(
            lambda x: gt.norm(x, axis=1), (X,), ("float64",), lambda x: np.linalg.norm(x, axis=1)
        ),
    },
    "linalg": {
        "dot": Case(lambda n, a, b: n.dot(a, b), ((2, 3), (3, 4)), EVERY),
        "dot of vectors": Case(lambda n, a, b: n.dot(a, b), (V, V), EVERY),
        "dot of a vector": Case(lambda n, a, b: n.dot(a, b), ((2, 3), (3,))),
        "dot of more axes": Case(lambda n, a, b: n.dot(a, b), (X, (2, 4, 3))),
        "dot by a scalar": Case(lambda n, a, b: n.dot(a, b), (X, S), NUMERIC),
        "matmul of batches": Case(lambda n, a, b: n.matmul(a, b), (X, (2, 4, 3)), EVERY),
        "matmul broadcasting": Case(
            lambda n, a, b: n.matmul(a, b), ((5, 1, 2, 3), (4, 3, 2)), static=True
        ),
        "matmul of a matrix": Case(lambda n, a, b: n.matmul(a, b), ((5, 2), (3, 2, 4))),
        "matmul of a vector": Case(lambda n, a, b: n.matmul(a, b), ((3,), (2, 3, 4))),
        "matmul over nothing": Case(lambda n, a, b: n.matmul(a, b), ((2, 0), (0, 3)), EVERY),
        "matmul of nothing": Case(lambda n, a, b: n.matmul(a, b), ((0, 2), (2, 3)), EVERY),
        "tensordot": Case(
            lambda n, a, b: n.tensordot(a, b, ([0, 2], [2, 0])), (X, (4, 5, 2)), NUMERIC
        ),
        "tensordot over none": Case(lambda n, a, b: n.tensordot(a, b, 0), ((2,), (3,)), NUMERIC),
        "dot of 2000": Case(
            lambda n, a, b: n.dot(a, b), ((2, 2000), (2000, 3)), ("float16", "bfloat16")
        ),
        "one pair, each last": _general("ai,bi", (2, 3), (4, 3)),
        "two pairs, crossed": _general("aijb,jci", (2, 3, 4, 2), (4, 5, 3)),
        "a batch in the middle": _general("azi,ibz", (2, 5, 3), (3, 4, 5)),
        "two batches, exchanged": _general("yazi,izby", (2, 3, 4, 5), (5, 4, 3, 2)),
        "a batch of products": _general("zi,zi", (4, 3), (4, 3)),
        "a batch of outer products": _general("za,bz", (4, 3), (2, 4)),
        "all axes": _general("ijk,kij", (2, 3, 4), (4, 2, 3)),
        "a batch of nothing": _general("zai,zib", (0, 2, 3), (0, 3, 4)),
        "a batch over nothing": _general("zai,zib", (2, 2, 0), (2, 0, 4)),
        "outer": Case(lambda n, a, b: n.outer(a, b), ((2,), (3,)), NUMERIC),
    },
    "index": {
        "an integer": Case(lambda n, x: x[:, 1], (X,), EVERY),
        "slices": Case(lambda n, x: x[::-1, 1:, ::-2], (X,), EVERY),
        "a new axis": Case(lambda n, x: x[..., None, -1], (X,)),
        "integers": Case(lambda n, x: x[:, PLACES], (X,), EVERY),
        "a mask": Case(lambda n, x: x[MASK], (X,), EVERY),
        "nothing": Case(lambda n, x: x[:, 2:1], (X,)),
        "take": Case(lambda n, x: n.take(x, PLACES, axis=1), (X,)),
        "nonzero": Case(
            lambda x: x[gt.nonzero(MASK)[0], gt.nonzero(MASK)[1]], (X,), SOME,
            lambda x: x[np.nonzero(MASK)],
        ),
        "set": Case(
            lambda x, v: x[:, 1].set(v), (X, (4,)), EVERY, lambda x, v: _set(x, np.s_[:, 1], v)
        ),
        "set of a step": Case(
            lambda x, v: x[::-1, ::2].set(v), (X, (4,)), SOME,
            lambda x, v: _set(x, np.s_[::-1, ::2], v),
        ),
        "set of a mask": Case(
            lambda x, v: x[MASK].set(v), (X, S), SOME, lambda x, v: _set(x, MASK, v)
        ),
        "inc": Case(
            lambda x, v: x[:, 1:].inc(v), (X, (4,)), EVERY, lambda x, v: _inc(x, np.s_[:, 1:], v)
        ),
        "inc twice": Case(
            lambda x, v: x[:, np.array([0, 2, 0])].inc(v), (X, (4,)), EVERY,
            lambda x, v: _inc(x, np.s_[:, np.array([0, 2, 0])], v),
        ),
        "inc backwards": Case(
            lambda x, v: x[0, ::-2].inc(v), (X, (4,)), SOME,
            lambda x, v: _inc(x, np.s_[0, ::-2], v),
        ),
    },
    "create": {
        "arange": Case(
            lambda x: gt.arange(x.shape[0], x.size, x.shape[1]), (X,), ("float64",),
            lambda x: np.arange(2, 24, 3),
        ),
        "arange of floats": Case(
            lambda x: gt.arange(gt.cast(x.shape[0], "float64"), 7.5, 0.5), (X,), ("float64",),
            lambda x: np.arange(2, 7.5, 0.5),
        ),
        "arange down": Case(
            lambda x: gt.arange(x.shape[2], -3, -2), (X,), ("float64",),
            lambda x: np.arange(4, -3, -2),
        ),
        "arange of numbers": Case(
            lambda x: x[0, 0, 0] + gt.arange(3, 30, 4, dtype=x.dtype), (X,), ("int8", "float32"),
            lambda x: x[0, 0, 0] + np.arange(3, 30, 4, x.dtype),
        ),
        "eye": Case(
            lambda x: gt.eye(x.shape[0], x.shape[1], 1, dtype=x.dtype), (X,), EVERY,
            lambda x: np.eye(2, 3, 1, dtype=x.dtype),
        ),
        "eye of numbers": Case(
            lambda x: x[0, 0, 0] + gt.eye(3, k=-1, dtype=x.dtype), (X,), NUMERIC,
            lambda x: x[0, 0, 0] + np.eye(3, k=-1, dtype=x.dtype),
        ),
        "zeros": Case(
            lambda x: gt.zeros((x.shape[1], 2), dtype=x.dtype), (X,), EVERY,
            lambda x: np.zeros((3, 2), x.dtype),
        ),
        "full_like": Case(lambda n, x: n.full_like(x, 3), (X,), NUMERIC),
    },
}  # fmt: skip
"""Families of cases: each is compiled as one function for each backend."""

BARRIERS: dict[str, tuple[Function, Function]] = {
    "disconnected_grad": (graphc.disconnected_grad, lambda g: 0 * g),
    "zero_grad": (graphc.zero_grad, lambda g: 0 * g),
    "grad_clip": (lambda x: graphc.grad_clip(x, -0.5, 1), lambda g: np.clip(g, -0.5, 1)),
    "grad_scale": (lambda x: graphc.grad_scale(x, -3), lambda g: -3 * g),
}
"""The identity with another gradient: what it makes of a gradient."""
