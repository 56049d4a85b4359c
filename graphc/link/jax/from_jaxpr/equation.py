"""Equations of JAX programs as converters receive them, and symbolic dimensions of JAX."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

import graphc.tensor as gt
from graphc.errors import UnsupportedOperationError
from graphc.ir.dtypes import is_jax_key
from graphc.tensor import Tensor

if TYPE_CHECKING:
    from graphc.link.jax.from_jaxpr.convert import JaxprConversion


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


class SymbolicLengths:
    """Maps lengths of JAX's axes to integers and symbolic scalars.

    Args:
        symbols: The scalars of JAX's symbols, by name.

    Example:
        >>> import graphc.tensor as gt
        >>> lengths = SymbolicLengths({"n": gt.lscalar("n")})
        >>> lengths(3)
        3
        >>> lengths("2*n + floordiv(n, 3) - 1")
        2 * n + n // 3 - 1: int64[]
    """

    def __init__(self, symbols: Mapping[str, Any]) -> None:
        self.symbols = symbols

    def __call__(self, length: Any) -> Any:
        """Return a length as an integer or as a symbolic int64 scalar."""
        if isinstance(length, int):
            return length
        return self._value(ast.parse(str(length).replace("^", "**"), mode="eval").body)

    def of_shape(self, aval: Any) -> tuple[Any, ...]:
        """Return the shape of a JAX variable: integers and symbolic scalars."""
        return tuple(map(self, aval.shape))

    def _value(self, expression: ast.AST) -> Any:
        match expression:
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
            f"from_jaxpr: the length {ast.unparse(expression)}, as JAX writes it.",
            "Give the inputs static lengths: gt.tensor('x', shape=(8, 3)).",
        )


class UnsupportedEquationError(Exception):
    """graphc has no operations for an equation with these parameters, so JAX computes it."""


@dataclass(frozen=True)
class JaxprEquation:
    """An equation of a JAX program, the first argument of a converter."""

    eqn: JaxprEqn
    conversion: JaxprConversion

    @property
    def lengths(self) -> SymbolicLengths:
        """The map from JAX's lengths to integers and symbolic scalars."""
        return self.conversion.lengths

    def __getitem__(self, name: str) -> Any:
        """Return a parameter of the equation."""
        return self.eqn.params[name]

    @property
    def dtype(self) -> str:
        """The dtype of the first result."""
        return dtype_of(self.eqn.outvars[0].aval)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the first result: integers and symbolic scalars."""
        return self.lengths.of_shape(self.eqn.outvars[0].aval)

    def operand_shape(self, i: int = 0) -> tuple[Any, ...]:
        """Return the shape of an operand: integers and symbolic scalars."""
        return self.lengths.of_shape(self.eqn.invars[i].aval)

    def with_lengths(self, symbols: Mapping[str, Any]) -> JaxprEquation:
        """Return the equation with other scalars for JAX's symbolic dimensions."""
        return replace(self, conversion=replace(self.conversion, lengths=SymbolicLengths(symbols)))

    def run(self, program: ClosedJaxpr | Jaxpr, operands: Sequence[Any]) -> list[Any]:
        """Return the results of a program that is a parameter of the equation."""
        return self.conversion.run(program, operands)


Converter = Callable[..., Tensor | Sequence[Tensor]]
"""Maps a JaxprEquation and its symbolic operands to the result, or to a sequence of results."""


def dtype_of(aval: Any) -> str:
    """Return graphc's dtype of a JAX variable: a random key is its two words in a uint64."""
    name = str(aval.dtype)
    return "uint64" if is_jax_key(name) else name
