"""The sizes and errors of a tree's arrays, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import materialize_nested
from graphc.implicit.treedef import dtype_of, field_names_of, lengths_of
from graphc.implicit.trees import Path, flatten_with_path, is_array, tree_map
from graphc.ir import dtype_name, is_inexact


@dataclass(frozen=True)
class ArrayReport:
    """The size of one array of a tree, and its error.

    Attributes:
        path: The keys joined by ``/``.
        kind: The class and static fields of an implicit array; the dtype of a dense one.
        shape: The lengths.
        nbytes: The number of bytes.
        dense_nbytes: The number of bytes of the dense array.
        relative_error: The norm of the error divided by the norm of the reference; None without a
            reference.
        largest_error: The largest magnitude of an element's error; None without a reference.
    """

    path: str
    kind: str
    shape: tuple[int, ...]
    nbytes: int
    dense_nbytes: int
    relative_error: float | None = None
    largest_error: float | None = None

    @property
    def bits(self) -> float:
        """The number of bits per element."""
        return 8 * self.nbytes / max(1, math.prod(self.shape))


@dataclass(frozen=True)
class TreeReport:
    """The sizes and errors of a tree's arrays; as text, a table with a row for each.

    Attributes:
        arrays: The report of each array, in order.
    """

    arrays: tuple[ArrayReport, ...]

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        return sum(x.nbytes for x in self.arrays)

    @property
    def dense_nbytes(self) -> int:
        """The number of bytes of all arrays if they were dense."""
        return sum(x.dense_nbytes for x in self.arrays)

    def __str__(self) -> str:
        rows: list[Sequence[str]] = []
        rows.append(
            ("path", "shape", "kind", "bytes", "bits", "of dense", "error", "largest error")
        )
        for x in self.arrays:
            shape = "x".join(map(str, x.shape)) or "scalar"
            sizes = _sizes(x.nbytes, x.dense_nbytes)
            errors = (_figure(x.relative_error), _figure(x.largest_error))
            rows.append((x.path, shape, x.kind, sizes[0], f"{x.bits:.2f}", sizes[1], *errors))
        size, part = _sizes(self.nbytes, self.dense_nbytes)
        rows.append(("total", "", "", size, "", part, "", ""))
        if all(x.relative_error is None for x in self.arrays):
            rows = [row[:-2] for row in rows]
        return "\n".join(_align_columns(rows))

    __repr__ = __str__


def report(tree: Any, reference: Any = None) -> TreeReport:
    """Return the size of each array of a tree, and its error.

    Args:
        tree: A nested container of arrays, some of which may be implicit. Other leaves are ignored.
        reference: A tree nested in the same way, with the arrays before they were quantized.

    Returns:
        A ``TreeReport``, which prints as a table.

    Raises:
        ArgumentError: If the two trees are nested differently.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import quantize
        >>> params = {"w": np.random.default_rng(0).normal(size=(64, 128)), "b": np.zeros(128)}
        >>> report(quantize(params, "nf4"))
        path   shape   kind               bytes  bits   of dense
        b      128     float64            1024   64.00  100.0%
        w      64x128  NF4 group_size=64  5120   5.00   7.8%
        total                             6144          9.2%
    """
    pairs = tree if reference is None else tree_map(_Pair, tree, reference)
    rows = [_report_leaf(path, x) for path, x in flatten_with_path(pairs)[0]]
    return TreeReport(tuple(row for row in rows if row is not None))


@dataclass(frozen=True)
class _Pair:
    """An array and its reference."""

    x: Any
    reference: Any


def _report_leaf(path: Path, leaf: Any) -> ArrayReport | None:
    x, reference = (leaf.x, leaf.reference) if isinstance(leaf, _Pair) else (leaf, None)
    if not is_array(x):
        return None
    shape, dtype = tuple(map(int, lengths_of(x))), dtype_of(x)  # type: ignore[arg-type]
    dense = math.prod(shape) * dtype.itemsize
    size = x.nbytes if isinstance(x, ImplicitArray) else dense
    errors = (None, None) if reference is None else _errors(x, reference)
    return ArrayReport("/".join(map(str, path)), _kind(x), shape, size, dense, *errors)


def _kind(x: Any) -> str:
    if not isinstance(x, ImplicitArray):
        return dtype_name(dtype_of(x))
    static = [(name, getattr(x, name)) for name in field_names_of(type(x)).static]
    # Flags and padding are memory layout.
    shown = [(k, y) for k, y in static if y and not isinstance(y, bool) and k != "padding"]
    return " ".join([type(x).__name__, *[f"{name}={value}" for name, value in shown]])


def _errors(x: Any, reference: Any) -> tuple[float | None, float | None]:
    """Return the relative error in norm, and the largest error of an element."""
    actual, expected = _numbers(x), _numbers(reference)
    if not expected.size:
        return 0.0, 0.0
    error = np.abs(actual - expected)
    norm = np.linalg.norm(expected)
    relative = np.linalg.norm(error) / norm if norm else float(error.any())
    return float(relative), float(error.max())


def _numbers(x: Any) -> np.ndarray[Any, Any]:
    """Return an array's numbers in double precision."""
    x = materialize_nested(x, full=True)
    dtype = dtype_of(x)
    # NumPy does not read MLX arrays of half precision.
    narrow = is_inexact(dtype_name(dtype)) and dtype.itemsize < 4
    x = np.asarray(numpy_like(x).cast(x, "float32") if narrow else x)
    wide: np.ndarray[Any, Any] = x if x.dtype.kind == "c" else x.astype("float64")
    return wide


def _sizes(size: int, dense: int) -> tuple[str, str]:
    return str(size), f"{size / max(1, dense):.1%}"


def _figure(x: float | None) -> str:
    return "" if x is None else f"{x:.3g}"


def _align_columns(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
