"""The derivatives that help() prints are those of grad."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GradientError
from graphc.tensor.core.derivative import derivatives
from graphc.tensor.core.elementwise import ROWS, Elementwise
from graphc.tensor.core.equality import elementwise_equality
from tests.contract.rows import ALL, DOMAINS
from tests.reference import evaluate

NAMES = {**{name: getattr(gt, name) for name in gt.__all__}, **ROWS}
PUBLIC = {name: row for name, row in ROWS.items() if getattr(gt, name, None) is row}
PRINTED = [name for name, row in PUBLIC.items() if "\nDerivative:" in (row.__doc__ or "")]
NONE = "none; to ask for one is a GradientError"


def operands(row: Elementwise) -> dict[str, Any]:
    """Symbolic numbers by the names of the operands."""
    names = [name for name in inspect.signature(row).parameters if name != "more"]
    return {name: gt.dscalar(name) for name in names}


SAID = re.compile(r"(.*?)(?:``; (?:the series of it|``(.*)``) where ``(.*))?")


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_derivative_is_the_gradient(name: str) -> None:
    row = ROWS[name]
    xs = operands(row)
    y = row(*xs.values())
    domains = DOMAINS.get(name, (ALL,) * row.arity)
    numbers = [low + 0.37 * (high - low) for low, high in domains]
    values = dict(zip(xs.values(), numbers, strict=True))
    lines = derivatives(row, [*xs])
    if lines == [NONE]:
        lines = [f"{x}: {NONE}" for x in xs]
    result = re.fullmatch(r"where (\w) is the result, ``.*``", lines[-1])
    known = {**NAMES, "pi": math.pi, **xs, **({result[1]: y} if result else {})}
    for line, (letter, x) in zip(lines, xs.items(), strict=False):
        text = line.removeprefix(f"{letter}: ")
        assert text != line
        if text == NONE:
            with pytest.raises(GradientError):
                graphc.grad(y, x)
            continue
        code, special, near = SAID.fullmatch(text.strip("`")).groups()  # type: ignore[union-attr]
        assert "…" not in code
        with elementwise_equality():  # an expression is printed with NumPy's operators
            printed = eval(code, {}, known)
            if near:
                other = eval(special, {}, known) if special else np.nan
                printed = gt.where(eval(near, {}, known), other, printed)
        slope = graphc.grad(y, x, disconnected_inputs="ignore", return_disconnected="zero")
        found, wanted = evaluate([gt.as_tensor(printed), slope], values)
        np.testing.assert_allclose(found, wanted, 1e-12, 1e-300)
