"""Reverse mode: the gradient of a scalar, and pullbacks of cotangents in general.

A missing cotangent is None, never an array of zeros. A complex cotangent is df/dRe + i df/dIm, so
that a step against it descends.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Any, Literal, overload

from graphc import ir
from graphc.errors import ArgumentError, DisconnectedInputError, GradientError, remedy_for
from graphc.grad.integers import readings
from graphc.site import derived_from, frames_up
from graphc.tensor import Tensor, add, as_tensor, cast, ones_like, real, where as select, zeros_like
from graphc.tensor.core.elementwise import repeated_like, split_mask
from graphc.tensor.core.specify import specify_shape

Disconnected = Literal["raise", "warn", "ignore"]
ReturnDisconnected = Literal["zero", "none"]


def cotangents(
    seeds: Mapping[ir.Node, Tensor], wrt: Sequence[ir.Node], constants: Iterable[ir.Node] = ()
) -> list[Tensor | None]:
    """Return the cotangent of each of ``wrt`` from cotangents of nodes; None where none arrives.

    No gradient passes the nodes in ``constants``.
    """
    constants = list(constants)
    outputs = ir.to_gathered_form(list(seeds), [*wrt, *constants])
    seeds = sum_by_node(zip(outputs, seeds.values(), strict=True))
    order = ir.toposort(seeds, constants)
    reached = ir.dependent(order, wrt)
    waiting: dict[ir.Node, Any] = dict(seeds)
    for node in reversed(order):
        if node in waiting and node in reached and not reached.isdisjoint(node.inputs):
            with derived_from(node.site):
                _propagate(node, waiting, reached)
    return [waiting.get(x) for x in wrt]


def sum_by_node(pairs: Iterable[tuple[ir.Node, Tensor]]) -> dict[ir.Node, Tensor]:
    """Sum the cotangents of each node."""
    sums: dict[ir.Node, Tensor] = {}
    for node, g in pairs:
        sums[node] = _add(sums.get(node), g)
    return sums


def _propagate(node: ir.Node, waiting: dict[ir.Node, Any], reached: set[ir.Node]) -> None:
    g = waiting[node]
    if isinstance(node.op, ir.Pick):
        (tuple_node,) = node.inputs
        gs = waiting.setdefault(tuple_node, [None] * len(tuple_node.type.items))
        gs[node.op.index] = _add(gs[node.op.index], g)
        return
    wanted = [x in reached and ir.is_inexact(getattr(x.type, "dtype", "")) for x in node.inputs]
    gs = _pull_back(node, g, wanted)
    if len(gs) != len(node.inputs):
        raise GradientError(
            f"{node.op.name} has {len(node.inputs)} inputs, and its pullback gave {len(gs)}.",
            "Return one gradient for each input, None where there is none.",
        )
    for x, g_x, is_wanted in zip(node.inputs, gs, wanted, strict=True):
        if is_wanted and g_x is not None:
            waiting[x] = _add(waiting.get(x), _check_gradient(node, x, g_x))


def _pull_back(node: ir.Node, g: Any, wanted: Sequence[bool]) -> Sequence[Any]:
    op = node.op
    if op.rearranges and any(x.inputs for x in node.inputs):
        return _pull_back_masked(node, g)
    return op.pullback_to(wanted, g, node, *node.inputs)


def _pull_back_masked(node: ir.Node, g: Tensor) -> Sequence[Any]:
    """Pull the mask and its values back separately, so that the next pullback finds the mask."""
    mask, inner = split_mask(g)
    if mask is None:
        return node.op.pullback(g, node, *node.inputs)
    masks, values = (
        node.op.pullback(repeated_like(x, g), node, *node.inputs) for x in (mask, inner)
    )
    return [
        None if m is None or value is None else select(m, value, 0)
        for m, value in zip(masks, values, strict=True)
    ]


def _add(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a + b


def _check_gradient(node: ir.Node, x: ir.Node, g: Any) -> Tensor:
    if isinstance(g, GradientError):
        raise g
    if not isinstance(g, Tensor) or g.ndim != x.type.ndim:
        raise GradientError(
            f"The pullback of {node!r} gave {g!r} for the input {x!r}.",
            "A gradient has its input's shape and dtype.",
            node.where,
        )
    return like(g, x)


def like(t: Tensor, x: ir.Node) -> Tensor:
    """Return a tangent or cotangent with an array's dtype and static lengths.

    Raises:
        ShapeError: If its lengths differ from the array's.
    """
    type: ir.TensorType = x.type
    return t if t.type is type else specify_shape(cast(t, type.dtype), type.shape)


def nest_like(structure: Any, results: Sequence[Any]) -> Any:
    """Return results in the nesting and wrappers of a structure."""
    pairs = zip(ir.flatten(structure), results, strict=True)
    return ir.rebuild(structure, [ir.wrap_like(x, y) for x, y in pairs])


def each_of(structure: Any) -> list[Any]:
    """Return the values of a structure, without wrappers."""
    return [ir.unwrap(x) for x in ir.flatten(structure)]


def differentiable_list(wrt: Any) -> list[Tensor]:
    """Return the arrays to differentiate with respect to as a list; refuse other values."""
    xs = each_of(wrt)
    for x in xs:
        if not isinstance(x, Tensor):
            raise GradientError(
                f"A derivative with respect to {x!r}, which is not a symbolic array.",
                remedy_for(x, "Use the inputs, shared variables or other parts of the graph."),
            )
    return xs


def continuous(wrt: Any) -> list[Tensor]:
    """Return arrays as a list; refuse those whose dtypes are not continuous."""
    xs = differentiable_list(wrt)
    for x in xs:
        if not ir.is_inexact(x.dtype):
            raise GradientError(
                f"A derivative with respect to {x!r}, whose dtype is not continuous.",
                "Declare it floating, or cast it and differentiate with respect to the cast array.",
            )
    return xs


def disconnected_derivative(
    x: Tensor, inputs: Disconnected, returned: ReturnDisconnected, subject: str
) -> Tensor | None:
    """Return the derivative with respect to an array that has no influence; raise or warn."""
    if inputs not in {"raise", "warn", "ignore"} or returned not in {"zero", "none"}:
        raise ArgumentError(
            f"disconnected_inputs={inputs!r}, return_disconnected={returned!r}.",
            "Use 'raise', 'warn' or 'ignore', and 'zero' or 'none'.",
        )
    message = f"{subject} does not depend on {x!r} in a differentiable way."
    if inputs == "raise":
        raise DisconnectedInputError(message, "Leave it out, or pass disconnected_inputs='ignore'.")
    if inputs == "warn":
        warnings.warn(message, stacklevel=frames_up())
    return _zeros(x) if returned == "zero" else None


def _zeros(x: Tensor) -> Tensor:
    return zeros_like(x, x.dtype if ir.is_inexact(x.dtype) else "floatX")


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
    """Return the gradient of a scalar with respect to one or several arrays of its graph.

    Gradients are graphs, so they have gradients in turn. A branch of ``gt.where`` that is not
    chosen adds zero, never NaN, if it consists of elementwise functions, sums and rearrangements.
    A complex gradient is df/dRe + i df/dIm.

    Args:
        cost: A real floating scalar; None with ``known_grads``.
        wrt: An array of the graph, or nested lists, tuples, dicts and dataclasses of arrays. An
            array of integers or bool has the gradient of its casts to floating dtypes, and zeros
            if it has no casts.
        consider_constant: Nodes that no gradient passes.
        disconnected_inputs: ``"raise"``, ``"warn"`` or ``"ignore"`` if the cost does not depend on
            an array in ``wrt``.
        known_grads: Gradients of an outer cost with respect to nodes of the graph, to start from.
        return_disconnected: ``"zero"`` to return zeros for it, ``"none"`` to return None.

    Returns:
        Arrays of the shapes and dtypes of ``wrt``, in its structure; floating for integers.

    Raises:
        ArgumentError: If there is neither a cost nor ``known_grads``.
        GradientError: If the cost is not a real floating scalar, or a loop or a user's operation
            reads integers in ``wrt``.
        DisconnectedInputError: If the cost does not depend on an array in ``wrt``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> graphc.grad((x**3).sum(), x).eval({x: [1.0, 2.0]}, mode="NUMPY").tolist()
        [3.0, 12.0]
    """
    xs = differentiable_list(wrt)
    seeds: dict[ir.Node, Tensor] = {}
    if cost is not None:
        cost = as_tensor(ir.unwrap(cost))
        _check_cost(cost)
        seeds[cost] = ones_like(cost)
    elif not known_grads:
        raise ArgumentError("grad: neither a cost nor known_grads.")
    integer_gradients: dict[ir.Node, Tensor] = {}
    for variable, cotangent in (known_grads or {}).items():
        node, g = ir.unwrap_pair(variable, cotangent)
        g = as_tensor(g)
        _check_cotangent(node, g)
        if ir.is_inexact(node.dtype):
            seeds[node] = _add(seeds.get(node), like(g, node))
        else:
            # No gradient passes an integer.
            integer_gradients[node] = specify_shape(cast(g, "floatX"), node.type.shape)
    arrived = zip(xs, _gradients(seeds, xs, _constants(consider_constant)), strict=True)
    gradients = [_add(g, integer_gradients[x]) if x in integer_gradients else g for x, g in arrived]
    subject = "The cost" if cost is not None else "What known_grads names"
    result = [
        _missing_gradient(seeds, x, disconnected_inputs, return_disconnected, subject)
        if g is None
        else g
        for x, g in zip(xs, gradients, strict=True)
    ]
    ir.note_reads(result, [*seeds, *seeds.values(), *xs])
    return nest_like(wrt, result)


def _gradients(
    seeds: Mapping[ir.Node, Tensor], xs: Sequence[Tensor], constants: list[ir.Node]
) -> list[Tensor | None]:
    uses = readings(seeds, xs, constants)
    if not uses:
        return cotangents(seeds, xs, constants)
    wrt = [y for x in xs for y in (uses[x].casts if x in uses else [x])]
    arrived = iter(cotangents(seeds, wrt, constants))
    gradients: list[Tensor | None] = []
    for x in xs:
        if x not in uses:
            gradients.append(next(arrived))
            continue
        use = uses[x]
        gs = [real(g) for g in islice(arrived, len(use.casts)) if g is not None]
        zeros = _zeros(x) if use.is_connected else None
        gradients.append(reduce(add, gs) if gs else zeros)
    return gradients


def _missing_gradient(
    seeds: Mapping[ir.Node, Tensor],
    x: Tensor,
    inputs: Disconnected,
    returned: ReturnDisconnected,
    subject: str,
) -> Tensor | None:
    """Return the gradient with respect to an array that no cotangent arrives at.

    A product with an implicit array of zeros does not depend on its operand: the gradient is zero.
    """
    is_zero = x in ir.toposort(seeds) and x not in ir.toposort(
        ir.to_gathered_form(list(seeds), [x])
    )
    return disconnected_derivative(x, "ignore" if is_zero else inputs, returned, subject)


def _check_cost(cost: Tensor) -> None:
    if cost.ndim:
        raise GradientError(
            f"The gradient of {cost!r}, which is not a scalar.",
            "Reduce it first, as with .sum() or .mean(), or use graphc.jacobian.",
        )
    if not ir.is_float(cost.dtype):
        raise GradientError(
            f"The gradient of {cost!r}, whose dtype is not real floating.",
            "Take a real part or a magnitude of a complex cost; cast an integer one before it is "
            "rounded.",
        )


def _check_cotangent(node: Any, g: Tensor) -> None:
    if not isinstance(node, Tensor) or node.ndim != g.ndim:
        raise GradientError(
            f"The cotangent {g!r} of {node!r}: expected an array and a cotangent of its shape."
        )


def _constants(nodes: Any) -> list[ir.Node]:
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
    """Pull cotangents back: return vectors times the Jacobian.

    Args:
        f: An array, or a list of arrays.
        wrt: A floating or complex array of their graph, or a list or tuple.
        cotangents: A cotangent for each array in ``f``, of its shape.
        consider_constant: Nodes that no gradient passes.
        disconnected_inputs: As for ``grad``.
        return_disconnected: As for ``grad``.

    Returns:
        An array of the shape and dtype of ``wrt``, or a list or tuple.

    Raises:
        ArgumentError: If the cotangents do not match ``f`` in number.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> g = graphc.pullback(gt.exp(x), x, gt.as_tensor([1.0, 10.0]))
        >>> g.eval({x: [0.0, 0.0]}, mode="NUMPY").tolist()
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
        known_grads=sum_by_node((y, as_tensor(g)) for y, g in map(ir.unwrap_pair, fs, gs)),
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
    """Return ``pullback`` of the same arguments; ``eval_points`` are the cotangents.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> g = graphc.Lop(gt.exp(x), x, gt.as_tensor([1.0, 10.0]))
        >>> g.eval({x: [0.0, 0.0]}, mode="NUMPY").tolist()
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
    """Return the gradients of one part of a graph, and the gradients that continue before it.

    Args:
        wrt: The arrays of this part to differentiate with respect to.
        end: The arrays that this part begins with; the graph before them is left out.
        start: Gradients from later parts, by the arrays of this part that they arrive at.
        cost: A scalar of this part, whose gradient is added.
        details: Whether to also return the gradients from ``start`` and from ``cost`` separately.

    Returns:
        Two lists, of gradients with respect to ``wrt`` and to ``end``; with ``details`` two more
        lists, from ``start`` and from ``cost``, with respect to both, or None.

    Raises:
        ArgumentError: If there is neither ``start`` nor ``cost``.

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
    from_start, from_cost = (
        None if y is None and seeds is None else grad(y, xs, end, "ignore", known_grads=seeds)
        for y, seeds in ((None, start), (cost, None))
    )
    present = [gs for gs in (from_start, from_cost) if gs is not None]
    total = [sum(terms[1:], terms[0]) for terms in zip(*present, strict=True)]
    gradients = total[: len(wrt)], total[len(wrt) :]
    return (*gradients, from_start, from_cost) if details else gradients


def typed_like(x: ir.Node, name: str) -> Tensor:
    type: ir.TensorType = x.type
    return type(name)
