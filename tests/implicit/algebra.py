"""A table of operations on structured matrices, and of what each class keeps in them.

A program is a function of a library's functions ``xp``, a 6 by 6 structured array w and a
namespace of whole arrays: ``d`` of w's shape, away from zero, ``mask`` and ``v``. ``KEPT`` says
for each class in which programs nothing becomes whole; elsewhere the policy decides.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse

from graphc import implicit

__all__ = ["KEPT", "PROGRAMS", "SMOOTH", "arrays", "operands", "representatives"]

N = 6

Program = Callable[[Any, Any, Any], Any]

BESIDE_NUMBERS: dict[str, Program] = {
    "relu": lambda xp, w, o: xp.maximum(w, 0),
    "minimum 0": lambda xp, w, o: xp.minimum(w, 0),
    "maximum -1": lambda xp, w, o: xp.maximum(-1, w),
    "clip": lambda xp, w, o: xp.clip(w, -0.5, 0.5),
    "w > 0": lambda xp, w, o: w > 0,
    "0 < w": lambda xp, w, o: xp.less(0, w),
    "w < -0.25": lambda xp, w, o: w < -0.25,
    "w != 0": lambda xp, w, o: xp.not_equal(w, 0),
    "w ** 2": lambda xp, w, o: w**2,
    "w ** 3": lambda xp, w, o: w**3,
    "abs ** 0.5": lambda xp, w, o: xp.abs(w) ** 0.5,
    "abs ** 2.5": lambda xp, w, o: xp.abs(w) ** 2.5,
    "w % 2": lambda xp, w, o: w % 2.0,
    "w // 2": lambda xp, w, o: w // 2.0,
    "w / 2": lambda xp, w, o: w / 2,
    "where mask 0": lambda xp, w, o: xp.where(o.mask, w, 0),
    "where 0 mask": lambda xp, w, o: xp.where(o.mask, 0, w),
    "where itself": lambda xp, w, o: xp.where(w > 0, w, 0),
    "where flag": lambda xp, w, o: xp.where(o.mask[0, 0], w, 0),
    "tril": lambda xp, w, o: xp.tril(w),
    "triu": lambda xp, w, o: xp.triu(w, 1),
}
"""Functions of w and of numbers that are known, which map zero to zero."""

ELEMENTWISE: dict[str, Program] = {
    "abs": lambda xp, w, o: xp.abs(w),
    "sign": lambda xp, w, o: xp.sign(w),
    "sqrt": lambda xp, w, o: xp.sqrt(xp.abs(w)),
    "sin": lambda xp, w, o: xp.sin(w),
    "tanh": lambda xp, w, o: xp.tanh(w),
    "expm1": lambda xp, w, o: xp.expm1(w),
    "log1p": lambda xp, w, o: xp.log1p(xp.abs(w)),
    "square": lambda xp, w, o: xp.square(w),
    "floor": lambda xp, w, o: xp.floor(w),
    "isnan": lambda xp, w, o: xp.isnan(w),
    "to int": lambda xp, w, o: w.astype("int32"),
    "to bool": lambda xp, w, o: w.astype("bool"),
}

OF_TWO: dict[str, Program] = {
    "w * d": lambda xp, w, o: w * o.d,
    "d * w": lambda xp, w, o: o.d * w,
    "w / d": lambda xp, w, o: w / o.d,
    "w * v": lambda xp, w, o: w * o.v,
    "w * w": lambda xp, w, o: w * w,
    "w + w": lambda xp, w, o: w + w,
    "w - 2 * w": lambda xp, w, o: w - 2 * w,
    "max(w, -w)": lambda xp, w, o: xp.maximum(w, -w),
    "w > -w": lambda xp, w, o: w > -w,
}
WITH_TRANSPOSE: dict[str, Program] = {
    "w + w.T": lambda xp, w, o: w + w.T,
    "w * w.T": lambda xp, w, o: w * w.T,
    "max(w, w.T)": lambda xp, w, o: xp.maximum(w, w.T),
    "w < w.T": lambda xp, w, o: w < w.T,
}

PRODUCTS: dict[str, Program] = {
    "w @ w": lambda xp, w, o: xp.matmul(w, w),
    "w @ w.T": lambda xp, w, o: xp.matmul(w, w.T),
    "w @ w @ v": lambda xp, w, o: xp.matmul(xp.matmul(w, w), o.v),
    "relu @ v": lambda xp, w, o: xp.matmul(xp.maximum(w, 0), o.v),
}

SUMS: dict[str, Program] = {
    "sum": lambda xp, w, o: xp.sum(w),
    "sum 0": lambda xp, w, o: xp.sum(w, 0),
    "mean": lambda xp, w, o: xp.mean(w),
    "mean 1": lambda xp, w, o: xp.mean(w, 1),
}
REDUCTIONS: dict[str, Program] = {
    "max": lambda xp, w, o: xp.max(w),
    "max 0": lambda xp, w, o: xp.max(w, 0),
    "max 1": lambda xp, w, o: xp.max(w, 1),
    "min": lambda xp, w, o: xp.min(w),
    "min 0": lambda xp, w, o: xp.min(w, 0),
    "min 1": lambda xp, w, o: xp.min(w, 1),
    "any": lambda xp, w, o: xp.any(w > 0),
    "any 0": lambda xp, w, o: xp.any(w > 0, 0),
    "all": lambda xp, w, o: xp.all(w > 0),
    "all 1": lambda xp, w, o: xp.all(w > 0, 1),
    "count": lambda xp, w, o: xp.sum((w > 0).astype("int32")),
    "norm": lambda xp, w, o: xp.sqrt(xp.sum(w * w)),
}
PLACES: dict[str, Program] = {
    "diagonal": lambda xp, w, o: xp.diagonal(w),
    "w.T": lambda xp, w, o: xp.transpose(w),
}
WHOLE: dict[str, Program] = {
    "maximum 0.5": lambda xp, w, o: xp.maximum(w, 0.5),
    "w >= 0": lambda xp, w, o: w >= 0,
    "clip above 0": lambda xp, w, o: xp.clip(w, 0.25, 0.5),
    "exp": lambda xp, w, o: xp.exp(w),
    "sort": lambda xp, w, o: xp.sort(w, 0),
}
"""What changes zero, or has no structure."""

GROUPS = {
    "numbers": BESIDE_NUMBERS,
    "functions": ELEMENTWISE,
    "two": OF_TWO,
    "transpose": WITH_TRANSPOSE,
    "products": PRODUCTS,
    "sums": SUMS,
    "reductions": REDUCTIONS,
    "places": PLACES,
    "whole": WHOLE,
}
PROGRAMS: dict[str, Program] = {name: f for group in GROUPS.values() for name, f in group.items()}


def representatives(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return pairs of each class with a program of each group, and of each program with a class.

    Programs of a group go the same way through graphs and backends; that a class keeps a program is
    a matter of the class alone, which a test of all pairs compares on NumPy.
    """
    groups = {name: title for title, group in GROUPS.items() for name in group}
    options = dict[tuple[str, str], list[tuple[str, str]]]()
    for cls, name in pairs:
        options.setdefault((cls, groups[name]), []).append((cls, name))
    classes = list(dict.fromkeys(cls for cls, _ in pairs))
    chosen = [x[classes.index(cls) % len(x)] for (cls, _), x in options.items()]
    others = {name: (cls, name) for cls, name in pairs}
    for _, name in chosen:
        others.pop(name, None)
    return [*chosen, *others.values()]


