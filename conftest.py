"""The Python examples of the Markdown pages run as doctests, one test a page; MLX without g++."""

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
