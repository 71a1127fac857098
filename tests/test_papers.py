"""The transcribed tables: counts, ranges, and values that the papers' own text repeats."""

import pandas as pd
import pytest

from xaihelpers.datasets import cbm_concepts
from xaihelpers.tables import paper_table

TEXT_METRICS = ["BLEU", "METEOR", "ROUGE"]
GRID = ["bottleneck", "template", "k"]
MODEL_TABLES = {6: "cbm", 7: "cem", 8: "lfcbm", 9: "lfcbm_unsupervised", 10: "phcbm"}


MODEL = ["model", "dataset"]


@pytest.mark.parametrize(
    "paper, n, rows, empty, keys, low, high",
    [
        ("alignment", 1, 18, 0, ["images", "basis", "l"], 0, 100),
        ("alignment", 2, 27, 0, ["alpha", "basis", "l"], 0, 100),
        ("alignment", 3, 11, 0, ["classifier", "samples", "lambda"], 0, 100),
        ("alignment", 4, 56, 0, ["part", "type"], 0, 112),
        ("alignment", 6, 342, 3, ["concept", "metric"], -1, 1),
        ("alignment", 7, 306, 1, ["class_id", "metric"], -1, 1),
        ("alignment", 8, 300, 0, ["class_id", "metric"], -1, 1),
        ("conceptscore", 11, 50, 0, [*GRID, "dataset"], 0.4, 0.51),
        ("conceptscore", 12, 50, 0, [*GRID, "dataset"], 0.4, 0.51),
        ("conceptscore", "agreement", 17, 0, ["score", "with", "template"], 0, 1),
        ("fse", 1, 16, 0, ["distractors", *MODEL], 0, 100),
        ("fse", 2, 21, 0, MODEL, -60, 100),
        ("fse", 3, 36, 6, [*MODEL, "t"], 0, 100),
        ("fse", 4, 18, 0, [*MODEL, "mode"], 0, 100),
        ("fse", 5, 3, 0, MODEL, 0, 100),
        ("fse", 6, 15, 2, [*MODEL, "t"], 0, 100),
        ("fse", 7, 12, 1, [*MODEL, "t"], 0, 100),
        ("fse", 8, 18, 0, [*MODEL, "mode"], 0, 100),
        ("fse", "text", 17, 0, ["about"], -60, 1e6),
        ("sub", 1, 48, 0, ["bottleneck", "labels", "label_kind", "metric"], 0, 100),
        ("sub", 2, 32, 0, ["clip", "metric"], 0, 100),
        ("sub", "text", 16, 0, ["about"], 0, 1e6),
        ("autoxplain", 1, 11, 0, ["shown", "judge", "metric"], -1, 100),
        ("autoxplain", 2, 4, 0, ["shown", "alpha", "beta"], -1, 1),
        ("autoxplain", 3, 48, 0, ["of", "metric"], 0, 100),
        ("autoxplain", "text", 8, 0, ["about"], -1, 1e6),
    ],
)
def test_rows_keys_ranges_and_empty_cells(paper, n, rows, empty, keys, low, high):
    table = paper_table(paper, n)
    lost = table[table["value"].isna()]
    assert (len(table), len(lost)) == (rows, empty)
    assert table["value"].dropna().between(low, high).all() and table["metric"].notna().all()
    known = table.dropna(subset=keys) if paper == "alignment" and n in (6, 7, 8) else table
    assert not known.duplicated(keys).any()  # but for rows whose label is doubtful
    if empty:
        assert lost["note"].str.contains("cell printed as|not in the extraction").all()


def test_values_that_the_text_repeats():
    existence = paper_table("alignment", 1).set_index(["images", "basis", "l"])["value"]
    assert existence["correct class set", "theta*u", 1] == 55.4
    assert existence["entire test set", "theta*u", 1] == 49.3
    location = paper_table("alignment", 2).set_index(["alpha", "basis", "l"])["value"]
    assert location[1, "theta*u", 1] == 13.3
    assert location[6, "theta*u", 1] == 59.0  # "not in the correct location 41 % of the time"
    accuracy = paper_table("alignment", 3)
    assert accuracy.query("classifier == 'post-hoc CBM' and samples == 100 and `lambda` == 1")[
        "value"
    ].tolist() == [59.1]
    assert accuracy.query("classifier == 'post-hoc CBM'")["value"].max() == 59.1
    assert accuracy.query("classifier == 'black box'")["value"].tolist() == [75.4]
    concepts = paper_table("alignment", 6).query("metric == 'CGIM1'").set_index("concept")
    assert concepts.loc[51, ["label", "value"]].tolist() == ["Black eye colour", -0.63]
    classes = paper_table("alignment", 7).query("metric == 'CGIM1'").set_index("class_id")
    assert classes.loc[18, ["label", "value"]].tolist() == ["Spotted Catbird", -0.02]
    assert classes.loc[25, "value"] == 0.05
    assert paper_table("alignment", 8).query("class_id == 200 and metric == 'CGIM2'")["value"].tolist() == [
        -0.04
    ]


