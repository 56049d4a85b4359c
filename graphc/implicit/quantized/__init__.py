"""Arrays of codes of a few bits, packed in words, with a scale for each group of neighbours."""

from graphc.implicit.quantized.affine import AffineQuantized
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.coding import Coding
from graphc.implicit.quantized.convert import dequantize, quantize
from graphc.implicit.quantized.matmul import ExpertMatmul, QuantizedMatmul
from graphc.implicit.quantized.nf4 import NF4
from graphc.implicit.quantized.one_bit import OneBit

__all__ = [
    "NF4",
    "AffineQuantized",
    "Coding",
    "ExpertMatmul",
    "OneBit",
    "Quantized",
    "QuantizedMatmul",
    "dequantize",
    "quantize",
]
