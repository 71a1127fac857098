"""What notebook 71 collects is read by notebook 23: with their files of the paper's size, and by any name."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from notebook_nets import FOLDER, PATHS, code_cells, run_cells, values

from xaihelpers import rating
from xaihelpers.bottlenecks import zoo
from xaihelpers.outputs import save_outputs
from xaihelpers.parameters import declared_parameters

pytestmark = pytest.mark.notebooks
BUILT_IN = {  # in place of data and weights that are not here
    "data": "aviary",
    "backbone": "aviary_resnet",
    "clip": "aviary_clip",
    "clip_weights": "",
    "scorer": "aviary_clip",
    "scorer_weights": "",
    "llm": "annotator",
    "concept_file": "",
}
FITTED = ("seed", "data", "labels", "backbone", "weights", "layer", "clip", "clip_weights", "concept_file")
SHARED = (*FITTED, "label_free", "models", "naming")


def of_yaml(i: str, size: str = "paper") -> dict:
    """All parameters of a notebook, as its file of the paper's size, or of another data set, sets them."""
    parameters = {
        name: default for name, (_, default) in declared_parameters(code_cells(PATHS[i])[0].source).items()
    }
    (file,) = FOLDER.glob(f"{i}_*.{size}.yaml")
    return parameters | yaml.safe_load(file.read_text())


def rated_study(parameters: dict, folder) -> pd.DataFrame:
    """Make notebook 71's study, let two raters answer all of it, and export the table to ratings.csv."""
    file = folder / "kept.sqlite"
    given = {**parameters, "ratings": str(file), "study": "s"}
    run_cells("71", given, folder / "results71")
    study = rating.open_study(file, "s")
    rng = np.random.default_rng(0)
    for rater in ("anna", "ben"):
        for item in study.items:
            rating.rate(study, rater, item, str(rng.integers(1, 5)))
    return rating.export(file, folder / "ratings.csv")


def test_the_two_files_name_the_same_study():
    study, analysis = of_yaml("71"), of_yaml("23")
    assert {name: study[name] for name in SHARED} == {name: analysis[name] for name in SHARED}
    assert study["top"] == analysis["k"]
    assert study["n_items"] - study["controls"] == analysis["n_items"] == 100


@pytest.mark.parametrize(
    "size, numbers",
    [("paper", ["21", "22", "23", "71"]), ("cifar10", ["21", "22", "24"]), ("cifar100", ["21", "22"])],
)
def test_a_model_of_one_name_is_one_model(size, numbers):
    """What notebook 21 fits by its files is what the others score, rate and change by theirs."""
    fitted = []
    for number in numbers:
        given = of_yaml(number, size)
        label_free = given.get("label_free") or [
            given[name] for name in ("top_activation", "similarity", "penalty")
        ]
        fitted.append({name: given[name] for name in FITTED} | {"label_free": label_free})
    assert fitted == [fitted[0]] * len(numbers)


def test_what_is_rated_with_the_papers_files_is_read_with_them(tmp_path):
    study, analysis = of_yaml("71"), of_yaml("23")
    built_in = {name: value for name, value in BUILT_IN.items() if name in study}
    n_items = {"n_items": 17, "controls": 2}
    exported = rated_study({**study, **built_in, **n_items}, tmp_path)
    assert exported["item"].nunique() == 17 and exported["image"].nunique() >= 15
    counts = exported.drop_duplicates("item")["model"].value_counts()
    assert counts.to_dict() == {**dict.fromkeys(study["models"], 3), "control": 2}

    few = {"calibration": 6, "draws": 1, "ratings": str(tmp_path / "ratings.csv")}
    records = run_cells("23", {**analysis, **BUILT_IN, **few}, tmp_path / "results23")
    assert records.model.str.contains("ratings: people; LLM").all()
    assert values(records, metric="Krippendorff alpha").notna().all()
    assert records[records.metric == "Krippendorff alpha"].cases.astype(float).tolist() == [15]
    tau = records[(records.score == "people") & (records["with"] == "ConceptScore")]
    assert tau.cases.astype(float).eq(15).all()
    (run,) = (tmp_path / "results23").glob("23-*/run.json")
    verdicts = {row["claim"]: row for row in json.loads(run.read_text())["verdicts"]}
    assert len(verdicts) == 5
    assert all(row["controls"].get("raters are people", True) for row in verdicts.values())


def test_models_of_any_name_are_read(tmp_path, capsys):
    """Dashes and dots in the name of a model's file, and names that look like numbers or gaps."""
    _, outputs = zoo.load_outputs(["cbm", "phcbm"], clip="")
    files = [str(tmp_path / f"{name}.safetensors") for name in ("my-model.v2", "2.0", "NA")]
    for file, model in zip(files, ("cbm", "phcbm", "cbm"), strict=True):
        save_outputs(outputs[model], file)
    study = {"models": files, "n_items": 15, "controls": 0, "naming": "signed"}
    exported = rated_study(study, tmp_path)
    assert set(exported["model"]) == {"my-model.v2", "2.0", "NA"}

    kept = {"ratings": str(tmp_path / "kept.sqlite"), "study": "s", "as_stored": True}
    means = run_cells("71", kept, tmp_path / "results71")
    means = means[means.metric == "people's score"]
    assert set(means["shown"]) == {"my-model.v2", "2.0", "NA"} and means.low.notna().all()

    capsys.readouterr()
    few = {"calibration": 5, "draws": 1, "ratings": str(tmp_path / "ratings.csv"), "naming": "signed"}
    answers = exported[exported["rater"] == "ben"]
    answers[["item", "rating"]].to_csv(tmp_path / "llm.csv", index=False)
    few["llm"] = str(tmp_path / "llm.csv")
    records = run_cells("23", {**few, "models": files}, tmp_path / "all")
    means = records[records.metric == "mean of a model's items"]
    assert set(means["with"]) == {"my-model.v2", "2.0", "NA"} and means.cases.astype(float).eq(5).all()
    assert "not of the models named here" not in capsys.readouterr().out

    records = run_cells("23", {**few, "models": files[:2]}, tmp_path / "two")
    means = records[records.metric == "mean of a model's items"]
    assert set(means["with"]) == {"my-model.v2", "2.0"}
    assert "rated, but not of the models named here: 5 of 'NA'" in capsys.readouterr().out
    with pytest.raises(ValueError, match="label_free, naming, k and seed as in the study"):
        run_cells("23", {**few, "models": files, "naming": "magnitude"}, tmp_path / "refused")
