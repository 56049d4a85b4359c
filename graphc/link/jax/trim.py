"""Results of JAX's programs for padded arrays, cut to their lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from graphc.errors import DynamicShapeError
from graphc.link.padding.results import PaddedResults

jax.tree_util.register_pytree_node(
    PaddedResults,
    lambda x: ((x.buffers, x.numbers), (x.lengths, x.comparisons)),
    lambda rest, arrays: PaddedResults(*arrays, *rest),
)


def verify(padded: PaddedResults, lengths: Sequence[int] = ()) -> None:
    """Raise the error of a comparison that fails; numbers that JAX traces are not compared."""
    if not any(isinstance(n, jax.core.Tracer) for n in padded.numbers):
        padded.verify(lengths)


def trim(padded: PaddedResults, lengths: Sequence[int] = ()) -> list[Any]:
    """Return results cut to their lengths, by NumPy: JAX would compile a slice for each length.

    Args:
        padded: The results.
        lengths: The passed lengths.

    Raises:
        DynamicShapeError: If a length is unknown, because JAX traces the user's code.
    """
    try:
        shapes = padded.shapes(lengths)
    except jax.errors.ConcretizationTypeError as error:
        raise DynamicShapeError(
            "A result has a length that is not known while JAX traces.",
            "Call the function outside of jax.jit, jax.vmap and jax.grad.",
        ) from error
    trimmed = list(padded.buffers)
    cut = []
    for i, (buffer, shape) in enumerate(zip(padded.buffers, shapes, strict=True)):
        if shape == buffer.shape:
            continue
        if isinstance(buffer, jax.core.Tracer):
            trimmed[i] = lax.slice(buffer, [0] * buffer.ndim, shape)
        else:
            trimmed[i] = np.asarray(buffer)[tuple([slice(n) for n in shape])]
            cut.append(i)
    if cut:
        first = padded.buffers[cut[0]]
        shardings = [padded.buffers[i].sharding for i in cut] if first.committed else None
        # One call of device_put, because a call costs more than the transfer of an array.
        arrays = jax.device_put([trimmed[i] for i in cut], shardings)
        for i, y in zip(cut, arrays, strict=True):
            trimmed[i] = y
    return trimmed
