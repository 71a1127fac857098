"""Net b: notebooks through papermill with other parameters: the records are right, and they follow the parameter.

One line of CASES is one run: the notebook's number, parameters, and a function that asserts on `records`, the rows of this
run, and on `defaults`, those of the same notebook with BASE alone. CHANGES names what has to differ from the defaults.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
import yaml

from xaihelpers.parameters import declared
from xaihelpers.records import read_records

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
PATHS = {path.name[:2]: path for path in NOTEBOOKS}

# Parameters that keep a notebook's runs short here; also of the run that cases are compared with.
BASE = {
    "11": {"n_samples": [50], "svm_c": [0.1, 1.0], "repeats": 1},
    "12": {"permutations": 20},
    "21": {"models": ["cbm", "lfcbm_unsupervised"], "corrected": [0, 100], "orders": 1},
    "22": {"models": ["cbm", "phcbm"], "n_images": 40, "top_k": [3, 8], "shown": [1, 8]},
    "23": {"models": ["cbm", "phcbm"], "n_items": 40},
    "24": {"n_images": 40, "n_replaced": [1, 3]},
    "31": {"data": ["aviary"], "n_cases": 30},
    "32": {"data": ["aviary"], "general": [], "n_cases": 8, "n_seeds": 2},
    "33": {"n_cases": 12, "n_seeds": 1},
    "34": {"n_cases": 12, "n_seeds": 1},
    "41": {"n_measured": 6, "n_slow": 1, "n_masks": 10, "n_shown": 2, "methods": ["cam", "gradcam", "eigencam", "rise"]},
    "42": {"n_images": 6, "networks": ["aviary_resnet"], "steps": 3, "lengths": [], "other_alphas": [15.0], "other_betas": [0.6], "ratings": "ratings_of_tests.sqlite"},
    "43": {"n_images": 8, "networks": ["aviary_resnet", "segmenter"]},
    "44": {"n_models": 4, "n_judged": 4, "epochs": 12},
    "51": {"n_pairs": 2, "steps": 4, "n_compared": 2, "other_k": [1.0], "other_t_min": [], "other_t_max": []},
    "52": {"candidates": ["Cardinal", "Blue_Jay"], "attributes": ["has_breast_color::blue", "has_wing_color::white"], "n_recognised": 2, "n_real": 40, "n_per_pair": 4, "steps": 4, "benchmark": "sub_of_tests"},
    "53": {"benchmark": "", "n_rendered": 24, "epochs": 3, "label_kinds": ["hard"]},
    "81": {"n_images": 20, "n_concepts": 6, "n_files": 20, "repeats": 1, "n_scored": 4, "n_pairs": 100, "n_asked": 8, "n_requests": 32, "latency": 0.02, "n_tied": 2, "n_substituted": 500},
    "82": {"n_attended": 2, "n_masks": 8, "n_perturbed": 2, "steps": 2, "repeats": 1, "image_side": 64},
    "91": {"epochs": 1, "size": 48},
    "92": {"drawn": 20, "attribute_steps": 2, "caption_steps": 2, "joint_steps": 1, "long_steps": 1, "batch_size": 16},
    "93": {"birds_drawn": 8, "things_drawn": 8, "judged": 16, "tower_steps": [1, 1], "letter_steps": 1, "task_steps": 2, "choice_steps": 2, "portraits_drawn": 16, "second_steps": 1, "attribute_steps": 1, "batch_size": 16, "n_test": 8},
    "94": {"drawn": 24, "autoencoder_steps": 1, "flow_steps": [1, 1], "guidance_steps": 1, "reader_steps": [1, 1], "changed": 8, "batch_size": 8, "n_test": 8},
}


def values(records, **keys):
    """The values of the rows with these keys, by what else tells rows apart."""
    for name, value in keys.items():
        column = records[name] if isinstance(value, str) else pd.to_numeric(records[name], errors="coerce")
        records = records[column == value]
    assert len(records)
    return records.set_index(["row", "metric"]).value


def fewer_examples(records, defaults):
    new, old = values(records, classifier="post-hoc CBM"), values(defaults, classifier="post-hoc CBM")
    assert len(values(records, samples=20)) == len(new) == len(old) == len(values(defaults, samples=50))
    assert (new > 50).all() and (old > 50).all()  # chance is 2.1
    assert values(records, classifier="black box").equals(values(defaults, classifier="black box"))  # it has no examples


def labels_of_classes(records, defaults):
    new, old = values(records, classifier="post-hoc CBM"), values(defaults, classifier="post-hoc CBM")
    assert not new.equals(old) and ((new - old).abs() < 10).all()


def signed_distances(records, defaults):
    first = "mean over concepts"
    new, old = (values(r[r.over == first]) for r in (records, defaults))
    assert abs(new.iloc[0] - old.iloc[0]) < 1e-3  # CGIM1 by concept sees the weights only, and a row's length leaves its cosine as it is
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
    assert (values(found, alpha=2) < 100).all() and len(values(found, l=2)) == len(found)


def sparser_heads(records, defaults):
    new, old = (values(r[r.bottleneck == "lfcbm_unsupervised"], table="bottlenecks").droplevel("row") for r in (records, defaults))
    assert new["weights per class"] < old["weights per class"] and new["concepts"] == old["concepts"]
    assert values(records, bottleneck="cbm", metric="concept AUC").equals(values(defaults, bottleneck="cbm", metric="concept AUC"))


def labels_by_class(records, defaults):
    """The same concepts for all images of a class: they tell the classes apart, so correcting all of them leaves no error."""
    assert (values(records, bottleneck="cbm", table="intervention", corrected=100) > 99).all()
    assert values(records, bottleneck="cbm", metric="accuracy", table="bottlenecks").iloc[0] != values(defaults, bottleneck="cbm", metric="accuracy", table="bottlenecks").iloc[0]


def another_omega(records, defaults):
    """ConceptScore carries the weight as a factor; words know nothing of it."""
    for table in ("6", "10"):
        new, old = (values(r, table=table, metric="ConceptScore") for r in (records, defaults))
        assert ((new / old - 1 / 2.5).abs() < 1e-6).all() and len(new) == 10
        assert values(records, table=table, metric="BLEU").equals(values(defaults, table=table, metric="BLEU"))
        mixed, before = (values(r, table=table, metric="Ref-ConceptScore") for r in (records, defaults))
        assert (mixed < before).all()


def plain_clip(records, defaults):
    assert not values(records, table="6", metric="cosine").equals(values(defaults, table="6", metric="cosine"))
    assert values(records, table="6", metric="METEOR").equals(values(defaults, table="6", metric="METEOR"))


def raters_without_noise(records, defaults):
    """Raters who see the truth and have neither noise nor bias give one answer."""
    for metric in ("Krippendorff alpha", "Fleiss kappa"):
        assert values(records, metric=metric).iloc[0] == pytest.approx(1) and values(defaults, metric=metric).iloc[0] < 0.9
    with_truth = [values(r[~r["with"].isin(["people", "LLM"])], score="true share of concepts") for r in (records, defaults)]
    assert with_truth[0].equals(with_truth[1])  # the scores do not depend on raters


def twice_the_weight(records, defaults):
    new, old = (values(r, table="sensitivity", metric="drop of ConceptScore") for r in (records, defaults))
    assert ((new - 2 * old).abs() < 1e-6).all()
    for rows in (records, defaults):
        fall = values(rows, change="wrong for right, any", metric="drop of ConceptScore", m=3).iloc[0]
        assert fall > values(rows, change="wrong for right, any", metric="drop of ConceptScore", m=1).iloc[0] > 0


def another_training(records, defaults):
    new, old = (values(r, clip="trained here") for r in (records, defaults))
    assert not new.equals(old)
    assert values(records, clip="aviary_clip").equals(values(defaults, clip="aviary_clip"))  # the shipped one is measured alike
    assert values(records, clip="aviary_clip", metric="zero-shot species").iloc[0] > 50 > 10 > values(records, clip="trained here", metric="zero-shot species").iloc[0]


def another_seed(records, defaults):
    mine = "aviary_resnet, trained here"
    assert values(records, network=mine).iloc[0] != values(defaults, network=mine).iloc[0]
    assert values(records, network="shipped, measured here").equals(values(defaults, network="shipped, measured here"))
    assert values(records, network="shipped, measured here").iloc[0] > 80


def one_region(records, defaults):
    for rows in (records, defaults):
        assert (values(rows, metric="largest difference (of range)") < 1e-3).all()
    assert "top-k, α = 1" in set(records.path) and "top-k, α = 1, 3, 6" in set(defaults.path) - set(records.path)


# (notebook, parameters, check(records, defaults))
def balanced_row(records, defaults):
    """Table 1's semantic row is then that of the balanced sets; what is asked stays the same."""
    for rows, kind in ((records, "balanced"), (defaults, "semantic")):
        asked = values(rows, table="contradictions", around="the first answer", sets=kind, given="concepts", metric="contradiction rate")
        assert values(rows, table="1", distractors="semantic").iloc[0] == asked.iloc[0]
    assert values(records, table="contradictions").equals(values(defaults, table="contradictions"))
    assert values(records, table="1", distractors="random").equals(values(defaults, table="1", distractors="random"))


