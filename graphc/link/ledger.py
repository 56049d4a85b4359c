"""Where a backend keeps its executables beyond the process, and whom it tells of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import numpy as np

__all__ = ["Ledger", "plain"]


def plain(value: np.ndarray[Any, Any]) -> Any:
    """A value that decides a shape as numbers and tuples of them, to be compared and printed."""
    return _tuples(value.tolist())


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class Ledger:
    """One that keeps nothing and tells nobody."""

    @property
    def keeps(self) -> bool:
        """Whether it keeps anything."""
        return False

    def load(self, name: str) -> bytes | None:
        """What was saved under that name, by whichever process; None where nothing was."""
        return None

    def save(self, name: str, data: bytes) -> None:
        """Keep this for other processes."""

    def locked(self, name: str) -> AbstractContextManager[None]:
        """Within, nobody else makes what goes by that name."""
        return nullcontext()

    def wanted(self, signature: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
        """Raise where no further executable is to be made; called before one is.

        Args:
            signature: The shape of each argument it is for.
            values: The values that it is for of arguments that decide shapes, by position; each
                as ``plain`` gives it.

        Raises:
            RecompileError: What asks for it was told not to.
        """

    def made(
        self,
        kind: Literal["compile", "load"],
        signature: Sequence[tuple[int, ...]],
        values: Mapping[int, Any],
        seconds: float,
    ) -> None:
        """Take note of an executable that was compiled or loaded for the call under way.

        Args:
            kind: Which of the two.
            signature: The shape of each argument it is for.
            values: The values that it is for of arguments that decide shapes, by position; each
                as ``plain`` gives it.
            seconds: How long it took.
        """
