"""Mask and score functions as graphs of scalars: what a user wrote for one element, for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.capture import Lifted, Stripped, lift, rebuild
from graphc.capture.code import line_of
from graphc.capture.plain import is_array
from graphc.errors import ArgumentError, DTypeError, GraphcError, ShapeError
from graphc.ir import Graph, Leaf, Node, TensorType, here, is_float, replaced, toposort, where
from graphc.loop.step import closed, opened
from graphc.rewrite.passes import optimize
from graphc.tensor.axes import expand_dims
from graphc.tensor.elementwise import cast
from graphc.tensor.equality import elementwise_equality
from graphc.tensor.runtime import Runtime
from graphc.tensor.tensor import Tensor, as_tensor
from graphc.tensor.vectorize import batched

__all__ = [
    "INDICES",
    "Mod",
    "leaf_of",
    "lifted",
    "line_of_function",
    "looks_at",
    "mask_of",
    "score_of",
    "tiled",
]

INDICES = ("b", "h", "q_idx", "kv_idx")
"""What mask and score functions are given: the numbers of batch, head, query and key."""


class Mod(NamedTuple):
    """A function of one element of the scores, closed.

    Attributes:
        graph: Of a mask, (b, h, q, k, *captured) to a bool scalar; of a score,
            (score, b, h, q, k, *captured) to a scalar of the score's dtype.
        captured: The symbolic arrays that it takes after its own arguments.
    """

    graph: Graph
    captured: tuple[Tensor, ...]


def lifted(function: Callable[..., Any], what: str) -> Lifted:
    """A user's mask or score function and the arrays that it captures.

    Args:
        function: The user's, or one taken apart already.
        what: What messages call it, ``"mask_mod"`` or ``"score_mod"``.

    Returns:
        The function without its arrays, and these: arrays of any size and library, symbolic ones,
        numbers that are marked ``graphc.runtime``.

    Raises:
        ArgumentError: It is no function, or captures what has no fixed content.
    """
    if isinstance(function, Lifted):
        return function
    if not callable(function):
        raise ArgumentError(
            f"{what}={function!r} is no function.",
            f"Give a function of ({', '.join(INDICES)}), after the score if it changes that.",
            where(here()),
        )
    return lift(function, is_leaf=_is_leaf)


def _is_leaf(x: Any) -> bool:
    # What is an array of objects or texts, capture tells of.
    is_other = isinstance(x, np.ndarray) and x.dtype.kind in "OSUMm"
    return isinstance(x, Runtime) or (is_array(x) and not is_other)


def mask_of(mask: Lifted) -> Mod:
    """A mask function as a graph.

    Raises:
        DTypeError: It gives no bool.
        ShapeError: It gives no scalar.
        SymbolicValueError: It asks for the value of an index, as a Python ``if`` does.
        ArgumentError: It takes other arguments, or is written for another library's arrays.
    """
    parameters = [TensorType("int32", ())(name) for name in INDICES]
    kept = _called("mask_mod", mask, parameters)
    if isinstance(kept, np.ndarray | np.generic | bool) and np.asarray(kept).dtype == bool:
        kept = as_tensor(kept)
    if not isinstance(kept, Tensor) or kept.dtype != "bool":
        given = kept.dtype if isinstance(kept, Tensor) else type(kept).__name__
        raise DTypeError(
            f"mask_mod gives {given}, and must give a bool: whether the query sees the key.",
            "Compare, as in q_idx >= kv_idx; to change scores, write a score_mod.",
            _line_of(mask),
        )
    return _closed("mask_mod", mask, parameters, kept)


def score_of(score: Lifted, dtype: str) -> Mod:
    """A score function as a graph.

    Args:
        score: The function.
        dtype: The scores', float32 or float64.

    Raises:
        DTypeError: It gives no real number.
        ShapeError: It gives no scalar.
        SymbolicValueError: It asks for the value of a score or an index.
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
            f"score_mod gives {wrong}, and must give the new score, a real number.",
            "Return an array of the score's dtype; to leave keys out, write a mask_mod.",
            _line_of(score),
        )
    return _closed("score_mod", score, parameters, cast(new, dtype))


def _called(what: str, function: Lifted, parameters: Sequence[Tensor]) -> Any:
    """What a function gives for symbolic scalars."""
    stripped = function.stripped
    names = zip(function.leaves, stripped.names, strict=True)
    made = rebuild(stripped, [leaf_of(x, f"{what} captures {name}", name) for x, name in names])
    try:
        with elementwise_equality():
            return made(*parameters)
    except GraphcError:
        raise
    except TypeError as error:
        raise ArgumentError(
            f"{what} cannot be called with symbolic scalars: {str(error).rstrip('.')}.",
            f"It takes ({', '.join(p.name or '' for p in parameters)}), and is written in "
            "graphc.tensor's functions; of one written for JAX make graphc.wrap_jax(function).",
            _line_of(function),
        ) from error


def leaf_of(x: Any, what: str, name: str | None = None) -> Any:
    """An array as an input of the program, whatever its size; what is symbolic, as it is.

    Raises:
        ArgumentError: It has no value, as within a function that JAX traces.
    """
    if isinstance(x, Node | Runtime):
        return x
    try:
        return Tensor.make(Leaf(np.asarray(x), name))
    except Exception as error:
        raise ArgumentError(
            f"{what}: {type(x).__name__} has no value that a graph can hold.",
            "Within a function that JAX traces, give flex_attention JAX arrays throughout.",
            where(here()),
        ) from error


def _closed(what: str, function: Lifted, parameters: Sequence[Tensor], y: Tensor) -> Mod:
    if y.ndim:
        raise ShapeError(
            f"{what} gives the shape {y.type.shape}, and must give a scalar.",
            "It is written for one query and one key: index captured arrays down to a number.",
            _line_of(function),
        )
    graph, captured = closed(parameters, [y], {})
    if what == "mask_mod" and any(is_float(x.type.dtype) for x in graph.nodes):
        # What a program rewrites, blocks are to be found by: x / x is 1 there, also for 0.
        graph = optimize(graph).graph
    return Mod(graph, tuple(captured))  # type: ignore[arg-type]


def line_of_function(stripped: Stripped) -> str | None:
    """Where a function is written, or the first that it calls; None where it is no user's."""
    made = (part.static[0] for part in stripped.parts if part.kind == "function")
    first = next(made, None)
    return None if first is None else line_of(first.code)


def _line_of(function: Lifted) -> str | None:
    return line_of_function(function.stripped) or where(here())


def looks_at(graph: Graph, place: int) -> bool:
    """Whether the result depends on the input at that place."""
    found, waiting = set(graph.outputs), [*graph.outputs]
    while waiting:
        node = waiting.pop()
        told = node.op.looks_at(*[x.type for x in node.inputs])
        new = {x for x, flag in zip(node.inputs, told, strict=True) if flag} - found
        found |= new
        waiting += new
    return graph.inputs[place] in found


def tiled(
    graph: Graph,
    captured: Sequence[Tensor],
    indices: Sequence[Tensor],
    score: Tensor | None = None,
) -> Tensor:
    """A function of one element for a grid of them.

    Args:
        graph: That of a ``Mod``.
        captured: What it captures.
        indices: Vectors of batches (B,), heads (H,), queries (Q,) and keys (K,), int32.
        score: The scores (B, H, Q, K), where it takes one.

    Returns:
        (B, H, Q, K); of a mask, 1 along each axis whose index it does not look at.
    """
    with_score = score is not None
    fresh, (y,) = opened(graph)
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
