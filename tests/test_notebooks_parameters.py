"""Net b: notebooks with other parameters: the records are right, and they follow the parameter.

One line of CASES is one run: the notebook's number, parameters, and a function that asserts on `records`, the
rows of this run, and on `defaults`, those of the same notebook with BASE alone. Cells run in the process of
the test, since a kernel of its own would cost each run another 15 seconds; that papermill gives the same is
tested on one notebook.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from notebook_nets import (
    BASE,
    NOTEBOOKS,
    PATHS,
    code_cells,
    executed_at_defaults,
    run_cells,
    values,
)

from xaihelpers import datasets
from xaihelpers.bill import estimate, rate_of
from xaihelpers.bottlenecks.concept_dataset import load_concept_dataset
from xaihelpers.bottlenecks.zoo import fit_or_load
from xaihelpers.claims import load_claims
from xaihelpers.outputs import save_outputs
from xaihelpers.parameters import ParameterError, check_parameters, declared_parameters
from xaihelpers.paths import PROJECT, cache_home
from xaihelpers.records import read_records, read_runs
from xaihelpers.spending import SpendingError

OWN_FILES = Path(__file__).with_name("own_files")


def more_audited(records, defaults):
    """Whatever the number of birds: scenes drawn at random tell nothing of what is not drawn there."""
    worlds = ["as the species", "attributes at random", "scenes at random too"]
    for found in (records, defaults):
        leaks = found[(found.table == "leaks") & (found.metric == "concepts")]
        mean = leaks.set_index(["world", "source"]).value
        assert list(dict.fromkeys(leaks.world)) == worlds and mean.between(0.4, 1).all()
        free = mean["scenes at random too"]
        unseen = ["background", "seat", "leaf scale", "position", "extent", "silhouette", "seed"]
        assert (free[unseen] < 0.54).all()
        assert (mean["as the species"][["silhouette", "seat", "file order"]] > 0.6).all()
        of_class = found[(found.table == "leaks") & (found.metric == "class")].set_index(["world", "source"])
        assert (of_class.value.xs("file order", level="source") > 0.95).all()  # as in CUB's own list
        assert of_class.value["scenes at random too", "background"] < 0.56
    new, old = (r[r.table == "leaks"] for r in (records, defaults))
    assert set(new.cases) == {48, 5 * 48} and set(old.cases) == {48, 4 * 48}
    assert values(records, table="world").equals(values(defaults, table="world"))


def fewer_examples(records, defaults):
    new, old = values(records, classifier="post-hoc CBM"), values(defaults, classifier="post-hoc CBM")
    assert len(values(records, samples=20)) == len(new) == len(old) == len(values(defaults, samples=50))
    assert (new > 50).all() and (old > 50).all()  # chance is 2.1
    assert values(records, classifier="black box").equals(
        values(defaults, classifier="black box")
    )  # it has no examples


def labels_of_classes(records, defaults):
    new, old = values(records, classifier="post-hoc CBM"), values(defaults, classifier="post-hoc CBM")
    assert not new.equals(old) and ((new - old).abs() < 10).all()


def things_not_birds(records, defaults):
    assert set(records.data) == {"everyday"} and set(defaults.data) == {"aviary"}
    right = values(records, table="3", metric="accuracy")
    assert len(right) == len(values(defaults, table="3", metric="accuracy")) and right.between(5, 100).all()


def heads_on_raw_values(records, defaults):
    """The main head moves; the heads of section 5 are fitted both ways in either run."""
    main, heads = {"classifier": "post-hoc CBM"}, {"table": "3, heads"}
    assert not values(records, **main).equals(values(defaults, **main))
    assert values(records, **heads).equals(values(defaults, **heads))


def signed_distances(records, defaults):
    first = "mean over concepts"
    new, old = (values(r[r.over == first]) for r in (records, defaults))
    assert (
        abs(new.iloc[0] - old.iloc[0]) < 1e-3
    )  # CGIM1 by concept sees the weights only, and a row's length leaves its cosine as it is
    assert abs(new.iloc[1] - old.iloc[1]) > 0.01  # CGIM2 sees the values, whose zero has moved


def majority_labels(records, defaults):
    new, old = values(records, table="6"), values(defaults, table="6")
    assert new.index.equals(old.index) and 0 < (new - old).abs().max() < 0.5


def hidden_is_a_miss(records, defaults):
    assert values(records, table="1").equals(values(defaults, table="1"))
    new, old = values(records, table="2"), values(defaults, table="2")
    assert (new <= old + 1e-9).all() and (new < old).any()


def whole_image(records, defaults):
    found = records[(records.table == "2")]
    everything = values(found, alpha=12)
    assert (everything == 100).all()  # every pixel lies in a region of twelve twelfths
    sighted = found.basis == "knows the place"
    assert (values(found[sighted]) == 100).all() and (values(found[~sighted], alpha=2) < 100).all()
    assert (values(found[found.basis == "another place"], alpha=2) == 0).all()
    assert len(values(found, l=2)) == len(found)


def sparser_heads(records, defaults):
    new, old = (
        values(r[r.bottleneck == "lfcbm_unsupervised"], table="bottlenecks").droplevel("row")
        for r in (records, defaults)
    )
    assert new["weights per class"] < old["weights per class"] and new["concepts"] == old["concepts"]
    assert values(records, bottleneck="cbm", metric="concept AUC").equals(
        values(defaults, bottleneck="cbm", metric="concept AUC")
    )


def labels_by_class(records, defaults):
    """Concepts alike for all images of a class tell the classes apart: correcting all leaves no error."""
    assert (values(records, bottleneck="cbm", table="intervention", corrected=100) > 99).all()
    assert (
        values(records, bottleneck="cbm", metric="accuracy", table="bottlenecks").iloc[0]
        != values(defaults, bottleneck="cbm", metric="accuracy", table="bottlenecks").iloc[0]
    )


def another_omega(records, defaults):
    """ConceptScore carries the weight as a factor; words know nothing of it."""
    for table in ("6", "10"):
        new, old = (values(r, table=table, metric="ConceptScore") for r in (records, defaults))
        assert ((new / old - 1 / 2.5).abs() < 1e-6).all() and len(new) == 10
        assert values(records, table=table, metric="BLEU").equals(
            values(defaults, table=table, metric="BLEU")
        )
        mixed, before = (values(r, table=table, metric="Ref-ConceptScore") for r in (records, defaults))
        assert (mixed < before).all()


def plain_clip(records, defaults):
    assert not values(records, table="6", metric="cosine").equals(
        values(defaults, table="6", metric="cosine")
    )
    assert values(records, table="6", metric="METEOR").equals(values(defaults, table="6", metric="METEOR"))


def named_if_present(records, defaults):
    """What a model itself calls present is true more often, and scores higher, than what weighs most."""
    for metric in ("ConceptScore", "BLEU"):
        new, old = (values(r, table="10", metric=metric, k=8) for r in (records, defaults))
        assert (new > old).all() and len(new) == 5
    readings = [values(r, table="2, readings", metric="true (%)") for r in (records, defaults)]
    assert readings[0].equals(readings[1])  # all readings are shown, whatever is scored above
    table_2 = {"true (%)", "ConceptScore", "Ref-ConceptScore", "BLEU", "METEOR", "ROUGE"}
    by_rule = defaults[defaults.table == "2, readings"].groupby("named by")
    assert len(by_rule) == 5 and all(set(part.metric) == table_2 for _, part in by_rule)
    truth = {rule: part[part.metric == "true (%)"].value.mean() for rule, part in by_rule}
    assert truth["signed"] > truth["magnitude"]  # judged of the sentence as written, "not" and all


def another_model(records, defaults):
    """A bottleneck with other concept values has other rankings, and maps that are the model's own."""
    for table in ("1", "2"):
        new, old = values(records, table=table), values(defaults, table=table)
        assert set(new.index) == set(old.index) and not new.equals(old)


def phrases_as_concepts(records, defaults):
    """A model of phrases is judged by the attributes that these are the words of."""
    new, old = values(records, table="6", metric="CGIM1"), values(defaults, table="6", metric="CGIM1")
    attributes = [row.partition("attribute=")[2] for row, _ in new.index]
    of_classes = datasets.class_concepts(datasets.load("aviary"), attributes, kind="soft")
    some_class_has_it = (of_classes > 0).any(1).numpy()
    assert not new[~some_class_has_it].notna().any() and new[some_class_has_it].notna().mean() > 0.9
    assert len(set(new.index) & set(old.index)) > 20
    known = records[(records.table == "6-8") & (records.of == "labels shuffled")]
    assert len(known) == 6 and (known.low < known.high).all()


def no_linear_head(records, defaults):
    """A concept embedding has no weights to rank by, but values, maps, and a truth to rank by."""
    for table in ("1", "2"):
        bases = [set(rows[rows.table == table].basis) for rows in (defaults, records)]
        assert bases[0] - bases[1] == {"theta", "contrast"} and bases[1] < bases[0]
    assert (values(records, basis="the image's labels", l=1) == 100).all()


def things_instead_of_birds(records, defaults):
    assert set(records.data) == {"everyday"} and set(defaults.data) == {"aviary"}
    assert set(records.table) >= set(defaults.table) - {"8", "6-8, examples"}


def one_reading(records, defaults):
    """By value and by magnitude the models differ otherwise, and random concepts stay behind both."""
    assert not values(records, table="multiverse").equals(values(defaults, table="multiverse"))
    for rows in (records, defaults):
        ranks = values(rows, table="multiverse, ranks").droplevel("metric")
        assert ranks[[name for name in ranks.index if "random" in name][0]] > ranks.median()


