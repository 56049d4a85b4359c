"""Where a backend keeps its executables beyond the process, and whom it tells of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

__all__ = ["Ledger"]


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
            values: What it is for among the values of arguments that decide shapes, by position.

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
            values: What it is for among the values of arguments that decide shapes, by position.
            seconds: How long it took.
        """
