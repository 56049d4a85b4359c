"""Primitives that apply programs: calls, loops, branches, and functions with custom derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from graphc.ir import is_inexact
from graphc.link.jax.from_jaxpr.equation import Converter, JaxprEquation
from graphc.link.jax.jaxprs import CALLS, bind_equation, replace_at
from graphc.link.jax.releases import scan_operands
from graphc.loop import cond, custom_pullback, loop, switch_case, while_loop
from graphc.tensor import Tensor


def _call(parameter: str) -> Converter:
    return lambda eqn, *operands: eqn.run(eqn[parameter], operands)


def _scan(eqn: JaxprEquation, *operands: Tensor) -> list[Tensor]:
    body, groups = scan_operands(eqn.eqn)
    consts, carries, rows = ([operands[i] for i in group] for group in groups)
    n = len(carries)

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        ys = eqn.run(body, [*consts, *carry, *(x or ())])
        return tuple(ys[:n]), tuple(ys[n:])

    unroll = eqn.eqn.params.get("unroll")
    final, results = loop(
        step,
        tuple(carries),
        tuple(rows) or None,
        n_steps=eqn.lengths(eqn["length"]),
        reverse=bool(eqn["reverse"]),
        unroll=unroll if isinstance(unroll, int) and unroll > 1 else None,
    )
    return [*final, *(results or ())]


def _while(eqn: JaxprEquation, *operands: Tensor) -> list[Tensor]:
    n, m = eqn["cond_nconsts"], eqn["body_nconsts"]
    cond_consts, body_consts, init = operands[:n], operands[n : n + m], operands[n + m :]
    final = while_loop(
        lambda carry: eqn.run(eqn["cond_jaxpr"], [*cond_consts, *carry])[0],
        lambda carry: tuple(eqn.run(eqn["body_jaxpr"], [*body_consts, *carry])),
        tuple(init),
    )
    return list(final)


def _cond(eqn: JaxprEquation, index: Tensor, *operands: Tensor) -> list[Tensor]:
    branches = eqn["branches"]

    def branch(i: int) -> Any:
        return lambda: tuple(eqn.run(branches[i], operands))

    if index.dtype == "bool":
        return list(cond(index, branch(1), branch(0)))
    return list(switch_case(index, [branch(i) for i in range(len(branches))]))


def _custom_derivative(eqn: JaxprEquation, *operands: Tensor) -> list[Any]:
    return _with_jax_pullback(eqn, operands, lambda inner, xs: inner.run(eqn["call_jaxpr"], xs))


def _high_level(eqn: JaxprEquation, *operands: Tensor) -> list[Any]:
    """Convert a primitive of ``jax.experimental.hijax`` by its expansion."""
    with jax.enable_x64(eqn.conversion.wide):
        program = jax.make_jaxpr(eqn["_prim"].expand)(*[_spec(x.aval) for x in eqn.eqn.invars])
    return _with_jax_pullback(eqn, operands, lambda inner, xs: inner.run(program, xs))


def _linear_solve(eqn: JaxprEquation, *operands: Tensor) -> list[Any]:
    """Convert the program ``solve``; JAX differentiates the linear system instead of it."""
    counts = eqn["const_lengths"]
    start = counts.matvec + counts.vecmat
    stop = start + counts.solve

    def solve(inner: JaxprEquation, xs: Sequence[Any]) -> list[Any]:
        rhs = xs[stop + counts.transpose_solve :]
        return inner.run(eqn["jaxprs"].solve, [*xs[start:stop], *rhs])

    return _with_jax_pullback(eqn, operands, solve)


def _with_jax_pullback(
    eqn: JaxprEquation,
    operands: Sequence[Tensor],
    compute: Callable[[JaxprEquation, Sequence[Any]], list[Any]],
) -> list[Any]:
    """Convert an equation by ``compute``, and its pullback, where needed, by JAX's derivative."""
    lengths, n = eqn.lengths.symbols, len(operands)

    def with_values(values: Sequence[Any]) -> JaxprEquation:
        # A function with a custom pullback captures nothing: lengths are arguments too.
        return eqn.with_lengths(dict(zip(lengths, values, strict=True)))

    def pullback(g: Any, _: Any, *xs: Any) -> list[Any]:
        gradients = _pullback(with_values(xs[n:]), list(g), xs[:n])
        return [*gradients, *[None] * len(lengths)]

    @custom_pullback(pullback)
    def function(*xs: Any) -> list[Any]:
        return compute(with_values(xs[n:]), xs[:n])

    return list(function(*operands, *lengths.values()))


def _pullback(eqn: JaxprEquation, g: list[Any], xs: Sequence[Any]) -> list[Any]:
    """Return JAX's gradients with respect to the operands; None for exact dtypes."""
    wrt = [i for i, x in enumerate(xs) if is_inexact(x.dtype)]
    outputs = [i for i, cotangent in enumerate(g) if cotangent is not None]

    def vjp(*values: Any) -> Any:
        operands, cotangents = values[: len(xs)], values[len(xs) :]

        def f(*inexact: Any) -> Any:
            ys = bind_equation(eqn.eqn, replace_at(operands, wrt, inexact))
            return [ys[i] for i in outputs]

        _, pull = jax.vjp(f, *[operands[i] for i in wrt])
        return pull(list(cotangents))

    variables = [*eqn.eqn.invars, *[eqn.eqn.outvars[i] for i in outputs]]
    with jax.enable_x64(eqn.conversion.wide):
        program = jax.make_jaxpr(vjp)(*[_spec(x.aval) for x in variables])
    gradients = eqn.run(program, [*xs, *[g[i] for i in outputs]])
    return replace_at([None] * len(xs), wrt, gradients)


def _spec(aval: Any) -> Any:
    is_weak = getattr(aval, "weak_type", False)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=is_weak)  # type: ignore[no-untyped-call]


CONTROL: dict[str, Converter] = {
    **{name: _call(parameter) for name, parameter in CALLS.items()},
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "custom_jvp_call": _custom_derivative,
    "custom_vjp_call": _custom_derivative,
    "call_hi_primitive": _high_level,
    "custom_linear_solve": _linear_solve,
}
"""Converters of primitives that apply programs."""