def raters_without_noise(records, defaults):
    """Raters who see the truth and have neither noise nor bias give one answer."""
    for metric in ("Krippendorff alpha", "Fleiss kappa"):
        assert (
            values(records, metric=metric).iloc[0] == pytest.approx(1)
            and values(defaults, metric=metric).iloc[0] < 0.9
        )
    with_truth = [
        values(r[~r["with"].isin(["people", "LLM"])], score="true share of concepts")
        for r in (records, defaults)
    ]
    assert with_truth[0].equals(with_truth[1])  # the scores do not depend on raters


def twice_the_weight(records, defaults):
    new, old = (values(r, table="sensitivity", metric="drop of ConceptScore") for r in (records, defaults))
    assert ((new - 2 * old).abs() < 1e-6).all()
    for rows in (records, defaults):
        fall = values(rows, change="wrong for right, any", metric="drop of ConceptScore", m=3).iloc[0]
        assert (
            fall > values(rows, change="wrong for right, any", metric="drop of ConceptScore", m=1).iloc[0] > 0
        )


def another_training(records, defaults):
    new, old = (values(r, clip="trained here") for r in (records, defaults))
    assert not new.equals(old)
    assert values(records, clip="aviary_clip").equals(
        values(defaults, clip="aviary_clip")
    )  # the shipped one is measured alike
    assert (
        values(records, clip="aviary_clip", metric="zero-shot species").iloc[0]
        > 50
        > 10
        > values(records, clip="trained here", metric="zero-shot species").iloc[0]
    )


def another_seed(records, defaults):
    mine = "aviary_resnet, trained here"
    assert values(records, network=mine).iloc[0] != values(defaults, network=mine).iloc[0]
    assert values(records, network="shipped, measured here").equals(
        values(defaults, network="shipped, measured here")
    )
    assert values(records, network="shipped, measured here").iloc[0] > 80


def one_region(records, defaults):
    for rows in (records, defaults):
        assert (values(rows, metric="largest difference (of range)") < 1e-3).all()
    of_asking = [set(rows[rows.op == "asking"].path) for rows in (records, defaults)]
    assert of_asking[0] - of_asking[1] == {"2 at a time", "server that takes 4 at a time"}
    assert of_asking[1] - of_asking[0] == {"1 at a time", "4 at a time", "server that takes 16 at a time"}
    assert "top-k, α = 1" in set(records.path) and "top-k, α = 1, 3, 6" in set(defaults.path) - set(
        records.path
    )


def balanced_row(records, defaults):
    """Table 1's semantic row is then that of the balanced sets; what is asked stays the same."""
    for rows, kind in ((records, "balanced"), (defaults, "semantic")):
        asked = values(
            rows,
            table="contradictions",
            around="the first answer",
            sets=kind,
            given="concepts",
            metric="contradiction rate",
        )
        assert values(rows, table="1", distractors="semantic").iloc[0] == asked.iloc[0]
    assert values(records, table="contradictions").equals(values(defaults, table="contradictions"))
    assert values(records, table="1", distractors="random").equals(
        values(defaults, table="1", distractors="random")
    )


def other_words(records, defaults):
    """A prompt of its own for the blind choice: nothing that sees concepts changes."""
    keys = {"table": "contradictions", "metric": "contradiction rate"}
    for given in ("concepts", "true attributes"):
        assert values(records, given=given, **keys).equals(values(defaults, given=given, **keys))
    assert values(records, table="1").equals(values(defaults, table="1"))
    for rows in (records, defaults):
        assert (
            values(rows, **keys).between(0, 100).all()
            and (rows[rows.table == "contradictions"].dropna(subset="chance").chance == 80).all()
        )


def judged_by_itself(records, defaults):
    """Its own judge is the annotator that judges itself: the same numbers under another name."""
    assert values(records, table="figure3").equals(values(defaults, table="figure3"))
    names = [set(rows.model) - {"ideal reader"} for rows in (records, defaults)]
    assert names == [{"annotator, read by annotator"}, {"annotator"}]


def balanced_gap(records, defaults):
    for rows, kind in ((records, "balanced"), (defaults, "paper's")):
        assert (
            values(rows, table="2").iloc[0]
            == values(rows, table="gaps", slow="own concepts", sets=kind).iloc[0]
        )
        at = {"table": "figure3", "metric": "CRI", "setting": "visual", "sets": kind}
        assert values(rows, table="2").iloc[0] == pytest.approx(
            values(rows, t=5, **at).iloc[0] - values(rows, t=0, **at).iloc[0]
        )
    assert values(records, table="figure3").equals(values(defaults, table="figure3"))


def all_is_general(records, defaults):
    """Then the data set has a row of its own in Table 3, with the numbers that were its average before."""
    assert set(records[records.table == "3"].dataset) == {"aviary"} and set(
        defaults[defaults.table == "3"].dataset
    ) == {"FineGrained-Avg"}
    assert records[records.table == "3"].value.tolist() == defaults[defaults.table == "3"].value.tolist()
    assert values(records, table="figure3").equals(values(defaults, table="figure3"))


def no_names_by_clip(records, defaults):
    """One guesser less: no floor rises, and what the model chooses stays the same."""
    floors = []
    for rows in (records, defaults):
        found = rows[(rows.table == "options only") & rows.choice.fillna("").str.startswith("floor: ")]
        floors.append(found.set_index("sets").value)
    assert set(floors[0].index) == {"paper's", "balanced"} and (floors[0] <= floors[1] + 1e-9).all()
    assert not records.choice.fillna("").str.contains("by CLIP").any()
    assert values(records, table="figure3").equals(values(defaults, table="figure3"))


def one_seed(records, defaults):
    asked = []
    for rows in (records, defaults):
        of_figure = rows[(rows.table == "figure3") & (rows.metric == "CRI")]
        is_blind = of_figure.setting == "blind"  # five times, the options turned
        asked.append((set(of_figure[~is_blind].cases), set(of_figure[is_blind].cases)))
    assert asked == [({8.0}, {40.0}), ({16.0}, {80.0})]
    spread = [rows[rows.metric == "standard deviation over seeds"].value for rows in (records, defaults)]
    assert spread[0].isna().all() and spread[1].notna().all()


def other_question(records, defaults):
    """Another prompt for slow mode: fast and blind choices stay as they are."""
    of = {"table": "figure3", "metric": "CRI"}
    for same in ({"setting": "blind"}, {"setting": "visual", "t": 0}):
        assert values(records, **same, **of).equals(values(defaults, **same, **of))
    assert not values(records, setting="visual", **of).equals(values(defaults, setting="visual", **of))


def no_lists_of_five(records, defaults):
    """Where the answer holds no list of five, every choice by it is wrong and invalid.

    The five stages do not change.
    """
    assert values(records, table="4").equals(values(defaults, table="4"))
    five = records[records.table == "8"]
    assert (values(five, mode="slow") == 0).all() and (values(five, mode="fused") == 0).all()
    assert values(five, mode="fast").equals(values(defaults[defaults.table == "8"], mode="fast"))
    assert (values(records, metric="invalid answers", concepts="five concepts") == 100).all() and (
        values(defaults, metric="invalid answers", concepts="five concepts") < 50
    ).all()


def another_fused_prompt(records, defaults):
    """Another prompt for fused mode changes the fused answers alone."""
    for table in ("4", "8"):
        for mode in ("fast", "slow", "blind"):
            assert values(records[records.table == table], mode=mode).equals(
                values(defaults[defaults.table == table], mode=mode)
            )
    alone = [values(r, table="conflict", given="alone") for r in (records, defaults)]
    assert alone[0].equals(alone[1])
    assert not values(records, mode="fused").equals(values(defaults, mode="fused"))


def by_step(records, **keys):
    part = values(records, metric="CRI", **keys)
    return [
        float(value)
        for _, value in sorted(
            (int(row.rpartition("t=")[2].split(",")[0]), value) for (row, _), value in part.items()
        )
    ]


def the_other_cut(records, defaults):
    """A run that cuts chains by words is the control of a run that cuts by steps, and the other way round."""
    for one, two, cut in ((records, defaults, "words"), (defaults, records, "steps")):
        assert by_step(one, table="6", sets="paper") == by_step(two, kind=f"cut by {cut}")
    assert by_step(records, kind="five stages") == by_step(defaults, kind="five stages")


def chains_of_the_answers(records, defaults):
    """The shipped model marks its steps in its reasoning, and not in its answer."""
    assert (values(records, table="5") == 0).all() and (values(defaults, table="5") > 3).all()
    assert by_step(records, kind="five stages") == by_step(defaults, kind="five stages")
    assert by_step(records, table="6", sets="paper") != by_step(defaults, table="6", sets="paper")


def cut_off_before_the_end(records, defaults):
    """What max_tokens ended, and again with four times as many, is no reasoning, though it could be cut."""
    of_reasoning = {"metric": "invalid answers", "kind": "reasoning"}
    assert (values(records, **of_reasoning) == 100).all() and (values(defaults, **of_reasoning) < 50).all()
    assert values(records, kind="true attributes", metric="CRI").equals(
        values(defaults, kind="true attributes", metric="CRI")
    )


def looser_tie(records, defaults):
    """With k = 1 the tie lasts longer than with 10, so the pair stays more alike.

    What is not tied does not change.
    """
    alone = [values(r, table="tied diffusion", method="prompt alone") for r in (records, defaults)]
    assert alone[0].equals(alone[1])
    apart = "reference and guide apart (grey levels of 255)"
    new, slow, fast = (
        values(r, parameter="k", at=at, metric=apart).iloc[0]
        for r, at in ((records, 1), (defaults, 1), (defaults, 10))
    )
    assert new == slow < fast


