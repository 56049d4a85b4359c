"""The hypergeometric function 2F1 of real numbers, as in ``scipy.special``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.tensor.core import elementwise as ew
from graphc.tensor.special.continuation import hyp2f1_in_parts, slope_in_parts

__all__ = ["hyp2f1", "hyp2f1_by_a", "hyp2f1_by_b", "hyp2f1_by_c"]

TERMS = 2000
"""The most terms of a series that are added; most need fewer than 100."""

STEPS = 400
"""The most steps by which the function is continued."""

NOTHING = 1e-17
"""A term of this relative size changes no digit of the sum."""

TINY = 1e-20
"""An imaginary step, small enough that its error vanishes beside the derivative."""

Loop = Callable[[Callable[[Any], Any], Callable[[Any], Any], Any], Any]
"""Function of a condition, a change and a state, which changes it while the condition holds."""


def _repeat(condition: Callable[[Any], Any], change: Callable[[Any], Any], state: Any) -> Any:
    while condition(state):
        state = change(state)
    return state


def hyp2f1_below_one(lib: Any, loop: Loop, *xs: Any) -> Any:
    """Return 2F1(a, b; c; z) for z < 1, of real or complex a, b, c, by an array library.

    The method is the series at 0 up to |z| = 1/2, then Taylor series of the differential equation's
    solution, each from the value and derivative of the one before. All terms of a
    polynomial are added.

    Args:
        lib: ``numpy``, ``jax.numpy`` or the like.
        loop: The library's while loop.
        xs: The parameters a, b and c, of one shape and dtype, and z, real and of that shape.
    """
    a, b, c, z = xs
    whole = _degree(lib, a, b)
    # Pfaff's transformation (DLMF 15.8.1), with the parameter of slower decay.
    turned = (whole == np.inf) & (z < -0.3)
    first, other = (lib.where(a.real <= b.real, *pair) for pair in ((a, b), (b, a)))
    factor = lib.where(turned, (1 - lib.where(turned, z, 0)) ** (-first), 1)
    a, b = lib.where(turned, first, a), lib.where(turned, c - other, b)
    z = lib.where(turned, z / (z - 1), z)
    whole = lib.where(turned, _degree(lib, a, b), whole)
    at = lib.where(whole < np.inf, z, lib.clip(z, -0.5, 0.5))
    y, slope = _series(lib, loop, (a, b, c), at, whole)

    def further(state: Any) -> Any:
        count, at, *_ = state
        return (count < STEPS) & lib.any(at != z)

    def step(state: Any) -> Any:
        count, at, y, slope = state
        reach = lib.minimum(lib.abs(at), lib.abs(1 - at)) / 2
        move = lib.clip(z - at, -reach, reach)
        near = lib.abs(z - at) <= reach
        y, slope = _move(lib, loop, (a, b, c), at, move, (y, slope))
        return count + 1, lib.where(near, z, at + move), y, slope

    return factor * loop(further, step, (0, at, y, slope))[2]


def _degree(lib: Any, a: Any, b: Any) -> Any:
    """Return the polynomial's degree; infinity where the series does not terminate."""
    roots = []
    for p in (a, b):
        # An imaginary step makes it no polynomial.
        whole = (p.real <= 0) & (p.real == lib.floor(p.real)) & (p.imag == 0)
        roots.append(lib.where(whole, -p.real, np.inf))
    return lib.minimum(*roots)


def _is_nothing(lib: Any, total: Any, *terms: Any) -> Any:
    """Return whether terms change no digit of a sum, nor of its smaller imaginary part."""
    re, im = (sum(lib.abs(part(x)) for x in terms) for part in (lib.real, lib.imag))
    return (re <= NOTHING * lib.abs(total.real)) & (im <= NOTHING * lib.abs(total.imag))


def _series(lib: Any, loop: Loop, parameters: Any, at: Any, whole: Any) -> tuple[Any, Any]:
    """Return the value and the derivative at a point by the series at 0 (DLMF 15.2.1)."""
    a, b, c = parameters

    def more(state: Any) -> Any:
        k, term, y, _ = state
        return (k < TERMS) & lib.any(~_is_nothing(lib, y, term) & (k <= whole))

    def add_term(state: Any) -> Any:
        k, term, y, slope = state
        term = lib.where(k <= whole, term * (a + k) * (b + k) / ((c + k) * (k + 1)), 0)
        slope = slope + (k + 1) * term
        term = term * at
        return k + 1, term, y + term, slope

    one = a * 0 + 1
    _, _, y, slope = loop(more, add_term, (0.0, one, one, 0 * one))
    return y, slope