def test_what_is_mapped():
    concepts = paper_table("alignment", 6)
    mapped = concepts.dropna(subset="concept").drop_duplicates("concept").set_index("concept")
    assert set(range(1, 113)) - set(mapped.index) == {26, 27, 28, 29, 30, 33, 82, 83, 84, 85, 86}
    ours = cbm_concepts().loc[mapped.index.astype(int)]
    assert (mapped["attribute"].to_numpy() == ours["name"].to_numpy()).all()
    assert (mapped["attribute_id"].to_numpy() == ours["attribute_id"].to_numpy()).all()
    assert set(range(1, 101)) - set(paper_table("alignment", 7)["class_id"].dropna()) == {13, 63, 64, 65}
    assert set(paper_table("alignment", 8)["class_id"]) == set(range(101, 201))


def test_parts_agree_with_the_concept_map():
    counts = paper_table("alignment", 4).pivot(index="part", columns="type", values="value")
    assert counts.drop("Total")["total"].sum() == counts.loc["Total", "total"] == 112
    assert (counts[["color", "pattern", "shape"]].sum(axis=1) == counts["total"]).all()
    concepts = cbm_concepts()
    paper_part = {"forehead": "Head", "left eye": "Eye", "left leg": "Leg", "left wing": "Wing"}
    ours = concepts["parts"].map(
        lambda parts: paper_part.get(parts[0], parts[0].capitalize()) if parts else "Others"
    )
    assert ours.value_counts().to_dict() == counts["total"].drop("Total").to_dict()

    listed = paper_table("alignment", 5).astype({"attribute_ids": str})
    listed = (
        listed.assign(attribute_id=listed["attribute_ids"].str.split())
        .explode("attribute_id")
        .astype({"attribute_id": int})
    )
    assert listed["attribute_id"].is_unique
    assert len(listed) == 89
    assert listed.set_index("attribute_id")["part"].to_dict() == {
        key: part for key, part in zip(concepts["attribute_id"], ours, strict=True) if part != "Others"
    }


# conceptscore


@pytest.mark.parametrize("n, bottleneck", MODEL_TABLES.items())
def test_conceptscore_grids_are_whole(n, bottleneck):
    """Five templates, five k, five metrics, each once; eq. 2-3 lies above the score, as the cosine does."""
    table = paper_table("conceptscore", n)
    assert table["bottleneck"].unique().tolist() == [bottleneck]
    wide = table.pivot(index=["template", "k"], columns="metric", values="value")
    assert set(wide.index) == {(template, k) for template in range(1, 6) for k in (3, 5, 8, 12, 15)}
    assert wide.shape == (25, 5)
    assert wide.notna().all(axis=None)
    assert wide[TEXT_METRICS].gt(0).all(axis=None)
    assert wide[TEXT_METRICS].lt(0.5).all(axis=None)
    score, both = wide["ConceptScore"], wide["Ref-ConceptScore"]
    assert score.between(0.36, 0.49).all()
    cosine = score * both / (2 * score - both)  # what the harmonic mean implies
    assert cosine.between(0.8, 1).all()
    # more concepts find more of the labels
    assert (wide["METEOR"].unstack("k").diff(axis=1).iloc[:, 1:] > 0).all(axis=None)


def test_short_tables_repeat_the_long_ones():
    long = pd.concat([paper_table("conceptscore", n) for n in MODEL_TABLES]).set_index([*GRID, "metric"])[
        "value"
    ]
    short = paper_table("conceptscore", 2).set_index([*GRID, "metric"])["value"]
    assert len(short) == 25
    assert (short == long.loc[short.index]).all()
    fair = paper_table("conceptscore", 4).set_index(["concepts", "metric"])["value"]
    for concepts, bottleneck in (("CBM concepts", "lfcbm"), ("own concepts", "lfcbm_unsupervised")):
        assert fair[concepts].to_dict() == short[bottleneck, 1, 5].to_dict()
    cifar = pd.concat([paper_table("conceptscore", n) for n in (11, 12)]).set_index([*GRID, "dataset"])[
        "value"
    ]
    first = paper_table("conceptscore", 1).set_index([*GRID, "dataset"])["value"]
    assert len(first) == 4
    assert (first == cifar.loc[first.index]).all()