SMOOTH = (
    *("relu", "clip", "w ** 3", "where mask 0", "where itself", "tril", "tanh", "square", "w * d"),
    *("w / d", "w * w", "max(w, -w)", "w + w.T", "w * w.T", "max(w, w.T)", "w @ w", "w @ w @ v"),
    *("relu @ v", "sum 0", "max 0", "min 1", "norm", "abs ** 2.5"),
)
"""The programs of which there are gradients to compare."""


def arrays() -> dict[str, Any]:
    """A structured array of each class, 6 by 6, of float64."""
    rng = np.random.default_rng(0)

    def normal(*lengths: int) -> Any:
        return rng.normal(size=lengths)

    stored = scipy.sparse.csr_array(np.where(rng.random((N, N)) < 0.4, normal(N, N), 0))
    # Elements in several parts, some that cancel, an empty row, and one to be left out.
    places = [[0, 1], [3, 2], [0, 1], [2, 0], [6, 4], [4, 5], [3, 2], [5, 5]]
    values = normal(8)
    values[6] = -values[1]
    indices = rng.integers(0, N, N)
    return {
        "CSR": implicit.CSR.from_scipy(stored),
        "CSC": implicit.CSC.from_scipy(stored),
        "BCOO": implicit.BCOO(values, np.array(places), (N, N)),
        "Diagonal": implicit.Diagonal(normal(N)),
        "Identity": implicit.Identity(np.asarray(-1.5), N),
        "BlockDiagonal": implicit.BlockDiagonal(normal(3, 2, 2)),
        "blocks": implicit.BlockDiagonal((normal(2, 2), normal(4, 4))),
        "OneHot": implicit.OneHot(indices, N, None, "float64"),
        "weighted": implicit.OneHot(indices, N, normal(N), "float64"),
        "Zeros": implicit.Zeros.of((N, N)),
        "Fill": implicit.Fill.of((N, N), -0.5),
        "Toeplitz": implicit.Toeplitz(normal(N), normal(N)),
        "Kronecker": implicit.Kronecker(normal(2, 2), normal(3, 3)),
        "LowRank": implicit.LowRank(normal(N, 1), normal(1, N)),
        "LoRA": implicit.LoRA(normal(N, N), normal(N, 1), normal(1, N)),
        "quantized": implicit.quantize(normal(N, N), "int8", group_size=4, axis=-1),
    }


