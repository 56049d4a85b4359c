"""Random draws: by keys, by generators that give the next one, and by streams."""

from __future__ import annotations

from typing import assert_type

import graphc
import graphc.tensor as gt
from graphc.random import Generator, RandomStream, SharedGenerator
from graphc.tensor import Tensor


def program() -> None:
    n = gt.lscalar("n")
    key = gt.random.key(3)
    assert_type(gt.random.split(key, 2), Tensor)
    assert_type(gt.random.normal(0, [1.0, 2.0], size=(n, 2), rng=key, dtype="float32"), Tensor)
    assert_type(gt.random.choice(5, size=3, rng=key), Tensor)
    both = gt.random.uniform(rng=key, return_next_rng=True)
    assert_type(both, tuple[Generator, Tensor])
    assert_type(gt.random.permutation(5, rng=key, return_next_rng=True), tuple[Generator, Tensor])
    stream = RandomStream(seed=3)
    assert_type(stream.poisson(2.0, size=3), Tensor)
    assert_type(stream.choice(5, replace=False, size=2), Tensor)
    assert_type(gt.random.rng("generator"), Generator)
    shared = gt.random.shared_rng(seed=7)
    assert_type(shared, SharedGenerator)
    following, x = shared.integers(100, size=3)
    assert_type(following, Generator)
    following, y = following.gamma(2.0, scale=x)
    assert_type(y, Tensor)
    f = graphc.function([], [x, y], updates={shared: following}, mode="NUMPY")
    assert_type(len(f()), int)