def test_values_that_the_text_of_conceptscore_repeats():
    first = paper_table("conceptscore", 1).set_index(["bottleneck", "dataset"])["value"]
    assert (first["lfcbm", "cifar10"], first["lfcbm", "cifar100"]) == (0.4767, 0.4911)
    gain = (100 * (first["lfcbm"] - first["phcbm"])).round(2)
    assert gain.to_dict() == {"cifar10": 1.44, "cifar100": 3.01}
    seconds = paper_table("conceptscore", 5).set_index(["dataset", "scorer"])["value"]
    assert len(seconds) == 12
    assert seconds["cub200", "CLIP"] == 42.24
    assert seconds["cifar10", "CLIP"] == 9.57
    assert seconds["cifar100", "CLIP"] == 8.84
    # per cent of the LLM's time
    assert round(100 * seconds["cub200", "Long-CLIP"] / seconds["cub200", "GPT-4V"], 3) == 0.065
    assert round(100 * seconds["cub200", "Long-CLIP"] / seconds["cub200", "people"], 2) == 0.01


def test_numbers_of_conceptscores_text():
    figure = paper_table("conceptscore", "figure2")
    figure = figure.pivot(index="change", columns="metric", values="value")
    assert figure["ConceptScore"].to_dict() == {
        "as predicted": 0.5625,
        "concepts replaced": 0.3811,
        "top 8 reordered": 0.5136,
    }
    assert figure["Ref-ConceptScore"].to_dict() == {
        "as predicted": 0.6958,
        "concepts replaced": 0.5297,
        "top 8 reordered": 0.6513,
    }
    taus = paper_table("conceptscore", "agreement")
    of = taus[taus["template"].isna()].set_index(["score", "with"])["value"]
    assert of["people", "LLM"] == pytest.approx(0.4657, abs=5e-5)
    assert of["people", "people"] == 0.7405
    assert of["LLM"].idxmax() == "Ref-ConceptScore"
    assert taus.dropna(subset="template")["value"].tolist() == [0.4027, 0.4201, 0.4213, 0.3917, 0.4088]


# fse


def test_fse_grids_are_whole():
    for n in (4, 8):
        wide = paper_table("fse", n).pivot(index=["model", "dataset"], columns="mode", values="value")
        assert wide.shape == (6, 3)
        assert wide.notna().all(axis=None)
        assert (wide["slow"] < wide[["fast", "fused"]].min(axis=1)).all()
    for n, first in ((3, 0), (6, 1), (7, 0)):
        table = paper_table("fse", n)
        assert all(
            part["t"].tolist() == list(range(first, 6)) for _, part in table.groupby(["model", "dataset"])
        )
    assert set(paper_table("fse", 6)["model"]) == set(paper_table("fse", 5)["model"]) == {"DeepSeek-R1"}


def test_fse_averages_are_those_of_the_rows():
    for n, over, keys in ((1, "dataset", ["distractors", "model"]), (2, "model", ["dataset"])):
        table = paper_table("fse", n)
        printed = table[table[over] == "Average"].set_index(keys)["value"].sort_index()
        assert (table[table[over] != "Average"].groupby(keys)["value"].mean() - printed).abs().max() < 0.011


def test_fse_tables_agree_with_each_other():
    """Fast mode is the same run in Tables 4 and 8, and Table 2's gaps are Table 4's.

    The first column of Table 3's mean is Table 4's fast mode, and its last one is not yet t = 5.
    """
    modes = paper_table("fse", 4).pivot(index=["dataset", "model"], columns="mode", values="value")
    five = paper_table("fse", 8).pivot(index=["dataset", "model"], columns="mode", values="value")
    assert five["fast"].equals(modes["fast"])
    assert (five["slow"] < modes["slow"]).all()
    gaps = paper_table("fse", 2).set_index(["dataset", "model"])["value"]
    assert (modes["slow"] - modes["fast"] - gaps.loc[modes.index]).abs().max() < 0.011
    mean = paper_table("fse", 3).query("dataset == 'FineGrained-Avg'").set_index(["model", "t"])["value"]
    for model, part in modes.groupby("model"):
        assert abs(part["fast"].mean() - mean[model, 0]) < 0.006
        assert part["slow"].mean() - mean[model, 4] > 2


