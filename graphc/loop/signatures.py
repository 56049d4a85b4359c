"""What a step returns, as a type: it says what a loop gives, ``scan`` and its special cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from graphc.loop.arguments import until
from graphc.loop.checkpoint import Checkpoint
from graphc.tensor.core.tensor import Tensor

One: TypeAlias = Callable[..., Tensor]
"""A step that returns one output."""

Several: TypeAlias = Callable[..., tuple[Tensor, Tensor, *tuple[Tensor, ...]]]
"""A step that returns several outputs in a tuple."""

Other: TypeAlias = Callable[
    ...,
    list[Any]
    | Mapping[Any, Any]
    | tuple[Any, until | Mapping[Any, Any]]
    | tuple[Any, Mapping[Any, Any], until]
    | None,
]
"""A step that returns a list, whose length no type says, updates or a condition."""

Updates: TypeAlias = dict[Tensor, Tensor]
"""The last values of shared variables."""


No: TypeAlias = Literal[False]
Yes: TypeAlias = Literal[True]


class Named(TypedDict, total=False):
    """Arguments of every loop here that are given by name."""

    mode: None
    name: str | None


class Backwards(Named, total=False):
    """Those of a loop that can start from the end."""

    go_backwards: bool


class Truncated(Backwards, total=False):
    """Those of a loop with a gradient through its last steps alone."""

    truncate_gradient: int


class OfScan(Truncated, total=False):
    """Those of ``scan``."""

    profile: bool
    allow_gc: bool | None
    strict: bool
    checkpoint: Checkpoint
    unroll: int | None
