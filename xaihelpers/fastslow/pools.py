"""The images that may be asked about, and what is known of their classes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from xaihelpers.datasets import Dataset, load
from xaihelpers.datasets.loading import DRAWN
from xaihelpers.fastslow.lookalikes import Dictionary, class_neighbours
from xaihelpers.models import load_backbone
from xaihelpers.models.clip import Clip, embed_texts, load_clip
from xaihelpers.parameters import ParameterError


class Pool(NamedTuple):
    """The images of a data set that may be asked about, and what is known of its classes."""

    name: str
    data: Dataset
    rows: np.ndarray  # (n,), of the test images in the data set
    dictionary: Dictionary
    vectors: dict[str, np.ndarray]  # (K, d), by which a guesser may find two classes alike

    @property
    def labels(self) -> np.ndarray:
        """(N,), of all images."""
        return self.data.labels.numpy()

    @property
    def paths(self) -> np.ndarray:
        """(N,), files of all images."""
        return self.data.images["path"].to_numpy()


def load_pools(
    names: Sequence[str],
    backbone: str = "",
    weights: str = "",
    dictionary: str = "auto",
    clip: str = "",
    seed: int = 0,
    count: int = 0,
    device: str = "cpu",
) -> dict[str, Pool]:
    """The pools of test images of several data sets, by name.

    backbone, weights: as of `models.load_backbone`; without one there is no dictionary of mistakes.
    dictionary: as of `class_neighbours`. clip: whose embeddings of "a photo of a ..." serve a guesser; the
        shipped one knows the names of the drawn worlds alone, and serves nowhere else.
    seed: of the run. Another than 0 offers other images of a drawn world: it is drawn anew, at first use. Of
        other data it takes others only where fewer are asked about than there are.
    count: of the cases that are asked about, for which the test images of another world have to suffice; of
        few cases a small world is drawn, with less to learn from. 0 draws as many as the world has.
    """
    network = load_backbone(backbone, weights, device=device) if backbone else None
    of_names, pools = load_clip(clip, device=device) if clip else None, {}
    for name in names:
        place = name
        if seed and name in DRAWN:
            per_class = min(50, 5 * -(-count // 40)) or 50
            place = DRAWN[name](f"{name}_{seed}_{per_class}", per_class, seed)
        data = load(place)
        rows = np.flatnonzero(~data.images["train"])
        neighbours = class_neighbours(data, network, dictionary)
        pools[name] = Pool(name, data, rows, neighbours, class_vectors(data, of_names))
    return pools


def fine_grained(data: Sequence[str], general: Sequence[str]) -> list[str]:
    """The data that are not general. Raises ParameterError: `general` names what is not among `data`.

    The built-in everyday world may be named without being there, so that a user need change `data` alone.
    """
    if unknown := set(general) - {*data, "everyday"}:
        raise ParameterError(f"general names {', '.join(sorted(unknown))}, which is not among data")
    return [name for name in data if name not in general]


def class_vectors(data: Dataset, clip: Clip | None = None) -> dict[str, np.ndarray]:
    """Vectors (K, d) by which a guesser may find two classes alike, as far as the data set has them."""
    by_letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4))
    vectors = {"names' letters": by_letters.fit_transform(data.class_names).toarray()}
    if data.class_attributes is not None:
        vectors["class attributes"] = data.class_attributes.nan_to_num().numpy()
    if clip is not None and (data.drawn or not clip.name.startswith("aviary_")):
        phrases = [f"a photo of a {name}" for name in data.class_names]
        vectors["names, by CLIP"] = embed_texts(clip, phrases, "truncate").rows.numpy()
    return vectors
