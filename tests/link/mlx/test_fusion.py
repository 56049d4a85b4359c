"""How much MLX may fuse into one kernel, which a C++ compiler then has to take in."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.link.mlx.compiler import MAX_OPERATIONS_PER_KERNEL
from tests.modes import uncompiled

FUNCTIONS = [gt.tanh, gt.square, gt.abs, gt.sqrt, gt.arctan, gt.expm1, gt.log1p, gt.floor]


def tree(x: Any, leaves: int) -> Any:
    """A balanced sum of different functions, so that nothing but its size ends a kernel."""
    terms = [FUNCTIONS[i % 8](FUNCTIONS[i // 8 % 8](gt.abs(x) + i)) for i in range(leaves)]
    while len(terms) > 1:
        terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
    return terms[0]


@pytest.mark.parametrize("leaves", [2, 64])
def test_a_kernel_ends_where_it_would_be_large(
    leaves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = []
    contiguous = mx.contiguous
    monkeypatch.setattr(mx, "contiguous", lambda *x, **k: (ends.append(1), contiguous(*x, **k))[1])
    x = gt.fvector("x")
    f = graphc.function([x], tree(x, leaves), uncompiled("MLX"), returns="numpy")
    values = np.linspace(0.1, 1, 5, dtype=np.float32)
    found = f(values)
    operations = sum(node.inputs != () for node in f.graph.nodes)
    assert (operations > MAX_OPERATIONS_PER_KERNEL) == bool(ends)
    assert len(ends) <= operations / (MAX_OPERATIONS_PER_KERNEL / 2)
    wanted = graphc.function([x], tree(x, leaves), "NUMPY")(values)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
