"""Notebook 71: before anybody has rated, after people and liars have, and what 23 makes of it."""

import pandas as pd
import pytest
import yaml
from notebook_nets import FOLDER, PATHS, code_cells, run_cells

from xaihelpers import rating
from xaihelpers.bottlenecks import zoo
from xaihelpers.outputs import save_outputs
from xaihelpers.parameters import declared_parameters

pytestmark = pytest.mark.notebooks
STEPS = list(rating.FORMS["scale"])


def run(folder, **given):
    """Run notebook 71 in this process; its records."""
    usual = {"ratings": str(folder / "kept.sqlite"), "study": "birds", "n_items": 14, "planted": 8}
    return run_cells("71", usual | given, folder / "results")


def rate(study, rater, answers):
    """Answer the first items of a rater's order: item -> the answer to give."""
    panel = rating.RatingPanel(study, rater)
    for item in panel.order[: len(answers)]:
        wanted = STEPS[answers[item.id] - 1]
        next(button for button in panel.buttons.children if button.description == wanted).click()


def test_nobody_then_people(tmp_path, capsys, monkeypatch):
    """Whoever knows only which model speaks agrees with others of the kind, and does not count."""
    monkeypatch.setattr(rating, "DOUBLE_CLICK", 0)
    run(tmp_path)
    assert "Nobody has rated yet" in capsys.readouterr().out
    study = rating.open_study(tmp_path / "kept.sqlite", "birds")
    planted = [item.hidden["planted"] for item in study.items.values()]
    assert [planted.count(kind) for kind in ("true", "false", "")] == [4, 4, 6]
    looks = {id: {"true": 4, "false": 1, "": 3}[kind] for id, kind in zip(study.items, planted, strict=True)}
    speaks = [n // 2 % 2 if kind else n % 2 for n, kind in enumerate(planted)]
    speaks = {id: 2 + 2 * model for id, model in zip(study.items, speaks, strict=True)}
    for rater, answers in {"anna": looks, "ben": looks, "liar": speaks, "liar 2": speaks}.items():
        rate(study, rater, answers)
    rate(study, "carla", {rating.RatingPanel(study, "carla").order[0].id: 1})

    export = tmp_path / "out.csv"  # the file is enough
    records = run(tmp_path, as_stored=True, data="nowhere", backbone="none", export=str(export))
    assert "57 ratings written" in capsys.readouterr().out
    found = records[(records.model == "people") & (records["data"] == "nowhere")]
    counts = found.set_index("metric").value[["ratings", "raters", "raters who count"]]
    assert counts.astype(float).tolist() == [57, 5, 2]
    scores = found[found.metric == "people's score"].set_index("shown").value.astype(float)
    assert scores.to_dict() == {"cbm": 3, "phcbm": 3, "planted true": 4, "planted false": 1}
    assert pd.read_csv(export).groupby("rater").size()["carla"] == 1


def test_ratings_go_into_notebook_23(tmp_path, monkeypatch):
    """The exported table replaces the simulated raters; a table rated with other explanations is refused.

    Models may have any name, such as those that look like numbers or gaps.
    """
    monkeypatch.setattr(rating, "DOUBLE_CLICK", 0)
    _, (outputs,) = zoo.load_fits(["cbm", "phcbm"], 1, clip="")
    files = [str(tmp_path / f"{name}.safetensors") for name in ("2.0", "NA")]
    for file, model in zip(files, ("cbm", "phcbm"), strict=True):
        save_outputs(outputs[model], file)
    run(tmp_path, planted=2, models=files, naming="signed")
    study = rating.open_study(tmp_path / "kept.sqlite", "birds")
    for rater, answers in (("anna", "41123412341234"), ("ben", "41124312341334")):
        rate(study, rater, dict(zip(study.items, map(int, answers), strict=True)))
    rating.export(study.file, tmp_path / "rated.csv", "birds")
    table = pd.read_csv(tmp_path / "rated.csv", dtype=str, keep_default_na=False)
    assert table.features.str.count(":").eq(8).all() and {"2.0", "NA"} <= set(table["model"])
    given = {"models": files, "ratings": str(tmp_path / "rated.csv"), "naming": "signed", "k": 8}
    records = run_cells("23", given, tmp_path / "used")
    assert records.model.str.contains("ratings: people").all()
    assert records[records.metric == "Krippendorff alpha"].cases.astype(float).tolist() == [12]
    means = records[records.metric == "mean of a model's items"]
    assert set(means["with"]) == {"2.0", "NA"} and means.cases.astype(float).eq(6).all()
    message = "12 of 12 items, first '.*label_free, naming, k and seed as in the study"
    with pytest.raises(ValueError, match=message):
        run_cells("23", given | {"k": 5}, tmp_path / "refused")


FITTED = ("seed", "data", "labels", "backbone", "weights", "layer", "clip", "clip_weights", "concept_file")


@pytest.mark.parametrize(
    "size, numbers",
    [("paper", ["21", "22", "23", "71"]), ("cifar10", ["21", "22", "24"]), ("cifar100", ["21", "22"])],
)
def test_a_model_of_one_name_is_one_model(size, numbers):
    """What notebook 21 fits by its presets is what the others score, rate and change by theirs."""
    fitted = []
    for number in numbers:
        declared = declared_parameters(code_cells(PATHS[number])[0].source)
        given = {name: default for name, (_, default, _) in declared.items()}
        given |= yaml.safe_load((FOLDER / "presets" / f"{number}.{size}.yaml").read_text())
        three = [given.get(name) for name in ("top_activation", "similarity", "penalty")]
        about = {name: given.get(name, "") for name in FITTED}  # not asked for: the default
        fitted.append(about | {"label_free": given.get("label_free") or three})
    assert fitted == [fitted[0]] * len(numbers)
