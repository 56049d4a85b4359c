"""The Markdown pages' examples as doctests, one test a page; MLX without g++; no cache on disk."""

import doctest
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


# Nothing comes from an earlier run; tests of the cache on disk have directories of their own.
os.environ["GRAPHC_CACHE_DIR"] = "off"

KERNELS = Path(tempfile.mkdtemp(prefix="graphc-tests-"))
"""Where MLX puts the kernels it compiles; it has no lock, so each process has one of its own."""


def pytest_configure() -> None:
    """Have MLX trace what it compiles, and run it an operation at a time.

    The C++ compiler takes a second or more for each fused kernel, and without one MLX does not even
    trace. With ``GRAPHC_FUSED=1`` it compiles; tests/link/test_mlx_kernels.py does in any case.
    """
    os.environ["TMPDIR"] = str(KERNELS)
    if os.environ.get("GRAPHC_FUSED") == "1":
        return
    with suppress(ImportError):
        import mlx.core as mx  # noqa: PLC0415 (it may be missing, and needs its directory)

        from tests.tracing import traced  # noqa: PLC0415

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


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return Page.from_parent(parent, path=file_path) if file_path.suffix == ".md" else None


class Page(pytest.File):
    """A Markdown page, whose fenced examples are one session."""

    def collect(self) -> Iterator[pytest.Item]:
        # A fence would be read as output of the example above it; a blank line keeps the numbering.
        lines = self.path.read_text(encoding="utf-8").splitlines()
        text = "\n".join("" if line.lstrip().startswith("```") else line for line in lines)
        examples = doctest.DocTestParser().get_doctest(text, {}, self.name, str(self.path), 0)
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
