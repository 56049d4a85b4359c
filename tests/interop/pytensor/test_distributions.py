"""PyMC's distributions: densities, their gradients, and draws, on every backend."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.gradient import NullTypeGradError
from pytensor.graph.traversal import graph_inputs

import graphc
import graphc.tensor as gt
from graphc.interop.pytensor import from_pytensor
from graphc.interop.pytensor.variables import has_value, is_generator
from tests.interop.pytensor.distributions import LEFT_OUT, TABLE, Row
from tests.interop.pytensor.oracle import PYTHON, REWRITTEN, computed
from tests.interop.pytensor.seeds import MODES

pytestmark = pytest.mark.filterwarnings("ignore")  # PyMC uses what PyTensor and NumPy deprecate

AS_WRITTEN_FAILS = {"CAR"}
"""PyTensor's Python code does not run these graphs unless PyTensor rewrites them."""

FUNCTIONS = ("logp", "logcdf", "logccdf", "icdf")
SHARES = np.array([0.1, 0.5, 0.8])
"""Where inverses of cumulative distributions are compared."""

COUNT = 20_000
"""How many draws have the moments."""


def pymc() -> Any:
    """The module, which takes seconds to import."""
    import pymc  # noqa: PLC0415

    return pymc


def symbolic(row: Row) -> tuple[dict[str, Any], list[Any], list[Any]]:
    """Parameters, of which those in floats are inputs, with these inputs and their values."""
    params, inputs, values = dict(row.params), [], []
    for name, value in row.params.items():
        if isinstance(value, float | np.ndarray) and np.asarray(value).dtype == "float64":
            params[name] = pt.tensor(name, dtype="float64", shape=np.shape(value))
            inputs.append(params[name])
            values.append(np.asarray(value))
    return params, inputs, values


def found_by(name: str, dist: Any, x: Any) -> list[Any]:
    """A function of a distribution, at values; nothing where PyMC lacks it."""
    function = getattr(pymc(), name, None)
    at = pt.as_tensor(SHARES) if name == "icdf" else x
    try:
        return [] if function is None else [function(dist, at)]
    except NotImplementedError:
        return []
    except TypeError:  # some are functions of one value only
        return [function(dist, x[1])]


def slopes(y: Any, wrt: list[Any]) -> list[Any]:
    """PyTensor's gradients, if it has them."""
    try:
        return list(pt.grad(y.sum(), wrt, disconnected_inputs="ignore")) if wrt else []
    except NullTypeGradError:
        return []


@functools.cache
def compared(name: str) -> tuple[Any, ...]:
    """Inputs, outputs, values of the inputs, and what PyTensor computes."""
    row = TABLE[name]
    params, inputs, values = symbolic(row)
    dist = row.dist(pymc(), params)
    value = row.values(dist.ndim) if callable(row.values) else row.values
    x = pt.tensor("x", dtype=value.dtype, shape=value.shape)
    densities = [y for f in FUNCTIONS for y in found_by(f, dist, x)]
    wrt = [v for v in (x, *inputs) if v.dtype == "float64"]
    outputs = densities + [g for y in densities for g in slopes(y, wrt)]
    python = REWRITTEN if name in AS_WRITTEN_FAILS else PYTHON
    expected = computed([x, *inputs], outputs, [value, *values], python)
    assert np.isfinite(expected[0]).any()
    return [x, *inputs], outputs, [value, *values], expected


WITH_VALUES = [name for name, row in TABLE.items() if "values" not in row.lacks]
WITH_DRAWS = [name for name, row in TABLE.items() if "draws" not in row.lacks]
FEW = {"Gumbel", "ZeroInflatedPoisson", "MvNormal", "AR"}
"""What ``make test`` runs: a function of one value, a mixture, a vector, a scan."""


def cases(names: list[str], few: set[str]) -> list[Any]:
    return [pytest.param(x, marks=[] if x in few else [pytest.mark.exhaustive]) for x in names]


def runs(names: list[str], few: set[str], modes: tuple[str, ...]) -> list[Any]:
    """A few distributions in every mode, and each other one in one of them."""
    return [
        pytest.param(name, mode, marks=[] if name in few else [pytest.mark.exhaustive])
        for i, name in enumerate(names)
        for mode in (modes if name in few else modes[i % len(modes) :][:1])
    ]


@pytest.mark.whole
@pytest.mark.parametrize(("name", "mode"), runs(WITH_VALUES, FEW, MODES))
def test_densities_and_gradients_are_pytensors(name: str, mode: str) -> None:
    inputs, outputs, values, expected = compared(name)
    ins, outs = from_pytensor([inputs, outputs])
    f = graphc.function(ins, outs, mode=mode, on_unused_input="ignore", returns="numpy")
    for y, found, wanted in zip(outputs, f(*values), expected, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), y
        # Where PyTensor's gradient is no number, as of a branch that was not taken, ours may be.
        known = ~np.isnan(wanted)
        np.testing.assert_allclose(found[known], wanted[known], 1e-10, 1e-10, err_msg=str(y))


def drawn(row: Row, count: int, mode: str, seed: int = 3) -> Any:
    """So many draws of a distribution, as graphc makes them."""
    pm = pymc()
    event = tuple(row.dist(pm, row.params).shape.eval(mode="FAST_COMPILE"))
    y = row.dist(pm, row.params, shape=(count, *event))
    keys = generators(y)
    givens = {x: gt.random.key(seed + i) for i, x in enumerate(keys)}
    return graphc.function([], from_pytensor(y, givens=givens), mode=mode, returns="numpy")()


