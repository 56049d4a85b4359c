"""The primitive that applies a function with rules for derivatives and batches.

``jax.custom_jvp`` does not suffice: JAX transposes the program of the tangents, or the function's
value where the function is linear in an operand. ``jax.custom_vjp`` has no forward mode. Here the
rules of both modes belong to the function, and a rule may apply functions again, so that
derivatives of any order are right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from graphc.link.jax.devices import compiling_for
from graphc.link.jax.jaxprs import replace_at


class Rules(ABC):
    """A function of arrays and its rules, in which None is zero.

    Attributes:
        wide: Whether JAX lowers the function with 64-bit dtypes, whatever the setting.
        droppable: Whether JAX drops the function where nothing uses its results, even if it prints.
    """

    wide: ClassVar[bool] = False
    droppable: ClassVar[bool] = False

    @abstractmethod
    def run(self, *arrays: Any) -> Sequence[Any]:
        """Return the results."""

    @abstractmethod
    def jvp(
        self, arrays: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the results, with derivatives of higher order, and their tangents."""

    @abstractmethod
    def transpose(
        self, arrays: Sequence[Any], is_linear: Sequence[bool], gs: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the cotangents of arrays, for the cotangents of results.

        Args:
            arrays: The arrays; the types of those in which the function is linear.
            is_linear: Whether the function is linear in each array.
            gs: The cotangents of the results, not all None.
        """

    def batch(self, arrays: Sequence[Any], axes: Sequence[int | None], axis: Any) -> Sequence[Any]:
        """Return the results, with a batch axis in front, for arrays of which some have one.

        Args:
            arrays: The arrays.
            axes: The batch axis of each array, 0 or None.
            axis: JAX's data of the batch axis.
        """
        return _MappedRules(self, axes, axis).apply(arrays)

    def apply(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the results, which have the derivatives of these rules."""
        return applied_p.bind(*arrays, rules=self)  # type: ignore[no-any-return, no-untyped-call]


@dataclass(frozen=True, eq=False)
class _MappedRules(Rules):
    """A function and its rules, mapped over a batch axis by JAX.

    Attributes:
        rules: The function of one element.
        axes: The batch axis of each array, 0 or None.
        axis: JAX's data of the batch axis.
    """

    rules: Rules
    axes: Sequence[int | None]
    axis: Any

    def _map(self, function: Callable[..., Any], *axes: Any) -> Callable[..., Any]:
        size, name, spmd_name = self.axis.size, self.axis.name, self.axis.spmd_name
        return jax.vmap(function, axes, axis_size=size, axis_name=name, spmd_axis_name=spmd_name)

    def run(self, *arrays: Any) -> Sequence[Any]:
        results: Sequence[Any] = self._map(self.rules.run, *self.axes)(*arrays)
        return results

    def jvp(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Any:
        wrt = [i for i, t in enumerate(tangents) if t is not None]

        def inner(arrays: Sequence[Any], directions: Sequence[Any]) -> Any:
            return self.rules.jvp(arrays, replace_at([None] * len(arrays), wrt, directions))

        directions = [tangents[i] for i in wrt]
        return self._map(inner, self.axes, [self.axes[i] for i in wrt])(list(arrays), directions)

    def transpose(self, arrays: Sequence[Any], is_linear: Sequence[bool], gs: Sequence[Any]) -> Any:
        def inner(arrays: Sequence[Any], gs: Sequence[Any]) -> Any:
            return self.rules.transpose(arrays, is_linear, gs)

        grads = self._map(inner, self.axes, 0)(zeros_for_types(arrays), list(gs))
        pairs = zip(grads, self.axes, strict=True)
        return [grad if grad is None or d == 0 else grad.sum(0) for grad, d in pairs]


def zeros_for_types(arrays: Sequence[Any]) -> list[Any]:
    """Return zeros for types: the derivative of a linear function does not depend on its arrays."""
    return [
        jnp.zeros(x.shape, x.dtype) if isinstance(x, jax.core.ShapedArray) else x for x in arrays
    ]


applied_p = Primitive("graphc")
applied_p.multiple_results = True


def _run(*arrays: Any, rules: Rules) -> list[Any]:
    return list(rules.run(*arrays))


def _abstract(*types: Any, rules: Rules) -> tuple[list[Any], Any]:
    """Return the types of the results, and the effects: JAX drops unused equations without."""
    program = jax.make_jaxpr(rules.run)(*types)
    return list(program.out_avals), set() if rules.droppable else program.effects


def _lower(context: Any, *operands: Any, rules: Rules) -> Any:
    # JAX builds the bodies of reductions, as of argmax, while it lowers them.
    width = jax.enable_x64(True) if rules.wide else nullcontext()
    with width, compiling_for(context.module_context.platforms):
        return mlir.lower_fun(_run, multiple_results=True)(context, *operands, rules=rules)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, rules: Rules) -> Any:
    ys, ts = rules.jvp(primals, [None if _is_zero(t) else t for t in tangents])
    zeros = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in ys]
    return ys, [zero if t is None else t for zero, t in zip(zeros, ts, strict=True)]


def _is_zero(t: Any) -> bool:
    return type(t) is ad.Zero or t.dtype == jax.dtypes.float0


def _transpose(cotangents: Sequence[Any], *arrays: Any, rules: Rules) -> Sequence[Any]:
    is_linear = [ad.is_undefined_primal(x) for x in arrays]  # type: ignore[no-untyped-call]
    pairs = list(zip(arrays, is_linear, strict=True))
    values = [x.aval if flag else x for x, flag in pairs]
    gs = [None if type(g) is ad.Zero else g for g in cotangents]
    has_gradient = any(g is not None for g in gs)
    grads = rules.transpose(values, is_linear, gs) if has_gradient else [None] * len(values)
    return [
        ad.Zero(x.aval) if flag and grad is None else grad
        for (x, flag), grad in zip(pairs, grads, strict=True)
    ]


def _batch(axis: Any, arrays: Sequence[Any], axes: Sequence[Any], *, rules: Rules) -> Any:
    if all(d is None for d in axes):
        results = rules.apply(arrays)
        return results, [None] * len(results)
    pairs = zip(arrays, axes, strict=True)
    batches = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in pairs]
    ys = rules.batch(batches, [None if d is None else 0 for d in axes], axis)
    return ys, [0] * len(ys)


applied_p.def_impl(_run)  # type: ignore[no-untyped-call]
applied_p.def_effectful_abstract_eval(_abstract)  # type: ignore[no-untyped-call]
mlir.register_lowering(applied_p, _lower)
ad.primitive_jvps[applied_p] = _jvp
ad.primitive_transposes[applied_p] = _transpose
batching.fancy_primitive_batchers[applied_p] = _batch
