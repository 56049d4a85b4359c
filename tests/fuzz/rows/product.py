"""Products and contractions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.row import (
    DOUBLE,
    INEXACT,
    Choice,
    row,
)
from tests.fuzz.values import Value, meet

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing


def product(g: Growing) -> Choice | None:
    """Two values whose lengths fit NumPy's matmul."""
    x = g.any(lambda v: 1 <= v.ndim <= 3 and v.dtype in INEXACT | {"int64", "int32"})

    def fits(y: Value) -> bool:
        if not 1 <= y.ndim <= 3 or y.dtype not in INEXACT | {"int64", "int32"} or x is None:
            return False
        inner = y.shape[0] if y.ndim == 1 else y.shape[-2]
        batches = [
            Value("", v.array[..., 0, 0], v.ones[:-2])
            for v in (x, y)
            if v.ndim == 3 and v.array.size
        ]
        return inner == x.shape[-1] and (len(batches) < 2 or meet(*batches) is not None)

    y = x and g.any(fits)
    return y and Choice((x.name, y.name))


row(
    *("matmul", "np.matmul({0}, {1})", product),
    weight=8,
    ulps=4,
    accumulates=True,
    broadcasts="batches",
)


def contracted(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim and v.dtype in INEXACT | {"int64"})
    y = x and g.any(
        lambda v: v.ndim and v.dtype in INEXACT | {"int64"} and v.shape[0] == x.shape[-1]
    )
    return y and Choice((x.name, y.name))


row("tensordot", "np.tensordot({0}, {1}, 1)", contracted, weight=2, ulps=4, accumulates=True)


def einsums(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim == 2 and v.dtype in DOUBLE)
    y = x and g.any(lambda v: v.ndim == 2 and v.dtype in DOUBLE and v.shape[0] == x.shape[1])
    pattern = g.pick(["ij,jk->ik", "ij,jk->ki", "ij,jk->", "ij,jk->i", "ij,jk->ijk", "ij,jk->j"])
    return y and Choice((x.name, y.name), {"pattern": repr(pattern)})


row(
    "einsum",
    "einsum({pattern}, {0}, {1})",
    einsums,
    "gt.einsum({pattern}, {0}, {1})",
    ulps=4,
    accumulates=True,
)


def vectors(g: Growing) -> Choice | None:
    x, y = (g.any(lambda v: v.ndim == 1 and v.dtype in DOUBLE) for _ in range(2))
    return x and y and Choice((x.name, y.name))


row("outer", "np.outer({0}, {1})", vectors, ulps=1)
row("kron", "np.kron({0}, {1})", vectors, weight=1, ulps=1)
