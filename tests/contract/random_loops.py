"""Loops that hypothesis makes: a description, its graph, and an interpreter of it in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

import graphc.tensor as gt
from graphc import scan, until
from tests.contract.loop_case import LoopCase
from tests.contract.values import plain

__all__ = ["RandomLoop", "random_loops"]

SHAPES = ((), (2,))
TAPS = ((-1,), (-2, -1), (-1, -2), (-3, -1), (-2,))
SEQUENCE_TAPS = ((0,), (0,), (-1, 0), (0, 1), (1, -2), (-1,), (2,))
FAR = 0.02
"""How far numbers that are compared must be apart, so that differences do not step across."""

Expression = tuple[Any, ...]
"""An atom ``("atom", place)``, or an operation's name and its operands."""


def twice_inner(m: Any, a: Any, b: Any) -> Any:
    """A loop of two steps in the step."""
    if m is np:
        for _ in range(2):
            a = np.sin(a * b + 0.3)
        return a
    return scan(lambda k, b: gt.sin(k * b + 0.3), outputs_info=a, non_sequences=b, n_steps=2)[-1]


FLOAT_OPS: dict[str, tuple[int, Callable[..., Any]]] = {
    "sin": (1, lambda m, a: m.sin(a)),
    "tanh": (1, lambda m, a: m.tanh(a)),
    "bump": (1, lambda m, a: 1 / (1 + a * a)),
    "minus": (1, lambda m, a: -a),
    "add": (2, lambda m, a, b: a + b),
    "subtract": (2, lambda m, a, b: a - b),
    "multiply": (2, lambda m, a, b: a * b),
    "mix": (2, lambda m, a, b: 0.75 * a - 0.5 * b),
    "inner": (2, twice_inner),
}


