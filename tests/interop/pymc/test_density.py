"""Log-densities and gradients of PyMC's models as compiled functions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pymc as pm
import pytest
from pymc.blocking import DictToArrayBijection
from pymc.logprob.utils import CheckParameterValue, ParameterValueError

from graphc.errors import ArgumentError, RuntimeShapeError
from graphc.interop.pymc import logp
from tests.interop.pymc.measured import measured, near
from tests.interop.pytensor.models import MODELS
from tests.interop.pytensor.oracle import PYTHON

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

NAMES = (
    *("eight_schools", "hidden_markov", "correlated", "ordered", "mixture", "missing", "garch"),
    *("truncated", "random_walk", "gaussian_process"),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_are_those_of_pymc(name: str, mode: str) -> None:
    model = MODELS[name]()
    point = near(model)
    f = logp(model, mode=mode)
    value, gradient = f(f.ravel(point))
    expected = model.compile_logp(mode=PYTHON)(point), model.compile_dlogp(mode=PYTHON)(point)
    np.testing.assert_allclose(value, expected[0], 1e-10)
    np.testing.assert_allclose(gradient, expected[1], 1e-9, 1e-10)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_many_points_have_the_values_of_each(name: str, mode: str) -> None:
    model = MODELS[name]()
    f = logp(model, mode=mode)
    points = f.ravel(near(model)) + 0.01 * np.arange(6.0).reshape(2, 3, 1)
    values, gradients = f(points)
    assert (values.shape, gradients.shape) == ((2, 3), (2, 3, f.size))
    for place in np.ndindex(2, 3):
        value, gradient = f(points[place])
        np.testing.assert_allclose(values[place], value, 1e-11)
        np.testing.assert_allclose(gradients[place], gradient, 1e-9, 1e-10)


def test_a_flat_vector_is_pymcs_and_a_dict_gives_the_same(mode: str) -> None:
    model = measured()
    f, g = logp(model, mode=mode), logp(model, mode=mode, flat=False)
    point = near(model)
    x = f.ravel(point)
    np.testing.assert_array_equal(x, DictToArrayBijection.map(point).data)
    assert (f.names, f.shapes, f.size) == (
        ("mu", "sigma_log__"),
        {"mu": (2,), "sigma_log__": ()},
        3,
    )
    value, gradient = f(x)
    expected = model.compile_logp(mode=PYTHON)(point), model.compile_dlogp(mode=PYTHON)(point)
    np.testing.assert_allclose(value, expected[0], 1e-12)
    np.testing.assert_allclose(gradient, expected[1], 1e-12)
    same, slopes = g(point)
    np.testing.assert_allclose(same, value, 1e-12)
    np.testing.assert_allclose(f.ravel(slopes), gradient, 1e-12)


def test_leading_axes_are_kept_in_both_forms() -> None:
    model = measured()
    f, g = logp(model, mode="NUMPY"), logp(model, mode="NUMPY", flat=False)
    xs = np.arange(24.0).reshape(4, 2, 3) / 10
    points = f.unravel(xs)
    assert {name: x.shape for name, x in points.items()} == {"mu": (4, 2, 2), "sigma_log__": (4, 2)}
    np.testing.assert_array_equal(f.ravel(points), xs)
    values, gradients = f(xs)
    same, slopes = g(points)
    np.testing.assert_allclose(values, same, 1e-12)
    np.testing.assert_allclose(f.ravel(slopes), gradients, 1e-12)
    assert logp(model, mode="NUMPY", gradient=False)(xs).shape == (4, 2)
    np.testing.assert_allclose(f(xs.tolist())[0], values)


def test_terms_and_jacobians_are_chosen_as_in_pymc() -> None:
    model = measured()
    point = near(model)
    for options in ({"jacobian": False}, {"vars": [model["mu"]]}, {"vars": [model["y"]]}):
        value, gradient = logp(model, mode="NUMPY", flat=False, **options)(point)
        expected = model.compile_logp(mode=PYTHON, **options)(point)
        np.testing.assert_allclose(value, expected, 1e-12)
        step = 1e-6 * np.ones(2)
        f = model.compile_logp(mode=PYTHON, **options)
        up, down = ({**point, "mu": point["mu"] + s} for s in (step, -step))
        slope = (f(up) - f(down)) / 2e-6
        np.testing.assert_allclose(gradient["mu"].sum(), slope, 1e-6, 1e-8)


def test_the_model_of_the_context_is_the_default() -> None:
    with measured() as model:
        f = logp(mode="NUMPY")
    assert f.model is model
    np.testing.assert_array_equal(f.ravel(f.point), [0.0, 0.0, 0.0])


# Data.


def test_data_are_followed_unless_they_are_copied(mode: str) -> None:
    model = measured()
    linked, copied = (logp(model, mode=mode, shared=kind) for kind in ("linked", "copied"))
    x = np.zeros(3)
    before, _ = linked(x)
    with model:
        pm.set_data({"seen": [3.0, 4.0]})
    after = model.compile_logp(mode=PYTHON)(linked.unravel(x))
    np.testing.assert_allclose(linked(x)[0], after, 1e-12)
    np.testing.assert_allclose(linked(x[None])[0], [after], 1e-12)
    np.testing.assert_allclose(copied(x)[0], before, 1e-12)


def test_a_length_that_follows_data_does_not_broadcast_when_it_grows() -> None:
    with pm.Model() as model:
        seen = pm.Data("seen", [1.0])
        b = pm.Normal("b", shape=seen.shape)
        pm.Normal("y", b, observed=seen)
    f = logp(model, mode="NUMPY")
    assert f(np.zeros(1))[1].tolist() == [1.0]
    with model:
        pm.set_data({"seen": [1.0, 2.0]})
    with pytest.raises(RuntimeShapeError):
        f(np.zeros(1))
    with pytest.raises(RuntimeShapeError):
        f(np.zeros((3, 1)))
    assert logp(model, mode="NUMPY")(np.zeros(2))[1].tolist() == [1.0, 2.0]


def test_each_call_draws_another_minibatch() -> None:
    with pm.Model() as model:
        batch = pm.Minibatch(np.arange(100.0), batch_size=10)
        a = pm.Normal("a")
        pm.Normal("y", a, observed=batch, total_size=100)
    f = logp(model, mode="NUMPY")
    slopes = {float(f(np.zeros(1))[1][0]) for _ in range(50)}
    assert len(slopes) > 20  # sums of ten numbers, which may be equal by chance
    assert abs(np.mean([*slopes]) - np.arange(100).sum()) < 800  # six standard errors


# Where there is no density.


def test_invalid_parameters_have_no_density_unless_bounds_are_not_checked() -> None:
    for check in (True, False):
        with pm.Model(check_bounds=check) as model:
            s = pm.Normal("s")
            pm.Normal("y", 0, s, observed=1.0)
        found, _ = logp(model, mode="NUMPY", returns="numpy")(np.array([-1.0]))
        expected = model.compile_logp(mode="FAST_COMPILE")({"s": -1.0})
        np.testing.assert_equal(float(found), float(expected))
        assert (found == -np.inf) == check


def test_a_check_that_pymc_does_not_replace_raises(mode: str) -> None:
    with pm.Model() as model:
        p = pm.Normal("p")
        pm.Potential("checked", CheckParameterValue("p > 0", False)(p, p > 0))
    f = logp(model, mode=mode)
    assert float(f(np.ones(1))[1][0]) == 0.0
    with pytest.raises(ParameterValueError, match="p > 0"):
        f(-np.ones(1))


def test_discrete_variables_have_no_gradient() -> None:
    with pm.Model() as model:
        n, p = pm.Poisson("n", 3), pm.Beta("p", 1, 1)
        pm.Binomial("y", n, p, observed=1)
    with pytest.raises(ArgumentError, match=r"no gradient: n.\nPass flat=False"):
        logp(model)
    point = {"n": np.array(3), "p_logodds__": np.array(0.2)}
    value, gradient = logp(model, mode="NUMPY", flat=False)(point)
    expected = model.compile_logp(mode=PYTHON)(point), model.compile_dlogp(mode=PYTHON)(point)
    assert [*gradient] == ["p_logodds__"]
    np.testing.assert_allclose(value, expected[0], 1e-12)
    np.testing.assert_allclose(gradient["p_logodds__"], expected[1][0], 1e-12)
    flat = logp(model, mode="NUMPY", gradient=False)
    np.testing.assert_allclose(flat(flat.ravel(point)), value, 1e-12)
    assert flat.unravel(np.array([3.0, 0.2]))["n"].dtype == np.int64


def test_what_does_not_fit_is_an_error() -> None:
    model = measured()
    f, g = logp(model, mode="NUMPY"), logp(model, mode="NUMPY", flat=False)
    with pytest.raises(ArgumentError, match="vectors of 3 elements"):
        f(np.zeros(4))
    with pytest.raises(ArgumentError, match="vectors of 3 elements"):
        f.unravel(np.zeros((2, 4)))
    with pytest.raises(ArgumentError, match="no value of sigma_log__"):
        g({"mu": np.zeros(2)})
    with pytest.raises(ArgumentError, match=r"sigma_log__ has the shape \(4,\), not \(3,\)"):
        f.ravel({"mu": np.zeros((3, 2)), "sigma_log__": np.zeros(4)})
    with pytest.raises(ArgumentError, match="No PyMC model"):
        logp()
    with pytest.raises(ArgumentError, match="dict is no PyMC model"):
        logp({})
    with pytest.raises(ArgumentError, match="no free random variables"), pm.Model():
        logp()
    with pytest.raises(ArgumentError, match="shared='both'"):
        logp(model, shared="both")  # type: ignore[arg-type]


WITHOUT = """
import sys
sys.modules["pymc"] = None
import graphc.interop
try:
    graphc.interop.pymc.logp
except ModuleNotFoundError as error:
    assert "pip install 'graphc[pymc]'" in str(error)
else:
    raise AssertionError
assert "graphc.interop.pymc.density" not in sys.modules
"""


def test_without_pymc_the_error_names_the_extra() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)
