"""Special functions against mpmath, over wide ranges and where SciPy has no answer.

The rows' expansions are evaluated step by step in NumPy; that backends agree is tested in
``tests/contract``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any
from zlib import crc32

import mpmath as mp
import numpy as np
import pytest
from scipy import special

import graphc
import graphc.tensor as gt
from graphc.tensor.core.elementwise import ROWS
from graphc.tensor.special.series import from_definition
from tests.modes import uncompiled

rng = np.random.default_rng(5)
COUNT = 40


@pytest.fixture(autouse=True)
def points_of_its_own(request: pytest.FixtureRequest) -> None:
    """A test's random points are the same whatever runs before it."""
    seed = crc32(request.node.name.encode())
    rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state


def spread(low: float, high: float) -> np.ndarray:
    """Numbers of all magnitudes between two powers of ten."""
    return 10 ** rng.uniform(low, high, COUNT)


def between(low: float, high: float) -> np.ndarray:
    return rng.uniform(low, high, COUNT)


def slope(f: Callable[..., Any], which: int) -> Callable[..., Any]:
    """mpmath's derivative by one operand."""

    def by(*xs: Any) -> Any:
        return mp.diff(lambda t: f(*xs[:which], t, *xs[which + 1 :]), xs[which])

    return by


def lower(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def upper(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True)


def beta_below(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def normal_quantile(p: Any) -> Any:
    start = special.ndtri(float(p))
    return mp.findroot(lambda x: mp.log(mp.ncdf(x)) - mp.log(p), start)


TRUTH: dict[str, tuple[Callable[..., Any], list[np.ndarray], float]] = {
    "erf": (mp.erf, [np.append(between(-5, 5), spread(-9, 0))], 1e-15),
    "erfc": (mp.erfc, [between(-5, 26)], 1e-13),
    "erfinv": (
        mp.erfinv,
        [np.append(between(-1, 1), [*spread(-9, 0), *1 - spread(-15, 0)])],
        1e-15,
    ),
    "ndtri": (normal_quantile, [np.append(between(0, 1), spread(-300, 0))], 2e-15),
    "gamma": (
        mp.gamma,
        [np.append(between(-20, 10), [*between(10, 171), *spread(-300, 0)])],
        2e-15,
    ),
    "gammaln": (
        lambda x: mp.log(abs(mp.gamma(x))),
        [np.append(between(-9, 10), [*spread(0, 9), *1 + spread(-9, 0), *2 - spread(-9, 0)])],
        2e-14,
    ),
    "digamma": (
        mp.digamma,
        [np.append(between(-9, 10), [*spread(-9, 9), *1.4616321449683622 + spread(-9, 0)])],
        2e-14,
    ),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), [between(-5, 25)], 1e-14),
    "log_ndtr": (lambda x: mp.log(mp.ncdf(x)), [between(-60, 8)], 1e-14),
    "expi": (mp.ei, [between(-60, 700)], 1e-13),
    "owens_t": (
        lambda h, a: mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a])
        / (2 * mp.pi),
        [between(-6, 6)[::4], between(-3, 3)[::4]],
        1e-13,
    ),
    "zeta": (mp.zeta, [between(1.1, 30), spread(-3, 1.5)], 1e-13),
    "polygamma": (mp.polygamma, [rng.integers(1, 9, COUNT) * 1.0, between(-7.9, 9)], 1e-11),
    "betaln": (
        lambda a, b: mp.log(mp.beta(a, b)), [spread(-5, 6), spread(-5, 6)], 1e-13
    ),
    "gammainc": (lower, [spread(-4, 3), spread(-4, 3)], 1e-12),
    "gammaincc": (upper, [spread(-4, 3), spread(-4, 3)], 1e-12),
    "gammainc_by_a": (slope(lower, 0), [spread(-2, 1.5), spread(-2, 1.5)], 1e-11),
    "betainc": (beta_below, [spread(-2, 2), spread(-2, 2), between(0.01, 0.99)], 1e-12),
    "betainc_by_a": (
        slope(beta_below, 0), [spread(-1, 1), spread(-1, 1), between(0.01, 0.99)], 1e-11
    ),
    "betainc_by_b": (
        slope(beta_below, 1), [spread(-1, 1), spread(-1, 1), between(0.01, 0.99)], 1e-11
    ),
    "kv": (mp.besselk, [between(-50, 50), spread(-3, 2)], 1e-12),
    "iv": (mp.besseli, [between(-20, 50), spread(-1, 2)], 1e-12),
}  # fmt: skip
"""mpmath's function, operands, and how far the row may be from it."""


