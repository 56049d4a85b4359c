"""Mask and score functions as graphs of scalars, and their values over grids of elements."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.jax_arrays import jax_arrays
from graphc.capture import Lifted, Stripped, lift, rebuild
from graphc.capture.code import line_of
from graphc.capture.identity import is_array
from graphc.errors import ArgumentError, DTypeError, GraphcError, ShapeError
from graphc.ir import (
    Graph,
    Leaf,
    Node,
    TensorType,
    is_float,
    reachable_nodes,
    replace_nodes,
    toposort,
)
from graphc.loop.evaluate import evaluate
from graphc.loop.step import close_graph, with_new_inputs
from graphc.rewrite.passes import optimize
from graphc.tensor.arrays.vectorize import batched
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.equality import elementwise_equality
from graphc.tensor.core.runtime import Runtime
from graphc.tensor.core.tensor import Tensor, as_tensor

INDICES = ("b", "h", "q_idx", "kv_idx")
"""The arguments of mask and score functions: the indices of batch, head, query and key."""


class Mod(NamedTuple):
    """A function of one element of the scores, closed.

    Attributes:
        graph: For a mask, (b, h, q, k, *captured) to a bool scalar; for a score,
            (score, b, h, q, k, *captured) to a scalar of the score's dtype.
        captured: The symbolic arrays that the graph takes after the function's arguments.
    """

    graph: Graph
    captured: tuple[Tensor, ...]


def lift_mod(function: Callable[..., Any], what: str) -> Lifted:
    """Return a user's mask or score function without its captured arrays, and the arrays.

    Args:
        function: The user's function, or a lifted one, which is returned.
        what: The function's name in messages, ``"mask_mod"`` or ``"score_mod"``.

    Returns:
        The function without its arrays, and the arrays: of any size and library, symbolic ones,
        and numbers marked ``graphc.runtime``.

    Raises:
        ArgumentError: If ``function`` is not a function, or captures something without fixed
            content.
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


Call = Callable[[str, Lifted, Sequence[Tensor]], Any]
"""Calls a function, given its name in messages, with symbolic scalars."""


def mask_of(mask: Lifted, call: Call | None = None) -> Mod:
    """Return the graph of a mask function.

    Args:
        mask: The function.
        call: Calls the function; by default as one of symbolic scalars, or else of JAX's.

    Raises:
        DTypeError: If the function returns no bool.
        ShapeError: If the function returns no scalar.
        SymbolicValueError: If the function needs the value of an index, as a Python ``if`` does.
        ArgumentError: If the function takes other arguments, or is written for another library's
            arrays than JAX's.
    """
    parameters = [TensorType("int32", ())(name) for name in INDICES]
    value = (call or _call)("mask_mod", mask, parameters)
    if isinstance(value, np.ndarray | np.generic | bool) and np.asarray(value).dtype == bool:
        value = as_tensor(value)
    if not isinstance(value, Tensor) or value.dtype != "bool":
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise DTypeError(
            f"mask_mod returns {kind}; expected a bool, whether the query sees the key.",
            "Compare, as in q_idx >= kv_idx; to change scores, write a score_mod.",
            line_of_function(mask.stripped),
        )
    return _close("mask_mod", mask, parameters, value)


def score_of(score: Lifted, dtype: str, call: Call | None = None) -> Mod:
    """Return the graph of a score function.

    Args:
        score: The function.
        dtype: The dtype of scores, float32 or float64.
        call: Calls the function; by default as one of symbolic scalars, or else of JAX's.

    Raises:
        DTypeError: If the function returns no real number.
        ShapeError: If the function returns no scalar.
        SymbolicValueError: If the function needs the value of a score or an index.
        ArgumentError: If the function takes other arguments, or is written for another library's
            arrays than JAX's.
    """
    indices = [TensorType("int32", ())(name) for name in INDICES]
    parameters = [TensorType(dtype, ())("score"), *indices]
    new = (call or _call)("score_mod", score, parameters)
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
    return _close("score_mod", score, parameters, cast(new, dtype))


def _call(what: str, function: Lifted, parameters: Sequence[Tensor]) -> Any:
    """Return the result of a function for symbolic scalars, or for JAX's if it takes no others."""
    try:
        return call_symbolic(what, function, parameters)
    except Exception as error:
        if "jax" not in sys.modules:
            raise
        try:
            return jax_arrays().call_mod(what, function, parameters)
        except GraphcError:
            # The error of a function for symbolic scalars, unless it takes none at all.
            if isinstance(error, GraphcError) and error.__cause__ is None:
                raise error from None
            raise


