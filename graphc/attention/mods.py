"""Mask and score functions as graphs of scalars, and their batches over all elements."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.capture import Lifted, Stripped, lift, rebuild
from graphc.capture.code import line_of
from graphc.capture.identity import is_array
from graphc.errors import ArgumentError, DTypeError, GraphcError, ShapeError
from graphc.ir import Graph, Leaf, Node, TensorType, is_float, reached, replaced, toposort
from graphc.loop.step import close_graph, with_new_inputs
from graphc.rewrite.passes import optimize
from graphc.tensor.arrays.vectorize import batched
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.equality import elementwise_equality
from graphc.tensor.core.runtime import Runtime
from graphc.tensor.core.tensor import Tensor, as_tensor

INDICES = ("b", "h", "q_idx", "kv_idx")
"""The arguments of mask and score functions: the numbers of batch, head, query and key."""


class Mod(NamedTuple):
    """A function of one element of the scores, closed.

    Attributes:
        graph: Of a mask, (b, h, q, k, *captured) to a bool scalar; of a score,
            (score, b, h, q, k, *captured) to a scalar of the score's dtype.
        captured: The symbolic arrays that the graph takes after the function's arguments.
    """

    graph: Graph
    captured: tuple[Tensor, ...]


def lifted(function: Callable[..., Any], what: str) -> Lifted:
    """A user's mask or score function and the arrays that it captures.

    Args:
        function: The user's, or one already lifted.
        what: Its name in messages, ``"mask_mod"`` or ``"score_mod"``.

    Returns:
        The function without its arrays, and these: arrays of any size and library, symbolic ones,
        and numbers marked ``graphc.runtime``.

    Raises:
        ArgumentError: It is not a function, or captures something without fixed content.
    """
    if isinstance(function, Lifted):
        return function
    if not callable(function):
        raise ArgumentError(
            f"{what}={function!r} is not a function.",
            f"Give a function of ({', '.join(INDICES)}), after the score if it changes that.",
        )
    return lift(function, is_leaf=_is_leaf)


def _is_leaf(x: Any) -> bool:
    # Arrays of objects or texts are reported by graphc.capture.
    is_other = isinstance(x, np.ndarray) and x.dtype.kind in "OSUMm"
    return isinstance(x, Runtime) or (is_array(x) and not is_other)


def mask_of(mask: Lifted) -> Mod:
    """A mask function as a graph.

    Raises:
        DTypeError: It returns no bool.
        ShapeError: It returns no scalar.
        SymbolicValueError: It needs the value of an index, as a Python ``if`` does.
        ArgumentError: It takes other arguments, or is written for another library's arrays.
    """
    parameters = [TensorType("int32", ())(name) for name in INDICES]
    kept = _called("mask_mod", mask, parameters)
    if isinstance(kept, np.ndarray | np.generic | bool) and np.asarray(kept).dtype == bool:
        kept = as_tensor(kept)
    if not isinstance(kept, Tensor) or kept.dtype != "bool":
        given = kept.dtype if isinstance(kept, Tensor) else type(kept).__name__
        raise DTypeError(
            f"mask_mod returns {given}; expected a bool, whether the query sees the key.",
            "Compare, as in q_idx >= kv_idx; to change scores, write a score_mod.",
            line_of_function(mask.stripped),
        )
    return _closed("mask_mod", mask, parameters, kept)


def score_of(score: Lifted, dtype: str) -> Mod:
    """A score function as a graph.

    Args:
        score: The function.
        dtype: The scores', float32 or float64.

    Raises:
        DTypeError: It returns no real number.
        ShapeError: It returns no scalar.
        SymbolicValueError: It needs the value of a score or an index.
        ArgumentError: It takes other arguments, or is written for another library's arrays.
    """
    indices = [TensorType("int32", ())(name) for name in INDICES]
    parameters = [TensorType(dtype, ())("score"), *indices]
    new = _called("score_mod", score, parameters)
    try:
        new = as_tensor(new)
        wrong = None if is_float(new.dtype) else new.dtype
    except DTypeError:
        wrong = type(new).__name__
    if wrong is not None:
        raise DTypeError(
            f"score_mod returns {wrong}; expected the new score, a real number.",
            "Return an array of the score's dtype; to leave keys out, write a mask_mod.",
            line_of_function(score.stripped),
        )
    return _closed("score_mod", score, parameters, cast(new, dtype))


def _called(what: str, function: Lifted, parameters: Sequence[Tensor]) -> Any:
    """The result of a function for symbolic scalars."""
    stripped = function.stripped
    names = zip(function.leaves, stripped.names, strict=True)
    made = rebuild(stripped, [leaf_of(x, f"{what} captures {name}", name) for x, name in names])
    check_parameters(what, stripped, made, [x.name or "" for x in parameters])
    try:
        with elementwise_equality():
            return made(*parameters)
    except GraphcError:
        raise
    except TypeError as error:
        raise ArgumentError(
            f"{what} cannot be called with symbolic scalars: {str(error).rstrip('.')}.",
            "Write it in graphc.tensor's functions; of one written for JAX make "
            "graphc.wrap_jax(function).",
            line_of_function(function.stripped),
        ) from error


def check_parameters(
    what: str, stripped: Stripped, function: Callable[..., Any], names: Sequence[str]
) -> None:
    """Raise where a function cannot be called with arguments of these names.

    Args:
        what: The function's name in messages.
        stripped: The function without the arrays that it captures.
        function: The function itself.
        names: The names of its arguments.
    """
    try:
        parameters = inspect.signature(function)
    except ValueError:  # a function written in C may have none
        return
    try:
        parameters.bind(*names)
    except TypeError as error:
        raise ArgumentError(
            f"{what} takes {parameters}, and is called with ({', '.join(names)}): {error}.",
            "Give it these parameters, in this order.",
            line_of_function(stripped),
        ) from error


def leaf_of(x: Any, what: str, name: str | None = None) -> Any:
    """An array of any size as an input of the program; symbolic arrays unchanged.

    Raises:
        ArgumentError: It has no value, as a JAX tracer.
    """
    if isinstance(x, Node | Runtime):
        return x
    try:
        return Tensor.make(Leaf(np.asarray(x), name))
    except Exception as error:
        raise ArgumentError(
            f"{what}: {type(x).__name__} has no value that a graph can hold.",
            "Within a function that JAX traces, give flex_attention JAX arrays throughout.",
        ) from error


def _closed(what: str, function: Lifted, parameters: Sequence[Tensor], y: Tensor) -> Mod:
    if y.ndim:
        raise ShapeError(
            f"{what} returns the shape {y.type.shape}; expected a scalar.",
            "The function is of one query and one key: index captured arrays down to a number.",
            line_of_function(function.stripped),
        )
    graph, captured = close_graph(parameters, [y], {})
    if what == "mask_mod" and any(is_float(x.type.dtype) for x in graph.nodes):
        # Blocks are found by the graph that runs: rewritten, x / x is 1 for 0 too.
        graph = optimize(graph).graph
    return Mod(graph, tuple(captured))  # type: ignore[arg-type]


def line_of_function(stripped: Stripped) -> str | None:
    """The line of a function, or of the first that it calls; None for graphc's own."""
    made = (part.static[0] for part in stripped.parts if part.kind == "function")
    first = next(made, None)
    return None if first is None else line_of(first.code)