@pytest.mark.parametrize("name", TRUTH)
def test_a_function_is_what_mpmath_finds(name: str) -> None:
    truth, xs, tolerance = TRUTH[name]
    with mp.workdps(40):
        wanted = np.array(
            [float(truth(*map(mp.mpf, map(float, x)))) for x in zip(*xs, strict=True)]
        )
    with np.errstate(all="ignore"):
        found = from_definition(ROWS[name].expand)(*xs)
    np.testing.assert_allclose(found, wanted, tolerance, 1e-290)


def test_bessel_functions_of_the_first_kind_are_exact_beside_their_amplitude() -> None:
    v = np.concatenate([between(-30, 60), between(0, 1) * 100, np.arange(0.0, COUNT)])
    x = np.concatenate([spread(-2, 2), spread(0.3, 3.5), spread(0.3, 2)])
    with mp.workdps(40):
        exact = [(mp.besselj(p, q), mp.bessely(p, q)) for p, q in zip(v, x, strict=True)]
    wanted = np.array([float(j) for j, _ in exact])
    # Below its order J is no oscillation, and its own size counts.
    waves = np.array([float(mp.hypot(j, y)) for j, y in exact])
    amplitude = np.where(np.abs(v) < x, waves, np.abs(wanted))
    with np.errstate(all="ignore"):
        found = from_definition(ROWS["jv"].expand)(v, x)
    assert np.max(np.abs(found - wanted) / amplitude) < 5e-13


HARD: list[tuple[str, tuple[float, ...], float]] = [
    (
        "owens_t",
        (7.25, 2.220446049250313e-16),
        float(np.finfo(float).eps / (2 * np.pi) * np.exp(-(7.25**2) / 2)),
    ),
    ("kl_div", (7.25, 2.2250738585072014e-308), 5142.986295007459),
    ("polygamma", (30.0, -1.5), -1.2232990235e20),
    ("gammainc", (1e-300, 1e-5), 1.0),
    ("iv", (1.0, 1e-307), 5e-308),
    ("kve", (2.0, 1e8), float(mp.sqrt(mp.pi / 2e8) * (1 + mp.mpf(15) / 8e8))),
    ("kve", (1.5, 0.1), float(mp.sqrt(mp.pi / 0.2) * 11)),
    ("kve", (0.0, 1e306), float(mp.sqrt(mp.pi / 2e306))),
    ("ive", (0.0, 1e306), float(1 / mp.sqrt(2e306 * mp.pi))),
    ("iv", (-1.5, 0.0), -np.inf),
    ("jv", (-1.5, 0.0), -np.inf),
    ("zeta", (1e308, 1.5), 0.0),
    ("zeta", (np.inf, 0.5), np.inf),
    ("gammainc", (1e308, 1e308), 0.5),
    ("gammainc", (1e308, 1e5), 0.0),
    ("betainc", (1e-300, 1e-300, 0.99), 0.5),
    ("betainc", (500000.0, 0.03125, 0.9999), 1.3566755615388677e-25),
    ("betainc", (820.0, 0.0244, 0.9955), 0.0001404254043909903),
    ("kl_div", (1e-10, 1e308), 1e308),
]


@pytest.mark.parametrize(("name", "xs", "wanted"), HARD)
def test_there_is_an_answer_where_scipy_has_none(
    name: str, xs: tuple[float, ...], wanted: float
) -> None:
    with np.errstate(all="ignore"):
        found = from_definition(ROWS[name].expand)(*map(np.float64, xs))
    np.testing.assert_allclose(found, wanted, 1e-10)


@pytest.mark.parametrize("how", ["by a loop", "without loops"])
def test_slopes_of_the_hypergeometric_function_are_mpmaths(how: str) -> None:
    xs = [between(-4, 5), between(-4, 5), between(0.3, 6), between(-0.95, 0.95)]
    xs[3][::5] = -spread(0, 2)[::5]
    for i, name in enumerate("abc"):
        with mp.workdps(30):
            points = zip(*(map(float, x) for x in xs), strict=True)
            wanted = [float(slope(mp.hyp2f1, i)(*map(mp.mpf, point))) for point in points]
        row = ROWS[f"hyp2f1_by_{name}"]
        with np.errstate(all="ignore"):
            found = (from_definition(row.expand) if how == "without loops" else row.reference)(*xs)
        np.testing.assert_allclose(found, wanted, 1e-9)


