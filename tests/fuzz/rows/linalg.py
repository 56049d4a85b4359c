"""Linear algebra: values that do not depend on the choice of a basis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.row import DOUBLE, INEXACT, MATRICES, Choice, Choose, row
from tests.fuzz.values import Value

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing


def matrix(dtypes: frozenset[str] = MATRICES, most: int = 3) -> Choose:
    """A square matrix, or a batch of them."""

    def choose(g: Growing) -> Choice | None:
        x = g.any(lambda v: _is_square(v) and v.dtype in dtypes and v.ndim <= most)
        return x and Choice((x.name,))

    return choose


def _is_square(x: Value) -> bool:
    return x.ndim >= 2 and x.shape[-1] == x.shape[-2] > 0


def near_identity(g: Growing) -> Choice | None:
    """Any matrix, whose product with its transpose is to be made positive definite."""
    x = g.any(lambda v: v.ndim in {2, 3} and v.dtype in DOUBLE and v.shape[-2])
    return x and Choice((x.name,), {"n": f"{x.name}.shape[-2]"})


row(
    "positive_definite",
    "np.matmul({0}, np.swapaxes({0}, -1, -2)) / (1 + np.sum({0} * {0})) + 3 * np.eye({n})",
    near_identity,
    weight=4,
    ulps=4,
    accumulates=True,
)


def equations(g: Growing) -> Choice | None:
    """A square matrix and a right side of one dtype."""
    a = g.any(lambda v: _is_square(v) and v.ndim == 2 and v.dtype in MATRICES)
    b = a and g.any(lambda v: v.ndim in {1, 2} and v.dtype == a.dtype and v.shape[0] == a.shape[0])
    return b and Choice((a.name, b.name))


for _name, _choose in (
    ("inv", matrix()),
    ("det", matrix()),
    ("cholesky", matrix(DOUBLE)),
    ("eigvalsh", matrix(DOUBLE)),
    ("pinv", matrix(DOUBLE, 2)),
):
    row(
        f"linalg.{_name}",
        f"np.linalg.{_name}(finite({{0}}))",
        _choose,
        f"gt.linalg.{_name}({{0}})",
        ulps=64,
        accumulates=True,
    )
row("linalg.solve", "np.linalg.solve({0}, {1})", equations, weight=3, ulps=64, accumulates=True)
row(
    "slogdet",
    "logabsdet({0})",
    matrix(),
    "gt.linalg.slogdet({0})[1]",
    weight=1,
    ulps=64,
    accumulates=True,
)


def _power(g: Growing) -> Choice | None:
    found = matrix(INEXACT - {"float16"}, 2)(g)
    return found and Choice(found.operands, {"n": str(g.integer(0, 4))})


row(
    "matrix_power",
    "np.linalg.matrix_power({0}, {n})",
    _power,
    weight=1,
    ulps=32,
    accumulates=True,
)
row(
    "expm",
    "expm({0})",
    matrix(DOUBLE),
    "gt.linalg.expm({0})",
    ulps=512,
    accumulates=True,
)


def of_singular_values(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim in {2, 3} and v.dtype in MATRICES and v.array.size)
    return x and Choice((x.name,))


row(
    "svdvals",
    "np.linalg.svd(finite({0}), compute_uv=False)",
    of_singular_values,
    "gt.linalg.svd({0}, compute_uv=False)",
    ulps=64,
    accumulates=True,
)


def _normed(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim in {1, 2} and v.dtype in MATRICES)
    return x and Choice((x.name,))


row("norm", "np.linalg.norm({0})", _normed, cusp=True, ulps=8, accumulates=True)
row(
    "qr",
    "triangle({0})",
    of_singular_values,
    "gt.abs(gt.linalg.qr({0}, mode='economic')[1])",
    ulps=64,
    accumulates=True,
)


def triangular(g: Growing) -> Choice | None:
    found = equations(g)
    return found and Choice(found.operands, {"lower": g.pick(["True", "False"])})


row(
    "solve_triangular",
    "scipy.linalg.solve_triangular({0}, {1}, lower={lower})",
    triangular,
    "gt.linalg.solve_triangular({0}, {1}, lower={lower})",
    weight=1,
    ulps=64,
    accumulates=True,
)
