"""Whether what the parameters name is there: models, prompts, files. Checked before anything is asked."""

import os
from pathlib import Path

from huggingface_hub import try_to_load_from_cache
from transformers import AutoConfig

from xaihelpers import paths, spending
from xaihelpers.ask.messages import AskError
from xaihelpers.ask.prompt_files import prompt
from xaihelpers.bill.model_sizes import is_own, is_served

ASKING = ("23", "31", "32", "33", "34", "42", "43", "44", "45", "51", "52")  # notebooks that ask
MODELS = ("models", "judge", "judges", "annotator")  # parameters that name models to be asked


def problems_of(number: str, p: dict) -> list[str]:
    """What would stop a run, each in a sentence with its remedy; empty if nothing is wrong.

    number: of the notebook. p: its parameters. Nothing is fetched: a model of Hugging Face that was not
    downloaded before is no problem here.
    """
    found = [problem for name in asked_models(number, p) if (problem := _problem_of_model(name))]
    found += _problems_of_prompts(p)
    file = p.get("prices", "")
    try:
        prices = spending.read_prices(file)
        for name in asked_models(number, p):
            if is_served(name):
                address = os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
                spending.price_of(name, address, prices, file)
    except spending.SpendingError as error:
        found.append(str(error))
    return found


def asked_models(number: str, p: dict) -> list[str]:
    """The models that a notebook asks, by its parameters; MODEL of record:FILE:MODEL."""
    if number not in ASKING:  # elsewhere `models` are bottlenecks
        return []
    if number == "23":
        names = [] if p["llm"].endswith(".csv") else [p["llm"]]
    elif number == "52":
        readers = (p.get("reader"), "aviary_reader", "")
        names = [name for name in (p["annotator"], p["compared"]) if name not in readers]
    else:
        names = []
        for key in MODELS:
            value = p.get(key) or []
            names += [value] if isinstance(value, str) else value
    names = [name.split(":", 2)[-1] if name.startswith("record:") else name for name in names]
    return list(dict.fromkeys(name for name in names if name))


def fetch_configurations(number: str, p: dict) -> None:
    """Look up each model of Hugging Face that is not here, so that a wrong name is an error now.

    Raises AskError: a model that its library does not find.
    """
    for name in asked_models(number, p):
        if is_served(name) or is_own(name) or _folder(name) is not None or _is_downloaded(name):
            continue
        try:
            AutoConfig.from_pretrained(spending.plain_name(name))
        except (OSError, ValueError, ImportError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise AskError(
                f"The model {name!r} cannot be loaded ({reason}): name a folder of save_pretrained, "
                "a model on Hugging Face (with a connection, or downloaded before), or server:NAME for one "
                "behind an OpenAI-compatible server."
            ) from error


def _problem_of_model(name: str) -> str:
    if is_own(name):
        file = name.partition(":")[2]
        return "" if paths.find(file) or Path(file).exists() else f"{name}: there is no file {file}."
    if is_served(name):
        if os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY"):
            return ""
        return (
            f"{name} needs the address of a server in OPENAI_BASE_URL (for OpenAI itself its key in "
            "OPENAI_API_KEY is enough)."
        )
    if _folder(name) is not None or _is_downloaded(name):
        return ""
    name = spending.plain_name(name)
    looks_like_a_path = name.startswith((".", "/", "~")) or name.count("/") > 1
    if looks_like_a_path or "/" not in name:
        return (
            f"The model {name!r} cannot be loaded (there is no such folder): name a shipped model, a folder "
            "as save_pretrained writes it, a model on Hugging Face (OWNER/NAME), or server:NAME."
        )
    return ""


def _folder(name: str) -> Path | None:
    return paths.find(
        spending.plain_name(name), paths.models_home(), paths.data_home(), holding="config.json"
    )


def _is_downloaded(name: str) -> bool:
    try:
        return isinstance(try_to_load_from_cache(spending.plain_name(name), "config.json"), str)
    except ValueError:  # not a name that could be there
        return False


def _problems_of_prompts(p: dict) -> list[str]:
    found = []
    for key, value in p.items():
        if not (key.endswith(("_prompt", "prompt_file")) or key == "other_chain_prompts"):
            continue
        for name in [value] if isinstance(value, str) else value:
            if not name:
                continue
            try:
                prompt(name)
            except AskError as error:
                found.append(str(error))
    return found