def test_values_that_the_text_of_fse_repeats():
    said = paper_table("fse", "text").set_index("about")["value"]
    rates = (
        paper_table("fse", 1)
        .query("dataset == 'Average'")
        .groupby("distractors")["value"]
        .agg(["min", "max"])
        .astype(int)
    )
    assert rates.loc["random"].tolist() == [14, 20]
    assert rates.loc["semantic"].tolist() == [34, 45]
    assert [
        said["semantically related distractors, lowest"],
        said["semantically related distractors, highest"],
    ] == [34, 45]
    gaps = paper_table("fse", 2).query("model == 'Average'")["value"]
    assert gaps.min().round() == said["slow mode against fast mode, average gap, lowest"]
    assert gaps.max().round() == said["slow mode against fast mode, average gap, highest"]
    fused = paper_table("fse", 4).groupby(["model", "mode"])["value"].mean()
    # "approximately 90"
    assert 88 < fused["GPT-4o", "fused"] < 92
    assert 78 < fused["GPT-4o-mini", "fused"] < 79


def test_fses_contradiction_rates_are_not_of_a_hundred_images():
    of = {"Car": 92, "Flower": 99, "CUB-Bird": 61}
    rates = paper_table("fse", 1).query("dataset != 'Average'")
    cases = rates["dataset"].map(of)
    # more than rounding
    off = (rates["value"] - 100 * (rates["value"] / 100 * cases).round() / cases).abs() > 0.0051
    assert rates.loc[off, "value"].tolist() == [17.16]  # 17/99 would be 17.17
    assert (rates["value"] - rates["value"].round()).abs().gt(0.02).all()  # none is a count of 100


def test_sub_tables_are_whole():
    """Four measures of every model.

    In Table 1 the two blocks that cannot be told apart carry a note, and so does the one that the text names.
    """
    models, clips = paper_table("sub", 1).fillna(""), paper_table("sub", 2)
    assert (models.groupby(["bottleneck", "labels", "label_kind"]).size() == 4).all()
    assert (clips.groupby("clip").size() == 4).all()
    noted = models[models["note"] != ""].groupby(["labels", "label_kind"]).size().to_dict()
    assert noted == {("image", "block 2"): 8, ("image", "block 3"): 8, ("class", "soft"): 8}
    chance = clips[clips["clip"] == "random"].set_index("metric")["value"]
    assert chance["S+"] + chance["S-"] == 100


def test_values_that_the_text_of_sub_repeats():
    keys = ["bottleneck", "labels", "label_kind", "metric"]
    value = paper_table("sub", 1).fillna("").set_index(keys)["value"].sort_index()
    assert (
        value.drop(index=["people", "random"]).xs("S+", level="metric").max()
        == value["cem", "class", "hard", "S+"]
        == 45.7
    )
    assert (
        value["cbm_independent", "class", "soft", "S-"],
        value["cbm_independent", "class", "soft", "S+"],
    ) == (91.6, 11.2)
    assert value["people", "", ""].to_dict() == {"S+": 94.0, "S-": 96.8, "T_A": 79.4, "T": 82.5}
    clips = paper_table("sub", 2).pivot(index="clip", columns="metric", values="value")
    of = clips.drop(index=["people", "random"])
    assert of["S+"].max() == of.loc["EVA-CLIP", "S+"] == 46.8
    assert round(100 - of["S-"].max(), 1) == 18.3
    said = paper_table("sub", "text").set_index("about")["value"]
    assert said["bird-attribute pairs of SUB"] * said["images a pair"] == said["images of SUB"] == 38_400
    assert said["birds"] * said["attributes that the VQA model reads"] == said["pairs of these"] == 1_485


def test_autoxplain_cells_sum_to_the_whole():
    """A model's four cells are all its images: 200 of each but for the models trained by the authors."""
    cells = paper_table("autoxplain", 3).query("metric != 'Avg'")
    assert (cells.groupby("of")["value"].sum() - 100).abs().max() < 0.06
    rates = cells.query("kind != 'trained here'")["value"] * 2
    assert (rates == rates.round()).all()


def test_values_that_the_text_of_autoxplain_repeats():
    value = paper_table("autoxplain", 1).fillna("").set_index(["shown", "judge", "metric"])["value"]
    of = value.xs("Pearson correlation", level="metric")
    assert of["masked"].tolist() == [0.50, 0.54]
    assert of["heat"].tolist() == [0.41, 0.53]
    assert [of[name, ""] for name in ("deletion and insertion", "average drop", "AOPC")] == [0.35, 0.33, 0.16]
    masks = paper_table("autoxplain", 2)
    # the text names another alpha
    assert masks["value"].max() == 0.64
    assert masks.loc[masks["value"].idxmax(), "note"]
    assert (
        paper_table("autoxplain", "text").set_index("about")["value"]["the paper's prompt"]
        == of["masked", "Gemini-1.5-flash"]
        == masks["value"].iloc[0]
    )
