"""GGUF files against the package gguf: its numbers bit for bit, its reader, its writer."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.errors import ArgumentError, FormatError, ImplicitArrayError
from graphc.implicit.quantized.base import PackedVector
from graphc.interop.weights import load_gguf, save_gguf

HALVES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q1_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
    "MXFP4": (),
    "NVFP4": (),
}
"""For each kind where numbers of float16 begin in a block; all else may be any bytes, but for what
``blocks`` says."""

CLASSES = {
    **dict.fromkeys(("Q4_0", "Q5_0", "Q8_0", "TQ1_0", "TQ2_0"), implicit.ScaledQuantized),
    **dict.fromkeys(("Q4_1", "Q5_1"), implicit.AffineQuantized),
    **dict.fromkeys(("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"), implicit.DoubleQuantized),
    **dict.fromkeys(("MXFP4", "NVFP4"), implicit.Microscaled),
    "Q1_0": implicit.OneBit,
}


def blocks(kind: str, *shape: int, seed: int = 0) -> Any:
    """Random bytes of rows of blocks, whose numbers are finite."""
    rng = np.random.default_rng(seed)
    size, count = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    lead = (*shape[:-1], shape[-1] // size)
    data = rng.integers(0, 256, (*lead, count), dtype="uint8")
    for at in HALVES[kind]:
        data[..., at : at + 2] = rng.standard_normal((*lead, 1)).astype("float16").view("uint8")
    if kind == "TQ1_0":
        # As quantized: not all bytes are five ternary digits.
        dense = rng.integers(-1, 2, shape).astype("float32")
        return gguf.quantize(dense * 0.5, gguf.GGMLQuantizationType.TQ1_0)
    if kind == "TQ2_0":
        data[..., :64] = (rng.integers(0, 3, (*lead, 64, 4)) * [1, 4, 16, 64]).sum(-1)
    if kind == "MXFP4":
        data[..., 0] = rng.integers(0, 255, lead)
    if kind == "NVFP4":
        data[..., :4] = rng.integers(0, 127, (*lead, 4))
    return data.reshape(*shape[:-1], -1)


def whole(data: Any, kind: str) -> Any:
    """What the bytes stand for."""
    if kind == "Q1_0":
        # The package has nothing for it: a scale, and signs from the lowest bit on.
        each = data.reshape(*data.shape[:-1], -1, 18)
        scales = np.ascontiguousarray(each[..., :2]).view("float16").astype("float32")
        signs = np.unpackbits(each[..., 2:], axis=-1, bitorder="little")
        return np.where(signs == 1, scales, -scales).reshape(*data.shape[:-1], -1)
    with np.errstate(over="ignore"):
        return gguf.dequantize(data, gguf.GGMLQuantizationType[kind])


def write(path: Path, tensors: dict[str, tuple[Any, str]], **fields: Any) -> Path:
    """A file by the package's writer."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, (data, kind) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[kind])
    for key, (add, value) in fields.items():
        getattr(writer, add)(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def same_bits(a: Any, b: Any) -> None:
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_array_equal(a.view("uint32"), b.view("uint32"))


@pytest.mark.parametrize("kind", CLASSES)
def test_every_kind_is_held_bit_for_bit_and_written_again(kind: str, tmp_path: Path) -> None:
    made = {
        f"{kind}.{len(shape)}": blocks(kind, *shape) for shape in ((5, 512), (2, 3, 256), (768,))
    }
    path = write(tmp_path / "a.gguf", {name: (x, kind) for name, x in made.items()})
    weights = load_gguf(path)
    assert weights.kinds == dict.fromkeys(made, kind)
    for name, data in made.items():
        x = weights[name]
        assert x.shape == {"2": (5, 512), "3": (2, 3, 256), "1": (768,)}[name[-1]]
        assert type(x.matrix if isinstance(x, PackedVector) else x) is CLASSES[kind]
        with np.errstate(over="ignore"):
            same_bits(np.asarray(weights[name]), whole(data, kind))
    again = tmp_path / "b.gguf"
    save_gguf(again, weights, weights.metadata, kinds=weights.kinds)
    assert again.read_bytes() == path.read_bytes()
    for tensor in gguf.GGUFReader(again).tensors:
        assert tensor.tensor_type.name == kind
        np.testing.assert_array_equal(tensor.data, made[tensor.name])


def test_a_packed_vector_is_computed_with_on_every_backend(tmp_path: Path) -> None:
    data = blocks("Q8_0", 96)
    v = load_gguf(write(tmp_path / "a.gguf", {"v": (data, "Q8_0")}))["v"]
    dense, x = whole(data, "Q8_0"), np.ones((5, 96), "float32")
    expected = [x @ dense, 2 * dense + x, dense[3:7]]
    for mode in ("NUMPY", "JAX", "MLX"):
        s = gt.implicit(v, name="v")
        f = graphc.function([s], [x @ s, 2 * s + x, s[3:7]], mode=mode, returns="numpy")
        for y, right in zip(f(v), expected, strict=True):
            np.testing.assert_allclose(y, right, 1e-4, 1e-4)
    by_jax = implicit.implicit(lambda v: (x @ v, 2 * v + x, v[3:7]))(jax.tree.map(jnp.asarray, v))
    np.testing.assert_array_equal(implicit.dequantize({"v": v})["v"], dense)
    for y, right in zip(by_jax, expected, strict=True):
        np.testing.assert_allclose(np.asarray(y), right, 1e-4, 1e-4)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ2_0", "MXFP4"])
def test_what_the_package_quantizes_has_its_numbers(kind: str, tmp_path: Path) -> None:
    dense = np.random.default_rng(1).standard_normal((6, 256)).astype("float32")
    data = gguf.quantize(dense, gguf.GGMLQuantizationType[kind])
    found = load_gguf(write(tmp_path / "a.gguf", {"w": (data, kind)}))["w"]
    same_bits(np.asarray(found), whole(data, kind))


def test_whole_arrays_are_parts_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {
        "f32": rng.standard_normal((3, 4)).astype("float32"),
        "f16": rng.standard_normal(3).astype("float16"),
        "f64": rng.standard_normal((2, 2, 2)),
        **{f"i{n}": rng.integers(-99, 99, (2, 3)).astype(f"int{n}") for n in (8, 16, 32, 64)},
        "bf16": jnp.asarray(rng.standard_normal((2, 5)), "bfloat16"),
    }
    path = tmp_path / "a.gguf"
    save_gguf(path, made)
    read = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    weights = load_gguf(path)
    for name, x in made.items():
        found = weights[name]
        assert not found.flags.writeable
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, np.asarray(x))
        if name != "bf16":
            np.testing.assert_array_equal(read[name].data, x)
            assert read[name].data.dtype == x.dtype
    theirs = gguf.dequantize(read["bf16"].data, gguf.GGMLQuantizationType.BF16)
    np.testing.assert_array_equal(theirs, np.asarray(made["bf16"]).astype("float32"))


