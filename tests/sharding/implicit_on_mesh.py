"""Implicit arrays that are divided as whole ones, over a mesh of eight devices."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ShardingError
from graphc.implicit import (
    BlockDiagonal,
    Diagonal,
    ImplicitArray,
    ImplicitTensor,
    Kronecker,
    LoRA,
    LowRank,
    OneHot,
    quantize,
)
from tests.sharding.several_devices import GATHERED, MESH, MODE, lies, named, normal

Arrays = dict[str, tuple[ImplicitArray, tuple[Any, ...], list[tuple[Any, ...]]]]

WIDE = normal(128, 128)

ARRAYS: Arrays = {
    "LowRank": (
        LowRank(normal(16, 2), normal(2, 16)),
        ("data", "model"),
        [("data",), (None, "model")],
    ),
    "LoRA": (
        LoRA(quantize(WIDE, "int8"), normal(128, 2), normal(2, 128), np.asarray(0.5)),
        ("data", "model"),
        [*[("data", "model")] * 3, ("data",), (None, "model"), ()],
    ),
    "Kronecker": (
        Kronecker(normal(4, 2), normal(4, 8)),
        ("data", "model"),
        [("data", "model"), ()],
    ),
    "BlockDiagonal": (BlockDiagonal(normal(4, 4, 4)), ("data",), [("data",)]),
    "Diagonal": (Diagonal(normal(16)), (None, "model"), [("model",)]),
    "OneHot": (
        OneHot(np.arange(16) % 8, 8, normal(16), "float64"),
        ("data",),
        [("data",), ("data",)],
    ),
    "int4": (quantize(WIDE, "int4"), ("data", "model"), [("data", "model")] * 3),
    "NF4": (quantize(WIDE, "nf4"), ("data", "model"), [("data", "model")] * 2),
    "one bit": (quantize(WIDE, "1bit"), ("model",), [("model",)] * 2),
    "a stack": (
        LowRank(normal(4, 16, 2), normal(4, 2, 16)),
        ("data", None, "model"),
        [("data",), ("data", None, "model")],
    ),
}
"""An array, its sharding, and those of its fields."""


def program(w: Any, v: Any, sharding: Any) -> tuple[Any, list[Any]]:
    """Products with a shared variable, an input and what is declared within; and gradients."""
    x = gt.matrix("x", sharding=("data", None))
    doubled = gt.shard(2.0 * w, sharding)
    loss = ((x @ w) ** 2).sum() + (gt.tanh(x) @ doubled).sum()
    fields = [field for field in w.inputs if field.dtype == "float64"]
    return x, [x @ v, x @ doubled, gt.sin(w), *graphc.grad(loss, fields)]


@GATHERED
@pytest.mark.parametrize("name", ARRAYS)
def test_an_implicit_array_is_divided_as_its_class_says(name: str) -> None:
    value, sharding, own = ARRAYS[name]
    given = normal(8, value.shape[-2])
    results = []
    for mode in (MODE, "NUMPY"):
        w = graphc.shared(value, "w", sharding=sharding)
        v = gt.implicit(value, name="v", sharding=sharding)
        x, outputs = program(w, v, sharding)
        f = graphc.function([x, v], outputs, updates=[(w, 1.5 * w)], mode=mode)
        for _ in range(2):
            found = f(given, value)
        results.append([*map(np.asarray, found), np.asarray(w.get_value())])
        if mode is MODE:
            held = [field.get_value(borrow=True) for field in w.inputs]
            assert all(lies(y, *entries) for y, entries in zip(held, own, strict=True))
            assert f.stats.compiles == 1
    for y, reference in zip(*results, strict=True):
        scale = np.abs(reference).max()  # sums of which little is left
        np.testing.assert_allclose(y, reference, rtol=1e-12, atol=1e-12 * scale)


def test_what_is_declared_of_an_implicit_array_keeps_it_structured() -> None:
    w = graphc.shared(LowRank(normal(64, 2), normal(2, 64)), "w")
    x = gt.matrix("x", sharding=("data", None))
    y = gt.shard(w, ("data", "model"))
    assert isinstance(y, ImplicitTensor)
    # So it does in loops, and of what handlers make.
    states = graphc.scan(
        lambda h: gt.shard(0.5 * w, (None, "model")).T @ h, outputs_info=x.T, n_steps=3
    )
    f = graphc.function([x], [x @ y, states[-1], graphc.Out(w.T, sharding=("data",))], mode=MODE)
    assert "float64[64, 64]" not in str(f.plan(normal(8, 64)))
    value, given = np.asarray(w.get_value()), normal(8, 64)
    product, last, turned = f(given)
    np.testing.assert_allclose(product, given @ value, rtol=1e-12, atol=1e-12)
    reference = np.linalg.matrix_power(0.5 * value.T, 3) @ given.T
    np.testing.assert_allclose(last, reference, rtol=1e-12, atol=1e-12)
    assert isinstance(turned, LowRank)
    assert lies(turned.u, "data")


def test_a_variable_on_a_mesh_of_its_own_stays_there() -> None:
    value = Kronecker(normal(4, 2), normal(3, 3))
    w = graphc.shared(value, "w", sharding=named(MESH, "data", "model"))
    f = graphc.function([], gt.ones(12) @ w, updates=[(w, 2.0 * w)])
    assert f.mode.options["mesh"] is MESH
    for other in (w, copy.deepcopy(w), pickle.loads(pickle.dumps(w))):
        other.set_value(value)
        held = other.get_value(borrow=True)
        assert lies(held.left, "data", "model")
        assert lies(held.right)
    np.testing.assert_allclose(f(), np.asarray(value).sum(0), rtol=1e-12)
    assert lies(w.get_value(borrow=True).left, "data", "model")
    np.testing.assert_allclose(np.asarray(w.get_value()), 2 * np.asarray(value), rtol=1e-12)


def test_a_sharding_without_names_of_axes_is_refused() -> None:
    alone = jax.sharding.SingleDeviceSharding(jax.devices()[1])
    with pytest.raises(ShardingError, match=r"w: SingleDevice.* does not name the axes"):
        graphc.shared(LowRank(normal(8, 2), normal(2, 4)), "w", sharding=alone)


def test_a_plan_names_the_shardings_of_fields() -> None:
    w = graphc.shared(LowRank(normal(8, 2), normal(2, 4)), "w", sharding=("data", "model"))
    plan = graphc.function([], [], updates=[(w, 2.0 * w)], mode=MODE).plan()
    assert plan.placement.results == ("('data', None)", "(None, 'model')")
    assert "w.u: float64[?, ?]   (shared; sharding=('data', None))" in str(plan)


def test_lengths_that_do_not_divide_name_the_class_and_the_axis() -> None:
    value = quantize(normal(16, 64), "int4")
    problem = (
        r"w\.scales.*, a field of AffineQuantized with sharding=\('data', 'model'\): "
        "axis 1 of length 1 cannot be divided into 2"
    )
    w = graphc.shared(value, "w", sharding=("data", "model"))
    f = graphc.function([], gt.ones(16) @ w, mode=MODE)
    v = gt.implicit(value, name="w", sharding=("data", "model"))
    for declare in (
        f,
        lambda: graphc.function([v], gt.ones(16) @ v, mode=MODE),
        lambda: graphc.shared(value, "w", sharding=named(MESH, "data", "model")),
    ):
        with pytest.raises(ShardingError, match=problem):
            declare()
    with pytest.raises(ShardingError, match="a field of AffineQuantized with") as caught:
        graphc.function([], gt.ones(16) @ gt.shard(value, ("data", "model")), mode=MODE)
    assert str(caught.value.where).startswith("implicit_on_mesh.py")
    with graphc.config.change_flags(mode=MODE), pytest.raises(ShardingError, match="field scales"):
        gt.shard(value, ("data", "model"))
