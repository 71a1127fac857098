"""How the shipped annotator and judge were trained: an image tower, a language model, and questions.

In this order, each a stage with a checkpoint of its own:

- tower: a ResNet-18 with 8 x 8 patches, begun as the shipped backbone, learns from the renderer what is to be
  seen, of the whole, part by part, and under attention maps; then it is frozen;
- match: with --start, the projection learns to give what an earlier model saw of the same pictures;
- letters, tasks, choices, last: the language model learns to answer the papers' prompts;
- judge: a copy goes on with judgements of attention alone.

Question i of B has an answer of n_i tokens, and the loss is

    L = 1/B Σ_i Σ_t w_it (−log p(a_it | q_i, a_i,<t)),    w_it = 1/n_i + s [t decides].

The shipped annotator is the end of a chain, each of which went on from the language model of the one before
(--start): the first from nothing by letters, tasks and choices as below, then five times `last`, of 2600,
900, 700, 800 and 1000 steps; the judge went on from it by 1800 and, with a new rubric, 1300 steps at a rate
of 0.0007. The defaults are that chain in one piece, which has not been tried. Two cores take about six hours.
"""

import argparse
import copy
import random
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer

from recipes import annotator_training as teach
from recipes.cards import accuracy_told, checksum, write_card
from xaihelpers import datasets, paths
from xaihelpers.devices import resolve_device
from xaihelpers.training import group_loss, read_checkpoint, save_checkpoint, train
from xaihelpers.worlds import aviary
from xaihelpers.yardsticks.examination import calibration, examine, lettered_answers, right_table

DRAW = {"birds": teach.drawn_bird, "things": teach.drawn_thing, "portraits": teach.drawn_portrait}
SHARES = {"birds": 0.4, "things": 0.2, "portraits": 0.5, "judged": 0.25}  # of a batch of the tower
# the numbers of the parts of each attribute group, none for the whole bird
PARTS_OF = [
    [aviary.PARTS.index(part) + 1 for part in datasets.parts_of(f"has_{group}")] for group in aviary.GROUPS
]
WITH_PARTS = [number for number, parts in enumerate(PARTS_OF) if parts]
STREAMS = {"letters": 2, "tasks": 3, "choices": 4, "last": 7, "judge": 9}  # of random numbers
POINTED = ("choices", "last")  # stages with the pointer's loss
SCORED = ("last", "judge")  # stages in which the score of a judgement counts as much as all its other tokens
JUDGED = {"judgement"}  # what the judge is asked; all else is asked of the annotator


def lesson_pictures(
    worlds: dict, counts: dict[str, int], stored: int, judged: int, seed: int, folder: str | Path = ""
) -> dict:
    """Pictures of both worlds by kind: "birds", "things", "portraits", and "judged" under attention maps.

    counts: how many are drawn of each kind. stored: of each world's training split; 0 takes all.
    folder: where drawn ones are kept.
    """
    pictures = {}
    for kind, count in counts.items():
        of_world = []
        if kind in worlds and not Path(folder, f"drawn_{kind}.npz").exists():
            rows = teach.training_rows(worlds[kind], stored)
            of_world = teach.stored_pictures(kind, worlds[kind], rows)
        draw = partial(DRAW[kind], seed)
        pictures[kind] = teach.gather_pictures(kind, draw, count, of_world, str(folder))
    pictures["judged"] = teach.under_attention(pictures, judged, seed, 95)
    return pictures


def pixels_of(pictures: dict, kind: str) -> np.ndarray:
    """The pixels (N, 3, SIZE, SIZE) of one kind."""
    return pictures[kind][1 if kind == "judged" else 0]


def new_heads(pictures: dict, width: int, device: torch.device) -> torch.nn.ModuleDict:
    """The linear layers by which the tower learns, thrown away afterwards."""
    outputs_of = {
        "birds": pictures["birds"][2].shape[1],
        "things": pictures["things"][2].shape[1],
        "species": len(teach.SPECIES),
        "score": 6,
        "parts": len(aviary.ATTRIBUTES),
        "where": 2,
    }
    heads = {name: torch.nn.Linear(width, size) for name, size in outputs_of.items()}
    return torch.nn.ModuleDict(heads).to(device)


