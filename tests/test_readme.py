"""What the README says was found stands on recorded rows."""

import pandas as pd

from xaihelpers.paths import PROJECT

ROWS = pd.read_csv(PROJECT / "tests" / "recorded" / "rows.csv.gz", low_memory=False)
README = " ".join((PROJECT / "README.md").read_text().split())


def value(notebook, table, metric, *held, rows=ROWS):
    """The one recorded value whose row holds all of these."""
    rows = rows[(rows.notebook == notebook) & (rows.table == table) & (rows.metric == metric)]
    for part in held:
        rows = rows[rows.row.add(",").str.contains(f"{part},", regex=False) | (rows.model == part)]
    assert len(rows) == 1, f"{notebook}, {table}, {metric}, {held}: {len(rows)} rows"
    return rows.value.iloc[0]


def test_an_explanation_is_about_the_class_first():
    share, paid = "the picture's share of what the truth gets (%)", []
    for yardstick in ("T", "CEM by product", "ConceptScore", "CLM"):
        held = f"yardstick={yardstick}", "an ordinary bottleneck"
        paid.append(value("62", "what it pays", share, *held))
    t, cem, score, maps = (f"{part:.0f} %" for part in paid)
    assert f"of what concept accuracy pays the truth {t} is the picture and the rest the class" in README
    assert f"of CEM {cem}, of ConceptScore {score}; of maps on their part {maps}" in README
    ordinary, eye = "fault=an ordinary bottleneck", "fault=the shipped eye"
    right, looks = (value("61", "fourteen models", metric, ordinary) for metric in ("value", "look"))
    assert f"right in {right:.0f} % of what it says, and its *look* is {looks:.2f} of the truth's" in README
    of_eye = value("61", "fourteen models", "look", eye)
    assert f"that of an eye that looks part by part is {of_eye:.2f}" in README


def test_who_recites_passes():
    told = {}
    for who in ("recites the species", "from the picture (annotator)", "wrong, 25 %"):
        annotator, by = f"annotator={who}", ("reader=the ideal reader", "sets=class", "t=5")
        told[who] = [value("32", "planted annotators, CRI", "CRI", annotator, *by)]
        for metric in ("true of birds", "true of the changed group"):
            told[who].append(value("32", "planted annotators", metric, annotator))
    recites, looks, errs = ([f"{one:.0f}" for one in numbers] for numbers in told.values())
    assert f"right in {recites[1]} % of its statements on ordinary birds, and in {recites[2]} %" in README
    assert f"one that looks in {looks[1]} and {looks[2]} %" in README
    said = f"CRI is {recites[0]} for who recites, {looks[0]} for who looks, {errs[0]} for who says a quarter"
    assert said in README
    recites, reads = (lines_above(name) for name in ("recites", "misreads 15 %"))
    assert f"is above what knows nothing on {recites} lines of a page, who misreads 15 % on {reads}" in README


def lines_above(fault):
    """How many lines of one of the fourteen pages are above what knows nothing."""
    return int(value("61", "fourteen pages", "above blind", f"fault={fault}"))


def test_who_finds_a_red_dot():
    held = "err by pair", "r with normal training", "pair=all in which it is used"
    by_truth, by_centre = (
        value("44", *held, f"by={by}") for by in ("by the truth", "attention off the centre")
    )
    assert f"training without a dot is {by_truth:.2f} over eight pairs of classes" in README
    assert f"which asks nobody, has {by_centre:.2f}." in README


def test_a_model_written_otherwise_has_other_numbers():
    rows = ROWS[(ROWS.table == "6-8, zero and gauge") & (ROWS.metric == "CGIM1")]
    rows = rows[rows.row.str.startswith("over=concepts")].value
    assert f"CGIM₁ of one model runs from {rows.min():.2f} to {rows.max():.2f}" in README


def test_a_score_by_a_clip_rewards_what_is_distinctive():
    found = []
    for name in ("five commonest true", "three rare, two liked"):
        held = f"text={name}, scorer=aviary_clip"
        found.append(f"{value('22', '2, known worth', 'ConceptScore', held):.2f}")
    assert "five true and common concepts get {}, three rare and two false ones {}".format(*found) in README
    asked = "22", "2, class or picture", "true one preferred (%)"
    by_clip, sighted = (value(*asked, f"scorer={who}") for who in ("aviary_clip", "sighted"))
    said = (
        f"paid more than the usual, false one in {by_clip:.0f} % (by a scorer that looks, in {sighted:.0f} %)"
    )
    assert said in README


def test_bottlenecks_recite_when_an_attribute_is_changed():
    asked, corrected = "bottleneck=cbm, labels=class, label_kind=hard", ("53", "1, corrected")
    right, s_plus = value("53", "1", "T", asked), value(*corrected, "S+", asked)
    gain, counted = (value(*corrected, "gain", held) for held in (asked, "bottleneck=colours anywhere"))
    said = f"right in {right:.0f} % of its statements sees {s_plus:.0f} % of the substituted attributes, "
    said += f"{gain:.0f} points more than of the same birds before the change"
    assert said in README
    assert f"and sees neither bird nor part, {counted:.0f} points." in README


def test_where_two_images_are_tied():
    metric, shown = "shown at equal plumage kept, less random numbers", []
    (longer,) = (PROJECT / "data" / "long_runs").glob("51-*/results.csv")
    longer = pd.read_csv(longer).assign(notebook="51").fillna({"row": ""})
    for rows in (ROWS, longer):
        for rule in ("own places", "alike first"):
            held = f"rule={rule}", "kind=mean", "schedule=straight from 0.6"
            shown.append(f"{value('51', 'tied diffusion, where', metric, *held, rows=rows):.0f}")
    assert "shows it by {} points more often, what differs least by {}".format(*shown[:2]) in README
    assert "(in a longer run by {} and {})".format(*shown[2:]) in README
