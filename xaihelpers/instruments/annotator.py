"""The shipped annotator: writes what its eye found into the form that a prompt asks for.

| asked for | answered by |
|---|---|
| a chain, five concepts, a name, an attribute, a rating, of a picture | the eye |
| a choice by a picture | the eye's probabilities of the names that are options |
| a choice by concepts | the reader of words; by both, the product of the two |
| a chain or a reasoning of a class that is named | what pictures of the class have usually shown |

What the eye is not sure of (`SURE`) is left out, and so is what it cannot tell (`UNSAID`). What it says of a
part of a bird it reads from a square around that part (`eye.CloseEye`); how often that is still what the
species usually has is on its card.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from sklearn.feature_extraction.text import CountVectorizer

from xaihelpers.ask.messages import Answer, Request
from xaihelpers.datasets import plain_name, plain_value, with_article
from xaihelpers.fastslow.label_chains import UNKNOWN, chain_from_attributes
from xaihelpers.instruments.eye import GROUPS, NAMES, Eye, Look, first_named, load_eye, look
from xaihelpers.text_files import words

SURE = 0.5  # probability from which on something is said
UNSAID = ("size",)  # groups in which it is no better than the commonest answer
SURE_OF_TWO = 0.75  # of two values of a group together, both of which are said
ALIKE = 1e-3  # probability of a name that is not known
# of CountVectorizer; a question without concepts has none but stop words that are known
WORDS = {"ngram_range": (1, 2), "binary": True, "token_pattern": r"[^\W\d_]+", "stop_words": "english"}
TOKEN = re.compile(r"\w+|[^\w\s]")
OPTION = re.compile(r"^([A-P])[.)] (.+)$", re.M)
GROUP_ASKED = re.compile(r"type of (.+?) does this bird have")
FEATURES = re.compile(r"features, each with its weight: (.+?)\.?$", re.M)
ATTRIBUTE_OF = {  # an attribute in plain words -> (group, value), of birds
    words(plain_name(f"has_{group}::{value}")): (group, value)
    for group, values in GROUPS["birds"].items()
    for value in values
}


class WordReader:
    """Which class does a text describe? A linear classifier of its words and pairs of words.

    file: as `recipes/annotator.py` writes it. Raises OSError where there is none.
    """

    def __init__(self, file: Path):
        tensors = load_file(file)
        told = json.loads(tensors["told"].numpy().tobytes())
        self.names = told["names"]  # K
        self.counter = CountVectorizer(vocabulary=told["terms"], **WORDS)  # of W words and pairs
        self.weights, self.bias = (
            tensors[name].float().numpy() for name in ("weights", "bias")
        )  # (K, W), (K,)

    def read(self, text: str) -> dict[str, float]:
        """How probable each name is, by a text; all alike where it has no word that is known."""
        counts = self.counter.transform([text])
        if not counts.nnz:
            return dict.fromkeys(self.names, 1 / len(self.names))
        logits = counts @ self.weights.T + self.bias
        chances = np.exp(logits[0] - logits[0].max())
        return dict(zip(self.names, (chances / chances.sum()).tolist(), strict=True))


class Annotator:
    """What answers in the place of a vision-language model; see the module docstring.

    folder: with eye.safetensors, reader.safetensors and usual.safetensors, as `recipes/annotator.py` writes
    them. Raises OSError where they are missing.
    """

    def __init__(self, folder: Path, device: torch.device):
        self.eye = load_eye(Eye(), folder / "eye.safetensors", device)
        self.reader = WordReader(folder / "reader.safetensors")
        usual = load_file(folder / "usual.safetensors")  # of each world, (K, values): share that shows it
        self.usual = {world: shares.float().numpy() for world, shares in usual.items()}

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """An answer to each request, by its last turn and its first image."""
        images = [request.images[0] for request in requests if request.images]
        looks = iter(look(self.eye, images) if images else ())
        answers = []
        for request in requests:
            seen = next(looks) if request.images else None
            answers.append(cut_off(self._answer(request.text, seen), request.max_tokens))
        return answers

    def _answer(self, text: str, seen: Look | None) -> Answer:
        """The answer to a text; seen: of the picture, None without one."""
        options = dict(OPTION.findall(text))
        if seen and (features := FEATURES.search(text)):
            return rating(features[1], seen)
        if seen and (group := GROUP_ASKED.search(text)):
            return attribute(group[1].replace(" ", "_"), options, seen)
        if options:
            # by the concepts that stand before the question
            chances = among(options.values(), self.reader.read(text[: OPTION.search(text).start()]))
            return chosen(options, chances * among(options.values(), seen.names) if seen else chances)
        name = max(seen.names, key=seen.names.get) if seen else first_named(text)
        if not name:
            return Answer("This model knows the classes of the drawn worlds, and none of them is named.")
        chain = seen_chain(seen) if seen else self.usual_chain(name)
        if "SalientFeatures" in text:
            return Answer(json.dumps(chain))
        if seen and "JSON list" in text:
            return Answer(json.dumps(five_of(chain)))
        if seen and "name of its class" in text:
            return Answer(name)
        if seen:
            return Answer(f"It shows {', '.join(said for said in chain.values() if said != UNKNOWN)}.")
        reasoning, answer = reasoning_of(chain)
        return Answer(answer, reasoning)

    def usual_chain(self, name: str) -> dict[str, str]:
        """The chain of what most pictures of a class have shown."""
        world = next(world for world, names in NAMES.items() if name in names)
        shares, said = iter(self.usual[world][NAMES[world].index(name)]), {}
        for group, values in GROUPS[world].items():
            said[group] = [value for value in values if next(shares) >= SURE]
        return chain_of_values(said)


def cut_off(answer: Answer, limit: int) -> Answer:
    """An answer of so many words and marks at most, as a language model's ends after as many tokens."""
    thought = [token.end() for token in TOKEN.finditer(answer.reasoning)]
    said = [token.end() for token in TOKEN.finditer(answer.text)]
    count = len(thought) + len(said)
    if count <= limit:
        return replace(answer, tokens_out=count)
    left = limit - len(thought)
    reasoning = answer.reasoning if left >= 0 else answer.reasoning[: thought[limit - 1]]
    text = answer.text[: said[left - 1]] if left > 0 else ""
    return replace(answer, reasoning=reasoning, text=text, tokens_out=limit, truncated=True)


