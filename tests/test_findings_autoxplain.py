"""What notebook 42 says of judges that look at no object, and of scripted ones with a known fault."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from notebook_nets import BASE, run_cells

from xaihelpers.records import read_runs
from xaihelpers.scores import blind_rivals

FAULTY = Path(__file__).parent / "own_files" / "faulty_judge.py"
FAULTS = ["looks at no object", "brightness"]
CONTROL = "sees the map"


def test_which_network_is_left_with_nothing_and_the_light_has_no_lead():
    """Numbers of maps, most of whose reference is the network's and some of it the light's."""
    rng = np.random.default_rng(0)
    network = np.repeat([0, 1], 100)
    maps = pd.DataFrame({"network": network, "image": np.tile(np.arange(100), 2), "object": "bird"})
    area, seen = rng.normal(size=(2, 200))
    maps["reference"] = 3 * network + 0.5 * area + seen
    features = pd.DataFrame({"area": area})
    judges = {
        "network": maps.network + 0.0,
        "light": -features.area,
        "looks": seen + 0.5 * features.area,
        "wavers": maps.reference + np.random.default_rng(1).normal(0, 3, len(maps)),
    }
    within, pooled, _ = blind_rivals.rival_rows(judges, features, maps)
    of = pooled.set_index(["judge", "scores"]).value
    assert of["network", "as given"] > 0.8 and abs(of["network", "within"]) < 1e-6
    assert of["network", "exchanged"] == pytest.approx(of["network", "as given"], abs=0.02)
    assert of["light", "within"] < -0.3
    assert within["looks"]["lead"].low > 0 and within["light"]["lead"].high < 0
    assert within["wavers"]["lead"].low < 0  # not shown, for want of maps


def test_a_correlation_within_networks_by_hand():
    x, y = np.array([1.0, 2, 3, 10, 10, 13]), np.array([0.0, 1, 2, 9, 9, 6])
    networks = np.array(["a", "a", "a", "b", "b", "b"])
    dx, dy = np.array([-1.0, 0, 1, -1, -1, 2]), np.array([-1.0, 0, 1, 1, 1, -2])
    by_hand = (dx * dy).sum() / np.sqrt((dx**2).sum() * (dy**2).sum())
    for weights, expected in ((np.full(6, 2.0), by_hand), (np.array([1.0, 1, 1, 0, 0, 0]), 1)):
        found = blind_rivals.within_correlations(x[None], y, networks, weights[None])[0, 0]
        assert found == pytest.approx(expected)


def test_a_blind_number_is_turned_by_other_images_alone():
    """Noise has no better side on images that its sign was not chosen on."""
    found = []
    for seed in range(40):
        noise, reference = np.random.default_rng(seed).normal(size=(2, 60))
        maps = pd.DataFrame({"reference": reference, "network": 0, "image": range(60)})
        blind = blind_rivals.blind_scores(pd.DataFrame({"noise": noise}), maps)
        found.append(blind.corrwith(pd.Series(reference)))
    assert (pd.DataFrame(found).mean() < 0.07).all()  # chosen on the same images: 0.2


@pytest.mark.notebooks
@pytest.mark.xdist_group("findings of autoxplain")
def test_judges_that_look_at_no_object_are_found_out(tmp_path):
    """They see the picture alone; beside them the scripted judges, by the page of one run."""
    judges = []
    for fault in FAULTS:
        file = tmp_path / f"{fault.replace(' ', '_')}.py"
        file.write_text(FAULTY.read_text().replace('FAULT = ""', f'FAULT = "{fault}"'))
        judges.append(f"python:{file}")
    given = BASE["42"] | {"judges": judges, "networks": ["aviary_resnet", "clip/aviary_clip"]}
    given |= {"n_images": 120, "n_birds": 60, "beta": 0.4, "seed": 0, "heat_card": False}
    given |= {"code_prompt": "", "other_alphas": [], "other_betas": []}
    records = run_cells("42", given, tmp_path / "results")
    who = records[records.table == "who looks"].set_index(["judge", "metric"])
    looks = who.xs("looks at the object", level="metric").value
    lead = who.xs("lead over blind", level="metric")
    rows = records[records.table == "1, exchanged"].set_index(["judge", "scores"])
    pooled = rows.xs("as given", level="scores").value
    (ran,) = read_runs(tmp_path / "results")
    verdict = ran["verdicts"][0]
    assert pooled[judges[0]] > 0.4  # as high as the paper's judges are with people
    for judge, fault in zip(judges, FAULTS, strict=True):
        assert looks[judge] == 0 and lead.value[judge] < 0.05, fault
        assert not verdict["controls"][f"{Path(judge).name}, masked: {CONTROL}"], fault
    honest, liars = "coverage x precision", ["looks at no object", "a brightness meter", "knows families"]
    assert looks[honest] == 1 and lead.low[honest] > 0
    assert not looks[[*liars, "knows sharp masks", "knows the usual place"]].any()
    assert lead.low["knows the usual place"] <= 0  # and a blind row does as well
    own, exchanged = (rows.xs(of, level="scores").value for of in ("as given", "exchanged"))
    assert own[honest] - exchanged[honest] > 0.05  # of the picture, and not of network and name
    assert abs(own - exchanged)[["looks at no object", "a brightness meter"]].max() < 0.05


@pytest.mark.notebooks
@pytest.mark.xdist_group("findings of autoxplain")
def test_another_judge_keeps_the_recorded_pairs(tmp_path):
    """Asked of one picture a model under another mask; who sees without error is not told from the centre."""
    given = {"seed": 1, "n_models": 2, "n_judged": 1, "n_control": 2, "beta": 0.5}
    records = run_cells("44", given, tmp_path / "results")
    (ran,) = read_runs(tmp_path / "results")
    verdicts = {verdict["claim"]: verdict for verdict in ran["verdicts"]}
    assert all("8 pairs" in verdict["data"] for verdict in verdicts.values()) and len(verdicts) == 4
    assert verdicts["autoxplain-true-err-finds-biased"]["outcome"] == "not told from its rival"
    by_pair = records[records.table == "err by pair"]
    every = by_pair[by_pair.pair.str.startswith("all")].set_index("by").value
    assert every["attention off the centre"] < every["by the truth"] < -0.2
