"""What is checked when a program runs: conditions, indices and numbers, on every backend."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphc
import graphc.tensor as gt
from graphc.compile import cache
from graphc.compile.cache import PROGRAMS
from graphc.compile.disk import DiskCache
from graphc.errors import BoundsError, CheckError, GraphcError, ModeError, NaNError
from tests.modes import uncompiled

x = gt.vector("x")
i = gt.lvector("i")
MODES = ("NUMPY", "JAX", "MLX")


def line() -> int:
    """The line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


# Conditions.


def test_a_condition_that_does_not_hold_is_raised_with_its_line(mode: str) -> None:
    checked, where = graphc.Assert("x is to be positive")(x, x > 0), f"test_guard.py:{line()}"
    f = graphc.function([x], gt.log(checked).sum(), uncompiled(mode))
    assert float(f([1.0, 1.0])) == 0.0
    with pytest.raises(CheckError, match="x is to be positive") as found:
        f([1.0, -1.0])
    assert isinstance(found.value, AssertionError)
    assert found.value.where is not None
    assert found.value.where.endswith(where)
    assert float(f([1.0])) == 0.0


def test_another_function_of_the_same_program_tells_its_own_line(mode: str) -> None:
    small = graphc.Assert("small")
    v, w = gt.vector("v"), gt.vector("w")
    first, line_of_first = small(v, v < 10.0), line()
    second, line_of_second = small(w, w < 10.0), line()
    for z, y, where in ((v, first, line_of_first), (w, second, line_of_second)):
        f = graphc.function([z], y * 2, uncompiled(mode))
        with pytest.raises(CheckError) as found:
            f([11.0])
        assert str(found.value).endswith(f"test_guard.py:{where}")


class OwnError(Exception):
    """One that graphc does not know."""


@pytest.mark.parametrize("kind", [ValueError, KeyError, OwnError, BoundsError])
def test_an_exception_of_ones_own_is_raised(kind: type[Exception], mode: str) -> None:
    op = graphc.CheckAndRaise(kind, f"of kind {kind.__name__}")
    f = graphc.function([x], op(x, x.sum() < 1, x.size > 0), uncompiled(mode))
    assert np.asarray(f([0.5])).tolist() == [0.5]
    for values in ([2.0], []):
        with pytest.raises(kind, match=f"of kind {kind.__name__}") as found:
            f(values)
        assert isinstance(found.value, GraphcError)


def test_check_false_leaves_conditions_out(mode: str) -> None:
    y = graphc.Assert("never")(x, x > 1e9)
    f = graphc.function([x], gt.exp(y), uncompiled(mode, check=False))
    assert np.asarray(f([0.0])).tolist() == [1.0]
    assert "check" not in str(f.plan())


def test_conditions_in_loops_and_branches_are_raised(mode: str) -> None:
    def step(v: Any, before: Any) -> Any:
        return graphc.CheckAndRaise(ValueError, "too large a sum")(before + v, before < 3.0)

    total = graphc.scan(step, sequences=x, outputs_info=gt.zeros(()))[-1]
    stopping = graphc.scan(
        lambda v, c: (step(v, c), graphc.until(c > 1.0)), sequences=x, outputs_info=gt.zeros(())
    )[-1]
    branch = graphc.ifelse(x.sum() > 0, graphc.Assert("in the branch")(x, x.max() < 9), -x)
    f = graphc.function([x], [total, branch.sum()], uncompiled(mode))
    g = graphc.function([x], stopping, uncompiled(mode))
    assert [float(y) for y in f([1.0, 1.0, -1.0])] == [1.0, 1.0]
    with pytest.raises(ValueError, match="too large a sum"):
        f([2.0, 2.0, 1.0])
    with pytest.raises(CheckError, match="in the branch"):
        f([-20.0, 30.0])
    assert float(f([-20.0, 10.0])[1]) == 10.0
    # The step that would not hold is never done.
    assert float(g([1.0, 1.0, 5.0, 5.0, 5.0])) == 7.0


