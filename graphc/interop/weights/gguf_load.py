"""Loading GGUF files: each kind of blocks as the implicit array with the same numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphc.implicit.quantized import DoubleQuantized, Microscaled
from graphc.implicit.quantized.base import PackedVector
from graphc.interop.weights import gguf_file
from graphc.interop.weights.files import TRUNCATED, Weights, refusal
from graphc.interop.weights.gguf_blocks import BLOCKS, Array
from graphc.interop.weights.gguf_kinds import CODECS, DTYPES, NAMES, OTHERS, row_slices
from graphc.interop.weights.layout import words_of
from graphc.ir import numpy_dtype


def load_gguf(path: str | os.PathLike[str], *, dequantize: bool = False) -> Weights:
    """Return the arrays of a GGUF file, packed as the file has them.

    An array has its shape in the model, ``(out, in)`` for a linear layer, whose product is
    ``x @ w.T``. The file lists lengths in reverse. Packed arrays have exactly the numbers that
    llama.cpp computes from their blocks, as float32; ``w.astype("float16")`` has smaller scales.

    =========================================  ====================================================
    kinds                                      are
    =========================================  ====================================================
    F32, F16, BF16, F64, I8, I16, I32, I64     NumPy's arrays, parts of the mapped file
    Q4_0, Q5_0, Q8_0, TQ1_0, TQ2_0             ``ScaledQuantized``
    Q4_1, Q5_1                                 ``AffineQuantized``
    Q2_K, Q3_K, Q4_K, Q5_K, Q6_K               ``DoubleQuantized``
    MXFP4, NVFP4                               ``Microscaled``
    Q1_0                                       ``OneBit``
    IQ1_S, IQ2_XS, IQ4_NL and the like         float32, with ``dequantize=True``
    =========================================  ====================================================

    A packed array of one axis is a packed vector.

    Args:
        path: The file.
        dequantize: Densify arrays of the last kinds, by the package ``gguf``, when they are read.
            Others stay packed; ``graphc.implicit.dequantize`` densifies these.

    Returns:
        The arrays by name, each read when it is asked for, and the metadata.

    Raises:
        FormatError: If the file is no GGUF file, or is damaged; when an array is read: if its kind
            is one of the last and ``dequantize`` is not given, or its codes are invalid.
        OSError: If the file cannot be read.
        ImportError: If ``dequantize`` is given, an array needs it, and the package ``gguf`` is
            missing.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from graphc import implicit
        >>> from graphc.interop.weights import load_gguf, save_gguf
        >>> w = implicit.quantize(np.eye(64, dtype="float32"), "int8", symmetric=True)
        >>> w = w.astype("float16").astype("float32")  # GGUF has scales of float16
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_gguf(f"{folder}/model.gguf", {"output.weight": w})
        ...     found = load_gguf(f"{folder}/model.gguf")["output.weight"]
        >>> found
        ScaledQuantized(uint32[64, 16], float32[64, 2], element='int8', group_size=32,
         transposed=False)
        >>> bool((np.asarray(found) == np.asarray(w)).all())
        True
    """
    file = gguf_file.GGUFReader(Path(path))
    kinds = {name: NAMES.get(x.kind, f"number {x.kind}") for name, x in file.tensors.items()}
    readers: dict[str, Callable[[], Any]] = {
        name: partial(_read, file, name, kind, dequantize) for name, kind in kinds.items()
    }
    return Weights(file.path, readers, kinds=kinds, metadata=file.metadata)


def _read(file: gguf_file.GGUFReader, name: str, kind: str, dequantize: bool) -> Any:
    shape = file.tensors[name].shape
    if kind in DTYPES:
        dtype = numpy_dtype(DTYPES[kind])
        data = file.bytes_of(name, math.prod(shape) * dtype.itemsize)
        return np.frombuffer(data, dtype).reshape(shape)
    if kind in OTHERS.values() and dequantize:
        return _dequantize(file, name, kind)
    if kind not in BLOCKS:
        remedy = "Give load_gguf(..., dequantize=True), which makes such arrays whole."
        if kind not in OTHERS.values():
            remedy = "graphc does not know that kind: convert the model to another."
        raise refusal(
            file.path, f"no implicit array holds {name!r}, which is of kind {kind}.", remedy
        )
    size, count, *_ = BLOCKS[kind]
    if not shape or shape[-1] % size:
        problem = f"{name!r} of kind {kind} has the shape {list(shape)}."
        raise refusal(file.path, problem, f"Its rows have blocks of {size}: {TRUNCATED}")
    data = file.bytes_of(name, math.prod(shape) // size * count)
    blocks = np.frombuffer(data, "uint8").reshape(math.prod(shape[:-1]), shape[-1] // size, count)
    return _unpack(file.path, name, kind, blocks, shape)


def _unpack(path: Path, name: str, kind: str, blocks: Array, shape: Sequence[int]) -> Any:
    size, _, read, _ = BLOCKS[kind]
    codec, (rows, count) = CODECS[kind], blocks.shape[:2]
    coding = codec.cls.coding_of(**codec.options)
    words = np.empty((rows, count * size * coding.bits // 32), "uint32")
    fields: list[Array] = []
    for chunk in row_slices(rows, count * size):
        codes, *numbers = read(blocks[chunk].reshape(-1, blocks.shape[-1]))
        if kind.startswith("TQ") and codes.max(initial=0) > 3:
            problem = f"{name!r} of kind {kind} has codes that stand for no ternary number."
            raise refusal(path, problem, TRUNCATED)
        words[chunk] = words_of(coding, codes.reshape(len(words[chunk]), count * size))
        values = [x.reshape(len(words[chunk]), count * x.shape[-1]) for x in numbers]
        fields = fields or [np.empty((rows, x.shape[-1]), x.dtype) for x in values]
        for field, x in zip(fields, values, strict=True):
            field[chunk] = x
    return _build(path, name, kind, words, fields, shape)


def _build(
    path: Path, name: str, kind: str, words: Array, fields: list[Array], shape: Sequence[int]
) -> Any:
    codec, lead = CODECS[kind], tuple(shape[:-1])
    if not lead:
        return PackedVector(_build(path, name, kind, words, fields, (1, *shape)))
    words, *fields = [x.reshape(*lead, x.shape[-1]) for x in (words, *fields)]
    build: Any = codec.cls
    if codec.cls is not Microscaled:
        if codec.cls is DoubleQuantized:
            fields = [x.astype("int8") if i % 2 == 0 else x for i, x in enumerate(fields)]
        return build(words, *fields, **codec.options)
    if codec.limits and fields[0].max(initial=0) > codec.limits[1]:
        raise refusal(path, f"{name!r} of kind {kind} has scales that are no numbers.", TRUNCATED)
    return build(words, *fields, np.ones((*lead[:-1], 1, 1), "float32"), **codec.options)


def _dequantize(file: gguf_file.GGUFReader, name: str, kind: str) -> Any:
    try:
        import gguf  # noqa: PLC0415 (an optional dependency)
    except ImportError as error:
        raise ImportError(
            "load_gguf(..., dequantize=True) needs the package gguf.\n"
            "Install it: pip install 'graphc[gguf]'.",
            name="gguf",
        ) from error
    number, shape = gguf.GGMLQuantizationType[kind], file.tensors[name].shape
    size, count = gguf.GGML_QUANT_SIZES[number]
    data = file.bytes_of(name, math.prod(shape) // size * count)
    rows = np.frombuffer(data, "uint8").reshape(*shape[:-1], -1)
    try:
        return gguf.dequantize(rows, number)
    except NotImplementedError as error:
        problem = f"the package gguf has nothing for {name!r} of kind {kind}."
        raise refusal(file.path, problem, "Convert the model to another kind.") from error
