"""AWQ's and GPTQ's layouts: files of AutoAWQ and AutoGPTQ, and packing written out here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.errors import FormatError, ImplicitArrayError
from graphc.interop.weights import load_safetensors, save_safetensors

DATA = Path(__file__).parent / "data"
FILES = ["awq", *(f"gptq/{n}{end}" for n in (2, 3, 4, 8) for end in ("", "_permuted"))]


@pytest.mark.parametrize("name", FILES)
def test_files_of_the_libraries_have_their_numbers(name: str, tmp_path: Path) -> None:
    weights = load_safetensors(DATA / name)
    assert [*weights] == ["up.weight"]
    found = weights["up.weight"]
    assert isinstance(found, implicit.ChannelPermuted) == name.endswith("_permuted")
    dense = np.asarray(found).astype("float16") if name == "awq" else np.asarray(found)
    np.testing.assert_array_equal(dense.astype("float32"), np.load(DATA / name / "whole.npy"))
    layout = name.partition("/")[0]
    save_safetensors(tmp_path / "model.safetensors", weights, layout=layout, config=weights.config)
    ours, theirs = (
        safetensors.numpy.load_file(folder / "model.safetensors")
        for folder in (tmp_path, DATA / name)
    )
    assert ours.keys() == theirs.keys()
    for key, x in theirs.items():
        assert ours[key].dtype == x.dtype
        np.testing.assert_array_equal(ours[key], x, err_msg=key)
    said = json.loads((tmp_path / "config.json").read_text())["quantization_config"]
    before = weights.config["quantization_config"]
    assert {key: said[key] for key in before} == before


def by_words(codes: Any, bits: int) -> Any:
    """Codes along axis 0 as int32, one stream of bits for each column, the lowest first."""
    stream = [(code >> i) & 1 for code in codes for i in range(bits)]
    words = [
        sum(bit.astype("int64") << i for i, bit in enumerate(stream[at : at + 32]))
        for at in range(0, len(stream), 32)
    ]
    return np.stack(words).astype("uint32").view("int32")


def gptq(bits: int, *, offset: int, symmetric: bool, permuted: bool) -> tuple[Any, Any]:
    """The arrays of a layer, and its matrix, (out, in), in the order that GPTQ computes it."""
    rng = np.random.default_rng(bits)
    rows, columns, size = 128, 32, 64
    codes = rng.integers(0, 2**bits, (rows, columns))
    zeros = rng.integers(0, 2**bits, (rows // size, columns))
    zeros = np.full_like(zeros, 2 ** (bits - 1)) if symmetric else zeros
    scales = rng.uniform(0.01, 0.1, zeros.shape).astype("float16")
    groups = np.arange(rows, dtype="int32") // size
    groups = rng.permutation(groups) if permuted else groups
    stored = (zeros - offset) % 2**bits
    arrays = {
        "up.qweight": by_words(codes, bits),
        "up.qzeros": np.ascontiguousarray(by_words(stored.T, bits).T),
        "up.scales": scales,
        "up.g_idx": groups,
    }
    whole = scales[groups].astype("float32") * (codes - zeros[groups]).astype("float32")
    return arrays, whole.T


def written(folder: Path, arrays: Any, **settings: Any) -> Path:
    safetensors.numpy.save_file(arrays, folder / "a.safetensors")
    said = {"quant_method": "gptq", "bits": 4, "group_size": 64, **settings}
    (folder / "config.json").write_text(json.dumps({"quantization_config": said}))
    return folder / "a.safetensors"


@pytest.mark.parametrize("permuted", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_zero_points_of_both_formats(
    bits: int, offset: int, symmetric: bool, permuted: bool, tmp_path: Path
) -> None:
    arrays, whole = gptq(bits, offset=offset, symmetric=symmetric, permuted=permuted)
    form = "gptq" if offset else "gptq_v2"
    path = written(tmp_path, arrays, bits=bits, checkpoint_format=form, desc_act=permuted)
    found = load_safetensors(path)["up.weight"]
    np.testing.assert_array_equal(np.asarray(found), whole)
    plain = found.of if permuted else found
    kind = implicit.ScaledQuantized if symmetric else implicit.AffineQuantized
    assert type(plain) is kind
    save_safetensors(tmp_path / "b.safetensors", {"up.weight": found}, layout="gptq")
    again = safetensors.numpy.load_file(tmp_path / "b.safetensors")
    for key, x in arrays.items():
        if key != "up.qzeros" or offset:
            np.testing.assert_array_equal(again[key], x, err_msg=key)
    said = json.loads((tmp_path / "config.json").read_text())["quantization_config"]
    assert (said["checkpoint_format"], said["bits"]) == ("gptq", bits)
    assert (said["desc_act"], said["sym"]) == (permuted, symmetric)
    back = load_safetensors(tmp_path / "b.safetensors")["up.weight"]
    np.testing.assert_array_equal(np.asarray(back), whole)


def test_awq_is_unpacked_in_its_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, columns, size = 64, 32, 32
    codes = rng.integers(0, 16, (rows, columns))
    zeros = rng.integers(0, 16, (rows // size, columns))
    scales = rng.uniform(0.01, 0.1, zeros.shape).astype("float16")

    def packed(codes: Any) -> Any:
        # Nibble i of a word is output order[i] of eight.
        order, wide = (0, 2, 4, 6, 1, 3, 5, 7), codes.astype("int64")
        words = [
            sum(wide[:, at + order[i]] << 4 * i for i in range(8)) for at in range(0, columns, 8)
        ]
        return np.stack(words, 1).astype("uint32").view("int32")

    arrays = {
        "up.qweight": packed(codes),
        "up.qzeros": packed(zeros),
        "up.scales": scales,
        "up.bias": np.ones(columns, "float16"),
    }
    settings = {"quant_method": "awq", "version": "GEMM", "group_size": size, "zero_point": True}
    weights = load_safetensors(written(tmp_path, arrays, **settings))
    assert {*weights} == {"up.weight", "up.bias"}
    spread = np.repeat(zeros, size, 0), np.repeat(scales.astype("float32"), size, 0)
    np.testing.assert_array_equal(
        np.asarray(weights["up.weight"]), ((codes - spread[0]).astype("float32") * spread[1]).T
    )


@pytest.mark.parametrize("name", ["awq", "gptq/4", "gptq/3_permuted"])
def test_products_with_loaded_weights_stay_packed(name: str) -> None:
    w, whole = load_safetensors(DATA / name)["up.weight"], np.load(DATA / name / "whole.npy")
    x = np.random.default_rng(0).standard_normal((3, whole.shape[1])).astype("float32")
    expected = x.astype("float64") @ whole.T
    # AutoAWQ rounds what it makes whole to float16.
    limit = (2e-3 if name == "awq" else 1e-5) * np.abs(expected).max()
    v, symbol = gt.matrix("x", dtype="float32"), gt.implicit(w, name="w")
    layer = implicit.implicit(lambda x, w: x @ w.T)
    with implicit.materializing("error"):
        made = [x @ w.T, jax.jit(layer)(x, jax.tree.map(jnp.asarray, w))]
        for mode in ("NUMPY", "JAX", "MLX"):
            f = graphc.function([v, symbol], v @ symbol.T, mode=mode, returns="numpy")
            made.append(f(x, w))
        by_x = jax.jit(jax.grad(lambda x: (layer(x, w) ** 2).sum()))(x)
    for y in made:
        np.testing.assert_allclose(np.asarray(y), expected, atol=limit)
    slopes = 2 * expected @ whole
    np.testing.assert_allclose(by_x, slopes, atol=3e-3 * np.abs(slopes).max())


PLAIN, _ = gptq(4, offset=1, symmetric=False, permuted=False)


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ({"bits": 8}, {}, "'up' has qweight"),
        ({"bits": 5}, {}, "a layout of 5 bits"),
        ({"bits": None}, {}, "bits of 'up' is None"),
        ({"group_size": 32}, {}, "'up' has qweight"),
        ({"group_size": 48}, {}, "'up' has qweight"),
        ({"checkpoint_format": "marlin"}, {}, "format 'marlin'"),
        ({"dynamic": {"+:up": {"bits": 8}}}, {}, "dynamic in the config"),
        ({"is_marlin_format": True}, {}, "is_marlin_format in the config"),
        ({}, {"up.qzeros": None}, "'up.qzeros' is missing"),
        ({}, {"up.qweight": np.zeros((16, 32), "float32")}, "'up.qweight' is float32"),
        ({}, {"up.g_idx": np.zeros(128, "int32")}, "'up' has g_idx"),
        ({"sym": True}, {}, '"sym": true, and .*: a stored .* in format'),
        ({"quant_method": "awq", "version": "gemv"}, {}, "packed by 'awq', version 'gemv'"),
        ({"quant_method": "awq", "bits": 3}, {}, "AWQ's codes have 4 bits"),
        ({"quant_method": "awq", "group_size": 32}, {}, "'up' has qweight"),
    ],
)
def test_what_does_not_fit_is_named(
    settings: Any, changes: Any, message: str, tmp_path: Path
) -> None:
    arrays = {key: x for key, x in {**PLAIN, **changes}.items() if x is not None}
    path = written(tmp_path, arrays, **settings)
    with pytest.raises(FormatError, match=f"(?s)a.safetensors: .*{message}"):
        load_safetensors(path)["up.weight"]


def test_symmetric_codes_of_another_format_are_refused_naming_both_readings(tmp_path: Path) -> None:
    arrays, dense = gptq(4, offset=0, symmetric=True, permuted=False)
    path = written(tmp_path, arrays, sym=True, checkpoint_format="gptq")
    with pytest.raises(FormatError, match="8 is 9 in format 'gptq' and 8 in format 'gptq_v2'"):
        load_safetensors(path)["up.weight"]
    path = written(tmp_path, arrays, sym=True, checkpoint_format="gptq_v2")
    np.testing.assert_array_equal(np.asarray(load_safetensors(path)["up.weight"]), dense)
    path = written(tmp_path, arrays, sym=False, checkpoint_format="gptq")
    one_scale_off = dense - np.repeat(arrays["up.scales"].T.astype("float32"), 64, 1)
    np.testing.assert_array_equal(np.asarray(load_safetensors(path)["up.weight"]), one_scale_off)


def test_packed_arrays_without_a_config_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    (tmp_path / "config.json").unlink()
    with pytest.raises(FormatError, match=r"'up.qweight' is packed, but no config.json says how"):
        load_safetensors(path)
    raw = load_safetensors(path, config={})
    np.testing.assert_array_equal(raw["up.qweight"], PLAIN["up.qweight"])


W = np.random.default_rng(0).standard_normal((16, 64)).astype("float16")


def exact(kind: str = "int4", rows: int = 16, **options: Any) -> Any:
    w = implicit.quantize(W[:rows], kind, symmetric=kind.startswith("int"), **options)
    return w.astype("float32")


@pytest.mark.parametrize(
    ("layout", "make", "message"),
    [
        ("awq", lambda: exact("int8"), "codes of 4 bits"),
        ("awq", lambda: exact(rows=9), "multiples of 8 rows"),
        ("gptq", lambda: exact("int3"), "multiples of 32 rows"),
        ("gptq", lambda: exact("int5", group_size=32), "2, 3, 4, 8 bits"),
        ("gptq", lambda: exact("nf4"), "matrices of integers"),
        ("gptq", lambda: exact("ternary"), "other than integers"),
        ("gptq", lambda: exact(axis=-2, group_size=8), "along the last axis"),
        ("gptq", lambda: exact() * 1.0001, "more digits than float16"),
        ("gptq", lambda: exact() + 0.5, "no whole numbers of scales"),
    ],
)
def test_what_a_layout_cannot_hold_is_named(
    layout: str, make: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ImplicitArrayError, match=f"(?s)'up.weight' .*{message}"):
        save_safetensors(tmp_path / "a.safetensors", {"up.weight": make()}, layout=layout)


def test_layers_of_one_file_have_one_size_of_groups(tmp_path: Path) -> None:
    given = {"a.weight": exact(), "b.weight": exact(group_size=32), "c.weight": exact()}
    with pytest.raises(ImplicitArrayError, match=r"'b' has .*'group_size': 32"):
        save_safetensors(tmp_path / "a.safetensors", given, layout="awq")


def test_what_is_quantized_here_is_read_again(tmp_path: Path) -> None:
    for layout in ("awq", "gptq"):
        save_safetensors(tmp_path / "a.safetensors", {"a.weight": exact()}, layout=layout)
        found = load_safetensors(tmp_path / "a.safetensors")["a.weight"]
        np.testing.assert_array_equal(np.asarray(found), np.asarray(exact()))
