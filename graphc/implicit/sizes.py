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
        path: Its keys joined by ``/``.
        kind: Its class and static fields; of a whole array, its dtype.
        shape: Its lengths.
        nbytes: The bytes that it takes.
        dense_nbytes: The bytes that the whole array takes.
        relative_error: The norm of what it is off by, over that of the reference; None without one.
        largest_error: The largest magnitude of what an element is off by; None without a reference.
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
        """The bits of an element."""
        return 8 * self.nbytes / max(1, math.prod(self.shape))


@dataclass(frozen=True)
class TreeReport:
    """The sizes and errors of a tree's arrays. As text it is a table, with a row for each.

    Attributes:
        arrays: One for each array, in order.
    """

    arrays: tuple[ArrayReport, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of all."""
        return sum(x.nbytes for x in self.arrays)

    @property
    def dense_nbytes(self) -> int:
        """The bytes that all whole arrays take."""
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
        return "\n".join(_aligned(rows))

    __repr__ = __str__


def report(tree: Any, reference: Any = None) -> TreeReport:
    """The size of each array of a tree, and what it is off by.

    Args:
        tree: A nested container of arrays, some of which may be implicit. Other leaves are left
            out.
        reference: A tree nested in the same way, with the arrays before they were quantized.

    Returns:
        A ``TreeReport``, which prints as a table.

    Raises:
        ArgumentError: The two trees are nested differently.

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
    found = [_reported(path, x) for path, x in flatten_with_path(pairs)[0]]
    return TreeReport(tuple(row for row in found if row is not None))


@dataclass(frozen=True)
class _Pair:
    """An array and its reference."""

    x: Any
    reference: Any


def _reported(path: Path, leaf: Any) -> ArrayReport | None:
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
    return " ".join(
        [type(x).__name__, *(f"{name}={value}" for name, value in static if _is_told(name, value))]
    )


def _is_told(name: str, value: Any) -> bool:
    """Whether a static field is shown: what says how the elements lie is not."""
    return bool(value) and not isinstance(value, bool) and name != "padding"


def _errors(x: Any, reference: Any) -> tuple[float | None, float | None]:
    """What an array is off by, relative to the norm, and at most."""
    given, wanted = _numbers(x), _numbers(reference)
    if not wanted.size:
        return 0.0, 0.0
    off = np.abs(given - wanted)
    norm = np.linalg.norm(wanted)
    relative = np.linalg.norm(off) / norm if norm else float(off.any())
    return float(relative), float(off.max())


def _numbers(x: Any) -> np.ndarray[Any, Any]:
    """An array's numbers in double width."""
    x = materialize_nested(x, full=True)
    dtype = dtype_of(x)
    # NumPy does not read MLX's narrow numbers.
    narrow = is_inexact(dtype_name(dtype)) and dtype.itemsize < 4
    x = np.asarray(numpy_like(x).cast(x, "float32") if narrow else x)
    wide: np.ndarray[Any, Any] = x if x.dtype.kind == "c" else x.astype("float64")
    return wide


def _sizes(size: int, dense: int) -> tuple[str, str]:
    return str(size), f"{size / max(1, dense):.1%}"


def _figure(x: float | None) -> str:
    return "" if x is None else f"{x:.3g}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows of a table, each column as wide as its longest entry."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
