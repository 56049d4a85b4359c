"""Arrays that stay in structured form until an operation needs all elements."""

from graphc.implicit import (  # enter handlers
    linalg,
    loops as loops,
    operations as operations,
    systems as systems,
)
from graphc.implicit.array import ImplicitArray, aux_field, fields_of, is_implicit, with_fields
from graphc.implicit.expand import expanded
from graphc.implicit.functions import implicit, materialize_handler, use_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.node import ImplicitTensor
from graphc.implicit.partition import device_put, partition_specs, shardings
from graphc.implicit.policy import (
    Materialization,
    materializations,
    materialize_nested,
    materialized,
    materializing,
)
from graphc.implicit.quantized import (
    NF4,
    AffineQuantized,
    ChannelPermuted,
    ChannelScaled,
    DoubleQuantized,
    Microscaled,
    OneBit,
    Quantized,
    ScaledQuantized,
    calibrate,
    dequantize,
    quantize,
)
from graphc.implicit.registry import register, unregister
from graphc.implicit.sizes import ArrayReport, TreeReport, report
from graphc.implicit.straight_through import Straight, StraightThrough, ste
from graphc.implicit.structured import Structured
from graphc.implicit.structures.block_diagonal import BlockDiagonal
from graphc.implicit.structures.composed import Product, Sum
from graphc.implicit.structures.compressed import CSC, CSR
from graphc.implicit.structures.coordinates import BCOO
from graphc.implicit.structures.diagonal import Diagonal
from graphc.implicit.structures.dora import DoRA
from graphc.implicit.structures.fill import Fill
from graphc.implicit.structures.identity import Identity
from graphc.implicit.structures.kernel_matrix import KernelMatrix
from graphc.implicit.structures.kronecker import Kronecker
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.structures.low_rank import LowRank
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.toeplitz import Toeplitz
from graphc.implicit.structures.zeros import Ones, Zeros
from graphc.implicit.training import combine, frozen, merge, trainable
from graphc.implicit.trees import (
    Structure,
    flatten,
    flatten_one_implicit_layer,
    flatten_with_path,
    implicit_depth,
    is_array,
    leaves,
    structure,
    tree_map,
    tree_map_with_path,
    unflatten,
)
from graphc.lazy import listing

__all__ = [
    "BCOO",
    "CSC",
    "CSR",
    "NF4",
    "AffineQuantized",
    "ArrayReport",
    "BlockDiagonal",
    "ChannelPermuted",
    "ChannelScaled",
    "Diagonal",
    "DoRA",
    "DoubleQuantized",
    "Fill",
    "Identity",
    "ImplicitArray",
    "ImplicitTensor",
    "KernelMatrix",
    "Kronecker",
    "LoRA",
    "LowRank",
    "Materialization",
    "Microscaled",
    "OneBit",
    "OneHot",
    "Ones",
    "Product",
    "Quantized",
    "ScaledQuantized",
    "Straight",
    "StraightThrough",
    "Structure",
    "Structured",
    "Sum",
    "Toeplitz",
    "TreeReport",
    "Zeros",
    "aux_field",
    "calibrate",
    "combine",
    "dequantize",
    "device_put",
    "expanded",
    "fields_of",
    "flatten",
    "flatten_one_implicit_layer",
    "flatten_with_path",
    "frozen",
    "implicit",
    "implicit_depth",
    "is_array",
    "is_implicit",
    "leaves",
    "linalg",
    "materializations",
    "materialize_handler",
    "materialize_nested",
    "materialized",
    "materializing",
    "merge",
    "numpy_like",
    "partition_specs",
    "quantize",
    "register",
    "report",
    "shardings",
    "ste",
    "structure",
    "trainable",
    "tree_map",
    "tree_map_with_path",
    "unflatten",
    "unregister",
    "use_implicit",
    "with_fields",
]

__dir__ = listing(globals())  # without the files of the folder
