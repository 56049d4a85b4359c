"""Elementwise functions, a row each: name, meaning, dtype rule, NumPy reference, derivative, facts.

Operands are cast to one dtype before the node is made, so an operation sees one dtype only. An
axis of static length 1 broadcasts. A derivative is written for real numbers; for complex ones it
is conjugated around (``g`` is df/dRe + i df/dIm), where the row does not say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar, Unpack, overload

import numpy as np

from graphc import ir
from graphc.errors import ArgumentError, DTypeError, GradientError, ShapeError
from graphc.ir.dtypes import is_whole
from graphc.ir.lengths import agree, common
from graphc.ir.line import ATOM, Code, Writer
from graphc.ir.types import OfInstance
from graphc.tensor.core.tensor import (
    TABLE,
    Tensor,
    TensorLike,
    as_tensor,
    enter,
    function,
    operands,
)

__all__ = [
    "abs", "add", "bitwise_and", "bitwise_or", "bitwise_xor", "cast", "ceil", "clip", "complex",
    "conj", "divide", "equal", "floor", "floor_divide", "greater", "greater_equal", "imag",
    "invert", "isfinite", "isinf", "isnan", "left_shift", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "not_equal", "real", "reciprocal", "remainder", "right_shift", "sign", "sqrt", "square",
    "subtract", "trunc", "where",
]  # fmt: skip

Pullback = Callable[..., Any]
Domain = Callable[[str], tuple[str, str] | None]
"""From the operands' common dtype to the one computed in and the one of the result."""

Row = TypeVar("Row", bound="Elementwise")

ROWS: dict[str, Elementwise] = {}

# Facts.

REALS = (-math.inf, math.inf)
NONNEGATIVE = (0.0, math.inf)
RISING, FALLING = (1,), (-1,)


@dataclass(frozen=True, slots=True)
class Facts:
    """The mathematical properties of an elementwise function of real floating-point numbers.

    Attributes:
        range: The interval of the exact results, except NaN.
        positive: Whether exact results are above 0.
        trend: For each operand, 1 if the result never falls as that operand grows, and -1 if it
            never rises; empty if neither holds for one of them.
        support: For each operand, the interval outside of which results are NaN. Inside all of
            them, finite operands give NaN at poles alone. Empty if no operand is limited.
        poles: Where a function of one operand grows without bound; ``...`` at the end if there are
            infinitely many, as far apart as the last two.
        fixed: The numbers among 0 and 1 that are mapped to themselves, exactly.
        parity: 1 for an even function, ``f(-x) == f(x)``; -1 for an odd one, ``f(-x) == -f(x)``;
            else 0.
        integral: Whether every finite result is an integer.
        exact: Whether every backend gives the same results, to the last bit.
        additive: Whether ``f(a + b) == f(a) + f(b)``, for complex numbers too.
        multiplicative: Whether ``f(a * b) == f(a) * f(b)``, for infinite and complex ones too.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.exp.facts.range, gt.exp.facts.trend == RISING
        ((0.0, inf), True)
    """

    range: tuple[float, float] = REALS
    positive: bool = False
    trend: tuple[int, ...] = ()
    support: tuple[tuple[float, float], ...] = ()
    poles: tuple[float | EllipsisType, ...] = ()
    fixed: tuple[int, ...] = ()
    parity: int = 0
    integral: bool = False
    exact: bool = False
    additive: bool = False
    multiplicative: bool = False


NO_FACTS = Facts()


# Dtype rules.


def same(dtype: str) -> tuple[str, str] | None:
    """Accept any dtype, unchanged."""
    return dtype, dtype


def numeric(dtype: str) -> tuple[str, str] | None:
    """Accept numbers, unchanged; refuse bool, as NumPy does."""
    return None if dtype == "bool" else (dtype, dtype)


def inexact(dtype: str) -> tuple[str, str] | None:
    """Compute in floating point: bool and integers up to 16 bits as float32, others as float64.

    NumPy takes float16 for 8 bits, in which ``exp(12)`` overflows.
    """
    if dtype in {"bool", "int8", "uint8", "int16", "uint16"}:
        dtype = "float32"
    elif ir.is_integer(dtype):
        dtype = "float64"
    return dtype, dtype


def quotient(dtype: str) -> tuple[str, str] | None:
    """Compute in floating point: integers of any width become float64."""
    return (dtype, dtype) if ir.is_inexact(dtype) else ("float64", "float64")