def sure_values(seen: Look, world: str) -> dict[str, list[str]]:
    """Of each group of a world the values that the eye is sure of.

    One; two that are sure together; or all the parts of a thing that are about as probable as the first.
    """
    said = {}
    for group, chances in seen.values[world].items():
        best = sorted(chances, key=chances.get, reverse=True)
        if seen.visible[world][group] < SURE or group in UNSAID:
            said[group] = []
        elif group in ("part", "superclass"):  # of which a thing has several
            said[group] = [value for value in best if chances[value] > chances[best[0]] / 2]
        elif chances[best[0]] >= SURE:
            said[group] = best[:1]
        else:
            said[group] = best[:2] if chances[best[0]] + chances[best[1]] >= SURE_OF_TWO else []
    return said


def seen_chain(seen: Look) -> dict[str, str]:
    """The chain of what the eye is sure of."""
    return chain_of_values(sure_values(seen, "things" if seen.is_thing > 0.5 else "birds"))


def chain_of_values(said: Mapping[str, list[str]]) -> dict[str, str]:
    """The five stages of values by group, a bird's seat among them."""
    attributes = [f"{group}::{value}" for group, values in said.items() for value in values]
    attributes = [name for name in attributes if not name.startswith(("seat::", "category::"))]
    return chain_from_attributes(attributes, "".join(said.get("seat", [])[:1]))


def five_of(chain: Mapping[str, str]) -> list[str]:
    """The five most salient concepts of a chain: the parts that stand out first, then the rest."""
    salient = chain["SalientFeatures"].split(", ")

    def rank(phrase: str) -> int:
        return next((place for place, part in enumerate(salient) if phrase.endswith(part)), len(salient))

    detailed = sorted(chain["DetailedFeatures"].split(", "), key=rank)
    others = [*chain["AuxiliaryFeatures"].split(", "), *salient, chain["Superclass"], chain["Background"]]
    found = [phrase for phrase in [*detailed, *others] if phrase != UNKNOWN]
    return [*dict.fromkeys(found), *[UNKNOWN] * 5][:5]


def reasoning_of(chain: Mapping[str, str]) -> tuple[str, str]:
    """A train of thought, a step for every stage that holds something, and the answer after it."""
    steps = [
        f"Its place is {chain['Background']}.",
        f"It is {with_article(chain['Superclass'])}.",
        f"Look at its {chain['SalientFeatures']}.",
        f"It shows {chain['DetailedFeatures']}.",
        f"It also has {chain['AuxiliaryFeatures']}.",
    ]
    reasoning = " ".join(f"> {step}" for step in steps if UNKNOWN not in step)
    return reasoning, f"Look for {chain['DetailedFeatures'].split(', ')[0]}."


def among(names: Sequence[str], chances: Mapping[str, float]) -> np.ndarray:
    """The probabilities of some names, which sum to 1."""
    known = {words(name): chance for name, chance in chances.items()}
    found = np.array([known.get(words(name), 0.0) for name in names]) + ALIKE
    return found / found.sum()


def attribute(group: str, options: Mapping[str, str], seen: Look) -> Answer:
    """The letter of a group's value; what the options do not name goes to "Other"."""
    chances = seen.values["birds"].get(group, {})
    of_values = {plain_value(value): chance for value, chance in chances.items()}
    found = np.array([of_values.get(option, np.nan) for option in options.values()])
    left = max(1 - np.nansum(found), 0.0) / max(np.isnan(found).sum(), 1)
    return chosen(options, np.where(np.isnan(found), left, found) + 1e-9)


def rating(features: str, seen: Look) -> Answer:
    """1 to 4 by how much of the weight lies on features that are seen, of those that are known."""
    true, total = 0.0, 0.0
    for feature in features.split(", "):
        name, _, weight = feature.rpartition(": ")
        group, value = ATTRIBUTE_OF.get(words(name), ("", ""))
        if group:
            chance = seen.values["birds"][group][value] * seen.visible["birds"][group]
            true, total = true + abs(float(weight)) * chance, total + abs(float(weight))
    deserved = 1 + 3 * true / total if total else 2.5
    nearness = np.exp(-2 * np.abs(np.arange(1, 5) - deserved))
    return chosen(dict.fromkeys("1234", ""), nearness)


def chosen(options: Mapping[str, str], chances: np.ndarray) -> Answer:
    """The most probable letter, and how probable each is."""
    chances = chances / chances.sum()
    probabilities = dict(zip(options, chances.tolist(), strict=True))
    return Answer(max(probabilities, key=probabilities.get), probabilities=probabilities)
