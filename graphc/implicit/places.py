"""Structures of few elements as sparse matrices, for what only those can hold."""

from __future__ import annotations

from typing import Any

from graphc.implicit.structured import Structured
from graphc.implicit.structures.coordinates import BCOO, bcoo_from_entries
from graphc.implicit.structures.sparse import HasEntries, Sparse, entries_of


def sparse_of(x: Any) -> BCOO | None:
    """Return a structure whose elements have known places as a sparse matrix, else None.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal
        >>> sparse_of(Diagonal(np.ones(3)))
        BCOO(float64[3], int64[3, 2], lengths=(3, 3), unique=True)
    """
    if isinstance(x, Sparse) or not isinstance(x, HasEntries) or not isinstance(x, Structured):
        return None
    if x.ndim < 2 or None in x.shape:
        return None
    m, n = x.shape[-2:]
    return bcoo_from_entries(entries_of(x), (m, n), True)


def reduced(x: Structured, name: str, axes: tuple[int, ...]) -> Any:
    """Reduce a structure over axes, as a sparse matrix where that alone knows how."""
    y = x.reduced(name, axes)
    if y is not NotImplemented:
        return y
    sparse = sparse_of(x)
    return NotImplemented if sparse is None else sparse.reduced(name, axes)
