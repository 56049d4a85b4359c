"""The C++ compiler by which MLX fuses operations on the processor, and where kernels are kept."""

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

import mlx.core as mx

from graphc.config import config
from graphc.link.trust import directory_problem, make_private
from graphc.site import frames_up

TEMPORARY = ("TMPDIR", "TMP", "TEMP", "TEMPDIR")
"""The environment variables by which C++ finds the temporary directory, in its order."""


def prepare_compiler(device: Any) -> None:
    """Prepare what MLX needs to fuse operations; on a GPU it needs nothing.

    Once in a process it warns where there is no C++ compiler, and has MLX load kernels only from
    where no other user can have written them.
    """
    if device.type != mx.cpu:
        return
    if shutil.which("g++") is None:
        _warn_of_missing_compiler()
    else:
        _trust_kernels()


@cache
def _warn_of_missing_compiler() -> None:
    """Warn: MLX itself says nothing, and runs one operation after the other from then on."""
    warnings.warn(
        "mode='MLX': no C++ compiler was found, so that MLX computes one operation after the other "
        "on the processor. Results are the same, and often slower. Install g++ (on Debian and "
        "Ubuntu: apt install g++) and start anew, or ask for it with Mode('MLX', compile=False).",
        RuntimeWarning,
        stacklevel=frames_up(),
    )


@cache
def _trust_kernels() -> None:
    """Move this process's temporary directory if others can write where MLX keeps kernels.

    MLX loads any shared library that it finds there under the name of a kernel. Where the
    directory does not exist, it is made for the user alone.
    """
    problem = _problem(_temporary())
    if problem is None:
        return
    found, remedy = problem
    private = _moved("mlx-kernels")
    warnings.warn(
        f"mode='MLX': {found}, where MLX loads compiled kernels from: others could have it run "
        f"theirs. The temporary directory of this process is now {private}. To keep kernels where "
        f"they were, {remedy}; or set TMPDIR to a directory of your own.",
        RuntimeWarning,
        stacklevel=frames_up(),
    )


def keep_kernels_apart(process: int) -> None:
    """Give one of several processes kernels of its own, for which its temporary directory moves.

    MLX writes them without a lock, and such processes come to the same ones at the same time.
    """
    if mx.default_device().type == mx.cpu:
        _moved(f"mlx-kernels-{process}")


def _moved(name: str) -> Path:
    """A temporary directory for this user alone, from now on that of the process."""
    private = config.cache_dir and config.cache_dir / name
    if private is None or _made_problem(private) or _problem(private):
        private = Path(tempfile.mkdtemp(prefix="graphc-"))
        atexit.register(shutil.rmtree, private, ignore_errors=True)
    os.environ["TMPDIR"] = str(private)
    return private


def new_kernels(since: float) -> int:
    """The number of kernels that were compiled on the processor since then, in seconds.

    Another process that compiles some is counted too.
    """
    *_, place = _parts(_temporary())
    count = 0
    with suppress(OSError), os.scandir(place) as files:
        for file in files:
            count += file.name.endswith(".so") and file.stat().st_mtime >= since
    return count


def has_kernels(key: str) -> bool:
    """Whether a program's kernels have been compiled, as far as is known."""
    return _note(key).exists()


def note_kernels(key: str) -> None:
    """Note beside the kernels that a program's have been compiled."""
    with suppress(OSError):
        _note(key).touch()


def _note(key: str) -> Path:
    return _parts(_temporary())[-1] / f"graphc-{key}"


def _temporary() -> Path:
    """The directory for temporary files, as C++ finds it."""
    return Path(next((os.environ[v] for v in TEMPORARY if os.environ.get(v)), "/tmp"))


def _parts(place: Path) -> list[Path]:
    """MLX's directory in a temporary one, each part of it after the one that it is in."""
    version: str = mx.__version__  # type: ignore[attr-defined]
    return [place := place / part for part in ("mlx", version, "cpu")]


def _problem(place: Path) -> tuple[str, str] | None:
    """Why kernels kept in a temporary directory cannot be trusted, and the remedy, if there is one.

    MLX's directory in it is made if it does not exist.
    """
    for part in _parts(place):
        problem = _made_problem(part)
        if problem is not None:
            return problem
    return None


def _made_problem(place: Path) -> tuple[str, str] | None:
    """What is wrong with a directory, which is made for the user alone if it does not exist."""
    try:
        make_private(place)
        return directory_problem(place)
    except OSError as error:
        return f"{place} cannot be used ({error.strerror or error})", "mend that"
