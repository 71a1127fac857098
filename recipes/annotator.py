"""How the shipped annotator and judge were taught: two eyes on drawn pictures, and a reader of words.

1. Pictures are drawn for it: birds of which nine in ten have attributes that say nothing of their species,
   so that what is usual helps nobody; ordinary birds with one group substituted, where it misleads; ordinary
   birds; everyday things.
2. The annotator's eye begins as the shipped backbone (`recipes/backbone.py`). Of the whole picture it learns
   the name, where to look for each group of attributes (attention over cells, held to the renderer's part
   masks), and what a thing has (`eye_lessons.eye_loss`). Of squares around those places it learns what is
   there, and whether it can be seen; no ordinary bird is among these lessons (`eye_lessons.close_loss`).
3. The reader of words learns which class a chain describes, from true chains and from the eye's own; what
   each class usually shows is counted.
4. The judge's eye goes on from the annotator's, on pictures under attention maps drawn anew for each batch,
   half of them made up and half of networks, over their own pictures and over others: what is lit, where the
   object is or must be, what is both, its parts, its name (`judge_lessons.judge_loss`).
5. Both are examined on birds that nobody has seen, and their cards say what came of it.

A killed run draws its pictures again and goes on from the last checkpoint in --save.
"""

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from recipes.annotator_training import examination as exam
from recipes.annotator_training.attention_maps import attended_pictures
from recipes.annotator_training.eye_lessons import close_loss, eye_loss, located
from recipes.annotator_training.judge_lessons import judge_loss
from recipes.annotator_training.lesson_pictures import DRAWN, Picture
from recipes.shared import command_line, drawn_in_parallel, write_card
from xaihelpers import models
from xaihelpers.devices import resolve_device
from xaihelpers.fastslow import chain_prefix
from xaihelpers.instruments.annotator import UNSAID, WORDS, five_of, seen_chain
from xaihelpers.instruments.eye import NAMES, Eye, FineTower, JudgingEye
from xaihelpers.training import train

CASES = {"eye": 48, "close": 36, "judge": 40}  # pictures a step


def begin_as_backbone(tower: FineTower) -> None:
    """Give a tower the weights of the shipped backbone."""
    backbone = models.load_backbone("aviary_resnet").model.state_dict()
    own = tower.backbone.state_dict()  # without the backbone's head
    tower.backbone.load_state_dict({name: backbone[name] for name in own})


def taught(stage: str, network: torch.nn.Module, loss, lessons, settings, history: list) -> float:
    """Teach a network one stage; loss and its lessons: as `eye_loss`. Returns the seconds."""
    network.to(resolve_device(settings.device), memory_format=torch.channels_last)

    def loss_of() -> torch.Tensor:
        """Of a batch that depends on the step alone, so that a killed run goes on as it would have."""
        return loss(network, lessons, np.random.default_rng([settings.seed, len(history)]), CASES[stage])

    steps, tower = getattr(settings, f"{stage}_steps"), network.tower.backbone
    return train(stage, steps, network, loss_of, history, settings.learning_rate, settings.save, slow=tower)


def usual_shares(pictures: dict[str, list[Picture]]) -> dict[str, torch.Tensor]:
    """Of each world, the share of a class's pictures that shows each value, (K, values)."""
    found = {}
    for world, kind in (("birds", "ordinary"), ("things", "things")):
        seen = np.stack([picture.seen for picture in pictures[kind]])
        is_class = np.eye(len(NAMES[world]))[[picture.label for picture in pictures[kind]]]  # (N, K)
        found[world] = torch.from_numpy(is_class.T @ seen / is_class.sum(0).clip(1)[:, None]).half()
    return found


def lessons_in_words(
    annotator_eye: Eye, pictures: dict[str, list[Picture]], seed: int
) -> tuple[list[str], list[str]]:
    """True chains, the eye's own chains, and five concepts of each picture; and the class that each is of."""
    rng, texts, names = np.random.default_rng([seed, 3]), [], []
    for world, kind in (("birds", "ordinary"), ("things", "things")):
        looks = exam.looks_at(annotator_eye, pictures[kind])
        for picture, seen in zip(pictures[kind], looks, strict=True):
            for chain in (exam.true_chain(picture, world), seen_chain(seen)):
                texts += [chain_prefix(chain, 5), chain_prefix(chain, int(rng.integers(1, 5)))]
                texts.append(", ".join(five_of(chain)))
            names += [NAMES[world][picture.label]] * 6
    return texts, names


