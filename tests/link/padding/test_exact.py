"""Axes of unknown static length that the backend knows when it compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphcError
from graphc.ir import Graph
from graphc.link.padding.graph import pad
from graphc.tensor.arrays.diagonal import FromDiagonal
from graphc.tensor.core.tensor import Tensor
from tests.link.padding.compare import assert_padding_is_unseen, numbers
from tests.link.padding.run import run_padded

x, y = gt.matrix("x"), gt.matrix("y")
n, m = x.shape[0], x.shape[1]

OF_EXACT: dict[str, Callable[[], list[Tensor]]] = {
    "shape": lambda: [gt.shape(x), n * m],
    "reshape": lambda: [gt.reshape(x, (-1,)), gt.reshape(x, (m, n)), gt.reshape(x, (m, -1))],
    "broadcast": lambda: [gt.zeros((n, 2 * m)), gt.broadcast_to(x, (3, n, m)), gt.ones((n, n - 1))],
    "create": lambda: [gt.arange(n), gt.arange(1, m - 1, 2), gt.eye(n, m + 1, 1)],
    "diagonal": lambda: [gt.alloc_diag(x[0], 1), gt.diagonal(x)],
    "join": lambda: [gt.concatenate([x, x[:2], gt.zeros((1, m))])],
    "split": lambda: [*gt.split(x, [1, n - 1], n_splits=2, axis=0)],
    "pad": lambda: [gt.pad(x, [(n, 1), (0, m - 1)])],
    "specify": lambda: [gt.specify_shape(x, (4, m))],
}


@pytest.mark.parametrize("name", OF_EXACT)
def test_exact_arrays_are_not_padded(name: str) -> None:
    outputs = OF_EXACT[name]()
    assert_padding_is_unseen([x], outputs, numbers(4, 3), exact=[x])
    node = x.type()
    padded = pad(Graph([x], outputs), (), [node], [node])
    assert not padded.comparisons
    assert all(length is None for shape in padded.lengths for length in shape)


OF_BOTH: dict[str, Callable[[], list[Tensor]]] = {
    "reshape": lambda: [gt.reshape(y, (-1,)), gt.reshape(y[:, :6], (n, 3, -1))],
    "reshape to exact": lambda: [gt.reshape(y, (y.shape[1], n)), gt.reshape(y.T, (-1, n, 2))],
    "broadcast": lambda: [gt.broadcast_to(y, (n, 4, 6)), gt.zeros((n, y.shape[1])).sum(1)],
    "broadcast exact": lambda: [gt.broadcast_to(x, (y.shape[1], n, m))],
    "create": lambda: [gt.arange(n, y.shape[1]), gt.arange(n + y.shape[1])],
    "eye": lambda: [gt.eye(n, y.shape[1])],
    "diagonal": lambda: [gt.alloc_diag(gt.broadcast_to(y[0], (n, 6)), 1, 1, 2)],
    "join": lambda: [gt.concatenate([x, y], 1), gt.concatenate([y, x, y, x], 1)],
    "split": lambda: [*gt.split(y, [n, 6 - n], n_splits=2, axis=1)],
    "split exact": lambda: [*gt.split(x, [y.shape[1] - 4, 1], n_splits=2, axis=1)],
    "pad": lambda: [gt.pad(x, [(y.shape[1], 1), (2, m)]), gt.pad(y, [(n, 0), (1, m)])],
    "convolve": lambda: [gt.convolve(x[0], y[1]), gt.convolve(y[0], x[1])],
    "specify": lambda: [gt.specify_shape(y, (n, 6)), gt.specify_shape(y, (n, m + m))],
}


@pytest.mark.parametrize("name", OF_BOTH)
def test_padded_and_exact_arrays(name: str) -> None:
    arrays = np.nan_to_num(numbers(4, 3)), np.nan_to_num(numbers(4, 6))
    assert_padding_is_unseen([x, y], OF_BOTH[name](), *arrays, exact=[x])


def test_operands_of_padded_and_exact_lengths() -> None:
    z = gt.matrix("z")
    outputs = [x + z, z * gt.sum(x), gt.where(z > 0, x, 1.0), (z + x).sum(0), z @ x.T]
    arrays = np.nan_to_num(numbers(4, 3)), np.nan_to_num(numbers(4, 3)) + 1
    assert_padding_is_unseen([x, z], outputs, *arrays, exact=[x])


@pytest.mark.parametrize("name", ["specify", "broadcast", "diagonal", "split", "add"])
def test_exact_lengths_that_differ_from_known_ones_are_errors(name: str) -> None:
    k = gt.scalar("k", dtype="int64")
    z = gt.broadcast_to(x, (k, n, m))
    y = {
        "specify": lambda: gt.specify_shape(z, (None, 5, None)),
        "broadcast": lambda: gt.broadcast_to(z, (k, n, 5)),
        "diagonal": lambda: Tensor.make(FromDiagonal((5, 5), 0), z),
        "split": lambda: gt.split(z, [2, 3], n_splits=2, axis=1)[0],
        "add": lambda: z + np.ones((5, 3)),
    }[name]()
    with pytest.raises((GraphcError, ValueError)):
        run_padded([x, k], [y], [numbers(4, 3), 2], exact=[x])


def test_a_loop_that_stops_in_a_branch_or_a_step_is_exported_for_a_length_that_is_a_symbol() -> (
    None
):
    x, k = gt.vector("x"), gt.lscalar("k")

    def stopping(x_t: Any) -> Any:
        return graphc.scan(lambda a, s: (s + a, graphc.until(s > k)), x_t, np.float64(0))

    (n,) = jax.export.symbolic_shape("n")
    shapes = jax.ShapeDtypeStruct((n,), "float64"), jax.ShapeDtypeStruct((), "int64")
    for y in (
        graphc.cond(k > 2, lambda: stopping(x).sum(), x.sum),
        graphc.scan(lambda a: stopping(x * a)[-1], x),
    ):
        f = graphc.function([x, k], y, mode="JAX")
        with jax.enable_x64(True):
            exported = jax.export.export(jax.jit(f.pure))(*shapes)
            for length in (3, 9):
                values = np.arange(length) * 1.0, np.int64(4)
                np.testing.assert_allclose(exported.call(*values), f(*values))
