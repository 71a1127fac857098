"""A model of your own: a Python file with one function, which runs because its path was named.

    outputs_of(images)   -> outputs of a concept bottleneck    notebooks 11-13, 22-25, 53, 61, the scorecard
    maps_of(images)      -> attention maps                     notebooks 41-44 (`saliency.own_maps`)
    answer(requests)     -> answers of a language model        python:FILE wherever one is named (`ask`)

`images` is a list of RGB PIL images as the data set holds them, some at a time. Such a file runs as any
program does: it is found by the path that is given, from the working folder, and never looked for among data.
Its folder is on Python's path while it runs. `python -m xaihelpers.own_model FILE` writes the outputs to a
file, which is then read by all notebooks without running the model again.
"""

from xaihelpers.own_model.function_file import OwnModelError, file_hash, is_python_file, load_function
from xaihelpers.own_model.own_outputs import outputs_of_data, outputs_of_file

__all__ = [
    "OwnModelError",
    "file_hash",
    "is_python_file",
    "load_function",
    "outputs_of_data",
    "outputs_of_file",
]
