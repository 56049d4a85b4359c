"""Reverse mode: the gradient of a scalar, and pullbacks of cotangents in general.

Cotangents that do not exist are None, never arrays of zeros. A complex cotangent is
df/dRe + i df/dIm, so that a step against it descends.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Any, Literal, overload

from graphc.errors import ArgumentError, DisconnectedInputError, GradientError, remedy_for
from graphc.grad.integers import readings
from graphc.ir import (
    Node,
    Pick,
    TensorType,
    dependent,
    gathered,
    is_float,
    is_inexact,
    note_reads,
    toposort,
    unwrapped,
    unwrapped_pair,
    wrapped,
)
from graphc.site import derived_from, frames_up
from graphc.tensor import Tensor, add, as_tensor, cast, ones_like, real, where as select, zeros_like
from graphc.tensor.core.elementwise import repeated_like, split_mask
from graphc.tensor.core.specify import specify_shape

Disconnected = Literal["raise", "warn", "ignore"]
ReturnDisconnected = Literal["zero", "none"]


def cotangents(
    given: Mapping[Node, Tensor], wrt: Sequence[Node], constants: Iterable[Node] = ()
) -> list[Tensor | None]:
    """The cotangent of each of ``wrt``, given those of some nodes; None where none arrives.

    Nodes among ``constants`` let nothing through.
    """
    constants = list(constants)
    outputs = gathered(list(given), [*wrt, *constants])
    given = summed(zip(outputs, given.values(), strict=True))
    order = toposort(given, constants)
    reached = dependent(order, wrt)
    waiting: dict[Node, Any] = dict(given)
    for node in reversed(order):
        if node in waiting and node in reached and not reached.isdisjoint(node.inputs):
            with derived_from(node.site):
                _spread(node, waiting, reached)
    return [waiting.get(x) for x in wrt]


def summed(given: Iterable[tuple[Node, Tensor]]) -> dict[Node, Tensor]:
    """The cotangent of each node: the sum of all that are given for it."""
    found: dict[Node, Tensor] = {}
    for node, g in given:
        found[node] = _added(found.get(node), g)
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
    for x, part, is_wanted in zip(node.inputs, parts, wanted, strict=True):
        if is_wanted and part is not None:
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
        None if m is None or part is None else select(m, part, 0)
        for m, part in zip(chosen, parts, strict=True)
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
    return like(part, x)


def like(moved: Tensor, x: Node) -> Tensor:
    """A tangent or cotangent of an array, with the array's dtype and known lengths.

    Raises:
        ShapeError: It has other lengths.
    """
    type: TensorType = x.type
    return moved if moved.type is type else specify_shape(cast(moved, type.dtype), type.shape)


def contained(given: Any, results: Sequence[Any]) -> Any:
    """Results in the container in which something was given: a list, a tuple, or none."""
    if isinstance(given, list | tuple):
        return list(results) if isinstance(given, list) else tuple(results)
    return results[0]


def alike(given: Any, results: Sequence[Any]) -> Any:
    """Results in the container of what they are like, each in the wrapper of its like."""
    several = given if isinstance(given, list | tuple) else [given]
    return contained(given, [wrapped(x, y) for x, y in zip(several, results, strict=True)])


def each_of(given: Any) -> list[Any]:
    """One thing, or each of a list or tuple, with arrays for wrappers."""
    return [unwrapped(x) for x in (given if isinstance(given, list | tuple) else [given])]


def listed(wrt: Any) -> list[Tensor]:
    """The arrays to differentiate with respect to as a list."""
    xs = each_of(wrt)
    for x in xs:
        if not isinstance(x, Tensor):
            raise GradientError(
                f"A derivative with respect to {x!r}, which is not a symbolic array.",
                remedy_for(x, "Use the inputs, shared variables or other parts of the graph."),
            )
    return xs


def continuous(wrt: Any) -> list[Tensor]:
    """The arrays as a list, where each has a continuous dtype."""
    xs = listed(wrt)
    for x in xs:
        if not is_inexact(x.dtype):
            raise GradientError(
                f"A derivative with respect to {x!r}, whose dtype is not continuous.",
                "Declare it floating, or cast it and differentiate with respect to the cast array.",
            )
    return xs


def disconnected(
    x: Tensor, inputs: Disconnected, returned: ReturnDisconnected, what: str
) -> Tensor | None:
    """The derivative with respect to an array that has no influence; an error or a warning."""
    if inputs not in {"raise", "warn", "ignore"} or returned not in {"zero", "none"}:
        raise ArgumentError(
            f"disconnected_inputs={inputs!r}, return_disconnected={returned!r}.",
            "Use 'raise', 'warn' or 'ignore', and 'zero' or 'none'.",
        )
    message = f"{what} does not depend on {x!r} in a differentiable way."
    if inputs == "raise":
        raise DisconnectedInputError(message, "Leave it out, or pass disconnected_inputs='ignore'.")
    if inputs == "warn":
        warnings.warn(message, stacklevel=frames_up())
    return _zeros(x) if returned == "zero" else None


def _zeros(x: Tensor) -> Tensor:
    return zeros_like(x, x.dtype if is_inexact(x.dtype) else "floatX")


@overload
def grad(
    cost: Any,
    wrt: Tensor,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    *,
    known_grads: Mapping[Any, Any] | None = None,
    return_disconnected: Literal["zero"] = "zero",
) -> Tensor: ...


@overload
def grad(
    cost: Any,
    wrt: tuple[Tensor, ...],
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    *,
    known_grads: Mapping[Any, Any] | None = None,
    return_disconnected: Literal["zero"] = "zero",
) -> tuple[Tensor, ...]: ...


@overload
def grad(
    cost: Any,
    wrt: Sequence[Tensor],
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    *,
    known_grads: Mapping[Any, Any] | None = None,
    return_disconnected: Literal["zero"] = "zero",
) -> list[Tensor]: ...


@overload
def grad(
    cost: Any,
    wrt: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    *,
    known_grads: Mapping[Any, Any] | None = None,
    return_disconnected: ReturnDisconnected,
) -> Any: ...


def grad(
    cost: Any,
    wrt: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    *,
    known_grads: Mapping[Any, Any] | None = None,
    return_disconnected: ReturnDisconnected = "zero",
) -> Any:
    """The gradient of a scalar with respect to one or several arrays of its graph.

    Gradients are graphs, so they have gradients in turn. A branch of ``gt.where`` that is not
    chosen adds nothing, never NaN, as far as elementwise functions, sums and other shapes of an
    array lead back from there. A complex gradient is df/dRe + i df/dIm.

    Args:
        cost: A real floating scalar; None with ``known_grads``.
        wrt: An array of the graph, or a list or tuple of them. One of integers or bool has the
            gradient of its casts to floating dtypes, and zeros where it is read otherwise.
        consider_constant: Parts of the graph that let no gradient through.
        disconnected_inputs: ``"raise"``, ``"warn"`` or ``"ignore"`` where the cost does not
            depend on an array of ``wrt``.
        known_grads: Gradients of some outer cost with respect to parts of the graph, to start
            from.
        return_disconnected: ``"zero"`` for zeros there, ``"none"`` for None.

    Returns:
        An array of the shape and dtype of ``wrt``, or a list or tuple of them, as ``wrt`` is. With
        respect to integers it is floating.

    Raises:
        ArgumentError: Neither a cost nor ``known_grads``.
        GradientError: The cost is not a real floating scalar, or a loop or an operation of yours
            reads integers of ``wrt``.
        DisconnectedInputError: The cost does not depend on an array of ``wrt``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> graphc.grad((x**3).sum(), x).eval({x: [1.0, 2.0]}, mode="NUMPY").tolist()
        [3.0, 12.0]
    """
    xs = listed(wrt)
    given: dict[Node, Tensor] = {}
    if cost is not None:
        cost = as_tensor(unwrapped(cost))
        _check_cost(cost)
        given[cost] = ones_like(cost)
    elif not known_grads:
        raise ArgumentError("grad: neither a cost nor known_grads.")
    for known, arriving in (known_grads or {}).items():
        node, g = unwrapped_pair(known, arriving)
        g = as_tensor(g)
        _check_cotangent(node, g)
        given[node] = _added(given.get(node), like(g, node))
    found = _gradients(given, xs, _constants(consider_constant))
    what = "The cost" if cost is not None else "What known_grads names"
    result = [
        _missing(given, x, disconnected_inputs, return_disconnected, what) if g is None else g
        for x, g in zip(xs, found, strict=True)
    ]
    note_reads(result, [*given, *given.values(), *xs])
    return alike(wrt, result)


def _gradients(
    given: Mapping[Node, Tensor], xs: Sequence[Tensor], constants: list[Node]
) -> list[Tensor | None]:
    """The gradient with respect to each array; None where it is disconnected."""
    of_integers = readings(given, xs, constants)
    if not of_integers:
        return cotangents(given, xs, constants)
    wrt = [y for x in xs for y in (of_integers[x].casts if x in of_integers else [x])]
    arrived = iter(cotangents(given, wrt, constants))
    found: list[Tensor | None] = []
    for x in xs:
        if x not in of_integers:
            found.append(next(arrived))
            continue
        reading = of_integers[x]
        parts = [real(g) for g in islice(arrived, len(reading.casts)) if g is not None]
        zeros = _zeros(x) if reading.is_connected else None
        found.append(reduce(add, parts) if parts else zeros)
    return found


def _missing(
    given: Mapping[Node, Tensor],
    x: Tensor,
    inputs: Disconnected,
    returned: ReturnDisconnected,
    what: str,
) -> Tensor | None:
    """The gradient with respect to an array that no cotangent arrives at.

    Of a product with an implicit array of zeros nothing is left that depends on its operand: there
    the gradient is zero, and no mistake.
    """
    lost = x in toposort(given) and x not in toposort(gathered(list(given), [x]))
    return disconnected(x, "ignore" if lost else inputs, returned, what)


def _check_cost(cost: Tensor) -> None:
    if cost.ndim:
        raise GradientError(
            f"The gradient of {cost!r}, which is not a scalar.",
            "Reduce it first, as with .sum() or .mean(), or use graphc.jacobian.",
        )
    if not is_float(cost.dtype):
        raise GradientError(
            f"The gradient of {cost!r}, whose dtype is not real floating.",
            "Take a real part or a magnitude of a complex cost; cast an integer one before it is "
            "rounded.",
        )


def _check_cotangent(node: Any, g: Tensor) -> None:
    if not isinstance(node, Tensor) or node.ndim != g.ndim or not is_inexact(node.dtype):
        raise GradientError(
            f"The cotangent {g!r} of {node!r}: expected a floating array and a cotangent of its "
            "shape."
        )


def _constants(nodes: Any) -> list[Node]:
    if nodes is None:
        return []
    return each_of([*nodes] if isinstance(nodes, set) else nodes)


@overload
def pullback(
    f: Any,
    wrt: Tensor,
    cotangents: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
) -> Tensor: ...


@overload
def pullback(
    f: Any,
    wrt: tuple[Tensor, ...],
    cotangents: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
) -> tuple[Tensor, ...]: ...


@overload
def pullback(
    f: Any,
    wrt: Sequence[Tensor],
    cotangents: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
) -> list[Tensor]: ...


@overload
def pullback(
    f: Any,
    wrt: Any,
    cotangents: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    *,
    return_disconnected: ReturnDisconnected,
) -> Any: ...


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
        wrt: A floating or complex array of their graph, or a list or tuple.
        cotangents: One for each of ``f``, of its shape.
        consider_constant: Parts of the graph that let nothing through.
        disconnected_inputs: As for ``grad``.
        return_disconnected: As for ``grad``.

    Returns:
        An array of the shape and dtype of ``wrt``, or a list or tuple.

    Raises:
        ArgumentError: There are more or fewer cotangents than arrays in ``f``, or of other shapes.

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
        raise ArgumentError(f"{len(fs)} arrays and {len(gs)} cotangents.")
    return grad(
        None,
        wrt,
        consider_constant,
        disconnected_inputs,
        known_grads=summed((y, as_tensor(g)) for y, g in map(unwrapped_pair, fs, gs)),
        return_disconnected=return_disconnected,
    )


@overload
def Lop(
    f: Any,
    wrt: Tensor,
    eval_points: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
) -> Tensor: ...


@overload
def Lop(
    f: Any,
    wrt: tuple[Tensor, ...],
    eval_points: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
) -> tuple[Tensor, ...]: ...


@overload
def Lop(
    f: Any,
    wrt: Sequence[Tensor],
    eval_points: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    return_disconnected: Literal["zero"] = "zero",
) -> list[Tensor]: ...


@overload
def Lop(
    f: Any,
    wrt: Any,
    eval_points: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    *,
    return_disconnected: ReturnDisconnected,
) -> Any: ...


def Lop(  # noqa: N802 (PyTensor's name)
    f: Any,
    wrt: Any,
    eval_points: Any,
    consider_constant: Sequence[Any] | None = None,
    disconnected_inputs: Disconnected = "raise",
    return_disconnected: ReturnDisconnected = "zero",
) -> Any:
    """``pullback`` under its older name; arguments as for that, ``eval_points`` the cotangents.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> back = graphc.Lop(gt.exp(x), x, gt.as_tensor([1.0, 10.0]))
        >>> back.eval({x: [0.0, 0.0]}, mode="NUMPY").tolist()
        [1.0, 10.0]
    """
    return pullback(
        f,
        wrt,
        eval_points,
        consider_constant,
        disconnected_inputs,
        return_disconnected=return_disconnected,
    )


@overload
def subgraph_grad(
    wrt: Sequence[Any],
    end: Sequence[Any],
    start: Mapping[Any, Any] | None = None,
    cost: Any = None,
    details: Literal[False] = False,
) -> tuple[list[Tensor], list[Tensor]]: ...


@overload
def subgraph_grad(
    wrt: Sequence[Any],
    end: Sequence[Any],
    start: Mapping[Any, Any] | None = None,
    cost: Any = None,
    *,
    details: Literal[True],
) -> tuple[list[Tensor], list[Tensor], list[Tensor] | None, list[Tensor] | None]: ...


def subgraph_grad(
    wrt: Sequence[Any],
    end: Sequence[Any],
    start: Mapping[Any, Any] | None = None,
    cost: Any = None,
    details: bool = False,
) -> Any:
    """The gradients of one part of a graph, with those to begin the part before it with.

    Args:
        wrt: The arrays of this part to differentiate with respect to.
        end: Where this part begins: what lies before these arrays is left out.
        start: Gradients of the parts behind, by the arrays of this part where they arrive.
        cost: A scalar of this part, whose gradient is added.
        details: Whether to return the gradients from ``start`` and from ``cost`` by themselves too.

    Returns:
        Two lists, of gradients with respect to ``wrt`` and to ``end``; with ``details`` two more,
        each of those with respect to both, or None.

    Raises:
        ArgumentError: Neither ``start`` nor ``cost``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, w, v = gt.scalars("x", "w", "v")
        >>> h = gt.tanh(w * x)
        >>> (by_v,), (by_h,) = subgraph_grad([v], [h], cost=(v * h) ** 2)
        >>> (by_w,), _ = subgraph_grad([w], [x], start={h: by_h})
        >>> by_w is graphc.grad((v * h) ** 2, w)
        True
    """
    if start is None and cost is None:
        raise ArgumentError("subgraph_grad: neither start nor cost.", "Give one of them, or both.")
    xs = [*wrt, *end]
    behind, own = (
        None if y is None and known is None else grad(y, xs, end, "ignore", known_grads=known)
        for y, known in ((None, start), (cost, None))
    )
    each = [found for found in (behind, own) if found is not None]
    total = [sum(parts[1:], parts[0]) for parts in zip(*each, strict=True)]
    gradients = total[: len(wrt)], total[len(wrt) :]
    return (*gradients, behind, own) if details else gradients


def typed_like(x: Node, name: str) -> Tensor:
    """A new input of a node's type."""
    made: TensorType = x.type
    return made(name)
