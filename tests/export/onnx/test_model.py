"""ONNX models of compiled functions, run by onnxruntime."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import onnxruntime
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ExportError
from graphc.implicit.quantized import quantize

EXAMPLES = Path(__file__).parents[3] / "examples"


def session(f: graphc.Function[Any], path: Path, **options: Any) -> Any:
    """The function's model, loaded."""
    f.export(path, **options)
    return onnxruntime.InferenceSession(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


def test_a_batch_has_any_length(path: Path) -> None:
    x, w = gt.matrix("x"), graphc.shared(np.linspace(-1, 1, 12).reshape(3, 4), name="w")
    f = graphc.function([x], {"y": gt.tanh(x @ w + 1), "sums": [x.sum(0)]})
    model = session(f, path, dynamic={"x": ("n", None)})
    assert [(x.name, x.shape[0]) for x in model.get_inputs()] == [("x", "n")]
    assert [y.name for y in model.get_outputs()] == ["y", "sums.0"]
    for n in (0, 1, 5):
        value = np.linspace(0, 1, 3 * n).reshape(n, 3)
        y, total = model.run(None, {"x": value})
        wanted = f(value)
        np.testing.assert_allclose(y, wanted["y"], 1e-12)
        np.testing.assert_allclose(total, wanted["sums"][0], 1e-12)


def test_options_of_programs_are_refused(path: Path) -> None:
    f = graphc.function([], gt.constant(1.0))
    with pytest.raises(ArgumentError, match="an ONNX model has no programs, platforms, deriv"):
        f.export(path, derivatives=1)


def test_what_onnx_lacks_is_named_with_its_line(path: Path) -> None:
    x = gt.matrix("x")
    f = graphc.function([x], gt.linalg.eigvals(x))
    problem = r"ONNX has nothing for:\n  eigvals: they take .*test_model.py"
    with pytest.raises(ExportError, match=problem):
        f.export(path)


def agree(f: graphc.Function[list[Any]], path: Path, *values: np.ndarray) -> None:
    """The model gives what the function does."""
    model = session(f, path)
    names = [x.name for x in model.get_inputs()]
    found = model.run(None, dict(zip(names, values, strict=True)))
    for y, wanted in zip(found, f(*values), strict=True):
        np.testing.assert_allclose(y, wanted, 1e-9, 1e-9)


def test_a_kalman_filter_and_its_gradient(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, Mock())
    flow = np.loadtxt(EXAMPLES / "data" / "nile.csv", delimiter=",", skiprows=1)[:, 1]
    nile = runpy.run_path(str(EXAMPLES / "nile.py"))
    x, logs, loss = (nile[name] for name in ("flow", "logs", "loss"))
    outputs = [loss, graphc.grad(loss, logs), *nile["curves"]]
    f = graphc.function([logs, x], outputs, "NUMPY")
    for some in (flow, flow[:20]):
        agree(f, path, np.log([15099.0, 1469.1]), some)


def test_a_filter_of_matrices(path: Path) -> None:
    def step(observed: Any, mean: Any, spread: Any) -> list[Any]:
        spread = move @ spread @ move.T + 0.1 * gt.eye(2)
        total = seen @ spread @ seen.T + gt.eye(2)
        gain = gt.linalg.solve(total, seen @ spread, assume_a="pos").T
        mean = move @ mean
        rest = observed - seen @ mean
        surprise = rest @ gt.linalg.solve(total, rest) + gt.linalg.slogdet(total)[1]
        return [mean + gain @ rest, spread - gain @ seen @ spread, surprise]

    x = gt.matrix("x")
    move, seen = gt.constant([[1.0, 0.5], [0.0, 0.9]]), gt.constant([[1.0, 0.2], [0.3, 1.0]])
    start = [gt.zeros(2), gt.eye(2), None]
    mean, _, surprise = graphc.scan(step, x, start)
    f = graphc.function([x], [mean, surprise.sum()], "NUMPY")
    agree(f, path, np.sin(np.arange(24.0)).reshape(12, 2))


def lstm(x: Any, w: Any, u: Any, *, go_backwards: bool) -> Any:
    """The hidden states of an LSTM."""

    def step(x_t: Any, h: Any, c: Any) -> list[Any]:
        i, f, o, g = gt.array_split(x_t @ w + h @ u, 4, axis=-1)
        c = gt.sigmoid(f) * c + gt.sigmoid(i) * gt.tanh(g)
        return [gt.sigmoid(o) * gt.tanh(c), c]

    zero = gt.zeros((x.shape[1], 3))
    both = graphc.scan(step, x, [zero, zero], go_backwards=go_backwards, return_updates=False)
    states = both[0]
    return states[::-1] if go_backwards else states


@pytest.mark.parametrize("length", [4, None], ids=["Scan", "Loop"])
def test_an_lstm_in_both_directions(path: Path, length: int | None) -> None:
    rng = np.random.default_rng(0)
    x = gt.tensor("x", shape=(length, None, 2))
    w, u = (graphc.shared(rng.normal(size=(n, 12)), name=f"w{n}", shape=(n, 12)) for n in (2, 3))
    both = gt.concatenate([lstm(x, w, u, go_backwards=back) for back in (False, True)], -1)
    f = graphc.function([x], [both], "NUMPY")
    agree(f, path, rng.normal(size=(4, 5, 2)))
    nodes = {node.op_type for node in onnx.load(path).graph.node}
    assert nodes & {"Scan", "Loop"} == {"Scan" if length else "Loop"}


def normalised(x: Any) -> Any:
    """Rows of mean 0 and variance 1."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / gt.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def test_a_block_of_a_transformer(path: Path) -> None:
    rng = np.random.default_rng(1)
    x = gt.tensor("x", shape=(None, None, 8))
    names = {"qkv": (8, 24), "out": (8, 8), "up": (8, 16), "down": (16, 8)}
    w = {name: graphc.shared(rng.normal(size=n), name=name, shape=n) for name, n in names.items()}
    y = normalised(x) @ w["qkv"]
    heads = gt.reshape(y, (*gt.shape(x)[:2], 3, 2, 4))
    q, k, v = (gt.moveaxis(heads[:, :, i], 2, 1) for i in range(3))
    seen = gt.tril(gt.ones((x.shape[1], x.shape[1]))) > 0
    weights = gt.softmax(gt.where(seen, q @ k.mT / 2, -np.inf), axis=-1)
    attended = gt.reshape(gt.moveaxis(weights @ v, 1, 2), gt.shape(x))
    x1 = x + attended @ w["out"]
    y = x1 + gt.tanh(normalised(x1) @ w["up"]) @ w["down"]
    f = graphc.function([x], [y], "NUMPY")
    agree(f, path, rng.normal(size=(2, 5, 8)))
    assert {x.name for x in onnx.load(path).graph.initializer} >= {*names}


W = graphc.shared(np.random.default_rng(2).normal(size=(6, 6)).astype("float32"), name="w")


def reversed_loop(x: Any) -> Any:
    start = gt.zeros(6, dtype="float32")
    return graphc.loop(lambda h, row: (h * 0.5 + row, h), start, x, reverse=True)


FLOAT32 = {
    "loop": reversed_loop,
    "convolve2d": lambda x: [gt.signal.convolve2d(x, W[:2, :3], mode="valid")],
    "set_subtensor": lambda x: [gt.set_subtensor(x[:, [0, 3]], 1.0), x[:, ::-2]],
    "max": lambda x: [gt.roll(x, 2, axis=0), gt.max(x[:0], axis=0, initial=-np.inf)],
    "grad": lambda x: [graphc.grad((gt.softmax(normalised(x) @ W, axis=1) ** 2).sum(), x)],
}


@pytest.mark.parametrize("name", FLOAT32)
def test_a_model_of_float32_has_a_named_length(name: str, path: Path) -> None:
    x = gt.tensor("x", dtype="float32", shape=(None, 6))
    f = graphc.function([x], list(FLOAT32[name](x)), "NUMPY")
    model = session(f, path, dynamic={"x": ("n", None)})
    for n in (2, 5):
        value = np.random.default_rng(n).normal(size=(n, 6)).astype("float32")
        for y, expected in zip(model.run(None, {"x": value}), f(value), strict=True):
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_draws_have_the_bits_that_they_have_here(path: Path) -> None:
    rng = gt.random.RandomStream(7)
    f = graphc.function([], [rng.uniform(size=(5,)), rng.normal(size=(3,)), rng.gamma(2.0)])
    model = session(f, path)
    feed: dict[str, Any] = {}
    for _ in range(2):
        found = model.run(None, feed)
        wanted = f()
        np.testing.assert_array_equal(found[0], wanted[0])
        for y, value in zip(found[1:3], wanted[1:], strict=True):
            np.testing.assert_allclose(y, value, 1e-12)
        # What a call leaves of its state is the next one's.
        state = [x.name for x in model.get_overridable_initializers()]
        feed = dict(zip(state, found[3:], strict=True))


def test_a_branch_and_a_loop_until_something_holds(path: Path) -> None:
    x = gt.vector("x")
    total = graphc.while_loop(lambda s: gt.sum(s**2) > 1, lambda s: s / 2, x)
    y = graphc.cond(gt.sum(x) > 0, lambda: gt.sqrt(total), lambda: -total)
    f = graphc.function([x], [y], "NUMPY")
    for value in ([3.0, 4.0], [-3.0, -4.0], [0.1, 0.2]):
        agree(f, path, np.array(value))


def test_complex_arrays_are_pairs(path: Path) -> None:
    z = gt.zvector("z")
    f = graphc.function([z], [gt.fft.fft(z) * 2j], "NUMPY")
    model = session(f, path)
    value = np.array([1 + 2j, -0.5j, 3.0])
    (y,) = model.run(None, {"z": np.stack([value.real, value.imag], -1)})
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], np.fft.fft(value) * 2j, 1e-12)


def test_default_values_and_state_are_initializers(path: Path) -> None:
    x, scale = gt.vector("x"), gt.scalar("scale")
    total = graphc.shared(np.zeros(2), name="total")
    update = [(total, total + x)]
    f = graphc.function([x, graphc.In(scale, value=3.0)], {"y": x * scale}, updates=update)
    model = session(f, path)
    y, new = model.run(None, {"x": np.array([1.0, 2.0])})
    np.testing.assert_array_equal(y, [3.0, 6.0])
    y, new = model.run(None, {"x": np.ones(2), "scale": np.array(2.0), "total": new})
    np.testing.assert_array_equal(y, [2.0, 2.0])
    np.testing.assert_array_equal(new, [2.0, 3.0])
    assert [y.name for y in model.get_outputs()] == ["y", "new_total"]


def test_large_arrays_are_in_a_file_of_their_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphc.export.onnx.model.LARGEST", 1000)
    x, w = gt.vector("x"), graphc.shared(np.eye(30), name="w")
    f = graphc.function([x], [x @ w], "NUMPY")
    for _ in range(2):
        agree(f, path, np.arange(30.0))
    assert path.with_name("model.onnx.data").stat().st_size >= 8 * 900


def test_the_package_is_named_where_it_is_missing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("graphc.export.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    f = graphc.function([], gt.constant(1.0))
    with pytest.raises(ExportError, match=r"pip install 'graphc\[onnx\]'"):
        f.export(path)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_quantised_weights_stay_packed(path: Path, bits: int, symmetric: bool) -> None:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(6, 96)).astype("float32")
    w = quantize(dense, f"int{bits}", group_size=32, symmetric=symmetric)
    x = gt.tensor("x", shape=(None, 96), dtype="float32")
    f = graphc.function([x], [x @ w.T], "NUMPY")
    value = rng.normal(size=(5, 96)).astype("float32")
    model = session(f, path)
    (y,) = model.run(None, {"x": value})
    np.testing.assert_allclose(y, f(value)[0], 1e-5, 1e-5)
    made = onnx.load(path).graph
    assert "MatMulNBits" in {node.op_type for node in made.node}
    assert max(len(x.raw_data) for x in made.initializer) <= 6 * 96 * bits // 8
