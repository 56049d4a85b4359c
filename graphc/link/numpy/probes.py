"""Probes of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.link.probe import Finding, Probe


def blas() -> Finding:
    """Linear algebra."""
    import scipy.linalg

    # Without this mode NumPy prints the configuration.
    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    name = f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    is_right = np.allclose(scipy.linalg.solve(a, a @ a), a)
    return Finding("linear algebra", name, "", wrong=not is_right)


PROBES: tuple[Probe, ...] = (blas,)
