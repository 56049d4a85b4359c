"""A program as functions that JAX traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from graphc.implicit.policy import dense, materializing, policy_of, strictest
from graphc.link.backend import Executable
from graphc.link.jax.bounded import Equal, Ragged, checked, plain
from graphc.link.outline import Outline
from graphc.link.program import Program

__all__ = ["Traced"]


class Traced:
    """A program as a function that JAX traces; the program is made when that happens.

    Attributes:
        function: Gives the outputs, or the only one; where some are in buffers, as ``bounded``.
        is_bounded: Whether some are.
    """

    def __init__(self, outline: Outline, program: Callable[[], Program]) -> None:
        self.program = program
        self.policy = policy_of()
        self.single = outline.single
        self.dtypes = [type.numpy_dtype for type in outline.results]
        self.is_bounded = outline.follows
        self.function = self.bounded if self.is_bounded else self.known

    def known(self, *arguments: Any) -> Any:
        """The outputs where all lengths are known."""
        found = self._traced(arguments)
        results = [jnp.asarray(plain(y), d) for y, d in zip(found, self.dtypes, strict=True)]
        return results[0] if self.single else results

    def bounded(self, *arguments: Any) -> tuple[list[Any], list[Equal]]:
        """The outputs, some in buffers, and what must be equal."""
        pending: list[Equal] = []
        with checked(pending):
            found = self._traced(arguments)
        results = [
            y if isinstance(y, Ragged) else jnp.asarray(plain(y), d)
            for y, d in zip(found, self.dtypes, strict=True)
        ]
        return results, pending

    def _traced(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs; of those that are implicit the whole, by the policies of then and now."""
        with materializing(strictest(self.policy, policy_of())):
            return [dense(y, "the output") for y in self.program().trace(*arguments)]

    def cut(self, execute: Executable) -> Executable:
        """What gives the outputs in their own lengths, given what gives them in buffers."""

        def call(*arguments: Any) -> Any:
            results, pending = execute(*arguments)
            for check in pending:
                check.verify()
            results = [y.cut() if isinstance(y, Ragged) else y for y in results]
            return results[0] if self.single else results

        return call
