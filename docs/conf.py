"""Sphinx configuration: `make docs` builds with warnings as errors."""

from importlib.metadata import version as installed

project = "sortedf"
author = "The sortedf developers"
release = version = installed("sortedf")
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
html_theme = "alabaster"
html_theme_options = {"description": "LLM backlogs on a KV budget, planned", "page_width": "1060px"}
