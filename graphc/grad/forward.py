"""Forward mode: tangents pushed through the graph.

An operation without a pushforward uses the pullback of its pullback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from graphc import ir
from graphc.errors import ArgumentError, GradientError, UnsupportedOperationError
from graphc.grad import reverse
from graphc.site import derived_from
from graphc.tensor import Tensor, as_tensor
from graphc.tensor.core.shape import Length, Shape


def push(outputs: Sequence[ir.Node], tangents: Mapping[ir.Node, Tensor]) -> list[Tensor | None]:
    """Return the tangent of each output from tangents of some nodes; None where none arrives."""
    outputs = ir.to_gathered_form(outputs, tangents.keys())
    by_node: dict[ir.Node, Any] = dict(tangents)
    for node in ir.toposort(outputs, tangents):
        arriving = [by_node.get(x) for x in node.inputs]
        if any(t is not None for t in arriving):
            with derived_from(node.site):
                by_node[node] = _push_node(node, arriving)
    return [by_node.get(y) for y in outputs]


def _push_node(node: ir.Node, tangents: list[Any]) -> Any:
    if isinstance(node.op, ir.Pick):
        return tangents[0][node.op.index]
    if not isinstance(node.type, ir.TupleType) and not ir.is_inexact(node.type.dtype):
        return None
    t = node.op.pushforward(tangents, node, *node.inputs)
    if t is NotImplemented:
        t = _through_pullback(node, tangents)
    return reverse.like(t, node) if isinstance(t, Tensor) else t


def _through_pullback(node: ir.Node, tangents: list[Any]) -> Any:
    """Return the pullback of the pullback, which is linear in the cotangent."""
    several = isinstance(node.type, ir.TupleType)
    results = ir.picks(node) if several else [node]
    dummies = [reverse.typed_like(y, "cotangent") for y in results]
    gs = node.op.pullback(dummies if several else dummies[0], node, *node.inputs)
    pairs = [(part, t) for part, t in zip(gs, tangents, strict=True) if t is not None]
    for part, _ in pairs:
        if isinstance(part, GradientError):
            raise part
    seeds = reverse.sum_by_node((part, t) for part, t in pairs if part is not None)
    # The pullback stops at the node's inputs: otherwise a chain takes quadratic time.
    constants = [node, *node.inputs, *(t for t in tangents if t is not None)]
    pulled = reverse.cotangents(seeds, dummies, constants)
    # Linearity removes the cotangent; only its lengths remain, which are the result's.
    present = [y for y in pulled if y is not None]
    measures = [y for y in ir.toposort(present, constants) if isinstance(y.op, Length | Shape)]
    if not set(ir.toposort(present, [*constants, *measures])).isdisjoint(dummies):
        raise UnsupportedOperationError(
            f"The pullback of {node!r} is not linear in its cotangent.",
            "Give the operation a pushforward.",
            node.where,
        )
    swaps = dict(zip(dummies, results, strict=True)) | {y: y for y in constants}
    result = iter(ir.replace_nodes(present, swaps))
    pushed = [None if y is None else next(result) for y in pulled]
    return pushed if several else pushed[0]


@overload
def pushforward(
    f: Tensor,
    wrt: Any,
    tangents: Any,
    disconnected_outputs: reverse.Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_pushforward: bool = False,
) -> Tensor: ...


@overload
def pushforward(
    f: tuple[Tensor, ...],
    wrt: Any,
    tangents: Any,
    disconnected_outputs: reverse.Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_pushforward: bool = False,
) -> tuple[Tensor, ...]: ...


@overload
def pushforward(
    f: Sequence[Tensor],
    wrt: Any,
    tangents: Any,
    disconnected_outputs: reverse.Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_pushforward: bool = False,
) -> list[Tensor]: ...


@overload
def pushforward(
    f: Any,
    wrt: Any,
    tangents: Any,
    disconnected_outputs: reverse.Disconnected = "raise",
    *,
    return_disconnected: reverse.ReturnDisconnected,
    use_op_pushforward: bool = False,
) -> Any: ...


def pushforward(
    f: Any,
    wrt: Any,
    tangents: Any,
    disconnected_outputs: reverse.Disconnected = "raise",
    return_disconnected: reverse.ReturnDisconnected = "zero",
    use_op_pushforward: bool = False,
) -> Any:
    """Push tangents forward: return the Jacobian times vectors.

    Args:
        f: An array, or a nested list, tuple or dict of arrays.
        wrt: A floating or complex array of their graph, or a nested list, tuple or dict.
        tangents: A tangent of the same shape for each array in ``wrt``, in its structure.
        disconnected_outputs: ``"raise"``, ``"warn"`` or ``"ignore"`` if an array in ``f`` does not
            depend on ``wrt``.
        return_disconnected: ``"zero"`` to return zeros for it, ``"none"`` to return None.
        use_op_pushforward: Accepted for PyTensor compatibility, without effect.

    Returns:
        An array of the shape and dtype of ``f``, or its structure.

    Raises:
        ArgumentError: If the tangents do not match ``wrt`` in structure or rank.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> t = graphc.pushforward(x**2, x, gt.as_tensor([1.0, 10.0]))
        >>> t.eval({x: [3.0, 4.0]}, mode="NUMPY").tolist()
        [6.0, 80.0]
    """
    xs = reverse.continuous(wrt)
    try:
        ts = ir.flatten_like(*(x if ir.is_container(x) else [x] for x in (wrt, tangents)))
    except ValueError as error:
        raise ArgumentError(
            f"{len(xs)} arrays and tangents of another structure: {error}.",
            "Give a tangent for each array, in the structure of wrt.",
        ) from None
    ys = [as_tensor(y) for y in reverse.each_of(f)]
    by_node: dict[ir.Node, Tensor] = {}
    for x, (_, t) in zip(xs, map(ir.unwrap_pair, ir.flatten(wrt), ts), strict=True):
        t = as_tensor(t)
        if t.ndim != x.ndim:
            raise ArgumentError(f"The tangent {t!r} of {x!r} has another rank.")
        by_node[x] = reverse.like(t, x)
    pushed = push(ys, by_node)
    result = [
        reverse.disconnected_derivative(
            y, disconnected_outputs, return_disconnected, "No array of wrt moves it: it"
        )
        if t is None
        else t
        for y, t in zip(ys, pushed, strict=True)
    ]
    ir.note_reads(result, [*ys, *by_node, *by_node.values()])
    return reverse.nest_like(f, result)


@overload
def Rop(
    f: Tensor,
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: reverse.Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_rop_implementation: bool = False,
) -> Tensor: ...


@overload
def Rop(
    f: tuple[Tensor, ...],
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: reverse.Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_rop_implementation: bool = False,
) -> tuple[Tensor, ...]: ...


@overload
def Rop(
    f: Sequence[Tensor],
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: reverse.Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_rop_implementation: bool = False,
) -> list[Tensor]: ...


@overload
def Rop(
    f: Any,
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: reverse.Disconnected = "raise",
    *,
    return_disconnected: reverse.ReturnDisconnected,
    use_op_rop_implementation: bool = False,
) -> Any: ...


def Rop(  # noqa: N802 (PyTensor's name)
    f: Any,
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: reverse.Disconnected = "raise",
    return_disconnected: reverse.ReturnDisconnected = "zero",
    use_op_rop_implementation: bool = False,
) -> Any:
    """Return ``pushforward`` of the same arguments; ``eval_points`` are the tangents.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> t = graphc.Rop(x**2, x, gt.as_tensor([1.0, 10.0]))
        >>> t.eval({x: [3.0, 4.0]}, mode="NUMPY").tolist()
        [6.0, 80.0]
    """
    return pushforward(
        f, wrt, eval_points, disconnected_outputs, return_disconnected=return_disconnected
    )
