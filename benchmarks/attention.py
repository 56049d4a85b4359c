"""Block-sparse attention beside dense attention in JAX: time, memory, masks, compilations.

By hand are masked attention as it is written, whose dense mask is an argument, and
``jax.nn.dot_product_attention``; where PyTorch is there, its compiled ``flex_attention`` as well.
graphc is called with JAX arrays, and as a compiled graph; both take the block mask as an argument.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import Ratio, agree, milliseconds
from graphc.attention import (
    BlockMask,
    causal,
    create_block_mask,
    document,
    flex_attention,
    sliding_window,
)

HEADS, DIM, BLOCK = 4, 64, 128

LENGTHS = (1024, 2048, 4096)

LONG = 32_768
"""The length whose mask is made without its dense form: 1 GiB."""


def documents(length: int, each: int = 512) -> np.ndarray[Any, Any]:
    """The numbers of documents of equal length."""
    return (np.arange(length) // each).astype("int32")


KINDS: dict[str, Callable[[int], Callable[..., Any]]] = {
    "causal": lambda length: causal,
    "window 256": lambda length: sliding_window(256),
    "documents of 512": lambda length: document(documents(length)),
}
"""Mask functions by name, for a length."""

TARGETS = {"causal": (0.35, 0.4), "window 256": (0.08, 0.1), "documents of 512": (0.08, 0.1)}
"""The share of dense attention's time at the greatest length: forwards, and with gradients."""

MEMORY = 0.1
"""The share of the dense scores at the greatest length that may be stored besides operands and
results; in bytes it is as much for each token of a shorter one."""

LIMIT = 10.0
"""Milliseconds to make a mask."""

MODE = graphc.Mode("JAX", recompile="ignore")  # each length is compiled by itself, on purpose

ROUNDS = 7

Way = Callable[[], Any]


def target_of(kind: str, length: int, gradients: bool) -> float:
    """As many of the blocks as are not empty are more of a shorter sequence's, but causal ones."""
    most = TARGETS[kind][gradients]
    return most if kind == "causal" else most * LENGTHS[-1] / length


def operands(length: int) -> list[np.ndarray[Any, Any]]:
    """Queries, keys and values (1, heads, length, dim)."""
    rng = np.random.default_rng(0)
    shape = (1, HEADS, length, DIM)
    return [rng.standard_normal(shape).astype("float32") for _ in range(3)]


def mask_of(kind: str, length: int) -> BlockMask:
    return create_block_mask(KINDS[kind](length), None, None, length, length, BLOCK)


# The same function by graphc and by hand.


def arrays(q: Any, k: Any, v: Any, mask: BlockMask) -> Any:
    """graphc, of JAX arrays."""
    return flex_attention(q, k, v, block_mask=mask)


def dense(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = jnp.einsum("bhqe,bhke->bhqk", q, k) / DIM**0.5
    return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)) @ v


