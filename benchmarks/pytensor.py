"""graphc as a mode of PyTensor beside PyTensor's own: PyMC models, density and gradient.

Both are called as PyMC's samplers call them, with one flat vector, and give NumPy's arrays. A
benchmark for each model: ``pytensor jax radon``, and with ``--long`` ``pytensor numba radon``, as
Numba compiles some for minutes.

``python -m benchmarks.pytensor MODEL WAY`` builds a model, and prints the seconds from there to its
first gradient; what graphc keeps for the next process goes to ``GRAPHC_CACHE_DIR``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import jax
import numpy as np

import graphc
from benchmarks.pymc_models import MODELS, SCANS, made
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import Ratio, agree, compared, milliseconds
from graphc.compile.cache import PROGRAMS

RTOL = 1e-8
REPEATS = 3
SMALL, SCAN, LARGE = 1.15, 1.0, 1.0
"""Targets of a call by PyTensor's JAX: of small models, of scans, of a Gaussian process."""

Call = Callable[[Any], Any]


def point(model: Any) -> Any:
    """A model's initial point, as one vector."""
    from pymc.blocking import DictToArrayBijection  # noqa: PLC0415

    return DictToArrayBijection.map(model.initial_point()).data


def by_pymc(model: Any, mode: Any) -> Call:
    """The density and its gradient as PyMC's samplers call them, as NumPy's arrays."""
    f = model.logp_dlogp_function(ravel_inputs=True, mode=mode)
    f.set_extra_values({})
    call: Call = f._pytensor_function
    if mode != "JAX":
        return call
    return lambda x: [np.asarray(y) for y in call(x)]


def by_graphc(model: Any) -> Call:
    """The same without PyTensor's gradient and compiler; the vector is taken apart by graphc."""
    from graphc.interop.pytensor import from_pytensor  # noqa: PLC0415

    values, density = from_pytensor([model.value_vars, model.logp()])
    x = graphc.tensor.vector("x")
    starts = np.cumsum([0, *[int(np.prod(v.type.shape)) for v in values]])
    parts = [
        x[a:b].reshape(v.type.shape)
        for a, b, v in zip(starts[:-1], starts[1:], values, strict=True)
    ]
    density = graphc.clone_replace(density, dict(zip(values, parts, strict=True)))
    outputs = [density, graphc.grad(density, x)]
    return graphc.function([x], outputs, mode="JAX", returns="numpy")


def first_call(title: str, mode: Any) -> tuple[float, Call, Any]:
    """The seconds from a model to its first gradient, what is called for it, and where."""
    model = made(title)
    x = point(model)
    start = perf_counter()
    call = by_pymc(model, mode)
    call(x)
    return perf_counter() - start, call, x


def beside(other: str, title: str) -> Iterator[Line]:
    """A first call and later ones, in graphc's mode and in another one of PyTensor's."""
    import pytensor  # noqa: PLC0415

    from graphc.interop.pytensor import mode  # noqa: PLC0415

    firsts: tuple[list[float], list[float]] = ([], [])
    with warnings.catch_warnings(action="ignore"), pytensor.config.change_flags(numba__cache=False):
        for _ in range(REPEATS if other == "JAX" else 1):
            PROGRAMS.clear()
            jax.clear_caches()
            seconds, ours, x = first_call(title, mode("JAX"))
            firsts[0].append(seconds)
            try:
                seconds, theirs, _ = first_call(title, other)
            except NotImplementedError as error:
                write(f"  PyTensor's {other} has no {title}: {str(error).splitlines()[0]}")
                return
            firsts[1].append(seconds)
        agree(ours(x), [np.asarray(y) for y in theirs(x)], rtol=RTOL)
        ratio = compared(ours, theirs, x)
    target = _target(other, title)
    yield Line(f"a call by PyTensor's {other}: {title}", ratio, target)
    yield Line("  first call", Ratio.of(*firsts), 1.0)


def _target(other: str, title: str) -> float:
    if title in SCANS:
        return SCAN if other == "JAX" else 0.1
    return LARGE if other != "JAX" or title == "marginal GP" else SMALL


# Without PyMC, these benchmarks are not there.
for _title in MODELS if find_spec("pymc") else ():
    benchmark(f"pytensor jax {_title}")(partial(beside, "JAX", _title))
    benchmark(f"pytensor numba {_title}", long=True)(partial(beside, "NUMBA", _title))


# The first gradient in a process of its own.


def main(title: str, way: str) -> None:
    """Print the seconds from a model to its first gradient."""
    from graphc.interop.pytensor import mode  # noqa: PLC0415

    warnings.simplefilter("ignore")
    jax.block_until_ready(jax.device_put(np.zeros(1)))
    graphc.get_mode("JAX")
    model = made(title)
    x = point(model)
    build: dict[str, Callable[[], Call]] = {
        "graphc": partial(by_graphc, model),
        "mode": lambda: by_pymc(model, mode("JAX")),
        "JAX": lambda: by_pymc(model, "JAX"),
    }
    start = perf_counter()
    found = build[way]()(x)
    seconds = perf_counter() - start
    sys.stdout.write(json.dumps([seconds, *(np.asarray(y).tolist() for y in found)]))


def runs(title: str, way: str, folder: str, times: int) -> list[list[Any]]:
    """The seconds and results of processes one after the other."""
    done = [
        subprocess.run(
            [sys.executable, "-m", "benchmarks.pytensor", title, way],
            cwd=Path(__file__).parents[1],
            env={**os.environ, "GRAPHC_CACHE_DIR": folder},
            capture_output=True,
            check=True,
        )
        for _ in range(times)
    ]
    return [json.loads(each.stdout) for each in done]


def warm_starts() -> Iterator[Line]:
    for title in ("radon", "HMM by scan"):
        seconds: dict[str, list[float]] = {"graphc": [], "mode": [], "JAX": []}
        with TemporaryDirectory() as folder:
            for i in range(REPEATS + 1):
                found = {way: runs(title, way, folder, 1)[0] for way in seconds}
                for way, (spent, *values) in found.items():
                    agree(values, found["JAX"][1:], rtol=RTOL)
                    # The first process has nothing to load.
                    seconds[way] += [spent] if i else []
        for way, times in seconds.items():
            write(f"  {title}, {way}: {milliseconds(sorted(times)[len(times) // 2])} ms")
        for way, kind in (("graphc", "from_pytensor"), ("mode", "mode")):
            ratio = Ratio.of(seconds[way], seconds["JAX"])
            yield Line(f"first gradient, second process: {title}, {kind}", ratio, 1.0)


if find_spec("pymc"):
    benchmark("pytensor warm")(warm_starts)

if __name__ == "__main__":
    main(*sys.argv[1:])
