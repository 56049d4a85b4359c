"""Safetensors files in MLX's layout against MLX, and whole ones against the library safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import mlx.core as mx
import numpy as np
import pytest
import safetensors.numpy

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.errors import ArgumentError, FormatError, ImplicitArrayError
from graphc.interop.weights import load_safetensors, save_safetensors

MODES = [
    *[("affine", 64, bits) for bits in (2, 3, 4, 5, 6, 8)],
    *[("affine", 32, 4), ("affine", 128, 8)],
    *[("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)],
]
DTYPES = ("float32", "bfloat16", "float16")


def as_numpy(x: mx.array) -> Any:
    return np.array(x.astype(mx.float32))


def model(folder: Path) -> tuple[dict[str, mx.array], dict[str, Any]]:
    """Layers of all modes in a folder as MLX-LM writes them, and what they stand for."""
    rng = np.random.default_rng(0)
    arrays: dict[str, mx.array] = {"model.norm.weight": mx.ones((3,), mx.bfloat16)}
    settings: dict[str, Any] = {"group_size": 64, "bits": 4}
    wanted = {}
    for mode, size, bits in MODES:
        for dtype in DTYPES:
            name = f"model.{mode}.{size}.{bits}.{dtype}"
            w = mx.array(rng.standard_normal((3, 5, 256)).astype("float32"))
            w = w[0] if bits != 3 else w  # a stack of experts, too
            how = {"group_size": size, "bits": bits, "mode": mode}
            parts = mx.quantize(w.astype(getattr(mx, dtype)), **how)
            fields = zip(("weight", "scales", "biases"), parts, strict=False)
            arrays |= {f"{name}.{field}": x for field, x in fields}
            wanted[f"{name}.weight"] = mx.dequantize(*parts, **how)
            if how != {"group_size": 64, "bits": 4, "mode": "affine"}:
                settings[name] = how
    mx.save_safetensors(str(folder / "model.safetensors"), arrays, {"format": "mlx"})
    config = {"hidden_size": 3, "quantization": settings, "quantization_config": settings}
    (folder / "config.json").write_text(json.dumps(config))
    return arrays, wanted


def test_every_mode_of_mlx_is_held_bit_for_bit_and_written_again(tmp_path: Path) -> None:
    arrays, wanted = model(tmp_path)
    weights = load_safetensors(tmp_path)
    assert weights.keys() == {"model.norm.weight", *wanted}
    assert weights.metadata == {"format": "mlx"}
    assert weights.config["hidden_size"] == 3
    for name, dense in wanted.items():
        found = weights[name]
        assert str(found.dtype) == str(dense.dtype).rpartition(".")[2], name
        np.testing.assert_array_equal(
            np.asarray(found.materialize()).astype("float32"), as_numpy(dense), err_msg=name
        )
        # Parts of the file.
        assert not found.packed.flags.owndata
        assert not found.scales.flags.owndata
    again = tmp_path / "again"
    again.mkdir()
    save_safetensors(again / "model.safetensors", weights, layout="mlx", config=weights.config)
    read = mx.load(str(again / "model.safetensors"))
    assert read.keys() == arrays.keys()
    for name, x in arrays.items():
        assert read[name].dtype == x.dtype
        assert mx.array_equal(read[name], x), name
    said = json.loads((again / "config.json").read_text())
    assert said["hidden_size"] == 3
    assert said["quantization"] == said["quantization_config"]
    for name in wanted:
        both = [
            {**each, **each.get(name.removesuffix(".weight"), {})}
            for each in (said["quantization"], weights.config["quantization"])
        ]
        for key, default in (("bits", None), ("group_size", None), ("mode", "affine")):
            assert both[0].get(key, default) == both[1].get(key, default), name


@pytest.mark.parametrize("mode", ["affine", "mxfp4"])
def test_products_with_loaded_weights_stay_packed(mode: str, tmp_path: Path) -> None:
    size = 64 if mode == "affine" else 32
    rng = np.random.default_rng(1)
    w = mx.array(rng.standard_normal((6, 128)).astype("float32"))
    parts = mx.quantize(w, group_size=size, bits=4, mode=mode)
    names = ("up.weight", "up.scales", "up.biases")
    arrays = dict(zip(names, parts, strict=False))
    mx.save_safetensors(str(tmp_path / "a.safetensors"), arrays)
    how = {"group_size": size, "bits": 4, "mode": mode}
    found = load_safetensors(tmp_path / "a.safetensors", config={"quantization": how})["up.weight"]
    x = rng.standard_normal((3, 128)).astype("float32")
    expected = as_numpy(mx.quantized_matmul(mx.array(x), *parts, transpose=True, **how))
    limit = 1e-5 * np.abs(expected).max()
    found = found.astype("float32")
    v, symbol = gt.matrix("x", dtype="float32"), gt.implicit(found, name="w")
    with implicit.materializing("error"):
        made = [
            x @ found.T,
            jax.jit(implicit.implicit(lambda x, w: x @ w.T))(x, found),
            *[
                graphc.function([v, symbol], v @ symbol.T, mode=mode, returns="numpy")(x, found)
                for mode in ("NUMPY", "JAX", "MLX")
            ],
        ]
    for y in made:
        np.testing.assert_allclose(np.asarray(y), expected, atol=limit)


def test_whole_arrays_are_those_of_the_library(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {
        **{f"i{n}": rng.integers(-99, 99, (2, 3)).astype(f"int{n}") for n in (8, 16, 32, 64)},
        **{f"u{n}": rng.integers(0, 99, (2, 3)).astype(f"uint{n}") for n in (8, 16, 32, 64)},
        **{f"f{n}": rng.standard_normal((2, 3)).astype(f"float{n}") for n in (16, 32, 64)},
        "flag": np.array([True, False]),
        "number": np.array(2.5),
        "nothing": np.zeros((0, 4), "float32"),
        "half": rng.standard_normal((2, 3)).astype(ml_dtypes.bfloat16),
    }
    path = tmp_path / "a.safetensors"
    save_safetensors(path, {**made, "mlx": mx.array([1.5, 2.5], mx.bfloat16)}, metadata={"a": "b"})
    theirs = safetensors.numpy.load_file(path)
    weights = load_safetensors(path)
    assert weights.metadata == {"a": "b"}
    assert weights.config == {}
    assert weights.kinds["half"] == "BF16"
    for name, x in made.items():
        for found in (weights[name], theirs[name]):
            assert (found.shape, found.dtype) == (x.shape, x.dtype)
            np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(weights["mlx"].astype("float32"), [1.5, 2.5])
    assert not (tmp_path / "config.json").exists()


def test_floats_of_8_bits_are_read_and_written(tmp_path: Path) -> None:
    names = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
    powers = 2.0 ** np.arange(6).reshape(2, 3)
    arrays = {name: powers.astype(getattr(ml_dtypes, name)) for name in names}
    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    safetensors.numpy.save_file(arrays, theirs)
    weights = load_safetensors(theirs)
    save_safetensors(ours, {**weights, "by JAX": jnp.asarray(arrays[names[0]])})
    written = load_safetensors(ours)
    assert written.kinds == {**weights.kinds, "by JAX": "F8_E4M3"}
    for name, x in [*arrays.items(), ("by JAX", arrays[names[0]])]:
        assert (written[name].shape, written[name].dtype) == (x.shape, x.dtype)
        np.testing.assert_array_equal(written[name].view("uint8"), x.view("uint8"))
    kinds = dict(zip(names, ("F8_E4M3", "F8_E5M2", "F8_E8M0"), strict=True))
    by_library = dict(safetensors.deserialize(ours.read_bytes()))
    for name, kind in kinds.items():
        entry = by_library[name]
        assert (entry["shape"], entry["dtype"]) == ([2, 3], kind)
        assert bytes(entry["data"]) == arrays[name].tobytes()


def shards(folder: Path, files: dict[str, dict[str, Any]]) -> None:
    for name, arrays in files.items():
        safetensors.numpy.save_file(arrays, folder / name)
    names = {key: name for name, arrays in files.items() for key in arrays}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def test_shards_are_one_model(tmp_path: Path) -> None:
    w = mx.random.normal((4, 64))
    words, scales, biases = (np.array(x) for x in mx.quantize(w))
    shards(
        tmp_path,
        {
            "model-00001-of-00002.safetensors": {"a.weight": words, "b": np.ones(2)},
            "model-00002-of-00002.safetensors": {"a.scales": scales, "a.biases": biases},
        },
    )
    (tmp_path / "config.json").write_text('{"quantization": {"group_size": 64, "bits": 4}}')
    weights = load_safetensors(tmp_path)
    assert {*weights} == {"a.weight", "b"}
    dense = mx.dequantize(*map(mx.array, (words, scales, biases)))
    np.testing.assert_array_equal(np.asarray(weights["a.weight"]), np.array(dense))
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FormatError, match=r"'model-00002-of-00002\.safetensors' is missing"):
        load_safetensors(tmp_path)
    shards(tmp_path, {})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "../a.safetensors"}}')
    with pytest.raises(FormatError, match="names no files of the folder"):
        load_safetensors(tmp_path)
    index.unlink()
    (tmp_path / "other.safetensors").write_bytes(b"")
    with pytest.raises(FormatError, match="2 files of safetensors"):
        load_safetensors(tmp_path)


def packed(path: Path, config: Any, **changes: Any) -> Path:
    parts = [np.array(x) for x in mx.quantize(mx.ones((4, 64), mx.float16))]
    arrays = dict(zip(("up.weight", "up.scales", "up.biases"), parts, strict=True)) | changes
    arrays = {name: x for name, x in arrays.items() if x is not None}
    safetensors.numpy.save_file(arrays, path / "a.safetensors")
    (path / "config.json").write_text(json.dumps({"quantization": config}))
    return path / "a.safetensors"


FOUR = {"group_size": 64, "bits": 4}


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        ({"group_size": 32, "bits": 4}, {}, "'up' has weight"),
        ({"group_size": 64, "bits": 8}, {}, "'up' has weight"),
        ({"group_size": 64, "bits": 7}, {}, "'up' has weight"),
        ({"group_size": "64", "bits": 4}, {}, "group_size of 'up' is '64'"),
        ({**FOUR, "mode": "int9"}, {}, "the mode 'int9' of 'up'"),
        ({**FOUR, "up": False}, {}, "'up' is packed, though"),
        (FOUR, {"up.biases": None}, "'up.biases' is missing"),
        (FOUR, {"up.biases": np.ones((4, 2), "float16")}, "'up' has scales"),
        (FOUR, {"up.scales": np.ones((4, 1), "int8")}, "'up.scales' is int8"),
        ({**FOUR, "mode": "mxfp4"}, {}, "'up.scales' is float16"),
        ("four", {}, "the quantization is 'four'"),
    ],
)
def test_what_does_not_fit_the_config_is_named(
    config: Any, changes: Any, message: str, tmp_path: Path
) -> None:
    path = packed(tmp_path, config, **changes)
    with pytest.raises(FormatError, match=rf"a.safetensors: {message}"):
        load_safetensors(path)["up.weight"]


@pytest.mark.parametrize("method", ["bitsandbytes", "compressed-tensors", "fp8", "mxfp4"])
def test_other_ways_to_pack_are_named(method: str, tmp_path: Path) -> None:
    path = packed(tmp_path, None)
    config = {"quantization_config": {"quant_method": method}}
    with pytest.raises(FormatError, match=f"packed by '{method}'") as error:
        load_safetensors(path, config=config)
    assert "config={}" in str(error.value)
    assert load_safetensors(path, config={})["up.weight"].dtype == "uint32"


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    safetensors.numpy.save_file({"w": np.ones((3, 4))}, path)
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError, match=r"a\.safetensors: "):
            load_safetensors(path)
    path.write_bytes(data[:-1])
    with pytest.raises(FormatError, match="the array 'w' lies outside of the file"):
        load_safetensors(path)
    (tmp_path / "config.json").write_text("{")
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"config.json: it is no JSON"):
        load_safetensors(path)


W = np.random.default_rng(0).standard_normal((8, 64)).astype("float32")


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (lambda: implicit.quantize(W, "int4"), {}, "Give layout="),
        (lambda: implicit.LoRA.of(W, rank=1), {"layout": "mlx"}, "what mx.quantize makes"),
        (lambda: implicit.quantize(W, "int4", symmetric=True), {"layout": "mlx"}, "with biases"),
        (lambda: implicit.quantize(W, "int4", axis=-2, group_size=8), {"layout": "mlx"}, "last ax"),
        (lambda: implicit.quantize(W, "int4", group_size=16), {"layout": "mlx"}, "groups of 32"),
        (lambda: implicit.quantize(W, "nvfp4"), {"layout": "mlx"}, "has no factor"),
        (lambda: W.astype("complex64"), {}, "Cast it to one of"),
    ],
)
def test_what_a_file_cannot_hold_is_named(
    make: Any, settings: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(ImplicitArrayError, match=f"(?s)'up.weight'.*{message}"):
        save_safetensors(path, {"up.weight": make()}, **settings)
    assert not [*tmp_path.iterdir()]
    with pytest.raises(ArgumentError, match="layout='marlin'"):
        save_safetensors(path, {}, layout="marlin")


def test_arrays_of_quantize_are_those_of_mlx(tmp_path: Path) -> None:
    given = {
        "a.weight": implicit.quantize(W, "int4", group_size=32),
        "b.weight": implicit.quantize(jnp.asarray(W), "int8"),
        "c.weight": implicit.quantize(mx.array(W), "mxfp8"),
        "norm": mx.array(W[0]),
    }
    (tmp_path / "config.json").write_text('{"hidden_size": 64}')
    save_safetensors(tmp_path / "model.safetensors", given, layout="mlx")
    read = mx.load(str(tmp_path / "model.safetensors"))
    said = json.loads((tmp_path / "config.json").read_text())
    assert said["hidden_size"] == 64
    for name in "abc":
        how = {**said["quantization"], **said["quantization"].get(name, {})}
        how = {key: how[key] for key in ("group_size", "bits", "mode")}
        parts = [
            read[f"{name}.{s}"] for s in ("weight", "scales", "biases") if f"{name}.{s}" in read
        ]
        dense = as_numpy(mx.dequantize(*parts, **how))
        np.testing.assert_array_equal(dense, np.asarray(given[f"{name}.weight"].each(np.asarray)))
