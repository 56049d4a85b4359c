"""Attention in graphs over a mesh of eight devices; ``test_sharding.py`` runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

import graphc
import graphc.tensor as gt
from graphc.attention import create_block_mask, flex_attention
from graphc.compile.cache import PROGRAMS

MODE = graphc.Mode("JAX", mesh=graphc.mesh(data=4, model=2))
EXPLICIT = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
RANDOM = np.random.default_rng(0)
IDS = np.sort(RANDOM.integers(0, 3, (4, 32)))


def normal(*shape: int) -> Any:
    return RANDOM.normal(size=shape)


class Case(NamedTuple):
    """A program, its arguments, and for each kind of collective the bytes that devices exchange."""

    inputs: Any
    outputs: Any
    arguments: Any
    exchanged: dict[str, int]


def declared(shape: tuple[int, ...], sharding: tuple[Any, ...], names: str = "qkv") -> Any:
    return [gt.tensor(x, dtype="float64", shape=shape, sharding=sharding) for x in names]


def slopes(y: Any, inputs: Any) -> list[Any]:
    return [y, *graphc.grad((y**2).sum(), inputs)]


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def heads() -> Case:
    q, k, v = declared((3, 4, 12, 8), (None, "model"))
    mask = create_block_mask(causal, None, None, 12, 12, 4)
    y = flex_attention(q, k, v, block_mask=mask)
    return Case([q, k, v], slopes(y, [q, k, v]), [normal(3, 4, 12, 8) for _ in "qkv"], {})


def documents() -> Case:
    """Tables and ids of each sequence, slopes of each head, and fewer heads of keys."""
    (q,) = declared((4, 8, 32, 4), ("data", "model"), "q")
    k, v = declared((4, 4, 32, 4), ("data", "model"), "kv")
    slope = gt.vector("slope", shape=(8,), sharding=("model",))
    bias = gt.matrix("bias", shape=(4, 3), sharding=("data",))

    def same(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (gt.constant(IDS)[b, i] == gt.constant(IDS)[b, j]) & (i >= j)

    def sloped(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s - slope[h] * (i - j) + bias[b, j % 3]

    mask = create_block_mask(same, 4, None, 32, 32, 8)
    y = flex_attention(q, k, v, sloped, mask, enable_gqa=True)
    inputs = [q, k, v, slope, bias]
    arguments = [normal(*x.type.shape) for x in inputs]
    by_slope, by_bias = 4 * 8, 3 * 8  # of a device; of what the others have too
    return Case(inputs, slopes(y, inputs), arguments, {"all-reduce": by_slope + by_bias})


def one_head_of_keys() -> Case:
    (q,) = declared((4, 4, 16, 8), ("data", "model"), "q")
    k, v = declared((4, 1, 16, 8), ("data",), "kv")
    y, sums = flex_attention(q, k, v, enable_gqa=True, return_lse=True)
    arguments = [normal(4, 4, 16, 8), *[normal(4, 1, 16, 8) for _ in "kv"]]
    found = [*slopes(y, [q, k, v]), graphc.grad(sums.sum(), k)]
    return Case([q, k, v], found, arguments, {"all-reduce": 3 * 16 * 8 * 8})


def queries() -> Case:
    (q,) = declared((2, 2, 64, 4), (None, None, "data"), "q")
    k, v = declared((2, 2, 64, 4), (), "kv")
    bias = gt.matrix("bias", shape=(64, 64), sharding=("data",))
    mask = create_block_mask(causal, None, None, 64, 64, 8)
    y = flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[i, j], mask)
    inputs = [q, k, v, bias]
    arguments = [normal(*x.type.shape) for x in inputs]
    return Case(inputs, slopes(y, inputs), arguments, {"all-reduce": 2 * 2 * 2 * 64 * 4 * 8})


def layers() -> Case:
    """Heads that come of weights which are divided by columns, in a loop over layers."""
    x = gt.tensor3("x", shape=(4, 8, 16), sharding=("data",))
    columns, rows = (None, None, "model"), (None, "model")
    weights = [gt.tensor3(n, shape=(2, 16, 16), sharding=columns) for n in "abc"]
    out = gt.tensor3("out", shape=(2, 16, 16), sharding=rows)

    def layer(a: Any, b: Any, c: Any, out: Any, x: Any) -> Any:
        q, k, v = ((x @ w).reshape((4, 8, 4, 4)).swapaxes(1, 2) for w in (a, b, c))
        mixed = flex_attention(q, k, v).swapaxes(1, 2).reshape((4, 8, 16))
        return gt.shard(x + mixed @ out, ("data",))

    y = graphc.scan(layer, [*weights, out], x)[-1]
    inputs: Any = [x, *weights, out]
    state, gradients = 1 * 8 * 16 * 8, 4 * 2 * 16 * 8 * 8
    arguments = [normal(*v.type.shape) / 4 for v in inputs]
    found = [graphc.Out(y, sharding=("data",)), *graphc.grad((y**2).sum(), inputs)]
    # A state forwards, its gradient by three projections backwards, and weights' at the end.
    return Case(inputs, found, arguments, {"all-reduce": state + 3 * state + gradients})


CASES = [heads, documents, one_head_of_keys, queries, layers]


def compared(f: Any, inputs: Any, outputs: Any, arguments: Any) -> None:
    wanted = graphc.function(inputs, outputs, mode="NUMPY")(*arguments)
    for y, reference in zip(f(*arguments), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(y), reference, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_devices_attend_with_their_own_heads_and_queries(case: Callable[[], Case]) -> None:
    inputs, outputs, arguments, wanted = case()
    f = graphc.function(inputs, outputs, mode=MODE)
    exchanged: dict[str, int] = {}
    placement: Any = f.plan(*arguments).placement
    for made in placement.collectives:
        exchanged[made.kind] = exchanged.get(made.kind, 0) + made.bytes
    assert exchanged == wanted
    compared(f, inputs, outputs, arguments)
    assert f.stats.compiles == 1


@pytest.mark.filterwarnings("ignore::graphc.errors.ShardingWarning")
def test_what_cannot_be_divided_is_whole_on_each_device() -> None:
    """Rows of blocks that are no whole ones, and arrays read at other indices than their own."""
    q, k, v = (gt.tensor4(x, sharding=("data", None, "model")) for x in "qkv")
    table = gt.matrix("table", sharding=("data",))
    mask = create_block_mask(causal, None, None, 10, 10, 4)
    y = flex_attention(q, k, v, lambda s, b, h, i, j: s + table[b, b] - table[b, i % 2], mask)
    outputs = [y, *graphc.grad((y**2).sum(), [q, k, v, table])]
    f = graphc.function([q, k, v, table], outputs, mode=MODE)
    compared(f, [q, k, v, table], outputs, [*[normal(4, 3, 10, 5) for _ in "qkv"], normal(4, 4)])


@pytest.mark.parametrize("mesh", [MODE.options["mesh"], EXPLICIT], ids=["automatic", "explicit"])
def test_programs_with_attention_are_kept(mesh: Mesh, tmp_path: Path) -> None:
    inputs, outputs, arguments, _ = heads()
    found = []
    with graphc.config.change_flags(cache_dir=tmp_path):
        for _ in range(2):
            PROGRAMS.clear()
            f = graphc.function(inputs, outputs, mode=graphc.Mode("JAX", mesh=mesh))
            compared(f, inputs, outputs, arguments)
            found.append((f.stats.compiles, f.stats.loads))
    assert found == [(1, 0), (0, 1)]
