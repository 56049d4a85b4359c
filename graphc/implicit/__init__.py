"""Arrays that stay in structured form until an operation needs all elements."""

from typing import TYPE_CHECKING

from graphc import lazy
from graphc.implicit import expand as expand, namespace as namespace  # they provide hooks

if TYPE_CHECKING:
    from graphc.implicit import linalg as linalg
    from graphc.implicit.array import (
        ImplicitArray as ImplicitArray,
        aux_field as aux_field,
        fields_of as fields_of,
        is_implicit as is_implicit,
        with_fields as with_fields,
    )
    from graphc.implicit.expand import expanded as expanded
    from graphc.implicit.functions import (
        implicit as implicit,
        materialize_handler as materialize_handler,
        use_implicit as use_implicit,
    )
    from graphc.implicit.namespace import numpy_like as numpy_like
    from graphc.implicit.node import ImplicitTensor as ImplicitTensor
    from graphc.implicit.partition import (
        device_put as device_put,
        partition_specs as partition_specs,
        shardings as shardings,
    )
    from graphc.implicit.policy import (
        Materialization as Materialization,
        materializations as materializations,
        materialize_nested as materialize_nested,
        materialized as materialized,
        materializing as materializing,
    )
    from graphc.implicit.quantized import (
        NF4 as NF4,
        AffineQuantized as AffineQuantized,
        ChannelPermuted as ChannelPermuted,
        ChannelScaled as ChannelScaled,
        DoubleQuantized as DoubleQuantized,
        Microscaled as Microscaled,
        OneBit as OneBit,
        Quantized as Quantized,
        ScaledQuantized as ScaledQuantized,
        calibrate as calibrate,
        dequantize as dequantize,
        quantize as quantize,
    )
    from graphc.implicit.registry import (
        register as register,
        unregister as unregister,
    )
    from graphc.implicit.sizes import (
        ArrayReport as ArrayReport,
        TreeReport as TreeReport,
        report as report,
    )
    from graphc.implicit.straight_through import (
        Straight as Straight,
        StraightThrough as StraightThrough,
        ste as ste,
    )
    from graphc.implicit.structured import Structured as Structured
    from graphc.implicit.structures.block_diagonal import BlockDiagonal as BlockDiagonal
    from graphc.implicit.structures.composed import (
        Product as Product,
        Sum as Sum,
    )
    from graphc.implicit.structures.diagonal import (
        Diagonal as Diagonal,
        Identity as Identity,
    )
    from graphc.implicit.structures.dora import DoRA as DoRA
    from graphc.implicit.structures.fill import Fill as Fill
    from graphc.implicit.structures.formats import (
        BCOO as BCOO,
        CSC as CSC,
        CSR as CSR,
    )
    from graphc.implicit.structures.kernel_matrix import KernelMatrix as KernelMatrix
    from graphc.implicit.structures.kronecker import Kronecker as Kronecker
    from graphc.implicit.structures.lora import LoRA as LoRA
    from graphc.implicit.structures.low_rank import LowRank as LowRank
    from graphc.implicit.structures.one_hot import OneHot as OneHot
    from graphc.implicit.structures.toeplitz import Toeplitz as Toeplitz
    from graphc.implicit.structures.zeros import (
        Ones as Ones,
        Zeros as Zeros,
    )
    from graphc.implicit.training import (
        combine as combine,
        frozen as frozen,
        merge as merge,
        trainable as trainable,
    )
    from graphc.implicit.trees import (
        Structure as Structure,
        flatten as flatten,
        flatten_one_implicit_layer as flatten_one_implicit_layer,
        flatten_with_path as flatten_with_path,
        implicit_depth as implicit_depth,
        is_array as is_array,
        leaves as leaves,
        structure as structure,
        tree_map as tree_map,
        tree_map_with_path as tree_map_with_path,
        unflatten as unflatten,
    )
else:
    # A program without implicit arrays needs no structure, and no handler.
    lazy.provide(
        __name__,
        modules=("graphc.implicit.linalg",),
        names={
            "graphc.implicit.array": "ImplicitArray aux_field fields_of is_implicit with_fields",
            "graphc.implicit.expand": "expanded",
            "graphc.implicit.functions": "implicit materialize_handler use_implicit",
            "graphc.implicit.namespace": "numpy_like",
            "graphc.implicit.node": "ImplicitTensor",
            "graphc.implicit.partition": "device_put partition_specs shardings",
            "graphc.implicit.policy": "Materialization materializations materialize_nested "
            "materialized materializing",
            "graphc.implicit.quantized": "NF4 AffineQuantized ChannelPermuted ChannelScaled "
            "DoubleQuantized Microscaled OneBit Quantized ScaledQuantized calibrate dequantize "
            "quantize",
            "graphc.implicit.registry": "register unregister",
            "graphc.implicit.sizes": "ArrayReport TreeReport report",
            "graphc.implicit.straight_through": "Straight StraightThrough ste",
            "graphc.implicit.structured": "Structured",
            "graphc.implicit.structures.block_diagonal": "BlockDiagonal",
            "graphc.implicit.structures.composed": "Product Sum",
            "graphc.implicit.structures.diagonal": "Diagonal Identity",
            "graphc.implicit.structures.dora": "DoRA",
            "graphc.implicit.structures.fill": "Fill",
            "graphc.implicit.structures.formats": "BCOO CSC CSR",
            "graphc.implicit.structures.kernel_matrix": "KernelMatrix",
            "graphc.implicit.structures.kronecker": "Kronecker",
            "graphc.implicit.structures.lora": "LoRA",
            "graphc.implicit.structures.low_rank": "LowRank",
            "graphc.implicit.structures.one_hot": "OneHot",
            "graphc.implicit.structures.toeplitz": "Toeplitz",
            "graphc.implicit.structures.zeros": "Ones Zeros",
            "graphc.implicit.training": "combine frozen merge trainable",
            "graphc.implicit.trees": "Structure flatten flatten_one_implicit_layer "
            "flatten_with_path implicit_depth is_array leaves structure tree_map "
            "tree_map_with_path unflatten",
        },
    )
    __getattr__, __dir__, __all__ = *lazy.attributes(globals()), sorted(lazy.SOURCES[__name__])
