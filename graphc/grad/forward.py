"""Forward mode: tangents pushed through the graph.

Where an operation has no pushforward, its pullback's pullback is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from graphc.errors import ArgumentError, GradientError, UnsupportedOperationError
from graphc.grad.reverse import (
    Disconnected,
    ReturnDisconnected,
    alike,
    continuous,
    cotangents,
    disconnected,
    each_of,
    like,
    summed,
    typed_like,
)
from graphc.ir import (
    Node,
    Pick,
    TupleType,
    gathered,
    is_inexact,
    note_reads,
    picks,
    replaced,
    toposort,
    unwrapped_pair,
)
from graphc.site import derived_from
from graphc.tensor import Tensor, as_tensor
from graphc.tensor.core.shape import Length, Shape


def push(outputs: Sequence[Node], given: Mapping[Node, Tensor]) -> list[Tensor | None]:
    """The tangent of each output, given those of some nodes; None where none arrives."""
    outputs = gathered(outputs, given.keys())
    known: dict[Node, Any] = dict(given)
    for node in toposort(outputs, given):
        arriving = [known.get(x) for x in node.inputs]
        if any(t is not None for t in arriving):
            with derived_from(node.site):
                known[node] = _pushed(node, arriving)
    return [known.get(y) for y in outputs]


def _pushed(node: Node, arriving: list[Any]) -> Any:
    if isinstance(node.op, Pick):
        return arriving[0][node.op.index]
    if not isinstance(node.type, TupleType) and not is_inexact(node.type.dtype):
        return None
    made = node.op.pushforward(arriving, node, *node.inputs)
    if made is NotImplemented:
        made = _through_pullback(node, arriving)
    return like(made, node) if isinstance(made, Tensor) else made


def _through_pullback(node: Node, arriving: list[Any]) -> Any:
    """The pushforward as the pullback of the pullback, which is linear in the cotangent."""
    several = isinstance(node.type, TupleType)
    results = picks(node) if several else [node]
    dummies = [typed_like(y, "cotangent") for y in results]
    parts = node.op.pullback(dummies if several else dummies[0], node, *node.inputs)
    moving = [(part, t) for part, t in zip(parts, arriving, strict=True) if t is not None]
    for part, _ in moving:
        if isinstance(part, GradientError):
            raise part
    given = summed((part, t) for part, t in moving if part is not None)
    # What lies behind the node is not of this step: without a stop, a chain takes quadratic time.
    behind = [node, *node.inputs, *(t for t in arriving if t is not None)]
    made = cotangents(given, dummies, behind)
    # Of a cotangent itself nothing is left; its lengths are those of the result.
    found = [y for y in made if y is not None]
    measured = [y for y in toposort(found, behind) if isinstance(y.op, Length | Shape)]
    if not set(toposort(found, [*behind, *measured])).isdisjoint(dummies):
        raise UnsupportedOperationError(
            f"The pullback of {node!r} is not linear in its cotangent.",
            "Give the operation a pushforward.",
            node.where,
        )
    swaps = dict(zip(dummies, results, strict=True)) | {y: y for y in behind}
    result = iter(replaced(found, swaps))
    pushed = [None if y is None else next(result) for y in made]
    return pushed if several else pushed[0]


@overload
def pushforward(
    f: Tensor,
    wrt: Any,
    tangents: Any,
    disconnected_outputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_pushforward: bool = False,
) -> Tensor: ...


@overload
def pushforward(
    f: tuple[Tensor, ...],
    wrt: Any,
    tangents: Any,
    disconnected_outputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_pushforward: bool = False,
) -> tuple[Tensor, ...]: ...


@overload
def pushforward(
    f: Sequence[Tensor],
    wrt: Any,
    tangents: Any,
    disconnected_outputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_pushforward: bool = False,
) -> list[Tensor]: ...


@overload
def pushforward(
    f: Any,
    wrt: Any,
    tangents: Any,
    disconnected_outputs: Disconnected = "raise",
    *,
    return_disconnected: ReturnDisconnected,
    use_op_pushforward: bool = False,
) -> Any: ...


def pushforward(
    f: Any,
    wrt: Any,
    tangents: Any,
    disconnected_outputs: Disconnected = "raise",
    return_disconnected: ReturnDisconnected = "zero",
    use_op_pushforward: bool = False,
) -> Any:
    """The tangents of arrays given those of others: the Jacobian times vectors.

    Args:
        f: An array, or a list of arrays.
        wrt: A floating or complex array of their graph, or a list or tuple.
        tangents: How each of ``wrt`` moves, of its shape.
        disconnected_outputs: ``"raise"``, ``"warn"`` or ``"ignore"`` where one of ``f`` does not
            depend on ``wrt``.
        return_disconnected: ``"zero"`` for zeros there, ``"none"`` for None.
        use_op_pushforward: PyTensor's; each operation's own rule is used in any case, and where it
            has none, its pullback twice.

    Returns:
        An array of the shape and dtype of ``f``, or a list or tuple.

    Raises:
        ArgumentError: There are more or fewer tangents than arrays in ``wrt``, or of other ranks.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> moved = graphc.pushforward(x**2, x, gt.as_tensor([1.0, 10.0]))
        >>> moved.eval({x: [3.0, 4.0]}, mode="NUMPY").tolist()
        [6.0, 80.0]
    """
    xs = continuous(wrt)
    ts = list(tangents) if isinstance(tangents, list | tuple) else [tangents]
    if len(xs) != len(ts):
        raise ArgumentError(f"{len(xs)} arrays and {len(ts)} tangents.")
    ys = [as_tensor(y) for y in each_of(f)]
    moved = wrt if isinstance(wrt, list | tuple) else [wrt]
    given: dict[Node, Tensor] = {}
    for x, (_, t) in zip(xs, map(unwrapped_pair, moved, ts), strict=True):
        t = as_tensor(t)
        if t.ndim != x.ndim:
            raise ArgumentError(f"The tangent {t!r} of {x!r} has another rank.")
        given[x] = like(t, x)
    pushed = push(ys, given)
    result = [
        disconnected(y, disconnected_outputs, return_disconnected, "No array of wrt moves it: it")
        if t is None
        else t
        for y, t in zip(ys, pushed, strict=True)
    ]
    note_reads(result, [*ys, *given, *given.values()])
    return alike(f, result)


@overload
def Rop(
    f: Tensor,
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_rop_implementation: bool = False,
) -> Tensor: ...


@overload
def Rop(
    f: tuple[Tensor, ...],
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_rop_implementation: bool = False,
) -> tuple[Tensor, ...]: ...


@overload
def Rop(
    f: Sequence[Tensor],
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
    use_op_rop_implementation: bool = False,
) -> list[Tensor]: ...


@overload
def Rop(
    f: Any,
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: Disconnected = "raise",
    *,
    return_disconnected: ReturnDisconnected,
    use_op_rop_implementation: bool = False,
) -> Any: ...


def Rop(  # noqa: N802 (PyTensor's name)
    f: Any,
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: Disconnected = "raise",
    return_disconnected: ReturnDisconnected = "zero",
    use_op_rop_implementation: bool = False,
) -> Any:
    """``pushforward`` under its older name; arguments as for that, ``eval_points`` the tangents.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> moved = graphc.Rop(x**2, x, gt.as_tensor([1.0, 10.0]))
        >>> moved.eval({x: [3.0, 4.0]}, mode="NUMPY").tolist()
        [6.0, 80.0]
    """
    return pushforward(
        f, wrt, eval_points, disconnected_outputs, return_disconnected=return_disconnected
    )
