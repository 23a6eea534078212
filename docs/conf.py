"""The site: the repository's pages, the reference from docstrings and commands, and the lab."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

import iosim  # noqa: E402

project = "iosim"
author = copyright = "The iosim developers"
release = version = iosim.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
    # In docs/_ext:
    "docstrings",
    "mathml",
    "figures",
    "theorems",
    "glossary",
    "bounds_page",
    "lab_page",
    "slides_page",
    "tutorials",
]
# The source folder is the repository, so that a link between files is the same here and there.
root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "docs/**", "proofs/*.md", "experiments/README.md"]
exclude_patterns = [".*", "build", "dist", "docs/_*", "iosim", "tests", "**/node_modules"]

myst_enable_extensions = ["amsmath", "dollarmath", "deflist"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
# In docstrings a single backtick is a name.
default_role = "py:obj"
autodoc_default_options = {"members": True, "no-value": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_use_rtype = False
napoleon_use_ivar = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = "iosim"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
# The site's own first file leads to the first page.
html_additional_pages = {"index": "first.html"}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "lab_link.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
