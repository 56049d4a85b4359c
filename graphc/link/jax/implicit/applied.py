"""Functions with derivatives of their own, in both modes, linear ones too: a primitive of JAX's.

A ``jax.custom_jvp`` would not do: where one is linear in an operand, as in a tangent, JAX
transposes its value, in which a straight-through array has no derivative any more. A
``jax.custom_vjp`` has no forward mode. Here each rule is the function's own; what a rule gives may
be such a function again, so that derivatives of any order are right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from graphc.link.jax.implicit.deferred import flat, is_zero
from graphc.link.jax.jaxprs import has_primitive

Derived = tuple[Sequence[Any], Sequence[Any]]
"""The results of a function, and their tangents."""


class AppliedFunction(Protocol):
    """A function of arrays, and its derivatives."""

    def run(self, *arrays: Any) -> Sequence[Any]:
        """Return the results."""

    def derived(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Derived:
        """Return the results, as they are to be derived again, and their tangents, None for zero.

        Among the given tangents, zeros are symbolic.
        """

    def transposed(
        self, arrays: Sequence[Any], opened: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the cotangents of arrays in which the function is linear, and of others None.

        Args:
            arrays: Zeros in place of the linear ones.
            opened: Which are linear.
            cotangents: Of the results, None for zero, as may be returned.
        """


applied_p = Primitive("graphc_applied")
"""Its parameter is the function."""
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
    given = [flat(x) if type(t) is ad.Zero else t for x, t in pairs]
    results, slopes = function.derived(primals, given)
    return results, [_zero(y) if t is None else t for y, t in zip(results, slopes, strict=True)]


def _zero(y: Any) -> Any:
    return ad.Zero(jax.typeof(y).to_tangent_aval())


def _transpose(cotangents: Sequence[Any], *arrays: Any, function: AppliedFunction) -> Sequence[Any]:
    opened = [ad.is_undefined_primal(x) for x in arrays]  # type: ignore[no-untyped-call]
    given = [None if type(g) is ad.Zero else g for g in cotangents]
    if all(g is None for g in given):
        pairs = zip(arrays, opened, strict=True)
        return [ad.Zero(x.aval) if is_open else None for x, is_open in pairs]
    pairs = zip(arrays, opened, strict=True)
    # The function is linear in these: their values do not matter.
    known = [jnp.zeros(x.aval.shape, x.aval.dtype) if is_open else x for x, is_open in pairs]
    found = zip(arrays, opened, function.transposed(known, opened, given), strict=True)
    return [None if not is_open else ad.Zero(x.aval) if g is None else g for x, is_open, g in found]


def _batch(
    arrays: Sequence[Any], axes: Sequence[Any], *, function: AppliedFunction
) -> tuple[list[Any], list[int]]:
    flags = tuple(axis is not None for axis in axes)
    pairs = zip(arrays, axes, strict=True)
    moved = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in pairs]
    made = apply(_Batched(function, flags), moved)
    return made, [0] * len(made)


ad.primitive_jvps[applied_p] = _jvp
ad.primitive_transposes[applied_p] = _transpose
batching.primitive_batchers[applied_p] = _batch


@dataclass(frozen=True, eq=False)
class _Batched:
    """A function of batches.

    Attributes:
        inner: Of their elements.
        flags: Which of its arrays are batches, along the first axis.
    """

    inner: AppliedFunction
    flags: tuple[bool, ...]

    @property
    def _axes(self) -> list[int | None]:
        return list(map(_axis, self.flags))

    def run(self, *arrays: Any) -> Sequence[Any]:
        found: Sequence[Any] = jax.vmap(self.inner.run, tuple(self._axes))(*arrays)
        return found

    def derived(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Derived:
        moving = tuple([i for i, t in enumerate(tangents) if not is_zero(t)])
        flags = tuple([self.flags[i] for i in moving])
        directions = [tangents[i] for i in moving]
        pushed = _Pushed(self.inner, moving)
        batched = jax.vmap(pushed.found, (self._axes, list(map(_axis, flags))))
        program, form = jax.make_jaxpr(batched, return_shape=True)(list(arrays), directions)
        leaves = jax.core.eval_jaxpr(program.jaxpr, program.consts, *arrays, *directions)
        found: Derived = jax.tree.unflatten(jax.tree.structure(form), leaves)
        if not has_primitive(program, "stop_gradient"):
            return found
        results, slopes = found
        again = iter(apply(_Batched(pushed, self.flags + flags), [*arrays, *directions]))
        return results, [None if t is None else next(again) for t in slopes]

    def transposed(
        self, arrays: Sequence[Any], opened: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        def transposed(arrays: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
            return self.inner.transposed(arrays, opened, cotangents)

        found = jax.vmap(transposed, (self._axes, 0))(list(arrays), list(cotangents))
        pairs = zip(found, self.flags, strict=True)
        return [g if g is None or flag else g.sum(0) for g, flag in pairs]


def _axis(flag: bool) -> int | None:
    return 0 if flag else None


@dataclass(frozen=True, eq=False)
class _Pushed:
    """The tangents of a function's results, as a function that is linear in those of its arrays.

    JAX makes of a ``lax.cond`` in a batch a choice between its operands and what
    ``stop_gradient`` gives of them, and does not transpose that where a tangent is an operand.
    Transposed element by element, it is a ``lax.cond`` still.

    Attributes:
        inner: The function.
        moving: Which of its arrays have tangents; these follow the arrays.
    """

    inner: AppliedFunction
    moving: tuple[int, ...]

    def found(self, arrays: Sequence[Any], directions: Sequence[Any]) -> Derived:
        """Return the function's results, and their tangents, None for zero."""
        given = dict(zip(self.moving, directions, strict=True))
        tangents = [given[i] if i in given else flat(x) for i, x in enumerate(arrays)]
        return self.inner.derived(arrays, tangents)

    def run(self, *arrays: Any) -> Sequence[Any]:
        count = len(arrays) - len(self.moving)
        _, slopes = self.found(arrays[:count], arrays[count:])
        return [t for t in slopes if t is not None]

    def _of(self, arrays: Sequence[Any], chosen: Sequence[int]) -> Callable[..., list[Any]]:
        """Return it as a function of the chosen arrays."""

        def function(*given: Any) -> list[Any]:
            others = dict(zip(chosen, given, strict=True))
            return list(self.run(*[others.get(i, x) for i, x in enumerate(arrays)]))

        return function

    def derived(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Derived:
        chosen = [i for i, t in enumerate(tangents) if not is_zero(t)]
        at, directions = [arrays[i] for i in chosen], [tangents[i] for i in chosen]
        return apply(self, arrays), jax.jvp(self._of(arrays, chosen), at, directions)[1]

    def transposed(
        self, arrays: Sequence[Any], opened: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        chosen = [i for i, flag in enumerate(opened) if flag]
        function = self._of(arrays, chosen)
        places = [i for i, g in enumerate(cotangents) if g is not None]
        transposed = jax.linear_transpose(
            lambda *given: [function(*given)[i] for i in places],
            *[jax.typeof(arrays[i]) for i in chosen],
        )
        found = dict(zip(chosen, transposed([cotangents[i] for i in places]), strict=True))
        return [found.get(i) for i in range(len(arrays))]
