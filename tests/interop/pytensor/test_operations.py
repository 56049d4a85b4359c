"""What PyTensor's operations compute, and their gradients, are the same after conversion."""

from __future__ import annotations

import pytest

from tests.interop.pytensor.cases import CASES
from tests.interop.pytensor.oracle import check

SLOW = (
    *("inverses_of_special_functions", "special_functions_of_two", "special_functions"),
    *("loops_of_scalars_in_gradients", "padding", "matrix_equations"),
)
"""Those that compile for seconds; ``make test`` runs them in NumPy."""

RUNS = [
    pytest.param(
        name, mode, marks=[pytest.mark.exhaustive] if name in SLOW and mode != "NUMPY" else []
    )
    for name, made in CASES.items()
    for mode in ("NUMPY", "JAX", "MLX")
    if mode not in made.lacking  # type: ignore[attr-defined]
]


@pytest.mark.sample("name", every=2)
@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_an_operation_gives_what_pytensors_python_code_gives(name: str, mode: str) -> None:
    inputs, outputs, values = CASES[name]()
    check(inputs, outputs, values, mode)
