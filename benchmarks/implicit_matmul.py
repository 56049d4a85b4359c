"""Products with packed codes against dense ones, in time and in memory that they take besides.

Each of int8, int4 and NF4 against a dense float32 matrix, and against what is usually written,
``x @ dequantize(q)``; with one matrix again and again, and with as many in turn as a model has, so
that none of them is in the cache. Under MLX the usual is ``mx.dequantize``, which has no NF4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product as product_of
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark
from benchmarks.timing import Ratio, agree
from graphc.implicit import materializing
from graphc.implicit.functions import implicit
from graphc.implicit.quantized import Quantized, quantize

ROWS, COLUMNS = 1024, 4096

WEIGHTS = 64
"""So many matrices in turn: 1 GB of float32."""

KINDS = ("int8", "int4", "nf4")

COUNTS = (1, 4, 16, 64)
"""The numbers of rows that are multiplied."""

TARGETS = {1: 1.0, 4: 1.0, 16: 1.0, 64: 1.5}

MEMORY = 0.1
"""The share of the dense matrix that a product may take besides."""

ROUNDS = 20

Product = Callable[[Any, Any], Any]


def matrix() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("float32")


def in_turns(
    ours: Callable[[int], Any], theirs: Callable[[int], Any], weights: int, finish: Any
) -> Ratio:
    """Seconds a product, the two in turn, over as many weights."""

    def timed(f: Callable[[int], Any]) -> float:
        start = perf_counter()
        for i in range(weights):
            finish(f(i))
        return (perf_counter() - start) / weights

    for f in (ours, theirs):
        timed(f)
    rounds = ROUNDS if weights == 1 else ROUNDS // 5
    pairs = [(timed(ours), timed(theirs)) for _ in range(rounds)]
    return Ratio.of(*map(list, zip(*pairs, strict=True)))


def copies(x: Any, count: int, array: Callable[[Any], Any]) -> list[Any]:
    """As many equal arrays, each in memory of its own."""
    if isinstance(x, Quantized):
        return [x.each(lambda part: array(np.array(part))) for _ in range(count)]
    return [array(np.array(x)) for _ in range(count)]


def lines(
    name: str,
    dense: Sequence[Any],
    packed: Sequence[Any],
    forms: tuple[Product, Product, Product | None],
    x: Any,
    judged: tuple[Any, float],
) -> Iterator[Line]:
    """One matrix again and again, and all in turn, against the dense one and the usual way."""
    product, plain, usual = forms
    finish, target = judged
    m = x.shape[0]
    for weights, how in ((1, "hot"), (WEIGHTS, "in turn")):
        ratio = in_turns(
            lambda i: product(x, packed[i]), lambda i: plain(x, dense[i]), weights, finish
        )
        yield Line(f"{name}, {m} rows, {how}: dense", ratio, target)
        if usual is not None:
            ratio = in_turns(
                lambda i: product(x, packed[i]), lambda i: usual(x, packed[i]), weights, finish
            )
            yield Line(f"{name}, {m} rows, {how}: usual", ratio, 1.0)


@benchmark("implicit matmul jax", long=True)
def with_jax() -> Iterator[Line]:
    """Compiled by ``jax.jit``, packed along each axis; what XLA says that it takes besides."""
    yield from experts_with_jax()
    plain = jax.jit(lambda x, w: x @ w)
    product = jax.jit(implicit(lambda x, w: x @ w))
    usual = jax.jit(lambda x, w: x @ w.materialize())
    w = matrix()
    dense = copies(w, WEIGHTS, jnp.asarray)
    for kind, axis in product_of(KINDS, (-1, -2)):
        packed = copies(quantize(w, kind, axis=axis), WEIGHTS, jnp.asarray)
        for m in COUNTS:
            x = jnp.asarray(np.random.default_rng(1).standard_normal((m, ROWS)), "float32")
            agree(product(x, packed[0]), usual(x, packed[0]), rtol=1e-5)
            forms = (product, plain, usual)
            name = f"JAX {kind} along {axis}"
            yield from lines(name, dense, packed, forms, x, (jax.block_until_ready, TARGETS[m]))
            found = product.lower(x, packed[0]).compile().memory_analysis()
            taken = float(found.temp_size_in_bytes)
            share = taken / w.nbytes
            ratio = Ratio(taken, w.nbytes, share, share)
            yield Line(f"{name}, {m} rows: besides", ratio, MEMORY, "MB")


@benchmark("implicit matmul mlx", long=True)
def with_mlx() -> Iterator[Line]:
    """Compiled by ``graphc.function``, both.

    NF4, and codes along axis -2 on the processor, MLX has no fast kernel for.
    """
    yield from experts_with_mlx()
    w = matrix()
    x, matrix_ = gt.matrix("x", dtype="float32"), gt.matrix("w", dtype="float32")
    plain = graphc.function([x, matrix_], x @ matrix_, mode="MLX")
    dense = copies(w, WEIGHTS, mx.array)
    for kind, axis in product_of(KINDS, (-1, -2)):
        q = quantize(w, kind, axis=axis)
        symbol = gt.implicit(q, name="q")
        with materializing("error"):
            product = graphc.function([x, symbol], x @ symbol, mode="MLX")
        packed = copies(q, WEIGHTS, mx.array)
        for m in COUNTS:
            rows = mx.array(np.random.default_rng(1).standard_normal((m, ROWS)).astype("float32"))
            forms = (product, plain, None if kind == "nf4" else _usual_mlx)
            target = TARGETS[m] if axis == -1 and kind != "nf4" else 1.5
            name = f"MLX {kind} along {axis}"
            yield from lines(name, dense, packed, forms, rows, (mx.eval, target))
            share = _peak(product, (rows, packed[0]), ROWS * COLUMNS * 4)
            yield Line(f"{name}, {m} rows: besides", share, MEMORY, "MB")


def _usual_mlx(x: Any, q: Any) -> Any:
    w = mx.dequantize(q.packed, q.scales, q.biases, group_size=q.group_size, bits=q.bits)
    return x @ (w.T if q.transposed else w)


def _peak(f: Callable[..., Any], arrays: Sequence[Any], dense: int) -> Ratio:
    """The most bytes that a function takes besides its operands, against the dense matrix."""
    mx.eval(f(*arrays))
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(f(*arrays))
    taken = float(mx.get_peak_memory() - before)
    return Ratio(taken, dense, taken / dense, taken / dense)


EXPERTS = 8
"""So many matrices, of which an index or group sizes choose one for each of as many rows twice."""


def _experts() -> tuple[Any, Any, Any, Any]:
    """Dense matrices, the same packed, rows, and the matrix of each, in order."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((EXPERTS, 256, 1024)).astype("float32")
    x = rng.standard_normal((2 * EXPERTS, 256)).astype("float32")
    return w, quantize(w, "int4"), x, np.sort(rng.integers(0, EXPERTS, len(x))).astype("int32")


