"""The papers' vision-language architectures beside LLaVA and Qwen2-VL, small and of random weights.

Those two are in test_ask_local_model.py.
"""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from xaihelpers import ask

SPECIAL = "<pad> <end> <unk> <user> <bot> <begin> <|image|> <IMG_CONTEXT> <img> </img> <video>".split()
WORDS = [*"ABCDE", *"which bird is this a red blue wing".split()]
TEMPLATE = (
    "{% for m in messages %}<user>{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for c in m.content %}{{ 'IMAGE' if c.type == 'image' else c.text }}{% endfor %}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}"
)
SIZE = {"height": 56, "width": 56}
TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}


def tokenizer(image):
    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*SPECIAL, *WORDS])}, "<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.add_special_tokens(SPECIAL)
    media = {"image_token": image, "video_token": "<video>", "context_image_token": "<IMG_CONTEXT>"}
    media |= {"start_image_token": "<img>", "end_image_token": "</img>"}
    special = {"bos_token": "<begin>", "pad_token": "<pad>", "eos_token": "<end>", "unk_token": "<unk>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, extra_special_tokens=media, **special)


def text_sizes(**more):
    sizes = TOWER | {"vocab_size": len(SPECIAL) + len(WORDS), "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "max_position_embeddings": 4096, "initializer_range": 0.6}
    sizes |= {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}, "tie_word_embeddings": False}
    return sizes | {"pad_token_id": 0, "bos_token_id": SPECIAL.index("<begin>"), "eos_token_id": 1} | more


def llama_vision():
    vision = TOWER | {"attention_heads": 2, "num_global_layers": 1, "vision_output_dim": 64, "image_size": 56}
    vision |= {"patch_size": 14, "max_num_tiles": 4, "intermediate_layers_indices": [0]}
    vision |= {"supported_aspect_ratios": [[1, 1], [1, 2], [2, 1], [2, 2], [1, 3], [3, 1], [1, 4], [4, 1]]}
    text = text_sizes(num_hidden_layers=3, cross_attention_layers=[1])
    config = transformers.MllamaConfig(
        vision_config=vision, text_config=text, image_token_index=SPECIAL.index("<|image|>")
    )
    model = transformers.MllamaForConditionalGeneration(config)
    for name, weight in model.named_parameters():
        if name.endswith("_gate"):  # which begin at 0, where an image changes nothing
            weight.data.fill_(1.0)
    images = transformers.MllamaImageProcessor(size=SIZE, max_image_tiles=4)
    template = TEMPLATE.replace("IMAGE", "<|image|>")
    return model, transformers.MllamaProcessor(images, tokenizer("<|image|>"), chat_template=template)


def internvl():
    config = transformers.InternVLConfig(
        vision_config=TOWER | {"num_attention_heads": 2, "image_size": [56, 56], "patch_size": [14, 14]},
        text_config=transformers.Qwen2Config(**text_sizes()),
        image_token_id=SPECIAL.index("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
        tie_word_embeddings=False,
    )
    processor = transformers.InternVLProcessor(
        transformers.GotOcr2ImageProcessor(size=SIZE, crop_to_patches=True, max_patches=2),
        tokenizer("<IMG_CONTEXT>"),
        transformers.InternVLVideoProcessor(size=SIZE),
        image_seq_length=4,
        chat_template=TEMPLATE.replace("IMAGE", "<IMG_CONTEXT>"),
    )
    return transformers.InternVLForConditionalGeneration(config), processor


@pytest.mark.parametrize("build", [llama_vision, internvl])
def test_a_model_of_this_family_sees_its_picture_alone_and_in_a_batch(build, tmp_path):
    torch.manual_seed(1)
    for part in build():
        part.save_pretrained(tmp_path)
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 256, (90, 70, 3), dtype=np.uint8)) for _ in range(2)]
    asked = [ask.request("which bird is this", picture, "ABCDE", max_tokens=6) for picture in pictures]
    asked.append(ask.request("which bird is this", (), "AB", max_tokens=6))
    answers = dict(ask.load_vlm(str(tmp_path), batch_size=2).answer(asked, 0, 0.0))
    first, second, blind = (answers[i] for i in range(3))
    assert not any(answer.error for answer in answers.values())
    assert first.probabilities != second.probabilities and set(blind.probabilities) == {"A", "B"}
    (alone,) = dict(ask.load_vlm(str(tmp_path), batch_size=1).answer(asked[:1], 0, 0.0)).values()
    assert alone.probabilities == pytest.approx(first.probabilities, abs=1e-4)
