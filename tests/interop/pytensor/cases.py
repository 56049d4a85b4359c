"""Graphs of PyTensor's operations, by what they show, each with values of its inputs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import disconnected_grad, grad, grad_clip, grad_scale, zero_grad
from pytensor.graph.replace import vectorize_graph
from pytensor.raise_op import Assert
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.fft import irfft, rfft
from pytensor.tensor.signal import convolve1d

try:
    from pytensor.conditional.op import ifelse
except ModuleNotFoundError:  # as it is up to PyTensor 3.2
    from pytensor.ifelse import ifelse

try:
    from pytensor.tensor.linalg import eigvalsh
except ImportError:  # as it is in PyTensor 2
    from pytensor.tensor.slinalg import eigvalsh

random = np.random.default_rng(0)


class Case(NamedTuple):
    """A graph: its inputs, outputs, and values of the inputs."""

    inputs: list[Any]
    outputs: list[Any]
    values: list[Any]


CASES: dict[str, Callable[[], Case]] = {}


def case(
    lacking: str = "", by: str = "", static: dict[str, Any] | None = None, **values: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A graph of inputs with these values, as a function of PyTensor variables.

    Args:
        lacking: Modes that cannot run it, for reasons of their own.
        by: The inputs by which gradients of the outputs' squares are taken too, by their letters.
        static: The static shapes of inputs; no length is known of others.
        values: For each input.
    """

    def decorate(build: Callable[..., Any]) -> Callable[..., Any]:
        def made() -> Case:
            arrays = {name: np.asarray(value) for name, value in values.items()}
            inputs = {
                name: pt.tensor(
                    name, dtype=x.dtype.name, shape=(static or {}).get(name, (None,) * x.ndim)
                )
                for name, x in arrays.items()
            }
            outputs = list(build(**inputs))
            floats = [y for y in outputs if y.dtype in {"float32", "float64"}]
            if by:
                cost = sum((y.astype("float64") ** 2).sum() for y in floats)
                outputs += grad(cost, [inputs[name] for name in by])
            return Case(list(inputs.values()), outputs, list(arrays.values()))

        CASES[build.__name__] = made
        made.lacking = lacking.split()  # type: ignore[attr-defined]
        return build

    return decorate


def normal(*shape: int, dtype: str = "float64") -> Any:
    return random.normal(size=shape).astype(dtype)


A = random.uniform(0.2, 0.9, (2, 3))


# Elements.


@case(x=A, by="x")
def functions_of_any_number(x: Any) -> Any:
    names = (
        "exp expm1 exp2 log log2 log10 log1p sqrt sqr sin cos tan arcsin arccos arctan sinh cosh "
    )
    names += "tanh arcsinh arctanh sigmoid softplus deg2rad rad2deg neg abs reciprocal"
    return [getattr(pt, name)(x) for name in names.split()] + [pt.arccosh(x + 1)]


@case(x=A, by="x")
def special_functions(x: Any) -> Any:
    names = "erf erfc erfcx erfinv erfcinv gamma gammaln psi tri_gamma j0 j1 i0 i1"
    return [getattr(pt, name)(x) for name in names.split()] + [pt.log1mexp(-x), pt.special.logit(x)]


@case(a=A, b=A[:, ::-1], by="b")
def special_functions_of_two(a: Any, b: Any) -> Any:
    a = disconnected_grad(a)
    return [
        pt.gammainc(a, b),
        pt.gammaincc(a, b),
        pt.jv(2.0, b),
        pt.iv(1.0, b),
        pt.betainc(a, 2.0, b),
    ]


@case(a=A, b=A[:, ::-1])
def inverses_of_special_functions(a: Any, b: Any) -> Any:
    return [pt.gammaincinv(a, b), pt.gammainccinv(a, b), pt.betaincinv(a, 2.0, b), pt.owens_t(a, b)]


