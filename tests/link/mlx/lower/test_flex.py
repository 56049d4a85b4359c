"""Attention by block tables on MLX: what rows of blocks see, what is computed, and what it takes.

That results and gradients are those of dense formulas, ``test_flex*.py`` show on every backend.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.attention as ga
import graphc.tensor as gt
from graphc.errors import ShapeError
from graphc.link.mlx.devices import CHOICES
from graphc.link.mlx.lower import flex
from graphc.link.mlx.lower.grids import FlexSizes, groups
from tests.attention import reference
from tests.attention.worlds import static
from tests.link.mlx.old_release import OLD, ROOT, old_release
from tests.modes import uncompiled
from tests.tracing import traced

__all__ = ["old_release"]

LENGTHS, BLOCK, HEADS = (11, 14), (4, 3), (4, 2)

Q, K, V, G, GL = reference.problem(5, 2, HEADS, LENGTHS)

NAMES = ("out", "lse", "q", "k", "v")

Mask = Callable[..., Any]


def mask_of(keep: np.ndarray[Any, Any], mask: Mask, block: tuple[int, int] = BLOCK) -> ga.BlockMask:
    """A mask with the tables of what is kept, (B, H, Q, K), and this function."""
    tables = reference.tables(keep, block)
    return ga.BlockMask.from_blocks(*tables, mask, block, keep.shape[2:])


def dense(mask: Mask, batch: int = 1, heads: int = 1) -> np.ndarray[Any, Any]:
    return reference.dense_mask(mask, batch, heads, *LENGTHS)


def run(
    *values: Any, mask: Any = None, score: Any = None, wrt: Any = (), mode: Any = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Results and gradients on MLX, by name; those by more inputs by their numbers."""
    inputs = [static(x) for x in values]
    out, lse = ga.flex_attention(
        *inputs[:3], score_mod=score, block_mask=mask, enable_gqa=True, return_lse=True
    )
    wrt = [*inputs[:3], *wrt]
    gradients = graphc.grad(None, wrt, known_grads={out: inputs[3], lse: inputs[4]})
    mode = mode or uncompiled("MLX")
    f = graphc.function(inputs, [out, lse, *gradients], mode=mode, returns="numpy")
    return dict(zip([*NAMES, *range(len(wrt) - 3)], f(*values), strict=True))


def expected(keep: Any, **options: Any) -> dict[str, np.ndarray[Any, Any]]:
    y = reference.forward(Q, K, V, mask=keep, **options)
    g = reference.backward(Q, K, V, G, GL, mask=keep, **options)
    return dict(zip(NAMES, (y.out, y.lse, g.q, g.k, g.v), strict=True))


def near(found: Any, wanted: Any, rtol: float = 1e-11) -> None:
    assert found.keys() == wanted.keys()
    for name, x in wanted.items():
        np.testing.assert_allclose(found[name], x, rtol=rtol, atol=rtol, err_msg=str(name))


def band(b: Any, h: Any, q: Any, k: Any) -> Any:
    """Rows that see nothing, blocks of every kind."""
    return (q >= k) & (k > 1)


def by_head(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q >= k + h) | (k == 13)


def by_batch(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q + 2 * b >= k) & (q != 5)


def by_both(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q + 5 * b >= k + h) & (k % 5 > b)


# Which keys a row takes.


def seen(rows: list[list[int]], full: bool) -> tuple[np.ndarray[Any, Any], ...]:
    """Tables of one batch and head whose rows list these of five blocks."""
    columns = [[*row, *({*range(5)} - {*row})] for row in rows]
    listed = np.array([[[len(row) for row in rows]]]), np.array([[columns]])
    none = np.zeros_like(listed[0]), np.zeros_like(listed[1])
    return (*none, *listed) if full else (*listed, *none)


