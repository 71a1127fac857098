"""A model of Hugging Face on this machine: stock classes, the model's own processor and chat template."""

import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from PIL import Image
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
from transformers.utils.logging import disable_progress_bar

from xaihelpers import paths
from xaihelpers.ask.logits import GumbelNoise, OptionLogits, first_tokens
from xaihelpers.ask.messages import (
    Answer,
    AskError,
    Request,
    open_image,
    request_keys,
    request_records,
)
from xaihelpers.ask.reading import option_step
from xaihelpers.ask.thoughts import is_mark, opened_by, split_reasoning
from xaihelpers.names import VLM_FILE

log = logging.getLogger(__name__)
disable_progress_bar()
# what a model's answers depend on
MODEL_FILES = (".json", ".jinja", ".txt", ".model", ".safetensors", ".bin")
PROCESSOR = (
    "beside config.json and the weights its folder needs the tokenizer with an image token, "
    "processor_config.json (or preprocessor_config.json) with image_processor and image_token, and "
    "chat_template.jinja with a place for a picture: fetch them, or save the processor again"
)


class LocalModel:
    """A loaded model.

    name: a model that ships with the project, a folder (a name under XAI_DATA, or a path), or a name on
        Hugging Face. On a GPU it is spread over all of them where it has to be (`device_map="auto"`).
    batch_size: requests at a time; 0 stands for 16 on a GPU and 32 on a CPU.
    Raises AskError: the model cannot be loaded, lacks weights, or has no chat template; a picture would not
        reach it.

    Attributes: `identity` tells models apart in the cache of answers: of a folder by its own name, whatever
        its path, and the hash of its files; of a model on Hugging Face by its full name and the commit.
    """

    def __init__(self, name: str, device: torch.device, batch_size: int = 0):
        self.name = name
        self.batch_size = batch_size or (16 if device.type == "cuda" else 32)
        folder = paths.find_model(name, VLM_FILE)
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
        if self.takes_images:
            self._require_sight(config)
        # what is left out of a text: special tokens, but for the marks of thoughts
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        special = {number for number, token in added.items() if token.special} | {
            *self.tokenizer.all_special_ids
        }
        marks = {number for number in special if is_mark(str(self.tokenizer.convert_ids_to_tokens(number)))}
        self.unsaid = special - marks if marks else set()
        shipped = self.model.generation_config
        end_tokens = shipped.eos_token_id
        self.end_tokens = set(end_tokens if isinstance(end_tokens, list) else [end_tokens])
        self.end_tokens.add(self.tokenizer.eos_token_id)
        # Penalties and the like that a model ships would take another token than the most probable one.
        self.model.generation_config = GenerationConfig(
            bos_token_id=shipped.bos_token_id,
            eos_token_id=end_tokens,
            pad_token_id=self.tokenizer.pad_token_id,
            decoder_start_token_id=shipped.decoder_start_token_id,
        )
        # of prompt and answer together, in tokens
        self.max_length = getattr(config.get_text_config(), "max_position_embeddings", None)
        own_name = folder.name if folder else name
        revision = files_hash(folder) if folder else getattr(config, "_commit_hash", None)
        self.identity = f"{own_name} {revision} {dtype}"

    def _load(self, source: str, device: torch.device, dtype: torch.dtype):
        """Set `model`, `device`, `processor` and `takes_images`; returns the configuration."""
        how = {"dtype": dtype, "device_map": "auto" if device.type == "cuda" else None}
        try:
            config = AutoConfig.from_pretrained(source)
            self.takes_images = config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
            model_class = AutoModelForImageTextToText if self.takes_images else AutoModelForCausalLM
            processor_class = AutoProcessor if self.takes_images else AutoTokenizer
            self.model, loading = model_class.from_pretrained(source, output_loading_info=True, **how)
        except Exception as error:  # of a configuration without what it needs, of the hub, of weights
            raise AskError(
                f"The model {self.name!r} cannot be loaded ({_reason(error)}): name a folder as "
                "save_pretrained writes it, a model on Hugging Face (with a connection, or downloaded "
                "before), or server:NAME for one behind an OpenAI-compatible server."
            ) from error
        try:
            self.processor = processor_class.from_pretrained(source)
        except Exception as error:
            raise AskError(
                f"The model {self.name!r} has no processor ({_reason(error)}): {PROCESSOR}"
            ) from error
        if missing := loading["missing_keys"]:
            raise AskError(
                f"The model {self.name!r} lacks weights ({len(missing)}, {min(missing)} among them): "
                "fetch or save it again."
            )
        self.model.eval().requires_grad_(False)
        self.device = self.model.device  # of its first layer, where inputs go
        return config

    def _require_sight(self, config) -> None:
        """Raise AskError where a picture would not reach the model."""
        where = f"The model {self.name!r}"
        try:
            inputs = self._inputs([Request("What is this?", (Image.new("RGB", (64, 64)),))])
        except Exception as error:
            raise AskError(f"{where} cannot take a picture ({_reason(error)}): {PROCESSOR}") from error
        tokens = {getattr(config, name, None) for name in ("image_token_id", "image_token_index")} - {None}
        has_place = not tokens or any((inputs["input_ids"] == token).any() for token in tokens)
        if not has_place or not any(value.is_floating_point() for value in inputs.values()):
            raise AskError(f"{where} would answer without its pictures: {PROCESSOR}")

    def answer(
        self, requests: Sequence[Request], seed: int, temperature: float
    ) -> Iterator[tuple[int, Answer]]:
        """(position, answer) of each request, batch by batch.

        Requests with as many images, options and tokens go into one batch, those of similar length together,
        the longest first; a batch that fails is asked one by one. A request has its `error` that is too long
        for the model or its memory, that its processor or chat template cannot take, or whose image cannot be
        read.

        Raises AskError: an image for a model of texts, options that begin with the same token.
        """
        if not self.takes_images and any(request.images for request in requests):
            raise AskError(f"The model {self.name!r} reads text only, but a request holds an image.")
        alike: dict[tuple, list[int]] = {}
        for i in sorted(range(len(requests)), key=lambda i: len(requests[i].text), reverse=True):
            kind = requests[i].max_tokens, len(requests[i].images), requests[i].options
            alike.setdefault(kind, []).append(i)
        for _, rows in sorted(alike.items(), reverse=True):
            for start in range(0, len(rows), self.batch_size):
                batch = rows[start : start + self.batch_size]
                answers = self._answer_batch([requests[i] for i in batch], seed, temperature)
                yield from zip(batch, answers, strict=True)

    def _answer_batch(self, requests: Sequence[Request], seed: int, temperature: float) -> list[Answer]:
        """The answers of one batch; what cannot be taken is the error of its own request."""
        try:
            return self._generate(requests, seed, temperature)
        except AskError:
            raise
        except Exception as error:  # processors, templates and models raise whatever they like
            reason = f"{type(error).__name__}: {error}"
        # here, where the error holds no tensors any more
        if len(requests) > 1:
            log.warning("%s: %d requests are asked one by one (%s)", self.name, len(requests), reason)
            return [self._answer_batch([request], seed, temperature)[0] for request in requests]
        pictures = ", ".join(map(str, requests[0].images)) or "a request without pictures"
        return [Answer(error=f"{self.name!r} cannot take {pictures} ({reason})")]

    def _generate(self, requests: Sequence[Request], seed: int, temperature: float) -> list[Answer]:
        """The answers to requests with as many pictures, the same options and the same limit."""
        started = time.perf_counter()
        inputs, max_tokens, options = self._inputs(requests), requests[0].max_tokens, requests[0].options
        prompt_length = inputs["input_ids"].shape[1]
        if self.max_length and prompt_length + max_tokens > self.max_length:
            raise ValueError(
                f"too long: {prompt_length} tokens and {max_tokens} for the answer, but there is room for "
                f"{self.max_length} in all"
            )
        processors: list[LogitsProcessor] = []
        if options:
            processors.append(OptionLogits(first_tokens(self.tokenizer, options)))
        if temperature:
            keys = request_keys(request_records(requests), "", {"seed": seed})
            processors.append(GumbelNoise(temperature, [int(key[:15], 16) for key in keys], self.device))
        with torch.inference_mode():
            output = self.model.generate(
                **inputs,
                do_sample=False,
                logits_processor=processors,
                max_new_tokens=max_tokens,
                pad_token_id=self.tokenizer.pad_token_id,
            )
        seconds = (time.perf_counter() - started) / len(requests)
        answers = []
        for row, tokens in enumerate(output[:, prompt_length:].tolist()):
            ends = [step for step, token in enumerate(tokens) if token in self.end_tokens]
            tokens = tokens[: ends[0] + 1] if ends else tokens
            # by the prompt's end: a chat template may open the thought
            opened = opened_by(self.tokenizer.decode(inputs["input_ids"][row, -32:]))
            text, reasoning = split_reasoning(opened + self._decode(tokens))
            answer = Answer(text, reasoning, tokens_out=len(tokens), seconds=seconds, truncated=not ends)
            answer.tokens_in = int(inputs["attention_mask"][row].sum())
            step = option_step(tokens, self._decode, options, not ends, opened) if options else None
            if step is not None:
                probabilities = processors[0].steps[step][row].softmax(0).tolist()
                answer.probabilities = dict(zip(options, probabilities, strict=True))
            answers.append(answer)
        return answers

    def _inputs(self, requests: Sequence[Request]) -> dict[str, torch.Tensor]:
        """The requests as the model's inputs, padded on the left."""
        chats = []
        for request in requests:
            content: str | list[dict] = request.text
            if self.takes_images:
                images = [{"type": "image", "image": open_image(image)} for image in request.images]
                content = [*images, {"type": "text", "text": request.text}]
            chats.append([{"role": "user", "content": content}])
        how = {"add_generation_prompt": True, "tokenize": True, "return_dict": True, "return_tensors": "pt"}
        padding = {"processor_kwargs": {"padding": True}} if self.takes_images else {"padding": True}
        inputs = self.processor.apply_chat_template(chats, **how, **padding)
        return {
            key: value.to(self.device, self.model.dtype if value.is_floating_point() else None)
            for key, value in inputs.items()
        }

    def _decode(self, tokens: Sequence[int]) -> str:
        if not self.unsaid:
            return self.tokenizer.decode(tokens, skip_special_tokens=True)
        return self.tokenizer.decode([token for token in tokens if token not in self.unsaid])


def _reason(error: Exception) -> str:
    """What an error says in its first line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def files_hash(folder: Path) -> str:
    """The sha256 of a model's files: weights, configuration, tokenizer, template."""
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.iterdir() if file.suffix in MODEL_FILES):
        with file.open("rb") as opened:
            digest.update(f"{file.name} {hashlib.file_digest(opened, 'sha256').hexdigest()}".encode())
    return digest.hexdigest()