@case(a=A, x=np.array([0.2, 0.5, 0.7]), by="ax")
def loops_of_scalars_in_gradients(a: Any, x: Any) -> Any:
    return [pt.gammainc(a + 1, x), pt.betainc(a, 1.5, x), pt.hyp2f1(a, 1.5, 2.5, x)]


@case(x=np.array([-1.5, -0.5, 0.5, 1.5, 2.5, np.nan, np.inf]))
def rounding(x: Any) -> Any:
    names = "floor ceil trunc round_half_to_even round_half_away_from_zero sign isnan isinf"
    return [getattr(pt, name)(x) for name in names.split()]


NUMBERS = {
    "float64": random.uniform(1, 4, (3, 1)),
    "float32": random.uniform(1, 4, (3, 1)).astype("float32"),
    "int64": random.integers(1, 5, (3, 1)),
    "int8": random.integers(1, 5, (3, 1)).astype("int8"),
    "uint8": random.integers(1, 5, (3, 1)).astype("uint8"),
    "bool": random.random((3, 1)) < 0.5,
}
MIXED = (
    "float64 int8",
    "int64 float32",
    "int8 uint8",
    "int8 int64",
    "bool float64",
    "float32 bool",
)

for pair in MIXED:
    first, second = pair.split()

    @case(
        a=NUMBERS[first], b=NUMBERS[second].ravel() + np.ones((), second), static={"a": (None, 1)}
    )
    def arithmetic(a: Any, b: Any) -> Any:
        names = "add mul true_div int_div mod pow maximum minimum eq neq lt le gt ge second"
        return [getattr(pt, name)(a, b) for name in names.split()] + [pt.switch(a, b, 2)]

    CASES[f"arithmetic of {pair}"] = CASES.pop("arithmetic")


@case(
    a=np.array([1, 2, 7], "int32"), b=np.array([3, 0, 9], "int32"), c=np.array([True, False, True])
)
def bits(a: Any, b: Any, c: Any) -> Any:
    bools = [~c, c & c, c | ~c, c ^ c, c * c, c + c, pt.sqr(c), pt.int_div(c, ~c | c), c % (~c | c)]
    return [a & b, a | b, a ^ b, ~a, *bools, pt.switch(c, a, b), a.astype("bool")]


@case(lacking="MLX", z=normal(3) + 1j * normal(3), w=normal(3))
def complex_numbers(z: Any, w: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):
        polar = pt.complex_from_polar(pt.abs(w), w)
    return [z.real, z.imag, pt.abs(z), pt.conj(z), pt.complex(w, w + 1), z * w, pt.exp(z), polar]


@case(x=normal(3, 4), low=-np.abs(normal(4)), by="x")
def choices(x: Any, low: Any) -> Any:
    return [pt.clip(x, low, 1.0), pt.where(x > 0, x, 0), pt.isclose(x, x + 1e-9), pt.allclose(x, x)]


@case(x=normal(3, 4), y=normal(1, 4), static={"y": (1, None)})
def graphs_of_scalars(x: Any, y: Any) -> Any:
    a, b = ps.float64("a"), ps.float64("b")
    found = Elemwise(ps.Composite([a, b], [a * b + ps.exp(a), a + 1]))(y, x)
    s = pt.scalar_from_tensor(x[0, 0])
    return [*found, pt.tensor_from_scalar(ps.add(ps.mul(s, s), ps.constant(2.0)))]


# Reductions.


@case(x=normal(2, 3, 4), by="x")
def reductions(x: Any) -> Any:
    found = [
        f(x, axis=axis) for f in (pt.sum, pt.prod, pt.mean, pt.max) for axis in (None, 0, (0, 2))
    ]
    return [*found, x.var(axis=1), pt.logsumexp(x, axis=-1), pt.sum(x, axis=1, keepdims=True)]


@case(x=normal(2, 3, 4))
def places_of_extremes(x: Any) -> Any:
    return [f(x, axis=axis) for f in (pt.argmax, pt.argmin) for axis in (None, 0, -1)]