@dataclass
class RandomLoop:
    """A loop: what it reads, what a step makes of that, and what is read of its results.

    Attributes:
        sequences: For each its shape without time, and its taps.
        states: For each its kind (``f``, ``i`` or ``b``), shape and taps.
        nexts: The expression of each state.
        rows: Expressions of outputs without a state, and their shapes.
        stop: A state by its place, a number by its side, and whether it is to be smaller.
        length: The number of steps the sequences have elements for.
        steps: The number of steps asked for, and whether it is an input; None to leave it out.
        backwards: Whether the sequences are read from their ends.
        truncate: How many steps the gradient goes through.
        read: How each output is read: whole, its last, its last two, or its sum.
        static: Whether lengths are part of the types.
    """

    sequences: list[tuple[tuple[int, ...], tuple[int, ...]]]
    states: list[tuple[str, tuple[int, ...], tuple[int, ...]]]
    nexts: list[Expression] = field(default_factory=list)
    rows: list[tuple[Expression, tuple[int, ...]]] = field(default_factory=list)
    stop: tuple[int, float, bool] | None = None
    length: int = 3
    steps: tuple[int, bool] | None = None
    backwards: bool = False
    truncate: int | None = None
    read: list[str] = field(default_factory=list)
    static: bool = False

    @property
    def most(self) -> int:
        """How many steps there are if it does not stop."""
        return self.length if self.steps is None else self.steps[0]

    @property
    def atoms(self) -> list[tuple[str, tuple[int, ...]]]:
        """The kind and shape of each array that a step reads."""
        found = [("f", shape) for shape, taps in self.sequences for _ in taps]
        found += [(kind, shape) for kind, shape, taps in self.states for _ in taps]
        return [*found, ("f", ()), ("f", (2,))]

    def given(self) -> list[Any]:
        """The values of the sequences, of the first states, of two constants, and the number."""
        found: list[Any] = []
        for shape, taps in self.sequences:
            n = self.length + max(0, *taps) - min(0, *taps)
            found.append(0.6 * plain("float64", (n, *shape), len(found)))
        for kind, shape, taps in self.states:
            whole = shape if taps == (-1,) else (-min(taps), *shape)
            made = plain({"f": "float64", "i": "int64", "b": "bool"}[kind], whole, len(found))
            found.append(0.6 * made if kind == "f" else made)
        found += [np.array(0.45), np.array([-0.8, 0.35])]
        return found + ([np.array(self.steps[0])] if self.steps and self.steps[1] else [])

    def build(self, *inputs: Any) -> list[Any]:
        """The graph."""
        s, c = len(self.sequences), len(self.sequences) + len(self.states)
        constants = list(inputs[c : c + 2])

        def step(*read: Any) -> Any:
            atoms = [*read, *constants]
            made = [evaluated(gt, e, atoms) for e in self.nexts]
            made += [evaluated(gt, e, atoms) for e, _ in self.rows]
            if self.stop is None:
                return made
            place, limit, smaller = self.stop
            return made, until(made[place] < limit if smaller else made[place] > limit)

        infos: list[Any] = [
            first if taps == (-1,) else {"initial": first, "taps": list(taps)}
            for first, (_, _, taps) in zip(inputs[s:c], self.states, strict=True)
        ]
        ys = scan(
            step,
            [
                {"input": x, "taps": list(taps)}
                for x, (_, taps) in zip(inputs, self.sequences, strict=False)
            ],
            infos + [None] * len(self.rows),
            n_steps=self._asked(inputs),
            go_backwards=self.backwards,
            truncate_gradient=-1 if self.truncate is None else self.truncate,
            return_list=True,
        )
        return [READINGS[how](y) for y, how in zip(ys, self.read, strict=True)]

    def _asked(self, inputs: Sequence[Any]) -> Any:
        if self.steps is None:
            return None
        return inputs[-1] if self.steps[1] else self.steps[0]

    def plain(self, *arrays: Any) -> list[Any]:
        """What it gives, step by step."""
        return self._read(self.walked(arrays, arrays, 0)[0])

    def felt(self, point: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
        """What a gradient through the last steps sees: those before are as they are."""
        done = self.walked(point, point, 0)[1]
        before = 0 if self.truncate is None else max(done - self.truncate, 0)
        return self._read(self.walked(point, moved, before)[0])

    def walked(
        self, point: Sequence[Any], moved: Sequence[Any], before: int
    ) -> tuple[list[Any], int, float]:
        """The outputs, the steps done, and how close any two numbers came that are compared.

        The first steps read ``point``, and those after them ``moved``.
        """
        s, c = len(self.sequences), len(self.sequences) + len(self.states)
        source = point if before else moved
        past = [
            [x] if taps == (-1,) else [*x]
            for x, (_, _, taps) in zip(source[s:c], self.states, strict=True)
        ]
        outputs: list[list[Any]] = [[] for _ in [*self.nexts, *self.rows]]
        done, near = 0, np.inf
        for t in range(self.most):
            arrays = point if t < before else moved
            atoms = self._elements(arrays, t)
            for states, (_, _, taps) in zip(past, self.states, strict=True):
                atoms += [states[k] for k in taps]
            atoms += arrays[c : c + 2]
            made = [evaluated(np, e, atoms) for e in self.nexts]
            made += [evaluated(np, e, atoms) for e, _ in self.rows]
            for row, y in zip(outputs, made, strict=True):
                row.append(y)
            for states, y in zip(past, made, strict=False):
                states.append(y)
            done += 1
            if self.stop is not None:
                place, limit, smaller = self.stop
                near = min(near, abs(made[place] - limit))
                if made[place] < limit if smaller else made[place] > limit:
                    break
        return outputs, done, near

    def _elements(self, arrays: Sequence[Any], t: int) -> list[Any]:
        found = []
        for x, (_, taps) in zip(arrays, self.sequences, strict=False):
            front = -min(0, *taps)
            last = len(x) - 1 - max(0, *taps)
            now = last - t if self.backwards else front + t
            found += [x[now + k] for k in taps]
        return found

    def _read(self, outputs: list[list[Any]]) -> list[Any]:
        kinds = [(kind, shape) for kind, shape, _ in self.states]
        kinds += [("f", shape) for _, shape in self.rows]
        dtypes = {"f": "float64", "i": "int64", "b": "bool"}
        traces = [
            np.array(rows, dtypes[kind]).reshape(len(rows), *shape)
            for rows, (kind, shape) in zip(outputs, kinds, strict=True)
        ]
        return [READINGS[how](y) for y, how in zip(traces, self.read, strict=True)]

    def case(self, name: str = "random") -> LoopCase:
        """The same as a case of the table."""
        return LoopCase(
            name,
            tuple(self.given()),
            self.build,
            self.plain,
            felt=None if self.truncate is None else self.felt,
            static=self.static,
        )


READINGS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda y: y,
    "last": lambda y: y[-1],
    "last two": lambda y: y[-2:],
    "sum": lambda y: y.sum(0),
    "from the end": lambda y: y[::-1],
}


def evaluated(m: Any, e: Expression, atoms: Sequence[Any]) -> Any:
    """The value of an expression, by NumPy or as a graph."""
    name, *rest = e
    if name == "atom":
        return atoms[rest[0]]
    operands = [evaluated(m, x, atoms) for x in rest]
    return OPS[name](m, *operands)


OPS: dict[str, Callable[..., Any]] = {name: op for name, (_, op) in FLOAT_OPS.items()} | {
    "sum": lambda m, a: m.sum(a),
    "turn": lambda m, a: a[::-1],
    "first": lambda m, a: a[0],
    "spread": lambda m, a: a * np.array([1.0, -0.5]),
    "of int": lambda m, k: 0.25 * k,
    "choose": lambda m, p, a, b: m.where(p, a, b),
    "int add": lambda m, j, k: (3 * j + k + 1) % 7,
    "int odd": lambda m, k: m.equal(k % 2, 1),
    "not": lambda m, p: m.logical_not(p),
    "xor": lambda m, p, q: m.logical_xor(p, q),
    "next int": lambda m, k: (k * 5 + 3) % 8,
}


