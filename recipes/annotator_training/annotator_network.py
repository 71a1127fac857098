"""The networks of the annotator: an image tower of 8 x 8 patches, a tokenizer, and FastVLM around both."""

from collections.abc import Iterable
from pathlib import Path

import torch
from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE
from transformers import (
    AutoModel,
    AutoModelForImageTextToText,
    AutoProcessor,
    CLIPImageProcessor,
    FastVlmConfig,
    FastVlmForConditionalGeneration,
    GenerationConfig,
    LlamaConfig,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    TimmWrapperConfig,
)

from recipes.annotator_training.lesson_pictures import N_PATCHES, PATCH, SIZE
from xaihelpers import models

# the shipped backbone's own architecture, at twice the resolution in its last stage
LAYOUT = {
    "stem_type": "deep",
    "stem_width": 16,
    "avg_down": True,
    "channels": [32, 64, 128, 256],
    "output_stride": PATCH,
}
SPECIAL = ["<pad>", "<end>", "<system>", "<user>", "<bot>", "<image>"]
TEMPLATE = (
    "{%- for m in messages -%}"
    "{{ '<bot>' if m['role'] == 'assistant' else '<' + m['role'] + '>' }}"
    "{%- if m['content'] is string -%}{{ m['content'] }}{%- else -%}"
    "{%- for c in m['content'] -%}"
    "{%- if c['type'] in ['image', 'image_url'] -%}{{ '<image>' }}"
    "{%- elif c['type'] == 'text' -%}{{ c['text'] }}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{%- if m['role'] == 'assistant' -%}{{ '<end>' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<bot>' }}{%- endif -%}"
)


def new_tower(device: torch.device) -> torch.nn.Module:
    """A ResNet-18 that gives 8 x 8 patches, begun as the shipped backbone."""
    config = TimmWrapperConfig(architecture="resnet18", do_pooling=False, hidden_size=256, model_args=LAYOUT)
    tower = AutoModel.from_config(config)
    backbone = models.load_backbone("aviary_resnet").model.state_dict()
    left = tower.timm_model.load_state_dict(backbone, strict=False)
    assert not left.missing_keys  # only the backbone's head is left over
    return tower.to(device, memory_format=torch.channels_last)


def learnt_tokenizer(texts: Iterable[str], entries: int = 2000) -> PreTrainedTokenizerFast:
    """A byte-pair encoding of at most `entries`, learnt from `texts`; any other text falls into bytes."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    encoding = Tokenizer(BPE())
    encoding.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    encoding.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=entries,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    encoding.train_from_iterator(texts, trainer=trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=encoding,
        pad_token="<pad>",
        eos_token="<end>",
        extra_special_tokens={"image_token": "<image>"},
        additional_special_tokens=["<system>", "<user>", "<bot>"],
        padding_side="left",
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.add_tokens(["<think>", "</think>"])
    return tokenizer


def new_annotator(
    tower: torch.nn.Module, tokenizer: PreTrainedTokenizerFast, device: torch.device
) -> tuple[FastVlmForConditionalGeneration, LlavaProcessor]:
    """FastVLM with a copy of a tower, frozen, and a Llama of four layers of 192 with random weights.

    Returns the model and its processor, which prepares pictures and texts for it.
    """
    id_of = tokenizer.convert_tokens_to_ids
    end_tokens = {
        "pad_token_id": id_of("<pad>"),
        "bos_token_id": None,
        "eos_token_id": id_of("<end>"),
    }
    text_config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        **end_tokens,
    )
    config = FastVlmConfig(
        vision_config=tower.config,
        text_config=text_config,
        image_token_index=id_of("<image>"),
        image_seq_length=N_PATCHES,
        tie_word_embeddings=True,
        **end_tokens,
    )
    model = FastVlmForConditionalGeneration(config).to(device)
    model.model.vision_tower.load_state_dict(tower.state_dict())
    model.model.vision_tower.requires_grad_(False)
    model.generation_config = GenerationConfig(do_sample=False, **end_tokens)
    image_processor = CLIPImageProcessor(
        size={"shortest_edge": SIZE},
        crop_size={"height": SIZE, "width": SIZE},
        image_mean=IMAGENET_DEFAULT_MEAN,
        image_std=IMAGENET_DEFAULT_STD,
    )
    processor = LlavaProcessor(
        image_processor=image_processor,
        tokenizer=tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="full",
        image_token="<image>",
        chat_template=TEMPLATE,
    )
    return model, processor


def saved_annotator(folder: str | Path, device: torch.device) -> tuple[torch.nn.Module, LlavaProcessor]:
    """A saved model in float32 and in evaluation mode, and its processor.

    Raises OSError: no such folder, or files missing in it.
    """
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    return model.to(device).eval(), AutoProcessor.from_pretrained(folder)