ZEROS = np.where(random.random((4, 3)) < 0.5, 0.0, random.uniform(1, 2, (4, 3)))


@case(x=ZEROS, by="x")
def products_with_zeros(x: Any) -> Any:
    return [x.prod(1), x.prod()]


@case(
    x=random.integers(1, 9, (3, 4)).astype("int32"),
    b=random.integers(1, 9, (3, 4)).astype("int8"),
    t=random.random((3, 4)) > 0.5,
)
def reductions_of_integers(x: Any, b: Any, t: Any) -> Any:
    by_bits = [
        CAReduce(op, axis=axis)(x) for op in (ps.xor, ps.and_, ps.or_) for axis in (None, (0,))
    ]
    sums = [x.sum(), b.sum(0), b.prod(1), x.mean(), t.sum(), pt.sum(x, dtype="float32")]
    return [*by_bits, *sums, x.max(0), t.any(0), t.all(1), CAReduce(ps.xor, axis=(0,))(t)]


# Shapes.


@case(x=normal(3, 1, 4), static={"x": (None, 1, None)}, by="x")
def axes(x: Any) -> Any:
    moved = [x.dimshuffle(2, "x", 0), x.transpose(2, 0, 1), x.T, pt.moveaxis(x, 0, -1)]
    return [*moved, x.squeeze(1), pt.expand_dims(x, (0, -1)), x.flatten(2), x.ravel()]


@case(x=normal(3, 4), n=2)
def lengths(x: Any, n: Any) -> Any:
    shapes = [
        x.shape,
        x.shape[0] + n,
        x.size,
        x.reshape((n, -1)),
        x.reshape((x.shape[1], x.shape[0])),
    ]
    made = [
        pt.zeros((n, 2)),
        pt.ones_like(x),
        pt.eye(n),
        pt.eye(3, 4, 1),
        pt.arange(n),
        pt.tri(3, 4, 1),
    ]
    wide = [pt.alloc(x, n, 3, 4), pt.broadcast_to(x, (n, 3, 4)), pt.linspace(0, 1, 5)]
    return [*shapes, *made, *wide, pt.specify_shape(x, (3, None)), pt.arange(2, n + 4, 2)]


@case(x=normal(3, 4), y=normal(2, 4), i=random.integers(0, 5, (3, 2)), by="xy")
def joined_and_split(x: Any, y: Any, i: Any) -> Any:
    joined = [pt.concatenate([x, y], 0), pt.concatenate([x, i], 1), pt.stack([x, x], 1)]
    parts = [*pt.split(x, [1, 2], n_splits=2, axis=0), *pt.split(x, [1, 3], n_splits=2, axis=1)]
    again = [pt.tile(x, (2, 3)), pt.repeat(x, 3, axis=0), pt.repeat(x, np.array([1, 0, 2]), axis=0)]
    return [*joined, *parts, *again, pt.roll(x, 1, axis=1), pt.flip(x)]


@case(x=normal(3, 4), v=normal(5), by="x")
def sorted_and_searched(x: Any, v: Any) -> Any:
    ordered = [pt.sort(x), pt.sort(x, 0), pt.argsort(x, 1), pt.cumsum(x, 1), pt.cumprod(x, 0)]
    return [*ordered, pt.searchsorted(pt.sort(v), x), pt.searchsorted(pt.sort(v), x, side="right")]


@case(lacking="JAX MLX", v=np.array([3, 0, 2, 0, 3, 5]), m=np.array([[3, 0, 2], [0, 3, 5]]))
def distinct_and_nonzero_elements(v: Any, m: Any) -> Any:
    results = pt.unique(v, return_index=True, return_inverse=True, return_counts=True)
    of_matrix = [*pt.unique(m, return_inverse=True), *pt.unique(m, return_inverse=True, axis=1)]
    return [*results, *of_matrix, *pt.nonzero(v)]


