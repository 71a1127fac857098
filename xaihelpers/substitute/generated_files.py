"""Many generated images as files: each made once, written at once, found again by all that it depends on."""

import hashlib
import io
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tqdm.auto import tqdm

from xaihelpers import paths
from xaihelpers.substitute.drawn_pipeline import DRAWN
from xaihelpers.substitute.generation import (
    generate,
    generate_averaged,
    generate_pairs,
    pipeline_identity,
)
from xaihelpers.substitute.pair_prompts import SubstituteError
from xaihelpers.substitute.tied_guidance import TIES, tied_share

log = logging.getLogger(__name__)


AVERAGED = "averaged"  # beside the rules of `tied_guidance`: the mean of both prompts' encodings


class GenerationJob(NamedTuple):
    """An image to generate, from one prompt alone, or from a reference's and its guide's, tied."""

    prompts: tuple[str, ...]  # (reference,) or (reference, guide)
    seed: int
    tie: tuple[float, float, float] = (10.0, 0.2, 0.9)  # k, t_min and t_max of eta
    rule: str = "tied"  # of `tied_guidance.RULES`, or "averaged"; by what is no tie there is one image
    weight: float = 1.0  # of eta, for the rule "weighted"


def generate_files(
    pipe,
    jobs: Sequence[GenerationJob],
    steps: int = 28,
    guidance: float = 3.5,
    size: int | None = None,
    batch_size: int = 16,
    **settings,
) -> list[tuple[Path, ...]]:
    """Image files of each job, (reference,) or, tied, (reference, guide).

    Those that are not in the cache are generated.

    A file that is damaged there is set aside, and its job generated anew.

    A killed call, made again, goes on where it was.

    steps, guidance, size, batch_size, settings: as of `generate`.
    Raises SubstituteError as `generate` and `generate_pairs` do, and where a file cannot be written; every
        other image is kept.
    """
    folder, pipeline = paths.cache_home() / "generated", pipeline_identity(pipe)
    files = [_job_files(folder, pipeline, job, steps, guidance, size, settings) for job in jobs]
    missing = {}  # files of a job -> the job; equal jobs have equal files
    for job_files, job in zip(files, jobs, strict=True):
        if not all([_is_whole(file) for file in job_files]):  # a list: each damaged one is set aside
            missing[job_files] = job
    kinds: dict[tuple, list] = {}  # what can be generated in one batch
    for job_files, job in missing.items():
        n_sides = 1 if job.rule == AVERAGED else len(job.prompts)
        kinds.setdefault((n_sides, *job[2:]), []).append((job_files, job))
    settings |= {"steps": steps, "guidance": guidance, "size": size, "batch_size": batch_size}
    with tqdm(total=len(missing), desc="generating", unit="job", disable=not missing) as bar:
        for (n_sides, *_), waiting in kinds.items():
            n_jobs = max(1, batch_size // n_sides)  # at a time
            for start in range(0, len(waiting), n_jobs):
                targets, batch = zip(*waiting[start : start + n_jobs], strict=True)
                _write(targets, _generate_batch(pipe, batch, settings))
                bar.update(len(batch))
    if jobs:
        kind = "images or pairs" if any(len(job_files) > 1 for job_files in files) else "images"
        count = len(set(files))
        log.info("%d generated %s, %d of them from the cache", count, kind, count - len(missing))
    return files


def _is_whole(file: Path) -> bool:
    """Whether an image is in the cache, undamaged by its checksums; a damaged one is set aside."""
    if not file.exists():
        return False
    try:
        with Image.open(file) as image:
            image.verify()
    except (OSError, SyntaxError, ValueError) as error:
        paths.set_aside(file, error)
        return False
    return True


def _generate_batch(pipe, jobs: Sequence[GenerationJob], settings: dict) -> list[tuple]:
    """The image, or the reference and the guide, of each job; all have as many prompts and are tied alike."""
    seeds = [job.seed for job in jobs]
    _, _, tie, rule, weight = jobs[0]
    if len(jobs[0].prompts) == 1:
        images = generate(pipe, [job.prompts[0] for job in jobs], seeds, **settings)
        return [(image,) for image in images]
    prompts = [job.prompts for job in jobs]
    if rule == AVERAGED:
        return [(image,) for image in generate_averaged(pipe, prompts, seeds, **settings)]
    k, t_min, t_max = tie

    def share(t: float) -> float:
        return weight * tied_share(t, t_min, t_max, k)

    pairs = generate_pairs(pipe, prompts, seeds, share, rule=rule, **settings)
    sides = (pairs.references, pairs.guides) if rule in TIES else (pairs.references,)
    return list(zip(*sides, strict=True))


def _job_files(folder: Path, pipeline: str, job: GenerationJob, *settings) -> tuple[Path, ...]:
    """Where the images of a job lie, named by all that they depend on."""
    tie = job.tie if len(job.prompts) > 1 else None
    other_rule = [job.rule, job.weight] if len(job.prompts) > 1 and job.rule != "tied" else []
    key = json.dumps([pipeline, job.prompts, job.seed, tie, settings, *other_rule], default=str)
    stem = hashlib.sha256(key.encode()).hexdigest()[:24]
    n_sides = len(job.prompts) if job.rule in TIES else 1
    endings = ("", "-guide")[:n_sides]
    return tuple(folder / stem[:2] / f"{stem}{ending}.png" for ending in endings)


def _write(targets: Sequence[tuple[Path, ...]], images: Sequence[tuple[Image.Image, ...]]) -> None:
    """Each image to its file; where one cannot be written, the others still are. Raises SubstituteError."""
    failures = []
    for job_files, sides in zip(targets, images, strict=True):
        for file, image in zip(job_files, sides, strict=True):
            png, notes = io.BytesIO(), PngInfo()
            if DRAWN in image.info:  # what is known of it goes with it
                notes.add_text(DRAWN, image.info[DRAWN])
            image.save(png, "PNG", pnginfo=notes)
            try:
                paths.write_whole(file, png.getvalue())
            except OSError as error:
                failures.append((file, error))
    if failures:
        file, error = failures[0]
        raise SubstituteError(
            f"{file} cannot be written ({error.strerror or error}): make room or permit writing there and "
            f"run again; every other image is kept, {len(failures)} of the batch in hand are lost"
        ) from error
