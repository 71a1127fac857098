"""What the nets of notebooks share: executing one, its marked outputs, its cells in this process."""

import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
from filelock import FileLock

from xaihelpers import run as driver
from xaihelpers.parameters import declared_parameters
from xaihelpers.paths import cache_home
from xaihelpers.records import Run, read_records
from xaihelpers.teaching.exercises import role

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
PATHS = {path.name[:2]: path for path in NOTEBOOKS}
MARK = "# NBVAL_CHECK_OUTPUT"


# Parameters that keep a notebook's runs short here; also of the run that cases are compared with.
BASE = {
    "11": {"n_samples": [50], "svm_c": [0.1, 1.0], "draws": 2},
    "12": {"permutations": 20, "draws": 2},
    "13": {"draws": 2, "rival": ""},
    "14": {"decorrelated": [0, 100], "draws": 2, "n_pairs": 12},
    "21": {"models": ["cbm", "lfcbm_unsupervised"], "corrected": [0, 100], "draws": 2},
    "22": {"models": ["cbm", "phcbm"], "draws": 2, "n_images": 40, "top_k": [3, 8], "shown": [1, 8]},
    "23": {"models": ["cbm", "phcbm"], "n_items": 40, "draws": 2},
    "24": {"n_images": 40, "n_replaced": [1, 3], "draws": 2},
    "25": {"models": ["cbm", "phcbm"], "draws": 2, "n_universes": 4, "n_images": 10},
    "31": {"data": ["aviary"], "n_cases": 30},
    "32": {"data": ["aviary"], "general": [], "n_cases": 8, "n_seeds": 2},
    "33": {"n_cases": 12, "n_seeds": 1},
    "34": {"n_cases": 12, "n_seeds": 1},
    "41": {
        "n_measured": 6,
        "n_slow": 1,
        "n_masks": 10,
        "n_shown": 2,
        "methods": ["cam", "gradcam", "eigencam", "rise"],
        "draws": 2,
        "shares": [0.02, 1.0],
        "n_shuffled": 4,
        "n_parts": 2,
        "n_perturbed": 3,
        "steps": 3,
        "n_trained": 96,
    },
    "42": {
        "n_images": 6,
        "networks": ["aviary_resnet"],
        "steps": 3,
        "draws": 2,
        "lengths": [],
        "other_alphas": [15.0],
        "other_betas": [0.6],
        "ratings": "ratings_of_tests.sqlite",
    },
    "43": {"n_images": 8, "networks": ["aviary_resnet", "segmenter"], "draws": 2},
    "44": {
        "n_models": 4,
        "n_judged": 4,
        "epochs": 12,
        "strengths": [0.5],
        "n_dose": 1,
        "n_shown": 3,
        "draws": 2,
        "methods": ["gradcam", "eigencam"],
    },
    "45": {"n_images": 12, "repeats": 2, "lengths": ["short"]},
    "51": {
        "n_pairs": 2,
        "n_rivals": 2,
        "n_shown": 1,
        "steps": 4,
        "n_compared": 2,
        "other_k": [1.0],
        "other_t_min": [],
        "other_t_max": [],
    },
    "52": {
        "candidates": ["Yellow_Warbler", "Blue_Jay"],
        "attributes": ["has_breast_color::red", "has_crown_color::black"],
        "n_recognised": 2,
        "recognised": 0.5,
        "n_real": 120,
        "accuracy": 0.5,
        "n_per_pair": 4,
        "human_accuracy": 0.1,
        "n_compared": 6,
        "n_learnt": 24,
        "benchmark": "sub_of_tests",
    },
    "53": {
        "benchmark": "",
        "exact": "sub_exact_of_tests",
        "n_rendered": 24,
        "epochs": 3,
        "draws": 2,
        "labels": ["class"],
        "label_kinds": ["hard"],
        "models": ["cbm_independent", "cem"],
    },
    "54": {
        "decorrelated": [0, 100],
        "features": ["parts"],
        "models": ["cbm"],
        "draws": 2,
        "epochs": 20,
        "attributes": ["has_crown_color::black", "has_wing_color::white", "has_leg_color::grey"],
        "birds_per_attribute": 3,
        "every": 16,
    },
    "61": {
        "models": ["cbm"],
        "planted": ["permuted names"],
        "mapped": [],
        "clip": "",
        "scorer": "",
        "n_pairs": 12,
        "n_covered": 3,
        "n_unlabelled": 40,
    },
    "62": {
        "doses": [0.5, 1.0],
        "draws": 2,
        "sizes": [100],
        "n_pairs": 60,
        "n_texts": 12,
        "n_cases": 12,
        "n_maps": 6,
        "steps": 5,
        "n_hacked": 2,
        "scorer": "",
    },
    "63": {"draws": 100, "largest": 600},
    "81": {
        "n_images": 20,
        "n_concepts": 6,
        "n_files": 20,
        "repeats": 1,
        "n_scored": 4,
        "n_pairs": 100,
        "n_asked": 8,
        "n_requests": 32,
        "latency": 0.02,
        "n_tied": 2,
        "n_substituted": 500,
    },
    "82": {"n_attended": 2, "n_masks": 8, "n_perturbed": 2, "steps": 2, "repeats": 1, "image_side": 64},
    "91": {"epochs": 1, "size": 48},
    "92": {
        "drawn": 20,
        "attribute_steps": 2,
        "caption_steps": 2,
        "joint_steps": 1,
        "long_steps": 1,
        "batch_size": 16,
    },
    "93": {
        "stored_pictures": 20,
        "birds_drawn": 8,
        "things_drawn": 8,
        "portraits_drawn": 16,
        "judged": 16,
        "tower_steps": 1,
        "match_steps": 1,
        "letter_steps": 1,
        "task_steps": 2,
        "choice_steps": 2,
        "last_steps": 1,
        "judge_steps": 1,
        "batch_size": 16,
        "lesson_draws": 2,
        "lesson_pictures": 8,
        "lesson_steps": 2,
        "n_test": 8,
    },
    "94": {
        "drawn": 24,
        "autoencoder_steps": [1, 1],
        "flow_steps": [1, 1, 1],
        "guidance_steps": 1,
        "reader_steps": [1, 1],
        "changed": 8,
        "batch_size": 8,
        "n_test": 8,
        "lesson_draws": 2,
        "lesson_portraits": 8,
        "lesson_steps": 2,
        "lesson_images": 3,
    },
}


