"""Printing from compiled programs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from graphc.link.jax.backend import backend
from graphc.tensor.core.print import Print


@backend.lower(Print)
def show(op: Print, x: Any) -> Any:
    """Print by a callback, which the program does not wait for."""
    jax.debug.callback(lambda value: op.show(np.asarray(value)), x)
    return x
