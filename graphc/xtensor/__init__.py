"""Arrays whose dimensions have names, which align operands: ``import graphc.xtensor as gx``.

Example:
    >>> import graphc, graphc.xtensor as gx
    >>> sales = gx.xtensor("sales", dims=("shop", "month"), shape=(3, None))
    >>> weight = gx.xtensor("weight", dims=("month",))
    >>> total = (sales * weight).sum("month")
    >>> total.dims
    ('shop',)
    >>> f = graphc.function([sales, weight], total, mode="NUMPY")
    >>> f([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, 0.5])
    array([2., 5., 8.])
"""

from graphc.xtensor import (
    indexing as indexing,
    linalg as linalg,
    math as math,
    random as random,
    reduction as reduction,
    shape as shape,
    signal as signal,
    vectorization as vectorization,
)
from graphc.xtensor.math import dot, where
from graphc.xtensor.shape import broadcast, concat, full_like, ones_like, shard, zeros_like
from graphc.xtensor.type import (
    XTensor,
    XTensorType,
    as_xtensor,
    xtensor,
    xtensor_constant,
    xtensor_shared,
)
from graphc.xtensor.vectorization import vectorize_graph

__all__ = [
    "XTensor",
    "XTensorType",
    "as_xtensor",
    "broadcast",
    "concat",
    "dot",
    "full_like",
    "ones_like",
    "shard",
    "vectorize_graph",
    "where",
    "xtensor",
    "xtensor_constant",
    "xtensor_shared",
    "zeros_like",
]
