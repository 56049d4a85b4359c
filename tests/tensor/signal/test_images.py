"""Convolution and pooling of images, beside JAX's and finite differences, on every backend."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.link import names

FORMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 7, 6), (5, 3, 3, 2), {}),
    "stride": ((2, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 3)}),
    "stride over a long kernel": ((1, 2, 11, 13), (3, 2, 5, 4), {"stride": 2, "padding": 1}),
    "padding": ((2, 1, 5, 4), (3, 1, 3, 3), {"padding": ((1, 2), (0, 3))}),
    "same": ((2, 3, 7, 9), (4, 3, 4, 3), {"padding": "same", "stride": (2, 1)}),
    "dilation": ((2, 3, 9, 8), (4, 3, 3, 2), {"dilation": (2, 3), "padding": (1, 2)}),
    "dilation and stride": ((1, 2, 12, 13), (3, 2, 3, 4), {"dilation": (2, 3), "stride": (3, 2)}),
    "groups": ((2, 6, 7, 5), (9, 2, 3, 2), {"groups": 3, "stride": 2, "padding": 1}),
    "a channel a group": ((2, 4, 6, 5), (8, 1, 2, 3), {"groups": 4, "dilation": 2}),
}


def by_jax(
    x: Any, w: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    def pair(n: Any) -> Any:
        return n if isinstance(n, tuple) else (n, n)

    sides = padding.upper() if isinstance(padding, str) else [pair(n) for n in pair(padding)]
    return lax.conv_general_dilated(
        x, w, pair(stride), sides, rhs_dilation=pair(dilation), feature_group_count=groups
    )


def arrays(form: str, dtype: str = "float64") -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape in FORMS[form][:2]]


@pytest.mark.parametrize("mode", names())
@pytest.mark.parametrize("form", FORMS)
def test_a_convolution_and_its_gradients_are_jaxs(form: str, mode: str) -> None:
    (x, w), options = arrays(form), FORMS[form][2]

    def loss(x: Any, w: Any) -> Any:
        y = by_jax(x, w, **options)
        return jax.numpy.sin(y).sum(), y

    with jax.enable_x64(True):
        slopes, wanted = jax.jit(jax.grad(loss, (0, 1), has_aux=True))(x, w)
    for shape in (x.shape, (None, None, None, None)):
        a, b = gt.tensor("a", shape=shape), gt.tensor("b", shape=w.shape)
        y = gt.signal.conv2d(a, b, **options)
        f = graphc.function([a, b], [y, *graphc.grad(gt.sin(y).sum(), [a, b])], mode)
        for found, expected in zip(f(x, w), [wanted, *slopes], strict=True):
            np.testing.assert_allclose(found, expected, 1e-9, 1e-11)


@pytest.mark.parametrize("mode", names())
def test_a_kernel_of_unknown_lengths_is_taken(mode: str) -> None:
    x, w = arrays("groups", "float32")
    a, b = gt.tensor4("a", dtype="float32"), gt.tensor4("b", dtype="float32")
    f = graphc.function([a, b], gt.signal.conv2d(a, b, padding="same", groups=3), mode)
    np.testing.assert_allclose(f(x, w), by_jax(x, w, padding="same", groups=3), 1e-4, 1e-5)


POOLS = [(2, None, 0), ((3, 2), (2, 1), 1), ((2, 4), 3, "same")]


@pytest.mark.parametrize("mode", names())
@pytest.mark.parametrize(("size", "stride", "padding"), POOLS)
def test_max_pool2d_and_avg_pool2d_have_the_values_of_jax(
    size: Any, stride: Any, padding: Any, mode: str
) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 7, 9))
    sizes, steps = (n if isinstance(n, tuple) else (n, n) for n in (size, stride or size))
    sides = "SAME" if padding == "same" else [(0, 0), (0, 0), *[(padding, padding)] * 2]
    a = gt.tensor4("a")
    ys = [gt.signal.max_pool2d(a, size, stride, padding)]
    ys.append(gt.signal.avg_pool2d(a, size, stride, padding))
    found = graphc.function([a], ys, mode)(x)
    with jax.enable_x64(True):
        for y, add, first, number in zip(
            found, (lax.max, lax.add), (-np.inf, 0.0), (1, np.prod(sizes)), strict=True
        ):
            pooled = lax.reduce_window(x, first, add, (1, 1, *sizes), (1, 1, *steps), sides)
            np.testing.assert_allclose(y, pooled / number, 1e-12, 1e-12)


@pytest.mark.parametrize(("size", "stride", "padding"), POOLS)
def test_gradients_of_max_pool2d_and_avg_pool2d_are_finite_differences(
    size: Any, stride: Any, padding: Any
) -> None:
    x = np.random.default_rng(1).standard_normal((2, 1, 5, 7))
    for pool in (gt.signal.avg_pool2d, gt.signal.max_pool2d):
        graphc.verify_grad(lambda a, pool=pool: pool(a, size, stride, padding), [x])


def test_a_pool_of_large_windows_has_few_operations() -> None:
    x = gt.tensor4("x")
    for pool in (gt.signal.max_pool2d, gt.signal.avg_pool2d):
        loss = (pool(x, 16) ** 2).sum()
        assert len(graphc.Graph([x], [graphc.grad(loss, x)])) < 600  # 256 elements have thousands


def test_the_first_of_equal_maxima_has_the_gradient_of_a_pool() -> None:
    x = gt.tensor4("x")
    slope = graphc.grad(gt.signal.max_pool2d(x, 2).sum(), x)
    expected = [[1.0, 0.0], [0.0, 0.0]]
    assert slope.eval({x: np.ones((1, 1, 2, 2))}, mode="NUMPY")[0, 0].tolist() == expected


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool"])
def test_the_padding_of_a_maximum_is_less_than_every_element(dtype: str) -> None:
    x = np.zeros((1, 1, 2, 3), dtype)
    y = gt.signal.max_pool2d(gt.constant(x), 2, padding=1)
    assert y.dtype == dtype
    assert not y.eval(mode="NUMPY").any()


def test_a_batch_of_filters_is_vectorized() -> None:
    x, w = arrays("stride")
    filters = np.stack([w, 2 * w, w - 1])
    convolve = graphc.vectorize(
        lambda b: gt.signal.conv2d(gt.constant(x), b, stride=(2, 3)),
        signature="(f,c,r,k)->(b,f,i,j)",
    )
    y = convolve(gt.constant(filters)).eval(mode="NUMPY")
    for row, kernel in zip(y, filters, strict=True):
        expected = by_jax(x.astype("float32"), kernel.astype("float32"), (2, 3))
        np.testing.assert_allclose(row, expected, 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x, w: gt.signal.conv2d(x[0], w), ShapeError, "expected images"),
        (lambda x, w: gt.signal.conv2d(x, w[0]), ShapeError, "expected kernels"),
        (lambda x, w: gt.signal.conv2d(x, w[:, :2]), ShapeError, "axis 1"),
        (lambda x, w: gt.signal.conv2d(x[:, :, :2], w), ShapeError, "fewer than a window's 3"),
        (lambda x, w: gt.signal.conv2d(x, w, stride=0), ArgumentError, "stride=0"),
        (lambda x, w: gt.signal.conv2d(x, w, padding=-1), ArgumentError, "padding=-1"),
        (lambda x, w: gt.signal.conv2d(x, w, padding="full"), ArgumentError, "'valid', 'same'"),
        (lambda x, w: gt.signal.conv2d(x, w, groups=2), ShapeError, "2 groups"),
        (lambda x, w: gt.signal.conv2d(x, w, groups=0), ArgumentError, "groups=0"),
        (lambda x, w: gt.signal.conv2d(x, w, groups=(1, 3)), ArgumentError, "positive integer"),
        (lambda x, w: gt.signal.conv2d(x, w, padding=np.ones(2)), ArgumentError, "padding="),
        (lambda x, w: gt.signal.conv2d(x, w + 1j), DTypeError, "real"),
        (lambda x, w: gt.signal.conv2d(x, gt.tensor4("w"), 2), ShapeError, "known lengths"),
        (lambda x, w: gt.signal.conv2d(x, w[:, :, :0], 2), ShapeError, "need elements"),
        (lambda x, w: gt.signal.avg_pool2d(gt.cast(x, "int8"), 2), DTypeError, "floating"),
        (lambda x, w: gt.signal.max_pool2d(x, 9), ShapeError, "fewer than a window's 9"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call: Any, error: type, text: str) -> None:
    x, w = map(gt.constant, arrays("plain"))
    with pytest.raises(error, match=text):
        call(x, w)


def test_images_of_unknown_lengths_that_are_smaller_than_a_window_have_no_windows() -> None:
    x = gt.tensor4("x")
    for stride in (1, 2):
        f = graphc.function([x], gt.signal.max_pool2d(x, 4, stride), "NUMPY")
        for n in (1, 2, 3):
            assert f(np.ones((2, 3, n, 5))).shape == (2, 3, 0, (5 - 4) // stride + 1)


def test_parameters_are_also_integers_of_numpy() -> None:
    x, w = arrays("groups", "float32")
    one, three = np.int64(1), np.int64(3)
    y = gt.signal.conv2d(gt.constant(x), w, (one, one), groups=three).eval(mode="NUMPY")
    np.testing.assert_allclose(y, by_jax(x, w, groups=3), 1e-4, 1e-5)
