"""Notebooks with other parameters: the records follow them, what is wrong is named, own files are taken.

Each notebook has one small run (small_runs.yaml), and `check_NN` states what a reader would notice of it.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from notebook_nets import BASE, PATHS, run_cells, values

from xaihelpers import datasets
from xaihelpers.bottlenecks import concept_dataset, zoo
from xaihelpers.claims import OPEN, READING
from xaihelpers.models import clip
from xaihelpers.records import read_runs
from xaihelpers.scores import conceptscore

pytestmark = pytest.mark.notebooks


def check_00(records):
    """Labels of an image and of its class differ where a part is hidden or an individual deviates."""
    assert 0 < values(records, metric="concept labels in which image and class disagree (%)").iloc[0] < 10
    told = records[records.table == "one bird"].pivot(index="question", columns="knows", values="value")
    assert len(told) == 5 and 19 < told.nothing["do they suffice to name it?"] < 50


def check_A1(records):
    """Whatever the number of birds: scenes drawn at random tell nothing of what is not drawn there."""
    leaks = records[(records.table == "leaks") & (records.metric == "concepts")]
    mean = leaks.set_index(["world", "source"]).value
    assert (mean["scenes at random too"][["background", "seat", "silhouette", "seed"]] < 0.54).all()
    assert (mean["as the species"][["silhouette", "seat", "file order"]] > 0.6).all()
    assert set(records[records.table == "leaks"].cases) == {48, 5 * 48}


def check_11(records):
    """Four concepts of a file reach less than the attributes of all, and a model that is blind nothing."""
    right = records[records.table == "3"].groupby("classifier").value.max()
    assert 5 < right["post-hoc CBM"] < 80 < right["linear probe"] and right["true attributes"] < 60
    assert right["concepts"] < 5  # it names one class for all birds
    own = records[records.direction.fillna("").str.startswith("concepts, own")]
    assert len(own) == 2 and own.value.between(0.3, 0.9).all()


def check_12(records):
    """What is centred tells exchanged names, of the rightly predicted images and of all."""
    assert set(records.data) == {"everyday"}
    centred = records[(records.table == "6-8") & records.metric.str.contains("centred")].groupby("of").value
    assert centred.size()["the model"] == 2 * 3
    assert centred.max()["labels shuffled"] < 0.1 < centred.min()["the model"]


def check_13(records):
    """A list that knows the species alone earns much; labels earn all; of the picture no list has more."""
    found = records[records.table == "1"]
    cem = found.groupby("basis").value.min()
    rungs = records[records.table == "1, class or picture"].pivot(
        index="list", columns="metric", values="value"
    )
    assert len(values(found, l=2)) == len(found)
    assert cem["species"] > 80 and cem["the image's labels"] == 100
    assert (rungs["the picture"] < rungs["the truth"]).drop("theta").all()
    assert rungs.loc["theta", ["the picture", "soft reciter", "the truth"]].eq(0).all()  # of the class alone


def check_14(records):
    """Twelve twelfths hold every part; who knows the place hits; one map for two concepts loses nothing.

    Who knows the parts' usual places and sees no picture loses, and own maps are compared with that.
    """
    found = records[records.table == "2"]
    sighted = found.basis == "knows the place"
    assert (values(found, alpha=12) == 100).all() and len(values(found, l=2)) == len(found)
    assert (values(found[sighted]) == 100).all() and (values(found[~sighted], alpha=2) < 95).all()
    exchanged = records[records.table == "2, exchanged"].set_index("map").value
    beyond = exchanged["own maps"] - exchanged["usual place"]
    assert exchanged["energy"] == 0 and min(exchanged["usual place"], exchanged["knows the place"]) > 20
    assert exchanged["own beyond usual place"] == pytest.approx(beyond)
    rungs = records[records.table == "2, class or picture"].pivot(
        index="map", columns="metric", values="value"
    )
    assert (
        rungs["CLM, own"]["knows the place"] == 100
        and (rungs["CLM, picture"].drop("own less energy") > 10).all()
    )


def check_A2(records):
    """No writing moves the contrast, and a region of all twelfths holds every part."""
    by_contrast = records[records.by == "contrast"].groupby(["metric", "alpha"], dropna=False).value
    assert (by_contrast.max() - by_contrast.min() < 0.5).all() and (values(records, alpha=12) == 100).all()
    product = values(records, by="theta*u", metric="CEM")
    assert product.max() - product.min() > 10


def check_A3(records):
    """Who is trained notices a wrong word; who is not passes nothing; beside other pictures nobody does."""
    found = records[records.table == "clip"]
    passed = found[found.passed == "yes"].groupby("clip").metric.apply(set)
    assert "one of 5 words wrong is noticed" in passed["aviary_clip"] and "untrained" not in passed
    assert len(records[records.table == "clip, teacher and judge"]) == 6


def check_A6(records):
    """A vision transformer has no CAM; a part's drop has a case for each time that it is seen."""
    assert len(set(records.table)) == 5 and "cam" not in set(records.method)
    drops = records[records.metric == "drop of the logit"]
    assert set(drops.patch) >= {"the part", "on the background"} and (drops.cases <= 2).all()
    first = records[(records.table == "shuffled weights") & (records.method == "energy")]
    assert first.set_index("shuffled").value["2.0"] == pytest.approx(1)


