"""Choices that depend on the device: one table, read for the device that a program runs on.

Some work is on the CPU whatever the device: factorisations and other functions of ``mx.linalg``,
for which MLX has no kernels on GPUs, and special functions, which need float64. No GPU of Apple's
has run graphc's tests yet: values for GPUs follow from the source beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from graphc.link.backend import DeviceChoice
from graphc.link.mlx.arrays import device_of

CHOICES: Mapping[str, DeviceChoice] = {
    "has float64": DeviceChoice(
        cpu=True,
        gpu=False,
        reason="Metal has no 64-bit floats",
        source="https://github.com/ml-explore/mlx/issues/799",
    ),
    "scatters 64 bits": DeviceChoice(
        cpu=True,
        gpu=False,
        reason="Metal has no atomic operations on 64 bits, and the CPU shares its memory",
        source="https://github.com/ml-explore/mlx/issues/4300",
    ),
    "fuses by C++": DeviceChoice(
        cpu=True,
        gpu=False,
        reason="g++ takes a second for each fused kernel, and Metal's own compiler is in MLX",
        source="tests/link/mlx/test_tiers.py",
    ),
    "exp overflows early": DeviceChoice(
        cpu=True,
        gpu=False,
        reason="MLX's exp of float32 on CPUs overflows at 88.03 instead of 88.72",
        source="tests/contract/test_edges.py",
    ),
    "sums one by one": DeviceChoice(
        cpu=True,
        gpu=False,
        reason="on CPUs MLX adds terms one by one: a sum of a million equal ones was 1 % off",
        source="tests/link/mlx/lower/test_reduce.py",
    ),
    "few wide operations": DeviceChoice(
        cpu=False,
        gpu=True,
        reason="a product of small matrices takes MLX ten times NumPy's time on a CPU",
        source="python -m benchmarks mlx",
    ),
    "fast functions": DeviceChoice(
        cpu=False,
        gpu=True,
        reason="on CPUs mx.fast is composed of basic operations, and mx.addmm copies a term: both "
        "took up to twice as long as graphc's expansions",
        source="32 x 128 x 256 float32: 5.1 ms against 2.2 ms",
    ),
    "words in columns": DeviceChoice(
        cpu=False,
        gpu=True,
        reason="on CPUs MLX's kernel for packed words of w's columns adds numbers one by one",
        source="python -m benchmarks implicit matmul",
    ),
}
"""The choices by name."""


def device_choice(name: str, options: Mapping[str, Any] | None = None) -> Any:
    """Return a choice for the device of a mode's options; None for MLX's current device."""
    device = mx.default_device() if options is None else device_of(options)
    return CHOICES[name].on(device.type.name)
