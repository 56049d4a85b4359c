"""Arrays that examples of rules are made of, and values for those that are inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor import Tensor
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.core.shape import Length

__all__ = [
    "VALUES",
    "Example",
    "c",
    "columns",
    "entries",
    "flags",
    "half",
    "make",
    "n",
    "repeated_scalar",
    "rows",
    "scalar",
    "small",
    "truth",
    "two",
    "w",
    "wide",
    "x",
]

x, w = gt.matrix("x"), gt.vector("w")
c = gt.tensor("c", shape=(2, 1, 3))
truth = gt.tensor("truth", dtype="bool", shape=(None,))
small = gt.tensor("small", dtype="int8", shape=(None,))
half = gt.tensor("half", dtype="float16", shape=(None,))
scalar = gt.scalar("scalar")
n = gt.lscalar("n")

random = np.random.default_rng(0)
VALUES: dict[Node, Any] = {
    x: random.normal(size=(3, 4)),
    w: random.normal(size=4),
    c: random.normal(size=(2, 1, 3)),
    truth: np.array([True, False, True, True]),
    small: np.array([-128, -1, 0, 127], np.int8),
    half: np.array([1e-3, 0.5, -0.25, 2e-5], np.float16),
    scalar: 1.25,
    n: 3,
}

make = Tensor.make
two = gt.constant(2)
flags = gt.constant([True, False, True, True])
rows, columns = make(Length(0), x), make(Length(1), x)
entries = make(Length(0), w)
wide = make(BroadcastTo((3, None), ()), w, entries)
repeated_scalar = make(BroadcastTo((None,), ()), scalar, entries)

Example = tuple[Node, Node]