def check_A5(records):
    """The card finds out who recites."""
    card = records[records.table == "card of an annotator"].pivot(index="model", columns="control").value
    for control in ("does not recite", "sees what was changed, colours"):
        own = card[control]
        assert own["recites"] == 0 and own["knows"] == 100 and own["annotator"] > 80
    rest = card["sees what was changed, the rest"]
    assert rest["four colours"] == 0 and rest["annotator"] > 60
    assert card["has no code of the species"]["private number"] > 80
    changed = records[records.table == "changed"].set_index("groups").value
    assert changed["colours"] > 90 and changed["other groups"] > 70
    assert set(records[records.table == "card of a judge"].cases) >= {12}


def check_21(records):
    """Directions without a meaning classify as well, and do not listen; nor do vectors follow a donor."""
    by_metric = records[records.table == "bottlenecks"].pivot(index="metric", columns="bottleneck").value
    blind = by_metric["random directions"]
    assert blind["accuracy"] > 90 and abs(blind["concept AUC"] - 0.5) < 0.05
    followed = by_metric.loc["told the donor's concepts"]
    assert followed["cbm"] > 99 and max(followed["cem"], followed["random directions"]) < 10
    assert (values(records, bottleneck="cbm", table="intervention", corrected=100) > 99).all()


LISTS = ("parrot", "three rare, two liked", "five commonest true", "constant")


def check_22(records):
    """A parrot and a liar with three rare truths pass for better than true lists; a constant one does not."""
    worth = values(records, table="2, known worth", scorer="aviary_clip").droplevel("metric")
    worth = {name: worth[[place for place in worth.index if name in place][0]] for name in LISTS}
    assert worth["parrot"] > worth["three rare, two liked"] > worth["five commonest true"] > worth["constant"]


def check_23(records):
    """Raters who see the truth and have neither noise nor bias give one answer."""
    for metric in ("Krippendorff alpha", "Fleiss kappa"):
        assert values(records, metric=metric).iloc[0] == pytest.approx(1)
    followed = records[(records.score == "people") & (records.metric == "Kendall tau")]
    followed = followed.set_index("with").value
    assert followed["classmates' pictures"] < followed["true share"]
    lead = records[records.metric == "τ less its rival"].set_index("with")
    honest, recites = "see; a score of the truth", "recite; a score of the truth"
    liars = lead.drop([honest, lead.index[0]])
    assert len(liars) == 8 and not (liars.low > 0).any()
    assert lead.value[honest] > max(0, lead.value[recites])  # of two models no interval tells


def check_24(records):
    """Wrong ones cost beside this picture alone; without training nothing does, and no weight is read."""
    found = records[(records.table == "sensitivity") & (records.m != 1)]
    is_untrained = found.model.str.contains("untrained")
    drop = found[~is_untrained].pivot_table(index="change", columns="beside", values="value")
    own, another = drop["own picture"], drop["another bird's picture"]
    assert own["true → false"] > 0.5 > 5 * own["true → another true"]
    assert another["true → false"] < 0.25
    assert found[is_untrained].value.abs().max() < 0.1
    reads = records[(records.table == "weights read") & records.model.str.contains("untrained")]
    assert (reads.low < 50).all() and (reads.high > 50).all()


