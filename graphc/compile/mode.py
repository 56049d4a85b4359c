"""Modes: the backend, rewrites and options by which a function is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from graphc.config import RECOMPILE, RETURNS, config
from graphc.errors import ModeError
from graphc.ir.sharding import MeshAxes
from graphc.link import Backend, load
from graphc.rewrite.passes import EVERY, names_of, select_rules
from graphc.rewrite.rule import RULES

Returns = Literal["numpy", "native"]

CHECKS = ("check", "check_bounds", "check_nan", "check_inf")
"""The options of checks when a program runs."""

EVERYWHERE: Mapping[str, tuple[Any, ...]] = {
    "recompile": RECOMPILE,
    "returns": RETURNS,
    **dict.fromkeys(CHECKS, (True, False)),
    "check": (False,),  # conditions are checked by default
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
            reference, and ``lengths="buckets"``, which compiles once for all lengths up to 16, 32,
            64, ... where unknown lengths of arguments change; ``lengths="exact"`` does so not even
            for inputs with ``bucket=``. JAX has ``mesh=graphc.mesh(data=4)``, or a
            ``jax.sharding.Mesh``, over whose devices functions run by their declared shardings, and
            ``logical_axes={"batch": "data"}``, other names for the axes of the mesh in those; and
            ``attention="pallas"``, which computes attention by kernels on NVIDIA's GPUs (by default
            ``"xla"``; ``"interpret"`` runs the kernels in Pallas' interpreter, anywhere). MLX
            has ``compile=True``, which fuses operations from the first call on, ``compile=False``,
            which runs them one by one, and by default ``compile="auto"``, which fuses them once
            that pays; and ``float64="downcast"``, which computes float64 arrays in float32 (and
            complex128 in complex64), as GPUs have neither. All have
            ``check_bounds=True``, which raises on indices out of bounds, ``check_nan=True`` and
            ``check_inf=True``, which raise on such numbers, and ``check=False``, which leaves out
            ``graphc.Assert`` and similar conditions.
        recompile: The reaction to needless compilations of functions of this mode: ``"warn"``,
            ``"raise"`` or ``"ignore"``; None means ``config.recompile``. ``graphc.recompile``
            overrides both.
        returns: The arrays that functions of this mode return: ``"numpy"`` or ``"native"``; None
            means ``config.returns``.

    Attributes:
        name: The backend's name.
        excluded: Names of excluded rewrites.
        included: Names of included rewrites, unless they are excluded.
        options: The backend's options.
        recompile: The reaction to needless compilations; not a part of the keys of programs.
        returns: The arrays that functions return; not a part of the keys of programs.

    A mode can be pickled. A mesh is stored as its shape, the names of its axes and the kind of its
    devices, and rebuilt from the devices of the process that loads it.

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
    returns: Returns | None

    def __init__(
        self,
        name: str,
        excluding: Iterable[str] = (),
        including: Iterable[str] = (EVERY,),
        *,
        recompile: str | None = None,
        returns: Returns | None = None,
        **options: Any,
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "excluded", names_of(excluding))
        wanted = names_of(including)
        # A rule's own name is the narrowest: it would override exclusions by pass or subject.
        # None means the default.
        chosen = {option: value for option, value in options.items() if value is not None}
        object.__setattr__(self, "recompile", recompile)
        object.__setattr__(self, "returns", returns)
        everywhere = {"recompile": recompile, "returns": returns}
        _check_options(name, {**options, **everywhere}, {**self.backend.options, **EVERYWHERE})
        object.__setattr__(self, "options", self.backend.normalize_options(chosen))
        gains = self.gains if EVERY in wanted else frozenset()
        # A rule's own name is the narrowest: it would override exclusions by pass or subject.
        added = {rule for rule in gains if not self.excluded & _names_including(rule)}
        object.__setattr__(self, "included", wanted | added)
        select_rules(self.excluded, self.included)

    @property
    def backend(self) -> Backend:
        """The backend."""
        return load(self.name)

    @property
    def gains(self) -> frozenset[str]:
        """The names of optional rules that make its device faster."""
        return self.backend.gains_on(self.options)

    @property
    def mesh_axes(self) -> MeshAxes | None:
        """The axes of the mesh of devices that its functions run over; None without one."""
        return self.backend.mesh_axes(self.options)

    def __getattr__(self, name: str) -> Any:
        advice = (
            f", as it is no mode of PyTensor's. Use graphc.interop.pytensor.mode({self!r})."
            if name in {"function_maker", "linker", "optimizer"}
            else "."
        )
        raise AttributeError(f"graphc.Mode has no attribute {name!r}{advice}", name=name, obj=self)

    def __repr__(self) -> str:
        settings = {"recompile": self.recompile, "returns": self.returns}
        suffix = [f", {name}={value!r}" for name, value in settings.items() if value is not None]
        return f"Mode({self.written}{''.join(suffix)})"

    def __reduce__(self) -> tuple[Any, ...]:
        options = self.backend.portable_options(self.options)
        settings = {"recompile": self.recompile, "returns": self.returns}
        return _unpickle, (self.name, self.excluded, self._asked, settings, options)

    def __copy__(self) -> Mode:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Mode:
        return self

    @property
    def _asked(self) -> frozenset[str]:
        """The included names, without the rules that another device may not gain from."""
        return self.included - self.gains if EVERY in self.included else self.included

    @property
    def written(self) -> str:
        """The arguments of ``repr`` that programs depend on."""
        wanted = self.included - self.gains
        arguments = [repr(self.name)]
        arguments += [f"excluding={sorted(self.excluded)!r}"] if self.excluded else []
        arguments += [f"including={sorted(self.included)!r}"] if wanted != {EVERY} else []
        arguments += [f"{k}={v!r}" for k, v in self.options.items()]
        return ", ".join(arguments)

    def change(self, **changes: Any) -> Mode:
        """Return the same mode with other rewrites or options."""
        present = {
            "excluding": self.excluded,
            "including": self._asked,
            "recompile": self.recompile,
            "returns": self.returns,
            **self.options,
        }
        return Mode(self.name, **{**present, **changes})

    def without_checks(self) -> Mode:
        """Return the same mode without checks when a program runs."""
        chosen = dict.fromkeys(CHECKS)
        return self.change(**chosen) if self.options.keys() & chosen.keys() else self

    def excluding(self, *names: str) -> Mode:
        """Return the same mode without these rewrites.

        Args:
            names: Names of rules, passes or subjects, or ``"all"``.

        Raises:
            ArgumentError: No rule, pass or subject has that name.

        Example:
            >>> get_mode("NUMPY").excluding("stabilize", "product_with_zero")
            Mode('NUMPY', excluding=['product_with_zero', 'stabilize'])
        """
        excluded = names_of(names)
        included = self.included - excluded - self.gains
        return self.change(excluding=self.excluded | excluded, including=included)

    def including(self, *names: str) -> Mode:
        """Return the same mode with these rewrites too.

        The narrower name takes precedence: a rule over its pass and subject, these over ``"all"``.

        Args:
            names: Names of rules, passes or subjects, or ``"all"``.

        Raises:
            ArgumentError: No rule, pass or subject has that name.

        Example:
            >>> get_mode("NUMPY").excluding("all").including("log_of_one_plus")
            Mode('NUMPY', excluding=['all'], including=['log_of_one_plus'])
        """
        included = names_of(names)
        return self.change(excluding=self.excluded - included, including=self.included | included)


def _unpickle(
    name: str,
    excluded: frozenset[str],
    included: frozenset[str],
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Mode:
    options = load(name).restore_options(options)
    return Mode(name, excluded, included, **settings, **options)


def _names_including(rule: str) -> set[str]:
    return {EVERY, RULES[rule].step, RULES[rule].subject}


def _check_options(
    name: str, options: Mapping[str, Any], all: Mapping[str, tuple[Any, ...]]
) -> None:
    unknown = sorted(set(options) - set(all))
    if unknown:
        raise ModeError(
            f"Mode({name!r}) has no option {', '.join(unknown)}.",
            f"It has {', '.join(sorted(all))}.",
        )
    for option, value in options.items():
        values = all[option]
        # 1 equals True, but is no valid value.
        same = [v for v in values if type(v) is type(value) and v == value]
        if values and value is not None and not same:
            raise ModeError(
                f"{option}={value!r}: expected {' or '.join(map(repr, values))}, or None.",
                "Indices are checked by check_bounds=True." if option == "check" else "",
            )


def get_mode(mode: str | Mode | None) -> Mode:
    """Return a mode by its name; ``config.mode`` for None.

    Args:
        mode: A name, a mode, or None.

    Raises:
        ModeError: No such backend, or no mode of graphc's.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> graphc.get_mode("JAX").name
        'JAX'
    """
    chosen = config.mode if mode is None else mode
    if isinstance(chosen, Mode):
        return chosen
    if not isinstance(chosen, str):
        raise ModeError(f"mode={chosen!r}: expected a name or a graphc.Mode.")
    return _plain(chosen)


def get_default_mode() -> Mode:
    """Return the mode of ``config.mode``, the default of functions."""
    return get_mode(None)


@cache
def _plain(name: str) -> Mode:
    """Return the default mode of a backend; cached, because it costs as much as a small graph."""
    return Mode(name)