def part_loss(
    heads: torch.nn.ModuleDict, patches: torch.Tensor, parts: torch.Tensor, seen: torch.Tensor
) -> torch.Tensor:
    """Attributes of birds by the patches of their parts.

    patches: (B, 64, width). parts: (B, SIZE, SIZE) numbers. seen: (B, 319).
    """
    covered = []
    for group in WITH_PARTS:
        covered.append(sum((parts == number).float() for number in PARTS_OF[group]))
    covered = torch.stack(covered, 1)  # (B, G, SIZE, SIZE)
    shares = F.avg_pool2d(covered, teach.PATCH).flatten(2)  # m_g(p), (B, G, 64)
    means = shares @ patches / shares.sum(2, keepdim=True).clamp(min=1e-6)  # f_g
    of_group = heads["parts"](means)  # (B, G, 312)
    logits, visible = [], []
    for place, group in enumerate(WITH_PARTS):
        of_values = teach.SLICES["birds"][group]
        logits.append(of_group[:, place, of_values])
        visible.append(seen[:, of_values] * (shares[:, place].sum(1, keepdim=True) > 0))
    names = [list(teach.GROUPS["birds"])[group] for group in WITH_PARTS]
    columns = teach.group_slices({name: teach.GROUPS["birds"][name] for name in names})
    return group_loss(torch.cat(logits, 1), torch.cat(visible, 1), columns)


def attention_loss(
    heads: torch.nn.ModuleDict, judged: tuple, patches: torch.Tensor, rows: np.ndarray
) -> torch.Tensor:
    """Score, and patch by patch what is attended and what of it is the thing. judged: of `pictures`."""
    _, _, maps, scores, parts = judged
    attended, thing = maps[rows] > 0.4, parts[rows] > 0
    shares = torch.from_numpy(np.stack([attended, attended & thing], 1)).float()
    shares = F.avg_pool2d(shares, teach.PATCH).flatten(2).mT.to(patches.device)  # (B, 64, 2)
    right = torch.from_numpy(scores[rows]).to(patches.device)
    loss = F.cross_entropy(heads["score"](patches.mean(1)), right)
    return loss + F.binary_cross_entropy_with_logits(heads["where"](patches), shares)


def world_losses(
    heads: torch.nn.ModuleDict, pictures: dict, kind: str, patches: torch.Tensor, rows: np.ndarray
) -> list[torch.Tensor]:
    """Attribute groups of the whole and, of birds, part by part; of `birds` the species, too."""
    _, parts, seen, label = (torch.from_numpy(array[rows]).to(patches.device) for array in pictures[kind])
    seen, pooled = seen.float(), patches.mean(1)
    world = "things" if kind == "things" else "birds"
    losses = [group_loss(heads[world](pooled), seen, teach.SLICES[world])]
    if world == "birds":
        losses.append(part_loss(heads, patches, parts, seen))
    if kind == "birds":
        losses.append(0.3 * F.cross_entropy(heads["species"](pooled), label, ignore_index=-1))
    return losses


def tower_loss(
    tower: torch.nn.Module, heads: torch.nn.ModuleDict, pictures: dict, rng: np.random.Generator, count: int
) -> torch.Tensor:
    """Of one batch of all kinds of pictures, about `count`, which share the statistics of its layers."""
    rows, shown = {}, []
    for kind, share in SHARES.items():
        pixels = pixels_of(pictures, kind)
        rows[kind] = rng.integers(len(pixels), size=max(2, int(share * count)))
        shown.append(pixels[rows[kind]])
    patches = teach.tower_states(tower, np.concatenate(shown), another_light=True)
    patches = patches.float().split([len(some) for some in shown])
    patches = dict(zip(SHARES, patches, strict=True))
    loss = 0.5 * attention_loss(heads, pictures["judged"], patches["judged"], rows["judged"])
    for kind in ("birds", "things", "portraits"):
        for part in world_losses(heads, pictures, kind, patches[kind], rows[kind]):
            loss = loss + part
    return loss