def real_inexact(dtype: str) -> tuple[str, str] | None:
    """Compute in real floating point; refuse complex numbers."""
    return None if ir.is_complex(dtype) else inexact(dtype)


def real_or_bool(dtype: str) -> tuple[str, str] | None:
    """Accept real numbers and bool, unchanged."""
    return None if ir.is_complex(dtype) else (dtype, dtype)


def real_numeric(dtype: str) -> tuple[str, str] | None:
    """Accept real numbers, unchanged."""
    return None if ir.is_complex(dtype) or dtype == "bool" else (dtype, dtype)


def is_real(dtype: str) -> bool:
    """Return whether no value has an imaginary part."""
    return not ir.is_complex(dtype)


def complex_parts(dtype: str) -> tuple[str, str] | None:
    """Return the real dtype of the parts and the complex dtype of the result."""
    if ir.is_complex(dtype):
        return None
    dtype = inexact(dtype)[0]  # type: ignore[index]
    return ("float64", "complex128") if dtype == "float64" else ("float32", "complex64")


def phase(dtype: str) -> tuple[str, str]:
    """Compute in floating point; the result is real."""
    dtype = inexact(dtype)[0]  # type: ignore[index]
    return dtype, ir.real_dtype(dtype)


def integral(dtype: str) -> tuple[str, str] | None:
    """Accept integers and bool, unchanged."""
    return None if ir.is_inexact(dtype) else (dtype, dtype)


def integer(dtype: str) -> tuple[str, str] | None:
    """Accept integers, unchanged; shift bool as int8."""
    if dtype == "bool":
        return "int8", "int8"
    return (dtype, dtype) if ir.is_integer(dtype) else None


def predicate(dtype: str) -> tuple[str, str] | None:
    """Accept any dtype; the result is bool."""
    return dtype, "bool"


def order_predicate(dtype: str) -> tuple[str, str] | None:
    """Accept real numbers and bool; the result is bool."""
    return None if ir.is_complex(dtype) else (dtype, "bool")


def logical(dtype: str) -> tuple[str, str] | None:
    """Read operands as bool; the result is bool."""
    return "bool", "bool"


def magnitude(dtype: str) -> tuple[str, str] | None:
    """Accept any dtype; the result is real."""
    return dtype, ir.real_dtype(dtype)


def broadcast_shapes(op: str, types: Sequence[ir.TensorType]) -> ir.Shape:
    """Return the common shape: a static 1 broadcasts, an unknown length equals the others."""
    first = types[0].shape
    if all(t.shape == first for t in types):
        return first
    shape: list[int | None] = []
    for axis in range(-max(t.ndim for t in types), 0):
        lengths = [t.shape[axis] for t in types if t.ndim >= -axis and t.shape[axis] != 1]
        if not agree(*lengths):
            raise ShapeError(
                f"{op}({', '.join(map(repr, types))}): lengths differ on axis {axis}.",
                "Make them equal, or one of them 1.",
            )
        shape.append(common(*lengths) if lengths else 1)
    return tuple(shape)


def unbroadcast(g: Tensor, x: Tensor) -> Tensor:
    """Return the gradient summed over the axes on which x was broadcast."""
    if g.type.shape == x.type.shape:
        return g
    new = g.ndim - x.ndim
    axes = [*range(new)]
    axes += [new + i for i, n in enumerate(x.type.shape) if n == 1 and g.type.shape[new + i] != 1]
    if not axes:
        return g
    reduced = [axis - new for axis in axes if axis >= new]
    total = sum_gradient(g, tuple(axes), x)
    return TABLE["expand_dims"](total, tuple(reduced)) if reduced else total


def sum_gradient(g: Tensor, axes: tuple[int, ...], x: Tensor) -> Tensor:
    """Return the gradient of x, which was repeated along axes; none if no element was chosen."""
    total: Tensor = TABLE["sum"](g, axes)
    mask = split_mask(g)[0] if x.inputs else None
    if mask is None:
        return total
    return where(TABLE["any"](repeated_like(mask, g), axes), total, 0)


def repeated_like(x: Tensor, y: Tensor) -> Tensor:
    """Return x broadcast to y's shape."""
    pairs = zip(x.type.shape, y.type.shape, strict=False)
    if x.ndim == y.ndim and all(n != 1 or m == 1 for n, m in pairs):
        return x
    return TABLE["broadcast_to"](x, TABLE["shape"](y))  # type: ignore[no-any-return]


