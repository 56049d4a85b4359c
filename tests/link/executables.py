"""What tests of JAX's executables share: a ledger in memory, and graphs run by it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.compile.pipeline import Asked, built
from graphc.ir import Graph
from graphc.link import Executable, Ledger, Outline, Program, load

RANDOM = np.random.default_rng(0)
backend = load("JAX")


class Kept(Ledger):
    """A ledger in memory, which notes what it is told."""

    keeps = True

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.told: list[tuple[str, Any, Any]] = []
        self.seconds: list[float] = []
        self.lock = threading.RLock()

    @property
    def kinds(self) -> list[str]:
        """What was compiled and what was loaded, in order."""
        return [kind for kind, _, _ in self.told]

    def load(self, name: str) -> bytes | None:
        return self.data.get(name)

    def save(self, name: str, data: bytes) -> None:
        self.data[name] = data

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        with self.lock:
            yield

    def made(
        self,
        kind: Any,
        signature: Sequence[tuple[int, ...]],
        values: Mapping[int, Any],
        seconds: float,
    ) -> None:
        self.told.append((kind, [*signature], dict(values)))
        self.seconds.append(seconds)


def made(
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    ledger: Ledger,
    *,
    donated: tuple[int, ...] = (),
    has_program: bool = True,
    **options: Any,
) -> Executable:
    """What runs the graph; ``has_program=False``: it must not ask for the program."""
    single = len(outputs) == 1
    mode = graphc.Mode("JAX", **options)
    found = built(Asked(Graph(inputs, outputs), len(inputs), (), single, mode))
    facts = backend.facts(found.program)
    outline = Outline.of(found.graph, found.host, single=single, facts=facts)

    def program() -> Program:
        assert has_program
        return found.program

    return backend.compile(outline, program, options, donated, ledger)


def as_lists(results: Any) -> list[Any]:
    return [np.asarray(y) for y in (results if isinstance(results, list) else [results])]


def same(a: Any, b: Any) -> None:
    """To the last bit, and of the same dtypes."""
    for x, y in zip(as_lists(a), as_lists(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def loaded(
    inputs: Sequence[Any], outputs: Sequence[Any], *arguments: Any, **how: Any
) -> tuple[Executable, Kept]:
    """What runs the graph, loaded for these arguments."""
    ledger = Kept()
    made(inputs, outputs, ledger, **how)(*arguments)
    execute = made(inputs, outputs, ledger, **how)
    execute(*arguments)
    assert ledger.kinds == ["compile", "load"]
    ledger.told.clear()
    return execute, ledger


def pair(dtype: str) -> tuple[list[Any], list[Any], list[Any]]:
    x, y = gt.vector("x", dtype=dtype), gt.matrix("y", dtype=dtype)
    a = RANDOM.integers(0, 2, 5).astype(dtype)
    b = RANDOM.integers(0, 2, (3, 5)).astype(dtype)
    return [x, y], [x + y, gt.sum(y, axis=0), gt.eq(x, y)], [a, b]


def gradient() -> tuple[list[Any], list[Any], list[Any]]:
    x, h, w = gt.matrix("x"), gt.vector("h"), gt.matrix("w")
    states = graphc.scan(lambda row, h: gt.tanh(h @ w + row), sequences=x, outputs_info=h)
    loss = (states**2).sum()
    arguments = [RANDOM.standard_normal(shape) for shape in ((7, 4), (4,), (4, 4))]
    return [x, h, w], [loss, *graphc.grad(loss, [x, h, w])], arguments


def square() -> tuple[Executable, Kept]:
    x = gt.vector("x", dtype="float32")
    return loaded([x], [x * x], np.ones(3, "float32"))
