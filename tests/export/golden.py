"""The texts of this release, which every later one reads: ``python -m tests.export.golden``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import graphc
from tests.export.texts import every_operation, model

__all__: list[str] = []


def main() -> None:
    """Write the texts and their arrays."""
    folder = Path(__file__).with_name("data")
    for name, graph in (("model", model()), ("operations", every_operation())):
        text, arrays = graphc.serialize(graph)
        path = folder / f"{graphc.__version__}-{name}.txt"
        path.write_text(text, encoding="utf-8")
        np.savez(path.with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
