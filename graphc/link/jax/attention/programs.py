"""The programs of attention and of its gradient, as functions that JAX transforms.

Each is the operation of graphs (``graphc/attention/flex.py``), compiled once for each structure and
each shapes. JAX differentiates and batches them by the operation's own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from graphc import hooks
from graphc.attention.flex import Flex
from graphc.ir import Node, TensorType, picks

CACHE_SIZE = 256
"""The number of programs that are cached, of a few kilobytes each."""

Arrays = tuple[Any, ...]
"""Queries, keys, values, tables, and the arrays that the score and the mask function capture."""

Run = Callable[..., Sequence[Any]]


def forward(op: Flex, arrays: Arrays) -> tuple[Any, Any]:
    """Return the result of attention and the log-sum-exps."""
    flat = _flatten(arrays)
    out, sums = _forward(op, _types(flat))(*flat)
    return out, sums


def backward(
    op: Flex, wanted: tuple[bool, ...], arrays: Arrays, rest: Sequence[Any]
) -> Sequence[Any]:
    """Return the gradients with respect to q, k, v and the wanted arrays of the score function.

    Args:
        op: The operation.
        wanted: Whether each of the score function's arrays has a gradient.
        arrays: The arrays of attention.
        rest: The result, the log-sum-exps, and the cotangents of both.
    """
    flat = [*_flatten(arrays), *rest]
    return _backward(op, wanted, _types(flat))(*flat)


def _flatten(arrays: Arrays) -> list[Any]:
    *first, tables, score_captured, mask_captured = arrays
    return [*first, *tables, *score_captured, *mask_captured]


def _types(arrays: Sequence[Any]) -> tuple[TensorType, ...]:
    return tuple([TensorType(str(x.dtype), x.shape) for x in arrays])


@lru_cache(CACHE_SIZE)
def _forward(op: Flex, types: tuple[TensorType, ...]) -> Run:
    inputs = [x() for x in types]
    return compiled(inputs, picks(Node.make(op, *inputs)))


@lru_cache(CACHE_SIZE)
def _backward(op: Flex, wanted: tuple[bool, ...], types: tuple[TensorType, ...]) -> Run:
    inputs = [x() for x in types]
    return compiled(inputs, picks(Node.make(op.gradient(wanted), *inputs)))


def compiled(inputs: Sequence[Node], outputs: Sequence[Node]) -> Run:
    """Return a graph as a function that JAX transforms."""
    function = hooks.compile_function(
        list(inputs), list(outputs), mode="JAX", on_unused_input="ignore"
    )
    run: Run = function.pure
    return run
