"""What an implicit array costs: to make it, to take it apart, to call functions of it.

By hand are the same functions of the arrays in the fields. What XLA is given should be the same
text, so that nothing is left of implicit arrays when a compiled function runs; it is compared, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import agree, compared
from graphc import implicit
from graphc.implicit.structured import Structured

TARGET = 1.02
LIMIT = 20.0
"""Microseconds."""


@dataclass(frozen=True, repr=False)
class Bytes(Structured):
    """A matrix as 8-bit integers, and a scale for each column."""

    values: Any
    scale: Any

    def materialize(self) -> Any:
        return self.xp.cast(self.values, self.scale.dtype) * self.scale

    def rmatmul(self, x: Any) -> Any:
        return (x @ self.xp.cast(self.values, self.scale.dtype)) * self.scale


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Plain:
    """The same two arrays, in what JAX takes apart fastest."""

    values: Any
    scale: Any


def matrix(m: int, n: int) -> Bytes:
    rng = np.random.default_rng(0)
    values = rng.integers(-127, 128, (m, n), dtype="int8")
    scale = rng.random(n, dtype="float32") / (127 * m**0.5)  # products stay near 1
    return Bytes(jnp.asarray(values), jnp.asarray(scale))


def adapted(m: int, n: int, rank: int = 8) -> implicit.LoRA:
    rng = np.random.default_rng(1)
    a, b = (jnp.asarray(rng.normal(size=s).astype("float32")) for s in ((m, rank), (rank, n)))
    return implicit.LoRA(matrix(m, n), a, b)


def microseconds(f: Callable[[], Any], calls: int = 1_000, blocks: int = 20) -> float:
    """Of one call, where nothing else took time."""
    times = []
    for _ in range(blocks):
        start = perf_counter()
        for _ in range(calls):
            f()
        times.append((perf_counter() - start) / calls)
    return min(times) * 1e6


@benchmark("implicit objects")
def objects() -> Iterator[Line]:
    """Each in microseconds; a star where it is more than ``LIMIT``."""
    write(
        f"  {'':<24} {'make':>7}  {'flatten':>7}  {'unflatten':>9}  microseconds, at most {LIMIT}"
    )
    lora = adapted(1024, 4096)
    for name, x in {
        "8 bits": lora.base,
        "8 bits in NumPy's arrays": jax.tree.map(np.asarray, lora.base),
        "low rank": implicit.LowRank(lora.a, lora.b),
        "adapter on 8 bits": lora,
        "4 bits by quantize": implicit.quantize(np.ones((1024, 4096), "float32"), "int4"),
    }.items():
        leaves, tree = jax.tree.flatten(x)
        times = [
            microseconds(
                partial(type(x), **{each.name: getattr(x, each.name) for each in fields(x)})
            ),
            microseconds(partial(jax.tree.flatten, x)),
            microseconds(partial(tree.unflatten, leaves)),
        ]
        write(f"  {name:<24}" + "".join(f" {t:>8.2f}{'*' * (t > LIMIT)}" for t in times))
    yield from ()


# The same programs with implicit arrays, and in terms of what is in their fields.


def times(x: Any, w: Any) -> Any:
    return x @ w


def times_by_hand(x: Any, w: Bytes | Plain) -> Any:
    return (x @ w.values.astype(w.scale.dtype)) * w.scale


def adapted_by_hand(x: Any, w: implicit.LoRA) -> Any:
    return times_by_hand(x, w.base) + (x @ w.a) @ w.b


def steps(product: Callable[..., Any]) -> Callable[..., Any]:
    """Twenty steps of a network without inputs."""

    def f(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda h, _: (jnp.tanh(product(h, w)), None), x, length=20)[0]

    return f


def slope(f: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient by x of the sum of squares."""
    return jax.grad(lambda x, w: (f(x, w) ** 2).sum())


PROGRAMS = {
    "product": (implicit.implicit(times), times_by_hand, matrix),
    "adapter": (implicit.implicit(times), adapted_by_hand, adapted),
    "20 steps": (implicit.implicit(steps(times)), steps(times_by_hand), matrix),
    "gradient of 20 steps": (
        slope(implicit.implicit(steps(times))),
        slope(steps(times_by_hand)),
        matrix,
    ),
    "implicit gradient": (
        implicit.implicit(slope(steps(times))),
        slope(steps(times_by_hand)),
        matrix,
    ),
}
"""A function of x and an implicit array, the same by hand, and what makes the array."""

SIZES = ((1, 64), (16, 1024))
"""Rows of x, and rows and columns of the matrix."""


def text(f: Any, *args: Any) -> str:
    """What XLA is given, without the names of functions."""
    lowered: str = f.lower(*args).as_text()
    return re.sub(r"@\w+", "", lowered)


@benchmark("implicit calls")
def calls() -> Iterator[Line]:
    """In JAX: the arrays are in the same objects both ways."""
    for name, (f, hand, make) in PROGRAMS.items():
        for m, n in SIZES:
            args = jnp.ones((m, n), "float32"), make(n, n)
            ours, theirs = jax.jit(f), jax.jit(hand)
            agree(ours(*args), theirs(*args), rtol=1e-4)
            same = "the same" if text(ours, *args) == text(theirs, *args) else "another"
            write(f"  {name}, {m} x {n}: XLA is given {same} text")
            yield Line(f"implicit calls: {name}, {m} x {n}", compared(ours, theirs, *args), TARGET)


@benchmark("implicit objects passed")
def passed() -> Iterator[Line]:
    """A call with the object: beside one with its arrays, and with a plain dataclass of them."""
    for m, n in SIZES:
        x, w = jnp.ones((m, n), "float32"), matrix(n, n)
        ours = jax.jit(implicit.implicit(times))
        theirs = jax.jit(lambda x, values, scale: times_by_hand(x, Plain(values, scale)))
        ratio = compared(partial(ours, x, w), partial(theirs, x, w.values, w.scale))
        yield Line(f"implicit objects passed: arrays, {m} x {n}", ratio, TARGET)
        theirs, plain = jax.jit(times_by_hand), Plain(w.values, w.scale)
        ratio = compared(partial(ours, x, w), partial(theirs, x, plain))
        yield Line(f"implicit objects passed: dataclass, {m} x {n}", ratio, TARGET)


@benchmark("implicit functions")
def functions() -> Iterator[Line]:
    """In graphs: an implicit input, beside inputs for its fields."""
    for mode in ("JAX", "MLX"):
        for m, n in SIZES:
            x = gt.matrix("x", dtype="float32")
            w = gt.implicit(matrix(n, n), name="w")
            values, scale = gt.matrix("values", dtype="int8"), gt.vector("scale", dtype="float32")
            product = (x @ gt.cast(values, "float32")) * scale
            array = matrix(n, n)
            ones = np.ones((m, n), "float32")
            ours = graphc.function([x, w], gt.tanh(x @ w), mode=mode)
            theirs = graphc.function([x, values, scale], gt.tanh(product), mode=mode)
            agree(ours(ones, array), theirs(ones, array.values, array.scale), rtol=1e-5)
            ratio = compared(
                partial(ours, ones, array), partial(theirs, ones, array.values, array.scale)
            )
            yield Line(f"implicit functions: {mode}, {m} x {n}", ratio, TARGET)