def looks_at(graph: Graph, place: int) -> bool:
    """Whether the result depends on the input at that place."""

    def following(node: Node) -> list[Node]:
        flags = node.op.looks_at(*[x.type for x in node.inputs])
        return [x for x, flag in zip(node.inputs, flags, strict=True) if flag]

    return graph.inputs[place] in reached(graph.outputs, following)


def uses(graph: Graph) -> tuple[bool, bool]:
    """Whether a mask depends on the number of the sequence, and on that of the head."""
    return looks_at(graph, 0), looks_at(graph, 1)


def tiled(
    graph: Graph,
    captured: Sequence[Tensor],
    indices: Sequence[Tensor],
    score: Tensor | None = None,
) -> Tensor:
    """A function of one element, evaluated on a grid of them.

    Args:
        graph: The graph of a ``Mod``.
        captured: The arrays that it captures.
        indices: Vectors of batches (B,), heads (H,), queries (Q,) and keys (K,), int32.
        score: The scores (B, H, Q, K), for a score function.

    Returns:
        (B, H, Q, K); of a mask, 1 along each axis whose index it does not use.
    """
    with_score = score is not None
    fresh, (y,) = with_new_inputs(graph)
    places = fresh[with_score : with_score + len(INDICES)]
    own = with_score + len(INDICES)
    swaps: dict[Node, Node] = dict(zip(fresh[own:], captured, strict=True))
    (y,) = replaced([y], swaps)
    used = set(toposort([y], captured))
    current = fresh[0] if with_score else None
    for axis in reversed(range(len(INDICES))):
        place, index = places[axis], indices[axis]
        grown: dict[Node, Tensor] = {place: index}
        if current is not None and score is not None:
            shape = score.type.shape[axis:]
            following = TensorType(score.dtype, shape)() if axis else score
            grown[current] = following
            current = following
        elif place not in used:
            y = expand_dims(y, 0)
            continue
        (y,) = batched([y], grown)
    return y  # type: ignore[return-value]
