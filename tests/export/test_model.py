"""Functions as files: what is loaded computes the same, here and in other processes and modes."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse

import graphc
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import ArgumentError, DTypeError, ExportError, FormatError
from graphc.export import runtime, safetensors as own
from graphc.export.archive import ALIGNED
from graphc.implicit import CSR
from graphc.ir import DTYPES, numpy_dtype
from tests.export.training_step import TABLE, model


def flat(results: Any) -> list[Any]:
    h, nested = results["parts"]
    return [results["loss"], h, nested["slope"]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.graphc"


def test_what_is_loaded_computes_the_same_and_goes_on_from_the_same_state(file: Path) -> None:
    f = model()
    x = np.linspace(-1, 1, 12).reshape(4, 3)
    f(x)
    f.export(file, dynamic={"x": ("n", None)}, licence="CC0-1.0")
    found = graphc.load(file, "NUMPY")
    for arguments in ({"x": x}, {"x": 2 * x, "rate": 0.5}):
        for a, b in zip(flat(f(**arguments)), flat(found(**arguments)), strict=True):
            np.testing.assert_array_equal(a, b)
    assert found.get_value("count") == 3
    assert sorted(found.shared) == ["count", "shared0", "w"]
    assert repr(found).startswith("model.graphc: (x: float64[n, ?], rate: float64[]) -> (")
    assert found.manifest["licence"] == "CC0-1.0"
    assert found.manifest["inputs"][0]["shape"] == ["n", None]


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_it_is_compiled_for_any_mode_and_differentiated(file: Path, mode: str) -> None:
    x = gt.tensor("x", dtype="float32", shape=(None,))
    w = graphc.shared(np.float32([1, 2, 3]), name="w")
    graphc.function([x], (gt.sin(x) * w).sum(), mode="NUMPY").export(file)
    found = graphc.load(file)
    (x,), w, y = found.inputs, found.shared["w"], found.outputs
    given = np.float32([0.1, 0.2, 0.3])
    f = graphc.function([x], [y, graphc.grad(y, w)], mode=mode, returns="numpy")
    value, slope = f(given)
    np.testing.assert_allclose(value, np.sum(np.sin(given) * [1, 2, 3]), rtol=1e-6)
    np.testing.assert_allclose(slope, np.sin(given), rtol=1e-6)
    np.testing.assert_allclose(found.function(mode, returns="numpy")(given), value, rtol=1e-6)


def test_another_process_loads_it(file: Path) -> None:
    f = model()
    f.export(file)
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    script = (
        "import sys, graphc\n"
        "model = graphc.load(sys.argv[1], 'NUMPY')\n"
        "print(float(model([[-1, -.6, -.2], [.2, .6, 1]])['loss']).hex(), model.graph.key())\n"
        "assert 'jax' not in sys.modules\n"
    )
    run = [sys.executable, "-c", script, str(file)]
    found = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300).stdout
    assert found.split() == [float(f(x)["loss"]).hex(), f.requested.key()]


def test_arrays_are_replaced_and_nothing_is_compiled_again(file: Path) -> None:
    x = gt.vector("x")
    w = graphc.shared([1.0, 2.0, 3.0], name="w")
    table = gt.constant(TABLE.copy(), "table")  # other tests have that array without a name
    y = (x * w).sum() + table.sum() + gt.constant(np.arange(12.0), bake=True)[x.shape[0]]
    f = graphc.function([x], y, mode="NUMPY")
    f.export(file)
    found = graphc.load(file, "NUMPY")
    loaded = found.function()
    assert loaded.key == f.key
    assert found([1.0, 1.0, 1.0]) == 6 + TABLE.sum() + 3
    found.set_value("w", [0.0, 0.0, 1.0])
    found.set_value("table", 2 * TABLE)
    with graphc.expect_compiles(0):
        assert found([1.0, 1.0, 1.0]) == 1 + 2 * TABLE.sum() + 3
    assert loaded([1.0, 1.0, 1.0]) == 1 + TABLE.sum() + 3  # made before: its own table
    np.testing.assert_array_equal(found.get_value("table"), 2 * TABLE)
    assert w.get_value().tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ArgumentError, match=r"constant0 is a constant"):
        found.set_value("constant0", np.zeros(12))
    with pytest.raises(ArgumentError, match=r"no array 'v'.\nIt has: w, table, constant0"):
        found.get_value("v")
    with pytest.raises(ArgumentError, match=r"shape \(3,\) for the array table: float64\[10, 3\]"):
        found.set_value("table", np.zeros(3))
    with pytest.raises(DTypeError, match="complex128"):
        found.set_value("table", TABLE * 1j)


def test_inputs_of_other_kinds_go_along(file: Path) -> None:
    sparse = gt.implicit(CSR, (4, 4), "float64", name="a", nse=5)
    named = gx.xtensor("t", dims=("city", "year"), shape=(2, None))
    key = gt.random.rng("key")
    _, draw = key.normal()
    x = gt.vector("x")
    results = [sparse @ x, (named * 2).sum("year").values, draw]
    graphc.function([sparse, named, key, x], results, mode="NUMPY").export(file)
    found = graphc.load(file)
    assert [entry["name"] for entry in found.manifest["inputs"]] == [
        *("a.data", "a.indices", "a.indptr", "t", "key", "x"),
    ]
    dense = np.diag([1.0, 2, 3, 4])
    dense[0, 3] = 5
    a = CSR.from_scipy(scipy.sparse.csr_matrix(dense))
    f = found.function("NUMPY")
    arguments = [a.data, a.indices, a.indptr, np.ones((2, 3)), np.uint32([0, 7]), np.arange(4.0)]
    y, total, _ = f(*arguments)
    np.testing.assert_array_equal(y, dense @ np.arange(4.0))
    np.testing.assert_array_equal(total, [6.0, 6.0])


def test_the_arrays_lie_aligned_in_the_file_and_are_not_copied(file: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(512, 513))
    f = graphc.function([], graphc.shared(weights, name="w").sum(), mode="NUMPY")
    f.export(file)
    found = graphc.load(file, verify=False)
    value = found.shared["w"].get_value(borrow=True)
    assert not value.flags.writeable
    assert not value.flags.owndata
    assert value.ctypes.data % ALIGNED == 0
    with zipfile.ZipFile(file) as parts:
        assert parts.testzip() is None
        assert parts.read("graph.txt").decode() == graphc.serialize(f, lines=True).text
        by_library = safetensors.numpy.load(parts.read("arrays.safetensors"))
    np.testing.assert_array_equal(by_library["w"], weights)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_dtype_are_read_as_they_were_written(dtype: str) -> None:
    made = numpy_dtype(dtype)
    bits = np.random.default_rng(0).integers(0, 256, 24 * made.itemsize, np.uint8)
    array = np.arange(24) % 2 == 0 if dtype == "bool" else bits.view(made)
    arrays = {
        "turned": array.reshape(2, 3, 4).T,
        "scalar": array[3],
        "nothing": array[:0].reshape(0, 3),
    }
    arrays = {name: np.asarray(x) for name, x in arrays.items()}
    found = runtime.arrays_in(b"".join(own.chunks(arrays)))
    for name, x in arrays.items():
        read = runtime.as_complex(found[name], dtype)
        assert (read.dtype, read.shape, read.tobytes()) == (x.dtype, x.shape, x.tobytes())


def test_a_file_of_the_library_is_read() -> None:
    arrays = {"a": np.arange(6, dtype="int16").reshape(2, 3), "b": np.float32([0.5])}
    found = runtime.arrays_in(safetensors.numpy.save(arrays, {"about": "a test"}))
    assert {name: x.tolist() for name, x in found.items()} == {
        name: x.tolist() for name, x in arrays.items()
    }


def test_equal_functions_are_equal_files(tmp_path: Path) -> None:
    x = gt.vector("x")
    f = graphc.function([x], gt.exp(x) + TABLE.sum(), mode="NUMPY")
    files = [tmp_path / "a.graphc", tmp_path / "b.graphc"]
    for file in files:
        f.export(file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == files


def test_a_function_that_only_updates_is_loaded(file: Path) -> None:
    n = graphc.shared(0, name="n")
    graphc.function([], updates=[(n, n + 2)], mode="NUMPY").export(file)
    found = graphc.load(file)
    assert found.function("NUMPY")() is None
    assert found.get_value("n") == 2
    assert n.get_value() == 0


# Refusals.


@dataclass(frozen=True)
class Results:
    y: Any


def test_what_a_file_cannot_hold_is_refused_and_no_file_is_left(tmp_path: Path) -> None:
    x = gt.vector("x")
    file = tmp_path / "model.graphc"
    with pytest.raises(ExportError, match="the outputs are in Results, which a file cannot hold"):
        graphc.function([x], Results(x * 2), mode="NUMPY").export(file)
    called = graphc.wrap_py([gt.dvector], [gt.dvector])(lambda x: x)
    with pytest.raises(ExportError, match="is an operation of a Python function"):
        graphc.function([x], called(x), mode="NUMPY").export(file)
    f = graphc.function([x], x * 2, mode="NUMPY")
    with pytest.raises(ArgumentError, match=r"\('n', 'm'\) are no names of the unknown lengths"):
        f.export(file, dynamic={"x": ("n", "m")})
    with pytest.raises(ArgumentError, match="no input 'y'"):
        f.export(file, dynamic={"y": ("n",)})
    with pytest.raises(FileNotFoundError):
        f.export(tmp_path / "no folder" / "model.graphc")
    assert not [*tmp_path.iterdir()]


def changed(file: Path, **fields: Any) -> Path:
    """A file with other fields in its manifest."""
    with zipfile.ZipFile(file) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    parts["manifest.json"] = json.dumps(json.loads(parts["manifest.json"]) | fields).encode()
    made = file.with_suffix(".changed")
    with zipfile.ZipFile(made, "w") as new:
        for name, data in parts.items():
            new.writestr(name, data)
    return made


def test_a_file_that_says_something_else_than_its_graph_is_refused(file: Path) -> None:
    x = gt.vector("x", dtype="float64")
    graphc.function([x], x * 2, mode="NUMPY").export(file)
    array = {"dtype": "float64", "shape": [3]}
    for fields, problem in (
        ({"version": 2}, r"version 2 of the format is not one up to 1"),
        ({"format": "zip"}, r"it is no file of a compiled function"),
        ({"results": [array]}, r"its graph is not of the function that it describes"),
        ({"outputs": [1]}, r"1 is no output"),
        ({"updates": ["x"]}, r"KeyError\('x'\)"),
        ({"arrays": {"w": array}}, r"it has the arrays \[\], not \['w'\]"),
        ({"name": 3}, r"the manifest has no 'name', or one of another kind"),
    ):
        with pytest.raises(FormatError, match=problem):
            graphc.load(changed(file, **fields))
    assert graphc.load(changed(file)).outputs.type is (x * 2).type


def test_compressed_parts_and_other_names_are_refused(tmp_path: Path, file: Path) -> None:
    graphc.function([gt.vector("x")], gt.zeros(3), mode="NUMPY", on_unused_input="ignore").export(
        file
    )
    with zipfile.ZipFile(file) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(parts.pop("manifest.json"))
    bomb = bytes(2**20)
    for name, how in (("graph.txt", zipfile.ZIP_DEFLATED), ("../../evil", zipfile.ZIP_STORED)):
        made = tmp_path / "made.graphc"
        sums = {"bytes": len(bomb), "sha256": sha256(bomb).hexdigest()}
        text = json.dumps(manifest | {"parts": manifest["parts"] | {name: sums}})
        with zipfile.ZipFile(made, "w") as new:
            for each, data in ({**parts, name: bomb} | {"manifest.json": text}).items():
                new.writestr(each, data, how if each == name else zipfile.ZIP_STORED)
        if how == zipfile.ZIP_DEFLATED:
            with pytest.raises(FormatError, match=r"'graph.txt' is compressed or encrypted"):
                graphc.load(made)
        else:
            assert graphc.load(made).outputs.type.shape == (3,)  # a part that nothing unpacks
    assert sorted(x.name for x in tmp_path.iterdir()) == ["made.graphc", "model.graphc"]


def test_damage_is_found_where_it_matters(file: Path) -> None:
    weights = np.arange(100.0)
    graphc.function([], graphc.shared(weights, name="w").sum(), mode="NUMPY").export(file)
    data = bytearray(file.read_bytes())
    at = data.find(weights[50:52].tobytes())
    data[at] ^= 1
    file.unlink()
    file.write_bytes(data)
    with pytest.raises(FormatError, match=r"'arrays.safetensors' has another checksum"):
        graphc.load(file)
    assert graphc.load(file, verify=False).get_value("w")[50] != 50.0
    with pytest.raises(FormatError, match="File is not a zip file"):
        graphc.load(__file__)
    with pytest.raises(FileNotFoundError):
        graphc.load(file.with_name("none"))
