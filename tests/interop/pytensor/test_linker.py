"""graphc as a mode of PyTensor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.breakpoint import PdbBreakpoint

import graphc
from graphc.errors import ModeError, UnsupportedOperationError
from graphc.interop.pytensor import forks, mode as graphc_mode
from graphc.interop.pytensor.packed import Packing
from tests.interop.pytensor.graphs import recurrence
from tests.work import python_calls

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


def test_a_function_without_outputs_runs(mode: str) -> None:
    x = pt.vector("x")
    f = pytensor.function([x], [], mode=graphc_mode(mode), on_unused_input="ignore")
    assert f([1.0]) == []


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
    x = pt.vector("x")
    y = PdbBreakpoint("stop")(pt.lt(0, 1), x)
    with pytest.raises(UnsupportedOperationError, match="PdbBreakpoint"):
        pytensor.function([x], y, mode=graphc_mode("NUMPY"))


def test_modes_are_told_apart_at_once() -> None:
    with pytest.raises(ModeError, match="'TORCH' names no backend"):
        graphc_mode("TORCH")
    x = pt.vector("x")
    with pytest.raises(AttributeError, match=r"no mode of PyTensor's.*interop.pytensor.mode"):
        pytensor.function([x], x, mode=graphc.Mode("NUMPY"))


def test_a_mode_of_graphc_keeps_its_options() -> None:
    x, i = pt.vector("x"), pt.lscalar("i")
    checked, unchecked = (
        pytensor.function([x, i], x[i], mode=graphc_mode(graphc.Mode("JAX", check_bounds=check)))
        for check in (True, False)
    )
    with pytest.raises(IndexError):
        checked([1.0, 2.0], 5)
    unchecked([1.0, 2.0], 5)


def test_a_forked_process_fails_instead_of_waiting_for_ever(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = pt.vector("x")
    f = pytensor.function([x], x * 2, mode=graphc_mode(mode))
    f([1.0])
    with monkeypatch.context() as forked:
        forked.setattr(forks, "_forks", forks._forks + 1)
        if mode == "NUMPY":
            assert f([1.0]).tolist() == [2.0]
        else:
            with pytest.raises(ModeError, match=r'mp_ctx="forkserver"') as error:
                f([1.0])
            assert Path(__file__).name in str(error.value)
            with pytest.raises(ModeError, match="forked"):
                pytensor.function([x], x * 3, mode=graphc_mode(mode))
    assert f([1.0]).tolist() == [2.0]


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_is_noticed() -> None:
    script = """
import os, warnings, pytensor, pytensor.tensor as pt
from graphc.interop.pytensor import mode
warnings.simplefilter("ignore")
x = pt.vector("x")
f, g = (pytensor.function([x], x * 2, mode=mode(name)) for name in ("JAX", "NUMPY"))
f([1.0])
child = os.fork()
if not child:
    try:
        f([1.0])
    except ValueError:
        os._exit(g([1.0]).tolist() == [2.0])
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"]


def test_pytensor_rewrites_what_it_is_asked_to_by_name_and_nothing_else() -> None:
    x = pt.vector("x")
    asked = graphc_mode("NUMPY").including("local_neg_to_mul")
    for mode, wanted in ((graphc_mode("NUMPY"), ["Neg"]), (asked, ["ExpandDims", "Mul"])):
        f = pytensor.function([x], -x, mode=mode)
        nodes = f.maker.fgraph.toposort()
        found = [getattr(node.op, "scalar_op", None) or "ExpandDims" for node in nodes]
        assert [x if isinstance(x, str) else type(x).__name__ for x in found] == wanted
        assert f([2.0]).tolist() == [-2.0]


def test_a_call_does_little_in_python_beside_pytensors_own_work() -> None:
    x = pt.vector("x", shape=(3,))
    f = pytensor.function([x], [x.sum(), x * 2], mode=graphc_mode("JAX"))
    compiled, values = f.vm.jit_fn, np.ones(3)
    for _ in range(100):  # more than a new function counts
        f(values)
    # Six of them are NumPy arrays made, and 64-bit dtypes turned on.
    assert python_calls(lambda: compiled(values)) < 17
    assert python_calls(lambda: f(values)) - python_calls(lambda: compiled(values)) < 12


def test_small_results_of_one_dtype_are_one_array_of_the_backend_and_come_apart(mode: str) -> None:
    x, n = pt.vector("x", shape=(3,)), pt.lscalar("n")
    w, loose = pytensor.shared(np.zeros(3), name="w"), pt.vector("loose")
    outputs = [x.sum(), n + 1, pt.outer(x, x), x * n, loose * 2, x[:0], pt.zeros((2000,)) + n]
    f = pytensor.function([x, n, loose], outputs, updates=[(w, w + x)], mode=graphc_mode(mode))
    given = np.array([1.0, 2.0, 3.0])
    for step in (1, 2):
        total, count, outer, scaled, doubled, empty, many = f(given, 2, np.ones(4))
        assert [y.shape for y in (total, count, empty)] == [(), (), (0,)]
        assert (float(total), int(count), count.dtype) == (6.0, 3, "int64")
        np.testing.assert_array_equal(outer, np.outer(given, given))
        np.testing.assert_array_equal(scaled, 2 * given)
        np.testing.assert_array_equal(doubled, 2 * np.ones(4))
        np.testing.assert_array_equal(many, np.full(2000, 2.0))
        np.testing.assert_array_equal(w.get_value(), step * given)


@pytest.mark.parametrize(
    ("shapes", "packed"),
    [
        ([(), (2,), (2, 3)], [0, 1, 2]),
        ([(), (2,)], None),
        ([(), (2,), (None,), (3, 1)], [0, 1, 3]),
        ([(500,), (20, 20), (200,)], None),
        ([(500,), (20,), (200,), ()], [1, 2, 3]),
    ],
)
def test_results_are_packed_where_there_are_several_small_ones(
    shapes: list[tuple[int | None, ...]], packed: list[int] | None
) -> None:
    outputs = [graphc.tensor.tensor(shape=shape, dtype="float64") for shape in shapes]
    packing = Packing.of(outputs, ())
    assert (packing and [i for i, _, _ in packing.slots]) == packed
    assert Packing.of(outputs, range(len(outputs))) is None


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
