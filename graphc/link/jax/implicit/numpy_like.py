"""The namespace of JAX arrays, of which some may be implicit."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from graphc.implicit.array import is_implicit
from graphc.implicit.functions import implicit
from graphc.implicit.namespace import ArrayNamespace, has_implicit
from graphc.link.jax.explicit import explicit_mesh, spec_of
from graphc.link.jax.implicit.interpreter import report_at, where_now
from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.implicit.trace import trace_and_run


def _interpret(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if has_implicit([*args, *kwargs.values()]):
            with report_at(where_now()):
                return trace_and_run(function, args, kwargs, is_implicit)
        return function(*args, **kwargs)

    return run


_matmul = _interpret(jnp.matmul)
_dot_general = _interpret(jax.lax.dot_general)
_segment_sum = _interpret(jax.ops.segment_sum)


class JaxNamespace(ArrayNamespace):
    """JAX's functions, interpreted if an operand is implicit."""

    name = "JAX"
    fft = jnp.fft
    cast = staticmethod(_interpret(jax.lax.convert_element_type))
    getitem = staticmethod(_interpret(operator.getitem))
    solve = staticmethod(_interpret(jnp.linalg.solve))
    inv = staticmethod(_interpret(jnp.linalg.inv))
    det = staticmethod(_interpret(jnp.linalg.det))
    slogdet = staticmethod(_interpret(jnp.linalg.slogdet))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _interpret(getattr(jnp, name))

    def matmul(self, a: Any, b: Any) -> Any:
        """Return ``a @ b``; if the summed axis is sharded over explicit axes, add over devices."""
        sharding = _product_sharding(*[aval_of(x) if is_implicit(x) else x for x in (a, b)])
        return _matmul(a, b) if sharding is None else _matmul(a, b, out_sharding=sharding)

    def dot_general(self, a: Any, b: Any, contract: Any, batch: Any = ((), ())) -> Any:
        return _dot_general(a, b, (contract, batch))

    def segment_sum(self, values: Any, ids: Any, n: int) -> Any:
        # JAX counts negative ones from the end.
        ids = jnp.where(ids < 0, n, ids)
        return _segment_sum(values, ids, num_segments=n)

    def by_rows(self, function: Callable[[Any], Any], x: Any) -> Any:
        return jax.lax.map(jax.checkpoint(function), x)

    def implicit(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Return a JAX function that takes implicit arrays."""
        run: Callable[..., Any] = implicit(f)
        return run


def _product_sharding(a: Any, b: Any) -> Any:
    """Return the sharding of a matrix product if JAX calls it ambiguous; else None."""
    mesh = explicit_mesh((a, b))
    if mesh is None or min(jnp.ndim(a), jnp.ndim(b)) < 2:
        return None
    a_spec, b_spec = spec_of(a), spec_of(b)
    if not a_spec[-1] or a_spec[-1] != b_spec[-2]:
        return None
    batch = a_spec[:-2] if len(a_spec) >= len(b_spec) else b_spec[:-2]
    pspec: Any = PartitionSpec
    return NamedSharding(mesh, pspec(*batch, a_spec[-2], b_spec[-1]))


NAMESPACE = JaxNamespace()


def bcoo(data: Any, indices: Any, shape: Sequence[int], unique: bool) -> Any:
    """Return a ``jax.experimental.sparse.BCOO`` of these arrays."""
    # The module loads SciPy's, which takes longer than graphc's own modules.
    from jax.experimental import sparse  # noqa: PLC0415

    return sparse.BCOO((data, indices), shape=shape, unique_indices=unique)
