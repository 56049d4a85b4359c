"""Differences between the supported releases of JAX, 0.8 and later, which no other file shows.

Features are probed, never version numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

# Older releases have the function in jax.core, where newer ones warn of it.
_home: Any = jax.extend.core if hasattr(jax.extend.core, "get_opaque_trace_state") else jax.core
trace_state: Callable[[], Any] = _home.get_opaque_trace_state
"""A function that returns the state of the traces that are running."""

SYNONYMS = {"pjit": "jit", "checkpoint": "remat"}
"""Names that primitives have in some releases, and those that ``primitives.py`` has."""


@cache
def pallas_triton() -> Any:
    """Return Pallas' module for Triton; None in releases of JAX without it: 0.11 deprecates it."""
    try:
        from jax.experimental.pallas import triton  # noqa: PLC0415 (few programs need it)
    except ImportError:
        return None
    return triton


def bind(primitive: Any, operands: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
    """Bind a primitive with dense operands and an equation's parameters."""
    params = primitive.get_bind_params(parameters)
    # JAX up to 0.9 returns the functions among the parameters separately.
    functions, params = params if isinstance(params, tuple) else ((), params)
    return primitive.bind(*functions, *operands, **params)


def as_closed(program: ClosedJaxpr | Jaxpr) -> ClosedJaxpr:
    """Return the program closed over its constants, if it has any."""
    # From JAX 0.12 on both are one class, which may have constants.
    return program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, ())


def varying_axes_of(aval: Any) -> frozenset[Any]:
    """Return the mesh axes over which arrays of a type vary within ``jax.shard_map``."""
    # In JAX up to 0.9 the type itself has the axes.
    kind = getattr(aval, "manual_axis_type", None)
    axes: Any = getattr(aval, "vma", ()) if kind is None else kind.varying
    return frozenset(axes)


def cast_varying(x: Any, axes: tuple[Any, ...]) -> Any:
    """Cast an array to vary over mesh axes over which it does not vary."""
    cast: Any = lax
    # JAX up to 0.8 has one of the two.
    if hasattr(cast, "pcast"):
        return cast.pcast(x, axes, to="varying")
    return cast.pvary(x, axes)


def manual_axes(params: Mapping[str, Any]) -> Any:
    """Return the manual axes of a ``shard_map`` equation with these parameters."""
    return params.get("newly_manual_axes", params.get("manual_axes"))


# The operands of a scan: JAX up to 0.10 counts those that are constants and carries. In later
# releases, ranks show which operands the loop runs over, and a traced scan shows whether carries
# precede constants.

COUNTS = {"num_consts", "num_carry"}


def scan_operands(eqn: JaxprEqn) -> tuple[ClosedJaxpr, list[list[int]]]:
    """Return the body of a scan, of constants, carries and rows, and the operands' indices."""
    body = as_closed(eqn.params["jaxpr"])
    indices = list(range(len(eqn.invars)))
    if eqn.params.keys() >= COUNTS:
        first = eqn.params["num_consts"]
        second = first + eqn.params["num_carry"]
        return body, [indices[:first], indices[first:second], indices[second:]]
    groups = _groups(eqn, body)
    order = [i for group in groups for i in group]
    return body if order == indices else _reorder_parameters(body, order), groups


def bind_scan(
    eqn: JaxprEqn,
    body: ClosedJaxpr,
    consts: Sequence[Any],
    carries: Sequence[Any],
    rows: Sequence[Any],
) -> Sequence[Any]:
    """Bind a scan with another body and other arrays."""
    params: dict[str, Any] = dict(eqn.params)
    if params.keys() >= COUNTS:
        params |= {"jaxpr": body, "num_consts": len(consts), "num_carry": len(carries)}
        if "linear" in params:
            params["linear"] = (False,) * (len(consts) + len(carries) + len(rows))
        primitive: Any = eqn.primitive
        results: Sequence[Any] = primitive.bind(*consts, *carries, *rows, **params)
        return results
    step = jaxpr_as_fun(body)

    def run(carry: Sequence[Any], elements: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        results = list(step(*consts, *carry, *elements))
        return results[: len(carry)], results[len(carry) :]

    names = ("length", "reverse", "unroll", "_split_transpose")
    settings = {name: params[name] for name in names if name in params}
    last, stacks = lax.scan(run, list(carries), list(rows), **settings)
    return [*last, *stacks]


def _groups(eqn: JaxprEqn, body: ClosedJaxpr) -> list[list[int]]:
    """Return the indices of the operands that are constants, carries and rows."""
    body_ranks = list(map(_rank, body.in_avals))
    ranks = [_rank(x.aval) for x in eqn.invars]
    rows = [i for i, n in enumerate(ranks) if n != body_ranks[i]]
    others = [i for i, n in enumerate(ranks) if n == body_ranks[i]]
    results = zip(eqn.outvars, body.out_avals, strict=True)
    count = sum(_rank(x.aval) == _rank(aval) for x, aval in results)
    if _carries_first():
        return [others[count:], others[:count], rows]
    return [others[: len(others) - count], others[len(others) - count :], rows]


def _rank(aval: Any) -> int:
    return len(aval.shape)


@cache
def _carries_first() -> bool:
    """Return whether the carries of a scan are operands before its constants."""

    def scan(const: Any, carry: Any) -> Any:
        return lax.scan(lambda c, _: (c + const.sum(), None), carry, length=2)

    types = [jax.core.ShapedArray((n,), jnp.float32) for n in (2, 3)]
    (eqn,) = [x for x in jax.make_jaxpr(scan)(*types).eqns if x.primitive.name == "scan"]
    lengths: list[Any] = [x.aval.shape for x in eqn.invars]
    return lengths.index((3,)) < lengths.index((2,))


def _reorder_parameters(body: ClosedJaxpr, order: Sequence[int]) -> ClosedJaxpr:
    def run(*values: Any) -> Any:
        value_of = dict(zip(order, values, strict=True))
        return jaxpr_as_fun(body)(*[value_of[i] for i in range(len(values))])

    return jax.make_jaxpr(run)(*[body.in_avals[i] for i in order])
