"""NumPy's functions called with symbolic arrays, dispatched to those of ``graphc.tensor``."""

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
"""NumPy's and SciPy's names of functions that have another one here."""

WHOLE = {
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
"""The functions that NumPy's methods of elementwise functions of two operands are."""

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
    """Return a call of NumPy's function as one of ours, whose parameters may be ordered otherwise.

    What has NumPy's default is left out. Arrays come first in both; from the first name that both
    have, arguments go by name.

    Raises:
        KeyError: Names an argument that ours does not have.
    """
    ours, theirs = _parameters(known), _parameters(numpys)
    if not theirs or any(p.kind is p.VAR_POSITIONAL for p in theirs.values()):
        return list(args), _all_known(kwargs, ours)
    names = list(theirs)
    named = [n in ours and not _by_place(ours[n]) and not _by_place(theirs[n]) for n in names]
    arrays = named.index(True) if True in named else len(names)
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    given = {k: v for k, v in given.items() if v is not theirs[k].default}
    first = [given.pop(name) for name in names[:arrays] if name in given]
    return first, _all_known(given, ours)


def _by_place(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.POSITIONAL_ONLY


def whole_arguments(
    known: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the same for ``np.add.reduce`` and the like, which reduce the first axis by default.

    Raises:
        KeyError: Names an argument that ours does not have.
    """
    x, *rest = args
    names = ("axis", "dtype", "out", "keepdims", "initial", "where")
    given = {"axis": 0} | dict(zip(names, rest, strict=False)) | dict(kwargs)
    axis = given.pop("axis")
    return [x, axis], _all_known(given, _parameters(known))


def _all_known(given: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments given a value, by name; None counts as one where it is not our default."""
    asked = {name for name, parameter in ours.items() if parameter.default is not None}
    given = {
        k: v for k, v in given.items() if v is not np._NoValue and (v is not None or k in asked)
    }
    for name in given:
        if ours and name not in ours:
            raise KeyError(name)
    return given
