"""Calls that are recorded in files, compared on each backend and by the programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, FormatError, VerificationError
from graphc.export.archive import ZipWriter
from graphc.export.runtime import MANIFEST, arrays_in, open_file, parts_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.graphc"


def function() -> Any:
    """A loop, noise, complex results, state, and vectors of unique and other signs."""
    x = gt.matrix("x", dtype="float64")
    w = graphc.shared(np.eye(3), name="w")
    h = graphc.scan(lambda row, h: gt.tanh(h @ w + row), x, gt.zeros(3))
    noise = gt.random.RandomStream(4).normal()
    results = {"h": h[-1] + noise, "z": gt.cast(h[0], "complex64") * 1j}
    results["u"] = gt.linalg.svd(x.T @ x)[0]
    return graphc.function([x], results, updates=[(w, w - 0.1 * gt.outer(x[0], x[-1]))])


CALLS = [{"x": np.sin(np.arange(12.0)).reshape(4, 3)}, [np.eye(3)]]


def with_part(file: Path, part: str, data: bytes) -> None:
    """Replace a part of a file, and its checksum with it."""
    manifest, _, _ = open_file(file)
    parts = {name: bytes(x) for name, x in parts_of(file).items() if name != MANIFEST}
    from graphc.export.manifest import encode  # noqa: PLC0415

    with ZipWriter(file) as out:
        for name, x in {**parts, part: data}.items():
            out.add(name, [x], len(x))
        text = encode({**manifest, "parts": {**out.sums}})
        out.add(MANIFEST, [text], len(text))


def test_recorded_calls_agree_on_every_backend_and_by_the_program(file: Path) -> None:
    f = function()
    f.export(file, programs=("JAX",), dynamic={"x": ("n", 3)}, examples=CALLS)
    arrays = arrays_in(bytes(open_file(file)[2]["examples.safetensors"]))
    expected = f(CALLS[0]["x"])  # type: ignore[call-overload]
    np.testing.assert_allclose(arrays["0.result.0"], expected["h"], rtol=1e-12)
    model = graphc.load(file)
    model.set_value("w", np.ones((3, 3)))  # is not seen: the file is verified
    found = model.verify()
    assert found
    names = {x.name: x for x in found.outcomes}
    assert {"NUMPY", "JAX", "MLX", "program for JAX"} <= {*names}
    assert names["program for JAX"].agrees
    assert "not unique, and left out: output['u']" in names["NUMPY"].about
    assert str(found).startswith("model.graphc: 2 recorded calls\n")
    np.testing.assert_array_equal(model.get_value("w"), np.ones((3, 3)))


def test_what_differs_is_shown(file: Path) -> None:
    x = gt.vector("x", dtype="float64")
    f = graphc.function([x], {"y": x * 2, "n": x.argmax()}, mode="NUMPY")
    f.export(file, examples=[[[1.0, 5.0]]])
    data = bytes(open_file(file)[2]["examples.safetensors"])
    with_part(file, "examples.safetensors", data.replace(np.float64(10).tobytes(), b"\0" * 8))
    found = graphc.load(file).verify(modes=["NUMPY"])
    assert not found
    assert "call 0, output['y']: [ 2. 10.]" in found.outcomes[0].about
    with pytest.raises(VerificationError, match=r"NUMPY +differs"):
        found.raise_if_different()
    with_part(file, "examples.safetensors", data[:-1])
    with pytest.raises(FormatError, match=r"model\.graphc: its recorded calls are damaged"):
        graphc.load(file).verify()


def test_without_recorded_calls_arguments_are_given(file: Path) -> None:
    x = gt.vector("x", dtype="float64")
    graphc.function([x], x * 2, mode="NUMPY").export(file)
    model = graphc.load(file)
    with pytest.raises(ArgumentError, match="no recorded calls to verify"):
        model.verify()
    found = model.verify([{"x": [1.0]}, [[1.0, 2.0]]], modes=["NUMPY"])
    assert found
    assert str(found).startswith("model.graphc: 2 given calls")
    with pytest.raises(ArgumentError, match="the argument 'x' is missing"):
        model.verify([{}])
