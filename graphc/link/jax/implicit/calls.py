"""Calls of compiled functions and other nested programs, run with implicit operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from graphc.link.jax.implicit.avals import ImplicitAvals, flatten, spread, unflatten
from graphc.link.jax.implicit.interpreter import (
    inline,
    materialized_for,
    rule,
    used_results,
)
from graphc.link.jax.implicit.known import known_number
from graphc.link.jax.implicit.partition import can_shard, field_shardings
from graphc.link.jax.implicit.systems import by_structure
from graphc.link.jax.implicit.transform import RequestedResults, closed, transformed


def rebound(
    eqn: JaxprEqn, leaves: Sequence[Any], kinds: ImplicitAvals, **changed: Any
) -> list[Any]:
    """Bind an equation with other arrays and parameters; rebuild implicit results.

    What this version of JAX has no parameter for is not said.
    """
    params = {**eqn.params, **{name: x for name, x in changed.items() if name in eqn.params}}
    primitive: Any = eqn.primitive
    return unflatten(kinds, primitive.bind(*leaves, **params))


def placed(used: Iterable[bool], results: Iterable[Any]) -> list[Any]:
    """Return the used results at their places, and None at the others."""
    found = iter(results)
    return [next(found) if is_used else None for is_used in used]


OPERANDS = ("in_shardings", "in_layouts", "donated_invars")
RESULTS = ("out_shardings", "out_layouts")
"""The parameters of a compiled function with an entry for each operand or result."""


@rule("jit", "pjit")
def jit(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a compiled function; its name, shardings and donations are kept."""
    found = by_structure(eqn, operands)
    if found is not None:
        return list(found)
    leaves, kinds = flatten(operands)
    used = used_results(eqn)
    numbers = tuple(map(known_number, operands))
    inner = transformed(eqn.params["jaxpr"], kinds, RequestedResults.of(eqn), numbers).report()
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


def _repeated(kinds: ImplicitAvals, values: Sequence[Any]) -> tuple[Any, ...]:
    """Repeat each operand's attribute for each of its arrays."""
    counts = [1 if kind is None else kind.count for kind in kinds]
    return tuple([x for x, n in zip(values, counts, strict=True) for _ in range(n)])


@cache
def _unsaid(name: str) -> Any:
    """Return the default of a parameter, for arrays without an attribute."""
    (eqn,) = jax.make_jaxpr(jax.jit(jnp.sin))(jax.core.ShapedArray((1,), jnp.float32)).eqns
    return eqn.params[name][0]


@rule("closed_call", "core_call")
def call(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a call without parameters of its own."""
    return inline(closed(eqn.params["call_jaxpr"]), operands, used_results(eqn))


@rule("remat", "remat2", "checkpoint")
def remat(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a checkpointed function, by the user's policy."""
    leaves, kinds = flatten(operands)
    inner = transformed(eqn.params["jaxpr"], kinds, RequestedResults.of(eqn)).report()
    given = [*inner.consts, *leaves]
    results = rebound(eqn, given, inner.kinds, jaxpr=inner.program.jaxpr)
    return placed(used_results(eqn), results)


@rule("custom_linear_solve")
def custom_linear_solve(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a linear solve given by functions; their constants may be implicit.

    The right-hand sides and the results are dense.
    """
    programs, lengths = eqn.params["jaxprs"], eqn.params["const_lengths"]
    rest, sides = list(operands[: sum(lengths)]), operands[sum(lengths) :]
    sides = [materialized_for(x, eqn) for x in sides]
    made: list[Any] = []
    given: list[Any] = []
    counts: list[int] = []
    for program, length in zip(programs, lengths, strict=True):
        leaves, kinds = flatten(rest[:length])
        del rest[:length]
        # Beside a solution a solver may give more, such as the number of its steps.
        every = (True,) * len(closed(program).out_avals) if program else ()
        wanted = RequestedResults(eqn, every, every)
        inner = program and transformed(program, (*kinds, *[None] * len(sides)), wanted).report()
        made.append(inner and inner.program)
        consts = [*inner.consts, *leaves] if inner else []
        counts.append(len(consts))
        given += consts
    same = (None,) * len(eqn.outvars)
    changed = {"jaxprs": type(programs)(*made), "const_lengths": type(lengths)(*counts)}
    return rebound(eqn, [*given, *sides], same, **changed)


@rule("device_put")
def device_put(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Move an implicit array's arrays to devices, sharded as the whole is to be."""
    devices = eqn.params["devices"]
    moved = [
        x if can_shard(device) else materialized_for(x, eqn)
        for x, device in zip(operands, devices, strict=True)
    ]
    leaves, kinds = flatten(moved)
    said: dict[str, Any] = {name: _repeated(kinds, eqn.params[name]) for name in MOVES}
    for kind, device in zip(kinds, devices, strict=True):
        said.setdefault("devices", ())
        said["devices"] += (device,) if kind is None else tuple(field_shardings(kind, device))
    return rebound(eqn, leaves, kinds, **said)


MOVES = ("srcs", "copy_semantics")
"""The other parameters of ``device_put`` with an entry for each operand."""


@rule("name", "copy", "optimization_barrier", "pcast", "pvary", "stop_gradient")
def array_by_array(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Apply an operation that changes no values to the arrays of implicit operands."""
    leaves, kinds = flatten(operands)
    primitive: Any = eqn.primitive
    if primitive.multiple_results:
        return rebound(eqn, leaves, kinds)
    return unflatten(kinds, [primitive.bind(x, **eqn.params) for x in leaves])