def check_25(records):
    """A choice that writes the same text turns no pair of models: a sign without a number."""
    swaps = values(records, table="multiverse, swaps", metric="swaps (%)").droplevel("metric")
    assert swaps["choice=sign"] == 0 and {"choice=naming", "choice=another seed"} <= set(swaps.index)


def check_31(records):
    """Where the answer holds no chain, every choice by it contradicts; told by labels, hardly any."""
    asked = {"table": "contradictions", "metric": "contradiction rate"}
    assert (values(records, given="own words", **asked) == 100).all()
    assert (values(records, given="true attributes", **asked) < 40).all()


def check_32(records):
    """The gap of Table 2 is that of the balanced sets, and what five stages add to none."""
    gap = values(records, table="2").iloc[0]
    at = {"table": "figure3", "metric": "CRI", "sets": "balanced"}
    slow, fast = (values(records, given=given, t=t, **at) for given, t in (("own words", 5), ("picture", 0)))
    assert gap == pytest.approx(slow.iloc[0] - fast.iloc[0])


def check_33(records):
    """Where the answer holds no list of five, every choice by it is wrong and none follows it; labels are."""
    five = records[records.table == "8"]
    assert (values(five, mode="slow") == 0).all() and (values(five, mode="fused") == 0).all()
    asked = {"table": "conflict", "conflicts": "all"}
    assert (values(records, words="five concepts", metric="no letter (%)", **asked) == 100).all()
    assert (values(records, words="true attributes", metric="words (%)", **asked) > 20).all()


def check_34(records):
    """What max_tokens ended twice is no reasoning; details first are early."""
    assert (values(records, metric="invalid answers", given="reasoning") == 100).all()
    share = records[records.metric == "early share"].set_index("chain").value
    assert share["backwards"] > share["true attributes"] + 40


def check_41(records):
    """A vision transformer masks as well; a random map has a case for each draw; energy asks for no class."""
    assert set(records.table) == {"localisation", "equal area", "head"}
    drawn = records[(records.table == "localisation") & (records.method == "random map")]
    assert set(drawn.cases) == {18}
    alike = records[(records.table == "head") & (records.weights == "last layer shuffled")]
    alike = alike[alike.metric.str.startswith("rank correlation")].set_index("method").value
    assert alike["energy"] == pytest.approx(1) and alike["gradcam"] < 0.9
    scored = records[records.metric == "box at equal area (%)"].set_index("method").value
    assert scored["segmenter's map"] == pytest.approx(scored["segmenter's logit"], abs=0.01)


def check_42(records):
    masks = records[(records.table == "2") & (records.shown == "masked")][["alpha", "beta"]]
    assert masks.astype(float).to_numpy().tolist() == [[25, 0.2], [15, 0.6]]


def check_43(records):
    """Of one backbone nothing is known of kinds; the paper's rows are its cases."""
    leads = records[records.table == "3, kinds"].set_index(["of", "metric"])
    assert leads.low["this run"].isna().all() and leads.low["the paper's eight networks", "Avg"] > 0
    assert leads.value["near, no picture in it"].notna().all()
    parts = records[(records.table == "3, same maps") & (records.backbone == "all")].set_index("metric").value
    assert parts["segmenter less twin"] == pytest.approx(parts["owed to the name"] + parts["owed to the map"])


def check_44(records):
    """A large dot in another corner is learnt and used, and the judge tells it from a bird."""
    used = values(records, table="biased models", metric="use", of="biased").iloc[0]
    assert used > 1 > values(records, table="biased models", metric="use", of="normal").iloc[0]
    lit = records[records.table == "attention on a corner"].set_index("lit").value
    assert lit["the object"] > 2.5 > lit.drop("the object").max()
    assert set(records[records.table == "text"].over) == {"this run", "all pairs", "blind"}


