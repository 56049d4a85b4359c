"""Products over axes in ``jax.lax``."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.linalg.dot import DotGeneral


@backend.lower(DotGeneral)
def dot_general(op: DotGeneral, a: Any, b: Any) -> Any:
    """Contract; for bools, count the true products in int32."""
    logical = a.dtype.kind == "b"
    if logical:
        a, b = (lax.convert_element_type(x, np.int32) for x in (a, b))
    y = lax.dot_general(a, b, (op.contract, op.batch_axes), preferred_element_type=a.dtype)
    return lax.ne(y, np.int32(0)) if logical else y
