"""Trigonometric and hyperbolic functions: rows of the table."""

from __future__ import annotations

import numpy as np

from graphc.tensor.elementwise import Elementwise, binary, inexact, real_inexact, sqrt, unary

__all__: list[str] = []

sin = unary("sin", "The sine", inexact, lambda g, y, x: g * cos(x))
cos: Elementwise = unary("cos", "The cosine", inexact, lambda g, y, x: -g * sin(x))
tan = unary("tan", "The tangent", inexact, lambda g, y, x: g * (1 + y * y))
arcsin = unary("arcsin", "The inverse sine", inexact, lambda g, y, x: g / sqrt(1 - x * x))
arccos = unary("arccos", "The inverse cosine", inexact, lambda g, y, x: -g / sqrt(1 - x * x))
arctan = unary("arctan", "The inverse tangent", inexact, lambda g, y, x: g / (1 + x * x))
arctan2 = binary(
    "arctan2",
    "The angle of the point (b, a), in radians",
    real_inexact,
    lambda g, y, a, b: (g * b / (a * a + b * b), -g * a / (a * a + b * b)),
)
sinh = unary("sinh", "The hyperbolic sine", inexact, lambda g, y, x: g * cosh(x))
cosh: Elementwise = unary("cosh", "The hyperbolic cosine", inexact, lambda g, y, x: g * sinh(x))
tanh = unary("tanh", "The hyperbolic tangent", inexact, lambda g, y, x: g * (1 - y * y))
arcsinh = unary(
    "arcsinh", "The inverse hyperbolic sine", inexact, lambda g, y, x: g / sqrt(x * x + 1)
)
arccosh = unary(
    "arccosh",
    "The inverse hyperbolic cosine",
    inexact,
    lambda g, y, x: g / (sqrt(x - 1) * sqrt(x + 1)),
)
arctanh = unary(
    "arctanh", "The inverse hyperbolic tangent", inexact, lambda g, y, x: g / (1 - x * x)
)
deg2rad = unary("deg2rad", "Degrees as radians", real_inexact, lambda g, y, x: g * (np.pi / 180))
rad2deg = unary("rad2deg", "Radians as degrees", real_inexact, lambda g, y, x: g * (180 / np.pi))
