"""Types of step functions, which determine the types of a scan's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, Unpack, overload

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
"""A step that returns updates, a condition, or a list, whose type has no length."""

Updates: TypeAlias = dict[Tensor, Tensor]
"""The last values of shared variables."""


No: TypeAlias = Literal[False]
Yes: TypeAlias = Literal[True]


class Named(TypedDict, total=False):
    """Keyword arguments of all loops with PyTensor's arguments."""

    mode: None
    name: str | None


class Backwards(Named, total=False):
    """Keyword arguments of loops that can start from the end."""

    go_backwards: bool


class Truncated(Backwards, total=False):
    """Keyword arguments of loops whose gradient can stop after the last steps."""

    truncate_gradient: int


class OfScan(Truncated, total=False):
    """Keyword arguments of ``scan``."""

    profile: bool
    allow_gc: bool | None
    strict: bool
    checkpoint: Checkpoint
    unroll: int | None


class FoldFunction(Protocol):
    """The type of ``foldl`` and ``foldr``."""

    @overload
    def __call__(
        self,
        fn: One,
        sequences: Any,
        outputs_info: Any,
        non_sequences: Any = None,
        *,
        return_updates: No | None = None,
        **options: Unpack[Named],
    ) -> Tensor: ...

    @overload
    def __call__(
        self,
        fn: Several,
        sequences: Any,
        outputs_info: Any,
        non_sequences: Any = None,
        *,
        return_updates: No | None = None,
        **options: Unpack[Named],
    ) -> list[Tensor]: ...

    @overload
    def __call__(
        self,
        fn: Other,
        sequences: Any,
        outputs_info: Any,
        non_sequences: Any = None,
        *,
        return_updates: No | None = None,
        **options: Unpack[Named],
    ) -> Any: ...

    @overload
    def __call__(
        self,
        fn: Callable[..., Any],
        sequences: Any,
        outputs_info: Any,
        non_sequences: Any = None,
        *,
        return_updates: Yes,
        **options: Unpack[Named],
    ) -> tuple[Any, Updates]: ...
