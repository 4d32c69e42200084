"""The site: these pages by Sphinx, MyST and furo (`make site`); a warning, a dead link or anchor is an error."""

import re

from sphinx.application import Sphinx

from equipoise import __version__

project = "Equipoise"
release = version = __version__
copyright = "the authors of Equipoise"

extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["claims/*", "noise/*"]
myst_heading_anchors = 4  # as GitHub makes them, for links such as data.md#files-without-a-recipe
myst_enable_extensions = ["attrs_inline", "deflist", "dollarmath"]

html_theme = "furo"
html_title = f"Equipoise {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
highlight_language = "text"  # a fence without a language is what is typed or printed, not Python
html_theme_options = {"source_view_link": "", "navigation_with_keys": True}
html_show_sourcelink = False
copybutton_prompt_text = "$ "  # a command is copied without it, and without what it printed
copybutton_only_copy_prompt_lines = False


OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([A-Z]+\.md)[^)]*\)")  # pages at the root, which are no part of the site


def setup(app: Sphinx) -> None:
    """Name pages of the repository's root instead of linking to them."""
    app.connect("source-read", lambda _app, _name, source: source.__setitem__(0, OUTSIDE.sub(r"\1 (`\2`)", source[0])))
