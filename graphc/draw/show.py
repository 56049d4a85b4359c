"""``show``, ``pydotprint`` and the pictures in notebooks: what users call to see a graph."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, TypeGuard

from graphc.draw.dot import dot
from graphc.draw.lines import draw_lines
from graphc.draw.model import Boxes, Drawing, nearest, plain
from graphc.draw.svg import drawn_size, svg
from graphc.draw.viewer import page
from graphc.errors import ArgumentError
from graphc.ir import Graph, Node, tree, unwrap_all

IN_NOTEBOOK = (60, 40, 25, 15, 8, 4)
"""The numbers of boxes that a notebook draws of a displayed graph: the first that is small enough.
"""

MAX_BYTES = 30_000
"""The largest size of the output of a cell, which notebooks save."""

GROUPED = 60
"""The number of nodes from which a graph is first drawn by lines."""

MOST = 400
"""The default number of nodes that are drawn."""

LINES = 400
"""The number of lines of text that replace a drawing where scripts are off."""

LONGEST_TITLE = 80
"""The length of a page's title, in characters, before it is truncated."""

LOWEST, HIGHEST = 190, 620
"""The least and the largest height of a picture in a notebook, in pixels."""


class DrawableFunction(Protocol):
    """A function, which knows the graph as written and as rewritten.

    Attributes:
        requested: The graph before any rule.
        graph: The graph after all rules.
        gives: The meaning of each output of both graphs.
    """

    requested: Graph

    @property
    def graph(self) -> Graph: ...

    @property
    def gives(self) -> Sequence[str]: ...


Drawable = Graph | Node | DrawableFunction | Iterable[Node]


def show(
    graph: Drawable,
    path: str | Path | None = None,
    *,
    limit: int = MOST,
    browser: bool | None = None,
) -> Path:
    """Draw a graph on a page of HTML, to pan, zoom and search; loops and branches open.

    A notebook displays the page. Each box is a node, with its type below it and the line of your
    program that made it; edges run downwards, from operands to results. A graph of 60 nodes or more
    is first drawn with a box for each line, which opens to the line's nodes.

    Args:
        graph: A symbolic array, several, a graph, or a compiled function, which is drawn as
            rewritten and as written.
        path: The file to write (default: a new temporary file).
        limit: The number of nodes that are drawn, nearest to the outputs.
        browser: Whether to open the page in a browser (default: if no path is given and Python runs
            in a terminal).

    Returns:
        The path of the page.

    Raises:
        ArgumentError: If ``graph`` is not a graph.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> path = graphc.show(gt.tanh(x).sum())
        >>> path.suffix
        '.html'
    """
    html, height = _page_and_height(graph, limit)
    asked = path
    if path is None:
        with tempfile.NamedTemporaryFile(prefix="graphc-", suffix=".html", delete=False) as file:
            path = file.name
    path = Path(path)
    path.write_text(html, encoding="utf-8")
    if _notebook_displays(_frame(html, height)):
        return path
    if browser or (browser is None and asked is None and sys.stdout.isatty()):
        webbrowser.open(path.resolve().as_uri())
    return path


def repr_html(graph: Graph | Node | DrawableFunction) -> str:
    """Return a picture for a notebook, of at most 30 kB and without scripts, compiling nothing.

    A graph of many nodes is drawn by lines.
    """
    shown: Drawable = graph
    gives: Sequence[str] = ()
    call = "graphc.show"
    if _is_compiled(graph):
        shown, gives, call = graph.requested, graph.gives, "f.show()"
    html = ""
    for limit in IN_NOTEBOOK:
        boxes = Boxes(limit)
        drawing, remark = _by_line(boxes, shown, gives, limit) or _drawing_and_remark(
            boxes, shown, gives
        )
        picture = svg(boxes, drawing, opened=False)
        html = f"<div style='overflow: auto'>{picture}</div><p>{remark}; {call} draws a page.</p>"
        if len(html.encode()) <= MAX_BYTES:
            break
    return html


def pydotprint(  # noqa: PLR0913 (PyTensor's arguments)
    fct: Drawable,
    outfile: str | Path | None = None,
    *,
    format: Literal["svg", "dot"] | None = None,
    max_label_size: int = 70,
    scan_graphs: bool = False,
    print_output_file: bool = True,
    return_image: bool = False,
    limit: int = MOST,
) -> str | None:
    """Write a drawing of a graph to a file of SVG, or of dot for Graphviz.

    Args:
        fct: A compiled function, whose rewritten graph is drawn, a symbolic array, several, or a
            graph.
        outfile: The file (default: ``graph`` with the format's suffix).
        format: ``"svg"`` or ``"dot"`` (default: by the file's suffix, SVG without one).
        max_label_size: The length of a line in a box, in characters, before it is truncated.
        scan_graphs: Whether to draw the steps of loops, and other inner graphs.
        print_output_file: Print the file's name.
        return_image: Return the text instead of writing a file.
        limit: The number of nodes that are drawn, nearest to the outputs.

    Returns:
        The text with ``return_image``, else None.

    Raises:
        ArgumentError: If the format is another one, or ``fct`` is not a graph.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> print(graphc.printing.pydotprint(gt.exp(x), format="dot", return_image=True))
        digraph {
        ...
        n_0 -> n_1 [label="float64[?]"];
        }
    """
    kind = format or (Path(outfile).suffix[1:] if outfile else "svg") or "svg"
    if kind not in {"svg", "dot"}:
        raise ArgumentError(
            f"pydotprint: no format {kind!r}.",
            "Use 'svg' or 'dot'; Graphviz makes others of dot, as in `dot -Tpng graph.dot`.",
        )
    boxes = Boxes(limit, max_label_size)
    drawing = _drawing(boxes, getattr(fct, "graph", fct), getattr(fct, "gives", ()))
    text = (svg if kind == "svg" else dot)(boxes, drawing, opened=scan_graphs)
    if return_image:
        return text
    path = Path(outfile or f"graph.{kind}")
    path.write_text(text, encoding="utf-8")
    if print_output_file:
        sys.stdout.write(f"The output file is available at {path}\n")
    return None


