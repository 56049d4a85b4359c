"""Symbolic inputs, and arrays created from a shape and a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, overload

import numpy as np

from graphc import ir
from graphc.config import config
from graphc.errors import DTypeError, ShapeError
from graphc.ir.lengths import SymbolicLength
from graphc.ir.types import without_names
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import cast, equal
from graphc.tensor.core.shape import (
    entries,
    fill_shape,
    lengths,
    mixed_entries,
    read_from,
    target_shape,
)
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function, operands

__all__ = [
    "alloc", "arange", "empty", "empty_like", "eye", "full", "full_like", "identity",
    "identity_like", "ones", "ones_like", "tensor", "tensor_copy", "zeros", "zeros_like",
]  # fmt: skip

LETTERS = {
    "b": "int8", "w": "int16", "i": "int32", "l": "int64", "f": "float32", "d": "float64",
    "c": "complex64", "z": "complex128",
}  # fmt: skip
"""The letters in front of constructors that name a dtype, as in ``gt.dvector``."""

RANKS: dict[str, ir.Shape] = {
    "scalar": (),
    "vector": (None,),
    "row": (1, None),
    "col": (None, 1),
    "matrix": (None, None),
    "tensor3": (None,) * 3,
    "tensor4": (None,) * 4,
    "tensor5": (None,) * 5,
    "tensor6": (None,) * 6,
    "tensor7": (None,) * 7,
}


def tensor(
    name: Any = None,
    *,
    dtype: Any = None,
    shape: Any = None,
    ndim: Any = None,
    sharding: Any = None,
    bucket: Any = None,
) -> Tensor:
    """Return a symbolic input.

    Args:
        name: The name in messages and as a function's keyword argument. A dtype here, as
            in ``gt.tensor("float64", shape=(3,))``, is accepted as the dtype.
        dtype: Anything NumPy accepts as a dtype; ``config.floatX`` by default.
        shape: Lengths from 0 on, None where unknown, or names of unknown lengths: lengths
            of one name are equal in all inputs of a function, which each call checks.
        ndim: The number of axes of unknown length, instead of ``shape``.
        sharding: The partition spec on the mode's mesh of devices: for each axis the name of an
            axis of the mesh, a tuple of names, or None; see ``graphc.mesh``.
        bucket: The growth of the buckets to which JAX and MLX pad unknown lengths, so that they
            compile once for all lengths of a bucket: 2 for powers of two, 1.25 for less padding.
            One number, or one for each axis, where None stands for the mode's choice. NUMPY needs
            none.

    Raises:
        ShapeError: Neither or both of ``shape`` and ``ndim`` are passed, a length is negative, or a
            name is no identifier.
        DTypeError: NumPy has no such dtype.
        ShardingError: The sharding names an axis twice, or has more entries than axes.
        ArgumentError: The bucket is no number above 1, or there is not one for each axis.

    Example:
        >>> tensor("x", shape=(None, 3))
        x: float64[?, 3]
        >>> tensor("x", shape=("n", 3))[1:]
        x[1:]: float64[max(n - 1, 0), 3]
    """
    if dtype is None and isinstance(name, str) and name in {*LETTERS.values(), "bool", "floatX"}:
        name, dtype = None, name
    if (shape is None) == (ndim is None):
        raise ShapeError("tensor: expected either shape or ndim.")
    if dtype is None:
        dtype = config.floatX
    shape = (None,) * ndim if shape is None else shape
    tensor_type = ir.TensorType(dtype, without_names(shape))
    return tensor_type(name, shape=shape, sharding=sharding, bucket=bucket)


def _constructor(kind: str, fixed: str | None) -> Callable[..., Tensor]:
    shape = RANKS[kind]
    if fixed is not None:
        return ir.TensorType(fixed, shape)

    def construct(
        name: str | None = None,
        *,
        dtype: Any = None,
        shape: Any = shape,
        sharding: Any = None,
        bucket: Any = None,
    ) -> Tensor:
        _check_rank(kind, shape)
        dtype = dtype or config.floatX
        return tensor(name, dtype=dtype, shape=shape, sharding=sharding, bucket=bucket)

    construct.__name__ = construct.__qualname__ = kind
    lengths = ", ".join("?" if n is None else str(n) for n in shape)
    construct.__doc__ = f"""A symbolic input of type floatX[{lengths}].

    Args:
        name: Its name, in messages and as a keyword argument of functions.
        dtype: ``config.floatX`` by default.
        shape: Lengths that are known, names of others, and None.
        sharding: How its values lie on the mode's mesh of devices: see ``graphc.mesh``.
        bucket: How the buckets grow to which unknown lengths are padded: see ``gt.tensor``.

    Raises:
        ShapeError: The shape has another number of axes.
        ShardingError: The sharding does not fit the type.
        ArgumentError: The bucket is no number above 1.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.{kind}("x").type
        float64[{lengths}]
    """
    return construct


def _check_rank(kind: str, shape: Any) -> None:
    if len(shape) != len(RANKS[kind]):
        raise ShapeError(
            f"{kind}: expected a shape of {len(RANKS[kind])} axes, got {shape}.",
            "Use gt.tensor(shape=...) for any rank.",
        )


CONSTRUCTORS = {
    letter + kind: _constructor(kind, dtype)
    for kind in RANKS
    for letter, dtype in [("", None), *LETTERS.items()]
}
"""``scalar`` to ``tensor7``; with their dtype's letter in front, types, which make inputs too."""


