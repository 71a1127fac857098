"""Small models of random weights, of the architectures that the papers ask; saved as folders."""

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

SPECIAL = ("<pad> <end> <unk> <system> <user> <bot> <image> <video> <begin> <|image|>").split()
WORDS = [
    "<think>",
    "</think>",
    *"ABCDE",
    *"the a red green blue bird house boat wing tail is not of and what which this".split(),
    *"long short old new one two three".split(),
]
TEMPLATE = (
    "{% for m in messages %}{{ '<bot>' if m.role == 'assistant' else '<' + m.role + '>' }}"
    "{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for c in m.content %}{{ '<image>' if c.type == 'image' else c.text }}{% endfor %}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}"
)
TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}


def number(token):
    return SPECIAL.index(token)


def tokenizer_of(template=None, image="<image>"):
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    raw = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.add_special_tokens(SPECIAL)
    media = {"image_token": image, "video_token": "<video>"}
    special = {"pad_token": "<pad>", "eos_token": "<end>", "unk_token": "<unk>", "bos_token": "<begin>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, extra_special_tokens=media, chat_template=template, **special
    )


def text_sizes(**more):
    sizes = TOWER | {"vocab_size": len(SPECIAL) + len(WORDS), "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "max_position_embeddings": 160, "initializer_range": 0.6}
    sizes |= {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}, "tie_word_embeddings": False}
    return sizes | {"pad_token_id": 0, "bos_token_id": number("<begin>"), "eos_token_id": 1} | more


def llava():
    vision = transformers.CLIPVisionConfig(
        **TOWER, num_attention_heads=2, image_size=24, patch_size=8, initializer_factor=3.0
    )
    config = transformers.LlavaConfig(
        vision_config=vision,
        text_config=transformers.LlamaConfig(**text_sizes()),
        image_token_index=number("<image>"),
        image_seq_length=9,
        vision_feature_layer=-1,
        tie_word_embeddings=False,
    )
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size={"shortest_edge": 24}, crop_size={"height": 24, "width": 24}),
        tokenizer_of(),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )
    model = transformers.LlavaForConditionalGeneration(config)
    model.model.multi_modal_projector.linear_2.weight.data *= 20
    return model, processor


def qwen():
    ids = {f"{kind}_token_id": number(f"<{kind}>") for kind in ("image", "video")}
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}
    vision |= {"patch_size": 8, "spatial_merge_size": 2, "initializer_range": 0.3}
    rotary = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    config = transformers.Qwen2VLConfig(
        text_config=text_sizes(rope_parameters=rotary),
        vision_config=vision,
        **ids,
        vision_start_token_id=number("<system>"),
        vision_end_token_id=number("<bot>"),
        tie_word_embeddings=False,
    )
    sizes = {"patch_size": 8, "merge_size": 2, "size": {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}}
    processor = transformers.Qwen2VLProcessor(
        transformers.Qwen2VLImageProcessor(**sizes),
        tokenizer_of(),
        transformers.Qwen2VLVideoProcessor(**sizes),
        chat_template=TEMPLATE.replace("'<image>'", "'<system><image><bot>'"),
    )
    return transformers.Qwen2VLForConditionalGeneration(config), processor


def llama():
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**text_sizes()))
    return model, tokenizer_of(TEMPLATE)


def llama_vision():
    vision = TOWER | {"attention_heads": 2, "num_global_layers": 1, "vision_output_dim": 64, "image_size": 56}
    vision |= {"patch_size": 14, "max_num_tiles": 4, "intermediate_layers_indices": [0]}
    vision |= {"supported_aspect_ratios": [[1, 1], [1, 2], [2, 1], [2, 2], [1, 3], [3, 1], [1, 4], [4, 1]]}
    text = text_sizes(num_hidden_layers=3, cross_attention_layers=[1])
    config = transformers.MllamaConfig(
        vision_config=vision, text_config=text, image_token_index=number("<|image|>")
    )
    model = transformers.MllamaForConditionalGeneration(config)
    for name, weight in model.named_parameters():
        if name.endswith("_gate"):  # which begin at 0, where an image changes nothing
            weight.data.fill_(1.0)
    images = transformers.MllamaImageProcessor(size={"height": 56, "width": 56}, max_image_tiles=4)
    template = TEMPLATE.replace("<image>", "<|image|>")
    processor = transformers.MllamaProcessor(images, tokenizer_of(image="<|image|>"), chat_template=template)
    return model, processor


def saved(build, folder, seed=0):
    """Random weights, large enough for the answers to depend on all that is read.

    No special token but the end is generated, and that sometimes.
    """
    torch.manual_seed(seed)
    model, processor = build()
    head = model.get_output_embeddings().weight.data
    head[[0, *range(2, len(SPECIAL) + 2)]] = 0
    head[1] *= 1.5
    model.generation_config = transformers.GenerationConfig(eos_token_id=1, pad_token_id=0)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
