"""Cases of graphc.random: what its operations give, and gradients of draws whose share stays."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import stats

import graphc.tensor as gt
from graphc.random.gamma_family import Gamma, LogGamma
from graphc.random.gaussian import Wald
from graphc.random.generator import as_generator
from graphc.random.reparameterized import ReparameterizedDraw
from graphc.random.vonmises import VonMises
from tests.contract.case import Case
from tests.contract.values import plain
from tests.random.by_hand import bits_by_hand, hash_by_hand

PLACES = (2, 3)


def _keys(dtype: str) -> Any:
    return np.random.default_rng(0).integers(0, 2**32, (3, 2), dtype)


def _words(i: int) -> Any:
    return np.random.default_rng(i).integers(0, 2**32, PLACES, "uint32")


def _shares(i: int) -> Any:
    return np.random.default_rng(i).uniform(0.1, 0.9, PLACES)


SOURCES: dict[type[ReparameterizedDraw], tuple[Any, Any]] = {
    Gamma: (_words(0), _words(1)),
    LogGamma: (_words(2), _words(3)),
    VonMises: (_words(4), _words(5)),
    Wald: (stats.norm.ppf(_shares(6)), _shares(7)),
}

COUNTERPARTS: dict[type[ReparameterizedDraw], Any] = {
    Gamma: stats.gamma,
    LogGamma: stats.loggamma,
    VonMises: stats.vonmises,
    Wald: lambda a: stats.invgauss(1 / a, scale=a),
}


@cache
def _first(op: type[ReparameterizedDraw]) -> tuple[Any, Any]:
    """The numbers of the plain parameters, and the shares of smaller ones."""
    a = np.exp(plain("float64", PLACES))
    with np.errstate(all="ignore"):
        y = op().perform(*SOURCES[op], a)
    return y, COUNTERPARTS[op](a).cdf(y)


def _of_share(op: type[ReparameterizedDraw], x: Any) -> Any:
    """The numbers that have the same shares of smaller ones, by Newton's rule."""
    y, share = _first(op)
    distribution = COUNTERPARTS[op](np.exp(x))
    for _ in range(5):
        y = y - (distribution.cdf(y) - share) / distribution.pdf(y)
    return y


def _drawn(op: type[ReparameterizedDraw]) -> Case:
    def draw(x: Any) -> Any:
        return gt.Tensor.make(op(), *map(gt.as_tensor, SOURCES[op]), gt.exp(x))

    return Case(draw, (PLACES,), ("float64",), lambda x: _of_share(op, x))


FAMILIES: dict[str, dict[str, Case]] = {
    "random": {
        **{
            f"bits of width {width}": Case(
                lambda key, width=width: gt.random.random_bits(key, (4, 2), width),
                ((3, 2),), ("uint32",), lambda key, width=width: bits_by_hand(key, (4, 2), width),
                values=_keys,
            )
            for width in (8, 16, 32, 64)
        },
        "split": Case(
            lambda key: gt.random.split(key, (2, 2)), ((3, 2),), ("uint32",),
            lambda key: np.array(
                [[hash_by_hand(tuple(k), (0, i)) for i in range(4)] for k in key.tolist()],
                "uint32",
            ).reshape(-1, 2, 2, 2),
            values=_keys,
        ),
        "a generator": Case(
            lambda key: gt.random.fold_in(as_generator(key), 7), ((3, 2),), ("uint32",),
            lambda key: np.array([hash_by_hand(tuple(k), (0, 7)) for k in key.tolist()], "uint32"),
            values=_keys,
        ),
        "gamma": _drawn(Gamma),
        "log gamma": _drawn(LogGamma),
        "von Mises": _drawn(VonMises),
        "Wald": _drawn(Wald),
    },
}  # fmt: skip
