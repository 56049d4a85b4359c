"""Graphs as text: a tree with shared nodes marked, or one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TextIO

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir.graph import Graph
from graphc.ir.node import Constant, Input, Leaf, Node, Pick
from graphc.ir.site import here, where

__all__ = ["described", "dprint", "pprint", "tree"]

DEEPEST = 40
"""Trees go on from a new root below this depth, or a long chain would be all indentation."""

INFIX = {
    "add": ("+", 4), "subtract": ("-", 4), "multiply": ("*", 5), "divide": ("/", 5),
    "floor_divide": ("//", 5), "remainder": ("%", 5), "matmul": ("@", 5), "power": ("**", 7),
    "equal": ("==", 2), "not_equal": ("!=", 2), "less": ("<", 2), "less_equal": ("<=", 2),
    "greater": (">", 2), "greater_equal": (">=", 2), "bitwise_and": ("&", 3),
    "bitwise_or": ("|", 3), "bitwise_xor": ("^", 3),
}  # fmt: skip
PREFIX = {"negative": ("-", 6), "invert": ("~", 6)}


def _letters(i: int) -> str:
    text = ""
    i += 1
    while i:
        i, digit = divmod(i - 1, 26)
        text = chr(ord("A") + digit) + text
    return text


def _value(node: Node) -> str:
    array = node.op.perform()
    if array.ndim == 0 or array.size <= 4:
        return str(array.tolist())
    flat = ", ".join(str(x) for x in array.ravel()[:3].tolist())
    return f"[{flat}, ...]"


def label(node: Node) -> str:
    """What a node is called in print: an input's name, a constant's value, an operation."""
    if isinstance(node.op, Constant):
        return _value(node)
    return str(node.op.name)


def _parameters(node: Node) -> str:
    text = node.op.__repr__() if hasattr(node.op, "__dataclass_fields__") else ""
    _, bracket, inside = text.partition("(")
    return f"{{{inside[:-1]}}}" if bracket and inside != ")" else ""


def described(node: Node) -> str:
    """A node by itself: what it is called, its parameters and its type."""
    if isinstance(node.op, Input | Leaf | Constant):
        return f"{label(node)} {node.type!r}"
    return f"{label(node)}{_parameters(node)} {node.type!r}"


def tree(outputs: Iterable[Node], depth: int = -1) -> Iterator[str]:
    """The lines of ``dprint``."""
    ids: dict[Node, str] = {}
    roots: list[tuple[Node, str]] = [(node, "") for node in outputs]
    printed: set[Node] = set()
    for root, title in roots:
        if title:
            yield title
        if root in printed:
            yield f"{described(root)} [id {ids[root]}]"
            continue
        stack: list[tuple[Node, str, str, int]] = [(root, "", "", 0)]
        while stack:
            node, first, rest, level = stack.pop()
            name = ids.setdefault(node, _letters(len(ids)))
            line = f"{first}{described(node)} [id {name}]"
            if node in printed and node.inputs:
                yield f"{line} ..."
                continue
            if level >= DEEPEST and node.inputs:
                yield f"{line} (continued below)"
                roots.append((node, ""))
                continue
            printed.add(node)
            yield line
            roots += _held(node, name)
            if not 0 <= depth <= level + 1:
                stack += _below(node, rest, level + 1)


def _below(node: Node, rest: str, level: int) -> list[tuple[Node, str, str, int]]:
    """The inputs, the last one first, with what stands before each and before what it holds."""
    lines = [(x, f"{rest} ├─ ", f"{rest} │  ", level) for x in node.inputs]
    lines[-1:] = [(x, f"{rest} └─ ", f"{rest}    ", level) for x in node.inputs[-1:]]
    return lines[::-1]


def _held(node: Node, name: str) -> Iterator[tuple[Node, str]]:
    """The outputs of the graphs that an operation holds, and what stands above each graph."""
    graphs = node.op.graphs()
    for i, graph in enumerate(graphs):
        number = f" {i}" if len(graphs) > 1 else ""
        title = f"graph{number} of {label(node)} [id {name}]:"
        for y in graph.outputs:
            yield y, title
            title = ""


def dprint(graph: Any, *, depth: int = -1, file: TextIO | str | None = None) -> str | None:
    """Print a graph as a tree, each node once: where it comes again, its id and dots stand.

    Args:
        graph: A node, several, a graph, or a compiled function, of which the rewritten graph is
            shown.
        depth: How many levels to show; all by default.
        file: Where to write, standard output by default; ``"str"`` returns the text instead.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> y = gt.exp(x)
        >>> _ = graphc.dprint(y * y + 1)
        add float64[?] [id A]
         ├─ 1.0 float64[] [id B]
         └─ multiply float64[?] [id C]
             ├─ exp float64[?] [id D]
             │   └─ x float64[?] [id E]
             └─ exp float64[?] [id D] ...
    """
    shown = getattr(graph, "graph", graph)
    nodes = shown.outputs if isinstance(shown, Graph) else [shown]
    if not isinstance(shown, Node) and isinstance(shown, Iterable):
        nodes = list(shown)
    for node in nodes:
        if not isinstance(node, Node):
            raise ArgumentError(
                f"dprint of {node!r}, which is no graph.",
                "Give a symbolic array, several, a graphc.Graph or a compiled function.",
                where(here()),
            )
    lines = tree(nodes, depth)
    if file == "str":
        return "\n".join(lines)
    for line in lines:
        print(line, file=None if isinstance(file, str) else file)
    return None


def pprint(node: Node, limit: int = 400) -> str:
    """The node as one line of NumPy-like code, cut to about ``limit`` characters by dots.

    Example:
        >>> import graphc.tensor as gt
        >>> x, w = gt.vector("x"), gt.vector("w")
        >>> pprint(gt.tanh(x * w) - 2 * x)
        'tanh(x * w) - 2.0 * x'
    """
    return _Line(limit).of(node, 0, 0)


class _Line:
    def __init__(self, limit: int) -> None:
        self.left = limit

    def of(self, node: Node, precedence: int, level: int) -> str:
        if self.left <= 0 or level > DEEPEST:
            return "…"
        text = self.inside(node, precedence, level)
        self.left -= 4
        return text

    def inside(self, node: Node, precedence: int, level: int) -> str:
        name, xs, level = label(node), node.inputs, level + 1
        if not xs:
            self.left -= len(name)
            text, own = name, PREFIX["negative"][1] if name.startswith("-") else 9
        elif name in INFIX and len(xs) == 2:
            sign, own = INFIX[name]
            # Powers associate to the right, all others to the left.
            left, right = (own + 1, own) if name == "power" else (own, own + 1)
            text = f"{self.of(xs[0], left, level)} {sign} {self.of(xs[1], right, level)}"
        elif name in PREFIX:
            sign, own = PREFIX[name]
            text = f"{sign}{self.of(xs[0], own, level)}"
        elif isinstance(node.op, Pick):
            return f"{self.of(xs[0], 9, level)}[{node.op.index}]"
        else:
            self.left -= len(name)
            operands = [self.of(x, 0, level) for x in xs]
            return f"{name}({', '.join([*operands, *_arguments(node)])})"
        return f"({text})" if own < precedence else text


def _arguments(node: Node) -> list[str]:
    inside = _parameters(node)[1:-1]
    return [inside] if inside else []


def preview(array: np.ndarray) -> str:
    """An array's dtype and shape, and its value where that is short."""
    known = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    return f"{array!s}: {known}" if array.size <= 4 else known
