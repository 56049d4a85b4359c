"""The documentation's settings; ``make docs`` builds it, and a warning is an error."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "graphc"
author = "The graphc developers"
copyright = "The graphc developers"
version = release = version_of("graphc")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "reference",
]
# The button copies the code alone, without prompts and results.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"graphc {version}"
html_static_path = ["style"]
html_css_files = ["reference.css"]

autodoc_default_options = {"members": True, "imported-members": True}
autodoc_preserve_defaults = True
autodoc_mock_imports = ["pymc", "pytensor"]  # they take seconds to load
autodoc_type_aliases = {"TensorLike": "TensorLike"}
napoleon_numpy_docstring = False
napoleon_custom_sections = [
    "Definition",
    "Properties",
    "Derivative",
    "Distribution",
    "Source",
    "Backends",
]
