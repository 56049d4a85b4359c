"""Reverse mode: the gradient of a scalar, and pullbacks of cotangents in general.

Cotangents that do not exist are None, never arrays of zeros. A complex cotangent is
df/dRe + i df/dIm, so that a step against it descends.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from graphc.errors import ArgumentError, DisconnectedInputError, GradientError
from graphc.ir import (
    Node,
    Pick,
    TensorType,
    derived_from,
    frames_up,
    gathered,
    here,
    is_float,
    is_inexact,
    toposort,
    where,
)
from graphc.tensor import Tensor, as_tensor, cast, ones_like, where as select, zeros_like
from graphc.tensor.elementwise import repeated_like, split_mask

__all__ = ["Disconnected", "Lop", "ReturnDisconnected", "cotangents", "grad", "listed", "pullback"]

Disconnected = Literal["raise", "warn", "ignore"]
ReturnDisconnected = Literal["zero", "none"]


def cotangents(
    given: Mapping[Node, Tensor], wrt: Sequence[Node], constants: Iterable[Node] = ()
) -> list[Tensor | None]:
    """The cotangent of each of ``wrt``, given those of some nodes; None where none arrives.

    Nodes among ``constants`` let nothing through.
    """
    constants = list(constants)
    given = _moved(given, gathered(list(given), [*wrt, *constants]))
    order = toposort(given, constants)
    reached = set(wrt)
    for node in order:
        if not reached.isdisjoint(node.inputs):
            reached.add(node)
    waiting: dict[Node, Any] = dict(given)
    for node in reversed(order):
        if node in waiting and node in reached and not reached.isdisjoint(node.inputs):
            with derived_from(node.site):
                _spread(node, waiting, reached)
    return [waiting.get(x) for x in wrt]


def _moved(given: Mapping[Node, Tensor], outputs: Sequence[Node]) -> Mapping[Node, Tensor]:
    """The cotangents of outputs in another form."""
    if all(y is new for y, new in zip(given, outputs, strict=True)):
        return given
    found: dict[Node, Tensor] = {}
    for new, g in zip(outputs, given.values(), strict=True):
        found[new] = _added(found.get(new), g)
    return found


def _spread(node: Node, waiting: dict[Node, Any], reached: set[Node]) -> None:
    g = waiting[node]
    if isinstance(node.op, Pick):
        (several,) = node.inputs
        parts = waiting.setdefault(several, [None] * len(several.type.items))
        parts[node.op.index] = _added(parts[node.op.index], g)
        return
    wanted = [x in reached and is_inexact(getattr(x.type, "dtype", "")) for x in node.inputs]
    parts = _pulled_back(node, g, wanted)
    if len(parts) != len(node.inputs):
        raise GradientError(
            f"{node.op.name} has {len(node.inputs)} inputs, and its pullback gave {len(parts)}.",
            "Return one gradient for each input, None where there is none.",
        )
    for x, part, asked in zip(node.inputs, parts, wanted, strict=True):
        if asked and part is not None:
            waiting[x] = _added(waiting.get(x), _checked(node, x, part))


def _pulled_back(node: Node, g: Any, wanted: Sequence[bool]) -> Sequence[Any]:
    op = node.op
    if op.rearranges and any(x.inputs for x in node.inputs):
        return _rearranged(node, g)
    return op.pullback_to(wanted, g, node, *node.inputs)


def _rearranged(node: Node, g: Tensor) -> Sequence[Any]:
    """The cotangents of what was rearranged, with the mask in front, where the next slope is."""
    mask, inner = split_mask(g)
    if mask is None:
        return node.op.pullback(g, node, *node.inputs)
    chosen, parts = (
        node.op.pullback(repeated_like(x, g), node, *node.inputs) for x in (mask, inner)
    )
    return [
        None if part is None else select(m, part, 0) for m, part in zip(chosen, parts, strict=True)
    ]


def _added(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a + b


def _checked(node: Node, x: Node, part: Any) -> Tensor:
    if isinstance(part, GradientError):
        raise part
    if not isinstance(part, Tensor) or part.ndim != x.type.ndim:
        raise GradientError(
            f"The pullback of {node!r} gave {part!r} for the input {x!r}.",
            "A gradient has its input's shape and dtype.",
            node.where,
        )
    return part if part.dtype == x.type.dtype else cast(part, x.type.dtype)


def listed(wrt: Any) -> tuple[list[Tensor], bool]:
    """What derivatives are taken by as a list, and whether it was one."""
    several = isinstance(wrt, list | tuple)
    xs = list(wrt) if several else [wrt]
    for x in xs:
        if not isinstance(x, Tensor):
            raise GradientError(
                f"A derivative by {x!r}, which is no symbolic array.",
                "Use the inputs, shared variables or other parts of the graph.",
                where(here()),
            )
        if not is_inexact(x.dtype):
            raise GradientError(
                f"A derivative by {x!r}, whose dtype is not continuous.",
                "Declare it floating, or cast it and differentiate by the cast array.",
                where(here()),
            )
    return xs, several


def disconnected(
    x: Tensor, inputs: Disconnected, returned: ReturnDisconnected, what: str
) -> Tensor | None:
    """What stands for a derivative by something that has no influence."""
    if inputs not in {"raise", "warn", "ignore"} or returned not in {"zero", "none"}:
        raise ArgumentError(
            f"disconnected_inputs={inputs!r}, return_disconnected={returned!r}.",
            "Use 'raise', 'warn' or 'ignore', and 'zero' or 'none'.",
        )
    message = f"{what} does not depend on {x!r} in a differentiable way."
    if inputs == "raise":
        raise DisconnectedInputError(
            message, "Leave it out, or pass disconnected_inputs='ignore'.", where(here())
        )
    if inputs == "warn":
        warnings.warn(message, stacklevel=frames_up())
    return zeros_like(x) if returned == "zero" else None


def grad(
    cost: Any,
    wrt: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    *,
    known_grads: Mapping[Any, Any] | None = None,
    return_disconnected: ReturnDisconnected = "zero",
) -> Any:
    """The gradient of a scalar by one or several arrays of its graph.

    Gradients are graphs, so they have gradients in turn. A branch of ``gt.where`` that is not
    chosen adds nothing, never NaN, as far as elementwise functions, sums and other shapes of an
    array lead back from there. A complex gradient is df/dRe + i df/dIm.

    Args:
        cost: A real floating scalar; None with ``known_grads``.
        wrt: A floating or complex array of the graph, or a list of them.
        consider_constant: Parts of the graph that let no gradient through.
        disconnected_inputs: ``"raise"``, ``"warn"`` or ``"ignore"`` where the cost does not
            depend on an array of ``wrt``.
        known_grads: Gradients of some outer cost by parts of the graph, to start from.
        return_disconnected: ``"zero"`` for zeros there, ``"none"`` for None.

    Returns:
        An array of the shape and dtype of ``wrt``, or a list of them.

    Raises:
        GradientError: The cost is no real floating scalar, or ``wrt`` is not floating.
        DisconnectedInputError: The cost does not depend on an array of ``wrt``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> graphc.grad((x**3).sum(), x).eval({x: [1.0, 2.0]}, mode="NUMPY").tolist()
        [3.0, 12.0]
    """
    xs, several = listed(wrt)
    given: dict[Node, Tensor] = {}
    if cost is not None:
        cost = as_tensor(cost)
        _check_cost(cost)
        given[cost] = ones_like(cost)
    elif not known_grads:
        raise ArgumentError("grad: neither a cost nor known_grads.", "", where(here()))
    for node, g in (known_grads or {}).items():
        g = as_tensor(g)
        _check_cotangent(node, g)
        given[node] = _added(given.get(node), cast(g, node.dtype))
    found = cotangents(given, xs, _constants(consider_constant))
    what = "The cost" if cost is not None else "What known_grads names"
    result = [
        _missing(given, x, disconnected_inputs, return_disconnected, what) if g is None else g
        for x, g in zip(xs, found, strict=True)
    ]
    return result if several else result[0]


def _missing(
    given: Mapping[Node, Tensor],
    x: Tensor,
    inputs: Disconnected,
    returned: ReturnDisconnected,
    what: str,
) -> Tensor | None:
    """What stands for a gradient that nothing arrives for.

    Of a product with an implicit array of zeros nothing is left that depends on its operand: there
    the gradient is zero, and no mistake.
    """
    lost = x in toposort(given) and x not in toposort(gathered(list(given), [x]))
    return disconnected(x, "ignore" if lost else inputs, returned, what)


def _check_cost(cost: Tensor) -> None:
    if cost.ndim:
        raise GradientError(
            f"The gradient of {cost!r}, which is no scalar.",
            "Reduce it first, as with .sum() or .mean(), or use graphc.jacobian.",
            where(here()),
        )
    if not is_float(cost.dtype):
        raise GradientError(
            f"The gradient of {cost!r}, whose dtype is not real floating.",
            "Take a real part or a magnitude of a complex cost; cast an integer one before it is "
            "rounded.",
            where(here()),
        )


def _check_cotangent(node: Any, g: Tensor) -> None:
    if not isinstance(node, Tensor) or node.ndim != g.ndim or not is_inexact(node.dtype):
        raise GradientError(
            f"The cotangent {g!r} of {node!r}: a floating array and a cotangent of its shape are "
            "wanted.",
            "",
            where(here()),
        )


def _constants(nodes: Any) -> list[Node]:
    if nodes is None:
        return []
    return list(nodes) if isinstance(nodes, list | tuple | set) else [nodes]


def pullback(
    f: Any,
    wrt: Any,
    cotangents: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    return_disconnected: ReturnDisconnected = "zero",
) -> Any:
    """Cotangents of some arrays pulled back to others: vectors times the Jacobian.

    Args:
        f: An array, or a list of arrays.
        wrt: A floating or complex array of their graph, or a list.
        cotangents: One for each of ``f``, of its shape.
        consider_constant: Parts of the graph that let nothing through.
        disconnected_inputs: As for ``grad``.
        return_disconnected: As for ``grad``.

    Returns:
        An array of the shape and dtype of ``wrt``, or a list.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> back = graphc.pullback(gt.exp(x), x, gt.as_tensor([1.0, 10.0]))
        >>> back.eval({x: [0.0, 0.0]}, mode="NUMPY").tolist()
        [1.0, 10.0]
    """
    fs = list(f) if isinstance(f, list | tuple) else [f]
    gs = list(cotangents) if isinstance(cotangents, list | tuple) else [cotangents]
    if len(fs) != len(gs):
        raise ArgumentError(f"{len(fs)} arrays and {len(gs)} cotangents.", "", where(here()))
    known: dict[Any, Any] = {}
    for y, g in zip(fs, gs, strict=True):
        known[y] = _added(known.get(y), as_tensor(g))
    return grad(
        None,
        wrt,
        consider_constant,
        disconnected_inputs,
        known_grads=known,
        return_disconnected=return_disconnected,
    )


def Lop(  # noqa: N802 (PyTensor's name)
    f: Any,
    wrt: Any,
    eval_points: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    return_disconnected: ReturnDisconnected = "zero",
) -> Any:
    """``pullback`` under its older name; arguments as for that, ``eval_points`` the cotangents."""
    return pullback(
        f, wrt, eval_points, consider_constant, disconnected_inputs, return_disconnected
    )


def typed_like(x: Node, name: str) -> Tensor:
    """A new input of a node's type."""
    made: TensorType = x.type
    return made(name)  # type: ignore[no-any-return]