def test_a_condition_in_a_graph_that_is_kept_as_an_operation_is_raised(mode: str) -> None:
    z = gt.vector("z")
    inner = gt.sqrt(graphc.Assert("negative")(z, z >= 0))
    op = graphc.OpFromGraph([z], [inner], inline=False, name="root")
    f = graphc.function([x], op(x).sum(), uncompiled(mode))
    assert float(f([4.0])) == 2.0
    with pytest.raises(CheckError, match="negative"):
        f([-4.0])


def test_a_gradient_and_a_batch_keep_the_condition(mode: str) -> None:
    y = gt.sqrt(graphc.Assert("negative")(x, x >= 0)).sum()
    rows = gt.matrix("rows")
    batch = graphc.vectorize_graph(y, {x: rows})
    moved = graphc.pushforward(y, x, gt.ones_like(x))
    f = graphc.function([x, rows], [graphc.grad(y, x), batch, moved], uncompiled(mode))
    slope, values, forwards = f([4.0, 1.0], [[1.0, 4.0], [9.0, 0.0]])
    assert np.asarray(slope).tolist() == [0.25, 0.5]
    assert np.asarray(values).tolist() == [3.0, 3.0]
    assert float(forwards) == 0.75
    with pytest.raises(CheckError):
        f([-1.0], [[1.0]])
    with pytest.raises(CheckError):
        f([1.0], [[1.0], [-1.0]])


def test_nothing_is_updated_where_a_condition_does_not_hold(mode: str) -> None:
    w = graphc.shared(np.ones(3), name="w")
    positive = graphc.Assert("positive")(x, x > 0)
    f = graphc.function([x], positive.sum(), uncompiled(mode), updates={w: w + positive})
    f(np.ones(3))
    with pytest.raises(CheckError):
        f(-np.ones(3))
    assert w.get_value().tolist() == [2.0, 2.0, 2.0]
    f(np.ones(3))
    assert w.get_value().tolist() == [3.0, 3.0, 3.0]


def test_where_jax_traces_the_call_nothing_is_checked() -> None:
    f = graphc.function([x], graphc.Assert("no")(x, x > 0).sum(), "JAX", returns="native")
    with jax.enable_x64(True):
        assert jax.jit(f)(jnp.asarray([-1.0])) == -1.0


def test_what_is_no_condition_is_refused() -> None:
    with pytest.raises(graphc.errors.DTypeError, match="neither bool nor integer"):
        graphc.Assert()(x, x)
    with pytest.raises(graphc.errors.ArgumentError, match="not an exception class"):
        graphc.CheckAndRaise(3)  # type: ignore[arg-type]


def test_equal_conditions_are_one_node_and_pickle() -> None:
    a, b = graphc.Assert("m")(x, x > 0), graphc.Assert("m")(x, x > 0)
    assert a is b
    assert graphc.raise_op.assert_op(x, x > 0) is not a
    op = pickle.loads(pickle.dumps(graphc.Assert("m")))
    assert op == graphc.Assert("m")
    assert op != graphc.CheckAndRaise(ValueError, "m")
    keys = {
        graphc.Graph([x], [made(x, x > 0)]).key()
        for made in (graphc.Assert("m"), graphc.Assert("n"), graphc.CheckAndRaise(ValueError, "m"))
    }
    assert len(keys) == 3


# Indices.

READ = {
    "read": lambda x, i: x[i],
    "written": lambda x, i: gt.set_subtensor(x[i], 0.0),
    "added to": lambda x, i: gt.inc_subtensor(x[i], 1.0),
    "one": lambda x, i: x[i[0]] * gt.ones(1),
    "in a matrix": lambda x, i: gt.outer(x, x)[:, i].sum(0),
    "taken": gt.take,
    "in a loop": lambda x, i: graphc.scan(
        lambda k, c: c * 0.5 + x[k] * c, sequences=i, outputs_info=gt.ones(())
    ),
}
INDEXED = {
    mode: graphc.function(
        [x, i], [read(x, i) for read in READ.values()], uncompiled(mode, check_bounds=True)
    )
    for mode in MODES
}