@case(x=normal(3), n=2)
def diagonals_and_places(x: Any, n: Any) -> Any:
    square = pt.outer(x, x)
    filled = [pt.fill_diagonal(square, 0.0), pt.extra_ops.fill_diagonal_offset(square, 0.5, 1)]
    flat = pt.extra_ops.ravel_multi_index((pt.as_tensor([1, 2]), pt.as_tensor([0, 1])), (3, 4))
    places = [flat, *pt.unravel_index(pt.as_tensor([1, 7]), (3, 4)), pt.extra_ops.bartlett(n + 3)]
    return [pt.diag(x), pt.diag(square), pt.tril(square), pt.triu(square, 1), *filled, *places]


# Indexing.

INDEX = {"i": 2, "iv": np.array([0, 2, 2]), "im": np.array([[0, 1], [2, 3]])}


@case(x=normal(4, 4, 4), **INDEX, by="x")
def indexed(x: Any, i: Any, iv: Any, im: Any) -> Any:
    basic = [x[-1], x[i], x[:i], x[::-1], x[i:, 0], x[..., 1], x[:, None, 1:3], x[-i:], x[i::-1]]
    arrays = [x[iv], x[:, iv], x[im], x[iv, :, iv], x[iv, iv], x[im, 0], x[:, im, 1:], x[i, iv]]
    return [
        *basic,
        *arrays,
        x[iv[:, None], iv],
        pt.take_along_axis(x, pt.argsort(x, axis=1), axis=1),
    ]


@case(lacking="JAX MLX", x=normal(4, 4), m=np.array([True, False, True, True]), by="x")
def masked(x: Any, m: Any) -> Any:
    return [x[m], x[m, 0], x[x > 0], x[m.nonzero()], x[m].set(1.5), x[m].inc(2.0)]


@case(x=normal(4, 4), by="x")
def reduced_and_replaced_by_masks(x: Any) -> Any:
    return [x[x > 0].sum(), x[x > 0].set(0.0), x[x < 0].inc(1.0)]


@case(x=normal(4, 4), y=normal(4), **INDEX, by="xy")
def written(x: Any, y: Any, i: Any, iv: Any, im: Any) -> Any:
    basic = [x[0].set(y), x[i].inc(y), x[1:].set(2.0), x[:, i].inc(1.0), x[::2].inc(y)]
    arrays = [
        x[iv].inc(y),
        x[iv].set(1.0),
        x[iv, iv].inc(3.0),
        x[:, iv].inc(1.0),
        x[im, 0].inc(y[:2]),
    ]
    return [*basic, *arrays, pt.inc_subtensor(x[iv], 1.0, ignore_duplicates=True)]


# Products and linear algebra.


@case(a=normal(4, 4), b=normal(4, 4), v=normal(4), t=normal(2, 4, 4), i=NUMBERS["int64"], by="ab")
def products(a: Any, b: Any, v: Any, t: Any, i: Any) -> Any:
    plain = [a @ b, a.dot(v), v.dot(v), pt.outer(v, v), i.T @ i, a[:, :3] @ i]
    return [
        *plain,
        pt.tensordot(t, b, 1),
        t @ b,
        t @ v,
        pt.einsum("ij,jk->ik", a, b),
        pt.matvec(t, v),
    ]


@case(a=normal(4, 4), b=normal(4), t=normal(2, 4, 4), by="ab")
def systems(a: Any, b: Any, t: Any) -> Any:
    s, st = a @ a.T + 5 * pt.eye(4), t @ t.transpose(0, 2, 1) + 5 * pt.eye(4)
    lower = pt.linalg.cholesky(s)
    solved = [pt.linalg.solve(s, b, assume_a=kind) for kind in ("gen", "sym", "pos")]
    triangular = [pt.linalg.solve_triangular(lower, b, lower=True, trans=trans) for trans in (0, 1)]
    return [lower, pt.linalg.cholesky(st), *solved, pt.linalg.solve(st, t), *triangular]


