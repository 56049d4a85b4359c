"""Programs in files that MLX runs where graphc is not: calls, loops in chunks, and branches."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.compile.mode import Mode
from graphc.errors import ArgumentError, ExportError, GraphcError
from graphc.export import runtime
from graphc.link import as_numpy
from tests.contract.operands import arrays as arrays_of, symbols
from tests.contract.operations import FAMILIES
from tests.export.alone import check_alone, training
from tests.export.mutations import mutated_file
from tests.export.texts import REFUSED

W = np.linspace(-1, 1, 9).reshape(3, 3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.graphc"


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    return [np.sin(1.0 + np.arange(np.prod(shape))).reshape(shape) for shape in shapes]


def test_it_runs_without_graphc_and_keeps_its_state(file: Path) -> None:
    f, own = training("MLX")
    f.export(file, dynamic={"x": (40, 3)}, programs=("MLX",))
    x = np.linspace(-1, 1, 120).reshape(40, 3)
    w = check_alone(f, file, x, x, absent=("graphc", "jax"))
    np.testing.assert_allclose(w, own.get_value(), rtol=1e-12)


X = gt.matrix("x", dtype="float64")
Q = gt.tensor3("q", dtype="float64")
NARROW = gt.matrix("x", dtype="float32")
LAYER = gt.tanh(X @ gt.as_tensor(W) + np.array([0.5, 0.0, -0.5]))
GIVEN = gt.zeros(3, dtype="float64")
ANY_LENGTH: dict[str, Any] = {
    "a layer": (X, LAYER),
    "a gradient": (X, [(LAYER**2).mean(), graphc.grad((LAYER**2).mean(), X)]),
    "means": (X, (X - X.mean(0)) ** 2 / X.var(0)),
    "a softmax": (X, gt.softmax(X, axis=0) * X.max(0)),
    "a reshape": (X, X.reshape((-1,)) ** 3),
    "columns of weights": (X, X @ gt.as_tensor(W)[:, 1:]),
    "orders": (X, [gt.sort(X, axis=0), gt.argmax(X, axis=0), gt.cumsum(X, axis=0)]),
    "narrow sums": (NARROW, [NARROW.sum(0), NARROW.T @ NARROW]),
    "attention": (Q, gt.softmax(Q @ Q.transpose((0, 2, 1)), axis=-1) @ Q),
    "a loop over the length": (X, graphc.scan(lambda x, h: gt.tanh(h @ W + x), X, GIVEN)),
    "a loop of a batch": (X, graphc.scan(lambda h: gt.tanh(h @ W), outputs_info=X, n_steps=40)[-1]),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", ANY_LENGTH)
def test_one_program_takes_every_length(name: str, file: Path) -> None:
    x, y = ANY_LENGTH[name]
    f = graphc.function([x], y, mode="NUMPY")
    lengths = ("n",) if x.type.ndim == 2 else ("n", "m")
    f.export(file, dynamic={x.name: (*lengths, 3)}, programs=("MLX",))
    model = runtime.load(file)
    narrow = x.type.dtype == "float32"
    for ns in ((5, 4), (1, 1), (70, 1), (9000, 2)):
        (given,) = arrays((*ns[: len(lengths)], 3))
        given = given.astype(x.type.dtype)
        for a, b in zip(_listed(model(given)), _listed(f(given)), strict=True):
            assert np.asarray(a).dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-4 if narrow else 1e-9, atol=1e-9)


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, list | tuple) else [found]


def rnn() -> Any:
    w = graphc.shared(W, name="w")
    h = graphc.scan(lambda row, h: gt.tanh(h @ w + row), X, GIVEN)
    loss = (h**2).mean()
    return [loss, graphc.grad(loss, X), graphc.grad(loss, w)]


def test_lengths_that_a_program_knows_share_the_chunks_of_a_loop(file: Path) -> None:
    f = graphc.function([X], rnn(), mode="NUMPY")
    lengths = (5, 64, 96)
    f.export(file, dynamic={"x": ("n", 3)}, programs=("MLX",), lengths={"n": lengths})
    model = runtime.load(file, "MLX")
    for n in lengths:
        (x,) = arrays((n, 3))
        for a, b in zip(model(x), f(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    plans = model.manifest["mlx"]["programs"]
    short, *long = [[step for step in plan["steps"] if "chunks" in step] for plan in plans]
    assert not short
    assert [loop["chunks"] for loop in long[0]] == [loop["chunks"] for loop in long[1]]
    with pytest.raises(ValueError, match=r"for the lengths \{'n': 5\} or .*, not for \{'n': 6\}"):
        model(arrays((6, 3))[0])
    with pytest.raises(ValueError, match=r"the shape of 'x' is \[5, 2\], not \[5, 3\]"):
        model(arrays((5, 2))[0])
    with pytest.raises(ArgumentError, match="lengths: no length has the name 'm'"):
        f.export(file, dynamic={"x": ("n", 3)}, programs=("MLX",), lengths={"m": (1,)})


S = gt.scalar("s", dtype="float64")
INNER = graphc.scan(lambda e, g: gt.tanh(g * e + 1), X[0], gt.zeros((), dtype="float64"))[-1]
CONTROL: dict[str, Any] = {
    "a branch": graphc.cond(S > 0, lambda: gt.exp(X), lambda: X * 2),
    "a loop without a bound": graphc.while_loop(lambda v: v.sum() < 100, lambda v: v * 1.5 + S, X),
    "a loop that ends by itself": graphc.scan(
        lambda v: (v * 1.5 + 1, graphc.until(v.sum() > 100 * S)), outputs_info=X[0], n_steps=20
    )[-1],
    "a branch in a loop": graphc.scan(
        lambda row, h: graphc.cond(row.sum() > 0, lambda: gt.tanh(h + row), lambda: h * S), X, GIVEN
    ),
    "a loop backwards": graphc.scan(
        lambda row, h: gt.tanh(h @ W + row * S), X, GIVEN, go_backwards=True
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", CONTROL)
def test_values_choose_branches_and_end_loops(name: str, file: Path) -> None:
    f = graphc.function([X, S], CONTROL[name], mode="NUMPY", on_unused_input="ignore")
    f.export(file, dynamic={"x": (40, 3)}, programs=("MLX",))
    model = runtime.load(file)
    (x,) = arrays((40, 3))
    for s in (1.0, 0.5) if name == "a loop without a bound" else (1.0, -0.5):
        np.testing.assert_allclose(model(x, s), f(x, s), rtol=1e-9, atol=1e-12)


def test_what_mlx_cannot_save_is_named_with_its_line(file: Path) -> None:
    def refused(y: Any, match: str, *, dynamic: Any = ("n", 3)) -> None:
        f = graphc.function([X], y, mode="MLX")
        with pytest.raises(ExportError, match=match) as caught:
            f.export(file, dynamic={"x": dynamic}, programs=("MLX",))
        assert "test_runtime_mlx.py" in str(caught.value)
        assert not file.exists()

    refused(gt.arange(X.shape[0]) * 2, r"cannot save arange(.|\n)*lengths=\{")
    refused(X * gt.minimum(X.shape[0], 10**6), "cannot save minimum.*for any length")
    refused(gt.linalg.solve(X.T @ X, X.T), r"cannot save lu\((.|\n)*LUF", dynamic=(4, 3))
    refused(gt.linalg.expm(X), "cannot save expm.*which runs in NumPy", dynamic=(3, 3))
    refused(X[gt.nonzero(X[:, 0])[0]], "The values of an array decide a shape", dynamic=(4, 3))


def test_programs_for_both_are_in_one_file(file: Path) -> None:
    f = graphc.function([X], LAYER)
    f.export(file, dynamic={"x": ("n", 3)}, programs=("JAX", "MLX"))
    (x,) = arrays((4, 3))
    for backend in ("JAX", "MLX"):
        np.testing.assert_allclose(runtime.load(file, backend)(x), f(x), rtol=1e-12)
    np.testing.assert_allclose(graphc.load(file, "NUMPY")(x), f(x), rtol=1e-12)
    f.export(file, dynamic={"x": ("n", 3)}, programs=("JAX",))
    with pytest.raises(ValueError, match=r"has no program for MLX, it has one for JAX: f\.export"):
        runtime.load(file, "MLX")


def test_arrays_are_replaced_and_mlx_transforms_a_program(file: Path) -> None:
    w = graphc.shared(W, name="w")
    table = gt.as_tensor(np.arange(3.0))
    y = (gt.tanh(X @ w) * table).sum()
    f = graphc.function([X], [y, graphc.grad(y, X)], mode="NUMPY")
    f.export(file, dynamic={"x": (4, 3)}, programs=("MLX",))
    model = runtime.load(file)
    (x,) = arrays((4, 3))
    w.set_value(W.T)
    model.arrays["w"] = W.T.copy()
    value, slope = f(x)
    np.testing.assert_allclose(model(x)[0], value, rtol=1e-12)
    given = [mx.array(a, mx.float64) for a in (x, W.T)]
    held = [given[1] if n == "w" else model.arrays[n] for n in model.manifest["mlx"]["arrays"]]
    found = mx.grad(lambda x: model.program(x, *held)[0])(given[0])
    np.testing.assert_allclose(found, slope, rtol=1e-9)


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", FAMILIES)
def test_the_operations_of_the_contract_are_saved_or_refused(family: str, file: Path) -> None:
    for name, case in FAMILIES[family].items():
        if f"{family}, {name}" in REFUSED:
            continue
        dtype = next((x for x in ("float64", "float32") if x in case.dtypes), case.dtypes[0])
        values = arrays_of(case, dtype)
        inputs = symbols(case, values)
        ins = [graphc.In(x, name=f"x{i}") for i, x in enumerate(inputs)]
        dynamic = {f"x{i}": np.shape(x) for i, x in enumerate(values)}
        try:
            f = graphc.function(ins, case.symbolic(*inputs), Mode("MLX", compile=False))
            wanted = f(*values)
        except GraphcError:
            continue  # MLX has it not in this dtype, or the case is of an error
        refusal = _refusal(f, file, dynamic)
        if refusal:
            assert re.search("runs in NumPy|LUF|decide a shape|has no text", refusal), name
            continue
        found = runtime.load(file, "MLX")(*values)
        for a, b in zip(_listed(found), _listed(wanted), strict=True):
            np.testing.assert_allclose(as_numpy(a), as_numpy(b), rtol=1e-5, atol=1e-6, err_msg=name)


def _refusal(f: graphc.Function[Any], file: Path, dynamic: Any) -> str:
    try:
        f.export(file, dynamic=dynamic, programs=("MLX",))
    except ExportError as error:
        return str(error)
    return ""


def test_a_damaged_file_is_a_function_or_a_clear_error(file: Path) -> None:
    f = graphc.function([X], rnn(), mode="MLX")
    f.export(file, dynamic={"x": (40, 3)}, programs=("MLX",))
    data, random, refused = file.read_bytes(), Random(0), 0
    (x,) = arrays((40, 3))
    for _ in range(60):
        file.unlink()  # it may be mapped
        file.write_bytes(mutated_file(data, random))
        try:
            runtime.load(file, "MLX")(x)
        except (ValueError, TypeError):
            refused += 1
    assert 30 < refused < 60
