"""A diffusion transformer with adaLN-zero blocks (DiT, Peebles and Xie 2022) in plain PyTorch, eager.

Its parts are those that foreplan counts for `diffusers`' DiTTransformer2DModel, which `hugging_face`
writes. Samples are latent pictures, already cut into patches.
"""

import dataclasses
import json

import torch
from torch import nn
from torch.nn import functional as F

TIME_FEATURES = 256
PATCH, CHANNELS_IN, CHANNELS_OUT = 2, 4, 8
PIXELS_OF_A_LATENT = 8
CLASSES = 1000


@dataclasses.dataclass(frozen=True)
class DitConfig:
    layers: int
    heads: int
    head_dim: int
    side: int  # pixels of a square picture

    @property
    def hidden(self) -> int:
        return self.heads * self.head_dim

    @property
    def tokens(self) -> int:
        return (self.side // PIXELS_OF_A_LATENT // PATCH) ** 2

    def hugging_face(self) -> str:
        """config.json of the transformer."""
        return json.dumps({"_class_name": "DiTTransformer2DModel", "sample_size": self.side // PIXELS_OF_A_LATENT,
                           "num_attention_heads": self.heads, "attention_head_dim": self.head_dim,
                           "in_channels": CHANNELS_IN, "out_channels": CHANNELS_OUT,
                           "num_layers": self.layers, "patch_size": PATCH, "num_embeds_ada_norm": CLASSES,
                           "norm_type": "ada_norm_zero", "attention_bias": True,
                           "activation_fn": "gelu-approximate"})


def modulate(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * (1 + scale[:, None]) + shift[:, None]


class Attention(nn.Module):
    def __init__(self, config: DitConfig):
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden)
        self.output = nn.Linear(config.hidden, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v)
        return self.output(context.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, config: DitConfig):
        super().__init__()
        hidden = config.hidden
        self.modulation = nn.Linear(hidden, 6 * hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=1e-6, elementwise_affine=False)
        self.attention = Attention(config)
        self.ffn_norm = nn.LayerNorm(hidden, eps=1e-6, elementwise_affine=False)
        self.fc1 = nn.Linear(hidden, 4 * hidden)
        self.fc2 = nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        vectors = self.modulation(F.silu(condition)).chunk(6, -1)
        shift, scale, gate = vectors[:3]
        x = x + gate[:, None] * self.attention(modulate(self.attention_norm(x), shift, scale))
        shift, scale, gate = vectors[3:]
        inner = F.gelu(self.fc1(modulate(self.ffn_norm(x), shift, scale)), approximate="tanh")
        return x + gate[:, None] * self.fc2(inner)


class Dit(nn.Module):
    """Returns the squared error of what it predicts for every patch."""

    def __init__(self, config: DitConfig):
        super().__init__()
        hidden = config.hidden
        self.patches = nn.Linear(PATCH * PATCH * CHANNELS_IN, hidden)
        self.time_in, self.time_out = nn.Linear(TIME_FEATURES, hidden), nn.Linear(hidden, hidden)
        self.classes = nn.Embedding(CLASSES + 1, hidden)  # one more: none, for guidance
        self.register_buffer("positions", torch.randn(config.tokens, hidden), persistent=False)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_modulation = nn.Linear(hidden, 2 * hidden)
        self.final_norm = nn.LayerNorm(hidden, eps=1e-6, elementwise_affine=False)
        self.output = nn.Linear(hidden, PATCH * PATCH * CHANNELS_OUT)

    def forward(self, patches: torch.Tensor, times: torch.Tensor, classes: torch.Tensor,
                target: torch.Tensor) -> torch.Tensor:
        condition = self.time_out(F.silu(self.time_in(times))) + self.classes(classes)
        x = self.patches(patches) + self.positions
        for block in self.layers:
            x = block(x, condition)
        shift, scale = self.final_modulation(F.silu(condition)).chunk(2, -1)
        return F.mse_loss(self.output(modulate(self.final_norm(x), shift, scale)), target)


def dit_batch(config: DitConfig, batch: int, device: torch.device, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Random patches, features of the noise level, classes and what is to be predicted."""
    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, dtype=dtype)

    return (random(batch, config.tokens, PATCH * PATCH * CHANNELS_IN), random(batch, TIME_FEATURES),
            torch.randint(0, CLASSES, (batch,), device=device),
            random(batch, config.tokens, PATCH * PATCH * CHANNELS_OUT))
