"""The bill before a run: what a notebook with its parameters reads, computes, asks, and what it costs."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from xaihelpers import spending
from xaihelpers.bill import fse_questions, judge_questions, other_questions
from xaihelpers.bill.asked import Passes, Questions
from xaihelpers.bill.data_sizes import DataSize, SizeError, data_size
from xaihelpers.bill.model_names import problems_of
from xaihelpers.bill.model_sizes import OVERHEAD, ModelSize, is_served, model_size, network_size
from xaihelpers.bill.passes import passes_of
from xaihelpers.bill.rates import SERVER_REQUESTS, SERVER_TOKENS, SERVER_WAIT, Rate
from xaihelpers.parameters import parameters_hash

ASKS = {
    "23": other_questions.of_23,
    "31": fse_questions.of_31,
    "32": fse_questions.of_32,
    "33": fse_questions.of_33,
    "34": fse_questions.of_34,
    "42": judge_questions.of_42,
    "43": judge_questions.of_43,
    "44": judge_questions.of_44,
    "45": judge_questions.of_45,
    "51": other_questions.of_51,
    "52": other_questions.of_52,
}
FEATURE_BYTES = 4 * (512 * 49 + 512)  # of an image: the maps of a ResNet and their means, float32
IMAGE_BYTES = 300_000  # of a generated one
ACTIVATION_BYTES = 30e6  # of an image of 224² in a network
BATCH = 32  # images at a time


class ModelBill(NamedTuple):
    """What one model is asked."""

    model: str
    requests: float
    cached: float
    images: float
    tokens_in: float
    tokens_out: float
    seconds: float
    price: spending.Price
    cost: float
    memory: float  # bytes; 0 where it is served


@dataclass
class Bill:
    """An estimate for one notebook with its parameters.

    asked: by model. passes, flops: of networks. megabytes: written to the disk. memory: bytes of the device
        that the largest model or network needs. missing: data sets that are not here, counted as published.
    too_large: models that do not fit into the device, and by how much.
    problems: what would stop the run. remarks: what the estimate rests on, beyond its formulas.
    """

    notebook: str
    parameters: dict
    questions: list[Questions] = field(default_factory=list)
    asked: list[ModelBill] = field(default_factory=list)
    passes: list[Passes] = field(default_factory=list)
    flops: float = 0.0
    network_seconds: float = 0.0
    images_read: float = 0.0
    megabytes: float = 0.0
    memory: float = 0.0
    missing: list[str] = field(default_factory=list)
    too_large: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Of answers and passes; fits and figures come on top."""
        return self.network_seconds + sum(line.seconds for line in self.asked)

    @property
    def cost(self) -> str:
        """In words, each currency for itself."""
        return spending.total((line.cost, line.price.currency) for line in self.asked)


def estimate(notebook: str, parameters: dict, rate: Rate, run_name: str = "") -> Bill:
    """The bill of a notebook.

    notebook: its number, or its name that begins with it. parameters: all of them. rate: of the device.
    run_name: of the folder of its results, from which is known what was answered; empty: by its parameters.
    No request is sent, nothing is drawn or fetched. What would stop the run is a problem of the bill.
    """
    number, p = notebook[:2], parameters
    bill = Bill(notebook, p)
    sets = _sets(p, bill)
    bill.problems += problems_of(number, p)
    countable = len(sets) == len(_names(p)) and not any("prompt" in problem for problem in bill.problems)
    if number in ASKS and countable:
        bill.questions = ASKS[number](p, sets)
        _count_answers(bill, p, rate, run_name or f"{number}-{parameters_hash(p)}")
    bill.passes = passes_of(number, p, sets) if sets or not p.get("data") else []
    _count_passes(bill, rate)
    bill.images_read = sum(
        one.passes for one in bill.passes if one.what.startswith(("features", "dictionary"))
    )
    bill.images_read += sum(one.images for one in bill.questions)
    _check_memory(bill, rate)
    if number not in ASKS and not bill.passes:
        bill.remarks.append("this notebook has no formula: fits and figures alone, or not counted")
    return bill


