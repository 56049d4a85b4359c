"""Trigonometric and hyperbolic functions: elementwise rows."""

from __future__ import annotations

import math

import numpy as np

from graphc.tensor.core import elementwise as ew

__all__ = [
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cos", "cosh",
    "deg2rad", "rad2deg", "sin", "sinh", "tan", "tanh",
]  # fmt: skip

sin = ew.unary(
    "sin",
    "The sine",
    ew.inexact,
    lambda g, y, x: g * cos(x),
    facts=ew.Facts(range=(-1.0, 1.0), fixed=(0,), parity=-1),
    definition="``(exp(i * x) - exp(-i * x)) / (2 * i)``.",
    source="DLMF 4.14.1",
)
cos: ew.Unary = ew.unary(
    "cos",
    "The cosine",
    ew.inexact,
    lambda g, y, x: -g * sin(x),
    facts=ew.Facts(range=(-1.0, 1.0), parity=1),
    definition="``(exp(i * x) + exp(-i * x)) / 2``.",
    source="DLMF 4.14.2",
)
tan = ew.unary(
    "tan",
    "The tangent",
    ew.inexact,
    lambda g, y, x: g * (1 + y * y),
    facts=ew.Facts(poles=(math.pi / 2, -math.pi / 2, ...), fixed=(0,), parity=-1),
    definition="``sin(x) / cos(x)``.",
    source="DLMF 4.14.4",
)
arcsin = ew.unary(
    "arcsin",
    "The inverse sine",
    ew.inexact,
    lambda g, y, x: g / ew.sqrt(1 - x * x),
    facts=ew.Facts(
        range=(-math.pi / 2, math.pi / 2),
        trend=ew.RISING,
        support=((-1.0, 1.0),),
        fixed=(0,),
        parity=-1,
    ),
    definition="``sin(arcsin(x)) = x``.",
    source="DLMF 4.23",
)
arccos = ew.unary(
    "arccos",
    "The inverse cosine",
    ew.inexact,
    lambda g, y, x: -g / ew.sqrt(1 - x * x),
    facts=ew.Facts(range=(0.0, math.pi), trend=ew.FALLING, support=((-1.0, 1.0),)),
    definition="``cos(arccos(x)) = x``.",
    source="DLMF 4.23",
)
arctan = ew.unary(
    "arctan",
    "The inverse tangent",
    ew.inexact,
    lambda g, y, x: g / (1 + x * x),
    facts=ew.Facts(range=(-math.pi / 2, math.pi / 2), trend=ew.RISING, fixed=(0,), parity=-1),
    definition="``tan(arctan(x)) = x``.",
    source="DLMF 4.23",
)
arctan2 = ew.binary(
    "arctan2",
    "The angle of the point (b, a), in radians",
    ew.real_inexact,
    lambda g, y, a, b: (g * b / (a * a + b * b), -g * a / (a * a + b * b)),
    facts=ew.Facts(range=(-math.pi, math.pi)),
)
sinh = ew.unary(
    "sinh",
    "The hyperbolic sine",
    ew.inexact,
    lambda g, y, x: g * cosh(x),
    facts=ew.Facts(trend=ew.RISING, fixed=(0,), parity=-1),
    definition="``(exp(x) - exp(-x)) / 2``.",
    source="DLMF 4.28.1",
)
cosh: ew.Unary = ew.unary(
    "cosh",
    "The hyperbolic cosine",
    ew.inexact,
    lambda g, y, x: g * sinh(x),
    facts=ew.Facts(range=(1.0, math.inf), positive=True, parity=1),
    definition="``(exp(x) + exp(-x)) / 2``.",
    source="DLMF 4.28.2",
)
tanh = ew.unary(
    "tanh",
    "The hyperbolic tangent",
    ew.inexact,
    lambda g, y, x: g * (1 - y * y),
    facts=ew.Facts(range=(-1.0, 1.0), trend=ew.RISING, fixed=(0,), parity=-1),
    definition="``sinh(x) / cosh(x)``.",
    source="DLMF 4.28.4",
)
arcsinh = ew.unary(
    "arcsinh",
    "The inverse hyperbolic sine",
    ew.inexact,
    lambda g, y, x: g / ew.sqrt(x * x + 1),
    facts=ew.Facts(trend=ew.RISING, fixed=(0,), parity=-1),
    definition="``log(x + sqrt(x**2 + 1))``.",
    source="DLMF 4.37.16",
)
arccosh = ew.unary(
    "arccosh",
    "The inverse hyperbolic cosine",
    ew.inexact,
    lambda g, y, x: g / (ew.sqrt(x - 1) * ew.sqrt(x + 1)),
    facts=ew.Facts(range=ew.NONNEGATIVE, trend=ew.RISING, support=((1.0, math.inf),)),
    definition="``log(x + sqrt(x**2 - 1))``.",
    source="DLMF 4.37.19",
)
arctanh = ew.unary(
    "arctanh",
    "The inverse hyperbolic tangent",
    ew.inexact,
    lambda g, y, x: g / (1 - x * x),
    facts=ew.Facts(
        poles=(-1.0, 1.0), trend=ew.RISING, support=((-1.0, 1.0),), fixed=(0,), parity=-1
    ),
    definition="``log((1 + x) / (1 - x)) / 2``.",
    source="DLMF 4.37.24",
)
deg2rad = ew.unary(
    "deg2rad",
    "Degrees as radians",
    ew.real_inexact,
    lambda g, y, x: g * (np.pi / 180),
    facts=ew.Facts(trend=ew.RISING, fixed=(0,), parity=-1),
    definition="``x * pi / 180``.",
)
rad2deg = ew.unary(
    "rad2deg",
    "Radians as degrees",
    ew.real_inexact,
    lambda g, y, x: g * (180 / np.pi),
    facts=ew.Facts(trend=ew.RISING, fixed=(0,), parity=-1),
    definition="``x * 180 / pi``.",
)
