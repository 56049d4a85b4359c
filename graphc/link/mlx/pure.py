"""Functions that MLX transforms, with graphc's derivatives and batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from graphc.ir import TensorType, is_inexact
from graphc.link.backend import Executable
from graphc.link.mlx.arrays import device_array, dtype_of
from graphc.link.transformable import Transformable


def transformable(function: Transformable) -> Executable:
    """A function of MLX arrays; derivatives and batches of it are such functions again."""

    def run(*arrays: Any) -> list[Any]:
        return [device_array(y) for y in function.run(*_given(arrays, function.arguments))]

    custom: Any = mx.custom_function(run)
    ins, outs = _inexact(function.arguments), _inexact(function.results)

    @custom.vjp  # type: ignore[untyped-decorator]
    def pull(primals: Any, cotangents: Any, results: Any) -> list[Any]:
        del results
        xs, gs = _listed(primals), _listed(cotangents)
        pulled = function.vjp(ins, outs).bound
        found = pulled(*xs, *[gs[i] for i in outs])
        made = dict(zip(ins, found, strict=True))
        return [
            made[i].astype(x.dtype) if i in made else mx.zeros_like(x) for i, x in enumerate(xs)
        ]

    @custom.jvp  # type: ignore[untyped-decorator]
    def push(primals: Any, tangents: Any) -> list[Any]:
        xs, ts = _listed(primals), _listed(tangents)
        pushed = function.jvp(ins, outs).bound
        found = pushed(*xs, *[ts[i] if ts[i] is not None else mx.zeros_like(xs[i]) for i in ins])
        made = dict(zip(outs, found, strict=True))
        # What has no tangent is of no other use here than for its shape.
        whole = made if len(made) == len(function.results) else dict(enumerate(run(*xs)))
        return [made[i] if i in made else mx.zeros_like(y) for i, y in sorted(whole.items())]

    @custom.vmap  # type: ignore[untyped-decorator]
    def batch(arrays: Any, axes: Any) -> tuple[list[Any], list[int]]:
        xs, places = _listed(arrays), _listed(axes)
        flags = tuple(axis is not None and axis >= 0 for axis in places)
        given = [
            mx.moveaxis(x, axis, 0) if flag else x
            for x, axis, flag in zip(xs, places, flags, strict=True)
        ]
        found = list(function.batch(flags).bound(*given))
        return found, [0] * len(found)

    return custom  # type: ignore[no-any-return]


def _given(arrays: Sequence[Any], types: Sequence[TensorType]) -> list[Any]:
    return [device_array(x).astype(dtype_of(t.dtype)) for x, t in zip(arrays, types, strict=True)]


def _inexact(types: Sequence[TensorType]) -> tuple[int, ...]:
    return tuple(i for i, t in enumerate(types) if is_inexact(t.dtype))


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]
