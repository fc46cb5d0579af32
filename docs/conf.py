"""Sphinx configuration: ``make docs`` builds the site and runs every example; warnings are errors."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# set before any library starts its threads; the examples are small, and threads would only wait
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["HF_HUB_OFFLINE"] = "1"  # an example that needs a download fails
os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(Path(__file__).parent))

import pandas

import epiloss
from epiloss.integrations.extraction.frameworks import import_torchvision

if find_spec("torchvision") is not None:
    import_torchvision()  # transformers imports it if it is installed

pandas.set_option("display.max_colwidth", 160)  # show descriptions of regions in full

project = "epiloss"
author = "the epiloss developers"
copyright = "the epiloss developers"
version = release = epiloss.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",  # docs/mathml.py
]
exclude_patterns = ["_build", "gallery", "peers_table.md"]
templates_path = ["_templates"]
default_role = "code"
nitpicky = True
nitpick_ignore_regex = [
    # names of other packages, which cannot be resolved without the network
    (r"py:.*", r"(sklearn|numpy|np|torch|pandas|collections|pathlib|abc)\..*"),
]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings describe the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the templates list them

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("epiloss",),
    "reference_url": {"epiloss": None},
    "backreferences_dir": "generated/examples",
    "image_srcset": ["2x"],
    "default_thumb_file": str(Path(__file__).parent / "images" / "ledger.png"),
    "show_signature": False,
    "notebook_extensions": set(),
    "show_memory": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 3600,  # do not report times, which differ between machines
    "write_computation_times": False,
    "capture_repr": ("_repr_html_",),
}
suppress_warnings = [
    "config.cache"
]  # the settings of the gallery contain functions, which cannot be cached

html_theme = "pydata_sphinx_theme"
html_title = "epiloss"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    # the other pages need their full width for tables and output
    "secondary_sidebar_items": {name: ["page-toc"] for name in ("mathematics", "glance", "scale")},
    "header_links_before_dropdown": 8,
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
}
_ALONE = ("index", "install", "glance", "command_line", "mathematics")  # pages without a side bar
html_sidebars: dict[str, list[str]] = {name: [] for name in _ALONE}


def _skip_others(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Skip members inherited from other packages; None lets Sphinx decide."""
    home = getattr(getattr(member, "fget", member), "__module__", None) or "epiloss"
    return None if home.startswith("epiloss") else True


def setup(app: Any) -> None:
    """Connect the function that skips members of other packages."""
    app.connect("autodoc-skip-member", _skip_others)
