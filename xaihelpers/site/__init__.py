"""The static site: committed notebooks, equations, pictures and functions as pages that work offline.

`python -m xaihelpers.site` writes it from the notebooks as they are committed; none is executed, and no
module of the package is imported that brings torch. Sphinx with myst-nb makes the pages; the modules here
make what it reads.
"""
