"""Bessel functions that JAX has, in float64: in float32 exp overflows before its product."""

from __future__ import annotations

import jax.scipy.special

from graphc.link.jax.lower.special.special import in_float64
from graphc.tensor.special.bessel import i0, i0e, i1, i1e

in_float64(i0, jax.scipy.special.i0)
in_float64(i1, jax.scipy.special.i1)
in_float64(i0e, jax.scipy.special.i0e)
in_float64(i1e, jax.scipy.special.i1e)
