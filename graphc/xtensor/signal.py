"""Convolution along named dimensions; all others are a batch."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.errors import ArgumentError
from graphc.xtensor.batch import core_of, with_core
from graphc.xtensor.type import XTensor

__all__ = ["convolve1d"]


def convolve1d(in1: Any, in2: Any, mode: str = "full", *, dims: tuple[str, str]) -> XTensor:
    """Return the convolution of two arrays along a dimension of each.

    Args:
        in1: The first array.
        in2: The second array.
        mode: ``"full"``, ``"valid"`` or ``"same"``, as for ``graphc.tensor.signal.convolve1d``.
        dims: The dimension of ``in1``, which the result has too, and the one of ``in2``.

    Raises:
        ArgumentError: The dimensions are one, or there is no such mode.
        AxisError: An array lacks its dimension.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.as_xtensor([[1, 2, 3], [0, 1, 0]], dims=("city", "year"))
        >>> kernel = gx.as_xtensor([1, -1], dims=("lag",))
        >>> convolve1d(x, kernel, "same", dims=("year", "lag")).eval(mode="NUMPY").tolist()
        [[1, 1, 1], [0, 1, -1]]
    """
    names = core_of("convolve1d", dims, (2,))
    (a, b), batch = with_core("convolve1d", [in1, in2], [(each,) for each in names])
    if mode not in {"full", "valid", "same"}:
        raise ArgumentError(f"convolve1d: mode={mode!r}.", "Use 'full', 'valid' or 'same'.")
    return XTensor(gt.signal.convolve1d(a, b, mode), [*batch, names[0]])