@given(st.lists(st.integers(-4, 3), min_size=1, max_size=3))
def test_an_index_outside_is_raised_everywhere_and_no_other(places: list[int]) -> None:
    values = [1.0, 2.0, 3.0]
    is_inside = all(-3 <= place < 3 for place in places)
    found = {}
    for mode, f in INDEXED.items():
        if is_inside:
            found[mode] = f(values, places)
            continue
        with pytest.raises(BoundsError) as raised:
            f(values, places)
        assert "test_guard.py" in str(raised.value)
    for mode, results in found.items():
        for a, b in zip(results, found["NUMPY"], strict=True):
            np.testing.assert_allclose(np.asarray(a), b, err_msg=mode)


def test_each_index_is_checked_by_itself(mode: str) -> None:
    for read in READ.values():
        f = graphc.function([x, i], read(x, i), uncompiled(mode, check_bounds=True))
        f([1.0, 2.0], [1, -2])
        with pytest.raises(BoundsError):
            f([1.0, 2.0], [2])


def test_the_index_and_the_length_are_told(mode: str) -> None:
    f = graphc.function([x, i], gt.exp(x[i]), uncompiled(mode, check_bounds=True))
    with pytest.raises(BoundsError, match="index 7 is out of bounds for axis 0 with size 2"):
        f([1.0, 2.0], [0, 7])


def test_an_index_in_a_loop_and_a_branch_is_told_with_its_line(mode: str) -> None:
    k, j = gt.lscalar("k"), gt.lscalar("j")
    at: list[int] = []

    def step(t: Any, total: Any) -> Any:
        at.append(line() + 1)
        return total + x[t + k]

    total = graphc.scan(step, gt.arange(4), gt.as_tensor(0.0))[-1]
    chosen = graphc.cond(j > 0, lambda: x[j] * 2, lambda: total)
    f = graphc.function([x, k, j], chosen, uncompiled(mode, check_bounds=True))
    assert float(np.asarray(f(np.arange(6.0), 2, 0))) == 2 + 3 + 4 + 5
    assert float(np.asarray(f(np.arange(6.0), 9, 5))) == 10
    problem = r"index (-7|6) is out of bounds for axis 0 with size 6"
    for start, place in ((3, 0), (-7, 0), (0, 6)):
        with pytest.raises(BoundsError, match=problem) as raised:
            f(np.arange(6.0), start, place)
        assert place or f"test_guard.py:{at[-1]}" in str(raised.value)


def test_the_option_that_checked_indices_names_its_successor() -> None:
    with pytest.raises(ModeError, match=r"check=True: expected False, or None") as raised:
        graphc.Mode("JAX", check=True)
    assert "check_bounds=True" in str(raised.value)


def test_an_empty_array_has_no_place(mode: str) -> None:
    f = graphc.function([x, i], x[i], uncompiled(mode, check_bounds=True))
    assert np.asarray(f([], np.zeros(0, np.int64))).shape == (0,)
    with pytest.raises(BoundsError):
        f([], [0])


def test_places_that_must_be_within_a_length_are_checked(mode: str) -> None:
    f = graphc.function(
        [i], gt.ravel_multi_index((i, i), (3, 4)), uncompiled(mode, check_bounds=True)
    )
    assert np.asarray(f([2])).tolist() == [10]
    with pytest.raises(BoundsError):
        f([3])


# Numbers.


def test_the_operation_that_makes_a_nan_is_told(mode: str) -> None:
    y, where = gt.log(x + 1).sum(), f"test_guard.py:{line()}"
    f = graphc.function([x], gt.exp(y) * 2, uncompiled(mode, check_nan=True))
    assert float(f([0.0])) == 2.0
    with pytest.raises(NaNError, match="is NaN somewhere") as found:
        f([-2.0, 1.0])
    assert "log1p" in str(found.value)
    assert found.value.where is not None
    assert found.value.where.endswith(where)
    with pytest.raises(NaNError, match="argument x"):
        f([np.nan])


def test_infinite_numbers_are_refused_where_they_are_to_be(mode: str) -> None:
    y = 1 / x
    for options, values, wrong in (
        ({"check_nan": True}, [0.0], False),
        ({"check_inf": True}, [0.0], True),
        ({"check_inf": True}, [np.nan], False),
        ({"check_inf": True, "check_nan": True}, [0.0], True),
        ({"check_inf": True, "check_nan": True}, [np.nan], True),
    ):
        f = graphc.function([x], y, uncompiled(mode, **options))
        if wrong:
            with pytest.raises(NaNError):
                f(values)
        else:
            f(values)


