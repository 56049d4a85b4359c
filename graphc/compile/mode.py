"""Where and how a function is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from graphc.config import config
from graphc.errors import ModeError
from graphc.link import Backend, load
from graphc.rewrite.passes import EVERY, names_of, selected

__all__ = ["Mode", "get_mode"]


@dataclass(frozen=True)
class Mode:
    """A backend by name, and what to do differently from its defaults.

    Args:
        name: ``"JAX"`` or ``"NUMPY"``.
        excluding: Rewrites to leave out, by rule, pass or subject, or ``"all"``.
        including: Rewrites to apply, by the same names; ``"all"`` by default.
        options: The backend's own. JAX has ``device`` (a ``jax.Device``, ``"cpu"``, ``"gpu:1"``)
            and ``fallback="numpy"``, which runs operations that JAX has no lowering for by their
            NumPy reference.

    Attributes:
        name: The backend's.
        excluded: The names of rewrites left out.
        included: The names of rewrites applied, where they are not left out.
        options: The backend's own.

    Raises:
        ModeError: No such backend, or an option that it does not have.
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

    def __init__(
        self,
        name: str,
        excluding: Iterable[str] = (),
        including: Iterable[str] = (EVERY,),
        **options: Any,
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "excluded", names_of(excluding))
        asked = names_of(including)
        gains = self.backend.gains if EVERY in asked else frozenset()
        object.__setattr__(self, "included", asked | gains)
        object.__setattr__(self, "options", dict(options))
        selected(self.excluded, self.included)
        known = self.backend.options
        unknown = sorted(set(options) - known)
        if unknown:
            raise ModeError(
                f"Mode({name!r}) has no option {', '.join(unknown)}.",
                f"It has {', '.join(sorted(known))}." if known else "It has none.",
            )
        if options.get("fallback") not in {None, "numpy"}:
            raise ModeError(f"fallback={options['fallback']!r}: it is 'numpy' or left out.")

    @property
    def backend(self) -> Backend:
        """The backend."""
        return load(self.name)

    def __repr__(self) -> str:
        own = {EVERY} | self.backend.gains
        parts = [repr(self.name)]
        parts += [f"excluding={sorted(self.excluded)!r}"] if self.excluded else []
        parts += [f"including={sorted(self.included)!r}"] if self.included != own else []
        parts += [f"{k}={v!r}" for k, v in self.options.items()]
        return f"Mode({', '.join(parts)})"

    def change(self, **changes: Any) -> Mode:
        """The same mode with other rewrites or other options."""
        merged = {"excluding": self.excluded, "including": self.included, **self.options, **changes}
        return Mode(self.name, **merged)

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
        return self.change(excluding=self.excluded | given, including=self.included - given)

    def including(self, *names: str) -> Mode:
        """The same mode with these rewrites too.

        The narrower name counts: a rule's own before its pass and subject, these before ``"all"``.

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


def get_mode(mode: str | Mode | None) -> Mode:
    """A mode by its name; None is ``config.mode``.

    Args:
        mode: A name, a mode, or None.

    Raises:
        ModeError: No such backend.
    """
    given = config.mode if mode is None else mode
    if isinstance(given, Mode):
        return given
    if not isinstance(given, str):
        raise ModeError(f"mode={given!r}: a name or a graphc.Mode is wanted.")
    return Mode(given)
