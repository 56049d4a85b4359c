"""Inputs, constants, shared variables and random generators of PyTensor in graphc."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, MissingInputError
from graphc.interop.pytensor import from_pytensor

# What PyTensor deprecates in one version is missing in another.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_a_variable_is_the_same_array_in_each_conversion() -> None:
    x = pt.matrix("x", shape=(None, 3))
    a, y = from_pytensor([x, pt.exp(x)])
    assert from_pytensor(x) is a
    assert from_pytensor({"y": (pt.exp(x),)})["y"][0] is y
    assert y is gt.exp(a)
    assert a.name == "x"
    assert a.type == gt.TensorType("float64", (None, 3))


def test_names_dtypes_and_static_lengths_are_kept() -> None:
    x = pt.fvector("x")
    y = pt.specify_shape(x * 2, (4,)).reshape((2, 2))
    y.name = "y"
    found = from_pytensor(y)
    assert found.name == "y"
    assert found.type == gt.TensorType("float32", (2, 2))


def test_a_large_constant_is_captured_and_no_part_of_the_program() -> None:
    f, g = (
        graphc.function([], from_pytensor(pt.as_tensor(data).sum()), mode="NUMPY")
        for data in (np.arange(20.0), np.ones(20))
    )
    assert (float(f()), float(g())) == (190.0, 20.0)
    assert g.stats.compiles == 0


def test_computed_variables_can_be_inputs_and_others_are_missing() -> None:
    x, b = pt.vector("x"), pt.scalar("b")
    y = pt.exp(x)
    found, z = from_pytensor([y, y * 2], inputs=[y])
    assert graphc.function([found], z, mode="NUMPY")([1.0]).tolist() == [2.0]
    with pytest.raises(MissingInputError, match=r"b: float64.* is not among the inputs"):
        from_pytensor(y * b, inputs=[y])


def test_givens_replace_variables_by_arrays_numbers_and_other_variables() -> None:
    x, a, b = pt.vector("x"), pt.scalar("a"), pt.scalar("b")
    own = gt.vector("own")
    y = from_pytensor(x * a + b, givens={x: own, a: 3, b: a + 1})
    assert graphc.function([own], y, mode="NUMPY")([1.0]).tolist() == [7.0]
    with pytest.raises(ArgumentError, match=r"givens has .* for x: float64"):
        from_pytensor(x, givens={x: gt.matrix()})


def test_a_linked_shared_variable_has_one_value_in_both_libraries(mode: str) -> None:
    w = pytensor.shared(np.ones(2), name="w")
    v = from_pytensor(w)
    f = graphc.function([], v.sum(), updates={v: v * 2}, mode=mode)
    assert float(f()) == 2.0
    assert w.get_value().tolist() == [2.0, 2.0]
    w.set_value(np.array([5.0, 6.0, 7.0]))
    assert float(f()) == 18.0
    v.set_value([1.0])
    assert w.get_value().tolist() == [1.0]
    w.get_value(borrow=True)[0] = 3.0
    assert float(f()) == 3.0


def test_a_copied_shared_variable_keeps_its_own_value() -> None:
    w = pytensor.shared(np.ones(2), name="w")
    v = from_pytensor(w, shared="copied")
    graphc.function([], [], updates={v: v + 1}, mode="NUMPY")()
    assert w.get_value().tolist() == [1.0, 1.0]
    assert v.get_value().tolist() == [2.0, 2.0]
    assert v is not from_pytensor(w)


def test_a_variable_that_was_linked_before_can_be_copied() -> None:
    w = pytensor.shared(np.ones(2), name="w")
    linked, copied = (from_pytensor(w, shared=kind) for kind in ("linked", "copied"))
    w.set_value(np.zeros(2))
    f = graphc.function([], [linked, copied], mode="NUMPY")
    assert [x.tolist() for x in f()] == [[0.0, 0.0], [1.0, 1.0]]


def test_a_default_update_is_kept() -> None:
    n = pytensor.shared(np.int64(0), name="n")
    n.default_update = n + 1
    f = graphc.function([], from_pytensor(n), mode="NUMPY")
    assert [int(f()), int(f()), int(n.get_value())] == [0, 1, 2]


def test_a_shared_variable_is_freed_with_pytensors() -> None:
    w = pytensor.shared(np.ones(2))
    from_pytensor(w * 2)
    alive = weakref.ref(w)
    del w
    gc.collect()
    assert alive() is None


def test_a_numpy_generator_becomes_a_key_and_a_warning_says_it(mode: str) -> None:
    rng = pytensor.shared(np.random.default_rng(7), name="rng")
    following, x = pt.random.normal(2.0, 3.0, size=(10_000,), rng=rng).owner.outputs
    rng.default_update = following
    with pytest.warns(UserWarning, match="NumPy generator rng becomes a key"):
        y = from_pytensor(x)
    f = graphc.function([], y, mode=mode, returns="numpy")
    first, second = f(), f()
    assert abs(first.mean() - 2) < 0.1
    assert abs(first.std() - 3) < 0.1
    assert not np.array_equal(first, second)
    assert from_pytensor(x) is y  # it is the same key, and does not warn again


def test_distributions_have_pytensors_shapes_and_dtypes() -> None:
    rng = pt.random.type.random_generator_type("rng")
    p = np.array([0.2, 0.3, 0.5])
    draws = {
        "poisson": pt.random.poisson(np.array([2.0, 3.0]), rng=rng),
        "categorical": pt.random.categorical(p, size=(4,), rng=rng),
        "multinomial": pt.random.multinomial(5, p, size=(2,), rng=rng),
        "dirichlet": pt.random.dirichlet(p, size=(2,), rng=rng),
        "mvnormal": pt.random.multivariate_normal(p, np.eye(3), size=(2,), rng=rng),
        "bernoulli": pt.random.bernoulli(p, rng=rng),
        "gamma": pt.random.gamma(2.0, scale=np.ones((3, 1)), rng=rng),
        "integers": pt.random.integers(0, 5, size=(2, 2), rng=rng),
        "t": pt.random.t(4.0, 0.0, 1.0, size=(2,), rng=rng),
        "permutation": pt.random.permutation(np.arange(5), rng=rng),
        "choice": pt.random.choice(np.arange(6), size=(3,), replace=False, rng=rng),
    }
    key, found = from_pytensor([rng, draws])
    f = graphc.function([key], found, mode="NUMPY", returns="numpy")
    expected = pytensor.function([rng], list(draws.values()))(np.random.default_rng(0))
    for (name, y), wanted in zip(f(gt.random.key(0).eval()).items(), expected, strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape), name
    assert sorted(f(gt.random.key(1).eval())["permutation"]) == [0, 1, 2, 3, 4]


def test_a_chain_of_thousands_of_operations_converts() -> None:
    x = y = pt.scalar("x")
    for _ in range(5000):
        y = pt.sin(y)
    a, b = from_pytensor([x, y])
    assert float(graphc.function([a], b, mode="NUMPY")(0.0)) == 0.0


ALONE = """
import sys
import graphc.tensor
import graphc.interop.pytensor as gp
assert "pytensor" not in sys.modules
sys.modules["pytensor"] = None
for name in ("mode", "to_pytensor"):
    try:
        getattr(gp, name)
    except ModuleNotFoundError as error:
        assert "pip install 'graphc[pymc]'" in str(error)
    else:
        raise AssertionError
del sys.modules["pytensor"]
gp.mode("NUMPY")
assert "pytensor" in sys.modules
gp.to_pytensor(graphc.tensor.zeros(3) + 1, mode="NUMPY").eval()
assert "jax" not in sys.modules
"""


def test_pytensor_is_loaded_where_it_is_needed_alone_which_says_where_it_is_missing() -> None:
    subprocess.run([sys.executable, "-c", ALONE], check=True)
