"""Trees in which None stands in the place of some arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax


def combined(trees: Sequence[Any]) -> Any:
    """Return the tree of which these are parts: of several arrays at a place, the first.

    Raises:
        ValueError: They are nested differently.
    """

    def first(*found: Any) -> Any:
        return next((x for x in found if x is not None), None)

    return jax.tree.map(first, *trees, is_leaf=lambda x: x is None)
