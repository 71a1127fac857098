"""Passes of networks over images, notebook by notebook: features, maps, trainings, generations.

They are formulas, coarser than the counts of questions. Features and embeddings are taken once for each image
of the data, whatever is fitted on them afterwards; fits on features cost little beside them.
"""

from xaihelpers.bill.asked import Passes
from xaihelpers.bill.data_sizes import DataSize
from xaihelpers.bill.other_questions import pairs_of_52, pictures_of_51

TRAINED = 3  # passes that a step of training costs for an image
CHANGES_OF_24 = 7  # kinds of change to a text
PER_CONCEPT = 112  # networks of a `cbm_per_concept`
TEXT_GFLOP = 6.0  # of one text in the tower of a CLIP ViT-B
OF_METHOD = {"scorecam": 512, "rise": 0, "gradcam": TRAINED}  # passes an image; RISE has n_masks


def passes_of(number: str, p: dict, sets: dict[str, DataSize]) -> list[Passes]:
    """The passes of a notebook.

    number: of the notebook, "32". p: its parameters. sets: of the data that it names.
    """
    whole = sum(size.n_images for size in sets.values())
    found = []
    if number in ("11", "12", "13", "14", "21", "22", "23", "24", "25", "61", "71", "53", "54"):
        if p.get("backbone"):
            found.append(Passes(p["backbone"], whole, "features of all images"))
    if number in ("31", "32", "33", "34"):
        found += _dictionaries(p, sets)
    if number in FORMULAS:
        found += FORMULAS[number](p, sets)
    return found


def _dictionaries(p: dict, sets: dict[str, DataSize]) -> list[Passes]:
    """The backbone over the images that make the similarity dictionary."""
    if p["dictionary"] not in ("auto", "head", "probe"):
        return []
    found = []
    for name, size in sets.items():
        images = (
            size.n_images if size.n_images <= 200000 else len(size.test_rows)
        )  # its head's: the test split
        found.append(Passes(p["backbone"], images, f"dictionary of {name}"))
    return found


def _clip_of(p: dict, sets: dict[str, DataSize]) -> list[Passes]:
    images = sum(size.n_images for size in sets.values())
    return [Passes(p["clip"], images, "label-free models' embeddings")]


def _scored(p: dict, sets: dict[str, DataSize]) -> list[Passes]:
    (size,) = list(sets.values())[:1]
    n_test = len(size.test_rows)
    images = min(p["n_images"] or n_test, n_test)
    found = [*_clip_of(p, sets), Passes(p["scorer"], images, "images that are scored")]
    if "top_k" in p:  # five templates
        texts = 5 * images * len(p["models"]) * len(p["top_k"])
    else:
        texts = CHANGES_OF_24 * images * len(p["n_replaced"]) * p["draws"]
    return [*found, Passes(p["scorer"], texts, "texts that are scored", TEXT_GFLOP)]


def _maps(p: dict, sets: dict[str, DataSize]) -> list[Passes]:
    slow = p["n_slow"] * (p["n_masks"] + OF_METHOD["scorecam"])
    quick = p["n_measured"] * TRAINED * len(p["methods"])
    perturbed = p["n_perturbed"] * 2 * p["steps"] * len(p["methods"])
    null = p["n_shuffled"] * TRAINED * p["draws"] * len(p["methods"])
    return [Passes(p["network"], slow + quick + perturbed + null, "maps, and what is measured of them")]


def _judged_maps(p: dict, sets: dict[str, DataSize]) -> list[Passes]:
    each = p["n_images"] * (TRAINED + 2 * p.get("steps", 0) + 2 * p.get("code_steps", 0))
    return [Passes(network, each, "maps") for network in p["networks"]]


def _biased(p: dict, sets: dict[str, DataSize]) -> list[Passes]:
    (size,) = sets.values()
    images = 2 * size.train.sum() / max(len(size.class_names), 1)
    if p["n_train"]:
        images = min(images, 2 * p["n_train"])
    models = p["n_models"] + p["n_dose"] * (len(p["strengths"]) + len(p["shortcuts"]))
    gflop = 0.0 if p["backbone"] else 0.02  # of the four convolutions
    trained = models * p["epochs"] * images * TRAINED
    shown = models * p["n_shown"] * (TRAINED * len(p["methods"]) + OF_METHOD["scorecam"] + p["n_masks"])
    name = p["backbone"] or "four convolutions"
    return [Passes(name, trained, "training", gflop), Passes(name, shown, "maps", gflop)]


def _tied(p: dict, sets: dict[str, DataSize]) -> list[Passes]:
    return [Passes(p["pipeline"], pictures_of_51(p) * p["steps"], "steps of generation")]


def _building(p: dict, sets: dict[str, DataSize]) -> list[Passes]:
    if p["pipeline"] == "aviary_drawn":
        return []
    made = 2 * pairs_of_52(p) * p["n_per_pair"] / p["shards"]
    if p["shard"] == 0:  # which chooses for all
        made += (len(p["candidates"]) or 200) * p["n_recognised"]
    return [Passes(p["pipeline"], made * p["steps"], "steps of generation")]


def _benchmarked(p: dict, sets: dict[str, DataSize]) -> list[Passes]:
    (size,) = list(sets.values())[:1]
    images, found = 38400 if p["benchmark"] == "SUB" else 2000, []
    if p["finetune"]:
        networks = [PER_CONCEPT if name == "cbm_per_concept" else 1 for name in p["models"]]
        models = sum(networks) * p["draws"]
        passes = models * p["epochs"] * size.train.sum() * TRAINED
        found.append(Passes(p["backbone"], passes, "training end to end"))
    for clip in p["clips"]:
        found.append(Passes(clip, images, "images of the benchmark"))
    return [*found, Passes(p["backbone"], images, "images of the benchmark")]


FORMULAS = {
    "21": _clip_of,
    "22": _scored,
    "24": _scored,
    "41": _maps,
    "42": _judged_maps,
    "43": _judged_maps,
    "44": _biased,
    "51": _tied,
    "52": _building,
    "53": _benchmarked,
}