def other_words(records, defaults):
    """A prompt of its own for the blind choice: nothing that sees concepts changes."""
    keys = {"table": "contradictions", "metric": "contradiction rate"}
    for given in ("concepts", "true attributes"):
        assert values(records, given=given, **keys).equals(values(defaults, given=given, **keys))
    assert values(records, table="1").equals(values(defaults, table="1"))
    for rows in (records, defaults):
        assert values(rows, **keys).between(0, 100).all() and (rows[rows.table == "contradictions"].dropna(subset="chance").chance == 80).all()


def judged_by_itself(records, defaults):
    """Its own judge is the annotator that judges itself: the same numbers under another name."""
    assert values(records, table="figure3").equals(values(defaults, table="figure3"))
    assert set(records.model) == {"annotator, read by annotator"} and set(defaults.model) == {"annotator"}


def balanced_gap(records, defaults):
    for rows, kind in ((records, "balanced"), (defaults, "paper's")):
        assert values(rows, table="2").iloc[0] == values(rows, table="gaps", slow="own concepts", sets=kind).iloc[0]
        at = {"table": "figure3", "metric": "CRI", "setting": "visual", "sets": kind}
        assert values(rows, table="2").iloc[0] == pytest.approx(values(rows, t=5, **at).iloc[0] - values(rows, t=0, **at).iloc[0])
    assert values(records, table="figure3").equals(values(defaults, table="figure3"))