def library(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """JAX's own; its heads come after lengths."""
    return jax.nn.dot_product_attention(q, k, v, mask=seen[None, None])


def with_gradients(attend: Callable[..., Any]) -> Callable[..., Any]:
    """Of the sum of squares, by queries, keys and values."""

    def loss(*given: Any) -> Any:
        return (attend(*given) ** 2).sum()

    return jax.value_and_grad(loss, argnums=(0, 1, 2))


def graph(length: int, mask: BlockMask, gradients: bool) -> graphc.Function:
    """graphc, as a compiled graph whose mask is an input."""
    given = [gt.tensor(x, shape=(1, HEADS, length, DIM), dtype="float32") for x in "qkv"]
    symbol = mask.variables("mask")
    out = flex_attention(*given, block_mask=symbol)
    loss = (out**2).sum()
    results = [loss, *graphc.grad(loss, given)] if gradients else out
    return graphc.function([*given, symbol], results, mode=MODE)


def in_turns(ways: dict[str, Way], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of each call, the ways after each other, from either end."""
    for way in ways.values():
        jax.block_until_ready(way())
    times: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(rounds):
        for name in list(ways)[:: 1 if i % 2 else -1]:
            start = perf_counter()
            jax.block_until_ready(ways[name]())
            times[name].append(perf_counter() - start)
    return times


def lines(kind: str, length: int, gradients: bool) -> Iterator[Line]:
    """Both of graphc's forms against each way by hand, in one run."""
    mask, (q, k, v) = mask_of(kind, length), map(jnp.asarray, operands(length))
    seen = jnp.asarray(mask.to_dense()[0, 0])
    turned = [jnp.swapaxes(x, 1, 2) for x in (q, k, v)]
    ours, plain, usual = (
        jax.jit(with_gradients(f) if gradients else f) for f in (arrays, dense, library)
    )
    compiled = graph(length, mask, gradients)
    ways: dict[str, Way] = {
        "arrays": lambda: ours(q, k, v, mask),
        "graph": lambda: compiled(q, k, v, mask),
        "dense": lambda: plain(q, k, v, seen),
        "jax.nn": lambda: usual(*turned, seen),
    }
    wanted = jax.tree.leaves(ways["dense"]())
    agree(jax.tree.leaves(ways["arrays"]()), wanted, rtol=1e-4)
    agree(jax.tree.leaves(ways["graph"]()), wanted, rtol=1e-4)
    if not gradients and pytorch_flex():
        ways["PyTorch"] = pytorch(kind, length, wanted[0])
    times = in_turns(ways)
    most = target_of(kind, length, gradients)
    for mine, other in product(("arrays", "graph"), list(ways)[2:]):
        # What others do about blocks has no bearing on the share of dense attention.
        wanted_share = 1.0 if other == "PyTorch" else most
        name = f"{kind}, {length}, {mine}: {other}"
        yield Line(name, Ratio.of(times[mine], times[other]), wanted_share)


@benchmark("attention forward")
def forward() -> Iterator[Line]:
    if not pytorch_flex():
        write("  PyTorch is not here")
    for length, kind in product(LENGTHS, KINDS):
        yield from lines(kind, length, gradients=False)


@benchmark("attention gradients", long=True)
def gradients() -> Iterator[Line]:
    """Forwards and backwards; PyTorch does not go back on processors."""
    for length, kind in product(LENGTHS, KINDS):
        yield from lines(kind, length, gradients=True)


@benchmark("attention memory")
def memory() -> Iterator[Line]:
    """What XLA stores besides operands and results, for any mask, against the dense scores."""
    for gradients, length in product((False, True), LENGTHS):
        mask, given = mask_of("causal", length), [jnp.asarray(x) for x in operands(length)]
        ours = with_gradients(arrays) if gradients else arrays
        for name, f in (("arrays", ours), ("graph", graph(length, mask, gradients))):
            found = jax.jit(f).lower(*given, mask).compile().memory_analysis()
            taken, scores = float(found.temp_size_in_bytes), 4.0 * HEADS * length**2
            share, most = taken / scores, MEMORY * LENGTHS[-1] / length
            way = f"besides, {length}, {name}" + " + gradient" * gradients
            yield Line(way, Ratio(taken, scores, share, share), most, "MB")


@benchmark("attention masks")
def masks() -> Iterator[Line]:
    """Milliseconds to make a mask, beside PyTorch's; bytes that are needed to make a long one."""
    write(f"  milliseconds to make a mask, at most {LIMIT}")
    for length, kind in product(LENGTHS, KINDS):
        ways: dict[str, Way] = {"graphc": partial(mask_of, kind, length)}
        if pytorch_flex():
            ways["PyTorch"] = pytorch_mask(kind, length)
        times = in_turns(ways, rounds=20)
        shown = ", ".join(f"{name} {milliseconds(median(times[name]))}" for name in ways)
        write(f"  {kind}, {length}: {shown}" + " *" * (median(times["graphc"]) * 1e3 > LIMIT))
    for kind in KINDS:
        tracemalloc.start()
        mask_of(kind, LONG)
        taken = float(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        whole = float(LONG**2)
        yield Line(
            f"mask of {kind}, {LONG}", Ratio(taken, whole, taken / whole, taken / whole), 0.01, "MB"
        )


# What is compiled again.

COMPILED = "/jax/core/compile/backend_compile_duration"
"""JAX's event for each executable that it makes."""

STEPS = 20


def windows(i: int, length: int) -> Callable[..., Any]:
    """Another width each time."""
    return sliding_window(100 + 37 * i)


def layouts(i: int, length: int) -> Callable[..., Any]:
    """Other documents each time, as many tokens in all."""
    ends = np.random.default_rng(i).choice(length, size=7, replace=False)
    return document(np.searchsorted(np.sort(ends), np.arange(length)).astype("int32"))


@benchmark("attention retraces")
def retraces() -> Iterator[Line]:
    """How much JAX compiles in steps after the first, each with a mask of its own."""
    length = LENGTHS[0]
    given = [jnp.asarray(x) for x in operands(length)]
    compilations: list[float] = []

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event == COMPILED:
            compilations.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    for name, masks in (("windows", windows), ("documents", layouts)):
        first = create_block_mask(masks(0, length), None, None, length, length, BLOCK)
        ways = {
            "arrays": jax.jit(with_gradients(arrays)),
            "arrays, not in jax.jit": with_gradients(arrays),
            "graph": graph(length, first, gradients=True),
        }
        for way, f in ways.items():
            jax.block_until_ready(f(*given, first))
            compilations.clear()
            for i in range(1, STEPS + 1):
                mask = create_block_mask(masks(i, length), None, None, length, length, BLOCK)
                jax.block_until_ready(f(*given, mask))
            again = len(compilations)
            write(f"  {name}, {way}: {again} in {STEPS} steps" + " *" * bool(again))
    jax.monitoring.clear_event_listeners()
    yield from ()


# PyTorch, where it is installed.


@cache
def pytorch_flex() -> Any:
    """Its module of flex attention, or None."""
    try:
        return import_module("torch.nn.attention.flex_attention")
    except ImportError:
        return None


def pytorch_function(kind: str, length: int, device: str = "cpu") -> Callable[..., Any]:
    torch = import_module("torch")
    ids = torch.from_numpy(documents(length)).to(device)
    functions: dict[str, Callable[..., Any]] = {
        "causal": lambda b, h, q, k: q >= k,
        "window 256": lambda b, h, q, k: (q >= k) & (q - k < 256),
        "documents of 512": lambda b, h, q, k: ids[q] == ids[k],
    }
    return functions[kind]


def pytorch_mask(kind: str, length: int) -> Way:
    function = pytorch_function(kind, length)
    create = pytorch_flex().create_block_mask
    return lambda: create(function, None, None, length, length, device="cpu")


def pytorch(kind: str, length: int, wanted: Any) -> Way:
    """Its compiled flex attention, which gives the same."""
    torch = import_module("torch")
    attend = torch.compile(pytorch_flex().flex_attention)
    mask = pytorch_mask(kind, length)()
    given = [torch.from_numpy(x) for x in operands(length)]

    def call() -> Any:
        with torch.no_grad():
            return attend(*given, block_mask=mask)

    agree(call().numpy(), np.asarray(wanted), rtol=1e-4)
    return call
