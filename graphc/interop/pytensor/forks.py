"""An error where a call in a forked process would wait for ever.

PyMC starts a process for each chain where the machine has several cores; on Linux it forks them,
before Python 3.14. The threads of JAX and MLX do not exist in such a process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from graphc.errors import ModeError

_forks = 0
"""How many forks lie between the process that imported this and the running one."""

_started: dict[str, int] = {}
"""In which process a backend's first function was made, by the number of forks."""


def _count() -> None:
    global _forks  # noqa: PLW0603
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count)


def checked(call: Callable[..., Any], backend: str) -> Callable[..., Any]:
    """A function of a backend that has threads, which fails where these do not exist.

    Raises:
        ModeError: This process, or the one that calls the function, was forked from one that made
            functions of the backend.
    """
    _check(backend)
    made = _forks

    def checking(*values: Any) -> Any:
        if made != _forks:
            _check(backend)
        return call(*values)

    return checking


def _check(backend: str) -> None:
    if _started.setdefault(backend, _forks) != _forks:
        raise ModeError(
            f"Mode {backend} is used in a forked process, where {backend}'s threads do not exist: "
            "a call would wait for ever.",
            'Start the processes otherwise, pm.sample(..., mp_ctx="forkserver"), or sample one '
            "chain after the other, pm.sample(..., cores=1).",
        )
