"""An error where a call in a forked process would hang.

PyMC starts a process for each chain where the machine has several cores; on Linux it forks them,
before Python 3.14. The threads of JAX and MLX do not exist in a forked process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from graphc.errors import ModeError

_forks = 0
"""The number of forks between the process that imported this module and the running one."""

_started: dict[str, int] = {}
"""The number of forks when the first function of each backend was made."""


def _count_fork() -> None:
    global _forks  # noqa: PLW0603
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def check_process(call: Callable[..., Any], backend: str) -> Callable[..., Any]:
    """Make a function of a backend raise where the backend's threads do not exist.

    Raises:
        ModeError: If this process, or the caller's, was forked after the backend's first function.
    """
    _check(backend)
    forks = _forks

    def call_here(*values: Any) -> Any:
        if forks != _forks:
            _check(backend)
        return call(*values)

    return call_here


def _check(backend: str) -> None:
    if _started.setdefault(backend, _forks) != _forks:
        raise ModeError(
            f"Mode {backend} is used in a forked process, where {backend}'s threads do not exist: "
            "a call would wait for ever.",
            'Start the processes otherwise, pm.sample(..., mp_ctx="forkserver"), or sample one '
            "chain after the other, pm.sample(..., cores=1).",
        )
