"""Lengths of axes that JAX has as symbols, as symbolic integers of graphc."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import graphc.tensor as gt
from graphc.errors import UnsupportedOperationError

OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": gt.maximum,
    "min": gt.minimum,
}


class Lengths:
    """Lengths of JAX's axes as integers or symbolic scalars.

    Args:
        symbols: The scalars of JAX's symbols, by their names.

    Example:
        >>> import graphc.tensor as gt
        >>> lengths = Lengths({"n": gt.lscalar("n")})
        >>> lengths(3)
        3
        >>> lengths("2*n + floordiv(n, 3) - 1")
        2 * n + n // 3 - 1: int64[]
    """

    def __init__(self, symbols: Mapping[str, Any]) -> None:
        self.symbols = symbols

    def __call__(self, length: Any) -> Any:
        """A length as an integer, or as a symbolic int64 scalar."""
        if isinstance(length, int):
            return length
        return self._value(ast.parse(str(length).replace("^", "**"), mode="eval").body)

    def of_shape(self, aval: Any) -> tuple[Any, ...]:
        """The lengths of a JAX variable."""
        return tuple(map(self, aval.shape))

    def _value(self, written: ast.AST) -> Any:
        match written:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in self.symbols:
                return self.symbols[name]
            case ast.UnaryOp(op=sign, operand=x) if type(sign) in OPERATORS:
                return OPERATORS[type(sign)](self._value(x))
            case ast.BinOp(left=a, op=sign, right=b) if type(sign) in OPERATORS:
                return OPERATORS[type(sign)](self._value(a), self._value(b))
            case ast.Call(func=ast.Name(id=name), args=args) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(self._value, args))
        raise UnsupportedOperationError(
            f"from_jaxpr: the length {ast.unparse(written)}, as JAX writes it.",
            "Give the inputs static lengths: gt.tensor('x', shape=(8, 3)).",
        )
