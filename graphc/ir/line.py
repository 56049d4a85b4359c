"""A graph as one line of code in NumPy's notation, of bounded length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.ir.node import Node

DEEPEST = 40
"""Operations nested deeper than this are abbreviated, however short they are."""

LONGEST = 60
"""Parameters of an operation in more characters than this are left out."""

ATOM = 9
"""How tightly a name or a call binds: it needs no brackets anywhere."""

PHRASE = 1
"""How tightly words bind: they need brackets within an operation, and none as an argument."""

NEGATIVE = 6
"""How tightly a minus sign binds."""

OPERATORS = {
    "add": ("+", 4), "subtract": ("-", 4), "multiply": ("*", 5), "divide": ("/", 5),
    "floor_divide": ("//", 5), "remainder": ("%", 5), "matmul": ("@", 5), "power": ("**", 7),
    "equal": ("==", 2), "not_equal": ("!=", 2), "less": ("<", 2), "less_equal": ("<=", 2),
    "greater": (">", 2), "greater_equal": (">=", 2), "bitwise_and": ("&", 3),
    "bitwise_or": ("|", 3), "bitwise_xor": ("^", 3),
}  # fmt: skip
"""The signs of operations of two operands, and how tightly each binds."""

SIGNS = {"negative": ("-", NEGATIVE), "invert": ("~", NEGATIVE)}

Code = tuple[str, int]
"""An expression, and how tightly its outermost operation binds."""


class Writer:
    """Writes nodes until about ``limit`` characters are used, and dots from there on.

    Args:
        limit: Approximate number of characters to write.
        named: Write the user's names of computed nodes instead of their expressions.
    """

    def __init__(self, limit: int, *, named: bool = False) -> None:
        self.left = limit
        self.level = 0
        self.named = named

    def __call__(self, node: Node, binding: int = 0) -> str:
        """Return the node as code, in brackets if it binds less tightly than ``binding``."""
        if self.left <= 0 or self.level >= DEEPEST:
            return "…"
        if self.named and node.alias is not None:
            self.left -= len(node.alias)
            return node.alias
        self.level += 1
        self.left -= len(node.op.name)
        text, binds = node.op.as_code(node.inputs, self)
        self.level -= 1
        self.left -= 4
        return f"({text})" if binds < binding else text


def operator(name: str, inputs: Sequence[Node], write: Writer) -> Code | None:
    """Return an operation that has a sign in Python as code; None for others."""
    if name in SIGNS and len(inputs) == 1:
        sign, binds = SIGNS[name]
        return f"{sign}{write(inputs[0], binds)}", binds
    if name not in OPERATORS or len(inputs) != 2:
        return None
    sign, binds = OPERATORS[name]
    # Powers associate to the right, all others to the left.
    first, second = (binds + 1, binds) if name == "power" else (binds, binds + 1)
    a, b = write(inputs[0], first), write(inputs[1], second)
    if name == "add" and _is_number(a) and not a.startswith("-"):
        a, b = b, a  # x + 1.0, though constants come first in a node
    return f"{a} {sign} {b}", binds


def call(name: str, inputs: Sequence[Node], parameters: str, write: Writer) -> Code:
    """Return a function call as code: its name, operands and parameters."""
    shown = "…" if len(parameters) > LONGEST else parameters
    return f"{name}({', '.join([*map(write, inputs), *([shown] if shown else [])])})", ATOM


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def nth(index: int) -> str:
    """Return the ordinal number of an index counted from 0."""
    words = ("first", "second", "third", "fourth", "fifth")
    return words[index] if index < len(words) else f"{index + 1}th"
