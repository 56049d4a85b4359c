"""Whether a class accepts leading batch axes, decided by computing values."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.implicit.array import opening
from graphc.implicit.treedef import Treedef, declares_implicit
from graphc.ir import is_own_class

Shapes = tuple[tuple[tuple[Any, ...], np.dtype[Any]], ...]
"""The lengths and dtype of each array, None or a symbol for a length that is not known."""

UNKNOWN = 3
"""The number that stands for an unknown length."""


@lru_cache(1024)
def is_elementwise(treedef: Treedef, shapes: Shapes) -> bool:
    """Return whether materializing a stack of two equals stacking two dense arrays.

    Types cannot decide: ``values - values.mean(0)`` has the shape of a stack for every length.
    graphc's own classes need no trial. A class whose ``materialize`` fails has no stacks.

    Args:
        treedef: The tree structure of one element, and of the stack.
        shapes: The types of the arrays of one element.
    """
    if all(map(is_own_class, treedef.classes())):
        return True
    # Integer fields may be indices, which are out of bounds if they are large.
    return any(_agrees(treedef, shapes, bound) for bound in (100, 2))


def _agrees(treedef: Treedef, shapes: Shapes, bound: int) -> bool:
    rng = np.random.default_rng(0)
    stacks = [_draw_stack(rng, shape, dtype, bound) for shape, dtype in shapes]
    jax: Any = sys.modules.get("jax")
    now: AbstractContextManager[Any] = jax.ensure_compile_time_eval() if jax else nullcontext()
    try:
        with now, opening(), np.errstate(all="ignore"):
            batched = _densify(treedef, stacks)
            stacked = np.stack([_densify(treedef, [x[i] for x in stacks]) for i in range(2)])
    except Exception:  # whatever the class raises: it has no stacks
        return False
    if batched.shape != stacked.shape:
        return False
    # A batch may round sums of products differently; mixing elements changes far more.
    size = np.max(np.abs(stacked), initial=0, where=np.isfinite(stacked)) if stacked.size else 0
    return np.allclose(batched, stacked, rtol=1e-2, atol=1e-2 * float(size), equal_nan=True)


def _draw_stack(rng: np.random.Generator, shape: Any, dtype: np.dtype[Any], bound: int) -> Any:
    lengths = (2, *[n if isinstance(n, int) else UNKNOWN for n in shape])
    if dtype.kind in "biu":
        return rng.integers(0, bound, lengths).astype(dtype)
    return rng.uniform(0.5, 2.0, lengths).astype(dtype)


def _densify(treedef: Treedef, leaves: list[Any]) -> np.ndarray[Any, Any]:
    array = treedef.build(leaves)
    while declares_implicit(array):
        array = array.materialize()
    array = np.asarray(array)
    return array.astype(complex if array.dtype.kind == "c" else float)
