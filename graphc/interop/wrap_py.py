"""Python functions of NumPy arrays in graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from graphc.errors import ArgumentError, DTypeError, OperationError, ShapeError
from graphc.ir import Node, Op, TensorType, TupleType, picks
from graphc.loop.each import over_each
from graphc.tensor.arrays.create import CONSTRUCTORS
from graphc.tensor.core.tensor import Tensor, as_tensor

Lengths = tuple[int | None, ...]


@dataclass(frozen=True)
class PythonCall(Op):
    """The results of a Python function of NumPy arrays.

    Attributes:
        function: What is called.
        takes: The types of its arguments.
        gives: The types of its results.
        infer_shape: Gives the shapes of the results, from those of the arguments.
    """

    function: Callable[..., Any]
    takes: tuple[TensorType, ...]
    gives: tuple[TensorType, ...]
    infer_shape: Callable[..., Any] | None = None

    by_numpy = True
    stays_in_step = True

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __repr__(self) -> str:
        return "PythonCall()"

    def token(self) -> str:
        return f"PythonCall({self.name},{self.takes!r},{self.gives!r})"

    def unwritten(self) -> Hashable:
        return self.function, self.infer_shape

    def infer(self, *types: TensorType) -> TupleType:
        for place, (wanted, given) in enumerate(zip(self.takes, types, strict=True)):
            if not _agree(wanted, given):
                raise ShapeError(
                    f"{self.name} takes {wanted!r} at place {place} and got {given!r}.",
                    "Reshape or index it.",
                )
        if self.infer_shape is None:
            return TupleType(self.gives)
        shapes = self._inferred_shapes([x.shape for x in types])
        pairs = zip(self.gives, shapes, strict=True)
        return TupleType(tuple(_with_lengths(self.name, y, shape) for y, shape in pairs))

    def _inferred_shapes(self, lengths: Sequence[Lengths]) -> list[Lengths]:
        """Return the shapes of the results that ``infer_shape`` declares."""
        assert self.infer_shape is not None
        found = self.infer_shape(*lengths)
        shapes = [found] if len(self.gives) == 1 and not _is_nested(found) else list(found)
        if len(shapes) != len(self.gives):
            raise ArgumentError(
                f"{self.name}: infer_shape gave {found!r} for {len(self.gives)} results.",
                "Return a tuple of lengths for each of them.",
            )
        return [tuple(shape) for shape in shapes]

    def perform(self, *values: Any) -> tuple[Any, ...]:
        # A copy each: who writes into an argument must not change the program's arrays.
        found = self.function(*[np.array(x) for x in values])
        several = found if isinstance(found, list | tuple) else (found,)
        if len(several) != len(self.gives):
            raise OperationError(
                f"{self.name} gave {len(several)} arrays, and otypes= has {len(self.gives)}."
            )
        declared: Any = self.infer(*[TensorType(x.dtype, x.shape) for x in values])
        pairs = zip(several, declared.items, strict=True)
        return tuple([_as_declared(self.name, y, wanted) for y, wanted in pairs])

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Any:
        return over_each(self, size, batched, inputs)


def _is_nested(found: Any) -> bool:
    return any(isinstance(shape, list | tuple) for shape in found)


def _agree(a: TensorType, b: TensorType) -> bool:
    pairs = zip(a.shape, b.shape, strict=False)
    return a.ndim == b.ndim and all(None in {n, m} or n == m for n, m in pairs)


def _with_lengths(name: str, y: TensorType, shape: Lengths) -> TensorType:
    declared = y.with_shape(shape)
    if not _agree(y, declared):
        raise ShapeError(
            f"{name}: infer_shape says {declared!r}, and otypes= {y!r}.",
            "Declare the same shape in both.",
        )
    pairs = zip(y.shape, shape, strict=True)
    return y.with_shape(tuple(n if m is None else m for n, m in pairs))


def _as_declared(name: str, y: Any, wanted: TensorType) -> np.ndarray[Any, Any]:
    """Convert a result to its declared dtype, if no value changes by that."""
    found = np.asarray(y)
    given = TensorType(found.dtype, found.shape)
    if not np.can_cast(found.dtype, wanted.numpy_dtype, "same_kind"):
        raise DTypeError(
            f"{name} gave {given!r}, and otypes= has {wanted!r}.",
            "Return that dtype, or declare the other one.",
        )
    if not _agree(wanted, given):
        raise ShapeError(f"{name} gave {given!r}, where otypes= or infer_shape has {wanted!r}.")
    # A copy: the function may keep what it gave, and write into it later.
    return found.astype(wanted.numpy_dtype)


Kind = TensorType | Callable[..., Tensor]
"""The type of an array, or a constructor of inputs of that type."""


@overload
def wrap_py(
    itypes: Kind | Sequence[Kind], otypes: Kind, infer_shape: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Tensor]]: ...


@overload
def wrap_py(
    itypes: Kind | Sequence[Kind],
    otypes: Sequence[Kind],
    infer_shape: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...


def wrap_py(
    itypes: Any, otypes: Any, infer_shape: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a decorator that lets a function of NumPy arrays take symbolic arrays.

    Each backend calls it while the program runs, with NumPy arrays of its own to write to. It may
    be called any number of times, or never, so its result is to depend on nothing but its
    arguments. It has no derivative: give it one with ``graphc.custom_pullback``. A batch calls it
    for each element.

    Args:
        itypes: The types of its arguments, such as ``gt.TensorType("float64", (None, 3))``, or
            constructors of inputs, such as ``gt.dmatrix``; one by itself, or a list.
        otypes: The same of its results.
        infer_shape: Takes the shapes of the arguments, tuples of lengths, None where one is not
            known, and gives that of the result, or a list of those of several results. JAX needs
            it where the lengths of ``otypes`` are not all known. PyTensor's form, a function of
            ``fgraph``, ``node`` and a list of the shapes, is taken too; the first two are None.

    Returns:
        What decorates the function. It then takes symbolic arrays and gives one, or a list of
        several.

    Raises:
        ArgumentError: What is no type or no function; when called, another number of arrays.
        DTypeError: When called, an array of another dtype.
        ShapeError: When called, an array of another rank or known length; when run, a result that
            is not as declared.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> import numpy as np
        >>> vector = gt.TensorType("float64", (None,))
        >>> @graphc.wrap_py(itypes=[vector], otypes=vector, infer_shape=lambda shape: shape)
        ... def ranks(x):
        ...     return np.argsort(np.argsort(x)).astype(float)
        >>> x = gt.vector("x")
        >>> graphc.function([x], ranks(x) * 2, mode="NUMPY")([0.5, 0.1, 0.3]).tolist()
        [4.0, 0.0, 2.0]
    """
    takes, gives = _types("itypes", itypes), _types("otypes", otypes)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise ArgumentError(f"wrap_py: {function!r} is not a function.", "Give a function.")
        op = PythonCall(function, takes, gives, _of_lengths(infer_shape))

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            found = picks(Node.make(op, *_arguments(op, arguments)))
            return found[0] if len(found) == 1 else found

        return call

    return decorate


