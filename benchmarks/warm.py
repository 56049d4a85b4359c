"""The time until a first result in processes of their own: of kept executables, of large arrays.

``python -m benchmarks.warm WAY FOLDER`` makes one program and calls it, and prints the seconds
from the end of the imports, the device being there, to the result. What a way keeps for the next
process goes to the folder, so that a second run with the same folder is a warm one.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
from jax.experimental import serialize_executable

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import Ratio, milliseconds

REPEATS = 5
SIDE = 5_000
"""Rows and columns of a captured matrix: 100 MB of float32."""

Arrays = Sequence[Any]
Way = Callable[[Arrays, Path], Any]


def random(*shapes: tuple[int, ...]) -> list[Any]:
    """Arrays, normally distributed."""
    numbers = np.random.default_rng(0)
    return [0.2 * numbers.standard_normal(shape, dtype="float32") for shape in shapes]


# The RNN of the benchmark of loops, with its gradient by the weights.


def network(arrays: Arrays, folder: Path) -> Any:
    """By graphc, which keeps what it compiles by itself."""
    x, w, u, b = (gt.tensor(dtype="float32", shape=(None,) * x.ndim) for x in arrays)
    states = graphc.scan(
        lambda row, h: gt.tanh(row @ w + h @ u + b),
        sequences=x,
        outputs_info=gt.zeros((16, 32), "float32"),
    )
    loss = (states**2).mean()
    return graphc.function([x, w, u, b], [loss, *graphc.grad(loss, [w, u, b])])(*arrays)


def loss_by_hand(x: Any, w: Any, u: Any, b: Any) -> Any:
    """The same in JAX; the product is taken out of the loop."""

    def step(h: Any, row: Any) -> Any:
        h = jnp.tanh(row + h @ u)
        return h, h

    return (jax.lax.scan(step, jnp.zeros((16, 32), "float32"), x @ w + b)[1] ** 2).mean()


def jitted() -> Any:
    """The same and its gradient, by JAX."""
    return jax.jit(jax.value_and_grad(loss_by_hand, argnums=(1, 2, 3)))


def network_by_jax(arrays: Arrays, folder: Path) -> Any:
    """By JAX, which keeps nothing."""
    return jitted()(*arrays)


def network_from_cache(arrays: Arrays, folder: Path) -> Any:
    """By JAX with its own persistent cache, of everything."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return jitted()(*arrays)


def network_serialised(arrays: Arrays, folder: Path) -> Any:
    """By an executable that JAX made ahead of time, in a file."""
    kept = folder / "executable"
    if kept.exists():
        call = serialize_executable.deserialize_and_load(*pickle.loads(kept.read_bytes()))
    else:
        call = jitted().lower(*arrays).compile()
        kept.write_bytes(pickle.dumps(serialize_executable.serialize(call)))
    return call(*arrays)


# A product with a large matrix, and its gradient.


def product(mode: str, captured: bool, arrays: Arrays, folder: Path) -> Any:
    """By graphc, the matrix captured or an argument."""
    x, matrix = gt.vector("x", dtype="float32"), gt.matrix("matrix", dtype="float32")
    loss = (gt.tanh((arrays[0] if captured else matrix) @ x) ** 2).sum()
    outputs = [loss, graphc.grad(loss, x)]
    if captured:
        return graphc.function([x], outputs, mode=mode)(arrays[1])
    return graphc.function([matrix, x], outputs, mode=mode)(*arrays)


def product_by_jax(captured: bool, arrays: Arrays, folder: Path) -> Any:
    """The same by JAX."""

    def loss(x: Any, matrix: Any) -> Any:
        return (jnp.tanh(matrix @ x) ** 2).sum()

    if captured:
        return jax.jit(jax.value_and_grad(lambda x: loss(x, arrays[0])))(arrays[1])
    return jax.jit(jax.value_and_grad(loss))(arrays[1], arrays[0])


