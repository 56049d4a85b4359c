"""Random graphs of PyTensor's operations, and PyTensor's gradients of them."""

from __future__ import annotations

import pytest

from tests.interop.pytensor.seeds import MODES, check_seed

SEEDS = [
    pytest.param(seed, marks=[] if seed < 12 else [pytest.mark.exhaustive]) for seed in range(240)
]


@pytest.mark.whole
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_graph_gives_what_pytensors_python_code_gives(seed: int) -> None:
    check_seed(seed, MODES[seed % 3])
