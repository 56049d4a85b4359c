"""Sphinx directives of the pages of ``api``: an entry for each name, and tables of the names.

An entry's text is the docstring, which ``help()`` shows too; this file adds what only a page can
show: other names of the same function, how the backends compute it, and a plot.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import plots
import tables
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import graphc.tensor as gt
from graphc import Op
from graphc.implicit import ImplicitArray, Structured
from graphc.link import load, names as backends
from graphc.tensor.core.elementwise import Elementwise

PAGES = Path(__file__).parent / "api"

WORDS = {
    tables.ALL_HAVE: "an operation of its own",
    tables.IN_PARTS: "simpler operations",
    tables.CALLED_BACK: "a call of NumPy",
}
"""The cells of the table in ``backends.md``, as words of a sentence."""


class Functions(SphinxDirective):
    """The entries of the listed names of a module, in that order."""

    has_content = True
    option_spec: ClassVar = {"of": str}

    def run(self) -> list[nodes.Node]:
        module = import_module(self.options.get("of", gt.__name__))
        lines = [line for name in _listed(self.content) for line in self.entry(module, name)]
        return self.parse_text_to_nodes("\n".join(lines))

    def entry(self, module: ModuleType, name: str) -> Iterator[str]:
        value = getattr(module, name)
        if isinstance(value, Elementwise):
            yield from self.row(name, value)
        elif callable(value):
            kind = "autoclass" if isinstance(value, type) else "autofunction"
            yield f".. {kind}:: {module.__name__}.{name}"
            others = _others(module, name)
            if others:
                yield from ("", f"   Also {others}.")
        else:
            yield from (f".. py:data:: {name}", f"   :module: {gt.__name__}", "")
            yield f"   {_line(value)}"
        yield ""

    def row(self, name: str, row: Elementwise) -> Iterator[str]:
        """Yield the lines of an elementwise function's entry, from the text of its help."""
        _, summary, text = (row.__doc__ or "").split("\n\n", 2)
        text = f"{text.rstrip()}\n\nBackends:\n    {_backends(row)}\n"
        body = str(GoogleDocstring(text, self.env.config, what="function")).splitlines()
        signature = ", ".join(f"{p}".partition(":")[0] for p in _parameters(row))
        yield from (f".. py:function:: {name}({signature})", f"   :module: {gt.__name__}", "")
        others = _others(gt, name)
        yield from (f"   {_escape(summary)}{f' Also {others}.' if others else ''}", "")
        if name in plots.PLOTS:
            yield from (f"   .. plot:: {name}", "")
        yield from (f"   {line}" for line in body)


class Index(SphinxDirective):
    """A table for each page of functions: each name, and its summary in a line."""

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for page, names in function_pages().items():
            title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            path = page.relative_to(PAGES).with_suffix("").as_posix()
            lines += [f":doc:`{title} <{path}>`", ""]
            lines += _table((f"{gt.__name__}.{name}", getattr(gt, name)) for name in names)
        return self.parse_text_to_nodes("\n".join(lines))


class PageIndex(SphinxDirective):
    """A table of the functions in the directive's content, or else of all that the page lists."""

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = import_module(self.arguments[0])
        page = PAGES / f"{self.env.docname.partition('/')[2]}.md"
        names = _listed(self.content) or sorted(listed(page))
        lines = _table((f"{module.__name__}.{name}", getattr(module, name)) for name in names)
        return self.parse_text_to_nodes("\n".join(lines))


class Draws(SphinxDirective):
    """The entries of distributions of ``graphc.random``, and a plot of each that has a density."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for name in _listed(self.content):
            lines += [f".. autofunction:: graphc.random.{name}", ""]
            if name in plots.DENSITIES:
                lines += [f"   .. plot:: random.{name}", ""]
        return self.parse_text_to_nodes("\n".join(lines))


class PlotOf(SphinxDirective):
    """The plot of a function, or of the density of a distribution."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        draw, name = (
            (plots.draw_density, name.removeprefix("random."))
            if name.startswith("random.")
            else (plots.draw_function, name)
        )
        return [nodes.raw("", draw(name), format="html")]


def function_pages() -> dict[Path, list[str]]:
    """Return the functions of ``graphc.tensor`` that each page lists, by page in order."""
    order = re.findall(r"^tensor/\w+$", (PAGES / "tensor.md").read_text("utf-8"), re.MULTILINE)
    return {page: listed(page) for page in (PAGES / f"{path}.md" for path in order)}


