"""Random draws: those of jax.random, whose keys and numbers graphc has on every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.row import Choice, row

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing


def drawn(g: Growing) -> Choice:
    size = tuple(g.integer(0, 3) for _ in range(g.integer(0, 2)))
    return Choice((), {"key": str(g.integer(0, 99)), "size": repr(size)})


for _name, _ulps in {"uniform": 1, "normal": 64, "exponential": 8, "gumbel": 16}.items():
    row(
        f"random.{_name}",
        f"draw({_name!r}, {{key}}, {{size}})",
        drawn,
        f"gt.random.{_name}(size={{size}}, rng=gt.random.key({{key}}))",
        weight=1,
        ulps=_ulps,
    )
row(
    "random.integers",
    "draw('randint', {key}, {size}, 0, 10, dtype='int64')",
    drawn,
    "gt.random.integers(0, 10, size={size}, rng=gt.random.key({key}))",
    weight=1,
)
row(
    "random.bernoulli",
    "draw('bernoulli', {key}, 0.3, {size}).astype('int64')",
    drawn,
    "gt.random.bernoulli(0.3, size={size}, rng=gt.random.key({key}))",
    weight=1,
)
