"""Handlers of JAX's primitives on arrays of one number, whose results are such arrays too."""

from __future__ import annotations

from typing import Any

import jax

from graphc.implicit.known import is_same_number, number_of
from graphc.implicit.registry import register
from graphc.implicit.structures.fill import Fill
from graphc.link.jax.implicit.primitives import primitive

FILLING = jax.lax.GatherScatterMode.FILL_OR_DROP


def _with_shape(x: Fill, shape: Any) -> Any:
    """Return an array of the same number; NotImplemented for a stack of numbers."""
    return NotImplemented if x.depth else x.with_value(x.value, tuple(map(int, shape)))


# After the handler of structured arrays, which fills slices out of bounds.
@register("gather", precedence=-1)
def _gather(x: Fill, indices: Any, *, mode: Any, **parameters: Any) -> Any:
    if mode == FILLING:
        return NotImplemented
    types: Any = [jax.core.ShapedArray(operand.shape, operand.dtype) for operand in (x, indices)]

    def gather(*operands: Any) -> Any:
        return jax.lax.gather_p.bind(*operands, mode=mode, **parameters)

    return _with_shape(x, jax.eval_shape(gather, *types).shape)


@register("pad")
def _pad(x: Fill, value: Any, *, padding_config: Any) -> Any:
    if not is_same_number(x, value):
        return NotImplemented
    lengths = [
        low + high + n + max(n - 1, 0) * interior
        for n, (low, high, interior) in zip(x.shape, padding_config, strict=True)
    ]
    return _with_shape(x, lengths)


@register("sort")
def _sort(x: Fill, **_: Any) -> Any:
    return [x]


def _register_identity(name: str, *, of_zeros: bool) -> None:
    def apply(x: Fill, **_: Any) -> Any:
        return x if not of_zeros or number_of(x) == 0 else NotImplemented

    if primitive(name) is not None:
        register(name)(apply)


for _name in ("cummax", "cummin"):
    _register_identity(_name, of_zeros=False)
for _name in ("cumsum", "cumprod", "reduce_precision"):
    _register_identity(_name, of_zeros=True)
