"""What is computed on implicit operands and derived as if they were whole.

A function with a derivative of its own has a rule for whole arrays. Its value is found by running
through it with implicit operands, so that handlers are reached. Its derivative is that of the
function of whole arrays, traced and then run through in the same way: handlers are reached in the
rule, too. A tangent of an implicit operand is that of the array it stands for, and a cotangent goes
on to its fields through ``materialize``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import (
    SymbolicZero,
    custom_vjp_primal_tree_values,
)

from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.jax.fields import (
    flat,
    is_perturbed,
    is_smooth,
    moved,
    pulled_back,
    pushed_forward,
)
from graphc.implicit.jax.interpreter import inline
from graphc.implicit.jax.kinds import aval_of
from graphc.implicit.policy import materialized
from graphc.implicit.registry import dispatch
from graphc.implicit.straight import Straight
from graphc.ir import here, where

__all__ = ["Ways", "handled", "in_both_modes", "in_reverse", "run_through"]


@dataclass(frozen=True)
class Ways:
    """A function of arrays, said twice.

    Attributes:
        value: From operands, dense or implicit, to a sequence of results, dense or implicit.
        dense: The same of dense operands alone; its derivative is the function's.
        what: What messages call it.
        where: The user's line.
    """

    value: Callable[..., Sequence[Any]]
    dense: Callable[..., Sequence[Any]]
    what: str
    where: str | None

    def whole(self, x: Any) -> Any:
        """An array that its derivative needs dense, as the policy says."""
        if is_implicit(x):
            return materialized(x, f"the derivative of {self.what}", self.where)
        return x

    def along(self, values: Any, moving: Sequence[int]) -> tuple[Callable[..., Any], list[Any]]:
        """The dense function by some of its operands, and these; integers beside its results."""

        def function(*others: Any) -> Any:
            given = dict(zip(moving, others, strict=True))
            y = self.dense(*[given.get(i, x) for i, x in enumerate(values)])
            return [x for x in y if is_smooth(x)], [x for x in y if not is_smooth(x)]

        return function, [values[i] for i in moving]


def run_through(function: Callable[..., Any], *args: Any) -> Any:
    """What a function of dense arrays gives for trees of arrays, some implicit."""
    operands, tree = jax.tree.flatten(args, is_leaf=is_implicit)

    def flat(*arrays: Any) -> Any:
        return function(*jax.tree.unflatten(tree, arrays))

    given = [aval_of(x) if isinstance(x, ImplicitArray) else x for x in operands]
    program, shapes = jax.make_jaxpr(flat, return_shape=True)(*given)
    return jax.tree.unflatten(jax.tree.structure(shapes), inline(program, operands))


def _valued(x: Any) -> Any:
    """What an operand's value is computed with."""
    while isinstance(x, Straight):
        x = x.array
    return x


def _is_opaque(x: Any) -> bool:
    return isinstance(x, Straight) and x.opaque


def _opaque(x: Any) -> Any:
    """An operand at which a derivative is taken.

    A rule's tangents are derived in turn as what they are made of is. Handlers would make them of
    the fields of a straight array, by which nothing is derived.
    """
    return Straight(x.array, x.toward, True) if isinstance(x, Straight) else x


def in_both_modes(ways: Ways, operands: Sequence[Any]) -> list[Any]:
    """The results, derived by the derivative of ``ways.dense``, forwards and in reverse."""
    operands = [ways.whole(x) if _is_opaque(x) else x for x in operands]
    if not _has_derivative(operands):
        return list(ways.value(*map(_valued, operands)))
    kinds = _Kinds()

    @jax.custom_jvp
    def results(*operands: Any) -> Any:
        return kinds.opened(ways.value(*map(_valued, operands)))

    @partial(results.defjvp, symbolic_zeros=True)
    def _rule(primals: Any, tangents: Any) -> Any:
        kinds.see(results, primals)
        pairs = zip(primals, tangents, strict=True)
        directions = [pushed_forward(ways.whole, x, t) for x, t in pairs]
        moving = [i for i, t in enumerate(directions) if t is not None]

        def pushed(values: Any, directions: Any) -> Any:
            function, at = ways.along(values, moving)
            return jax.jvp(function, at, directions, has_aux=True)

        points = [_opaque(x) for x in primals]
        found = run_through(pushed, points, [directions[i] for i in moving])
        smooth, slopes, others = found
        y = kinds.pairs(ways.whole, smooth, others) or results(*primals)
        return y, _tangents(y, map(ways.whole, slopes))

    return _closed(results(*operands))


