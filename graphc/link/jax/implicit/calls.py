"""Calls of compiled functions and of other nested programs, with implicit operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.extend.core import JaxprEqn

from graphc.link.jax.implicit.avals import ImplicitAvals, flatten, per_array, unflatten
from graphc.link.jax.implicit.interpreter import (
    bind_dense,
    inline,
    materialize_for,
    rule,
)
from graphc.link.jax.implicit.known import known_number
from graphc.link.jax.implicit.partition import can_shard, field_shardings
from graphc.link.jax.implicit.systems import by_structure
from graphc.link.jax.implicit.transform import RequestedResults, run_through, transform
from graphc.link.jax.jaxprs import bind_equation, used_results
from graphc.link.jax.pure import GraphRules
from graphc.link.jax.releases import as_closed


def rebind(eqn: JaxprEqn, leaves: Sequence[Any], kinds: ImplicitAvals, **changed: Any) -> list[Any]:
    """Bind an equation with other arrays and parameters, and rebuild implicit results.

    Parameters that the primitive lacks in this version of JAX are ignored.
    """
    params = {**eqn.params, **{name: x for name, x in changed.items() if name in eqn.params}}
    primitive: Any = eqn.primitive
    return unflatten(kinds, primitive.bind(*leaves, **params))


def fill_unused(used: Iterable[bool], results: Iterable[Any]) -> list[Any]:
    """Return all results, given the used ones; the others are None."""
    used_results = iter(results)
    return [next(used_results) if is_used else None for is_used in used]


OPERANDS = ("in_shardings", "in_layouts", "donated_invars")
RESULTS = ("out_shardings", "out_layouts")
"""The parameters of a compiled function with an entry for each operand or result."""


@rule("jit", "pjit")
def jit(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a compiled function, with its name, shardings and donations."""
    results = by_structure(eqn, operands)
    if results is not None:
        return list(results)
    leaves, kinds = flatten(operands)
    used = used_results(eqn)
    numbers = tuple(map(known_number, operands))
    inner = transform(eqn.params["jaxpr"], kinds, RequestedResults.of(eqn), numbers).report()
    params: dict[str, Any] = {}
    for name in OPERANDS:
        default, values = _default_of(name), eqn.params[name]
        if name == "donated_invars":
            entries = _repeat_per_array(kinds, values)
        else:
            entries = per_array(kinds, values, default)
        params[name] = (default,) * len(inner.consts) + entries
    for name in RESULTS:
        pairs = zip(eqn.params[name], used, strict=True)
        values = [x for x, is_used in pairs if is_used]
        params[name] = per_array(inner.kinds, values, _default_of(name))
    arrays = [*inner.consts, *leaves]
    return fill_unused(used, rebind(eqn, arrays, inner.kinds, jaxpr=inner.program, **params))


def _repeat_per_array(kinds: ImplicitAvals, values: Sequence[Any]) -> tuple[Any, ...]:
    counts = [1 if kind is None else kind.count for kind in kinds]
    return tuple([x for x, n in zip(values, counts, strict=True) for _ in range(n)])


@cache
def _default_of(name: str) -> Any:
    """Return the parameter's entry for an array without that attribute."""
    (eqn,) = jax.make_jaxpr(jax.jit(jnp.sin))(jax.core.ShapedArray((1,), jnp.float32)).eqns
    return eqn.params[name][0]