def check_51(records):
    """Where nothing is tied, every rule is the prompt alone and leads nobody; else they differ."""
    measured = records[records.table == "tied diffusion"].set_index(["method", "schedule", "kind", "metric"])
    measured = measured.value.sort_index()
    alone, rules = measured["prompt alone", ""], ("alike first", "random numbers", "own places")
    assert all(np.allclose(measured[rule, "the paper's"], alone) for rule in rules)
    assert not np.allclose(measured["own places", "straight from 2"], alone)
    where = records[records.table == "tied diffusion, where"].set_index("schedule").value
    assert len(where) == 24 and np.allclose(where["the paper's"], 0) and where["straight from 2"].any()
    exact = measured["exact", ""].unstack("kind")
    assert exact.loc["species"].mean() > 50 < exact.loc["kept"].mean()


def check_52(records):
    """Only what happens is counted; what knows nothing is worth nothing, and all of the truth 100 points."""
    assert set(records[records.table == "building, failures"].drawn) == {"good", "nothing changed"}
    worth = records[(records.table == "building, filter") & (records.metric == "r − f (points)")]
    worth = worth.groupby("filter").value
    assert worth.min()["knows all"] == 100 and worth.max()["at random"] == 0
    assert worth.min()["aviary_reader"] > worth.max()["another picture"]
    assert set(records[records.table == "building, prevalence"]["prevalence (%)"].astype(float)) == {20, 50}


def check_53(records):
    """Who never looks gains nothing, whatever its S+; who knows the truth is right about all of it."""
    rows = records[records.table == "1, corrected"]
    scores = rows.pivot_table(index="bottleneck", columns="metric", values="value")
    reciter, guesser, truth = scores.loc[["reciter", "vocabulary", "the truth"]].to_dict("records")
    assert reciter["S+"] == reciter["gain"] == guesser["gain"] == 0 and guesser["AUC"] == 50
    assert guesser["S+"] == guesser["false alarms"] == 100 and guesser["S-"] > 0
    assert truth["S+"] == truth["S-"] == truth["both"] == truth["gain"] == 100
    deviants = records[records.table == "deviants"].set_index(["bottleneck", "attributes"]).value
    assert deviants["reciter", "deviating"] == 0 and deviants["reciter", "typical"] == 100
    assert deviants["the truth", "deviating"] == 100 and deviants["the truth", "absent"] == 0
    rise = records[(records.table == "rise") & (records.metric == "rise")].set_index("bottleneck").value
    assert rise["reciter"] == 50 and rise["the truth"] == 100
    assert set(records[records.table == "prior of CLIPs"]["by"]) > {"claimed after", "commonest value"}


def check_54(records):
    """What knows nothing gains nothing, what knows all gains all; random directions read no concept."""
    birds = records[records.table == "decorrelated birds"].set_index(["bottleneck", "metric"]).value
    assert birds["the truth"][["S+", "S-", "gain", "rise"]].eq(100).all()
    assert birds["vocabulary"][["S+", "false alarms"]].eq(100).all() and birds["reciter"]["rise"] == 50
    assert birds["reciter"]["gain"] == birds["vocabulary"]["gain"] == 0 < birds["reader"]["gain"]
    vectors = records[records.table == "decorrelated concepts"].set_index(["vectors", "metric"]).value
    blind, learnt = (vectors[name]["AUC, birds at random"] for name in ("random directions", "0"))
    assert abs(blind - 0.5) < 0.05 < learnt - 0.5


def check_61(records):
    """Nothing that comes from the class scores looks beyond them; who misreads less looks more."""
    rows = records[records.table == "fourteen models"].set_index(["fault", "metric"])
    assert rows.value["recites", "picture part"] == rows.value["recites and errs", "picture part"] == 0
    for liar in ("recites", "recites softly", "from class scores", "rows shuffled"):
        assert rows.value[liar, "value"] > 90 and not rows.low[liar, "look"] > 0, liar
    looks = [rows.value[name, "look"] for name in ("misreads 5 %", "misreads 15 %", "reads a tenth")]
    assert looks == sorted(looks, reverse=True) and looks[-1] > 0
    assert rows.low["the shipped eye", "look"] > 0.4
    above = records[records.metric == "above blind"].set_index("fault").value
    assert above["recites"] >= above["misreads 15 %"]
    page = records[records.table == "scorecard"]
    assert set(page.metric) == {"value", "lead over blind"} and set(page.model) == {"aviary_resnet, cbm"}
    assert {"CLM", "S+", "CRI", "CGIM1"} <= set(page.yardstick)


