"""Whether a class takes axes in front for batches, found out by values."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.implicit.array import opening
from graphc.implicit.form import Form, is_form
from graphc.ir import is_own_class

__all__ = ["is_elementwise"]

Shapes = tuple[tuple[tuple[Any, ...], np.dtype[Any]], ...]
"""The lengths and dtype of each array, None or a symbol for a length that is not known."""

UNKNOWN = 3
"""What stands for a length that is not known."""


@lru_cache(1024)
def is_elementwise(form: Form, shapes: Shapes) -> bool:
    """Whether the whole of a stack of two is the two wholes.

    Types cannot tell: ``values - values.mean(0)`` has the shape of a stack for whatever length.
    Classes of graphc's own need no trial. One whose ``materialize`` fails has no stacks.

    Args:
        form: Of one element, and of the stack.
        shapes: The types of one element's arrays.
    """
    if all(map(is_own_class, form.classes())):
        return True
    return any(_agrees(form, shapes, most) for most in (100, 2))


def _agrees(form: Form, shapes: Shapes, most: int) -> bool:
    """The same for integers below a bound: they may be places in something."""
    rng = np.random.default_rng(0)
    stacks = [_drawn(rng, shape, dtype, most) for shape, dtype in shapes]
    jax: Any = sys.modules.get("jax")
    now: AbstractContextManager[Any] = jax.ensure_compile_time_eval() if jax else nullcontext()
    try:
        with now, opening(), np.errstate(all="ignore"):
            both = _whole(form, stacks)
            each = np.stack([_whole(form, [x[i] for x in stacks]) for i in range(2)])
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


def _whole(form: Form, leaves: list[Any]) -> np.ndarray[Any, Any]:
    made = form.build(leaves)
    while is_form(made):
        made = made.materialize()
    found = np.asarray(made)
    return found.astype(complex if found.dtype.kind == "c" else float)