class Growing:
    """Expressions over the atoms of a loop, drawn by hypothesis."""

    def __init__(self, draw: Any, atoms: list[tuple[str, tuple[int, ...]]]) -> None:
        self.draw = draw
        self.atoms = atoms

    def places(self, kind: str, shape: tuple[int, ...] | None = None) -> list[int]:
        return [
            i for i, (k, s) in enumerate(self.atoms) if k == kind and (shape is None or s == shape)
        ]

    def number(self, shape: tuple[int, ...], depth: int = 3) -> Expression:
        """A floating expression of a shape."""
        ways = ["atom"] if depth == 0 else ["atom", "op", "op", "op", "other", "mixed"]
        match self.draw(st.sampled_from(ways)):
            case "atom":
                return ("atom", self.draw(st.sampled_from(self.places("f", shape))))
            case "op":
                name = self.draw(st.sampled_from([*FLOAT_OPS]))
                return (name, *(self.number(shape, depth - 1) for _ in range(FLOAT_OPS[name][0])))
            case "other":
                names = ["turn", "spread"] if shape else ["sum", "first"]
                name = self.draw(st.sampled_from(names))
                return (name, self.number(() if name == "spread" else (2,), depth - 1))
        return self.mixed(shape, depth)

    def mixed(self, shape: tuple[int, ...], depth: int) -> Expression:
        """A floating expression of others and of an integer or a bool, if there are any."""
        one = self.number(shape, depth - 1)
        if self.places("b") and self.draw(st.booleans()):
            return ("choose", self.bool(), one, self.number(shape, depth - 1))
        if self.places("i"):
            return ("multiply", ("of int", self.int()), one)
        return ("add", one, self.number((), 0))

    def int(self) -> Expression:
        a, b = (("atom", self.draw(st.sampled_from(self.places("i")))) for _ in range(2))
        return self.draw(st.sampled_from([a, ("next int", a), ("int add", a, b)]))

    def bool(self) -> Expression:
        a, b = (("atom", self.draw(st.sampled_from(self.places("b")))) for _ in range(2))
        ways: list[Expression] = [("not", a), ("xor", a, ("not", b))]
        if self.places("i"):
            ways.append(("xor", a, ("int odd", self.int())))
        return self.draw(st.sampled_from(ways))

    def next(self, kind: str, shape: tuple[int, ...], own: Expression) -> Expression:
        """What a state becomes: something of its own value, or of anything."""
        if kind != "f":
            return self.int() if kind == "i" else self.bool()
        e = self.number(shape)
        return self.draw(
            st.sampled_from(
                [
                    ("tanh", e),
                    ("mix", own, ("sin", e)),
                    ("add", own, e),
                    ("multiply", own, ("tanh", e)),
                    ("add", ("multiply", ("atom", len(self.atoms) - 2), own), e),
                    e,
                    own,
                ]
            )
        )


@st.composite
def random_loops(draw: Any) -> RandomLoop:
    """Loops of a few states and sequences, and few steps."""
    sequences = draw(
        st.lists(st.tuples(st.sampled_from(SHAPES), st.sampled_from(SEQUENCE_TAPS)), max_size=2)
    )
    kinds = st.sampled_from(["f", "f", "f", "i", "b"])
    drawn = draw(
        st.lists(
            st.tuples(kinds, st.sampled_from(SHAPES), st.sampled_from(TAPS)),
            min_size=0 if sequences else 1,
            max_size=3,
        )
    )
    states = [(kind, shape if kind == "f" else (), taps) for kind, shape, taps in drawn]
    loop = RandomLoop(sequences, states, length=draw(st.integers(0, 5)))
    growing = Growing(draw, loop.atoms)
    place = sum(len(taps) for _, taps in sequences)
    for kind, shape, taps in states:
        loop.nexts.append(growing.next(kind, shape, ("atom", place)))
        place += len(taps)
    for _ in range(draw(st.integers(0 if states else 1, 2))):
        shape = draw(st.sampled_from(SHAPES))
        loop.rows.append((growing.number(shape), shape))
    if not sequences or draw(st.booleans()):
        loop.steps = (draw(st.integers(0, loop.length)), draw(st.booleans()))
    loop.backwards = draw(st.booleans())
    loop.static = draw(st.booleans())
    loop.truncate = draw(st.sampled_from([None, None, None, 1, 2, 4]))
    floats = [i for i, (kind, shape, _) in enumerate(states) if (kind, shape) == ("f", ())]
    if floats and draw(st.integers(0, 2)) == 0:
        loop.stop = (draw(st.sampled_from(floats)), draw(st.sampled_from([-0.5, 0.1, 0.6])), True)
    ways = [*READINGS] if loop.most else ["whole", "sum", "from the end"]
    loop.read = [draw(st.sampled_from(ways)) for _ in [*loop.nexts, *loop.rows]]
    return loop
