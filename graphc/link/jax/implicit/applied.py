"""Functions with custom derivatives in both modes, also linear ones: a primitive of JAX.

``jax.custom_jvp`` does not suffice: JAX transposes the value of a function that is linear in an
operand, such as a tangent, and the value has lost the derivative of a straight-through array.
``jax.custom_vjp`` has no forward mode. Here each rule belongs to the function, and a rule may
return applications of functions with rules, so derivatives of any order are right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from graphc.link.jax.implicit.avals import replace_at
from graphc.link.jax.implicit.deferred import is_zero, zero_tangent
from graphc.link.jax.jaxprs import has_primitive

Jvp = tuple[Sequence[Any], Sequence[Any]]
"""The results of a function, and their tangents, None for zero."""


class AppliedFunction(Protocol):
    """A function of arrays, and its derivatives."""

    def run(self, *arrays: Any) -> Sequence[Any]:
        """Return the results."""

    def jvp(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Jvp:
        """Return the results, with their derivatives of higher order, and their tangents.

        Zeros among the given tangents are symbolic.
        """

    def transpose(
        self, arrays: Sequence[Any], is_linear: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the cotangents of the linear arrays, and None for the others.

        Args:
            arrays: The arrays, with zeros for the linear ones.
            is_linear: For each array, whether the function is linear in the array.
            cotangents: The results' cotangents, None for zero. Returned cotangents may be None too.
        """


applied_p = Primitive("graphc_applied")
"""The primitive that applies a function, which is its parameter."""
applied_p.multiple_results = True


def apply(function: AppliedFunction, arrays: Sequence[Any]) -> list[Any]:
    """Apply a function to arrays."""
    return applied_p.bind(*arrays, function=function)  # type: ignore[no-any-return, no-untyped-call]


def _run(*arrays: Any, function: AppliedFunction) -> list[Any]:
    return list(function.run(*arrays))


def _abstract(*types: Any, function: AppliedFunction) -> list[Any]:
    return list(jax.make_jaxpr(function.run)(*types).out_avals)


applied_p.def_impl(_run)  # type: ignore[no-untyped-call]
applied_p.def_abstract_eval(_abstract)  # type: ignore[no-untyped-call]
mlir.register_lowering(applied_p, mlir.lower_fun(_run, multiple_results=True))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, function: AppliedFunction) -> Any:
    pairs = zip(primals, tangents, strict=True)
    symbolic = [zero_tangent(x) if type(t) is ad.Zero else t for x, t in pairs]
    ys, ts = function.jvp(primals, symbolic)
    zeros = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in ys]
    return ys, [zero if t is None else t for zero, t in zip(zeros, ts, strict=True)]


def _transpose(cotangents: Sequence[Any], *arrays: Any, function: AppliedFunction) -> Sequence[Any]:
    is_linear = [ad.is_undefined_primal(x) for x in arrays]  # type: ignore[no-untyped-call]
    gs = [None if type(g) is ad.Zero else g for g in cotangents]
    pairs = list(zip(arrays, is_linear, strict=True))
    if all(g is None for g in gs):
        return [ad.Zero(x.aval) if flag else None for x, flag in pairs]
    # The derivative of a linear function does not depend on the arrays: zeros do.
    values = [jnp.zeros(x.aval.shape, x.aval.dtype) if flag else x for x, flag in pairs]
    grads = function.transpose(values, is_linear, gs)
    return [
        None if not flag else ad.Zero(x.aval) if grad is None else grad
        for (x, flag), grad in zip(pairs, grads, strict=True)
    ]


def _batch(
    arrays: Sequence[Any], axes: Sequence[Any], *, function: AppliedFunction
) -> tuple[list[Any], list[int]]:
    flags = tuple(axis is not None for axis in axes)
    pairs = zip(arrays, axes, strict=True)
    batches = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in pairs]
    ys = apply(_Batched(function, flags), batches)
    return ys, [0] * len(ys)


ad.primitive_jvps[applied_p] = _jvp
ad.primitive_transposes[applied_p] = _transpose
batching.primitive_batchers[applied_p] = _batch


