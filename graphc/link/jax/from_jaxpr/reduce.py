"""Primitives that combine elements along axes: reductions, running ones, sorting, windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import is_complex, is_inexact
from graphc.link.jax.from_jaxpr.equation import Converter, Equation, Refusal
from graphc.tensor import Tensor
from graphc.tensor.signal.patches import MOST, dilate, pad_or_crop, patches


def _reduction(function: Callable[..., Any]) -> Converter:
    """A sum or product, which keeps the dtype, unlike NumPy's."""

    def convert(eqn: Equation, x: Tensor) -> Tensor:
        return function(x, axis=tuple(eqn["axes"]), dtype=x.dtype)  # type: ignore[no-any-return]

    return convert


def _logical(function: Callable[..., Any]) -> Converter:
    """A reduction of bools; of integers, JAX has one of their bits."""

    def convert(eqn: Equation, x: Tensor) -> Tensor:
        if x.dtype != "bool":
            raise Refusal
        return function(x, axis=tuple(eqn["axes"]))  # type: ignore[no-any-return]

    return convert


def _extreme(function: Callable[..., Any], least: bool) -> Converter:
    """A maximum or minimum; of no elements it is the least or greatest number."""

    def convert(eqn: Equation, x: Tensor) -> Tensor:
        axes = tuple(eqn["axes"])
        return function(x, axis=axes, initial=bound(x.dtype, least))  # type: ignore[no-any-return]

    return convert


def bound(dtype: str, least: bool) -> Any:
    """The least or greatest number of a dtype."""
    if is_complex(dtype):
        raise Refusal
    if is_inexact(dtype):
        return np.array(-np.inf if least else np.inf, dtype)
    if dtype == "bool":
        return np.array(not least)
    bounds = np.iinfo(dtype)
    return np.array(bounds.min if least else bounds.max, dtype)


def _place_of(function: Callable[..., Any]) -> Converter:
    def convert(eqn: Equation, x: Tensor) -> Tensor:
        (axis,) = eqn["axes"]
        return function(x, axis=axis).astype(eqn.dtype)  # type: ignore[no-any-return]

    return convert


def _running(function: Callable[..., Any], *, keeps: bool = False) -> Converter:
    def convert(eqn: Equation, x: Tensor) -> Tensor:
        axis, options = eqn["axis"], {"dtype": x.dtype} if keeps else {}
        if eqn["reverse"]:
            return gt.flip(function(gt.flip(x, axis), axis=axis, **options), axis)
        return function(x, axis=axis, **options)  # type: ignore[no-any-return]

    return convert


def _sort(eqn: Equation, *operands: Tensor) -> list[Tensor]:
    axis, n = eqn["dimension"], eqn["num_keys"]
    if any(is_complex(x.dtype) for x in operands[:n]):
        raise Refusal
    if len(operands) == 1:
        return [gt.sort(operands[0], axis=axis)]
    keys = operands[:n]
    order = (
        gt.argsort(keys[0], axis=axis, stable=True) if n == 1 else gt.lexsort(keys[::-1], axis=axis)
    )
    return [gt.take_along_axis(x, order, axis=axis) for x in operands]


def _top_k(eqn: Equation, x: Tensor) -> list[Tensor]:
    axis = eqn.eqn.params.get("axis", x.ndim - 1)
    values, places = gt.top_k(x, eqn.lengths(eqn["k"]), axis=axis)
    return [values, places.astype("int32")]


def _windows(function: Callable[..., Any], neutral: Callable[[str], Any]) -> Converter:
    """A reduction of each window."""

    def convert(eqn: Equation, x: Tensor) -> Tensor:
        value = gt.as_tensor(neutral(x.dtype))
        for axis, n in enumerate(eqn["base_dilation"]):
            if n > 1:
                x = dilate(x, axis, n - 1, value)
        for axis, padding in enumerate(eqn["padding"]):
            low, high = map(eqn.lengths, padding)
            x = pad_or_crop(x, axis, (low, high), value)
        sizes = eqn["window_dimensions"]
        if not all(isinstance(n, int) for n in sizes) or np.prod(sizes) > MOST:
            raise Refusal
        return function(  # type: ignore[no-any-return]
            patches(x, sizes, eqn["window_strides"], eqn["window_dilation"]), axis=0
        )

    return convert


def _total(x: Tensor, axis: int) -> Tensor:
    return gt.sum(x, axis=axis, dtype=x.dtype)


REDUCTIONS: dict[str, Converter] = {
    "reduce_sum": _reduction(gt.sum),
    "reduce_prod": _reduction(gt.prod),
    "reduce_max": _extreme(gt.max, least=True),
    "reduce_min": _extreme(gt.min, least=False),
    "reduce_and": _logical(gt.all),
    "reduce_or": _logical(gt.any),
    "argmax": _place_of(gt.argmax),
    "argmin": _place_of(gt.argmin),
    "cumsum": _running(gt.cumsum, keeps=True),
    "cumprod": _running(gt.cumprod, keeps=True),
    "cummax": _running(gt.cummax),
    "cummin": _running(gt.cummin),
    "cumlogsumexp": _running(gt.logcumsumexp),
    "sort": _sort,
    "top_k": _top_k,
    "reduce_window_sum": _windows(_total, lambda dtype: np.zeros((), dtype)),
    "reduce_window_max": _windows(gt.max, lambda dtype: bound(dtype, least=True)),
    "reduce_window_min": _windows(gt.min, lambda dtype: bound(dtype, least=False)),
}
"""Converters of primitives that combine elements along axes."""
