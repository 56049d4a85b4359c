"""Random programs: each grows call by call, and NumPy says what each call gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

from tests.fuzz.oracle import NO_RESULT, Rounding, run
from tests.fuzz.program import LAYOUTS, Body, Call, Program, Variable
from tests.fuzz.row import Choice, Row
from tests.fuzz.table import TABLE
from tests.fuzz.values import Value, meet

__all__ = ["Growing", "program", "started"]

MOST_ELEMENTS = 150
LARGEST = 1e5
LENGTHS = (0, 1, 1, 2, 2, 3, 3, 4, 5)

DTYPES = (
    *["float64"] * 8, *["float32"] * 3, "float16", "bfloat16", *["int64"] * 3, "int32", "int16",
    "int8", "uint8", "uint16", "uint32", "uint64", "bool", "bool", "complex64", "complex128",
)  # fmt: skip


@dataclass
class Growing:
    """A program, or the body of a loop, on the way."""

    random: Random
    namespace: dict[str, Any]
    lengths: list[int]
    pool: list[Value] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    count: list[int] = field(default_factory=lambda: [0])
    depth: int = 0

    # Choosing.

    def chance(self, percent: float) -> bool:
        return self.random.random() * 100 < percent

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[self.random.randrange(len(choices))]

    def integer(self, low: int, high: int) -> int:
        return self.random.randrange(low, high + 1)

    def any(self, fits: Callable[[Value], Any] = lambda x: True) -> Value | None:
        """A value that fits, later ones more often than the first."""
        found = [x for x in self.pool if fits(x)]
        if not found:
            return None
        return self.pick(found[-4:] if self.chance(50) else found)

    def beside(self, *others: Value, fits: Callable[[Value], Any] = lambda x: True) -> Value | None:
        """A value that broadcasts with others, by lengths of 1 that graphc knows."""
        return self.any(lambda y: fits(y) and meet(*others, y) is not None)

    def axis(self, x: Value) -> int:
        return self.random.randrange(-x.ndim, x.ndim)

    def axes(self, x: Value) -> tuple[int, ...]:
        chosen = {self.axis(x) % x.ndim for _ in range(self.integer(1, x.ndim))}
        return tuple(n - self.pick([0, x.ndim]) for n in sorted(chosen))

    def number(self, dtype: str) -> str:
        """A number that goes with an array of a dtype, as code."""
        if dtype == "bool":
            return self.pick(["True", "False"])
        if dtype.startswith("uint"):
            return str(self.integer(0, 5))
        if dtype.startswith("int"):
            return str(self.integer(-3, 5))
        return self.pick(["0.5", "2.0", "-1.0", "1.5", "0", "1", "-0.25", "3.0"])

    # Growing.

    def named(self, letter: str) -> str:
        self.count[0] += 1
        return f"{letter}{self.count[0]}"

    def variable(self, dtype: str, shape: tuple[int, ...], array: Any = None) -> Value:
        """A new input."""
        style = self.pick(["static", "unknown", "unknown", "mixed"])
        static = tuple(
            n if style == "static" or (style == "mixed" and self.chance(50)) else None
            for n in shape
        )
        array = self.array(dtype, shape) if array is None else np.asarray(array, dtype)
        layout = self.pick(LAYOUTS) if self.chance(30) else "C"
        made = Variable(self.named("x"), array, static, layout)
        self.variables.append(made)
        value = Value(made.name, array, tuple(n == 1 for n in static))
        self.namespace[made.name] = array
        self.pool.append(value)
        return value

    def array(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """Random elements: small numbers, often with ties, of one magnitude."""
        numbers = np.random.default_rng(self.random.getrandbits(32))
        kind = np.dtype(dtype).kind
        if kind == "b":
            return numbers.integers(2, size=shape).astype(bool)
        if kind in "iu":
            return numbers.integers(-4 if kind == "i" else 0, 6, shape).astype(dtype)
        if self.chance(40):
            x = numbers.integers(-8, 9, shape) / 4
        else:
            x = numbers.normal(size=shape) * self.pick([0.3, 1, 1, 3])
        if kind == "c":
            x = x + 1j * numbers.normal(size=shape)
        return np.asarray(x).astype(dtype)

    def add(self, row: Row, choice: Choice) -> Value | None:
        """The call of a row, if NumPy makes something of it that is worth keeping."""
        call = Call(
            self.named("v"), row, choice.operands, choice.options, choice.bodies, choice.ones
        )
        rounding = Rounding()
        self.namespace |= rounding.namespace()
        try:
            run([call], self.namespace)
        except NO_RESULT:
            return None
        array = np.asarray(self.namespace[call.name])
        ones = choice.ones if len(choice.ones) == array.ndim else (False,) * array.ndim
        if not self.keeps(array):
            return None
        call = Call(call.name, row, call.operands, call.options, call.bodies, ones)
        self.calls.append(call)
        value = Value(call.name, array, ones)
        self.pool.append(value)
        return value

    def keeps(self, x: np.ndarray) -> bool:
        """Whether a value is small enough and, in most cases, finite."""
        if x.size > MOST_ELEMENTS or x.ndim > 5 or x.dtype.name not in DTYPES:
            return False
        if x.dtype.kind in "iu":
            return bool((np.abs(x.astype("float64")) < 2**31).all())
        if x.dtype.kind == "b" or self.chance(4):
            return True
        size = np.abs(x.astype("complex128" if x.dtype.kind == "c" else "float64"))
        largest = min(LARGEST, float(ml_dtypes.finfo(x.dtype).max) / 16)
        return bool(((size < largest) & ((size > 1e-5) | (size == 0))).all())

    def grow(self, calls: int) -> None:
        """Try rows until so many calls were made, or tried five times as often."""
        tries = 0
        start = len(self.calls)
        while len(self.calls) - start < calls and tries < 5 * calls:
            tries += 1
            row = self.pick(ORDER[self.depth])
            choice = row.choose(self)
            if choice is not None:
                self.add(row, choice)

    def body(
        self, given: Iterable[tuple[np.ndarray, tuple[bool, ...]]], calls: int
    ) -> tuple[Growing, tuple[str, ...]]:
        """The function of a loop or branch, grown for the parameters' first values."""
        inner = Growing(
            self.random, dict(self.namespace), self.lengths, self.pool[-3:], self.variables,
            count=self.count, depth=self.depth + 1,
        )  # fmt: skip
        parameters = []
        for array, ones in given:
            name = self.named("a")
            parameters.append(name)
            inner.namespace[name] = array
            inner.pool.append(Value(name, array, ones))
        inner.grow(calls)
        # What was made a variable on the way is one of the whole program.
        self.namespace |= {v.name: v.array for v in self.variables}
        return inner, tuple(parameters)

    def finished(
        self, parameters: tuple[str, ...], results: Sequence[str], until: Any = None
    ) -> Body:
        """The body that gives these results."""
        body = Body(parameters, tuple(self.calls), tuple(results), until)
        needed = {*results, until or ""}
        for call in reversed(self.calls):
            if call.name in needed:
                needed |= call.names()
        return Body(
            parameters, tuple(c for c in body.calls if c.name in needed), body.results, until
        )


