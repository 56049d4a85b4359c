"""Comparison of results of implicit and of dense programs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import tests.implicit.loops  # noqa: F401 (it fills PROGRAMS)


def assert_same(found: Any, wanted: Any) -> None:
    """Equal up to rounding, relative to the largest number of each array."""
    ours, theirs = jax.tree.leaves(found), jax.tree.leaves(wanted)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if jax.dtypes.issubdtype(b.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        tolerance = 1e-2 if "bfloat16" in str(a.dtype) else 2e-5
        size = float(np.max(np.abs(b), initial=1))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size)
