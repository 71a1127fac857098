"""A model of Hugging Face on this machine's GPUs by vLLM, an extra that is installed apart."""

import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from transformers import AutoConfig

from xaihelpers import paths
from xaihelpers.ask.chat_completions import read_probabilities
from xaihelpers.ask.local_model import files_hash
from xaihelpers.ask.messages import Answer, AskError, Request, Turn, by_images, open_image, split_reasoning

AT_A_TIME = 512  # requests that vLLM is given at a time, between which answers are kept


class VllmModel:
    """A model that vLLM has loaded.

    name: a folder (a name under XAI_DATA, or a path), or a name on Hugging Face.
    batch_size: requests that vLLM is given at a time, 0 stands for 512; it forms its batches itself.
    Raises AskError: vLLM is not installed, or cannot load the model.

    Attributes: `identity` and `warnings` as of `LocalModel`. What vLLM computes differs in the last digits
        from what transformers does, so its answers are kept apart.
    """

    def __init__(self, name: str, batch_size: int = 0):
        try:
            import vllm
            from vllm.exceptions import VLLMClientError
            from vllm.sampling_params import StructuredOutputsParams
        except ImportError as error:
            raise AskError(
                f"vllm:{name} needs vLLM, which is not installed here ({error}): pip install vllm. It "
                "brings a torch of its own; where that is not the one here, give it an environment of its "
                f"own, start `vllm serve {name}` there and name server:{name} here."
            ) from error
        self.name = name
        self.at_a_time = batch_size or AT_A_TIME
        self.warnings: Counter[str] = Counter()
        self._sampling, self._structured = vllm.SamplingParams, StructuredOutputsParams
        self._unfit = (ValueError, VLLMClientError)  # what vLLM raises for a request that it cannot answer
        folder = paths.find(name, paths.models_home(), paths.data_home(), holding="config.json")
        try:
            revision = files_hash(folder) if folder else AutoConfig.from_pretrained(name)._commit_hash
            self.engine = vllm.LLM(str(folder or name), revision=None if folder else revision)
        # an engine that does not start raises whatever went wrong in it
        except Exception as error:
            gc.collect()
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise AskError(
                f"vLLM cannot load the model {name!r} ({reason}): name a folder as save_pretrained writes "
                "it, or a model on Hugging Face that vLLM supports, and see that the GPU has room for it."
            ) from error
        self.identity = f"vllm:{folder.name if folder else name} {revision}"

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request, those about the same images one after the other.

        A request that vLLM refuses (too long for the model, images that it does not take) has its `error`.
        Raises AskError: an image cannot be read.
        """
        self.warnings = Counter()
        order = by_images(requests)
        for start in range(0, len(order), self.at_a_time):
            positions = order[start : start + self.at_a_time]
            answers = self._answer_some([requests[i] for i in positions], seed, temperature)
            yield from zip(positions, answers, strict=True)

    def _answer_some(self, requests: list[Request], seed: int, temperature: float) -> list[Answer]:
        """Answers in order; vLLM refuses all of a call for one request, which is found by halving."""
        chats = [[_message(turn) for turn in request.turns] for request in requests]
        sampling = [self._parameters(request, seed, temperature) for request in requests]
        started = time.perf_counter()
        try:
            outputs = self.engine.chat(chats, sampling, use_tqdm=False)
        except self._unfit as error:
            if len(requests) == 1:
                return [Answer(error=f"{type(error).__name__}: {error}"[:300])]
            middle = len(requests) // 2
            halves = requests[:middle], requests[middle:]
            return [answer for half in halves for answer in self._answer_some(half, seed, temperature)]
        seconds = (time.perf_counter() - started) / len(requests)
        return [_read(output, request, seconds) for output, request in zip(outputs, requests, strict=True)]

    def _parameters(self, request: Request, seed: int, temperature: float):
        return self._sampling(
            max_tokens=request.max_tokens,
            temperature=temperature,
            seed=seed,
            logprobs=20 if request.options else None,
            structured_outputs=None if request.schema is None else self._structured(json=request.schema),
        )


def _message(turn: Turn) -> dict:
    """A turn as vLLM takes it: images as they are, and the text after them."""
    images = [{"type": "image_pil", "image_pil": open_image(image)} for image in turn.images]
    content = [*images, {"type": "text", "text": turn.text}] if images else turn.text
    return {"role": turn.role, "content": content}


def _read(output, request: Request, seconds: float) -> Answer:
    """The answer in what vLLM returns for one request."""
    said = output.outputs[0]
    text, reasoning = split_reasoning(said.text)
    steps = []
    for token, candidates in zip(said.token_ids, said.logprobs or (), strict=False):
        likely = [{"token": one.decoded_token or "", "logprob": one.logprob} for one in candidates.values()]
        steps.append({"token": candidates[token].decoded_token or "", "top_logprobs": likely})
    return Answer(
        text,
        reasoning,
        read_probabilities(steps, request.options),
        tokens_in=len(output.prompt_token_ids or ()),
        tokens_out=len(said.token_ids),
        seconds=seconds,
        truncated=said.finish_reason == "length",
    )
