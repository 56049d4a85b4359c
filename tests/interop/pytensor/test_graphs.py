"""Random graphs of PyTensor's operations, and PyTensor's gradients of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from pytensor.gradient import grad

from tests.interop.pytensor.graphs import Maker
from tests.interop.pytensor.oracle import check, computed

SEEDS = [
    pytest.param(seed, marks=[] if seed < 12 else [pytest.mark.exhaustive]) for seed in range(600)
]


def outputs_of(maker: Maker) -> list[Any]:
    """The last results, and their gradients by float64 inputs."""
    outputs = [y for y in maker.pool if y.owner is not None][-4:]
    floats = [y for y in outputs if y.dtype == "float64"]
    wrt = [x for x in maker.inputs if x.dtype == "float64"]
    if floats and wrt:
        options = {"disconnected_inputs": "ignore", "return_disconnected": "zero"}
        with suppress(TypeError):  # its gradient of argmax of integers is one that it refuses
            outputs += grad(sum(y.sum() for y in floats), wrt, **options)
    return outputs


@pytest.mark.whole
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_graph_gives_what_pytensors_python_code_gives(seed: int) -> None:
    maker = Maker(seed)
    maker.grow(12)
    outputs = outputs_of(maker)
    expected = computed(maker.inputs, outputs, maker.values)
    # Narrow floats are rounded differently in between.
    narrow = any(x.dtype == "float32" for x in maker.pool)
    if all(np.isfinite(x).all() for x in expected):
        mode = ("NUMPY", "JAX", "MLX")[seed % 3]
        check(maker.inputs, outputs, maker.values, mode, expected, 2e-4 if narrow else 1e-10)