def all_is_general(records, defaults):
    """Then the data set has a row of its own in Table 3, with the numbers that were its average before."""
    assert set(records[records.table == "3"].dataset) == {"aviary"} and set(defaults[defaults.table == "3"].dataset) == {"FineGrained-Avg"}
    assert records[records.table == "3"].value.tolist() == defaults[defaults.table == "3"].value.tolist()
    assert values(records, table="figure3").equals(values(defaults, table="figure3"))


def one_seed(records, defaults):
    asked = [set(rows[(rows.table == "figure3") & (rows.metric == "CRI")].cases) for rows in (records, defaults)]
    assert asked == [{8.0}, {16.0}]
    spread = [rows[rows.metric == "standard deviation over seeds"].value for rows in (records, defaults)]
    assert spread[0].isna().all() and spread[1].notna().all()


def other_question(records, defaults):
    """Another prompt for slow mode: fast and blind choices stay as they are."""
    of = {"table": "figure3", "metric": "CRI"}
    for same in ({"setting": "blind"}, {"setting": "visual", "t": 0}):
        assert values(records, **same, **of).equals(values(defaults, **same, **of))
    assert not values(records, setting="visual", **of).equals(values(defaults, setting="visual", **of))


def no_lists_of_five(records, defaults):
    """Where the answer holds no list of five, every choice by it is wrong and invalid; the five stages know nothing of it."""
    assert values(records, table="4").equals(values(defaults, table="4"))
    five = records[records.table == "8"]
    assert (values(five, mode="slow") == 0).all() and (values(five, mode="fused") == 0).all()
    assert values(five, mode="fast").equals(values(defaults[defaults.table == "8"], mode="fast"))
    assert (values(records, metric="invalid answers", concepts="five concepts") == 100).all() and (values(defaults, metric="invalid answers", concepts="five concepts") < 50).all()


