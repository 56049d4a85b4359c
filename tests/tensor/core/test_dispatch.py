"""NumPy's own functions, given symbolic arrays, build graphs, or say what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.errors import SymbolicValueError
from tests.reference import evaluate

X = np.random.default_rng(2).normal(size=(3, 4))
V = X[0]

BY_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda x, v: np.exp(x)[:, 1:],
    "add": lambda x, v: np.add(V, v),
    "rint": lambda x, v: np.rint(x + v),
    "degrees": lambda x, v: np.degrees(x[0]),
    "hypot": lambda x, v: np.hypot(v, x[0]),
    "divmod": lambda x, v: np.divmod(x, 2),
    "multiply.outer": lambda x, v: np.multiply.outer(v, x),
    "subtract.outer": lambda x, v: np.subtract.outer(v, 1.0),
    "add.reduce": lambda x, v: np.add.reduce(x),
    "add.reduce over axes": lambda x, v: np.add.reduce(x, (0, 1), keepdims=True),
    "add.reduce by place": lambda x, v: np.add.reduce(x, 1, None, None, True),
    "multiply.reduce": lambda x, v: np.multiply.reduce(x, axis=1, initial=2.0),
    "maximum.reduce": lambda x, v: np.maximum.reduce(x),
    "minimum.reduce of all": lambda x, v: np.minimum.reduce(x, axis=None),
    "logical_or.reduce": lambda x, v: np.logical_or.reduce(x > 1, axis=1),
    "logaddexp.reduce": lambda x, v: np.logaddexp.reduce(v),
    "add.accumulate": lambda x, v: np.add.accumulate(x, 1),
    "maximum.accumulate": lambda x, v: np.maximum.accumulate(x),
    "concatenate": lambda x, v: np.concatenate([x, x], axis=1),
    "stack": lambda x, v: np.stack([v, V], axis=1),
    "where": lambda x, v: np.where(x > 0, x, v),
    "clip": lambda x, v: np.clip(x, 0, 1),
    "sum by place": lambda x, v: np.sum(x, 0, None, None, True),
    "max by place": lambda x, v: np.max(x, 0, None, True),
    "amax": lambda x, v: np.amax(x, axis=1),
    "mean": lambda x, v: np.mean(x, axis=1, keepdims=True),
    "std": lambda x, v: np.std(x, 0, ddof=1),
    "cumsum": lambda x, v: np.cumsum(x, 1),
    "sort": lambda x, v: np.sort(x, axis=0),
    "argsort": lambda x, v: np.argsort(x),
    "searchsorted": lambda x, v: np.searchsorted(np.sort(v), v, side="right"),
    "median": lambda x, v: np.median(x, axis=0),
    "quantile": lambda x, v: np.quantile(x, [0.1, 0.5], axis=0, method="lower"),
    "take": lambda x, v: np.take(x, [0, 5], 1, mode="clip"),
    "round": lambda x, v: np.round(x, 1),
    "interp": lambda x, v: np.interp(v, [0, 1], [2, 3], left=-1),
    "cov": lambda x, v: np.cov(x, bias=True),
    "histogram": lambda x, v: np.histogram(x, 4),
    "isclose": lambda x, v: np.isclose(x, v, rtol=0.1),
    "unique": lambda x, v: np.unique(x, return_counts=True),
    "take_along_axis": lambda x, v: np.take_along_axis(x, np.argsort(x), -1),
    "nansum": lambda x, v: np.nansum(x, axis=0),
    "fix": lambda x, v: np.trunc(x),
    "concat": lambda x, v: np.concat([v, v]),
    "permute_dims": lambda x, v: np.permute_dims(x, (1, 0)),
    "reshape": lambda x, v: np.reshape(x, (4, 3)),
    "ndim": lambda x, v: v * np.ndim(x),
}


@pytest.mark.parametrize("name", BY_NUMPY)
def test_numpys_function_of_a_symbolic_array_is_ours(name: str) -> None:
    f = BY_NUMPY[name]
    x, v = gt.matrix("x"), gt.vector("v")
    given, wanted = f(x, v), f(X, V)
    if not isinstance(wanted, tuple):
        given, wanted = (given,), (wanted,)
    for found, expected in zip(evaluate(given, {x: X, v: V}), wanted, strict=True):
        assert found.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12)


T, S = gt.matrix("x"), gt.vector("v")
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "writes": (lambda: np.put_along_axis(T, S, 1, 0), r"x\[index\]\.set"),
    "adds in place": (lambda: np.add.at(T, 0, 1), r"\.inc\(value\)"),
    "a mask": (lambda: np.exp(T, where=T > 0), "without NumPy's keywords"),
    "an output": (lambda: np.sum(T, out=np.zeros(4)), "np.sum with out="),
    "an output of a reduction": (lambda: np.add.reduce(T, out=X), "np.add.reduce with out="),
    "an argument that ours lacks": (lambda: np.std(T, correction=1), "with correction="),
    "reduceat": (lambda: np.add.reduceat(S, [0]), "np.add.reduceat"),
    "no reduction": (lambda: np.subtract.reduce(T), "np.subtract.reduce"),
    "no function": (lambda: np.polyfit(S, S, 1), "graphc.tensor's functions"),
    "no elementwise function": (lambda: np.isnat(S), "graphc.tensor's functions"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_numpy_alone_has_is_refused_with_the_users_line(what: str) -> None:
    make, message = REFUSED[what]
    with pytest.raises(SymbolicValueError, match=message) as caught:
        make()
    assert "test_dispatch.py:" in str(caught.value)


@pytest.mark.parametrize(("f", "remedy"), [(np.split, "array_split"), (np.atleast_3d, "in front")])
def test_what_means_something_else_here_is_refused(f: Any, remedy: str) -> None:
    with pytest.raises(SymbolicValueError, match=remedy):
        f(gt.vector("x"), *([[1, 2]] if f is np.split else []))