def operands() -> SimpleNamespace:
    """The whole arrays of the programs."""
    rng = np.random.default_rng(1)
    signs = rng.choice([-1.0, 1.0], (N, N))
    return SimpleNamespace(
        d=signs * rng.uniform(0.5, 2, (N, N)), mask=rng.random((N, N)) < 0.5, v=rng.normal(size=N)
    )


def _named(*groups: str, without: str = "", more: str = "") -> frozenset[str]:
    names = {name for group in groups for name in GROUPS[group]}
    gone, added = ({x.strip() for x in text.split(";")} - {""} for text in (without, more))
    assert added <= set(PROGRAMS), added - set(PROGRAMS)
    assert gone <= names, gone - names
    return frozenset(names - gone | added)


_POINTWISE = ("numbers", "functions", "two")
_SPARSE = _named(*_POINTWISE, "transpose", "products", "sums", "reductions", "places")
_FACTORS = "w.T; w @ w; w @ w.T; w @ w @ v; w / 2; w * w; w * w.T; w ** 2; square"

KEPT: dict[str, frozenset[str]] = {
    "CSR": _SPARSE,
    "CSC": _SPARSE,
    "BCOO": _SPARSE,
    "Diagonal": _SPARSE,
    "Identity": _SPARSE,
    "BlockDiagonal": _SPARSE,
    "blocks": _SPARSE,
    "OneHot": _SPARSE,
    "weighted": _SPARSE,
    "Zeros": frozenset(PROGRAMS) - {"sort"},
    "Fill": frozenset(PROGRAMS) - {"sort"},
    "Toeplitz": _named(
        *_POINTWISE, "transpose", "sums", "reductions",
        without="where mask 0; where 0 mask; where itself; tril; triu; w * d; d * w; w / d; w * v",
        more="w.T; relu @ v; maximum 0.5; w >= 0; clip above 0; exp",
    ),
    "Kronecker": _named("sums", more=f"{_FACTORS}; abs; max; max 0; norm"),
    "LowRank": _named("sums", more=f"{_FACTORS}; w * v; w + w; w - 2 * w; w + w.T; diagonal; norm"),
    "LoRA": _named("sums", more="w.T; w @ w; w @ w.T; w / 2; w + w; w + w.T; diagonal"),
    "quantized": _named("sums", more="w.T; w @ w; w @ w.T; w / 2"),
}  # fmt: skip
"""By class, the programs in which nothing becomes whole, in JAX's functions and in graphs."""