def test_blocks_beside_each_other_are_one_slice() -> None:
    tables = seen([[0, 1, 3, 4], [], [2]], full=True)
    ((group,),) = groups(tables, FlexSizes(2, 3, 2, 11, 14), (4, 3), masked=True)
    assert (group.batches, group.heads, group.sharing) == (slice(0, 2), slice(0, 3), slice(0, 2))
    assert [row.queries for row in group.rows] == [slice(0, 4), slice(4, 8), slice(8, 11)]
    first, empty, last = (row.pieces for row in group.rows)
    assert [piece.runs for piece in first] == [(slice(0, 6), slice(9, 14))]
    assert empty == ()
    assert [(piece.runs, piece.partial) for piece in last] == [((slice(6, 9),), False)]


def test_blocks_of_which_a_mask_keeps_some_are_a_piece_of_their_own() -> None:
    sizes, block = FlexSizes(1, 1, 1, 4, 14), (4, 3)
    tables = (*seen([[1, 4]], full=False)[:2], *seen([[0, 2]], full=True)[2:])
    ((group,),) = groups(tables, sizes, block, masked=True)
    assert [(piece.blocks, piece.partial) for piece in group.rows[0].pieces] == [
        ((0, 2), False),
        ((1, 4), True),
    ]
    ((group,),) = groups(tables, sizes, block, masked=False)
    (piece,) = group.rows[0].pieces
    assert (piece.runs, piece.partial) == ((slice(0, 9), slice(12, 14)), False)


@pytest.mark.parametrize(("shape", "parts"), [((1, 1), (1, 1)), ((3, 1), (3, 1)), ((3, 4), (3, 4))])
def test_batches_and_heads_are_apart_where_their_blocks_differ(
    shape: tuple[int, int], parts: tuple[int, int]
) -> None:
    keep = np.random.default_rng(0).random((*shape, *LENGTHS)) < 0.1
    found = groups(reference.tables(keep, BLOCK), FlexSizes(3, 2, 2, *LENGTHS), BLOCK, masked=True)
    assert (len(found), len(found[0])) == parts
    same = np.broadcast_to(keep[:1, :1], (3, 4, *LENGTHS))
    found = groups(reference.tables(same, BLOCK), FlexSizes(3, 2, 2, *LENGTHS), BLOCK, masked=True)
    assert (len(found), len(found[0])) == (1, 1)


def test_tables_of_other_lengths_are_refused() -> None:
    tables = seen([[0], [1]], full=True)
    for sizes in (FlexSizes(1, 1, 1, 12, 14), FlexSizes(1, 1, 1, 8, 10)):
        with pytest.raises(ShapeError, match="rows of"):
            groups(tables, sizes, (4, 3), masked=True)


# What is computed.

