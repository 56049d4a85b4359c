"""Stacks of structured arrays, of which no two axes are as long, against the stack of the dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import graphc
import graphc.tensor as gt
from graphc import implicit as im
from graphc.implicit.treedef import Treedef
from graphc.ir import dtype_name, is_inexact
from tests.implicit.symbolic import coded, outer
from tests.modes import uncompiled

LAYERS, ROWS, COLUMNS, RANK, TAIL = 5, 4, 6, 2, 40

Make = Callable[[np.random.Generator], Any]


def normal(rng: np.random.Generator, *lengths: int) -> Any:
    return np.asarray(rng.normal(size=lengths))


def lora(rng: np.random.Generator, base: Any) -> im.LoRA:
    m, n = base.shape
    return im.LoRA(base, normal(rng, m, RANK), normal(rng, RANK, n), normal(rng))


def dora(rng: np.random.Generator, base: Any, axis: int) -> im.DoRA:
    n = base.shape[axis]
    return im.DoRA(lora(rng, base), rng.uniform(1, 2, n), rng.uniform(50, 60, n), axis)


def stored(rng: np.random.Generator) -> Any:
    """Nine elements at random, of a matrix that stores only them."""
    dense = np.zeros(ROWS * COLUMNS)
    dense[rng.permutation(dense.size)[:9]] = normal(rng, 9)
    return dense.reshape(ROWS, COLUMNS)


def packed(kind: str, axis: int = -1, **options: Any) -> Make:
    """A quantized matrix whose last group is not full."""
    shape = (ROWS, TAIL) if axis == -1 else (TAIL, COLUMNS)
    return lambda rng: im.quantize(normal(rng, *shape), kind, axis=axis, **options)


def places(rng: np.random.Generator) -> Any:
    return np.stack([rng.integers(0, ROWS, 7), rng.integers(0, COLUMNS, 7)], -1)


ELEMENTS: dict[str, Make] = {
    "LoRA": lambda rng: lora(rng, normal(rng, ROWS, COLUMNS)),
    "DoRA": lambda rng: dora(rng, normal(rng, ROWS, COLUMNS), -1),
    "DoRA of rows": lambda rng: dora(rng, normal(rng, ROWS, COLUMNS), -2),
    "DoRA of codes": lambda rng: dora(rng, packed("int8", group_size=32)(rng), -1),
    "LowRank": lambda rng: im.LowRank(normal(rng, ROWS, RANK), normal(rng, RANK, COLUMNS)),
    "Kronecker": lambda rng: im.Kronecker(normal(rng, 2, 2), normal(rng, 2, 3)),
    "Toeplitz": lambda rng: im.Toeplitz(normal(rng, ROWS), normal(rng, COLUMNS)),
    "symmetric Toeplitz": lambda rng: im.Toeplitz(normal(rng, COLUMNS)),
    "Diagonal": lambda rng: im.Diagonal(normal(rng, COLUMNS)),
    "Identity": lambda rng: im.Identity(normal(rng), COLUMNS),
    "BlockDiagonal": lambda rng: im.BlockDiagonal(normal(rng, 2, 2, 3)),
    "unequal blocks": lambda rng: im.BlockDiagonal((normal(rng, 1, 2), normal(rng, 3, 4))),
    "OneHot": lambda rng: im.OneHot(rng.integers(0, 6, ROWS), COLUMNS, normal(rng, ROWS)),
    "Fill": lambda rng: im.Fill(normal(rng), (ROWS, COLUMNS)),
    "BCOO": lambda rng: im.BCOO(normal(rng, 7), places(rng), (ROWS, COLUMNS)),
    "CSR": lambda rng: im.CSR.from_scipy(scipy.sparse.csr_array(stored(rng))),
    "CSC": lambda rng: im.CSC.from_scipy(scipy.sparse.csc_array(stored(rng))),
    "KernelMatrix": lambda rng: im.KernelMatrix(
        normal(rng, ROWS, 3), np.asarray(rng.uniform(1, 2)), normal(rng, COLUMNS, 3)
    ),
    "Sum": lambda rng: im.Sum.of(ELEMENTS["LowRank"](rng), normal(rng, ROWS, COLUMNS)),
    "Product": lambda rng: im.Product.of(ELEMENTS["LowRank"](rng), normal(rng, COLUMNS, 7)),
    "ChannelScaled": lambda rng: im.ChannelScaled(normal(rng, ROWS, COLUMNS), normal(rng, ROWS)),
    "ChannelPermuted": lambda rng: im.ChannelPermuted(
        normal(rng, ROWS, COLUMNS), rng.permutation(COLUMNS), True
    ),
    "int8": packed("int8", group_size=32),
    "int3 of rows": packed("int3", -2, group_size=32),
    "nf4": packed("nf4", group_size=32),
    "ternary5": packed("ternary5", group_size=20),
    "1bit of rows": packed("1bit", -2, group_size=32),
    "nvfp4": packed("nvfp4"),
    "a user's class": lambda rng: outer(ROWS, COLUMNS, seed=int(rng.integers(99))),
    "a user's handlers": lambda rng: coded(ROWS, COLUMNS, seed=int(rng.integers(99))),
}


def programs(xp: Any, s: Any) -> list[Any]:
    """What makes a stack dense, or has a handler."""
    turned = xp.swapaxes(s, -1, -2)
    return [xp.exp(s), s + 1, xp.sum(s, axis=0), xp.matmul(s, turned), s[:, 1], s[2], 2 * turned]


def stack(name: str, mode: str) -> tuple[Treedef, list[Any]]:
    """Return a structure and its fields, each with an axis of layers in front."""
    rng = np.random.default_rng(0)
    forms = [Treedef.of(ELEMENTS[name](rng)) for _ in range(LAYERS)]
    fields = [np.stack(layers) for layers in zip(*[fields for _, fields in forms], strict=True)]
    if mode == "MLX":
        fields = [x.astype("float32") if x.dtype == "float64" else x for x in fields]
    return forms[0][0], fields


def expected(treedef: Treedef, fields: list[Any]) -> list[Any]:
    """Return NumPy's results for matrices that are made dense one by one."""
    layers = [treedef.build([x[i] for x in fields]) for i in range(LAYERS)]
    return programs(np, np.stack([np.asarray(layer) for layer in layers]))


