"""The operations that every structure is put through, written once for NumPy, JAX and graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["CASES", "Case", "operands_for"]


@dataclass(frozen=True)
class Case:
    """An operation of an array w and others.

    Attributes:
        name: What structures name it by.
        compute: Its result, of the functions of a library, w and the other operands.
        is_core: Whether it is run in all ways.
        is_smooth: Whether it has gradients by everything.
        ndims: How many axes w may have.
    """

    name: str
    compute: Callable[[Any, Any, Any], Any]
    is_core: bool = False
    is_smooth: bool = True
    ndims: tuple[int, ...] = (2,)

    def __str__(self) -> str:
        return self.name


def operands_for(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> SimpleNamespace:
    """What goes with an array of a shape (…, k, n): numbers away from zero, of its dtype."""
    *batch, k, n = (1, *shape)[-max(len(shape), 2) :]

    def numbers(*lengths: int) -> Any:
        signs = rng.choice([-1, 1], lengths)
        return np.asarray(rng.uniform(0.5, 2, lengths) * signs).astype(dtype)

    return SimpleNamespace(
        x=numbers(3, k),
        y=numbers(3, n),
        xs=numbers(*(batch or [2]), 3, k),
        ys=numbers(*(batch or [2]), 3, n),
        heads=numbers(2, k, 5),
        v=numbers(n),
        c=numbers(k),
        same=numbers(*batch, k, n),
        s=numbers(),
        row=numbers(1, n),
        index=rng.integers(0, shape[0], 7).astype("int32"),
        table=rng.integers(0, shape[0], (2, 5)).astype("int32"),
        columns=rng.integers(0, n, 3).astype("int32"),
        i=np.asarray(rng.integers(0, shape[0]), "int32"),
        mask=rng.random((*batch, k, n)) < 0.5,
        flag=np.asarray(rng.random() < 0.5),
    )


ANY = (1, 2, 3)
STACK = (3,)
BOTH = (2, 3)

CASES = [
    # Products.
    Case("x @ w", lambda xp, w, o: xp.matmul(o.x, w), is_core=True, ndims=BOTH),
    Case("y @ w.T", lambda xp, w, o: xp.matmul(o.y, xp.swapaxes(w, -1, -2)), True, ndims=BOTH),
    Case("xs @ w", lambda xp, w, o: xp.matmul(o.xs, w), is_core=True, ndims=BOTH),
    Case("ys @ w.T", lambda xp, w, o: xp.matmul(o.ys, xp.swapaxes(w, -1, -2)), ndims=BOTH),
    Case("w @ x.T", lambda xp, w, o: xp.matmul(w, xp.swapaxes(o.ys, -1, -2)), True, ndims=BOTH),
    Case("w @ v", lambda xp, w, o: xp.matmul(w, o.v), is_core=True, ndims=BOTH),
    Case("c @ w", lambda xp, w, o: xp.matmul(o.c, w), is_core=True, ndims=BOTH),
    Case("w.T @ c", lambda xp, w, o: xp.matmul(xp.swapaxes(w, -1, -2), o.c), ndims=BOTH),
    Case("einsum free between", lambda xp, w, o: xp.einsum("aib,ij->bja", o.heads, w)),
    Case("einsum batch", lambda xp, w, o: xp.einsum("bij,bai->jab", w, o.xs), ndims=STACK),
    Case("einsum unbatched", lambda xp, w, o: xp.einsum("bij,aj->aib", w, o.y), ndims=STACK),
    Case("tensordot", lambda xp, w, o: xp.tensordot(o.same, w, 2)),
    Case("w.T @ w", lambda xp, w, o: xp.matmul(xp.swapaxes(w, -1, -2), w), ndims=BOTH),
    Case("layer", lambda xp, w, o: xp.tanh(xp.matmul(o.x, w) * o.s + o.v), is_core=True),
    Case(
        "two layers",
        lambda xp, w, o: xp.matmul(xp.tanh(xp.matmul(o.x, w)), xp.transpose(w)),
        is_core=True,
    ),
    # The same elements in other places.
    Case("w.T", lambda xp, w, o: xp.swapaxes(w, -1, -2), is_core=True, ndims=BOTH),
    Case("transpose", lambda xp, w, o: xp.transpose(w, (2, 0, 1)), ndims=STACK),
    Case("transpose batch", lambda xp, w, o: xp.transpose(w, (1, 0, 2)), ndims=STACK),
    Case("flat", lambda xp, w, o: xp.reshape(w, (-1,)), ndims=ANY),
    Case("flat batch", lambda xp, w, o: xp.reshape(w, (-1, w.shape[-1])), ndims=STACK),
    Case("rows halved", lambda xp, w, o: xp.reshape(w, (2, -1, w.shape[-1]))),
    Case("new axis", lambda xp, w, o: xp.expand_dims(w, 0), ndims=BOTH),
    Case("new axis and back", lambda xp, w, o: xp.squeeze(xp.expand_dims(w, 0), 0), ndims=BOTH),
    Case("new axis, product", lambda xp, w, o: xp.matmul(o.xs, xp.expand_dims(w, 0))),
    Case("repeated", lambda xp, w, o: xp.broadcast_to(w, (2, *w.shape)), ndims=BOTH),
    # Parts.
    Case("w[1]", lambda xp, w, o: w[1], is_core=True, ndims=ANY),
    Case("w[-1]", lambda xp, w, o: w[-1], ndims=ANY),
    Case("w[1:3]", lambda xp, w, o: w[1:3], is_core=True, ndims=ANY),
    Case("w[::2]", lambda xp, w, o: w[::2], ndims=ANY),
    Case("w[::-1]", lambda xp, w, o: w[::-1], ndims=ANY),
    Case("w[:, 1]", lambda xp, w, o: w[:, 1], ndims=BOTH),
    Case("w[:, 1:3]", lambda xp, w, o: w[:, 1:3], ndims=BOTH),
    Case("w[1:3, ::2]", lambda xp, w, o: w[1:3, ::2]),
    Case("w[1, 2]", lambda xp, w, o: w[1, 2], ndims=BOTH),
    Case("w[:0]", lambda xp, w, o: w[:0], ndims=ANY),
    Case("w[None]", lambda xp, w, o: w[None], ndims=ANY),
    Case("w[i]", lambda xp, w, o: w[o.i], is_core=True, ndims=ANY),
    Case("w[index]", lambda xp, w, o: w[o.index], is_core=True, ndims=ANY),
    Case("w[table]", lambda xp, w, o: w[o.table], ndims=ANY),
    Case("w[-index]", lambda xp, w, o: w[-1 - o.index], ndims=ANY),
    Case("w[:, columns]", lambda xp, w, o: w[:, o.columns]),
    Case("w[:, index]", lambda xp, w, o: w[:, -1 - o.columns]),
    Case("w[index, 1]", lambda xp, w, o: w[o.index, 1]),
    Case("take", lambda xp, w, o: xp.take(w, o.table, axis=0), is_core=True, ndims=ANY),
    Case("take columns", lambda xp, w, o: xp.take(w, o.columns, axis=1)),
    Case("stack[0] product", lambda xp, w, o: xp.matmul(o.x, w[0]), is_core=True, ndims=STACK),
    Case("stack[i] product", lambda xp, w, o: xp.matmul(o.x, w[o.i]), is_core=True, ndims=STACK),
    Case("concatenate", lambda xp, w, o: xp.concatenate([w, w], axis=0), ndims=ANY),
    Case("concatenate columns", lambda xp, w, o: xp.concatenate([w, w], axis=-1), ndims=BOTH),
    Case("concatenate whole", lambda xp, w, o: xp.concatenate([w, o.same], axis=0), ndims=BOTH),
    Case("stack", lambda xp, w, o: xp.stack([w, w]), ndims=ANY),
    Case("split", lambda xp, w, o: xp.array_split(w, [1], axis=-1), ndims=ANY),
    Case("split in two", lambda xp, w, o: xp.array_split(w, 2, axis=-1), ndims=ANY),
    # Element by element.
    Case("w * 2", lambda xp, w, o: w * 2, is_core=True, ndims=ANY),
    Case("s * w", lambda xp, w, o: o.s * w, is_core=True, ndims=ANY),
    Case("w / s", lambda xp, w, o: w / o.s, is_core=True, ndims=ANY),
    Case("-w", lambda xp, w, o: -w, ndims=ANY),
    Case("w + 1", lambda xp, w, o: w + 1, ndims=ANY),
    Case("w - s", lambda xp, w, o: w - o.s, ndims=ANY),
    Case("1 - w", lambda xp, w, o: 1 - w, ndims=ANY),
    Case("w * row", lambda xp, w, o: w * o.v, is_core=True, ndims=ANY),
    Case("w * column", lambda xp, w, o: w * o.c[:, None], ndims=BOTH),
    Case("w / row", lambda xp, w, o: w / o.row, ndims=BOTH),
    Case("w + row", lambda xp, w, o: w + o.v, ndims=ANY),
    Case("w * same", lambda xp, w, o: w * o.same, ndims=BOTH),
    Case("same * w", lambda xp, w, o: o.same * w, ndims=BOTH),
    Case("w + same", lambda xp, w, o: w + o.same, is_core=True, ndims=BOTH),
    Case("same - w", lambda xp, w, o: o.same - w, ndims=BOTH),
    Case("w - same", lambda xp, w, o: w - o.same, ndims=BOTH),
    Case("w + w", lambda xp, w, o: w + w, ndims=ANY),
    Case("w - 2 * w", lambda xp, w, o: w - 2 * w, ndims=ANY),
    Case("w * w", lambda xp, w, o: w * w, ndims=ANY),
    Case("w ** 2", lambda xp, w, o: w**2, ndims=ANY),
    Case("w ** 3", lambda xp, w, o: w**3, ndims=ANY),
    Case("w * xs", lambda xp, w, o: w * o.xs[:, :1, :1], ndims=BOTH),
    Case("abs", lambda xp, w, o: xp.abs(w), is_smooth=False, ndims=ANY),
    Case("sign", lambda xp, w, o: xp.sign(w), is_smooth=False, ndims=ANY),
    Case("floor", lambda xp, w, o: xp.floor(w), is_smooth=False, ndims=ANY),
    Case("exp", lambda xp, w, o: xp.exp(w), ndims=ANY),
    Case("tanh", lambda xp, w, o: xp.tanh(w), ndims=ANY),
    Case("isnan", lambda xp, w, o: xp.isnan(w), is_smooth=False, ndims=ANY),
    Case("where mask", lambda xp, w, o: xp.where(o.mask, w, 0), ndims=BOTH),
    Case("where same", lambda xp, w, o: xp.where(o.mask, o.same, w), ndims=BOTH),
    Case("where flag", lambda xp, w, o: xp.where(o.flag, w, 2 * w), is_core=True, ndims=ANY),
    Case("cast", lambda xp, w, o: w.astype("float32"), is_core=True, ndims=ANY),
    Case("cast, product", lambda xp, w, o: xp.matmul(o.x.astype("float32"), w.astype("float32"))),
    Case("cast half", lambda xp, w, o: w.astype("float16"), is_smooth=False, ndims=ANY),
    # Over axes.
    Case("sum", lambda xp, w, o: xp.sum(w), is_core=True, ndims=ANY),
    Case("sum of columns", lambda xp, w, o: xp.sum(w, axis=-2), ndims=BOTH),
    Case("sum of rows", lambda xp, w, o: xp.sum(w, axis=-1), ndims=BOTH),
    Case("sum of batch", lambda xp, w, o: xp.sum(w, axis=0), ndims=STACK),
    Case("sum kept", lambda xp, w, o: xp.sum(w, axis=-1, keepdims=True), ndims=BOTH),
    Case("mean", lambda xp, w, o: xp.mean(w, axis=0), ndims=ANY),
    Case("max", lambda xp, w, o: xp.max(w), is_smooth=False, ndims=ANY),
    Case("max of rows", lambda xp, w, o: xp.max(w, axis=-1), is_smooth=False, ndims=BOTH),
    Case("min", lambda xp, w, o: xp.min(w, axis=0), is_smooth=False, ndims=ANY),
    Case("prod", lambda xp, w, o: xp.prod(w, axis=-1), is_smooth=False, ndims=ANY),
    Case("norm", lambda xp, w, o: xp.sqrt(xp.sum(w * w) + 1), ndims=ANY),
]
