"""How much one fused kernel holds."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from graphc.grad.barriers import Barrier
from graphc.ir import Constant, Node
from graphc.tensor.elementwise import Cast, Elementwise, Where

__all__ = ["ends_kernel"]

MOST = 24
"""How many operations: the time that a C++ compiler takes for a kernel grows faster than they do,
and equal small kernels are compiled once."""

_fused: WeakKeyDictionary[Node, frozenset[int]] = WeakKeyDictionary()


def ends_kernel(node: Node) -> bool:
    """Whether a kernel that MLX makes of an operation and what is before it ends with it."""
    if not isinstance(node.op, Elementwise | Cast | Where | Barrier):
        return False
    before = (_fused.get(x, frozenset()) for x in node.inputs if not isinstance(x.op, Constant))
    found = frozenset({node.serial}).union(*before)
    ends = len(found) > MOST
    _fused[node] = frozenset() if ends else found
    return ends