def by_way(records, way):
    """What notebook 51 measures of one way of substitution, by kind and metric."""
    part = records[(records.table == "tied diffusion") & (records.method == way)]
    assert len(part)
    return part.set_index(["kind", "metric"]).value


def levels_as_printed(records, defaults):
    """The tie of this run is the rival of the other, and the other way round; all else stays."""
    assert by_way(records, "tied").equals(by_way(defaults, "other levels: as printed"))
    assert by_way(records, "other levels: by size").equals(by_way(defaults, "tied"))
    for way in ("prompt alone", "exact", "averaged prompts", "weighted guidance"):
        assert by_way(records, way).equals(by_way(defaults, way))


def nothing_tied(records, defaults):
    """Where nothing is tied, every way but the averaged prompts is the prompt alone, and none leads."""
    alone = by_way(records, "prompt alone")
    assert alone.equals(by_way(defaults, "prompt alone"))
    for way in ("tied", "tied noise", "swapped prompts", "weighted guidance"):
        assert np.allclose(by_way(records, way), alone, atol=0.1)
    lead = records[(records.table == "tied diffusion, differences") & (records.less == "prompt alone")]
    assert len(lead) and (lead.value.abs() < 0.1).all()


def any_bird_of_the_aviary(records, defaults):
    """Shapes as well, and 48 species to choose from where the studio has 31."""
    kinds = {"color", "pattern", "all"}
    for rows, count, of_rows in ((records, 48, kinds | {"shape"}), (defaults, 31, kinds)):
        species = rows[(rows.table == "tied diffusion") & (rows.metric == "species kept (%)")]
        assert set(species.kind) == of_rows and "exact" in set(species.method)
        assert np.allclose(species.chance, 100 / count)


def birds_of_the_data(records, defaults):
    """Without a renderer nothing is exact; the rest is measured all the same."""
    ways, drawn = (set(rows[rows.table == "tied diffusion"].method) for rows in (records, defaults))
    assert ways == drawn - {"exact", "exact, before"} and "exact" in drawn and "tied" in ways


def species_by_a_classifier(records, defaults):
    """It names one of its 48 classes; what the reader says of attributes stays."""
    for way in ("tied", "prompt alone", "exact"):
        new, old = by_way(records, way), by_way(defaults, way)
        is_species = new.index.get_level_values("metric").str.startswith("species")
        assert new[~is_species].equals(old[~is_species])
    species = records[(records.table == "tied diffusion") & (records.metric == "species kept (%)")]
    assert np.allclose(species.chance, 100 / 48) and species.value.notna().all()


def a_model_that_is_asked(records, defaults):
    """Every number is there, the species too: chosen from eight."""
    measured = records[records.table == "tied diffusion"]
    species = measured[measured.metric == "species kept (%)"]
    assert measured.value.notna().all() and measured.value.between(0, 100).all()
    assert np.allclose(species.chance, 100 / 8)


def half_of_the_pairs(records, defaults):
    new, old = (values(r, table="building, steps", step="generated") for r in (records, defaults))
    assert (new < old).all() and (new * 3 >= old).all()
    assert values(records, table="building, birds").equals(values(defaults, table="building, birds"))


def all_is_drawn_as_asked(records, defaults):
    """Without failures every image shows its attribute: no false alarms, precision 100 % as drawn."""
    assert set(values(records, table="building, failures").index.get_level_values("row")) == {"drawn=good"}
    precision = values(records, table="building, filter", prevalence="as drawn")
    assert precision.isna().all()  # of no wrong image nothing can be told
    assert not values(defaults, table="building, filter", prevalence="as drawn").isna().all()


def filtered_by_the_language_model(records, defaults):
    """It is the filter, and nothing is compared; the rows whose place is known are where they must be."""
    filters = [set(r[r.table == "building, filter"]["filter"]) for r in (records, defaults)]
    assert filters == [{"annotator"}, {"aviary_reader", "aviary_reader, same images", "annotator"}]
    new, old = (values(r, table="building, steps", step="generated") for r in (records, defaults))
    assert (new > 0).all() and (old > 0).all()
    models = defaults[defaults.table == "building, models"]
    claimed = {name: part.set_index("images").value for name, part in models.groupby("model of section 8")}
    assert claimed["says yes"].eq(100).all() and claimed["aviary_reader, the filter"]["benchmark"] == 100
    assert claimed["recites the species"]["exact"] < 50


def labels_of_images_alone(records, defaults):
    """Without labels of classes the rest stays; what knows nothing and what knows all is where it must be."""
    of_images = [r[(r.table == "decorrelated birds") & (r.labels == "image")] for r in (records, defaults)]
    assert values(of_images[0]).equals(values(of_images[1])) and len(of_images[0]) == 26  # 8 of trees
    assert not (records.labels == "class").any() and (defaults.labels == "class").any()
    for rows in (records, defaults):
        known = {name: values(rows, features=name).droplevel("row") for name in set(rows.features)}
        assert known["the truth"][["seen", "S+", "S-", "recall", "species, after"]].eq(100).all()
        assert known["says yes"][["S+", "false alarms"]].eq(100).all()
        assert known["recites the class"]["nothing changes"] == 100
        for blind in ("recites the class", "says yes"):
            assert known[blind]["seen"] == 0 and known[blind]["S-"] < 50
        assert abs(known["labels shuffled"]["seen"]) < 40 and known["the reader"]["seen"] > 0


def others_at_the_ends(records, defaults):
    """The model of the verdicts is fitted at every share, the others at both ends; what stays is the same."""
    main = records[records.table == "decorrelated birds"]
    shares = {name: set(map(float, part.decorrelated)) for name, part in main.groupby("bottleneck") if name}
    assert shares["cbm"] == {0, 30, 100} and shares["cem"] == {0, 100}
    seen = main[(main.bottleneck == "cbm") & (main.metric == "seen")]
    assert len(seen) == 6  # labels of classes and of images
    of_ends = [
        values(r, table="decorrelated birds", bottleneck="cbm", decorrelated=100) for r in (records, defaults)
    ]
    assert of_ends[0].equals(of_ends[1])


def trained_from_pixels(records, defaults):
    """A network that is trained as well takes the place of the features; what needs none stays."""
    assert set(records.bottleneck) - {"", "nan"} == {"cbm"} and "parts" not in set(records.features)
    main = records[records.table == "decorrelated birds"]
    trained = values(main, features="aviary_resnet", labels="image", metric="seen")
    assert len(trained) == 2 and trained.between(-100, 100).all()
    for name in ("the reader", "the truth", "recites the class"):
        assert values(records, features=name).equals(values(defaults, features=name))
    assert records.model.eq("aviary_resnet, fine-tuned").all()


def another_text(records, defaults):
    """The phrases change, the texts made by hand and the bottlenecks do not."""
    for table in ("1", "1, corrected"):
        assert values(records, table=table).equals(values(defaults, table=table))
    for table in ("2", "2, corrected"):
        new, old = (
            values(r, table=table, clip="aviary_clip", wording="phrases") for r in (records, defaults)
        )
        assert not new.equals(old) and new.between(-100, 100).all()
        by_hand = [values(r, table=table, wording="queries") for r in (records, defaults)]
        assert by_hand[0].equals(by_hand[1])
        assert values(records, table=table, clip="random").equals(
            values(defaults, table=table, clip="random")
        )


def the_paper_s_concepts_alone(records, defaults):
    """Half of SUB's attributes are none of the 112: the corrected scoring counts fewer images."""
    new, old = (
        r[(r.table == "1, corrected") & (r.bottleneck == "cem") & (r.images == "exact")].set_index("metric")
        for r in (records, defaults)
    )
    assert new.cases["S+"] < old.cases["S+"] and new.cases["recall"] < old.cases["recall"]
    authors = [r[(r.table == "1") & (r.bottleneck == "cem")] for r in (records, defaults)]
    assert authors[0].cases.tolist() == authors[1].cases.tolist()
    assert values(records, table="2").equals(values(defaults, table="2"))


def blind_and_sighted_rows(records, defaults):
    """Who recites the class sees nothing and keeps all; who knows the truth is right about all of it."""
    for part in (records, defaults):
        rows = part[(part.table == "1, corrected") & (part.images == "exact")]
        by_heart = rows[rows.bottleneck == "recites the class"].set_index("metric").value
        assert by_heart["S+"] == by_heart["both"] == by_heart["false alarms"] == by_heart["gain"] == 0
        truth = rows[rows.bottleneck == "the truth"].set_index("metric").value
        assert truth["S+"] == truth["S-"] == truth["both"] == 100
        gain = values(rows, bottleneck="cbm_independent", metric="gain").iloc[0]
        sizes = part[(part.table == "seen by size") & (part.seen_by == "cbm_independent class hard")]
        assert len(sizes) > 1 and np.average(sizes.value, weights=sizes.cases) == pytest.approx(gain)
    small = {"exact, 64 pixels", "exact, 48 pixels"}
    assert set(records.images.dropna()) & small == {"exact, 48 pixels"}
    assert set(defaults.images.dropna()) & small == {"exact, 64 pixels"}


def fewer_images(records, defaults):
    new, old = (r[r.table == "text-to-image"] for r in (records, defaults))
    assert (
        set(new.cases) == {4}
        and set(old.cases) == {8}
        and len(new) == len(old)
        and new.value.between(0, 100).all()
    )


def wider_mask(records, defaults):
    """A lower beta lets more through, so that less of the light is on the bird.

    The attention itself stays as it was.
    """
    inside, light = (
        [
            values(r, table="attention inside", method="gradcam", metric=f"{name} inside (%)").iloc[0]
            for r in (records, defaults)
        ]
        for name in ("attention", "light")
    )
    assert inside[0] == inside[1] and light[0] < light[1]