ORDER = [
    [row for row in TABLE.values() if row.depth >= depth for _ in range(row.weight)]
    for depth in range(3)
]
"""Rows for a program, for a body, and for a body within one, as often as they are tried."""


def started(seed: int) -> Growing:
    """A program of a few variables."""
    random = Random(seed)
    lengths = [random.choice(LENGTHS) for _ in range(3)]
    to = Growing(random, {}, lengths)
    for _ in range(random.randrange(1, 4)):
        ndim = to.pick([0, 1, 1, 2, 2, 2, 3, 4])
        to.variable(to.pick(DTYPES), tuple(to.pick(lengths) for _ in range(ndim)))
    return to


def program(seed: int) -> Program:
    """The program that a seed stands for, in this state of the table."""
    to = started(seed)
    to.grow(to.integer(1, 9))
    made = [c.name for c in to.calls] or [to.variables[0].name]
    outputs = [made[-1], *(x for x in made[:-1] if to.chance(25))]
    variables = tuple(_state(to, v) for v in to.variables)
    return Program(seed, variables, tuple(to.calls), tuple(outputs)).pruned()


def _state(to: Growing, v: Variable) -> Variable:
    """Now and then a shared variable in place of an input, with an update of its type."""
    if not to.chance(8):
        return v
    fits = [
        x.name
        for x in to.pool
        if x.dtype == v.dtype and x.shape == v.array.shape and set(v.static) <= {None}
    ]
    return Variable(v.name, v.array, v.static, "C", to.pick(fits) if fits else v.name)
