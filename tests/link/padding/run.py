"""Run a graph on padded arrays in NumPy, to compare it with the graph on the arrays themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphc.link.padding.rules  # noqa: F401
from graphc.ir import Graph, Node, TensorType
from graphc.link.host import analyse
from graphc.link.padding.counts import Count, passed_length
from graphc.link.padding.graph import pad
from graphc.link.padding.padded import PaddedArray, as_node
from graphc.link.padding.program import PaddedResults
from graphc.loop.evaluate import evaluate

RANDOM = np.random.default_rng(0)


def garbage(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return numbers that an operation must not read."""
    if dtype.kind == "b":
        return np.asarray(RANDOM.random(shape) > 0.5)
    if dtype.kind in "iu":
        return RANDOM.integers(90, 120, shape).astype(dtype)
    return np.where(RANDOM.random(shape) > 0.3, np.nan, 6e4).astype(dtype)


def run_padded(
    inputs: Sequence[Node],
    outputs: Sequence[Node],
    arrays: Sequence[Any],
    extra: int = 3,
    exact: Sequence[Node] = (),
) -> list[np.ndarray[Any, Any]]:
    """Return the outputs computed on padded arrays, cut to their lengths.

    Args:
        inputs: Arrays, padded along axes of unknown length, and integer scalars.
        outputs: The outputs.
        arrays: The values of the inputs. Integer scalars become counts with a bound.
        extra: The number of elements of padding; buffers of different axes differ in length.
        exact: The inputs whose unknown lengths the backend knows when it compiles.

    Raises:
        ValueError: If a condition on the lengths does not hold.
    """
    results = _run(inputs, outputs, arrays, extra, exact, garbage)
    # A call pads with zeros, which the pass knows.
    for zero, y in zip(_run(inputs, outputs, arrays, extra, exact, np.zeros), results, strict=True):
        np.testing.assert_allclose(zero, y, rtol=1e-4, atol=1e-4)
    return results


def _run(
    inputs: Sequence[Node],
    outputs: Sequence[Node],
    arrays: Sequence[Any],
    extra: int,
    exact: Sequence[Node],
    padding: Callable[..., np.ndarray[Any, Any]],
) -> list[np.ndarray[Any, Any]]:
    graph = Graph([*inputs], [*outputs])
    lengths: list[int] = []
    arguments = [
        _argument(x, np.asarray(array), None if x in exact else extra, lengths, padding)
        for x, array in zip(inputs, arrays, strict=True)
    ]
    new = [as_node(value) for value, buffer in arguments if buffer is not None]
    scalars = [TensorType("int64", ())() for _ in lengths]
    host = analyse(graph).nodes
    padded = pad(graph, host, [*new, *scalars], [value for value, _ in arguments], scalars)
    buffers = [buffer for _, buffer in arguments if buffer is not None]
    with np.errstate(all="ignore"):
        values = evaluate(padded.graph, *buffers, *map(np.int64, lengths))
    results = PaddedResults.of(values, padded)
    if not results.hold_for(lengths):
        raise ValueError(f"one of {padded.comparisons} does not hold for {lengths}")
    results.verify(lengths)
    pairs = zip(results.buffers, results.shapes(lengths), strict=True)
    return [y[tuple(map(slice, shape))] for y, shape in pairs]


def _argument(
    x: Node,
    array: np.ndarray[Any, Any],
    extra: int | None,
    lengths: list[int],
    padding: Callable[..., np.ndarray[Any, Any]],
) -> tuple[Any, Any]:
    """Return the value of an input and its buffer; append the lengths that are passed."""
    if extra is None:
        return x.type(), array
    if not array.ndim and x.type.dtype == "int64":
        n = int(array)
        lengths.append(n)
        return Count(None, min(n, 0), n + extra, passed_length(len(lengths) - 1)), None
    counts: list[Count | None] = [None] * array.ndim
    sizes = list(array.shape)
    for axis in [axis for axis, n in enumerate(x.type.shape) if n is None]:
        sizes[axis] += extra + len(lengths) % 2
        counts[axis] = Count(None, 0, sizes[axis], passed_length(len(lengths)))
        lengths.append(array.shape[axis])
    buffer = padding(sizes, array.dtype)
    buffer[tuple(slice(n) for n in array.shape)] = array
    node = TensorType(x.type.dtype, tuple(sizes))()
    fill = np.zeros((), array.dtype) if padding is np.zeros else None
    return PaddedArray(node, tuple(counts), fill) if any(counts) else node, buffer
