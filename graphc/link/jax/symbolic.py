"""Lengths that are symbols while ``jax.export`` traces: what is computed from them.

A length stays a symbol where a shape follows from it, and is an array of JAX's where its value is
used. NumPy's references compute with symbols as with any Python numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.export import is_symbolic_dim

from graphc.ir import Node, TensorType
from graphc.tensor.core.shape import Length

LENGTH = TensorType("int64")


def meets_symbols(node: Node) -> bool:
    """Return whether an operation gives lengths, or may take what is computed from them."""
    return isinstance(node.op, Length) or any(x.type is LENGTH for x in node.inputs)


def of_symbols(compute: Callable[..., Any], deciding: Container[int]) -> Callable[..., Any]:
    """Return a lowering that takes symbols: as lengths where they decide a shape, else as arrays.

    Args:
        compute: The lowering.
        deciding: The operands that decide its shape, by position.
    """

    def given(*values: Any) -> Any:
        if not any(map(is_symbolic_dim, values)):
            return compute(*values)
        return compute(
            *[
                jnp.asarray(x, np.int64) if is_symbolic_dim(x) and i not in deciding else x
                for i, x in enumerate(values)
            ]
        )

    return given


def on_host(
    node: Node, compute: Callable[..., Any], traced: Callable[..., Any]
) -> Callable[..., Any]:
    """Return what computes a number on the host, which may be a symbol.

    Args:
        node: What is computed.
        compute: Of numbers that are known.
        traced: Its lowering, of arrays.
    """
    op: Any = node.op

    def given(*values: Any) -> Any:
        if isinstance(op, Length):
            n = values[0].shape[op.axis]
            return n if is_symbolic_dim(n) else compute(*values)
        if not any(map(is_symbolic_dim, values)):
            return compute(*values)
        try:
            found = op.perform(*values)
        except (AttributeError, TypeError):
            found = None
        if is_symbolic_dim(found):
            return found
        return traced(*[jnp.asarray(x, np.int64) if is_symbolic_dim(x) else x for x in values])

    return given
