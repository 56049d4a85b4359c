"""Modes: the backend, rewrites and options by which a function is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from graphc.config import RECOMPILE, config
from graphc.errors import ModeError
from graphc.ir.sharding import MeshAxes
from graphc.link import Backend, load
from graphc.rewrite.passes import EVERY, names_of, selected
from graphc.rewrite.rule import RULES

CHECKS = ("check", "check_nan", "check_inf")
"""The options of checks when a program runs."""

EVERYWHERE: Mapping[str, tuple[Any, ...]] = {
    "recompile": RECOMPILE,
    **dict.fromkeys(CHECKS, (True, False)),
}
"""The options that all backends have."""


@dataclass(frozen=True)
class Mode:
    """A backend by name, with rewrites and options that differ from its defaults.

    Args:
        name: ``"JAX"``, ``"MLX"`` or ``"NUMPY"``.
        excluding: Rewrites to leave out, by rule, pass or subject, or ``"all"``.
        including: Rewrites to apply, by the same names; ``"all"`` by default.
        options: The backend's own. JAX and MLX have ``device`` (for JAX a ``jax.Device``,
            ``"cpu"``, ``"gpu:1"``; for MLX a ``mlx.core.Device``, ``"cpu"``, ``"gpu"``) and
            ``fallback="numpy"``, which runs operations that have no lowering by their NumPy
            reference. JAX has ``lengths="buckets"``, which compiles once for all lengths up to 16,
            32, 64, ... where unknown lengths of arguments change, and ``lengths="exact"``, which
            does so not even for inputs with ``bucket=``; ``mesh=graphc.mesh(data=4)``, or a
            ``jax.sharding.Mesh``, over whose devices functions run as declared shardings say, and
            ``logical_axes={"batch": "data"}``, other names for the axes of the mesh in those. MLX
            has ``compile=True``, which fuses operations from the first call on, ``compile=False``,
            which runs them one by one, and by default ``compile="auto"``, which fuses them once
            that pays; and ``float64="downcast"``, which computes in float32 (and complex64) what is
            declared as float64 (and complex128), as GPUs have neither. All have ``check=True``,
            which checks indices when a program runs, ``check_nan=True`` and ``check_inf=True``,
            which refuse such numbers, and ``check=False``, which leaves out ``graphc.Assert`` and
            its like.
        recompile: What happens on needless compilations of functions of this mode: ``"warn"``,
            ``"raise"`` or ``"ignore"``; None stands for ``config.recompile``. ``graphc.recompile``
            overrides both.

    Attributes:
        name: The backend's.
        excluded: The names of rewrites left out.
        included: The names of rewrites applied, where they are not left out.
        options: The backend's own.
        recompile: What happens on needless compilations; not a part of the keys of programs.

    A mode can be pickled. A mesh is kept as its shape, the names of its axes and the kind of its
    devices, and made again of those of the process that loads it.

    Raises:
        ModeError: No such backend, or no such option, or no such value of one; or a process that
            loads it lacks devices of its mesh.
        ArgumentError: No rule, pass or subject has that name.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> f = graphc.function([x], gt.log(1 + x), mode=Mode("NUMPY", excluding=["stabilize"]))
        >>> float(f(0.0))
        0.0
    """

    name: str
    excluded: frozenset[str]
    included: frozenset[str]
    options: Mapping[str, Any]
    recompile: str | None

    def __init__(
        self,
        name: str,
        excluding: Iterable[str] = (),
        including: Iterable[str] = (EVERY,),
        *,
        recompile: str | None = None,
        **options: Any,
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "excluded", names_of(excluding))
        wanted = names_of(including)
        # A rule's own name is the narrowest: it would override exclusions by pass or subject.
        gains = {name for name in self.backend.gains if not self.excluded & _wider(name)}
        object.__setattr__(self, "included", wanted | (gains if EVERY in wanted else frozenset()))
        # None stands for the default.
        chosen = {option: value for option, value in options.items() if value is not None}
        selected(self.excluded, self.included)
        object.__setattr__(self, "recompile", recompile)
        _check(name, {**options, "recompile": recompile}, {**self.backend.options, **EVERYWHERE})
        object.__setattr__(self, "options", self.backend.admitted(chosen))

    @property
    def backend(self) -> Backend:
        """The backend."""
        return load(self.name)

    @property
    def mesh_axes(self) -> MeshAxes | None:
        """The axes of the mesh of devices that its functions run over; None without one."""
        return self.backend.mesh_axes(self.options)

    def __getattr__(self, name: str) -> Any:
        more = (
            f", as it is no mode of PyTensor's. Use graphc.interop.pytensor.mode({self!r})."
            if name in {"function_maker", "linker", "optimizer"}
            else "."
        )
        raise AttributeError(f"graphc.Mode has no attribute {name!r}{more}", name=name, obj=self)

    def __repr__(self) -> str:
        setting = f", recompile={self.recompile!r}" if self.recompile else ""
        return f"Mode({self.written}{setting})"

    def __reduce__(self) -> tuple[Any, ...]:
        options = self.backend.portable(self.options)
        return _unpickled, (self.name, self.excluded, self.included, self.recompile, options)

    def __copy__(self) -> Mode:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Mode:
        return self

    @property
    def written(self) -> str:
        """The arguments of ``repr`` that programs depend on."""
        wanted = self.included - self.backend.gains
        parts = [repr(self.name)]
        parts += [f"excluding={sorted(self.excluded)!r}"] if self.excluded else []
        parts += [f"including={sorted(self.included)!r}"] if wanted != {EVERY} else []
        parts += [f"{k}={v!r}" for k, v in self.options.items()]
        return ", ".join(parts)

    def change(self, **changes: Any) -> Mode:
        """The same mode with other rewrites or options."""
        present = {"excluding": self.excluded, "including": self.included, **self.options}
        return Mode(self.name, **{**present, "recompile": self.recompile, **changes})

    def unchecked(self) -> Mode:
        """The same mode without checks when a program runs."""
        chosen = dict.fromkeys(CHECKS)
        return self.change(**chosen) if self.options.keys() & chosen.keys() else self

    def excluding(self, *names: str) -> Mode:
        """The same mode without these rewrites.

        Args:
            names: Of rules, passes or subjects, or ``"all"``.

        Raises:
            ArgumentError: No rule, pass or subject has that name.

        Example:
            >>> get_mode("NUMPY").excluding("stabilize", "product_with_zero")
            Mode('NUMPY', excluding=['product_with_zero', 'stabilize'])
        """
        given = names_of(names)
        kept = self.included - given - self.backend.gains
        return self.change(excluding=self.excluded | given, including=kept)

    def including(self, *names: str) -> Mode:
        """The same mode with these rewrites too.

        The narrower name takes precedence: a rule over its pass and subject, these over ``"all"``.

        Args:
            names: Of rules, passes or subjects, or ``"all"``.

        Raises:
            ArgumentError: No rule, pass or subject has that name.

        Example:
            >>> get_mode("NUMPY").excluding("all").including("log_of_one_plus")
            Mode('NUMPY', excluding=['all'], including=['log_of_one_plus'])
        """
        given = names_of(names)
        return self.change(excluding=self.excluded - given, including=self.included | given)


def _unpickled(
    name: str,
    excluded: frozenset[str],
    included: frozenset[str],
    recompile: str | None,
    options: Mapping[str, Any],
) -> Mode:
    options = load(name).restored(options)
    return Mode(name, excluded, included, recompile=recompile, **options)


def _wider(rule: str) -> set[str]:
    """The names that include a rule among others."""
    return {EVERY, RULES[rule].step, RULES[rule].subject}


def _check(name: str, options: Mapping[str, Any], known: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise where the backend has no such option, or the option no such value."""
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ModeError(
            f"Mode({name!r}) has no option {', '.join(unknown)}.",
            f"It has {', '.join(sorted(known))}.",
        )
    for option, value in options.items():
        values = known[option]
        # 1 is equal to True, and yet not meant.
        same = [v for v in values if type(v) is type(value) and v == value]
        if values and value is not None and not same:
            raise ModeError(
                f"{option}={value!r}: expected {' or '.join(map(repr, values))}, or None."
            )


def get_mode(mode: str | Mode | None) -> Mode:
    """A mode by its name; None is ``config.mode``.

    Args:
        mode: A name, a mode, or None.

    Raises:
        ModeError: No such backend, or no mode of graphc's.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> graphc.get_mode("JAX").name
        'JAX'
    """
    given = config.mode if mode is None else mode
    if isinstance(given, Mode):
        return given
    if not isinstance(given, str):
        raise ModeError(f"mode={given!r}: expected a name or a graphc.Mode.")
    return _plain(given)


def get_default_mode() -> Mode:
    """The mode of functions that are given none: that of ``config.mode``."""
    return get_mode(None)


@cache
def _plain(name: str) -> Mode:
    """The mode of a backend with its defaults; cached, as it costs as much as a small graph."""
    return Mode(name)
