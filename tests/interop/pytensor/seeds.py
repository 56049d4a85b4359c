"""One random graph of PyTensor's operations, converted and compared."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from pytensor.gradient import grad

from tests.interop.pytensor.graphs import Maker
from tests.interop.pytensor.oracle import check, computed

__all__ = ["MODES", "check_seed"]

MODES = ("NUMPY", "JAX", "MLX")


def check_seed(seed: int, mode: str) -> bool:
    """Check the graph of a seed on a backend; False where PyTensor has nothing finite to compare.

    Raises:
        AssertionError: A value, a dtype or a shape is another one than PyTensor's.
    """
    maker = Maker(seed)
    maker.grow(12)
    outputs = _outputs_of(maker)
    expected = computed(maker.inputs, outputs, maker.values)
    if not all(np.isfinite(x).all() for x in expected):
        return False
    # Narrow floats are rounded differently in between.
    narrow = any(x.dtype == "float32" for x in maker.pool)
    check(maker.inputs, outputs, maker.values, mode, expected, 2e-4 if narrow else 1e-10)
    return True


def _outputs_of(maker: Maker) -> list[Any]:
    """The last results, and their gradients by float64 inputs."""
    outputs = [y for y in maker.pool if y.owner is not None][-4:]
    floats = [y for y in outputs if y.dtype == "float64"]
    wrt = [x for x in maker.inputs if x.dtype == "float64"]
    if floats and wrt:
        options = {"disconnected_inputs": "ignore", "return_disconnected": "zero"}
        with suppress(TypeError):  # its gradient of argmax of integers is one that it refuses
            outputs += grad(sum(y.sum() for y in floats), wrt, **options)
    return outputs
