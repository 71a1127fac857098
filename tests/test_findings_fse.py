"""What notebooks 31 to 34 say of annotators with a known fault, and of pictures without labels."""

import shutil
from pathlib import Path

import pytest
from notebook_nets import BASE, run_cells, values

from xaihelpers import datasets
from xaihelpers.records import read_runs

pytestmark = [pytest.mark.notebooks, pytest.mark.xdist_group("findings of fse")]
FAULTY = Path(__file__).parent / "own_files" / "faulty_annotator.py"
FAILED = "instrument failed"


@pytest.fixture
def page_of(tmp_path):
    """A function: notebook, fault of the annotator -> its records, and its verdicts by claim."""

    def run(number, fault, **parameters):
        model, results = tmp_path / "my_model.py", tmp_path / f"{number} {fault}"
        model.write_text(FAULTY.read_text().replace('FAULT = ""', f'FAULT = "{fault}"'))
        given = BASE[number] | {"models": [f"python:{model}"], "data": ["aviary"]} | parameters
        records = run_cells(number, given, results)
        (ran,) = read_runs(results)
        return records, {verdict["claim"]: verdict for verdict in ran["verdicts"]}

    return run


def test_who_recites_is_found_out(page_of):
    """Its words hold for ordinary birds and not for changed ones, and CRI is as high as before."""
    records, verdicts = page_of("32", "recites", sets="class", n_cases=48, n_drawn=96)
    liar = records[records.annotator.fillna("").str.startswith("from the picture")]
    true = values(liar, table="planted annotators").droplevel("row")
    assert true["true of birds"] > 90 > 20 > true["true of the changed group"]
    by_ideal = values(liar, table="planted annotators, CRI", reader="the ideal reader", sets="class", t=5)
    assert by_ideal.item() > 90
    rises = verdicts["fse-cri-rises-with-stages"]
    assert rises["outcome"] == FAILED and not rises["controls"]["the words describe the picture"]
    sees = verdicts["fse-cri-sees-reciting"]
    assert sees["outcome"] == FAILED and not sees["controls"]["the truth orders them"]


def test_who_names_the_class_in_its_words_is_found_out(page_of):
    _, verdicts = page_of("32", "names the class")
    assert not verdicts["fse-slow-below-fast"]["controls"]["they do not name the class"]


def test_who_reads_no_words_beside_a_picture_follows_the_picture(page_of):
    """Whatever the words: with 80 pairs of equal answers the claim holds, and no control refuses it."""
    records, verdicts = page_of("33", "deaf", n_cases=80, top5_prompt="fse_top5", seed=0)
    assert verdicts["fse-top-five-fused-unchanged"]["outcome"] == "holds"
    fair = {"table": "conflict", "conflicts": "fair"}
    assert (values(records, metric="picture (%)", **fair) == 100).all()
    assert (values(records, table="conflict, steps") == 0).all()


def test_lists_that_say_nothing_are_found_out(page_of):
    _, verdicts = page_of("33", "lists nothing", n_cases=40, top5_prompt="fse_top5")
    for claim in ("fse-top-five-alone-near-guess", "fse-top-five-fused-unchanged"):
        assert verdicts[claim]["outcome"] == FAILED
        assert not verdicts[claim]["controls"]["the lists say what is there"]


def test_who_sees_only_the_options_decides_nothing(page_of):
    _, verdicts = page_of("31", "sees only the options")
    assert verdicts["fse-lookalikes-contradict-more"]["outcome"] == FAILED


@pytest.mark.parametrize("number", ["31", "32", "33", "34"])
def test_pictures_in_folders_without_labels_are_enough(number, tmp_path):
    """Six classes by other names, of which nothing else is known: the annotator names none of them."""
    birds = datasets.load("aviary")
    few = birds.images[birds.images.label < 6].groupby(["label", "train"]).head(3)
    for row in few.itertuples():
        place = tmp_path / "mine" / ("train" if row.train else "test") / f"kind {'abcdef'[row.label]}"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(row.path, place)
    given = BASE[number] | {"data": [str(tmp_path / "mine")]}
    records = run_cells(number, given, tmp_path / "results")
    assert (records.data == "mine").any()
