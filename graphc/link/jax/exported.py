"""Programs as StableHLO, which ``jax.export`` runs without graphc."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import export

from graphc.errors import ExportError, GraphcError
from graphc.link.jax.symbolic import assuming

Argument = tuple[str, Sequence[str | int | None]]
"""The dtype of an argument and its shape: lengths, names of lengths, or None for any."""

ROUNDS = 12
"""How often a program is traced at most, each time with the conditions that were found before."""


def exported(
    function: Callable[..., Any],
    arguments: Sequence[Argument],
    platforms: Sequence[str] | None,
    derivatives: int,
) -> tuple[bytes, list[str]]:
    """Return a function of arrays in the form that ``jax.export.deserialize`` reads.

    Args:
        function: JAX can trace and differentiate it.
        arguments: Its arguments; lengths of equal names are equal.
        platforms: JAX's names of the platforms that it is to run on; this one's by default.
        derivatives: How many times it can be differentiated in reverse.

    Returns:
        The program, and the conditions on which it runs: comparisons of lengths.

    Raises:
        ExportError: JAX cannot write it, such as for a length that is to be known.
    """
    conditions: list[str] = []
    for _ in range(ROUNDS):
        found = dict.fromkeys(conditions)
        try:
            with jax.enable_x64(True), assuming(found):
                data = _written(function, arguments, platforms, derivatives, conditions)
            if len(found) == len(conditions):
                return data, conditions
        except ModuleNotFoundError as error:
            raise ExportError(
                "A program for JAX is written by jax.export, which needs flatbuffers.",
                "Install it: pip install 'graphc[export]'.",
            ) from error
        except Exception as error:  # JAX's and graphc's, in what is traced
            if len(found) == len(conditions):
                raise _failed(error) from error
        # Symbols are compared by the conditions that they are made with.
        conditions = list(found)
    raise ExportError(
        f"JAX cannot write the program: its lengths must fit in too many ways: {found}.",
        'Say what is known of them, dynamic={"x": ("n", "n"), "y": ("n - 1",)}.',
    )


def _written(
    function: Callable[..., Any],
    arguments: Sequence[Argument],
    platforms: Sequence[str] | None,
    derivatives: int,
    conditions: Sequence[str],
) -> bytes:
    names, bounds = _solved(conditions)
    scope = export.SymbolicScope(bounds)
    specs = [_spec(i, argument, names, scope) for i, argument in enumerate(arguments)]
    made = export.export(jax.jit(function), platforms=platforms)(*specs)
    return bytes(made.serialize(vjp_order=derivatives))


def _failed(error: Exception) -> ExportError:
    problem = error.problem if isinstance(error, GraphcError) else str(error)
    return ExportError(
        f"JAX cannot write the program: {problem.splitlines()[0]}",
        'Where a length is to be known, say which it is, dynamic={"x": (10, None)}; leave '
        "out derivatives=, or programs=, for the graph alone.",
        error.where if isinstance(error, GraphcError) else None,
    )


def _solved(conditions: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return names with what they are equal to, and the conditions that are left.

    Equal lengths are one symbol: JAX's own equalities are known to few of its operations.
    """
    names: dict[str, str] = {}
    bounds: list[str] = []
    for condition in conditions:
        left, sign, right = _swapped(condition, names).partition(" == ")
        if not sign:
            bounds.append(left)
            continue
        # Names that the user gave stay.
        pairs = sorted(((left, right), (right, left)), key=lambda pair: not pair[0].startswith("_"))
        found = next(filter(None, (_definition(*pair) for pair in pairs)), None)
        if found is None:
            bounds += [f"{left} >= {right}", f"{right} >= {left}"]
        elif found[0] != found[1]:
            names = {name: _swapped(x, dict([found])) for name, x in names.items()}
            names |= [found]
    return names, [_swapped(x, names) for x in bounds]


def _definition(left: str, right: str) -> tuple[str, str] | None:
    """The name that an equation of two expressions gives, and what it is equal to."""
    found = re.fullmatch(r"([^\W\d]\w*)(?: ([+-]) (\d+))?", left)
    if found is None:
        return None
    name, sign, number = found.groups()
    if name != right and re.search(rf"\b{name}\b", right):
        return None
    return name, right if sign is None else f"{right} {'-' if sign == '+' else '+'} {number}"


def _swapped(text: str, names: Mapping[str, str]) -> str:
    """An expression with others in the place of names; a single name needs no parentheses."""

    def other(found: re.Match[str]) -> str:
        x = names.get(found[0], found[0])
        return x if re.fullmatch(r"\w+", x) else f"({x})"

    return re.sub(r"\b[^\W\d]\w*\b", other, text)


def _spec(
    place: int, argument: Argument, names: Mapping[str, str], scope: Any
) -> jax.ShapeDtypeStruct:
    dtype, shape = argument
    written = [f"_{place}_{i}" if n is None else str(n) for i, n in enumerate(shape)]
    written = [_swapped(n, names) for n in written]
    lengths = export.symbolic_shape(", ".join(written), scope=scope) if written else ()
    return jax.ShapeDtypeStruct(lengths, dtype)  # type: ignore[no-untyped-call]
