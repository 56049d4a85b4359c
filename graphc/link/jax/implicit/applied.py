"""The primitive that applies a function with derivative rules for both modes.

``jax.custom_jvp`` does not suffice: where such a function is linear in an operand, JAX transposes
its value, and the value has lost the derivative. ``jax.custom_vjp`` has no forward mode. Here both
rules belong to the function, and a rule may apply functions again, so that derivatives of any order
are right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero, zero_from_primal
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, batching, mlir

from graphc.link.jax.implicit.avals import replace_at

if TYPE_CHECKING:
    from graphc.link.jax.implicit.function_pair import FunctionPair

zero_tangent: Callable[[Any], Any] = partial(zero_from_primal, symbolic_zeros=True)
"""The symbolic zero tangent of an array."""


def is_zero(t: Any) -> bool:
    """Return whether a tangent is a symbolic zero."""
    return isinstance(t, SymbolicZero) or t.dtype == jax.dtypes.float0


def is_differentiable(x: Any) -> bool:
    """Return whether arrays of x's dtype have derivatives."""
    return bool(jnp.issubdtype(jnp.result_type(x), jnp.inexact))


@dataclass(frozen=True, eq=False)
class FunctionApplication:
    """A program of arrays that computes a function's value, with the function's derivative.

    Attributes:
        pair: The function.
        program: The program, from the operands' arrays to arrays.
        tree: The tree of the operands.
        sources: For each of these arrays, the index of the result that has its derivative, or None.
    """

    pair: FunctionPair
    program: ClosedJaxpr
    tree: Any
    sources: tuple[int | None, ...]

    def apply(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the arrays that the program computes, with derivatives."""
        return _apply(self, [*self.program.consts, *leaves])

    def run(self, *arrays: Any) -> Sequence[Any]:
        """Return the arrays that the program computes from constants and operands."""
        count = len(self.program.consts)
        jaxpr, consts, leaves = self.program.jaxpr, arrays[:count], arrays[count:]
        results: Sequence[Any] = jax.core.eval_jaxpr(jaxpr, consts, *leaves)
        return results

    def jvp(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Return the results, with derivatives of higher order, and tangents, None for zero."""
        avals = zip(self.sources, self.program.out_avals, strict=True)
        outputs = [i for i, aval in avals if i is not None and is_differentiable(aval)]
        if not outputs:
            return _apply(self, arrays), [None] * len(self.sources)
        pushed = self.pair.jvp(self._operands(arrays), self._operands(tangents), outputs, {})
        none = [None] * len(self.sources)
        if pushed is None:
            return _apply(self, arrays), none
        # The fields of implicit results have no derivatives, so this application has none.
        ys = _apply(replace(self, sources=tuple(none)), arrays) if None in self.sources else none
        pairs = list(zip(self.sources, ys, strict=True))
        results = [y if i is None else self.pair.densify(pushed[0][i]) for i, y in pairs]
        return results, [None if i is None else pushed[1].get(i) for i in self.sources]

    def transpose(
        self, arrays: Sequence[Any], is_linear: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the cotangents of arrays in which the function is linear, else None."""
        pairs = zip(self.sources, cotangents, strict=True)
        gs = {i: g for i, g in pairs if i is not None and g is not None}
        count = len(self.program.consts)
        grads = self.pair.transpose(self._operands(arrays), is_linear[count:], gs)
        return [*[None] * count, *grads]

    def _operands(self, arrays: Sequence[Any]) -> Any:
        """Return the operands' trees, with these arrays or tangents as leaves."""
        return jax.tree.unflatten(self.tree, arrays[len(self.program.consts) :])


@dataclass(frozen=True, eq=False)
class _Batched:
    """An application mapped over batches; so are its rules.

    Attributes:
        inner: The application to the elements.
        axes: For each array 0 if its first axis is a batch, else None.
    """

    inner: FunctionApplication | _Batched
    axes: tuple[int | None, ...]
    axis: Any

    def _map(self, function: Callable[..., Any], axes: Any) -> Callable[..., Any]:
        return jax.vmap(
            function,
            axes,
            axis_size=self.axis.size,
            axis_name=self.axis.name,
            spmd_axis_name=self.axis.spmd_name,
        )

    def run(self, *arrays: Any) -> Sequence[Any]:
        results: Sequence[Any] = self._map(self.inner.run, self.axes)(*arrays)
        return results

    def jvp(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Any:
        wrt = [i for i, t in enumerate(tangents) if not is_zero(t)]

        def jvp(arrays: Sequence[Any], directions: Sequence[Any]) -> Any:
            zeros = list(map(zero_tangent, arrays))
            return self.inner.jvp(arrays, replace_at(zeros, wrt, directions))

        axes = list(self.axes), [self.axes[i] for i in wrt]
        return self._map(jvp, axes)(list(arrays), [tangents[i] for i in wrt])

    def transpose(
        self, arrays: Sequence[Any], is_linear: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        def transpose(arrays: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
            return self.inner.transpose(arrays, is_linear, cotangents)

        grads = self._map(transpose, (list(self.axes), 0))(list(arrays), list(cotangents))
        pairs = zip(grads, self.axes, strict=True)
        return [g if g is None or axis == 0 else g.sum(0) for g, axis in pairs]


applied_p = Primitive("graphc_applied")
applied_p.multiple_results = True


def _apply(function: FunctionApplication | _Batched, arrays: Sequence[Any]) -> list[Any]:
    return applied_p.bind(*arrays, function=function)  # type: ignore[no-any-return, no-untyped-call]


def _run(*arrays: Any, function: FunctionApplication | _Batched) -> list[Any]:
    return list(function.run(*arrays))


def _abstract(*types: Any, function: FunctionApplication | _Batched) -> tuple[list[Any], Any]:
    """Return the types of the results, and the effects: JAX drops unused equations without."""
    program = jax.make_jaxpr(function.run)(*types)
    return list(program.out_avals), program.effects


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, function: FunctionApplication) -> Any:
    pairs = zip(primals, tangents, strict=True)
    symbolic = [zero_tangent(x) if type(t) is ad.Zero else t for x, t in pairs]
    ys, ts = function.jvp(primals, symbolic)
    zeros = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in ys]
    return ys, [zero if t is None else t for zero, t in zip(zeros, ts, strict=True)]


def _transpose(
    cotangents: Sequence[Any], *arrays: Any, function: FunctionApplication
) -> Sequence[Any]:
    is_linear = [ad.is_undefined_primal(x) for x in arrays]  # type: ignore[no-untyped-call]
    pairs = list(zip(arrays, is_linear, strict=True))
    # The derivative of a linear function does not depend on the arrays: zeros do.
    values = [jnp.zeros(x.aval.shape, x.aval.dtype) if flag else x for x, flag in pairs]
    gs = [None if type(g) is ad.Zero else g for g in cotangents]
    has_gradient = any(g is not None for g in gs)
    grads = function.transpose(values, is_linear, gs) if has_gradient else [None] * len(values)
    return [
        ad.Zero(x.aval) if flag and grad is None else grad
        for (x, flag), grad in zip(pairs, grads, strict=True)
    ]


def _batch(
    axis: Any, arrays: Sequence[Any], axes: Sequence[Any], *, function: FunctionApplication
) -> Any:
    if all(d is None for d in axes):
        ys = _apply(function, arrays)
        return ys, [None] * len(ys)
    pairs = zip(arrays, axes, strict=True)
    batches = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in pairs]
    ys = _apply(_Batched(function, tuple(None if d is None else 0 for d in axes), axis), batches)
    return ys, [0] * len(ys)


applied_p.def_impl(_run)  # type: ignore[no-untyped-call]
applied_p.def_effectful_abstract_eval(_abstract)  # type: ignore[no-untyped-call]
mlir.register_lowering(applied_p, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[applied_p] = _jvp
ad.primitive_transposes[applied_p] = _transpose
batching.fancy_primitive_batchers[applied_p] = _batch
