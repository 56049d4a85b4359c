"""The size of fused kernels."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from graphc.grad.barriers import Barrier
from graphc.ir import Constant, Node
from graphc.tensor.core.elementwise import Cast, Elementwise, Where

MOST = 48
"""The most of MLX's operations in a kernel: a C++ compiler takes 20 seconds for some hundreds of
them, and equal small kernels are compiled once."""

SEVERAL = {"exp": 9, "sin": 9, "cos": 23, "sigmoid": 11}
"""The operations in rows of float64 that MLX has for float32 alone."""

_fused: WeakKeyDictionary[Node, frozenset[tuple[int, int]]] = WeakKeyDictionary()


def ends_kernel(node: Node) -> bool:
    """Whether a kernel that MLX makes of an operation and what is before it ends with it."""
    op = node.op
    if not isinstance(op, Elementwise | Cast | Where | Barrier):
        return False
    before = (_fused.get(x, frozenset()) for x in node.inputs if not isinstance(x.op, Constant))
    size = 1
    if isinstance(op, Elementwise) and node.type.dtype == "float64":
        size = SEVERAL.get(op.row, 1)
    found = frozenset({(node.serial, size)}).union(*before)
    ends = sum(operations for _, operations in found) > MOST
    _fused[node] = frozenset() if ends else found
    return ends
