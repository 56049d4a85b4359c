"""Write into ``backends.md`` what MLX cannot do; ``make docs`` runs this."""

from __future__ import annotations

import re
from pathlib import Path

from graphc.link import load

PAGE = Path(__file__).parent / "backends.md"
START, END = "<!-- gaps: written by docs/gaps.py -->\n", "<!-- end of gaps -->"
BLOCK = re.compile(f"(?<={re.escape(START)}).*?(?={re.escape(END)})", re.DOTALL)


def table() -> str:
    """A row for each gap."""
    rows = [("not there", "where", "why", "what to do")]
    rows += [(gap.what, gap.where, gap.reason, gap.remedy) for gap in load("MLX").gaps]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    lines.insert(1, "| --- | --- | --- | --- |")
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The page with the table in its place."""
    return BLOCK.sub(lambda match: table(), page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
