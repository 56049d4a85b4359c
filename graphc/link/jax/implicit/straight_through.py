"""The straight-through estimator of JAX arrays, and primitives of what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from graphc.implicit.array import is_implicit
from graphc.implicit.dispatch import dispatch
from graphc.implicit.functions import implicit
from graphc.implicit.policy import densify, materialized
from graphc.implicit.straight_through import StraightThrough, operands_through
from graphc.link.jax.implicit.applied import Derived, apply
from graphc.link.jax.implicit.avals import ImplicitAvals, flatten, spread, unflatten
from graphc.link.jax.implicit.deferred import DeferredResult, Known
from graphc.link.jax.implicit.fields import advanced, moves, pulled_back, replace_derivative
from graphc.link.jax.implicit.function_pair import (
    FunctionPair,
    deferred,
    is_traced,
    key_of,
    run_through,
    valued,
)
from graphc.link.jax.implicit.interpreter import bind
from graphc.link.jax.implicit.partition import aval_of


def straight_through(name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Call a function; its derivative is the identity's, for operands of the result's shape.

    Args:
        name: What messages call it.
        call: A function of arrays.
        operands: Arrays, dense or implicit.
    """
    fixed = jax.lax.stop_gradient([*operands])
    is_dense = not any(map(is_implicit, operands))
    y = jax.lax.stop_gradient(call(*fixed) if is_dense else implicit(call)(*fixed))
    through = operands_through(name, operands, y)
    if not is_implicit(y):
        return _moved(name, y, through)
    if len(through) == 1 and through[0].dtype == y.dtype:
        return StraightThrough(y, through[0])
    dtype = y.dtype

    def total(*xs: Any) -> list[Any]:
        return [sum(x.astype(dtype) for x in xs)]

    pair = FunctionPair(total, total, f"ste({name})", ("ste", dtype))
    return StraightThrough(y, DeferredResult.of(pair, through, 0, y))


def _moved(name: str, y: Any, towards: Sequence[Any]) -> Any:
    """Give a dense array the derivative of a sum of others."""

    def derived(x: Any) -> Any:
        return materialized(x, f"the derivative of ste({name})") if is_implicit(x) else x

    return replace_derivative(derived, y, towards)


class _UnhandledError(Exception):
    """No handler takes the values of straight-through arrays."""


def handled(primitive: Any, operands: Sequence[Any], parameters: dict[str, Any]) -> Any:
    """Apply a primitive to the values of straight-through arrays; derivatives are dense.

    Returns:
        NotImplemented where nothing handles the values.
    """
    if not is_traced(operands):
        return dispatch(primitive, [*map(valued, operands)], parameters)
    pair = _pair(primitive, parameters)
    try:
        found = _applied(pair, operands)
    except _UnhandledError:
        return NotImplemented
    y = [deferred(pair, operands, i, x) for i, x in enumerate(found)]
    return y if primitive.multiple_results else y[0]


def _pair(primitive: Any, parameters: dict[str, Any]) -> FunctionPair:
    several = primitive.multiple_results

    def value(*operands: Any) -> Sequence[Any]:
        found = dispatch(primitive, [*map(valued, operands)], parameters)
        if found is NotImplemented:
            raise _UnhandledError
        return found if several else [found]

    def dense(*operands: Any) -> Sequence[Any]:
        found = bind(primitive, operands, parameters)
        return found if several else [found]

    key = key_of(primitive, parameters)
    pair = FunctionPair(value, dense, primitive.name, key)

    def again(operands: Sequence[Any]) -> Sequence[Any]:
        made_whole = replace(pair, value=lambda *operands: list(map(_whole, value(*operands))))
        return _applied(made_whole, operands)

    return replace(pair, again=again)


def _whole(x: Any) -> Any:
    return densify(x) if is_implicit(x) else x


def _applied(pair: FunctionPair, operands: Sequence[Any]) -> list[Any]:
    """Return the results of a pair's value; implicit ones have no derivatives."""
    leaves, tree = jax.tree.flatten(list(operands))
    forms: list[ImplicitAvals] = []

    def run(*leaves: Any) -> list[Any]:
        parts, form = flatten(pair.value(*jax.tree.unflatten(tree, leaves)))
        forms.append(form)
        return parts

    program = jax.make_jaxpr(run)(*leaves)
    equation = _Equation(pair, program, len(program.consts), tree, forms[0])
    return unflatten(forms[0], apply(equation, [*program.consts, *leaves]))


@dataclass(frozen=True, eq=False)
class _Equation:
    """A primitive applied to straight-through arrays.

    Attributes:
        pair: It.
        program: Gives the arrays of the results, as handlers made them, from those of operands.
        consts: How many of its arrays the handlers captured: these come first.
        tree: The operands'.
        form: What each result is.
    """

    pair: FunctionPair
    program: ClosedJaxpr
    consts: int
    tree: Any
    form: ImplicitAvals

    def run(self, *arrays: Any) -> Sequence[Any]:
        consts, leaves = arrays[: self.consts], arrays[self.consts :]
        found: Sequence[Any] = jax.core.eval_jaxpr(self.program.jaxpr, consts, *leaves)
        return found

    def derived(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Derived:
        places = [i for i, kind in enumerate(self.form) if kind is None]
        operands, slopes = self._built(arrays), self._built(tangents)
        known: Known = {}
        with self.pair.resumed():
            found = self.pair.pushed(operands, slopes, places, known)
            points = [advanced(x, moves(t), known) for x, t in zip(operands, slopes, strict=True)]
            if all(map(is_, points, operands)):
                results = apply(self, arrays)
            else:
                results = flatten(_applied(self.pair, points))[0]
        return results, spread(self.form, [None] * len(self.form) if not found else found[1], None)

    def transposed(
        self, arrays: Sequence[Any], opened: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        operands = self._built(arrays)
        open_leaves = [jax.tree.leaves(part) for part in self._built(opened)]
        flags = list(map(any, open_leaves))
        moving = [i for i, flag in enumerate(flags) if flag]
        of_results = list(self._of_results(iter(cotangents)))
        given = [i for i, g in enumerate(of_results) if g is not None]

        def transposed(known: Any, gs: Any) -> Any:
            def linear(*moved: Any) -> Any:
                values = dict(zip(moving, moved, strict=True))
                y = self.pair.dense(*[values.get(i, x) for i, x in enumerate(known)])
                return [y[i] for i in given]

            return jax.linear_transpose(linear, *[aval_of(operands[i]) for i in moving])(gs)

        known = [None if flag else x for x, flag in zip(operands, flags, strict=True)]
        with self.pair.resumed():
            pulled = run_through(transposed, known, [of_results[i] for i in given])
            gs = dict(zip(moving, map(self.pair.whole, pulled), strict=True))
            parts = [
                pulled_back(self.pair.whole, operands[i], gs[i], wanted)
                if flags[i]
                else [None] * len(wanted)
                for i, wanted in enumerate(open_leaves)
            ]
        return [*[None] * self.consts, *[g for part in parts for g in part]]

    def _of_results(self, cotangents: Iterator[Any]) -> Iterator[Any]:
        """Return those of dense results; the fields of others have no derivatives."""
        for kind in self.form:
            parts = [next(cotangents) for _ in range(1 if kind is None else kind.count)]
            yield parts[0] if kind is None else None

    def _built(self, arrays: Sequence[Any]) -> list[Any]:
        found: list[Any] = jax.tree.unflatten(self.tree, arrays[self.consts :])
        return found
