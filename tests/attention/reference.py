"""Attention over whole score matrices in float64 NumPy, its gradients derived by hand.

With ``s = scale * q k^T``, ``t = times * capped(s) + plus``, ``p`` the softmax of ``t`` over the
keys that the mask keeps, ``out = p v`` and ``lse = log(sum(exp(t)))``, the derivatives are

    dv = p^T g_out
    dt = p * (g_out v^T - sum(g_out * out) + g_lse)
    ds = dt * times * (1 - tanh(s / cap)^2)
    dq = scale * ds k,  dk = scale * ds^T q

where the key heads of a group sum what its query heads give. A row that keeps nothing has the
weights 0, so all its derivatives are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "EMPTY",
    "FULL",
    "PARTIAL",
    "Gradients",
    "Options",
    "Result",
    "backward",
    "check_tables",
    "dense_mask",
    "dense_scores",
    "forward",
    "kinds",
    "numeric",
    "problem",
    "tables",
    "unpacked",
]

EMPTY, PARTIAL, FULL = 0, 1, 2
"""What a mask keeps of a block: nothing, some of it, all of it."""


class Options(NamedTuple):
    """What changes the scores, in this order but for the mask; all but two broadcast to them.

    Attributes:
        mask: Where a score counts, (B, Hq, Q, K) or what broadcasts to it.
        times: Factors of the scores, likewise.
        plus: What is added to them then, likewise; may be -inf.
        cap: Scores become ``cap * tanh(score / cap)`` before both.
        scale: What products of queries and keys are multiplied by; 1 / sqrt(E) by default.
    """

    mask: Any = True
    times: Any = 1.0
    plus: Any = 0.0
    cap: float | None = None
    scale: float | None = None


class Result(NamedTuple):
    """What attention gives, and on the way to it.

    Attributes:
        out: (B, Hq, Q, Ev).
        lse: (B, Hq, Q), natural logarithms; -inf where a row keeps nothing.
        weights: (B, Hq, Q, K), each row sums to 1, or to 0 where it keeps nothing.
        scores: The products of queries and keys times the scale, (B, Hq, Q, K).
    """

    out: np.ndarray
    lse: np.ndarray
    weights: np.ndarray
    scores: np.ndarray


class Gradients(NamedTuple):
    """The derivatives of ``sum(g_out * out) + sum(g_lse * lse)``.

    Attributes:
        q: As the queries.
        k: As the keys.
        v: As the values.
        final: By the scores that the softmax takes, (B, Hq, Q, K): what ``plus`` gets.
        times: By the factors of the scores, (B, Hq, Q, K).
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    final: np.ndarray
    times: np.ndarray


class _Parts(NamedTuple):
    """Operands in float64, heads of keys repeated for their group."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    scale: float


def forward(q: Any, k: Any, v: Any, **options: Any) -> Result:
    """The attention of queries to keys; the options are those of `Options`.

    Args:
        q: Queries, (B, Hq, Q, E).
        k: Keys, (B, Hkv, K, E); query head h reads key head ``h // (Hq // Hkv)``.
        v: Values, (B, Hkv, K, Ev).
        **options: What changes the scores.
    """
    mask, times, plus, cap, _ = Options(**options)
    q, k, v, scale = _parts(q, k, v, options.get("scale"))
    scores = scale * np.einsum("bhqe,bhke->bhqk", q, k)
    final = np.where(mask, times * _capped(scores, cap) + plus, -np.inf)
    peak = np.max(final, -1, keepdims=True, initial=-np.inf)
    peak = np.where(np.isneginf(peak), 0.0, peak)
    exponentials = np.exp(final - peak)
    total = exponentials.sum(-1, keepdims=True)
    weights = exponentials / np.where(total == 0, 1.0, total)
    with np.errstate(divide="ignore"):
        lse = (peak + np.log(total))[..., 0]
    return Result(np.einsum("bhqk,bhke->bhqe", weights, v), lse, weights, scores)


def backward(q: Any, k: Any, v: Any, g_out: Any, g_lse: Any = 0.0, **options: Any) -> Gradients:
    """The derivatives of ``sum(g_out * out) + sum(g_lse * lse)``, with the options of `forward`."""
    y = forward(q, k, v, **options)
    _, times, _, cap, _ = Options(**options)
    heads = np.shape(k)[1]
    q, k, v, scale = _parts(q, k, v, options.get("scale"))
    g_out = np.asarray(g_out, np.float64)
    # A row that keeps nothing has the logarithm -inf whatever its scores are.
    g_lse = np.broadcast_to(np.asarray(g_lse, np.float64), y.lse.shape)[..., None]
    delta = (g_out * y.out).sum(-1, keepdims=True)
    final = y.weights * (np.einsum("bhqe,bhke->bhqk", g_out, v) - delta + g_lse)
    scores = final * times * _slope(y.scores, cap)
    return Gradients(
        q=scale * np.einsum("bhqk,bhke->bhqe", scores, k),
        k=_grouped(scale * np.einsum("bhqk,bhqe->bhke", scores, q), heads),
        v=_grouped(np.einsum("bhqk,bhqe->bhke", y.weights, g_out), heads),
        final=final,
        times=final * _capped(y.scores, cap),
    )


def numeric(f: Callable[[np.ndarray], Any], x: Any, step: float = 2.0**-13) -> np.ndarray:
    """The derivative of a scalar function by each element of x, by central differences.

    With two steps, whose errors of second order cancel; for small x.
    """
    x = np.asarray(x, np.float64)
    slopes = np.empty(x.shape)
    for at in np.ndindex(x.shape):
        near, far = (_difference(f, x, at, n * step) for n in (1, 2))
        slopes[at] = (4 * near - far) / 3
    return slopes


def dense_mask(function: Callable[..., Any], B: int, H: int, Q: int, K: int) -> np.ndarray:  # noqa: N803
    """What a mask function of NumPy's int32 scalars says of each (b, h, q, k), one at a time."""
    found = np.empty((B, H, Q, K), bool)
    for at in np.ndindex(found.shape):
        found[at] = function(*map(np.int32, at))
    return found


