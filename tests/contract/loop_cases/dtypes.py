"""Dtypes: half of the floats, complex numbers, integers, and casts between."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from graphc import scan
from tests.contract.loop_case import case

NARROW = np.array([0.5, -1.25, 0.75, 1.5], "float32")
COMPLEX = np.array([0.5 - 0.25j, -0.75 + 0.5j, 0.25 + 1j])


@case(NARROW, np.array(0.25, "float32"), order=0)
def everything_in_float32():
    def build(x, h0):
        return scan(lambda x_t, h: gt.tanh(h * 0.5 + x_t), x, h0)

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.tanh(h * np.float32(0.5) + x_t)
            found.append(h)
        return np.array(found, "float32")

    return build, plain


@case((4,), np.array(0.25, "float32"), order=0)
def a_state_of_float32_beside_a_sequence_of_float64():
    def build(x, h0):
        return scan(lambda x_t, h: (h * x_t).astype("float32"), x, h0)

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.float32(np.float64(h) * x_t)
            found.append(h)
        return np.array(found, "float32")

    return build, plain


@case(NARROW, (4,), order=0)
def states_of_two_dtypes():
    def build(x, y):
        return scan(
            lambda x_t, y_t, h, k: [gt.tanh(h + x_t + k.astype("float32")), k * 0.5 + y_t],
            [x, y],
            [gt.as_tensor(0.25, dtype="float32"), gt.as_tensor(1.0)],
        )

    def plain(x, y):
        h, k, hs, ks = np.float32(0.25), 1.0, [], []
        for x_t, y_t in zip(x, y, strict=True):
            h, k = np.tanh(h + x_t + np.float32(k)), k * 0.5 + y_t
            hs.append(h)
            ks.append(k)
        return np.array(hs, "float32"), np.array(ks)

    return build, plain


@case(COMPLEX, np.array(0.5 + 0.5j))
def complex_states():
    def build(z, w):
        return scan(lambda z_t, h: h**2 * z_t + w, z, w)

    def plain(z, w):
        h, found = w, []
        for z_t in z:
            h = h**2 * z_t + w
            found.append(h)
        return np.array(found)

    return build, plain


@case(COMPLEX, (3,))
def complex_and_real_states():
    def build(z, x):
        def step(z_t, x_t, h, r):
            return [gt.exp(1j * x_t) * h + z_t, r * 0.5 + gt.abs(h) ** 2]

        return scan(step, [z, x], [gt.as_tensor(0.25 + 0.5j), gt.as_tensor(0.75)])

    def plain(z, x):
        h, r, hs, rs = 0.25 + 0.5j, 0.75, [], []
        for z_t, x_t in zip(z, x, strict=True):
            h, r = np.exp(1j * x_t) * h + z_t, r * 0.5 + abs(h) ** 2
            hs.append(h)
            rs.append(r)
        return np.array(hs), np.array(rs)

    return build, plain


@case(np.array([7, 200, 65, 255], "uint8"), np.array(3, "uint8"), order=0)
def bytes_that_wrap_around():
    def build(x, h0):
        return scan(lambda x_t, h: h * 5 + x_t, x, h0)

    def plain(x, h):
        h, found = int(h), []
        for x_t in x:
            h = (h * 5 + int(x_t)) % 256
            found.append(h)
        return np.array(found, "uint8")

    return build, plain


@case(np.array([True, False, True, True]), (4,))
def a_mask_as_a_sequence():
    def build(mask, x):
        return scan(lambda m, x_t, h: gt.where(m, h * x_t, h - 0.5), [mask, x], gt.as_tensor(2.0))

    def plain(mask, x):
        h, found = 2.0, []
        for m, x_t in zip(mask, x, strict=True):
            h = h * x_t if m else h - 0.5
            found.append(h)
        return np.array(found)

    return build, plain


@case(np.array([3, 1, 2, 2]), (3,))
def an_integer_that_multiplies():
    def build(k, x):
        return scan(lambda n, h: gt.sin(h * n) + x[n], gt.as_tensor(k) % 3, gt.as_tensor(0.25))

    def plain(k, x):
        h, found = 0.25, []
        for n in k % 3:
            h = np.sin(h * n) + x[n]
            found.append(h)
        return np.array(found)

    return build, plain


@case(np.array(48), np.array(36), order=0)
def integers_alone():
    def build(a, b):
        def step(p, q):
            return [q, gt.where(q > 0, p % gt.maximum(q, 1), p)]

        ps, *_ = scan(step, outputs_info=[a, b], n_steps=2)
        return ps[-1]

    def plain(a, b):
        p, q = int(a), int(b)
        for _ in range(2):
            p, q = q, (p % q if q else p)
        return np.array(p)

    return build, plain


@case((3,), order=1)
def rows_of_bool_and_int():
    def build(x):
        return scan(
            lambda x_t, h: [h + x_t, h > 0, gt.cast(gt.floor(h * 4), "int16")],
            x,
            [gt.as_tensor(0.3), None, None],
        )

    def plain(x):
        h, rows = 0.3, ([], [], [])
        for x_t in x:
            made = h + x_t, h > 0, np.floor(h * 4)
            for row, y in zip(rows, made, strict=True):
                row.append(y)
            h = made[0]
        return np.array(rows[0]), np.array(rows[1]), np.array(rows[2], "int16")

    return build, plain
