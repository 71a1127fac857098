"""The bill before a run: counts by hand, what it says of money, memory and time, and that it asks nothing."""

import json
from types import SimpleNamespace

import pytest

from xaihelpers import bill, paths, run, spending
from xaihelpers.ask import AskError, LocalModel, ServerModel
from xaihelpers.bill.asked import Questions
from xaihelpers.bill.data_sizes import DRAWN, SizeError, data_size
from xaihelpers.bill.judge_questions import OF_NAME_ALONE, OTHERS, different_names
from xaihelpers.bill.model_sizes import model_size, network_size
from xaihelpers.bill.rates import Rate, earlier_answers
from xaihelpers.devices import resolve_device
from xaihelpers.parameters import ParameterError, complete_parameters
from xaihelpers.report.run_tables import bills_html
from xaihelpers.sweep.grid import find_notebook, notebook_parameters
from xaihelpers.sweep.grid_files import read_preset
from xaihelpers.timing import describe_device

H200 = bill.rate_of("H200")
PRESETS = sorted((paths.PROJECT / "notebooks").glob("*.paper.yaml"))


def parameters(number, **given):
    return complete_parameters(notebook_parameters(find_notebook(number)), given)


def counts(number, **given):
    found = {}
    for one in bill.estimate(number, parameters(number, **given), H200, "never run").questions:
        found[one.what] = found.get(one.what, 0) + one.count
    return found


@pytest.fixture(autouse=True)
def nothing_is_asked(monkeypatch, tmp_path):
    """Whatever is planned, no model is loaded and no server addressed; and nothing was asked before."""

    def refuse(*arguments, **named):
        raise AssertionError("a plan has loaded or asked a model")

    monkeypatch.setattr(LocalModel, "__init__", refuse)
    monkeypatch.setattr(ServerModel, "__init__", refuse)
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.name[:2])
def test_every_preset_has_a_bill(preset):
    number = preset.name[:2]
    made = bill.estimate(number, parameters(number, **read_preset(preset)), H200)
    assert not made.problems, made.problems
    text = bill.bill_text(made, preset.stem, H200)
    assert made.seconds >= 0 and "STOPS" not in text
    if number in ("31", "32", "33", "34", "42", "43", "44"):
        assert min(line.requests for line in made.asked) > 500
        assert min(line.tokens_in / line.requests for line in made.asked) > 60


def test_32_counted_by_hand():
    found = counts(
        "32", data=["flowers102"], general=[], n_cases=2, n_seeds=1, other_chain_prompts=["fse_chain_paper"]
    )
    blind = found.pop("choices by nothing")
    assert found == {
        "chains": 4,  # two images in each kind of sets
        "chains of names": 4,
        "fast choices": 4,
        "slow choices": 5 * 4 + 5 * 4,  # five stages of each image's chain, and of each name's
        "chains by fse_chain_paper": 2,  # the balanced cases of the first seed
        "choices by fse_chain_paper": 2,
        "exercises": 5 * 2,
    }
    assert blind in (15, 20)  # five turns of each different set


def test_34_counted_by_hand():
    found = counts("34", data=["flowers102"], n_cases=3, n_seeds=1)
    classes = found["reasonings"]
    assert found["chains of names"] == classes and 3 <= classes <= 6
    # by the reasoning in six cases, by stages in three, by single segments but the first, by the other cut
    assert found["slow choices"] == 5 * 6 + 5 * 3 + 4 * 3 + 5 * 3
    assert found["exercises"] == 5 * 3


def test_a_temperature_asks_each_seed_for_itself():
    given = {"data": ["flowers102"], "general": [], "n_cases": 4, "n_seeds": 3}
    warm, cold = counts("32", temperature=0.5, **given), counts("32", **given)
    assert warm["chains of names"] >= cold["chains of names"] and warm["chains"] >= cold["chains"]


def test_42_counted_by_hand():
    found = counts(
        "42",
        data="imagenet",
        networks=["a", "b"],
        n_images=10,
        other_alphas=[15.0, 25.0],
        other_betas=[0.6, 0.4],  # the second one is the first mask again
        lengths=["short"],
    )
    proof = OTHERS * 20 + OF_NAME_ALONE * different_names(20, DRAWN["aviary"][2])
    assert found["maps, masked"] == 2 * 20 and found["maps, as heat"] == found["maps, short prompt"] == 20
    assert found["proof of the judge, masked"] == pytest.approx(proof)
    assert found["maps, the code's prompt"] == 20 and found["exercises"] == 40


def test_names_drawn_with_repetition():
    assert different_names(1, 48) == pytest.approx(1)
    assert different_names(2, 2) == pytest.approx(1.5)
    assert different_names(10**6, 48) == pytest.approx(48)


