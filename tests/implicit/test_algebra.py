"""Each operation of the table on each class: right everywhere, and structured where it says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import MaterializeError
from graphc.implicit import ImplicitArray, implicit, materialize_nested, materializing
from graphc.implicit.namespace import apply
from graphc.implicit.treedef import Treedef
from graphc.ir import dtype_name, is_inexact
from graphc.link import as_numpy
from tests.implicit.algebra import KEPT, PROGRAMS, SMOOTH, arrays, operands, representatives
from tests.modes import uncompiled

ARRAYS = arrays()
PAIRS = [(cls, name) for cls in ARRAYS for name in PROGRAMS]
SOME = representatives(PAIRS)


def is_kept(cls: str, name: str) -> bool:
    return name in KEPT[cls]


def whole(w: ImplicitArray) -> Any:
    return np.asarray(materialize_nested(w, full=True))


def expected(cls: str, name: str) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(PROGRAMS[name](np, whole(ARRAYS[cls]), operands()))


def compare(found: Any, wanted: Any, *, dtype: Any = None, digits: float = 1e-12) -> None:
    values = as_numpy(materialize_nested(found, full=True))
    assert values.shape == wanted.shape
    assert dtype is None or dtype_name(values.dtype) == dtype_name(dtype)
    if values.dtype.kind == "b":
        np.testing.assert_array_equal(values, wanted)
        return
    size = float(np.max(np.abs(wanted), initial=1))
    np.testing.assert_allclose(values, wanted, digits, digits * size)


def in_jax(name: str) -> Any:
    def run(w: Any, given: dict[str, Any]) -> Any:
        return PROGRAMS[name](jnp, w, SimpleNamespace(**given))

    return run


def in_graph(cls: str, name: str, mode: Any) -> Any:
    """The function of a graph, its arguments, and the graph's result."""
    given = vars(operands())
    symbols = {
        key: gt.tensor(key, dtype=dtype_name(x.dtype), shape=x.shape) for key, x in given.items()
    }
    w = gt.implicit(ARRAYS[cls], name="w")
    y = PROGRAMS[name](gt, w, SimpleNamespace(**symbols))
    f = graphc.function([w, *symbols.values()], y, mode=mode, on_unused_input="ignore")
    return f, [ARRAYS[cls], *given.values()], y


@pytest.mark.sample(every=24, rest=3)
@pytest.mark.parametrize(("cls", "name"), SOME)
def test_in_functions_of_jax(cls: str, name: str) -> None:
    w, given = jax.tree.map(jnp.asarray, (ARRAYS[cls], vars(operands())))
    with jax.enable_x64(True):
        w, given = jax.tree.map(jnp.asarray, (ARRAYS[cls], vars(operands())))
        wanted = jax.eval_shape(in_jax(name), jnp.asarray(whole(ARRAYS[cls])), given)
        with materializing("error" if is_kept(cls, name) else "allow"):
            found = jax.jit(implicit(in_jax(name)))(w, given)
        compare(found, expected(cls, name), dtype=wanted.dtype)


@pytest.mark.sample(every=12)
@pytest.mark.parametrize(("cls", "name"), PAIRS)
def test_in_graphs(cls: str, name: str) -> None:
    with materializing("error" if is_kept(cls, name) else "allow"):
        f, given, y = in_graph(cls, name, "NUMPY")
    compare(f(*given), expected(cls, name), dtype=y.type.dtype)


@pytest.mark.sample(rest=3)
@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["JAX", "MLX"])
@pytest.mark.parametrize(("cls", "name"), SOME)
def test_in_graphs_of_other_backends(cls: str, name: str, mode: str) -> None:
    with materializing("error" if is_kept(cls, name) else "allow"):
        f, given, y = in_graph(cls, name, uncompiled(mode))
    compare(f(*given), expected(cls, name), dtype=y.type.dtype)


