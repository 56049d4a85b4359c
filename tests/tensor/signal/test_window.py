"""Windows are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ShapeError
from graphc.link import names

WINDOWS = ["bartlett", "blackman", "hamming", "hanning"]


@pytest.mark.parametrize("mode", names())
@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_is_numpys(name: str, mode: str) -> None:
    m = gt.lscalar("m")
    window = getattr(gt, name)
    f = graphc.function([m], [window(m), window(6)], mode, returns="numpy")
    for k in (0, 1, 2, 7):
        np.testing.assert_allclose(f(k)[0], getattr(np, name)(k), 0, 1e-15)
    np.testing.assert_allclose(f(1)[1], getattr(np, name)(6), 0, 1e-15)
    assert window(6).type.shape == (6,)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", names())
def test_a_kaiser_window_is_numpys(mode: str) -> None:
    m, beta = gt.lscalar("m"), gt.scalar("beta")
    f = graphc.function([m, beta], gt.kaiser(m, beta), mode, returns="numpy")
    for k, b in ((1, 5.0), (7, 0.0), (7, 8.6), (12, 14.0)):
        np.testing.assert_allclose(f(k, b), np.kaiser(k, b), 1e-12)


def test_a_window_has_a_length() -> None:
    with pytest.raises(ShapeError, match=r"bartlett: the length -1(.|\n)*test_window.py"):
        gt.bartlett(-1)
