"""All errors of graphc; each is also a built-in error, so that ``except ValueError`` works.

A message names the operation, its operands and the problem, then the remedy, then the user's file
and line.
"""

from __future__ import annotations

from typing import Self

from graphc.site import foreign_frames, user_line

__all__ = [
    "AmbiguousHandlerError",
    "ArgumentError",
    "AxisError",
    "BoundsError",
    "CapturedConstantWarning",
    "CheckError",
    "CheckpointError",
    "DTypeError",
    "DisconnectedInputError",
    "DynamicShapeError",
    "ExportError",
    "FormatError",
    "FrozenError",
    "GradientError",
    "GraphcError",
    "HandlerError",
    "IdentityWarning",
    "ImplicitArrayError",
    "InvalidGraphError",
    "MaterializeError",
    "MaterializeWarning",
    "MissingInputError",
    "ModeError",
    "NaNError",
    "NarrowingWarning",
    "OperationError",
    "RecompileError",
    "RecompileWarning",
    "RuntimeShapeError",
    "ShapeError",
    "ShardingError",
    "ShardingWarning",
    "SymbolicValueError",
    "UnsupportedOperationError",
    "UnusedInputError",
    "VerificationError",
]


REMOVED = "JAX has removed its internal frames"
"""A part of the note that JAX adds to errors."""

CALL = "It is a function: call it with symbolic arrays, f(x), and give what it returns."

CONVERT = "It is PyTensor's: graphc.interop.pytensor.from_pytensor gives graphc's array of it."


def remedy_for(x: object, otherwise: str) -> str:
    """Return what to do about a value that is no array: PyTensor's, a function, or another."""
    if type(x).__module__.partition(".")[0] == "pytensor":
        return CONVERT
    return CALL if callable(x) and not isinstance(x, type) else otherwise


class GraphcError(Exception):
    """The base class of all errors that graphc raises.

    Args:
        problem: The operation, its operands and the problem.
        remedy: How to fix it; ``""`` if the problem says that.
        where: The user's ``file:line`` that it is about; by default the innermost one that is
            running, and ``""`` where there is none.
    """

    def __init__(self, problem: str, remedy: str = "", where: str | None = None) -> None:
        # Copies and unpickled errors are given all three: they keep the line, or have none.
        where = (user_line() or "") if where is None else where
        super().__init__(problem, remedy, where)
        self.problem = problem
        self.remedy = remedy
        self.where = where

    def __str__(self) -> str:
        text = "\n".join(part for part in (self.problem, self.remedy) if part)
        return f"{text}   {self.where}" if self.where else text

    def shorten(self) -> Self:
        """Drop graphc's and JAX's frames from the traceback; the user's and the cause stay."""
        if hasattr(self, "__notes__"):
            self.__notes__ = [note for note in self.__notes__ if REMOVED not in note]
        return self.with_traceback(foreign_frames(self.__traceback__))


class ShapeError(GraphcError, ValueError, TypeError):
    """Shapes, or numbers of axes, that do not fit each other.

    A type includes a shape, so this is a TypeError as well as a ValueError.
    """


class AxisError(ShapeError, IndexError):
    """An axis that does not exist, or that is repeated; NumPy's is an IndexError too."""


class RuntimeShapeError(ShapeError):
    """Shapes that do not fit in a call of a compiled function."""


class DTypeError(GraphcError, TypeError):
    """A dtype that an operation, or an input of a function, does not accept."""


class ArgumentError(GraphcError, TypeError, ValueError):
    """An argument of the wrong number, name, kind or rank."""


class BoundsError(GraphcError, IndexError):
    """An index outside its axis."""


class SymbolicValueError(GraphcError, TypeError):
    """Use of a value that a symbolic array has only at run time."""


class FrozenError(GraphcError, AttributeError):
    """An attempt to modify a graph; graphs are immutable."""


class InvalidGraphError(GraphcError, ValueError):
    """A graph that breaks an invariant."""


class MissingInputError(GraphcError, ValueError):
    """Outputs that depend on an input missing from the function's inputs."""


class UnusedInputError(GraphcError, ValueError):
    """An input that no output depends on."""


class UnsupportedOperationError(GraphcError, NotImplementedError):
    """Operations that a backend has no lowering for; one error lists all of them."""


class DynamicShapeError(GraphcError, TypeError):
    """A shape that depends on values unknown while a backend compiles."""


class GradientError(GraphcError, TypeError):
    """A derivative that does not exist: of or with respect to something not differentiable."""


class DisconnectedInputError(GraphcError, ValueError):
    """A derivative with respect to an input that the cost does not depend on."""


class VerificationError(GraphcError, AssertionError):
    """A derivative that disagrees with finite differences, or a backend with NumPy."""


class ShardingError(GraphcError, ValueError):
    """A sharding that does not fit an array or the mesh, or an array on other devices than that."""


class DistributedError(GraphcError, RuntimeError):
    """Another process of the program has ended or does something else, or there is none."""


class CheckpointError(GraphcError, ValueError):
    """A checkpoint is not there, is damaged, does not fit the variables, or cannot be written."""


class ExportError(GraphcError, TypeError):
    """Something that has no form outside of this process, such as a Python function."""


class FormatError(GraphcError, ValueError):
    """A text or file that is not what its format says, or that was damaged."""


class OperationError(GraphcError, RuntimeError):
    """An operation that failed in a call of a compiled function, or while JAX traced it."""


class CheckError(GraphcError, AssertionError):
    """A condition that did not hold in a call of a compiled function."""


class NaNError(GraphcError, ArithmeticError):
    """A NaN or an infinite number in a function compiled to raise on them."""


class ModeError(GraphcError, ValueError):
    """A mode that names no backend, or an option that its backend lacks."""


class ImplicitArrayError(GraphcError, TypeError):
    """An invalid implicit array, or an invalid handler of one."""


class AmbiguousHandlerError(ImplicitArrayError):
    """Two handlers that match the same operands equally well."""


class HandlerError(ImplicitArrayError):
    """A handler whose result has another type than the operation's."""


class MaterializeError(ImplicitArrayError):
    """An implicit array that could not, or must not, be materialized."""


class RecompileError(GraphcError, RuntimeError):
    """A compilation that was forbidden, or other compilations than expected."""


class MaterializeWarning(UserWarning):
    """An implicit array that was materialized, as no handler kept its structure."""


class NarrowingWarning(UserWarning):
    """Native results of 64 bits, with which the backend's library computes in 32."""


class ShardingWarning(UserWarning):
    """An argument that is declared as sharded, and that the compiled program replicates."""


class CapturedConstantWarning(UserWarning):
    """An array captured in a graph without ``gt.constant``."""


class IdentityWarning(UserWarning):
    """A comparison of symbolic arrays by ``==``, which is a bool, where an array was meant."""


class RecompileWarning(UserWarning):
    """A function that is compiled again and again for a reason that can be fixed.

    Args:
        text: What changed, and how to fix it.
        cause: The kind of change: ``"captured value"``, ``"Python scalar"``,
            ``"static parameter"``, ``"shape"``, ``"dtype"``, ``"structure"`` or ``"mode"``.
    """

    def __init__(self, text: str, cause: str = "") -> None:
        super().__init__(text)
        self.cause = cause
