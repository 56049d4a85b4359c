"""Operators of Krylov methods: matrices of any kind, or functions of blocks of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.krylov.calculus import Calculus, Map
from graphc.implicit.krylov.pivoted import LowRankPreconditioner
from graphc.implicit.structures.formats import CSR
from graphc.implicit.treedef import dtype_of, lengths_of, shapes_fit
from graphc.ir import dtype_name, is_float, promote


def as_operand(calculus: Calculus, title: str, A: Any) -> Any:  # noqa: N803 (SciPy's name)
    """Convert a matrix, or an object that multiplies like one; a function is unchanged.

    Raises:
        ShapeError: If the matrix is not square.
        DTypeError: If the matrix is complex.
    """
    if isinstance(A, LowRankPreconditioner):
        A = A.to_calculus(calculus)  # noqa: N806
    if hasattr(A, "tocsr") and not isinstance(A, ImplicitArray):
        A = CSR.from_scipy(A)  # noqa: N806
    if isinstance(A, ImplicitArray) or (hasattr(A, "__array__") and hasattr(A, "dtype")):
        A = calculus.array(A)  # noqa: N806
    if isinstance(A, list | tuple):
        A = calculus.array(A)  # noqa: N806
    if hasattr(A, "dtype") and hasattr(A, "shape"):
        _check(title, A)
    elif not callable(A) and not hasattr(A, "__matmul__"):
        raise ArgumentError(
            f"{title}: {A!r} is neither a matrix nor a function.",
            "Give an array, an implicit array, or a function from arrays to products.",
        )
    return A


def _check(title: str, A: Any) -> None:  # noqa: N803
    shape, dtype = lengths_of(A), dtype_name(dtype_of(A))
    if len(shape) < 2 or (None not in shape[-2:] and shape[-1] != shape[-2]):
        raise ShapeError(f"{title}: a matrix of shape {list(shape)}.", "Give a square one.")
    if not is_float(dtype) and dtype[0] not in "iub":
        raise DTypeError(
            f"{title}: a matrix of dtype {dtype}.",
            "Give a real one: of complex numbers, use gt.linalg.solve.",
        )


def is_function(A: Any) -> bool:  # noqa: N803
    """Return whether an operand is a function."""
    return callable(A) and not hasattr(A, "__matmul__")


def products(calculus: Calculus, A: Any, is_vector: bool) -> Map:  # noqa: N803
    """Return the map from blocks of columns to products; a function may map vectors."""
    if is_function(A):
        if not is_vector:
            return A  # type: ignore[no-any-return]
        xp = calculus.xp
        return lambda x: xp.expand_dims(A(xp.squeeze(x, -1)), -1)
    if hasattr(A, "dtype"):
        return lambda x: calculus.xp.matmul(A, x)
    return lambda x: A @ x


@dataclass(frozen=True)
class System:
    """A linear system.

    Attributes:
        product: The product with blocks of columns.
        precondition: The product with an approximate inverse, or None.
        b: The right-hand sides, (..., n, k).
        start: The initial guess, of b's shape, or None.
        is_vector: Whether the only column was given as a vector.
    """

    product: Map
    precondition: Map | None
    b: Any
    start: Any
    is_vector: bool


def system(calculus: Calculus, title: str, A: Any, b: Any, x0: Any, M: Any) -> System:  # noqa: N803
    """Return the system of an operator and right-hand sides, in one floating dtype.

    Raises:
        ShapeError: If lengths do not fit.
        DTypeError: If a dtype is complex.
    """
    xp = calculus.xp
    A, b = as_operand(calculus, title, A), calculus.array(b)  # noqa: N806
    if not b.ndim:
        raise ShapeError(f"{title}: b has no axes.", "Give a vector, or a matrix of columns.")
    is_vector = b.ndim == 1
    if hasattr(A, "dtype"):
        shape, own = lengths_of(A), lengths_of(b)
        n = own[0] if is_vector else own[-2]
        if None not in {n, shape[-1]} and n != shape[-1]:
            raise ShapeError(
                f"{title}: a matrix of shape {list(shape)}, and b of {list(own)}.",
                "Give b a row for each row of the matrix.",
            )
        if len(shape) > 2 and len(own) != len(shape):
            raise ShapeError(
                f"{title}: matrices of shape {list(shape)}, and b of {list(own)}.",
                "Give b the axes in front that the matrices have, and columns.",
            )
    columns = xp.expand_dims(b, -1) if is_vector else b
    product = products(calculus, A, is_vector)
    columns = cast_to_product_dtype(calculus, title, product, columns)
    near = None if M is None else products(calculus, as_operand(calculus, title, M), is_vector)
    start = None
    if x0 is not None:
        start = xp.cast(calculus.array(x0), dtype_name(dtype_of(columns)))
        if lengths_of(start) != lengths_of(b) and None not in (*lengths_of(start), *lengths_of(b)):
            raise ShapeError(
                f"{title}: b of shape {list(lengths_of(b))}, x0 of {list(lengths_of(start))}.",
                "Give both one shape.",
            )
        start = xp.expand_dims(start, -1) if is_vector else start
    return System(product, near, columns, start, is_vector)


def cast_to_product_dtype(calculus: Calculus, title: str, product: Map, x: Any) -> Any:
    """Cast columns to the floating dtype of their products.

    Raises:
        DTypeError: If products are complex, or their dtype always differs.
        ShapeError: If products have another shape.
    """
    xp, name = calculus.xp, dtype_name(dtype_of(x))
    if not is_float(name) and name[0] not in "iub":
        raise DTypeError(f"{title}: b of dtype {name}.", "Give real numbers.")
    if not is_float(name) or name in {"float16", "bfloat16"}:
        x = xp.cast(x, "float32" if name in {"float16", "bfloat16"} else calculus.widest)
    for _ in range(2):
        shape, dtype = calculus.type_of(product, x)
        wide = promote(dtype_name(dtype_of(x)), dtype)
        if not shapes_fit(shape, lengths_of(x)):
            raise ShapeError(
                f"{title}: a product of shape {list(shape)} for {list(lengths_of(x))}.",
                "Let the function return an array of its argument's shape.",
            )
        if dtype == dtype_name(dtype_of(x)):
            return x
        x = xp.cast(x, wide)
    raise DTypeError(
        f"{title}: products of dtype {dtype} for {dtype_name(dtype_of(x))}.",
        "Let the function return an array of its argument's dtype.",
    )


def size_of(calculus: Calculus, title: str, A: Any, instead: str) -> tuple[Any, str]:  # noqa: N803
    if is_function(A) or not hasattr(A, "shape"):
        raise ArgumentError(
            f"{title}: {A!r} has no shape.", f"Give {instead}, whose length is that of its columns."
        )
    if len(lengths_of(A)) != 2:
        raise ShapeError(f"{title}: a stack of shape {list(lengths_of(A))}.", "Give one matrix.")
    dtype = dtype_name(dtype_of(A))
    dtype = calculus.widest if dtype[0] in "iub" else dtype
    return calculus.xp.shape_of(A)[-1], "float32" if dtype in {"float16", "bfloat16"} else dtype


def check_integer(title: str, name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ArgumentError(f"{title}: {name}={value!r}.", f"Give an integer from {least} on.")


def check_on_error(title: str, on_error: Any, choices: tuple[str, ...] = ("nan", "ignore")) -> None:
    if on_error not in choices:
        raise ArgumentError(
            f"{title}: unknown on_error={on_error!r}.",
            f"Use one of {', '.join(map(repr, choices))}.",
        )
