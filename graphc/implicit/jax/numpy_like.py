"""NumPy's functions for JAX's arrays, some of which may be implicit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from graphc.implicit.functions import implicit
from graphc.implicit.jax.interpreter import on_behalf, where_now
from graphc.implicit.jax.trace import called
from graphc.implicit.level import Level, has_implicit

__all__ = ["JAX"]


class Jax(Level):
    """JAX's functions; where operands are implicit, they are run through."""

    name = "JAX"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _run_through(getattr(jnp, name))

    def dot_general(self, a: Any, b: Any, contract: Any, batch: Any = ((), ())) -> Any:
        return _dot_general(a, b, (contract, batch))

    def cast(self, x: Any, dtype: Any) -> Any:
        return _cast(x, dtype)

    def segment_sum(self, values: Any, ids: Any, n: int) -> Any:
        # JAX counts negative ones from the end.
        return _segment_sum(values, jnp.where(ids < 0, n, ids), num_segments=n)

    def getitem(self, x: Any, index: Any) -> Any:
        return _getitem(x, index)

    def implicit(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """A function of JAX's as one that takes implicit arrays."""
        run: Callable[..., Any] = implicit(f)
        return run


def _run_through(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if has_implicit([*args, *kwargs.values()]):
            with on_behalf(where_now()):
                return called(function, args, kwargs)
        return function(*args, **kwargs)

    return run


_dot_general = _run_through(jax.lax.dot_general)
_cast = _run_through(jax.lax.convert_element_type)
_segment_sum = _run_through(jax.ops.segment_sum)
_getitem = _run_through(operator.getitem)

JAX = Jax()
