"""Notebook 71 through papermill: before anybody has rated, after three have, and with a changed study."""

import pandas as pd
import pytest
import yaml
from notebook_nets import FOLDER, PATHS, code_cells, run_cells

from xaihelpers import rating
from xaihelpers.bottlenecks import zoo
from xaihelpers.outputs import save_outputs
from xaihelpers.parameters import declared_parameters

pytestmark = pytest.mark.notebooks


def run(folder, **given):
    """Run notebook 71 in this process; its records."""
    usual = {"ratings": str(folder / "kept.sqlite"), "study": "crowns", "form": "pick", "n_items": 6}
    return run_cells("71", usual | given, folder / "results")


def rate(study, rater, answers):
    """Answer the first items of a rater's order: item -> the answer to give."""
    panel = rating.RatingPanel(study, rater)
    for item in panel.order[: len(answers)]:
        wanted = answers[item.id]
        next(button for button in panel.buttons.children if button.description == wanted).click()


def test_nobody_then_three_raters_then_another_study(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(rating, "DOUBLE_CLICK", 0)
    records = run(tmp_path)
    said = capsys.readouterr().out
    assert "Nobody has rated yet" in said and "the study has none so far" in said
    assert records.set_index("metric").value.astype(float).to_dict() == {"ratings": 0, "raters": 0}

    study = rating.open_study(tmp_path / "kept.sqlite", "crowns")
    truth = {id: item.hidden["truth"] for id, item in study.items.items()}
    options = list(next(iter(study.items.values())).answers)
    # every bird of the aviary has a crown of some colour
    assert len(study.items) == 6 and len(options) == 15 and all(truth.values())
    right = {id: values[0] for id, values in truth.items()}
    rate(study, "anna", right)
    first = rating.RatingPanel(study, "ben").order[0].id
    rate(study, "ben", right | {first: next(one for one in options if one not in truth[first])})
    rate(study, "carla", {rating.RatingPanel(study, "carla").order[0].id: "red"})

    # the file is enough
    export = tmp_path / "out.csv"
    records = run(tmp_path, as_stored=True, data="nowhere", backbone="none", export=str(export))
    assert "13 ratings written" in capsys.readouterr().out
    found = records[records.model == "people"].drop_duplicates("metric", keep="last").set_index("metric")
    assert found.value[["ratings", "raters"]].astype(float).tolist() == [13, 3]
    picks = found.loc["people's picks that the label has"]
    assert float(picks.value) == pytest.approx(11 / 12) and float(picks.chance) == pytest.approx(1 / 15)
    assert float(picks.cases) == 6
    assert pd.read_csv(export).groupby("rater").size().to_dict() == {"anna": 6, "ben": 6, "carla": 1}

    with pytest.raises(rating.RatingError, match="13 ratings, but its items are no longer those.*new name"):
        run(tmp_path, seed=1)
    assert len(rating.ratings(tmp_path / "kept.sqlite", "crowns")) == 13
    with pytest.raises(ValueError, match="there is no form 'stars': the forms are scale, yes/somewhat/no"):
        run(tmp_path, form="stars")


def test_ratings_go_into_notebook_23(tmp_path, monkeypatch):
    """The exported table replaces the simulated raters; a table rated with other explanations is refused.

    Models may have any name, such as those that look like numbers or gaps.
    """
    monkeypatch.setattr(rating, "DOUBLE_CLICK", 0)
    _, outputs = zoo.load_outputs(["cbm", "phcbm"], clip="")
    files = [str(tmp_path / f"{name}.safetensors") for name in ("2.0", "NA")]
    for file, model in zip(files, ("cbm", "phcbm"), strict=True):
        save_outputs(outputs[model], file)
    run(tmp_path, study="explanations", form="scale", controls=1, n_items=13, models=files, naming="signed")
    study = rating.open_study(tmp_path / "kept.sqlite", "explanations")
    steps = list(rating.FORMS["scale"])
    for rater, answers in (("anna", "1234123412341"), ("ben", "1243123413341")):
        given = [steps[int(answer) - 1] for answer in answers]
        rate(study, rater, dict(zip(study.items, given, strict=True)))
    rating.export(study.file, tmp_path / "rated.csv", "explanations")
    table = pd.read_csv(tmp_path / "rated.csv", dtype=str, keep_default_na=False)
    assert table.features.str.count(":").eq(8).all() and {"2.0", "NA"} <= set(table["model"])
    given = {"models": files, "ratings": str(tmp_path / "rated.csv"), "calibration": 5, "draws": 1}
    given |= {"naming": "signed", "k": 8}
    records = run_cells("23", given, tmp_path / "used")
    assert records.model.str.contains("ratings: people").all()
    assert records[records.metric == "Krippendorff alpha"].cases.astype(float).tolist() == [12]
    means = records[records.metric == "mean of a model's items"]
    assert set(means["with"]) == {"2.0", "NA"} and means.cases.astype(float).eq(6).all()
    message = "12 of 12 items, first '.*label_free, naming, k and seed as in the study"
    with pytest.raises(ValueError, match=message):
        run_cells("23", given | {"k": 5}, tmp_path / "refused")
    table.assign(image="0.Unknown/1.jpg").to_csv(tmp_path / "rated.csv", index=False)
    message = "rates 12 images that are no test images of aviary, first '0.Unknown"
    with pytest.raises(ValueError, match=message):
        run_cells("23", given, tmp_path / "refused")


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
        given = {name: default for name, (_, default) in declared.items()}
        given |= yaml.safe_load((FOLDER / "presets" / f"{number}.{size}.yaml").read_text())
        three = [given.get(name) for name in ("top_activation", "similarity", "penalty")]
        about = {name: given[name] for name in FITTED}
        fitted.append(about | {"label_free": given.get("label_free") or three})
    assert fitted == [fitted[0]] * len(numbers)