def another_fused_prompt(records, defaults):
    """Only the fused answers see it."""
    for table in ("4", "8"):
        for mode in ("fast", "slow", "blind"):
            assert values(records[records.table == table], mode=mode).equals(values(defaults[defaults.table == table], mode=mode))
    alone = [values(r, table="conflict", given="alone") for r in (records, defaults)]
    assert alone[0].equals(alone[1])
    assert not values(records, mode="fused").equals(values(defaults, mode="fused"))


def by_step(records, **keys):
    part = values(records, metric="CRI", **keys)
    return [float(value) for _, value in sorted((int(row.rpartition("t=")[2].split(",")[0]), value) for (row, _), value in part.items())]


def the_other_cut(records, defaults):
    """A run whose chains are cut by words is the control of a run that cuts by steps, and the other way round."""
    for one, two, cut in ((records, defaults, "words"), (defaults, records, "steps")):
        assert by_step(one, table="6", sets="paper") == by_step(two, kind=f"cut by {cut}")
    assert by_step(records, kind="five stages") == by_step(defaults, kind="five stages")


def chains_of_the_answers(records, defaults):
    """The shipped model marks its steps in its reasoning, and not in its answer."""
    assert (values(records, table="5") == 0).all() and (values(defaults, table="5") > 3).all()
    assert by_step(records, kind="five stages") == by_step(defaults, kind="five stages")
    assert by_step(records, table="6", sets="paper") != by_step(defaults, table="6", sets="paper")


def looser_tie(records, defaults):
    """With k = 1 the tie lasts longer than with 10: the pair stays more alike; what is not tied knows nothing of it."""
    alone = [values(r, table="tied diffusion", method="prompt alone") for r in (records, defaults)]
    assert alone[0].equals(alone[1])
    apart = "reference and guide apart (grey levels of 255)"
    new, slow, fast = (values(r, parameter="k", at=at, metric=apart).iloc[0] for r, at in ((records, 1), (defaults, 1), (defaults, 10)))
    assert new == slow < fast


def half_of_the_pairs(records, defaults):
    new, old = (values(r, table="building, steps", step="generated") for r in (records, defaults))
    assert (new < old).all() and (new * 3 >= old).all()
    assert values(records, table="building, birds").equals(values(defaults, table="building, birds"))


def another_text(records, defaults):
    assert values(records, table="1").equals(values(defaults, table="1"))
    new, old = (values(r, table="2", clip="aviary_clip") for r in (records, defaults))
    assert not new.equals(old) and new.between(0, 100).all()
    assert values(records, table="2", clip="random").equals(values(defaults, table="2", clip="random"))


def fewer_images(records, defaults):
    new, old = (r[r.table == "text-to-image"] for r in (records, defaults))
    assert set(new.cases) == {4} and set(old.cases) == {8} and len(new) == len(old) and new.value.between(0, 100).all()


def wider_mask(records, defaults):
    """A lower beta lets more through: what is under the attention stays as it was, and less of the light is on the bird."""
    inside, light = ([values(r, table="attention inside", method="gradcam", metric=f"{name} inside (%)").iloc[0] for r in (records, defaults)] for name in ("attention", "light"))
    assert inside[0] == inside[1] and light[0] < light[1]


