"""An Int8 weight, and inputs for it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.implicit.programs import Int8


def weight(dtype: Any = jnp.float32) -> Int8:
    rng = np.random.default_rng(3)
    return Int8(jnp.asarray(rng.integers(-100, 100, (4, 5)), jnp.int8), jnp.asarray(0.01, dtype))


X = jnp.asarray(np.random.default_rng(4).normal(size=(3, 4)), jnp.float32)