class Outside:
    """NumPy's functions by name, of implicit arrays as they are outside of functions."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **settings: apply(name, *args, **settings)


@pytest.mark.sample(every=24, rest=3)
@pytest.mark.parametrize(("cls", "name"), SOME)
def test_outside_of_functions(cls: str, name: str) -> None:
    """What is not kept is graphc's error, that says what to call, where it is no sum or product."""
    program, given = PROGRAMS[name], operands()
    with materializing("error"):
        try:
            found = program(Outside(), ARRAYS[cls], given)
        except MaterializeError as error:
            found, problem = None, str(error)
    if found is None:
        assert not is_kept(cls, name)
        assert "materializ" in problem
        return
    compare(found, expected(cls, name))


def test_what_is_not_in_the_table_becomes_whole() -> None:
    """The table is no smaller than what is kept: of all classes but two, whole groups."""
    found = set()
    for cls in ("CSR", "Toeplitz", "Kronecker", "LowRank"):
        for name in ("maximum 0.5", "sort", "exp", "w >= 0"):
            if is_kept(cls, name):
                continue
            with materializing("error"), pytest.raises(MaterializeError):
                in_graph(cls, name, "NUMPY")
            found.add((cls, name))
    assert len(found) > 10


TIES = {("BCOO", "max 0"), ("BCOO", "min 1")}
"""Of parts that cancel and of zeros that are not stored: a whole array divides the gradient."""
SLOPES = [
    (c, name) for c in ARRAYS for name in SMOOTH if is_kept(c, name) and (c, name) not in TIES
]


def loss_of(y: Any, like: Any, xp: Any) -> Any:
    """A scalar on which each element has another weight; of an array of the result's shape."""
    return xp.sum(y * np.cos(np.arange(like.size).reshape(like.shape)))


@pytest.mark.sample(every=16, rest=3)
@pytest.mark.parametrize(("cls", "name"), representatives(SLOPES))
def test_gradients_are_those_through_the_whole_array(cls: str, name: str) -> None:
    with jax.enable_x64(True):
        w, given = jax.tree.map(jnp.asarray, (ARRAYS[cls], vars(operands())))
        leaves, tree = jax.tree.flatten(w)
        smooth = [is_inexact(dtype_name(x.dtype)) for x in leaves]
        if not any(smooth):
            return

        def rebuilt(floats: Any) -> Any:
            rest = iter(floats)
            flags = zip(leaves, smooth, strict=True)
            return jax.tree.unflatten(tree, [next(rest) if s else x for x, s in flags])

        def through(function: Any) -> Any:
            def loss(floats: Any) -> Any:
                y = materialize_nested(function(rebuilt(floats)), full=True)
                return loss_of(y, expected(cls, name), jnp)

            floats = [x for x, s in zip(leaves, smooth, strict=True) if s]
            return jax.grad(loss)(floats)

        run = in_jax(name)
        with materializing("error"):
            found = through(lambda w: implicit(run)(w, given))
        wanted = through(lambda w: run(jnp.asarray(materialize_nested(w, full=True)), given))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, 1e-10, 1e-10)


@pytest.mark.sample(every=16, rest=3)
@pytest.mark.parametrize(("cls", "name"), SLOPES)
def test_gradients_of_graphs_are_those_through_the_whole_array(cls: str, name: str) -> None:
    given = vars(operands())
    inside = SimpleNamespace(
        **{
            key: gt.tensor(key, dtype=dtype_name(x.dtype), shape=x.shape)
            for key, x in given.items()
        }
    )
    w = gt.implicit(ARRAYS[cls], name="w")
    by = [x for x in Treedef.of(w.array)[1] if is_inexact(x.type.dtype)]

    def slopes(of: Any) -> Any:
        loss = loss_of(PROGRAMS[name](gt, of, inside), expected(cls, name), gt)
        g = graphc.grad(loss, by, disconnected_inputs="ignore")
        inputs = [w, *vars(inside).values()]
        f = graphc.function(inputs, g, mode="NUMPY", on_unused_input="ignore")
        return f(ARRAYS[cls], *given.values())

    with materializing("error"):
        found = slopes(w)
    for a, b in zip(found, slopes(w.dense()), strict=True):
        np.testing.assert_allclose(a, b, 1e-10, 1e-10)
