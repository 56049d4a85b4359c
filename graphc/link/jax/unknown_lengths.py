"""Arguments of functions that JAX traces while lengths of their axes are unknown.

Each unknown length is first a symbol for any number. If JAX cannot trace the function so, more is
assumed: that no length is 0, then that all unknown lengths are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax

from graphc.errors import ArgumentError
from graphc.ir import TensorType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Arguments:
    """Shapes and dtypes of arguments under an assumption about unknown lengths.

    Attributes:
        specs: The shapes and dtypes, as JAX takes them.
        symbols: The axes whose lengths contain a symbol, by the symbol's name: pairs of an
            argument's index and an axis.
        least: The smallest length that the assumption admits, 0 or 1. JAX's symbols are 1 or more,
            so a length that may be 0 is a symbol minus 1.
    """

    specs: tuple[Any, ...]
    symbols: Mapping[str, Sequence[tuple[int, int]]]
    least: int

    @property
    def are_equal(self) -> bool:
        """Whether several unknown lengths are one symbol."""
        return any(len(axes) > 1 for axes in self.symbols.values())


def trace_with_symbols(trace: Callable[..., T], types: Sequence[TensorType]) -> tuple[T, Arguments]:
    """Return what ``trace`` returns for arguments of these types, and the arguments.

    Assumptions about unknown lengths are tried in turn, the weakest first.
    """
    return trace_first(trace, _assumptions(types))


def trace_first(
    trace: Callable[..., T],
    candidates: Iterable[Arguments],
    hopeless: tuple[type[Exception], ...] = (),
) -> tuple[T, Arguments]:
    """Return what ``trace`` returns for the first arguments that it takes, and these arguments.

    If it takes none, the first error is raised; at once if it is one of the hopeless errors. An
    ``ArgumentError`` does not depend on lengths.
    """
    first: Exception | None = None
    for arguments in candidates:
        try:
            return trace(*arguments.specs), arguments
        except ArgumentError:
            raise
        except Exception as error:
            first = first or error
            if isinstance(first, hopeless):
                break
    assert first is not None
    raise first


def _assumptions(types: Sequence[TensorType]) -> Iterator[Arguments]:
    unknown = [
        (i, axis) for i, x in enumerate(types) for axis, n in enumerate(x.shape) if n is None
    ]
    if not unknown:
        yield Arguments(specs(types, ()), {}, 0)
        return
    names = [f"n{i}" for i in range(len(unknown))]
    apart = {name: [axis] for name, axis in zip(names, unknown, strict=True)}
    symbols = jax.export.symbolic_shape(", ".join(names))
    yield Arguments(specs(types, [n - 1 for n in symbols]), apart, 0)
    yield Arguments(specs(types, symbols), apart, 1)
    if len(unknown) > 1:
        for length, least in ((symbols[0] - 1, 0), (symbols[0], 1)):
            yield Arguments(specs(types, [length] * len(unknown)), {names[0]: unknown}, least)


def specs(types: Iterable[TensorType], lengths: Iterable[Any]) -> tuple[Any, ...]:
    """Return shapes and dtypes for JAX, with the given lengths in place of unknown ones."""
    unused = iter(lengths)
    return tuple(
        jax.ShapeDtypeStruct(  # type: ignore[no-untyped-call]
            tuple(next(unused) if n is None else n for n in x.shape), x.numpy_dtype
        )
        for x in types
    )
