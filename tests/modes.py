"""How a backend is asked for where a test is about single operations."""

from __future__ import annotations

from typing import Any

import graphc
from graphc.link import as_numpy

__all__ = ["dtype_of", "lacks", "uncompiled"]

LACKING = {"MLX": frozenset({"complex128"})}
"""The dtypes that a backend does not have."""


def uncompiled(backend: str, **options: Any) -> graphc.Mode:
    """The backend; MLX without the C++ compiler, which takes a second for each fused kernel."""
    return graphc.Mode(backend, **{"compile": False, **options} if backend == "MLX" else options)


def lacks(backend: str, dtype: str) -> bool:
    """Whether the backend has no arrays of that dtype."""
    return dtype in LACKING.get(backend, ())


def dtype_of(y: Any) -> str:
    """The name of the dtype of any backend's array."""
    return as_numpy(y).dtype.name