def blurred_parts(records, defaults):
    """What a part is replaced by changes what its loss costs, and neither maps nor where they lie."""
    new, old = (values(r, table="parts replaced", patch="the part") for r in (records, defaults))
    assert new.index.equals(old.index) and not new.equals(old)
    for table in ("attention inside", "deletion and insertion", "shuffled weights"):
        assert values(records, table=table).equals(values(defaults, table=table))


def more_draws(records, defaults):
    """Another draw moves the nulls that are drawn, their cases among it, and no method and no fixed null."""
    for method, moves in (("gradcam", 0), ("energy", 0), ("random map", 1), ("random weights", 1)):
        same = [values(r, table="attention inside", method=method) for r in (records, defaults)]
        assert same[0].equals(same[1]) != bool(moves), method
    drawn = [r[(r.table == "attention inside") & (r.method == "random map")] for r in (records, defaults)]
    assert set(drawn[0].cases) == {18} and set(drawn[1].cases) == {12}
    centre = values(records, table="shuffled weights", method="centre prior")
    assert (centre == 1).all()  # it ignores the network


def another_mask(records, defaults):
    """The judge sees other masked images and the same heat-maps; what asks the model knows of no mask."""
    for name in ("heat", "AOPC"):
        assert values(records, table="1", shown=name).equals(values(defaults, table="1", shown=name))
    masks = [
        r[(r.table == "2") & (r.shown == "masked")][["alpha", "beta"]].astype(float).to_numpy().tolist()
        for r in (records, defaults)
    ]
    assert masks == [[[25, 0.2], [15, 0.6]], [[25, 0.4], [15, 0.6]]]


def a_prompt_of_ones_own(records, defaults):
    """It is for masked images: heat-maps, and what needs no judge, stay as they are."""
    about = [set(r[(r.table == "text") & (r.about != "code prompt")].about) for r in (records, defaults)]
    assert about == [{"autoxplain_masked_short"}, {"the paper's prompt"}]
    for name in ("heat", "AOPC"):
        assert values(records, table="1", shown=name).equals(values(defaults, table="1", shown=name))
    blind = [values(r, table="1, blind", metric="Pearson correlation") for r in (records, defaults)]
    assert blind[0].equals(blind[1])


def little_of_a_heat_map_is_lit(records, defaults):
    """Texts of heat-maps are held against other light; those of masked images and all scores are not."""
    pair = [r[r.table == "1"] for r in (records, defaults)]
    new, old = (r.set_index(["shown", "metric"]).value for r in pair)
    texts = new.index.get_level_values("metric").isin(
        ["accepted by the masks (%)", "the same, elsewhere (%)", "false statements (%)"]
    ) | new.index.get_level_values("metric").str.contains("points")
    of_heat = texts & (new.index.get_level_values("shown") == "heat")
    assert new[~of_heat].equals(old[~of_heat]) and not new[of_heat].equals(old[of_heat])


def segmenters_asked_about_labels(records, defaults):
    """Only the segmenter's attention may be another one; who is right stays as it is."""
    for kind in ("classification", "segmentation"):
        cells = [
            [values(r, table="3", metric=cell, kind=kind).to_numpy() for cell in ("CH", "CL", "WH", "WL")]
            for r in (records, defaults)
        ]
        if kind == "classification":
            assert np.array_equal(*cells)
        assert np.allclose(np.sum(cells, axis=1), 100)


def a_segmenters_mean_over_all_pixels(records, defaults):
    """Over a linear head Grad-CAM does not notice, LayerCAM does; classifiers have no such mean."""
    change = records[records.table == "3, scalar of a segmenter"].set_index("method").value
    assert change["gradcam"] < 1e-3 < 0.02 < change["layercam"]
    cells = [values(r, table="3", kind="classification").tolist() for r in (records, defaults)]
    assert np.allclose(*cells, equal_nan=True)


def draws_of_the_segmenter(records, defaults):
    """Each draw is a case of its own; the classifier has one. What rests on a failed control is void."""
    cases = [r[(r.table == "3") & (r.metric == "Avg")].set_index("kind").cases for r in (records, defaults)]
    assert cases[0]["classification"] == cases[1]["classification"]
    assert cases[0]["segmentation"] == 8 and cases[1]["segmentation"] == 16
    card = records[records.table == "controls of the judge"].set_index("row")
    reads = card.loc["control=reads the name"]
    void = records[records.table == "3"].set_index("metric").void.fillna("")
    assert (reads.low <= 0 or reads.value < 1) == void["WH"].str.contains("reads the name").all()
    assert not void["CH"].str.contains("reads the name").any() and void["attention inside (%)"].eq("").all()


def a_heat_prompt_of_ones_own(records, defaults):
    """It is for heat-maps alone; where it leaves a map without a score, Table 1 leaves the map out."""
    new, old = (r[r.table == "2"].set_index(["alpha", "beta", "metric"]) for r in (records, defaults))
    assert new[new.shown == "masked"].value.equals(old[old.shown == "masked"].value)
    assert not new[new.shown == "heat"].value.equals(old[old.shown == "heat"].value)


def higher_threshold(records, defaults):
    """A higher threshold moves images from high to low, and touches neither who is right nor the scores."""
    cells = [
        {name: values(r, table="3", metric=name).to_numpy() for name in ("CH", "CL", "WH", "WL", "Avg")}
        for r in (records, defaults)
    ]
    new, old = cells
    assert np.allclose(new["CH"] + new["CL"], old["CH"] + old["CL"]) and (new["Avg"] == old["Avg"]).all()
    assert (new["CH"] + new["WH"] < old["CH"] + old["WH"]).all()


def judged_heat_maps(records, defaults):
    """Shown heat-maps, the judge scores otherwise; the scripted judges, who see no picture, do not."""
    for judge in ("judge", "scripted: the truth"):
        cards = [values(r, table="card of a judge", judge=judge).tolist() for r in (records, defaults)]
        assert (cards[0] == cards[1]) == judge.startswith("scripted")


def sets_by_attributes(records, defaults):
    """Sets whose look-alikes are those of the attributes: there the guesser by attributes is stronger."""
    guesser = "most like the others, by class attributes"
    new, old = (
        values(r, table="blind ladder", sets="paper's", guesser=guesser).iloc[0] for r in (records, defaults)
    )
    assert new > old
    balanced = values(records, table="blind ladder", sets="balanced", guesser=guesser).iloc[0]
    assert abs(balanced - 20) < 8


def all_is_low(records, defaults):
    """With a threshold above the scale every judged image fails; accuracy is none of the judge's business."""
    assert (
        set(values(records, table="biased models", metric="err"))
        == {100}
        != set(values(defaults, table="biased models", metric="err"))
    )
    for name in ("accuracy like training (%)", "accuracy without dots (%)"):
        assert values(records, table="biased models", metric=name).equals(
            values(defaults, table="biased models", metric=name)
        )


def background_alone(records, defaults):
    """The tint stands for the class: models use it, no claim on dots is decided, one layer back is asked."""
    assert set(records[records.table == "use"].shortcut) == {"background"}
    assert set(defaults[defaults.table == "use"].shortcut) == {"background", "dot"}
    added = records[(records.table == "use") & (records.metric == "added")].set_index("models").value
    assert added["biased"] > 0.5 and added["biased"] > added["normal"]
    maps = (
        records[(records.table == "use and show") & (records.metric == "biased (%)")].set_index("map").value
    )
    assert {"gradcam", "energy", "ceiling"} <= set(maps.index) and maps["ceiling"] > maps["centre prior"]


def one_more_map(records, defaults):
    new, old = (set(r[r.table == "costs"].path) for r in (records, defaults))
    assert (
        new == old
        and {"gradcam, grad-cam", "eigencam, here", "scorecam, bare passes", "rise, here"} <= new
        and (records.value > 0).all()
    )


# (notebook, parameters, check(records, defaults))
def judges_alone(records, defaults):
    """What is not planted is not judged; what is, is judged as before."""
    new, old = (
        values(r, table="yardsticks", planted="judges", metric="Spearman") for r in (records, defaults)
    )
    assert len(new) == 18 and new.equals(old)  # three faults, six yardsticks
    assert set(records[records.table == "yardsticks"].planted) == {"judges"}
    assert set(defaults[defaults.table == "yardsticks"].planted) > {"judges", "maps", "bottlenecks"}


def more_misread(records, defaults):
    """An honest model that misreads a tenth of the labels is right in nine tenths of them."""
    levels = []
    for recorded in (records, defaults):
        row = recorded[(recorded.table == "random model") & (recorded.yardstick == "T")]
        levels.append(float(row.honest.iloc[0]))
    assert abs(levels[0] - 0.9) < 0.01 and abs(levels[1] - 0.98) < 0.01


def denominators(records):
    """Smallest denominators by table and group, as the notebook records them."""
    found = records[records.table == "denominators"]
    return found.set_index(["paper", "printed", "group"]).value.sort_index()


def own_tables(records):
    """What the papers' own tables say, by claim."""
    found = records[records.table == "own table"].set_index("claim")
    assert len(found) == len(load_claims()) and found.index.is_unique
    return found


def larger_denominators(records, defaults):
    """What fits up to 600 stays, and more fits beyond; no verdict rests on it."""
    new, old = denominators(records), denominators(defaults)
    assert old["fse", "table1", "Car"] == 92 and old["fse", "table1", "CUB-Bird"] == 61
    assert np.isnan(old["fse", "table1", "Flower"])  # 17.16 is not n/99
    assert old["autoxplain", "table3", "segmentation"] == 200
    assert old.equals(new.where(new <= 600)) and (new > 600).any()
    assert own_tables(records).verdict.equals(own_tables(defaults).verdict)


