"""PyTensor's own Python code as the reference of what its graphs compute."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable

import graphc
from graphc.interop.pytensor import from_pytensor

PYTHON = Mode(linker="py", optimizer=None)
"""PyTensor without rewrites, C and Numba."""


REWRITTEN = Mode(linker="py", optimizer="fast_compile")
"""The same after PyTensor's quick rewrites."""


def computed(
    inputs: Sequence[Any], outputs: Sequence[Any], values: Sequence[Any], mode: Any = PYTHON
) -> list[Any]:
    """What PyTensor computes, in the dtypes that it declares; its Python code may give others."""
    with warnings.catch_warnings(action="ignore"):  # it uses what NumPy deprecates
        f = pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
        found = f(*values)
    return [np.asarray(x).astype(y.type.dtype) for x, y in zip(found, outputs, strict=True)]


def check(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    values: Sequence[Any],
    mode: str,
    expected: Sequence[Any] | None = None,
    tolerance: float = 1e-10,
) -> None:
    """Check that the converted graph has PyTensor's values, dtypes and shapes."""
    if expected is None:
        expected = computed(inputs, outputs, values)
    ins, outs = from_pytensor([list(inputs), list(outputs)])
    f = graphc.function(ins, outs, mode=mode, on_unused_input="ignore", returns="numpy")
    for y, found, wanted in zip(outputs, f(*values), expected, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), y
        narrow = found.dtype.itemsize < 8 or found.dtype == np.complex64
        near = max(tolerance, 1e-4) if narrow and found.dtype.kind in "fc" else tolerance
        np.testing.assert_allclose(found, wanted, near, near, err_msg=str(y))
