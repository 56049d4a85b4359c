"""Programs of the other benchmarks with sizes for a GPU, beside JAX's own functions and PyTorch.

``--small`` has sizes that a CPU can run, to see that all of it works. cuDNN and PyTorch are left
out where they are not installed, or do not take a mask or a dtype; the line says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks import attention, loops, steady
from benchmarks.attention import KINDS, mask_of, pytorch_flex, pytorch_function
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import Ratio, agree, compared
from graphc.attention import flex_attention
from graphc.implicit import implicit, quantize

is_small = False
"""Whether sizes are those for a CPU."""

DTYPES = ("bfloat16", "float32")

TOLERANCE = {"bfloat16": 5e-2, "float32": 5e-3}
"""Of results, relative to the largest: TF32 has ten bits."""


@benchmark("gpu loops")
def long_loops() -> Iterator[Line]:
    """In full precision: errors of TF32 grow from step to step."""
    sizes = [(20, 4, 8)] if is_small else [(1_000, 256, 1_024), (200, 16, 32)]
    with jax.default_matmul_precision("highest"):
        for size in sizes:
            yield from loops.recurrent_network(*size)
        yield from loops.linear_recurrence(*((100, 8) if is_small else (10_000, 1_024)))
        yield from loops.kalman_filter(20 if is_small else 1_000)


@benchmark("gpu chain")
def chain() -> Iterator[Line]:
    yield from steady.chain(10_000 if is_small else 100_000_000)


@benchmark("gpu attention")
def long_attention() -> Iterator[Line]:
    lengths = (256,) if is_small else (4_096, 16_384)
    for length, kind, dtype in product(lengths, KINDS, DTYPES):
        for gradients in (False, True):
            yield from _attention(kind, length, dtype, gradients=gradients)


def _attention(kind: str, length: int, dtype: str, *, gradients: bool) -> Iterator[Line]:
    """graphc's attention against each function that takes the mask."""
    mask = mask_of(kind, length)
    q, k, v = (jnp.asarray(x, dtype) for x in attention.operands(length))
    attend = partial(flex_attention, block_mask=mask)
    ours = jax.jit(attention.with_gradients(attend) if gradients else attend)
    wanted = jax.block_until_ready(ours(q, k, v))
    title = f"{kind}, {length}, {dtype}{', gradients' if gradients else ''}"
    for name, way in _ways(kind, length, gradients=gradients):
        try:
            values = way(q, k, v)
            agree(_wide(wanted), _wide(values), rtol=TOLERANCE[dtype])
            yield Line(f"{title}: {name}", compared(ours, way, q, k, v, blocks=20), 1.0)
        except (RuntimeError, ValueError, NotImplementedError) as error:
            write(f"  {title}: {name}: {str(error).splitlines()[0][:100]}")
    if pytorch_flex() and not gradients and not is_small:
        yield _pytorch(kind, length, dtype, partial(ours, q, k, v), title)


def _wide(values: Any) -> Any:
    return jax.tree.map(lambda x: np.asarray(x, "float32"), values)


def _ways(kind: str, length: int, *, gradients: bool) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield ``jax.nn.dot_product_attention`` by XLA with a dense mask, and by cuDNN with a kind."""
    seen = jnp.asarray(mask_of(kind, length).to_dense())
    settings: dict[str, dict[str, Any]] = {"XLA": {"mask": seen, "implementation": "xla"}}
    if kind == "causal":
        settings["cuDNN"] = {"is_causal": True, "implementation": "cudnn"}
    elif kind.startswith("window"):
        settings["cuDNN"] = {"local_window_size": (255, 0), "implementation": "cudnn"}
    for name, options in settings.items():

        def call(q: Any, k: Any, v: Any, options: Any = options) -> Any:
            turned = [jnp.swapaxes(x, 1, 2) for x in (q, k, v)]
            return jnp.swapaxes(jax.nn.dot_product_attention(*turned, **options), 1, 2)

        yield name, jax.jit(attention.with_gradients(call) if gradients else call)


def _pytorch(kind: str, length: int, dtype: str, ours: Callable[[], Any], title: str) -> Line:
    """Its compiled flex attention on the GPU, whose clock is read when it has finished."""
    torch = import_module("torch")
    compiled = torch.compile(pytorch_flex().flex_attention)
    function = pytorch_function(kind, length, "cuda")
    mask = pytorch_flex().create_block_mask(function, None, None, length, length, device="cuda")
    given = [
        torch.from_numpy(x).to("cuda", getattr(torch, dtype)) for x in attention.operands(length)
    ]

    def theirs() -> Any:
        with torch.no_grad():
            y = compiled(*given, block_mask=mask)
        torch.cuda.synchronize()
        return y

    agree(_wide(ours()), theirs().float().cpu().numpy(), rtol=TOLERANCE[dtype])
    times = attention.in_turns({"graphc": ours, "PyTorch": theirs}, rounds=40)
    return Line(f"{title}: PyTorch", Ratio.of(times["graphc"], times["PyTorch"]), 1.3)


@benchmark("gpu packed")
def packed_products() -> Iterator[Line]:
    """Products with packed codes, beside the dense matrix and beside decoding by hand."""
    rows, columns = (128, 256) if is_small else (4_096, 14_336)
    dense = np.random.default_rng(0).standard_normal((rows, columns)).astype("float32")
    for kind, dtype, m in product(("int8", "int4", "nf4", "w8a8"), DTYPES, (1, 16, 256)):
        q = quantize(jnp.asarray(dense), kind, axis=-2)
        x = jnp.asarray(np.random.default_rng(1).standard_normal((m, rows)), dtype)
        arrays = jax.jit(implicit(jnp.matmul))
        symbol = gt.matrix("x", dtype=dtype)
        compiled = graphc.function([symbol], symbol @ q, mode="JAX", returns="native")
        w = jnp.asarray(q.materialize(), dtype)
        ways = {"dense": (jax.jit(jnp.matmul), w), "decoded": (jax.jit(_decode), q)}
        for name, (way, operand) in ways.items():
            title = f"{kind}, {m} rows, {dtype}: {name}"
            hand = partial(_call, way, operand)
            if kind != "w8a8":
                agree(_wide(compiled(x)), _wide(hand(x)), rtol=TOLERANCE[dtype])
            yield Line(title, compared(compiled, hand, x, blocks=20), 1.0)
        agree(_wide(arrays(x, q)), _wide(compiled(x)), rtol=TOLERANCE[dtype])


def _decode(x: Any, q: Any) -> Any:
    return x @ q.materialize().astype(x.dtype)


def _call(f: Callable[..., Any], operand: Any, x: Any) -> Any:
    return f(x, operand)
