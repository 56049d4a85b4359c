"""Functions whose last axes are a core: these dimensions are named, all others are a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.errors import AxisError
from graphc.tensor import Tensor
from graphc.xtensor.align import Dims, check_dims, dim_lengths, dims_text, permute_all, with_lengths
from graphc.xtensor.type import as_xtensor


def core_of(title: str, dims: Any, n: Sequence[int]) -> Dims:
    """Return the names of ``n`` core dimensions."""
    names = check_dims(title, dims)
    if len(names) not in n:
        several = " or ".join(map(str, n))
        raise AxisError(f"{title}: dims={dims!r}.", f"Name {several} dimensions.")
    return names


def with_core(
    title: str, xs: Sequence[Any], cores: Sequence[Dims]
) -> tuple[list[Tensor], dict[str, int | None]]:
    """Return operands with their core as the last axes, and the dimensions of the batch in front.

    Args:
        title: The function, in messages.
        xs: The operands.
        cores: The core dimensions of each, in order.

    Returns:
        Arrays whose first axes broadcast by position; and the dimensions of the batch, in order,
        with their lengths.

    Raises:
        AxisError: An operand lacks one of its core dimensions, or has one of another operand's.
        ShapeError: A dimension has two lengths.
    """
    operands = [as_xtensor(x) for x in xs]
    every = {dim for core in cores for dim in core}
    for x, core in zip(operands, cores, strict=True):
        missing = [dim for dim in core if dim not in x.dims]
        if missing:
            raise AxisError(f"{title}({x!r}): there is no dimension {missing[0]!r}.", dims_text(x))
        foreign = [dim for dim in x.dims if dim in every and dim not in core]
        if foreign:
            raise AxisError(
                f"{title}({x!r}): it has the core dimension {foreign[0]!r} of another operand.",
                f"Its own are {core}: rename the other one.",
            )
    lengths = dim_lengths(title, operands)
    batch = {dim: n for dim, n in lengths.items() if dim not in every}
    arrays = []
    for x, core in zip(operands, cores, strict=True):
        present = [dim for dim in batch if dim in x.dims]
        order = [*batch, *core] if present else list(core)
        arrays.append(permute_all(with_lengths(title, x, lengths), x.dims, order))
    return arrays, batch
