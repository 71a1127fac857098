"""The transcribed tables: their rows and ranges, and values that the papers' own text repeats.

Sums, means and cells that stand twice are relations of data/papers/relations.yaml: notebook 63 checks them.
"""

import pandas as pd

from xaihelpers.datasets import cbm_concepts
from xaihelpers.tables import FOLDER, paper_table

NO_KEYS = ["value", "sd", "unit", "note", "number", "label"]
# of the tables whose labels could not all be read
LOST = {"alignment_table6": 3, "alignment_table7": 1, "fse_table3": 6, "fse_table6": 2, "fse_table7": 1}


def test_rows_stand_once_shares_are_shares_and_empty_cells_say_why():
    files = [file for file in FOLDER.glob("*_*.csv") if file.stem != "alignment_table5"]  # a list of words
    assert len(files) > 30
    for file in files:
        table = pd.read_csv(file)
        table = table.assign(unit=table.get("unit", ""), note=table.get("note", ""))
        lost = table[table.value.isna()]
        known = table.dropna(
            subset=[key for key in ("concept", "class_id") if key in table]
        )  # doubtful labels
        assert not known.drop(columns=NO_KEYS, errors="ignore").duplicated().any(), file
        assert table.metric.notna().all() and len(lost) == LOST.get(file.stem, 0), file
        assert table.value[table.unit == "percent"].dropna().between(-60, 100).all(), file
        assert not len(lost) or lost.note.str.contains("cell printed as|not in the extraction").all(), file


def test_values_that_the_text_of_each_paper_repeats():
    existence = paper_table("alignment", 1).set_index(["images", "basis", "l"])["value"]
    location = paper_table("alignment", 2).set_index(["alpha", "basis", "l"])["value"]
    assert (existence["entire test set", "theta*u", 1], location[1, "theta*u", 1]) == (49.3, 13.3)
    assert location[6, "theta*u", 1] == 59.0  # "not in the correct location 41 % of the time"
    accuracy = paper_table("alignment", 3).groupby("classifier")["value"].max()
    assert (accuracy["post-hoc CBM"], accuracy["black box"]) == (59.1, 75.4)
    concepts = paper_table("alignment", 6).query("metric == 'CGIM1'").set_index("concept")
    assert concepts.loc[51, ["label", "value"]].tolist() == ["Black eye colour", -0.63]
    first = paper_table("conceptscore", 1).set_index(["bottleneck", "dataset"])["value"]
    gain = (100 * (first["lfcbm"] - first["phcbm"])).round(2)
    assert gain.to_dict() == {"cifar10": 1.44, "cifar100": 3.01}
    said = paper_table("fse", "text").set_index("about")["value"]
    rates = paper_table("fse", 1).query("dataset == 'Average' and distractors == 'semantic'").value
    assert int(rates.min()) == said["semantically related distractors, lowest"]
    assert int(rates.max()) == said["semantically related distractors, highest"]
    models = paper_table("sub", 1).fillna("").query("bottleneck not in ('people', 'random')")
    best = models[models.metric == "S+"].set_index(["bottleneck", "labels", "label_kind"]).value
    assert best.max() == best["cem", "class", "hard"] == 45.7
    agreement = paper_table("autoxplain", 1).fillna("").set_index(["shown", "judge", "metric"])["value"]
    of = agreement.xs("Pearson correlation", level="metric")
    assert of["masked"].tolist() == [0.50, 0.54] and of["heat"].tolist() == [0.41, 0.53]


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
    concepts = cbm_concepts()
    names = {"forehead": "Head", "left eye": "Eye", "left leg": "Leg", "left wing": "Wing", "": "Others"}
    first = concepts["parts"].map(lambda parts: parts[0] if parts else "")
    ours = first.map(lambda part: names.get(part, part.capitalize()))
    totals = paper_table("alignment", 4).query("type == 'total' and part != 'Total'")
    assert ours.value_counts().to_dict() == totals.set_index("part")["value"].to_dict()
    listed = paper_table("alignment", 5).astype({"attribute_ids": str})
    listed = listed.assign(attribute_id=listed["attribute_ids"].str.split()).explode("attribute_id")
    found = dict(zip(listed["attribute_id"].astype(int), listed["part"], strict=True))
    wanted = dict(zip(concepts["attribute_id"], ours, strict=True))
    assert len(listed) == 89 and found == {key: part for key, part in wanted.items() if part != "Others"}