def more_items(records, defaults):
    """With ten times the items a lead of 0.11 in tau is told; other papers' verdicts stay."""
    new, old = own_tables(records), own_tables(defaults)
    claim = "conceptscore-follows-people-more-than-words"
    assert old.verdict[claim] == "cannot be told" and new.verdict[claim] == "supported by its own table"
    assert new.low[claim] > old.low[claim] and new.high[claim] < old.high[claim]
    others = old.paper != "conceptscore"
    assert new[others].verdict.equals(old[others].verdict)
    contradicted = old.index[old.verdict == "contradicted by its own table"]
    assert set(contradicted) == {"alignment-weights-negative-classes", "fse-top-five-alone-near-guess"}
    assert old.why["sub-clips-fail-less"].endswith(
        "open: questions of Tables 1 and 2 differ: a threshold, a choice"
    )


def larger_mistakes(records, defaults):
    """Mistakes of a thousand units are found wherever a sum or a mean is checked; no more is violated."""
    new, old = (
        r[r.table == "identities"].set_index(["metric", "paper", "check"]).value for r in (records, defaults)
    )
    sums = new["planted mistakes of 1000 units found, %"].filter(regex="average of|sum of|sums? to|same")
    assert (sums == 100).all() and len(sums) >= 8
    assert not (
        old["planted mistakes of 1 units found, %"].filter(regex="average of|sum of|sums? to|same") == 100
    ).all()
    assert new["violations"].sort_index().equals(old["violations"].sort_index())
    assert old["violations"].sum() == 3  # two cells above 60 %, one above 80 %


def on_the_card(records, model):
    """Value and verdict of each yardstick of one model's card."""
    rows = records[(records.table == "scorecard") & records.model.str.endswith(f", {model}")]
    return rows[rows.metric == "value"].set_index("yardstick")


def a_fault_in_what_decides(records, defaults):
    """A side channel leaves values as they are, and is told by what compares reasons with decisions."""
    honest, false = (on_the_card(records, name) for name in ("honest", "side channel"))
    assert (
        false.value["T"] == honest.value["T"] and false.value["CEM by value"] == honest.value["CEM by value"]
    )
    assert honest.value["effect agreement"] > 0.9 > 0.5 > false.value["effect agreement"]
    assert "interventions, random" in honest.index and "interventions, random" not in false.index
    permuted = on_the_card(defaults, "permuted names")
    assert permuted.value["T"] < 80 and permuted.verdict["S+"] != "above blind"
    assert on_the_card(defaults, "honest").value.equals(honest.value)
    found = records[records.table == "planted models on the page"].set_index("yardstick").found
    assert found["effect agreement"] == "told" and found["T"] == "open"


def no_probes(records, defaults):
    """Without probes, and with maps: what pairs would say is gone, what maps say is there."""
    new, old = on_the_card(records, "phcbm"), on_the_card(defaults, "cbm")
    assert {"S+", "own response", "locality"} <= set(old.index) - set(new.index)
    assert {"CLM", "CoAM overlap", "inside the bird"} <= set(new.index) - set(old.index)
    assert new.value["CLM"] > new.chance["CLM"] - 20 and new.value["inside the bird"] > 20


CASES = [
    ("00", {"audited": 5}, more_audited),
    ("11", {"n_samples": [20]}, fewer_examples),
    ("11", {"train_labels": "class"}, labels_of_classes),
    ("11", {"data": "everyday"}, things_not_birds),
    ("11", {"standardise": False}, heads_on_raw_values),
    ("12", {"margin": True}, signed_distances),
    ("12", {"truth_labels": "hard"}, majority_labels),
    ("12", {"model": "lfcbm_unsupervised"}, phrases_as_concepts),
    ("12", {"data": "everyday", "n_samples": 30}, things_instead_of_birds),
    ("13", {"hidden": "miss"}, hidden_is_a_miss),
    ("13", {"first": [2], "alpha": [2, 12]}, whole_image),
    ("13", {"model": "cbm_independent"}, another_model),
    ("13", {"model": "cem"}, no_linear_head),
    ("13", {"data": "everyday", "n_samples": 30}, things_instead_of_birds),
    ("21", {"penalty": 0.01}, sparser_heads),
    ("21", {"labels": "class"}, labels_by_class),
    ("22", {"omega": 1.0}, another_omega),
    ("22", {"long": False}, plain_clip),
    ("22", {"naming": "present"}, named_if_present),
    ("25", {"naming": ["value"]}, one_reading),
    ("23", {"noise": 0.0, "bias": 0.0}, raters_without_noise),
    ("24", {"omega": 5.0}, twice_the_weight),
    ("31", {"balanced": True}, balanced_row),
    ("31", {"blind_prompt": "fse_choose_image"}, other_words),
    ("31", {"dictionary": "attributes"}, sets_by_attributes),
    ("32", {"judge": "annotator"}, judged_by_itself),
    ("32", {"balanced": True}, balanced_gap),
    ("32", {"general": ["aviary"]}, all_is_general),
    ("32", {"n_seeds": 1}, one_seed),
    ("32", {"name_clip": ""}, no_names_by_clip),
    ("32", {"slow_prompt": "fse_choose_both"}, other_question),
    ("33", {"top5_prompt": "fse_chain"}, no_lists_of_five),
    ("33", {"fused_prompt": "fse_choose_concepts"}, another_fused_prompt),
    ("34", {"cut": "words"}, the_other_cut),
    ("34", {"chain_from": "answer"}, chains_of_the_answers),
    ("34", {"max_tokens": 12}, cut_off_before_the_end),
    ("41", {"beta": 0.1}, wider_mask),
    ("41", {"fill": "blur"}, blurred_parts),
    ("41", {"draws": 3}, more_draws),
    ("42", {"beta": 0.2}, another_mask),
    ("42", {"prompt_file": "autoxplain_masked_short", "by_schema": True}, a_prompt_of_ones_own),
    ("42", {"heat_level": 0.9}, little_of_a_heat_map_is_lit),
    ("42", {"heat_prompt_file": "autoxplain_masked_code"}, a_heat_prompt_of_ones_own),
    ("43", {"threshold": 4.5}, higher_threshold),
    ("61", {"planted": ["side channel"]}, a_fault_in_what_decides),
    (
        "61",
        {"models": ["phcbm"], "mapped": ["phcbm"], "n_pairs": 0, "n_covered": 0},
        no_probes,
    ),
    ("62", {"planted": ["judges"]}, judges_alone),
    ("62", {"errors": 0.1, "planted": ["bottlenecks"]}, more_misread),
    ("43", {"scalar": "all"}, a_segmenters_mean_over_all_pixels),
    ("43", {"draws": 1}, draws_of_the_segmenter),
    ("43", {"asked": "label"}, segmenters_asked_about_labels),
    ("44", {"threshold": 6.0}, all_is_low),
    (
        "44",
        {
            "shortcuts": ["background"],
            "layer": "features.8",
            "methods": ["gradcam"],
            "prompt_file": "autoxplain_masked_short",
            "max_tokens": 100,
            "class_names": ["blue bird", "other bird"],
            "n_control": 0,
            "n_dose": 0,
            "own_maps": [str(OWN_FILES / "attends.py")],
        },
        background_alone,
    ),
    ("45", {"kind": "heat", "by_schema": True}, judged_heat_maps),
    ("51", {"k": 1.0}, looser_tie),
    ("51", {"levels": "paper"}, levels_as_printed),
    (
        "51",
        {"t_min": 1.0, "t_max": 1.0, "t_max_patterns": 1.0, "attribute_weight": 0.0},
        nothing_tied,
    ),
    ("51", {"world": "portraits"}, any_bird_of_the_aviary),
    ("51", {"world": ""}, birds_of_the_data),
    ("51", {"classifier": "aviary_resnet"}, species_by_a_classifier),
    ("51", {"annotator": "annotator", "n_pairs": 1, "n_rivals": 1, "n_compared": 1}, a_model_that_is_asked),
    ("52", {"shards": 2, "shard": 1, "benchmark": "sub_in_parts"}, half_of_the_pairs),
    ("52", {"failures": [0.0, 0.0, 0.0, 0.0, 0.0], "benchmark": "sub_of_good"}, all_is_drawn_as_asked),
    (
        "52",
        {"annotator": "annotator", "compared": "", "n_real": 8, "benchmark": "sub_by_annotator"},
        filtered_by_the_language_model,
    ),
    ("53", {"text": "{attribute}"}, another_text),
    ("53", {"all_attributes": False}, the_paper_s_concepts_alone),
    ("53", {"portrait_size": 48}, blind_and_sighted_rows),
    ("54", {"labels": ["image"]}, labels_of_images_alone),
    ("54", {"models": ["cbm", "cem"], "decorrelated": [0, 30, 100]}, others_at_the_ends),
    (
        "54",
        {"features": ["aviary_resnet"], "finetune": True, "side": 32, "epochs": 1, "draws": 1},
        trained_from_pixels,
    ),
    ("63", {"largest": 900}, larger_denominators),
    ("63", {"n_people": 1000}, more_items),
    ("63", {"planted": [1000]}, larger_mistakes),
    ("81", {"alpha": [1], "batch_sizes": [2], "server_limit": 4}, one_region),
    ("82", {"n_attended": 3}, one_more_map),
    ("91", {"seed": 1}, another_seed),
    ("92", {"seed": 1}, another_training),
    ("94", {"n_test": 4}, fewer_images),
]

