"""Settings of the test run, its order, and the Markdown pages' examples as doctests."""

import ast
import doctest
import gc
import math
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.xla import compile_fewer_kernels

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


# Nothing comes from an earlier run; tests of the cache on disk have directories of their own.
os.environ["GRAPHC_CACHE_DIR"] = "off"

# A second thread of OpenBLAS waits for work in a loop, which takes a core from another worker: a
# small linear system takes 9 milliseconds instead of a tenth of one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# PyTensor runs its Python code: C++ and Numba take seconds to compile a graph.
os.environ.setdefault("PYTENSOR_FLAGS", "cxx=,mode=FAST_COMPILE")

# XLA compiles at its lowest level: most tests' programs run once, and take half of the time to
# compile. With JAX_DISABLE_MOST_OPTIMIZATIONS=0 XLA optimizes as for users.
OPTIMIZED = os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "0"
if not OPTIMIZED:
    compile_fewer_kernels()

XLA_FLAGS = os.environ.get("XLA_FLAGS")

KERNELS = Path(tempfile.mkdtemp(prefix="graphc-tests-"))
"""Where MLX puts the kernels it compiles; it has no lock, so each process has one of its own."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--random-order", metavar="SEED", help="run the tests in a shuffled order")
    parser.addoption("--one-in", metavar="N", type=int, default=1, help="run one of N tests only")
    parser.addoption(
        "--device",
        choices=("cpu", "gpu"),
        help="run the tests marked gpu on this device, in full precision; skip them without one",
    )
    parser.addoption("--whole", action="store_true", help="run all cases of tests/thorough.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sample and shuffle the tests on request; before -m selects, mark what is exhaustive."""
    from tests.thorough import leave_to_exhaustive  # noqa: PLC0415 (assertions are rewritten first)

    beyond = leave_to_exhaustive(items)
    device = config.getoption("--device")
    if device is not None:
        beyond |= _select_for_device(items, device)
    every = config.getoption("--one-in")
    left = set() if config.getoption("--whole") else beyond
    left |= {item for item in items if _is_left_out(item, every)}
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]
    seed = config.getoption("--random-order")
    if seed is not None:
        random.Random(seed).shuffle(items)


def _select_for_device(items: list[pytest.Item], device: str) -> set[pytest.Item]:
    """Skip all tests if no backend has the device; return those of other tests and backends."""
    import jax  # noqa: PLC0415 (few runs are on another device)

    # An NVIDIA GPU multiplies float32 as TF32 otherwise, which has ten bits.
    jax.config.update("jax_default_matmul_precision", "highest")
    present = {"JAX": jax.devices()[0].platform}
    with suppress(ImportError):
        import mlx.core as mx  # noqa: PLC0415

        present["MLX"] = mx.default_device().type.name
    backends = {name for name, platform in present.items() if platform == device}
    if not backends:
        reason = pytest.mark.skip(reason=f"the default devices are {present}")
        for item in items:
            item.add_marker(reason)
        return set()
    return {
        item
        for item in items
        if item.get_closest_marker("gpu") is None
        or {"JAX", "MLX", "NUMPY"} & {*_strings(item)} - backends
    }


def _strings(item: pytest.Item) -> Iterator[str]:
    parameters = getattr(item, "callspec", None)
    values = parameters.params.values() if parameters else ()
    yield from (value for value in values if isinstance(value, str))


def _is_left_out(item: pytest.Item, every: int) -> bool:
    """Whether a test is not in the sample, or needs XLA to optimize where it does not."""
    sampled = crc32(item.nodeid.encode()) % every == 0
    return not sampled or (not OPTIMIZED and item.get_closest_marker("optimized") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Search the tests for garbage once: not while they are collected, nor while they run."""
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 50, 50)  # JAX's caches grow, and each search walks them all
        gc.enable()


def pytest_configure() -> None:
    """Have MLX trace all programs, and run them an operation at a time.

    The C++ compiler takes a second or more for each fused kernel. With ``GRAPHC_FUSED=1`` it makes
    them from the first call on; tests/link/mlx/test_kernels.py has it do so in any case.
    """
    os.environ["TMPDIR"] = str(KERNELS)
    with suppress(ImportError):
        import mlx.core as mx  # noqa: PLC0415 (it may be missing, and needs its directory)

        from graphc.link.mlx import tiers  # noqa: PLC0415
        from tests.tracing import traced  # noqa: PLC0415

        if os.environ.get("GRAPHC_FUSED") == "1":
            tiers.has_kernels = lambda key: True
            return
        tiers.LEAST = math.inf
        mx.compile = traced


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    shutil.rmtree(KERNELS, ignore_errors=True)


@pytest.fixture(autouse=True)
def _programs_of_its_own() -> Iterator[None]:
    """Each test compiles for itself, and may build in a loop what a user should not."""
    from graphc.compile.cache import PROGRAMS  # noqa: PLC0415 (MLX needs its directory first)
    from graphc.config import config  # noqa: PLC0415

    PROGRAMS.clear()
    with config.change_flags(recompile="ignore"):
        yield


def pytest_runtest_teardown() -> None:
    """Undo what PyTensor's JAX linker and PyMC's samplers on JAX set where they are imported."""
    jax = sys.modules.get("jax")
    if jax is not None and jax.config.jax_enable_x64:
        jax.config.update("jax_enable_x64", False)
    if XLA_FLAGS is not None:
        os.environ["XLA_FLAGS"] = XLA_FLAGS


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return Page.from_parent(parent, path=file_path) if file_path.suffix == ".md" else None


STATEMENTS = re.compile(r"(?<=^```python\n)(?!>>>).*?(?=^```)", re.DOTALL | re.MULTILINE)
"""Examples that can be pasted, without prompts; comments below a statement are what it prints."""


def _with_prompts(block: re.Match[str]) -> str:
    """Return the lines of a block as a session of the interpreter."""
    lines = block[0].splitlines()
    session = [line.removeprefix("#").removeprefix(" ") for line in lines]
    for statement in ast.parse(block[0]).body:
        first, last = statement.lineno - 1, statement.end_lineno
        session[first:last] = [f"... {line}" for line in lines[first:last]]
        session[first] = f">>> {lines[first]}"
    return "\n".join(session) + "\n"


class Page(pytest.File):
    """A Markdown page, whose fenced examples are one session."""

    def collect(self) -> Iterator[pytest.Item]:
        text = self.path.read_text(encoding="utf-8")
        if self.path.name == "README.md":
            text = STATEMENTS.sub(_with_prompts, text)
        # A fence would be read as output of the example above it; a blank line keeps the numbering.
        lines = ["" if x.lstrip().startswith("```") else x for x in text.splitlines()]
        page = "\n".join(lines)
        examples = doctest.DocTestParser().get_doctest(page, {}, self.name, str(self.path), 0)
        if examples.examples:
            yield Session.from_parent(self, name="examples", examples=examples)


class Session(pytest.Item):
    """Examples that print what their page says they print."""

    def __init__(self, examples: doctest.DocTest, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.examples = examples

    def runtest(self) -> None:
        report: list[str] = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
        if runner.run(self.examples, out=report.append).failed:
            pytest.fail("".join(report), pytrace=False)
