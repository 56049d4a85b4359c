"""Functions with batches of their own, on implicit arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from graphc.implicit import implicit, materializing
from tests.implicit.compare import assert_same
from tests.implicit.int8 import X, weight
from tests.implicit.programs import HITS, Int8


def test_a_batch_goes_by_the_rule_of_the_user() -> None:
    @custom_vmap
    def f(x: Any, w: Any) -> Any:
        return x @ w

    @f.def_vmap
    def _(size: int, batched: Any, x: Any, w: Any) -> Any:
        assert batched == [True, False]
        return 10 * (x @ w), True

    HITS.clear()
    xs = jnp.stack([X, -X])
    with materializing("error"):
        assert_same(implicit(f)(X, weight()), X @ weight().materialize())
        assert_same(
            jax.vmap(implicit(f), (0, None))(xs, weight()), 10 * xs @ weight().materialize()
        )
        assert_same(
            implicit(jax.vmap(f, (0, None)))(xs, weight()), 10 * xs @ weight().materialize()
        )
    assert HITS


def test_one_field_that_is_batched_makes_all_of_them_so() -> None:
    @custom_vmap
    def f(x: Any, w: Any) -> Any:
        return x @ w

    @f.def_vmap
    def _(size: int, batched: Any, x: Any, w: Any) -> Any:
        assert batched == [False, True]
        return jnp.einsum("ij,njk->nik", x, w) + 1, True

    w, scales = weight(), jnp.array([0.5, 2.0, 3.0])
    found = jax.vmap(lambda s: implicit(f)(X, Int8(w.values, s)))(scales)
    wanted = jax.vmap(lambda s: X @ (w.values.astype(jnp.float32) * s) + 1)(scales)
    assert_same(found, wanted)