def test_a_nan_in_a_loop_is_told_where_it_is_made(mode: str) -> None:
    roots = graphc.scan(
        lambda v, c: gt.sqrt(c - v) * 1.5, sequences=x, outputs_info=gt.as_tensor(4.0)
    )
    f = graphc.function([x], roots[-1], uncompiled(mode, check_nan=True))
    assert float(f([0.0, 3.0, 0.0])) == 0.0
    with pytest.raises(NaNError, match="sqrt"):
        f([0.0, 9.0, 0.0])


def test_numbers_in_a_gradient_complex_numbers_and_captured_arrays_are_checked(mode: str) -> None:
    z = gt.cvector("z")
    data = np.array([1.0] * 11 + [np.nan])
    slope = graphc.grad(gt.sqrt(x).sum(), x)
    f = graphc.function([x], slope, uncompiled(mode, check_inf=True))
    g = graphc.function([z], gt.log(z).real, uncompiled(mode, check_inf=True))
    h = graphc.function([x], x.sum() + gt.as_tensor(data).sum(), uncompiled(mode, check_nan=True))
    assert np.asarray(f([4.0])).tolist() == [0.25]
    for call, value in ((f, [0.0]), (g, np.zeros(1, np.complex64))):
        with pytest.raises(NaNError):
            call(value)
    with pytest.raises(NaNError, match="captured array"):
        h([1.0])


def test_what_is_checked_is_part_of_what_programs_are_found_by() -> None:
    def compiles(mode: graphc.Mode) -> int:
        f = graphc.function([x], gt.tan(x) * 3, mode)
        f([1.0])
        return f.stats.compiles

    modes = [
        graphc.Mode("JAX"),
        graphc.Mode("JAX", check_nan=True),
        graphc.Mode("JAX", check_bounds=True),
    ]
    assert [compiles(mode) for mode in modes] == [1, 1, 1]
    assert [compiles(mode) for mode in modes] == [0, 0, 0]


def test_a_function_without_anything_to_check_is_as_without_the_options() -> None:
    f = graphc.function([x], gt.tan(x) * 5, graphc.Mode("JAX", check_bounds=True))
    assert f.graph.outputs[0] is graphc.function([x], gt.tan(x) * 5).graph.outputs[0]
    assert len(f._own_program.program.outputs) == 1


@pytest.mark.parametrize("option", ["check_bounds", "check_nan", "check_inf"])
def test_an_option_is_true_or_false(option: str) -> None:
    with pytest.raises(ModeError, match=option):
        graphc.Mode("JAX", **{option: "yes"})


def test_the_plan_says_what_is_checked() -> None:
    f = graphc.function([x], gt.log(x), graphc.Mode("JAX", check_nan=True))
    assert "  check v" in str(f.plan())
    assert "2 conditions" in str(f.plan())


@pytest.mark.parametrize("kind", [ValueError, OwnError])
def test_a_program_from_disk_tells_what_is_wrong(
    mode: str, kind: type[Exception], disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "WORTH_SAVING", 0.0)
    with graphc.config.change_flags(cache_dir=disk.directory):
        for _ in range(2):
            PROGRAMS.clear()
            y = gt.log(graphc.CheckAndRaise(kind, "wrong")(x, ~(x <= 0)))
            f = graphc.function([x], y.sum() * 7, uncompiled(mode, check_nan=True))
            is_loaded = f._lowered is None
            assert float(f([1.0])) == 0.0
            with pytest.raises(NaNError, match="argument x"):
                f([np.nan])
            with pytest.raises(kind, match="wrong"):
                f([-0.0])
    assert is_loaded


def test_an_exception_that_no_module_has_is_known_to_its_process_alone() -> None:
    class LocalError(Exception):
        """Another process may have another one of the name."""

    assert graphc.CheckAndRaise(LocalError).unwritten() is LocalError
    assert graphc.CheckAndRaise(OwnError).unwritten() is None
