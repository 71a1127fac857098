"""Generated images as files, each made once and found again, and what all parts of one benchmark choose."""

import hashlib
import io
import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
from filelock import FileLock
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tqdm.auto import tqdm

from xaihelpers import paths
from xaihelpers.datasets.attribute_names import with_article
from xaihelpers.datasets.dataset import DatasetError, class_name
from xaihelpers.substitute.drawn_pipeline import DRAWN, DrawnPipeline
from xaihelpers.substitute.generation import generate, generate_pairs, pipeline_identity
from xaihelpers.substitute.pairs import FORMS, pair_prompts
from xaihelpers.substitute.tied_guidance import tied_share

log = logging.getLogger(__name__)


class GenerationJob(NamedTuple):
    """An image of a bird as it is, or a reference and its guide, both from one noise."""

    bird: str
    seed: int
    attribute: str = ""  # `group::value` to be substituted; "" leaves the bird as it is
    guide: str = ""  # of `pair_prompts`
    tie: tuple[float, float, float] = (10.0, 0.2, 0.9)  # k, t_min and t_max of eta
    rule: str = "tied"  # of `tie_by`
    mask: tuple[tuple[float, ...], ...] = ()  # its places, rows of 0 to 1
    forms: str = FORMS  # of `read_forms`

    @property
    def prompts(self) -> tuple[str, ...]:
        """(reference,) of a bird as it is, else (reference, guide)."""
        if self.attribute:
            return pair_prompts(self.bird, self.attribute, self.guide, self.forms)
        return (f"a photo of {with_article(class_name(self.bird))}",)


def generate_files(
    pipe,
    jobs: Sequence[GenerationJob],
    steps: int = 28,
    guidance: float = 3.5,
    size: int | None = None,
    batch_size: int = 16,
    **settings,
) -> list[tuple[Path, ...]]:
    """Image files of each job: (reference, guide), or (image,) of a bird as it is or of the drawn generator.

    Those that are not in the cache are generated; a file that is damaged there is set aside, and its job
    generated anew. A killed call, made again, goes on where it was.

    steps, guidance, size, batch_size, settings: as of `generate`.
    Raises SubstituteError as `generate` and `generate_pairs` do, OSError where a file cannot be written.
    """
    files = [_job_files(pipe, job, steps, guidance, size, settings) for job in jobs]
    kinds: dict[tuple, dict] = {}  # what can be generated in one batch: files of a job -> the job
    for job_files, job in zip(files, jobs, strict=True):
        if not all([_is_whole(file) for file in job_files]):  # a list: each damaged one is set aside
            kinds.setdefault((len(job_files), job.tie, job.rule), {})[job_files] = job
    n_missing = sum(map(len, kinds.values()))
    settings |= {"steps": steps, "guidance": guidance, "size": size, "batch_size": batch_size}
    with tqdm(total=n_missing, desc="generating", unit="job", disable=not n_missing) as bar:
        for (n_sides, *_), waiting in kinds.items():
            n_jobs, waiting = max(1, batch_size // n_sides), list(waiting.items())  # at a time
            for start in range(0, len(waiting), n_jobs):
                targets, batch = zip(*waiting[start : start + n_jobs], strict=True)
                made = _generate_batch(pipe, batch, settings)
                for file, image in zip(chain(*targets), chain(*made), strict=True):
                    png, notes = io.BytesIO(), PngInfo()
                    if DRAWN in image.info:
                        notes.add_text(DRAWN, image.info[DRAWN])
                    image.save(png, "PNG", pnginfo=notes)
                    paths.write_whole(file, png.getvalue())
                bar.update(len(batch))
    count = len(set(files))
    log.info("%d generated images or pairs, %d of them from the cache", count, count - n_missing)
    return files


def _is_whole(file: Path) -> bool:
    """Whether an image is in the cache, undamaged by its checksums; a damaged one is set aside."""
    try:
        with Image.open(file) as image:
            image.verify()
    except FileNotFoundError:
        return False
    except (OSError, SyntaxError, ValueError) as error:
        paths.set_aside(file, error)
        return False
    return True


def _generate_batch(pipe, jobs: Sequence[GenerationJob], settings: dict) -> list[tuple]:
    """The image, or the reference and the guide, of each job; all are tied alike."""
    if isinstance(pipe, DrawnPipeline):
        size = settings["size"] or 128
        return [(pipe.draw(job.bird, job.attribute, job.seed, size),) for job in jobs]
    seeds, prompts = [job.seed for job in jobs], [job.prompts for job in jobs]
    if not jobs[0].attribute:
        images = generate(pipe, [text for (text,) in prompts], seeds, **settings)
        return [(image,) for image in images]
    k, t_min, t_max = jobs[0].tie
    share = partial(tied_share, t_min=t_min, t_max=t_max, k=k)
    masks = torch.tensor([job.mask for job in jobs]) if jobs[0].mask else None
    pairs = generate_pairs(pipe, prompts, seeds, share, rule=jobs[0].rule, masks=masks, **settings)
    return list(zip(pairs.references, pairs.guides, strict=True))


def _job_files(pipe, job: GenerationJob, *settings) -> tuple[Path, ...]:
    """Where the images of a job lie, named by all that they depend on."""
    drawn = isinstance(pipe, DrawnPipeline)
    asked = (job.bird, job.attribute) if drawn else job.prompts
    tied = [job.tie, job.rule, *job.mask] if len(asked) > 1 and not drawn else []
    key = json.dumps([pipeline_identity(pipe), asked, job.seed, *tied, settings], default=str)
    stem = hashlib.sha256(key.encode()).hexdigest()[:24]
    endings = ("", "-guide") if tied else ("",)
    folder = paths.cache_home() / "generated" / stem[:2]
    return tuple(folder / f"{stem}{ending}.png" for ending in endings)


def shared_choice(
    folder: Path, shard: int, shards: int, about: dict[str, object], choose: Callable[[], dict]
) -> dict:
    """What `choose` returns (sub, section 4.2), made by the first shard of a benchmark, read by the others.

    It lies in choice.json of the benchmark's folder. Shards that begin together wait for one of them; a run
    in one shard always chooses anew.

    about: name -> value of each parameter that the choice depends on, as JSON types.
    choose: returns what JSON can hold.
    Raises DatasetError: a shard that there is not, files of another number of shards, or a choice with other
        parameters.
    """
    if not 0 <= shard < shards:
        raise DatasetError(f"shard {shard} of {shards}: shards are numbered from 0 to {shards - 1}")
    for file in folder.glob("data/*.parquet"):
        if not file.name.endswith(f"-of-{shards:05d}.parquet"):
            raise DatasetError(f"{file} is not one of {shards} shards: remove it, or name another benchmark")
    file = folder / "choice.json"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".choice.lock"):
        if shards == 1 or not file.exists():
            stored = {"about": about, "choice": choose()}
            paths.write_whole(file, json.dumps(stored, indent=1).encode())
        else:
            stored = json.loads(file.read_text())
    for name, value in about.items():
        if (then := stored["about"].get(name)) != value:
            raise DatasetError(
                f"{file} was chosen with another {name} ({then}, not {value}): shards share their choice; "
                "name another benchmark, or remove this one"
            )
    return stored["choice"]
