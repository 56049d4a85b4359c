"""Random graphs of PyTensor's public operations, with values of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor import scan
from pytensor.graph.basic import Variable

DTYPES = ("float64", "float64", "float64", "float32", "int64", "int8", "bool")
LENGTHS = (1, 2, 3)


class Maker:
    """Makes a graph of one seed: a pool of variables, from which operations make more.

    All values are kept moderate, so that float64 results agree to 1e-10 however they are computed.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.inputs: list[Variable] = []
        self.values: list[np.ndarray[Any, Any]] = []
        self.pool: list[Variable] = []
        self.shapes: dict[Variable, tuple[int, ...]] = {}
        for i in range(self.random.integers(1, 4)):
            self.add_input(f"x{i}")

    def one_of(self, things: Any) -> Any:
        return things[self.random.integers(len(things))]

    def add_input(self, name: str) -> None:
        dtype = self.one_of(DTYPES)
        shape = tuple(self.one_of(LENGTHS) for _ in range(self.random.integers(0, 4)))
        static = tuple(n if n == 1 or self.random.random() < 0.3 else None for n in shape)
        x = pt.tensor(name, dtype=dtype, shape=static)
        value = (
            self.random.uniform(-2, 2, shape)
            if dtype[0] == "f"
            else self.random.integers(0, 4, shape)
        )
        self.inputs.append(x)
        self.values.append(np.asarray(value).astype(dtype))
        self.enter(x, shape)

    def enter(self, y: Variable, shape: tuple[int, ...]) -> None:
        if np.prod(shape) <= 200 and y.ndim <= 4:
            self.pool.append(y)
            self.shapes[y] = shape

    def grow(self, steps: int) -> None:
        """Apply so many operations; some find no operands that fit, and are left out."""
        for _ in range(steps):
            make = self.one_of(OPERATIONS)
            with np.errstate(all="ignore"):
                make(self)

    def any(self, least: int = 0, kinds: str = "fib") -> Variable | None:
        """A variable of at least so many axes, of floats, integers or bools."""
        found = [x for x in self.pool if x.ndim >= least and np.dtype(x.dtype).kind in kinds]
        return self.one_of(found) if found else None


Operation = Callable[[Maker], None]
OPERATIONS: list[Operation] = []


def case(make: Operation) -> Operation:
    OPERATIONS.append(make)
    return make


UNARY = (
    *(pt.sin, pt.cos, pt.tanh, pt.arctan, pt.sigmoid, pt.softplus, pt.erf, pt.abs, pt.neg),
    *(pt.sqr, pt.floor, pt.ceil, pt.sign, pt.isnan, pt.trunc),
)


def bounded(y: Variable) -> Variable:
    """Without large numbers, which later operations would make infinite."""
    return pt.clip(y, -50, 50) if np.dtype(y.dtype).kind == "f" else y


@case
def unary(m: Maker) -> None:
    x = m.any(kinds="fi")
    if x is not None:
        m.enter(bounded(m.one_of(UNARY)(x)), m.shapes[x])


@case
def positive(m: Maker) -> None:
    x = m.any(kinds="fi")
    if x is not None:
        f = m.one_of((pt.log, pt.sqrt, pt.log1p, pt.gammaln, pt.exp, pt.reciprocal, pt.log2))
        m.enter(bounded(f(pt.abs(x) + 0.5)), m.shapes[x])


BINARY = (
    *(pt.add, pt.sub, pt.mul, pt.maximum, pt.minimum, pt.eq, pt.lt, pt.ge, pt.neq, pt.gt, pt.le),
    *(pt.arctan2, pt.second),
)


@case
def binary(m: Maker) -> None:
    a, b = m.any(), m.any()
    if a is None or b is None or (a.dtype == "bool" and b.dtype == "bool"):
        return
    paired = _paired(m, a, b)
    if paired is not None:
        a, b, shape = paired
        m.enter(bounded(m.one_of(BINARY)(a, b)), shape)


@case
def divided(m: Maker) -> None:
    a, b = m.any(kinds="fi"), m.any(kinds="fi")
    paired = None if a is None or b is None else _paired(m, a, b)
    if paired is not None:
        a, b, shape = paired
        f = m.one_of((pt.true_div, pt.int_div, pt.mod, pt.pow))
        m.enter(bounded(f(pt.abs(a) + 1, pt.abs(b) + 1)), shape)


@case
def chosen(m: Maker) -> None:
    c, a = m.any(kinds="b"), m.any()
    paired = None if c is None or a is None else _paired(m, c, a)
    if paired is not None:
        c, a, shape = paired
        m.enter(pt.switch(c, a, m.one_of((0, 1.5, -2))), shape)


def _paired(m: Maker, a: Any, b: Any) -> Any:
    """Operands that broadcast, with their shape: statically of length 1 where they differ."""
    n = max(a.ndim, b.ndim)
    shapes = [(1,) * (n - x.ndim) + m.shapes[x] for x in (a, b)]
    statics = [(1,) * (n - x.ndim) + x.type.shape for x in (a, b)]
    for i, j, s, t in zip(*shapes, *statics, strict=True):
        if i != j and not (i == 1 == s) and not (j == 1 == t):
            return None
        if i == j == 1 and (s is None) != (t is None):
            return None
    return a, b, np.broadcast_shapes(*shapes)


@case
def reduced(m: Maker) -> None:
    x = m.any(1)
    if x is None:
        return
    axes = [i for i in range(x.ndim) if m.random.random() < 0.6] or [0]
    keep = bool(m.random.random() < 0.3)
    shape = m.shapes[x]
    left = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
    bools = (pt.any, pt.all, pt.sum)
    f = m.one_of(bools if x.dtype == "bool" else (pt.sum, pt.prod, pt.max, pt.min, pt.mean))
    m.enter(bounded(f(x, axis=tuple(axes), keepdims=keep)), left)