FIELDS = {
    "a.uint8": ("add_uint8", 7),
    "a.int8": ("add_int8", -7),
    "a.uint32": ("add_uint32", 2**31),
    "a.int64": ("add_int64", -(2**40)),
    "a.float32": ("add_float32", 0.1),
    "a.float64": ("add_float64", 0.1),
    "a.flag": ("add_bool", True),
    "a.text": ("add_string", "Größe"),
    "a.tokens": ("add_array", ["a", "bé", ""]),
    "a.numbers": ("add_array", [1, -2, 3]),
    "a.scores": ("add_array", [0.5, -1.5]),
}


def test_metadata_keep_their_values_and_types(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", {"w": (np.ones(3, "float32"), "F32")}, **FIELDS)
    weights = load_gguf(path)
    for key, (_, value) in FIELDS.items():
        found = weights.metadata[key]
        wanted = np.float32(value).item() if key == "a.float32" else value
        assert (found.tolist() if isinstance(found, np.ndarray | np.generic) else found) == wanted
    assert weights.metadata["a.uint8"].dtype == "uint8"
    assert weights.metadata["a.float64"].dtype == "float64"
    again = tmp_path / "b.gguf"
    save_gguf(again, weights, weights.metadata)
    assert again.read_bytes() == path.read_bytes()
    # Python's numbers get the types of the package's hyperparameters.
    save_gguf(again, {}, {"n": 5, "m": -5, "big": 2**40, "x": 0.5, "xs": [1, 2], "some": [0.5, 2]})
    found = {name: field.types for name, field in gguf.GGUFReader(again).fields.items()}
    names = {name: [x.name for x in types] for name, types in found.items()}
    assert names["n"] == ["UINT32"]
    assert (names["m"], names["big"], names["x"]) == (["INT32"], ["UINT64"], ["FLOAT32"])
    assert (names["xs"], names["some"]) == (["ARRAY", "UINT32"], ["ARRAY", "FLOAT32"])
    with pytest.raises(ArgumentError, match="the metadata 'bad' are"):
        save_gguf(again, {}, {"bad": {"a": 1}})


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K", "Q8_0"])
def test_products_with_loaded_weights_stay_packed(kind: str, tmp_path: Path) -> None:
    data = blocks(kind, 6, 512)
    w = load_gguf(write(tmp_path / "a.gguf", {"w": (data, kind)}))["w"]
    x = np.random.default_rng(2).standard_normal((3, 512)).astype("float32")
    expected = x.astype("float64") @ whole(data, kind).T
    size = 1e-5 * np.abs(expected).max()
    v, symbol = gt.matrix("x", dtype="float32"), gt.implicit(w, name="w")
    with implicit.materializing("error"):
        found = [
            x @ w.T,
            jax.jit(implicit.implicit(lambda x, w: x @ w.T))(x, jax.tree.map(jnp.asarray, w)),
            *[
                graphc.function([v, symbol], v @ symbol.T, mode=mode, returns="numpy")(x, given)
                for mode, given in (
                    ("NUMPY", w),
                    ("JAX", w),
                    ("MLX", w),
                    ("MLX", jax.tree.map(mx.array, w)),
                )
            ],
        ]
    for y in found:
        np.testing.assert_allclose(np.asarray(y), expected, atol=size)


def test_nothing_dense_is_made_while_a_file_is_read_and_written(tmp_path: Path) -> None:
    rows, columns = 3072, 4096
    data = np.tile(blocks("Q4_K", 8, columns), (rows // 8, 1))
    path = write(tmp_path / "a.gguf", {"w": (data, "Q4_K")})
    tracemalloc.start()
    w = load_gguf(path)["w"]
    save_gguf(tmp_path / "b.gguf", {"w": w})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # What is held, and some rows at a time.
    assert peak < w.nbytes + 24 * 2**20 < rows * columns * 4
    assert (tmp_path / "b.gguf").stat().st_size < path.stat().st_size + 100


def test_kinds_that_no_class_holds_are_named_or_made_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, count = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType.IQ4_NL]
    data = np.random.default_rng(0).integers(0, 60, (2, 3 * count), dtype="uint8")
    tensors = {"blk.0.w": (data, "IQ4_NL"), "v": (blocks("Q4_0", 2, 64), "Q4_0")}
    path = write(tmp_path / "a.gguf", tensors)
    with pytest.raises(FormatError, match=r"a.gguf: .*'blk.0.w', which is of kind IQ4_NL") as error:
        load_gguf(path)["blk.0.w"]
    assert "dequantize=True" in str(error.value)
    found = load_gguf(path, dequantize=True)
    assert found["blk.0.w"].shape == (2, 3 * size)
    same_bits(found["blk.0.w"], gguf.dequantize(data, gguf.GGMLQuantizationType.IQ4_NL))
    assert implicit.is_implicit(found["v"])
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ImportError, match=r"pip install 'graphc\[gguf\]'"):
        found["blk.0.w"]


def test_a_file_that_ends_early_is_named(tmp_path: Path) -> None:
    fields = {"a.tokens": ("add_array", ["a", "b"]), "a.text": ("add_string", "long" * 9)}
    tensors = {"w": (blocks("Q4_K", 2, 256), "Q4_K"), "v": (np.ones(99, "float32"), "F32")}
    path = write(tmp_path / "a.gguf", tensors, **fields)
    data = path.read_bytes()
    cut = tmp_path / "cut.gguf"
    lengths = [0, 3, *range(4, len(data) - 40, 13)]
    for length in lengths:
        cut.write_bytes(data[:length])
        with pytest.raises(FormatError, match=r"cut\.gguf"):
            dict(load_gguf(cut))
    cut.write_bytes(data[:-64])
    with pytest.raises(FormatError, match="'v' ends at byte") as error:
        dict(load_gguf(cut))
    assert "get it again" in str(error.value)


def test_whatever_a_header_says_is_read_or_refused(tmp_path: Path) -> None:
    fields = {"a.tokens": ("add_array", ["a", "b"]), "a.numbers": ("add_array", [1, 2])}
    tensors = {"w": (blocks("Q4_K", 2, 256), "Q4_K"), "v": (np.ones(9, "float32"), "F32")}
    path = write(tmp_path / "a.gguf", tensors, **fields)
    data, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(400):
        changed = bytearray(data)
        for place in rng.integers(0, 260, 2):
            changed[place] = rng.choice([0, 1, 127, 255])
        path.write_bytes(changed)
        try:
            dict(load_gguf(path))
        except FormatError:
            refused += 1
    assert 100 < refused < 400


@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0", "MXFP4"])
def test_arrays_may_be_empty(kind: str, tmp_path: Path) -> None:
    size, count = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    data = np.zeros((0, 2 * count), "uint8")
    found = load_gguf(write(tmp_path / "a.gguf", {"w": (data, kind)}))["w"]
    assert found.shape == (0, 2 * size)
    save_gguf(tmp_path / "b.gguf", {"w": found})
    assert load_gguf(tmp_path / "b.gguf")["w"].shape == found.shape


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        (0, b"GGML", "does not begin as GGUF"),
        (4, b"\x00\x00\x00\x03", "highest byte first"),
        (4, b"\x07\x00\x00\x00", "version 7"),
        (8, b"\xff" * 8, "metadata end at byte"),
    ],
)
def test_other_files_are_refused(place: int, change: bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", {"w": (np.ones(3, "float32"), "F32")})
    data = bytearray(path.read_bytes())
    data[place : place + len(change)] = change
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message):
        load_gguf(path)


