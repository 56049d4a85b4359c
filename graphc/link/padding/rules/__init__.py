"""Rules for operations on padded arrays that need more than their declared padding."""

from graphc.link.padding.rules import (  # noqa: F401
    create,
    declared,
    elementwise,
    index,
    join,
    loops,
    shape,
    signal,
    update,
)
