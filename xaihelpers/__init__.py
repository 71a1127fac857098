"""Helpers shared by the notebooks; each module imports its own heavy libraries, this file none."""

__version__ = "0.1.0"
