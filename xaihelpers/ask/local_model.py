"""A model of Hugging Face on this machine: stock classes, the model's own processor and chat template."""

import gc
import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
from transformers.utils import logging

from xaihelpers import paths
from xaihelpers.ask.messages import Answer, AskError, Request, open_image, request_keys, split_reasoning

logging.disable_progress_bar()
MODEL_FILES = (
    ".json",
    ".jinja",
    ".txt",
    ".model",
    ".safetensors",
    ".bin",
)  # what a model's answers depend on


class LocalModel:
    """A loaded model.

    name: a model that ships with the project, a folder (a name under XAI_DATA, or a path), or a name on
        Hugging Face. On a GPU it is spread over all of them where it has to be (`device_map="auto"`).
    batch_size: requests at a time; 0 stands for 16 on a GPU and 32 on a CPU.
    Raises AskError: the model cannot be loaded, lacks weights, or has no chat template.

    Attributes: `identity` tells models apart in the cache of answers: of a folder by its own name, whatever
        its path, and the hash of its files; of a model on Hugging Face by its full name and the commit.
        `warnings` counts what went wrong in the last `answer`.
    """

    def __init__(self, name: str, device: torch.device, batch_size: int = 0):
        self.name = name
        self.batch_size = batch_size or (16 if device.type == "cuda" else 32)
        self.warnings: Counter[str] = Counter()
        folder = paths.find(name, paths.models_home(), paths.data_home(), holding="config.json")
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        config = self._load(str(folder or name), device, dtype)
        self.tokenizer = getattr(self.processor, "tokenizer", self.processor)
        self.tokenizer.padding_side = "left"
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if not (self.processor.chat_template or self.tokenizer.chat_template):
            raise AskError(
                f"The model {name!r} has no chat template: take one that was trained to answer "
                "(an instruct or chat version)."
            )
        end_tokens = self.model.generation_config.eos_token_id
        self.end_tokens = set(end_tokens if isinstance(end_tokens, list) else [end_tokens])
        self.end_tokens.add(self.tokenizer.eos_token_id)
        # Penalties and the like that a model ships would take another token than the most probable one.
        shipped = self.model.generation_config
        self.model.generation_config = GenerationConfig(
            bos_token_id=shipped.bos_token_id,
            eos_token_id=end_tokens,
            pad_token_id=self.tokenizer.pad_token_id,
            decoder_start_token_id=shipped.decoder_start_token_id,
        )
        # of prompt and answer together, in tokens
        self.max_length = getattr(config.get_text_config(), "max_position_embeddings", None)
        if folder:
            own_name, revision = folder.name, files_hash(folder)
        else:
            own_name, revision = name, getattr(config, "_commit_hash", None)
        self.identity = f"{own_name} {revision} {dtype}"

    def _load(self, source: str, device: torch.device, dtype: torch.dtype):
        """Set `model`, `device`, `processor` and `takes_images`; returns the configuration."""
        try:
            config = AutoConfig.from_pretrained(source)
            self.takes_images = config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
            model_class = AutoModelForImageTextToText if self.takes_images else AutoModelForCausalLM
            processor_class = AutoProcessor if self.takes_images else AutoTokenizer
            self.model, loading = model_class.from_pretrained(
                source,
                dtype=dtype,
                device_map="auto" if device.type == "cuda" else None,
                output_loading_info=True,
            )
            self.processor = processor_class.from_pretrained(source)
        except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise AskError(
                f"The model {self.name!r} cannot be loaded ({reason}): name a folder as save_pretrained "
                "writes it, a model on Hugging Face (with a connection, or downloaded before), or "
                "server:NAME for one behind an OpenAI-compatible server."
            ) from error
        if missing := loading["missing_keys"]:
            raise AskError(
                f"The model {self.name!r} lacks weights ({len(missing)}, {min(missing)} among them): "
                "fetch or save it again."
            )
        self.model.eval().requires_grad_(False)
        self.device = self.model.device  # of its first layer, where inputs go
        return config

    def release(self) -> None:
        """Give the memory of the weights back; the model cannot be asked any more."""
        self.model = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request, batch by batch.

        Requests with and without images go into separate batches, those of similar length together, the
        longest first. A batch that does not fit into the GPU's memory is halved. A request that is too long
        for the model, or that its processor or chat template cannot take, has its `error`.

        Raises AskError: an image for a model of texts, an image that cannot be read, options that begin with
            the same token, a request that alone does not fit into the memory.
        """
        self.warnings = Counter()

        def size(i: int) -> tuple[int, int, int]:
            n_characters = sum(len(turn.text) for turn in requests[i].turns)
            return len(requests[i].images), requests[i].max_tokens, n_characters

        def kind(i: int) -> tuple[int, bool]:
            return requests[i].max_tokens, bool(requests[i].images)

        order = sorted(range(len(requests)), key=size, reverse=True)
        while order:
            batch = [i for i in order[: self.batch_size] if kind(i) == kind(order[0])]
            try:
                answers = self._answer_batch([requests[i] for i in batch], seed, temperature)
            except torch.OutOfMemoryError as error:
                if len(batch) == 1:
                    raise AskError(
                        f"One request alone does not fit into the memory of {self.device} beside "
                        f"{self.name!r}: take smaller images, or another device."
                    ) from error
                self.batch_size = len(batch) // 2
                self.warnings[f"batches of {self.batch_size}, for want of memory"] += 1
                torch.cuda.empty_cache()
                continue
            order = order[len(batch) :]
            yield from zip(batch, answers, strict=True)

    def _answer_batch(self, requests: Sequence[Request], seed: int, temperature: float) -> list[Answer]:
        """The answers of one batch; what cannot be taken is the error of its own request."""
        try:
            return self._generate(requests, seed, temperature)
        except (AskError, torch.OutOfMemoryError):
            raise
        except Exception as reason:  # processors, templates and models raise whatever they like
            if len(requests) > 1:
                return [self._answer_batch([request], seed, temperature)[0] for request in requests]
            pictures = ", ".join(map(str, requests[0].images)) or "a request without pictures"
            return [Answer(error=f"{self.name!r} cannot take {pictures} ({type(reason).__name__}: {reason})")]

    def _generate(self, requests: Sequence[Request], seed: int, temperature: float) -> list[Answer]:
        started = time.perf_counter()
        inputs, max_tokens = self._inputs(requests), requests[0].max_tokens
        prompt_length = inputs["input_ids"].shape[1]
        if self.max_length and prompt_length + max_tokens > self.max_length:
            raise ValueError(
                f"too long: {prompt_length} tokens and {max_tokens} for the answer, but there is room for "
                f"{self.max_length} in all"
            )
        distinct_options = {request.options for request in requests if request.options}
        first_tokens = {options: self._first_tokens(options) for options in distinct_options}
        recorded_tokens = set()
        for tokens_of_options in first_tokens.values():
            recorded_tokens.update(*tokens_of_options)
        option_tokens = sorted(recorded_tokens)
        processors = []
        if temperature:
            seeds = [int(key[:15], 16) for key in request_keys(requests, "", {"seed": seed})]
            processors = [_GumbelNoise(temperature, seeds, self.device)]
        with torch.inference_mode(), _recorded_logits(self.model, option_tokens) as logits:
            output = self.model.generate(
                **inputs,
                do_sample=False,
                logits_processor=processors,
                max_new_tokens=max_tokens,
                pad_token_id=self.tokenizer.pad_token_id,
            )
        answers = []
        for row, (request, tokens) in enumerate(
            zip(requests, output[:, prompt_length:].tolist(), strict=True)
        ):
            answer, tokens = self._read_answer(tokens)
            answer.tokens_in = int(inputs["attention_mask"][row].sum())
            step = self._first_answer_step(tokens, answer.reasoning) if request.options else None
            if step is not None:
                option_logits = []
                for own_tokens in first_tokens[request.options]:
                    columns = [option_tokens.index(token) for token in own_tokens]
                    option_logits.append(logits[step][row, columns].logsumexp(0))
                probabilities = torch.stack(option_logits).softmax(0).tolist()
                answer.probabilities = dict(zip(request.options, probabilities, strict=True))
            answers.append(answer)
        for answer in answers:
            answer.seconds = (time.perf_counter() - started) / len(requests)
        return answers

    def _read_answer(self, tokens: list[int]) -> tuple[Answer, list[int]]:
        """The answer that generated tokens spell, and these tokens up to the end token."""
        length = next((i + 1 for i, token in enumerate(tokens) if token in self.end_tokens), len(tokens))
        tokens = tokens[:length]
        text, reasoning = split_reasoning(self._decode(tokens))
        return Answer(text, reasoning, tokens_out=length, truncated=tokens[-1] not in self.end_tokens), tokens

    def _inputs(self, requests: Sequence[Request]) -> dict[str, torch.Tensor]:
        """The requests as the model's inputs, padded on the left."""
        if not self.takes_images and any(request.images for request in requests):
            raise AskError(
                f"The model {self.name!r} reads text only, but a request holds an image: "
                "take an image-text model."
            )
        chats = []
        for request in requests:
            chats.append([{"role": turn.role, "content": self._content(turn)} for turn in request.turns])
        padding = {"processor_kwargs": {"padding": True}} if self.takes_images else {"padding": True}
        inputs = self.processor.apply_chat_template(
            chats,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            **padding,
        )
        return {
            key: value.to(self.device, self.model.dtype if value.is_floating_point() else None)
            for key, value in inputs.items()
        }

    def _content(self, turn) -> str | list[dict]:
        """A turn as chat templates take it."""
        if not self.takes_images:
            return turn.text
        images = [{"type": "image", "image": open_image(image)} for image in turn.images]
        return [*images, {"type": "text", "text": turn.text}]

    def _decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=True)

    def _first_answer_step(self, tokens: list[int], reasoning: str) -> int | None:
        """The step of the first token after the reasoning; None where nothing comes after it."""
        if not reasoning:
            return 0
        for step in range(len(tokens)):
            text, _ = split_reasoning(self._decode(tokens[: step + 1]))
            if text:
                return step
        return None

    def _first_tokens(self, options: Sequence[str]) -> list[list[int]]:
        """For each option the tokens that it and no other option may begin with.

        Each is tokenised with and without a space before it.
        """
        first_tokens = []
        for option in options:
            spellings = [option, f" {option}"]
            ids = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in spellings]
            first_tokens.append({tokens[0] for tokens in ids})
        counts = Counter(chain.from_iterable(first_tokens))
        unique = []
        for tokens in first_tokens:
            unique.append([token for token in sorted(tokens) if counts[token] == 1])
        if not all(unique):
            raise AskError(
                f"The options {', '.join(options)} begin with the same token for {self.name!r}: "
                "letter them (A, B, …) in the question."
            )
        return unique


