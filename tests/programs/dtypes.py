"""Dtypes: constructors, casts, mixed arithmetic, integer division, and what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt


def program() -> list[Any]:
    i, u = pt.ivector("i"), pt.vector("u", dtype="uint8")
    s, d = pt.fvector("s"), pt.dvector("d")
    outputs = [
        i + u,
        i / 2,
        i // 2,
        i % 3,
        s * d,
        s + np.float32(0.5),
        s.astype("int32"),
        pt.cast(d, "float32"),
        pt.round(d),
        pt.eq(i, 1),
        i.sum(),
        u.mean(),
        pt.ones_like(s),
        i * s.astype("float64"),
    ]
    f = graphc.function([i, u, s, d], outputs)
    x = np.array([-3, 1, 4])
    found = f(
        x.astype("int32"),
        np.array([250, 1, 7], "uint8"),
        np.array([0.5, -1.7, 2.5], "float32"),
        x / 2,
    )
    names = [y.dtype == np.asarray(z).dtype for y, z in zip(outputs, found, strict=True)]
    return [*found, np.array(names)]


def expected() -> list[Any]:
    i = np.array([-3, 1, 4], "int32")
    s, d = np.array([0.5, -1.7, 2.5], "float32"), np.array([-1.5, 0.5, 2.0])
    return [
        np.array([247, 2, 11]),
        np.array([-1.5, 0.5, 2.0]),
        np.array([-2, 0, 2]),
        np.array([0, 1, 1]),
        s.astype("float64") * d,
        s + np.float32(0.5),
        np.array([0, -1, 2]),
        d.astype("float32"),
        np.array([-2.0, 0.0, 2.0]),
        np.array([False, True, False]),
        2,
        86.0,
        np.ones(3, "float32"),
        i * s.astype("float64"),
        np.full(14, True),
    ]
