"""Handlers of JAX's primitives on arrays of one number, which stay such wherever elements go."""

from __future__ import annotations

from typing import Any

import jax

from graphc.implicit.known import is_same_number, number_of
from graphc.implicit.registry import register
from graphc.implicit.structures.fill import Fill
from graphc.link.jax.implicit.primitives import primitive

FILLING = jax.lax.GatherScatterMode.FILL_OR_DROP


def _of_shape(x: Fill, shape: Any) -> Any:
    """The same number in another shape; of a stack of numbers NotImplemented."""
    return NotImplemented if x.depth else x.with_value(x.value, tuple(map(int, shape)))


# After the handler of structures, which knows what is out of bounds.
@register("gather", precedence=-1)
def _gather(x: Fill, indices: Any, *, mode: Any, **parameters: Any) -> Any:
    if mode == FILLING:
        return NotImplemented
    types: Any = [jax.core.ShapedArray(part.shape, part.dtype) for part in (x, indices)]

    def gathered(*operands: Any) -> Any:
        return jax.lax.gather_p.bind(*operands, mode=mode, **parameters)

    return _of_shape(x, jax.eval_shape(gathered, *types).shape)


@register("pad")
def _pad(x: Fill, value: Any, *, padding_config: Any) -> Any:
    if not is_same_number(x, value):
        return NotImplemented
    lengths = [
        low + high + n + max(n - 1, 0) * inside
        for n, (low, high, inside) in zip(x.shape, padding_config, strict=True)
    ]
    return _of_shape(x, lengths)


@register("sort")
def _sort(x: Fill, **_: Any) -> Any:
    return [x]


def _enter_unchanging(name: str, *, of_zeros: bool) -> None:
    def apply(x: Fill, **_: Any) -> Any:
        return x if not of_zeros or number_of(x) == 0 else NotImplemented

    if primitive(name) is not None:
        register(name)(apply)


for _name in ("cummax", "cummin"):
    _enter_unchanging(_name, of_zeros=False)
for _name in ("cumsum", "cumprod", "reduce_precision"):
    _enter_unchanging(_name, of_zeros=True)
