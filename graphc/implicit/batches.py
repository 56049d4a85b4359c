"""Whether a class accepts leading batch axes, found by computing values."""

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
    """Whether materializing a stack of two equals stacking the two materialized arrays.

    Types cannot tell: ``values - values.mean(0)`` has the shape of a stack for whatever length.
    Classes of graphc's own need no trial. One whose ``materialize`` fails has no stacks.

    Args:
        treedef: Of one element, and of the stack.
        shapes: The types of one element's arrays.
    """
    if all(map(is_own_class, treedef.classes())):
        return True
    return any(_agrees(treedef, shapes, most) for most in (100, 2))


def _agrees(treedef: Treedef, shapes: Shapes, most: int) -> bool:
    """Whether it holds for random integers below a bound: fields may be indices."""
    rng = np.random.default_rng(0)
    stacks = [_drawn(rng, shape, dtype, most) for shape, dtype in shapes]
    jax: Any = sys.modules.get("jax")
    now: AbstractContextManager[Any] = jax.ensure_compile_time_eval() if jax else nullcontext()
    try:
        with now, opening(), np.errstate(all="ignore"):
            both = _whole(treedef, stacks)
            each = np.stack([_whole(treedef, [x[i] for x in stacks]) for i in range(2)])
    except Exception:  # whatever its class raises: it has no such arrays
        return False
    if both.shape != each.shape:
        return False
    # Sums of products may be rounded otherwise in a batch; what mixes elements is far off.
    size = np.max(np.abs(each), initial=0, where=np.isfinite(each)) if each.size else 0
    return np.allclose(both, each, rtol=1e-2, atol=1e-2 * float(size), equal_nan=True)


def _drawn(rng: np.random.Generator, shape: Any, dtype: np.dtype[Any], most: int) -> Any:
    lengths = (2, *[n if isinstance(n, int) else UNKNOWN for n in shape])
    if dtype.kind in "biu":
        return rng.integers(0, most, lengths).astype(dtype)
    return rng.uniform(0.5, 2.0, lengths).astype(dtype)


def _whole(treedef: Treedef, leaves: list[Any]) -> np.ndarray[Any, Any]:
    made = treedef.build(leaves)
    while declares_implicit(made):
        made = made.materialize()
    found = np.asarray(made)
    return found.astype(complex if found.dtype.kind == "c" else float)
