"""The settings of graphc; each can also be an argument where it applies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from graphc.errors import ModeError
from graphc.site import foreign_frames

__all__ = ["POLICIES", "Config", "config"]

RECOMPILE = ("warn", "raise", "ignore")

RETURNS = ("numpy", "native")

POLICIES = ("allow", "warn", "error")

MODES = ("JAX", "MLX", "NUMPY")

CHOICES: Mapping[str, tuple[str, ...]] = {
    "floatX": ("float16", "float32", "float64"),
    "materialize": POLICIES,
    "mode": MODES,
    "progress": ("auto", "on", "off"),
    "recompile": RECOMPILE,
    "returns": RETURNS,
    "traceback": ("short", "full"),
}
"""The values of the settings that are one of some strings."""

OFF = "off"
"""The directory that means none."""

DEFAULTS: Mapping[str, Any] = {
    "cache_bytes": 2**30,
    "floatX": "float64",
    "materialize": "allow",
    "mode": "JAX",
    "programs": 256,
    "progress": "auto",
    "recompile": "warn",
    "returns": "numpy",
    "scan_returns_updates": False,
    "specializations": 64,
    "traceback": "short",
    "warn_on_captured_constants": False,
}


def variable(name: str) -> str:
    """Return the environment variable of a setting: ``GRAPHC_FLOATX`` of ``floatX``."""
    return f"GRAPHC_{name.upper()}"


def _from_text(name: str, text: str) -> Any:
    """Return the value of a setting for the text of its environment variable."""
    match DEFAULTS[name]:
        case bool():
            words = {"1": True, "true": True, "0": False, "false": False}
            return words.get(text.lower(), text)
        case int():
            return int(text) if text.isdecimal() else text
    return text


class Config:
    """Settings with their defaults; an unknown name or value is an error.

    Each setting can come from the environment: ``GRAPHC_FLOATX=float32``, ``GRAPHC_MODE=MLX``,
    ``GRAPHC_CACHE_DIR=off``. A variable is read when its setting is first used.

    Attributes:
        floatX: The dtype of ``gt.vector("v")``, ``gt.zeros(3)`` and the like: ``"float64"``,
            ``"float32"`` or ``"float16"``.
        materialize: What happens when an implicit array is materialized, as no handler keeps its
            structure: ``"allow"``, ``"warn"``, once for each line, or ``"error"``.
        mode: The mode of ``function`` and ``eval`` where none is given: its name, or a
            ``graphc.Mode``.
        specializations: How many executables one function caches for different values of
            integer arguments that decide shapes.
        programs: How many compiled programs are cached in memory for functions of equal structure.
        progress: Whether a line on standard error tells of compilations that take longer than two
            seconds: ``"auto"``, on a terminal and in a notebook; ``"on"``, or ``"off"``.
        cache_dir: The directory, a ``Path``, where compiled programs are cached for later
            processes; None, or ``"off"``, caches none. By default ``graphc`` in the user's cache
            directory; None for a user who has no home.
        cache_bytes: How many bytes that directory may hold; the least recently used entries go.
        recompile: What happens when a function is compiled again and again for a reason that
            can be fixed: ``"warn"``, ``"raise"`` or ``"ignore"``.
        returns: The arrays that functions return: ``"numpy"``, NumPy's, which belong to the caller,
            or ``"native"``, the backend's. ``Mode(..., returns=...)`` overrides it, and the
            argument of ``function`` overrides both.
        scan_returns_updates: Whether ``scan``, ``map``, ``reduce``, ``foldl`` and ``foldr`` return
            a pair of outputs and updates where their ``return_updates`` is None, as programs
            written for PyTensor expect.
        traceback: The frames in the traceback of an error that ``function``, a call of its result
            or a step of a loop raises: ``"short"``, the user's, or ``"full"``, graphc's and JAX's
            too.
        warn_on_captured_constants: Whether an array of 10 or more elements that becomes a constant
            of a graph warns, unless ``gt.constant`` says that it is meant; once for the graphs
            built between two calls of ``graphc.function``.

    Example:
        >>> from graphc import config
        >>> with config.change_flags(floatX="float32"):
        ...     config.floatX
        'float32'
        >>> config.floatX
        'float64'
    """

    __slots__ = tuple(sorted(("cache_dir", *DEFAULTS)))

    cache_bytes: int
    cache_dir: Path | None
    floatX: str  # noqa: N815 (the name that users of the field know)
    materialize: str
    mode: Any
    programs: int
    progress: str
    recompile: str
    returns: Literal["numpy", "native"]
    scan_returns_updates: bool
    specializations: int
    traceback: Literal["short", "full"]
    warn_on_captured_constants: bool

    def __getattr__(self, name: str) -> Any:
        """Return a setting at its first use: from the environment, or else the default."""
        if name not in self.__slots__:
            raise AttributeError(_unknown(name), name=name, obj=self)
        if name == "cache_dir":
            self.cache_dir = default_directory(os.environ, sys.platform)
        else:
            text = os.environ.get(variable(name))
            try:
                setattr(self, name, _from_text(name, text) if text else DEFAULTS[name])
            except ValueError as error:
                raise ValueError(f"{variable(name)}={text}: {error}") from None
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__slots__:
            raise AttributeError(_unknown(name), name=name, obj=self)
        if name in CHECKS:
            is_right, wanted = CHECKS[name]
            if not is_right(value):
                error = ModeError if name == "mode" else ValueError
                raise error(f"config.{name} = {value!r}: use {wanted}.{suggestion(name, value)}")
        object.__setattr__(self, name, directory(value) if name == "cache_dir" else value)

    @contextmanager
    def change_flags(self, **settings: Any) -> Iterator[None]:
        """Change settings within a ``with`` block, and restore the previous values at its end."""
        before = {name: getattr(self, name) for name in settings}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


def suggestion(name: str, value: Any) -> str:
    """Return a question about a value that differs from a setting's by letters' case alone.

    Example:
        >>> suggestion("mode", "jax")
        " Did you mean 'JAX'?"
    """
    values = CHOICES.get(name, ()) if isinstance(value, str) else ()
    return "".join(f" Did you mean {x!r}?" for x in values if x.lower() == value.lower())


def _unknown(name: str) -> str:
    return f"No setting {name!r}; there are {', '.join(Config.__slots__)}."


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_path(value: Any) -> bool:
    if not isinstance(value, str | os.PathLike):
        return value is None
    path = os.fspath(value)
    return isinstance(path, str) and path != "" and "\0" not in path


def _among(name: str) -> tuple[Callable[[Any], bool], str]:
    values = CHOICES[name]
    return lambda value: isinstance(value, str) and value in values, f"one of {', '.join(values)}"


POSITIVE = (_positive, "a positive integer")
BOOL = (lambda value: isinstance(value, bool), "True or False")

CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "cache_bytes": POSITIVE,
    "cache_dir": (_is_path, "a path, or None for no cache on disk"),
    "floatX": _among("floatX"),
    "materialize": _among("materialize"),
    "mode": (
        lambda value: value in MODES if isinstance(value, str) else value is not None,
        f"one of {', '.join(MODES)}, or a graphc.Mode",
    ),
    "programs": POSITIVE,
    "progress": _among("progress"),
    "recompile": _among("recompile"),
    "returns": _among("returns"),
    "scan_returns_updates": BOOL,
    "specializations": POSITIVE,
    "traceback": _among("traceback"),
    "warn_on_captured_constants": BOOL,
}
"""The condition on the values of a setting, in code and in words."""


def directory(value: str | os.PathLike[str] | None) -> Path | None:
    """Return an absolute path, or None for None and ``"off"``."""
    if value is None or (isinstance(value, str) and value.lower() == OFF):
        return None
    return Path(os.path.abspath(os.path.expanduser(value)))  # noqa: PTH100, PTH111 (no home, no error)


def default_directory(environment: Mapping[str, str], platform: str) -> Path | None:
    """Return the default cache directory of an environment, without reading the disk."""
    if chosen := environment.get(variable("cache_dir")):
        return directory(chosen)
    if platform == "win32":
        local = environment.get("LOCALAPPDATA")
        return Path(local, "graphc", "Cache") if local else None
    if platform != "darwin" and os.path.isabs(base := environment.get("XDG_CACHE_HOME", "")):  # noqa: PTH117
        return Path(base, "graphc")
    home = os.path.expanduser("~")  # noqa: PTH111 (a user without a home is no error)
    if not os.path.isabs(home):  # noqa: PTH117
        return None
    return Path(home, *(("Library", "Caches") if platform == "darwin" else (".cache",)), "graphc")


config = Config()


class short_traceback:  # noqa: N801 (reads as a statement)
    """A context in which errors lose graphc's own frames, unless ``config.traceback`` is full."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: Any, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if error is not None and config.traceback == "short":
            error.__traceback__ = foreign_frames(frames)
