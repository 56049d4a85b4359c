"""Write the tables of ``backends.md`` and ``export.md``; ``make docs`` runs this.

The first says how each backend computes each operation that the contract suite runs, the second
which operations no ONNX model can have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from graphc.export.onnx.gaps import GAPS
from graphc.ir import Op
from graphc.link import load, names
from graphc.link.backend import Backend
from graphc.tensor.arrays.index import Nonzero
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.arrays.sets import Unique
from graphc.tensor.core.assertion import CheckAndRaise
from graphc.tensor.core.elementwise import ROWS, Elementwise
from graphc.tensor.core.shape import Length, Shape

ROOT = Path(__file__).parents[1]
PAGES = {name: ROOT / "docs" / f"{name}.md" for name in ("backends", "export")}

ALL_HAVE = "own"
"""The backend has a lowering."""

IN_PARTS = "parts"
"""The backend computes the simpler operations that the operation consists of."""

CALLED_BACK = "NumPy"
"""The program calls the NumPy reference."""

LENGTHS = "host"
"""The backend knows the result when it compiles."""

REASONS: dict[tuple[str, type], str] = {
    ("JAX", Nonzero): "of constants and static inputs: shapes are known before values",
    ("JAX", Unique): "of constants and static inputs: shapes are known before values",
    ("JAX", CheckAndRaise): "the conditions are further results, looked at after the call",
    ("MLX", CheckAndRaise): "the conditions are further results, looked at after the call",
}
"""The cells that need more than a word."""


def table(rows: Iterable[Sequence[str]]) -> str:
    """Format rows as a table of Markdown; the first row is the head."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * (lines[0].count(" | ") + 1))
    return "\n".join(lines) + "\n"


def gaps() -> str:
    """Return a table of the features that MLX lacks."""
    rows = [("unsupported", "where", "why", "what to do")]
    rows += [(gap.feature, gap.where, gap.reason, gap.remedy) for gap in load("MLX").gaps]
    return table(rows)


def cell(backend: Backend, op: type[Op] | Elementwise) -> str:
    """Return how a backend computes an operation.

    Raises:
        LookupError: If the backend cannot compute the operation, and no reason is given.
    """
    cls = op if isinstance(op, type) else Elementwise
    for kind in cls.__mro__:
        if (backend.name, kind) in REASONS:
            return REASONS[backend.name, kind]
    if issubclass(cls, Length | Shape):
        return LENGTHS
    keys: Sequence[object] = cls.__mro__ if isinstance(op, type) else (op, *cls.__mro__)
    if any(key in backend.lowerings for key in keys):
        return ALL_HAVE
    if issubclass(cls, Composite) or getattr(op, "expand", None) is not None:
        return IN_PARTS
    if cls.by_numpy:
        return CALLED_BACK
    raise LookupError(f"{backend.name} has no {op}, and docs/tables.py no reason.")


def operations() -> str:
    """Return a table of operations; operations of one file with equal cells share a row."""
    sys.path.insert(0, str(ROOT))
    from tests.contract.operations import graphc_operations  # noqa: PLC0415 (a script's path)

    backends = [load(name) for name in names()]
    by_subject: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for op in [*graphc_operations() - {Elementwise}, *ROWS.values()]:
        cells = tuple(cell(backend, op) for backend in backends)
        subject = (op if isinstance(op, type) else op.reference).__module__
        name = op.__name__ if isinstance(op, type) else op.name
        title = "elementwise" if isinstance(op, Elementwise) else subject.split(".", 1)[1]
        by_subject.setdefault(title, {}).setdefault(cells, []).append(f"`{name}`")
    rows = [("subject", "operations", *(backend.name for backend in backends))]
    rows += [
        (title, ", ".join(sorted(ops)), *cells)
        for title, kinds in sorted(by_subject.items())
        for cells, ops in sorted(kinds.items())
    ]
    return table(rows)


def unexported() -> str:
    """Return a table of the reasons why no ONNX model can have an operation."""
    rows = [("operations", "why", "what to do")]
    for gap in GAPS:
        ops = sorted(f"`{op.__name__}`" for op in gap.ops)
        rows.append((", ".join(ops), gap.reason, gap.remedy))
    return table(rows)


BLOCKS = {"backends": {"gaps": gaps, "operations": operations}, "export": {"onnx": unexported}}


def fill_tables(title: str, page: str) -> str:
    """Return the text of a page with new tables."""
    for name, make_table in BLOCKS[title].items():
        start, end = f"<!-- {name}: written by docs/tables.py -->\n", f"<!-- end of {name} -->"
        before, block = page.split(start)
        page = before + start + make_table() + block[block.index(end) :]
    return page


if __name__ == "__main__":
    for _name, _page in PAGES.items():
        _page.write_text(fill_tables(_name, _page.read_text(encoding="utf-8")), encoding="utf-8")
