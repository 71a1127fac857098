"""What notebooks 42 to 45 ask (paper autoxplain): judgements of maps, and the battery that proves a judge."""

from PIL import Image

from xaihelpers.ask.messages import Request, request
from xaihelpers.ask.prompt_files import prompt
from xaihelpers.bill.asked import Questions
from xaihelpers.bill.data_sizes import DataSize, data_size
from xaihelpers.saliency.judging import KINDS
from xaihelpers.yardsticks.judge_controls import DOSES

PROVED_BY = 20  # pictures of the aviary by which any judge proves itself (`judge_card.prove_judge`)
OF_NAME_ALONE = 2  # conditions of a battery that are the same for pictures of one name: black, and no picture
OTHERS = 9 + 2 * len(DOSES)  # its further conditions
WRONG = 0.15  # share of a classifier's predictions that are wrong, in an exercise of 43
NAMED = "a bird of some kind"  # a name of usual length
SIDE = 224  # of the networks' inputs, of which the judge is shown crops


def of_42(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """Every map in every setting of mask and prompt, the battery in both kinds of picture, and exercises."""
    maps = min(p["n_images"], len(sets[p["data"]].test_rows)) * len(p["networks"])
    masks = dict.fromkeys([(p["alpha"], p["beta"]), *zip(p["other_alphas"], p["other_betas"], strict=False)])
    found, masked, heat = [], _name(p["prompt_file"]), _name(p["heat_prompt_file"], "heat")
    for judge in p["judges"]:
        found.append(_asked("maps, masked", judge, len(masks) * maps, masked, p["max_tokens"]))
        found.append(_asked("maps, as heat", judge, maps, heat, p["max_tokens"]))
        for length in p["lengths"]:
            most = max(p["max_tokens"], 1000 if length == "long" else 0)
            found.append(_asked(f"maps, {length} prompt", judge, maps, _name("", "masked", length), most))
        if p["code_prompt"]:
            found.append(_asked("maps, the code's prompt", judge, maps, p["code_prompt"], p["max_tokens"]))
        for kind, file in zip(KINDS, (masked, heat), strict=True):
            found.append(_proof(judge, file, p["max_tokens"], kind))
        found.append(_asked("exercises", judge, 2 * maps, masked, p["max_tokens"]))
    return found


def of_43(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """A map of every network, of each draw of the segmenter, the battery, and exercises."""
    count = min(p["n_images"], len(sets[p["data"]].test_rows))
    drawn = [p["draws"] if name == "segmenter" else 1 for name in p["networks"]]
    file, judge = _name(p["prompt_file"]), p["judge"]
    exercises = min(16, count) * len(p["networks"]) + WRONG * count * sum(drawn)
    return [
        _asked("maps", judge, count * sum(drawn), file, p["max_tokens"]),
        _proof(judge, file, p["max_tokens"]),
        _asked("exercises", judge, exercises, file, p["max_tokens"]),
    ]


def of_44(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """Maps of every model, the battery, attention on a corner, and an exercise."""
    data, file, judge = sets[p["data"]], _name(p["prompt_file"]), p["judge"]
    of_class = int(data.train.sum() // max(len(data.class_names), 1))
    of_class = min(p["n_train"] or of_class, of_class)
    judged = p["n_models"] * min(p["n_judged"], of_class)
    return [
        _asked("maps", judge, judged, file, p["max_tokens"]),
        _proof(judge, file, p["max_tokens"]),
        _asked("attention on a corner", judge, 4 * min(p["n_control"], of_class), file, p["max_tokens"]),
        _asked("exercises", judge, p["n_shown"], file, p["max_tokens"]),
    ]


def of_45(p: dict, sets: dict[str, DataSize]) -> list[Questions]:
    """The battery, some of it several times, other wordings, and an exercise."""
    data, file = sets[p["data"]], _name(p["prompt_file"], p["kind"])
    n, n_classes = p["n_images"], len(data.class_names)
    found, most = [], p["max_tokens"]
    for judge in p["judges"]:
        found.append(_asked("the battery", judge, _battery(n, n_classes), file, most))
        found.append(_asked("repeated", judge, 2 * n * p["repeats"], file, most))
        for length in p["lengths"]:
            tokens = most if length == "short" else 1000
            count = OTHERS * n + different_names(n, n_classes)
            prompt_name = _name("", p["kind"], length)
            found.append(_asked(f"the battery, {length} prompt", judge, count, prompt_name, tokens))
        other = next(kind for kind in KINDS if kind != p["kind"])
        few = _battery(min(4, n), n_classes)
        found.append(_asked("exercises", judge, few, _name("", other), most))
    return found


def different_names(count: int, n_classes: int) -> float:
    """Names that are expected among pictures drawn from so many classes."""
    return n_classes * (1 - (1 - 1 / n_classes) ** count) if n_classes else 0.0


def _battery(count: int, n_classes: int) -> float:
    return OTHERS * count + OF_NAME_ALONE * different_names(count, n_classes)


def _proof(judge: str, file: str, max_tokens: int, kind: str = "masked") -> Questions:
    count = _battery(PROVED_BY, len(data_size("aviary").class_names))
    return _asked(f"proof of the judge, {kind}", judge, count, file, max_tokens)


def _name(file: str, kind: str = "masked", length: str = "") -> str:
    return file or "_".join(part for part in ("autoxplain", kind, length) if part)


def _asked(what: str, judge: str, count: float, file: str, max_tokens: int) -> Questions:
    text, picture = prompt(file, object=NAMED), Image.new("RGB", (SIDE, SIDE))
    sample: list[Request] = [request(text, [picture], max_tokens=max_tokens)]
    return Questions(what, judge, count, sample, "judgement")