def in_reverse(ways: Ways, operands: Sequence[Any]) -> list[Any]:
    """The results, derived in reverse by that of ``ways.dense``, which has no other derivative."""
    operands = [ways.whole(x) if _is_opaque(x) else x for x in operands]
    if not _has_derivative(operands):
        return list(ways.value(*map(_valued, operands)))
    kinds = _Kinds()

    @jax.custom_vjp
    def results(*operands: Any) -> Any:
        return kinds.opened(ways.value(*map(_valued, operands)))

    def forward(*operands: Any) -> Any:
        primals = custom_vjp_primal_tree_values(operands)  # type: ignore[no-untyped-call]
        kinds.see(results, primals)
        moving = [i for i, x in enumerate(operands) if is_perturbed(x, primals[i])]

        def pulled(*values: Any) -> Any:
            function, at = ways.along(values, moving)
            return jax.vjp(function, *at, has_aux=True)

        smooth, pullback, others = run_through(pulled, *map(_opaque, primals))
        y = kinds.pairs(ways.whole, smooth, others) or results(*primals)
        # A dense operand has no fields that a gradient goes on to.
        kept = [primals[i] if is_implicit(primals[i]) else None for i in moving]
        return y, (pullback, kept, _Places(tuple(moving), len(primals)))

    def backward(saved: Any, cotangents: Any) -> Any:
        pullback, kept, places = saved
        gs = [_instantiated(g) for _, g in cotangents if g is not None and not _is_integer(g)]
        found = run_through(lambda pullback, gs: pullback(gs), pullback, gs)
        pulled = zip(places.moving, kept, map(ways.whole, found), strict=True)
        given = {i: pulled_back(ways.whole, x, g) for i, x, g in pulled}
        return tuple(given.get(i) for i in range(places.number))

    results.defvjp(forward, backward, symbolic_zeros=True)
    return _closed(results(*operands))


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["moving", "number"])
@dataclass(frozen=True)
class _Places:
    """Which operands a gradient is for, of how many."""

    moving: tuple[int, ...]
    number: int


def _has_derivative(operands: Sequence[Any]) -> bool:
    return any(map(is_smooth, jax.tree.leaves(list(operands))))


class _Kinds:
    """Of each result, whether it is smooth, and how it is nested where it is implicit."""

    def __init__(self) -> None:
        self.kinds: list[tuple[bool, Any]] = []

    def see(self, results: Any, primals: Any) -> None:
        """Know them of a function that is derived before it is called."""
        if not self.kinds:
            jax.eval_shape(results, *primals)

    def opened(self, y: Sequence[Any]) -> Any:
        """Each result as a pair: what is implicit, and the dense array that has the derivative.

        An implicit result's own fields can't carry a tangent of the whole: beside it stands an
        array whose value is never used.
        """
        self.kinds = [(is_smooth(x), _nesting(x)) for x in y]
        return tuple([(x, _zeros(x)) if is_implicit(x) else (None, x) for x in y])

    def pairs(self, whole: Any, smooth: Sequence[Any], others: Sequence[Any]) -> Any:
        """Such pairs as the rule has them; None where it keeps other results implicit."""
        first, second = iter(smooth), iter(others)
        y = [next(first if is_first else second) for is_first, _ in self.kinds]
        pairs = []
        for x, (_, nesting) in zip(y, self.kinds, strict=True):
            if nesting is None:
                pairs.append((None, whole(x)))
                continue
            if _nesting(_valued(x)) != nesting:
                return None
            zeros = _zeros(x)
            pairs.append((_valued(x), None if zeros is None else moved(whole, zeros, [x])))
        return tuple(pairs)


def _nesting(x: Any) -> Any:
    return jax.tree.structure(x) if is_implicit(x) else None


def _zeros(x: Any) -> Any:
    return jnp.zeros(x.shape, x.dtype) if is_smooth(x) else None


def _closed(pairs: Any) -> list[Any]:
    """The results of such pairs."""
    y = []
    for implicit, dense in pairs:
        both = implicit is not None and dense is not None
        y.append(Straight(implicit, dense) if both else dense if implicit is None else implicit)
    return y


def _tangents(y: Any, slopes: Any) -> Any:
    left = iter(slopes)

    def slope(dense: Any) -> Any:
        return None if dense is None else next(left) if is_smooth(dense) else flat(dense)

    return tuple([(jax.tree.map(flat, implicit), slope(dense)) for implicit, dense in y])


def _is_integer(g: Any) -> bool:
    return bool(g.dtype == jax.dtypes.float0)


def _instantiated(g: Any) -> Any:
    return np.zeros(g.shape, g.dtype) if isinstance(g, SymbolicZero) else g


class _UnhandledError(Exception):
    """Nothing handles the values of straight arrays."""


def handled(primitive: Any, operands: Sequence[Any], parameters: dict[str, Any]) -> Any:
    """What a primitive gives of straight arrays: of their values, derived as if whole.

    Returns:
        NotImplemented where nothing handles the values.
    """
    several = primitive.multiple_results

    def value(*values: Any) -> Sequence[Any]:
        found = dispatch(primitive, values, parameters)
        if found is NotImplemented:
            raise _UnhandledError
        return found if several else [found]

    def dense(*values: Any) -> Sequence[Any]:
        found = primitive.bind(*values, **parameters)
        return found if several else [found]

    try:
        y = in_both_modes(Ways(value, dense, primitive.name, where(here())), operands)
    except _UnhandledError:
        return NotImplemented
    return y if several else y[0]
