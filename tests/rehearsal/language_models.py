"""Vision-language models of the papers' architectures, small and random, as save_pretrained writes them."""

from pathlib import Path
from string import ascii_uppercase

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<pad>", "<end>", "<unk>", "<system>", "<user>", "<bot>", "<image>", "<video>"]
SPECIAL += ["<begin>", "<|image|>", "<IMG_CONTEXT>", "<img>", "</img>"]
WORDS = [*ascii_uppercase, *"0123456789", *'{}[]":,.']
WORDS += "a the this is bird with of and in has red blue green yellow white black grey wing tail".split()
WORDS += "bill crown breast background superclass sky tree water small large round pointed".split()
TEMPLATE = (
    "{% for m in messages %}{{ '<bot>' if m.role == 'assistant' else '<' + m.role + '>' }}"
    "{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for c in m.content %}{{ 'IMAGE' if c.type == 'image' else c.text }}{% endfor %}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}"
)
LENGTH = 4096  # of prompt and answer


def _template(image: str) -> str:
    return TEMPLATE.replace("IMAGE", image)


def tokenizer(image: str = "<image>", template: str | None = None) -> PreTrainedTokenizerFast:
    """A tokenizer of a few words; all others are one token."""
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    raw = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    raw.add_special_tokens(SPECIAL)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        bos_token="<begin>",
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="<unk>",
        extra_special_tokens={
            "image_token": image,
            "video_token": "<video>",
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
        },
        chat_template=template,
    )


def sentence_tokenizer() -> transformers.T5Tokenizer:
    """Pieces of sentences, as T5 and SigLIP take them."""
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -5.0)]
    letters = [(letter, -4.0) for letter in "abcdefghijklmnopqrstuvwxyz"]
    words = [(f"▁{word}", -1.0) for word in WORDS if len(word) > 1]
    return transformers.T5Tokenizer(vocab=special + letters + words, extra_ids=0, model_max_length=300)


def _text(**more) -> dict:
    return {
        "vocab_size": len(SPECIAL) + len(WORDS),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": LENGTH,
        "initializer_range": 0.6,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 1,
        **more,
    }


def _save(model, processor, folder: Path) -> None:
    """No special token but the end is said, and that often: answers are short."""
    with torch.no_grad():
        head = model.get_output_embeddings().weight
        head[[0, *range(2, len(SPECIAL))]] = 0
        head[1] *= 2
    model.generation_config = transformers.GenerationConfig(eos_token_id=1, pad_token_id=0)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def write_qwen2_vl(folder: Path) -> None:
    torch.manual_seed(0)
    ids = {f"{kind}_token_id": SPECIAL.index(f"<{kind}>") for kind in ("image", "video")}
    ids |= {"vision_start_token_id": SPECIAL.index("<img>"), "vision_end_token_id": SPECIAL.index("</img>")}
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}
    vision |= {"patch_size": 14, "spatial_merge_size": 2}
    rotary = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    config = transformers.Qwen2VLConfig(
        text_config=_text(rope_parameters=rotary), vision_config=vision, tie_word_embeddings=False, **ids
    )
    sizes = {"patch_size": 14, "merge_size": 2, "size": {"shortest_edge": 56**2, "longest_edge": 112**2}}
    processor = transformers.Qwen2VLProcessor(
        transformers.Qwen2VLImageProcessor(**sizes),
        tokenizer(),
        transformers.Qwen2VLVideoProcessor(**sizes),
        chat_template=_template("<img><image></img>"),
    )
    _save(transformers.Qwen2VLForConditionalGeneration(config), processor, folder)


def write_llama_vision(folder: Path) -> None:
    torch.manual_seed(1)
    vision = {
        "hidden_size": 32,
        "attention_heads": 2,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_global_layers": 1,
        "vision_output_dim": 64,
        "image_size": 56,
        "patch_size": 14,
        "max_num_tiles": 4,
        "intermediate_layers_indices": [0],
        "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1], [2, 2], [1, 3], [3, 1], [1, 4], [4, 1]],
    }
    rotary = {"rope_type": "default", "rope_theta": 1e4}
    text = _text(
        num_hidden_layers=3,
        cross_attention_layers=[1],
        rope_parameters=rotary,
        bos_token_id=SPECIAL.index("<begin>"),
    )
    config = transformers.MllamaConfig(
        vision_config=vision, text_config=text, image_token_index=SPECIAL.index("<|image|>")
    )
    images = transformers.MllamaImageProcessor(size={"height": 56, "width": 56}, max_image_tiles=4)
    words = tokenizer("<|image|>")
    processor = transformers.MllamaProcessor(images, words, chat_template=_template("<|image|>"))
    model = transformers.MllamaForConditionalGeneration(config)
    for name, weight in model.named_parameters():
        if name.endswith("_gate"):  # which begin at 0, where an image changes nothing
            weight.data.fill_(1.0)
    _save(model, processor, folder)


def write_internvl(folder: Path) -> None:
    torch.manual_seed(2)
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision |= {"image_size": [56, 56], "patch_size": [14, 14]}
    rotary = {"rope_type": "default", "rope_theta": 1e4}
    config = transformers.InternVLConfig(
        vision_config=vision,
        text_config=transformers.Qwen2Config(**_text(rope_parameters=rotary)),
        image_token_id=SPECIAL.index("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
        tie_word_embeddings=False,
    )
    images = transformers.GotOcr2ImageProcessor(
        size={"height": 56, "width": 56}, crop_to_patches=True, max_patches=2
    )
    processor = transformers.InternVLProcessor(
        images,
        tokenizer("<IMG_CONTEXT>"),
        transformers.InternVLVideoProcessor(size={"height": 56, "width": 56}),
        image_seq_length=4,
        chat_template=_template("<IMG_CONTEXT>"),
    )
    _save(transformers.InternVLForConditionalGeneration(config), processor, folder)


def write_llava(folder: Path) -> None:
    torch.manual_seed(3)
    vision = transformers.CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=56,
        patch_size=14,
    )
    config = transformers.LlavaConfig(
        vision_config=vision,
        text_config=transformers.LlamaConfig(**_text()),
        image_token_index=SPECIAL.index("<image>"),
        image_seq_length=16,
        vision_feature_layer=-1,
        tie_word_embeddings=False,
    )
    images = transformers.CLIPImageProcessor(
        size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56}
    )
    processor = transformers.LlavaProcessor(
        images,
        tokenizer(),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_template("<image>"),
    )
    _save(transformers.LlavaForConditionalGeneration(config), processor, folder)