def another_mask(records, defaults):
    """The judge sees other masked images and the same heat-maps; what asks the model knows of no mask."""
    for name in ("heat", "AOPC"):
        assert values(records, table="1", shown=name).equals(values(defaults, table="1", shown=name))
    masks = [r[(r.table == "2") & (r.shown == "masked")][["alpha", "beta"]].astype(float).to_numpy().tolist() for r in (records, defaults)]
    assert masks == [[[25, 0.2], [15, 0.6]], [[25, 0.4], [15, 0.6]]]


def higher_threshold(records, defaults):
    """A higher threshold moves images from high to low, and touches neither who is right nor the scores."""
    cells = [{name: values(r, table="3", metric=name).to_numpy() for name in ("CH", "CL", "WH", "WL", "Avg")} for r in (records, defaults)]
    new, old = cells
    assert np.allclose(new["CH"] + new["CL"], old["CH"] + old["CL"]) and (new["Avg"] == old["Avg"]).all()
    assert (new["CH"] + new["WH"] < old["CH"] + old["WH"]).all()


def all_is_low(records, defaults):
    """With a threshold above the scale every judged image fails; accuracy is none of the judge's business."""
    assert set(values(records, table="biased models", metric="err")) == {100} != set(values(defaults, table="biased models", metric="err"))
    for name in ("accuracy like training (%)", "accuracy without dots (%)"):
        assert values(records, table="biased models", metric=name).equals(values(defaults, table="biased models", metric=name))


def one_more_map(records, defaults):
    new, old = (set(r[r.table == "costs"].path) for r in (records, defaults))
    assert new == old and {"gradcam, grad-cam", "eigencam, here", "scorecam, bare passes", "rise, here"} <= new and (records.value > 0).all()


CASES = [
    ("11", {"n_samples": [20]}, fewer_examples),
    ("11", {"labels": "class"}, labels_of_classes),
    ("12", {"margin": True}, signed_distances),
    ("12", {"truth_labels": "hard"}, majority_labels),
    ("13", {"hidden": "miss"}, hidden_is_a_miss),
    ("13", {"first": [2], "alpha": [2, 12]}, whole_image),
    ("21", {"penalty": 0.01}, sparser_heads),
    ("21", {"labels": "class"}, labels_by_class),
    ("22", {"omega": 1.0}, another_omega),
    ("22", {"long": False}, plain_clip),
    ("23", {"noise": 0.0, "bias": 0.0}, raters_without_noise),
    ("24", {"omega": 5.0}, twice_the_weight),
    ("31", {"balanced": True}, balanced_row),
    ("31", {"blind_prompt": "fse_choose_image"}, other_words),
    ("32", {"judge": "annotator"}, judged_by_itself),
    ("32", {"balanced": True}, balanced_gap),
    ("32", {"general": ["aviary"]}, all_is_general),
    ("32", {"n_seeds": 1}, one_seed),
    ("32", {"slow_prompt": "fse_choose_both"}, other_question),
    ("33", {"top5_prompt": "fse_chain"}, no_lists_of_five),
    ("33", {"fused_prompt": "fse_choose_concepts"}, another_fused_prompt),
    ("34", {"cut": "words"}, the_other_cut),
    ("34", {"chain_from": "answer"}, chains_of_the_answers),
    ("41", {"beta": 0.1}, wider_mask),
    ("42", {"beta": 0.2}, another_mask),
    ("43", {"threshold": 4.5}, higher_threshold),
    ("44", {"threshold": 6.0}, all_is_low),
    ("51", {"k": 1.0}, looser_tie),
    ("52", {"shards": 2, "shard": 1, "benchmark": "sub_in_parts"}, half_of_the_pairs),
    ("53", {"text": "{attribute}"}, another_text),
    ("81", {"alpha": [1]}, one_region),
    ("82", {"n_attended": 3}, one_more_map),
    ("91", {"seed": 1}, another_seed),
    ("92", {"seed": 1}, another_training),
    ("94", {"n_test": 4}, fewer_images),
]