def test_codes_that_stand_for_nothing_are_refused(tmp_path: Path) -> None:
    data = blocks("MXFP4", 2, 32)
    data[1, 0] = 255
    with pytest.raises(FormatError, match="'w' of kind MXFP4 has scales that are no numbers"):
        load_gguf(write(tmp_path / "a.gguf", {"w": (data, "MXFP4")}))["w"]
    data = blocks("TQ2_0", 2, 256)
    data[1, 5] = 255
    with pytest.raises(FormatError, match="'w' of kind TQ2_0 has codes"):
        load_gguf(write(tmp_path / "b.gguf", {"w": (data, "TQ2_0")}))["w"]


DENSE = np.random.default_rng(5).standard_normal((4, 256)).astype("float32")


def exact(kind: str, **options: Any) -> Any:
    """A quantized array with scales of float16."""
    return implicit.quantize(DENSE.astype("float16"), kind, **options)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: exact("int4", symmetric=True, group_size=64), "Q4_0"),
        (lambda: exact("int5", symmetric=True, group_size=32), "Q5_0"),
        (lambda: exact("int8", symmetric=True, group_size=128), "Q8_0"),
        (lambda: exact("int4", group_size=32), "Q4_1"),
        (lambda: exact("int5", group_size=128), "Q5_1"),
        (lambda: exact("ternary", group_size=-1), "TQ2_0"),
        (lambda: exact("1bit", group_size=256), "Q1_0"),
        (lambda: implicit.quantize(DENSE, "mxfp4"), "MXFP4"),
        (lambda: exact("int8", symmetric=True, group_size=32).each(jnp.asarray), "Q8_0"),
        (lambda: exact("int8", symmetric=True, group_size=32).each(mx.array), "Q8_0"),
    ],
)
def test_arrays_of_quantize_are_written_in_the_kind_that_has_their_numbers(
    make: Any, kind: str, tmp_path: Path
) -> None:
    w = make()
    save_gguf(tmp_path / "a.gguf", {"w": w})
    (tensor,) = gguf.GGUFReader(tmp_path / "a.gguf").tensors
    assert tensor.tensor_type.name == kind
    wide = w.each(np.asarray)
    wide = wide if kind == "MXFP4" else wide.astype("float32")
    np.testing.assert_array_equal(whole(np.array(tensor.data), kind), np.asarray(wide))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: implicit.quantize(DENSE, "int8", symmetric=True), "no numbers of float16"),
        (lambda: exact("int8", symmetric=True, axis=-2, group_size=4), "along the last axis"),
        (lambda: exact("int8"), "any kind has no place"),
        (lambda: implicit.LoRA.of(DENSE, rank=1), "graphc.implicit.merge"),
        (lambda: implicit.quantize(DENSE, "nvfp4"), "factor has no place"),
        (lambda: DENSE.astype("complex64"), "cast it"),
        (lambda: exact("int4", symmetric=True, group_size=32).astype("float32") * 1e6, "float16"),
    ],
)
def test_what_gguf_cannot_hold_is_named(make: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"before")
    w = make()
    w = w.astype("float32") if implicit.is_implicit(w) and w.dtype == "float16" else w
    with pytest.raises(ImplicitArrayError, match=f"(?s)'output.weight'.*{message}"):
        save_gguf(path, {"output.weight": w})
    assert path.read_bytes() == b"before"
    assert [x.name for x in tmp_path.iterdir()] == ["a.gguf"]


