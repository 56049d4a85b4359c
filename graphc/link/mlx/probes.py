"""Probes of MLX: mostly behaviour that was wrong in one of its releases."""

from __future__ import annotations

import shutil
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.link.mlx.arrays import device_of
from graphc.link.mlx.devices import device_choice
from graphc.link.probe import Finding, Probe

BACKWARDS = "Views that run backwards are copied before anything reads them, right or not."


def device() -> Finding:
    """Devices."""
    kinds = {"cpu": mx.cpu, "gpu": mx.gpu}
    names = [name for name, kind in kinds.items() if mx.is_available(mx.Device(kind, 0))]
    so = "Mode('MLX', device=...) chooses another than MLX's own default."
    return Finding("devices", f"{', '.join(names)}; by default {device_of({}).type.name}", so)


def compiler() -> Finding:
    """C++ compiler."""
    if not device_choice("fuses by C++"):
        return Finding("C++ compiler", "not needed on a GPU", "")
    path = shutil.which("g++")
    if path is None:
        so = "Operations run one by one, which graphc warns of. Install g++ to have them fused."
        return Finding("C++ compiler", "there is no g++", so)
    return Finding("C++ compiler", path, "Operations are fused into kernels on the processor.")


def compilation() -> Finding:
    """Compiled functions."""
    x = mx.array(np.linspace(-1, 1, 7, dtype=np.float32))
    y = np.asarray(_compile(lambda x: mx.exp(x) * x + 1)(x))
    is_right = np.allclose(y, np.exp(x) * np.asarray(x) + 1, rtol=1e-5)
    so = "" if is_right else "Use Mode('MLX', compile=False)."
    verdict = "right" if is_right else "wrong"
    return Finding("mlx.core.compile", verdict, so, wrong=not is_right)


def backwards() -> Finding:
    """Kernels that read views which run backwards."""
    x = np.arange(1, 10, dtype=np.float32)
    y = _compile(lambda x: mx.exp(-x[::-1]) * 2)(mx.array(x))
    view = mx.array(x)[::-1]
    checks = (
        np.allclose(np.asarray(y), np.exp(-x[::-1]) * 2, rtol=1e-5),
        float(mx.sum(view)) == x.sum() and float(mx.max(view[:4])) == x[-1],
        np.array_equal(np.asarray(mx.sort(view)), x),
    )
    failures = [
        name
        for name, is_right in zip(("kernels", "reductions", "sort"), checks, strict=True)
        if not is_right
    ]
    verdict = f"read wrong by {', '.join(failures)}" if failures else "read right"
    return Finding("views that run backwards", verdict, BACKWARDS)


def captures() -> Finding:
    """Arrays that a compiled function captures."""
    w = mx.array(1.0)
    f = _compile(lambda x: x * w)
    first = float(f(mx.array(3.0)))
    w = mx.array(2.0)
    state = "follow the variable" if float(f(mx.array(3.0))) == 2 * first else "are never read anew"
    so = "graphc passes them as arguments, so that new values are used."
    return Finding("arrays that a compiled function captures", state, so)


def float64() -> Finding:
    """Float64."""
    if not device_choice("has float64"):
        so = (
            "Refused; Mode('MLX', float64='downcast') computes in float32, device='cpu' in 64 bits."
        )
        return Finding("float64", "none on a GPU", so)
    x: Any = mx.array(1, mx.float64) + mx.array(2.0**-40, mx.float64)
    is_exact = np.asarray(x) == 1 + 2.0**-40
    so = "" if is_exact else "Use Mode('MLX', float64='downcast')."
    verdict = "computed in 64 bits" if is_exact else "its digits are lost"
    return Finding("float64", verdict, so, wrong=not is_exact)


def _compile(f: Any) -> Any:
    return mx.compile(f)


PROBES: tuple[Probe, ...] = (device, compiler, compilation, backwards, captures, float64)
