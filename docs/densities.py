"""What the docstrings of distributions say of them, as functions; for plots, and for the tests.

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
"""What a formula may use, besides the parameters."""


@dataclass(frozen=True)
class Stated:
    """What a docstring says.

    Attributes:
        title: What the formula gives: a density at x, or a probability of k.
        lines: The formulas by title, and the conditions under which they hold.
    """

    title: str
    lines: Mapping[str, tuple[str, str]]

    @property
    def variable(self) -> str:
        return self.title[-1]

    def density(self, x: Any, parameters: Mapping[str, Any]) -> Any:
        """The density or probability at values, 0 where the formula does not hold."""
        y = np.broadcast_to(self.formula({self.variable: x, **parameters}), np.shape(x))
        return np.where(self.holds(x, parameters), y, 0.0)

    def formula(self, known: Mapping[str, Any]) -> Any:
        """The formula of the density, of a vector perhaps."""
        return _value(self.lines[self.title][0], known)

    def holds(self, x: Any, parameters: Mapping[str, Any]) -> Any:
        """Whether values are possible."""
        _, support = self.lines[self.title]
        return _value(support, {self.variable: x, **parameters}) if support else True

    def moment(self, title: str, parameters: Mapping[str, Any]) -> Any:
        """The mean or the variance; None where there is none for the parameters."""
        formula, condition = self.lines.get(title, ("", ""))
        if not formula or (condition and not _value(condition, parameters)):
            return None
        mean = (
            {}
            if title == "mean" or "mean" in parameters
            else {"mean": self.moment("mean", parameters)}
        )
        return _value(formula, {**mean, **parameters})


def distribution(name: str) -> Stated:
    """What the docstring of a distribution says.

    Raises:
        LookupError: It says nothing.
    """
    text = (inspect.getdoc(DISTRIBUTIONS[name]) or "").partition("\nDistribution:\n")[2]
    text = " ".join(text.partition("\n\n")[0].split())
    found = re.findall(r"- ([\w ]+): ``(.*?)``(?:,? (?:where|if) ``(.*?)``)?(?= -|$)", text)
    lines = {title: (formula, condition) for title, formula, condition in found}
    titles = [title for title in lines if title in {"density at x", "probability of k"}]
    if not titles:
        raise LookupError(f"The docstring of {name} has no density.")
    return Stated(titles[0], lines)


def _value(formula: str, known: Mapping[str, Any]) -> Any:
    """The value of a formula; comparisons may be of arrays, and chained."""
    parts = re.split(r" (<=?) ", formula)
    with np.errstate(all="ignore"):
        if len(parts) == 5:
            low, first, x, second, high = parts
            left, right = f"{low} {first} ({x})", f"({x}) {second} {high}"
            return _evaluated(left, known) & _evaluated(right, known)
        return _evaluated(re.sub(r"^k in \(0, 1\)$", "(k == 0) | (k == 1)", formula), known)


def _evaluated(formula: str, known: Mapping[str, Any]) -> Any:
    code: CodeType = compile(formula, formula, "eval")
    return eval(code, {**NAMESPACE, **known})
