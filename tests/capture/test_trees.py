"""Lifted functions as trees: JAX compiles them once, and MLX's functions of trees take them."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map, tree_unflatten

from graphc.capture import Lifted, lift, rebuild
from graphc.tensor.core.runtime import runtime


def test_leaves_are_arrays_alone_and_the_structure_is_the_stripped_function() -> None:
    w = np.ones(12)
    lifted = lift(lambda x: x * w + 1)
    leaves, structure = jax.tree.flatten(lifted)
    assert [x is w for x in leaves] == [True]
    again = jax.tree.unflatten(structure, [w + 1])
    assert isinstance(again, Lifted)
    assert rebuild(*again)(1.0)[0] == 3.0
    assert structure == jax.tree.structure(lift(lambda x: x * w + 1))
    assert structure != jax.tree.structure(lift(lambda x: x * w + 2))


def test_paths_of_leaves_have_the_names_of_variables() -> None:
    w, parameters = np.ones(12), {"b": np.ones(13)}
    found = jax.tree_util.tree_flatten_with_path(lift(lambda x: x * w + parameters["b"]))[0]
    keys = [path[-1] for path, _ in found]
    assert set(keys) == {jax.tree_util.DictKey("w"), jax.tree_util.DictKey("parameters['b']")}


def test_mapping_over_a_tree_gives_a_function_of_new_arrays() -> None:
    w = np.arange(12.0)
    doubled = jax.tree.map(lambda x: 2 * x, lift(lambda x: x * w))
    np.testing.assert_array_equal(rebuild(*doubled)(1.0), 2 * w)


class Traced:
    """A compiled caller of lifted functions that counts how often it is traced."""

    def __init__(self) -> None:
        self.count = 0
        self.call = jax.jit(self._call)

    def _call(self, lifted: Lifted, *args: Any) -> Any:
        self.count += 1
        return rebuild(*lifted)(*args)


def step(decay: Any, w: Any) -> Callable[..., Any]:
    def smooth(carry: Any, x: Any) -> tuple[Any, Any]:
        carry = decay * carry + x @ w
        return carry, carry.sum()

    return smooth


def test_a_step_of_a_scan_is_traced_once_for_all_captured_arrays() -> None:
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(5, 4)).astype("float32")
    run = Traced()
    scan = jax.jit(lambda lifted, x: run_scan(run, lifted, x))
    for seed in range(4):
        w = np.random.default_rng(seed).normal(size=(4, 3)).astype("float32")
        decay = runtime(0.5 + seed / 10)
        got = scan(lift(step(decay, w)), xs)
        carry = np.zeros(3, "float32")
        for x in xs:
            carry = float(decay) * carry + x @ w
        np.testing.assert_allclose(got, carry, rtol=1e-5)
    assert run.count == 1


def run_scan(run: Traced, lifted: Lifted, xs: Any) -> Any:
    run.count += 1
    return jax.lax.scan(rebuild(*lifted), jnp.zeros(3, "float32"), xs)[0]


def test_a_mask_function_is_traced_once_for_all_documents() -> None:
    run = Traced()
    index = np.arange(16)
    for length in (2, 4, 8):
        document = index // length

        def mask_mod(b: Any, h: Any, q: Any, k: Any, document: Any = document) -> Any:
            return (q >= k) & (document[q] == document[k])

        def both(*indices: Any, masks: Any = (mask_mod, lambda b, h, q, k: q >= k)) -> Any:
            return functools.reduce(jnp.logical_and, [mask(*indices) for mask in masks])

        dense = run.call(lift(both), 0, 0, index[:, None], index[None, :])
        right = (index[:, None] >= index) & (document[:, None] == document)
        np.testing.assert_array_equal(dense, right)
    assert run.count == 1


def loss_of(x: Any, y: Any, strength: float) -> Callable[[Any], Any]:
    return lambda w: jnp.mean((x @ w - y) ** 2) + strength * jnp.sum(w**2)


def test_a_loss_that_captures_its_batch_is_traced_once() -> None:
    run = Traced()
    gradient = jax.jit(lambda lifted, w: jax.grad(lambda w: run._call(lifted, w))(w))
    w = jnp.ones(10)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(32, 10)), rng.normal(size=32)
        got = gradient(lift(loss_of(x, y, 0.5)), w)
        right = 2 / 32 * x.T @ (x @ np.ones(10) - y) + np.ones(10)
        np.testing.assert_allclose(got, right, rtol=1e-4)
    assert run.count == 1
    gradient(lift(loss_of(x, y, 0.25)), w)
    assert run.count == 2


def test_captured_arrays_have_gradients() -> None:
    x, y = np.arange(24.0).reshape(12, 2), np.arange(12.0)
    lifted = lift(loss_of(x, y, 0.0))
    w = jnp.array([0.5, -0.5])
    gradient = jax.grad(lambda lifted: rebuild(*lifted)(w))(lifted)
    assert isinstance(gradient, Lifted)
    assert gradient.stripped == lifted.stripped
    found = dict(zip(lifted.stripped.names, gradient.leaves, strict=True))
    residual = x @ np.array(w) - y
    np.testing.assert_allclose(found["y"], -residual / 6, rtol=1e-5)
    np.testing.assert_allclose(found["x"], np.outer(residual, w) / 6, rtol=1e-5)


def test_numbers_marked_runtime_are_traced_and_weak() -> None:
    run = Traced()
    x = jnp.ones(3, "float16")
    for rate in (0.5, 0.25):
        marked = runtime(rate)
        y = run.call(lift(lambda x: x * marked), x)  # noqa: B023 (called at once)
        assert y.dtype == "float16"
        assert y[0] == rate
    assert run.count == 1


def test_a_rebound_capture_is_used_anew() -> None:
    run = Traced()
    w = np.ones(12)
    f = lambda x: x * w  # noqa: E731 (as users write it)
    assert run.call(lift(f), 1.0)[0] == 1.0
    w = 2 * w
    assert run.call(lift(f), 1.0)[0] == 2.0
    w[:] = 3
    assert run.call(lift(f), 1.0)[0] == 3.0
    assert run.count == 1


def test_a_captured_array_is_no_part_of_the_lowered_program() -> None:
    w = np.zeros(1_000_000)
    lowered = jax.jit(lambda lifted, x: rebuild(*lifted)(x)).lower(lift(lambda x: x * w), 1.0)
    assert len(lowered.as_text()) < 5000


def test_small_captures_that_differ_are_traced_again() -> None:
    run = Traced()
    f = functools.partial(lambda x, n: x * n, n=2)
    assert run.call(lift(f), 1.0) == 2.0
    assert run.call(lift(functools.partial(f.func, n=2.0)), 1.0) == 2.0
    assert run.count == 2


ORDERS = {
    "JAX first": "import jax\nfrom graphc.capture import lift, rebuild\nlifted = lift(f)\n",
    "JAX after lift": (
        "from graphc.capture import lift, rebuild\nlifted = lift(f)\n"
        "assert 'jax' not in sys.modules\nimport jax\n"
    ),
    "JAX between": (
        "from graphc.capture import lift, rebuild\nlift(f)\nimport jax.numpy\nlifted = lift(f)\n"
    ),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("order", ORDERS)
def test_jax_may_be_imported_before_or_after(order: str) -> None:
    script = (
        "import sys\nimport numpy as np\nw = np.ones(12)\nf = lambda x: x * w\n"
        f"{ORDERS[order]}"
        "import jax\n"
        "assert len(jax.tree.leaves(lifted)) == 1\n"
        "assert jax.jit(lambda g, x: rebuild(*g)(x))(lifted, 2.0)[0] == 2.0\n"
        "assert [x for x in sys.meta_path if 'graphc' in type(x).__module__] == []\n"
        "assert 'graphc' not in type(sys.modules['jax.tree_util'].__loader__).__module__\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


# MLX.


def test_functions_of_trees_of_mlx_take_leaves_and_whole_functions() -> None:
    w, b = mx.arange(12.0), mx.ones(12)
    stripped, leaves = lifted = lift(lambda x: x * w + b)
    assert set(stripped.names) == {"w", "b"}
    doubled = tree_map(lambda x: 2 * x, leaves)
    assert rebuild(stripped, doubled)(1.0).tolist() == (2 * w + 2 * b).tolist()
    flat = tree_flatten(leaves)
    assert [name for name, _ in flat] == ["0", "1"]
    assert rebuild(stripped, tree_unflatten(flat))(1.0).tolist() == (w + b).tolist()
    # The stripped function is a leaf among the others to MLX, and is carried along.
    whole = tree_map(lambda x: 2 * x if isinstance(x, mx.array) else x, lifted)
    assert isinstance(whole, Lifted)
    assert rebuild(*whole)(1.0).tolist() == (2 * w + 2 * b).tolist()
    again = tree_unflatten(tree_flatten(lifted))
    assert rebuild(*again)(1.0).tolist() == (w + b).tolist()


def test_mlx_differentiates_and_is_never_stale() -> None:
    def run(stripped: Any) -> Any:
        return lambda leaves, x: rebuild(stripped, leaves)(x).sum()

    for scale in (1.0, 2.0):
        w = scale * mx.ones(12)
        stripped, leaves = lift(lambda x: x * w**2)  # noqa: B023 (called at once)
        (gradient,) = mx.grad(run(stripped))(leaves, mx.array(3.0))
        assert gradient.tolist() == [6.0 * scale] * 12
        compiled = mx.compile(lambda x, *leaves: [run(stripped)(leaves, x)])  # noqa: B023
        assert compiled(mx.array(3.0), *leaves)[0].item() == 36 * scale**2
