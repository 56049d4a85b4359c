"""Two structures at once: sums and products of every pair, against whole arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.implicit import ImplicitArray, materialize_nested, materializing
from graphc.implicit.functions import implicit
from graphc.implicit.structures.diagonal import Diagonal, Identity
from graphc.implicit.structures.fill import Fill
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.structures.low_rank import LowRank
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.zeros import Ones, Zeros
from graphc.implicit.treedef import Treedef


def structures(*batch: int) -> dict[str, Any]:
    """One of each, 7 by 7, or two of each."""
    rng = np.random.default_rng(0)

    def normal(*lengths: int) -> Any:
        return np.asarray(rng.normal(size=(*batch, *lengths)))

    places = rng.integers(-1, 8, (*batch, 7))
    return {
        "low rank": LowRank(normal(7, 1), normal(1, 7)),
        "lora": LoRA(normal(7, 7), normal(7, 2), normal(2, 7), normal()),
        "diagonal": Diagonal(normal(7)),
        "identity": Identity(normal(), 7),
        "fill": Fill(normal(), (7, 7)),
        "zeros": Zeros(np.zeros(batch), (7, 7)),
        "ones": Ones(np.ones(batch), (7, 7)),
        "one-hot": OneHot(places, 7, None, "float64"),
        "weighted": OneHot(places, 7, normal(7), "float64", -2),
    }


NAMES = list(structures())
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": operator.matmul,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}


def keeps(name: str, a: str, b: str) -> bool:
    """Whether neither of a pair becomes whole, at least where they are single matrices."""
    pair = {a, b}
    if "zeros" in pair or name == "matmul":
        return True
    if name == "multiply":
        return bool(pair & {"fill", "ones", "diagonal", "identity"}) or pair == {"low rank"}
    if pair <= {"fill", "ones"} or pair <= {"diagonal", "identity"}:
        return True
    return "low rank" in pair or ("lora" in pair and not pair & {"one-hot", "weighted"})


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("a", NAMES)
@pytest.mark.parametrize("batch", [(), (2,)], ids=["matrix", "stack"])
def test_pairs(name: str, a: str, batch: tuple[int, ...]) -> None:
    operation, all_ = OPERATIONS[name], structures(*batch)
    x = all_[a]
    for b, y in all_.items():
        wanted = operation(np.asarray(x), np.asarray(y))
        policy = "error" if not batch and keeps(name, a, b) else "allow"
        with materializing(policy), jax.enable_x64(True):
            made = (operation(x, y), jax.jit(implicit(operation))(x, y))
            for found in made:
                assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), b
                values = materialize_nested(found, full=True)
                np.testing.assert_allclose(values, wanted, 1e-12, 1e-12, err_msg=b)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("a", NAMES)
def test_pairs_have_gradients(a: str) -> None:
    """Of a loss in which both are factors, by the fields of both."""
    all_ = structures()
    x, weights = all_[a], np.cos(np.arange(21.0)).reshape(3, 7)
    for y in all_.values():
        pair = [gt.implicit(part, name=f"w{i}") for i, part in enumerate((x, y))]
        by = [field for part in pair for field in part.inputs if field.type.dtype == "float64"]
        if not by:
            continue
        results = []
        for made in (pair, [part.dense() for part in pair]):
            loss = ((weights @ (made[0] @ made[1])) ** 2).sum()
            g = graphc.grad(loss, by, disconnected_inputs="ignore")
            results.append(graphc.function(pair, g, mode="NUMPY", on_unused_input="ignore")(x, y))
        for found, wanted in zip(*results, strict=True):
            np.testing.assert_allclose(found, wanted, 1e-9, 1e-9)


@pytest.mark.parametrize("a", NAMES)
def test_structures_pass_through_jax_unchanged(a: str) -> None:
    """As trees: jit, vmap, scan and map give the same class, with a shape that is right."""
    x = structures(2)[a]
    with jax.enable_x64(True):
        same: Any = jax.jit(lambda w: w)(x)
        _, rows = jax.lax.scan(lambda c, v: (c, v), 0.0, x)
        assert type(same) is type(rows) is type(x)
        assert same.shape == rows.shape == x.shape
        np.testing.assert_allclose(np.asarray(jax.vmap(lambda w: w)(rows)), np.asarray(x))


@pytest.mark.parametrize("a", NAMES)
def test_shape_and_dtype_are_what_materialize_gives(a: str) -> None:
    x = structures(2)[a]
    assert isinstance(x, ImplicitArray)
    whole = materialize_nested(x, full=True)
    assert (x.shape, x.dtype) == (whole.shape, whole.dtype)


@pytest.mark.parametrize("a", NAMES)
@pytest.mark.parametrize("batch", [(), (2,)], ids=["matrix", "stack"])
def test_mlx_makes_them_whole(a: str, batch: tuple[int, ...]) -> None:
    x = structures(*batch)[a].astype("float32")
    treedef, leaves = Treedef.of(x)
    whole = materialize_nested(treedef.build([mx.array(leaf) for leaf in leaves]), full=True)
    assert isinstance(whole, mx.array)
    np.testing.assert_allclose(np.asarray(whole), np.asarray(x), 1e-5, 1e-6)


UNKNOWN = {
    "low rank": (None, None),
    "lora": (None, None),
    "diagonal": (None, None),
    "fill": (None, 7, 7),
    "identity": (None, 7, 7),
    "one-hot": (None, 7),
    "weighted": (7, None),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "low rank": {"rank": 1},
    "lora": {"rank": 2, "scaled": True},
    "one-hot": {"index": "int64"},
    "weighted": {"index": "int64", "weighted": True, "axis": -2},
}


@pytest.mark.parametrize("a", UNKNOWN)
def test_lengths_need_not_be_known(a: str) -> None:
    shape, options = UNKNOWN[a], OPTIONS.get(a, {})
    value = structures(*[2] * (len(shape) - 2))[a]
    w = gt.implicit(type(value), shape, "float64", name="w", **options)
    x = gt.tensor("x", dtype="float64", ndim=len(shape))
    outputs = [x @ w, w @ x, (w * 2).mT @ x, w.sum(-1), w.sum(0)]
    v = np.asarray(value)
    given = np.random.default_rng(0).normal(size=v.shape)
    with materializing("error"):
        found = graphc.function([w, x], outputs, mode="NUMPY")(value, given)
    wanted = [given @ v, v @ given, 2 * np.swapaxes(v, -1, -2) @ given, v.sum(-1), v.sum(0)]
    for y, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, right, 1e-12, 1e-12)
