"""How Sphinx makes the documentation's site of these pages: `make docs`.

The pages are Markdown as the repository shows them: MyST reads them by CommonMark, with the same anchors of headings.
The site asks for nothing from elsewhere, and its search works from a folder (tests/documentation/test_site.py).
"""

import tomllib
from pathlib import Path

_PROJECT = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text(encoding="utf-8"))

project = "Virtoll"
release = version = _PROJECT["project"]["version"]
extensions = ["myst_parser"]
exclude_patterns = ["conf.py"]
suppress_warnings = ["misc.highlighting_failure"]  # a record's form, with `|` between its values, is no whole JSON

myst_heading_anchors = 6
smartquotes = False  # two hyphens are an option's, and a quotation mark is what can be typed
highlight_language = "none"  # a block without a language is a terminal's text, or a drawing

html_theme = "furo"
html_title = f"Virtoll {release}"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it would ask for other pages, which a browser refuses to a page of a folder
html_css_files = ["site.css"]
html_static_path = ["static"]