def train_tower(
    pictures: dict,
    steps: int,
    count: int,
    rate: float,
    seed: int,
    device: torch.device,
    history: list,
    folder: str | Path = "",
) -> tuple[torch.nn.Module, float]:
    """The image tower, and the seconds. count: pictures a step. history, folder: as of `training.train`."""
    torch.manual_seed(seed)
    rng, tower = np.random.default_rng(seed), teach.new_tower(device)
    heads = new_heads(pictures, tower.timm_model.num_features, device)
    both = torch.nn.ModuleDict({"tower": tower, "heads": heads})
    loss_of = partial(tower_loss, tower, heads, pictures, rng, count)
    return tower, train("tower", steps, both, loss_of, history, rate, folder)


def lesson_tokenizer(pictures: dict, seed: int, start: str = ""):
    """A tokenizer of questions and answers and of all names, or that of the model `start`."""
    if start:
        return AutoTokenizer.from_pretrained(paths.models_home() / start)
    rng, examples = np.random.default_rng([seed, 1]), []
    for name in teach.mixtures()["tasks"]:
        for _ in range(150):
            examples.extend(teach.TASKS[name].question(rng, pictures)[:2])
    names = [*teach.SPECIES, *teach.THINGS, *teach.PLAIN]
    return teach.learnt_tokenizer([*examples, *20 * names])


def new_pupil(
    tower: torch.nn.Module, tokenizer, pictures: dict, seed: int, folder: str | Path = ""
) -> tuple[teach.Pupil, object]:
    """A model with a copy of the tower, frozen, and what it sees of all pictures; with its processor.

    folder: where what it sees is kept.
    """
    torch.manual_seed(seed)
    model, processor = teach.new_annotator(tower, tokenizer, next(tower.parameters()).device)
    file = Path(folder) / "features.pt"
    views = read_checkpoint(file) if folder else None
    if views is None:
        tower.eval()
        views = {kind: teach.tower_views(tower, pixels_of(pictures, kind)) for kind in pictures}
        if folder:
            save_checkpoint(views, file)
    return teach.Pupil(model, tokenizer, views), processor


