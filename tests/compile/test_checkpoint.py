"""Checkpoints of shared variables in one process; ``tests/sharding`` has those of two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import graphc.xtensor as px
from graphc.compile import checkpoint
from graphc.distributed import has_checkpoint, load_checkpoint, save_checkpoint
from graphc.errors import ArgumentError, CheckpointError
from graphc.implicit import Diagonal, LowRank

DTYPES = ("float64", "float32", "bfloat16", "complex128", "int8", "uint64", "bool")


@pytest.mark.parametrize("mode", graphc.link.names())
def test_everything_that_is_shared_comes_back(tmp_path: Path, mode: str) -> None:
    def made(seed: int) -> dict[str, Any]:
        draws = np.random.default_rng(seed)
        a, b = draws.normal(size=(2, 3, 4)).astype("float32")
        named = px.as_xtensor(gt.constant(a), dims=("row", "column"))
        return {
            "w": graphc.shared(a, "w"),
            "low": graphc.shared(LowRank(a, b.T)),
            "rng": gt.random.shared_rng(seed=seed),
            "stream": graphc.random.RandomStream(seed),
            "named": graphc.shared(named, "named"),
        }

    def step(x: dict[str, Any]) -> Any:
        following, draw = x["rng"].normal(dtype="float32")
        drawn = draw + x["stream"].normal(size=3, dtype="float32")
        y = x["w"].sum() + x["low"].sum() + x["named"].sum().values + drawn
        updates = [(x["w"], x["w"] * 0.5), (x["rng"], following)]
        return graphc.function([], y, updates=updates, mode=mode, returns="numpy")

    one, other = made(0), made(1)
    f, g = step(one), step(other)
    f()
    save_checkpoint(tmp_path, one)
    load_checkpoint(tmp_path, other)
    for _ in range(2):
        np.testing.assert_array_equal(f(), g())


def test_dtypes_and_shapes_are_kept(tmp_path: Path) -> None:
    bits = np.arange(6).reshape(2, 3)
    values = {name: bits.astype(graphc.ir.numpy_dtype(name)) for name in DTYPES}
    values |= {"scalar": np.float64(0.1), "empty": np.zeros((0, 2))}
    save_checkpoint(tmp_path, {name: graphc.shared(x) for name, x in values.items()})
    found = {name: graphc.shared(x * False) for name, x in values.items()}
    load_checkpoint(tmp_path, found)
    for name, x in values.items():
        assert found[name].get_value().dtype == x.dtype
        np.testing.assert_array_equal(found[name].get_value(), x)


def test_a_failure_while_writing_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = graphc.shared([1.0, 2.0], "w")
    save_checkpoint(tmp_path, [w])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 2
    w.set_value([3.0, 4.0])

    def full(file: Any, **_: Any) -> None:
        file.write(b"half")
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(CheckpointError, match="cannot be written: OSError: No space left"):
            save_checkpoint(tmp_path, [w])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    # A process that dies before the last rename leaves files, which are not read.
    (tmp_path / "0-0.npz").write_bytes(b"half")
    (tmp_path / "checkpoint.json.tmp").write_bytes(b"{")
    load_checkpoint(tmp_path, [w])
    assert w.get_value().tolist() == [1.0, 2.0]
    save_checkpoint(tmp_path, {"other": w})
    assert not before.keys() - {checkpoint.INDEX} & {path.name for path in tmp_path.iterdir()}


def test_what_does_not_fit_sets_nothing(tmp_path: Path) -> None:
    saved = {"a": graphc.shared([1.0, 2.0]), "b": graphc.shared([1.0, 2.0], shape=(2,))}
    with pytest.raises(CheckpointError, match="There is no checkpoint in"):
        load_checkpoint(tmp_path, saved)
    save_checkpoint(tmp_path, saved)
    a = graphc.shared([0.0, 0.0])
    for others, problem in [
        ({"a": a, "c": a}, "has no c. It has a, b"),
        ({"a": a}, "also has b.*partial=True"),
        ({"a": a, "b": graphc.shared(np.zeros(3), shape=(3,))}, r"has b: float64\[2\]"),
        ({"a": a, "b": graphc.shared(np.zeros((2, 1)))}, r"has b: float64\[2\]"),
        ({"a": a, "b": graphc.shared(np.zeros(2, "float32"))}, r"has b: float64\[2\]"),
    ]:
        with pytest.raises(CheckpointError, match=r"(?s)" + problem):
            load_checkpoint(tmp_path, others)
        assert a.get_value().tolist() == [0.0, 0.0]
    load_checkpoint(tmp_path, {"a": a}, partial=True)
    assert a.get_value().tolist() == [1.0, 2.0]


def test_damage_is_noticed(tmp_path: Path) -> None:
    w = graphc.shared(np.arange(1000.0), "w")
    save_checkpoint(tmp_path, [w])
    [path] = tmp_path.glob("*.npz")
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[4000] ^= 1
    for damaged in (whole[:3000], bytes(flipped), b""):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="cannot be read"):
            load_checkpoint(tmp_path, [w])
    path.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(tmp_path, [w])
    (tmp_path / checkpoint.INDEX).write_text(json.dumps({"format": 99, "files": []}))
    with pytest.raises(CheckpointError, match="format 99"):
        load_checkpoint(tmp_path, [w])


def test_variables_need_names_of_their_own(tmp_path: Path) -> None:
    w = graphc.shared(1.0, "w")
    for variables, problem in [
        ([graphc.shared(1.0)], "has no name"),
        ([graphc.random.RandomStream(0)], "has no name"),
        ([w, graphc.shared(2.0, "w")], "two variables of the name 'w'"),
        ({"x": gt.vector("x")}, "no shared variable"),
        ({"x": gt.implicit(Diagonal, (3, 3), "float64")}, "no shared variable"),
    ]:
        with pytest.raises(ArgumentError, match=problem):
            save_checkpoint(tmp_path, variables)
    assert not has_checkpoint(tmp_path)


def test_a_global_array_needs_a_mesh_and_a_sharding() -> None:
    mesh = graphc.mesh(data=1)
    with pytest.raises(ArgumentError, match="has no mesh"):
        graphc.distributed.global_array([1.0], ("data",), graphc.Mode("JAX"))
    with pytest.raises(graphc.errors.ShardingError, match="declared without a sharding"):
        graphc.distributed.global_array([1.0], gt.vector("x"), mesh)
    with pytest.raises(graphc.errors.ShardingError, match="no axis 'rows'"):
        graphc.distributed.global_array([1.0], ("rows",), mesh)
    logical = graphc.Mode("JAX", mesh=mesh, logical_axes={"batch": "data"})
    found = graphc.distributed.global_array(np.float64([0.1]), ("batch",), logical)
    assert found.dtype == "float64"
