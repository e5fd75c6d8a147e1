#!/usr/bin/env python3
"""Counts diffusion transformers with PyTorch and `diffusers`, as an oracle for models/.

Writes tests/data/diffusion_counts/parameters.csv (every diffusion transformer of the catalogue,
whole, on the meta device), counts.csv (FLOPs of one forward and one backward by PyTorch's own
counter, and the bytes that autograd saves, of the same models cut to a few blocks at the media that
they were published for), one JSON per model of the latter (its configuration, cut), and variants.csv
with variants/ (parameters of small odd configurations of every class).

    python scripts/make_diffusion_counts.py

Needs torch and diffusers; runs on the meta device, without memory or arithmetic, in minutes.

What differs from the class in `diffusers`:
- DiT: the class keeps time and class embedders in every block; they are one, as published.
- The fused attention of a GPU is stood in for by PyTorch's operation for it, whose FLOP formula is
  PyTorch's; five products in backward.
- Masks of padded text are left out: every text token is computed.
- HunyuanVideo's and Cosmos' rotary embedding multiplies tables by `einsum` or elementwise, which
  the counter does not count; nothing else is left out.
"""

import argparse
import csv
import json
import pathlib
import types

import diffusers
import diffusers.models.transformers.transformer_cosmos as cosmos
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

ROOT = pathlib.Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "models" / "catalogue"
BATCH = 2

# Cosmos resizes a mask of padded pixels with torchvision; only its shape matters here.
cosmos.transforms = types.SimpleNamespace(
    functional=types.SimpleNamespace(
        resize=lambda mask, size, **_: mask.new_empty(*mask.shape[:-2], *size)),
    InterpolationMode=types.SimpleNamespace(NEAREST=None))

# What a file without `_vae`, `_media`, `_text_tokens` means: the defaults of models/hf/diffusion_*.
VAE_TEMPORAL = {"HunyuanVideoTransformer3DModel": 4, "WanTransformer3DModel": 4,
                "CogVideoXTransformer3DModel": 4, "CosmosTransformer3DModel": 4}
MEDIA = {"FluxTransformer2DModel": "1024x1024x1", "HunyuanVideoTransformer3DModel": "1280x720x129",
         "CogVideoXTransformer3DModel": "720x480x49"}
TEXT = {"SD3Transformer2DModel": 333, "HunyuanVideoTransformer3DModel": 256,
        "WanTransformer3DModel": 512, "CogVideoXTransformer3DModel": 226,
        "CosmosTransformer3DModel": 512}

# Models that are counted, with the number of blocks that are kept of each kind.
CUT = {"dit-xl-2": 2, "pixart-alpha": 2, "pixart-sigma": 2, "sd3-medium": 3, "sd3.5-large": 3,
       "flux.1-dev": 2, "hunyuanvideo": 2, "wan2.1-1.3b": 2, "wan2.1-14b": 2, "cogvideox-2b": 2,
       "cogvideox-5b": 2, "cosmos-predict1-7b": 2, "cosmos-predict2-14b": 2}


# Small odd configurations: keys left out or null, biases and norms the other way round.
SMALL = dict(num_attention_heads=2, attention_head_dim=24)
VARIANTS = {
    "dit_plain": dict(_class_name="DiTTransformer2DModel", **SMALL, num_layers=3,
                      attention_bias=False, num_embeds_ada_norm=10),
    "dit_defaults": dict(_class_name="DiTTransformer2DModel"),
    "pixart_no_caption": dict(_class_name="PixArtTransformer2DModel", **SMALL, num_layers=2,
                              sample_size=32, attention_bias=False),
    "pixart_defaults": dict(_class_name="PixArtTransformer2DModel"),
    "sd3_qk_norm": dict(_class_name="SD3Transformer2DModel", **SMALL, num_layers=4,
                        caption_projection_dim=48, qk_norm="rms_norm", out_channels=None),
    "sd3_one_block": dict(_class_name="SD3Transformer2DModel", **SMALL, num_layers=1,
                          caption_projection_dim=48, patch_size=4),
    "flux_defaults": dict(_class_name="FluxTransformer2DModel"),
    "flux_out_channels": dict(_class_name="FluxTransformer2DModel", num_attention_heads=2,
                              num_layers=1, num_single_layers=1, out_channels=32,
                              guidance_embeds=True),
    "hunyuan_video_plain": dict(_class_name="HunyuanVideoTransformer3DModel",
                                num_attention_heads=2, num_layers=1, num_single_layers=2,
                                num_refiner_layers=1, mlp_ratio=2.5, guidance_embeds=False),
    "wan_no_cross_norm": dict(_class_name="WanTransformer3DModel", num_attention_heads=2,
                              num_layers=2, ffn_dim=100, cross_attn_norm=False, text_dim=64),
    "wan_defaults": dict(_class_name="WanTransformer3DModel"),
    "cogvideox_plain": dict(_class_name="CogVideoXTransformer3DModel", **SMALL, num_layers=2,
                            norm_elementwise_affine=False, attention_bias=False,
                            patch_bias=False),
    "cogvideox_15": dict(_class_name="CogVideoXTransformer3DModel", **SMALL, num_layers=2,
                         patch_size_t=2, patch_bias=False, use_rotary_positional_embeddings=True),
    "cosmos_projected_text": dict(_class_name="CosmosTransformer3DModel", num_attention_heads=2,
                                  num_layers=2, use_crossattn_projection=True,
                                  concat_padding_mask=False, extra_pos_embed_type=None,
                                  crossattn_proj_in_channels=96,
                                  encoder_hidden_states_channels=1024),
    "cosmos_defaults": dict(_class_name="CosmosTransformer3DModel"),
}