def check_62(records):
    """A model that says the opposite is worse, in one concept as well; noise passes no line on concepts."""
    pairs = records[records.table == "yardsticks"]
    assert set(pairs.planted) == {"bottlenecks"}
    areas = pairs[pairs.metric == "AUC at the full dose"].set_index(["fault", "yardstick"]).value
    assert areas["inverted", "T"] == areas["inverted", "concept AUC"] == 1
    assert areas["inverted, one concept", "CGIM1"] == 1 and areas["inverted", "accuracy"] < 1
    changes = pairs[pairs.metric == "page changes"].set_index(["fault", "yardstick"]).value
    assert changes["inverted", "T"] == 1 and changes["inverted, one concept", "CGIM1"] == 0
    outcomes = pairs.set_index(["fault", "yardstick"]).verdict
    assert set(outcomes["inverted", "effect agreement"]) == {"by construction"}
    passes = records[records.table == "random model"].set_index(["fault", "yardstick"]).value
    for blind in ("random model", "untrained concepts"):
        assert (passes[blind][["T", "concept AUC", "CGIM1", "S+"]] == 0).all(), blind
    assert passes["untrained concepts", "accuracy"] == passes["random model", "effect agreement"] == 1
    alarms = records[records.table == "false alarms"].set_index(["change", "yardstick"]).alarm.astype(str)
    assert alarms["another zero", "CEM by product"] == "True" and alarms["another zero", "T"] == "False"


def check_63(records):
    """Mistakes of a thousand units are found in each sum."""
    checks = records[records.table == "identities"].set_index(["metric", "check"]).value
    sums = checks["planted mistakes of 1000 units found, %"].filter(regex="average of|sum of|sums? to|same")
    assert (sums == 100).all() and len(sums) >= 8
    assert checks["violations"].sum() == 3  # two cells above 60 %, one above 80 %
    verdicts = records[records.table == "own table"].set_index("claim").verdict
    assert verdicts["fse-top-five-alone-near-guess"] == READING  # by the floor
    assert verdicts["alignment-weights-negative-classes"] == OPEN


def check_71(records):
    """Raters who know only which model speaks agree, and do not tell true lists from false ones."""
    liars = values(records, raters="knows who speaks").droplevel("row")
    assert liars["Krippendorff's alpha"] == 1 and liars["A, planted true above false"] == 0.5
    assert (values(records, model="people") == 0).all()  # nobody has rated


def check_81(records):
    """Each path is timed beside its limit, with its peer and at the sizes asked for."""
    timed, limited = (
        set(records[records.metric == metric].path) for metric in ("seconds", "limit (seconds)")
    )
    assert timed - limited == {"once", "once more", "twice", "bare passes"}
    leads = records[records.metric == "speed-up"]
    assert {"kernel against top-k, α = 1, M = 32", "kernel against SVC by joblib, penalties = 2"} <= set(
        leads.path
    )
    assert not leads.path.str.contains("α = 1, 3, 6|M = 224|penalties = 5").any()
    assert (leads.low <= leads.value).all() and (leads.value <= leads.high).all()


def check_A7(records):
    """No prompt gives another's pattern; at guidance 1 one pass is what two are."""
    of_patterns = records[(records.table == "text-to-image") & (records.form == "pattern")]
    shown = of_patterns[of_patterns.metric == "attribute shown (%)"].set_index("prompt").value
    assert shown["a species with another's"] < 10 and shown["a species with its own"] > 80
    named = records[(records.table == "reader") & (records.metric == "species right (%)")]
    assert (named.value > 80).all() and set(named.cases) == {12}
    one_pass = records[records.network == "one pass"].value.tolist()
    assert one_pass[0] == pytest.approx(0, abs=1e-6) and one_pass[1] > 1


@pytest.mark.parametrize("number", PATHS)
def test_records_follow_the_parameters(number, tmp_path):
    records = run_cells(number, BASE[number], tmp_path / "results", thorough=True)
    if number == "99":  # there is nothing to report here, but what is kept of real runs
        assert list((tmp_path / "results").glob("99-*/ledger.png")) and not len(records)
    else:
        globals()[f"check_{number}"](records)


