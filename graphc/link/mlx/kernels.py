"""The size of fused kernels."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from graphc.grad.barriers import Barrier
from graphc.ir import Constant, Node
from graphc.tensor.core.elementwise import Cast, Elementwise, Where

MAX_OPERATIONS_PER_KERNEL = 48
"""MLX operations in one kernel: a C++ compiler takes 20 seconds for some hundreds of operations,
and equal small kernels are compiled once."""

FLOAT64_OPERATIONS = {"exp": 9, "sin": 9, "cos": 23, "sigmoid": 11}
"""MLX operations in rows of float64 that MLX computes in float32 only."""

_unfinished: WeakKeyDictionary[Node, frozenset[tuple[int, int]]] = WeakKeyDictionary()
"""Operations of the kernel that a node is in, as pairs of a serial number and a count."""


def ends_kernel(node: Node) -> bool:
    """Return whether a node ends the kernel that MLX fuses it and its inputs into."""
    op = node.op
    if not isinstance(op, Elementwise | Cast | Where | Barrier):
        return False
    before = (
        _unfinished.get(x, frozenset()) for x in node.inputs if not isinstance(x.op, Constant)
    )
    size = 1
    if isinstance(op, Elementwise) and node.type.dtype == "float64":
        size = FLOAT64_OPERATIONS.get(op.row, 1)
    operations = frozenset({(node.serial, size)}).union(*before)
    ends = sum(count for _, count in operations) > MAX_OPERATIONS_PER_KERNEL
    _unfinished[node] = frozenset() if ends else operations
    return ends
