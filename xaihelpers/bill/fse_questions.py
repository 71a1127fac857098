"""What notebooks 31 to 34 ask (paper fse): cases are drawn as they draw them, equal requests count once.

What hangs on answers is taken as usual: every annotator gives whole chains, `RIGHT` of its first answers
name the true class and the others one that looks alike.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from xaihelpers.ask.messages import request
from xaihelpers.ask.prompt_files import prompt
from xaihelpers.bill.asked import Questions
from xaihelpers.bill.data_sizes import DataSize
from xaihelpers.datasets import with_article
from xaihelpers.fastslow.candidates import case_table
from xaihelpers.fastslow.chains import STAGES, chain_prefix
from xaihelpers.fastslow.questions import THE_IMAGE, choice_request

RIGHT = 0.6  # of first answers, in notebook 31
WORDS = "a rather short description of what is to be seen here, with its colour and its shape"
CHAIN = dict.fromkeys(STAGES, WORDS)
KINDS = ("paper's", "balanced")


def of_31(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """First answers, chains, and choices in three kinds of sets around two classes."""
    found = []
    for model, name in _pairs(p):
        data, chooser = sets[name], p["judge"] or model
        count = min(p["n_cases"], len(data.test_rows))
        drawn = _cases(data, data.test_rows, count, [p["seed"]], False)
        labels = data.labels[drawn.row.to_numpy()]
        images = [data.image]
        found.append(_of_images("first answers", model, count, p["name_prompt"], images, "name", 32))
        found.append(_of_images("chains", model, count, p["chain_prompt"], images, "chain", p["max_tokens"]))
        rng = np.random.default_rng(p["seed"])
        wrong = data.neighbours[labels, rng.integers(0, 4, count)]
        first = np.where(rng.random(count) < RIGHT, labels, wrong)
        shown, blind = set(), set()
        for kind in ("semantic", "random", "balanced"):
            for table in _both_sets(data, first, labels, kind, p["seed"]):
                shown |= _rows_and_options(table)
                orders = {tuple(options) for options in table.options}
                blind |= orders if kind == "random" else _turned(table)
        texts = 1 + data.has_attributes
        ask = _asker(p, data, drawn.options[0])
        found.append(ask("choices by concepts", chooser, texts * len(shown), "slow", p["choose_prompt"]))
        found.append(ask("choices by nothing", chooser, len(blind), "blind", p["blind_prompt"]))
        if data.has_attributes:  # sets by attributes
            found.append(ask("exercises", chooser, count, "slow", p["choose_prompt"]))
    return found


def of_32(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """Chains of images and names, choices at every stage, doses of truth, other prompts, exercises."""
    found, stages, tokens = [], len(STAGES), p["max_tokens"]
    counts = {name: _counts_of_32(p, data) for name, data in sets.items()}
    for number, (model, name) in enumerate(_pairs(p)):
        data, chooser, n = sets[name], p["judge"] or model, counts[name]
        images, slow_prompt = [data.image], p["slow_prompt"]
        found.append(_of_images("chains", model, n["rows"], p["chain_prompt"], images, "chain", tokens))
        text = prompt(p["chain_prompt"], entity=with_article(data.class_names[0]))
        of_names = [request(text, max_tokens=tokens)]
        found.append(Questions("chains of names", model, n["names"], of_names, "chain"))
        ask = _asker(p, data, n["options"])
        found.append(ask("fast choices", model, n["shown"], "fast", p["fast_prompt"]))
        again = n["of paper"] if model == "annotator" else 0  # whose first stage is that of the labels
        found.append(ask("slow choices", chooser, n["slow"] - again, "slow", slow_prompt))
        found.append(ask("choices by nothing", chooser, n["blind"], "blind", p["blind_prompt"]))
        if data.has_attributes:
            grid = {(kept, true) for kept in p["recall"] for true in p["precision"]}
            doses = len(grid - {(100, 100)}) * n["balanced"]  # the whole truth was asked already
            found.append(ask("doses of truth", chooser, doses, "slow", slow_prompt))
        for file in p["other_chain_prompts"]:
            what = f"chains by {file}"
            found.append(_of_images(what, model, n["first rows"], file, images, "chain", tokens))
            found.append(ask(f"choices by {file}", chooser, p["n_cases"], "slow", slow_prompt))
        if number == 0:  # the last stages, of which the last five are the first five, and options first
            found.append(ask("exercises", chooser, stages * p["n_cases"], "slow", slow_prompt))
    return found


def _counts_of_32(p: dict, data: DataSize) -> dict:
    """Different questions of notebook 32 about one data set, whatever the model."""
    seeds, stages = [p["seed"] + n for n in range(p["n_seeds"])], len(STAGES)
    rounds = [[seed] for seed in seeds] if p["temperature"] else [seeds]
    cases = {kind: _cases(data, data.test_rows, p["n_cases"], seeds, kind == "balanced") for kind in KINDS}
    both, of_paper, balanced = pd.concat(cases.values()), cases["paper's"], cases["balanced"]
    first = balanced[balanced.seed == seeds[0]]
    n = dict.fromkeys(("rows", "names", "shown", "slow", "blind"), 0)
    for asked in rounds:
        here = both[both.seed.isin(asked)]
        shown = len(_rows_and_options(here))
        n["rows"] += here.row.nunique()
        n["names"] += here.label.nunique()
        n["shown"] += shown
        n["blind"] += len(_turned(here))
        named = set(zip(here.label, map(tuple, here.options), strict=True))
        n["slow"] += stages * (shown + len(named))
        if data.has_attributes:  # all stages in the paper's sets, the last one in balanced ones
            n["slow"] += stages * len(_rows_and_options(of_paper[of_paper.seed.isin(asked)]))
            n["slow"] += len(_rows_and_options(balanced[balanced.seed.isin(asked)]))
    n["balanced"], n["first rows"] = len(_rows_and_options(balanced)), first.row.nunique()
    n["of paper"] = data.has_attributes * len(_rows_and_options(of_paper))
    return n | {"options": both.options.iloc[0]}


def of_33(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """Chains and lists, choices in four modes, the conflict test, and the exercises."""
    found, seeds = [], [p["seed"] + n for n in range(p["n_seeds"])]
    for number, (model, name) in enumerate(_pairs(p)):
        data, chooser, images = sets[name], p["judge"] or model, [sets[name].image]
        cases = [_cases(data, data.test_rows, p["n_cases"], seeds, balanced) for balanced in (False, True)]
        both = pd.concat(cases)
        n_rows, tokens = both.row.nunique(), p["max_tokens"]
        found.append(_of_images("chains", model, n_rows, p["chain_prompt"], images, "chain", tokens))
        found.append(_of_images("lists of five", model, n_rows, p["top5_prompt"], images, "list", tokens))
        ask, shown = _asker(p, data, both.options.iloc[0]), len(_rows_and_options(both))
        texts = 2 + data.has_attributes
        found.append(ask("fast choices", chooser, shown, "fast", p["fast_prompt"]))
        found.append(ask("slow choices", chooser, texts * shown, "slow", p["slow_prompt"]))
        found.append(ask("fused choices", chooser, texts * shown, "fused", p["fused_prompt"]))
        found.append(ask("choices by nothing", chooser, len(_turned(both)), "blind", p["blind_prompt"]))
        if data.has_attributes:
            conflict = len(_rows_and_options(cases[1]))
            found.append(ask("conflict, slow", chooser, conflict, "slow", p["slow_prompt"]))
            found.append(ask("conflict, fused", chooser, conflict, "fused", p["fused_prompt"]))
        if number == 0 and data.has_attributes:  # another prompt, and concepts of another class
            found.append(ask("exercises", chooser, 2 * p["n_cases"], "fused", p["fused_prompt"]))
    return found


def of_34(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """Reasonings and chains of class names, choices by each kind of chain, and the exercises."""
    found, seeds = [], [p["seed"] + n for n in range(p["n_seeds"])]
    stages = len(STAGES)
    for number, (model, name) in enumerate(_pairs(p)):
        data, chooser = sets[name], p["judge"] or model
        every = np.arange(len(data.class_names))
        count = min(p["n_cases"] or len(every), len(every))
        cases = []
        for balanced in (False, True):
            near, names = data.neighbours, data.class_names
            cases.append(case_table(every, every, names, count, near, balanced, seeds))
        both, main = pd.concat(cases), cases[int(p["balanced"])]
        entity = with_article(data.class_names[0])
        n_classes, first = both.row.nunique(), main.query("seed == @seeds[0]")
        for what, file, answer in (
            ("reasonings", p["reasoning_prompt"], "reasoning"),
            ("chains of names", p["chain_prompt"], "chain"),
        ):
            sample = [request(prompt(file, entity=entity), max_tokens=p["max_tokens"])]
            found.append(Questions(what, model, n_classes, sample, answer))
        shown = len(_rows_and_options(both))
        runs = len(_rows_and_options(main))
        # by the reasoning in both kinds of sets; by stages and true attributes in one; in the first run by
        # single segments (the first of which was asked), by the other cut, and by two scripted reasoners
        slow = stages * shown + stages * runs * (1 + data.has_attributes)
        slow += (2 * stages - 1 + 2 * stages * data.has_attributes) * len(first)
        ask = _asker(p, data, both.options.iloc[0])
        if number == 0:
            exercises = stages * (1 + data.has_attributes) * len(first)
            found.append(ask("exercises", chooser, exercises, "slow", p["choose_prompt"]))
        found.append(ask("slow choices", chooser, slow, "slow", p["choose_prompt"]))
        found.append(ask("choices by nothing", chooser, len(_turned(both)), "blind", p["blind_prompt"]))
    return found


def _pairs(p: dict) -> list[tuple[str, str]]:
    return [(model, name) for model in p["models"] for name in p["data"]]


def _cases(
    data: DataSize, rows: np.ndarray, count: int, seeds: Sequence[int], balanced: bool
) -> pd.DataFrame:
    return case_table(rows, data.labels, data.class_names, count, data.neighbours, balanced, seeds)


def _both_sets(
    data: DataSize, first: np.ndarray, labels: np.ndarray, kind: str, seed: int
) -> list[pd.DataFrame]:
    """The cases around the true classes and around the first answers, as notebook 31 draws them."""
    near = None if kind == "random" else data.neighbours
    rows, balanced = np.arange(len(labels)), kind == "balanced"
    drawn = []
    others = rows if balanced else rows[first != labels]
    for usable, classes in ((rows, labels), (others, first)):
        if len(usable):
            drawn.append(case_table(usable, classes, data.class_names, len(usable), near, balanced, [seed]))
    return drawn


def _rows_and_options(table: pd.DataFrame) -> set:
    """Different pairs of an image and its options in their order."""
    return set(zip(table.row, map(tuple, table.options), strict=True))


def _turned(table: pd.DataFrame) -> set:
    """The questions that `fastslow.rotations` makes of cases: five to each different set of options."""
    sets = {tuple(sorted(options)) for options in table.options}
    return {(turn, *options) for options in sets for turn in range(5)}


def _of_images(
    what: str, model: str, count: int, file: str, images: Sequence, answer: str, max_tokens: int
) -> Questions:
    """Questions about one image each, by one prompt."""
    text = prompt(file).replace("{entity}", THE_IMAGE)
    return Questions(what, model, count, [request(text, images, max_tokens=max_tokens)], answer)


def _asker(p: dict, data: DataSize, options: Sequence[str]) -> Callable[..., Questions]:
    """A function that makes `Questions` of choices in one mode."""
    prefixes = [chain_prefix(CHAIN, t) for t in range(1, len(STAGES) + 1)]

    def ask(what: str, model: str, count: int, mode: str, file: str) -> Questions:
        image = data.image if mode in ("fast", "fused") else None
        texts = prefixes if mode == "slow" else [prefixes[-1] if mode == "fused" else ""]
        sample = []
        for text in texts:
            sample.append(choice_request(mode, options, text, image, file, p["letter_tokens"]))
        return Questions(what, model, count, sample, "letter")

    return ask
