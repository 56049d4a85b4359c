"""Random graphs: well-typed, of the public functions, with values for their inputs.

A graph grows step by step from a few inputs, each step a function of arrays made so far. Half of
the steps are such as the rules look for: the left sides of equations and the examples of rules,
with parts of the graph in the place of their parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    ShapeError,
    UnsupportedOperationError,
)
from graphc.ir import (
    Constant,
    Input,
    Node,
    TensorType,
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    replace_nodes,
    toposort,
)
from graphc.ir.law import checks_of, deciding_inputs
from graphc.rewrite.rule import RULES, EquationRule
from graphc.tensor import Tensor
from graphc.tensor.core import elementwise, exponential, trigonometric
from graphc.tensor.core.elementwise import ROWS
from graphc.tensor.core.shape import Length, Shape as ShapeOf
from tests.rewrite.exact import awkward
from tests.rewrite.node_rule_examples import EXAMPLES, VALUES
from tests.rewrite.rounding import Exactly, evaluated

__all__ = ["Sample", "random_graph"]

MOST_ELEMENTS = 200
LARGEST = 1e6

Shape = tuple[int, ...]


@dataclass
class Sample:
    """A graph and values for its inputs.

    Attributes:
        seed: What it was made from.
        inputs: Its inputs and their values.
        outputs: What is computed.
    """

    seed: int
    inputs: dict[Node, Any]
    outputs: list[Tensor]

    def __repr__(self) -> str:
        return f"seed {self.seed}"


@dataclass
class Growing:
    """A graph on the way: arrays to choose from, and the values of all."""

    random: Random
    awkward: bool
    lengths: list[int]
    inputs: dict[Node, Any] = field(default_factory=dict)
    pool: list[Tensor] = field(default_factory=list)
    known: dict[Node, Any] = field(default_factory=dict)
    sound: set[Node] = field(default_factory=set)

    # Choosing.

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[self.random.randrange(len(choices))]

    def value(self, x: Node) -> Any:
        if x not in self.known:
            self.known = evaluated([x], self.known, Exactly())
        return self.known[x]

    def shape(self, x: Node) -> Shape:
        return tuple(self.value(x).shape)

    def any(self, wanted: Callable[[Tensor], bool] = lambda x: True) -> Tensor | None:
        """An array that fits, later ones more often than the first."""
        fitting = [x for x in self.pool if wanted(x)]
        if not fitting:
            return None
        return self.pick(fitting[-4:] if self.chance(50) else fitting)

    def beside(self, x: Tensor, dtypes: Callable[[str], bool] = lambda d: True) -> Tensor:
        """An array that broadcasts with x; x itself if there is no other one."""
        shape = self.shape(x)

        def fits(y: Tensor) -> bool:
            both = zip(x.type.shape[::-1], y.type.shape[::-1], strict=False)
            lengths = zip(shape[::-1], self.shape(y)[::-1], strict=False)
            equal = [n == m or 1 in s for (n, m), s in zip(lengths, both, strict=True)]
            return all(equal) and dtypes(y.dtype)

        return x if (y := self.any(fits)) is None else y

    def axis(self, x: Tensor) -> int:
        return self.random.randrange(-x.ndim, x.ndim)

    # Growing.

    def input(self, dtype: str, shape: Shape) -> Tensor:
        style = self.pick(["static", "unknown", "unknown", "mixed"])
        static = tuple(
            n if style == "static" or (style == "mixed" and self.chance(50)) else None
            for n in shape
        )
        x = TensorType(dtype, static)(f"x{len(self.inputs)}")
        self.add_input(x, self.array(dtype, shape))
        return x

    def add_input(self, x: Tensor, value: Any) -> None:
        if x not in self.inputs:
            self.inputs[x] = self.known[x] = value
            self.pool.append(x)

    def array(self, dtype: str, shape: Shape) -> Any:
        numbers = np.random.default_rng(self.random.getrandbits(32))
        size = int(np.prod(shape))
        if self.awkward and self.chance(70):
            value = numbers.choice(awkward(dtype), size)
        elif dtype == "bool":
            value = numbers.integers(2, size=size)
        elif not is_inexact(dtype):
            value = numbers.integers(0 if dtype.startswith("u") else -4, 6, size)
        elif self.chance(40):
            value = numbers.integers(-8, 9, size) / 4
        else:
            value = numbers.normal(size=size) * self.pick([0.3, 1, 1, 3])
        if is_complex(dtype) and not self.awkward:
            value = value + 1j * numbers.normal(size=size)
        return np.asarray(value).astype(dtype).reshape(shape)

    def add(self, y: Any) -> None:
        """Into the pool, unless it is too large or, in most cases, says little."""
        if not isinstance(y, Tensor) or y in self.pool:
            return
        try:
            value = self.value(y)
        except (ArgumentError, IndexError, ShapeError):
            return  # an example of a rule that is about types, not values
        if not self.is_sound(y):
            return
        if value.size > MOST_ELEMENTS or value.ndim > 5:
            return
        if is_inexact(y.dtype) and not self.awkward and self.chance(90):
            with np.errstate(all="ignore"):
                if not (np.abs(value) < LARGEST).all():
                    return
        self.pool.append(y)

    def is_sound(self, y: Tensor) -> bool:
        """Whether lengths go together, of which an unknown one that is 1 broadcasts to nothing.

        Nor may rounding decide a length.
        """
        for node in toposort([y]):
            if node in self.sound:
                continue
            for i, m, j, n in checks_of(node):
                if self.shape(node.inputs[i])[m] != self.shape(node.inputs[j])[n]:
                    return False
            if not all(_is_exact(node.inputs[i]) for i in deciding_inputs(node)):
                return False
            self.sound.add(node)
        return True


def _is_exact(n: Node) -> bool:
    """Whether an integer is made of lengths and integers alone."""
    stack = [n]
    while stack:
        node = stack.pop()
        if isinstance(node.type, TensorType) and is_integer(node.type.dtype):
            stack += [] if isinstance(node.op, Length | ShapeOf) else node.inputs
        elif not isinstance(node.op, Constant):
            return False
    return True


# Steps: each a function of arrays made so far, or None where there is no fitting one.

Step = Callable[[Growing], Any]
NUMBERS = [0, 1, 2, -1, 3, 0.5, 1.0, 2.0, -1.0, 0.0, 0.25, 1.5]


QUICK = {
    name
    for module in (elementwise, exponential, trigonometric)
    for name, value in vars(module).items()
    if isinstance(value, elementwise.Elementwise)
} | {"clip", "erf", "erfc"}
"""Rows that compile at once; some of the special functions take seconds, so they are rare here."""


def _row(to: Growing, arity: int) -> Any:
    every = to.chance(4)
    return to.pick([r for r in ROWS.values() if r.arity == arity and (every or r.row in QUICK)])


def unary(to: Growing) -> Any:
    row = _row(to, 1)
    x = to.any(lambda x: row.domain(x.dtype) is not None)
    return None if x is None else row(x)


def operator(to: Growing) -> Any:
    row = to.pick([gt.add, gt.subtract, gt.multiply, gt.divide, gt.maximum, gt.minimum, gt.power])
    return _operated(to, row)


def binary(to: Growing) -> Any:
    return _operated(to, _row(to, 2))


def _operated(to: Growing, row: Any) -> Any:
    def fits(dtype: str) -> bool:
        return row.domain(dtype) is not None

    a = to.any(lambda x: fits(x.dtype))
    if a is None:
        return None
    b: Any = to.beside(a, fits)
    if to.chance(35):
        whole = not is_inexact(a.dtype)
        b = abs(to.pick(NUMBERS)) if a.dtype.startswith("u") else to.pick(NUMBERS)
        b = int(b) if whole and to.chance(80) else b
        if row.row.endswith("shift"):
            b = abs(int(b))
        if row.row.startswith("bitwise"):
            b = int(b)
    a, b = (a, b) if to.chance(60) else (b, a)
    return _unless_refused(row, a, b)


def _unless_refused(f: Callable[..., Any], *operands: Any) -> Any:
    """Return the result, or None where the function is not defined for the operands."""
    try:
        return f(*operands)
    except (ArgumentError, DTypeError):
        return None


def ternary(to: Growing) -> Any:
    row = to.pick([gt.clip, gt.where, _row(to, 3)])
    x = to.any()
    y, z = to.beside(x), to.beside(x)
    if not _broadcast(to, x, y, z):
        return None
    if row is gt.where and to.chance(50):
        x = _unless_refused(gt.greater, x, to.pick(NUMBERS))
        return None if x is None else gt.where(x, y, z)
    return _unless_refused(row, x, y, z)


def _broadcast(to: Growing, *xs: Tensor) -> bool:
    """Whether all go together: a length of 1 that is not static broadcasts to nothing."""
    ndim = max(x.ndim for x in xs)
    for axis in range(1, ndim + 1):
        lengths = {to.shape(x)[-axis] for x in xs if x.ndim >= axis and x.type.shape[-axis] != 1}
        if len(lengths) > 1:
            return False
    return True


DTYPES = ["float64", "float64", "float32", "int64", "int32", "int8", "uint8", "bool", "complex128"]


def cast(to: Growing) -> Any:
    x, dtype = to.any(), to.pick(DTYPES)
    if is_complex(x.dtype) and not is_complex(dtype) and dtype != "bool":
        x = gt.real(x)
    if is_float(x.dtype) and not is_inexact(dtype) and dtype != "bool":
        x = gt.clip(gt.round(x), 0, 100)
    return gt.cast(x, dtype)


def reduction(to: Growing) -> Any:
    f = to.pick([gt.sum, gt.sum, gt.mean, gt.prod, gt.max, gt.min, gt.any, gt.all, gt.var, gt.std])
    x = to.any(lambda x: x.ndim > 0 and (not is_complex(x.dtype) or f in {gt.sum, gt.mean}))
    if x is None or (f in {gt.max, gt.min} and 0 in to.shape(x)):
        return None
    axis = to.pick([None, to.axis(x), to.axis(x), tuple({a % x.ndim for a in _axes(to, x)})])
    return f(x, axis=axis, keepdims=to.chance(40))


def _axes(to: Growing, x: Tensor) -> list[int]:
    return [to.axis(x) for _ in range(to.random.randrange(1, x.ndim + 1))]


def choice_along_axis(to: Growing) -> Any:
    f = to.pick([gt.argmax, gt.argmin])
    x = to.any(lambda x: x.ndim > 0 and not is_complex(x.dtype))
    if x is None or 0 in to.shape(x):
        return None
    return f(x, axis=to.pick([None, to.axis(x)]), keepdims=to.chance(30))


ALONG = [gt.softmax, gt.log_softmax, gt.logsumexp, gt.cumsum, gt.cumprod, gt.cummax, gt.sort]
ALONG += [gt.argsort, gt.flip, gt.diff, gt.ptp, gt.median, gt.count_nonzero]
NEED_ELEMENTS = {gt.logsumexp, gt.ptp, gt.median, gt.diff}


def along_axis(to: Growing) -> Any:
    f = to.pick(ALONG)
    x = to.any(lambda x: x.ndim > 0 and is_float(x.dtype))
    if x is None or (0 in to.shape(x) and f in NEED_ELEMENTS):
        return None
    return f(x, axis=to.axis(x))


REPEATED: list[Callable[[Tensor, int], Any]] = [
    lambda x, axis: gt.roll(x, 2, axis),
    lambda x, axis: gt.roll(x, -1),
    lambda x, axis: gt.tile(x, 2),
    lambda x, axis: gt.repeat(x, 2, axis),
    lambda x, axis: gt.pad(x, 1),
    lambda x, axis: gt.pad(x, (1, 0), mode="edge"),
    lambda x, axis: gt.flip(x),
    lambda x, axis: gt.diag(x) if x.ndim <= 2 else gt.tril(x),
    lambda x, axis: gt.tril(x) if x.ndim >= 2 else gt.diag(x),
    lambda x, axis: gt.triu(x, 1) if x.ndim >= 2 else gt.diag(x),
    lambda x, axis: gt.diagonal(x) if x.ndim >= 2 else gt.diag(x),
    lambda x, axis: gt.trace(x) if x.ndim >= 2 else gt.flip(x),
]


def spread(to: Growing) -> Any:
    """Elements in other places: repeated, between zeros, on a diagonal."""
    x = to.any(lambda x: x.ndim > 0 and x.dtype != "bool")
    if x is None or 0 in to.shape(x):
        return None
    return to.pick(REPEATED)(x, to.axis(x))


def moved_axes(to: Growing) -> Any:
    x = to.any()
    kind = to.random.randrange(6)
    if kind == 0 or x.ndim == 0:
        return gt.expand_dims(x, to.random.randrange(-x.ndim - 1, x.ndim + 1))
    if kind == 1:
        order = list(range(x.ndim))
        to.random.shuffle(order)
        return gt.transpose(x, order)
    if kind == 2:
        ones = [i for i, n in enumerate(x.type.shape) if n == 1]
        return gt.squeeze(x, to.pick(ones)) if ones else x.T
    if kind == 3:
        return gt.moveaxis(x, to.axis(x), to.axis(x))
    if kind == 4:
        return gt.swapaxes(x, to.axis(x), to.axis(x))
    return gt.broadcast_to(x, (to.pick([1, 2, 3]), *x.shape))


def reshaped(to: Growing) -> Any:
    x = to.any()
    shape = to.shape(x)
    size = int(np.prod(shape))
    choices: list[Any] = [(-1,), (size,), (1, -1) if size else (1, size), x.shape]
    choices += [(n, -1) for n in (2, 3) if size and size % n == 0]
    choices += [(*x.shape[:-1], -1), (-1, x.shape[x.ndim - 1])] if x.ndim and size else []
    return gt.reshape(x, to.pick(choices))


def lengths(to: Growing) -> Any:
    x, y = to.any(lambda x: x.ndim > 0), to.any()
    if x is None:
        return None
    kind = to.random.randrange(5)
    n = x.shape[to.axis(x)]
    if kind == 0:
        return n
    if kind == 1:
        return y * n
    if kind == 2:
        return gt.zeros_like(y) if to.chance(50) else gt.ones_like(y)
    if kind == 3:
        return gt.arange(n) if to.chance(60) else gt.full((n,), to.pick(NUMBERS))
    return gt.size(y) if to.chance(50) else gt.shape(x)


def index_of(to: Growing, x: Tensor) -> tuple[Any, ...]:
    """An index of x: integers, slices, new axes, arrays of integers."""
    entries: list[Any] = []
    arrays = to.chance(20)
    for n in to.shape(x)[: to.random.randrange(x.ndim + 1)]:
        kind = to.random.randrange(8)
        if kind == 0 and n:
            entries.append(to.random.randrange(-n, n))
        elif kind == 1:
            entries += [None, slice(None)]
        elif kind == 2 and arrays and n:
            entries.append(np.array([to.random.randrange(-n, n) for _ in range(2)]))
        elif kind == 3 and n:
            entries.append(slice(None, None, to.pick([-1, -1, -2, 2])))
        else:
            ends = [to.pick([None, to.random.randrange(-n - 1, n + 2)]) for _ in range(2)]
            entries.append(slice(*ends, to.pick([None, None, None, 1, 2, -1])))
    return tuple(entries)


def indexed(to: Growing) -> Any:
    x = to.any(lambda x: x.ndim > 0)
    return None if x is None else x[index_of(to, x)]


def indexed_by_input(to: Growing) -> Any:
    """A part whose bounds or places are inputs."""
    x = to.any(lambda x: x.ndim > 0)
    if x is None:
        return None
    n = to.shape(x)[0]
    if to.chance(50) or not n:
        i = TensorType("int64", ())(f"x{len(to.inputs)}")
        to.add_input(i, np.array(to.random.randrange(-1, n + 1)))
        return x[i:] if to.chance(50) else x[:i]
    shape = (to.random.randrange(4),)
    places = TensorType("int64", shape if to.chance(50) else (None,))(f"x{len(to.inputs)}")
    to.add_input(places, np.array([to.random.randrange(-n, n) for _ in range(shape[0])], int))
    return x[places] if to.chance(70) or x.dtype == "bool" else x[places].set(to.pick([1, 0, 2]))


def updated(to: Growing) -> Any:
    x = to.any(lambda x: x.ndim > 0 and x.dtype != "bool")
    if x is None:
        return None
    base = gt.zeros_like(x) if to.chance(30) else x
    index = index_of(to, x)
    part = base[index]
    like = to.any(lambda y: y.dtype == x.dtype and y.type.shape == part.type.shape)
    fits = like is not None and to.shape(like) == to.shape(part)
    value = like if fits and to.chance(70) else to.pick([0, 1, 2])
    made = part.set(value) if to.chance(50) else part.inc(value)
    return made[index] if to.chance(25) else made


def joined(to: Growing) -> Any:
    x = to.any(lambda x: x.ndim > 0)
    if x is None:
        return None
    axis = to.axis(x)

    def rest(y: Tensor) -> Shape:
        lengths = list(to.shape(y))
        lengths[axis] = -1
        return tuple(lengths)

    y = to.any(lambda y: y.ndim == x.ndim and rest(y) == rest(x))
    y = x if y is None else y
    whole = gt.concatenate([x, y, x][: to.pick([2, 2, 3])], axis)
    if to.chance(40):
        n = to.shape(whole)[axis]
        ends = sorted(to.random.randrange(n + 1) for _ in range(2))
        return gt.moveaxis(gt.moveaxis(whole, axis, 0)[ends[0] : ends[1]], 0, axis)
    if to.shape(x) == to.shape(y) and to.chance(40):
        return gt.stack([x, y], axis)
    return whole


def product(to: Growing) -> Any:
    """A matrix product, where two arrays go together or after a transposition."""
    x = to.any(lambda x: 0 < x.ndim <= 3 and is_inexact(x.dtype))
    if x is None:
        return None
    n = to.shape(x)[-1]

    def fits(y: Tensor) -> bool:
        shape = to.shape(y)
        return 0 < len(shape) <= 2 and is_inexact(y.dtype) and n in shape

    y = to.any(fits)
    if y is None:
        return gt.tensordot(x, x, x.ndim)
    if to.shape(y)[0] != n:
        y = y.T
    return x @ y if x.ndim != 1 or y.ndim != 1 or to.chance(50) else gt.outer(x, y)


EQUATIONS: list[EquationRule] = [r for r in RULES.values() if isinstance(r, EquationRule)]


def left_side(to: Growing) -> Any:
    """The left side of an equation, of arrays made so far."""
    rule = to.pick(EQUATIONS)
    x = to.any(lambda x: rule.dtypes(x.dtype))
    if x is None:
        return None
    same = [x, *(to.beside(x, lambda d: d == x.dtype) for _ in rule.parameters[1:])]
    if not _broadcast(to, *same):
        return None
    made = _unless_refused(rule.function, *same)
    if made is None:
        return None
    if rule.domain is not None and not to.value(rule.domain(*same)).all():
        return None
    return made[0]


MATRICES = {"assume", "cholesky", "determinant", "inverse", "mirror", "solve", "triangular"}
"""The subjects of rules that are for certain matrices, which test_structure.py tries at random."""

ANY_VALUES = [
    name for name in EXAMPLES if RULES[name].subject not in MATRICES and name != "dot_of_orthogonal"
]


def example(to: Growing) -> Any:
    """An example of a rule, with arrays made so far in place of inputs where types allow."""
    name = to.pick(ANY_VALUES)
    before, _ = to.pick(EXAMPLES[name])
    given = [x for x in toposort([before]) if isinstance(x.op, Input)]
    swaps: dict[Node, Node] = {}
    for x in given:
        value = np.asarray(VALUES[x], x.type.numpy_dtype)
        found = to.any(lambda y, x=x, v=value: y.type == x.type and to.shape(y) == v.shape)  # type: ignore[misc]
        if found is not None and to.chance(70) and is_inexact(x.type.dtype):
            swaps[x] = found
        else:
            to.add_input(x, value)
    return replace_nodes([before], swaps)[0]


STEPS: dict[Step, int] = {
    unary: 12, operator: 14, binary: 6, ternary: 5, cast: 4, reduction: 9, choice_along_axis: 2,
    along_axis: 7, spread: 7, moved_axes: 8, reshaped: 5, lengths: 4, indexed: 8,
    indexed_by_input: 2, updated: 6, joined: 5, product: 6, left_side: 25, example: 10,
}  # fmt: skip
"""How often each is tried."""

ORDER = [step for step, times in STEPS.items() for _ in range(times)]


def _started(seed: int) -> Growing:
    random = Random(seed)
    lengths = [random.choice([0, 1, 1, 2, 2, 3, 3, 4, 5]) for _ in range(3)]
    to = Growing(random, random.random() < 0.4, lengths)
    main = to.pick(["float64", "float64", "float64", "float32"])
    some = [main] * to.random.randrange(2, 4)
    some += [to.pick(DTYPES) for _ in range(to.random.randrange(3))]
    for dtype in some:
        ndim = to.pick([0, 1, 1, 2, 2, 2, 3])
        to.input(dtype, tuple(to.pick(lengths) for _ in range(ndim)))
    return to


def _gradients(to: Growing) -> Iterator[Tensor]:
    """The gradient of a sum of what is differentiable, by some of the arrays."""
    costs = [x for x in to.pool if is_float(x.dtype) and x.inputs][-3:]
    if not costs:
        return
    cost = gt.sum(to.pick(costs))
    for x in costs[1:]:
        cost = cost + gt.sum(x if to.chance(50) else x * x)
    wrt = [x for x in to.pool if is_inexact(x.dtype) and not x.inputs]
    wrt += [x for x in costs if to.chance(20)]
    try:
        found = graphc.grad(cost, wrt, disconnected_inputs="ignore")
    except (GradientError, UnsupportedOperationError):
        return
    yield cost
    yield from found


def random_graph(seed: int) -> Sample:
    """The graph that a seed stands for, in this state of the rules and functions."""
    to = _started(seed)
    for _ in range(to.random.randrange(5, 16)):
        to.add(to.pick(ORDER)(to))
    computed = [x for x in to.pool if x.inputs]
    outputs = computed[-2:] + [x for x in computed[:-2] if to.chance(15)]
    if to.chance(35):
        outputs += _gradients(to)
    outputs = [y for y in outputs if isinstance(y, Tensor)] or [to.pool[0] + 1]
    used = set(toposort(outputs))
    return Sample(seed, {x: v for x, v in to.inputs.items() if x in used}, outputs)