# (notebook, parameters, what the error says)
WRONG = [
    ("11", {"data": "nowhere"}, "There is no data set 'nowhere'"),
    ("11", {"backbone": "resnet81"}, "There is no backbone 'resnet81'"),
    ("11", {"n_samples": [5000]}, "no concept has 5000 positive and 5000 negative examples"),
    ("12", {"svm_c": "one"}, "Parameter 'svm_c' must be float"),
    ("13", {"hidden": "skip"}, 'hidden must be "leave out" or "miss"'),
    ("13", {"weights": "no_such_file.safetensors"}, "there is no such weights file"),
    ("21", {"models": ["cbm", "cem2"]}, "models has ['cem2']"),
    ("21", {"models": ["lfcbm"], "similarity": 1.5}, "similarity"),
    ("22", {"top_k": [5, 500]}, "by its 500 most important concepts"),
    ("22", {"long": False, "too_long": "error", "top_k": [15], "shown": [1, 15]}, "more than the 77 tokens"),
    ("22", {"scorer": "aviary_klip"}, "Near: aviary_clip"),
    ("23", {"ratings": "no_such_ratings.csv"}, "cannot be read as a table of ratings"),
    ("24", {"template": 6}, "there is no template 6"),
    ("31", {"data": ["nowhere"]}, "There is no data set 'nowhere'"),
    ("31", {"models": ["no_such_annotator"]}, "The model 'no_such_annotator' cannot be loaded"),
    ("31", {"name_prompt": "no_such_prompt"}, "no_such_prompt: no prompt that can be read"),
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
    ("42", {"other_betas": [0.6]}, "each further mask needs one of both"),
    ("42", {"people": "no_such_ratings.csv"}, "no_such_ratings.csv"),
    ("43", {"networks": ["torchvision/fcn_resnet50"], "weights": ["no_such_weights.pth"]}, "no_such_weights.pth"),
    ("43", {"judge": "no_such_annotator"}, "The model 'no_such_annotator' cannot be loaded"),
    ("44", {"classes": ["Blue_Jay", "cat"]}, "classes must be two of aviary's 48"),
    ("44", {"corner": "middle"}, "corner must be one of top right"),
    ("51", {"pipeline": "no_such_pipeline"}, "the pipeline 'no_such_pipeline' could not be loaded"),
    ("51", {"attributes": ["has_crown_color::yelow"]}, "did you mean 'has_crown_color::yellow'"),
    ("53", {"models": []}, "models is empty: name at least one concept model"),
    ("52", {"candidates": ["Cardinel"]}, "did you mean 'Cardinal'"),
    ("52", {"shard": 2, "shards": 2}, "shard 2 of 2: shards are numbered from 0 to 1"),
    ("53", {"benchmark": "nowhere"}, "no parquet file there"),
    ("53", {"models": ["cbm2"]}, "there is no model 'cbm2' in the suite"),
    ("94", {"reader": "no_such_reader"}, "no_such_reader: there is no such reader"),
    ("93", {"annotator": "no_such_annotator"}, "The model 'no_such_annotator' cannot be loaded"),
    ("92", {"clip_weights": "no_such_weights.safetensors"}, "no such file of CLIP weights"),
    ("00", {"show_species": "Cardinel"}, "the nearest is 'Cardinal'"),
    ("00", {"substitutions": ["has_crown_colour::blue"]}, "the nearest of the 312 is 'has_crown_color::blue'"),
]


def papermill(path, folder, parameters):
    """Run a notebook by the plain papermill command, its results going to `folder`."""
    given = folder / "given.yaml"
    given.write_text(yaml.safe_dump({**parameters, "results": str(folder / "results")}))
    command = [sys.executable, "-m", "papermill", str(path), str(folder / path.name), "-f", str(given), "--no-progress-bar"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=os.environ | {"MPLBACKEND": "agg"})


