"""The transcribed tables: counts, ranges, and values that the papers' own text repeats."""
import pytest

from xaihelpers.birds import cbm_concepts
from xaihelpers.records import paper_table


@pytest.mark.parametrize("n, rows, empty", [(1, 18, 0), (2, 27, 0), (3, 11, 0), (4, 56, 0), (5, 84, 0), (6, 342, 3), (7, 306, 1), (8, 300, 0)])
def test_rows_and_empty_cells(n, rows, empty):
    table = paper_table("alignment", n)
    assert len(table) == rows
    assert table["value"].isna().sum() == empty
    if empty:
        assert table.loc[table["value"].isna(), "note"].str.contains("cell printed as").all()


@pytest.mark.parametrize("n, low, high", [(1, 0, 100), (2, 0, 100), (3, 0, 100), (6, -1, 1), (7, -1, 1), (8, -1, 1)])
def test_values_in_range(n, low, high):
    values = paper_table("alignment", n)["value"].dropna()
    assert values.between(low, high).all()


@pytest.mark.parametrize("n, keys", [(1, ["images", "basis", "l"]), (2, ["alpha", "basis", "l"]), (3, ["classifier", "samples", "lambda"]),
                                     (4, ["part", "type"]), (5, ["part", "type", "value"]), (6, ["concept", "metric"]),
                                     (7, ["class_id", "metric"]), (8, ["class_id", "metric"])])
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
    assert accuracy.query("classifier == 'post-hoc CBM' and samples == 100 and `lambda` == 1")["value"].tolist() == [59.1]
    assert accuracy.query("classifier == 'post-hoc CBM'")["value"].max() == 59.1
    assert accuracy.query("classifier == 'black box'")["value"].tolist() == [75.4]
    concepts = paper_table("alignment", 6).query("metric == 'CGIM1'").set_index("concept")
    assert concepts.loc[51, ["label", "value"]].tolist() == ["Black eye colour", -0.63]
    classes = paper_table("alignment", 7).query("metric == 'CGIM1'").set_index("class_id")
    assert classes.loc[18, ["label", "value"]].tolist() == ["Spotted Catbird", -0.02]
    assert classes.loc[25, "value"] == 0.05
    assert paper_table("alignment", 8).query("class_id == 200 and metric == 'CGIM2'")["value"].tolist() == [-0.04]


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
    ours = concepts["parts"].map(lambda parts: paper_part.get(parts[0], parts[0].capitalize()) if parts else "Others")
    assert ours.value_counts().to_dict() == counts["total"].drop("Total").to_dict()

    listed = paper_table("alignment", 5).astype({"attribute_ids": str})
    listed = listed.assign(attribute_id=listed["attribute_ids"].str.split()).explode("attribute_id").astype({"attribute_id": int})
    assert listed["attribute_id"].is_unique and len(listed) == 89
    assert listed.set_index("attribute_id")["part"].to_dict() == {
        key: part for key, part in zip(concepts["attribute_id"], ours) if part != "Others"}