def _page_and_height(graph: Drawable, limit: int) -> tuple[str, int]:
    boxes = Boxes(limit)
    views: dict[str, tuple[Drawing, str]] = {}
    first_graph: Drawable = graph
    gives: Sequence[str] = ()
    if _is_compiled(graph):
        first_graph, gives = graph.graph, graph.gives
        views["rewritten"] = _drawing_and_remark(boxes, graph.graph, gives)
        boxes.allow(limit)
        views["as written"] = _drawing_and_remark(boxes, graph.requested, gives)
        title, ends = repr(graph), [*graph.requested.outputs]
    else:
        views["graph"] = _drawing_and_remark(boxes, graph)
        title = repr(graph) if isinstance(graph, Graph | Node) else "graph"
        ends = [*graph.outputs] if isinstance(graph, Graph) else _nodes(graph)
    by_line = _by_line(boxes, first_graph, gives, limit)
    if by_line is not None:
        views = {"by line": by_line, **views}
    first, _ = next(iter(views.values()))
    lines = [*islice(tree(ends), LINES)] if len(first.boxes) < MOST else []
    width, height = drawn_size(boxes, first)
    scale = min(1.0, 900 / width)
    frame = int(min(HIGHEST, max(LOWEST, height * scale + 110)))
    return page(plain(title, LONGEST_TITLE), boxes, views, "\n".join(lines)), frame


def _is_compiled(graph: Any) -> TypeGuard[DrawableFunction]:
    return hasattr(graph, "requested")


def _drawing_and_remark(boxes: Boxes, graph: Any, gives: Sequence[str] = ()) -> tuple[Drawing, str]:
    drawing = _drawing(boxes, graph, gives)
    count = len(drawing.boxes)
    if drawing.partial:
        return drawing, f"the {count} nodes nearest to the outputs; graphc.dprint prints all"
    return drawing, "1 node" if count == 1 else f"{count} nodes"


def _by_line(
    boxes: Boxes, graph: Any, gives: Sequence[str], limit: int
) -> tuple[Drawing, str] | None:
    """Return the drawing of a large graph by lines and a remark; None for a small graph."""
    is_graph = isinstance(graph, Graph)
    outputs = list(graph.outputs) if is_graph else _nodes(graph)
    shown, partial = nearest(outputs, MOST, set(graph.inputs) if is_graph else ())
    if len(shown) < GROUPED:
        return None
    gives = gives or [f"output {i}" for i in range(len(outputs))]
    shown.sort(key=lambda node: node.height)
    drawing = draw_lines(boxes, shown, outputs, gives, limit)
    nodes = f"the {len(shown)} nodes nearest to the outputs" if partial else f"{len(shown)} nodes"
    boxes_shown = f"the {len(drawing.boxes)} lines nearest to the outputs"
    return drawing, f"{boxes_shown if drawing.partial else nodes}; casts and lengths are inside"


def _drawing(boxes: Boxes, graph: Any, gives: Sequence[str]) -> Drawing:
    if isinstance(graph, Graph):
        return boxes.graph(graph, gives)
    nodes = _nodes(graph)
    shown, partial = nearest(nodes, boxes.left)
    tags = [f"output {i}" for i in range(len(nodes))] if len(nodes) > 1 else ["output"]
    return boxes.draw(shown, nodes, tags, partial=partial)


def _nodes(graph: Any) -> list[Node]:
    graph = unwrap_all(graph)
    nodes = [graph] if isinstance(graph, Node) else graph
    nodes = list(nodes) if isinstance(nodes, Iterable) else [nodes]
    for node in nodes:
        if not isinstance(node, Node):
            raise ArgumentError(
                f"A drawing of {node!r}, which is not a graph.",
                "Give a symbolic array, several, a graphc.Graph or a compiled function.",
            )
    return nodes


def _frame(html: str, height: int) -> str:
    # In a frame, the page's styles and keys do not affect the notebook.
    style = f"width: 100%; height: {height}px; border: 0"
    return f'<iframe srcdoc="{escape(html)}" style="{style}"></iframe>'


def _notebook_displays(html: str) -> bool:
    """Display a picture if this is a notebook, and return whether it is one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return False
    shell.display_pub.publish({"text/html": html, "text/plain": "a graph"})  # type: ignore[union-attr]
    return True
