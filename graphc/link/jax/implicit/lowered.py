"""Lowerings of a linked program with implicit operands, run primitive by primitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.implicit.array import is_implicit
from graphc.implicit.functions import implicit
from graphc.implicit.policy import materializing
from graphc.link.jax.implicit.interpreter import on_behalf
from graphc.site import Site, derived_from, where


def at_primitives(
    compute: Callable[..., Any], values: Sequence[Any], policy: str, site: Site | None
) -> Any:
    """Run a node's lowering on values of which some are implicit.

    These alone are traced, as lengths and other numbers must be known.
    """
    places = [i for i, x in enumerate(values) if is_implicit(x)]

    others = [None if is_implicit(x) else x for x in values]

    def lowered(*arrays: Any) -> Any:
        operands = [*others]
        for i, x in zip(places, arrays, strict=True):
            operands[i] = x
        return compute(*operands)

    with materializing(policy), derived_from(site), on_behalf(where(site)):
        return implicit(lowered)(*[values[i] for i in places])
