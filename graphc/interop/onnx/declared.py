"""The inputs, outputs and initializers of an ONNX model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, FormatError
from graphc.interop.onnx.source import dtype_of, is_narrow, lengths_of
from graphc.interop.onnx.values import Known, Value, tensor_of
from graphc.ir import DTYPES, Wrapper, is_float
from graphc.tensor import Tensor


def share(initializers: Mapping[str, Known], shared: bool | Collection[str]) -> None:
    """Say which initializers become shared variables."""
    if isinstance(shared, bool):
        for x in initializers.values():
            x.is_shared = shared and is_float(x.dtype) and x.array.ndim > 0
        return
    for name in shared:
        if name not in initializers:
            known = ", ".join(initializers) or "none"
            raise ArgumentError(
                f"onnx.load: shared: the model has no initializer {name!r}.", f"It has: {known}."
            )
        initializers[name].is_shared = True


def used(initializers: Mapping[str, Known], shared: bool | Collection[str]) -> dict[str, Tensor]:
    """The initializers that the graph has as symbolic arrays."""
    for name in () if isinstance(shared, bool) else shared:
        if initializers[name].is_fixed:
            raise ArgumentError(
                f"onnx.load: shared: the elements of {name!r} decide what the graph is.",
                "Leave it out: functions cannot update it.",
            )
    pairs = ((name, x.made) for name, x in initializers.items() if not x.is_fixed)
    return {name: made for name, made in pairs if made is not None}


def input_of(declared: Any) -> Tensor:
    """An input as a symbolic array."""
    dtype, lengths = _declared(declared)
    return gt.tensor(
        declared.name, dtype=dtype, shape=tuple(n if isinstance(n, int) else None for n in lengths)
    )


def _declared(x: Any) -> tuple[str, list[Any]]:
    """The dtype and the lengths of an input."""
    if x.type.WhichOneof("value") != "tensor_type":
        raise DTypeError(
            f"onnx.load: the input {x.name!r} is a {x.type.WhichOneof('value')}, no tensor.",
            "Have it made in the model, or pass its arrays as inputs of their own.",
        )
    dtype, lengths = dtype_of(x.type.tensor_type.elem_type), lengths_of(x.type)
    if dtype not in DTYPES or is_narrow(x.type.tensor_type.elem_type):
        few = " of 2 or 4 bits" if dtype in DTYPES else ""
        raise DTypeError(
            f"onnx.load: the input {x.name!r} has the dtype {dtype}{few}.",
            f"Symbolic arrays have one of {', '.join(DTYPES)}.",
        )
    if lengths is None:
        raise FormatError(
            f"onnx.load: the model does not say how many axes the input {x.name!r} has.",
            f"Give an array in its place: givens={{{x.name!r}: gt.matrix()}}.",
        )
    return dtype, lengths


def given_of(value: Any, declared: Any) -> Value:
    """What stands in the place of an input."""
    dtype = dtype_of(declared.type.tensor_type.elem_type)
    if isinstance(value, Wrapper):
        value = value.values
    if isinstance(value, Tensor):
        if value.dtype != dtype or is_narrow(declared.type.tensor_type.elem_type):
            raise DTypeError(
                f"onnx.load: givens: {value!r} stands for {declared.name!r} of {dtype}.",
                f"Cast it: .astype({dtype!r}).",
            )
        return value
    known = Known.of(value, dtype)
    known.is_narrow = is_narrow(declared.type.tensor_type.elem_type)
    return known


def output_of(value: Value, declared: Any) -> Any:
    """A result, of the dtype that the model declares."""
    if isinstance(value, list):
        return [tensor_of(x) for x in value]
    x = tensor_of(value)
    number = declared.type.tensor_type.elem_type
    if number and dtype_of(number) != x.dtype:
        raise FormatError(
            f"onnx.load: the output {declared.name!r} is {x!r}, and the model declares it as "
            f"{dtype_of(number)}.",
            "onnx.checker.check_model(model, full_check=True) may say more.",
        )
    return x


def metadata_of(proto: Any) -> dict[str, str]:
    """What a model says of itself."""
    found = {"producer": f"{proto.producer_name} {proto.producer_version}".strip()}
    found |= {"domain": proto.domain, "doc": proto.doc_string}
    found |= {x.key: x.value for x in proto.metadata_props}
    return {name: text for name, text in found.items() if text}
