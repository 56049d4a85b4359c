"""The straight-through estimator of JAX arrays, and primitives applied to its results."""

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
from graphc.link.jax.implicit.applied import Jvp, apply
from graphc.link.jax.implicit.avals import (
    ImplicitAvals,
    flatten,
    per_array,
    replace_at,
    unflatten,
)
from graphc.link.jax.implicit.deferred import Cache, DeferredResult
from graphc.link.jax.implicit.fields import (
    pull_back,
    replace_derivative,
    rule_primal,
    tangent_flags,
)
from graphc.link.jax.implicit.function_pair import (
    FunctionPair,
    defer_derivative,
    is_traced,
    key_of,
    run_through,
    value_of,
)
from graphc.link.jax.implicit.interpreter import bind
from graphc.link.jax.implicit.partition import aval_of


def straight_through(name: str, call: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Call a function with the derivative of the identity, for operands of the result's shape.

    Args:
        name: The function's name in messages.
        call: A function of arrays.
        operands: Arrays, dense or implicit.
    """
    fixed = jax.lax.stop_gradient([*operands])
    is_dense = not any(map(is_implicit, operands))
    y = jax.lax.stop_gradient(call(*fixed) if is_dense else implicit(call)(*fixed))
    through = operands_through(name, operands, y)
    if not is_implicit(y):
        return _with_derivative(name, y, through)
    if len(through) == 1 and through[0].dtype == y.dtype:
        return StraightThrough(y, through[0])
    dtype = y.dtype

    def total(*xs: Any) -> list[Any]:
        return [sum(x.astype(dtype) for x in xs)]

    pair = FunctionPair(total, total, f"ste({name})", ("ste", dtype))
    return StraightThrough(y, DeferredResult.of(pair, through, 0, y))


def _with_derivative(name: str, y: Any, sources: Sequence[Any]) -> Any:
    """Return the dense array y with the derivative of the sum of arrays."""

    def densify(x: Any) -> Any:
        return materialized(x, f"the derivative of ste({name})") if is_implicit(x) else x

    return replace_derivative(densify, y, sources)


class _UnhandledError(Exception):
    """No handler takes the values of straight-through arrays."""


def apply_to_values(primitive: Any, operands: Sequence[Any], parameters: dict[str, Any]) -> Any:
    """Apply a primitive to the values of straight-through arrays; derivatives are dense.

    Returns:
        The results, or NotImplemented if nothing handles the values.
    """
    if not is_traced(operands):
        return dispatch(primitive, [*map(value_of, operands)], parameters)
    pair = _pair(primitive, parameters)
    try:
        values = _apply(pair, operands)
    except _UnhandledError:
        return NotImplemented
    y = [defer_derivative(pair, operands, i, x) for i, x in enumerate(values)]
    return y if primitive.multiple_results else y[0]


def _pair(primitive: Any, parameters: dict[str, Any]) -> FunctionPair:
    several = primitive.multiple_results

    def value(*operands: Any) -> Sequence[Any]:
        y = dispatch(primitive, [*map(value_of, operands)], parameters)
        if y is NotImplemented:
            raise _UnhandledError
        return y if several else [y]

    def dense(*operands: Any) -> Sequence[Any]:
        y = bind(primitive, operands, parameters)
        return y if several else [y]

    pair = FunctionPair(value, dense, primitive.name, key_of(primitive, parameters))

    def recompute(operands: Sequence[Any]) -> Sequence[Any]:
        densified = replace(pair, value=lambda *operands: list(map(_densify, value(*operands))))
        return _apply(densified, operands)

    return replace(pair, recompute=recompute)


def _densify(x: Any) -> Any:
    return densify(x) if is_implicit(x) else x


def _apply(pair: FunctionPair, operands: Sequence[Any]) -> list[Any]:
    """Return the results of a pair's value; implicit results have no derivatives."""
    leaves, tree = jax.tree.flatten(list(operands))
    traced: list[ImplicitAvals] = []

    def run(*leaves: Any) -> list[Any]:
        arrays, kinds = flatten(pair.value(*jax.tree.unflatten(tree, leaves)))
        traced.append(kinds)
        return arrays

    program = jax.make_jaxpr(run)(*leaves)
    kinds = traced[0]
    application = _PrimitiveApplication(pair, program, len(program.consts), tree, kinds)
    return unflatten(kinds, apply(application, [*program.consts, *leaves]))


@dataclass(frozen=True, eq=False)
class _PrimitiveApplication:
    """A primitive applied to straight-through arrays, as a function of constants and arrays.

    Attributes:
        pair: The primitive.
        program: The handlers' program, from the operands' arrays to the results' arrays.
        const_count: The number of constants, which are arrays that the handlers captured.
        tree: The tree of the operands.
        kinds: The abstract values of the results.
    """

    pair: FunctionPair
    program: ClosedJaxpr
    const_count: int
    tree: Any
    kinds: ImplicitAvals

    def run(self, *arrays: Any) -> Sequence[Any]:
        consts, leaves = arrays[: self.const_count], arrays[self.const_count :]
        results: Sequence[Any] = jax.core.eval_jaxpr(self.program.jaxpr, consts, *leaves)
        return results

    def jvp(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Jvp:
        dense = [i for i, kind in enumerate(self.kinds) if kind is None]
        operands, operand_ts = self._unflatten(arrays), self._unflatten(tangents)
        pairs = list(zip(operands, operand_ts, strict=True))
        cache: Cache = {}
        with self.pair.original_context():
            y_and_t = self.pair.jvp(operands, operand_ts, dense, cache)
            points = [rule_primal(x, tangent_flags(t), cache) for x, t in pairs]
            if all(map(is_, points, operands)):
                results = apply(self, arrays)
            else:
                results = flatten(_apply(self.pair, points))[0]
        ts = y_and_t[1] if y_and_t else [None] * len(self.kinds)
        return results, per_array(self.kinds, ts, None)

    def transpose(
        self, arrays: Sequence[Any], is_linear: Sequence[bool], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        operands = self._unflatten(arrays)
        leaf_flags = [jax.tree.leaves(flags) for flags in self._unflatten(is_linear)]
        flags = list(map(any, leaf_flags))
        wrt = [i for i, flag in enumerate(flags) if flag]
        result_gs = list(self._dense_cotangents(iter(cotangents)))
        outputs = [i for i, g in enumerate(result_gs) if g is not None]

        def transpose(constant: Any, gs: Any) -> Any:
            def linear(*inputs: Any) -> Any:
                y = self.pair.dense(*replace_at(constant, wrt, inputs))
                return [y[i] for i in outputs]

            return jax.linear_transpose(linear, *[aval_of(operands[i]) for i in wrt])(gs)

        constant = [None if flag else x for x, flag in zip(operands, flags, strict=True)]
        with self.pair.original_context():
            dense = run_through(transpose, constant, [result_gs[i] for i in outputs])
            gs = dict(zip(wrt, map(self.pair.densify, dense), strict=True))
            grads = [
                pull_back(self.pair.densify, operands[i], gs[i], wanted)
                if flags[i]
                else [None] * len(wanted)
                for i, wanted in enumerate(leaf_flags)
            ]
        return [*[None] * self.const_count, *[g for leaves in grads for g in leaves]]

    def _dense_cotangents(self, cotangents: Iterator[Any]) -> Iterator[Any]:
        """Yield each dense result's cotangent, and None for an implicit result."""
        for kind in self.kinds:
            gs = [next(cotangents) for _ in range(1 if kind is None else kind.count)]
            yield gs[0] if kind is None else None

    def _unflatten(self, arrays: Sequence[Any]) -> list[Any]:
        operands: list[Any] = jax.tree.unflatten(self.tree, arrays[self.const_count :])
        return operands