def test_what_was_answered_is_not_counted_again():
    given = parameters("32", data=["flowers102"], general=[], models=["server:gpt-4o"])
    whole = bill.estimate("32", given, H200, "32-run").asked[0]
    account = spending.begin(name="32-run")
    account.line("gpt-4o").keys |= set(range(int(whole.requests // 2)))
    account.keep_progress()
    rest = bill.estimate("32", given, H200, "32-run").asked[0]
    assert rest.cached == whole.requests // 2
    assert rest.cost == pytest.approx(whole.cost / 2, rel=0.01)


def test_a_model_that_does_not_fit_says_by_how_much():
    given = parameters(
        "32", data=["flowers102"], general=[], models=["meta-llama/Llama-3.2-90B-Vision-Instruct"]
    )
    (text,) = bill.estimate("32", given, H200).too_large
    assert "needs 213 GB and H200 has 141: 72 GB too little" in text and "server:NAME" in text
    served = parameters(
        "32", data=["flowers102"], general=[], models=["server:meta-llama/Llama-3.2-90B-Vision"]
    )
    assert bill.estimate("32", served, H200).too_large == []


def test_time_by_hand():
    rate = Rate("device", 1e9, 1e12, 1e11, 0.5, 0.5, 2, 10)
    assert rate.of_flops(5e12) == 10
    # reading is 2 · 10¹² operations; writing is 100 steps of 40 ms, ten requests at a time
    assert rate.of_answers(1.0, 1000, 100) == pytest.approx(4 + 100 * 0.04 / 10)


def test_this_machine_is_measured():
    rate = bill.rate_of("")
    assert rate.flops > 1e8 and rate.memory > 1e8


def test_recorded_runs_tell_how_long_answers_take_here(tmp_path):
    device = describe_device(resolve_device("auto", ParameterError))
    for name, about, seconds in (("31-a", device, 3.0), ("32-b", device, 5.0), ("33-c", "another", 900.0)):
        (tmp_path / name).mkdir()
        row = {"model": "annotator", "asked": 40, "seconds": seconds}
        entry = {"started": name, "device": about, "bill": {"asked": [row]}}
        (tmp_path / name / "run.json").write_text(json.dumps(entry))
    assert earlier_answers(tmp_path) == {"annotator": pytest.approx(0.1)}
    given = parameters("32", data=["flowers102"], general=[])
    (line,) = bill.estimate("32", given, H200._replace(earlier={"annotator": 0.1})).asked
    assert line.seconds == pytest.approx(0.1 * line.requests)


def test_the_report_shows_what_models_were_asked(tmp_path):
    row = {"model": "m<1>", "requests": 10, "asked": 7, "cached": 3, "failed": 1, "truncated": 2, "images": 4}
    row |= {"tokens_in": 12345, "tokens_out": 67, "seconds": 8.0, "cost": 1.5, "currency": "USD"}
    made = {"folder": tmp_path / "31-a", "bill": {"asked": [row], "peak": {"memory": 2.5e9}}}
    html = bills_html([made, {"folder": tmp_path / "11-b"}])
    for text in ("31-a", "m&lt;1&gt;", "12,345", "1.50 USD", "2.5"):
        assert text in html
    assert bills_html([{"folder": tmp_path / "11-b"}]) == ""


@pytest.mark.parametrize("model, code", [("server:gpt-4o", 0), ("no_such_model", 1)])
def test_the_command_prints_the_bill_and_runs_nothing(model, code, capsys, tmp_path):
    given = ["-p", "data=[flowers102]", "-p", "general=[]", "-p", "n_cases=2", "-p", f"models=['{model}']"]
    asked = ["32", *given, "--plan", "--on", "H200", "--results", str(tmp_path / "results")]
    assert run.main(asked) == code
    said = capsys.readouterr().out
    assert "not here, counted at its published size: flowers102" in said
    assert ("STOPS: The model 'no_such_model' cannot be loaded" in said) == bool(code)
    assert not (tmp_path / "results").exists()
    assert run.main(["32", *given, "--plan", "--on", "H2000"]) == 2


def test_an_unknown_device_is_named():
    with pytest.raises(
        ParameterError, match="--on H20: there is no such device in .*devices.csv; it holds H200"
    ):
        bill.rate_of("H20")


@pytest.mark.parametrize(
    "given, problem",
    [
        ({"models": ["no_such_model"]}, "The model 'no_such_model' cannot be loaded"),
        ({"chain_prompt": "no_such_prompt"}, "no_such_prompt: no prompt that can be read"),
        ({"models": ["server:a-model-without-a-price"]}, "has no price in"),
        ({"prices": "nowhere.csv"}, "there is no file nowhere.csv"),
        ({"data": ["no_such_data"]}, "there is no 'no_such_data' here, nor its size"),
    ],
)
def test_what_would_stop_a_run_is_said(given, problem):
    made = bill.estimate("32", parameters("32", **({"data": ["flowers102"], "general": []} | given)), H200)
    assert any(problem in one for one in made.problems)
    assert f"STOPS: {made.problems[0]}" in bill.bill_text(made, "32", H200)


def test_a_server_without_address_is_a_problem(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    given = parameters("32", data=["flowers102"], general=[], models=["server:gpt-4o"])
    made = bill.estimate("32", given, H200)
    assert "server:gpt-4o needs the address of a server" in made.problems[0]
    assert made.asked[0].requests > 0  # and is counted all the same


def a_run(**given):
    p = parameters("32", data=["flowers102"], general=[], n_cases=2, n_seeds=1, **given)
    return SimpleNamespace(notebook="32", parameters=p, run_folder=SimpleNamespace(name="32-run"))


def test_the_limit_stops_a_run_before_it_asks():
    priced = a_run(models=["server:gpt-4o"])
    with pytest.raises(spending.SpendingError, match="about 0.0. USD, and the parameter spend_at_most is 0"):
        bill.before_asking(priced, 0.0)
    bill.before_asking(priced, 1.0)
    assert spending.account().limit == 1.0 and spending.account().name == "32-run"
    bill.before_asking(a_run(models=["annotator"]), 0.0)  # which costs nothing


def test_names_are_checked_before_a_run_asks():
    with pytest.raises(AskError, match="The model 'no_such_model' cannot be loaded"):
        bill.before_asking(a_run(models=["annotator"], judge="no_such_model"), 0.0)
    with pytest.raises(spending.SpendingError, match="has no price"):
        bill.before_asking(a_run(models=["server:who"]), 9.0)


def test_models_of_ones_own_and_recorded_answers_cost_nothing(tmp_path):
    function = tmp_path / "mine.py"
    bill.before_asking(a_run(models=[f"record:{tmp_path}/new.jsonl:annotator"]), 0.0)
    with pytest.raises(AskError, match="python:.*mine.py: there is no file"):
        bill.before_asking(a_run(models=[f"python:{function}"]), 0.0)
    function.write_text("def answer(requests): return []")
    bill.before_asking(a_run(models=[f"python:{function}"]), 0.0)
    made = bill.estimate("32", a_run(models=[f"python:{function}"]).parameters, H200)
    assert made.asked[0].requests > 0 and made.asked[0].cost == made.asked[0].memory == 0


def test_sizes_of_what_is_not_here():
    cars = data_size("stanford_cars")
    assert (cars.n_images, len(cars.test_rows), len(cars.class_names)) == (16185, 8041, 196)
    assert not cars.has_attributes and cars.neighbours.shape == (196, 4)
    with pytest.raises(SizeError, match="there is no 'nothing_of_this_name' here"):
        data_size("nothing_of_this_name")


def test_models_by_folder_by_table_and_unknown():
    shipped = model_size("annotator")
    assert 1e-3 < shipped.billions < 0.1 and shipped.image_tokens > 0 and len(shipped.tokenise("a bird")) >= 2
    assert model_size("Qwen/Qwen2-VL-7B-Instruct")[1:5] == ("qwen2-vl", 8.29, False, True)
    assert model_size("server:gpt-4o-mini").family == "openai-mini"
    assert not model_size("someone/something").is_known
    assert network_size("torchvision/resnet18").gflop == 3.63
    assert network_size("ViT-B-16-SigLIP").gflop == 36


def test_answers_are_no_longer_than_asked_for():
    request = SimpleNamespace(max_tokens=8, images=[], turns=[])
    assert Questions("q", "annotator", 10, [request], "chain").tokens_out() == 80
    reasons = SimpleNamespace(max_tokens=8000, images=[], turns=[])
    assert Questions("q", "server:deepseek-reasoner", 1, [reasons], "letter").tokens_out() == 902


def test_the_sum_and_the_day():
    given = parameters("52", **read_preset(paths.PROJECT / "notebooks" / "52_building_a_sub.paper.yaml"))
    bills = [bill.estimate("52_building_a_sub", given | {"shard": shard}, H200) for shard in (1, 2, 3)]
    assert bills[0].flops == bills[1].flops > 1e18
    text = bill.reckoning_text(bills, H200)
    assert "989 TFLOP/s at 40 % make 3.4e+19 FLOP" in text and "52_building_a_sub, 3 runs" in text
    assert "does not fit into one day" in text
    assert "Total of 3" in bill.total_text(bills, H200)