# (notebook, parameters, what the error says)
WRONG = [
    ("11", {"own_models": ["mine.pt"]}, "own_models takes files ending in .safetensors or .py"),
    ("22", {"models": ["nowhere.py"]}, "nowhere.py: there is no such Python file"),
    ("31", {"models": ["replay:nowhere.jsonl"]}, "replay:nowhere.jsonl: there is no file nowhere.jsonl"),
    ("41", {"own_maps": ["nowhere.npz"]}, "nowhere.npz: no maps that can be read"),
    ("42", {"networks": ["nowhere.npz"]}, "nowhere.npz: no maps that can be read"),
    ("44", {"own_maps": ["nowhere.py"]}, "nowhere.py: there is no such Python file"),
    ("53", {"predictions": ["nowhere.py"]}, "nowhere.py: there is no such Python file"),
    ("11", {"data": "nowhere"}, "There is no data set 'nowhere'"),
    ("11", {"backbone": "resnet81"}, "There is no backbone 'resnet81'"),
    *(
        (i, {"transform": "resize"}, "transform must be empty or one of koh")
        for i in ("11", "12", "13", "21")
    ),
    *(
        (i, {"batch_size": -1}, "batch_size is -1: it has to be 1 or more")
        for i in ("23", "31", "32", "33", "34", "42", "43", "45")
    ),
    ("11", {"n_samples": [5000]}, "no concept has 5000 positive and 5000 negative examples"),
    ("12", {"svm_c": "one"}, "Parameter 'svm_c' must be float"),
    ("12", {"model": "cem"}, "cem has no class weights θ"),
    ("13", {"hidden": "skip"}, 'hidden must be "leave out" or "miss"'),
    ("13", {"weights": "no_such_file.safetensors"}, "there is no such weights file"),
    ("21", {"models": ["cbm", "cem2"]}, "models has ['cem2']"),
    ("21", {"models": ["lfcbm"], "similarity": 1.5}, "similarity"),
    ("22", {"top_k": [5, 500], "shown": [1, 5]}, "by its 500 most important concepts"),
    ("22", {"long": False, "too_long": "error", "top_k": [15], "shown": [1, 15]}, "more than the 77 tokens"),
    ("22", {"scorer": "aviary_klip"}, "Near: aviary_clip"),
    ("22", {"naming": "all"}, "naming must be one of magnitude, signed, present, value, non-zero, not 'all'"),
    ("25", {"models": ["cbm", "cem2"]}, "there is no model 'cem2' in the zoo"),
    ("14", {"n_samples": 5000}, "no concept has 5000 examples in each of the 2 sets of birds"),
    ("23", {"ratings": "no_such_ratings.csv"}, "cannot be read as a table of ratings"),
    ("24", {"template": 6}, "there is no template 6"),
    ("31", {"data": ["nowhere"]}, "There is no data set 'nowhere'"),
    ("31", {"models": ["no_such_annotator"]}, "The model 'no_such_annotator' cannot be loaded"),
    ("31", {"name_prompt": "no_such_prompt"}, "no_such_prompt: no prompt that can be read"),
    ("31", {"dictionary": "by heart"}, "dictionary is auto, head, probe, attributes or a CSV file"),
    ("45", {"kind": "mask"}, "unknown kind 'mask' of image"),
    ("61", {"planted": ["leaks"]}, "planted has ['leaks'], but the faults are permuted names"),
    ("61", {"models": ["no_such_file.safetensors"]}, "no_such_file.safetensors: no outputs of a bottleneck"),
    ("62", {"planted": ["bottlenecks", "texts"]}, "planted holds ['texts']: choose among bottlenecks"),
    ("62", {"doses": [0.0, 1.0]}, "doses above 0 up to 1"),
    ("62", {"backbone": "resnet81"}, "There is no backbone 'resnet81'"),
    ("45", {"judges": ["no_such_judge"]}, "The model 'no_such_judge' cannot be loaded"),
    ("32", {"general": ["cifar100"]}, "general names cifar100, which is not among data"),
    ("32", {"n_seeds": 0}, "n_seeds is 0"),
    ("32", {"judge": "no_such_judge"}, "The model 'no_such_judge' cannot be loaded"),
    ("33", {"fused_prompt": "fse_no_such_prompt"}, "fse_no_such_prompt: no prompt that can be read"),
    ("33", {"judge": "no_such_annotator"}, "The model 'no_such_annotator' cannot be loaded"),
    ("34", {"cut": "lines"}, 'cut must be "steps" or "words", not \'lines\''),
    ("34", {"choose_prompt": "fse_choose_nothing"}, "the prompt has no place for {concepts}"),
    ("23", {"llm": "no_such_model"}, "The model 'no_such_model' cannot be loaded"),
    ("41", {"layer": "layer9"}, "layer9"),
    ("41", {"methods": ["gradcam", "gradkam"]}, "unknown method 'gradkam'"),
    ("41", {"network": "no_such_network"}, "There is no backbone 'no_such_network'"),
    ("41", {"fill": "black"}, 'fill must be "mean" or "blur", not \'black\''),
    ("41", {"draws": 0}, "draws is 0: it has to be 1 or more"),
    ("41", {"shares": [0.5, 2.0]}, "shares are one or more between 0 and 1"),
    ("42", {"other_alphas": []}, "each further mask needs one of both"),
    ("42", {"people": "no_such_ratings.csv"}, "no_such_ratings.csv"),
    ("42", {"layer": ["layer9"]}, "layer9"),
    ("42", {"heat_level": 1.5}, "heat_level is 1.5: attention lies between 0 and 1"),
    ("42", {"class_names": ["no_such_names.txt"]}, "no_such_names.txt: no file of class names"),
    ("42", {"class_names": ["", "a.txt"]}, "class_names names 2, for 1 networks"),
    ("42", {"prompt_file": "no_such_prompt"}, "no_such_prompt: no prompt that can be read"),
    ("43", {"layer": ["layer9"]}, "layer9"),
    ("43", {"class_names": ["no_such_names.txt"]}, "no_such_names.txt: no file of class names"),
    ("43", {"prompt_file": "no_such_prompt"}, "no_such_prompt: no prompt that can be read"),
    ("42", {"draws": 0}, "draws is 0: it has to be 1 or more"),
    ("43", {"draws": 0}, "draws is 0: it has to be 1 or more"),
    ("43", {"scalar": "half"}, 'scalar must be "own" or "all", not \'half\''),
    ("44", {"n_masks": 0}, "n_masks (0) have to be 1 or more"),
    ("43", {"asked": "truth"}, 'asked must be "predicted" or "label", not \'truth\''),
    (
        "43",
        {"networks": ["torchvision/fcn_resnet50"], "weights": ["no_such_weights.pth"]},
        "no_such_weights.pth",
    ),
    ("43", {"judge": "no_such_annotator"}, "The model 'no_such_annotator' cannot be loaded"),
    ("44", {"classes": ["Blue_Jay", "cat"]}, "classes must be two of aviary's 48"),
    ("44", {"corner": "middle"}, "corner must be one of top right"),
    ("44", {"shortcuts": ["frame"]}, "shortcuts must be one of dot, background, not 'frame'"),
    ("44", {"methods": ["gradcamm"]}, "methods must be one of cam, gradcam"),
    ("44", {"strengths": [1.5]}, "strengths must lie between 0 and 1"),
    ("44", {"class_names": ["bird"]}, "class_names must name both classes"),
    ("44", {"prompt_file": "no_such_prompt"}, "no_such_prompt: no prompt that can be read"),
    ("44", {"layer": "features.99"}, "SmallNetwork has no layer 'features.99'"),
    ("51", {"pipeline": "no_such_pipeline"}, "the pipeline 'no_such_pipeline' could not be loaded"),
    ("51", {"attributes": ["has_crown_color::yelow"]}, "did you mean 'has_crown_color::yellow'"),
    ("51", {"world": "studios"}, "world must be one of 'studio', 'portraits', '', not 'studios'"),
    ("51", {"levels": "mine"}, "levels must be one of 'by size', 'paper', not 'mine'"),
    ("51", {"n_rivals": 0}, "n_rivals is 0: it has to be 1 or more"),
    ("51", {"compared": "shape"}, "compared is 'shape', but the pairs are of color, pattern"),
    ("51", {"pipeline": "aviary_drawn"}, "aviary_drawn takes no steps that could be tied"),
    ("53", {"models": []}, "models is empty: name at least one concept model"),
    ("52", {"candidates": ["Cardinel"]}, "did you mean 'Cardinal'"),
    ("52", {"shard": 2, "shards": 2}, "shard 2 of 2: shards are numbered from 0 to 1"),
    ("52", {"failures": [0.5, 0.1]}, "failures has 2 shares, for 5 kinds of failure: nothing changed"),
    ("52", {"failures": [0.9, 0.9, 0.0, 0.0, 0.0]}, "at most 1 together"),
    ("52", {"unknown": ["Cardinel"]}, "the nearest is 'Cardinal'"),
    ("53", {"benchmark": "nowhere"}, "no parquet file there"),
    ("53", {"models": ["cbm2"]}, "there is no model 'cbm2' in the zoo"),
    ("53", {"draws": 0}, "draws is 0: it has to be 1 or more"),
    ("53", {"queries": "no_such_queries.csv"}, "no_such_queries.csv"),
    ("53", {"predictions": ["no_such_predictions.csv"]}, "there is no such file of predictions"),
    ("53", {"recipe": "adam"}, "recipe must be one of adamw, koh, not 'adam'"),
    ("53", {"transform": "resize"}, "transform must be empty or one of koh, posthoc"),
    ("53", {"attribute": "has_breast_color::bleu"}, "did you mean 'has_breast_color::blue'"),
    ("54", {"models": ["cbm2"]}, "there is no model 'cbm2' in the zoo"),
    ("54", {"labels": ["species"]}, "labels must be of class, image, not ['species']"),
    ("54", {"decorrelated": [50]}, "decorrelated needs two shares or more of 0 to 100 %"),
    ("54", {"finetune": True}, "features names parts, which no network computes"),
    ("54", {"attributes": ["has_crown_color::yelow"]}, "did you mean 'has_crown_color::yellow'"),
    ("54", {"attributes": ["has_crown_color::pink"]}, "attributes must be among the 112 concepts"),
    ("54", {"reader": "no_such_reader"}, "no_such_reader: there is no such reader"),
    ("63", {"largest": 50}, "largest (50) has to be 600 or more"),
    ("63", {"level": 0.0}, "level (0) and likely (0.01) have to lie between 0 and 1"),
    ("63", {"planted": []}, "planted needs sizes of 1 or more"),
    ("94", {"reader": "no_such_reader"}, "no_such_reader: there is no such reader"),
    ("93", {"annotator": "no_such_annotator"}, "The model 'no_such_annotator' cannot be loaded"),
    ("92", {"clip_weights": "no_such_weights.safetensors"}, "no such file of CLIP weights"),
    ("00", {"show_species": "Cardinel"}, "the nearest is 'Cardinal'"),
    ("00", {"audited": 3}, "audited must be at least 4 birds of each class, not 3"),
    (
        "00",
        {"substitutions": ["has_crown_colour::blue"]},
        "the nearest of the 312 is 'has_crown_color::blue'",
    ),
]


