"""A GPT-2-like transformer in plain PyTorch, as a Hugging Face configuration of model_type gpt2 describes it.

Its parts are those that foreplan counts for such a configuration (models/rank/), so that what is predicted
and what is run are the same. Under tensor parallelism a rank holds some of the heads and a part of the FFN;
the code takes both from the shapes of the tensors that it meets.
"""

import dataclasses
import json

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass(frozen=True)
class GptConfig:
    hidden: int
    layers: int
    heads: int
    vocabulary: int
    positions: int

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    def hugging_face(self) -> str:
        """config.json of this model."""
        return json.dumps({"model_type": "gpt2", "n_embd": self.hidden, "n_layer": self.layers,
                           "n_head": self.heads, "vocab_size": self.vocabulary,
                           "n_positions": self.positions, "activation_function": "gelu_new",
                           "tie_word_embeddings": False})


def split_heads(qkv: torch.Tensor, head_dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Views [batch, heads, sequence, head_dim] of q, k and v, which lie head by head in the last dimension."""
    batch, sequence, width = qkv.shape
    packed = qkv.view(batch, sequence, width // (3 * head_dim), 3, head_dim)
    q, k, v = packed.permute(3, 0, 2, 1, 4)
    return q, k, v


def attend(qkv: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Causal attention of packed q, k, v; the result is [batch, sequence, heads * head_dim]."""
    q, k, v = split_heads(qkv, head_dim)
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return context.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, config: GptConfig):
        super().__init__()
        self.head_dim = config.head_dim
        self.attention_norm = nn.LayerNorm(config.hidden)
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden)
        self.attention_output = nn.Linear(config.hidden, config.hidden)
        self.ffn_norm = nn.LayerNorm(config.hidden)
        self.fc1 = nn.Linear(config.hidden, 4 * config.hidden)
        self.fc2 = nn.Linear(4 * config.hidden, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        context = attend(self.qkv(self.attention_norm(x)), self.head_dim)
        x = x + self.attention_output(context)
        return x + self.fc2(F.gelu(self.fc1(self.ffn_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Returns logits [batch, sequence, vocabulary]."""

    def __init__(self, config: GptConfig):
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        self.positions = nn.Embedding(config.positions, config.hidden)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = nn.LayerNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x))


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