def write_reader(texts: Sequence[str], names: Sequence[str], file: Path, least: int = 10) -> None:
    """Fit a reader of words, and write it in half precision. least: texts that a word must stand in."""
    counter = CountVectorizer(min_df=least, **WORDS)
    model = LogisticRegression(max_iter=300).fit(counter.fit_transform(texts), names)
    told = {"names": model.classes_.tolist(), "terms": counter.get_feature_names_out().tolist()}
    tensors = {"weights": torch.from_numpy(model.coef_).half().contiguous()}
    tensors["bias"] = torch.from_numpy(model.intercept_).half()
    tensors["told"] = torch.from_numpy(np.frombuffer(json.dumps(told).encode(), np.uint8).copy())
    save_file(tensors, file)


def make_annotator(settings: argparse.Namespace) -> list[Path]:
    """Draw, teach, write both, examine them, write cards; returns the folders."""
    torch.manual_seed(settings.seed)
    pictures = {}
    for kind, draw_one in DRAWN.items():
        pictures[kind] = drawn_in_parallel(partial(draw_one, settings.seed), getattr(settings, kind))
    history, eye, judge = [], Eye(), JudgingEye()
    begin_as_backbone(eye.tower)
    seconds = taught("eye", eye, eye_loss, pictures, settings, history)
    random = [picture for picture in pictures["birds"] if picture.label < 0]  # ordinary ones teach the usual
    looked_for = {"random": located(eye, random), "substituted": located(eye, pictures["substituted"])}
    begun = eye.tower.backbone.state_dict()
    eye.close.trunk.load_state_dict({name: begun[name] for name in eye.close.trunk.state_dict()})
    seconds += taught("close", eye, close_loss, looked_for, settings, history)
    home = Path(settings.save)
    folders = [home / name for name in ("annotator", "judge")]
    models.save_weights(eye, folders[0] / "eye.safetensors")
    write_reader(*lessons_in_words(eye, pictures, settings.seed), folders[0] / "reader.safetensors")
    save_file(usual_shares(pictures), folders[0] / "usual.safetensors")
    judge.tower.load_state_dict(eye.tower.state_dict())
    attended = attended_pictures(pictures["ordinary"], settings.networks, settings.seed)
    seconds += taught("judge", judge, judge_loss, (pictures, attended), settings, history)
    models.save_weights(judge, folders[1] / "eye.safetensors")
    drawn = ", ".join(f"{len(some)} {kind}" for kind, some in pictures.items())
    told = {"made_here": True, "trained on": f"pictures drawn for it: {drawn}", "pictures a step": CASES}
    told["steps"] = {stage: getattr(settings, f"{stage}_steps") for stage in CASES}
    told["maps of networks"] = (
        f"of {settings.networks} small ones and of aviary_resnet, in the judge's lessons"
    )
    write_cards(home, settings, **told, seconds=round(seconds))
    return folders


def write_cards(home: Path, settings: argparse.Namespace, **told) -> None:
    """Examine the annotator and the judge that lie in `home`, print the table, and write both cards.

    A card tells of each measure its value, its interval, and beside it the same of one that has not looked.
    """
    table = exam.examination(home, settings.n_test, settings.seed)
    print(table.round(2).to_string(index=False))
    main = {"annotator": "values seen, decorrelated (%)", "judge": "controls passed (%)"}
    built = {
        "annotator": "an eye, a form for what it finds, and a reader of words for choices by concepts; no "
        f"language model; what it does not say, being at the majority's answer: {', '.join(UNSAID)}",
        "judge": "an eye that measures coverage and precision and names what is lit; the prompt's steps by "
        "cuts fixed beforehand; no language model",
    }
    for name, metric in main.items():
        of_it, weights = table[table.instrument == name], load_file(home / name / "eye.safetensors").values()
        about = {"parameters": sum(weight.numel() for weight in weights), "built": built[name]}
        for rival in ("blind", "shuffled"):
            beside = of_it[of_it[rival].notna()]
            about[f"held-out, {rival}"] = dict(zip(beside.metric, beside[rival].round(1), strict=True))
        write_card(home / name, of_it, metric, settings, **about, **told)


def options() -> argparse.ArgumentParser:
    """The command line."""
    return command_line(
        __doc__,
        {
            "birds": (32000, "birds drawn, nine of ten with random attributes"),
            "substituted": (9000, "ordinary birds drawn with one group substituted"),
            "ordinary": (7000, "ordinary birds drawn"),
            "things": (8000, "everyday things drawn"),
            "networks": (80, "small networks whose attention the judge sees in its lessons"),
            "eye-steps": (4400, "of the annotator's eye, of 48 pictures"),
            "close-steps": (4000, "of what it sees of parts, of 36 pictures"),
            "judge-steps": (5200, "of the judge's eye, of 40 pictures"),
            "n-test": (400, "held-out pictures of each kind"),
            "learning-rate": (0.002, "its peak"),
        },
    )


if __name__ == "__main__":
    make_annotator(options().parse_args())