def grouped(entries):
    """Entries (number, ...) as parameters of a test, those of one notebook for one process."""
    return [pytest.param(*entry, marks=pytest.mark.xdist_group(f"notebook {entry[0]}")) for entry in entries]


def papermill(number, folder, parameters):
    """Run a notebook by the plain papermill command, its results going to `folder`."""
    values = folder / "parameters.yaml"
    values.write_text(yaml.safe_dump({**parameters, "results": str(folder / "results")}))
    output = folder / PATHS[number].name
    command = [sys.executable, "-m", "papermill", str(PATHS[number]), str(output), "-f", str(values)]
    environment = os.environ | {"MPLBACKEND": "agg"}
    return subprocess.run(
        [*command, "--no-progress-bar"], capture_output=True, text=True, cwd=folder, env=environment
    )


@pytest.fixture(scope="session")
def run_notebook(tmp_path_factory):
    """A function: (number, parameters) -> the records of that run; each distinct run is made once."""
    done = {}

    def run(number, parameters):
        key = number, json.dumps(parameters, sort_keys=True)
        if not parameters:
            executed_at_defaults(number)
            records = read_records(cache_home() / "test_runs")
            done[key] = records[records.notebook == number]
        if key not in done:
            folder = tmp_path_factory.mktemp(f"run_{number}_")
            done[key] = run_cells(number, parameters, folder, rendered=parameters == BASE.get(number, {}))
            run.folders[key] = folder
        return done[key]

    run.folders = {}  # where each of them was recorded
    return run


@pytest.mark.notebooks
@pytest.mark.parametrize("number, parameters, check", grouped(CASES))
def test_records_follow_the_parameters(number, parameters, check, run_notebook):
    base = BASE.get(number, {})
    check(run_notebook(number, base | parameters), run_notebook(number, base))


@pytest.mark.notebooks
@pytest.mark.parametrize("number", ["31", "33", "34", "43"])
def test_what_is_asked_was_planned(number, run_notebook):
    """The bill after the run is that before it, within a few per cent; exercises come after the record."""
    run_notebook(number, BASE[number])
    folder = run_notebook.folders[number, json.dumps(BASE[number], sort_keys=True)]
    (made,) = read_runs(folder)
    bill = estimate(number, made["parameters"], rate_of("H200"), "never run")
    for row in made["bill"]["asked"]:
        kinds = [one for one in bill.questions if one.model == row["model"] and one.what != "exercises"]
        assert row["requests"] == pytest.approx(sum(one.count for one in kinds), rel=0.06)
        assert row["failed"] == 0 and row["seconds"] > 0 and row["cost"] == 0
        assert row["cached"] + row["asked"] >= row["requests"]
    assert {row["model"] for row in made["bill"]["asked"]} == {line.model for line in bill.asked}
    assert made["bill"]["peak"]["memory"] > 1e8


@pytest.mark.notebooks
@pytest.mark.parametrize("number, models", [("31", {"models": ["server:gpt-4o"]})])
def test_a_model_that_costs_money_is_not_asked_unasked(number, models, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "https://server.invalid/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with pytest.raises(
        SpendingError, match="server:gpt-4o: about .* USD, and the parameter spend_at_most is 0"
    ):
        run_cells(number, BASE[number] | models, tmp_path, rendered=False)
    own = tmp_path / "prices.csv"
    own.write_text("model,currency,in_per_million,out_per_million\nanother,EUR,1,2\n")
    with pytest.raises(SpendingError, match="server:gpt-4o has no price in .*prices.csv"):
        run_cells(number, BASE[number] | models | {"prices": str(own)}, tmp_path, rendered=False)
    with pytest.raises(SpendingError, match="there is no file no_such_prices.csv"):
        run_cells(number, BASE[number] | {"prices": "no_such_prices.csv"}, tmp_path, rendered=False)


@pytest.mark.notebooks
@pytest.mark.parametrize("number", ["12", "13"])
def test_outputs_of_ones_own(number, tmp_path):
    """A file of outputs is judged as any model is; a concept that nobody annotated is left out."""
    birds = load_concept_dataset(clip="")
    outputs = fit_or_load("phcbm", birds).outputs
    free = ["a look that nobody annotated", *outputs.concepts[1:]]
    maps = torch.rand(*outputs.values.shape, 3, 3, generator=torch.Generator().manual_seed(0))
    file = tmp_path / "own.safetensors"
    save_outputs(replace(outputs, concepts=free, concept_maps=maps), file)
    records = run_cells(number, BASE[number] | {"model": str(file)}, tmp_path / "results")
    assert records.model.str.endswith(", own").all()
    if number == "12":
        of_concept = records[records.table == "6"].set_index("attribute").value
        assert set(of_concept.index[of_concept.isna()]) == set(free[:1]) and len(of_concept) == 3 * len(free)
        assert values(records, table="7").notna().all()
    else:
        found = records[records.table == "1"].set_index(["basis", "images", "l"])
        assert found.value.notna().all() and found.value["the image's labels"].eq(100).all()
        assert (values(records, basis="another place", alpha=1) < 1).all()