class Several(Protocol):
    """The signature of constructors of several inputs."""

    @overload
    def __call__(self, names: int, /, *, dtype: Any = None) -> list[Tensor]: ...

    @overload
    def __call__(self, a: str, b: str, /, *names: str, dtype: Any = None) -> list[Tensor]: ...

    @overload
    def __call__(
        self, names: str | Sequence[str], /, *, dtype: Any = None
    ) -> Tensor | list[Tensor]: ...


def _plural(kind: str) -> Several:
    def construct(*names: str | Sequence[str] | int, dtype: Any = None) -> Tensor | list[Tensor]:
        one: Callable[..., Tensor]
        one = CONSTRUCTORS[kind] if dtype is None else partial(CONSTRUCTORS[kind], dtype=dtype)
        if names and isinstance(names[0], int):
            return [one() for _ in range(names[0])]
        items: Any = names[0] if len(names) == 1 else names
        inputs = [one(name) for name in items]
        return inputs[0] if len(inputs) == 1 else inputs

    construct.__name__ = construct.__qualname__ = plural(kind)
    construct.__doc__ = f"""Several inputs as ``{kind}`` makes them.

    Args:
        names: Their names, one by one or in a list; or a single string, each letter of which is a
            name; or their number.
        dtype: The dtype of all; ``{kind}``'s by default, which a letter in front fixes.

    Returns:
        A list of inputs; for a single name the input itself.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = gt.{plural(kind)}("a", "b")
        >>> a.name, b.type == gt.{kind}().type
        ('a', True)
    """
    return construct  # type: ignore[return-value]


def plural(kind: str) -> str:
    """Return the name of the constructor that makes several inputs.

    Example:
        >>> plural("scalar"), plural("dmatrix")
        ('scalars', 'dmatrices')
    """
    return kind[:-2] + "ices" if kind.endswith("matrix") else kind + "s"


PLURALS = {plural(kind): _plural(kind) for kind in CONSTRUCTORS}
"""``scalars`` to ``tensor7s``, and ``dvectors`` and the like with their dtype's letter in front."""


# Arrays of one value.


@function
def full(shape: Any, fill_value: TensorLike, dtype: Any = None) -> Tensor:
    """Return an array filled with one value.

    Args:
        shape: Python or symbolic integers, or an int64 vector of static length.
        fill_value: A value that broadcasts to the shape.
        dtype: The value's own by default.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.full((2, 2), 7).eval(mode="NUMPY").tolist()
        [[7, 7], [7, 7]]
    """
    return broadcast_to(as_tensor(fill_value, dtype=dtype), mixed_entries("full", shape))


def _fill(op: str, shape: Any, value: int, dtype: Any) -> Tensor:
    number = np.array(value, ir.numpy_dtype(ir.dtype_name(dtype or config.floatX)))
    return broadcast_to(as_tensor(number), mixed_entries(op, shape))


@function
def zeros(shape: Any, dtype: Any = None) -> Tensor:
    """Return an array of zeros, of ``config.floatX`` by default.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.zeros((2, 3)).eval(mode="NUMPY").tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return _fill("zeros", shape, 0, dtype)


@function
def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Return an array of ones, of ``config.floatX`` by default.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.ones((2, 3)).eval(mode="NUMPY").tolist()
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    return _fill("ones", shape, 1, dtype)


@function
def empty(shape: Any, dtype: Any = None) -> Tensor:
    """Return an array of zeros: a graph has no uninitialised values.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.empty((2, 3)).eval(mode="NUMPY").tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return _fill("empty", shape, 0, dtype)


