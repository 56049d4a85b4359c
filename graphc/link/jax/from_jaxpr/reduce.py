"""Primitives that combine elements along axes: reductions, scans, sorting, windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import is_complex, is_inexact
from graphc.link.jax.from_jaxpr.equation import Converter, JaxprEquation, UnsupportedEquationError
from graphc.link.jax.from_jaxpr.shapes import windows
from graphc.tensor import Tensor


def _logical(function: Callable[..., Any]) -> Converter:
    """Return the converter of a reduction of bools; JAX reduces the bits of integers."""

    def convert(eqn: JaxprEquation, x: Tensor) -> Tensor:
        if x.dtype != "bool":
            raise UnsupportedEquationError
        return function(x, axis=tuple(eqn["axes"]))  # type: ignore[no-any-return]

    return convert


def _extreme(function: Callable[..., Any], least: bool) -> Converter:
    """Return the converter of a maximum or minimum, which has a value for no elements too."""

    def convert(eqn: JaxprEquation, x: Tensor) -> Tensor:
        axes = tuple(eqn["axes"])
        return function(x, axis=axes, initial=extreme_value(x.dtype, least))  # type: ignore[no-any-return]

    return convert


def extreme_value(dtype: str, least: bool) -> Any:
    """Return the least or the greatest number of a dtype."""
    if is_complex(dtype):
        raise UnsupportedEquationError
    if is_inexact(dtype):
        return np.array(-np.inf if least else np.inf, dtype)
    if dtype == "bool":
        return np.array(not least)
    bounds = np.iinfo(dtype)
    return np.array(bounds.min if least else bounds.max, dtype)


def _scan(function: Callable[..., Any], *, keeps_dtype: bool = False) -> Converter:
    def convert(eqn: JaxprEquation, x: Tensor) -> Tensor:
        axis, options = eqn["axis"], {"dtype": x.dtype} if keeps_dtype else {}
        if eqn["reverse"]:
            return gt.flip(function(gt.flip(x, axis), axis=axis, **options), axis)
        return function(x, axis=axis, **options)  # type: ignore[no-any-return]

    return convert


def _sort(eqn: JaxprEquation, *operands: Tensor) -> list[Tensor]:
    axis, n = eqn["dimension"], eqn["num_keys"]
    if any(is_complex(x.dtype) for x in operands[:n]):
        raise UnsupportedEquationError
    if len(operands) == 1:
        return [gt.sort(operands[0], axis=axis)]
    keys = operands[:n]
    order = (
        gt.argsort(keys[0], axis=axis, stable=True) if n == 1 else gt.lexsort(keys[::-1], axis=axis)
    )
    return [gt.take_along_axis(x, order, axis=axis) for x in operands]


def _top_k(eqn: JaxprEquation, x: Tensor) -> list[Tensor]:
    axis = eqn.eqn.params.get("axis", x.ndim - 1)
    values, indices = gt.top_k(x, eqn.lengths(eqn["k"]), axis=axis)
    return [values, indices.astype("int32")]


def _window_reduction(function: Callable[..., Any], neutral: Callable[[str], Any]) -> Converter:
    """Return the converter of a reduction of each window, padded by ``neutral(dtype)``."""

    def convert(eqn: JaxprEquation, x: Tensor) -> Tensor:
        value = gt.as_tensor(neutral(x.dtype))
        dilations = ("base_dilation", "window_dilation")
        parts = windows(eqn, x, value, eqn["window_dimensions"], dilations)
        return function(parts, axis=0)  # type: ignore[no-any-return]

    return convert


REDUCTIONS: dict[str, Converter] = {
    # JAX keeps the dtype of sums and products, NumPy does not.
    "reduce_sum": lambda eqn, x: gt.sum(x, axis=tuple(eqn["axes"]), dtype=x.dtype),
    "reduce_prod": lambda eqn, x: gt.prod(x, axis=tuple(eqn["axes"]), dtype=x.dtype),
    "reduce_max": _extreme(gt.max, least=True),
    "reduce_min": _extreme(gt.min, least=False),
    "reduce_and": _logical(gt.all),
    "reduce_or": _logical(gt.any),
    "argmax": lambda eqn, x: gt.argmax(x, axis=eqn["axes"][0]).astype(eqn.dtype),
    "argmin": lambda eqn, x: gt.argmin(x, axis=eqn["axes"][0]).astype(eqn.dtype),
    "cumsum": _scan(gt.cumsum, keeps_dtype=True),
    "cumprod": _scan(gt.cumprod, keeps_dtype=True),
    "cummax": _scan(gt.cummax),
    "cummin": _scan(gt.cummin),
    "cumlogsumexp": _scan(gt.logcumsumexp),
    "sort": _sort,
    "top_k": _top_k,
    "reduce_window_sum": _window_reduction(
        lambda x, axis: gt.sum(x, axis=axis, dtype=x.dtype), lambda dtype: np.zeros((), dtype)
    ),
    "reduce_window_max": _window_reduction(gt.max, lambda dtype: extreme_value(dtype, least=True)),
    "reduce_window_min": _window_reduction(gt.min, lambda dtype: extreme_value(dtype, least=False)),
}
"""Converters of primitives that combine elements along axes."""
