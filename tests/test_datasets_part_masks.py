"""A user's folder of part masks: the same overlaps as a drawn world's own masks, and refusals."""

import numpy as np
import pytest
import torch
from PIL import Image

from xaihelpers.datasets import with_part_masks
from xaihelpers.kernels.coam import location_region
from xaihelpers.models import crop_masks, load_backbone
from xaihelpers.scores import alignment

ROWS = (0, 700, 1500)


@pytest.fixture
def folder(drawn_birds, tmp_path):
    """Three birds in eleven numbers, left and right as one, crown and forehead too; and the table."""
    kinds = [part.split()[-1].replace("forehead", "crown") for part in drawn_birds.parts]
    of_kind = {kind: 1 + number for number, kind in enumerate(dict.fromkeys(kinds))}
    assert len(of_kind) == 11
    rows = [f"{of_kind[kind]},{part}\n" for kind, part in zip(kinds, drawn_birds.parts, strict=True)]
    (tmp_path / "parts.csv").write_text("number,part\n" + "".join(rows))
    numbers = np.array([0, *(of_kind[kind] for kind in kinds), 0], np.uint8)  # the last: the rest of the body
    for row in ROWS:
        file = (tmp_path / drawn_birds.image_ids[row]).with_suffix(".png")
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(numbers[drawn_birds.part_mask(row)]).save(file)
    return tmp_path


def test_overlaps_are_those_of_the_own_masks(drawn_birds, folder):
    world = with_part_masks(drawn_birds, folder)
    n_images = len(world.images)
    assert world.left_out == f"{n_images - 3:,} of {n_images:,} part masks, which are missing"
    assert with_part_masks(drawn_birds, "") is drawn_birds and drawn_birds.mask_folder is None
    network, maps = (
        load_backbone("aviary_resnet"),
        torch.rand(4, 7, 7, generator=torch.Generator().manual_seed(0)),
    )
    for parts in (["left wing", "right wing"], ["beak"], ["crown", "forehead"]):
        found = []
        for data in (drawn_birds, world):
            masks = torch.isin(crop_masks(network, data, (*ROWS, 1)), torch.tensor(data.mask_numbers(parts)))
            regions = location_region(maps, masks[0].numel() * 9 // 12, masks[0].shape)
            found.append(alignment.region_iou(regions, masks))
        assert torch.equal(found[0][:3], found[1][:3]) and (found[1][:3] > 0).all()
        assert found[1][3].isnan()  # left out: it has no mask
    assert world.mask_numbers(["crown"]) == world.mask_numbers(["forehead"])


def test_refusals_name_the_thing_and_the_remedy(drawn_birds, folder):
    table, mask = folder / "parts.csv", (folder / drawn_birds.image_ids[700]).with_suffix(".png")
    whole, numbers = table.read_text(), np.array(Image.open(mask))

    def refused(match, place=folder):
        with pytest.raises(ValueError, match=match):
            with_part_masks(drawn_birds, place).part_mask(700)

    refused("nowhere: there is no such folder of part masks: give its path", folder / "nowhere")

    for wrong, match in (
        (whole.replace("beak", "beack"), "unknown part 'beack'; did you mean 'beak'"),
        (whole.replace("2,beak\n", ""), "no row for 'beak': give its number, 0 if no mask shows it"),
        (whole.replace("2,beak", "1.5,beak"), "line 3: number is 1.5: write a whole number"),
        (whole.replace("2,beak", "0,beak"), "one of the numbers .0, 1, 3.*is needed for each pixel"),
    ):
        table.write_text(wrong)
        refused(match)
    table.write_text(whole)
    Image.fromarray(numbers[:, :-1]).save(mask)
    refused(r"mask of \(223, 224\) pixels for an image of \(224, 224\): scale it")
    Image.fromarray(np.stack([numbers] * 3, -1)).save(mask)
    refused("and no colour, is needed for each pixel")
    Image.fromarray(numbers).save(mask)
    mask.write_bytes(mask.read_bytes()[:-200])
    refused("mask cannot be read .*: save it anew")
    for row in ROWS:
        (folder / drawn_birds.image_ids[row]).with_suffix(".png").unlink()
    refused("as is every other mask: name them as the images, .png")