def test_the_hypergeometric_function_without_loops_is_mpmaths() -> None:
    xs = [between(-8, 8), between(-8, 8), between(0.3, 8), between(-0.95, 0.95)]
    xs[0][::6], xs[2][1::6] = -3.0, xs[0][1::6]
    xs[3][::5], xs[3][1::5] = -spread(0, 2)[::5], 1 - spread(-12, -1)[1::5]
    with mp.workdps(30):
        points = zip(*(map(float, x) for x in xs), strict=True)
        wanted = [float(mp.hyp2f1(*map(mp.mpf, point))) for point in points]
    with np.errstate(all="ignore"):
        found = from_definition(ROWS["hyp2f1"].expand)(*xs)
    np.testing.assert_allclose(found, wanted, 1e-11)


def test_the_hypergeometric_function_is_nan_where_a_series_without_loops_is_too_short() -> None:
    with np.errstate(all="ignore"):
        found = from_definition(ROWS["hyp2f1"].expand)(*map(np.array, (900.0, 900.0, 1.0, 0.5)))
    assert np.isnan(found)


def test_slopes_of_a_hypergeometric_polynomial_count_the_terms_that_vanish() -> None:
    points = [(-2.0, 1.3, 2.2, 0.4), (-2.0, 1.3, 2.2, -3.0), (1.2, -3.0, 2.2, 0.8)]
    found = ROWS["hyp2f1_by_a"].reference(*map(np.array, zip(*points, strict=True)))
    wanted = [float(slope(mp.hyp2f1, 0)(*map(mp.mpf, point))) for point in points]
    np.testing.assert_allclose(found, wanted, 1e-11)


def test_bessel_functions_keep_their_phase_far_out() -> None:
    x = np.array([1e6, 1e8, 1e10, 1e15, 1e200])
    with mp.workdps(230):
        wanted = [[float(mp.besselj(n, mp.mpf(float(z)))) for z in x] for n in range(2)]
    for n in range(2):
        with np.errstate(all="ignore"):
            found = from_definition(ROWS[f"j{n}"].expand)(x)
        assert np.max(np.abs(found - wanted[n]) * np.sqrt(x)) < 1e-12


# Inverses, which each backend has of its own.


def magnitudes(low: float, high: float, count: int) -> np.ndarray:
    return 10 ** np.random.default_rng(count).uniform(low, high, count)