def weighted_sum(xp: Any, results: list[Any], like: list[Any]) -> Any:
    """Return a scalar that depends on each element of the results in its own way."""
    weights = [np.cos(np.arange(y.size)).reshape(y.shape) for y in like]
    pairs = zip(results, weights, strict=True)
    return sum(xp.sum(y * weight.astype(dtype_name(y.dtype))) for y, weight in pairs)


def by_graph(treedef: Treedef, fields: list[Any], mode: str) -> tuple[list[Any], list[Any]]:
    """Return the results, and the gradients with respect to the fields."""
    array = treedef.build(fields)
    s = gt.implicit(array, name="s")
    results = [gt.as_tensor(y) for y in programs(gt, s)]
    loss = weighted_sum(gt, results, expected(treedef, fields))
    smooth = [x for x in Treedef.of(s.array)[1] if is_inexact(x.dtype)]
    gradients = graphc.grad(loss, smooth, disconnected_inputs="ignore")
    f = graphc.function([s], [*results, *gradients], uncompiled(mode), returns="numpy")
    values = [np.asarray(y) for y in f(array)]
    return values[: len(results)], values[len(results) :]


def by_function_of_jax(treedef: Treedef, fields: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the results, and the gradients with respect to the fields."""
    like = expected(treedef, fields)
    smooth = [is_inexact(dtype_name(x.dtype)) for x in fields]

    @im.implicit
    def compute(s: Any) -> Any:
        results = programs(jnp, s)
        return weighted_sum(jnp, results, like), results

    def loss(floats: list[Any]) -> Any:
        rest = iter(floats)
        moved = [next(rest) if flag else x for x, flag in zip(fields, smooth, strict=True)]
        total, results = compute(treedef.build(moved))
        return total, [im.materialize_nested(y, full=True) for y in results]

    with jax.enable_x64(True):
        floats = [jnp.asarray(x) for x, flag in zip(fields, smooth, strict=True) if flag]
        (_, results), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(floats)
    return [np.asarray(y) for y in results], [np.asarray(g) for g in gradients]


def slope(treedef: Treedef, fields: list[Any], steps: list[Any]) -> float:
    """Return the change of the weighted sum along steps of the fields, by differences."""
    like, size = expected(treedef, fields), 1e-6

    def value(sign: int) -> Any:
        rest = iter(steps)
        moved = [
            x.astype("float64") + sign * size * next(rest) if is_inexact(dtype_name(x.dtype)) else x
            for x in fields
        ]
        return weighted_sum(np, expected(treedef, moved), like)

    return float((value(1) - value(-1)) / (2 * size))


@pytest.mark.sample(every=3, rest=2)
@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX", "function of JAX"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_a_stack_has_the_values_and_gradients_of_its_matrices(name: str, mode: str) -> None:
    treedef, fields = stack(name, mode)
    if mode == "function of JAX":
        results, gradients = by_function_of_jax(treedef, fields)
    else:
        results, gradients = by_graph(treedef, fields, mode)
    digits = 1e-4 if fields[-1].dtype == "float32" or mode == "MLX" else 1e-10
    for y, right in zip(results, expected(treedef, fields), strict=True):
        assert y.shape == right.shape
        np.testing.assert_allclose(y, right, digits, digits * np.abs(right).max())
    rng = np.random.default_rng(1)
    steps = [rng.normal(size=g.shape) for g in gradients]
    along = sum(float(np.sum(g * step)) for g, step in zip(gradients, steps, strict=True))
    right = slope(treedef, fields, steps)
    np.testing.assert_allclose(along, right, 10 * max(digits, 1e-6), 1e-6)


@pytest.mark.parametrize("name", ["LoRA", "DoRA", "DoRA of rows"])
def test_merge_adds_the_updates_of_a_stack(name: str) -> None:
    treedef, fields = stack(name, "NUMPY")
    merged = im.merge({"w": treedef.build(fields)})["w"]
    np.testing.assert_allclose(merged + 1, expected(treedef, fields)[1])
