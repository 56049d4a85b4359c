"""Export of programs as StableHLO, which ``jax.export`` runs without graphc."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import export

from graphc.errors import ExportError, GraphcError
from graphc.link.jax.devices import compiling_for
from graphc.link.jax.symbolic import assuming

Argument = tuple[str, Sequence[str | int | None]]
"""The dtype of an argument and its shape: lengths, names of lengths, or None for any."""

RESERVED = {"floordiv", "max", "min", "mod"}
"""The names that JAX reads as functions of lengths."""

ROUNDS = 12
"""The most traces of a program; each uses the conditions that earlier traces collected."""


def export_stablehlo(
    function: Callable[..., Any],
    arguments: Sequence[Argument],
    platforms: Sequence[str] | None,
    derivatives: int,
) -> tuple[bytes, list[str]]:
    """Serialize a function of arrays in the form that ``jax.export.deserialize`` reads.

    Args:
        function: A function that JAX can trace and differentiate.
        arguments: Its arguments; lengths with equal names are equal.
        platforms: JAX's names of the platforms that run the program; this platform by default.
        derivatives: The number of times that the program can be differentiated in reverse.

    Returns:
        The program, and its conditions: comparisons of lengths.

    Raises:
        ExportError: If JAX cannot export the function, such as for a length that must be static.
    """
    conditions: list[str] = []
    for _ in range(ROUNDS):
        collected = dict.fromkeys(conditions)
        try:
            with jax.enable_x64(True), assuming(collected), compiling_for(platforms):
                data = _serialize(function, arguments, platforms, derivatives, conditions)
            if len(collected) == len(conditions):
                return data, conditions
        except ModuleNotFoundError as error:
            raise ExportError(
                "A program for JAX is written by jax.export, which needs flatbuffers.",
                "Install it: pip install 'graphc[export]'.",
            ) from error
        except Exception as error:  # an error of JAX or graphc while JAX traces
            if len(collected) == len(conditions):
                raise _export_error(error) from error
        # JAX decides comparisons of symbols by the conditions of their scope.
        conditions = list(collected)
    raise ExportError(
        f"JAX cannot write the program: its lengths must fit in too many ways: {collected}.",
        'Declare what is known of the lengths, dynamic={"x": ("n", "n"), "y": ("n - 1",)}.',
    )


def _serialize(
    function: Callable[..., Any],
    arguments: Sequence[Argument],
    platforms: Sequence[str] | None,
    derivatives: int,
    conditions: Sequence[str],
) -> bytes:
    names, bounds = _solve_equations(conditions)
    scope = export.SymbolicScope(bounds)
    specs = [_spec(i, argument, names, scope) for i, argument in enumerate(arguments)]
    exported = export.export(jax.jit(function), platforms=platforms)(*specs)
    return bytes(exported.serialize(vjp_order=derivatives))


def _export_error(error: Exception) -> ExportError:
    problem = error.problem if isinstance(error, GraphcError) else str(error)
    return ExportError(
        f"JAX cannot write the program: {problem.splitlines()[0]}",
        'If a length must be known, give it, dynamic={"x": (10, None)}; leave '
        "out derivatives=, or programs=, for the graph alone.",
        error.where if isinstance(error, GraphcError) else None,
    )


def _solve_equations(conditions: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return definitions of names by the equations, and the remaining conditions.

    Equal lengths become one symbol, because few operations of JAX use its own equalities.
    """
    names: dict[str, str] = {}
    bounds: list[str] = []
    for condition in conditions:
        left, sign, right = _substitute(condition, names).partition(" == ")
        if not sign:
            bounds.append(left)
            continue
        # Generated names are defined by the user's names.
        pairs = sorted(((left, right), (right, left)), key=lambda pair: not pair[0].startswith("_"))
        definition = next(filter(None, (_definition(*pair) for pair in pairs)), None)
        if definition is None:
            bounds += [f"{left} >= {right}", f"{right} >= {left}"]
        elif definition[0] != definition[1]:
            names = {name: _substitute(x, dict([definition])) for name, x in names.items()}
            names |= [definition]
    return names, [_substitute(x, names) for x in bounds]


def _definition(left: str, right: str) -> tuple[str, str] | None:
    """Solve ``left = right`` for the name in ``left``: ``n + 1 = m`` gives ``n``, ``m - 1``."""
    match = re.fullmatch(r"([^\W\d]\w*)(?: ([+-]) (\d+))?", left)
    if match is None:
        return None
    name, sign, number = match.groups()
    if name != right and re.search(rf"\b{name}\b", right):
        return None
    return name, right if sign is None else f"{right} {'-' if sign == '+' else '+'} {number}"


def _substitute(text: str, names: Mapping[str, str]) -> str:
    """Replace names in an expression by expressions, in parentheses unless they are names."""

    def replace(match: re.Match[str]) -> str:
        x = names.get(match[0], match[0])
        return x if re.fullmatch(r"\w+", x) else f"({x})"

    return re.sub(r"\b[^\W\d]\w*\b", replace, text)


def _spec(
    position: int, argument: Argument, names: Mapping[str, str], scope: Any
) -> jax.ShapeDtypeStruct:
    dtype, shape = argument
    texts = [f"_{position}_{i}" if n is None else str(n) for i, n in enumerate(shape)]
    texts = [f"{n}_" if n in RESERVED else n for n in texts]
    texts = [_substitute(n, names) for n in texts]
    lengths = export.symbolic_shape(", ".join(texts), scope=scope) if texts else ()
    return jax.ShapeDtypeStruct(lengths, dtype)  # type: ignore[no-untyped-call]
