"""graphc as a mode of PyTensor."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import graphc
from graphc.errors import UnsupportedOperationError
from graphc.interop.pytensor import mode as graphc_mode
from tests.interop.pytensor.graphs import recurrence
from tests.interop.pytensor.test_converters import Cubed

# What PyTensor deprecates in one version is missing in another.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_pytensors_function_runs_by_graphc(mode: str) -> None:
    x = pt.vector("x")
    y = (pt.exp(x) ** 2).sum()
    f = pytensor.function([x], [y, pt.grad(y, x), x * 2], mode=graphc_mode(mode))
    value, slope, twice = f([0.0, 1.0])
    np.testing.assert_allclose(value, 1 + np.exp(2), 1e-12)
    np.testing.assert_allclose(slope, [2, 2 * np.exp(2)], 1e-12)
    assert isinstance(twice, np.ndarray)


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_scan_runs_with_and_without_pytensors_rewrites(rewrites: bool) -> None:
    x, a = pt.vector("x"), pt.scalar("a")
    y = recurrence(lambda x, y: a * y + x, x, pt.zeros(()))
    mode = graphc_mode("NUMPY", rewrites=rewrites)
    f = pytensor.function([x, a], [y[-1], *pt.grad(y[-1], [x, a])], mode=mode)
    last, by_x, by_a = f([1.0, 2.0, 3.0], 0.5)
    assert (float(last), by_x.tolist(), float(by_a)) == (4.25, [0.25, 0.5, 1.0], 3.0)


def test_shared_variables_are_updated_and_stay_arrays_that_pytensor_may_write_to(
    mode: str,
) -> None:
    w = pytensor.shared(np.ones(2), name="w")
    f = pytensor.function([], w.sum(), updates=[(w, w + 1)], mode=graphc_mode(mode))
    assert [float(f()), float(f())] == [2.0, 4.0]
    w.get_value(borrow=True)[:] = 10
    assert float(f()) == 20.0


def test_a_generator_stays_numpys_and_its_draws_follow_its_seed(mode: str) -> None:
    rng = pytensor.shared(np.random.default_rng(3), name="rng")
    following, x = pt.random.normal(size=3, rng=rng).owner.outputs
    f = pytensor.function([], x, updates=[(rng, following)], mode=graphc_mode(mode))
    first, second = f(), f()
    assert not np.array_equal(first, second)
    assert isinstance(rng.get_value(), np.random.Generator)
    rng.set_value(np.random.default_rng(3))
    assert np.array_equal(f(), first)


def test_what_cannot_be_converted_is_said_when_the_function_is_made() -> None:
    class Missing(Cubed):
        """It has no converter."""

    x = pt.vector("x")
    with pytest.raises(UnsupportedOperationError, match="Missing"):
        pytensor.function([x], Missing()(x), mode=graphc_mode("NUMPY"))


def test_a_mode_of_graphc_keeps_its_options() -> None:
    x, i = pt.vector("x"), pt.lscalar("i")
    checked, unchecked = (
        pytensor.function([x, i], x[i], mode=graphc_mode(graphc.Mode("JAX", check=check)))
        for check in (True, False)
    )
    with pytest.raises(IndexError):
        checked([1.0, 2.0], 5)
    unchecked([1.0, 2.0], 5)


def test_a_mode_in_which_nothing_was_compiled_warns_when_it_is_deleted() -> None:
    made = graphc_mode("NUMPY")
    with pytest.warns(UserWarning, match="Nothing was compiled in this mode") as found:
        del made
    assert found[0].filename == __file__
    x = pt.vector("x")
    used = graphc_mode("NUMPY")
    f = pytensor.function([x], x * 2, mode=used.including("fusion"))
    del used
    assert f([1.0]).tolist() == [2.0]