def _sets(p: dict, bill: Bill) -> dict[str, DataSize]:
    """The data sets that the parameter `data` names."""
    sets = {}
    for name in _names(p):
        try:
            sets[name] = data_size(name)
        except SizeError as error:
            bill.problems.append(str(error))
            continue
        if not sets[name].is_here:
            bill.missing.append(name)
    return sets


def _names(p: dict) -> list[str]:
    names = p.get("data") or []
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))


def _count_answers(bill: Bill, p: dict, rate: Rate, run_name: str) -> None:
    have, price_of = spending.progress_of(run_name), _priced(p.get("prices", ""))
    for model in dict.fromkeys(one.model for one in bill.questions):
        here = [one for one in bill.questions if one.model == model]
        size = model_size(model)
        requests = sum(one.count for one in here)
        cached = min(have.get(spending.plain_name(model), 0), requests)
        left = 1 - cached / requests if requests else 0.0
        tokens_in = left * sum(one.tokens_in(size) for one in here)
        tokens_out = left * sum(one.tokens_out() for one in here)
        price = price_of(model)
        seconds = _seconds(size, rate, left * requests, tokens_in, tokens_out)
        if rate.earlier and spending.plain_name(model) in rate.earlier:
            seconds = left * requests * rate.earlier[spending.plain_name(model)]
        bill.asked.append(
            ModelBill(
                model,
                requests,
                cached,
                left * sum(one.images for one in here),
                tokens_in,
                tokens_out,
                seconds,
                price,
                price.of(tokens_in, tokens_out),
                size.memory(rate.weight_bytes),
            )
        )
        if not size.is_known:
            bill.remarks.append(f"{model}: its size is not known, images are counted by OpenAI's rule")


def _priced(file: str) -> Callable[[str], spending.Price]:
    """A function from models to prices; one without a price, a problem found before, counts as free."""
    try:
        prices = spending.read_prices(file)
    except spending.SpendingError:
        prices = {}

    def price_of(model: str) -> spending.Price:
        try:
            price = spending.price_of(model, _address(model), prices, file)
            return price.in_batches() if model.startswith("batch:") else price
        except spending.SpendingError:
            return spending.FREE

    return price_of


def _address(model: str) -> str:
    """Where a model is served; "" for one that runs here."""
    if not is_served(model):
        return ""
    return os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"


def _seconds(size: ModelSize, rate: Rate, requests: float, tokens_in: float, tokens_out: float) -> float:
    if size.is_served:
        return (requests * SERVER_WAIT + tokens_out / SERVER_TOKENS) / SERVER_REQUESTS
    return rate.of_answers(size.billions, tokens_in, tokens_out)


def _count_passes(bill: Bill, rate: Rate) -> None:
    for one in bill.passes:
        gflop = one.gflop or network_size(one.network).gflop
        bill.flops += 1e9 * gflop * one.passes
    bill.network_seconds = rate.of_flops(bill.flops)
    for one in bill.passes:
        if one.what.startswith("features"):
            bill.megabytes += one.passes * FEATURE_BYTES / 1e6
        if one.what.startswith("steps of generation"):
            bill.megabytes += one.passes / bill.parameters["steps"] * IMAGE_BYTES / 1e6


def _check_memory(bill: Bill, rate: Rate) -> None:
    """What the largest model needs, and by how much it does not fit; models are loaded one at a time."""
    needed = {line.model: line.memory for line in bill.asked if line.memory}
    for one in bill.passes:
        size = network_size(one.network)
        activations = 0.0 if one.what.startswith("steps of generation") else BATCH * ACTIVATION_BYTES
        needed[one.network] = size.millions * 1e6 * rate.weight_bytes * OVERHEAD + activations
    bill.memory = max(needed.values(), default=0.0)
    for name, bytes_needed in needed.items():
        if bytes_needed > rate.memory:
            bill.too_large.append(too_large(name, bytes_needed, rate))


def too_large(name: str, needed: float, rate: Rate) -> str:
    """By how much a model does not fit, and what to do."""
    lacking = needed - rate.memory
    return (
        f"{name} needs {needed / 1e9:.0f} GB and {rate.name} has {rate.memory / 1e9:.0f}: "
        f"{lacking / 1e9:.0f} GB too little. Serve it on several devices and name it server:NAME, or let it "
        "be placed over them and the memory of the machine, which is slower."
    )