def _types(what: str, given: Any) -> tuple[TensorType, ...]:
    each = given if isinstance(given, list | tuple) else [given]
    found = tuple(x().type if x in CONSTRUCTORS.values() else x for x in each)
    for type in found:
        if not isinstance(type, TensorType):
            raise ArgumentError(
                f"wrap_py: {what} has {type!r}, which is not a type.",
                "Write gt.TensorType(dtype, shape), gt.dmatrix or the like, or give x.type.",
            )
    return found


def _of_lengths(infer_shape: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """A function from the shapes of the arguments, also where PyTensor's form is given."""
    code = getattr(infer_shape, "__code__", None)
    if infer_shape is None or code is None or code.co_varnames[:2] != ("fgraph", "node"):
        return infer_shape
    return functools.partial(_in_pytensors_form, infer_shape)


def _in_pytensors_form(infer_shape: Callable[..., Any], *lengths: Lengths) -> Any:
    return infer_shape(None, None, list(lengths))


def _arguments(op: PythonCall, given: Sequence[Any]) -> list[Tensor]:
    if len(given) != len(op.takes):
        raise ArgumentError(f"{op.name} takes {len(op.takes)} arrays and got {len(given)}.")
    found = []
    for x, wanted in zip(given, op.takes, strict=True):
        made = as_tensor(x) if isinstance(x, Node) else as_tensor(x, dtype=wanted.dtype)
        if made.dtype != wanted.dtype:
            raise DTypeError(
                f"{op.name} takes {wanted!r} and got {made!r}.",
                f"Cast it with .astype({wanted.dtype!r}).",
            )
        found.append(made)
    return found


as_op = wrap_py
"""An older name of ``wrap_py``."""