def call_symbolic(what: str, function: Lifted, parameters: Sequence[Tensor]) -> Any:
    """Return the result of a function for symbolic scalars."""
    stripped = function.stripped
    names = zip(function.leaves, stripped.names, strict=True)
    rebuilt = rebuild(stripped, [leaf_of(x, f"{what} captures {name}", name) for x, name in names])
    check_parameters(what, stripped, rebuilt, [x.name or "" for x in parameters])
    try:
        with elementwise_equality():
            return rebuilt(*parameters)
    except GraphcError:
        raise
    except TypeError as error:
        raise ArgumentError(
            f"{what} cannot be called with symbolic scalars: {str(error).rstrip('.')}.",
            "Write it in graphc.tensor's functions, or in jax.numpy's.",
            line_of_function(function.stripped),
        ) from error


def check_parameters(
    what: str, stripped: Stripped, function: Callable[..., Any], names: Sequence[str]
) -> None:
    """Raise an error if a function cannot be called with arguments of these names.

    Args:
        what: The function's name in messages.
        stripped: The function without the arrays that it captures.
        function: The function itself.
        names: The names of its arguments.

    Raises:
        ArgumentError: If the function takes other arguments.
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
    """Return an array of any size as an input of the program; symbolic arrays unchanged.

    Raises:
        ArgumentError: If the array has no value, as a JAX tracer.
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


def _close(what: str, function: Lifted, parameters: Sequence[Tensor], y: Tensor) -> Mod:
    if y.ndim:
        raise ShapeError(
            f"{what} returns the shape {y.type.shape}; expected a scalar.",
            "The function is of one query and one key: index captured arrays down to a number.",
            line_of_function(function.stripped),
        )
    graph, captured = close_graph(parameters, [y], {})
    types = [t for x in graph.nodes for t in getattr(x.type, "items", (x.type,))]
    if what == "mask_mod" and any(is_float(t.dtype) for t in types):
        # Rewrites change values (x / x = 1 even for 0): blocks must follow the graph that runs.
        graph = optimize(graph).graph
    return Mod(graph, tuple(captured))  # type: ignore[arg-type]


def line_of_function(stripped: Stripped) -> str | None:
    """Return the line of a function, or of the first that it calls; None for graphc's own."""
    functions = (part.static[0] for part in stripped.parts if part.kind == "function")
    first = next(functions, None)
    return None if first is None else line_of(first.code)


def looks_at(graph: Graph, position: int) -> bool:
    """Return whether the result depends on the input at a position."""

    def following(node: Node) -> list[Node]:
        flags = node.op.looks_at(*[x.type for x in node.inputs])
        return [x for x, flag in zip(node.inputs, flags, strict=True) if flag]

    return graph.inputs[position] in reachable_nodes(graph.outputs, following)


def uses(graph: Graph) -> tuple[bool, bool]:
    """Return whether a mask depends on the index of the sequence, and on the index of the head."""
    return looks_at(graph, 0), looks_at(graph, 1)


def map_over_grid(
    graph: Graph,
    captured: Sequence[Tensor],
    indices: Sequence[Tensor],
    score: Tensor | None = None,
) -> Tensor:
    """Return a function of one element, evaluated on a grid of elements.

    Args:
        graph: The graph of a ``Mod``.
        captured: The arrays that the function captures.
        indices: Vectors of batches (B,), heads (H,), queries (Q,) and keys (K,), int32.
        score: The scores (B, H, Q, K), for a score function.

    Returns:
        (B, H, Q, K); a mask has length 1 along each axis whose index its function does not use.
    """
    with_score = score is not None
    fresh, (y,) = with_new_inputs(graph)
    formals = fresh[with_score : with_score + len(INDICES)]
    captured_start = with_score + len(INDICES)
    swaps: dict[Node, Node] = dict(zip(fresh[captured_start:], captured, strict=True))
    (y,) = replace_nodes([y], swaps)
    used = set(toposort([y], captured))
    current = fresh[0] if with_score else None
    for axis in reversed(range(len(INDICES))):
        formal, index = formals[axis], indices[axis]
        replacements: dict[Node, Tensor] = {formal: index}
        if current is not None and score is not None:
            shape = score.type.shape[axis:]
            following = TensorType(score.dtype, shape)() if axis else score
            replacements[current] = following
            current = following
        elif formal not in used:
            y = expand_dims(y, 0)
            continue
        (y,) = batched([y], replacements)
    return y  # type: ignore[return-value]


def dense_mask(mask: Lifted, shape: tuple[int, int, int, int]) -> np.ndarray[Any, Any]:
    """Return a mask function's values for every query and key.

    Args:
        mask: The function, whose captured arrays have values.
        shape: The numbers of batches, heads, queries and keys.

    Returns:
        bool, of that shape.
    """
    indices = [np.arange(n, dtype=np.int32) for n in shape]
    mod = mask_of(mask)
    keep = map_over_grid(mod.graph, mod.captured, [as_tensor(i) for i in indices])
    leaves = {x: x.op.array for x in toposort([keep]) if isinstance(x.op, Leaf)}
    (values,) = evaluate(Graph(leaves, [keep]), *leaves.values())
    return np.broadcast_to(values, shape)