def listed(page: Path) -> list[str]:
    """Return the names that a page lists."""
    blocks = re.findall(
        r"^\.\. (?:functions|draws)::\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    text = " ".join(re.sub(r":of: \S+", "", block) for block in blocks)
    return text.split()


def _listed(content: StringList) -> list[str]:
    return " ".join(content).split()


def _parameters(row: Elementwise) -> Iterator[Any]:
    for parameter in inspect.signature(row).parameters.values():
        yield parameter.replace(annotation=parameter.empty)


def _others(module: ModuleType, name: str) -> str:
    """Return the other names of the same function in a module."""
    same = [x for x in sorted(module.__all__) if getattr(module, x) is getattr(module, name)]
    short = module.__name__.replace(gt.__name__, "gt")
    return ", ".join(f"``{short}.{other}``" for other in same if other != name)


def _table(named: Iterable[tuple[str, Any]]) -> list[str]:
    """Return the lines of a table: links to full names, and a summary of each."""
    lines = [".. list-table::", "   :widths: 30 70", ""]
    for full, value in named:
        link = f":py:obj:`{full.rpartition('.')[2]} <{full}>`"
        lines += [f"   * - {link}", f"     - {_line(value)}"]
    return [*lines, ""]


def _line(value: Any) -> str:
    """Return the summary of a function or a number, in a line."""
    if isinstance(value, Elementwise):
        return f"{_escape(value.meaning)}."
    text = inspect.getdoc(value) if callable(value) else value.__doc__
    return " ".join((text or "").partition("\n\n")[0].split())


def _escape(text: str) -> str:
    return re.sub(r"([|*`_])", r"\\\1", text)


def _backends(row: Elementwise) -> str:
    """Describe how the backends compute an elementwise function."""
    by_way: dict[str, list[str]] = {}
    for name in backends():
        way = tables.cell(load(name), row)
        by_way.setdefault(WORDS.get(way, way), []).append(name)
    if len(by_way) == 1:
        return f"{next(iter(by_way)).capitalize()} on each."
    text = "; ".join(f"{way} on {' and '.join(names)}" for way, names in by_way.items())
    return f"{text[0].upper()}{text[1:]}."


def whole_sentences(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Keep Napoleon from reading a colon in a description as the end of a type."""
    starts = [i + 1 for i, line in enumerate(lines[:-1]) if line in {"Returns:", "Yields:"}]
    if what in {"attribute", "data", "property"}:
        starts.append(0)
    for i in starts:
        text = lines[i].lstrip() if i < len(lines) else ""
        if re.search(r"\w: ", text):
            lines[i] = f"{lines[i][: len(lines[i]) - len(text)]}: {text}"


MADE_BY_GRAPHC = {
    *("graphc.Function", "graphc.Shared", "graphc.compile.pure.Pure"),
    *("graphc.compile.verify.Verification", "graphc.compile.verify.Difference"),
    *("graphc.compile.profile.Profile", "graphc.compile.profile.Row"),
    *("graphc.random.Generator", "graphc.random.SharedGenerator"),
}
"""Classes that users do not construct: their entries have no arguments."""

DEFAULTS = {"Missing.MISSING": "...", "UNSET": "...", "(EVERY,)": "('all',)"}
"""The texts that replace private names of defaults."""


def shorter_signature(  # noqa: PLR0913, PLR0917 (Sphinx's arguments)
    app: Sphinx, what: str, name: str, value: Any, options: Any, arguments: Any, result: Any
) -> tuple[str | None, str | None] | None:
    """Return a signature without names that mean nothing to a user."""
    if name in MADE_BY_GRAPHC:
        return "", None
    for private, shown in DEFAULTS.items():
        arguments = arguments and arguments.replace(f" {private}", f" {shown}")
    return _unquote(arguments), _unquote(result)


def _unquote(text: str | None) -> str | None:
    """Remove Sphinx's class for unevaluated names of types."""
    return text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text)


CONVERSIONS = {"merged", "to_jax", "to_scipy", "with_scale"}
"""Methods of single structures of implicit arrays that users call."""


def skip_protocols(
    app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any
) -> bool | None:
    """Skip methods that only graphc calls: the base class documents them."""
    if type(value).__name__ == "_tuplegetter":
        return True  # a field of a named tuple, which its class documents
    function = getattr(value, "__func__", value)
    path, _, method = getattr(function, "__qualname__", "").rpartition(".")
    cls = getattr(sys.modules.get(getattr(function, "__module__", "")), path, None)
    if method != name or not isinstance(cls, type) or cls in {Op, ImplicitArray, Structured}:
        return None
    inner = issubclass(cls, ImplicitArray) and name not in CONVERSIONS
    return True if inner or (issubclass(cls, Op) and hasattr(Op, name)) else None


def without_overloads(analyze: Callable[[ModuleAnalyzer], None]) -> Callable[..., None]:
    """Wrap Sphinx's reader of sources to drop overloads, which are for type checkers."""

    def analyzed(self: ModuleAnalyzer) -> None:
        analyze(self)
        self.overloads = {}

    return analyzed


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives of the pages to Sphinx."""
    app.connect("autodoc-process-docstring", whole_sentences, priority=100)
    app.connect("autodoc-process-signature", shorter_signature)
    app.connect("autodoc-skip-member", skip_protocols)
    ModuleAnalyzer.analyze = without_overloads(ModuleAnalyzer.analyze)
    for name, directive in (
        ("functions", Functions),
        ("function-index", Index),
        ("draws", Draws),
        ("page-index", PageIndex),
        ("plot", PlotOf),
    ):
        app.add_directive(name, directive)
    return {"parallel_read_safe": True}