class _GumbelNoise(LogitsProcessor):
    """Gumbel noise on the logits: the most probable token is then a sample at the temperature.

    Each row has a generator of its own, so that no answer depends on what else is in its batch.
    """

    def __init__(self, temperature: float, seeds: Sequence[int], device: torch.device):
        self.temperature = temperature
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        rows = [
            torch.empty(scores.shape[1], device=scores.device).exponential_(generator=generator)
            for generator in self.generators
        ]
        return scores / self.temperature - torch.stack(rows).log()


@contextmanager
def _recorded_logits(model: torch.nn.Module, tokens: Sequence[int]) -> Iterator[list[torch.Tensor]]:
    """The model's own logits of some tokens at each step of a generation, [(B, tokens) float32, …].

    Those of all tokens would fill the memory.
    """
    steps: list[torch.Tensor] = []

    def keep(module, inputs, output):
        steps.append(output.logits[:, -1, list(tokens)].float())

    hook = model.register_forward_hook(keep) if tokens else None
    try:
        yield steps
    finally:
        if hook:
            hook.remove()


def files_hash(folder: Path) -> str:
    """The sha256 of a model's files: weights, configuration, tokenizer, template."""
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.iterdir() if file.suffix in MODEL_FILES):
        with file.open("rb") as opened:
            digest.update(f"{file.name} {hashlib.file_digest(opened, 'sha256').hexdigest()}".encode())
    return digest.hexdigest()