@pytest.fixture
def four_concepts(tmp_path):
    """A file of four concepts, as a user may name it."""
    file = tmp_path / "concepts.txt"
    file.write_text("has_crown_color::red\nhas_wing_color::blue\nhas_back_color::black\nhas_leg_color::grey")
    return str(file)


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 11")
def test_a_bottleneck_of_ones_own_concepts(four_concepts, tmp_path):
    """Four concepts of a file reach less than the attributes of all, and a model that is blind nothing."""
    given = {"concepts": four_concepts, "own_models": [str(OWN_FILES / "concepts.py")]}
    records = run_cells("11", BASE["11"] | given, tmp_path / "results")
    right = records[records.table == "3"].groupby("classifier").value.max()
    assert 5 < right["post-hoc CBM"] < 80 < right["linear probe"] and right["true attributes"] < 60
    assert right["concepts"] < 5  # it names one class for all birds
    own = records[records.direction.fillna("").str.startswith("concepts, own")]
    assert len(own) == 2 and own.value.between(0.3, 0.9).all()


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 13")
def test_where_concepts_of_ones_own_lie(four_concepts, tmp_path):
    """Four concepts of a file: no list is longer, and what knows the truth leads in both tables."""
    given = BASE["13"] | {"concepts": four_concepts, "first": [1]}
    records = run_cells("13", given, tmp_path / "results", rendered=False)
    existence = records[records.table == "1"].pivot_table("value", ["images"], "basis", dropna=False)
    assert (existence.max(axis=1) == existence["the image's labels"]).all() and len(existence) > 1
    assert values(records, table="2", basis="knows the place").eq(100).all()
    assert values(records, table="2", basis="another place", alpha=1).eq(0).all()


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 42")
def test_two_judges_are_differenced(run_notebook, tmp_path):
    """The same judge under two names: it does not differ from itself, in any kind of image."""
    (tmp_path / "the_same").symlink_to(PROJECT / "data" / "models" / "judge")
    given = BASE["42"] | {"judges": ["judge", str(tmp_path / "the_same")]}
    records = run_cells("42", given, tmp_path / "results", rendered=False)
    pairs = records[(records.table == "1, paired") & records.judge.str.contains(" less ", na=False)]
    assert set(pairs["masked image less"]) == {"(masked)", "(heat)"} and len(pairs) == 4
    assert np.allclose(pairs.value, 0)
    assert not run_notebook("42", BASE["42"]).judge.str.contains(" less ", na=False).any()


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 42")
def test_people_rate_attention_and_read_texts(tmp_path):
    """Simulated raters set a ceiling, and readers decide acceptance and the claim about texts."""
    run_cells("42", BASE["42"], tmp_path / "first")
    (file,) = (tmp_path / "first").glob("42-*/judgements.csv")
    judged = pd.read_csv(file)
    maps = judged.drop_duplicates("item").set_index("item").reference
    rng = np.random.default_rng(0)
    ratings = []
    for rater in ("anna", "ben", "cleo"):
        noisy = 5 * maps / maps.max() + rng.normal(0, 0.5, len(maps))
        ratings.append(pd.DataFrame({"rater": rater, "rating": noisy.round().clip(0, 5).astype(int)}))
    pd.concat(ratings).rename_axis("item").to_csv(tmp_path / "people.csv")
    lines = []
    for row in judged[judged.length == "own"].itertuples():
        read = {"item": f"judge, {row.shown}: {row.item}", "rater": "anna"}
        lines.append(read | {"rating": 1.0 if row.shown == "masked" else 0.5})
    pd.DataFrame(lines).to_csv(tmp_path / "readers.csv", index=False)
    given = {"people": str(tmp_path / "people.csv"), "accepted": str(tmp_path / "readers.csv")}
    records = run_cells("42", BASE["42"] | given, tmp_path / "second")
    table = records[records.table == "1"].set_index(["shown", "metric"]).value
    assert table["masked", "acceptance rate"] == 100 and table["heat", "acceptance rate"] == 0
    assert 0.5 < table["one rater, against the others", "Pearson correlation"] <= 1
    gap = table["masked, against the others", "Pearson correlation"]
    gap -= table["one rater, against the others", "Pearson correlation"]
    assert np.isclose(table["masked, judge less a rater", "difference"], gap)
    (run,) = (tmp_path / "second").glob("42-*/run.json")
    verdicts = {row["claim"]: row for row in json.loads(run.read_text())["verdicts"]}
    assert verdicts["autoxplain-judge-follows-people"]["controls"]["people's scores"]
    texts = verdicts["autoxplain-texts-better-when-masked"]
    assert texts["value"] == 100 and texts["controls"]["people's verdicts"]
    heat = [name for name in texts["controls"] if name.startswith("judge, heat: ")]
    assert len(heat) == 11  # a claim about both kinds of images rests on both cards


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 41")
@pytest.mark.parametrize("network", ["aviary_resnet", "clip/aviary_clip"])
def test_attention_without_masks(network, tmp_path):
    """Of photographs nobody knows the object: no share of it and no parts, but all that asks the network.

    With masks, a vision transformer has them too: CAM is left out there and named.
    """
    world = datasets.load("aviary")
    given = {"network": network, "own_maps": [str(OWN_FILES / "attends.py")]}
    if network == "aviary_resnet":
        for label, files in world.images.groupby("label").path:
            for split in ("train", "test"):
                folder = tmp_path / "photographs" / split / world.class_names[label]
                folder.mkdir(parents=True)
                shutil.copy(files.iloc[0], folder)
        given["data"] = str(tmp_path / "photographs")
    records = run_cells("41", BASE["41"] | given, tmp_path / "results")
    asks = {"shuffled weights", "deletion and insertion", "agreement of methods"}
    knows = {"attention inside", "above the best null", "parts replaced", "heads of the same maps"}
    tables = set(records.table)
    assert asks <= tables and (knows <= tables) == (network != "aviary_resnet")
    assert network == "aviary_resnet" or not (records.method == "cam").any()
    own = set(records[records.method == "attends, own"].table)
    assert asks - {"shuffled weights"} <= own and "shuffled weights" not in own


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 23")
def test_an_llm_that_always_says_the_same_decides_nothing(tmp_path):
    """A constant map is no rating: it is flagged, gives no τ, and the claim about LLMs is blind."""
    models = BASE["23"]["models"]
    rows = range(len(datasets.load("aviary").images))
    names = [
        f"{item} {model} {row}" for item in range(BASE["23"]["n_items"]) for model in models for row in rows
    ]
    pd.DataFrame({"item": names, "rating": 1}).to_csv(tmp_path / "ones.csv", index=False)
    records = run_cells("23", BASE["23"] | {"llm": str(tmp_path / "ones.csv")}, tmp_path / "results")
    assert values(records, metric="constant maps").iloc[0] == BASE["23"]["draws"]
    of_llm = records[(records.metric == "Kendall tau") & (records["with"] == "LLM")]
    assert len(of_llm) >= 2 and of_llm.value.isna().all()
    gap = values(records, metric="steps, less the constant's", **{"with": "LLM (ones), calibrated"})
    assert gap.iloc[0] > -0.1  # the mean of the raters is no better than their median
    (file,) = (tmp_path / "results").glob("23-*/run.json")
    run = json.loads(file.read_text())
    (note,) = [note for note in run["notes"] if note.startswith("LLM (ones), calibrated")]
    assert "not shown to be better than a constant" in note and "2 of 2 calibrations are constant" in note
    (verdict,) = [row for row in run["verdicts"] if row["claim"] == "conceptscore-reference-closer-to-llm"]
    assert verdict["outcome"] == "instrument blind" and not any(verdict["controls"].values())


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 24")
def test_sensitivity_without_concept_labels(tmp_path):
    """Where nobody knows which concepts are wrong, those of another class take their place.

    There is no reference, no claim about wrong concepts, and whether weights are read is not shown.
    """
    world = datasets.load("aviary")
    for label, files in list(world.images.groupby("label").path)[:8]:
        for n, path in enumerate(files[:20]):
            folder = tmp_path / "folders" / ("train" if n < 14 else "test") / world.class_names[label]
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder)
    phrases = [datasets.phrase(attribute) for attribute in world.attributes.name[::3]]
    (tmp_path / "concepts.txt").write_text("\n".join(dict.fromkeys(phrases)))
    given = BASE["24"] | {"data": str(tmp_path / "folders"), "foreign": True, "model": "lfcbm_unsupervised"}
    given |= {"concept_file": str(tmp_path / "concepts.txt"), "k": 4, "n_replaced": [1]}
    records = run_cells("24", given, tmp_path / "results")
    drops = records[(records.table == "sensitivity") & (records.metric == "drop of ConceptScore")]
    assert {"another class's for own, any", "control: own class's, any", "both"} <= set(drops.change)
    assert not drops.change.str.startswith("wrong").any() and drops.value.notna().all()
    assert not records.metric.str.contains("Ref-").any() and "weights read" not in set(records.table)
    (file,) = (tmp_path / "results").glob("24-*/run.json")
    verdicts = json.loads(file.read_text())["verdicts"]
    assert {row["claim"] for row in verdicts} == {"conceptscore-falls-when-reordered"}
    assert {row["outcome"] for row in verdicts} == {"instrument blind"}


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 63")
def test_papermill_gives_the_same(run_notebook, tmp_path):
    result = papermill("63", tmp_path, BASE["63"])
    assert result.returncode == 0, result.stderr[-4000:]
    keys = ["paper", "table", "row", "metric", "value", "low", "high", "cases", "chance"]
    ours, theirs = run_notebook("63", BASE["63"])[keys], read_records(tmp_path / "results")[keys]
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_misspelt_parameter_is_an_error(path):
    source = code_cells(path)[0].source
    name = max(declared_parameters(source), key=len)
    history = ["", source, f"# Parameters\n{name}s = 1\n"]
    with pytest.raises(ParameterError, match=f"has no parameter '{name}s': did you mean '{name}'?"):
        check_parameters({"In": history, f"{name}s": 1})
    starts = [cell.source for cell in code_cells(path) if "records.start(" in cell.source]
    assert (
        len(starts) == 1 and f'records.start("{path.name[:2]}", globals())' in starts[0]
    )  # where it is checked


@pytest.mark.notebooks
@pytest.mark.parametrize(
    "parameters, message", [({"n_draws": 50}, "did you mean 'draws'?"), ({"level": "1"}, "must be")]
)
def test_papermill_ends_with_an_error(parameters, message, tmp_path):
    result = papermill("63", tmp_path, parameters)
    assert result.returncode != 0 and message in result.stderr


@pytest.mark.notebooks
@pytest.mark.xdist_group("notebook 53")
def test_predictions_of_ones_own_are_a_line_of_the_table(run_notebook, tmp_path):
    """A file that knows what was changed, written for the exact substitutions that the notebook drew."""
    run_notebook("53", BASE["53"])
    images = datasets.load("sub_exact_of_tests").images
    attributes = sorted(set(images.attribute).union(*images.removed))
    rows = []
    for row in images.itertuples():
        for name in attributes:
            rows.append({"image id": row.id, "attribute": name, "probability": float(name == row.attribute)})
    file = tmp_path / "knowing.parquet"
    pd.DataFrame(rows).to_parquet(file)
    records = run_cells("53", BASE["53"] | {"predictions": [str(file)]}, tmp_path / "results", rendered=False)
    own = values(records, table="1, corrected", bottleneck="knowing", labels="own")
    assert own.xs("S+", level="metric").eq(100).all() and own.xs("both", level="metric").eq(100).all()


@pytest.mark.notebooks
@pytest.mark.parametrize("number, parameters, message", grouped(WRONG))
def test_wrong_input_is_named(number, parameters, message, tmp_path):
    with pytest.raises(Exception, match=re.escape(message)):
        run_cells(number, BASE.get(number, {}) | parameters, tmp_path, rendered=False)


@pytest.mark.notebooks
@pytest.mark.parametrize(
    "number, parameters", [("11", {}), ("12", {}), ("13", {}), ("21", {}), ("71", {"form": "attention"})]
)
def test_networks_of_drawn_birds_see_no_photographs(number, parameters, tmp_path):
    """A data set that is no drawn world: the aviary's files without the settings of its renderer."""
    world = datasets.load("aviary").root
    for entry in world.iterdir():
        if entry.suffix != ".json":
            (tmp_path / entry.name).symlink_to(entry)
    assert not datasets.load(tmp_path).drawn
    with pytest.raises(ValueError, match="aviary_resnet.* learnt from drawn birds alone"):
        run_cells(number, parameters | {"data": str(tmp_path)}, tmp_path / "results", rendered=False)


@pytest.mark.notebooks
def test_a_gpu_demanded_where_there_is_none(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(ParameterError, match="torch sees no GPU here"):
        run_cells("11", {"device": "cuda"}, tmp_path)
