"""The powers of a matrix, a polynomial, and a Jacobian row by row, each by a scan."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

MATRIX = np.array([[0.5, -1.0], [0.25, 2.0]])
COEFFICIENTS = np.array([1.0, 0.0, -2.0, 0.5])


def program() -> list[Any]:
    k = pt.iscalar("k")
    a = pt.matrix("a")
    powers = graphc.scan(
        fn=lambda prior, a: prior @ a,
        outputs_info=pt.eye(a.shape[0]),
        non_sequences=a,
        n_steps=k,
    )
    power = graphc.function(inputs=[a, k], outputs=powers[-1])

    coefficients, x = pt.vectors("coefficients", "x")
    terms = graphc.scan(
        fn=lambda coefficient, exponent, at: coefficient * at**exponent,
        outputs_info=None,
        sequences=[coefficients, pt.arange(coefficients.shape[0])],
        non_sequences=x[0],
    )
    value = terms.sum()

    y = x**2 * pt.sin(x[::-1])
    rows = graphc.scan(
        lambda i, y, x: graphc.grad(y[i], x), sequences=pt.arange(y.shape[0]), non_sequences=[y, x]
    )
    f = graphc.function([coefficients, x], [value, graphc.grad(value, x)[0], rows])
    return [power(MATRIX, 1), power(MATRIX, 5), *f(COEFFICIENTS, [1.5, -0.5])]


def expected() -> list[Any]:
    a, b = 1.5, -0.5
    return [
        MATRIX,
        np.linalg.matrix_power(MATRIX, 5),
        1 - 2 * a**2 + 0.5 * a**3,
        -4 * a + 1.5 * a**2,
        [
            [2 * a * np.sin(b), a**2 * np.cos(b)],
            [b**2 * np.cos(a), 2 * b * np.sin(a)],
        ],
    ]