@function
def full_like(x: TensorLike, fill_value: TensorLike, dtype: Any = None) -> Tensor:
    """Return an array filled with one value, of x's shape and dtype.

    Args:
        x: The array whose shape and dtype are taken.
        fill_value: A scalar.
        dtype: The dtype of the result, x's by default.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.full_like(np.ones(2), 7.0).eval(mode="NUMPY").tolist()
        [7.0, 7.0]
    """
    x = as_tensor(x)
    return read_from(x, full(lengths(x), cast(fill_value, dtype or x.dtype)))


@function
def zeros_like(x: TensorLike, dtype: Any = None) -> Tensor:
    """Return an array of zeros of x's shape and dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.zeros_like([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        [[0, 0], [0, 0]]
    """
    x = as_tensor(x)
    return read_from(x, zeros(lengths(x), dtype or x.dtype))


@function
def ones_like(x: TensorLike, dtype: Any = None) -> Tensor:
    """Return an array of ones of x's shape and dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.ones_like([5.0, 6.0]).eval(mode="NUMPY").tolist()
        [1.0, 1.0]
    """
    x = as_tensor(x)
    return read_from(x, ones(lengths(x), dtype or x.dtype))


@function
def empty_like(x: TensorLike, dtype: Any = None) -> Tensor:
    """Return an array of zeros of x's shape and dtype: a graph has no uninitialised values.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.empty_like(np.ones(3)).eval(mode="NUMPY").tolist()
        [0.0, 0.0, 0.0]
    """
    x = as_tensor(x)
    return read_from(x, zeros_like(x, dtype))


@function
def alloc(value: TensorLike, *shape: Any) -> Tensor:
    """Return a value repeated to a shape.

    Example:
        >>> alloc(1.5, 2, 3).type
        float64[2, 3]
    """
    return broadcast_to(value, shape)


# Arrays made by a rule.


@dataclass(frozen=True, slots=True)
class Arange(ir.Op):
    """``start``, ``start + step``, ... up to ``stop``, which is excluded.

    Inputs are start, stop and step, scalars of the dtype; their values decide the length.
    """

    dtype: str
    name = "arange"

    def infer(
        self, start: ir.TensorType, stop: ir.TensorType, step: ir.TensorType
    ) -> ir.TensorType:
        values = start.value, stop.value, step.value
        n = None if None in values else SymbolicLength.of("arange", *values)
        return ir.TensorType(self.dtype, (n,))

    def perform(self, start: Any, stop: Any, step: Any) -> np.ndarray[Any, Any]:
        if step == 0:
            raise ShapeError("arange: the step is 0.", "Pass a positive or negative step.")
        return np.asarray(np.arange(start, stop, step, dtype=ir.numpy_dtype(self.dtype)))

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> tuple[None, None, None]:
        return None, None, None


@dataclass(frozen=True, slots=True)
class StaticArange(ir.Op):
    """``arange`` of numbers known when the graph is built, and so of static length."""

    start: float
    stop: float
    step: float
    dtype: str
    name = "arange"

    def infer(self) -> ir.TensorType:
        return ir.TensorType(self.dtype, (len(np.arange(self.start, self.stop, self.step)),))

    def perform(self) -> np.ndarray[Any, Any]:
        dtype = ir.numpy_dtype(self.dtype)
        return np.asarray(np.arange(self.start, self.stop, self.step, dtype=dtype))


@function
def arange(
    start: TensorLike, stop: TensorLike | None = None, step: Any = 1, dtype: Any = None
) -> Tensor:
    """Return evenly spaced values from ``start`` on, ``stop`` excluded.

    Args:
        start: The first value; with ``stop`` left out, the end, counted from 0.
        stop: The end.
        step: The distance, not 0.
        dtype: By default the common dtype of the three if that is floating, else int64, or uint64
            where one of them is.

    Returns:
        A vector; its length is static where the three are Python or NumPy numbers.

    Raises:
        ShapeError: The step is 0.
        DTypeError: An argument is complex, or an array that is not a scalar.

    Example:
        >>> arange(2, 8, 3)
        arange(start=2, stop=8, step=3, dtype='int64'): int64[2]
    """
    if stop is None:
        start, stop = 0, start
    if all_numbers(start, stop, step):
        if step == 0:
            raise ShapeError("arange: the step is 0.")
        kind = ir.dtype_name(dtype) if dtype else _number_dtype(start, stop, step)
        start, stop, step = map(_python_number, (start, stop, step))
        return Tensor.make(StaticArange(start, stop, step, kind))
    xs, common = operands("arange", [_widen(x) for x in (start, stop, step)])
    if ir.is_complex(common) or [x for x in xs if x.ndim]:
        raise DTypeError(f"arange{tuple(xs)}: expected real scalars.")
    y = Tensor.make(Arange(common), *xs)
    return y if dtype is None else cast(y, dtype)