# (notebooks, parameters, what the error says)
WRONG = [
    ("00", {"show_species": "Cardinel"}, "the nearest is 'Cardinal'"),
    ("11", {"own_models": ["mine.pt"]}, "own_models takes files ending in .safetensors or .py"),
    ("11", {"data": "nowhere"}, "There is no data set 'nowhere'"),
    ("11", {"n_samples": [5000]}, "no concept has 5000 positive and 5000 negative examples"),
    ("13", {"weights": "no_such_file.safetensors"}, "there is no such weights file"),
    ("11", {"backbone": "resnet81"}, "There is no backbone 'resnet81'"),
    ("12", {"model": "cem"}, "CGIM compares the class weights of a linear head; this model has none"),
    ("21", {"models": ["cbm2"]}, "there is no model 'cbm2' in the zoo"),
    ("31", {"batch_size": -1}, "batch_size is -1: it has to be 0 or more"),
    ("41", {"own_maps": ["nowhere.npz"]}, "nowhere.npz: no maps that can be read"),
    ("41", {"methods": ["gradcam", "gradkam"]}, "unknown method 'gradkam'"),
    ("54", {"reader": "no_such_reader"}, "no_such_reader: no reader of attributes and species"),
    ("22", {"top_k": [5, 500], "shown": [1, 5]}, "cannot name 500 concepts of an image: choose 1 to"),
    ("22", {"scorer": "aviary_klip"}, "Near: aviary_clip"),
    ("23", {"ratings": "no_such_ratings.csv"}, "no_such_ratings.csv cannot be read"),
    ("24", {"template": 6}, "there is no template 6"),
    ("31", {"models": ["no_such_annotator"]}, "The model 'no_such_annotator' cannot be loaded"),
    ("31", {"dictionary": "by heart"}, "dictionary is auto, head, probe or attributes, not"),
    ("32", {"general": ["cifar100"]}, "general names cifar100, which is not among data"),
    ("34", {"cut": "lines"}, 'cut must be "steps" or "words", not \'lines\''),
    ("34", {"choose_prompt": "fse_choose_nothing"}, "the prompt has no place for {concepts}"),
    ("32", {"n_drawn": 0}, "n_drawn is 0: it has to be 1 or more"),
    ("43 53", {"n_fits": 0}, "n_fits is 0: it has to be 1 or more"),
    ("42", {"other_alphas": []}, "each further mask needs one of both"),
    ("42", {"people": "no_such_ratings.csv"}, "no_such_ratings.csv"),
    ("42", {"class_names": ["", "a.txt", ""]}, "class_names names 3, for 2 networks"),
    ("43", {"asked": "truth"}, 'asked must be "predicted" or "label", not \'truth\''),
    ("44", {"corner": "middle"}, "corner must be one of top right"),
    ("51", {"pipeline": "no_such_pipeline"}, "the pipeline 'no_such_pipeline' could not be loaded"),
    ("51", {"straight": []}, "straight is empty: name at least one t_max"),
    ("51", {"masks": "no_such_folder"}, "masks: no_such_folder lacks 4 masks, each of its picture"),
    ("51", {"attributes": ["has_bill_shape::needle"]}, "in studio no species lacks one of ['has_bill_shape"),
    ("51", {"pipeline": "aviary_drawn"}, "aviary_drawn takes no steps that could be tied"),
    ("11", {"draws": 3}, "no parameter 'draws': did you mean 'n_fits'"),
    ("51", {"attributes": ["has_crown_color::yelow"]}, "did you mean 'has_crown_color::yellow'"),
    ("52", {"candidates": ["Cardinel"]}, "did you mean 'Cardinal'"),
    ("52", {"shard": 2, "shards": 2}, "shard 2 of 2: shards are numbered from 0 to 1"),
    ("52", {"failures": [0.5, 0.1]}, "failures has 2 shares, for 5 kinds of failure: nothing changed"),
    ("53", {"models": []}, "models is empty: name at least one concept model"),
    ("53", {"benchmark": "nowhere"}, "no parquet file there"),
    ("54", {"decorrelated": [50]}, "decorrelated needs two doses or more of 0 to 100 %"),
    ("61", {"n_pairs": -1}, "n_pairs is -1: it has to be 0 or more"),
    ("62", {"doses": [0.0, 1.0]}, "doses above 0 up to 1"),
    ("63", {"planted": []}, "planted needs sizes of 1 or more"),
    ("71", {"planted": 3}, "planted is 3: an even number below n_items (14) is needed"),
    ("81", {"rounds": 0}, "rounds is 0: it has to be 1 or more"),
    ("A1", {"audited": 3}, "audited must be at least 4 birds of each species, not 3"),
    ("A5", {"n_test": 4}, "n_test is 4: 10 or more pictures of each kind are needed"),
    ("A6", {"fill": "black"}, 'fill must be "mean" or "blur", not \'black\''),
    ("A6", {"shares": [0.5, 2.0]}, "shares are one or more between 0 and 1"),
    ("A7", {"n_read": 50}, "n_read is 50: of each form there are n_test (12) cases"),
]


