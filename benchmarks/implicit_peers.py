"""graphc's implicit arrays beside those of quax, qwix and eformer, in one run.

The same arrays and functions in each: products with quantised weights, an adapter of low rank and
its gradient, the tracing of a network, and a call of a compiled function. What a library does not
have it is not timed for, and one that is not installed is named. All but eformer
come with ``pip install graphc[bench]``; it wants another version of what quax is made of, and goes
into an environment of its own, by ``pip install graphc[mlx,bench]`` and then ``eformer``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.implicit_tracing import operands, others, traced
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import Ratio, agree, compared
from graphc.implicit import LoRA, implicit
from graphc.implicit.quantized import quantize

OUT, IN = 4096, 1024
"""The lengths of a weight as a network has it: ``x @ w.T``."""

COUNTS = (1, 16, 256)
"""The numbers of rows of x."""

GROUP = 64
"""Neighbours along the summed axis that share a scale, where a library has groups."""

CHANNELS = {"symmetric": True, "channel_axes": (0,)}
"""One scale for each row of a weight."""

KINDS = ("int8", "int4", "nf4")
LAYERS = 12
BLOCKS = 20

TOLERANCE = {"int8": 0.02, "int4": 0.25, "nf4": 0.25}
"""Of the largest: products of two quantisations of one matrix differ by their errors."""

Product = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Peer:
    """What a library has of all this.

    Attributes:
        product: ``x @ w.T`` with a quantised weight of its own.
        kinds: For each kind, the function that makes such a weight of a dense one.
        options: For each kind what graphc is told so that it quantises alike.
        adapter: ``x @ w.T`` with a weight to which a product of low rank is added.
        adapted: Makes one of w's transpose and the two factors.
    """

    product: Product | None = None
    kinds: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    adapter: Product | None = None
    adapted: Callable[[Any, Any, Any], Any] | None = None


CALL_TARGET = 1.1

NAMED = 2.0
"""Beside qwix, whose products are called by name: there JAX traces the function once, not twice."""

MEMORY = 1.1
"""For a row alone XLA decodes all that is written as one within the product, and takes nothing."""


def _usual() -> Peer:
    """Decode all, then multiply, as is written without a library; codes are graphc's."""
    return Peer(
        lambda x, w: x @ w.materialize().T,
        {kind: partial(quantize, kind=kind) for kind in KINDS},
        adapter=lambda x, w: x @ w[0] + (x @ w[1]) @ w[2],
        adapted=lambda w, a, b: (w, a, b),
    )


def _qwix() -> Peer:
    qwix = import_module("qwix")
    # Weights are kept as x @ w takes them: QArray has no transpose.
    kinds = {
        kind: lambda w, kind=kind: qwix.quantize(
            w.T, kind, channelwise_axes=(1,), tiled_axes={0: GROUP}
        )
        for kind in KINDS
    }
    return Peer(qwix.dot, kinds, {key: {"symmetric": True} for key in ("int8", "int4")})


def _quax() -> Peer:
    """It has no quantised arrays."""
    quax, lora = import_module("quax"), import_module("quax.examples.lora")

    def adapted(w: Any, a: Any, b: Any) -> Any:
        made = lora.LoraArray(w, rank=a.shape[1], stop_gradient=False, key=jax.random.key(0))
        object.__setattr__(made, "a", a)
        object.__setattr__(made, "b", b)
        return made

    return Peer(adapter=quax.quaxify(lambda x, w: x @ w), adapted=adapted)


def _eformer() -> Peer:
    jaximus = import_module("eformer.jaximus")
    quantization = import_module("eformer.ops.quantization")
    kinds = {"int8": quantization.Array8B.quantize, "nf4": quantization.ArrayNF4.quantize}
    product = jaximus.implicit(lambda x, w: x @ w.T)
    # Whatever dtype it is told, int8 has products in bfloat16.
    return Peer(lambda x, w: product(x, w).astype(x.dtype), kinds, {"int8": CHANNELS})


PEERS: dict[str, Callable[[], Peer]] = {
    "usual": _usual,
    "qwix": _qwix,
    "quax": _quax,
    "eformer": _eformer,
}


@cache
def peers() -> dict[str, Peer]:
    """Those that are installed; others are named."""
    found = {}
    for name, make in PEERS.items():
        try:
            found[name] = make()
        except ImportError as error:
            write(f"  {name} is not timed, as it can't be imported: {error}")
    return found


def taken(f: Callable[..., Any], *args: Any) -> float:
    """The bytes of a compiled function's arguments and temporaries, as XLA plans them."""
    found = jax.jit(f).lower(*args).compile().memory_analysis()
    return float(found.temp_size_in_bytes + found.argument_size_in_bytes)


def both(
    name: str, ours: Callable[..., Any], theirs: Callable[..., Any], mine: Any, other: Any
) -> Iterator[Line]:
    """Time and memory of two functions of arguments of their own."""
    f, g = jax.jit(ours), jax.jit(theirs)
    ratio = compared(lambda: f(*mine), lambda: g(*other), blocks=BLOCKS)
    yield Line(name, ratio, 1.0)
    a, b = taken(ours, *mine), taken(theirs, *other)
    yield Line(f"{name}: memory", Ratio(a, b, a / b, a / b), MEMORY, "MB")


