"""Quantized arrays: packed codes of a few bits, with a scale for each group of neighbours."""

from graphc.implicit.quantized.affine import AffineQuantized
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.calibration import calibrate
from graphc.implicit.quantized.channel_permuted import ChannelPermuted
from graphc.implicit.quantized.channel_scaled import ChannelScaled
from graphc.implicit.quantized.coding import Coding
from graphc.implicit.quantized.convert import dequantize, quantize
from graphc.implicit.quantized.double_quantized import DoubleQuantized
from graphc.implicit.quantized.matmul import ExpertMatmul, QuantizedMatmul
from graphc.implicit.quantized.microscaled import Microscaled
from graphc.implicit.quantized.nf4 import NF4
from graphc.implicit.quantized.one_bit import OneBit
from graphc.implicit.quantized.scaled import ScaledQuantized

__all__ = [
    "NF4",
    "AffineQuantized",
    "ChannelPermuted",
    "ChannelScaled",
    "Coding",
    "DoubleQuantized",
    "ExpertMatmul",
    "Microscaled",
    "OneBit",
    "Quantized",
    "QuantizedMatmul",
    "ScaledQuantized",
    "calibrate",
    "dequantize",
    "quantize",
]
