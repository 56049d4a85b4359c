"""The namespace of JAX arrays, some of which may be implicit."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import sparse
from jax.sharding import NamedSharding, PartitionSpec

from graphc.implicit.array import is_implicit
from graphc.implicit.functions import implicit
from graphc.implicit.namespace import ArrayNamespace, has_implicit
from graphc.link.jax.explicit import explicit_mesh, spec_of
from graphc.link.jax.implicit.interpreter import on_behalf, where_now
from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.implicit.trace import called


class JaxNamespace(ArrayNamespace):
    """JAX's functions, interpreted where operands are implicit."""

    name = "JAX"
    fft = jnp.fft

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _run_through(getattr(jnp, name))

    def matmul(self, a: Any, b: Any) -> Any:
        """``a @ b``; where the summed axes are sharded over explicit axes, the sum over devices."""
        sharding = _of_product(*[aval_of(x) if is_implicit(x) else x for x in (a, b)])
        return _matmul(a, b) if sharding is None else _matmul(a, b, out_sharding=sharding)

    def dot_general(self, a: Any, b: Any, contract: Any, batch: Any = ((), ())) -> Any:
        return _dot_general(a, b, (contract, batch))

    def cast(self, x: Any, dtype: Any) -> Any:
        return _cast(x, dtype)

    def segment_sum(self, values: Any, ids: Any, n: int) -> Any:
        # JAX counts negative ones from the end.
        return _segment_sum(values, jnp.where(ids < 0, n, ids), num_segments=n)

    def getitem(self, x: Any, index: Any) -> Any:
        return _getitem(x, index)

    def by_rows(self, function: Callable[[Any], Any], x: Any) -> Any:
        return jax.lax.map(jax.checkpoint(function), x)

    def solve(self, a: Any, b: Any) -> Any:
        return _solve(a, b)

    def inv(self, a: Any) -> Any:
        return _inv(a)

    def det(self, a: Any) -> Any:
        return _det(a)

    def slogdet(self, a: Any) -> tuple[Any, Any]:
        sign, log = _slogdet(a)
        return sign, log

    def implicit(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Let a JAX function take implicit arrays."""
        run: Callable[..., Any] = implicit(f)
        return run


def _run_through(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if has_implicit([*args, *kwargs.values()]):
            with on_behalf(where_now()):
                return called(function, args, kwargs, is_implicit)
        return function(*args, **kwargs)

    return run


def _of_product(a: Any, b: Any) -> Any:
    """The sharding of a matrix product of which JAX says that it is ambiguous; else None."""
    mesh = explicit_mesh((a, b))
    if mesh is None or min(jnp.ndim(a), jnp.ndim(b)) < 2:
        return None
    left, right = spec_of(a), spec_of(b)
    if not left[-1] or left[-1] != right[-2]:
        return None
    batch = left[:-2] if len(left) >= len(right) else right[:-2]
    named: Any = PartitionSpec
    return NamedSharding(mesh, named(*batch, left[-2], right[-1]))


_matmul = _run_through(jnp.matmul)
_dot_general = _run_through(jax.lax.dot_general)
_cast = _run_through(jax.lax.convert_element_type)
_segment_sum = _run_through(jax.ops.segment_sum)
_getitem = _run_through(operator.getitem)
_solve = _run_through(jnp.linalg.solve)
_inv = _run_through(jnp.linalg.inv)
_det = _run_through(jnp.linalg.det)
_slogdet = _run_through(jnp.linalg.slogdet)

NAMESPACE = JaxNamespace()


def bcoo(data: Any, indices: Any, shape: Sequence[int], unique: bool) -> Any:
    """Return a ``jax.experimental.sparse.BCOO`` of these arrays."""
    return sparse.BCOO((data, indices), shape=shape, unique_indices=unique)
