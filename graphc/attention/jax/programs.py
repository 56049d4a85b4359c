"""Mask functions as JAX traced them: straight programs of scalars, one for each structure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from graphc.attention.jax.functions import MaskFunction
from graphc.attention.mods import INDICES
from graphc.capture import Stripped
from graphc.implicit.jax.interpreter import bind

__all__ = ["Program", "evaluated", "program_of"]

CALLS = {
    **dict.fromkeys(("jit", "pjit", "remat", "remat2", "checkpoint"), "jaxpr"),
    **dict.fromkeys(("closed_call", "core_call"), "call_jaxpr"),
    **dict.fromkeys(("custom_jvp_call", "custom_vjp_call"), "call_jaxpr"),
}
"""Primitives that do nothing but call a program, and the parameter that has it."""

KEPT = 256
"""How many structures of mask functions are known at a time; each is a few kilobytes."""

Type = tuple[tuple[int, ...], Any, bool]
"""The shape and the dtype of an array, and whether it gives way to other dtypes."""


@dataclass(frozen=True, eq=False)
class Program:
    """A mask function traced: (b, h, q, k, *captured) to one bool.

    Attributes:
        traced: Its equations, none of which is a mere call, and all of which are needed.
        depends: Of each variable the indices that it depends on, as numbers from 0 to 3; of
            variables that are not here, none.
    """

    traced: ClosedJaxpr
    depends: dict[Any, frozenset[int]]

    @cached_property
    def uses(self) -> tuple[bool, ...]:
        """Whether the result depends on each of b, h, q, k."""
        (y,) = self.traced.jaxpr.outvars
        found = () if isinstance(y, Literal) else self.depends.get(y, ())
        return tuple(i in found for i in range(len(INDICES)))

    @cached_property
    def _without_indices(self) -> list[JaxprEqn]:
        """The equations that take captured arrays and constants alone."""
        eqns = self.traced.jaxpr.eqns
        return [eqn for eqn in eqns if not any(map(self.depends.get, eqn.outvars))]

    @cached_property
    def _made(self) -> set[Any]:
        """What they give, but for single integers, which are sooner computed than compiled."""
        return {y for eqn in self._without_indices if not _is_step(eqn) for y in eqn.outvars}

    @cached_property
    def steps(self) -> list[JaxprEqn]:
        """The equations that take indices, and those of single integers."""
        return [eqn for eqn in self.traced.jaxpr.eqns if self._made.isdisjoint(eqn.outvars)]

    @cached_property
    def _fixed(self) -> tuple[Any, ...]:
        """What the steps, and the result, take of what other equations give."""
        taken = [x for eqn in self.steps for x in eqn.invars] + self.traced.jaxpr.outvars
        found = (x for x in taken if not isinstance(x, Literal) and x in self._made)
        return tuple(dict.fromkeys(found))

    @cached_property
    def _fix(self) -> Callable[..., Sequence[Any]]:
        """The values of those for captured arrays."""

        @jax.jit
        def fix(*captured: Any) -> list[Any]:
            bare = self.traced.jaxpr
            known = dict(zip(bare.constvars, self.traced.consts, strict=True))
            known.update(zip(bare.invars[len(INDICES) :], captured, strict=True))
            run(self._without_indices, known)
            return [known[x] for x in self._fixed]

        return fix

    def fixed_values(self, captured: Sequence[Any]) -> dict[Any, Any]:
        """What the steps take of what is computed without them, by the program's variables.

        Args:
            captured: The arrays that the function captures.
        """
        if not self._fixed:
            return {}
        return dict(zip(self._fixed, self._fix(*captured), strict=True))

    def __call__(self, *given: Any) -> Any:
        """Whether the query sees the key, for (b, h, q, k, *captured)."""
        (kept,) = evaluated(self.traced, given)
        return kept


def _is_step(eqn: JaxprEqn) -> bool:
    """Whether it is one of integer scalars, or of bools."""
    avals: list[Any] = [x.aval for x in (*eqn.invars, *eqn.outvars)]
    return all(
        not x.shape and (x.dtype == bool or jnp.issubdtype(x.dtype, jnp.integer)) for x in avals
    )


def program_of(stripped: Stripped, captured: Sequence[Any]) -> Program:
    """A mask function traced for captured arrays of these types; nothing is traced twice.

    Args:
        stripped: The function without them.
        captured: They, or Python numbers.

    Raises:
        DTypeError: The function gives no bool.
        ShapeError: It gives no scalar.
        SymbolicValueError: It asks for the value of an index, as a Python ``if`` does.
        ArgumentError: It takes other arguments, or is written for symbolic arrays.
    """
    types = tuple([_type_of(x) for x in captured])
    settings: Any = jax.config
    return _traced(stripped, types, settings.jax_enable_x64)


def _type_of(x: Any) -> Type:
    kind = jax.typeof(x)
    return kind.shape, kind.dtype, kind.weak_type


_Typed: Any = jax.ShapeDtypeStruct


@lru_cache(KEPT)
def _traced(stripped: Stripped, types: tuple[Type, ...], wide: bool) -> Program:
    index = _Typed((), jnp.int32)
    given = [
        *[index] * len(INDICES),
        *[_Typed(shape, dtype, weak_type=weak) for shape, dtype, weak in types],
    ]
    whole = jax.make_jaxpr(MaskFunction(stripped))(*given)
    flat = jax.make_jaxpr(lambda *values: evaluated(whole, values))(*given)
    eqns = _needed(flat.jaxpr)
    bare = flat.jaxpr.replace(eqns=eqns)
    return Program(ClosedJaxpr(bare, flat.consts), _dependences(bare))


def evaluated(program: ClosedJaxpr | Jaxpr, values: Sequence[Any]) -> list[Any]:
    """The results of a program, its equations run one by one, those of what it calls too."""
    bare, consts = (program, ()) if isinstance(program, Jaxpr) else (program.jaxpr, program.consts)
    known = dict(zip(bare.constvars, consts, strict=True))
    known.update(zip(bare.invars, values, strict=True))
    run(bare.eqns, known)
    return [_read(known, x) for x in bare.outvars]


def run(eqns: Sequence[JaxprEqn], known: dict[Any, Any]) -> None:
    """Add what equations give to the values that are known."""
    for eqn in eqns:
        values = [_read(known, x) for x in eqn.invars]
        name = CALLS.get(eqn.primitive.name)
        if name is not None:
            found = evaluated(eqn.params[name], values)
        else:
            found = bind(eqn.primitive, values, eqn.params)
            found = found if eqn.primitive.multiple_results else [found]
        known.update(zip(eqn.outvars, found, strict=True))


def _read(known: dict[Any, Any], x: Any) -> Any:
    return x.val if isinstance(x, Literal) else known[x]


def _needed(jaxpr: Jaxpr) -> list[JaxprEqn]:
    """The equations that the results depend on."""
    wanted = {x for x in jaxpr.outvars if not isinstance(x, Literal)}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or not wanted.isdisjoint(eqn.outvars):
            kept.append(eqn)
            wanted.update(_variables(eqn))
    return kept[::-1]


def _variables(eqn: JaxprEqn) -> Iterator[Any]:
    return (x for x in eqn.invars if not isinstance(x, Literal))


def _dependences(jaxpr: Jaxpr) -> dict[Any, frozenset[int]]:
    found = {x: frozenset([i]) for i, x in enumerate(jaxpr.invars[: len(INDICES)])}
    for eqn in jaxpr.eqns:
        indices = frozenset().union(*[found.get(x, frozenset()) for x in _variables(eqn)])
        if indices:
            found.update(dict.fromkeys(eqn.outvars, indices))
    return found