def align_ranks(batched: Sequence[bool], xs: Sequence[Tensor]) -> list[Tensor]:
    """Return operands that broadcast for each element of a batch as they do for one.

    An operand of lower rank gets axes of length 1 behind its batch axis.
    """
    ndim = max(x.ndim - leading for x, leading in zip(xs, batched, strict=True))
    return [with_rank(x, ndim) if leading else x for x, leading in zip(xs, batched, strict=True)]


def with_rank(x: Tensor, ndim: int) -> Tensor:
    """Return a batch of arrays of a given rank, with new axes behind the batch axis."""
    new = tuple(range(1, ndim + 2 - x.ndim))
    return TABLE["expand_dims"](x, new) if new else x


class PartialSlopes:
    """Gradients that are written operand by operand, so that one alone may be computed."""

    def __init__(self, *parts: Pullback) -> None:
        self.parts = parts

    def of(self, wanted: Sequence[bool], g: Tensor, y: Tensor, *xs: Tensor) -> list[Any]:
        pairs = zip(self.parts, wanted, strict=True)
        return [part(g, y, *xs) if asked else None for part, asked in pairs]


Slope = Pullback | PartialSlopes


@dataclass(frozen=True, slots=True, eq=False)
class Elementwise(ir.Op):
    """A function applied to each element of arrays that broadcast; call it to build a node.

    Attributes:
        row: The function's name, as in NumPy or ``scipy.special``.
        meaning: The result, in one line.
        domain: The dtype rule.
        reference: Function of NumPy arrays; by default NumPy's or SciPy's of this name.
        slope: Function of the result's gradient, the result and the operands, which returns the
            operands' gradients; None if there are none. For one that does not exist, it returns
            the error that a request for it raises.
        arity: The number of operands.
        commutes: Whether the two operands may be exchanged.
        holomorphic: Whether conjugating before and after ``slope`` is right for complex numbers.
        identity: The dtypes whose values the function returns unchanged, if any.
        expand: The function in terms of other rows, for backends without a lowering.
        facts: The mathematical properties, for rewriting and interval arithmetic.
        definition: A formula or an equation that defines the function, if ``meaning`` is none.
        source: The source of the definition, such as an equation's number in the DLMF.
        check: Function that raises an error for constant operands without a value.
    """

    is_rule_of_types: ClassVar[bool] = True

    row: str
    meaning: str
    domain: Domain
    reference: Callable[..., Any]
    slope: Slope | None
    arity: int
    commutes: bool = False
    holomorphic: bool = True
    identity: Callable[[str], bool] | None = None
    expand: Callable[..., Tensor] | None = None
    facts: Facts = NO_FACTS
    definition: str = ""
    source: str = ""
    check: Callable[..., None] | None = None
    core_ndim = 0

    @property
    def name(self) -> str:
        return self.row

    @property
    def __name__(self) -> str:
        return self.row

    def __repr__(self) -> str:
        return self.row

    def __reduce__(self) -> tuple[Any, ...]:
        return _row, (self.row,)

    def unwritten(self) -> Any:
        return None if ROWS.get(self.row) is self else self

    def token(self) -> str:
        return self.row

    def __call__(self, *values: TensorLike) -> Tensor:
        if len(values) != self.arity:
            if self.commutes and len(values) > self.arity:
                return reduce(self, values[1:], as_tensor(values[0]))
            raise ArgumentError(f"{self.row} takes {self.arity} operands, not {len(values)}.")
        xs, dtype = operands(self.row, values)
        if self.identity is not None and self.identity(dtype):
            return xs[0]
        rule = self.domain(dtype)
        if rule is None:
            raise DTypeError(
                f"{self.row}({', '.join(map(repr, xs))}): not defined for {dtype}.",
                "Cast the operands with astype first.",
            )
        if rule[0] != dtype:
            xs = [cast(x, rule[0]) for x in xs]
        if self.check is not None:
            self.check(*xs)
        return Tensor.make(self, *self.arranged(xs))

    def is_commutative(self) -> bool:
        return self.commutes

    def arranged(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return the operands, in their canonical order if the function commutes."""
        if not self.commutes:
            return tuple(inputs)
        a, b = inputs
        return (b, a) if ir.precedes(b, a) else (a, b)

    def infer(self, *types: ir.TensorType) -> ir.TensorType:
        rule = self.domain(types[0].dtype)
        if rule is None or any(t.dtype != rule[0] for t in types):
            raise DTypeError(
                f"{self.row}({', '.join(map(repr, types))}): expected operands of one dtype.",
                f"Build it with gt.{self.row}, which casts them.",
            )
        return ir.TensorType(rule[1], broadcast_shapes(self.row, types))

    def perform(self, *xs: np.ndarray[Any, Any]) -> Any:
        return self.reference(*xs)

    def pullback_to(
        self, wanted: Sequence[bool], g: Tensor, y: Tensor, *xs: Tensor
    ) -> Sequence[Any]:
        if self.slope is None:
            return (None,) * len(xs)
        mask, g = split_mask(g)
        around = self.holomorphic and ir.is_complex(g.dtype)
        g = conj(g) if around else g
        gradients = self.slopes(wanted, g, y, *xs)
        return [
            _cotangent(conj(part) if around else part, mask, x)
            if asked and _is_there(part)
            else part
            for part, asked, x in zip(gradients, wanted, xs, strict=True)
        ]

    def slopes(self, wanted: Sequence[bool], g: Tensor, y: Tensor, *xs: Tensor) -> Sequence[Any]:
        """Return the wanted gradients as the row writes them, for real numbers and equal shapes."""
        assert self.slope is not None
        if isinstance(self.slope, PartialSlopes):
            return self.slope.of(wanted, g, y, *xs)
        return self.slope(g, y, *xs)  # type: ignore[no-any-return]

    def pushforward(self, tangents: Sequence[Tensor | None], y: Tensor, *xs: Tensor) -> Any:
        if self.slope is None:
            return None
        if not self.holomorphic and (
            ir.is_complex(y.dtype) or any(ir.is_complex(x.dtype) for x in xs)
        ):
            return NotImplemented
        total = None
        for i, tangent in enumerate(tangents):
            if tangent is None:
                continue
            if tangent.dtype != y.dtype:
                tangent = cast(tangent, y.dtype)
            wanted = [j == i for j in range(len(xs))]
            part = _check_gradient(self.slopes(wanted, tangent, y, *xs)[i])
            if part is not None:
                total = part if total is None else add(total, part)
        if total is not None and total.type.shape != y.type.shape:
            total = TABLE["broadcast_to"](total, TABLE["shape"](y))
        return total

    def batch(self, size: Any, batched: Sequence[bool], *xs: Tensor) -> Tensor:
        return self(*align_ranks(batched, xs))


def _help_of(row: Elementwise) -> str:
    from graphc.tensor.core.help import help_of  # noqa: PLC0415 (who asks for no help needs none)

    return help_of(row)


def _signature_of(row: Elementwise) -> Signature:
    from graphc.tensor.core.help import signature_of  # noqa: PLC0415 (likewise)

    return signature_of(row)


Elementwise.__doc__ = OfInstance(Elementwise.__doc__, _help_of)  # type: ignore[assignment]
Elementwise.__signature__ = OfInstance(None, _signature_of)  # type: ignore[attr-defined]


if TYPE_CHECKING:
    from inspect import Signature

    class Unary(Elementwise):
        """The call signature of a row of one operand."""

        def __call__(self, x: TensorLike, /) -> Tensor: ...  # type: ignore[override]

    class Binary(Elementwise):
        """The call signature of a row of two operands; one that commutes takes more."""

        def __call__(self, a: TensorLike, b: TensorLike, /, *more: TensorLike) -> Tensor: ...  # type: ignore[override]

else:
    Unary = Binary = Elementwise


def split_mask(g: Tensor) -> tuple[Tensor | None, Tensor]:
    """Return a gradient ``where(mask, g, 0)`` as mask and g; other gradients have no mask.

    An unselected branch has gradient zero even if its derivative is infinite or NaN: so masks are
    removed before multiplying with a derivative, and restored afterwards.
    """
    mask = None
    while isinstance(g.op, Where):
        condition, a, b = g.inputs
        if _is_zero(b):
            g = a  # type: ignore[assignment]
        elif _is_zero(a):
            condition, g = logical_not(condition), b  # type: ignore[assignment]
        else:
            break
        mask = condition if mask is None else logical_and(mask, condition)
    return mask, g  # type: ignore[return-value]


def _is_there(part: Any) -> bool:
    return part is not None and not isinstance(part, GradientError)


def _check_gradient(part: Any) -> Any:
    if isinstance(part, GradientError):
        raise part
    return part


def _is_zero(x: Any) -> bool:
    return isinstance(x.op, ir.Constant) and x.op.shape == () and not any(x.op.data)


def _cotangent(part: Tensor, mask: Tensor | None, x: Tensor) -> Tensor | None:
    if not ir.is_inexact(x.dtype):
        return None
    if ir.is_complex(part.dtype) and not ir.is_complex(x.dtype):
        part = real(part)
    if mask is not None:
        part = where(mask, part, 0)
    return unbroadcast(part, x)


def _row(name: str) -> Elementwise:
    return ROWS[name]


def _enter(row: Row) -> Row:
    ROWS[row.row] = row
    enter(row.row, row)
    return row


def from_scipy(name: str, *, wide: bool = False) -> Callable[..., Any]:
    """Return SciPy's function, in the operands' dtype also where SciPy has only wider ones.

    With ``wide`` it is computed in float64 and rounded, where SciPy loses digits in float32.
    """

    def reference(*xs: np.ndarray[Any, Any]) -> Any:
        # SciPy takes a quarter of a second to load, which not every user needs.
        from scipy import special

        dtype = xs[0].dtype
        taken = [np.asarray(x, np.float64 if wide else wide_dtype(dtype)) for x in xs]
        return np.asarray(getattr(special, name)(*taken)).astype(dtype, copy=False)

    return reference


def wide_dtype(dtype: np.dtype[Any]) -> Any:
    """Return float32 for half-width floats, which few libraries compute in; others unchanged."""
    return np.float32 if dtype.itemsize == 2 and dtype.kind in "fV" else dtype


def wide_dtype_name(dtype: str) -> str:
    """Return the name of the widened dtype."""
    return ir.dtype_name(wide_dtype(ir.numpy_dtype(dtype)))


class Columns(TypedDict, total=False):
    """The columns of a row that have defaults; see ``Elementwise``."""

    commutes: bool
    holomorphic: bool
    identity: Callable[[str], bool] | None
    expand: Callable[..., Any] | None
    facts: Facts
    definition: str
    source: str
    check: Callable[..., None] | None


def unary(
    name: str,
    meaning: str,
    domain: Domain,
    slope: Callable[[Any, Any, Any], Any] | None = None,
    reference: Callable[..., Any] | None = None,
    **columns: Unpack[Columns],
) -> Unary:
    """Register a function of one operand, with its gradient."""
    pullback = None if slope is None else _of_one(slope)
    reference = reference or _library_function(name)
    return _enter(Unary(name, meaning, domain, reference, pullback, 1, **columns))


def _library_function(name: str) -> Callable[..., Any]:
    return getattr(np, name, None) or from_scipy(name)


def _of_one(slope: Callable[[Any, Any, Any], Any]) -> Pullback:
    @wraps(slope)  # its parameters name the result and the operand
    def pullback(g: Any, y: Any, x: Any) -> tuple[Any]:
        return (slope(g, y, x),)

    return pullback


def binary(
    name: str,
    meaning: str,
    domain: Domain,
    slope: Slope | None = None,
    reference: Callable[..., Any] | None = None,
    **columns: Unpack[Columns],
) -> Binary:
    """Register a function of two operands, with their gradients."""
    reference = reference or _library_function(name)
    return _enter(Binary(name, meaning, domain, reference, slope, 2, **columns))


def several(
    arity: int,
    name: str,
    meaning: str,
    domain: Domain,
    slope: Slope | None,
    reference: Callable[..., Any],
    **columns: Unpack[Columns],
) -> Elementwise:
    """Register a function of several operands, with their gradients."""
    return _enter(Elementwise(name, meaning, domain, reference, slope, arity, **columns))


def missing_gradient(row: str, operand: str, x: Tensor) -> GradientError | None:
    """Return the error that a request for a gradient with respect to x raises.

    None for a constant, and for an operand cast from integers.
    """
    if isinstance(x.op, ir.Constant) or (
        isinstance(x.op, Cast) and is_whole(x.inputs[0].type.dtype)
    ):
        return None
    return GradientError(
        f"{row} has no derivative by {operand}, here {x!r}.",
        f"Make {operand} a constant or an integer, or pass it through graphc.disconnected_grad.",
    )


# Arithmetic.

add = binary(
    "add", "a + b", same, lambda g, y, a, b: (g, g), commutes=True, facts=Facts(trend=(1, 1))
)
subtract = binary(
    "subtract",
    "a - b",
    numeric,
    PartialSlopes(lambda g, y, a, b: g, lambda g, y, a, b: -g),
    facts=Facts(trend=(1, -1)),
)
multiply = binary(
    "multiply",
    "a * b",
    same,
    PartialSlopes(lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    commutes=True,
)
divide = binary(
    "divide",
    "a / b",
    quotient,
    PartialSlopes(lambda g, y, a, b: g / b, lambda g, y, a, b: -(g * y / b)),
)
floor_divide = binary(
    "floor_divide",
    "The largest integer not above a / b; an integer divided by zero gives 0",
    real_numeric,
    lambda g, y, a, b: (None, None),
)
remainder = binary(
    "remainder",
    "a - b * floor(a / b), with the sign of b; an integer modulo zero gives 0",
    real_numeric,
    lambda g, y, a, b: (g, -g * floor_divide(a, b)),
)


negative = unary(
    "negative",
    "-x",
    numeric,
    lambda g, y, x: -g,
    facts=Facts(trend=FALLING, fixed=(0,), parity=-1, exact=True, additive=True),
)
abs = unary(
    "abs",
    "|x|",
    magnitude,
    lambda g, y, x: g * sign(x),
    holomorphic=False,
    facts=Facts(range=NONNEGATIVE, fixed=(0, 1), parity=1, exact=True, multiplicative=True),
)
sign: Unary = unary(
    "sign",
    "-1, 0 or 1 for a real x; x / |x| for a complex one",
    numeric,
    lambda g, y, x: _complex_sign_slope(g, y, x) if ir.is_complex(x.dtype) else None,
    holomorphic=False,
    facts=Facts(
        range=(-1.0, 1.0), trend=RISING, fixed=(0, 1), parity=-1, integral=True, exact=True
    ),
)
square = unary(
    "square",
    "x * x",
    numeric,
    lambda g, y, x: g * 2 * x,
    facts=Facts(range=NONNEGATIVE, fixed=(0, 1), parity=1, multiplicative=True),
)
sqrt = unary(
    "sqrt",
    "The square root",
    inexact,
    lambda g, y, x: g / (2 * y),
    facts=Facts(range=NONNEGATIVE, trend=RISING, support=(NONNEGATIVE,), fixed=(0, 1)),
)
reciprocal = unary(
    "reciprocal",
    "1 / x",
    quotient,
    lambda g, y, x: -g * y * y,
    facts=Facts(poles=(0.0,), fixed=(1,), parity=-1),
)


def _complex_sign_slope(g: Any, y: Any, x: Any) -> Any:
    # y = x / r: moving along x leaves it, moving across turns it by dx / r.
    r = abs(x)
    across = (g - y * real(g * conj(y))) / where(equal(r, 0), 1, r)
    return where(equal(r, 0), 0, across)


# Rounding.

floor = unary(
    "floor",
    "The largest integer not above x",
    real_or_bool,
    lambda g, y, x: None,
    identity=is_whole,
    facts=Facts(trend=RISING, fixed=(0, 1), integral=True, exact=True),
)
ceil = unary(
    "ceil",
    "The smallest integer not below x",
    real_or_bool,
    lambda g, y, x: None,
    identity=is_whole,
    facts=Facts(trend=RISING, fixed=(0, 1), integral=True, exact=True),
)
trunc = unary(
    "trunc",
    "x rounded towards zero",
    real_or_bool,
    lambda g, y, x: None,
    identity=is_whole,
    facts=Facts(trend=RISING, fixed=(0, 1), parity=-1, integral=True, exact=True),
)
round = unary(
    "round",
    "The nearest integer, ties to even",
    real_or_bool,
    lambda g, y, x: None,
    np.rint,
    identity=is_whole,
    facts=Facts(trend=RISING, fixed=(0, 1), parity=-1, integral=True, exact=True),
)

# Choices. Where both operands are equal, the first gets the whole gradient.

maximum = binary(
    "maximum",
    "The larger of a and b; NaN where either is",
    real_or_bool,
    lambda g, y, a, b: (where(greater_equal(a, b), g, 0), where(less(a, b), g, 0)),
    facts=Facts(trend=(1, 1), exact=True),
)
minimum = binary(
    "minimum",
    "The smaller of a and b; NaN where either is",
    real_or_bool,
    lambda g, y, a, b: (where(less_equal(a, b), g, 0), where(greater(a, b), g, 0)),
    facts=Facts(trend=(1, 1), exact=True),
)

# Comparisons and logic.

equal = binary("equal", "a == b", predicate, commutes=True)
not_equal = binary("not_equal", "a != b", predicate, commutes=True)
less: Binary = binary("less", "a < b", order_predicate)
less_equal: Binary = binary("less_equal", "a <= b", order_predicate)
greater: Binary = binary("greater", "a > b", order_predicate)
greater_equal: Binary = binary("greater_equal", "a >= b", order_predicate)
isnan = unary("isnan", "Whether x is not a number", predicate)
isinf = unary("isinf", "Whether x is infinite, of either sign", predicate)
isfinite = unary("isfinite", "Whether x is neither infinite nor NaN", predicate)
logical_not = unary("logical_not", "Whether x is zero or false", logical)
logical_and = binary("logical_and", "Whether both are true", logical, commutes=True)
logical_or = binary("logical_or", "Whether either is true", logical, commutes=True)
logical_xor = binary("logical_xor", "Whether exactly one is true", logical, commutes=True)
invert = unary("invert", "Every bit inverted; for bool, not x", integral)
bitwise_and = binary("bitwise_and", "a & b, bit by bit", integral, commutes=True)
bitwise_or = binary("bitwise_or", "a | b, bit by bit", integral, commutes=True)
bitwise_xor = binary("bitwise_xor", "a ^ b, bit by bit", integral, commutes=True)
left_shift = binary("left_shift", "a * 2 ** b by shifting bits", integer)
right_shift = binary("right_shift", "a // 2 ** b by shifting bits", integer)

# Complex numbers. A complex gradient is df/dRe + i df/dIm, so these conjugate nothing.


def _make_complex(a: Any, b: Any) -> Any:
    # Not a + 1j * b: an infinite b would make the real part NaN.
    y = np.empty(np.broadcast_shapes(a.shape, b.shape), f"c{2 * a.dtype.itemsize}")
    y.real, y.imag = a, b
    return y


real = unary(
    "real",
    "The real part",
    magnitude,
    lambda g, y, x: cast(g, x.dtype),
    holomorphic=False,
    identity=is_real,
    facts=Facts(trend=RISING, fixed=(0, 1), parity=-1, exact=True, additive=True),
)
imag = unary(
    "imag",
    "The imaginary part",
    magnitude,
    lambda g, y, x: cast(g, x.dtype) * 1j if ir.is_complex(x.dtype) else None,
    holomorphic=False,
    facts=Facts(fixed=(0,), exact=True, additive=True),
)
conj: Unary = unary(
    "conj",
    "The complex conjugate",
    same,
    lambda g, y, x: conj(g),
    holomorphic=False,
    identity=is_real,
    facts=Facts(
        trend=RISING, fixed=(0, 1), parity=-1, exact=True, additive=True, multiplicative=True
    ),
)
angle = unary(
    "angle",
    "The angle of a complex number, in radians",
    phase,
    lambda g, y, x: g * 1j * x / square(abs(x)) if ir.is_complex(x.dtype) else None,
    holomorphic=False,
    facts=Facts(range=(-math.pi, math.pi), fixed=(0,)),
)
complex = binary(
    "complex",
    "a + i b",
    complex_parts,
    lambda g, y, a, b: (real(g), imag(g)),
    _make_complex,
    holomorphic=False,
)


@dataclass(frozen=True, slots=True)
class Cast(ir.Op):
    """The values in another dtype; of complex numbers only complex ones or bool."""

    dtype: str
    name = "cast"
    core_ndim = 0

    def as_code(self, inputs: Sequence[ir.Node], write: Writer) -> Code:
        return f"{write(inputs[0], ATOM)}.astype({self.dtype!r})", ATOM

    def infer(self, x: ir.TensorType) -> ir.TensorType:
        if ir.is_complex(x.dtype) and not ir.is_complex(self.dtype) and self.dtype != "bool":
            raise DTypeError(
                f"cast: {x!r} to {self.dtype} would drop the imaginary part.",
                "Take the real part first: x.real.",
            )
        return x.with_dtype(self.dtype)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return x.astype(ir.numpy_dtype(self.dtype))

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor | None]:
        if not ir.is_inexact(x.dtype) or not ir.is_inexact(y.dtype):
            return (None,)
        mask, g = split_mask(g)
        g = cast(g if ir.is_complex(x.dtype) else real(g), x.dtype)
        return (g if mask is None else where(mask, g, 0),)

    def pushforward(self, tangents: Sequence[Tensor | None], y: Tensor, x: Tensor) -> Any:
        (tangent,) = tangents
        return cast(tangent, y.dtype) if tangent is not None and ir.is_inexact(y.dtype) else None


@function
def cast(x: TensorLike, dtype: Any) -> Tensor:
    """Return the values in another dtype.

    Args:
        x: Anything that ``as_tensor`` accepts; any shape.
        dtype: Anything that NumPy accepts as a dtype, or ``"floatX"``.

    Returns:
        An array of that dtype and of x's shape; x itself where it has that dtype.

    Raises:
        DTypeError: No such dtype; or x is complex and the dtype is not, nor bool.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.cast([1.7, -1.7], "int64").eval(mode="NUMPY").tolist()
        [1, -1]
    """
    x = as_tensor(x)
    name = ir.dtype_name(dtype)
    return x if x.dtype == name else Tensor.make(Cast(name), x)


@dataclass(frozen=True, slots=True)
class Where(ir.Op):
    """``a`` where a condition holds and ``b`` elsewhere; the three broadcast."""

    name = "where"
    core_ndim = 0

    def infer(self, condition: ir.TensorType, a: ir.TensorType, b: ir.TensorType) -> ir.TensorType:
        if condition.dtype != "bool" or a.dtype != b.dtype:
            raise DTypeError(
                f"where({condition!r}, {a!r}, {b!r}): expected a bool condition and values of one "
                "dtype.",
                "Build it with gt.where, which casts them.",
            )
        return ir.TensorType(a.dtype, broadcast_shapes("where", (condition, a, b)))

    def perform(self, condition: Any, a: Any, b: Any) -> Any:
        return np.where(condition, a, b)

    def pullback(
        self, g: Tensor, y: Tensor, condition: Tensor, a: Tensor, b: Tensor
    ) -> tuple[Tensor | None, ...]:
        if not ir.is_inexact(a.dtype):
            return None, None, None
        return (
            None,
            None if isinstance(a.op, ir.Constant) else unbroadcast(where(condition, g, 0), a),
            None if isinstance(b.op, ir.Constant) else unbroadcast(where(condition, 0, g), b),
        )

    def pushforward(self, tangents: Sequence[Tensor | None], y: Tensor, *inputs: Tensor) -> Any:
        _, a, b = tangents
        if a is None and b is None:
            return None
        tangent = where(inputs[0], 0 if a is None else a, 0 if b is None else b)
        return TABLE["broadcast_to"](tangent, TABLE["shape"](y))

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        return Tensor.make(self, *align_ranks(batched, inputs))


@overload
def where(condition: TensorLike) -> tuple[Tensor, ...]: ...


@overload
def where(condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor: ...


@function
def where(
    condition: TensorLike, a: TensorLike | None = None, b: TensorLike | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Return ``a`` where the condition holds and ``b`` elsewhere; the three broadcast.

    Gradients flow to the chosen branch; the other one never contributes NaN.

    Args:
        condition: Read as bool; any shape.
        a: Values of any dtype; with ``b`` left out too, the result is ``gt.nonzero(condition)``.
        b: Values of any dtype.

    Returns:
        An array of the common dtype and shape of a and b.

    Raises:
        ArgumentError: Exactly one of a and b is given.
        ShapeError: The shapes do not broadcast.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> gt.where(x > 0, gt.sqrt(x), 0).eval({x: [4.0, -1.0]}, mode="NUMPY").tolist()
        [2.0, 0.0]
    """
    if a is None and b is None:
        return TABLE["nonzero"](condition)  # type: ignore[no-any-return]
    if a is None or b is None:
        raise ArgumentError("where takes a condition alone, or a condition and two values.")
    condition = cast(condition, "bool")
    (a, b), _ = operands("where", (a, b))
    return Tensor.make(Where(), condition, a, b)


_clip = _enter(
    Elementwise(
        "clip",
        "x limited to between low and high; the gradient is x's at and between the limits",
        real_or_bool,
        lambda x, low, high: np.minimum(np.maximum(x, low), high),
        lambda g, y, x, low, high: (
            where(logical_and(greater_equal(x, low), less_equal(x, high)), g, 0),
            where(less(x, low), g, 0),
            where(greater(x, high), g, 0),
        ),
        3,
        facts=Facts(trend=(1, 1, 1), exact=True),
    )
)


@function
def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Return x limited to two bounds; its gradient passes at and between them.

    Args:
        x: Real numbers of any shape.
        min: The lower bound, which broadcasts; none by default.
        max: The upper bound, which broadcasts and goes before a larger lower one; none by default.

    Returns:
        An array of the common dtype and shape.

    Raises:
        DTypeError: One of them is complex.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.clip(gt.as_tensor([-1.0, 0.5, 2.0]), 0, 1).eval(mode="NUMPY").tolist()
        [0.0, 0.5, 1.0]
    """
    if min is None or max is None:
        lower = as_tensor(x) if min is None else maximum(x, min)
        return lower if max is None else minimum(lower, max)
    return _clip(x, min, max)
