"""Probes: small experiments on how a backend's library behaves here, for ``graphc doctor``.

A backend's ``probes.py`` lists its probes; each takes a second at most, and changes no setting.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import NamedTuple


class Finding(NamedTuple):
    """The result of a probe.

    Attributes:
        what: The behaviour that was probed.
        found: The observation.
        so: The consequence for graphc.
        wrong: Whether programs give wrong results or fail.
    """

    what: str
    found: str
    so: str
    wrong: bool = False


Probe = Callable[[], Finding]


def run_probes(name: str) -> list[Finding]:
    """Return the findings of a backend's probes; a probe that raises is a finding too."""
    probes: tuple[Probe, ...] = importlib.import_module(f"graphc.link.{name.lower()}.probes").PROBES
    return [_run_probe(probe) for probe in probes]


def _run_probe(probe: Probe) -> Finding:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return probe()
    except Exception as error:  # libraries that fail here raise any class
        title = (probe.__doc__ or probe.__name__).partition("\n")[0].rstrip(".")
        return Finding(title, f"{type(error).__name__}: {error}", "", wrong=True)
