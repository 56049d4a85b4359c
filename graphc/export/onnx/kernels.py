"""The dtypes for which onnxruntime has kernels, and the wider dtypes that replace others.

``onnxruntime`` has kernels of an operation for some dtypes only. Operands of others are cast to
the first dtype with a kernel that holds all of their values, or their bits.
"""

from __future__ import annotations

FLOATS = frozenset({"float32", "float64"})
WIDE = FLOATS | {"int32", "int64"}
INTEGERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
ARITHMETIC = FLOATS | INTEGERS
LOGICAL = ARITHMETIC | {"bool"}

OF_FLOATS = ("Ceil", "Cos", "Exp", "Floor", "Log", "Reciprocal", "Sigmoid", "Sin", "Sqrt", "Tanh")
OF_FLOAT32 = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan", "Softplus")
OF_NUMBERS = ("Abs", "Add", "Div", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mul", "Sub")
ORDERED = FLOATS | {"int8", "int32", "int64", "uint32", "uint64", "uint8"}

KERNELS: dict[str, frozenset[str]] = {
    **dict.fromkeys(OF_FLOATS, FLOATS),
    **dict.fromkeys(OF_FLOAT32, frozenset({"float32"})),
    **dict.fromkeys(OF_NUMBERS, ARITHMETIC),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "CumSum"), WIDE),
    # The kernels of bool fail over no elements.
    **dict.fromkeys(("ReduceMax", "ReduceMin"), WIDE | {"int8", "uint8"}),
    **dict.fromkeys(("ArgMax", "ArgMin"), WIDE | {"int8", "uint8"}),
    **dict.fromkeys(("Max", "Min"), ORDERED),
    "CumProd": WIDE | {"uint32", "uint64"},
    "Equal": LOGICAL,
    "Expand": LOGICAL | {"float16"},
    # The kernels of unsigned integers fail over no elements.
    "MatMul": WIDE,
    "Mod": ARITHMETIC,
    "Neg": FLOATS | {"int8", "int16", "int32", "int64"},
    "NonZero": frozenset({"bool", "float32", "int32", "int64", "uint8"}),
    "Pad": ORDERED | {"bool"},
    "Pow": FLOATS,
    "Range": WIDE | {"int16"},
    "Round": FLOATS,
    "TopK": FLOATS | {"int8", "int16", "int32", "int64", "uint8"},
    "Trilu": WIDE | {"bool"},
    "Where": FLOATS | {"int32", "int64", "int8", "uint32", "uint8"},
}
"""The dtypes of onnxruntime's CPU kernels; other operations take every dtype."""

WIDER = {
    "bool": ("uint8", "int32"),
    "int8": ("int32", "int64"),
    "uint8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "uint16": ("int32", "int64"),
    "int32": ("int64",),
    # Modulo 2**64, sums and products have the same bits, and casts keep them.
    "uint32": ("int64",),
    "uint64": ("int64",),
    "float16": ("float32",),
    "bfloat16": ("float32",),
}
"""For each dtype the dtypes that hold all of its values or bits, the narrowest first."""


def kernel_dtype(op: str, dtype: str) -> str:
    """Return the dtype in which onnxruntime computes an operation on operands of a dtype."""
    kernels = KERNELS.get(op)
    if kernels is None or dtype in kernels:
        return dtype
    return next((wide for wide in WIDER.get(dtype, ()) if wide in kernels), dtype)