@case
def placed(m: Maker) -> None:
    x = m.any(1, "fi")
    if x is not None:
        axis = int(m.random.integers(x.ndim))
        m.enter(pt.argmax(x, axis=axis), m.shapes[x][:axis] + m.shapes[x][axis + 1 :])


def stable(x: Any, axis: int) -> Any:
    return pt.argsort(x, axis=axis, kind="stable")


@case
def along(m: Maker) -> None:
    x = m.any(1, "fi")
    if x is not None:
        axis = int(m.random.integers(x.ndim))
        f = m.one_of((pt.cumsum, pt.sort, stable, pt.flip, pt.special.softmax, pt.cumprod))
        if f is pt.special.softmax and np.dtype(x.dtype).kind != "f":
            return
        m.enter(bounded(f(x, axis=axis)), m.shapes[x])


@case
def shuffled(m: Maker) -> None:
    x = m.any()
    if x is not None and x.ndim < 4:
        order: list[Any] = list(m.random.permutation(x.ndim))
        order = [int(i) for i in order]
        if m.random.random() < 0.5:
            order.insert(int(m.random.integers(len(order) + 1)), "x")
        m.enter(x.dimshuffle(order), tuple(1 if i == "x" else m.shapes[x][i] for i in order))


@case
def reshaped(m: Maker) -> None:
    x = m.any(1)
    if x is not None:
        shape = m.shapes[x]
        if m.random.random() < 0.5:
            m.enter(x.reshape((-1,)), (int(np.prod(shape)),))
        else:
            m.enter(x.reshape((x.shape[0], -1)), (shape[0], int(np.prod(shape[1:]))))


@case
def indexed(m: Maker) -> None:
    x = m.any(1)
    if x is None:
        return
    n = m.shapes[x][0]
    kind = m.random.integers(6)
    index: Any = int(m.random.integers(-n, n))
    shape: tuple[int, ...] = ()
    if kind == 1:
        index, shape = slice(None, None, -1), (n,)
    elif kind == 2:
        index, shape = slice(int(m.random.integers(0, n)), None), ()
        shape = (n - index.start,)
    elif kind == 3:
        places = m.random.integers(-n, n, m.one_of(((2,), (3,), (2, 2))))
        index, shape = places, places.shape
    elif kind == 4:
        index, shape = None, (1, n)
    elif kind == 5:
        index, shape = slice(0, x.shape[0] - 1), (n - 1,)
        if n == 1:
            return
    m.enter(x[index], shape + m.shapes[x][1:])


@case
def written(m: Maker) -> None:
    x = m.any(1, "f")
    if x is None:
        return
    n = m.shapes[x][0]
    index = m.one_of((0, slice(None, None, 2), m.random.integers(-n, n, 3), slice(1, None)))
    part = x[index]
    value = m.one_of((1.5, part * 0 + 1))
    y = part.inc(value) if m.random.random() < 0.5 else part.set(1.5)
    m.enter(bounded(y), m.shapes[x])


@case
def joined(m: Maker) -> None:
    x, y = m.any(1), m.any(1)
    if x is None or y is None or x.ndim != y.ndim or m.shapes[x][1:] != m.shapes[y][1:]:
        return
    if x.type.shape[1:] == y.type.shape[1:]:
        n = m.shapes[x][0] + m.shapes[y][0]
        m.enter(pt.concatenate([x, y], axis=0), (n, *m.shapes[x][1:]))


@case
def stacked(m: Maker) -> None:
    x = m.any()
    if x is not None and x.ndim < 4:
        axis = int(m.random.integers(x.ndim + 1))
        shape = m.shapes[x]
        m.enter(pt.stack([x, x], axis=axis), (*shape[:axis], 2, *shape[axis:]))


@case
def repeated(m: Maker) -> None:
    x = m.any(1)
    if x is not None:
        shape = m.shapes[x]
        if m.random.random() < 0.5:
            m.enter(pt.repeat(x, 2, axis=0), (2 * shape[0], *shape[1:]))
        else:
            m.enter(pt.tile(x, (2,) + (1,) * (x.ndim - 1)), (2 * shape[0], *shape[1:]))


@case
def product(m: Maker) -> None:
    x = m.any(2, "f")
    if x is not None and x.ndim == 2:
        n = m.shapes[x][0]
        m.enter(bounded(x @ x.T), (n, n))


@case
def solved(m: Maker) -> None:
    x = m.any(2, "f")
    if x is not None and x.ndim == 2 and x.dtype == "float64":
        n = m.shapes[x][0]
        a = pt.tanh(x) @ pt.tanh(x).T + 3 * pt.eye(x.shape[0])
        f = m.one_of((pt.linalg.cholesky, pt.linalg.inv, lambda a: pt.linalg.solve(a, x)))
        y = f(a)
        m.enter(
            bounded(y),
            m.shapes[x]
            if m.shapes[x] != (n, n)
            and y.ndim == 2
            and f not in (pt.linalg.cholesky, pt.linalg.inv)
            else (n, n),
        )


@case
def scanned(m: Maker) -> None:
    x = m.any(1, "f")
    if x is None or x.ndim > 2:
        return
    first = pt.zeros_like(x[0]) if m.random.random() < 0.5 else x[-1]

    def step(x_t: Any, y: Any) -> Any:
        return pt.tanh(y * x_t + 0.5)

    m.enter(recurrence(step, x, first), m.shapes[x])


def recurrence(step: Any, xs: Any, first: Any, **options: Any) -> Any:
    """The outputs of a scan with one state."""
    options |= {"return_updates": False}
    return scan(step, sequences=xs, outputs_info=[first], **options)
