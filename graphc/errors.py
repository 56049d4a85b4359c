"""Every error a user can meet; each is also a built-in one, so that ``except ValueError`` works.

A message says what was asked of which types and what is wrong, then the way out, then the user's
file and line where there is one.
"""

from __future__ import annotations

__all__ = [
    "AmbiguousHandlerError",
    "ArgumentError",
    "BoundsError",
    "CapturedConstantWarning",
    "CheckError",
    "DTypeError",
    "DisconnectedInputError",
    "DynamicShapeError",
    "FrozenError",
    "GradientError",
    "GraphcError",
    "HandlerError",
    "ImplicitArrayError",
    "InvalidGraphError",
    "MaterializeError",
    "MaterializeWarning",
    "MissingInputError",
    "ModeError",
    "NaNError",
    "OperationError",
    "RecompileError",
    "RecompileWarning",
    "RuntimeShapeError",
    "ShapeError",
    "SymbolicValueError",
    "UnsupportedOperationError",
    "UnusedInputError",
    "VerificationError",
]


class GraphcError(Exception):
    """The base of all errors that graphc raises on purpose.

    Args:
        problem: What was asked, of what, and what is wrong with it.
        remedy: What to do about it.
        where: The user's ``file:line`` it is about.
    """

    def __init__(self, problem: str, remedy: str = "", where: str | None = None) -> None:
        super().__init__(problem, remedy, where)
        self.problem = problem
        self.remedy = remedy
        self.where = where

    def __str__(self) -> str:
        text = "\n".join(part for part in (self.problem, self.remedy) if part)
        return f"{text}   {self.where}" if self.where else text


class ShapeError(GraphcError, ValueError):
    """Shapes that do not fit each other, or an axis that is not there."""


class RuntimeShapeError(ShapeError):
    """Shapes found not to fit when a compiled function was called."""


class DTypeError(GraphcError, TypeError):
    """A dtype that the operation, or the argument's input, does not take."""


class ArgumentError(GraphcError, TypeError):
    """An argument of the wrong number, name, kind or rank."""


class BoundsError(GraphcError, IndexError):
    """An index outside its axis."""


class SymbolicValueError(GraphcError, TypeError):
    """A symbolic array was asked for a value that it has only at run time."""


class FrozenError(GraphcError, AttributeError):
    """An attempt to edit a graph, which never changes."""


class InvalidGraphError(GraphcError, ValueError):
    """A graph that breaks what every graph must keep."""


class MissingInputError(GraphcError, ValueError):
    """Outputs depend on an input that the function was not given."""


class UnusedInputError(GraphcError, ValueError):
    """An input that no output depends on."""


class UnsupportedOperationError(GraphcError, NotImplementedError):
    """Operations that the backend has no lowering for, all of them at once."""


class DynamicShapeError(GraphcError, TypeError):
    """A shape that depends on values the backend does not have while it compiles."""


class GradientError(GraphcError, TypeError):
    """A derivative of, or by, something that has none."""


class DisconnectedInputError(GraphcError, ValueError):
    """A derivative by an input that the cost does not depend on."""


class VerificationError(GraphcError, AssertionError):
    """A derivative that disagrees with finite differences, or a backend that does with NumPy."""


class OperationError(GraphcError, RuntimeError):
    """An operation that failed when a compiled function was called, or as JAX traced it."""


class CheckError(GraphcError, AssertionError):
    """A condition that did not hold when a compiled function was called."""


class NaNError(GraphcError, ArithmeticError):
    """A NaN, or an infinite number, in a function that is to have none."""


class ModeError(GraphcError, ValueError):
    """A mode that names no backend, or an option the backend does not have."""


class ImplicitArrayError(GraphcError, TypeError):
    """An implicit array, or a handler of one, that is not as it must be."""


class AmbiguousHandlerError(ImplicitArrayError):
    """Two handlers that fit the same operands equally well."""


class HandlerError(ImplicitArrayError):
    """A handler that gave something else than what was asked of it."""


class MaterializeError(ImplicitArrayError):
    """An implicit array that could not, or must not, become whole."""


class RecompileError(GraphcError, RuntimeError):
    """A compilation that was asked not to happen, or other compilations than were expected."""


class MaterializeWarning(UserWarning):
    """An implicit array became whole, as nothing was there to handle it in its own form."""


class CapturedConstantWarning(UserWarning):
    """An array became part of a graph that was not said to be a constant."""


class RecompileWarning(UserWarning):
    """A function is compiled or built again and again for a reason that can be mended.

    Args:
        text: What changed, and what to do about it.
        cause: The kind of it: ``"captured value"``, ``"Python scalar"``, ``"static parameter"``,
            ``"shape"``, ``"dtype"``, ``"structure"`` or ``"mode"``.
    """

    def __init__(self, text: str, cause: str = "") -> None:
        super().__init__(text)
        self.cause = cause