def all_numbers(*values: Any) -> bool:
    """Return whether all are real Python or NumPy numbers."""
    return not [x for x in values if not isinstance(x, int | float | np.integer | np.floating)]


def _python_number(x: Any) -> float:
    return x.item() if isinstance(x, np.generic) else x  # type: ignore[no-any-return]


def _number_dtype(*values: Any) -> str:
    if [x for x in values if isinstance(x, np.floating)]:
        return operands("arange", values)[1]
    return config.floatX if [x for x in values if isinstance(x, float)] else "int64"


def _widen(x: Any) -> Any:
    """Cast narrow integers to int64, which holds both ends of a range; numbers stay weak."""
    if not isinstance(x, Tensor | np.ndarray | np.generic):
        return x
    x = as_tensor(x)
    return x if ir.is_inexact(x.dtype) or x.dtype == "uint64" else cast(x, "int64")


@dataclass(frozen=True, slots=True)
class Eye(ir.Op):
    """A matrix with ones on a diagonal and zeros elsewhere; None stands for an input."""

    shape: ir.Shape
    offset: int
    dtype: str
    name = "eye"

    def infer(self, *symbolic: ir.TensorType) -> ir.TensorType:
        return ir.TensorType(self.dtype, fill_shape(self.shape, symbolic))

    def perform(self, *symbolic: Any) -> np.ndarray[Any, Any]:
        n, m = target_shape(self.shape, symbolic)
        return np.eye(n, m, self.offset, ir.numpy_dtype(self.dtype))

    def pullback(self, g: Tensor, y: Tensor, *symbolic: Tensor) -> tuple[None, ...]:
        return (None,) * len(symbolic)


@function
def eye(n: Any, m: Any = None, k: Any = 0, dtype: Any = None) -> Tensor:
    """Return a matrix with ones on a diagonal and zeros elsewhere.

    Args:
        n: The number of rows, a Python or symbolic integer.
        m: The number of columns, by default the number of rows.
        k: The diagonal, a Python or symbolic integer: 0 is the main one, positive ones are above
            it, negative ones below.
        dtype: ``config.floatX`` by default.

    Raises:
        DTypeError: k is not an integer.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.eye(2, 3).eval(mode="NUMPY").tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    dtype = ir.dtype_name(dtype or config.floatX)
    m = n if m is None else m
    number = diagonal_number("eye", k)
    if isinstance(number.op, ir.Constant):
        static, symbolic = entries("eye", (n, m))
        return Tensor.make(Eye(static, int(number.op.value), dtype), *symbolic)
    return cast(equal(above_diagonal(n, m), number), dtype)


def above_diagonal(n: Any, m: Any) -> Tensor:
    """Return how far above the main diagonal each element of an n by m matrix is."""
    return expand_dims(arange(m), 0) - expand_dims(arange(n), 1)


def diagonal_number(op: str, k: Any) -> Tensor:
    """Return the number of a diagonal, an int64 scalar."""
    x = as_tensor(k)
    if x.ndim or not ir.is_integer(x.dtype):
        raise DTypeError(f"{op}: expected an integer diagonal, got {k!r}.", "Pass an integer.")
    return cast(x, "int64")


@function
def identity_like(x: TensorLike, dtype: Any = None) -> Tensor:
    """Return the identity matrix of a matrix's shape and dtype.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.identity_like(np.ones((2, 2))).eval(mode="NUMPY").tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    x = as_tensor(x)
    n, m = lengths(x)
    return read_from(x, eye(n, m, dtype=dtype or x.dtype))


@function
def tensor_copy(x: TensorLike) -> Tensor:
    """Return the array itself: a symbolic array never changes, so it needs no copy.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.tensor_copy(gt.as_tensor([1.0, 2.0])).eval(mode="NUMPY").tolist()
        [1.0, 2.0]
    """
    return as_tensor(x)


@function
def identity(x: TensorLike) -> Tensor:
    """Return the array itself; the identity matrix is ``eye``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.identity(gt.as_tensor([1.0, 2.0])).eval(mode="NUMPY").tolist()
        [1.0, 2.0]
    """
    return as_tensor(x)
