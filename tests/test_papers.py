"""The transcribed tables: counts, ranges, and values that the papers' own text repeats."""

import pandas as pd
import pytest

from xaihelpers.datasets import cbm_concepts
from xaihelpers.paths import PROJECT
from xaihelpers.records import paper_table

TEXT_METRICS = ["BLEU", "METEOR", "ROUGE"]
GRID = ["bottleneck", "template", "k"]
MODEL_TABLES = {6: "cbm", 7: "cem", 8: "lfcbm", 9: "lfcbm_unsupervised", 10: "phcbm"}


@pytest.mark.parametrize(
    "n, rows, empty",
    [(1, 18, 0), (2, 27, 0), (3, 11, 0), (4, 56, 0), (5, 84, 0), (6, 342, 3), (7, 306, 1), (8, 300, 0)],
)
def test_rows_and_empty_cells(n, rows, empty):
    table = paper_table("alignment", n)
    assert len(table) == rows
    assert table["value"].isna().sum() == empty
    if empty:
        assert table.loc[table["value"].isna(), "note"].str.contains("cell printed as").all()


@pytest.mark.parametrize(
    "n, low, high", [(1, 0, 100), (2, 0, 100), (3, 0, 100), (6, -1, 1), (7, -1, 1), (8, -1, 1)]
)
def test_values_in_range(n, low, high):
    values = paper_table("alignment", n)["value"].dropna()
    assert values.between(low, high).all()


@pytest.mark.parametrize(
    "n, keys",
    [
        (1, ["images", "basis", "l"]),
        (2, ["alpha", "basis", "l"]),
        (3, ["classifier", "samples", "lambda"]),
        (4, ["part", "type"]),
        (5, ["part", "type", "value"]),
        (6, ["concept", "metric"]),
        (7, ["class_id", "metric"]),
        (8, ["class_id", "metric"]),
    ],
)
def test_keys_are_unique(n, keys):
    table = paper_table("alignment", n)
    if n > 5:
        table = table.dropna(subset=keys)  # rows whose label is doubtful
    assert not table.duplicated(keys).any()


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


@pytest.mark.parametrize("n, bottleneck", [(11, "lfcbm"), (12, "phcbm")])
def test_conceptscore_on_cifar(n, bottleneck):
    table = paper_table("conceptscore", n)
    assert len(table) == 50
    assert not table.duplicated([*GRID, "dataset"]).any()
    assert table["value"].between(0.4, 0.51).all()
    assert set(table["dataset"]) == {"cifar10", "cifar100"}
    assert set(table["bottleneck"]) == {bottleneck}
    assert set(table["metric"]) == {"ConceptScore"}


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
    figure = pd.read_csv(PROJECT / "data" / "papers" / "conceptscore_figure2.csv").pivot(
        index="change", columns="metric", values="value"
    )
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
    taus = pd.read_csv(PROJECT / "data" / "papers" / "conceptscore_agreement.csv")
    assert len(taus) == 17
    assert not taus.duplicated(["score", "with", "template"]).any()
    assert taus["value"].between(0, 1).all()
    of = taus[taus["template"].isna()].set_index(["score", "with"])["value"]
    assert of["people", "LLM"] == pytest.approx(0.4657, abs=5e-5)
    assert of["people", "people"] == 0.7405
    assert of["LLM"].idxmax() == "Ref-ConceptScore"
    assert taus.dropna(subset="template")["value"].tolist() == [0.4027, 0.4201, 0.4213, 0.3917, 0.4088]


# fse


@pytest.mark.parametrize(
    "n, rows, empty, keys",
    [
        (1, 16, 0, ["distractors", "model", "dataset"]),
        (2, 21, 0, ["model", "dataset"]),
        (3, 36, 6, ["model", "dataset", "t"]),
        (4, 18, 0, ["model", "dataset", "mode"]),
        (5, 3, 0, ["model", "dataset"]),
        (6, 15, 2, ["model", "dataset", "t"]),
        (7, 12, 1, ["model", "dataset", "t"]),
        (8, 18, 0, ["model", "dataset", "mode"]),
        ("text", 17, 0, ["about"]),
    ],
)
def test_fse_rows_keys_and_lost_cells(n, rows, empty, keys):
    table = paper_table("fse", n)
    assert len(table) == rows
    assert not table.duplicated(keys).any()
    assert table["metric"].notna().all()
    lost = table[table["value"].isna()]
    assert len(lost) == empty
    if empty:  # the last column, and no other
        assert (lost["t"] == 5).all()
        assert lost["note"].str.contains("not in the extraction").all()
        assert (
            table.loc[table["t"].eq(5) & table["value"].notna(), "note"]
            .str.contains("alone on a line below the last row")
            .all()
        )
    percent = table[table["unit"] == "percent"]
    assert percent["value"].dropna().between(-60, 100).all()
    assert (percent.loc[percent["value"] < 0, "metric"] == "CRI gap").all()


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


# sub


@pytest.mark.parametrize(
    "n, rows, keys",
    [
        (1, 48, ["bottleneck", "labels", "label_kind", "metric"]),
        (2, 32, ["clip", "metric"]),
        ("text", 16, ["about"]),
    ],
)
def test_sub_rows_and_keys(n, rows, keys):
    table = paper_table("sub", n)
    assert len(table) == rows
    assert not table.duplicated(keys).any()
    assert table["value"].notna().all()
    assert table.loc[table["unit"] == "percent", "value"].between(0, 100).all()


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


# autoxplain


@pytest.mark.parametrize(
    "n, rows, keys",
    [
        (1, 11, ["shown", "judge", "metric"]),
        (2, 4, ["shown", "alpha", "beta"]),
        (3, 48, ["of", "metric"]),
        ("text", 8, ["about"]),
    ],
)
def test_autoxplain_rows_and_keys(n, rows, keys):
    table = paper_table("autoxplain", n)
    assert len(table) == rows
    assert not table.duplicated(keys).any()
    assert table["value"].notna().all()


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
