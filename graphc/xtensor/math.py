"""Elementwise functions of arrays with named dimensions, and products summed over some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import getdoc, signature
from string import ascii_letters
from typing import Any

from graphc import tensor
from graphc.errors import ArgumentError, AxisError
from graphc.tensor.core.tensor import is_weak
from graphc.xtensor.align import Dim, align, check_dims, dim_lengths, select_dims, with_lengths
from graphc.xtensor.methods import TABLE, method
from graphc.xtensor.type import XTensor, as_xtensor


def apply_by_name(title: str, f: Callable[..., Any], xs: Sequence[Any]) -> XTensor:
    """Apply a function that broadcasts by position to operands aligned by name.

    Args:
        title: The function's name in messages.
        f: The function.
        xs: Arrays with named dimensions; scalars; and None, which is passed unchanged.
    """
    operands = [x if x is None or is_weak(x) else _operand(title, x) for x in xs]
    named = [x for x in operands if isinstance(x, XTensor)]
    arrays, dims = align(title, operands, named)
    return XTensor(f(*arrays), dims)


def _operand(title: str, x: Any) -> XTensor:
    try:
        return as_xtensor(x)
    except ArgumentError as error:
        raise ArgumentError(error.problem.replace("as_xtensor", title), error.remedy) from None


def elementwise(name: str) -> Callable[..., XTensor]:
    """Return the function of ``graphc.tensor`` of a name for arrays with named dimensions."""
    f = getattr(tensor, name)

    def apply(*xs: Any) -> XTensor:
        return apply_by_name(name, f, xs)

    meaning = getattr(f, "meaning", None) or (getdoc(f) or "").partition("\n")[0].rstrip(".")
    apply.__name__ = apply.__qualname__ = name
    apply.__signature__ = signature(f)  # type: ignore[attr-defined]
    apply.__doc__ = (
        f"{meaning}; dimensions are aligned by name.\n\n"
        f"Its arguments are as for ``graphc.tensor.{name}``."
    )
    return method(apply)


(
    abs, add, angle, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, betainc,
    betaincinv, bitwise_and, bitwise_or, bitwise_xor, ceil, complex, conjugate, cos, cosh,
    deg2rad, equal, erf, erfc, erfcinv, erfcx, erfinv, exp, exp2, expm1, floor, floor_divide,
    gamma, gammainc, gammaincc, gammainccinv, gammaincinv, gammal, gammaln, gammau, greater,
    greater_equal, hyp2f1, i0, i1, identity, imag, invert, isinf, isnan, iv, ive, j0, j1, jv,
    kve, less, less_equal, log, log10, log1mexp, log1p, log2, logical_and, logical_not,
    logical_or, logical_xor, maximum, minimum, mod, multiply, ndtri_exp, negative, not_equal,
    owens_t, polygamma, power, psi, rad2deg, real, reciprocal, second, sigmoid, sign, sin, sinh,
    softplus, sqrt, square, subtract, tan, tanh, tri_gamma, true_divide, trunc,
) = map(elementwise, (
    "abs", "add", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "betainc", "betaincinv", "bitwise_and", "bitwise_or", "bitwise_xor", "ceil",
    "complex", "conjugate", "cos", "cosh", "deg2rad", "equal", "erf", "erfc", "erfcinv",
    "erfcx", "erfinv", "exp", "exp2", "expm1", "floor", "floor_divide", "gamma", "gammainc",
    "gammaincc", "gammainccinv", "gammaincinv", "gammal", "gammaln", "gammau", "greater",
    "greater_equal", "hyp2f1", "i0", "i1", "identity", "imag", "invert", "isinf", "isnan", "iv",
    "ive", "j0", "j1", "jv", "kve", "less", "less_equal", "log", "log10", "log1mexp", "log1p",
    "log2", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum",
    "mod", "multiply", "ndtri_exp", "negative", "not_equal", "owens_t", "polygamma", "power",
    "psi", "rad2deg", "real", "reciprocal", "second", "sigmoid", "sign", "sin", "sinh",
    "softplus", "sqrt", "square", "subtract", "tan", "tanh", "tri_gamma", "true_divide",
    "trunc",
))  # fmt: skip

# Other names for the same.

and_ = bitwise_and
bitwise_invert = bitwise_not = invert
conj = TABLE["conj"] = conjugate
eq = equal
expit = sigmoid
floor_div = int_div = floor_divide
ge, gt = greater_equal, greater
le, lt = less_equal, less
mul = multiply
neg = negative
neq = not_equal
or_ = bitwise_or
pow = power
sqr = square
sub = subtract
true_div = true_divide
xor = bitwise_xor


@method
def cast(x: Any, dtype: Any) -> XTensor:
    """Return the values in another dtype.

    Args:
        x: Any dimensions.
        dtype: The dtype, or ``"floatX"``.

    Raises:
        DTypeError: A complex array as a real one.
    """
    x = as_xtensor(x)
    return XTensor(tensor.cast(x.values, dtype), x.dims)


@method
def clip(x: Any, min: Any = None, max: Any = None) -> XTensor:
    """Return the values, none below ``min`` or above ``max``.

    Args:
        x: Any dimensions.
        min: Bounds below, aligned by name; None for none.
        max: Bounds above.
    """
    return apply_by_name("clip", tensor.clip, (x, min, max))


@method
def round(x: Any, decimals: int = 0) -> XTensor:
    """Return the values rounded to a number of decimals, halves to the even neighbour.

    Args:
        x: Any dimensions.
        decimals: The number of decimals; a negative one rounds before the point.
    """
    x = as_xtensor(x)
    return XTensor(tensor.round(x.values, decimals), x.dims)


@method
def where(cond: Any, ift: Any, iff: Any) -> XTensor:
    """Return the elements of one array where a condition holds, else of another.

    Args:
        cond: The condition.
        ift: The elements where it holds.
        iff: The elements elsewhere.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.xtensor("x", dims=("city",))
        >>> where(x > 0, x, 0.0).eval({x: [-1.0, 2.0]}, mode="NUMPY")
        array([0., 2.])
    """
    return apply_by_name("where", tensor.where, (cond, ift, iff))


switch = where


@method
def softmax(x: Any, dim: Dim = None) -> XTensor:
    """Return ``exp(x) / exp(x).sum(dim)``, without overflow.

    Args:
        x: Any dimensions.
        dim: Dimensions to sum over, all by default.
    """
    x = as_xtensor(x)
    axes = tuple(x.dims.index(each) for each in select_dims("softmax", x, dim))
    return XTensor(tensor.softmax(x.values, axis=axes), x.dims)


@method
def logsumexp(x: Any, dim: Dim = None) -> XTensor:
    """Return ``log(exp(x).sum(dim))``, without overflow.

    Args:
        x: Any dimensions.
        dim: Dimensions to sum over, all by default.
    """
    x = as_xtensor(x)
    dims = select_dims("logsumexp", x, dim)
    result = tensor.logsumexp(x.values, axis=tuple(x.dims.index(each) for each in dims))
    return XTensor(result, [each for each in x.dims if each not in dims])


@method
def dot(x: Any, y: Any, dim: Dim = None) -> XTensor:
    """Return the products of two arrays, aligned by name, summed over dimensions.

    Args:
        x: Any dimensions.
        y: Any dimensions.
        dim: The dimensions to sum over, ``...`` for all; by default the common ones.

    Returns:
        An array with the remaining dimensions; the ones of ``x`` come first.

    Raises:
        AxisError: Neither array has a dimension.
        ShapeError: A dimension has two lengths.

    Example:
        >>> import graphc.xtensor as gx
        >>> x, y = gx.xtensor("x", dims=("a", "b")), gx.xtensor("y", dims=("b", "c"))
        >>> dot(x, y).dims, dot(x, y, dim=("a", "b")).dims, dot(x, y, dim=...).dims
        (('a', 'c'), ('c',), ())
    """
    xs = [_operand("dot", each) for each in (x, y)]
    lengths = dim_lengths("dot", xs)
    if dim is None:
        dims = tuple(each for each in xs[0].dims if each in xs[1].dims)
    else:
        dims = tuple(lengths) if dim is Ellipsis else check_dims("dot", dim)
    missing = [each for each in dims if each not in lengths]
    if missing:
        raise AxisError(
            f"dot({xs[0]!r}, {xs[1]!r}): neither has the dimension {missing[0]!r}.",
            f"They have {', '.join(map(repr, lengths))}.",
        )
    remaining = [each for each in lengths if each not in dims]
    letter = dict(zip(lengths, ascii_letters, strict=False))
    operands = ["".join(letter[each] for each in part.dims) for part in xs]
    subscripts = f"{','.join(operands)}->{''.join(letter[each] for each in remaining)}"
    return XTensor(
        tensor.einsum(subscripts, *[with_lengths("dot", each, lengths) for each in xs]), remaining
    )


__all__ = [name for name, value in globals().items() if value in TABLE.values()]
