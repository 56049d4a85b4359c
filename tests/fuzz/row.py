"""The table of operations: what each is called, what it takes, and how to choose operands.

To add an operation is to add a row to one of the files of ``rows/``. A row's templates are NumPy's
and graphc's code, in which ``{0}``, ``{1}`` are operands and other fields are options that the
row's chooser fills in. NumPy's code with ``gt.`` for ``np.`` is graphc's, unless a row says
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tests.fuzz.program import Body
from tests.fuzz.values import Value, meet

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing

BOOL = frozenset({"bool"})
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
INTEGERS = UNSIGNED | {"int8", "int16", "int32", "int64"}
FLOATS = frozenset({"float16", "float32", "float64"})
REALS = BOOL | INTEGERS | FLOATS | {"bfloat16"}
COMPLEX = frozenset({"complex64", "complex128"})
NUMBERS = REALS - BOOL | COMPLEX
SIGNED = NUMBERS - UNSIGNED
INEXACT = FLOATS | COMPLEX
DOUBLE = frozenset({"float32", "float64"})
MATRICES = DOUBLE | COMPLEX
EVERY = REALS | COMPLEX


@dataclass(frozen=True)
class Choice:
    """What a row is applied to."""

    operands: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    bodies: tuple[Body, ...] = ()
    ones: tuple[bool, ...] = ()


Choose = Callable[["Growing"], Choice | None]


@dataclass(frozen=True, eq=False)
class Row:
    """An operation.

    Attributes:
        name: What it is called in reports.
        numpy: Its template in NumPy.
        graphc: Its template in graphc.
        choose: What it is applied to, of what a program has so far; None if nothing fits.
        weight: How often it is tried.
        ulps: The error of one application, in units of the last place.
        accumulates: Whether it adds up, so that errors are relative to its operands.
        broadcasts: Whether its operands broadcast against each other and to the option ``shape``,
            or those after the first one to that shape alone, or the axes before the last two.
        depth: In how many loops or branches it may be.
        by_value: Whether the shape of its result depends on values.
        by_shape: Whether its result depends on shapes alone.
        cusp: Whether it has no derivative where its result is 0.
        edge: Code that says of the operands whether it has no derivative there.
    """

    name: str
    numpy: str
    graphc: str
    choose: Choose
    weight: int = 2
    ulps: float = 0
    accumulates: bool = False
    broadcasts: bool | Literal["into", "batches"] = False
    depth: int = 2
    by_value: bool = False
    by_shape: bool = False
    cusp: bool = False
    edge: str = "False"


TABLE: dict[str, Row] = {}


def row(name: str, template: str, choose: Choose, graphc: str | None = None, **more: Any) -> None:
    """Add a row."""
    assert name not in TABLE
    TABLE[name] = Row(name, template, graphc or template.replace("np.", "gt."), choose, **more)


def elementwise(arity: int, dtypes: frozenset[str]) -> Choose:
    """Values that broadcast, and now and then a number."""

    def choose(g: Growing) -> Choice | None:
        x = g.any(lambda v: v.dtype in dtypes)
        if x is None:
            return None
        values: list[Value] = [x]
        operands = [x.name]
        for _ in range(arity - 1):
            y = g.beside(*values, fits=lambda v: v.dtype in dtypes and promotes(x, v))
            if y is None and x.dtype == "bfloat16":
                operands.append(x.name)  # beside a number, NumPy makes it float32
            elif y is None or (g.chance(25) and x.dtype != "bfloat16"):
                operands.append(g.number(x.dtype))
            else:
                values.append(y)
                operands.append(y.name)
        g.random.shuffle(operands)
        return Choice(tuple(operands), ones=meet(*values) or ())

    return choose


def promotes(x: Value, y: Value) -> bool:
    """bfloat16 is no dtype of NumPy's own, which promotes it with few others."""
    return x.dtype == y.dtype or "bfloat16" not in {x.dtype, y.dtype}


def anything(dtypes: frozenset[str] = EVERY, least: int = 0, most: int = 4) -> Choose:
    def choose(g: Growing) -> Choice | None:
        x = g.any(lambda v: v.dtype in dtypes and least <= v.ndim <= most)
        return x and Choice((x.name,))

    return choose


def on_axis(
    g: Growing, dtypes: frozenset[str], options: Mapping[str, str] | None = None, least: int = 1
) -> Choice | None:
    x = g.any(lambda v: v.dtype in dtypes and v.ndim)
    if x is None:
        return None
    axis = g.axis(x)
    if x.shape[axis] < least:
        return None
    return Choice((x.name,), {"axis": str(axis), **(options or {})})