NETWORK = ((200, 16, 32), (32, 32), (32, 32), (32,))
PRODUCT = ((SIDE, SIDE), (SIDE,))
WAYS: dict[str, tuple[Way, tuple[tuple[int, ...], ...]]] = {
    "graphc": (network, NETWORK),
    "JAX": (network_by_jax, NETWORK),
    "cache": (network_from_cache, NETWORK),
    "serialised": (network_serialised, NETWORK),
    "captured JAX": (partial(product, "JAX", True), PRODUCT),
    "argument JAX": (partial(product, "JAX", False), PRODUCT),
    "captured MLX": (partial(product, "MLX", True), PRODUCT),
    "argument MLX": (partial(product, "MLX", False), PRODUCT),
    "captured by hand": (partial(product_by_jax, True), PRODUCT),
    "argument by hand": (partial(product_by_jax, False), PRODUCT),
}
"""What each way does, and the shapes of its arguments."""


def main(way: str, folder: str) -> None:
    """Print the seconds to the first result, and a sum of it."""
    run, shapes = WAYS[way]
    arrays = random(*shapes)
    # What a process does once whatever it computes; each mode imports its lowerings.
    jax.block_until_ready(jax.device_put(np.zeros(1)))
    mx.eval(mx.zeros(()) + 1)
    graphc.get_mode("MLX" if "MLX" in way else "JAX")
    start = perf_counter()
    found = jax.block_until_ready(jax.tree.leaves(run(arrays, Path(folder))))
    seconds = perf_counter() - start
    sys.stdout.write(json.dumps([seconds, *(float(np.abs(np.asarray(y)).sum()) for y in found)]))


def runs(way: str, times: int) -> list[float]:
    """Seconds of processes one after the other, with a new folder; all find the same numbers."""
    with TemporaryDirectory() as folder:
        done = [
            subprocess.run(
                [sys.executable, "-m", "benchmarks.warm", way, folder],
                cwd=Path(__file__).parents[1],
                env={**os.environ, "TMPDIR": folder, "GRAPHC_CACHE_DIR": f"{folder}/graphc"},
                capture_output=True,
                check=True,
            )
            for _ in range(times)
        ]
    found = [json.loads(each.stdout) for each in done]
    for each in found:
        np.testing.assert_allclose(each[1:], WANTED.setdefault(way, each[1:]), rtol=1e-3)
    return [seconds for seconds, *_ in found]


WANTED: dict[str, list[float]] = {}
"""The numbers that each way found first."""


@benchmark("cache warm")
def warm_starts() -> Iterator[Line]:
    ways = ("graphc", "JAX", "cache", "serialised")
    rounds = [{way: runs(way, 2) for way in ways} for _ in range(REPEATS)]
    for way in ways:
        np.testing.assert_allclose(WANTED[way], WANTED["JAX"], rtol=1e-3)
        first, second = ([each[way][i] for each in rounds] for i in (0, 1))
        write(f"  {way}: cold {milliseconds(min(first))}, warm {milliseconds(min(second))} ms")
    cold, warm = ([each["graphc"][i] for each in rounds] for i in (0, 1))
    yield Line("warm start of RNN + gradient, by cold", Ratio.of(warm, cold), 0.2)
    for way, i, title, target in (
        ("cache", 1, "by JAX's persistent cache", 1.0),
        ("serialised", 1, "by a serialised executable", 1.5),
        ("JAX", 0, "by JAX, cold", 0.2),
    ):
        yield Line(f"  {title}", Ratio.of(warm, [each[way][i] for each in rounds]), target)
    yield Line(
        "cold start of it, by JAX's", Ratio.of(cold, [each["JAX"][0] for each in rounds]), 1.5
    )


@benchmark("cache captured")
def captured_arrays() -> Iterator[Line]:
    for way in ("JAX", "MLX", "by hand"):
        kinds = (f"captured {way}", f"argument {way}")
        rounds = [[runs(kind, 1)[0] for kind in kinds] for _ in range(REPEATS)]
        np.testing.assert_allclose(WANTED[kinds[0]], WANTED[kinds[1]], rtol=1e-3)
        captured, argument = ([each[i] for each in rounds] for i in (0, 1))
        if way == "by hand":
            write(f"  by hand: {' and '.join(milliseconds(min(s)) for s in (captured, argument))}")
        else:
            title = f"100 MB captured, first call, {way}"
            yield Line(title, Ratio.of(captured, argument), 1.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
