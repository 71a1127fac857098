"""What the points of a grid lack on this machine, told from their parameters without loading anything."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from xaihelpers import downloads, names, paths, spending
from xaihelpers.grids import Point, parameters_at

# parameters by what they name; of a CLIP with the one that holds its weights
DATA = ("data", "guessed", "benchmark")
FILES = ("concept_file", "same_as", "class_names", "part_masks", "queries", "weights")
NETWORKS = ("backbone", "network", "networks")
MODELS = ("models", "judge", "judges", "llm", "annotator", "pipeline")
CLIPS = {"clip": "clip_weights", "clips": "clip_weights", "scorer": "scorer_weights"}
CLIPS |= {"scorers": "scorer_weights", "second": "second_weights"}
OWN_FILES = (".safetensors", ".npz", ".py", ".csv")
# kinds of what is missing
FETCHED = "{} (fetched from the internet when it runs)"
WEIGHTS, PACKAGE, GPU = f"weights of {FETCHED}", "package {}", "a GPU for {}"

Lacks = Iterator[tuple[str, str]]  # a kind, with a place for names, and a name


def plan(points: list[Point], why: Callable[[Point], str], on_cluster: bool) -> Iterator[str]:
    """A line for each point; neighbours of one notebook that lack the same share a line.

    why: a point is to be run, empty for what is done. on_cluster: whether other machines run the points.
    """

    def told(point: Point) -> tuple[Path, str, str]:
        reason = why(point)
        return point.notebook, reason or "done", missing(point, on_cluster) if reason else ""

    for (_, reason, lacks), group in groupby(points, told):
        first, *more = group
        if not lacks:
            yield from (f"{reason}: {point}" for point in (first, *more))
            continue
        every = {name for point in (first, *more) for name in point.changed}
        differing = [n for n in every if any(point.changed.get(n) != first.changed.get(n) for point in more)]
        others = f" … and {len(more)} more with other {', '.join(sorted(differing))}" if more else ""
        yield f"{reason}: {first}{others} — missing: {lacks}"


def wants_gpu(points: list[Point]) -> bool:
    """Whether one of the points takes a GPU where there is one."""
    return any(parameters_at(point).get("device", "cpu") != "cpu" for point in points)


def missing(point: Point, on_cluster: bool) -> str:
    """What a point lacks, in words; empty where nothing is missing."""
    parameters, found = parameters_at(point), {}
    if point.notebook.name.startswith("52"):  # which writes its benchmark
        parameters["benchmark"] = ""
    lacks = [*_data_and_files(parameters), *_networks_and_clips(parameters), *_models_and_machine(parameters)]
    if on_cluster and find_spec("ray") is None:
        lacks.append((PACKAGE, f"ray ({names.how_to_install('cluster')})"))
    has_gpu = on_cluster or any(Path("/dev").glob("nvidia[0-9]*"))
    for kind, name in lacks:
        if not (kind == GPU and has_gpu):
            found.setdefault(kind, {})[name] = None  # each once, in order
    return "; ".join(kind.format(", ".join(held)) for kind, held in found.items())


def _values(parameters: dict, *which: str) -> list[str]:
    """The texts that some parameters hold, alone or in lists, but for empty ones."""
    held = [parameters.get(name) for name in which]
    every = [value for one in held for value in (one if isinstance(one, list) else [one])]
    return [value for value in every if isinstance(value, str) and value]


def _beside(parameters: dict, name: str, number: int) -> str:
    """What a parameter holds for all, or in a list for the one with this number."""
    held = parameters.get(name, "")
    return held if isinstance(held, str) else dict(enumerate(held)).get(number, "")


def _data_and_files(parameters: dict) -> Lacks:
    drawn = {place.stem for place in (paths.PROJECT / "worlds").iterdir()}
    for name in _values(parameters, *DATA):
        there = names.place_of_set(name).is_dir() if name in names.FOLDERS else paths.find(name)
        if not there and name not in drawn:
            yield f"data {FETCHED}" if name in names.DOWNLOADED else "data {}", name
    folders = [paths.data_home(), paths.PROJECT / "data", paths.PROJECT / "data/prompts", paths.models_home()]
    models = [name.removeprefix("python:") for name in _values(parameters, *NETWORKS, *MODELS)]
    for name in (*_values(parameters, *FILES), *(name for name in models if name.endswith(OWN_FILES))):
        if not paths.find(name, *folders):
            yield "file {}", name


def _networks_and_clips(parameters: dict) -> Lacks:
    clips = []
    for number, name in enumerate(_values(parameters, *NETWORKS)):
        weights, plain = _beside(parameters, "weights", number), names.backbone_of(name)
        families, plain = names.families_of(plain)
        if plain.startswith("clip/"):
            clips.append((plain.removeprefix("clip/"), weights))
        elif not (weights or plain in sum(names.OWN.values(), []) or plain.endswith(OWN_FILES)):
            if families == ("pytorchcv",) and find_spec("pytorchcv") is None:
                yield PACKAGE, f"pytorchcv ({names.how_to_install('paper')})"
            if not any(downloads.has_network(family, plain) for family in families):
                yield WEIGHTS, name
    for parameter, companion in CLIPS.items():
        held = enumerate(_values(parameters, parameter))
        clips += [(name, _beside(parameters, companion, number)) for number, name in held]
    for name, tag in clips:
        is_here = paths.find_model(name, names.CLIP_FILE) or (tag and paths.find_model(tag))
        if not (is_here or downloads.has_clip(name, tag)):
            yield WEIGHTS, f"{name} {tag}".strip()


def _models_and_machine(parameters: dict) -> Lacks:
    for name in _values(parameters, *MODELS):
        kind, served = names.server_or_file(name)
        if kind == "server":
            yield from spending.lacking(served, *map(parameters.get, ("spend_at_most", "prices")))
        elif not (kind or "/" not in name or name.endswith(OWN_FILES) or paths.find_model(name)):
            yield GPU, name
            if not downloads.has_repository(name):
                yield WEIGHTS, name
    if parameters.get("device", "").startswith("cuda"):
        yield GPU, f"device {parameters['device']}"
    if quantise := parameters.get("quantise"):
        yield GPU, f"quantise {quantise}"
        if find_spec("bitsandbytes") is None:
            yield PACKAGE, f"bitsandbytes ({names.how_to_install('paper')})"
