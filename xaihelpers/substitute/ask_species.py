"""Is a bird of its species, asked of a vision-language model: which of the species most like it is this?"""

from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase

import numpy as np
import torch
from PIL import Image

from xaihelpers.ask.cache import ask
from xaihelpers.ask.messages import request
from xaihelpers.ask.prompt_files import lettered_options, prompt


def ask_species(
    model,
    images: Sequence[Image.Image | str | Path],
    labels: Sequence[int],
    names: Sequence[str],
    shows: torch.Tensor,
    n_options: int = 8,
    seed: int = 0,
) -> np.ndarray:
    """Whether the model chooses each image's species, bool (N,); no answer is a wrong one.

    model: of `ask.load_vlm`. images: N PIL images or files. labels: (N,), rows of `names` and `shows`.
    shows: bool (K, 312), the species' attributes; those that differ in the fewest are offered.
    n_options: species offered, at most 26. seed: of their order.
    Raises AskError as `ask` does.
    """
    apart = torch.cdist(shows.float(), shows.float(), p=1)  # (K, K) attributes that differ
    letters = tuple(ascii_uppercase[: min(n_options, len(names))])
    requests, right = [], []
    for row, (image, label) in enumerate(zip(images, labels, strict=True)):
        others = [other for other in apart[label].argsort().tolist() if other != label]
        offered = [int(label), *others[: len(letters) - 1]]
        offered = np.random.default_rng([seed, row]).permutation(offered).tolist()
        options = lettered_options([names[one] for one in offered], ")")
        text = prompt("sub_species", options=options)
        requests.append(request(text, [image], letters, max_tokens=8))
        right.append(letters[offered.index(label)])
    choices = [answer.choice for answer in ask(model, requests)]
    return np.array(choices, object) == np.array(right, object)
