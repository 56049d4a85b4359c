"""Graphs as text: a tree with shared nodes marked, or one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TextIO

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir.containers import unwrap
from graphc.ir.graph import Graph
from graphc.ir.line import Writer
from graphc.ir.node import Constant, Input, Leaf, Node
from graphc.ir.op import parameters_of

DEEPEST = 40
"""Trees continue from a new root below this depth, which bounds the indentation."""


def _letters(i: int) -> str:
    text = ""
    i += 1
    while i:
        i, digit = divmod(i - 1, 26)
        text = chr(ord("A") + digit) + text
    return text


def label(node: Node) -> str:
    """Return an input's name, a constant's value or an operation's name."""
    return str(node.op.shown) if isinstance(node.op, Constant) else str(node.op.name)


def describe(node: Node) -> str:
    """Return a node's name, parameters and type."""
    if isinstance(node.op, Input | Leaf | Constant):
        return f"{label(node)} {node.type_text()}"
    inside = parameters_of(node.op)
    return f"{label(node)}{f'{{{inside}}}' if inside else ''} {node.type_text()}"


def tree(outputs: Iterable[Node], depth: int = -1) -> Iterator[str]:
    """Yield the lines of ``dprint``."""
    ids: dict[Node, str] = {}
    roots: list[tuple[Node, str]] = [(node, "") for node in outputs]
    printed: set[Node] = set()
    for root, title in roots:
        if title:
            yield title
        if root in printed:
            yield f"{describe(root)} [id {ids[root]}]"
            continue
        stack: list[tuple[Node, str, str, int]] = [(root, "", "", 0)]
        while stack:
            node, first, rest, level = stack.pop()
            name = ids.setdefault(node, _letters(len(ids)))
            alias = "" if node.alias is None else f" {node.alias!r}"
            line = f"{first}{describe(node)} [id {name}]{alias}"
            if node in printed and node.inputs:
                yield f"{line} ..."
                continue
            if level >= DEEPEST and node.inputs:
                yield f"{line} (continued below)"
                roots.append((node, ""))
                continue
            printed.add(node)
            yield line
            roots += _nested_outputs(node, name)
            if not 0 <= depth <= level + 1:
                stack += _below(node, rest, level + 1)


def _below(node: Node, rest: str, level: int) -> list[tuple[Node, str, str, int]]:
    """Return the inputs, the last one first, with the indentation of each."""
    lines = [(x, f"{rest} ├─ ", f"{rest} │  ", level) for x in node.inputs]
    lines[-1:] = [(x, f"{rest} └─ ", f"{rest}    ", level) for x in node.inputs[-1:]]
    return lines[::-1]


def _nested_outputs(node: Node, name: str) -> Iterator[tuple[Node, str]]:
    graphs = node.op.graphs()
    for i, graph in enumerate(graphs):
        number = f" {i}" if len(graphs) > 1 else ""
        title = f"graph{number} of {label(node)} [id {name}]:"
        for y in graph.outputs:
            yield y, title
            title = ""


def dprint(
    graph: Any,
    depth: int = -1,
    print_type: bool = False,
    file: TextIO | str | None = None,
) -> str | None:
    """Print a graph as a tree, each node once; a repeated node is its id and dots.

    The name of a computed node, ``y.name = "y"``, follows the id.

    Args:
        graph: A node, several, a graph, or a compiled function, whose rewritten graph is shown.
        depth: Number of levels to show; all by default.
        print_type: Accepted for PyTensor compatibility: types are always shown.
        file: A text file, standard output by default; ``"str"`` returns the text instead.

    Returns:
        None, or the text where ``file`` is ``"str"``.

    Raises:
        ArgumentError: If ``graph`` is nothing that has a graph.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> y = gt.exp(x)
        >>> _ = graphc.dprint(y * y + 1)
        add float64[x.0] [id A]
         ├─ 1.0 float64[] [id B]
         └─ multiply float64[x.0] [id C]
             ├─ exp float64[x.0] [id D]
             │   └─ x float64[?] [id E]
             └─ exp float64[x.0] [id D] ...
    """
    shown = unwrap(getattr(graph, "graph", graph))
    nodes = shown.outputs if isinstance(shown, Graph) else [shown]
    if not isinstance(shown, Node) and isinstance(shown, Iterable):
        nodes = [unwrap(node) for node in shown]
    for node in nodes:
        if not isinstance(node, Node):
            raise ArgumentError(
                f"dprint of {node!r}, which is not a graph.",
                "Give a symbolic array, several, a graphc.Graph or a compiled function.",
            )
    lines = tree(nodes, depth)
    if file == "str":
        return "\n".join(lines)
    for line in lines:
        print(line, file=None if isinstance(file, str) else file)
    return None


def pprint(node: Node, limit: int = 400) -> str:
    """Return a node as one line in NumPy's notation, abbreviated to about ``limit`` characters.

    Computed nodes are written as expressions, named or not.

    Example:
        >>> import graphc.tensor as gt
        >>> x, w = gt.vector("x"), gt.vector("w")
        >>> pprint(gt.tanh(x * w) - 2 * x)
        'tanh(x * w) - 2.0 * x'
    """
    return Writer(limit)(unwrap(node))


def preview(array: np.ndarray) -> str:
    """Return an array's dtype and shape, and its value if that is short."""
    type = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    return f"{array!s}: {type}" if array.size <= 4 else type
