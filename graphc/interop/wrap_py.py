"""Python functions of NumPy arrays in graphs."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from graphc.errors import ArgumentError, DTypeError, OperationError, ShapeError
from graphc.ir import Node, Op, TensorType, TupleType, picks
from graphc.loop.functional import over_each
from graphc.tensor.arrays.create import CONSTRUCTORS
from graphc.tensor.core.tensor import Tensor, as_tensor

Lengths = tuple[int | None, ...]


@dataclass(frozen=True)
class PythonCall(Op):
    """The results of a Python function of NumPy arrays.

    Attributes:
        function: The function.
        takes: The types of the arguments.
        gives: The types of the results.
        infer_shape: A function from the shapes of the arguments to the shapes of the results.
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

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Pickle finds the decorated function by the name of the function inside.
        module, name = self.function.__module__, getattr(self.function, "__qualname__", "")
        decorated = _module_attribute(module, name)
        if getattr(decorated, "python_call", None) is self:
            return _python_call, (module, name)
        return super().__reduce_ex__(protocol)

    infers_by_numbers = True

    def infer(self, *types: TensorType) -> TupleType:
        for i, (wanted, type) in enumerate(zip(self.takes, types, strict=True)):
            if not _agree(wanted, type):
                raise ShapeError(
                    f"{self.name} takes {wanted!r} at place {i} and got {type!r}.",
                    "Reshape or index it.",
                )
        if self.infer_shape is None:
            return TupleType(self.gives)
        shapes = self._infer_shapes([x.shape for x in types])
        pairs = zip(self.gives, shapes, strict=True)
        return TupleType(tuple(_with_lengths(self.name, y, shape) for y, shape in pairs))

    def _infer_shapes(self, lengths: Sequence[Lengths]) -> list[Lengths]:
        assert self.infer_shape is not None
        inferred = self.infer_shape(*lengths)
        shapes = [inferred] if len(self.gives) == 1 and not _is_nested(inferred) else list(inferred)
        if len(shapes) != len(self.gives):
            raise ArgumentError(
                f"{self.name}: infer_shape gave {inferred!r} for {len(self.gives)} results.",
                "Return a tuple of lengths for each of them.",
            )
        return [tuple(shape) for shape in shapes]

    def perform(self, *values: Any) -> tuple[Any, ...]:
        # Copies, so that writing into an argument does not change the program's arrays.
        results = self.function(*[np.array(x) for x in values])
        ys = results if isinstance(results, list | tuple) else (results,)
        if len(ys) != len(self.gives):
            raise OperationError(
                f"{self.name} gave {len(ys)} arrays, and otypes= has {len(self.gives)}."
            )
        declared: Any = self.infer(*[TensorType(x.dtype, x.shape) for x in values])
        pairs = zip(ys, declared.items, strict=True)
        return tuple([_cast_to_declared(self.name, y, wanted) for y, wanted in pairs])

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Any:
        return over_each(self, size, batched, inputs)


def _module_attribute(module: str, name: str) -> Any:
    names = [] if "<" in name else name.split(".")
    return functools.reduce(lambda x, part: getattr(x, part, None), names, sys.modules.get(module))


def _python_call(module: str, name: str) -> PythonCall:
    importlib.import_module(module)
    op: PythonCall | None = getattr(_module_attribute(module, name), "python_call", None)
    if op is None:
        raise ArgumentError(
            f"A graph calls {module}.{name}, which is not there or not decorated by wrap_py.",
            "Define it in a module that this process can import.",
        )
    return op


def _is_nested(shapes: Any) -> bool:
    return any(isinstance(shape, list | tuple) for shape in shapes)


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


def _cast_to_declared(name: str, y: Any, wanted: TensorType) -> np.ndarray[Any, Any]:
    """Convert a result to its declared dtype, if that changes no value."""
    array = np.asarray(y)
    type = TensorType(array.dtype, array.shape)
    if not np.can_cast(array.dtype, wanted.numpy_dtype, "same_kind"):
        raise DTypeError(
            f"{name} gave {type!r}, and otypes= has {wanted!r}.",
            "Return that dtype, or declare the other one.",
        )
    if not _agree(wanted, type):
        raise ShapeError(f"{name} gave {type!r}, where otypes= or infer_shape has {wanted!r}.")
    # A copy: the function may write into its result later.
    return array.astype(wanted.numpy_dtype)


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

    Each backend calls the function while the program runs, with NumPy arrays that it may write to.
    The function may be called any number of times, or never, so its result must depend on its
    arguments alone. The function has no derivative unless ``graphc.custom_pullback`` gives one. A
    batch calls the function for each element.

    Args:
        itypes: The types of the arguments, such as ``gt.TensorType("float64", (None, 3))``, or
            constructors of inputs, such as ``gt.dmatrix``; one by itself, or a list.
        otypes: The types of the results, likewise.
        infer_shape: A function from the shapes of the arguments, tuples of lengths with None for an
            unknown one, to the shape of the result, or a list of shapes. JAX needs it where lengths
            of ``otypes`` are unknown. PyTensor's forms, functions of ``node`` or ``fgraph`` and
            ``node``, and a list of the shapes, are accepted too; the first arguments are None.

    Returns:
        A decorator. The decorated function takes symbolic arrays and returns one, or a list of
        several.

    Raises:
        ArgumentError: If a type is no type, or the function no function; when called: if the number
            of arrays differs.
        DTypeError: When called: if an array has another dtype.
        ShapeError: When called: if an array has another rank or known length; when run: if a result
            does not have its declared shape.

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
        op = PythonCall(function, takes, gives, _by_lengths(infer_shape))

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            ys = picks(Node.make(op, *_arguments(op, arguments)))
            return ys[0] if len(ys) == 1 else ys

        call.python_call = op  # type: ignore[attr-defined]
        return call

    return decorate


def _types(argument: str, declared: Any) -> tuple[TensorType, ...]:
    items = declared if isinstance(declared, list | tuple) else [declared]
    types = tuple(x().type if x in CONSTRUCTORS.values() else x for x in items)
    for type in types:
        if not isinstance(type, TensorType):
            raise ArgumentError(
                f"wrap_py: {argument} has {type!r}, which is not a type.",
                "Write gt.TensorType(dtype, shape), gt.dmatrix or the like, or give x.type.",
            )
    return types


def _by_lengths(infer_shape: Callable[..., Any] | None) -> Callable[..., Any] | None:
    names = getattr(getattr(infer_shape, "__code__", None), "co_varnames", ())
    for first in (("fgraph", "node"), ("node",)):
        if infer_shape is not None and names[: len(first)] == first:
            return functools.partial(_in_pytensors_form, infer_shape, len(first))
    return infer_shape


def _in_pytensors_form(infer_shape: Callable[..., Any], first: int, *lengths: Lengths) -> Any:
    return infer_shape(*[None] * first, list(lengths))


def _arguments(op: PythonCall, arguments: Sequence[Any]) -> list[Tensor]:
    if len(arguments) != len(op.takes):
        raise ArgumentError(f"{op.name} takes {len(op.takes)} arrays and got {len(arguments)}.")
    tensors = []
    for x, wanted in zip(arguments, op.takes, strict=True):
        tensor = as_tensor(x) if isinstance(x, Node) else as_tensor(x, dtype=wanted.dtype)
        if tensor.dtype != wanted.dtype:
            raise DTypeError(
                f"{op.name} takes {wanted!r} and got {tensor!r}.",
                f"Cast it with .astype({wanted.dtype!r}).",
            )
        tensors.append(tensor)
    return tensors


as_op = wrap_py
"""An older name of ``wrap_py``."""
