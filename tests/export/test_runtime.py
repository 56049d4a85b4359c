"""Programs in files that JAX runs where graphc is not, of any length and with derivatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ExportError
from graphc.export import runtime
from graphc.ir import graph_inputs
from tests.export.alone import check_alone, training


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.graphc"


def test_it_runs_without_graphc_and_keeps_its_state(file: Path) -> None:
    f, _ = training("JAX")
    f.export(file, dynamic={"x": ("n", 3)}, programs=("JAX",), platforms=("cpu", "cuda"))
    x = np.linspace(-1, 1, 12).reshape(4, 3)
    w = check_alone(f, file, x, x[1:], absent=("graphc",))
    model = graphc.load(file)  # the state in the file is what it was
    assert model.get_value("count") == 0
    assert model.manifest["program"]["platforms"] == ["cpu", "cuda"]
    assert np.shape(w) == (3, 3)


X, Q = gt.matrix("x", dtype="float64"), gt.matrix("q", dtype="float64")
W = np.linspace(-1, 1, 6).reshape(3, 2)
SQUARE = gt.as_tensor(np.linspace(-0.5, 0.5, 9).reshape(3, 3))
N = X.shape[0]
ANY_LENGTH: dict[str, Any] = {
    "a layer": gt.tanh(X @ gt.as_tensor(W) + np.array([0.5, -0.5])),
    "means": (X - X.mean(0)) ** 2,
    "a softmax": gt.softmax(X, axis=0) * X,
    "a reshape": X.reshape((-1,)) ** 3,
    "attention": (gt.softmax(X @ Q.T, axis=-1) @ Q) ** 2,
    "a factorisation": gt.linalg.cholesky(X.T @ X / X.shape[0] + gt.eye(3)),
    "slices": (X[1:] - X[:-1]) ** 3 * X[::-1][:-1] + X[:1].sum() * X[-1],
    "updates": X[1:].inc(X[:-1] ** 2)[0].set(X[-1] ** 2)[::2] ** 2,
    "counting": (gt.arange(1, N + 1)[:, None] * X) ** 2 / N,
    "the shorter half": X[: N // 2] ** 3 - X[N - N // 2 :] ** 2,
    "a loop": graphc.scan(lambda row, h: gt.tanh(h @ SQUARE + row), X, gt.zeros(3)) ** 2,
    "a loop with taps, backwards": graphc.scan(
        lambda now, then, h: gt.sin(h * now) + then,
        {"input": X, "taps": [0, -1]},
        gt.ones(3),
        go_backwards=True,
    ),
    "a loop of as many steps": graphc.scan(lambda h: gt.sin(h + X[0]), None, X[-1], n_steps=N),
    "a loop in a loop": graphc.map(
        lambda row: graphc.scan(lambda other, h: gt.tanh(h * row + other), X, row)[-1], X
    ),
    "a loop until": graphc.scan(
        lambda row, h: (gt.tanh(h) + row, graphc.until(h.sum() > 4)), X, gt.ones(3)
    )[-1],
    "a recurrence": graphc.scan(lambda row, h: 0.5 * h + row, X, gt.zeros(3)) ** 2,
}


LEFT = {"means", "a reshape", "the shorter half", "a loop in a loop", "a loop until"}
LEFT |= {"a loop of as many steps", "attention"}
"""To the exhaustive tests: others have the same operations."""


@pytest.mark.whole
@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=[pytest.mark.exhaustive] if x in LEFT else []) for x in ANY_LENGTH],
)
def test_one_program_takes_every_length_and_is_differentiated_twice(name: str, file: Path) -> None:
    y = ANY_LENGTH[name].mean()
    names = {"x": ("n", 3), "q": ("m", 3)}
    inputs = [x for x in (X, Q) if x in set(graph_inputs([y]))]
    dynamic = {str(x.name): names[str(x.name)] for x in inputs}
    f = graphc.function(inputs, [y, graphc.grad(y, X)], mode="NUMPY")
    along = gt.grad((graphc.grad(y, X) * X).sum(), X)
    second = graphc.function(inputs, along, mode="NUMPY", on_unused_input="ignore")
    graphc.function(inputs, y, mode="JAX").export(
        file, dynamic=dynamic, programs=("JAX",), derivatives=2
    )
    model = runtime.load(file)
    held = [model.arrays[x] for x in model.manifest["program"]["arrays"]]

    def cost(x: Any, *rest: Any) -> Any:
        return model.program(x, *rest, *held)[0]

    def moved(x: Any, *rest: Any) -> Any:
        return (jax.grad(cost)(x, *rest) * x).sum()

    for n in (2, 5):
        given = [np.sin(np.arange(k * 3.0)).reshape(k, 3) for k in (n, n + 1)][: len(inputs)]
        value, slope = f(*given)
        with jax.enable_x64(True):
            np.testing.assert_allclose(model(*given), value, rtol=1e-10)
            np.testing.assert_allclose(jax.grad(cost)(*given), slope, rtol=1e-8, atol=1e-10)
            found = jax.grad(moved)(*given)
        np.testing.assert_allclose(found, second(*given), rtol=1e-7, atol=1e-9)


def test_a_length_that_is_to_be_known_is_named_with_its_line(file: Path) -> None:
    x = gt.vector("x")
    with pytest.raises(
        ExportError, match=r"JAX cannot write the program: fft needs.* not _0_0"
    ) as caught:
        graphc.function([x], abs(gt.fft.fft(x))).export(file, programs=("JAX",))
    assert 'dynamic={"x": (10, None)}' in str(caught.value)
    assert "test_runtime.py" in str(caught.value)
    assert not file.exists()
    n = gt.iscalar("n")
    with pytest.raises(ExportError, match=r"The values of n: int32\[\] decide a shape"):
        graphc.function([n], gt.zeros(n)).export(file, programs=("JAX",))
    with pytest.raises(ArgumentError, match="programs="):
        graphc.function([x], x * 2).export(file, programs=("XLA",))


def by_hand(x: Any, w: Any) -> Any:
    """A loop over x, a length in numbers, and a slice, in JAX alone."""
    h, _ = jax.lax.scan(lambda h, row: (jax.numpy.tanh(h @ w + row), None), x[0], x[1:])
    return (h**2).sum() / x.shape[0]


def test_it_gives_what_jax_written_by_hand_gives_for_every_platform(file: Path) -> None:
    x, w = gt.matrix("x", dtype="float64"), gt.matrix("w", dtype="float64")
    h = graphc.scan(lambda row, h: gt.tanh(h @ w + row), x[1:], x[0])[-1]
    f = graphc.function([x, w], (h**2).sum() / x.shape[0], mode="JAX")
    dynamic = {"x": ("n", "m"), "w": ("m", "m")}
    platforms = ("cpu", "cuda", "tpu")
    f.export(file, dynamic=dynamic, programs=("JAX",), derivatives=2, platforms=platforms)
    model = runtime.load(file)
    assert [*model.exported.platforms] == [*platforms]
    assert model.manifest["program"]["conditions"] == ["n - 1 >= 1"]

    def of(run: Any) -> Any:
        def along(x: Any, w: Any) -> Any:
            return (jax.grad(run)(x, w) * jax.numpy.cos(x)).sum()

        return lambda *xs: (run(*xs), jax.grad(run, (0, 1))(*xs), jax.grad(along, (0, 1))(*xs))

    for n, m in ((2, 1), (6, 3)):
        given = np.linspace(-1, 1, n * m).reshape(n, m), np.cos(np.arange(m * m)).reshape(m, m)
        with jax.enable_x64(True):
            found = of(lambda *xs: model.program(*xs)[0])(*given)
            for y, z in zip(*map(jax.tree.leaves, (found, of(by_hand)(*given))), strict=True):
                np.testing.assert_allclose(y, z, rtol=1e-9, atol=1e-12)


def test_keys_are_inputs_and_state(file: Path) -> None:
    key, state = gt.random.rng("key"), gt.random.shared_rng(seed=7, name="state")
    x = gt.vector("x", dtype="float64")
    following, noise = key.normal(size=x.shape)
    moved, more = gt.random.uniform(size=x.shape, rng=state, return_next_rng=True)
    results = {"y": noise * x + more, "next": following}
    f = graphc.function([key, x], results, updates=[(state, moved)], mode="NUMPY")
    f.export(file, dynamic={"x": ("n",)}, programs=("JAX",))
    model = runtime.load(file)
    given = np.asarray(jax.random.key_data(jax.random.key(3)))
    for n in (2, 5):
        found, wanted = model(given, np.ones(n)), f(given, np.ones(n))
        np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-12)
        np.testing.assert_array_equal(found["next"], wanted["next"])
        given = wanted["next"]
    np.testing.assert_array_equal(model.arrays["state"], state.get_value())


def test_derivatives_in_other_words_are_refused(file: Path) -> None:
    x = gt.scalar("x", dtype="float64")
    f = graphc.function([x], x**3, mode="JAX")
    f.export(file, programs=("JAX",), derivatives="grad")
    with jax.enable_x64(True):
        cube = lambda x: runtime.load(file).program(x)[0]  # noqa: E731
        assert float(jax.grad(cube)(2.0)) == 12.0
    for wrong in ("jvp", ("grad", "jvp"), -1):
        with pytest.raises(ArgumentError, match=r"export a function of them: graphc\.pushforward"):
            f.export(file, programs=("JAX",), derivatives=wrong)


def test_lengths_that_give_no_result_are_refused_when_it_is_called(file: Path) -> None:
    x, y = gt.vectors("x", "y")
    f = graphc.function([x, y], x[2] * x + y)
    f.export(file, programs=("JAX",))
    model = runtime.load(file)
    assert model.manifest["program"]["conditions"] == ["_0_0 >= 3", "_1_0 == _0_0"]
    assert np.asarray(model([1.0, 2.0, 3.0], [1.0, 0.0, 0.0])).tolist() == [4.0, 6.0, 9.0]
    for wrong in (([1.0], [1.0]), ([1.0, 2.0, 3.0], [1.0])):
        with pytest.raises(ValueError, match=r"_0_0 >= 3.*_1_0 == _0_0"):
            model(*wrong)


def test_a_file_without_a_program_says_so(file: Path) -> None:
    x = gt.vector("x")
    graphc.function([x], x * 2).export(file)
    with pytest.raises(ValueError, match="has no program for JAX, it has none"):
        runtime.load(file)


def test_arguments_are_taken_by_place_and_name(file: Path) -> None:
    x, y = gt.vectors("x", "y")
    f = graphc.function([x, y], x - y)
    f.export(file, dynamic={"x": ("n",), "y": ("n",)}, programs=("JAX",))
    model = runtime.load(file)
    assert np.asarray(model([3.0], y=[1.0])).tolist() == [2.0]
    for args, kwargs in (([[1.0]], {}), ([[1.0]], {"x": [1.0]}), ([[1.0]] * 3, {}), ([], {"z": 0})):
        with pytest.raises(TypeError, match=r"is missing|the function takes \['x', 'y'\]"):
            model(*args, **kwargs)
