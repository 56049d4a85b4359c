"""JAX functions whose primitives have converters, with arguments: at least one case a primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["CASES", "Case"]


class Case(NamedTuple):
    """A function of arrays, and arrays for it.

    Attributes:
        function: It.
        args: The arrays; floating-point ones are float64.
        grows: Whether the first axis of the first array may have any length.
    """

    function: Callable[..., Any]
    args: tuple[np.ndarray, ...]
    grows: bool = False


rng = np.random.default_rng(0)
X, A, B = rng.normal(size=5), rng.normal(size=(5, 5)), rng.normal(size=(5, 3))
POSITIVE = X**2 + 0.5
SQUARE = A @ A.T + 5 * np.eye(5)
IMAGE, KERNEL = rng.normal(size=(2, 3, 6, 7)), rng.normal(size=(4, 3, 3, 2))
I = np.array([3, 0, 4, -1])  # noqa: E741
M, N = np.array([7, -7, 5, -1, 9], "int32"), np.array([2, 2, -3, 3, 0], "int32")
BITS = np.array([0, 1, 0x7FFFFF, 0x3F800001, 0x7F800000, 0xC2290000, 0xFF800000], "uint32")
KEY = np.array([0, 42], "uint32")


def of_elements(x: Any) -> Any:
    return (
        *(jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.sinh(x), jnp.cosh(x), jnp.tanh(x), jnp.exp(x)),
        *(jnp.expm1(x), jnp.exp2(x), jnp.cbrt(x), jnp.abs(x), jnp.sign(x), jnp.floor(x), x**3),
        *(jnp.ceil(x), jnp.round(x), lax.round(x), jnp.isfinite(x), jnp.arctan(x), jnp.arcsinh(x)),
        *(
            jax.nn.sigmoid(x),
            lax.square(x),
            lax.reduce_precision(x, 11, 52),
            x.astype("float32"),
            x.astype(int),
            -x,
            jnp.sinc(x),
        ),
    )


def of_positive(x: Any) -> Any:
    return (
        *(
            jnp.log(x),
            jnp.log2(x),
            jnp.log1p(x),
            jnp.sqrt(x),
            lax.rsqrt(x),
            jnp.arccosh(x + 1),
            x**0.3,
            x**-2,
        ),
        *(jnp.arcsin(x / 9), jnp.arccos(x / 9), jnp.arctanh(x / 9), jnp.arctan2(x, -x), 1 / x),
        jnp.log2(x),
        *(x**x, jnp.minimum(x, 1.0), jnp.maximum(x, 1), jnp.clip(x, 0.6, 0.9), x % 0.4),
    )


def of_special(x: Any) -> Any:
    special = jax.scipy.special
    return (
        *(special.gammaln(x), special.digamma(x), special.erf(x), special.erfc(x)),
        *(special.erfinv(x / 9), special.i0e(x), special.i1e(x), special.zeta(x + 1, x)),
        *(special.polygamma(1, x), special.xlogy(x, x), jax.nn.gelu(x), jax.nn.silu(x)),
        *(jax.scipy.stats.norm.logpdf(x), jax.nn.softplus(x), jax.nn.relu(x), jax.nn.elu(x)),
    )


def of_integers(a: Any, b: Any) -> Any:
    return (
        lax.nextafter(a.astype(float), b.astype(float)),
        *(lax.div(a, b), lax.rem(a, b), a + b, a - b, a * b, ~a, a ^ b, a & b, a | b, a**2),
        *(a << abs(b), a >> abs(b), lax.shift_right_logical(a, abs(b)), lax.shift_left(a, b)),
        *(lax.population_count(a), lax.max(a, b), jnp.clip(a, -2, 6), a == b, a != b, a <= b),
        *((a > 0) & (b > 0), (a > 0) | (b > 0), (a > 0) ^ (b > 0), ~(a > 0), a.sum(), a.prod()),
    )


def of_shapes(a: Any) -> Any:
    return (
        *(jnp.pad(a, ((1, 2), (0, 3))), lax.pad(a, 0.0, ((1, -2, 1), (0, 0, 2))), a.T, a[:, ::-1]),
        *(jnp.concatenate([a, a[:2]]), jnp.roll(a, 2, axis=0), jnp.tile(a, (2, 1)), jnp.tril(a)),
        *(*jnp.split(a, [2], axis=0), a.reshape(-1, 5, 1), jnp.eye(3), jnp.stack([a, 2 * a])),
        *jnp.unstack(a[:2], axis=1),
        *(jnp.repeat(a, 2, axis=1), lax.broadcast_in_dim(a, (5, 2, 5), (0, 2)), jnp.ravel(a)),
        *(jnp.where(a > 0, a, 0), a[:, None], jnp.arange(4.0) * 2, lax.select_n(I % 3, *[I] * 3)),
    )


def reads(a: Any, i: Any) -> Any:
    return (
        *(a[1:], a[::-1], a[-1], a[1:4:2], a[i], a[:, i], a[i, i], a[i[0]], a[i[0], 1:3], a[i, 1:]),
        *(
            jnp.take(a, i, axis=1),
            jnp.take(a, I + 3, axis=0, mode="fill"),
            a.at[9].get(mode="fill"),
        ),
        *(jnp.take_along_axis(a, jnp.argsort(a, axis=1), axis=1), jnp.take(a, I + 3, mode="clip")),
        *(lax.dynamic_slice(a, (i[0], i[2]), (2, 3)), lax.dynamic_index_in_dim(a, i[1])),
        *(a[i][:, i], a[jnp.ix_(i[:2], i[1:])], a[i[:, None], i], jnp.diagonal(a), jnp.trace(a)),
        jax.vmap(lambda row, at: lax.dynamic_slice(row, (at,), (2,)))(a[:4], i),
    )


def writes(x: Any, a: Any, i: Any) -> Any:
    return (
        *(x.at[2].set(3.0), x.at[jnp.array([0, 0, 9])].add(jnp.array([1.0, 2.0, 5.0]))),
        *(x.at[1:3].multiply(2.0), x.at[jnp.array([1, 3])].set(7.0), x.at[i[0]].min(-3.0)),
        *(a.at[i].add(a[:4]), a.at[:, i[1]].set(x), a.at[i, i].subtract(x[:4]), a.at[i[:3]].set(x)),
        *(x.at[i[2] + 3].set(9.0), x.at[i + 3].set(x[:4], mode="drop"), a.at[1:3, i[0]].max(0.5)),
        *(lax.dynamic_update_slice(a, a[:2, :2], (i[0], i[1])), a.at[4:, 1:].set(-1.0)),
        jax.vmap(lambda row, at: row.at[at].set(8.0))(a[:4], i),
    )


def reductions(a: Any) -> Any:
    return (
        *(a.max(0), a.min(), a.mean(1), a.std(), jnp.prod(a, 0), a.argmax(1), a.argmin(0)),
        *(jnp.any(a > 2), jnp.all(a > -9, axis=0), jax.nn.logsumexp(a, 1), jnp.cumsum(a, 0)),
        *(jnp.cumprod(a, 1), lax.cummax(a, reverse=True), lax.cummin(a), lax.cumlogsumexp(a)),
        *(jnp.max(jnp.zeros((0, 2)), 1), jax.nn.softmax(a), jnp.linalg.norm(a), jnp.var(a, 1)),
    )


def sorting(a: Any) -> Any:
    return (
        *(jnp.sort(a, axis=0), jnp.argsort(a[0]), *lax.top_k(a, 2), jnp.median(a, axis=1)),
        *lax.sort((jnp.round(a[0]), a[1], a[2]), num_keys=2),
        *(jnp.searchsorted(jnp.sort(a[0]), a[1]), jnp.interp(a[0], jnp.arange(3.0), a[1, :3])),
    )


def images(image: Any, kernel: Any) -> Any:
    strided = lax.conv_general_dilated(image, kernel, (1, 2), "SAME")
    last = jnp.moveaxis(image, 1, -1)[0]
    dilated = lax.conv_general_dilated(
        *(last, jnp.ones((3, 1, 6)) * jnp.arange(6.0), (2,), [(2, -1)]),
        lhs_dilation=(2,),
        rhs_dilation=(2,),
        dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=3,
    )
    return (
        *(
            strided,
            dilated,
            lax.reduce_window(last, -jnp.inf, lax.max, (1, 2, 1), (1, 2, 1), "SAME"),
        ),
        *(lax.reduce_window(last, 0.0, lax.add, (2, 3, 1), (1, 1, 1), "VALID"),),
        lax.reduce_window(last, jnp.inf, lax.min, (2, 2, 1), (2, 1, 1), "VALID"),
    )


def products(a: Any, b: Any) -> Any:
    stacks = a[None] * jnp.arange(1.0, 3.0)[:, None, None], b[None] - jnp.ones((2, 1, 1))
    return (
        *(a @ b, jnp.einsum("ij,jk->ki", a, b), jnp.einsum("nij,njk->nik", *stacks), a[0] @ a[1]),
        *(jnp.outer(a[0], b[0]), jnp.tensordot(a, b, 1), jax.vmap(jnp.dot)(a, a), a @ b[:, 0]),
        lax.dot(I, I, preferred_element_type="float64"),
    )


def systems(a: Any, b: Any) -> Any:
    return (
        *(jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.slogdet(a)),
        *(jnp.linalg.cholesky(a), jax.scipy.linalg.solve_triangular(a, b, lower=True)),
        jax.scipy.linalg.solve_triangular(a, b, trans=1),
        *(jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), b), jnp.linalg.eigvalsh(a)),
    )


def factors(a: Any) -> Any:
    q, r = jnp.linalg.qr(a)
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    values, vectors = jnp.linalg.eigh(a + a.T)
    return abs(q @ r), s, (u * s) @ vt, values, (vectors * values) @ vectors.T


def transforms(x: Any) -> Any:
    half = jnp.fft.rfft(x)
    turned = jnp.conj(lax.complex(x, x[::-1]))
    return (
        turned.imag,
        jnp.abs(half),
        jnp.fft.irfft(half, 5),
        jnp.fft.fft(x).real,
        jnp.fft.ifft(x).imag,
    )


def draws(key: Any) -> Any:
    one, two = jax.random.split(key)
    return (
        *(jax.random.normal(key, (3,)), jax.random.uniform(one, (2, 2)), jax.random.bits(two)),
        *(
            jax.random.bernoulli(jax.random.fold_in(key, 3), 0.3, (5,)),
            jax.random.randint(two, (4,), 0, 99),
        ),
        *(
            jax.random.normal(one, (2,), "float32"),
            jax.random.key_data(jax.random.wrap_key_data(key)),
            jax.random.uniform(jax.random.key(key[1].astype("int32"))),
        ),
    )


def scans(x: Any, a: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        return jnp.tanh(a @ carry) + row, carry.sum()

    backwards = lax.scan(lambda c, t: (c * 0.5 + t, c), 0.0, x, reverse=True)
    return (
        lax.scan(step, jnp.ones(5), x),
        backwards,
        lax.scan(lambda c, _: (c * x, None), x, None, 3),
    )


def loops(x: Any) -> Any:
    counted = lax.fori_loop(0, 4, lambda i, total: total * x + i, x)
    return counted, lax.map(lambda t: t * t, x), lax.associative_scan(jnp.add, x)


def until(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2 + x), (0, x))


def branches(x: Any) -> Any:
    which = (x[0] > 0).astype(int) + 1
    return (
        *(
            lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
            lax.switch(which, [jnp.sin, jnp.cos, jnp.exp], x),
        ),
        jax.vmap(lambda t: lax.cond(t > 0, jnp.sin, jnp.cos, t))(x),
    )


@jax.custom_vjp
def doubled(x: Any, y: Any) -> Any:
    """A product whose derivative by x is twice the true one."""
    return x * y


doubled.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, g: (2 * g * kept[1], g * kept[0]))


@jax.custom_jvp
def tripled(x: Any) -> Any:
    """A sine whose derivative is three times the true one."""
    return jnp.sin(x)


tripled.defjvp(lambda xs, ts: (tripled(*xs), 3 * jnp.cos(*xs) * ts[0]))


def rules(x: Any) -> Any:
    return (
        *(doubled(x, x[::-1]), tripled(x), jax.grad(lambda x: tripled(x).sum())(x)),
        *(lax.stop_gradient(x) * x, jax.checkpoint(jnp.sin)(x), jax.jit(jnp.cos)(x)),
    )


def derivatives(x: Any, a: Any) -> Any:
    def loss(x: Any) -> Any:
        return jnp.sum(jnp.tanh(a @ x) ** 2)

    return jax.grad(loss)(x), jax.hessian(loss)(x), jax.jvp(loss, (x,), (jnp.ones(5),))


CASES = {
    "elements": Case(of_elements, (X,), grows=True),
    "positive": Case(of_positive, (POSITIVE,), grows=True),
    "special": Case(of_special, (POSITIVE,), grows=True),
    "betas": Case(
        lambda x: (
            jax.scipy.special.betainc(2.0, 1.5, x / 9),
            jax.scipy.special.gammainc(1.5, x),
            jax.scipy.special.gammaincc(1.5, x),
        ),
        (POSITIVE,),
        grows=True,
    ),
    "integers": Case(of_integers, (M, N)),
    "bits": Case(lambda x: lax.bitcast_convert_type(x, "float32"), (BITS,), grows=True),
    "shapes": Case(of_shapes, (A,)),
    "reads": Case(reads, (A, I)),
    "writes": Case(writes, (X, A, I)),
    "reductions": Case(reductions, (A,), grows=True),
    "sorting": Case(sorting, (A,)),
    "images": Case(images, (IMAGE, KERNEL)),
    "products": Case(products, (A, B)),
    "systems": Case(systems, (SQUARE, B)),
    "factors": Case(factors, (A,)),
    "transforms": Case(transforms, (X,)),
    "draws": Case(draws, (KEY,)),
    "scans": Case(scans, (X, A)),
    "loops": Case(loops, (X,)),
    "until": Case(until, (X,), grows=True),
    "branches": Case(branches, (X,)),
    "rules": Case(rules, (X,), grows=True),
    "derivatives": Case(derivatives, (X, A)),
    "growing": Case(
        lambda a: (a[1:], a.mean(), a.reshape(-1), jnp.arange(a.shape[0] // 2) + a.shape[0]),
        (A,),
        grows=True,
    ),
    "pairs": Case(
        lambda x, y: (x * y, jnp.concatenate([x, y]), x[::-1] + y), (X, X + 1), grows=True
    ),
}
