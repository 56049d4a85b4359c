"""Quantized arrays: packed codes of a few bits, with a scale for each group of neighbours."""

from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.calibration import calibrate
from graphc.implicit.quantized.coding import Coding
from graphc.implicit.quantized.convert import dequantize, quantize
from graphc.implicit.quantized.double_quantized import DoubleQuantized
from graphc.implicit.quantized.kinds import NF4, AffineQuantized, OneBit, ScaledQuantized
from graphc.implicit.quantized.matmul import ExpertMatmul, QuantizedMatmul
from graphc.implicit.quantized.microscaled import Microscaled
from graphc.implicit.structures.channels import ChannelPermuted, ChannelScaled

__all__ = [
    "NF4", "AffineQuantized", "ChannelPermuted", "ChannelScaled", "Coding", "DoubleQuantized",
    "ExpertMatmul", "Microscaled", "OneBit", "Quantized", "QuantizedMatmul", "ScaledQuantized",
    "calibrate", "dequantize", "quantize",
]  # fmt: skip
