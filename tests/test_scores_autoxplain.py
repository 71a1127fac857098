"""The attention matrix beside dealt scores, kinds of networks, and boxes: by hand."""

import numpy as np
import pytest
import torch
from scipy.stats import t as student

from xaihelpers.scores import autoxplain
from xaihelpers.tables import paper_table


def test_the_prompts_steps_by_hand():
    """Cuts as they stand beside the prompt's words; who sees nothing lit has 0, who knows no object none."""
    covered = [0.14, 0.15, 0.4, 0.9, 0.4, 0.9, 1.0, 0.0, np.nan]
    precise = [1.0, 1.0, 0.24, 0.25, 0.9, 0.9, 0.5, np.nan, 0.5]
    wanted = [0, 2, 2, 3, 4, 5, 3, 0, np.nan]
    assert autoxplain.step_score(covered, precise) == pytest.approx(wanted, nan_ok=True)
    assert autoxplain.product_score([0.5, 0.0], [0.5, np.nan]) == pytest.approx([1.25, 0])
    milder = autoxplain.SCALES["all cuts milder"]
    assert milder(0.3, 0.2) == 3 and autoxplain.SCALES["all cuts stricter"](0.3, 0.2) == 2
    lit, objects = torch.zeros(2, 3, 2, 2, dtype=torch.bool)
    lit[0, 0] = lit[1, 0] = objects[0, :, 0] = objects[2] = True
    found = autoxplain.coverage_and_precision(lit, objects)
    assert np.allclose(found, [[0.5, np.nan, 0], [0.5, 0, np.nan]], equal_nan=True)


def test_dealt_scores_by_hand():
    """Three of four are right, two of four high; what CH has more than their product, WL has as well."""
    right, scores = [1, 1, 1, 0, 1], [5, 0, 0, 5, np.nan]
    dealt = autoxplain.dealt_at_random(right, scores)
    assert dealt == pytest.approx({"CH": 37.5, "CL": 37.5, "WH": 12.5, "WL": 12.5})
    above = autoxplain.above_random(right, scores)
    assert (above.value, above.cases) == (pytest.approx(25 - 37.5), 4)


def test_the_papers_networks_are_its_cases():
    """Welch's interval of its eight printed rows."""
    paper = paper_table("autoxplain", 3)
    paper = paper[paper.kind != "trained here"]
    for metric, wanted in (("Avg", (0.54, 0.16, 0.91)), ("CL", (-12.25, -28.96, 4.46))):
        part = paper[paper.metric == metric]
        found = autoxplain.lead_of_kinds(part.value, part.kind == "segmentation", part.of)
        assert found[:3] == pytest.approx(wanted, abs=0.01) and found.effective == 8


def test_pictures_do_not_make_networks():
    """Two backbones whose differences are 3 and 6, on however many pictures; a classifier without draws."""
    values, kinds, backbones, images, draws = [], [], [], [], []
    for backbone, gap in (("a", 3), ("b", 6)):
        for image in range(50):
            for kind, draw in ((0, 0), (1, 0), (1, 1)):
                values.append(10 + gap * kind)
                kinds.append(kind)
                backbones.append(backbone)
                images.append(image)
                draws.append(draw)
    found = autoxplain.lead_of_kinds(values, kinds, backbones, images, draws)
    margin = student.ppf(0.975, 1) * 1.5
    assert found[:3] == pytest.approx((4.5, 4.5 - margin, 4.5 + margin)) and found.effective == 2
    one = np.array(backbones) == "a"
    alone = autoxplain.lead_of_kinds(*(np.array(of)[one] for of in (values, kinds, backbones, images, draws)))
    assert alone.value == pytest.approx(3) and np.isnan(alone.low)
    assert np.isnan(autoxplain.lead_of_kinds([1, 2], [0, 0], ["a", "b"]).value)


def test_overlaps_by_hand():
    """The outline itself, one moved by half beside a smaller region, nothing lit, and no object."""
    lit, objects = torch.zeros(2, 4, 10, 10, dtype=torch.bool)
    objects[:3, 2:6, 2:6] = True
    lit[0, 2:6, 2:6] = True
    lit[1, 2:6, 4:8] = lit[1, 9, 9] = True
    lit[3, :2, :2] = True
    assert autoxplain.box_overlap(lit, objects) == pytest.approx([1, 8 / 24, 0, np.nan], nan_ok=True)
    diagonal = torch.eye(10, dtype=torch.bool)[None]
    square = torch.ones(1, 10, 10, dtype=torch.bool)
    assert autoxplain.box_overlap(square, diagonal)[0] == pytest.approx(1 / 100)  # of a diagonal's first cell