@rule("closed_call", "core_call")
def call(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a call that has no parameters except a program."""
    return inline(as_closed(eqn.params["call_jaxpr"]), operands, used_results(eqn))


@rule("graphc")
def graph(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a pure program of a graph, such as attention."""
    rules, types = eqn.params["rules"], [x.aval for x in eqn.invars]
    if not isinstance(rules, GraphRules):
        return bind_dense(eqn, operands)
    # The program computes in the graph's dtypes, whatever the setting.
    with jax.enable_x64(True):
        return inline(jax.make_jaxpr(rules.run)(*types), operands, used_results(eqn))


@rule("remat", "remat2", "checkpoint")
def remat(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a checkpointed function with the user's policy."""
    leaves, kinds = flatten(operands)
    inner = transform(eqn.params["jaxpr"], kinds, RequestedResults.of(eqn)).report()
    arrays = [*inner.consts, *leaves]
    results = rebind(eqn, arrays, inner.kinds, jaxpr=inner.program.jaxpr)
    return fill_unused(used_results(eqn), results)


@rule("custom_linear_solve")
def custom_linear_solve(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a linear solve whose functions may have implicit constants.

    The right-hand sides and the results are dense.
    """
    programs, lengths = eqn.params["jaxprs"], eqn.params["const_lengths"]
    rest, rhs = list(operands[: sum(lengths)]), operands[sum(lengths) :]
    rhs = [materialize_for(x, eqn) for x in rhs]
    transformed: list[Any] = []
    arrays: list[Any] = []
    counts: list[int] = []
    for program, length in zip(programs, lengths, strict=True):
        leaves, kinds = flatten(rest[:length])
        del rest[:length]
        # A solver may return more than a solution, such as the number of its steps.
        every = (True,) * len(as_closed(program).out_avals) if program else ()
        requested = RequestedResults(eqn, every, every)
        inner = program and transform(program, (*kinds, *[None] * len(rhs)), requested).report()
        transformed.append(inner and inner.program)
        consts = [*inner.consts, *leaves] if inner else []
        counts.append(len(consts))
        arrays += consts
    params = {"jaxprs": type(programs)(*transformed), "const_lengths": type(lengths)(*counts)}
    return rebind(eqn, [*arrays, *rhs], (None,) * len(eqn.outvars), **params)


@rule("custom_vmap_call")
def custom_vmap_call(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom batching rule, which runs with implicit operands too."""

    @custom_vmap
    def function(*operands: Any) -> Any:
        return inline(eqn.params["call"], operands)

    @function.def_vmap
    def _rule(size: int, batched: Sequence[Any], *operands: Any) -> Any:
        pairs = [_batch(size, x, flags) for x, flags in zip(operands, batched, strict=True)]
        axes = [0 if flag else None for _, flag in pairs]
        function = jax.vmap(lambda *values: bind_equation(eqn, values), axes, axis_size=size)
        y = run_through(function, *[x for x, _ in pairs])
        return y, jax.tree.map(lambda _: True, y)

    y: Sequence[Any] = function(*operands)
    return y


def _batch(size: int, x: Any, flags: Any) -> tuple[Any, bool]:
    """Return an operand with all arrays batched if one is, and whether they are."""
    leaf_flags = jax.tree.leaves(flags)
    if not any(leaf_flags):
        return x, False
    leaves, tree = jax.tree.flatten(x)
    pairs = zip(leaves, leaf_flags, strict=True)
    batches = [
        leaf if flag else jnp.broadcast_to(leaf, (size, *jnp.shape(leaf))) for leaf, flag in pairs
    ]
    return jax.tree.unflatten(tree, batches), True


@rule("device_put")
def device_put(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Move the fields of implicit arrays to devices, sharded as the dense array is to be."""
    devices = eqn.params["devices"]
    operands = [
        x if can_shard(device) else materialize_for(x, eqn)
        for x, device in zip(operands, devices, strict=True)
    ]
    leaves, kinds = flatten(operands)
    params: dict[str, Any] = {
        name: _repeat_per_array(kinds, eqn.params[name]) for name in PER_OPERAND
    }
    shardings: list[Any] = []
    for kind, device in zip(kinds, devices, strict=True):
        shardings += [device] if kind is None else field_shardings(kind, device)
    return rebind(eqn, leaves, kinds, devices=tuple(shardings), **params)


PER_OPERAND = ("srcs", "copy_semantics")
"""The other parameters of ``device_put`` with an entry for each operand."""


@rule("name", "copy", "optimization_barrier", "pcast", "pvary", "stop_gradient")
def array_by_array(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Apply an operation that changes no values to the arrays of implicit operands."""
    leaves, kinds = flatten(operands)
    primitive: Any = eqn.primitive
    if primitive.multiple_results:
        return rebind(eqn, leaves, kinds)
    return unflatten(kinds, [primitive.bind(x, **eqn.params) for x in leaves])
