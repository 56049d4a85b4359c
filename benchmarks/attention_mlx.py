"""Block-sparse attention beside dense attention in MLX: time, memory, compilations.

By hand are masked attention as it is written, compiled by MLX, and
``mx.fast.scaled_dot_product_attention``; the dense mask of either is an argument. graphc is a
compiled graph that takes the block mask as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import mlx.core as mx
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.attention import (
    BLOCK,
    DIM,
    HEADS,
    KINDS,
    STEPS,
    Way,
    in_turns,
    layouts,
    mask_of,
    operands,
    windows,
)
from benchmarks.mlx import evaluated
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import Ratio, agree
from graphc.attention import BlockMask, create_block_mask, flex_attention

LENGTHS, LONG = (1024, 2048), 4096

TARGETS = {"causal": (0.55, 0.65), "window 256": (0.2, 0.25), "documents of 512": (0.3, 0.35)}
"""The share of dense attention's time at 2,048: forwards, and with gradients."""

MEMORY = 0.5
"""The share of what dense attention takes at 2,048; as much for each token of other lengths."""


def target_of(kind: str, length: int, gradients: bool) -> float:
    """As many of the blocks as are not empty are more of a shorter sequence's, but causal ones."""
    most = TARGETS[kind][gradients]
    return most if kind == "causal" else min(1.0, most * LENGTHS[-1] / length)


def dense(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = (q / DIM**0.5) @ mx.swapaxes(k, -1, -2)
    return mx.softmax(mx.where(seen, scores, -mx.inf), -1) @ v


def library(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """MLX's own."""
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=DIM**-0.5, mask=seen)


def with_gradients(attend: Callable[..., Any]) -> Callable[..., Any]:
    """Of the sum of squares, by queries, keys and values."""

    def loss(*given: Any) -> Any:
        return (attend(*given) ** 2).sum()

    return mx.value_and_grad(loss, argnums=(0, 1, 2))  # type: ignore[no-any-return]


def graph(length: int, mask: BlockMask, gradients: bool) -> graphc.Function:
    """graphc, as a compiled graph whose mask is an input."""
    given = [gt.tensor(x, shape=(1, HEADS, length, DIM), dtype="float32") for x in "qkv"]
    symbol = mask.variables("mask")
    out = flex_attention(*given, block_mask=symbol)
    if not gradients:
        return graphc.function([*given, symbol], out, mode="MLX")
    loss = (out**2).sum()
    return graphc.function([*given, symbol], [loss, *graphc.grad(loss, given)], mode="MLX")


def ways_of(kind: str, length: int, gradients: bool) -> dict[str, Way]:
    """graphc and each way by hand, that give the same."""
    mask, (q, k, v) = mask_of(kind, length), map(mx.array, operands(length))
    seen = mx.array(np.asarray(mask.to_dense()[0, 0]))
    plain, usual = (
        evaluated(mx.compile(with_gradients(f) if gradients else f)) for f in (dense, library)
    )
    compiled = graph(length, mask, gradients)
    ways: dict[str, Way] = {
        "graphc": lambda: compiled(q, k, v, mask),
        "dense": lambda: plain(q, k, v, seen),
        "mx.fast": lambda: usual(q, k, v, seen),
    }
    found, wanted = ways["graphc"](), ways["dense"]()
    # MLX adds up half a million squares in float32 one by one: such sums differ by 4e-4.
    agree(found[1:] if gradients else found, [*wanted[1]] if gradients else wanted, rtol=1e-4)
    return ways


def lines(kind: str, length: int, gradients: bool, rounds: int = 5) -> Iterator[Line]:
    """graphc against each way by hand, in one run."""
    times = in_turns(ways_of(kind, length, gradients), rounds)
    for other in ("dense", "mx.fast"):
        ratio = Ratio.of(times["graphc"], times[other])
        yield Line(f"MLX: {kind}, {length}: {other}", ratio, target_of(kind, length, gradients))


@benchmark("attention mlx forward")
def forward() -> Iterator[Line]:
    for length, kind in product(LENGTHS, KINDS):
        yield from lines(kind, length, gradients=False)


@benchmark("attention mlx long", long=True)
def long() -> Iterator[Line]:
    for kind in KINDS:
        yield from lines(kind, LONG, gradients=False, rounds=3)


@benchmark("attention mlx gradients", long=True)
def gradients() -> Iterator[Line]:
    """Forwards and backwards."""
    for length, kind in product(LENGTHS, KINDS):
        yield from lines(kind, length, gradients=True)


@benchmark("attention mlx memory")
def memory() -> Iterator[Line]:
    """The most that MLX holds at once besides operands, against dense attention."""
    for kind, gradients, length in product(KINDS, (False, True), LENGTHS):
        ways = ways_of(kind, length, gradients)
        taken, whole = (float(peak(ways[name])) for name in ("graphc", "dense"))
        way = f"MLX: {kind}, {length}" + " + gradient" * gradients
        most = MEMORY * LENGTHS[-1] / length
        yield Line(way, Ratio(taken, whole, taken / whole, taken / whole), most, "MB")


def peak(way: Way) -> int:
    """Bytes, of a second call."""
    way()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    way()
    return mx.get_peak_memory() - before


@benchmark("attention mlx retraces")
def retraces() -> Iterator[Line]:
    """How often MLX compiles in steps after the first, each with a mask of its own."""
    length = LENGTHS[0]
    given = [mx.array(x) for x in operands(length)]
    for name, masks in (("windows", windows), ("documents", layouts)):
        made = [
            create_block_mask(masks(i, length), None, None, length, length, BLOCK)
            for i in range(STEPS + 1)
        ]
        f = graph(length, made[0], gradients=True)
        for mask in made:
            f(*given, mask)
        again = f.stats.compiles - 1
        write(f"  {name}: {again} in {STEPS} steps" + " *" * bool(again))
    yield from ()