def code_cells(path: Path) -> list:
    """The code cells of a notebook, in order."""
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def executed_at_defaults(i: str) -> dict:
    """Notebook `i`, executed at its defaults by the collection's own runner, after those it needs.

    Runs lie in the cache, under a key of all that they depend on, so a second call, in another process as
    well, reads what the first has made. Tests in several processes share the work: each takes what none has
    begun.
    """
    results = cache_home() / "test_runs"
    (results / "notebooks").mkdir(parents=True, exist_ok=True)
    (job,) = [job for job in driver.find_jobs(FOLDER, [], results) if job.id == i]
    for needed in job.needs:
        executed_at_defaults(needed)
    with FileLock(results / f".{i}.lock"):
        job.key = driver.current_key(job, results)
        if not driver.is_up_to_date(job, results):
            driver.launch(job, int(os.environ["OMP_NUM_THREADS"]), results)
            job.process.wait()
            error = driver.finish(job, results, inplace=False)
            assert not error, f"{job.path.stem}: {error}"
    return json.loads(job.output.read_text())


def marked_outputs(notebook: dict) -> list[tuple[str, str]]:
    """(source, text of the outputs) of each cell marked for comparison; figures are not compared."""
    marked = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and MARK in source.splitlines():
            marked.append((source, "".join(_output_text(output) for output in cell["outputs"])))
    return marked


def _output_text(output: dict) -> str:
    data = output.get("data", {})
    parts = (output.get("text", ""), data.get("text/plain", ""), data.get("text/html", ""))
    return "\n".join("".join(part) for part in parts if part)


def run_cells(i: str, parameters: dict, results: Path, rendered: bool = True):
    """Execute the cells of notebook `i` here, with other parameters; returns the records of that run.

    As papermill does, the parameters are set in a cell of their own behind the first one. A process that has
    imported the libraries already saves half of the time that a kernel would take.

    Each exercise is tried both ways: its check must refuse the stub and pass the answer.

    rendered: whether figures are drawn to pixels, a quarter of a short run; without, they are only made.
    """
    cells = code_cells(PATHS[i])
    first, *others = [cell.source for cell in cells]
    checks = {}  # place of an answer -> the check behind it
    for place, cell in enumerate(cells[1:]):
        if role(cell) == "answer":
            checks[place] = others[place + 1]
    assert declared_parameters(first)
    values = {**parameters, "results": str(results)}
    injected = "# Parameters\n" + "".join(f"{name} = {value!r}\n" for name, value in values.items())
    history: list[str] = [""]
    namespace = {"__name__": "__main__", "In": history, "display": _display}
    figure = Run.figure if rendered else _figure_without_pixels
    try:
        with patch.object(Run, "figure", figure):
            for place, source in enumerate((first, injected, *others), start=-2):
                if place in checks:
                    _refuses_the_stub(checks[place], namespace)
                history.append(source)
                exec(compile(source, f"{PATHS[i].stem}, cell {len(history) - 1}", "exec"), namespace)
    finally:
        plt.close("all")
        namespace.clear()
    return read_records(results)


def _refuses_the_stub(check: str, namespace: dict) -> None:
    """Run an exercise's check after its stub; an exercise that this run leaves out says so instead."""
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            exec(compile(check, "check after the stub", "exec"), namespace)
    except AssertionError as error:
        assert str(error), f"says nothing of what is wrong: {check}"
    else:
        assert "left out" in said.getvalue(), f"passes a stub: {check}"


def _figure_without_pixels(run: Run, fig, name: str, caption: str) -> None:
    run._figures[name] = b"", caption


def _display(*shown, **_) -> None:
    """Render what a notebook displays, as a browser would ask for it."""
    for one in shown:
        repr(one)
        if hasattr(one, "_repr_html_"):
            one._repr_html_()


def values(records, **keys):
    """The values of the rows with these keys, by what else tells rows apart."""
    for name, value in keys.items():
        column = records[name] if isinstance(value, str) else pd.to_numeric(records[name], errors="coerce")
        records = records[column == value]
    assert len(records)
    return records.set_index(["row", "metric"]).value
