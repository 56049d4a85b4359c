"""GGUF files read: each kind of blocks as the implicit array that has the same numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphc.implicit.quantized import DoubleQuantized, Microscaled
from graphc.interop.weights import gguf_file
from graphc.interop.weights.files import TRUNCATED, Weights, refusal
from graphc.interop.weights.gguf_blocks import BLOCKS, Array
from graphc.interop.weights.gguf_kinds import DTYPES, HELD, NAMES, OTHERS, rows_of
from graphc.interop.weights.words import words_of
from graphc.ir import numpy_dtype


def load_gguf(path: str | os.PathLike[str], *, dequantize: bool = False) -> Weights:
    """The arrays of a GGUF file, packed as the file has them.

    An array has the shape that the model gives it, ``(out, in)`` of a linear layer, whose product
    is ``x @ w.T``. The file lists lengths in reverse. Packed ones stand for exactly the numbers
    that llama.cpp computes of their blocks, as float32; ``w.astype("float16")`` has smaller scales.

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

    Args:
        path: The file.
        dequantize: Make arrays of the last kinds whole, by the package ``gguf``, when they are
            read. Others stay packed; ``graphc.implicit.dequantize`` makes these whole.

    Returns:
        The arrays by name, each read when it is asked for, and the metadata.

    Raises:
        FormatError: It is no GGUF file, or is damaged; when an array is read, its kind is one of
            the last, and ``dequantize`` is not given, or its codes stand for nothing.
        OSError: The file cannot be read.
        ImportError: ``dequantize`` is given, an array needs it, and the package ``gguf`` is
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
    file = gguf_file.Reader(Path(path))
    kinds = {name: NAMES.get(x.kind, f"number {x.kind}") for name, x in file.tensors.items()}
    readers: dict[str, Callable[[], Any]] = {
        name: partial(_read, file, name, kind, dequantize) for name, kind in kinds.items()
    }
    return Weights(file.path, readers, kinds=kinds, metadata=file.metadata)


def _read(file: gguf_file.Reader, name: str, kind: str, dequantize: bool) -> Any:
    shape = file.tensors[name].shape
    if kind in DTYPES:
        dtype = numpy_dtype(DTYPES[kind])
        data = file.bytes_of(name, math.prod(shape) * dtype.itemsize)
        return np.frombuffer(data, dtype).reshape(shape)
    if kind in OTHERS.values() and dequantize:
        return _dequantized(file, name, kind)
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
    return _held(file.path, name, kind, blocks, shape)


def _held(path: Path, name: str, kind: str, blocks: Array, shape: Sequence[int]) -> Any:
    """The implicit array of rows of blocks, of which some are unpacked at a time."""
    size, _, read, _ = BLOCKS[kind]
    held, (rows, count) = HELD[kind], blocks.shape[:2]
    coding = held.cls.coding_of(**held.options)
    words = np.empty((rows, count * size * coding.bits // 32), "uint32")
    parts: list[Array] = []
    for some in rows_of(rows, count * size):
        codes, *numbers = read(blocks[some].reshape(-1, blocks.shape[-1]))
        if kind.startswith("TQ") and codes.max(initial=0) > 3:
            problem = f"{name!r} of kind {kind} has codes that stand for no ternary number."
            raise refusal(path, problem, TRUNCATED)
        words[some] = words_of(coding, codes.reshape(len(words[some]), count * size))
        lasting = [x.reshape(len(words[some]), count * x.shape[-1]) for x in numbers]
        parts = parts or [np.empty((rows, x.shape[-1]), x.dtype) for x in lasting]
        for part, x in zip(parts, lasting, strict=True):
            part[some] = x
    return _built(path, name, kind, words, parts, shape)


def _built(
    path: Path, name: str, kind: str, words: Array, parts: list[Array], shape: Sequence[int]
) -> Any:
    held, lead = HELD[kind], tuple(shape[:-1])
    # Implicit arrays have two axes at least.
    if not lead:
        return np.asarray(_built(path, name, kind, words, parts, (1, *shape)))[0]
    words, *parts = [x.reshape(*lead, x.shape[-1]) for x in (words, *parts)]
    build: Any = held.cls
    if held.cls is not Microscaled:
        if held.cls is DoubleQuantized:
            parts = [x.astype("int8") if i % 2 == 0 else x for i, x in enumerate(parts)]
        return build(words, *parts, **held.options)
    if held.limits and parts[0].max(initial=0) > held.limits[1]:
        raise refusal(path, f"{name!r} of kind {kind} has scales that are no numbers.", TRUNCATED)
    return build(words, *parts, np.ones((*lead[:-1], 1, 1), "float32"), **held.options)


def _dequantized(file: gguf_file.Reader, name: str, kind: str) -> Any:
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
