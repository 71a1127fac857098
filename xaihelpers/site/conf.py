"""What Sphinx is told; paths and what depends on the checkout come from `build`."""

import sys

# jsonschema would read 40 grammars of addresses for it, three seconds for what no page needs
sys.modules.setdefault("rfc3987_syntax", None)

project = "Can concept explanations be trusted?"
author = "the authors of the collection"
html_title = project
language = "en"

extensions = ["myst_nb", "xaihelpers.site.math_renderer", "xaihelpers.site.page_html"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
root_doc = "index"

nb_execution_mode = "off"
nb_merge_streams = True
nb_output_stderr = "show"
nb_ipywidgets_js = {}  # no script of another host
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline", "fieldlist"]
myst_update_mathjax = False
html_math_renderer = "mathml"

smartquotes = False  # the texts as they are written

html_theme = "furo"
html_copy_source = False
html_domain_indices = False
html_show_sourcelink = False
html_show_copyright = False
html_last_updated_fmt = None
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {"navigation_with_keys": False, "top_of_page_buttons": []}

add_module_names = False
python_use_unqualified_type_names = True
python_display_short_literal_types = True
toc_object_entries_show_parents = "hide"