class Shared(torch.nn.Module):
    """One embedder in several blocks, run once per forward."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.result = None

    def forward(self, *args, **kwargs):
        if self.result is None:
            self.result = self.inner(*args, **kwargs)
        return self.result


def build(config):
    """The model on the meta device, and its published inputs."""
    cls = getattr(diffusers, config["_class_name"])
    arguments = {k: v for k, v in config.items() if not k.startswith("_")}
    with torch.device("meta"):
        model = cls.from_config(arguments)
    if config["_class_name"] == "DiTTransformer2DModel":
        shared = Shared(model.transformer_blocks[0].norm1.emb)
        for block in model.transformer_blocks:
            block.norm1.emb = shared
    return model.train()


def sizes(config):
    name = config["_class_name"]
    spatial, temporal = (int(n) for n in
                         config.get("_vae", f"8x{VAE_TEMPORAL.get(name, 1)}").split("x"))
    side = 8 * config.get("sample_size", 128)
    media = config.get("_media", MEDIA.get(name, f"{side}x{side}x1"))
    width, height, frames = (int(n) for n in media.split("x"))
    return {"width": width // spatial, "height": height // spatial,
            "frames": (frames - 1) // temporal + 1, "media": media,
            "text": config.get("_text_tokens", TEXT.get(name, 0))}


def inputs(config, dtype):
    """What the class's forward takes, with the gradients that training needs: none."""
    s, name, b = sizes(config), config["_class_name"], BATCH
    make = lambda *shape: torch.empty(*shape, dtype=dtype, device="meta")
    steps = torch.empty(b, dtype=torch.long, device="meta")
    picture = lambda channels: make(b, channels, s["height"], s["width"])
    video = lambda channels: make(b, channels, s["frames"], s["height"], s["width"])
    if name == "DiTTransformer2DModel":
        return dict(hidden_states=picture(config["in_channels"]), timestep=steps,
                    class_labels=torch.empty(b, dtype=torch.long, device="meta"))
    if name == "PixArtTransformer2DModel":
        return dict(hidden_states=picture(config["in_channels"]), timestep=steps,
                    encoder_hidden_states=make(b, s["text"], config["caption_channels"]),
                    added_cond_kwargs={"resolution": make(b, 2), "aspect_ratio": make(b, 1)}
                    if config["use_additional_conditions"]
                    else {"resolution": None, "aspect_ratio": None})
    if name == "SD3Transformer2DModel":
        return dict(hidden_states=picture(config["in_channels"]), timestep=steps,
                    encoder_hidden_states=make(b, s["text"], config["joint_attention_dim"]),
                    pooled_projections=make(b, config["pooled_projection_dim"]))
    if name == "FluxTransformer2DModel":
        tokens = s["height"] * s["width"] // 4
        return dict(hidden_states=make(b, tokens, config["in_channels"]), timestep=make(b),
                    guidance=make(b) if config["guidance_embeds"] else None,
                    encoder_hidden_states=make(b, s["text"], config["joint_attention_dim"]),
                    pooled_projections=make(b, config["pooled_projection_dim"]),
                    img_ids=make(tokens, 3), txt_ids=make(s["text"], 3))
    if name == "HunyuanVideoTransformer3DModel":
        return dict(hidden_states=video(config["in_channels"]), timestep=steps,
                    encoder_hidden_states=make(b, s["text"], config["text_embed_dim"]),
                    encoder_attention_mask=torch.ones(b, s["text"], dtype=torch.bool,
                                                      device="meta"),
                    pooled_projections=make(b, config["pooled_projection_dim"]), guidance=make(b))
    if name == "WanTransformer3DModel":
        return dict(hidden_states=video(config["in_channels"]), timestep=steps,
                    encoder_hidden_states=make(b, s["text"], config["text_dim"]))
    if name == "CogVideoXTransformer3DModel":
        tokens = s["frames"] * s["height"] * s["width"] // 4
        table = lambda: torch.empty(tokens, config["attention_head_dim"], device="meta")
        return dict(hidden_states=make(b, s["frames"], config["in_channels"], s["height"],
                                       s["width"]), timestep=steps,
                    encoder_hidden_states=make(b, s["text"], config["text_embed_dim"]),
                    image_rotary_emb=(table(), table())
                    if config["use_rotary_positional_embeddings"] else None)
    if name == "CosmosTransformer3DModel":
        return dict(hidden_states=video(config["in_channels"]), timestep=steps,
                    encoder_hidden_states=make(b, s["text"], config["text_embed_dim"]),
                    padding_mask=make(1, 1, s["height"] * 8, s["width"] * 8))
    raise ValueError(name)