def dense_scores(function: Callable[..., Any], scores: np.ndarray) -> np.ndarray:
    """What a score function makes of (B, H, Q, K) scores, one at a time."""
    found = np.empty_like(scores)
    for at in np.ndindex(found.shape):
        found[at] = function(scores[at], *map(np.int32, at))
    return found


def kinds(mask: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """What a (B, H, Q, K) mask keeps of each block: EMPTY, PARTIAL or FULL; (B, H, nQ, nK).

    A last column of fewer keys than a block is never full: kernels mask it in any case.
    """
    B, H, Q, K = mask.shape  # noqa: N806
    bq, bk = block
    found = np.full((B, H, -(-Q // bq), -(-K // bk)), EMPTY)
    for b, h, i, j in np.ndindex(found.shape):
        part = mask[b, h, i * bq : (i + 1) * bq, j * bk : (j + 1) * bk]
        if part.all() and part.shape[1] == bk:
            found[b, h, i, j] = FULL
        elif part.any():
            found[b, h, i, j] = PARTIAL
    return found


def tables(mask: np.ndarray, block: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """The four tables of a (B, H, Q, K) mask: counts and indices of partial, then of full blocks.

    Indices are a permutation of all key blocks, those that count first; int32.
    """
    found = kinds(mask, block)
    return tuple(
        table.astype(np.int32)
        for kind in (PARTIAL, FULL)
        for table in (
            (found == kind).sum(-1),
            np.argsort(found != kind, axis=-1, kind="stable"),
        )
    )


def unpacked(blocks: Sequence[Any], columns: int | None = None) -> np.ndarray:
    """The kind of each block that four tables say; each block is in one of them at most."""
    partial, partials, full, fulls = map(np.asarray, blocks)
    found = np.full((*partial.shape, columns or partials.shape[-1]), EMPTY)
    for at in np.ndindex(partial.shape):
        for kind, count, indices in ((PARTIAL, partial, partials), (FULL, full, fulls)):
            valid = indices[at][: count[at]]
            assert (np.diff(valid) > 0).all(), f"indices of {at} do not ascend: {valid}"
            assert (found[at][valid] == EMPTY).all(), f"a block of {at} is in both tables"
            found[at][valid] = kind
    return found


def check_tables(
    blocks: Sequence[Any], mask: np.ndarray, block: tuple[int, int], exact: bool = True
) -> None:
    """Assert that four tables are those of a (B, H, Q, K) mask, in form and in what they say.

    Args:
        blocks: Four arrays, whose batches and heads may be 1.
        mask: What the mask function says of every position.
        block: The lengths of a block.
        exact: Whether blocks may not be partial that could be full or empty.
    """
    for table in map(np.asarray, blocks):
        assert table.dtype == np.int32
    for indices in map(np.asarray, (blocks[1], blocks[3])):
        everything = np.broadcast_to(np.arange(indices.shape[-1]), indices.shape)
        np.testing.assert_array_equal(np.sort(indices, -1), everything)
    said = unpacked(blocks)
    wanted = kinds(mask, block)
    said = np.broadcast_to(said, wanted.shape)
    wrong = (said != wanted) if exact else (said != wanted) & (said != PARTIAL)
    assert not wrong.any(), f"blocks at {np.argwhere(wrong)[:5]}: {said[wrong][:5]}"


def problem(
    seed: int = 0,
    B: int = 2,  # noqa: N803
    heads: tuple[int, int] = (2, 2),
    lengths: tuple[int, int] = (7, 9),
    dims: tuple[int, int] = (4, 3),
) -> tuple[np.ndarray, ...]:
    """Random (q, k, v, g_out, g_lse) in float64 for heads of queries and keys, lengths and dims."""
    random = np.random.default_rng(seed)
    (Hq, Hkv), (Q, K), (E, Ev) = heads, lengths, dims  # noqa: N806
    shapes = [(B, Hq, Q, E), (B, Hkv, K, E), (B, Hkv, K, Ev), (B, Hq, Q, Ev), (B, Hq, Q)]
    return tuple(random.standard_normal(shape) for shape in shapes)


def _parts(q: Any, k: Any, v: Any, scale: float | None) -> _Parts:
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    return _Parts(q, np.repeat(k, group, 1), np.repeat(v, group, 1), scale)


def _grouped(g: np.ndarray, heads: int) -> np.ndarray:
    """Sums over the query heads that read the same key head."""
    B, H, n, dim = g.shape  # noqa: N806
    return g.reshape(B, heads, H // heads, n, dim).sum(2)


def _capped(scores: np.ndarray, cap: float | None) -> np.ndarray:
    return scores if cap is None else cap * np.tanh(scores / cap)


def _slope(scores: np.ndarray, cap: float | None) -> np.ndarray | float:
    return 1.0 if cap is None else 1 - np.tanh(scores / cap) ** 2


def _difference(
    f: Callable[[np.ndarray], Any], x: np.ndarray, at: tuple[int, ...], step: float
) -> float:
    up, down = x.copy(), x.copy()
    up[at] += step
    down[at] -= step
    return float((f(up) - f(down)) / (2 * step))
