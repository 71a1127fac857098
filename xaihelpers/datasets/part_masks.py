"""A user's masks of parts: one PNG an image, and a table of what their numbers show."""

from dataclasses import replace
from pathlib import Path

from xaihelpers.datasets.attribute_names import unknown_name
from xaihelpers.datasets.contradictions import require_masks_in_boxes
from xaihelpers.datasets.dataset import Dataset, DatasetError, require_annotations
from xaihelpers.paths import find
from xaihelpers.text_files import numbers, read_table


def with_part_masks(data: Dataset, folder: str | Path) -> Dataset:
    """The data set with the part masks of a folder; "" leaves it as it is.

    folder: a path, or a name under XAI_DATA. It holds a PNG for each image, under the image's own relative
        name and of its size, whose pixels are numbers, 0 for the background. `parts.csv` in it says which
        parts the numbers show: columns `number` and `part`, a row for each pair. A number may show several
        parts, as left and right; what no mask shows has the number 0. Images without a PNG have empty masks,
        and `left_out` counts them.

    Raises DatasetError: a data set without parts, no such folder, a table that names an unknown part or
        leaves one out; no PNG at all; masks that contradict the boxes, as of `require_masks_in_boxes`. What
        each mask holds is checked by `Dataset.part_mask`. Raises TextFileError as `read_table` and `numbers`.
    """
    if not str(folder):
        return data
    require_annotations(data, "parts")
    place = find(folder)
    if place is None or not place.is_dir():
        raise DatasetError(f"{folder}: there is no such folder of part masks: give its path")
    data = replace(data, mask_folder=place, mask_parts=_read_parts(place / "parts.csv", data.parts))
    data.mask_names = [" and ".join(parts) for parts in data.mask_parts]
    files = [data.mask_file(row) for row in range(len(data.images))]
    there = [row for row, file in enumerate(files) if file.is_file()]
    if not there:
        raise DatasetError(f"{files[0]} is missing, as is every other mask: name them as the images, .png")
    require_masks_in_boxes(data, there)
    if len(there) < len(files):
        data.left_out = f"{len(files) - len(there):,} of {len(files):,} part masks, which are missing"
    return data


def _read_parts(file: Path, known: list[str]) -> list[tuple[str, ...]]:
    """What each number from 1 on shows, from the table of a folder of masks."""
    table = read_table(file, ["number", "part"])
    of_rows = numbers(table["number"], file, 0, 255)
    if (broken := of_rows[of_rows % 1 > 0]).size:
        line, number = next(broken.items())
        raise DatasetError(f"{file}, line {line}: number is {number:g}: write a whole number")
    for part in table["part"]:
        if part not in known:
            raise DatasetError(f"{file}: {unknown_name('part', part, known)}")
    if untold := set(known) - set(table["part"]):
        raise DatasetError(f"{file} has no row for {min(untold)!r}: give its number, 0 if no mask shows it")
    return [tuple(table["part"][of_rows == number]) for number in range(1, int(of_rows.max()) + 1)]
