"""The C++ compiler that fuses MLX's operations on the processor: its kernels, and their size."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import mlx.core as mx

from graphc.config import config
from graphc.grad.barriers import Barrier
from graphc.ir import Constant, Node
from graphc.link.mlx.devices import CHOICES, device_choice
from graphc.link.trust import directory_problem, make_private
from graphc.site import frames_up
from graphc.tensor.core.elementwise import Cast, Elementwise, Where

TEMPORARY = ("TMPDIR", "TMP", "TEMP", "TEMPDIR")
"""The environment variables by which C++ finds the temporary directory, in C++'s order."""


def prepare_compiler(device: Any) -> None:
    """Prepare the C++ compiler, which fuses MLX's operations on the processor but not on a GPU.

    Once in a process, warn if there is no C++ compiler, and make MLX load kernels only from a
    directory where no other user can write.
    """
    if not CHOICES["fuses by C++"].on(device.type.name):
        return
    if shutil.which("g++") is None:
        _warn_of_missing_compiler()
    else:
        _trust_kernels()


@cache
def _warn_of_missing_compiler() -> None:
    """Warn once: without a compiler MLX silently runs operations one by one."""
    warnings.warn(
        "mode='MLX': no C++ compiler was found, so that MLX computes one operation after the other "
        "on the processor. Results are the same, and often slower. Install g++ (on Debian and "
        "Ubuntu: apt install g++) and start anew, or ask for it with Mode('MLX', compile=False).",
        RuntimeWarning,
        stacklevel=frames_up(),
    )


@cache
def _trust_kernels() -> None:
    """Move this process's temporary directory if other users can write to MLX's kernel directory.

    MLX loads any shared library there that has the name of a kernel. A missing directory is created
    for this user alone.
    """
    problem = _kernel_problem(_temporary_directory())
    if problem is None:
        return
    danger, remedy = problem
    private = _move_temporary_directory("mlx-kernels")
    warnings.warn(
        f"mode='MLX': {danger}, where MLX loads compiled kernels from: other users could make it "
        f"run their code. The temporary directory of this process is now {private}. To keep "
        f"kernels where they were, {remedy}; or set TMPDIR to a directory of your own.",
        RuntimeWarning,
        stacklevel=frames_up(),
    )


def keep_kernels_apart(process: int) -> None:
    """Give one of several processes its own kernel directory, and thus its own temporary directory.

    MLX writes kernels without a lock, and the processes compile the same kernels at the same time.
    """
    if device_choice("fuses by C++"):
        _move_temporary_directory(f"mlx-kernels-{process}")


def _move_temporary_directory(name: str) -> Path:
    private = config.cache_dir and config.cache_dir / name
    if private is None or _directory_problem(private) or _kernel_problem(private):
        private = Path(tempfile.mkdtemp(prefix="graphc-"))
        atexit.register(shutil.rmtree, private, ignore_errors=True)
    os.environ["TMPDIR"] = str(private)
    return private


def new_kernels(since: float) -> int:
    """Return the number of kernels compiled on the processor since a time, in seconds.

    Kernels of other processes are counted too.
    """
    *_, directory = _kernel_directories(_temporary_directory())
    count = 0
    with suppress(OSError), os.scandir(directory) as files:
        for file in files:
            count += file.name.endswith(".so") and file.stat().st_mtime >= since
    return count


def has_kernels(key: str) -> bool:
    """Return whether a program's kernels are known to be compiled."""
    return _note(key).exists()


def note_kernels(key: str) -> None:
    """Note beside the kernels that a program's kernels are compiled."""
    with suppress(OSError):
        _note(key).touch()


def _note(key: str) -> Path:
    return _kernel_directories(_temporary_directory())[-1] / f"graphc-{key}"


def _temporary_directory() -> Path:
    """Return the directory for temporary files, as C++ finds it."""
    return Path(next((os.environ[v] for v in TEMPORARY if os.environ.get(v)), "/tmp"))


def _kernel_directories(directory: Path) -> list[Path]:
    """Return the levels of MLX's directory in a temporary directory, outermost first."""
    version: str = mx.__version__  # type: ignore[attr-defined]
    return [directory := directory / level for level in ("mlx", version, "cpu")]


def _kernel_problem(temporary: Path) -> tuple[str, str] | None:
    """Return why kernels in a temporary directory cannot be trusted, and the remedy, or None.

    MLX's missing directories are created.
    """
    for directory in _kernel_directories(temporary):
        problem = _directory_problem(directory)
        if problem is not None:
            return problem
    return None


def _directory_problem(directory: Path) -> tuple[str, str] | None:
    """Create a missing directory for this user alone, and return its problem, or None."""
    try:
        make_private(directory)
        return directory_problem(directory)
    except OSError as error:
        return f"{directory} cannot be used ({error.strerror or error})", "mend that"


MAX_OPERATIONS_PER_KERNEL = 48
"""MLX operations in one kernel: a C++ compiler takes 20 seconds for some hundreds of operations,
and equal small kernels are compiled once."""

FLOAT64_OPERATIONS = {"exp": 9, "sin": 9, "cos": 23, "sigmoid": 11}
"""MLX operations in rows of float64 that MLX computes in float32 only."""

_unfinished: WeakKeyDictionary[Node, frozenset[tuple[int, int]]] = WeakKeyDictionary()
"""Operations of the kernel that a node is in, as pairs of a serial number and a count."""


def ends_kernel(node: Node) -> bool:
    """Return whether a node ends the kernel that MLX fuses it and its inputs into."""
    op = node.op
    if not isinstance(op, Elementwise | Cast | Where | Barrier):
        return False
    before = (
        _unfinished.get(x, frozenset()) for x in node.inputs if not isinstance(x.op, Constant)
    )
    size = 1
    if isinstance(op, Elementwise) and node.type.dtype == "float64":
        size = FLOAT64_OPERATIONS.get(op.row, 1)
    operations = frozenset({(node.serial, size)}).union(*before)
    ends = sum(count for _, count in operations) > MAX_OPERATIONS_PER_KERNEL
    _unfinished[node] = frozenset() if ends else operations
    return ends
