"""What JAX gives for a function called by hand, and the modes in which graphs can call one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import graphc
from tests.modes import uncompiled

__all__ = ["MODES", "assert_equal_trees", "by_hand", "computed"]

MODES = {
    "JAX": graphc.Mode("JAX"),
    "NUMPY": graphc.Mode("NUMPY"),
    "MLX": uncompiled("MLX", fallback="numpy"),
}


def by_hand(function: Callable[..., Any], *args: Any) -> Any:
    """What the function gives for arrays, as JAX runs it in 64-bit mode."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(function)(*args))


def computed(mode: str, inputs: Any, outputs: Any, *values: Any) -> Any:
    """What graphc gives in that mode, as NumPy arrays."""
    f = graphc.function(inputs, outputs, MODES[mode], on_unused_input="ignore", returns="numpy")
    return f(*values)


def assert_equal_trees(found: Any, wanted: Any) -> None:
    """Equal structures of arrays of equal dtypes and shapes, and of equal values but rounding."""
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        tolerance = 1e-5 if a.dtype.itemsize == 4 or a.dtype == np.complex64 else 1e-12
        np.testing.assert_allclose(a, b, tolerance, tolerance)