CASES: dict[str, tuple[Mask, int, int]] = {
    "band": (band, 1, 1),
    "by head": (by_head, 1, 4),
    "by batch": (by_batch, 2, 1),
    "by both": (by_both, 2, 4),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block", [(4, 3), (16, 2), (1, 1), (5, 20)])
def test_rows_of_blocks_give_what_dense_formulas_do(name: str, block: tuple[int, int]) -> None:
    mask, *leading = CASES[name]
    keep = dense(mask, *leading)
    near(run(Q, K, V, G, GL, mask=mask_of(keep, mask, block)), expected(keep))


def test_without_a_mask_there_are_rows_too() -> None:
    near(run(Q, K, V, G, GL), expected(True))


@pytest.mark.parametrize(
    ("dtype", "rtol"), [("float32", 2e-5), ("float16", 6e-3), ("bfloat16", 5e-2)]
)
def test_narrow_floats_are_summed_in_float32(dtype: str, rtol: float) -> None:
    keep, numbers = dense(by_both, 2, 4), graphc.ir.numpy_dtype(dtype)
    values = [*[x.astype(numbers) for x in (Q, K, V, G)], GL.astype(np.float32)]
    found = run(*values, mask=mask_of(keep, by_both))
    assert [x.dtype for x in found.values()] == [numbers, np.float32, *[numbers] * 3]
    near({name: x.astype(np.float64) for name, x in found.items()}, expected(keep), rtol)


def test_what_is_in_empty_blocks_is_not_looked_at() -> None:
    keep = dense(lambda b, h, q, k: (k >= 3) & (k < 9) & (q != 2))
    k, v = K.copy(), V.copy()
    for x in (k, v):
        x[:, :, :3] = x[:, :, 9:] = np.nan
    found = run(Q, k, v, G, GL, mask=mask_of(keep, lambda b, h, q, k: q != 2))
    near(found, expected(keep))
    for name in "kv":
        assert not found[name][:, :, :3].any()
        assert not found[name][:, :, 9:].any()


def test_the_mask_is_not_asked_of_full_blocks() -> None:
    keep = dense(lambda b, h, q, k: k < 6)
    near(run(Q, K, V, G, GL, mask=mask_of(keep, lambda b, h, q, k: q < 0)), expected(keep))


def test_queries_that_see_nothing_have_no_gradient_whatever_the_cotangents_are() -> None:
    keep = dense(lambda b, h, q, k: (q % 4 > 1) & (k > q))
    g_lse = np.where(keep.any(-1), GL, np.nan)
    mask = mask_of(keep, lambda b, h, q, k: (q % 4 > 1) & (k > q))
    near(run(Q, K, V, G, g_lse, mask=mask), expected(keep))


def test_gradients_by_what_scores_capture_are_summed_over_rows_and_groups() -> None:
    """An array that is indexed by what is near, one by head, and one that is no float."""
    near_by, slopes = np.cos(np.arange(27.0)), np.array([0.5, -1.0, 2.0, 0.25])
    shift = np.array(13)
    inputs = [static(x) for x in (near_by, slopes, shift)]

    def score(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return gt.where(k == 4, -np.inf, s + slopes_[h] * near_[k - q + shift_])

    near_, slopes_, shift_ = inputs
    q, k, v, g, g_lse = operands = [static(x) for x in (Q, K, V, G, GL)]
    keep = dense(by_both, 2, 4)
    out, lse = ga.flex_attention(
        q, k, v, score, mask_of(keep, by_both), enable_gqa=True, return_lse=True
    )
    wrt = [*operands[:3], near_, slopes_]
    gradients = graphc.grad(None, wrt, known_grads={out: g, lse: g_lse})
    f = graphc.function(
        [*operands, *inputs], [out, lse, *gradients], mode=uncompiled("MLX"), returns="numpy"
    )
    *found, by_near, by_slopes = f(Q, K, V, G, GL, near_by, slopes, shift)
    at = np.arange(LENGTHS[1]) - np.arange(LENGTHS[0])[:, None] + 13
    plus = np.where(np.arange(LENGTHS[1]) == 4, -np.inf, slopes[:, None, None] * near_by[at])
    near(dict(zip(NAMES, found, strict=True)), expected(keep, plus=plus))
    final = reference.backward(Q, K, V, G, GL, mask=keep, plus=plus).final.sum(0)
    wanted = np.zeros(27)
    np.add.at(wanted, np.broadcast_to(at, final.shape), slopes[:, None, None] * final)
    np.testing.assert_allclose(by_near, wanted, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(by_slopes, (final * near_by[at]).sum((1, 2)), rtol=1e-11)


def test_score_functions_may_loop_and_branch() -> None:
    """What has a driver of its own, within what is driven."""
    steps = static(np.array(3))

    def score(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        twice = graphc.scan(lambda y: y * 0.5 + 1, outputs_info=s, n_steps=steps)[-1]
        return graphc.cond(steps > 2, lambda: twice, lambda: s)

    q, k, v, g, g_lse = operands = [static(x) for x in (Q, K, V, G, GL)]
    out, lse = ga.flex_attention(q, k, v, score, enable_gqa=True, return_lse=True)
    gradients = graphc.grad(None, operands[:3], known_grads={out: g, lse: g_lse})
    f = graphc.function(
        [*operands, steps], [out, lse, *gradients], mode=uncompiled("MLX"), returns="numpy"
    )
    for n in (3, 2):
        found = f(Q, K, V, G, GL, n)
        options = {"times": 0.125, "plus": 1.75} if n == 3 else {}
        near(dict(zip(NAMES, found, strict=True)), expected(True, **options))


# By a kernel, where there is one.


@pytest.fixture
def by_kernel(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The masks of the calls of MLX's attention, as on a device where that is a kernel."""
    calls = []
    attention = mx.fast.scaled_dot_product_attention

    def counted(*arrays: Any, mask: Any = None, **options: Any) -> Any:
        calls.append(mask)
        return attention(*arrays, mask=mask, **options)

    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", counted)
    monkeypatch.setattr(flex, "device_choice", lambda name, options: CHOICES[name].gpu)
    return calls


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_of_mlx_gives_the_same(name: str, by_kernel: list[Any]) -> None:
    mask, *leading = CASES[name]
    keep = dense(mask, *leading)
    values = [x.astype(np.float32) for x in (Q, K, V, G, GL)]
    near(run(*values, mask=mask_of(keep, mask)), expected(keep), 2e-5)
    assert by_kernel


def test_the_kernel_is_given_a_mask_for_rows_with_partial_blocks(by_kernel: list[Any]) -> None:
    keep = dense(lambda b, h, q, k: (q >= 4) & ((q < 8) | (k < 7)))
    values = [x.astype(np.float32) for x in (Q, K, V, G, GL)]
    found = run(*values, mask=mask_of(keep, lambda b, h, q, k: (q < 8) | (k < 7), (4, 7)))
    near(found, expected(keep), 2e-5)
    # Of the first row there is nothing; the last block of keys is full in both others.
    assert [mask is None for mask in by_kernel] == [True, True]
    by_kernel.clear()
    causal = dense(lambda b, h, q, k: q >= k)
    near(run(*values, mask=mask_of(causal, ga.causal, (4, 4))), expected(causal), 2e-5)
    assert [mask.shape for mask in by_kernel] == [(1, 1, 4, 4), (1, 1, 4, 8), (1, 1, 3, 12)]


def test_the_kernel_is_not_used_for_scores_that_a_function_changes(by_kernel: list[Any]) -> None:
    found = run(Q, K, V, G, GL, score=lambda s, b, h, q, k: s * 0.5)
    near(found, expected(True, times=0.5))
    assert not by_kernel


# What it takes.


def attention_of(length: int, mode: Any) -> tuple[Any, list[Any]]:
    """Attention and its gradients given a mask, compiled, and arguments."""
    random = np.random.default_rng(0)
    values = [mx.array(random.standard_normal((1, 2, length, 16)), mx.float32) for _ in range(3)]
    inputs = [gt.tensor(name, shape=(1, 2, length, 16), dtype="float32") for name in "qkv"]
    mask = window(length, 1).variables("mask")
    out = ga.flex_attention(*inputs, block_mask=mask)
    outputs = [out, *graphc.grad((out**2).sum(), inputs)]
    return graphc.function([*inputs, mask], outputs, mode=mode), values


def window(length: int, width: int) -> ga.BlockMask:
    wide = np.array(width)

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q >= k) & (q - k < wide)

    return ga.create_block_mask(mask, None, None, length, length, BLOCK_SIZE=64)


def test_memory_grows_with_the_lengths_and_not_with_their_product() -> None:
    peaks = []
    for length in (2048, 4096):
        f, values = attention_of(length, uncompiled("MLX"))
        mask = window(length, 200)
        mx.eval(f(*values, mask))
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        mx.eval(f(*values, mask))
        peaks.append(mx.get_peak_memory() - before)
    assert peaks[1] < 2.5 * peaks[0]
    assert peaks[1] < 0.1 * 4 * 2 * 4096**2


def test_other_layouts_of_blocks_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = []

    def compile(function: Any) -> Any:
        def noted(*arrays: Any) -> Any:
            traces.append(function)
            return function(*arrays)

        return traced(noted)

    monkeypatch.setattr(mx, "compile", compile)
    length = 448
    f, values = attention_of(length, "MLX")
    for i, width in enumerate((1, 70, 300, 448, 64, 5)):
        out, *_ = f(*values, window(length, width))
        at = np.arange(length)[:, None] - np.arange(length)
        wanted = reference.forward(*map(np.array, values), mask=(at >= 0) & (at < width)).out
        np.testing.assert_allclose(np.array(out), wanted, rtol=1e-4, atol=1e-5)
        if not i:
            first = len(traces)
    assert len(traces) == first
    assert f.stats.compiles == 1


@pytest.mark.parametrize("steps", [3, 40])
def test_loops_go_step_by_step_where_each_has_a_mask(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few steps would be written out, and many compiled in chunks."""
    monkeypatch.setattr(mx, "compile", traced)
    random = np.random.default_rng(3)
    ids = np.sort(random.integers(0, 3, (steps, 9)), 1).astype(np.int32)
    x = random.standard_normal((1, 2, 9, 3))

    def step(documents: Any, x: Any) -> Any:
        mask = ga.create_block_mask(ga.document(documents), None, None, 9, 9, BLOCK_SIZE=4)
        return 0.5 * x + 0.4 * ga.flex_attention(x, x, x, block_mask=mask)

    inputs = [static(x), static(ids)]
    last = graphc.scan(step, sequences=inputs[1], outputs_info=inputs[0])[-1]
    f = graphc.function(
        inputs, [last, graphc.grad((last**3).sum(), inputs[0])], "MLX", returns="numpy"
    )
    ys = [x]
    for row in ids:
        out = reference.forward(*[ys[-1]] * 3, mask=row[:, None] == row).out
        ys.append(0.5 * ys[-1] + 0.4 * out)
    g = 3 * ys[-1] ** 2
    for y, row in zip(ys[-2::-1], ids[::-1], strict=True):
        part = reference.backward(y, y, y, 0.4 * g, mask=row[:, None] == row)
        g = 0.5 * g + part.q + part.k + part.v
    found = f(x, ids)
    np.testing.assert_allclose(found[0], ys[-1], rtol=1e-9)
    np.testing.assert_allclose(found[1], g, rtol=1e-8, atol=1e-9 * np.abs(g).max())


# The oldest release that graphc is tested with.

PROGRAM = """
import mlx.core as mx

def absent(name):
    # What this release lacks is named when graphc is imported, and not called here.
    if name.startswith("_"):
        raise AttributeError(name)
    return lambda *_: None

mx.__getattr__ = absent
mx.set_default_device(mx.cpu)
assert mx.__version__ == "{old}", mx.__version__

import numpy as np
import graphc, graphc.attention as ga, graphc.tensor as gt

q, k, v, g, bias = np.load({given!r}).values()
inputs = [gt.tensor(shape=x.shape) for x in (q, k, v, g, bias)]
mask = ga.create_block_mask(ga.causal, None, None, q.shape[2], k.shape[2], BLOCK_SIZE=4)
by_bias = inputs.pop()
out = ga.flex_attention(
    *inputs[:3], lambda s, b, h, i, j: s + by_bias[h, j], mask, enable_gqa=True
)
gradients = graphc.grad((out * inputs[3]).sum(), [*inputs[:3], by_bias])
mode = graphc.Mode("MLX", compile=False)
f = graphc.function([*inputs, by_bias], [out, *gradients], mode, returns="numpy")
np.savez({found!r}, *f(q, k, v, g, bias))
"""


@pytest.mark.exhaustive
def test_an_old_release_gives_the_same(old_release: Path, tmp_path: Path) -> None:
    bias = np.cos(np.arange(4.0 * LENGTHS[1])).reshape(4, -1)
    given, found = (str(tmp_path / name) for name in ("given.npz", "found.npz"))
    np.savez(given, Q, K, V, G, bias)
    done = subprocess.run(
        [old_release, "-c", PROGRAM.format(old=OLD, given=given, found=found)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    )
    assert not done.returncode, done.stderr
    options = {"mask": dense(lambda b, h, q, k: q >= k), "plus": bias[:, None]}
    y, slopes = reference.forward(Q, K, V, **options), reference.backward(Q, K, V, G, **options)
    wanted = [y.out, slopes.q, slopes.k, slopes.v, slopes.final.sum((0, 2))]
    for x, exact in zip(np.load(found).values(), wanted, strict=True):
        np.testing.assert_allclose(x, exact, rtol=1e-11, atol=1e-11)
