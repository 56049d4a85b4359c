"""Helpers of the tests of JAX's executables: a context in memory, and graphs compiled in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.compile.pipeline import Signature, lower_program
from graphc.ir import Graph
from graphc.link import CallSpec, CompileContext, Executable, Program, load

RANDOM = np.random.default_rng(0)
backend = load("JAX")


class Kept(CompileContext):
    """A context that stores executables and records in memory."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.records: list[tuple[str, Any, Any]] = []
        self.seconds: list[float] = []
        self.lock = threading.RLock()

    @property
    def kinds(self) -> list[str]:
        """What was compiled and what was loaded, in order."""
        return [kind for kind, _, _ in self.records]

    def executable(self, name: str, load: Any, compile: Any) -> Any:
        with self.lock:
            found = load(self.data[name]) if name in self.data else None
            if found is None:
                found, serialized = compile()
                data = serialized()
                if data is not None:
                    self.data[name] = data
        return found

    def record(
        self,
        kind: Any,
        shapes: Sequence[tuple[int, ...]],
        values: Mapping[int, Any],
        seconds: float,
    ) -> None:
        self.records.append((kind, [*shapes], dict(values)))
        self.seconds.append(seconds)


def made(
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    context: CompileContext,
    *,
    donated: tuple[int, ...] = (),
    has_program: bool = True,
    **options: Any,
) -> Executable:
    """What runs the graph; ``has_program=False``: it must not ask for the program."""
    single = len(outputs) == 1
    mode = graphc.Mode("JAX", **options)
    found = lower_program(Signature(Graph(inputs, outputs), len(inputs), (), single, mode))
    facts = backend.facts(found.program)
    spec = CallSpec.of(found.graph, found.host, single=single, facts=facts)

    def program() -> Program:
        assert has_program
        return found.program

    return backend.compile(spec, program, options, donated, context)


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
    context = Kept()
    made(inputs, outputs, context, **how)(*arguments)
    execute = made(inputs, outputs, context, **how)
    execute(*arguments)
    assert context.kinds == ["compile", "load"]
    context.records.clear()
    return execute, context


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
