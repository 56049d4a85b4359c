"""Programs as StableHLO, which ``jax.export`` runs without graphc."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import export

from graphc.errors import ExportError, GraphcError

Argument = tuple[str, Sequence[str | int | None]]
"""The dtype of an argument and its shape: lengths, names of lengths, or None for any."""


def exported(
    function: Callable[..., Any],
    arguments: Sequence[Argument],
    platforms: Sequence[str] | None,
    derivatives: int,
) -> bytes:
    """Return a function of arrays in the form that ``jax.export.deserialize`` reads.

    Args:
        function: JAX can trace and differentiate it.
        arguments: Its arguments; lengths of equal names are equal.
        platforms: JAX's names of the platforms that it is to run on; this one's by default.
        derivatives: How many times it can be differentiated in reverse.

    Raises:
        ExportError: JAX cannot write it, such as for a length that is to be known.
    """
    with jax.enable_x64(True):
        scope = export.SymbolicScope()
        try:
            specs = [_spec(i, argument, scope) for i, argument in enumerate(arguments)]
            made = export.export(jax.jit(function), platforms=platforms)(*specs)
            return bytes(made.serialize(vjp_order=derivatives))
        except ModuleNotFoundError as error:
            raise ExportError(
                "A program for JAX is written by jax.export, which needs flatbuffers.",
                "Install it: pip install 'graphc[export]'.",
            ) from error
        except Exception as error:  # JAX's and graphc's, in what is traced
            problem = error.problem if isinstance(error, GraphcError) else str(error)
            raise ExportError(
                f"JAX cannot write the program: {problem.splitlines()[0]}",
                'Where a length is to be known, say which it is, dynamic={"x": (10, None)}; leave '
                "out derivatives=, or programs=, for the graph alone.",
                error.where if isinstance(error, GraphcError) else None,
            ) from error


def _spec(place: int, argument: Argument, scope: Any) -> jax.ShapeDtypeStruct:
    dtype, shape = argument
    names = [f"_{place}_{i}" if n is None else str(n) for i, n in enumerate(shape)]
    lengths = export.symbolic_shape(", ".join(names), scope=scope) if names else ()
    return jax.ShapeDtypeStruct(lengths, dtype)  # type: ignore[no-untyped-call]