def arrays(*shapes: tuple[int, ...]) -> list[jax.Array]:
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.standard_normal(shape), "float32") for shape in shapes]


@benchmark("implicit peers product", long=True)
def products() -> Iterator[Line]:
    """Each kind and number of rows; both quantise one matrix."""
    ours = implicit(lambda x, w: x @ w.T)
    (dense,) = arrays((OUT, IN))
    for kind in KINDS:
        for name, peer in peers().items():
            if kind not in peer.kinds:
                write(f"  {name} has no {kind} product")
                continue
            product: Any = peer.product
            w = quantize(dense, kind, **peer.options.get(kind, {}))
            other = peer.kinds[kind](dense)
            for m in COUNTS:
                (x,) = arrays((m, IN))
                agree(ours(x, w), product(x, other), rtol=TOLERANCE[kind])
                title = f"{kind}, {m} rows: {name}"
                yield from both(title, ours, product, (x, w), (x, other))


@benchmark("implicit peers adapter", long=True)
def adapters() -> Iterator[Line]:
    """An adapter of rank 8 on a dense weight: the product, and the gradient by its factors."""
    ours = implicit(lambda x, w: x @ w)
    w, a, b = arrays((IN, OUT), (IN, 8), (8, OUT))
    for name, peer in peers().items():
        if peer.adapted is None:
            write(f"  {name} has no adapter outside its layers")
            continue
        adapted, theirs = peer.adapted, peer.adapter
        for m in COUNTS:
            (x,) = arrays((m, IN))
            mine, other = LoRA(w, a, b), adapted(w, a, b)
            agree(ours(x, mine), theirs(x, other), rtol=1e-4)  # type: ignore[misc]
            yield from both(f"adapter, {m} rows: {name}", ours, theirs, (x, mine), (x, other))  # type: ignore[arg-type]
            f = _slope(ours, lambda a, b: LoRA(w, a, b))
            g = _slope(theirs, lambda a, b, adapted=adapted: adapted(w, a, b))
            agree(f(x, a, b), g(x, a, b), rtol=1e-3)
            yield from both(f"adapter's gradient, {m} rows: {name}", f, g, (x, a, b), (x, a, b))


def _slope(product: Any, adapted: Callable[..., Any]) -> Callable[..., Any]:
    return jax.grad(lambda x, a, b: jnp.tanh(product(x, adapted(a, b))).sum(), (1, 2))


def transformer(x: Any, w: Any, product: Product = operator.matmul) -> Any:
    """Twelve layers of attention and a network, all with one weight, of width by width."""
    for _ in range(LAYERS):
        queries, keys, values = product(x, w), product(x, w), product(x, w)
        scores = jax.nn.softmax(queries @ keys.T / x.shape[1] ** 0.5)
        x = x + product(scores @ values, w)
        x = x + product(jax.nn.gelu(product(x, w)), w)
        x = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    return x


@benchmark("implicit peers tracing")
def tracing() -> Iterator[Line]:
    """With one handler of a product in each; in qwix, whose products are called by name, int8."""
    x, w = operands()
    for name, wrap, other in others(w):
        agree(implicit(transformer)(x, w), wrap(transformer)(x, other), rtol=1e-3)
        ours, theirs = traced(implicit, transformer, x, w), traced(wrap, transformer, x, other)
        yield Line(f"tracing 12 layers: {name}", compared(ours, theirs, blocks=BLOCKS), 1.0)
    if "qwix" in peers():
        x, dense = arrays((16, 64), (64, 64))
        peer = peers()["qwix"]
        ours = traced(
            implicit, transformer, x, quantize(dense.T, "int8", symmetric=True).matrix_transpose()
        )
        named = partial(transformer, product=peer.product)  # type: ignore[arg-type]
        theirs = traced(lambda f: f, named, x, peer.kinds["int8"](dense.T))
        yield Line("tracing 12 layers: qwix", compared(ours, theirs, blocks=BLOCKS), NAMED)


@benchmark("implicit peers call")
def calls() -> Iterator[Line]:
    """A call of a compiled function that is given a weight and does nothing with it."""
    x, dense = arrays((1, 64), (64, 64))
    a, b = arrays((64, 8), (8, 64))
    f, g = jax.jit(lambda x, w: x), jax.jit(lambda x, w: x)
    for name, peer in peers().items():
        if name == "usual":
            continue
        if "int8" in peer.kinds:
            # As many arrays as peers have: without biases.
            mine, other = quantize(dense, "int8", symmetric=True), peer.kinds["int8"](dense)
        elif peer.adapted is not None:
            mine, other = LoRA(dense, a, b), peer.adapted(dense, a, b)
        else:
            continue
        yield Line(
            f"a call: {name}", compared(partial(f, x, mine), partial(g, x, other)), CALL_TARGET
        )