def test_integers_beyond_a_block_are_named(tmp_path: Path) -> None:
    w = load_gguf(write(tmp_path / "a.gguf", {"w": (blocks("Q4_K", 2, 256), "Q4_K")}))["w"]
    scales = np.array(w.scales)
    scales[1, 3] = 64
    with pytest.raises(ImplicitArrayError, match="scales or minimums other than 0 to 63"):
        save_gguf(tmp_path / "b.gguf", {"w": implicit.with_fields(w, {"scales": scales})})
    w = load_gguf(write(tmp_path / "a.gguf", {"w": (blocks("Q3_K", 2, 256), "Q3_K")}))["w"]
    packed = np.array(w.packed)
    packed[0, 0] = 0
    with pytest.raises(ImplicitArrayError, match="codes other than 4 to 11"):
        save_gguf(tmp_path / "b.gguf", {"w": implicit.with_fields(w, {"packed": packed})})
    with pytest.raises(ArgumentError, match="the kind 'Q9' of 'w'"):
        save_gguf(tmp_path / "b.gguf", {"w": w}, kinds={"w": "Q9"})
    with pytest.raises(ImplicitArrayError, match="Q4_0 has no place"):
        save_gguf(tmp_path / "b.gguf", {"w": w}, kinds={"w": "Q4_0"})