@case(a=normal(4, 4), b=normal(4))
def factorisations(a: Any, b: Any) -> Any:
    s = a @ a.T + 5 * pt.eye(4)
    parts = [pt.linalg.eigh(s)[0], pt.linalg.svd(a, compute_uv=False), *pt.linalg.lu(s)[1:]]
    parts += [*pt.linalg.lu_factor(s), *[pt.abs(x) for x in pt.linalg.qr(a)], pt.linalg.expm(a / 4)]
    both = pt.linalg.cho_solve((pt.linalg.cholesky(s), True), b)
    return [*parts, both, pt.linalg.pinv(a), pt.linalg.block_diag(a, s), pt.linalg.norm(a)]


@case(a=normal(3, 3), by="a")
def determinants(a: Any) -> Any:
    s = a @ a.T + 5 * pt.eye(3)
    return [pt.linalg.det(s), *pt.linalg.slogdet(s), pt.linalg.inv(s), pt.linalg.eigh(s)[0]]


@case(a=normal(3, 3), b=normal(3, 3), by="ab")
def generalized_eigenvalues(a: Any, b: Any) -> Any:
    return [eigvalsh(a + a.T, b @ b.T + 3 * pt.eye(3)) * np.arange(3.0)]


@case(a=normal(3, 3), q=normal(3, 3), by="aq")
def matrix_equations(a: Any, q: Any) -> Any:
    s = a @ a.T + 5 * pt.eye(3)
    return [pt.linalg.solve_sylvester(s, s, q), pt.linalg.solve_discrete_lyapunov(a / 10, q)]


@case(x=normal(2, 3, 3))
def batches_of_any_operation(x: Any) -> Any:
    core = pt.matrix("core")
    y = pt.sort(core[:, 1:].cumsum(0), axis=0)[::-1].dot(core.T[1:].sum(1))
    return vectorize_graph([y, pt.diag(core), pt.repeat(core, 2, axis=0)], {core: x})


# The rest.


@case(x=normal(3, 4), by="x")
def softmaxes(x: Any) -> Any:
    found = [pt.special.softmax(x, axis=axis) for axis in (-1, 0, None)]
    return [*found, pt.special.log_softmax(x, axis=1), pt.special.log_softmax(x, axis=0)]


@case(lacking="MLX", x=normal(3, 8), by="x")
def fourier_transforms(x: Any) -> Any:
    return [rfft(x), irfft(rfft(x)), rfft(x, norm="ortho")]


@case(x=normal(8), k=normal(3), m=normal(2, 8), by="k")
def convolutions(x: Any, k: Any, m: Any) -> Any:
    return [*[convolve1d(x, k, mode=mode) for mode in ("full", "valid", "same")], convolve1d(m, k)]


@case(x=normal(3, 4))
def padding(x: Any) -> Any:
    modes = "constant reflect wrap mean linear_ramp"
    return [pt.pad(x, ((1, 2), (0, 1)), mode=mode) for mode in modes.split()]


@case(x=normal(3), n=2, by="x")
def choices_of_graphs_and_barriers(x: Any, n: Any) -> Any:
    barriers = [grad_clip(x, -0.1, 0.1), zero_grad(x), disconnected_grad(x), grad_scale(x, 3.0)]
    checked = Assert("x is large")(x, x.sum() < 100)
    return [ifelse(n > 1, x * 2, x + 1), ifelse(n, x * 2, x + 1), checked, *barriers, x]


@case(x=normal(3), by="x")
def graphs_as_operations(x: Any) -> Any:
    a, b = pt.vectors("ab")
    y, z = OpFromGraph([a, b], [a * b, a.sum()])(x, x + 1)

    def seven(inputs: Any, outputs: Any, gradients: Any) -> Any:
        return [gradients[0] * 7, gradients[0] * inputs[0]]

    names = inspect.signature(OpFromGraph.__init__).parameters
    name = "pullback" if "pullback" in names else "lop_overrides"
    own = OpFromGraph([a, b], [a * b], **{name: seven})
    return [y, z, own(x, x + 1)]
