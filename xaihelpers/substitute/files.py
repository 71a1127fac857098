"""Many generated images as files: each made once, written the moment it is there, found again by all that it depends on."""
import hashlib
import io
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from tqdm.auto import tqdm

from .. import paths
from .generate import generate, generate_pairs, identity
from .prompts import SubstituteError
from .tied import tied_share


class Job(NamedTuple):
    """An image to generate: from one prompt alone, or from a reference's and its guide's, tied; `tie` holds k, t_min and t_max of eta."""
    prompts: tuple[str, ...]
    seed: int
    tie: tuple[float, float, float] = (10.0, 0.2, 0.9)


def generate_files(pipe, jobs: Sequence[Job], steps: int = 28, guidance: float = 3.5, size: int | None = None, batch_size: int = 16, **settings) -> list[tuple[Path, ...]]:
    """Image files of each job, (reference,) or (reference, guide): those that are not in the cache yet are generated, in batches, with a progress bar.

    Killed at any point, it goes on where it was. Raises SubstituteError as `generate` and `generate_pairs` do, and where a file cannot be written; every other image is kept.
    """
    folder, pipeline = paths.cache_home() / "generated", identity(pipe)
    files = [_files(folder, pipeline, job, steps, guidance, size, settings) for job in jobs]
    missing = {of: job for of, job in zip(files, jobs) if not all(file.exists() for file in of)}
    kinds: dict[tuple, list] = {}
    for of, job in missing.items():
        kinds.setdefault((len(job.prompts), job.tie), []).append((of, job))
    with tqdm(total=len(missing), desc="generating", unit="job", disable=not missing) as bar:
        for (sides, tie), waiting in kinds.items():
            at_a_time = max(1, batch_size // sides)
            for start in range(0, len(waiting), at_a_time):
                targets, batch = zip(*waiting[start:start + at_a_time])
                seeds, given = [job.seed for job in batch], {"steps": steps, "guidance": guidance, "size": size, "batch_size": batch_size, **settings}
                if sides == 1:
                    images = [(image,) for image in generate(pipe, [job.prompts[0] for job in batch], seeds, **given)]
                else:
                    made = generate_pairs(pipe, [job.prompts for job in batch], seeds, partial(tied_share, k=tie[0], t_min=tie[1], t_max=tie[2]), **given)
                    images = zip(made.references, made.guides)
                _write([(file, image) for of, sides_of in zip(targets, images) for file, image in zip(of, sides_of)])
                bar.update(len(batch))
    if jobs:
        print(f"{len(set(files))} generated images{' or pairs' * any(len(of) > 1 for of in files)}, {len(set(files)) - len(missing)} of them from the cache")
    return files


def _files(folder: Path, pipeline: str, job: Job, *settings) -> tuple[Path, ...]:
    what = json.dumps([pipeline, job.prompts, job.seed, job.tie if len(job.prompts) > 1 else None, settings], default=str)
    stem = hashlib.sha256(what.encode()).hexdigest()[:24]
    return tuple(folder / stem[:2] / f"{stem}{end}.png" for end in ("", "-guide")[:len(job.prompts)])


def _write(images: list[tuple[Path, Image.Image]]) -> None:
    """Each image to its file; where one cannot be written, the others still are."""
    failed = []
    for file, image in images:
        held = io.BytesIO()
        image.save(held, "PNG")
        try:
            paths.write_whole(file, held.getvalue())
        except OSError as error:
            failed.append((file, error))
    if failed:
        file, error = failed[0]
        raise SubstituteError(f"{file} cannot be written ({error.strerror or error}): make room or permit writing there and run again; every other image is kept, {len(failed)} of the batch in hand are lost") from error
