"""Trigonometric and hyperbolic functions: elementwise rows."""

from __future__ import annotations

import math

import numpy as np

from graphc.tensor.core.elementwise import (
    FALLING,
    NONNEGATIVE,
    RISING,
    Facts,
    Unary,
    binary,
    inexact,
    real_inexact,
    sqrt,
    unary,
)

sin = unary(
    "sin",
    "The sine",
    inexact,
    lambda g, y, x: g * cos(x),
    facts=Facts(range=(-1.0, 1.0), fixed=(0,), parity=-1),
    definition="``(exp(i * x) - exp(-i * x)) / (2 * i)``.",
    source="DLMF 4.14.1",
)
cos: Unary = unary(
    "cos",
    "The cosine",
    inexact,
    lambda g, y, x: -g * sin(x),
    facts=Facts(range=(-1.0, 1.0), parity=1),
    definition="``(exp(i * x) + exp(-i * x)) / 2``.",
    source="DLMF 4.14.2",
)
tan = unary(
    "tan",
    "The tangent",
    inexact,
    lambda g, y, x: g * (1 + y * y),
    facts=Facts(poles=(math.pi / 2, -math.pi / 2, ...), fixed=(0,), parity=-1),
    definition="``sin(x) / cos(x)``.",
    source="DLMF 4.14.4",
)
arcsin = unary(
    "arcsin",
    "The inverse sine",
    inexact,
    lambda g, y, x: g / sqrt(1 - x * x),
    facts=Facts(
        range=(-math.pi / 2, math.pi / 2),
        trend=RISING,
        support=((-1.0, 1.0),),
        fixed=(0,),
        parity=-1,
    ),
    definition="``sin(arcsin(x)) = x``.",
    source="DLMF 4.23",
)
arccos = unary(
    "arccos",
    "The inverse cosine",
    inexact,
    lambda g, y, x: -g / sqrt(1 - x * x),
    facts=Facts(range=(0.0, math.pi), trend=FALLING, support=((-1.0, 1.0),)),
    definition="``cos(arccos(x)) = x``.",
    source="DLMF 4.23",
)
arctan = unary(
    "arctan",
    "The inverse tangent",
    inexact,
    lambda g, y, x: g / (1 + x * x),
    facts=Facts(range=(-math.pi / 2, math.pi / 2), trend=RISING, fixed=(0,), parity=-1),
    definition="``tan(arctan(x)) = x``.",
    source="DLMF 4.23",
)
arctan2 = binary(
    "arctan2",
    "The angle of the point (b, a), in radians",
    real_inexact,
    lambda g, y, a, b: (g * b / (a * a + b * b), -g * a / (a * a + b * b)),
    facts=Facts(range=(-math.pi, math.pi)),
)
sinh = unary(
    "sinh",
    "The hyperbolic sine",
    inexact,
    lambda g, y, x: g * cosh(x),
    facts=Facts(trend=RISING, fixed=(0,), parity=-1),
    definition="``(exp(x) - exp(-x)) / 2``.",
    source="DLMF 4.28.1",
)
cosh: Unary = unary(
    "cosh",
    "The hyperbolic cosine",
    inexact,
    lambda g, y, x: g * sinh(x),
    facts=Facts(range=(1.0, math.inf), positive=True, parity=1),
    definition="``(exp(x) + exp(-x)) / 2``.",
    source="DLMF 4.28.2",
)
tanh = unary(
    "tanh",
    "The hyperbolic tangent",
    inexact,
    lambda g, y, x: g * (1 - y * y),
    facts=Facts(range=(-1.0, 1.0), trend=RISING, fixed=(0,), parity=-1),
    definition="``sinh(x) / cosh(x)``.",
    source="DLMF 4.28.4",
)
arcsinh = unary(
    "arcsinh",
    "The inverse hyperbolic sine",
    inexact,
    lambda g, y, x: g / sqrt(x * x + 1),
    facts=Facts(trend=RISING, fixed=(0,), parity=-1),
    definition="``log(x + sqrt(x**2 + 1))``.",
    source="DLMF 4.37.16",
)
arccosh = unary(
    "arccosh",
    "The inverse hyperbolic cosine",
    inexact,
    lambda g, y, x: g / (sqrt(x - 1) * sqrt(x + 1)),
    facts=Facts(range=NONNEGATIVE, trend=RISING, support=((1.0, math.inf),)),
    definition="``log(x + sqrt(x**2 - 1))``.",
    source="DLMF 4.37.19",
)
arctanh = unary(
    "arctanh",
    "The inverse hyperbolic tangent",
    inexact,
    lambda g, y, x: g / (1 - x * x),
    facts=Facts(poles=(-1.0, 1.0), trend=RISING, support=((-1.0, 1.0),), fixed=(0,), parity=-1),
    definition="``log((1 + x) / (1 - x)) / 2``.",
    source="DLMF 4.37.24",
)
deg2rad = unary(
    "deg2rad",
    "Degrees as radians",
    real_inexact,
    lambda g, y, x: g * (np.pi / 180),
    facts=Facts(trend=RISING, fixed=(0,), parity=-1),
    definition="``x * pi / 180``.",
)
rad2deg = unary(
    "rad2deg",
    "Radians as degrees",
    real_inexact,
    lambda g, y, x: g * (180 / np.pi),
    facts=Facts(trend=RISING, fixed=(0,), parity=-1),
    definition="``x * 180 / pi``.",
)
