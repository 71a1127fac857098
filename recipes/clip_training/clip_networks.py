"""The networks of the shipped CLIPs: open_clip's own classes with small sizes, and their tokenizer."""

import json
from collections.abc import Iterable

import torch
from open_clip.model import CustomTextCLIP
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from xaihelpers.paths import models_home

# sizes and preprocessing: those of the shipped file
SHIPPED = json.loads((models_home() / "aviary_clip/open_clip_config.json").read_text())
PREPROCESS, MODEL = SHIPPED["preprocess_cfg"], SHIPPED["model_cfg"]
CONTEXT = MODEL["text_cfg"]["context_length"]  # tokens of the plain form
WIDTH = MODEL["embed_dim"]


def untrained_tokenizer() -> Tokenizer:
    """CLIP's way of cutting a text into words and bytes, still without entries; digits stand alone."""
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    blanks = normalizers.Replace(Regex(r"\s+"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), blanks, normalizers.Lowercase()])
    word = Regex(r"\p{L}+|\p{N}|[^\s\p{L}\p{N}]+")
    words = pre_tokenizers.Split(word, behavior="removed", invert=True)
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
    return tokenizer


def learnt_clip_tokenizer(texts: Iterable[str], entries: int = 1400) -> PreTrainedTokenizerFast:
    """CLIP's byte-pair encoding over texts; the end token has the highest id, as in open_clip."""
    # Each byte, and each byte that ends a word, is an entry from the start: nothing is unknown, and
    # pairs that occur equally often are joined in a fixed order.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=entries,
        special_tokens=["<pad>", *alphabet, *(f"{byte}</w>" for byte in alphabet)],
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    learner = untrained_tokenizer()
    learner.train_from_iterator(texts, trainer)
    learnt = json.loads(learner.to_str())["model"]
    merges = [tuple(pair) for pair in learnt["merges"]]
    tokenizer = untrained_tokenizer()
    tokenizer.model = models.BPE(learnt["vocab"], merges, end_of_word_suffix="</w>")
    tokenizer.add_special_tokens(["<pad>", "<start>", "<end>"])
    ends = [(token, tokenizer.token_to_id(token)) for token in ("<start>", "<end>")]
    processor = processors.TemplateProcessing(single="<start> $A <end>", special_tokens=ends)
    tokenizer.post_processor = processor
    special = {"bos_token": "<start>", "eos_token": "<end>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def tokens(tokenizer: PreTrainedTokenizerFast, texts: list[str], limit: int) -> list[list[int]]:
    """Token ids of texts, a list each, truncated to `limit` with the end token kept."""
    rows = tokenizer(texts, verbose=False)["input_ids"]
    return [row if len(row) <= limit else [*row[: limit - 1], row[-1]] for row in rows]


def clip_config(n_entries: int, context: int = CONTEXT) -> dict:
    """The configuration of the model, as open_clip's files hold it."""
    return MODEL | {"text_cfg": MODEL["text_cfg"] | {"context_length": context, "vocab_size": n_entries}}


def new_clip(n_entries: int, device: torch.device) -> CustomTextCLIP:
    """A vision transformer of five layers and a text transformer of three, with random weights."""
    config = clip_config(n_entries)
    return CustomTextCLIP(config["embed_dim"], config["vision_cfg"], config["text_cfg"]).to(device)
