"""What notebooks 23, 51 and 52 ask: ratings of explanations, and the attributes of generated pictures."""

from PIL import Image

from xaihelpers.ask.messages import request
from xaihelpers.ask.prompt_files import lettered_options, prompt
from xaihelpers.bill.asked import Questions
from xaihelpers.bill.data_sizes import DataSize
from xaihelpers.substitute.ask_attributes import group_question
from xaihelpers.worlds.aviary.individuals import ATTRIBUTES, GROUPS

SUB_SPECIES, SUB_ATTRIBUTES = 33, 45  # of the published benchmark: birds and attributes that pass
ARMS = 8  # sets of images in notebook 51: before, tied, prompted, and its rivals


def of_23(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """A rating of each item, unless the LLM's ratings are a table."""
    if p["llm"].endswith(".csv"):
        return []
    data = sets[p["data"]]
    features = ", ".join(f"has wing colour brown (weight 0.{n}2)" for n in range(p["k"]))
    text = prompt(p["rating_prompt"], prediction="Black footed Albatross", features=features)
    sample = [request(text, [data.image], "1234", max_tokens=8)]
    count = min(p["n_items"], len(data.test_rows))
    return [Questions("ratings of explanations", p["llm"], count, sample, "letter")]


def of_51(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """Attribute groups and species of every generated image, where a model is asked; a coarse count."""
    if not p["annotator"]:
        return []
    wanted = p["attributes"] or ATTRIBUTES
    groups = sorted({group_of(name) for name in wanted}, key=list(GROUPS).index)
    images = pictures_of_51(p)
    found = [_groups("attributes", p["annotator"], images * len(groups), groups, p["size"] or 64)]
    if not p["classifier"]:
        names = [f"common name number {n}" for n in range(min(p["n_options"], 26))]
        text = prompt("sub_species", options=lettered_options(names, ")"))
        picture = Image.new("RGB", (p["size"] or 64,) * 2)
        sample = [request(text, [picture], tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(names)]), max_tokens=8)]
        found.append(Questions("species", p["annotator"], images, sample, "letter"))
    return found


def of_52(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """Groups of real images, then one of each generated image, where the filter is a model that is asked."""
    data, wanted = sets[p["data"]], p["attributes"] or ATTRIBUTES
    groups = sorted({group_of(name) for name in wanted}, key=list(GROUPS).index)
    side, found = p["size"] or 64, []
    if p["annotator"] not in (p["reader"], "aviary_reader"):
        if p["shard"] == 0:  # the first shard chooses for all
            tried = min(p["n_real"] or len(data.test_rows), len(data.test_rows))
            found.append(_groups("real images", p["annotator"], tried * len(groups), groups, side))
        made = pairs_of_52(p) * p["n_per_pair"] / p["shards"]
        found.append(_groups("generated images", p["annotator"], made, groups, side))
    if p["pipeline"] == "aviary_drawn" and p["compared"] not in ("", p["reader"]):
        some = pairs_of_52(p) * min(p["n_compared"], p["n_per_pair"]) / p["shards"]
        found.append(_groups("compared", p["compared"], some, groups, side))
    return found


def group_of(attribute: str) -> str:
    """The attribute's group: crown_color of has_crown_color::red."""
    return attribute.removeprefix("has_").split("::")[0].split("--")[0]


def pictures_of_51(p: dict) -> float:
    """Images that notebook 51 generates, about: pairs of three kinds, rivals, compared levels."""
    levels = len(p["other_k"]) + len(p["other_t_min"]) + len(p["other_t_max"]) + 1
    return 3 * p["n_pairs"] * 4 + 3 * p["n_rivals"] * ARMS + p["n_compared"] * levels * 2


def pairs_of_52(p: dict) -> float:
    """Pairs of a bird and an attribute that stay: the paper's where all are candidates, else most of them."""
    birds = len(p["candidates"]) or SUB_SPECIES
    attributes = len(p["attributes"]) or SUB_ATTRIBUTES
    return birds * attributes * (1.0 if not p["candidates"] else 0.85)


def _groups(what: str, model: str, count: float, groups: list[str], side: int) -> Questions:
    picture, sample = Image.new("RGB", (side, side)), []
    for group in groups:
        text, letters = group_question(group)
        sample.append(request(text, [picture], letters, max_tokens=8))
    return Questions(what, model, count, sample, "letter")
