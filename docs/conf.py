"""The documentation site: `make docs` builds it, offline, with warnings as errors."""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

import matplotlib  # noqa: E402
from docutils import nodes  # noqa: E402
from docutils.utils.math.latex2mathml import tex2mathml  # noqa: E402

matplotlib.use("agg")

import landing  # noqa: E402

import bandfall  # noqa: E402
from bandfall._explore import render_playground  # noqa: E402

project = "Bandfall"
author = "The Bandfall developers"
copyright = "the Bandfall developers, BSD-3-Clause"
version = release = bandfall.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["sg_execution_times.rst"]
default_role = "literal"
toc_object_entries_show_parents = "hide"

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "subsection_order": [
        f"../examples/{group}" for group in ("use", "understand", "serve", "method", "extend")
    ],
    "within_subsection_order": "FileNameSortKey",
    "nested_sections": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
    "capture_repr": ("_repr_html_",),
    "backreferences_dir": None,
}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "Bandfall"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["bandfall.css"]
(HERE / "playground.html").write_text(render_playground(), encoding="utf-8")
html_extra_path = ["playground.html"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {
        "text": "Bandfall",
        "alt_text": "",
        "image_light": "_static/favicon.svg",
        "image_dark": "_static/favicon.svg",
    },
    "navbar_align": "left",
    "navbar_start": ["navbar-logo", "version-switcher"],
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "show_nav_level": 1,
    "navigation_depth": 2,
    "collapse_navigation": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_version_warning_banner": False,
    "check_switcher": False,  # the list of versions lives beside the site, not beside the build
    "switcher": {"json_url": "_static/switcher.json", "version_match": version},
}
html_sidebars = {"index": []}


def inline_formula(writer, node):
    """A formula as MathML: browsers draw it themselves, and nothing is fetched from the network."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def displayed_formula(writer, node):
    """The same on a line of its own."""
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", landing.insert)
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    return {"parallel_read_safe": True}