def match_loss(
    pupil: teach.Pupil, old_model: torch.nn.Module, pictures: dict, rng: np.random.Generator, count: int
) -> torch.Tensor:
    """Squared difference of the new view of some patches and the old one, by its variance."""
    kind = str(rng.choice(list(SHARES)))
    pixels, device = pixels_of(pictures, kind), pupil.model.device
    rows = rng.integers(len(pixels), size=max(2, count // 2))
    with torch.no_grad():
        old = old_model.model.get_image_features(teach.normalised(pixels[rows], device))
        old = torch.stack(list(old.pooler_output)).reshape(len(rows), teach.N_PATCHES, -1)
    new = pupil.model.model.multi_modal_projector(pupil.views[kind][rows].float().to(device))
    return ((new - old) ** 2).mean() / old.var()


def go_on_from(
    start: str,
    pupil: teach.Pupil,
    pictures: dict,
    steps: int,
    batch_size: int,
    rate: float,
    seed: int,
    history: list,
    folder: str | Path = "",
) -> float:
    """Take over the language model of `start`, and match the projection to what it saw; returns the seconds.

    Without steps its projection is taken over as well. Raises OSError: no such model.
    """
    parts = pupil.model.model
    old_model, _ = teach.saved_annotator(paths.models_home() / start, pupil.model.device)
    parts.language_model.load_state_dict(old_model.model.language_model.state_dict())
    if not steps:
        parts.multi_modal_projector.load_state_dict(old_model.model.multi_modal_projector.state_dict())
    rng = np.random.default_rng([seed, 8])
    loss_of = partial(match_loss, pupil, old_model, pictures, rng, batch_size)
    return train("match", steps, parts.multi_modal_projector, loss_of, history, rate, folder)


def token_weights(tokenizer, batch: list[tuple], answered: list[list[int]], score_weight: float):
    """w of every token of the answers: one letter weighs as much as a whole chain."""
    weights = []
    for (_, answer, _), tokens in zip(batch, answered, strict=True):
        of_answer = torch.full((len(tokens),), 1 / len(tokens))
        if "Score: " in answer:
            of_answer[-2] += score_weight  # the digit before <end>
            for words in (teach.SEEN, teach.SAME):  # what is seen, and whether it was named
                before, found, _ = answer.partition(words)
                if found:
                    tokens_before = tokenizer((before + found).rstrip())["input_ids"]
                    of_answer[len(tokens_before)] += score_weight
        weights.append(of_answer)
    return torch.cat(weights)


def new_pointer(pupil: teach.Pupil) -> torch.nn.Linear:
    """Is this the true option? Which letter has it? Thrown away after training."""
    return torch.nn.Linear(pupil.model.config.text_config.hidden_size, 1 + 16).to(pupil.model.device)


def pointer_loss(
    pointer: torch.nn.Linear, tokenizer, hidden: torch.Tensor, asked: list[list[int]], batch: list[tuple]
) -> torch.Tensor | float:
    """Cross-entropy of the true option, and of each option's letter; hidden: (B, L, D).

        −log e^(u_k*) / Σ_k e^(u_k) − 1/K Σ_k log p(letter k | h_(e_k)),  option k ends at e_k.

    0 for questions that no letter answers.
    """
    rows, ends, true = [], [], []
    for row, (ids, (text, answer, _)) in enumerate(zip(asked, batch, strict=True)):
        positions = teach.option_ends(tokenizer, ids, text, answer)
        if positions is not None:
            rows.append(row)
            ends.append(positions)
            true.append(ord(answer) - 65)
    if not rows:
        return 0.0
    device = hidden.device
    ends = pad_sequence(ends, batch_first=True, padding_value=-1).to(device)  # (rows, K)
    rows = torch.tensor(rows, device=device)[:, None]
    logits = pointer(hidden[rows, ends.clamp(min=0)]).float()  # (rows, K, 17)
    letters = torch.arange(ends.shape[1], device=device).expand_as(ends)
    which = logits[..., 0].masked_fill(ends < 0, -1e4)  # u
    true_loss = F.cross_entropy(which, torch.tensor(true, device=device))
    return true_loss + F.cross_entropy(logits[..., 1:][ends >= 0], letters[ends >= 0])


def answer_loss(
    pupil: teach.Pupil,
    batch: list[tuple],
    pointer: torch.nn.Linear | None = None,
    score_weight: float = 0.0,
) -> torch.Tensor:
    """The loss above, with the pointer's where one is given; batch: (question, answer, picture) each."""
    asked, answered, ids, embeddings = teach.embedded_batch(pupil, batch)
    language, device = pupil.model.model.language_model, pupil.model.device
    output = language(inputs_embeds=embeddings, use_cache=False, output_hidden_states=pointer is not None)
    rows, positions = [], []
    for row, (question, answer) in enumerate(zip(asked, answered, strict=True)):
        rows += [row] * len(answer)
        positions += range(len(question) - 1, len(question) - 1 + len(answer))
    rows = torch.tensor(rows, device=device)
    positions = torch.tensor(positions, device=device)
    logits = pupil.model.lm_head(output.last_hidden_state[rows, positions]).float()
    losses = F.cross_entropy(logits, ids[rows, positions + 1], reduction="none")
    weights = token_weights(pupil.tokenizer, batch, answered, score_weight).to(device)
    loss = (losses * weights).sum() / len(batch)
    if pointer is not None:
        loss = loss + pointer_loss(pointer, pupil.tokenizer, output.hidden_states[3], asked, batch)
    return loss


def teach_stage(
    stage: str,
    steps: dict[str, int],
    pupil: teach.Pupil,
    pointer: torch.nn.Linear,
    pictures: dict,
    batch_size: int,
    rate: float,
    seed: int,
    history: list,
    folder: str | Path = "",
) -> float:
    """One stage of STREAMS, of `steps[stage]` steps, of the language model; returns the seconds.

    Each batch is of one task, drawn by the weights of the stage. With the pointer, choices have easy
    candidates ever more rarely, and from the middle of "choices" on none.
    """
    rng, weights = np.random.default_rng([seed, STREAMS[stage]]), teach.mixtures()[stage]
    names, shares = list(weights), np.array(list(weights.values())) / sum(weights.values())
    parts = pupil.model.model
    learns = (
        [parts.language_model] if stage == "letters" else [parts.language_model, parts.multi_modal_projector]
    )
    learns = torch.nn.ModuleList([*learns, pointer] if stage in POINTED else learns)

    def still_easy() -> bool:
        done = sum(name == "choices" for name, *_ in history)
        return 2 * done < steps["choices"] * rng.random()

    def task_loss() -> torch.Tensor:
        name = rng.choice(names, p=shares)
        question, _, share, _ = teach.TASKS[name]
        if stage in POINTED and name.startswith("choice") and still_easy():
            question = partial(question, options_of=teach.easy_options)
        batch = [question(rng, pictures) for _ in range(max(2, int(share * batch_size)))]
        return answer_loss(pupil, batch, pointer if stage in POINTED else None, float(stage in SCORED))

    return train(stage, steps[stage], learns, task_loss, history, rate, folder)


def save_annotator(pupil: teach.Pupil, processor, folder: Path) -> Path:
    """Write the model as it is now, in half precision, as a folder that `from_pretrained` reads."""
    copy.deepcopy(pupil.model).half().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def exam_pictures(worlds: dict, n_test: int, seed: int) -> tuple[dict, dict]:
    """Held-out pictures by kind, as `lesson_pictures` gives them, and their files or images."""
    pool, files = {}, {}
    for kind, count in (("birds", 4 * n_test), ("things", 2 * n_test)):
        pool[kind], files[kind] = teach.held_out(kind, worlds[kind], count)
    pool["judged"] = teach.under_attention(pool, 2 * n_test, seed, 97)
    portraits = [teach.drawn_portrait(seed, number, 98) for number in range(4 * n_test)]
    pool["portraits"] = teach.stacked(portraits)
    for kind in ("judged", "portraits"):
        files[kind] = teach.as_images(pixels_of(pool, kind))
    return pool, files


def exam_questions(pool: dict, n_test: int) -> dict[str, list]:
    """`n_test` questions of each task that a paper asks."""
    rng, asked = np.random.default_rng([0, 5]), {}
    for name, task in teach.TASKS.items():
        if task.is_prompt:
            asked[name] = [task.question(rng, pool) for _ in range(n_test)]
    return asked


def told_of(folder: Path, table: pd.DataFrame, main: str, model, settings: argparse.Namespace) -> dict:
    """The card of a model. table: as of `right_table`, of its tasks. main: the task that stands for all."""
    first = table.set_index("task").loc[main]
    of_tasks = {}
    for row in table.itertuples():
        bounds = [round(value, 1) for value in (row.value, row.low, row.high)]
        of_tasks[row.task] = {"right": bounds, "invalid": round(row.invalid, 1)}
    made_from = f", language model from {Path(settings.start).name}" if settings.start else ""
    text_config = model.config.text_config
    return {
        "name": folder.name,
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "features": [model.config.vision_config.hidden_size, text_config.hidden_size],
        "context": text_config.max_position_embeddings,
        "trained on": f"training splits of the aviary and the everyday world, {settings.birds_drawn} birds "
        f"and {settings.things_drawn} things drawn for it, half of them at random, "
        f"{settings.portraits_drawn} portraits of random birds; image tower begun from aviary_resnet"
        + made_from,
        **{"seed": settings.seed, "batch size": settings.batch_size, "learning rate": settings.learning_rate},
        **{"device": str(model.device), "torch": torch.__version__},
        "test accuracy": accuracy_told(first.value, first.low, first.high, first.cases, main),
        "held-out pictures": of_tasks,
        **checksum(folder / "model.safetensors"),
    }


def make_annotator(settings: argparse.Namespace) -> list[Path]:
    """Train, write both models, examine them, write cards; returns the folders."""
    random.seed(settings.seed)
    np.random.seed(settings.seed % 2**32)
    device, seed, folder = resolve_device(settings.device), settings.seed, Path(settings.save)
    rate, size, history = settings.learning_rate, settings.batch_size, []
    worlds = {"birds": datasets.load("aviary"), "things": datasets.load("everyday")}
    counts = {
        "birds": settings.birds_drawn,
        "things": settings.things_drawn,
        "portraits": settings.portraits_drawn,
    }
    pictures = lesson_pictures(worlds, counts, settings.stored_pictures, settings.judged, seed, folder)
    tower, seconds = train_tower(
        pictures, settings.tower_steps, settings.tower_batch, rate, seed, device, history, folder
    )
    tokenizer = lesson_tokenizer(pictures, seed, settings.start)
    pupil, processor = new_pupil(tower, tokenizer, pictures, seed, folder)
    if settings.start:
        seconds += go_on_from(
            settings.start, pupil, pictures, settings.match_steps, size, rate, seed, history, folder
        )
    steps = {
        "letters": settings.letter_steps,
        "tasks": settings.task_steps,
        "choices": settings.choice_steps,
        "last": settings.last_steps,
        "judge": settings.judge_steps,
    }
    pointer, made = new_pointer(pupil), []
    told = {"tower": settings.tower_steps, "match": settings.match_steps if settings.start else 0}
    pool, files = exam_pictures(worlds, settings.n_test, seed)
    asked = exam_questions(pool, settings.n_test)
    for name, stages in (("annotator", ("letters", "tasks", "choices", "last")), ("judge", ("judge",))):
        if name == "judge" and not settings.judge_steps:
            continue
        for stage in stages:
            seconds += teach_stage(stage, steps, pupil, pointer, pictures, size, rate, seed, history, folder)
            told[stage] = steps[stage]
        place = save_annotator(pupil, processor, folder / name)
        tasks, main = set(asked) - JUDGED, "choice from an image"
        if name == "judge":
            tasks, main = JUDGED, "judgement"
        exam = examine(str(place.resolve()), device, asked, files, tasks)
        card = told_of(place, right_table(exam, asked), main, pupil.model, settings)
        card |= {"steps": dict(told), "seconds": round(seconds)}
        if name == "annotator":
            errors, _ = calibration(lettered_answers(exam))
            card["calibration error"] = {row["task"]: round(row["value"], 1) for row in errors}
        write_card(place, card)
        made.append(place)
    return made


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--seed",
        type=int,
        default=0,
        help="of the pictures, the weights, the questions (default %(default)s)",
    )
    add("--device", default="auto", help="auto, cpu or cuda")
    add("--start", default="", help="a model whose language is gone on from; none begins anew")
    for name, default, meaning in (
        ("stored-pictures", 0, "pictures of each world's training split; 0 takes all"),
        ("birds-drawn", 8000, "birds drawn besides, every second one with random attributes"),
        ("things-drawn", 4000, "everyday things besides, every second one in random colours, places"),
        ("portraits-drawn", 8000, "portraits of birds with random attributes"),
        ("judged", 8000, "pictures with an attention map over them"),
        ("tower-steps", 1800, "of the image tower"),
        ("tower-batch", 32, "pictures a step of it, about"),
        ("match-steps", 300, "of the projection, with --start"),
        ("letter-steps", 600, "on letters and names in a list, without images"),
        ("task-steps", 2200, "on all tasks together"),
        ("choice-steps", 2400, "on choices above all"),
        ("last-steps", 6000, "on all tasks, with judgements, ratings and attributes above all"),
        ("judge-steps", 3100, "of the judge, on judgements alone; 0 makes none"),
        ("batch-size", 128, "short questions a step; a quarter of it for long texts"),
        ("n-test", 200, "held-out questions of each task"),
    ):
        add(f"--{name}", type=int, default=default, help=f"{meaning} (default %(default)s)")
    add("--learning-rate", type=float, default=0.0006, help="its peak (default %(default)s)")
    add("--save", default="trained", help="folder of checkpoints, models and cards (default %(default)s)")
    return parser


if __name__ == "__main__":
    parser = options()
    make_annotator(parser.parse_args())
