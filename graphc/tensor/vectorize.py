"""A graph for a whole batch at once: each operation brings its rule, and this follows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphc.errors import ShapeError, UnsupportedOperationError
from graphc.ir import Node, TupleType, derived_from, toposort
from graphc.tensor.shape import length, repeated
from graphc.tensor.tensor import Tensor

__all__ = ["batched"]


def batched(outputs: Sequence[Node], replacements: Mapping[Any, Tensor]) -> list[Tensor]:
    """The outputs for every element of a batch, along a new leading axis.

    Args:
        outputs: Arrays of any shape.
        replacements: For nodes of their graph, arrays with one more axis in front, the batch.

    Returns:
        An array for each output, with the batch axis in front; one that does not depend on the
        replaced nodes is repeated along it.

    Raises:
        ShapeError: A replacement's other axes are not the node's, or batches differ in length.
        UnsupportedOperationError: An operation has no rule, or its result's shape would differ
            from one element of the batch to the next.

    Example:
        >>> import graphc.tensor as gt
        >>> x, rows = gt.tensor("x", shape=(3,)), gt.tensor("rows", shape=(5, 3))
        >>> [y.type for y in batched([x.sum(), x * 2], {x: rows})]
        [float64[5], float64[5, 3]]
    """
    size = _size(replacements)
    done: dict[Node, Any] = dict(replacements)
    leading = set(replacements)
    for node in toposort(outputs, replacements):
        inputs = [done.get(x, x) for x in node.inputs]
        flags = [x in leading for x in node.inputs]
        if not any(flags):
            done[node] = node.with_inputs(inputs)
            continue
        _check_shape_fixed(node, flags)
        with derived_from(node.site):
            done[node] = node.op.batch(size, flags, *inputs)
        if _is_batched(done[node], node):
            leading.add(node)
    return [done[y] if y in leading else repeated(done[y], size) for y in outputs]


def _size(replacements: Mapping[Any, Tensor]) -> int | Tensor:
    for node, batch in replacements.items():
        if not batch.ndim or not node.type.admits(batch.type.with_shape(batch.type.shape[1:])):
            raise ShapeError(
                f"{batch!r} is no batch of {node!r}.",
                "Its first axis is the batch, the others are the node's.",
                batch.where,
            )
    found = [length(batch, 0) for batch in replacements.values()]
    known = [n for n in found if isinstance(n, int)]
    if len(set(known)) > 1:
        raise ShapeError(f"Batches of different lengths: {', '.join(map(str, known))}.")
    return (known or found)[0]


def _check_shape_fixed(node: Node, flags: Sequence[bool]) -> None:
    if any(flags[i] for i in node.op.host_inputs()):
        raise UnsupportedOperationError(
            f"{node!r}: its shape would differ from one element of the batch to the next.",
            "Compute lengths, slices and masks that select from what is the same for the batch.",
            node.where,
        )


def _is_batched(made: Node, node: Node) -> bool:
    # A rule may give what is the same for the whole batch: a length, of the node's own rank.
    return isinstance(made.type, TupleType) or bool(made.type.ndim > node.type.ndim)
