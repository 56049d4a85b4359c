"""ONNX models read from files, and their tensors as NumPy arrays; nothing of them is trusted."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, FormatError
from graphc.interop.onnx.values import Known, Refusal

try:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper
except ImportError as error:
    raise ImportError(
        "graphc.interop.onnx needs the package onnx.\nInstall it: pip install 'graphc[onnx]'.",
        name="onnx",
    ) from error

OLDEST, NEWEST = 7, 28
"""The versions of ONNX's own operators that there are converters for."""

DAMAGE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What reading a damaged model raises."""

NARROW = {"int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}
"""Integers of few bits, and those that stand for them."""


@dataclass(frozen=True)
class Source:
    """A model, and where its external data are.

    Attributes:
        proto: The model.
        directory: The folder of its file, if it was read from one.
    """

    proto: Any
    directory: Path | None = None

    @classmethod
    def read(cls, model: Any) -> Source:
        """Read a model from a file, from its bytes, or from ``onnx.ModelProto``."""
        if isinstance(model, onnx.ModelProto):
            return cls(model)
        if isinstance(model, bytes | bytearray | memoryview):
            return cls(_parsed(bytes(model), "onnx.load"))
        if not isinstance(model, str | os.PathLike):
            raise ArgumentError(
                f"onnx.load: {type(model).__name__} is no model.",
                "Give a path, the bytes of a file, or an onnx.ModelProto.",
            )
        path = Path(model)
        return cls(_parsed(path.read_bytes(), str(path)), path.resolve().parent)

    def versions(self) -> dict[str, int]:
        """For each domain, the version of its operators."""
        found = {domain_of(x.domain): int(x.version) for x in self.proto.opset_import}
        version = found.setdefault("", 1)
        if any(domain_of(node.domain) == "" for node in self.proto.graph.node):
            check_version(version)
        return found

    def initializers(self) -> dict[str, Known]:
        """The initializers, by name."""
        return {x.name: self.known(x, x.name) for x in self.proto.graph.initializer}

    def known(self, tensor: Any, name: str | None = None) -> Known:
        """A tensor's elements."""
        dtype = dtype_of(tensor.data_type)
        array = self._array(tensor, name or tensor.name)
        if dtype != "str":
            array = array.astype(dtype, copy=False)
        return Known(array, dtype, name, is_narrow=is_narrow(tensor.data_type))

    def _array(self, tensor: Any, name: str) -> np.ndarray[Any, Any]:
        if any(n < 0 for n in tensor.dims):
            raise FormatError(f"onnx.load: the tensor {name!r} has the lengths {[*tensor.dims]}.")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return self._external(tensor, name)
        elements = int(np.prod([int(n) for n in tensor.dims], dtype=object))
        # Where dtypes have 2 bits, a byte has 4 elements; protobuf stores a number in one at least.
        if elements > 4 * max(1, tensor.ByteSize()):
            raise FormatError(
                f"onnx.load: the tensor {name!r} has {elements} elements by its lengths, and less "
                "is stored.",
                "The file is damaged: export it again.",
            )
        return np.asarray(numpy_helper.to_array(tensor))

    def _external(self, tensor: Any, name: str) -> np.ndarray[Any, Any]:
        entries = {x.key: x.value for x in tensor.external_data}
        if self.directory is None:
            raise ArgumentError(
                f"onnx.load: the elements of {name!r} are in another file, "
                f"{entries.get('location')!r}.",
                "Give the path of the model, beside which that file is.",
            )
        path = (self.directory / entries["location"]).resolve()
        if not path.is_relative_to(self.directory):
            raise FormatError(
                f"onnx.load: the elements of {name!r} are in {entries['location']!r}, outside of "
                "the model's folder.",
                "Put them beside it.",
            )
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        if kind.name in NARROW or kind.hasobject:
            raise Refusal(f"the initializer {name!r} is external and of {kind.name}")
        return _mapped(path, kind, tuple(tensor.dims), entries, name)


def check_version(version: int) -> None:
    """Raise where there are no converters for a version of ONNX's own operators."""
    if not OLDEST <= version <= NEWEST:
        raise FormatError(
            f"onnx.load: the model is of opset {version}; {OLDEST} to {NEWEST} are read.",
            "Convert it: onnx.version_converter.convert_version(model, 17).",
        )


def _parsed(data: bytes, title: str) -> Any:
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise FormatError(f"{title}: it is no ONNX model, or damaged: {error}.") from None
    if not proto.graph.node and not proto.graph.output:
        raise FormatError(f"{title}: it is no ONNX model: it has no graph.")
    return proto


def _mapped(
    path: Path, kind: Any, shape: tuple[int, ...], entries: Mapping[str, str], name: str
) -> np.ndarray[Any, Any]:
    """A part of a file as an array, of which nothing is read before it is used."""
    offset = int(entries.get("offset") or 0)
    size = kind.itemsize * int(np.prod([int(n) for n in shape], dtype=object))
    stated = int(entries.get("length") or size)
    if offset < 0 or stated != size or offset + size > path.stat().st_size:
        raise FormatError(
            f"onnx.load: {path.name} has no {size} bytes at {offset} for the tensor {name!r}.",
            "The file is damaged or cut off: copy it again.",
        )
    if not size:
        return np.zeros(shape, kind)
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(data, kind.newbyteorder("<"), size // kind.itemsize, offset).reshape(shape)


def domain_of(name: str) -> str:
    return "" if name == "ai.onnx" else str(name)


def dtype_of(number: int) -> str:
    """The name of the dtype that ONNX has under a number."""
    if number == onnx.TensorProto.STRING:
        return "str"
    try:
        name = str(onnx.helper.tensor_dtype_to_np_dtype(number).name)
    except KeyError:
        raise FormatError(f"onnx.load: there is no dtype {number}.") from None
    return NARROW.get(name, name)


def is_narrow(number: int) -> bool:
    """Whether ONNX's dtype of that number is one of integers of 2 or 4 bits."""
    if number in {0, onnx.TensorProto.STRING}:
        return False
    return onnx.helper.tensor_dtype_to_np_dtype(number).name in NARROW


def lengths_of(type: Any) -> list[Any] | None:
    """The lengths of a declared tensor: integers, names, and None; None where nothing is said."""
    if not type.tensor_type.HasField("shape"):
        return None
    found: list[Any] = []
    for dim in type.tensor_type.shape.dim:
        if dim.HasField("dim_value"):
            if dim.dim_value < 0:
                raise FormatError(f"onnx.load: the length {dim.dim_value} is negative.")
            found.append(int(dim.dim_value))
        else:
            found.append(dim.dim_param or None)
    return found