def experts_with_jax() -> Iterator[Line]:
    """``lax.ragged_dot`` of packed experts against that of dense ones."""
    w, q, x, chosen = _experts()
    sizes = np.bincount(chosen, minlength=EXPERTS).astype("int32")
    x, sizes, w, q = jnp.asarray(x), jnp.asarray(sizes), jnp.asarray(w), q.each(jnp.asarray)
    plain = jax.jit(jax.lax.ragged_dot)
    product = jax.jit(implicit(jax.lax.ragged_dot))
    agree(product(x, q, sizes), plain(x, q.materialize(), sizes), rtol=1e-5)
    finish = jax.block_until_ready
    ratio = in_turns(lambda i: product(x, q, sizes), lambda i: plain(x, w, sizes), 1, finish)
    yield Line("JAX experts int4, ragged_dot: dense", ratio, 1.0)
    found = product.lower(x, q, sizes).compile().memory_analysis()
    taken = float(found.temp_size_in_bytes)
    share = taken / w.nbytes
    yield Line("JAX experts int4: besides", Ratio(taken, w.nbytes, share, share), MEMORY, "MB")


def experts_with_mlx() -> Iterator[Line]:
    """``x @ w[index]`` of packed experts against that of dense ones."""
    w, q, x, chosen = _experts()
    rows, index = gt.tensor3("x", dtype="float32"), gt.ivector("index")
    dense, packed = gt.tensor3("w", dtype="float32"), gt.implicit(q, name="q")
    plain = graphc.function([rows, dense, index], rows @ dense[index], mode="MLX")
    with materializing("error"):
        product = graphc.function([rows, packed, index], rows @ packed[index], mode="MLX")
    x, index, w = mx.array(x[:, None]), mx.array(chosen), mx.array(w)
    q = q.each(mx.array)
    ratio = in_turns(lambda i: product(x, q, index), lambda i: plain(x, w, index), 1, mx.eval)
    yield Line("MLX experts int4, by an index: dense", ratio, 1.0)
    yield Line("MLX experts int4: besides", _peak(product, (x, q, index), w.nbytes), MEMORY, "MB")
