"""A model of Hugging Face on this machine: stock classes, its own processor and chat template, batches padded on the left."""
import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import jinja2
import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer, LogitsProcessor
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
from transformers.utils import logging

from .. import paths
from .chats import Answer, AskError, Request, Turn, open_image, request_keys, split_reasoning


class Local:
    """A loaded model; `answer` takes requests in any order, `batch_size` at a time (0: 16 on a GPU, 32 on a CPU)."""

    def __init__(self, name: str, device: torch.device, batch_size: int = 0):
        folder = paths.models_home() / name
        folder = folder if (folder / "config.json").is_file() else Path(name).expanduser()
        source, dtype = str(folder), torch.bfloat16 if device.type == "cuda" else torch.float32
        try:
            config = AutoConfig.from_pretrained(source)
            self.sees = config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
            with _no_bars():
                self.model, info = (AutoModelForImageTextToText if self.sees else AutoModelForCausalLM).from_pretrained(source, dtype=dtype, output_loading_info=True)
            self.processor = (AutoProcessor if self.sees else AutoTokenizer).from_pretrained(source)
        except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
            raise AskError(f"The model {name!r} cannot be loaded ({str(error).splitlines()[0][:200]}): name a folder as save_pretrained writes it, a model on Hugging Face (with a "
                           "connection, or downloaded before), or server:NAME for one behind an OpenAI-compatible server.") from error
        if info["missing_keys"]:
            raise AskError(f"The model {name!r} lacks weights ({len(info['missing_keys'])}, {min(info['missing_keys'])} among them): fetch or save it again.")
        self.model.eval().requires_grad_(False).to(device)
        self.tokenizer = getattr(self.processor, "tokenizer", self.processor)
        self.tokenizer.padding_side = "left"
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if not (self.processor.chat_template or self.tokenizer.chat_template):
            raise AskError(f"The model {name!r} has no chat template: take one that was trained to answer (an instruct or chat version).")
        ends = self.model.generation_config.eos_token_id
        self.ends = set(ends if isinstance(ends, list) else [ends]) | {self.tokenizer.eos_token_id}
        self.reads = getattr(config.get_text_config(), "max_position_embeddings", None)  # tokens, of prompt and answer together
        self.identity = f"{name} {_files_hash(folder) if folder.is_dir() else getattr(config, '_commit_hash', None)} {dtype}"
        self.name, self.device, self.batch_size, self.told = name, device, batch_size or (16 if device.type == "cuda" else 32), Counter()

    def answer(self, requests: Sequence[Request], seed: int, temperature: float) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request, batch by batch: those with and without images apart, those of like length together, the longest first.

        A request that is too long for the model has its `error`. Raises AskError: an image for a model of texts, one that cannot be read, options that begin alike, a chat
        that the model's template refuses. A batch that does not fit into the GPU's memory is halved.
        """
        self.told = Counter()
        order = sorted(range(len(requests)), key=lambda i: (len(requests[i].images), requests[i].max_tokens, sum(len(turn.text) for turn in requests[i].turns)), reverse=True)
        while order:
            first = requests[order[0]]
            same = [i for i in order[:self.batch_size] if requests[i].max_tokens == first.max_tokens and bool(requests[i].images) == bool(first.images)]
            try:
                answers = self._batch([requests[i] for i in same], seed, temperature)
            except torch.OutOfMemoryError as error:
                if len(same) == 1:
                    raise AskError(f"One request alone does not fit into the memory of {self.device} beside {self.name!r}: take smaller images, or another device.") from error
                self.batch_size = len(same) // 2
                self.told[f"batches of {self.batch_size}, for want of memory"] += 1
                torch.cuda.empty_cache()
                continue
            order = order[len(same):]
            yield from zip(same, answers)

    def _batch(self, requests: Sequence[Request], seed: int, temperature: float) -> list[Answer]:
        began = time.perf_counter()
        inputs = self._inputs(requests)
        longest, wanted = inputs["input_ids"].shape[1], requests[0].max_tokens
        if self.reads and longest + wanted > self.reads:
            if len(requests) > 1:
                return [self._batch([one], seed, temperature)[0] for one in requests]
            return [Answer(error=f"too long: {longest} tokens and {wanted} for the answer, but {self.name!r} has room for {self.reads} in all")]
        of_option = {options: self._first_tokens(options) for options in {one.options for one in requests} if options}
        watched = sorted({token for tokens in of_option.values() for token in sum(tokens, [])})
        noise = [_Noise(temperature, [int(key[:15], 16) for key in request_keys(requests, "", {"seed": seed})], self.device)] if temperature else []
        with torch.inference_mode(), _logits_of(self.model, watched) as logits:
            out = self.model.generate(**inputs, do_sample=False, logits_processor=noise, max_new_tokens=wanted, pad_token_id=self.tokenizer.pad_token_id)
        answers = []
        for row, (request, tokens) in enumerate(zip(requests, out[:, longest:].tolist())):
            length = next((i + 1 for i, token in enumerate(tokens) if token in self.ends), len(tokens))
            text, reasoning = split_reasoning(self.tokenizer.decode(tokens[:length], skip_special_tokens=True))
            answers.append(Answer(text, reasoning, None, int(inputs["attention_mask"][row].sum()), length, cut=tokens[length - 1] not in self.ends))
            if request.options and (step := self._first_of_answer(tokens[:length], reasoning)) is not None:
                each = [logits[step][row, [watched.index(token) for token in own]].logsumexp(0) for own in of_option[request.options]]
                answers[-1].probabilities = dict(zip(request.options, torch.stack(each).softmax(0).tolist()))
        for answer in answers:
            answer.seconds = (time.perf_counter() - began) / len(requests)
        return answers

    def _inputs(self, requests: Sequence[Request]) -> dict[str, torch.Tensor]:
        if not self.sees and any(one.images for one in requests):
            raise AskError(f"The model {self.name!r} reads text only, but a request holds an image: take an image-text model.")
        chats = [[{"role": turn.role, "content": self._content(turn)} for turn in one.turns] for one in requests]
        padding = {"processor_kwargs": {"padding": True}} if self.sees else {"padding": True}
        try:
            inputs = self.processor.apply_chat_template(chats, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt", **padding)
        except jinja2.TemplateError as error:
            raise AskError(f"The chat template of {self.name!r} refuses a request ({error}): leave out the system turn, or write the turns as it wants them.") from error
        return {key: value.to(self.device, self.model.dtype if value.is_floating_point() else None) for key, value in inputs.items()}

    def _content(self, turn: Turn) -> str | list[dict]:
        return [*({"type": "image", "image": open_image(image)} for image in turn.images), {"type": "text", "text": turn.text}] if self.sees else turn.text

    def _first_of_answer(self, tokens: list[int], reasoning: str) -> int | None:
        """The step of the first token after the reasoning; None where nothing comes after it."""
        if not reasoning:
            return 0
        return next((i for i in range(len(tokens)) if split_reasoning(self.tokenizer.decode(tokens[:i + 1], skip_special_tokens=True))[0]), None)

    def _first_tokens(self, options: Sequence[str]) -> list[list[int]]:
        """Of each option the tokens that it may begin with, with and without a space before it, and that no other begins with."""
        first = [{self.tokenizer(form, add_special_tokens=False)["input_ids"][0] for form in (option, f" {option}")} for option in options]
        shared = Counter(token for tokens in first for token in tokens)
        own = [[token for token in sorted(tokens) if shared[token] == 1] for tokens in first]
        if not all(own):
            raise AskError(f"The options {', '.join(options)} begin with the same token for {self.name!r}: letter them (A, B, …) in the question.")
        return own


class _Noise(LogitsProcessor):
    """Gumbel noise: the likeliest token is then a sample at the temperature. Each row's noise is its own, by its seed, so no answer depends on what else is in its batch."""

    def __init__(self, temperature: float, seeds: Sequence[int], device: torch.device):
        self.temperature, self.generators = temperature, [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        noise = torch.stack([torch.empty(scores.shape[1], device=scores.device).exponential_(generator=each) for each in self.generators])
        return scores / self.temperature - noise.log()


@contextmanager
def _logits_of(model: torch.nn.Module, tokens: Sequence[int]):
    """The model's own logits of some tokens at each step of a generation, [(B, tokens) float32, …]: all of them would fill the memory."""
    steps: list[torch.Tensor] = []
    hook = model.register_forward_hook(lambda module, inputs, output: steps.append(output.logits[:, -1, list(tokens)].float())) if tokens else None
    try:
        yield steps
    finally:
        if hook:
            hook.remove()


@contextmanager
def _no_bars():
    before = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            logging.enable_progress_bar()


def _files_hash(folder: Path) -> str:
    """The sha256 of a model's files: weights, configuration, tokenizer, template."""
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.iterdir() if file.suffix in (".json", ".jinja", ".txt", ".model", ".safetensors", ".bin")):
        with file.open("rb") as opened:
            digest.update(f"{file.name} {hashlib.file_digest(opened, 'sha256').hexdigest()}".encode())
    return digest.hexdigest()
