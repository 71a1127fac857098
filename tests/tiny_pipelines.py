"""Pipelines of two architectures with tiny random weights, and tokenizers of a few words."""

import diffusers
import transformers

WORDS = ["a", "photo", "of", "bird", "blue", "jay", "with", "yellow", "crown", "red", "breast"]
SIZE = 16


def clip_tokenizer(length=20):
    letters = [chr(code) for code in range(33, 127)]
    tokens = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return transformers.CLIPTokenizer(vocabulary, [], model_max_length=length * 5)


def t5_tokenizer(length=20):
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -5.0)]
    words = [(f"▁{word}", -1.0) for word in WORDS]
    return transformers.T5Tokenizer(vocab=special + words, extra_ids=0, model_max_length=length)


def clip_text(kind=transformers.CLIPTextModel):
    sizes = {"hidden_size": 16, "projection_dim": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    sizes |= {"vocab_size": 200, "num_attention_heads": 2, "max_position_embeddings": 100}
    tokens = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    return kind(transformers.CLIPTextConfig(**sizes, **tokens)).eval()


def t5_text():
    sizes = {"vocab_size": 64, "d_model": 16, "d_kv": 8, "num_heads": 2, "d_ff": 32, "num_layers": 1}
    return transformers.T5EncoderModel(transformers.T5Config(**sizes)).eval()


def vae():
    return diffusers.AutoencoderKL(
        block_out_channels=(8, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=SIZE,
        shift_factor=0.0,
    )


def flux():
    sizes = {"num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2}
    sizes |= {"in_channels": 16, "joint_attention_dim": 16, "pooled_projection_dim": 16}
    transformer = diffusers.FluxTransformer2DModel(guidance_embeds=True, axes_dims_rope=(4, 6, 6), **sizes)
    return diffusers.FluxPipeline(
        diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae(),
        clip_text(),
        clip_tokenizer(),
        t5_text(),
        t5_tokenizer(),
        transformer,
    )


def stable_diffusion_xl():
    unet = diffusers.UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        norm_num_groups=4,
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=2,
        cross_attention_dim=32,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + 16,
        use_linear_projection=True,
    )
    return diffusers.StableDiffusionXLPipeline(
        vae(),
        clip_text(),
        clip_text(transformers.CLIPTextModelWithProjection),
        clip_tokenizer(),
        clip_tokenizer(),
        unet,
        diffusers.EulerDiscreteScheduler(),
    )


PIPELINES = {
    "FluxPipeline": flux,
    "StableDiffusionXLPipeline": stable_diffusion_xl,
}
