"""The log-probability of a label over all its alignments, with blanks between its letters."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

import graphc
import graphc.tensor as pt

SCORES = np.random.default_rng(9).normal(size=(5, 3))
LABEL = [1, 1]
WITH_BLANKS = np.array([0, 1, 0, 1, 0])


def program() -> list[Any]:
    scores, label = pt.matrix("scores"), pt.lvector("label")
    logp = pt.log_softmax(scores, axis=1)
    never = pt.constant([-1e30, -1e30])
    may_skip = pt.neq(label[2:], label[:-2]) & pt.neq(label[2:], 0)
    skips = pt.concatenate([never, pt.where(may_skip, 0.0, -1e30)])

    def step(logp_t: Any, a: Any) -> Any:
        one = pt.concatenate([never[:1], a[:-1]])
        two = pt.concatenate([never, a[:-2]]) + skips
        return pt.logsumexp(pt.stack([a, one, two]), axis=0) + logp_t[label]

    first = pt.where(pt.arange(label.shape[0]) < 2, logp[0][label], -1e30)
    last = graphc.reduce(step, logp[1:], outputs_info=first)
    total = pt.logaddexp(last[-1], last[-2])
    f = graphc.function([scores, label], [total, graphc.grad(total, scores)])
    return list(f(SCORES, WITH_BLANKS))


def expected() -> list[Any]:
    logp = log_softmax(SCORES, axis=1)
    paths = [
        path
        for path in product(range(3), repeat=5)
        if [c for c, _ in groupby(path) if c != 0] == LABEL
    ]
    each = np.array([sum(logp[t, c] for t, c in enumerate(path)) for path in paths])
    share = np.zeros((5, 3))
    for path, p in zip(paths, softmax(each), strict=True):
        share[np.arange(5), path] += p
    return [logsumexp(each), share - softmax(SCORES, axis=1)]