def _move(
    lib: Any, loop: Loop, parameters: Any, at: Any, move: Any, start: tuple[Any, Any]
) -> tuple[Any, Any]:
    """Return value and derivative a step further, by the Taylor series (DLMF 15.10.1)."""
    a, b, c = parameters
    y, slope = start
    still = move == 0
    base, bend = lib.where(still, 1, at * (1 - at)), 1 - 2 * at
    lead = c - (a + b + 1) * at

    def more(state: Any) -> Any:
        k, p, q, total, _ = state
        return (k < TERMS) & lib.any(~_is_nothing(lib, total, p, q) & ~still)

    def add_term(state: Any) -> Any:
        k, p, q, total, sloped = state
        r = (k + a) * (k + b) * p * move * move - (k + 1) * (k * bend + lead) * q * move
        r = lib.where(still, 0, r / ((k + 2) * (k + 1) * base))
        return k + 1, q, r, total + r, sloped + (k + 2) * r

    first = slope * move
    *_, total, sloped = loop(more, add_term, (0.0, y, first, y + first, first))
    return total, lib.where(still, slope, sloped / lib.where(still, 1, move))


def slope(lib: Any, loop: Loop, which: int, *xs: Any) -> Any:
    """Return the derivative with respect to one parameter, by an imaginary step in it.

    Source: Squire & Trapp, SIAM Review 40(1), 1998.
    """
    z = xs[3]
    sound = (z < 1) & lib.isfinite(xs[0] + xs[1] + xs[2] + z)
    inner = [lib.where(sound, x, y) for x, y in zip(xs, (1.0, 1.0, 1.0, 0.0), strict=True)]
    parameters = [x + (1j * TINY if i == which else 0j) for i, x in enumerate(inner[:3])]
    y = hyp2f1_below_one(lib, loop, *parameters, inner[3])
    return lib.where(sound, y.imag / TINY, np.nan)


def _slope_in_numpy(which: int) -> Callable[..., Any]:
    def reference(*xs: Any) -> Any:
        dtype = xs[0].dtype
        wide = np.broadcast_arrays(*[np.asarray(x, np.float64) for x in xs])
        return slope(np, _repeat, which, *wide).astype(dtype)

    return reference


def _row_of_slope(name: str, which: int) -> ew.Elementwise:
    return ew.several(
        4,
        f"hyp2f1_by_{name}",
        f"The slope of hyp2f1(a, b, c, z) by {name}; relative error about 1e-12",
        ew.real_inexact,
        lambda g, y, *xs: tuple(
            ew.missing_gradient(f"hyp2f1_by_{name}", p, x) for p, x in zip("abcz", xs, strict=True)
        ),
        _slope_in_numpy(which),
        expand=slope_in_parts(which),
    )


hyp2f1_by_a = _row_of_slope("a", 0)
hyp2f1_by_b = _row_of_slope("b", 1)
hyp2f1_by_c = _row_of_slope("c", 2)
hyp2f1: ew.Elementwise = ew.several(
    4,
    "hyp2f1",
    "The hypergeometric function 2F1(a, b; c; z) of real numbers",
    ew.real_inexact,
    lambda g, y, a, b, c, z: (
        g * hyp2f1_by_a(a, b, c, z),
        g * hyp2f1_by_b(a, b, c, z),
        g * hyp2f1_by_c(a, b, c, z),
        g * a * b / c * hyp2f1(a + 1, b + 1, c + 1, z),
    ),
    ew.from_scipy("hyp2f1", wide=True),
    expand=hyp2f1_in_parts,
    definition="The sum of ``poch(a, k) * poch(b, k) / poch(c, k) * z**k / k!`` over k = 0, "
    "1, ..., for ``|z| < 1``; its continuation for z < -1.",
    source="DLMF 15.2.1",
)