OUT_OF_RANGE: list[tuple[str, dict[str, Any]]] = [
    ("CAR", {"alpha": 1.0}),
    ("CAR", {"alpha": -1.0}),
    ("CAR", {"W": np.tri(4, dtype=int) - np.eye(4, dtype=int)}),
    *[(name, {"sigma": -1.5}) for name in ("Normal", "HalfNormal", "LogNormal", "LogitNormal")],
    *[(name, {"sigma": -1.5}) for name in ("SkewNormal", "SkewStudentT", "StudentT", "Rice")],
    *[(name, {"sigma": -1.5}) for name in ("Moyal", "TruncatedNormal", "HalfStudentT")],
    ("Rice", {"nu": -1.5}),
    *[(name, {"beta": -1.5}) for name in ("Cauchy", "HalfCauchy", "Gumbel", "Gamma")],
    ("InverseGamma", {"beta": -1.5}),
    ("Exponential", {"lam": -1.5}),
    ("ExGaussian", {"nu": -1.5}),
    ("Laplace", {"b": -1.5}),
    ("Logistic", {"s": -1.5}),
    ("Pareto", {"alpha": -1.5}),
    ("Pareto", {"m": -1.5}),
    ("Weibull", {"alpha": -1.5}),
    ("TruncatedNormal", {"lower": 7.5}),
    ("Triangular", {"lower": 1.5}),
    ("Triangular", {"c": 7.5}),
    ("Uniform", {"lower": 7.5}),
    ("DiscreteUniform", {"upper": -1}),
]


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_the_density_of_rice_is_finite_far_out_where_pytensors_underflows(mode: str) -> None:
    x, nu, sigma = pt.dscalars("x", "nu", "sigma")
    density = pymc().logp(pymc().Rice.dist(nu=nu, sigma=sigma), x)
    *inputs, y = from_pytensor([x, nu, sigma, density])
    f = graphc.function(inputs, y, mode=mode)
    for values in [(100.0, 200.0, 1.0), (1.0, 2.0, 0.01), (199.0, 200.0, 1.0)]:
        with mpmath.workdps(40):
            z, b, s = map(mpmath.mpf, values)
            bessel = mpmath.log(mpmath.besseli(0, z * b / s**2))
            wanted = mpmath.log(z / s**2) - (z**2 + b**2) / (2 * s**2) + bessel
        np.testing.assert_allclose(f(*values), float(wanted), 1e-12)


@pytest.mark.parametrize(("name", "wrong"), OUT_OF_RANGE, ids=str)
def test_draws_are_nan_or_minus_1_where_pymc_refuses_the_parameters(
    name: str, wrong: dict[str, Any], mode: str
) -> None:
    row = replace(TABLE[name], params={**TABLE[name].params, **wrong})
    pm = pymc()
    with pytest.raises(ValueError, match=r"."):
        pm.draw(row.dist(pm, row.params), mode=PYTHON)
    y = drawn(row, 3, mode)
    assert np.all(np.isnan(y) if y.dtype.kind == "f" else y == -1)


def generators(y: Any) -> list[Any]:
    """The generators with a value that a graph draws from."""
    return [x for x in graph_inputs([y]) if is_generator(x) and has_value(x)]


@pytest.mark.whole
@pytest.mark.parametrize("name", cases(WITH_DRAWS, {"StudentT"}))
def test_draws_have_the_moments_of_the_distribution(name: str) -> None:
    row = TABLE[name]
    found = drawn(row, COUNT, "NUMPY")
    known = row.draws
    if known is None:
        dist = row.dist(pymc(), row.params, shape=found.shape)
        assert dist.dtype == found.dtype
        known = pymc().draw(dist, random_seed=1, mode="FAST_COMPILE")
    elif callable(known) and not hasattr(known, "var"):
        known = known(np.random.default_rng(7), COUNT)
    elif hasattr(known, "cdf") and not np.isfinite(known.var()):
        found, known = known.cdf(found), (1 / 2, 1 / 12)
    elif hasattr(known, "var"):
        known = (known.mean(), known.var())
    check_moments(found, known)


def check_moments(found: Any, known: Any) -> None:
    """Mean and variance, within five standard errors of what is known or of other draws."""
    mean, variance = (known.mean(0), known.var(0)) if isinstance(known, np.ndarray) else known
    errors = 2 if isinstance(known, np.ndarray) else 1
    spread = (found - mean) ** 2
    for value, wanted, by in ((found, mean, found), (spread, variance, spread)):
        error = 5 * by.std(0) * np.sqrt(errors / COUNT)
        assert (np.abs(value.mean(0) - wanted) <= error + 1e-9).all(), (value.mean(0), wanted)


@pytest.mark.whole
@pytest.mark.parametrize(("name", "mode"), runs(WITH_DRAWS, set(), ("JAX", "MLX")))
def test_draws_are_the_same_on_every_backend(name: str, mode: str) -> None:
    found, wanted = (drawn(TABLE[name], 20, backend) for backend in (mode, "NUMPY"))
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, 1e-9, 1e-9)


def test_every_distribution_of_pymc_is_in_the_table_or_left_out_for_a_reason() -> None:
    public = set(pymc().distributions.__all__)
    assert public <= {*TABLE, *LEFT_OUT}
    assert not {*TABLE} & {*LEFT_OUT}