INVERSES: dict[str, tuple[str, list[np.ndarray]]] = {
    "gammaincinv": ("gammainc", [magnitudes(-2, 5, 300)]),
    "gammainccinv": ("gammaincc", [magnitudes(-2, 5, 300)]),
    "betaincinv": ("betainc", [magnitudes(-1.5, 3, 300), magnitudes(-1.5, 3, 301)[1:]]),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("backend", ["JAX", "MLX"])
@pytest.mark.parametrize("name", INVERSES)
def test_an_inverse_is_scipys_and_leads_back(name: str, backend: str) -> None:
    direct, parameters = INVERSES[name]
    y = np.where(np.arange(300) % 2, rng.uniform(0, 1, 300), 10 ** rng.uniform(-12, 0, 300))
    xs = gt.vectors(*"abc"[: len(parameters) + 1])
    f = graphc.function(xs, ROWS[name](*xs), mode=uncompiled(backend), returns="numpy")
    found = f(*parameters, y)
    np.testing.assert_allclose(found, getattr(special, name)(*parameters, y), 1e-12, 1e-290)
    there = getattr(special, direct)(*parameters, found)
    # An x next to 1 has no digits left of its distance to it, nor one next to 0 of its own.
    with np.errstate(all="ignore"):
        lost = (found > 1 - 1e-3) if name == "betaincinv" else np.zeros(300, bool)
    lost |= found < 1e-290
    np.testing.assert_allclose(there[~lost], y[~lost], 1e-11)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("backend", ["JAX", "MLX"])
@pytest.mark.parametrize("name", INVERSES)
def test_beyond_a_probability_there_is_no_inverse(name: str, backend: str) -> None:
    xs = gt.vectors(*"abc"[: ROWS[name].arity])
    given = [np.array([0.5, 1e-16])] * (len(xs) - 1)
    f = graphc.function(xs, ROWS[name](*xs), mode=uncompiled(backend), returns="numpy")
    for y in (-1e-9, 1.5):
        assert np.isnan(f(*given, np.array([y, y]))).all()


def test_the_inverse_is_exact_where_a_tail_ends_suddenly() -> None:
    # Next to 1 for a small b, and next to 0 for a small a.
    a, b, y = np.array([(0.0667, 21.36, 0.88990586), (13.7, 0.0322, 0.07), (0.2, 30.0, 0.7)]).T
    with np.errstate(all="ignore"):
        found = from_definition(ROWS["betaincinv"].expand)(a, b, y)
    np.testing.assert_allclose(found, special.betaincinv(a, b, y), 2e-13)


# Functions made of rows.

POINTS = np.array([0.3, 1.0, 2.5, 7.0, 40.0])
WHOLE = special.gamma(2.5)
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "beta": (lambda x: gt.beta(x, 2.5), lambda x: special.beta(x, 2.5)),
    "beta below 0": (lambda x: gt.beta(-x - 0.1, 2.3), lambda x: special.beta(-x - 0.1, 2.3)),
    "factorial": (gt.factorial, special.factorial),
    "poch": (lambda x: gt.poch(x, 2.5), lambda x: special.poch(x, 2.5)),
    "gammal": (lambda x: gt.gammal(2.5, x), lambda x: special.gammainc(2.5, x) * WHOLE),
    "gammau": (lambda x: gt.gammau(2.5, x), lambda x: special.gammaincc(2.5, x) * WHOLE),
    "chi2sf": (lambda x: gt.chi2sf(x, 3), lambda x: special.chdtrc(3, x)),
    "kn": (lambda x: gt.kn(2, x), lambda x: special.kn(2, x)),
    "multigammaln": (
        lambda x: gt.multigammaln(x + 2, 4),
        lambda x: np.array([special.multigammaln(v + 2, 4) for v in x]),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_rows_is_scipys(name: str) -> None:
    ours, theirs = FUNCTIONS[name]
    x = gt.vector("x")
    found = ours(x).eval({x: POINTS}, mode="NUMPY")
    np.testing.assert_allclose(found, theirs(POINTS), 1e-11)


def test_the_beta_function_beside_a_large_number_is_a_power() -> None:
    a = np.array([1.5, -2.5, 0.25, -0.5, 3.0, -2.5])
    b = np.array([1e301, 1e15, 1e305, 1e10, np.inf, np.inf])
    x, y = gt.vectors("x", "y")
    found = graphc.function([x, y], [gt.betaln(x, y), gt.beta(x, y)], "NUMPY")(a, b)
    np.testing.assert_allclose(found, [special.betaln(a, b), special.beta(a, b)], 1e-12)


def test_the_beta_function_has_derivatives_where_it_is_0() -> None:
    a, b = np.array([-1.5, 0.5, -2.5, 1.25]), np.array([-1.5, -0.5, 2.5, -3.25])
    x, y = gt.vectors("x", "y")
    slope = graphc.grad(gt.beta(x, y).sum(), x)
    f = graphc.function([x, y], [gt.beta(x, y), slope, *graphc.grad(slope.sum(), [x, y])], "NUMPY")

    def derivative(orders: tuple[int, int]) -> list[float]:
        points = zip(a.tolist(), b.tolist(), strict=True)
        return [
            float(mp.diff(lambda p, q: mp.gammaprod([p, q], [p + q]), at, orders)) for at in points
        ]

    for found, orders in zip(f(a, b), [(0, 0), (1, 0), (2, 0), (1, 1)], strict=True):
        np.testing.assert_allclose(found, derivative(orders), 1e-11, 1e-11)


def test_the_beta_function_of_a_whole_number_has_derivatives_where_poles_cancel() -> None:
    x = gt.vector("x")
    at = np.array([-1.0, -2.0, -0.5])
    slope = graphc.grad(gt.beta(x, 1.0).sum(), x)
    outputs = [gt.beta(x, 1.0), slope, graphc.grad(slope.sum(), x)]
    found = graphc.function([x], outputs, "NUMPY")(at)
    np.testing.assert_allclose(found, [1 / at, -1 / at**2, 2 / at**3], 1e-13)


def test_a_slope_of_the_beta_function_where_it_is_0_may_overflow_alone() -> None:
    x = gt.scalar("x")
    y = gt.beta(x, x)
    f = graphc.function([x], [y, graphc.grad(y, x)], "NUMPY")
    found = f(-1000.5)
    assert found[0] == 0
    assert found[1] < -1e300


def test_a_dimension_is_a_positive_integer() -> None:
    for d in (0, 1.5, True):
        with pytest.raises(graphc.errors.ArgumentError, match="dimension"):
            gt.multigammaln(3.0, d)


def test_an_order_that_is_whole_or_constant_lets_the_gradient_through() -> None:
    n, x = gt.lscalar("n"), gt.scalar("x")
    g = graphc.grad(gt.jv(n, x), x).eval({n: 2, x: 1.5}, mode="NUMPY")
    np.testing.assert_allclose(g, special.jvp(2, 1.5), 1e-14)


def test_importing_graphc_takes_no_special_functions() -> None:
    script = "import sys, graphc.tensor; sys.exit('scipy.special' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


INF, NAN = np.inf, np.nan
LIMITS: dict[str, list[tuple[float, float, float]]] = {
    "iv": [(0, INF, INF), (-0.5, INF, INF), (INF, 5, 0), (INF, INF, NAN), (-INF, 5, NAN)],
    "ive": [(1, INF, 0), (-0.5, INF, 0), (-0.5, 0, INF), (-1.5, 0, -INF), (INF, INF, NAN)],
    "kv": [(0, INF, 0), (INF, 5, INF), (-INF, 5, INF), (INF, INF, NAN), (NAN, 0, NAN)],
    "kve": [(2.5, INF, 0), (0, 0, INF), (INF, 5, INF), (-INF, INF, NAN), (1, -INF, NAN)],
    "jv": [(0, 0, 1), (INF, 0, 0), (-INF, 0, NAN), (NAN, 0, NAN), (-1.5, 0, -INF)],
    "beta": [(INF, 2, 0), (0.5, INF, 0), (INF, INF, 0), (INF, -0.5, -INF), (-1.5, INF, INF)],
    "betaln": [(INF, 2, -INF), (INF, INF, -INF), (-0.5, INF, INF), (0, INF, INF), (INF, NAN, NAN)],
    "poch": [(INF, 2.5, INF), (INF, 0, 1), (INF, -1.5, 0), (-INF, 1, -INF), (-INF, 2, INF),
             (-INF, 0.5, NAN), (-2, INF, 0), (2, INF, INF), (INF, INF, INF), (NAN, 0, NAN)],
}  # fmt: skip
"""Operands and limits, of Bessel functions at 0 or infinity: DLMF 10.2.2, 10.25.2, 10.30, 10.40;
of gamma functions by Stirling's formula."""


@pytest.mark.parametrize("name", LIMITS)
def test_functions_have_their_limits_on_every_backend(name: str, mode: str) -> None:
    orders, points, limits = np.array(LIMITS[name], float).T
    v, x = gt.vector("v"), gt.vector("x")
    f = graphc.function([v, x], getattr(gt, name)(v, x), mode=uncompiled(mode), returns="numpy")
    np.testing.assert_array_equal(f(orders, points), limits)


def test_gradients_are_finite_beside_limits() -> None:
    z, m = gt.vectors("z", "m")
    f = graphc.function([z, m], graphc.grad(gt.poch(z, m).sum() + gt.beta(z, 2.5).sum(), [z, m]))
    by_z, by_m = f([1.5, -0.5], [-0.5, 2.5])
    value, slope = special.poch([1.5, -0.5], [-0.5, 2.5]), special.digamma
    np.testing.assert_allclose(by_m, value * slope(np.array([1.0, 2.0])), 1e-10)
    beta = special.beta([1.5, -0.5], 2.5) * (slope([1.5, -0.5]) - slope([4.0, 2.0]))
    np.testing.assert_allclose(by_z, value * (slope([1.0, 2.0]) - slope([1.5, -0.5])) + beta, 1e-10)
