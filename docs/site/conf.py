"""Sphinx's configuration. Everything that a page needs is in the output: no fonts, scripts or styles from elsewhere."""

import re
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

project = "Forebay"
author = "the Forebay authors"
copyright = author  # noqa: A001 - Sphinx's name for it
release = version = re.search(r"project\(forebay VERSION ([0-9.]+)", (_ROOT / "CMakeLists.txt").read_text())[1]

root_doc = "index"
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 6
highlight_language = "none"
smartquotes = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"Forebay {version}"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
copybutton_exclude = ".linenos, .gp, .go"