@dataclass(frozen=True, eq=False)
class _Batched:
    """A function mapped over batches.

    Attributes:
        inner: The function of the elements.
        flags: For each array, whether its first axis is a batch.
    """

    inner: AppliedFunction
    flags: tuple[bool, ...]

    @property
    def _axes(self) -> list[int | None]:
        return list(map(_axis, self.flags))

    def run(self, *arrays: Any) -> Sequence[Any]:
        results: Sequence[Any] = jax.vmap(self.inner.run, tuple(self._axes))(*arrays)
        return results

    def jvp(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Jvp:
        wrt = tuple([i for i, t in enumerate(tangents) if not is_zero(t)])
        flags = tuple([self.flags[i] for i in wrt])
        directions = [tangents[i] for i in wrt]
        pushforward = _TangentMap(self.inner, wrt)
        batched = jax.vmap(pushforward.jvp_along, (self._axes, list(map(_axis, flags))))
        program, shapes = jax.make_jaxpr(batched, return_shape=True)(list(arrays), directions)
        leaves = jax.core.eval_jaxpr(program.jaxpr, program.consts, *arrays, *directions)
        result: Jvp = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
        if not has_primitive(program, "stop_gradient"):
            return result
        ys, ts = result
        linear = iter(apply(_Batched(pushforward, self.flags + flags), [*arrays, *directions]))
        return ys, [None if t is None else next(linear) for t in ts]

    def transpose(
        self, arrays: Sequence[Any], is_linear: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        def transpose(arrays: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
            return self.inner.transpose(arrays, is_linear, cotangents)

        grads = jax.vmap(transpose, (self._axes, 0))(list(arrays), list(cotangents))
        pairs = zip(grads, self.flags, strict=True)
        return [g if g is None or flag else g.sum(0) for g, flag in pairs]


def _axis(flag: bool) -> int | None:
    return 0 if flag else None


@dataclass(frozen=True, eq=False)
class _TangentMap:
    """The tangents of a function's results, as a function of its arrays and their tangents.

    The batch of a ``lax.cond`` selects between operands and results of ``stop_gradient``, which JAX
    does not transpose if a tangent is an operand. The transpose of this function is batched
    instead: it has a ``lax.cond`` still.

    Attributes:
        inner: The function.
        wrt: The indices of the arrays that have tangents; the tangents follow the arrays.
    """

    inner: AppliedFunction
    wrt: tuple[int, ...]

    def jvp_along(self, arrays: Sequence[Any], directions: Sequence[Any]) -> Jvp:
        """Return the function's results, and their tangents along directions."""
        zeros = list(map(zero_tangent, arrays))
        return self.inner.jvp(arrays, replace_at(zeros, self.wrt, directions))

    def run(self, *arrays: Any) -> Sequence[Any]:
        count = len(arrays) - len(self.wrt)
        _, ts = self.jvp_along(arrays[:count], arrays[count:])
        return [t for t in ts if t is not None]

    def _restrict(self, arrays: Sequence[Any], wrt: Sequence[int]) -> Callable[..., list[Any]]:
        """Return the function of the arrays with indices ``wrt`` alone."""

        def restriction(*values: Any) -> list[Any]:
            return list(self.run(*replace_at(arrays, wrt, values)))

        return restriction

    def jvp(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Jvp:
        wrt = [i for i, t in enumerate(tangents) if not is_zero(t)]
        at, directions = [arrays[i] for i in wrt], [tangents[i] for i in wrt]
        return apply(self, arrays), jax.jvp(self._restrict(arrays, wrt), at, directions)[1]

    def transpose(
        self, arrays: Sequence[Any], is_linear: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        wrt = [i for i, flag in enumerate(is_linear) if flag]
        function = self._restrict(arrays, wrt)
        outputs = [i for i, g in enumerate(cotangents) if g is not None]
        transpose = jax.linear_transpose(
            lambda *values: [function(*values)[i] for i in outputs],
            *[jax.typeof(arrays[i]) for i in wrt],
        )
        grads = transpose([cotangents[i] for i in outputs])
        return replace_at([None] * len(arrays), wrt, grads)
