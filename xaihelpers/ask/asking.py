"""`ask(model, requests)`: one way to question a model, wherever it runs, with an answer kept on disk the moment it comes."""
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict

import diskcache
from tqdm.auto import tqdm

from .. import paths
from ..devices import device_of
from .chats import Answer, AskError, Request, request_keys

DISK = (OSError, sqlite3.Error, diskcache.Timeout)


def load_annotator(name: str = "annotator", device: "str | torch.device" = "cpu", batch_size: int = 0, concurrency: int = 16, timeout: float = 300.0):  # noqa: F821
    """A model to ask.

    name: the shipped "annotator", a folder or a name on Hugging Face, run on `device` in batches of `batch_size` (0: 16 on a GPU, 32 on a CPU); or "server:NAME" behind an
    OpenAI-compatible server, whose address and key are the environment's OPENAI_BASE_URL and OPENAI_API_KEY, asked `concurrency` requests at a time of at most `timeout`
    seconds each. Raises AskError: the model cannot be loaded, no server is named, no such device.
    """
    if name.startswith("server:"):
        from .server import Server

        return Server(name.removeprefix("server:"), concurrency, timeout=timeout)
    device = device_of(device, AskError)
    from .local import Local

    return Local(name, device, batch_size)


def annotators(device: "str | torch.device" = "cpu", keep: str = "") -> Callable[[str], object]:  # noqa: F821
    """A function from names to loaded models, for a notebook that goes through a list of them: besides `keep` (a judge, say) only one is held at a time."""
    held: dict[str, object] = {}

    def of(name: str):
        if name not in held:
            for other in set(held) - {keep} if name != keep else ():
                del held[other]
            held[name] = load_annotator(name, device)
        return held[name]

    return of


def ask(model, requests: Sequence[Request], seed: int = 0, temperature: float = 0.0, price: tuple[float, float] = (0.0, 0.0), progress: bool = True) -> list[Answer]:
    """An answer to each request, in order; equal requests are asked once, and what was answered before comes from the disk.

    model: of `load_annotator`. temperature: 0 takes the likeliest token each time. price: of a million tokens in and out, in any currency. An answer that could not be had holds
    its `error`, is counted in the line printed at the end, is not kept, and is asked again next time. Where answers cannot be kept, a line says so once.
    Raises AskError: the model cannot be asked at all, or an image cannot be read; answers that came before are kept, as they are when this is interrupted or killed.
    """
    keys = request_keys(requests, model.identity, {"seed": seed, "temperature": temperature})
    of_key = dict(zip(reversed(keys), reversed(requests)))  # the first request of each key
    with _answers_on_disk() as disk:
        found = {key: answer for key in of_key if (answer := _kept(disk, key)) is not None}
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        earlier, failed, cost, tokens_in, tokens_out = len(found), [], 0.0, 0, 0
        try:
            with tqdm(total=len(missing), desc=f"asking {model.name}", disable=not (progress and missing)) as bar:
                for position, answer in model.answer([of_key[key] for key in missing], seed, temperature) if missing else ():
                    key = missing[position]
                    found[key] = answer
                    if answer.error:
                        failed.append(answer.error)
                    elif disk is not None:
                        disk = _keep(disk, key, answer)
                    tokens_in, tokens_out = tokens_in + answer.tokens_in, tokens_out + answer.tokens_out
                    cost += _cost(answer, price)
                    bar.set_postfix_str(f"{tokens_in:,} tokens in, {tokens_out:,} out" + f", cost {cost:.4f}" * any(price), refresh=False)
                    bar.update()
        finally:
            told = [f"{count} × {what}" for what, count in model.told.items()] if missing else []
            if progress or failed:
                came = len(found) - earlier
                print(f"{model.name}: {came} asked, {earlier} from the cache" + f", {len(missing) - came} left" * (came < len(missing))
                      + (f", {len(failed)} without an answer (first: {failed[0]})" if failed else "") + "".join(f"; {each}" for each in told))
    for answer in found.values():
        answer.cost = _cost(answer, price)
    return [found[key] for key in keys]


def _cost(answer: Answer, price: tuple[float, float]) -> float:
    return (answer.tokens_in * price[0] + answer.tokens_out * price[1]) / 1e6


def _answers_on_disk():
    """The cache of answers; where there can be none, None, and a line says so. Values are JSON, so nothing that lies there is ever run."""
    folder = paths.cache_home() / "answers"
    try:
        return closing(diskcache.Cache(str(folder), disk=diskcache.JSONDisk, eviction_policy="none"))
    except DISK as error:
        _say_not_kept(error)
        return nullcontext()


def _kept(disk: diskcache.Cache | None, key: str) -> Answer | None:
    try:
        row = disk.get(key) if disk is not None else None
        return None if row is None else Answer(**row, cached=True)
    except (*DISK, TypeError, ValueError, zlib.error):  # unreadable: as if it were not there
        return None


def _keep(disk: diskcache.Cache, key: str, answer: Answer) -> diskcache.Cache | None:
    row = asdict(answer)
    del row["cached"], row["cost"]
    try:
        disk[key] = row
        return disk
    except DISK as error:
        _say_not_kept(error)
        return None


def _say_not_kept(error: Exception) -> None:
    tqdm.write(f"Answers cannot be kept in {paths.cache_home() / 'answers'} ({error}): they are used, but will be asked for again next time. Make room or permit writing there.")
