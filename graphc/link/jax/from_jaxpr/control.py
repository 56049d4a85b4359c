"""Primitives that apply programs: calls, loops, branches, functions with rules of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from graphc.ir import is_inexact
from graphc.link.jax.from_jaxpr.equation import Converter, Equation
from graphc.link.jax.implicit.interpreter import bound
from graphc.link.jax.implicit.scans import Scan
from graphc.link.jax.jaxprs import CALLS
from graphc.loop import cond, custom_pullback, loop, switch_case, while_loop
from graphc.tensor import Tensor


def _call(parameter: str) -> Converter:
    return lambda eqn, *operands: eqn.run(eqn[parameter], operands)


def _scan(eqn: Equation, *operands: Tensor) -> list[Tensor]:
    parts = Scan.of(eqn.eqn, operands)
    carried, xs = len(parts.carries), tuple(parts.rows)

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        found = eqn.run(parts.body, [*parts.consts, *carry, *(x or ())])
        return tuple(found[:carried]), tuple(found[carried:])

    unroll = eqn.eqn.params.get("unroll")
    final, rows = loop(
        step,
        tuple(parts.carries),
        xs or None,
        n_steps=eqn.lengths(eqn["length"]),
        reverse=bool(eqn["reverse"]),
        unroll=unroll if isinstance(unroll, int) and unroll > 1 else None,
    )
    return [*final, *(rows or ())]


def _while(eqn: Equation, *operands: Tensor) -> list[Tensor]:
    n, m = eqn["cond_nconsts"], eqn["body_nconsts"]
    of_cond, of_body, init = operands[:n], operands[n : n + m], operands[n + m :]
    final = while_loop(
        lambda carry: eqn.run(eqn["cond_jaxpr"], [*of_cond, *carry])[0],
        lambda carry: tuple(eqn.run(eqn["body_jaxpr"], [*of_body, *carry])),
        tuple(init),
    )
    return list(final)


def _cond(eqn: Equation, which: Tensor, *operands: Tensor) -> list[Tensor]:
    branches = eqn["branches"]

    def branch(i: int) -> Any:
        return lambda: tuple(eqn.run(branches[i], operands))

    if which.dtype == "bool":
        return list(cond(which, branch(1), branch(0)))
    return list(switch_case(which, [branch(i) for i in range(len(branches))]))


def _custom(eqn: Equation, *operands: Tensor) -> list[Any]:
    return _with_rule(eqn, operands, lambda inside, xs: inside.run(eqn["call_jaxpr"], xs))


def _of_high_level(eqn: Equation, *operands: Tensor) -> list[Any]:
    """A primitive of ``jax.experimental.hijax``, by the program that it stands for."""
    with jax.enable_x64(eqn.conversion.wide):
        program = jax.make_jaxpr(eqn["_prim"].expand)(*[_spec(x.aval) for x in eqn.eqn.invars])
    return _with_rule(eqn, operands, lambda inside, xs: inside.run(program, xs))


def _linear_solve(eqn: Equation, *operands: Tensor) -> list[Any]:
    """A solution by the program that it brings along; its gradient is that of what it solves."""
    counts = eqn["const_lengths"]
    before = counts.matvec + counts.vecmat
    behind = before + counts.solve + counts.transpose_solve

    def solve(inside: Equation, xs: Sequence[Any]) -> list[Any]:
        given = [*xs[before : before + counts.solve], *xs[behind:]]
        return inside.run(eqn["jaxprs"].solve, given)

    return _with_rule(eqn, operands, solve)


def _with_rule(
    eqn: Equation,
    operands: Sequence[Tensor],
    compute: Callable[[Equation, Sequence[Any]], list[Any]],
) -> list[Any]:
    """A function with a derivative of its own: JAX's, as far as a gradient needs it."""
    lengths, n = eqn.lengths.symbols, len(operands)

    def inside(given: Sequence[Any]) -> Equation:
        # What the function uses is an argument of it, lengths too.
        return eqn.with_lengths(dict(zip(lengths, given, strict=True)))

    def pullback(g: Any, _: Any, *xs: Any) -> list[Any]:
        found = _pulled_back(inside(xs[n:]), list(g), xs[:n])
        return [*found, *[None] * len(lengths)]

    @custom_pullback(pullback)
    def function(*xs: Any) -> list[Any]:
        return compute(inside(xs[n:]), xs[:n])

    return list(function(*operands, *lengths.values()))


def _pulled_back(eqn: Equation, g: list[Any], xs: Sequence[Any]) -> list[Any]:
    """Gradients by the inputs, as JAX computes them."""
    wanted = [i for i, x in enumerate(xs) if is_inexact(x.dtype)]
    given = [i for i, part in enumerate(g) if part is not None]

    def gradients(*values: Any) -> Any:
        arguments, slopes = values[: len(xs)], values[len(xs) :]

        def of_wanted(*moved: Any) -> Any:
            at = dict(zip(wanted, moved, strict=True))
            found = bound(eqn.eqn, [at.get(i, x) for i, x in enumerate(arguments)])
            return [found[i] for i in given]

        _, pull = jax.vjp(of_wanted, *[arguments[i] for i in wanted])
        return pull(list(slopes))

    variables = [*eqn.eqn.invars, *[eqn.eqn.outvars[i] for i in given]]
    with jax.enable_x64(eqn.conversion.wide):
        program = jax.make_jaxpr(gradients)(*[_spec(x.aval) for x in variables])
    found = eqn.run(program, [*xs, *[g[i] for i in given]])
    at = dict(zip(wanted, found, strict=True))
    return [at.get(i) for i in range(len(xs))]


def _spec(aval: Any) -> Any:
    is_weak = getattr(aval, "weak_type", False)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=is_weak)  # type: ignore[no-untyped-call]


CONTROL: dict[str, Converter] = {
    **{name: _call(parameter) for name, parameter in CALLS.items()},
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "custom_jvp_call": _custom,
    "custom_vjp_call": _custom,
    "call_hi_primitive": _of_high_level,
    "custom_linear_solve": _linear_solve,
}
"""Converters of primitives that apply programs."""
