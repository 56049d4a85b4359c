"""Functions that MLX transforms, with graphc's derivatives and batching rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from graphc.ir import TensorType, is_inexact
from graphc.link.backend import Executable
from graphc.link.mlx.arrays import device_array, dtype_of
from graphc.link.transformable import Transformable


def transformable(function: Transformable) -> Executable:
    """Return a function of MLX arrays whose derivatives and batches are such functions."""

    def run(*arrays: Any) -> list[Any]:
        pairs = zip(arrays, function.arguments, strict=True)
        arguments = [device_array(x).astype(dtype_of(t.dtype)) for x, t in pairs]
        return [device_array(y) for y in function.run(*arguments)]

    custom: Any = mx.custom_function(run)
    ins, outs = _inexact(function.arguments), _inexact(function.results)

    @custom.vjp  # type: ignore[untyped-decorator]
    def pull(primals: Any, cotangents: Any, results: Any) -> list[Any]:
        del results
        xs, gs = _as_list(primals), _as_list(cotangents)
        gradients = function.vjp(ins, outs).bound(*xs, *[gs[i] for i in outs])
        dx = dict(zip(ins, gradients, strict=True))
        return [dx[i].astype(x.dtype) if i in dx else mx.zeros_like(x) for i, x in enumerate(xs)]

    @custom.jvp  # type: ignore[untyped-decorator]
    def push(primals: Any, tangents: Any) -> list[Any]:
        xs, ts = _as_list(primals), _as_list(tangents)
        dx = [mx.zeros_like(xs[i]) if ts[i] is None else ts[i] for i in ins]
        dy = dict(zip(outs, function.jvp(ins, outs).bound(*xs, *dx), strict=True))
        # A result without a tangent is computed for its shape only.
        ys = dy if len(dy) == len(function.results) else dict(enumerate(run(*xs)))
        return [dy[i] if i in dy else mx.zeros_like(y) for i, y in sorted(ys.items())]

    @custom.vmap  # type: ignore[untyped-decorator]
    def batch(arrays: Any, axes: Any) -> tuple[list[Any], list[int]]:
        xs, positions = _as_list(arrays), _as_list(axes)
        flags = tuple(axis is not None and axis >= 0 for axis in positions)
        operands = [
            mx.moveaxis(x, axis, 0) if flag else x
            for x, axis, flag in zip(xs, positions, flags, strict=True)
        ]
        results = [*function.batch(flags).bound(*operands)]
        return results, [0] * len(results)

    return custom  # type: ignore[no-any-return]


def _inexact(types: Sequence[TensorType]) -> tuple[int, ...]:
    return tuple(i for i, t in enumerate(types) if is_inexact(t.dtype))


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]
