"""Checks of derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.errors import GradientError, VerificationError
from graphc.grad.reverse import grad
from graphc.ir import TensorType, is_float, unwrap
from graphc.tensor import Tensor, as_tensor, constant, sum

STEPS = {"float64": 1e-6, "float32": 1e-3}
"""About the cube root of the machine epsilon, where central differences are most accurate."""

TOLERANCES = {"float64": 1e-5, "float32": 2e-2}


def verify_grad(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    fun: Callable[..., Any],
    pt: Sequence[Any],
    n_tests: int = 2,
    rng: np.random.Generator | None = None,
    eps: float | None = None,
    abs_tol: float | None = None,
    rel_tol: float | None = None,
    mode: Any = None,
) -> None:
    """Raise where a function's gradient disagrees with central finite differences.

    The function's result is multiplied by random numbers and summed; the gradient of that scalar
    is compared element by element. The gradient is 0 for arguments without influence.

    Args:
        fun: A function from symbolic arrays to a real floating array.
        pt: The point: a float32 or float64 array for each argument.
        n_tests: The number of random projections.
        rng: A generator for the projections; by default one with the seed 0.
        eps: The step; by default 1e-6 in float64, 1e-3 in float32.
        abs_tol: The absolute error allowed; by default 1e-5 in float64, 2e-2 in float32.
        rel_tol: The relative error allowed, with the same default.
        mode: The mode of evaluation; NUMPY by default.

    Raises:
        VerificationError: If an element's gradient and finite difference disagree.
        GradientError: If an argument or the result is not real floating.

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> graphc.verify_grad(lambda x: gt.tanh(x) ** 2, [np.array([0.5, -1.0])])
    """
    rng = rng or np.random.default_rng(0)
    points = [np.asarray(p) for p in pt]
    xs = [TensorType(p.dtype, p.shape)(f"x{i}") for i, p in enumerate(points)]
    if not all(is_float(x.dtype) and x.dtype in STEPS for x in xs):
        raise GradientError("verify_grad: the point is not of float32 or float64 arrays.")
    y = as_tensor(unwrap(fun(*xs)))
    if y.dtype not in STEPS:
        raise GradientError(f"verify_grad: the function gave {y!r}, not a real floating array.")
    narrowest = min((y.dtype, *(p.dtype.name for p in points)), key=lambda d: -STEPS[d])
    step = eps or STEPS[narrowest]
    tolerance = TOLERANCES[narrowest]
    limits = (abs_tol or tolerance, rel_tol or tolerance)
    shape = y.eval(dict(zip(xs, points, strict=True)), mode=mode or "NUMPY").shape
    for _ in range(n_tests):
        cost = sum(y * constant(rng.uniform(0.5, 1.5, shape), dtype=y.dtype))
        _compare(cost, xs, points, step, limits, mode or "NUMPY")


def _compare(
    cost: Tensor,
    xs: list[Tensor],
    points: list[np.ndarray[Any, Any]],
    step: float,
    limits: tuple[float, float],
    mode: Any,
) -> None:
    gradients = grad(cost, xs, disconnected_inputs="ignore")
    for i, (x, gradient) in enumerate(zip(xs, gradients, strict=True)):
        values = dict(zip(xs, points, strict=True))
        actual = np.asarray(gradient.eval(values, mode=mode))
        for index in np.ndindex(points[i].shape):
            ends = []
            for sign in (1, -1):
                moved = points[i].copy()
                moved[index] += sign * step
                ends.append((moved[index], float(cost.eval({**values, x: moved}, mode=mode))))
            (a, above), (b, below) = ends
            expected = (above - below) / float(a - b)
            error = abs(actual[index] - expected)
            if not error <= limits[0] + limits[1] * abs(expected):
                raise VerificationError(
                    f"The gradient by argument {i} at {index} is {actual[index]}; finite "
                    f"differences give {expected}.",
                    f"The error {error:.3g} is above {limits[0]:.3g} + {limits[1]:.3g} * "
                    f"|{expected:.3g}|.",
                    cost.where,
                )
