"""The documentation's settings; ``make docs`` builds it, and a warning is an error."""

from importlib import import_module
from importlib.metadata import version as version_of
from pkgutil import walk_packages

from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import graphc.tensor as gt
from graphc.random.generator import DISTRIBUTIONS
from graphc.tensor.arrays.create import CONSTRUCTORS, PLURALS
from graphc.tensor.core.elementwise import Elementwise

project = "graphc"
author = "The graphc developers"
copyright = "The graphc developers"
version = release = version_of("graphc")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"graphc {version}"

autodoc_default_options = {"members": True, "imported-members": True}
autodoc_preserve_defaults = True
autodoc_mock_imports = ["pytensor"]  # it takes seconds to load
napoleon_numpy_docstring = False

OPERANDS = {1: "x", 2: "a, b", 3: "a, b, c", 4: "a, b, c, x"}


class Rows(SphinxDirective):
    """Every elementwise function of ``graphc.tensor``, from its row in the table."""

    def run(self) -> list[Node]:
        named = [(name, getattr(gt, name)) for name in sorted(gt.__all__)]
        return self.parse_text_to_nodes(
            "\n".join(
                f".. py:function:: {name}({OPERANDS.get(row.arity, '*operands')})\n"
                f"   :module: graphc.tensor\n\n   {row.meaning.replace('|', chr(92) + '|')}.\n"
                for name, row in named
                if isinstance(row, Elementwise)
            )
        )


class Subjects(SphinxDirective):
    """Every other function of ``graphc.tensor``, under the subject whose file it stands in."""

    def run(self) -> list[Node]:
        found = {name: getattr(gt, name) for name in sorted(gt.__all__)}
        lettered = {*CONSTRUCTORS, *PLURALS} - {"scalar", "vector", "matrix", "row", "col"}
        lines: list[str] = []
        modules = [module.name for module in walk_packages(gt.__path__, f"{gt.__name__}.")]
        for path in sorted(modules, key=lambda path: path.rpartition(".")[2]):
            own = [
                name
                for name, value in found.items()
                if getattr(value, "__module__", None) == path
                and getattr(value, "__name__", name) == name
                and not isinstance(value, Elementwise)
                and name not in lettered
            ]
            if own:
                title = path.rpartition(".")[2].replace("_", " ").capitalize()
                lines += [title, "-" * len(title), "", _first_line(path), ""]
                lines += [_entry(name, found[name]) for name in own]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


class Draws(SphinxDirective):
    """Every distribution of ``graphc.random``."""

    def run(self) -> list[Node]:
        entries = [f".. autofunction:: graphc.random.{name}\n" for name in sorted(DISTRIBUTIONS)]
        return self.parse_text_to_nodes("\n".join(entries))


def _first_line(path: str) -> str:
    return (import_module(path).__doc__ or "").partition("\n")[0]


def _entry(name: str, value: object) -> str:
    if callable(value):
        kind = "autoclass" if isinstance(value, type) else "autofunction"
        return f".. {kind}:: {gt.__name__}.{name}\n"
    meaning = (value.__doc__ or "").partition("\n")[0]
    return f".. py:data:: {name}\n   :module: {gt.__name__}\n\n   {meaning}\n"


def setup(app: Sphinx) -> None:
    """The directives that the pages of ``api`` use."""
    app.add_directive("rows", Rows)
    app.add_directive("subjects", Subjects)
    app.add_directive("draws", Draws)
