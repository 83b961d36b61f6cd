"""Configuration of the documentation, which is built and read without a network."""

import importlib.resources
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

import hgr_jax  # noqa: E402

project = "hgr_jax"
author = "The hgr_jax authors"
copyright = author  # noqa: A001
version = release = hgr_jax.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "myst_nb",
    "sphinx_copybutton",
    "docstrings",  # in _extensions, as is the next
    "repository",
]
exclude_patterns = ["_build", "_extensions", "_generated", "_templates"]
templates_path = ["_templates"]

# Markdown and notebooks.  The notebooks hold their outputs; tests/test_notebooks.py runs them.
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

# Docstrings.  A name in single backticks is a link where it is a public name, else code.
default_role = "py:obj"
autosummary_generate = True
autodoc_default_options = {"member-order": "bysource"}
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_param = False
napoleon_use_rtype = False

# Pages.  MathJax with glyphs of its own is one file that loads no other.
html_theme = "sphinx_book_theme"
html_title = f"hgr_jax {release}"
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_persistent": [],
    "show_toc_level": 2,
    "use_download_button": False,
}
copybutton_selector = ".highlight-python pre, .highlight-sh pre"
mathjax_path = "tex-svg.js"
mathjax_file = importlib.resources.files("sphinx-mathjax-offline") / "static/mathjax" / mathjax_path
html_static_path = ["_static", str(mathjax_file)]
html_css_files = ["site.css"]
