"""Formulas in the docstrings of distributions, as functions: for plots, and for the tests.

The section ``Distribution`` of a docstring has formulas in NumPy's notation: a density at x or a
probability of k, where it holds, the mean and the variance.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np
from scipy import special

from graphc.random.generator import DISTRIBUTIONS

NAMESPACE: dict[str, Any] = {
    **{name: getattr(np, name) for name in dir(np) if not name.startswith("_")},
    **{name: getattr(np.linalg, name) for name in ("det", "inv")},
    **{name: getattr(special, name) for name in ("beta", "betaln", "comb", "gamma", "gammaln")},
    **{name: getattr(special, name) for name in ("i0e", "i1e", "ndtr")},
}
"""Functions that a formula may call; its variables are the parameters."""


@dataclass(frozen=True)
class DistributionFormulas:
    """Formulas of a distribution, read from its docstring.

    Attributes:
        title: Title of the density: ``density at x`` or ``probability of k``.
        lines: Each formula by its title, and the condition under which it holds.
    """

    title: str
    lines: Mapping[str, tuple[str, str]]

    @property
    def variable(self) -> str:
        return self.title[-1]

    def density(self, x: Any, parameters: Mapping[str, Any]) -> Any:
        """Return the density or the probability at values: 0 outside the support."""
        y = np.broadcast_to(self.formula({self.variable: x, **parameters}), np.shape(x))
        return np.where(self.holds(x, parameters), y, 0.0)

    def formula(self, known: Mapping[str, Any]) -> Any:
        """Evaluate the density without regard to its support; x may be a vector."""
        return _value_of(self.lines[self.title][0], known)

    def holds(self, x: Any, parameters: Mapping[str, Any]) -> Any:
        """Return whether values are in the support."""
        _, support = self.lines[self.title]
        return _value_of(support, {self.variable: x, **parameters}) if support else True

    def moment(self, title: str, parameters: Mapping[str, Any]) -> Any:
        """Return the mean or the variance; None where it does not exist or has no formula."""
        formula, condition = self.lines.get(title, ("", ""))
        if not formula or (condition and not _value_of(condition, parameters)):
            return None
        mean = (
            {}
            if title == "mean" or "mean" in parameters
            else {"mean": self.moment("mean", parameters)}
        )
        return _value_of(formula, {**mean, **parameters})


def distribution(name: str) -> DistributionFormulas:
    """Read the formulas in the docstring of a distribution.

    Raises:
        LookupError: If the docstring has no density.
    """
    text = (inspect.getdoc(DISTRIBUTIONS[name]) or "").partition("\nDistribution:\n")[2]
    text = " ".join(text.partition("\n\n")[0].split())
    formulas = re.findall(r"- ([\w ]+): ``(.*?)``(?:,? (?:where|if) ``(.*?)``)?(?= -|$)", text)
    lines = {title: (formula, condition) for title, formula, condition in formulas}
    titles = [title for title in lines if title in {"density at x", "probability of k"}]
    if not titles:
        raise LookupError(f"The docstring of {name} has no density.")
    return DistributionFormulas(titles[0], lines)


def _value_of(formula: str, known: Mapping[str, Any]) -> Any:
    """Evaluate a formula, in which comparisons of arrays may be chained."""
    parts = re.split(r" (<=?) ", formula)
    with np.errstate(all="ignore"):
        if len(parts) == 5:
            low, first, x, second, high = parts
            left, right = f"{low} {first} ({x})", f"({x}) {second} {high}"
            return _evaluate(left, known) & _evaluate(right, known)
        return _evaluate(re.sub(r"^k in \(0, 1\)$", "(k == 0) | (k == 1)", formula), known)


def _evaluate(formula: str, known: Mapping[str, Any]) -> Any:
    code: CodeType = compile(formula, formula, "eval")
    return eval(code, {**NAMESPACE, **known})
