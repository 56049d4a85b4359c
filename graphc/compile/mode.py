"""Where and how a function is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphc.config import config
from graphc.errors import ModeError
from graphc.link import Backend, load
from graphc.rewrite.passes import selected

__all__ = ["Mode", "get_mode"]


@dataclass(frozen=True)
class Mode:
    """A backend by name, and what to do differently from its defaults.

    Args:
        name: ``"JAX"`` or ``"NUMPY"``.
        excluding: Rewrites to leave out, by rule or by pass.
        options: The backend's own. JAX has ``device`` (a ``jax.Device``, ``"cpu"``, ``"gpu:1"``)
            and ``fallback="numpy"``, which runs operations that JAX has no lowering for by their
            NumPy reference.

    Raises:
        ModeError: No such backend, or an option that it does not have.
        ArgumentError: No rule, pass or subject to exclude has that name.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> f = graphc.function([x], gt.log(1 + x), mode=Mode("NUMPY", excluding=["stabilize"]))
        >>> float(f(0.0))
        0.0
    """

    name: str
    excluding: frozenset[str] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __init__(self, name: str, excluding: Iterable[str] = (), **options: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(
            self, "excluding", frozenset([excluding] if isinstance(excluding, str) else excluding)
        )
        object.__setattr__(self, "options", dict(options))
        selected(self.excluding, None)
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
        parts = [repr(self.name)]
        parts += [f"excluding={sorted(self.excluding)!r}"] if self.excluding else []
        parts += [f"{k}={v!r}" for k, v in self.options.items()]
        return f"Mode({', '.join(parts)})"

    def change(self, **changes: Any) -> Mode:
        """The same mode with other rewrites left out or other options."""
        merged = {"excluding": self.excluding, **self.options, **changes}
        return Mode(self.name, **merged)


def get_mode(mode: str | Mode | None) -> Mode:
    """A mode by its name; None is ``config.mode``.

    Args:
        mode: A name, a mode, or None.

    Raises:
        ModeError: No such backend.
    """
    if isinstance(mode, Mode):
        return mode
    name = config.mode if mode is None else mode
    if not isinstance(name, str):
        raise ModeError(f"mode={mode!r}: a name or a graphc.Mode is wanted.")
    return Mode(name)
