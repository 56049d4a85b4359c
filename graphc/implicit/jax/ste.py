"""The straight-through estimator of JAX's arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from graphc.implicit.array import is_implicit
from graphc.implicit.functions import implicit
from graphc.implicit.jax.fields import moved
from graphc.implicit.policy import materialized
from graphc.implicit.ste import straight_by
from graphc.implicit.straight import Straight

__all__ = ["straight"]


def straight(name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The value of ``call``, with the identity's derivative by operands of its shape.

    Args:
        name: What messages call it.
        call: A function of arrays.
        operands: Arrays, dense or implicit.
    """
    fixed = jax.lax.stop_gradient([*operands])
    is_dense = not any(map(is_implicit, operands))
    y = jax.lax.stop_gradient(call(*fixed) if is_dense else implicit(call)(*fixed))
    through = straight_by(name, operands, y)
    if not is_implicit(y):
        return _moved(name, y, through)
    if len(through) == 1 and through[0].dtype == y.dtype:
        return Straight(y, through[0])
    # Its value is not used, only its derivative.
    return Straight(y, _moved(name, jnp.zeros(y.shape, y.dtype), through))


def _moved(name: str, y: Any, towards: Sequence[Any]) -> Any:
    """A dense array derived as the sum of others is."""

    def whole(x: Any) -> Any:
        return materialized(x, f"the derivative of ste({name})") if is_implicit(x) else x

    return moved(whole, y, towards)