class FlashAttention(torch.autograd.Function):
    """The fused attention of a GPU: keeps q, k, v, its output and one fp32 statistic a query."""

    @staticmethod
    def forward(ctx, q, k, v):
        out = torch.empty_like(q)
        statistics = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
        ctx.save_for_backward(q, k, v, out, statistics)
        FlashAttention.flops["forward"] += sdpa_flop_count(q.shape, k.shape, v.shape)
        return out

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, _, _ = ctx.saved_tensors
        FlashAttention.flops["backward"] += sdpa_backward_flop_count(
            gradient.shape, q.shape, k.shape, v.shape)
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def flash(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
          enable_gqa=False):
    assert not is_causal and dropout_p == 0.0
    return FlashAttention.apply(query, key, value)


class SavedBytes:
    """Bytes of the distinct storages that autograd keeps, parameters aside."""

    def __init__(self, model):
        self.known = {p.untyped_storage()._cdata for p in model.parameters()}
        self.kept = {}
        self.alive = []

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self.known and storage._cdata not in self.kept:
            self.kept[storage._cdata] = storage.nbytes()
            self.alive.append(tensor)  # keeps the storage's identity
        return tensor

    def total(self):
        return sum(self.kept.values())


def prediction(output):
    return output.sample if hasattr(output, "sample") else output[0]


def count(config):
    torch.nn.functional.scaled_dot_product_attention = flash
    FlashAttention.flops = {"forward": 0, "backward": 0}
    dtype = torch.bfloat16
    model = build(config).to(dtype)
    saved = SavedBytes(model)
    arguments = inputs(config, dtype)
    with FlopCounterMode(display=False) as forward:
        with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda t: t):
            out = prediction(model(**arguments, return_dict=True))
            kept = saved.total()
            loss = out.float().sum()
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    return {"forward_flop": forward.get_total_flops() + FlashAttention.flops["forward"],
            "backward_flop": backward.get_total_flops() + FlashAttention.flops["backward"],
            "saved_bytes": kept}


def parameters(config):
    model = build(config)
    return sum(p.numel() for p in model.parameters())


def cut(config, blocks):
    config = dict(config)
    for key in ("num_layers", "num_single_layers"):
        if key in config:
            config[key] = min(blocks, config[key])
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path,
                        default=ROOT / "tests" / "data" / "diffusion_counts")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    configs = {file.stem: json.loads(file.read_text()) for file in sorted(CATALOGUE.glob("*.json"))}
    configs = {name: c for name, c in configs.items() if "_class_name" in c}
    versions = [torch.__version__.split("+")[0], diffusers.__version__]
    with open(out / "parameters.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "parameters", "torch", "diffusers"])
        for name, config in configs.items():
            writer.writerow([name, parameters(config), *versions])
    (out / "variants").mkdir(exist_ok=True)
    with open(out / "variants.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["variant", "parameters", "torch", "diffusers"])
        for name, config in VARIANTS.items():
            text = json.dumps(config, indent=2) + "\n"
            (out / "variants" / f"{name}.json").write_text(text)
            writer.writerow([name, parameters(config), *versions])
    with open(out / "counts.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "micro_batch", "media", "forward_flop", "backward_flop",
                         "saved_bytes", "torch", "diffusers"])
        for name, blocks in CUT.items():
            config = cut(configs[name], blocks)
            (out / f"{name}.json").write_text(json.dumps(config, indent=2) + "\n")
            n = count(config)
            writer.writerow([name, BATCH, sizes(config)["media"], n["forward_flop"],
                             n["backward_flop"], n["saved_bytes"], *versions])


if __name__ == "__main__":
    main()