def grouped(entries):
    """Entries (notebooks, ...) as parameters of a test, those of one notebook for one process."""
    found = []
    for numbers, *others in entries:
        for number in numbers.split():
            found.append(pytest.param(number, *others, marks=pytest.mark.xdist_group(f"cells of {number}")))
    return found


@pytest.mark.parametrize("number, parameters, message", grouped(WRONG))
def test_wrong_input_is_named(number, parameters, message, tmp_path):
    with pytest.raises(Exception, match=re.escape(message)):
        run_cells(number, BASE[number] | parameters, tmp_path)


@pytest.mark.xdist_group("cells of 11")
def test_networks_of_drawn_birds_see_no_photographs(tmp_path):
    """A data set that is no drawn world: the aviary's files without what only its renderer writes."""
    for entry in datasets.load("aviary").root.iterdir():
        if entry.suffix != ".json" and entry.name != "masks":
            (tmp_path / entry.name).symlink_to(entry)
    assert not datasets.load(tmp_path).drawn
    with pytest.raises(ValueError, match="aviary_resnet.* learnt from drawn birds alone"):
        run_cells("11", {"data": str(tmp_path)}, tmp_path / "results")


@pytest.mark.xdist_group("cells of 31")
def test_a_model_that_costs_money_is_not_asked_unasked(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "https://server.invalid/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    given = BASE["31"] | {"models": ["server:gpt-4o"]}
    with pytest.raises(ValueError, match="gpt-4o costs money: .* may cost .* USD.*spend_at_most is 0"):
        run_cells("31", given, tmp_path)


@pytest.mark.xdist_group("cells of 42")
def test_people_rate_attention_and_read_texts(tmp_path, capsys):
    """Simulated raters set a ceiling, and readers decide acceptance and the claim about texts."""
    given = BASE["42"] | {"beta": 0.4, "n_images": 6, "networks": ["aviary_resnet"]}
    run_cells("42", given, tmp_path / "first")
    (file,) = (tmp_path / "first").glob("42-*/judgements.csv")
    judged = pd.read_csv(file)
    maps = judged.drop_duplicates("item").set_index("item").reference.fillna(0)
    noise = np.random.default_rng(0).normal(0, 0.2, (3, len(maps)))
    ratings = [(5 * maps / maps.max() + row).round().clip(0, 5).rename("rating") for row in noise]
    people = pd.concat(ratings, keys=["anna", "ben", "cleo"], names=["rater"]).reset_index()
    people.loc[len(people)] = {"rater": "anna", "item": "another", "rating": 3}
    people.loc[len(people)] = {"rater": "dora", "item": people["item"][0], "rating": None}
    people.to_csv(tmp_path / "people.csv", index=False, encoding="utf-8-sig")
    own = judged[judged.way.isin(["masked", "heat"])]
    items = "judge, " + own.way + ": " + own["item"]
    read = pd.DataFrame({"item": items, "rater": "anna", "rating": np.where(own.way == "masked", 1, 0.5)})
    read.to_csv(tmp_path / "readers.csv", index=False)
    given |= {"people": str(tmp_path / "people.csv"), "accepted": str(tmp_path / "readers.csv")}
    records = run_cells("42", given, tmp_path / "second")
    assert f"{len(maps)} of {len(maps)} maps have a reference: people" in capsys.readouterr().out
    table = records[records.table == "1"].set_index(["shown", "metric"]).value
    assert table["masked", "acceptance rate"] == 100 and table["heat", "acceptance rate"] == 0
    assert 0.5 < table["raters: rater", "Pearson correlation"] <= 1
    (ran,) = read_runs(tmp_path / "second")
    outcomes = {verdict["claim"]: verdict["outcome"] for verdict in ran["verdicts"]}
    assert "needs people" not in outcomes.values() and len(outcomes) == 7


@pytest.fixture
def photographs(tmp_path):
    """A folder of pictures that knows no box, and maps of a user for all of them."""
    world, files = datasets.load("aviary"), []
    for row in world.images.groupby(["label", "train"]).head(1).itertuples():
        folder = tmp_path / "photographs" / ("train" if row.train else "test") / world.class_names[row.label]
        folder.mkdir(parents=True)
        files.append(shutil.copy(row.path, folder))
    ids = [str(Path(file).relative_to(tmp_path / "photographs")) for file in files]
    blob = np.hanning(9)[:, None] * np.hanning(9)
    np.savez(tmp_path / "blob.npz", maps=np.stack([blob] * len(ids)).astype("float32"), image_ids=ids)
    return {"data": str(tmp_path / "photographs"), "own_maps": [str(tmp_path / "blob.npz")]}


@pytest.mark.xdist_group("cells of A6")
def test_attention_without_boxes(photographs, tmp_path):
    """Nothing is said about the place of an object that nobody knows, but all that asks the network."""
    given = BASE["A6"] | {"network": "aviary_resnet"} | photographs
    records = run_cells("A6", given, tmp_path / "results")
    assert set(records.table) == {"shuffled weights", "deletion and insertion", "agreement of methods"}
    assert "deletion and insertion" in set(records[records.method == "blob, own"].table)


@pytest.mark.xdist_group("cells of 23")
def test_raters_who_know_only_who_speaks(tmp_path):
    """They are followed, and found out by who speaks; an LLM that always says the same judges nothing."""
    given, table = BASE["23"] | {"ratings": "liars.csv", "llm": "ones.csv"}, []
    dataset, (outputs,) = zoo.load_fits(given["models"], 1, given["seed"], clip="")
    for row in concept_dataset.draw_test_rows(dataset, 40).tolist():
        for model, rating in zip(given["models"], (4, 1), strict=True):
            words, _ = conceptscore.named_concepts(outputs[model], 8).pairs(row, outputs[model].concepts)
            about = {"item": f"{model} {row}", "model": model, "image": dataset.test_ids[row]}
            answer = about | {"concepts": json.dumps(words), "rating": rating}
            table += [answer | {"rater": rater} for rater in "ab"]
    for n, (plant, rating) in enumerate(4 * [("true", 4), ("false", 1)]):  # these they look at
        about |= {"item": f"planted {n}", "model": "control", "concepts": "[]", "planted": plant}
        table += [about | {"rating": rating, "rater": rater} for rater in "ab"]
    of_llm = pd.DataFrame(table[::2])
    for name, rated in (
        ("liars", pd.DataFrame(table)),
        ("ones", of_llm.assign(rating=1, written_by="a model")),
    ):
        given[{"liars": "ratings", "ones": "llm"}[name]] = str(tmp_path / f"{name}.csv")
        rated.to_csv(tmp_path / f"{name}.csv", index=False)
    run_cells("23", given, tmp_path / "results")
    (run,) = read_runs(tmp_path / "results")
    outcome = {verdict["claim"]: verdict["outcome"] for verdict in run["verdicts"]}
    assert outcome["conceptscore-follows-people"] == "not told from its rival"
    assert outcome["conceptscore-reference-closer-to-llm"] == "instrument failed"


@pytest.mark.xdist_group("cells of 25")
def test_an_untrained_scorer_decides_nothing(tmp_path, monkeypatch):
    load = clip.load_clip
    monkeypatch.setattr(clip, "load_clip", lambda *which: clip.untrained_clip(load(*which)))
    run_cells("25", BASE["25"] | {"scorers": ["aviary_clip"]}, tmp_path)
    (run,) = read_runs(tmp_path)
    assert {verdict["outcome"] for verdict in run["verdicts"]} == {"instrument failed"}
