"""Values computed on implicit operands, with the derivatives of whole ones.

A function with a derivative of its own has a rule for whole arrays. Its value is found by running
through it with implicit operands, so that handlers are reached. Its derivative is that of the
function of whole arrays, traced and then run through in the same way: handlers are reached in the
rule, too. A tangent of an implicit operand is that of the array it stands for, and a cotangent goes
on to its fields through ``materialize``. An implicit result has its derivative in a
``DeferredResult``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.custom_derivatives import (
    SymbolicZero,
    custom_vjp_primal_tree_values,
)

from graphc.implicit.array import is_implicit
from graphc.implicit.policy import deferred_reports, enforce_policy
from graphc.implicit.straight_through import StraightThrough
from graphc.link.jax.implicit.deferred import Known, flat
from graphc.link.jax.implicit.fields import (
    advanced,
    is_perturbed,
    is_smooth,
    moves,
    perturbed,
    pulled_back,
    replace_derivative,
)
from graphc.link.jax.implicit.function_pair import (
    FunctionPair,
    deferred,
    is_traced,
    merged,
    run_through,
    valued,
)


def in_both_modes(pair: FunctionPair, operands: Sequence[Any]) -> list[Any]:
    """Return results with the derivatives of ``pair.dense``, in forward and reverse mode."""
    if not is_traced(operands):
        return list(pair.value(*operands))
    kinds = _ResultKinds()

    @jax.custom_jvp
    def results(*operands: Any) -> Any:
        return kinds.seen(pair.value(*operands))

    @partial(results.defjvp, symbolic_zeros=True)
    def _rule(primals: Any, tangents: Any) -> Any:
        dense, known = kinds.dense(results, primals), Known()
        with pair.resumed():
            found = pair.pushed(primals, tangents, dense, known) if dense else None
            y = found and kinds.kept(pair.whole, found[0])
        if y is None:
            pairs = zip(primals, tangents, strict=True)
            y = results(*[advanced(x, moves(t), known) for x, t in pairs])
        slopes = found[1] if found else [None] * len(y)
        return y, tuple(map(_tangent, y, slopes))

    return [deferred(pair, operands, i, y) for i, y in enumerate(results(*operands))]


def _tangent(y: Any, slope: Any) -> Any:
    return jax.tree.map(flat, y) if slope is None else slope


def in_reverse(pair: FunctionPair, operands: Sequence[Any]) -> list[Any]:
    """Return results with the reverse-mode derivative of ``pair.dense``.

    The cotangents of all uses of a result are added up before they go through its rule, which need
    not be linear. So an implicit result has an array of zeros beside it, which JAX derives.
    """
    if not is_traced(operands):
        return list(pair.value(*operands))
    kinds, zeros = _ResultKinds(), _zeros_beside(pair, operands)

    def value(*operands: Any) -> Any:
        return (*kinds.seen(pair.value(*operands)), *zeros.values())

    def kept(y: Sequence[Any]) -> Any:
        found = kinds.kept(pair.whole, y)
        # Derived again, they are as the rule's results are.
        beside = [replace_derivative(pair.whole, x, [y[i]]) for i, x in zeros.items()]
        return found and (*found, *beside)

    def places(results: Any, primals: Any) -> dict[int, int]:
        dense = kinds.dense(results, primals)
        return {i: i for i in dense} | {i: kinds.number + k for k, i in enumerate(zeros)}

    found = _reversed(pair, value, places, kept)(*operands)
    towards = dict(zip(zeros, found[kinds.number :], strict=True))
    y = found[: kinds.number]
    return [StraightThrough(x, towards[i]) if i in towards else x for i, x in enumerate(y)]


def _zeros_beside(pair: FunctionPair, operands: Sequence[Any]) -> dict[int, Any]:
    """Return zeros for each result that is implicit, as the policy allows."""
    with deferred_reports():
        found = jax.eval_shape(lambda *operands: tuple(pair.value(*operands)), *operands)
    zeros = {}
    for i, x in enumerate(found):
        if is_implicit(x) and is_smooth(x):
            enforce_policy(valued(x), f"the derivative of {pair.what}", pair.where)
            zeros[i] = np.broadcast_to(np.zeros((), x.dtype), x.shape)
    return zeros


def _reversed(
    pair: FunctionPair,
    value: Callable[..., Any],
    places_of: Callable[[Any, Any], Mapping[int, int]],
    kept: Callable[[Any], Any],
) -> Callable[..., Any]:
    """Return a function of some of a pair's results, with its derivative in reverse mode.

    Args:
        pair: It.
        value: Gives them.
        places_of: Which results of the pair have their derivatives here, and in which place; of
            the function that is made here, and its operands.
        kept: Its results from all of the pair, as the derivative finds them; None for ``value``'s.
    """

    @jax.custom_vjp
    def results(*operands: Any) -> Any:
        return value(*operands)

    def forward(*operands: Any) -> Any:
        primals = custom_vjp_primal_tree_values(operands)  # type: ignore[no-untyped-call]
        moving = [i for i, x in enumerate(operands) if is_perturbed(x, primals[i])]
        known = Known()
        pairs = zip(primals, operands, strict=True)
        points = [advanced(x, perturbed(mark), known) for x, mark in pairs]
        places = places_of(results, primals)

        def pulled(*values: Any) -> Any:
            function, at = pair.along(values, moving, list(places))
            return jax.vjp(function, *at, has_aux=True)

        with pair.resumed():
            smooth, pullback, others = run_through(pulled, *points)
            y = kept(merged(smooth, others))
        # A dense operand has no fields that a gradient goes on to.
        held = [primals[i] if is_implicit(primals[i]) else None for i in moving]
        given = [None if x is None else places[i] for i, x in enumerate(smooth)]
        saved = pullback, held, _GradientPlaces(tuple(moving), len(primals), tuple(given))
        return results(*points) if y is None else y, saved

    def backward(saved: Any, cotangents: Any) -> Any:
        pullback, held, places = saved
        gs = [None if i is None else _instantiated(cotangents[i]) for i in places.given]
        found: list[Any] = [None] * places.number
        with pair.resumed():
            pulled = run_through(lambda pullback, gs: pullback(gs), pullback, gs)
            for i, x, g in zip(places.moving, held, map(pair.whole, pulled), strict=True):
                parts = pulled_back(pair.whole, x, g)
                found[i] = jax.tree.unflatten(jax.tree.structure(x), parts) if is_implicit(x) else g
        return tuple(found)

    results.defvjp(forward, backward, symbolic_zeros=True)
    return results


@partial(
    jax.tree_util.register_dataclass, data_fields=[], meta_fields=["moving", "number", "given"]
)
@dataclass(frozen=True)
class _GradientPlaces:
    """Where a gradient comes from and goes to.

    Attributes:
        moving: The operands that it is for.
        number: The number of operands.
        given: For each result of the function, which cotangent is its; None where it has none.
    """

    moving: tuple[int, ...]
    number: int
    given: tuple[int | None, ...]


class _ResultKinds:
    """The tree structure of each result that is implicit, None of others."""

    def __init__(self) -> None:
        self.trees: list[Any] | None = None

    def seen(self, y: Sequence[Any]) -> tuple[Any, ...]:
        """Keep those of results, and return them without derivatives of implicit ones."""
        found = tuple(map(valued, y))
        self.trees = [_nesting(x) for x in found]
        return found

    @property
    def number(self) -> int:
        """The number of results."""
        return len(self.trees or ())

    def dense(self, results: Any, primals: Any) -> list[int]:
        """Return the places of dense results of a function that may not have been called."""
        if self.trees is None:
            jax.eval_shape(results, *primals)
        return [i for i, tree in enumerate(self.trees or ()) if tree is None]

    def kept(self, whole: Callable[[Any], Any], y: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return results that a rule finds; None where others of them are implicit."""
        found = []
        for x, tree in zip(y, self.trees or (), strict=True):
            if tree is not None and _nesting(valued(x)) != tree:
                return None
            found.append(whole(x) if tree is None else valued(x))
        return tuple(found)


def _nesting(x: Any) -> Any:
    return jax.tree.structure(x) if is_implicit(x) else None


def _instantiated(g: Any) -> Any:
    return np.zeros(g.shape, g.dtype) if isinstance(g, SymbolicZero) else g
