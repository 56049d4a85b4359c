"""The cost of a call beside ``jax.jit``'s own: x * 2, mostly on ten elements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark
from benchmarks.timing import agree, compared
from graphc.link.program import WORTH_WRITING

TARGET = 1.15


@contextmanager
def x64() -> Iterator[None]:
    """64-bit dtypes on for all of JAX, as a program of the user's would turn them on."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def doubled(dtype: str) -> tuple[Any, Any]:
    """Return x * 2 in graphc and in JAX."""
    x = gt.vector("x", dtype=dtype)
    return graphc.function([x], x * 2, mode="JAX"), jax.jit(lambda x: x * 2)


def line(name: str, graphc: Any, hand: Any, *arguments: Any) -> Line:
    """Compare the results, and return a line of the table."""
    agree(graphc(*arguments), hand(*arguments), rtol=1e-6)
    return Line(f"call: {name}", compared(graphc, hand, *arguments, blocks=100), TARGET)


@benchmark("call")
def one_input() -> Iterator[Line]:
    f, hand = doubled("float32")
    yield line("float32, device array", f, hand, jnp.ones(10, "float32"))
    yield line("float32, NumPy array", f, hand, np.ones(10, "float32"))


@benchmark("call returns numpy")
def numpy_results() -> Iterator[Line]:
    """NumPy arrays as results: graphc's are copies that can be written to, np.asarray's are not."""
    for dtype, n in (("float32", 10), ("float64", 10), ("float32", 10**6), ("float64", 10**6)):
        x = gt.vector("x", dtype=dtype)
        f = graphc.function([x], x * 2, mode="JAX", returns="numpy")
        with x64():
            hand = jax.jit(lambda x: x * 2)
            given = jnp.ones(n, dtype)
            yield line(f"{dtype}[{n}] as NumPy", f, lambda x: np.asarray(hand(x)), given)  # noqa: B023
            yield line(f"{dtype}[{n}] as NumPy copy", f, lambda x: np.array(hand(x)), given)  # noqa: B023


@benchmark("call x64")
def double_precision() -> Iterator[Line]:
    with x64():
        f, hand = doubled("float64")
        yield line("float64, device array, x64 on", f, hand, jnp.ones(10, "float64"))
        yield line("float64, NumPy array, x64 on", f, hand, np.ones(10, "float64"))
    f, hand = doubled("float64")

    def within(x: Any) -> Any:
        with jax.enable_x64(True):
            return hand(x)

    yield line("float64, device array, x64 off", f, within, f(np.ones(10)))


@benchmark("call inputs")
def several_inputs() -> Iterator[Line]:
    for n in (4, 16):
        xs = [gt.vector(f"x{i}", dtype="float32") for i in range(n)]
        f = graphc.function(xs, [x * 2 for x in xs], mode="JAX")
        hand = jax.jit(lambda *xs: [x * 2 for x in xs])
        arrays = [jnp.full(10, i, "float32") for i in range(n)]
        yield line(f"{n} inputs and outputs, device arrays", f, hand, *arrays)
        yield line(f"{n} inputs and outputs, NumPy arrays", f, hand, *map(np.asarray, arrays))


def ten_operations(np: Any, x: Any, y: Any) -> Any:
    """Elementwise, each on one or two before."""
    a = x * y
    c = np.exp(a + x)
    e = np.tanh(c - y)
    g = e * c + a
    return np.sin(g) * e - g


@benchmark("call slice")
def batches() -> Iterator[Line]:
    """Batches of a shared array, whose length each call computes, beside a static length."""
    x, i, size = graphc.shared(np.ones((1000, 8), "float32")), gt.iscalar("i"), 20
    f = graphc.function([i], x[i * size : (i + 1) * size], mode="JAX")
    hand = jax.jit(lambda x, i: jax.lax.dynamic_slice_in_dim(x, i * size, size))
    rows = jnp.ones((1000, 8), "float32")
    kinds = {"device array": jnp.int32(3), "NumPy array": np.array(3, "int32"), "number": 3}
    for kind, k in kinds.items():
        yield line(f"a batch of 20 rows, index as {kind}", f, partial(hand, rows), k)


@benchmark("call numpy")
def numpy_statements() -> Iterator[Line]:
    x, y = gt.vectors("x", "y")
    f = graphc.function([x, y], ten_operations(gt, x, y), mode="NUMPY")
    a, b = np.linspace(0, 1, 10), np.linspace(1, 2, 10)
    for _ in range(WORTH_WRITING):
        f(a, b)

    @np.errstate(all="ignore")
    def quiet(x: Any, y: Any) -> Any:
        return ten_operations(np, x, y)

    agree(f(a, b), quiet(a, b), rtol=1e-6)
    for name, hand in (("", partial(ten_operations, np)), (" that ignore errors", quiet)):
        ratio = compared(f, hand, a, b, blocks=100)
        yield Line(f"call: 10 operations in NumPy, by statements{name}", ratio, 1.3)


@benchmark("call shared")
def shared_state() -> Iterator[Line]:
    step = gt.vector("step", dtype="float32")
    state = graphc.shared(np.zeros(10, "float32"))
    f = graphc.function([step], state.sum(), updates=[(state, state + step)], mode="JAX")
    kept = jnp.zeros(10, "float32")
    jitted = jax.jit(lambda kept, step: (kept.sum(), kept + step), donate_argnums=0)

    def hand(step: Any) -> Any:
        nonlocal kept
        total, kept = jitted(kept, step)
        return total

    yield line("a shared vector updated", f, hand, jnp.ones(10, "float32"))