@pytest.fixture(scope="session")
def run_notebook(tmp_path_factory):
    """A function: (number, parameters) -> the records of that run; each distinct run is made once."""
    done = {}

    def run(number, parameters):
        key = number, json.dumps(parameters, sort_keys=True)
        if key not in done:
            folder = tmp_path_factory.mktemp(f"run_{number}_")
            result = papermill(PATHS[number], folder, parameters)
            assert result.returncode == 0, result.stderr[-4000:]
            done[key] = read_records(folder / "results")
        return done[key]

    return run


@pytest.mark.notebooks
@pytest.mark.parametrize("number, parameters, check", CASES)
def test_records_follow_the_parameters(number, parameters, check, run_notebook):
    base = BASE.get(number, {})
    check(run_notebook(number, base | parameters), run_notebook(number, base))


@pytest.mark.notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_misspelt_parameter_is_an_error(path, tmp_path):
    first = next(cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    name = max(declared(first.source), key=len)
    result = papermill(path, tmp_path, {name + "s": 1})
    assert result.returncode != 0
    assert f"has no parameter '{name}s': did you mean '{name}'?" in result.stderr


@pytest.mark.notebooks
@pytest.mark.parametrize("number, parameters, message", WRONG)
def test_wrong_input_is_named(number, parameters, message, tmp_path):
    result = papermill(PATHS[number], tmp_path, parameters)
    assert result.returncode != 0
    assert message in result.stderr


@pytest.mark.notebooks
def test_a_gpu_demanded_where_there_is_none(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    result = papermill(PATHS["11"], tmp_path, {"device": "cuda"})
    assert result.returncode != 0 and "torch sees no GPU here" in result.stderr


@pytest.mark.notebooks
@pytest.mark.parametrize("number", ["11", "12", "13"])
def test_real_birds(number, real_data, tmp_path):
    """The same notebooks on photographs, by an ImageNet network, labels by class where the images have none (slow: thousands of photographs)."""
    birds, weights = real_data("CUB_200_2011_full50"), real_data("weights/squeezenet1_0_imagenet.safetensors")
    some = tmp_path / "some_birds"
    few_classes(birds, some, 6)
    given = {"data": str(some), "labels": "class", "backbone": "squeezenet1_0", "weights": str(weights)}
    result = papermill(PATHS[number], tmp_path, given | ({"n_samples": [30]} if number == "11" else {"n_samples": 30}))
    assert result.returncode == 0, result.stderr[-4000:]
    records = read_records(tmp_path / "results")
    assert set(records.data) == {"some_birds"} and set(records.model) == {"squeezenet1_0"} and records.value.notna().any()


@pytest.mark.notebooks
@pytest.mark.parametrize("number, table, metric, chance", [("31", "contradictions", "contradiction rate", 80), ("32", "figure3", "CRI", 20)])
def test_real_photographs(number, table, metric, chance, real_data, tmp_path):
    """Flowers and objects, which the shipped annotator has never seen, in sets that give nothing away: what is measured is chance."""
    flowers, things, weights = (str(real_data(name)) for name in ("images/flowers5", "images/cifar10", "weights/squeezenet1_0_imagenet.safetensors"))
    given = {"data": [flowers, things], "backbone": "squeezenet1_0", "weights": weights, "n_cases": 60}
    result = papermill(PATHS[number], tmp_path, given | ({"general": [things], "n_seeds": 1} if number == "32" else {}))
    assert result.returncode == 0, result.stderr[-4000:]
    records = read_records(tmp_path / "results")
    assert {"flowers5", "cifar10"} <= set(records.data)
    found = records[(records.table == table) & (records.metric == metric) & (records.sets == "balanced")]
    assert len(found) >= 4 and abs(found.value.mean() - chance) < 10


@pytest.mark.notebooks
def test_a_benchmark_of_photographs(real_data, tmp_path):
    """Photographs in the published SUB's layout, their labels made up: they are read and scored, beside models trained on real birds."""
    from xaihelpers import birds, substitute

    real, weights = real_data("CUB_200_2011_full50"), real_data("weights/squeezenet1_0_imagenet.safetensors")
    few_classes(real, tmp_path / "some_birds", 6)
    world = birds.load_birds(tmp_path / "some_birds", attributes="class")
    names, attributes = world.classes.name.tolist(), ["has_wing_color--blue", "has_crown_color--red"]
    images = world.images.groupby("label").head(4)
    substitute.write_sub(tmp_path / "photographs", images.path.tolist(), [attributes[i % 2] for i in range(len(images))], [names[label] for label in images.label], attributes, names)
    given = {"data": str(tmp_path / "some_birds"), "labels": ["class"], "label_kinds": ["hard"], "models": ["cbm_independent", "cem"], "backbone": "squeezenet1_0", "weights": str(weights), "benchmark": str(tmp_path / "photographs")}
    result = papermill(PATHS["53"], tmp_path, given)
    assert result.returncode == 0, result.stderr[-4000:]
    records = read_records(tmp_path / "results")
    assert values(records[records.bottleneck != "random"], table="1", metric="T").between(70, 100).all()
    assert set(records[(records.table == "2") & (records.metric == "S+")]["clip"]) == {"aviary_clip", "random"}


@pytest.mark.notebooks
def test_attention_on_photographs(real_data, tmp_path):
    """ImageNet's network on cats and dogs: its maps are made and measured; the shipped judge has never seen such things, so that its scores are only counted."""
    images, weights = real_data("images/cats_dogs.csv"), real_data("weights/squeezenet1_0_imagenet.safetensors")
    (tmp_path / "labels.json").write_text(json.dumps({"cat": ["281-285"], "dog": ["151-268"]}))
    given = {"data": str(images), "networks": ["squeezenet1_0"], "weights": [str(weights)]}
    for number, more in (("42", BASE["42"] | {"ratings": str(tmp_path / "ratings.sqlite")}), ("43", {"n_images": 40, "same_as": [str(tmp_path / "labels.json")]})):
        result = papermill(PATHS[number], tmp_path, more | given)
        assert result.returncode == 0, result.stderr[-4000:]
    records = read_records(tmp_path / "results")
    correct = values(records, table="3", metric="CH").iloc[0] + values(records, table="3", metric="CL").iloc[0]
    assert 50 < correct <= 100 and not (records.metric == "Pearson correlation").any()  # 123 of 1000 classes are right; there is nothing to correlate with
    assert values(records, table="measures that ask the model", metric="AOPC (points)").iloc[0] > 20


@pytest.mark.notebooks
def test_biased_models_of_photographs(real_data, tmp_path):
    """A pretrained network is fine-tuned on forty cats and forty dogs, once with a red dot on the cats, and learns them better than chance."""
    images, weights = real_data("images/cats_dogs.csv"), real_data("weights/squeezenet1_0_imagenet.safetensors")
    given = {"data": str(images), "classes": ["cat", "dog"], "backbone": "squeezenet1_0", "start": str(weights), "n_train": 40, "n_models": 2, "n_judged": 4, "epochs": 5}
    result = papermill(PATHS["44"], tmp_path, given)
    assert result.returncode == 0, result.stderr[-4000:]
    records = read_records(tmp_path / "results")
    found = records[records.table == "biased models"].pivot(index="of", columns="metric", values="value")
    assert list(found.index) == ["biased", "normal"] and (found["accuracy like training (%)"] > 65).all()


def few_classes(birds, folder, count):
    """The first classes of a data set in CUB's format as a data set of its own: tables cut, images linked."""
    images = [line.split() for line in (birds / "image_class_labels.txt").read_text().splitlines()]
    keep = {image for image, label in images if int(label) <= count}
    (folder / "parts").mkdir(parents=True)
    for name in ("images", "attributes", "classes.txt", "parts/parts.txt"):
        (folder / name).symlink_to(birds / name)
    for name in ("images.txt", "image_class_labels.txt", "train_test_split.txt", "bounding_boxes.txt", "parts/part_locs.txt"):
        lines = (birds / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(line for line in lines if line.split()[0] in keep))
