"""NumPy's functions called with symbolic arrays, dispatched to functions of ``graphc.tensor``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

OTHER_NAMES = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "astype": "cast",
    "concat": "concatenate",
    "fix": "trunc",
    "permute_dims": "transpose",
    "conjugate": "conj",
    "bitwise_not": "invert",
    "true_divide": "divide",
    "mod": "remainder",
    "degrees": "rad2deg",
    "radians": "deg2rad",
    "copy": "tensor_copy",
    "norm": "norm_as_in_numpy",
    "expit": "sigmoid",
    "log_expit": "log_sigmoid",
    "psi": "digamma",
}
"""NumPy's and SciPy's names of functions that have another name here."""

UFUNC_METHODS = {
    ("add", "reduce"): "sum",
    ("multiply", "reduce"): "prod",
    ("maximum", "reduce"): "max",
    ("minimum", "reduce"): "min",
    ("logical_and", "reduce"): "all",
    ("logical_or", "reduce"): "any",
    ("logaddexp", "reduce"): "logsumexp",
    ("add", "accumulate"): "cumsum",
    ("multiply", "accumulate"): "cumprod",
    ("maximum", "accumulate"): "cummax",
    ("minimum", "accumulate"): "cummin",
    ("logaddexp", "accumulate"): "logcumsumexp",
}
"""The functions for methods of NumPy's elementwise functions of two operands."""

DIFFERENT = {
    "atleast_3d": "gt.atleast_3d puts all new axes in front: write x[None, :, None] of a vector.",
    "split": "gt.split takes the lengths of the parts; gt.array_split takes NumPy's arguments.",
}
"""NumPy's functions that mean something else here, as in PyTensor; and their replacements."""

IN_PLACE = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
"""NumPy's functions that write into their first argument."""


@cache
def _parameters(f: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(f).parameters
    except ValueError:
        return {}


def arguments_for(
    numpys: Any, known: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of NumPy's function for ours, whose parameters may have another order.

    Arguments that equal NumPy's defaults are left out. Arrays come first in both; from the first
    common name on, arguments are passed by name.

    Raises:
        KeyError: Our function lacks an argument, which the error names.
    """
    ours, theirs = _parameters(known), _parameters(numpys)
    if not theirs or any(p.kind is p.VAR_POSITIONAL for p in theirs.values()):
        return list(args), _select_arguments(kwargs, ours)
    names = list(theirs)
    named = [n in ours and not _by_place(ours[n]) and not _by_place(theirs[n]) for n in names]
    arrays = named.index(True) if True in named else len(names)
    arguments = dict(zip(names, args, strict=False)) | dict(kwargs)
    arguments = {k: v for k, v in arguments.items() if v is not theirs[k].default}
    first = [arguments.pop(name) for name in names[:arrays] if name in arguments]
    return first, _select_arguments(arguments, ours)


def _by_place(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.POSITIONAL_ONLY


def ufunc_method_arguments(
    known: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of ``np.add.reduce`` or the like, which reduces the first axis.

    Raises:
        KeyError: Our function lacks an argument, which the error names.
    """
    x, *rest = args
    names = ("axis", "dtype", "out", "keepdims", "initial", "where")
    arguments = {"axis": 0} | dict(zip(names, rest, strict=False)) | dict(kwargs)
    axis = arguments.pop("axis")
    return [x, axis], _select_arguments(arguments, _parameters(known))


def _select_arguments(arguments: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with a value, by name; None is one unless it is our default."""
    nullable = {name for name, parameter in ours.items() if parameter.default is not None}
    arguments = {
        k: v
        for k, v in arguments.items()
        if v is not np._NoValue and (v is not None or k in nullable)
    }
    for name in arguments:
        if ours and name not in ours:
            raise KeyError(name)
    return arguments
