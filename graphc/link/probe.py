"""Probes: small experiments on how a backend's library behaves here, for ``graphc doctor``.

A backend's ``probes.py`` has a list of them; each takes a second at most, and changes no setting.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import NamedTuple


class Finding(NamedTuple):
    """The result of a probe.

    Attributes:
        what: The behaviour.
        found: How it is here.
        so: What graphc does about it.
        wrong: Whether programs give wrong results or none for it.
    """

    what: str
    found: str
    so: str
    wrong: bool = False


Probe = Callable[[], Finding]


def probed(name: str) -> list[Finding]:
    """The findings of a backend's probes; one that fails is a finding too."""
    probes: tuple[Probe, ...] = importlib.import_module(f"graphc.link.{name.lower()}.probes").PROBES
    return [_result(probe) for probe in probes]


def _result(probe: Probe) -> Finding:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return probe()
    except Exception as error:  # whatever a library raises that does not work here
        what = (probe.__doc__ or probe.__name__).partition("\n")[0].rstrip(".")
        return Finding(what, f"{type(error).__name__}: {error}", "", wrong=True)
