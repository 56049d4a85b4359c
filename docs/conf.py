"""The documentation's settings; ``make docs`` builds it, and a warning is an error."""

from importlib.metadata import version as version_of

from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import graphc.tensor as gt
from graphc.tensor.elementwise import Elementwise

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
napoleon_numpy_docstring = False

OPERANDS = {1: "x", 2: "a, b"}


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


def setup(app: Sphinx) -> None:
    """The directive that ``api/tensor.md`` uses."""
    app.add_directive("rows", Rows)
