"""Calls entered: their programs run with implicit arrays, and what is said of them is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from graphc.implicit.jax.interpreter import inline, materialized_for, rule, used_results
from graphc.implicit.jax.kinds import Kinds, flatten, spread, unflatten
from graphc.implicit.jax.transform import Wanted, closed, transformed

__all__ = ["placed", "rebound"]


def rebound(eqn: JaxprEqn, leaves: Sequence[Any], kinds: Kinds, **changed: Any) -> list[Any]:
    """Results of these kinds of an equation that has other arrays and some other parameters.

    What this version of JAX has no parameter for is not said.
    """
    params = {**eqn.params, **{name: x for name, x in changed.items() if name in eqn.params}}
    primitive: Any = eqn.primitive
    return unflatten(kinds, primitive.bind(*leaves, **params))


def placed(used: Iterable[bool], results: Iterable[Any]) -> list[Any]:
    """The results that are used in their places, None in those of others."""
    found = iter(results)
    return [next(found) if is_used else None for is_used in used]


OPERANDS = ("in_shardings", "in_layouts", "donated_invars")
RESULTS = ("out_shardings", "out_layouts")
"""What a compiled function says of each of its operands and results."""


@rule("jit", "pjit")
def jit(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A compiled function: its name, shardings and donations are kept."""
    leaves, kinds = flatten(operands)
    used = used_results(eqn)
    inner = transformed(eqn.params["jaxpr"], kinds, Wanted.of(eqn)).tell()
    said: dict[str, Any] = {}
    for name in OPERANDS:
        others, values = _unsaid(name), eqn.params[name]
        is_donation = name == "donated_invars"
        parts = _repeated(kinds, values) if is_donation else spread(kinds, values, others)
        said[name] = (others,) * len(inner.consts) + parts
    for name in RESULTS:
        pairs = zip(eqn.params[name], used, strict=True)
        said[name] = spread(inner.kinds, [x for x, is_used in pairs if is_used], _unsaid(name))
    given = [*inner.consts, *leaves]
    return placed(used, rebound(eqn, given, inner.kinds, jaxpr=inner.program, **said))


def _repeated(kinds: Kinds, values: Sequence[Any]) -> tuple[Any, ...]:
    """What is said of each operand, said of each of its arrays."""
    counts = [1 if kind is None else kind.count for kind in kinds]
    return tuple([x for x, n in zip(values, counts, strict=True) for _ in range(n)])


@cache
def _unsaid(name: str) -> Any:
    """What a parameter is for an operand or a result of which nothing is said."""
    (eqn,) = jax.make_jaxpr(jax.jit(jnp.sin))(jax.core.ShapedArray((1,), jnp.float32)).eqns
    return eqn.params[name][0]


@rule("closed_call", "core_call")
def call(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A call that says nothing but what is called."""
    return inline(closed(eqn.params["call_jaxpr"]), operands, used_results(eqn))


@rule("remat", "remat2", "checkpoint")
def remat(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A function that is computed again for its gradient, by the user's policy."""
    leaves, kinds = flatten(operands)
    inner = transformed(eqn.params["jaxpr"], kinds, Wanted.of(eqn)).tell()
    given = [*inner.consts, *leaves]
    results = rebound(eqn, given, inner.kinds, jaxpr=inner.program.jaxpr)
    return placed(used_results(eqn), results)


@rule("custom_linear_solve")
def custom_linear_solve(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A linear system whose matrix is known by what it does: its functions' constants are entered.

    The right-hand sides and the solution are dense.
    """
    programs, lengths = eqn.params["jaxprs"], eqn.params["const_lengths"]
    rest, sides = list(operands[: sum(lengths)]), operands[sum(lengths) :]
    sides = [materialized_for(x, eqn) for x in sides]
    wanted = Wanted(eqn, (True,) * len(sides), (True,) * len(sides))
    made: list[Any] = []
    given: list[Any] = []
    counts: list[int] = []
    for program, length in zip(programs, lengths, strict=True):
        leaves, kinds = flatten(rest[:length])
        del rest[:length]
        inner = program and transformed(program, (*kinds, *[None] * len(sides)), wanted).tell()
        made.append(inner and inner.program)
        consts = [*inner.consts, *leaves] if inner else []
        counts.append(len(consts))
        given += consts
    same = (None,) * len(sides)
    changed = {"jaxprs": type(programs)(*made), "const_lengths": type(lengths)(*counts)}
    return rebound(eqn, [*given, *sides], same, **changed)


@rule("device_put")
def device_put(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Arrays moved to devices one by one, unless the whole is to be divided among these."""
    devices = eqn.params["devices"]
    moved = [
        materialized_for(x, eqn) if _is_divided(device) else x
        for x, device in zip(operands, devices, strict=True)
    ]
    leaves, kinds = flatten(moved)
    said = {name: _repeated(kinds, eqn.params[name]) for name in MOVES if name in eqn.params}
    return rebound(eqn, leaves, kinds, **said)


MOVES = ("devices", "srcs", "copy_semantics")
"""What is said of each operand that is moved."""


def _is_divided(device: Any) -> bool:
    return isinstance(device, jax.sharding.Sharding) and not device.is_fully_replicated


@rule("name", "copy", "optimization_barrier", "pcast", "pvary", "stop_gradient")
def array_by_array(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """What an operation does that changes no values, done to the arrays within."""
    leaves, kinds = flatten(operands)
    primitive: Any = eqn.primitive
    if primitive.multiple_results:
        return rebound(eqn, leaves, kinds)
    return unflatten(kinds, [primitive.bind(x, **eqn.params) for x in leaves])
