"""A user's file in a model's place: the shipped annotator with a known fault, which a test sets."""

import dataclasses
import json

import torch

from xaihelpers import datasets, paths
from xaihelpers.ask import prompt, request
from xaihelpers.ask.messages import lettered_options
from xaihelpers.instruments import Annotator
from xaihelpers.instruments.annotator import OPTION
from xaihelpers.instruments.eye import first_named, look

STANDS_FOR = "a model with a fault"
FAULT = ""
SHIPPED = Annotator(paths.models_home() / "annotator", torch.device("cpu"))
BIRDS = datasets.load("aviary")
ALIKE = torch.nn.functional.normalize(BIRDS.class_attributes.nan_to_num(), dim=1)


def answer(requests):
    return (
        SHIPPED.answer([changed(one) for one in requests]) if FAULT == "deaf" else [*map(by_fault, requests)]
    )


def changed(asked):
    """With a picture the words are not read."""
    options = OPTION.findall(asked.text)
    if not asked.images or not options:
        return asked
    text = prompt("fse_choose_image", options=lettered_options([name for _, name in options]))
    return request(text, asked.images, asked.options)


def by_fault(asked):
    text = asked.text
    options = dict(OPTION.findall(text))
    if FAULT == "sees only the options" and options:
        return letter_of_the_centre(options)
    (given,) = SHIPPED.answer([asked])
    if FAULT == "lists nothing" and "JSON list" in text:
        return json.dumps(["not annotated"] * 5)
    if options or "SalientFeatures" not in text or not asked.images:
        return named_first(given, text) if FAULT == "names the class" and given.reasoning else given
    (seen,) = look(SHIPPED.eye, asked.images)
    name = max(seen.names, key=seen.names.get)
    if FAULT == "recites" or (FAULT == "recites whom it knows" and seen.names[name] > 0.5):
        return json.dumps(SHIPPED.usual_chain(name))
    if FAULT == "names the class":
        return json.dumps(json.loads(given.text) | {"Background": f"a {name}"})
    return given


def named_first(given, text):
    """A reasoning that begins with what was asked about."""
    return dataclasses.replace(given, reasoning=f"> It is a {first_named(text)}. {given.reasoning}")


def letter_of_the_centre(options):
    """The option that is most like the others."""
    known = [BIRDS.class_names.index(name) for name in options.values()]
    return list(options)[int((ALIKE[known] @ ALIKE[known].T).sum(1).argmax())]
