"""Checks of JAX for ``graphc doctor``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from graphc.errors import RuntimeShapeError
from graphc.link.jax.call_key import settings
from graphc.link.jax.serialized import pack, unpack
from graphc.link.probe import Finding, Probe


def devices() -> Finding:
    """Devices."""
    names = ", ".join(f"{x.platform}:{x.id} ({x.device_kind})" for x in jax.devices())
    return Finding("devices", names, "Mode('JAX', device=...) chooses another than the first.")


def float64() -> Finding:
    """Float64."""
    with jax.enable_x64(True):
        x = jax.jit(lambda x: x + 2.0**-40)(np.float64(1))
        is_exact = float(x) == 1 + 2.0**-40
    if not is_exact:
        return Finding("float64", "its digits are lost", "Declare arrays float32.", wrong=True)
    return Finding(
        f"float64, with jax_enable_x64 = {settings.jax_enable_x64}",
        "computed in 64 bits",
        "graphc enables 64 bits for its own programs, whatever the setting is.",
    )


def executables_on_disk() -> Finding:
    """Executables on disk."""
    x = jnp.arange(3, dtype=jnp.float32)
    lowered = jax.jit(lambda x: [x * 2]).lower(x)
    data = pack(lowered, lowered.compile())
    if data is None:
        note = "Only the rewritten graph is stored; each process compiles it again."
        return Finding("executables on disk", "this JAX or device cannot save them", note)

    def unequal(i: int, a: int, b: int) -> RuntimeShapeError:
        return RuntimeShapeError(f"Lengths {a} and {b} differ.")

    (y,) = unpack(data, jax.devices()[:1], unequal).run(x)
    is_right = np.array_equal(np.asarray(y), [0, 2, 4])
    note = "A later process starts without rewriting, tracing or compiling."
    outcome = "saved and loaded" if is_right else "they give other results when loaded"
    return Finding("executables on disk", outcome, note if is_right else "", wrong=not is_right)


PROBES: tuple[Probe, ...] = (devices, float64, executables_on_disk)
